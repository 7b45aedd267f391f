/* Times the subjects of a probe: first single times, which say how often to repeat each, then
 * shuffled rounds; computes medians. */
#include "timetable.h"

#include "host.h"
#include "measure.h"
#include "stats.h"
#include "status.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* One time should take so long, with at most so many repeats. */
enum { LONG_ENOUGH_NS = 2000000, REPEATS_MOST = 32 };

int timetable_add(struct timetable *table, enum subject_kind kind, struct subject **out)
{
    if (table->count == TIMETABLE_SUBJECTS)
        return fail(ERR_NOMEM, "more than %d things to measure", TIMETABLE_SUBJECTS);
    *out = &table->subjects[table->count++];
    memset(*out, 0, sizeof(**out));
    (*out)->kind = kind;
    (*out)->repeats = 1;
    return OK;
}

/* The argument of run_chore(): what to run, and this rank's own time, which it writes. */
struct timed_chore {
    struct timetable *table;
    const struct subject *subject;
    struct own_sample own;
};

/* Processor time of this process so far. */
static int64_t process_ran_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int run_chore(void *self)
{
    struct timed_chore *timed_chore = self;
    struct device *device = timed_chore->table->bench->engine->device;
    int64_t begin_ns = device_now_ns(device), ran_before_ns = process_ran_ns();
    int rc = workbench_run(timed_chore->table->bench, &timed_chore->subject->chore);

    timed_chore->own =
        (struct own_sample){ device_now_ns(device) - begin_ns, process_ran_ns() - ran_before_ns };
    return rc;
}

static int time_subject(struct timetable *table, const struct subject *s, int64_t *ns,
                        struct own_sample *own)
{
    struct timed_chore timed_chore = { .table = table, .subject = s };
    struct measured measured;

    if (s->kind == SUBJECT_STEP)
        return runner_step(table->runner, STEP_BOTH, ns);
    TRY(measure_once(table->world, table->bench->engine, NULL, run_chore, &timed_chore, &measured));
    *ns = measured.ns;
    *own = timed_chore.own;
    return OK;
}

int timetable_time_twice(struct timetable *table, struct subject *s, int64_t *ns)
{
    int64_t first_ns, again_ns;
    struct own_sample own;

    TRY(time_subject(table, s, &first_ns, &own));
    TRY(time_subject(table, s, &first_ns, &own));
    TRY(time_subject(table, s, &again_ns, &own));
    *ns = again_ns < first_ns ? again_ns : first_ns;
    return OK;
}

int timetable_choose_repeats(struct timetable *table, struct subject *s)
{
    int64_t ns, factor;

    TRY(timetable_time_twice(table, s, &ns));
    factor = LONG_ENOUGH_NS / (ns > 0 ? ns : 1);
    factor = factor < 1 ? 1 : (factor > REPEATS_MOST ? REPEATS_MOST : factor);
    s->chore.exchanges *= (int)factor;
    s->chore.products *= (int)factor;
    s->chore.copies *= (int)factor;
    s->repeats *= (int)factor;
    return OK;
}

int timetable_run(struct timetable *table, double seconds, uint32_t rounds_least, uint64_t seed,
                  void (*tick)(void *self, uint32_t rounds, double seconds), void *self)
{
    int64_t begin_ns = host_clock_ns();

    while (table->rounds < TIMETABLE_ROUNDS &&
           (table->rounds < rounds_least || table->seconds < seconds)) {
        int order[TIMETABLE_SUBJECTS];
        int64_t spent;

        measure_order(seed, table->rounds, table->count, order);
        for (int i = 0; i < table->count; i++) {
            struct subject *s = &table->subjects[order[i]];

            TRY(time_subject(table, s, &s->ns[table->rounds], &s->own[table->rounds]));
        }
        table->rounds++;
        spent =
            host_clock_ns() -
            begin_ns; /* agreed: ranks that used their own clocks would stop at different rounds */
        TRY(world_max(table->world, &spent, 1));
        table->seconds = (double)spent * 1e-9;
        if (tick)
            tick(self, table->rounds, table->seconds);
    }
    return OK;
}

void timetable_free(struct timetable *table)
{
    for (int i = 0; i < table->count; i++)
        batch_free(&table->subjects[i].chore.batch);
    table->count = 0;
}

const struct subject *timetable_find(const struct timetable *table, enum subject_kind kind,
                                     enum link_level level, const struct subject *after)
{
    for (int i = after ? (int)(after - table->subjects) + 1 : 0; i < table->count; i++)
        if (table->subjects[i].kind == kind && table->subjects[i].level == level)
            return &table->subjects[i];
    return NULL;
}

static double median_ns(const int64_t *ns, uint32_t rounds)
{
    int64_t copy[TIMETABLE_ROUNDS];

    memcpy(copy, ns, rounds * sizeof(*copy));
    return rounds ? (double)spread_of(copy, rounds).median_ns : NAN;
}

double timetable_ns(const struct timetable *table, const struct subject *s)
{
    const struct subject *empty = timetable_find(table, SUBJECT_EMPTY, LINK_INSIDE, NULL);
    double net =
        median_ns(s->ns, table->rounds) - (empty ? median_ns(empty->ns, table->rounds) : 0);

    return net > 0 ? net / s->repeats : NAN;
}

size_t timetable_own(const struct timetable *table, struct own_sample out[OWN_SAMPLES])
{
    const struct subject *s = NULL;
    size_t count = 0;

    while ((s = timetable_find(table, SUBJECT_SPEED, LINK_INSIDE, s))) {
        memcpy(out + count, s->own, table->rounds * sizeof(*out));
        count += table->rounds;
    }
    return count;
}
