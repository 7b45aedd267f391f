/* `tune` as a whole on ranks whose times, and whose launches' costs, are made up (made_ranks.h). */
#include "check.h"
#include "made_ranks.h"
#include "plan.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <fcntl.h>
#include <string.h>
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
    uint32_t launches, window;
    int64_t cluster, shape;
    int adopted;
};

static int note_entry(void *self, const struct entry_row *e)
{
    struct found *found = self;

    found->adopted += !strcmp(e->decision, "adopted");
    found->cluster = e->cluster;
    found->shape = e->shape;
    found->window = e->window;
    return OK;
}

/* What a table rests on whose ranks take so long to start again. */
static struct found tune_with(int64_t launch_ns)
{
    char folder[] = "/tmp/moetune-made-XXXXXX", path[64], command[96];
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
                     path,
                     NULL };
    struct found found = { .launches = 0 };
    struct store *store = NULL;
    int nowhere = open("/dev/null", O_WRONLY), out, err;

    if (!mkdtemp(folder))
        return found;
    snprintf(path, sizeof(path), "%s/t.db", folder);
    made_ranks = (struct made_ranks){
        .true_ns = a_tenth_less, .noise = .05, .luck = .02, .seed = 5, .launch_ns = launch_ns
    };
    fflush(stdout);
    out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    CHECK(!verb_main(&tune_verb, argv, 1));
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(nowhere), close(out), close(err);
    CHECK(!store_read(path, &store));
    if (store) {
        struct standing_row row;

        CHECK(!store_entries(store, 0, 0, note_entry, &found));
        CHECK(!store_standing_get(store, found.cluster, found.shape, found.window, &row));
        found.launches = row.launches;
        store_close(store);
    }
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK(!system(command));
    return found;
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

int main(void)
{
    static const struct test tests[] = {
        TEST(a_gain_rests_on_several_launches),
        TEST(a_launch_that_is_dear_is_made_once),
        TEST(a_launch_that_nobody_notices_is_not_dear),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
