/* Tests the check that computes some tokens of a step anew.  It expects what the whole reference
 * says, and finds kernels that are wrong for large layers alone.  Started by mpirun. */
#include "check.h"

#include "judge.h"
#include "rig.h"
#include "shape.h"
#include "status.h"
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 200, SMALL = 96 };

static struct world *world;
static struct engine engine;
static char said[300];

static void hear(void *self, const char *line)
{
    (void)self;
    snprintf(said, sizeof(said), "%s", line);
}

static struct moe_shape layer_of(uint32_t tokens, uint32_t top_k, uint32_t activation)
{
    uint32_t ranks = (uint32_t)world_topology(world)->ranks;

    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2 * ranks,
                               .top_k = top_k,
                               .tokens = tokens,
                               .model_dim = 40,
                               .hidden_dim = 24,
                               .ranks = ranks,
                               .ranks_per_node = ranks,
                               .pass = MOE_TRAIN,
                               .activation = activation };
}

static struct rig *open_layer(const struct moe_shape *shape, uint64_t seed)
{
    struct data data = { .shape = *shape, .seed = seed };
    struct rig *rig = NULL;

    CHECK(!rig_open(world, &engine, &data, NULL, 1, &rig));
    return rig;
}

/* ---- what is drawn */

static void a_row_of_weights_is_what_its_elements_are(void)
{
    struct data data = { .shape = layer_of(TOKENS, 2, MOE_SWIGLU), .seed = 3 };
    static float row[2500];

    data.shape.model_dim = 2500;
    for (uint32_t type = MOE_F32; type <= MOE_BF16; type++)
        for (enum tensor i = TENSOR_W1; i <= TENSOR_W2; i++) {
            int same = 0;

            data.shape.dtype = type;
            if (i == TENSOR_B1)
                continue;
            data_weight_row(&data, i, 1, 5, row);
            for (uint64_t c = 0; c < 2500; c++)
                same += memcmp(&row[c], &(float){ data_weight(&data, i, 1, 5, c) }, 4) == 0;
            CHECK(same == 2500);
        }
}

/* ---- what is expected */

static double difference(const double *a, const double *b, uint32_t n)
{
    double most = 0, scale = 1e-30;

    for (uint32_t i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        scale = fmax(scale, fabs(b[i]));
    }
    return most / scale;
}

static void check_against_reference(const struct rig *rig)
{
    uint32_t D = rig->data.shape.model_dim;

    for (uint32_t i = 0; i < rig->spot->count; i++) {
        const struct judge *r = rig->reference;
        size_t at = (size_t)rig->spot->token[i] * D;

        CHECK(difference(rig->spot->y + (size_t)i * D, r->y + at, D) < 1e-12);
        CHECK(difference(rig->spot->grad_x + (size_t)i * D, r->grad_x + at, D) < 1e-12);
    }
}

/* Choices of a token that the last step dropped. */
static uint32_t dropped(const struct rig *rig, const struct exec *exec, uint32_t token)
{
    uint32_t k = rig->data.shape.top_k, count = 0;

    for (uint32_t j = 0; j < k; j++)
        count += exec->router.slot[token * k + j] < 0;
    return count;
}

static void check_at(struct rig *rig, const struct moe_plan *plan, uint64_t capacity)
{
    uint64_t needed = (uint64_t)rig->data.shape.tokens * rig->data.shape.top_k;
    struct exec *exec = NULL;
    double worst = 0;

    rig_set_capacity(rig, capacity);
    CHECK(!rig_exec(rig, plan, &exec));
    CHECK(!rig_overwrite_results(rig));
    CHECK(!rig_check(rig, exec, &worst));
    CHECK(!rig_check_some(rig, exec, &worst) && worst > 0);
    CHECK(rig->spot->count == SPOT_MOST);
    check_against_reference(rig);
    if (capacity < needed / rig->data.shape.experts)
        CHECK(dropped(rig, exec, rig->spot->token[0]) > 0);
    exec_close(exec);
}

static void tokens_must_become_what_the_reference_says(void)
{
    static const struct moe_plan plans[] = { { .r = 1, .d = 1 }, { .r = 1, .d = 4 }, { .d = 1 } };

    for (uint32_t k = 1; k <= 2; k++)
        for (uint32_t activation = MOE_RELU; activation <= MOE_SWIGLU; activation++) {
            struct moe_shape shape = layer_of(TOKENS, k, activation);
            struct rig *rig = open_layer(&shape, 7);
            const struct judge *spot;

            check_at(rig, &plans[0], 30);
            spot = rig->spot;
            check_at(rig, &plans[1], 90);
            check_at(rig, &plans[2], 4000);
            CHECK(rig->spot == spot); /* another capacity is no new work */
            rig_close(rig);
        }
}

/* What a layer of one rank makes of its one token, in the direction of its gradient; *grad_x: (D)
 * of the token, or NULL. */
static double result_of(const struct data *data, double *grad_x)
{
    double logit[2] = { 0 }, sum = 0;
    int32_t expert[2];
    struct routed_tokens own = { .tokens = 1, .expert = expert };
    struct judge *judge = NULL;
    uint32_t D = data->shape.model_dim;

    for (uint32_t e = 0; e < 2; e++)
        for (uint32_t i = 0; i < D; i++)
            logit[e] += (double)data_gate(data, e, i) * (double)data->given->tokens[i];
    expert[0] = logit[1] > logit[0];
    expert[1] = !expert[0];
    CHECK(!reference_open(data, 0, 1, expert, 1, &judge));
    CHECK(!judge_expect(judge, &own, &(struct capacities){ 1, NULL }, false));
    for (uint32_t i = 0; i < D; i++)
        sum += (double)data->given->grads[i] * judge->y[i];
    if (grad_x)
        memcpy(grad_x, judge->grad_x, D * sizeof(*grad_x));
    judge_close(judge);
    return sum;
}

/* That of the gates included. */
static void a_gradient_is_the_slope_of_a_result(void)
{
    enum { D = 40 };
    float token[D], grad[D];
    struct given_rows given = { token, grad, 1, 0 };
    struct data data = { .seed = 5 };
    double grad_x[D];

    for (uint32_t activation = MOE_RELU + 1; activation <= MOE_SWIGLU; activation++) {
        data.shape = layer_of(1, 2, activation);
        data.shape.experts = 2;
        data.shape.ranks = data.shape.ranks_per_node = 1;
        for (uint32_t i = 0; i < D; i++) {
            token[i] = data_token(&data, 0, 0, i);
            grad[i] = data_grad(&data, 0, 0, i);
        }
        data.given = &given;
        result_of(&data, grad_x);
        for (uint32_t i = 0; i < D; i++) {
            float was = token[i], above = was + 0x1p-10f, below = was - 0x1p-10f;
            double most, least;

            token[i] = above;
            most = result_of(&data, NULL);
            token[i] = below;
            least = result_of(&data, NULL);
            token[i] = was;
            CHECK(fabs((most - least) / (double)(above - below) - grad_x[i]) < 1e-4);
        }
        data.given = NULL;
    }
}

static void threads_change_nothing(void)
{
    struct data data = { .shape = layer_of(8, 1, MOE_RELU), .seed = 1 };
    static const int32_t expert[] = { 0, 1, 1, 0, 0, 1, 1, 0 };
    struct judge *one = NULL, *more = NULL;

    CHECK(!spot_open(&data, 0, 8, expert, 1, &one));
    CHECK(!spot_open(&data, 0, 8, expert, 3, &more));
    CHECK(one->count == 8 && !memcmp(one->token, more->token, 8 * sizeof(*one->token)));
    CHECK(!memcmp(one->out, more->out, sizeof(double) * 8 * data.shape.model_dim));
    CHECK(!memcmp(one->back, more->back, sizeof(double) * 8 * data.shape.model_dim));
    judge_close(one);
    judge_close(more);
}

/* By the memory that they take: 1.3e8 products each, then too many for more than two. */
static void the_larger_a_layer_the_fewer_tokens(void)
{
    struct moe_shape seven = layer_of(TOKENS, 1, MOE_RELU), two;
    /* Forward: its row and its gradient, y, dx and how far that may be off, what its expert gives.
     */
    size_t token = (5 + 1) * sizeof(double) << 11;

    seven.pass = MOE_FORWARD;
    seven.model_dim = 1 << 11;
    seven.hidden_dim = 1 << 15;
    two = seven;
    two.hidden_dim = 1 << 20;
    token += 3 * sizeof(uint32_t) + sizeof(size_t);
    CHECK(spot_bytes(&seven) - spot_bytes(&two) == 5 * token);
}

/* Only ReLU has a bend, and only products of 16 bits are stored before the bias is added. */
static void few_units_lie_at_the_bend(void)
{
    static const struct {
        uint32_t activation, dtype;
        double bias, x;
        bool bends;
    } cases[] = {
        { MOE_RELU, MOE_F32, 1, 1e-6, true },    { MOE_RELU, MOE_F32, 1, -2e-5, false },
        { MOE_RELU, MOE_BF16, 1, -0.003, true }, { MOE_RELU, MOE_BF16, -1, 0.005, false },
        { MOE_RELU, MOE_BF16, 0, 0.003, false }, { MOE_RELU, MOE_F16, 1, 0.0004, true },
        { MOE_RELU, MOE_F16, 1, 0.0006, false }, { MOE_GELU, MOE_BF16, 1, 0, false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct data data = { .shape = layer_of(TOKENS, 1, cases[i].activation) };
        struct plain p = { .data = &data };

        data.shape.dtype = cases[i].dtype;
        CHECK(plain_is_at_kink(&p, cases[i].bias, cases[i].x) == cases[i].bends);
    }
}

/* ---- what is found */

/* A kernel that forgets all tokens from the 96th on: right for whoever looks at small layers. */
static enum kernel broken;
static const struct device_ops *right;

static int launch_broken(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    union {
        struct routing routing; /* the first that they all have */
        char bytes[512];
    } copy;

    memcpy(copy.bytes, args, bytes);
    if (kernel == broken && copy.routing.tokens > SMALL)
        copy.routing.tokens = SMALL;
    return right->launch(stream, kernel, copy.bytes, bytes);
}

/* The first step of a layer with that kernel.  Its data are its own: what memory still holds of
 * another one is no result. */
static int run_broken(uint32_t tokens, enum kernel kernel)
{
    struct moe_shape shape = layer_of(tokens, 2, MOE_GELU);
    struct rig *rig = open_layer(&shape, (uint64_t)tokens + kernel);
    struct device_ops ops = *engine.device->ops;
    struct moe_plan plan = { .r = 1, .d = 2 };
    struct exec *exec = NULL;
    double worst;
    int rc;

    right = engine.device->ops;
    ops.launch = launch_broken;
    broken = kernel;
    rig_set_capacity(rig, tokens);
    CHECK(!rig_exec(rig, &plan, &exec));
    engine.device->ops = &ops;
    rc = world_settle(world, rig_step(rig, exec));
    engine.device->ops = right;
    rc = rc ? rc : rig_check_some(rig, exec, &worst);
    exec_close(exec);
    rig_close(rig);
    return rc;
}

static void kernels_that_are_wrong_for_many_tokens_are_found(void)
{
    static const enum kernel kernels[] = { KERNEL_encode, KERNEL_decode, KERNEL_encode_backward,
                                           KERNEL_decode_backward };

    log_to(hear, NULL);
    for (int i = 0; i < 4; i++) {
        CHECK(run_broken(SMALL, kernels[i]) == OK);
        CHECK(run_broken(TOKENS, kernels[i]) == ERR_WRONG);
    }
    log_to(NULL, NULL);
}

/* Its memory still has what the step before has put there. */
static void a_step_that_does_nothing_is_found(void)
{
    struct moe_shape shape = layer_of(TOKENS, 2, MOE_RELU);
    struct moe_plan plan = plan_default(NULL);
    struct rig *rig = open_layer(&shape, 7);
    struct exec *exec = NULL;
    double worst;

    CHECK(!rig_exec(rig, &plan, &exec));
    CHECK(!rig_check(rig, exec, &worst) && !rig_check_some(rig, exec, &worst));
    CHECK(!rig_overwrite_results(rig));
    log_to(hear, NULL);
    CHECK(rig_check_some(rig, exec, &worst) == ERR_WRONG && strstr(said, "y["));
    log_to(NULL, NULL);
    exec_close(exec);
    rig_close(rig);
}

/* A token in a slot that is another's; of all tokens, not only of those that are looked at. */
static void one_wrong_slot_is_found(void)
{
    struct moe_shape shape = layer_of(TOKENS, 2, MOE_RELU);
    struct moe_plan plan = plan_default(NULL);
    struct rig *rig = open_layer(&shape, 7);
    struct exec *exec = NULL;
    double worst;

    CHECK(!rig_exec(rig, &plan, &exec));
    CHECK(!rig_check(rig, exec, &worst) && !rig_check_some(rig, exec, &worst));
    exec->router.slot[77]++;
    log_to(hear, NULL);
    CHECK(rig_check_some(rig, exec, &worst) == ERR_WRONG && strstr(said, "slot"));
    log_to(NULL, NULL);
    exec_close(exec);
    rig_close(rig);
}

/* ---- what becomes of such a plan */

static struct reply order_step(struct worker *worker, uint64_t capacity)
{
    struct order order = { .kind = ORDER_STEP, .plan = plan_default(NULL), .capacity = capacity };
    struct reply reply;

    worker_do(worker, &order, &reply);
    return reply;
}

static void a_plan_that_is_wrong_at_its_real_size_is_a_wrong_trial(void)
{
    struct order layer = { .kind = ORDER_LAYER,
                           .shape = layer_of(TOKENS, 2, MOE_RELU),
                           .memory_limit_bytes = INT64_MAX };
    struct worker *worker = NULL;
    struct reply reply;

    setenv("MOETUNE_FAULT", "large:2@0", 1);
    CHECK(!worker_open(world, "host", &worker));
    worker_do(worker, &layer, &reply);
    CHECK(reply.state == TRIAL_OK);
    CHECK(order_step(worker, 64).state == TRIAL_OK);
    reply = order_step(worker, 128);
    CHECK(reply.state == TRIAL_WRONG && !reply.broken && strstr(reply.message, "rank 0: y["));
    CHECK(order_step(worker, 128).state == TRIAL_OK);
    worker_close(worker);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_row_of_weights_is_what_its_elements_are),
        TEST(tokens_must_become_what_the_reference_says),
        TEST(a_gradient_is_the_slope_of_a_result),
        TEST(threads_change_nothing),
        TEST(the_larger_a_layer_the_fewer_tokens),
        TEST(few_units_lie_at_the_bend),
        TEST(kernels_that_are_wrong_for_many_tokens_are_found),
        TEST(a_step_that_does_nothing_is_found),
        TEST(one_wrong_slot_is_found),
        TEST(a_plan_that_is_wrong_at_its_real_size_is_a_wrong_trial),
    };
    int failed;

    if (world_open(0, 0, &world) || engine_open(world, "host", NULL, &engine))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    engine_close(&engine);
    world_close(world);
    return failed;
}
