/* Tests launches of the ranks: the next order starts new ranks, which get the layer and another
 * difference between launches. */
#include "small_cluster.h"

#include "crew.h"
#include "host.h"
#include "plan.h"
#include "status.h"
#include "verbs.h"
#include "world.h"

#include <stdlib.h>

static struct moe_shape layer_on(uint32_t ranks, uint32_t ranks_per_node)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2 * ranks,
                               .top_k = 2,
                               .tokens = 64,
                               .model_dim = 16,
                               .hidden_dim = 32,
                               .ranks = ranks,
                               .ranks_per_node = ranks_per_node,
                               .dtype = MOE_F32,
                               .pass = MOE_TRAIN };
}

static void set_layer(struct crew *crew, uint32_t ranks, uint32_t ranks_per_node)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = layer_on(ranks, ranks_per_node),
                           .memory_limit_bytes = INT64_MAX };
    struct reply reply = { 0 };

    CHECK(!crew_do(crew, &order, &reply) && reply.state == TRIAL_OK);
}

static struct reply step_at(struct crew *crew, uint32_t d, uint64_t capacity)
{
    struct order order = { .kind = ORDER_STEP, .plan = plan_default(NULL), .capacity = capacity };
    struct reply reply = { 0 };

    order.plan.d = d;
    CHECK(!crew_do(crew, &order, &reply));
    return reply;
}

static int64_t step_ns(struct crew *crew, uint32_t d, uint64_t capacity)
{
    struct reply reply = step_at(crew, d, capacity);

    CHECK(reply.state == TRIAL_OK && reply.ns > 0);
    return reply.ns;
}

/* Of a layer with another activation. */
static int64_t step_of(struct crew *crew, enum moe_act activation)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = layer_on(8, 4),
                           .memory_limit_bytes = INT64_MAX };
    struct reply reply = { 0 };
    int64_t ns;

    order.shape.activation = activation;
    CHECK(!crew_do(crew, &order, &reply) && reply.state == TRIAL_OK);
    ns = step_ns(crew, 1, 20);
    set_layer(crew, 8, 4);
    return ns;
}

/* ---- modelled */

static struct cluster roomy(void)
{
    struct cluster c = small();

    c.memory_gib = 1;
    return c;
}

static struct crew *modelled(const struct cluster *c)
{
    struct crew *crew = NULL;

    CHECK(!crew_open(&(struct crew_setup){ .model = c, .seed = 1 }, &crew));
    return crew;
}

static void a_launch_has_a_luck_for_each_plan_and_capacity(void)
{
    struct cluster c = roomy();
    struct crew *crew, *later;
    int64_t first, second;

    c.launch_noise_percent = 5;
    crew = modelled(&c);
    set_layer(crew, c.ranks, c.ranks_per_node);
    first = step_ns(crew, 1, 20);
    CHECK(step_ns(crew, 2, 20) != first && step_ns(crew, 1, 20) == first);
    CHECK(!crew_relaunch(crew, 3) && crew_launch_ns(crew) == 0);
    second = step_ns(crew, 1, 20);
    CHECK(second != first && step_ns(crew, 1, 20) == second);
    CHECK(!crew_relaunch(crew, 0) && step_ns(crew, 1, 20) == first);
    /* Another layer has another one, beside ranks without any. */
    cluster_remove_noise(&c);
    later = modelled(&c);
    set_layer(later, c.ranks, c.ranks_per_node);
    CHECK(fabs((double)first / (double)step_ns(later, 1, 20) -
               (double)step_of(crew, MOE_GELU) / (double)step_of(later, MOE_GELU)) > 1e-3);
    crew_close(later);
    c.launch_noise_percent = 5;
    /* Who goes on with a launch that was cut off. */
    later = modelled(&c);
    CHECK(!crew_relaunch(later, 3));
    set_layer(later, c.ranks, c.ranks_per_node);
    CHECK(step_ns(later, 1, 20) == second);
    crew_close(later);
    crew_close(crew);
}

static void ranks_of_a_new_launch_know_the_layer_and_have_no_plan_open(void)
{
    struct cluster c = roomy();
    struct crew *crew = modelled(&c);

    CHECK(!crew_relaunch(crew, 1)); /* there is no layer yet, and nothing to tell */
    CHECK(step_at(crew, 1, 20).state == TRIAL_FAILED);
    set_layer(crew, c.ranks, c.ranks_per_node);
    CHECK(step_at(crew, 1, 20).warm_steps == 3 && step_at(crew, 1, 20).warm_steps == 0);
    CHECK(!crew_relaunch(crew, 2));
    CHECK(step_at(crew, 1, 20).warm_steps == 3 && step_at(crew, 1, 20).warm_steps == 0);
    crew_close(crew);
}

static void launches_are_alike_where_the_cluster_does_not_speak_of_them(void)
{
    struct cluster c = roomy();
    struct crew *crew, *other;

    c.noise_percent = 5;
    crew = modelled(&c);
    other = modelled(&c);
    set_layer(crew, c.ranks, c.ranks_per_node);
    set_layer(other, c.ranks, c.ranks_per_node);
    for (uint32_t i = 0; i < 20; i++) {
        struct order order = { .kind = ORDER_STEP, .plan = plan_default(NULL), .sample = i + 1 };
        struct reply one, two;

        order.capacity = 20;
        if (i % 5 == 4)
            CHECK(!crew_relaunch(crew, i));
        CHECK(!crew_do(crew, &order, &one) && !crew_do(other, &order, &two));
        CHECK(one.ns == two.ns);
    }
    crew_close(other);
    crew_close(crew);
}

/* Correlation of two lists, each about its own mean. */
static double correlation(const double *x, const double *y, int n)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;

    for (int i = 0; i < n; i++)
        mean_x += x[i] / n, mean_y += y[i] / n;
    for (int i = 0; i < n; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    return xy / sqrt(xx * yy);
}

static double deviation(const double *x, int n)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / n);
}

/* 400 launches: a deviation is known to 3.5 %, a correlation to .05. */
static void lucks_are_as_large_as_the_cluster_says_and_independent(void)
{
    enum { LAUNCHES = 400 };
    static double here[LAUNCHES], other_plan[LAUNCHES], other_capacity[LAUNCHES];
    struct cluster c = roomy();
    struct crew *crew;

    c.launch_noise_percent = 4;
    crew = modelled(&c);
    set_layer(crew, c.ranks, c.ranks_per_node);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        CHECK(!crew_relaunch(crew, i));
        here[i] = log((double)step_ns(crew, 1, 20));
        other_plan[i] = log((double)step_ns(crew, 2, 20));
        other_capacity[i] = log((double)step_ns(crew, 1, 21));
    }
    crew_close(crew);
    CHECK(fabs(deviation(here, LAUNCHES) / 0.04 - 1) < 0.15);
    CHECK(fabs(deviation(other_plan, LAUNCHES) / 0.04 - 1) < 0.15);
    CHECK(fabs(deviation(other_capacity, LAUNCHES) / 0.04 - 1) < 0.15);
    CHECK(fabs(correlation(here, other_plan, LAUNCHES)) < 0.2);
    CHECK(fabs(correlation(here, other_capacity, LAUNCHES)) < 0.2);
    CHECK(fabs(correlation(here, here + 1, LAUNCHES - 1)) < 0.2);
}

/* ---- ranks on cores */

static struct crew *on_cores(double timeout_s)
{
    struct crew_setup setup = { .where = { .ranks = 2, .ranks_per_node = 2 },
                                .device = "host",
                                .timeout_s = timeout_s };
    struct crew *crew = NULL;

    CHECK(!crew_open(&setup, &crew));
    return crew;
}

static const char *fault(void)
{
    const char *text = getenv("MOETUNE_FAULT");

    return text ? text : "none";
}

static void ranks_are_started_anew_without_being_lost(void)
{
    struct crew *crew;

    setenv("MOETUNE_FAULT", "crash:2000;crash:3000;crash:4000", 1);
    crew = on_cores(60);
    CHECK(!crew_relaunch(crew, 0) && crew_launch_ns(crew) == 0);
    set_layer(crew, 2, 2);
    CHECK(crew_launch_ns(crew) > 0);
    CHECK(step_at(crew, 1, 20).warm_steps == 3 && step_at(crew, 1, 20).warm_steps == 0);
    for (uint32_t launch = 1; launch <= 2; launch++) {
        int64_t begin = host_clock_ns();

        CHECK(!crew_relaunch(crew, launch));
        CHECK(!crew_relaunch(crew, launch)); /* nobody runs */
        CHECK(step_at(crew, 1, 20).warm_steps == 3 && step_at(crew, 1, 20).warm_steps == 0);
        CHECK(crew_launch_ns(crew) > 0 && crew_launch_ns(crew) < host_clock_ns() - begin);
    }
    CHECK(!strcmp(fault(), "crash:2000;crash:3000;crash:4000"));
    crew_close(crew);
    unsetenv("MOETUNE_FAULT");
}

/* Ranks crash in their second timed step, those of a later launch, too; those that take their place
 * do not.  Before the first one a plan is warmed by a whole step and two that are partial. */
static void what_replaces_lost_ranks_has_the_next_faults(void)
{
    struct crew *crew;

    setenv("MOETUNE_FAULT", "crash:5@1;crash:3000", 1);
    crew = on_cores(60);
    set_layer(crew, 2, 2);
    CHECK(step_at(crew, 1, 20).state == TRIAL_OK);
    CHECK(!crew_relaunch(crew, 1) && !strcmp(fault(), "crash:5@1;crash:3000"));
    CHECK(step_at(crew, 1, 20).state == TRIAL_OK);
    log_to(listen, NULL);
    CHECK(step_at(crew, 1, 20).state == TRIAL_CRASHED);
    CHECK(!strcmp(fault(), "crash:5@1;crash:3000"));
    CHECK(step_at(crew, 1, 20).state == TRIAL_OK && !strcmp(fault(), "crash:3000"));
    CHECK(!crew_relaunch(crew, 2) && step_at(crew, 1, 20).state == TRIAL_OK);
    CHECK(!strcmp(fault(), "crash:3000"));
    log_to(NULL, NULL);
    crew_close(crew);
    unsetenv("MOETUNE_FAULT");
}

static void who_is_around_us_cannot_be_started_anew(void)
{
    struct world *world = NULL;
    struct crew *crew = NULL;
    struct crew_setup setup = { .device = "host", .timeout_s = 60 };

    CHECK(!world_open(0, 0, &world));
    setup.world = world;
    CHECK(!crew_open(&setup, &crew));
    set_layer(crew, 1, 1);
    CHECK(step_at(crew, 1, 20).warm_steps == 3);
    CHECK(crew_relaunch(crew, 1) == UNSUPPORTED && crew_launch_ns(crew) == 0);
    CHECK(step_at(crew, 1, 20).warm_steps == 0); /* nothing has changed */
    crew_close(crew);
    world_close(world);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_launch_has_a_luck_for_each_plan_and_capacity),
        TEST(ranks_of_a_new_launch_know_the_layer_and_have_no_plan_open),
        TEST(launches_are_alike_where_the_cluster_does_not_speak_of_them),
        TEST(lucks_are_as_large_as_the_cluster_says_and_independent),
        TEST(ranks_are_started_anew_without_being_lost),
        TEST(what_replaces_lost_ranks_has_the_next_faults),
        TEST(who_is_around_us_cannot_be_started_anew),
    };

    if (argc > 1 && !strcmp(argv[1], serve_verb.name))
        return verb_main(&serve_verb, argv, 1) ? 1 : 0;
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
