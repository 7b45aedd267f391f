/* Tests `tune` as a whole on ranks whose times, and the costs of whose launches, are made up
 * (made_ranks.h). */
#include "folder.h"
#include "made_ranks.h"
#include "plan.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Experts on two ranks each take a tenth less time than the default. */
static double a_tenth_less(const void *self, const struct moe_shape *shape,
                           const struct moe_plan *plan, uint64_t capacity)
{
    (void)self;
    (void)shape;
    return (plan->r == 2 ? 9e3 : 1e4) * (1e3 + (double)capacity);
}

struct found {
    uint32_t launches, window, goes, samples;
    int64_t cluster, shape;
    int adopted, likely, harmful;
    double more_s;
};

static int note_entry(void *self, const struct entry_row *e)
{
    struct found *found = self;

    found->adopted += !strcmp(e->decision, "adopted");
    found->likely += e->likely.struct_size > 0;
    found->harmful += e->plan.r != 1 && e->plan.r != 2;
    found->cluster = e->cluster;
    found->shape = e->shape;
    found->window = e->window;
    return OK;
}

static int count_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    (void)trial, (void)sample;
    ((struct found *)self)->samples++;
    return OK;
}

/* Tunes that database, silently; what its table holds then. */
static struct found tune_again(const char *path, int code)
{
    char *argv[] = { "moetune",
                     "tune",
                     "--quiet",
                     "--sim",
                     "tests/data/clusters/cpu-4.txt",
                     "--shape",
                     "E=2 k=1 T=4096 D=64 H=256",
                     "--window",
                     "1024",
                     "--buckets",
                     "1:7",
                     "--axes",
                     "r,d",
                     "--db",
                     (char *)(uintptr_t)path,
                     NULL };
    struct found found = { .launches = 0 };
    struct store *store = NULL;
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork(); /* a process that was interrupted stays so */
    if (!child) {
        int nowhere = open("/dev/null", O_WRONLY);

        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        exit(verb_main(&tune_verb, argv, 1) == ERR_CUT ? 75 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
    CHECK(!store_read(path, &store));
    if (store) {
        struct standing_row row;

        CHECK(!store_entries(store, 0, 0, note_entry, &found));
        CHECK(!store_standing_get(store, found.cluster, found.shape, found.window, &row));
        for (uint32_t bucket = 1; bucket <= 7; bucket++)
            CHECK(!store_samples(store, found.cluster, found.shape, found.window, bucket,
                                 count_sample, &found));
        found.launches = row.launches;
        found.goes = row.goes;
        found.more_s = row.more_s;
        store_close(store);
    }
    return found;
}

/* Of a database that is not there yet. */
static const char *fresh_path(void)
{
    static uint32_t count;
    char name[16];

    snprintf(name, sizeof(name), "%u.db", count++);
    return place(name);
}

/* What a table rests on whose ranks take so long to start again. */
static struct found tune_with(int64_t launch_ns)
{
    made_ranks = (struct made_ranks){
        .true_ns = a_tenth_less, .noise = .05, .luck = .02, .seed = 5, .launch_ns = launch_ns
    };
    return tune_again(fresh_path(), 0);
}

static void a_gain_rests_on_several_launches(void)
{
    struct found found = tune_with(0);

    CHECK(found.launches > 2);
    CHECK(found.adopted > 0);
}

/* An hour for each launch: one beside that of the search, and no more. */
static void a_launch_that_is_dear_is_made_once(void)
{
    struct found found = tune_with(3600ll * 1000000000);

    CHECK(found.launches == 2);
    CHECK(found.adopted > 0);
}

/* Less than half a second is nothing that anybody notices, however short the search was. */
static void a_launch_that_nobody_notices_is_not_dear(void)
{
    CHECK(tune_with(400000000).launches == tune_with(0).launches);
}

/* Interrupts the process at that call from here on; 0: never. */
static int calls_left;

static double a_tenth_less_until(const void *self, const struct moe_shape *shape,
                                 const struct moe_plan *plan, uint64_t capacity)
{
    if (calls_left && !--calls_left)
        raise(SIGINT);
    return a_tenth_less(self, shape, plan, capacity);
}

/* Under noise of 25 % a tenth is not proven at once.  The same command goes on with what is
 * undecided, also after it was interrupted, until nothing more is likely to be decided. */
static void the_same_command_goes_on_with_undecided_buckets(void)
{
    int first = 0, last = 0, interrupted = 0;

    for (uint64_t seed = 1; seed <= 4; seed++) {
        const char *path = fresh_path();
        struct found found, before;
        int runs = 0;

        made_ranks = (struct made_ranks){
            .true_ns = a_tenth_less_until, .noise = .25, .luck = .01, .seed = 40 + seed
        };
        found = tune_again(path, 0);
        first += found.adopted;
        CHECK(found.goes == 0 && (found.more_s > 0) <= (found.likely > 0));
        for (; found.more_s > 0 && runs < 12; runs++) {
            before = found;
            calls_left = runs == 0 ? 9 : 0;
            found = tune_again(path, runs == 0 ? 75 : 0);
            if (runs == 0) { /* nothing is lost, and nothing is decided */
                interrupted++;
                CHECK(found.samples > before.samples);
                CHECK(found.goes == 0 && found.more_s == before.more_s);
                CHECK(found.adopted == before.adopted && found.likely == before.likely);
                continue;
            }
            CHECK(found.goes == before.goes + 1);
            CHECK(found.launches > before.launches || found.adopted > before.adopted ||
                  found.likely < before.likely);
            CHECK(found.adopted >= before.adopted);
        }
        CHECK(runs < 12);
        last += found.adopted;
        before = found;
        found = tune_again(path, 0);
        CHECK(found.samples == before.samples && found.goes == before.goes);
        CHECK(!found.harmful);
    }
    CHECK(interrupted > 1 && last > first);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_gain_rests_on_several_launches),
        TEST(a_launch_that_is_dear_is_made_once),
        TEST(a_launch_that_nobody_notices_is_not_dear),
        TEST(the_same_command_goes_on_with_undecided_buckets),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
