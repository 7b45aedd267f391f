/* A layer with rows as wide as the largest models have (7168, bf16), on a GPU that a CPU plays:
 * some tokens of a step are what they must become, and a kernel that is wrong for such rows alone
 * is found. */
#include "check.h"

#include "rig.h"
#include "status.h"

#include <string.h>

enum { TOKENS = 256, WIDTH = 7168 };

static struct world *world;
static struct engine engine;
static char said[300];

static void hear(void *self, const char *line)
{
    (void)self;
    snprintf(said, sizeof(said), "%s", line);
}

/* One step of a new layer, and what is said of it. */
static int try_plan(const struct moe_plan *plan, uint64_t seed, double *worst)
{
    struct data data = { .shape = { .struct_size = sizeof(struct moe_shape),
                                    .experts = 4,
                                    .top_k = 2,
                                    .tokens = TOKENS,
                                    .model_dim = WIDTH,
                                    .hidden_dim = 32,
                                    .ranks = 1,
                                    .ranks_per_node = 1,
                                    .dtype = MOE_BF16,
                                    .pass = MOE_TRAIN,
                                    .activation = MOE_SWIGLU },
                         .seed = seed };
    struct rig *rig = NULL;
    struct exec *exec = NULL;
    int rc = rig_open(world, &engine, &data, NULL, 0.75, &rig);

    CHECK(!rc);
    CHECK(!rig_exec(rig, plan, &exec));
    CHECK(!rig_step(rig, exec));
    rc = rig_check_some(rig, exec, worst);
    CHECK(rig->spot->count == SPOT_MOST);
    exec_close(exec);
    rig_close(rig);
    return rc;
}

static void wide_rows_come_back_right(void)
{
    double worst = 0;

    CHECK(!try_plan(&(struct moe_plan){ .r = 1, .d = 2 }, 1, &worst));
    CHECK(worst > 0.001 && worst < 1);
}

static const struct device_ops *right;

/* Takes the last columns for padding where rows are wider than it was ever tried with. */
static int launch_narrow(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    struct move move;

    if (kernel != KERNEL_move)
        return right->launch(stream, kernel, args, bytes);
    memcpy(&move, args, sizeof(move));
    if (move.block >= WIDTH)
        move.block -= 8;
    return right->launch(stream, kernel, &move, sizeof(move));
}

static void a_kernel_that_is_wrong_for_wide_rows_is_found(void)
{
    struct device_ops ops = *engine.device->ops;
    double worst;

    right = engine.device->ops;
    ops.launch = launch_narrow;
    engine.device->ops = &ops;
    log_to(hear, NULL);
    CHECK(try_plan(&(struct moe_plan){ .r = 1, .d = 2 }, 2, &worst) == ERR_WRONG);
    log_to(NULL, NULL);
    CHECK(strstr(said, "should be"));
    engine.device->ops = right;
}

int main(void)
{
    static const struct test tests[] = {
        TEST(wide_rows_come_back_right),
        TEST(a_kernel_that_is_wrong_for_wide_rows_is_found),
    };
    int failed;

    if (world_open(0, 0, &world) || engine_open(world, "cuda", NULL, &engine))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    engine_close(&engine);
    world_close(world);
    return failed;
}
