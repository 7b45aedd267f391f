/* No defect of a model may publish a plan that measured slower than the default: what the
 * strategies believe is broken where it is made, in the costs that guided starts from and in the
 * posterior of blind.  The Makefile links these functions through what stands here.
 *
 *     test_broken_models [--full]      1,920 buckets, or 10,080 */
#include "check.h"

#include "costs.h"
#include "decision.h"
#include "plan.h"
#include "posterior.h"
#include "random.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is broken */

enum scope { NOBODY, ONE_ARM, FAMILY, ALL };
enum kind { ADDED, REVERSED };
static struct defect {
    enum scope scope;
    enum kind kind;
    double added; /* to the log time that is believed: may be NaN or infinite */
    struct moe_plan arm;
} defect;

static bool is_hit(const struct moe_plan *plan)
{
    switch (defect.scope) {
    case NOBODY: return false;
    case ONE_ARM: return plan_equal(plan, &defect.arm);
    case FAMILY: return plan->r == defect.arm.r;
    case ALL: break;
    }
    return true;
}

/* A time of 1 ms stays what it is when the order is reversed. */
static double broken(double log_ns, const struct moe_plan *plan)
{
    if (!is_hit(plan))
        return log_ns;
    return defect.kind == REVERSED ? 2 * log(1e6) - log_ns : log_ns + defect.added;
}

double __real_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan);
double __wrap_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan);
double __wrap_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan)
{
    return broken(__real_costs_log_ns(costs, constants, capacity, plan), plan);
}

double __real_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient);
double __wrap_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient);
double __wrap_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient)
{
    double log_ns = __real_costs_gradient(costs, constants, capacity, plan, gradient);

    for (int i = 0; i < COST_CONSTANTS && is_hit(plan); i++)
        gradient[i] = defect.kind == REVERSED ? -gradient[i] : gradient[i] + 0 * defect.added;
    return broken(log_ns, plan);
}

static const struct moe_plan *arms; /* of the search that runs */

void __real_posterior_renew(struct posterior *posterior);
void __wrap_posterior_renew(struct posterior *posterior);
void __wrap_posterior_renew(struct posterior *posterior)
{
    __real_posterior_renew(posterior);
    for (size_t i = 0; i < posterior->arms; i++)
        if (is_hit(&arms[i]))
            posterior->mean[i] =
                defect.kind == REVERSED ? -posterior->mean[i] : posterior->mean[i] + defect.added;
}

void __real_likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void __wrap_likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void __wrap_likeness_table_set(struct likeness_table *table, const struct likeness *likeness)
{
    __real_likeness_table_set(table, likeness);
    if (defect.scope == ALL && defect.kind == ADDED)
        table->factor[0][0] *= exp(defect.added);
}

/* ---- buckets whose truth is known */

struct outcomes {
    uint32_t buckets, harmed, published, unproven;
};

static int default_arm_of(const struct surface *s)
{
    struct moe_plan usual = plan_default(&s->shape);

    for (int i = 0; i < (int)s->arm_count; i++)
        if (plan_equal(&s->arms[i], &usual))
            return i;
    return -1;
}

/* In every other bucket the default is the best plan, where all others do harm. */
static void set_truth(const struct surface *s, uint64_t key, double capacity, int default_arm,
                      double *ns, bool *usable)
{
    double best = INFINITY;

    for (size_t i = 0; i < s->arm_count; i++) {
        usable[i] = surface_fits(s, capacity, (int)i);
        ns[i] = surface_ns(s, capacity, (int)i);
        best = usable[i] && ns[i] < best ? ns[i] : best;
    }
    usable[default_arm] = true;
    if (random_bits(key, 1) % 2)
        ns[default_arm] = best * (1 - 0.06 * uniform_draw(key, 2));
}

static void decide(struct search *search, struct noise *noise, double capacity, const double *ns,
                   const bool *usable, int default_arm, struct outcomes *out)
{
    struct decision_setup setup = { .search = search,
                                    .capacity = (uint64_t)capacity,
                                    .usable = usable,
                                    .default_arm = default_arm,
                                    .incumbent = -1 };
    struct decision_result r;
    enum decision_purpose purpose;
    struct decision d;
    uint32_t steps = 0;
    int arm;

    decision_open(&d, &setup);
    while ((arm = decision_next(&d, &purpose)) != DECISION_DONE && steps++ < 2000)
        decision_tell(&d, purpose, arm, noise_sample(noise, ns[arm]));
    CHECK(steps < 2000 && decision_result(&d, &r));
    out->buckets++;
    out->harmed += ns[r.arm] > 1.02 * ns[default_arm];
    if (r.arm == default_arm)
        return;
    out->published++;
    CHECK(isfinite(r.gain.value) && r.gain.value > 0 && isfinite(r.ns) && isfinite(r.default_ns));
    out->unproven += trial_pairs(decision_trial(&d)).count < PAIRS_LEAST;
}

static void tune(const char *strategy, uint64_t seed, const struct defect *broken_by,
                 struct outcomes *out)
{
    enum { BUCKETS = 5 };
    struct surface s = surface_make(seed, &(struct surface_options){ .slices = 4 });
    struct search_setup setup = { .shape = s.shape,
                                  .arms = s.arms,
                                  .arm_count = s.arm_count,
                                  .machine = s.machine,
                                  .seed = seed };
    struct noise noise = noise_make(seed, 0.05, 0.01, true);
    int default_arm = default_arm_of(&s);
    static double ns[SEARCH_ARMS_MAX];
    static bool usable[SEARCH_ARMS_MAX];
    struct search *search;

    arms = s.arms;
    defect = *broken_by;
    defect.arm = s.arms[random_bits(seed, 3) % s.arm_count];
    CHECK(!search_open(search_find(strategy), &setup, &search));
    for (uint64_t i = 0; i < BUCKETS; i++) {
        double capacity = surface_capacity(&s, i);

        memset(usable, 0, sizeof(usable));
        set_truth(&s, seed * 16 + i, capacity, default_arm, ns, usable);
        decide(search, &noise, capacity, ns, usable, default_arm, out);
    }
    search_close(search);
    defect.scope = NOBODY;
}

static bool full;

static void hold(const char *strategy)
{
    static const double added[] = { NAN, INFINITY, -INFINITY, 5, -5 };
    struct outcomes sound = { 0 }, with_defects = { 0 };
    uint64_t systems = full ? 63 : 12;

    for (uint64_t i = 0; i < 16 * systems; i++) {
        struct defect broken_by = { .scope = ONE_ARM + (enum scope)(i % 3),
                                    .kind = i % 16 == 15 ? REVERSED : ADDED,
                                    .added = added[i % 16 / 3 % 5] };

        if (broken_by.kind == REVERSED)
            broken_by.scope = ALL;
        tune(strategy, 1 + i, &broken_by, &with_defects);
        if (i % 4 == 0)
            tune(strategy, 1 + i, &(struct defect){ .scope = NOBODY }, &sound);
    }
    /* Harm of 2 % is excluded with more than 99 %, and few plans come near it.  Measured (--full),
     * guided and blind: 8 and 4 of 5,040 buckets were harmed with defects, 3 and 1 of 1,260 without
     * any: .12 and .16 % of both together.  That is the decision alone: no rounds follow here. */
    CHECK(with_defects.harmed <= (full ? 10 : 5));
    CHECK(!with_defects.unproven && !sound.unproven);
    CHECK(with_defects.published > with_defects.buckets / 10);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("  %s: of %u buckets %u published, %u harmed; sound: of %u %u and %u\n", strategy,
               with_defects.buckets, with_defects.published, with_defects.harmed, sound.buckets,
               sound.published, sound.harmed);
}

static void broken_costs_publish_nothing_that_measures_slower(void)
{
    hold("guided");
}

static void a_broken_posterior_publishes_nothing_that_measures_slower(void)
{
    hold("blind");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(broken_costs_publish_nothing_that_measures_slower),
        TEST(a_broken_posterior_publishes_nothing_that_measures_slower),
    };

    full = argc > 1 && !strcmp(argv[1], "--full");
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
