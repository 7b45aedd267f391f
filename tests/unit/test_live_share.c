/* Tests what a tuner with a broken cost model costs a training: at no step more than its share
 * beyond the default plan.  The Makefile links it with broken_model.h. */
#include "live_training.h"

#include "arms.h"
#include "broken_model.h"
#include "declaration.h"
#include "modelled.h"

#include <math.h>

static const struct {
    const char *name;
    struct model_defect defect; /* but for its arm, the default, and the arms */
} models[] = {
    { "sound", { NOBODY } },
    { "all others e^-5", { ALL_BUT_ONE, ADDED, -5 } },
    { "all others e^5", { ALL_BUT_ONE, ADDED, 5 } },
    { "reversed", { ALL, REVERSED } },
    { "NaN", { ALL, ADDED, NAN } },
    { "infinite", { ALL_BUT_ONE, ADDED, -INFINITY } },
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };
static const double shares[] = { 0.01, 0.05 };

static void break_model(int model, const struct moe_plan *arms, const struct moe_plan *default_plan)
{
    model_defect = models[model].defect;
    model_defect.arm = *default_plan;
    model_defect.arms = arms;
}

static void report(const char *where, int model, double share, double worst,
                   const struct moetune_status *s)
{
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    %s, %s, share %g %%: at worst %.3f %% beyond the default; %llu tries, %u "
               "decided\n",
               where, models[model].name, 100 * share, 100 * worst, (unsigned long long)s->tried,
               s->decided);
}

/* ---- the layer's own plans, on modelled clusters where the worst takes 1.8 to 27 times as long */

/* Returns the greatest excess over the default plan so far, at any step. */
static double worst_of_training(const struct modelled *m, double share, uint32_t steps,
                                struct moetune_status *status)
{
    struct moetune_options options = options_with(share);
    struct noise noise = noise_make(11, 0.05, 0.01, false);
    double mine = 0, by_default = 0, worst = -1;
    struct moetune *tuner = NULL;

    CHECK(moetune_open(fresh_path("share"), &m->shape, &options, &tuner) == MOE_OK);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t capacity = modelled_wander(m, 9, step, 10000);
        struct moe_plan plan = MOE_PLAN_INIT;
        double ns;

        CHECK(moetune_ask(tuner, capacity, &plan) == MOE_OK);
        ns = modelled_ns(m, capacity, modelled_arm(m, &plan));
        mine += ns;
        by_default += modelled_ns(m, capacity, m->default_arm);
        worst = fmax(worst, mine / by_default - 1);
        CHECK(moetune_tell(tuner, (double)noise_sample(&noise, ns) * 1e-3) == MOE_OK);
    }
    *status = status_of(tuner);
    moetune_close(tuner);
    return worst;
}

static void no_model_makes_a_training_take_longer_by_more_than_its_share(void)
{
    static const struct {
        const char *cluster;
        uint32_t experts, steps;
    } trainings[] = { { "ndm-a100-32", 2, 800 },
                      { "ndm-a100-2", 2, 1500 },
                      { "workstation-4x4090", 2, 3000 } };

    for (size_t i = 0; i < sizeof(trainings) / sizeof(trainings[0]); i++) {
        struct moe_shape shape = { .struct_size = sizeof(shape),
                                   .experts = trainings[i].experts,
                                   .top_k = 2,
                                   .model_dim = 1024,
                                   .hidden_dim = 4096,
                                   .dtype = MOE_BF16,
                                   .pass = MOE_TRAIN,
                                   .tokens = 2048 };
        struct modelled m;
        char file[PATH_MAX + 64];

        snprintf(file, sizeof(file), "tests/data/clusters/%s.txt", trainings[i].cluster);
        CHECK(modelled_open(file, &shape, 512, 32, 55, &m) == OK);
        log_to(hear, NULL);
        for (int model = 0; model < MODELS; model++)
            for (int k = 0; k < 2; k++) {
                struct moetune_status status;
                double worst;

                break_model(model, m.arms, &m.arms[m.default_arm]);
                worst = worst_of_training(&m, shares[k], trainings[i].steps, &status);
                CHECK(worst <= shares[k]);
                report(trainings[i].cluster, model, shares[k], worst, &status);
            }
        model_defect.scope = NOBODY;
        modelled_close(&m);
    }
}

/* ---- a declared space, whose plans no cost model knows */

static const char space_text[] = "space knobs\n"
                                 "axis path  a b c d default b\n"
                                 "axis chunk 1 2 4 8 16 default 4\n"
                                 "axis block 16 64 256 default 64\n"
                                 "key tokens edges 64 256\n";

/* Beside the default's; the worst plan takes 27 times as long. */
static double knobs_us(const struct moe_plan *plan, uint32_t bucket)
{
    char path[8] = "", chunk[8] = "", block[8] = "";
    double us = 1000 * (1 + bucket);

    CHECK(moetune_value(plan, "path", path, sizeof(path)) == 1);
    CHECK(moetune_value(plan, "chunk", chunk, sizeof(chunk)) >= 1);
    CHECK(moetune_value(plan, "block", block, sizeof(block)) >= 1);
    us *= (const double[]){ 2.9, 1, 0.9, 1.8 }[*path - 'a'];
    us *= fmax(4, atoi(chunk)) / 4;
    return us * (!strcmp(block, "256") ? 2.3 : !strcmp(block, "16") ? 1.1 : 1);
}

static void nor_does_it_where_the_program_declares_its_plans(void)
{
    static struct moe_plan arms[SEARCH_ARMS_MAX];

    for (int model = 0; model < MODELS; model++)
        for (int k = 0; k < 2; k++) {
            struct moetune_options options = options_with(shares[k]);
            struct arms_setup of = { .axes = "r,d,a", .foreign = true };
            struct noise noise = noise_make(5, 0.05, 0.01, false);
            double mine = 0, by_default = 0, worst = -1;
            struct moe_shape shape = small_shape();
            const struct declaration *declared;
            struct moe_plan usual, plan;
            struct moetune_status status;
            struct moetune *tuner;
            size_t count;

            options.window = 0;
            options.space = space_text;
            model_defect.scope = NOBODY;
            tuner = open_with(fresh_path("knobs"), options);
            CHECK(!declaration_register(space_text, &declared));
            shape.space = declared->id;
            CHECK(!arms_list(&shape, &of, arms, &count));
            usual = plan_default(&shape);
            break_model(model, arms, &usual);
            for (uint32_t step = 0; step < 3000; step++) {
                uint32_t bucket = step / 50 % 3;
                double us;

                plan = (struct moe_plan)MOE_PLAN_INIT;
                CHECK(moetune_ask_key(tuner, 64 << 2 * bucket >> 1, 0, &plan) == MOE_OK);
                us = knobs_us(&plan, bucket);
                mine += us;
                by_default += knobs_us(&usual, bucket);
                worst = fmax(worst, mine / by_default - 1);
                CHECK(moetune_tell(tuner, (double)noise_sample(&noise, us * 1e3) * 1e-3) == MOE_OK);
            }
            status = status_of(tuner);
            CHECK(worst <= shares[k]);
            CHECK(models[model].defect.scope != NOBODY || status.tried > 20);
            report("declared", model, shares[k], worst, &status);
            moetune_close(tuner);
            model_defect.scope = NOBODY;
        }
}

/* ---- a plan that takes longer than anybody could foresee */

/* r = 0 takes 40 times as long.  Whatever is tried afterwards is tried when that is paid. */
static void what_costs_more_than_was_saved_up_is_paid_before_the_next_try(void)
{
    struct moetune_options options = options_with(0.01);
    struct moetune *tuner = open_with(fresh_path("debt"), options);
    struct noise noise = noise_make(1, 0.03, 0, false);
    uint32_t in_debt = 0, shocks = 0, tries = 0;

    for (uint32_t step = 0; step < 12000; step++) {
        struct moetune_status before = status_of(tuner);
        struct moe_plan plan = MOE_PLAN_INIT;
        bool debt = before.cost_us > 0.01 * before.time_us;
        double us;

        CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
        us = 1100 * (plan.r ? factor_of(&plan) : 40);
        shocks += !plan.r;
        CHECK(moetune_tell(tuner, (double)noise_sample(&noise, us * 1e3) * 1e-3) == MOE_OK);
        in_debt += debt;
        CHECK(!debt || status_of(tuner).tried == before.tried);
        tries += shocks > 0 && status_of(tuner).tried > before.tried;
    }
    CHECK(shocks > 0 && in_debt > 1000 && tries > 1);
    CHECK(status_of(tuner).cost_us <= 0.01 * status_of(tuner).time_us);
    moetune_close(tuner);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(no_model_makes_a_training_take_longer_by_more_than_its_share),
        TEST(nor_does_it_where_the_program_declares_its_plans),
        TEST(what_costs_more_than_was_saved_up_is_paid_before_the_next_try),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
