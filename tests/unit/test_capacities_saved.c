/* Tests kill and resume of the controller of capacities: it continues from what it saved, and
 * refuses anything else. */
#include "folder.h"
#include "small_capacities.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CUTS = 300 };

static void a_resumed_controller_goes_on_as_if_nothing_had_been(void)
{
    for (uint64_t key = 1; key <= CUTS; key++) {
        struct moe_capacities_options o = random_options(key);
        struct moe_capacities *c = open_with(&o), *resumed = NULL;
        uint32_t counts[EXPERTS_MOST], cut = random_below(key, 40, STEPS);
        size_t size, twice;
        void *bytes, *again;

        for (uint64_t step = 0; step < STEPS; step++) {
            struct moe_capacities_state s, t;
            const uint32_t *rows, *same;

            if (step == cut) {
                bytes = saved(c, &size);
                CHECK(!moe_capacities_load(bytes, size, &resumed));
                again = saved(resumed, &twice);
                CHECK(size == twice && !memcmp(bytes, again, size));
                free(bytes);
                free(again);
            }
            random_counts(key, step, o.experts, counts);
            CHECK(!moe_capacities_feed(c, step, counts, o.experts));
            s = state_at(c, step + o.delta, &rows);
            if (!resumed)
                continue;
            CHECK(!moe_capacities_feed(resumed, step, counts, o.experts));
            t = state_at(resumed, step + o.delta, &same);
            CHECK(!memcmp(&s, &t, sizeof(s)) && !memcmp(rows, same, o.experts * sizeof(*rows)));
        }
        moe_capacities_close(c);
        moe_capacities_close(resumed);
    }
}

/* ---- killed at any time */

enum { KILLED_STEPS = 20000, CHECKPOINT = 10 };

/* The next step, then what save wrote; as a checkpoint is written: whole, or not at all. */
static void keep(const struct moe_capacities *c, uint64_t step)
{
    size_t size;
    void *bytes = saved(c, &size);
    FILE *file = fopen(place("new"), "wb");

    if (fwrite(&step, sizeof(step), 1, file) != 1 || fwrite(bytes, 1, size, file) != size ||
        fclose(file) || rename(place("new"), place("checkpoint")))
        abort();
    free(bytes);
}

static struct moe_capacities *resume(const struct moe_capacities_options *o, uint64_t *step)
{
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(place("checkpoint"), "rb");
    struct moe_capacities *c = NULL;

    *step = 0;
    if (!file)
        return open_with(o);
    if (fread(step, sizeof(*step), 1, file) != 1 ||
        moe_capacities_load(bytes, fread(bytes, 1, sizeof(bytes), file), &c))
        abort();
    fclose(file);
    return c;
}

static void train(struct moe_capacities *c, uint64_t step, bool keeps)
{
    for (; step < KILLED_STEPS; step++) {
        uint32_t counts[EXPERTS_MOST];

        if (keeps && step % CHECKPOINT == 0)
            keep(c, step);
        random_counts(77, step, EXPERTS_MOST, counts);
        if (moe_capacities_feed(c, step, counts, EXPERTS_MOST))
            abort();
    }
    if (keeps)
        keep(c, step);
}

static void a_trainer_that_is_killed_goes_on_from_its_checkpoint(void)
{
    struct moe_capacities_options o = options_of(EXPERTS_MOST, 4, 60);
    struct moe_capacities *c = NULL, *alone;
    struct moe_capacities_state s, t;
    const uint32_t *rows;
    uint64_t step = 0;
    int killed = 0;

    o.hold = 20;
    o.gap = 10;
    alone = open_with(&o);
    train(alone, 0, false);
    for (int i = 0; step < KILLED_STEPS && i < 400; i++) {
        int status;
        pid_t child = fork();

        if (!child) {
            c = resume(&o, &step);
            train(c, step, true);
            _exit(0);
        }
        /* Longer and longer: on a busy machine a child needs it to come a step further. */
        usleep(2000 + 100 * random_below(3, (uint64_t)i, 100) + 2 * (useconds_t)(i * i));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        killed += WIFSIGNALED(status);
        c = resume(&o, &step);
        if (step < KILLED_STEPS)
            moe_capacities_close(c);
    }
    CHECK(step == KILLED_STEPS && killed > 0);
    if (step == KILLED_STEPS) {
        s = state_at(alone, KILLED_STEPS, &rows);
        t = state_at(c, KILLED_STEPS, &rows);
        CHECK(!memcmp(&s, &t, sizeof(s)));
        CHECK(s.replans > 20);
        moe_capacities_close(c);
    }
    moe_capacities_close(alone);
}

static void damaged_bytes_are_refused(void)
{
    struct moe_capacities_options o = options_of(4, 2, 90);
    struct moe_capacities *c, *out = NULL;
    uint8_t *bytes, room[16];
    size_t size, small = sizeof(room);

    o.gap = 3;
    c = open_with(&o);
    CHECK(!moe_capacities_feed(c, 0, (uint32_t[]){ 1, 2, 3, 4 }, 4));
    bytes = saved(c, &size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (uint8_t)(1u << i % 8);
        CHECK(moe_capacities_load(bytes, size, &out) == MOE_ERR_FORMAT);
        bytes[i] ^= (uint8_t)(1u << i % 8);
        CHECK(moe_capacities_load(bytes, i, &out) == MOE_ERR_FORMAT);
    }
    CHECK(!out && moe_capacities_load(NULL, size, &out) == MOE_ERR_ARGUMENT);
    CHECK(moe_capacities_save(c, room, &small) == MOE_ERR_ARGUMENT && small == sizeof(room));
    CHECK(moe_capacities_save(NULL, NULL, &small) == MOE_ERR_ARGUMENT);
    CHECK(!moe_capacities_load(bytes, size, &out));
    moe_capacities_close(out);
    moe_capacities_close(c);
    free(bytes);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_resumed_controller_goes_on_as_if_nothing_had_been),
        TEST(a_trainer_that_is_killed_goes_on_from_its_checkpoint),
        TEST(damaged_bytes_are_refused),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
