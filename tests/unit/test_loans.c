/* Tests that lent memory is freed when all borrowers have returned it, and not before; threads play
 * ranks. */
#include "check.h"

#include "push.h"
#include "status.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { RANKS = 5, ROUNDS = 50, LENDER = 2 };

static struct {
    struct loan_board *board;
    _Atomic int alarm, waits; /* waits: looks at the alarm, so somebody waits */
    _Atomic int taken, ended; /* of the round under way */
    _Atomic int early;        /* ends that a holder saw */
    uint32_t number;
} scene;

static int alarmed(void *self)
{
    (void)self;
    atomic_fetch_add(&scene.waits, 1);
    return atomic_load(&scene.alarm);
}

static const struct watch watch = { alarmed, NULL, 20000000000, true }; /* longer than any wait */

static struct loans loans_of(int rank)
{
    return (struct loans){ .board = scene.board, .rank = rank, .watch = &watch };
}

static void scene_open(void)
{
    scene.board = calloc(1, loan_board_bytes(RANKS));
    scene.alarm = scene.waits = scene.taken = scene.ended = scene.early = 0;
}

static void scene_close(void)
{
    free(scene.board);
}

/* Has it until the lender is seen to wait for it. */
static void *borrow(void *self)
{
    struct loans loans = loans_of(*(int *)self);

    loan_borrow(&loans, LENDER, scene.number);
    atomic_fetch_add(&scene.taken, 1);
    while (!atomic_load(&scene.waits) && !atomic_load(&scene.ended))
        sched_yield();
    atomic_fetch_add(&scene.early, atomic_load(&scene.ended));
    loan_return(&loans, LENDER, scene.number);
    return NULL;
}

static void one_round(struct loans *lender)
{
    pthread_t threads[RANKS];
    int ranks[RANKS], others = 0;

    scene.waits = scene.taken = scene.ended = 0;
    CHECK(!loan_open(lender, &scene.number));
    for (int q = 0; q < RANKS; q++)
        if ((ranks[q] = q) != LENDER)
            CHECK(!pthread_create(&threads[others++], NULL, borrow, &ranks[q]));
    while (atomic_load(&scene.taken) < others)
        sched_yield();
    CHECK(!loan_end(lender, scene.number));
    scene.ended = 1;
    while (others--)
        pthread_join(threads[others], NULL);
}

static void a_loan_does_not_end_while_somebody_has_it(void)
{
    struct loans lender;

    scene_open();
    lender = loans_of(LENDER);
    for (int round = 0; round < ROUNDS; round++)
        one_round(&lender);
    CHECK(!scene.early);
    scene_close();
}

static void a_loan_of_another_lender_or_number_is_not_waited_for(void)
{
    struct loans lender, other;
    uint32_t held, free_number, others;

    scene_open();
    lender = loans_of(LENDER), other = loans_of(RANKS - 1);
    CHECK(!loan_open(&lender, &held) && !loan_open(&lender, &free_number));
    CHECK(!loan_open(&other, &others));
    loan_borrow(&other, LENDER, held);
    CHECK(!loan_end(&lender, free_number) && !loan_end(&other, others) && !scene.waits);
    scene_close();
}

/* What its borrowers may have for ever is not lent anew under the same number. */
static void an_alarm_ends_the_wait_but_not_the_loan(void)
{
    struct loans lender, other;
    uint32_t held, next;

    scene_open();
    lender = loans_of(LENDER), other = loans_of(0);
    CHECK(!loan_open(&lender, &held));
    loan_borrow(&other, LENDER, held);
    scene.alarm = 1;
    CHECK(loan_end(&lender, held) == ERR_WIRE);
    CHECK(!loan_open(&lender, &next) && next != held);
    loan_return(&other, LENDER, held);
    CHECK(!loan_end(&lender, held));
    scene_close();
}

static void quietly(void *self, const char *line)
{
    (void)self, (void)line;
}

static void there_are_so_many_loans_and_an_ended_one_is_free_again(void)
{
    struct loans lender;
    uint32_t number, last = LOANS_MAX;

    scene_open();
    lender = loans_of(LENDER);
    for (int i = 0; i < LOANS_MAX; i++)
        CHECK(!loan_open(&lender, &last));
    log_to(quietly, NULL);
    CHECK(loan_open(&lender, &number) == ERR_NOMEM);
    log_to(NULL, NULL);
    CHECK(!loan_end(&lender, 7) && !loan_open(&lender, &number) && number == 7);
    CHECK(last == LOANS_MAX - 1);
    scene_close();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_loan_does_not_end_while_somebody_has_it),
        TEST(a_loan_of_another_lender_or_number_is_not_waited_for),
        TEST(an_alarm_ends_the_wait_but_not_the_loan),
        TEST(there_are_so_many_loans_and_an_ended_one_is_free_again),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0])) ? 1 : 0;
}
