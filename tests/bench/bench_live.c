/* Measures what tuning while training costs and brings, against what people do by hand.
 *
 *     bench_live FOLDER-OF-CLUSTERS [STEPS]
 *
 * Training is simulated: a capacity wanders by a factor of 4.38 over 14 buckets, the sim back end
 * computes its steps on a modelled cluster, with 5 % noise and 1 % outliers.  Regret is the time
 * beyond that of the best plan at every step.  Some trainings have a broken cost model: see
 * broken_model.h. */
#include "broken_model.h"
#include "modelled.h"

#include "moetune.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "surface.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 128, BUCKETS = 32, MARKS = 5, SEEDS = 3 };
static const uint32_t marks[MARKS] = { 300, 1000, 3000, 10000, 30000 };

static char folder[PATH_MAX];

static const char *fresh_path(void)
{
    static const char *const endings[] = { ".published", ".journal", ".owner", "" };
    static char path[PATH_MAX + 32];

    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%.4000s/b.db%s", folder, endings[i]);
        unlink(path);
    }
    return path;
}

/* Processor time: what else the machine does is not the library's.  Waiting for a disk is left out,
 * too. */
static double cpu_us(void *self)
{
    struct timespec now;

    (void)self;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* ---- policies: which arm now, and what it took */

struct policy {
    const struct modelled *m;
    uint64_t seed, at;
    struct moetune *tuner;
    double sum[BUCKETS][SEARCH_ARMS_MAX];
    uint32_t count[BUCKETS][SEARCH_ARMS_MAX];
    int arm;
};

struct policy_kind {
    const char *name;
    double setting; /* share, or epsilon, or rounds */
    int (*choose)(struct policy *p, const struct policy_kind *kind, uint32_t capacity);
    void (*learn)(struct policy *p, uint32_t capacity, int arm, double ns);
    struct model_defect defect; /* but for its arm, the default */
};

static uint32_t bucket_of(uint32_t capacity)
{
    return capacity / WINDOW % BUCKETS;
}

static int choose_default(struct policy *p, const struct policy_kind *kind, uint32_t capacity)
{
    (void)kind;
    (void)capacity;
    return p->m->default_arm;
}

static int best_mean(const struct policy *p, uint32_t bucket)
{
    int best = p->m->default_arm;
    double least = INFINITY;

    for (int arm = 0; arm < (int)p->m->arm_count; arm++)
        if (p->count[bucket][arm] && p->sum[bucket][arm] / p->count[bucket][arm] < least) {
            least = p->sum[bucket][arm] / p->count[bucket][arm];
            best = arm;
        }
    return best;
}

/* With probability epsilon any plan, else the one with the least mean here; the default first. */
static int choose_epsilon(struct policy *p, const struct policy_kind *kind, uint32_t capacity)
{
    uint64_t at = p->at++;

    if (uniform_draw(p->seed, 2 * at) < kind->setting)
        return (int)random_below(p->seed, 2 * at + 1, (uint32_t)p->m->arm_count);
    return best_mean(p, bucket_of(capacity));
}

/* Every plan in turn, so many times in each bucket; then the best of them.  This is how Tutel's
 * example goes about it, once for all capacities. */
static int choose_in_turn(struct policy *p, const struct policy_kind *kind, uint32_t capacity)
{
    uint32_t bucket = bucket_of(capacity);

    for (int arm = 0; arm < (int)p->m->arm_count; arm++)
        if (p->count[bucket][arm] < kind->setting)
            return arm;
    return best_mean(p, bucket);
}

static void learn_mean(struct policy *p, uint32_t capacity, int arm, double ns)
{
    p->sum[bucket_of(capacity)][arm] += ns;
    p->count[bucket_of(capacity)][arm]++;
}

static int choose_tuned(struct policy *p, const struct policy_kind *kind, uint32_t capacity)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    if (!p->tuner) {
        struct moetune_options o = MOETUNE_OPTIONS_INIT;

        o.share = kind->setting;
        o.window = 128;
        o.now_us = cpu_us;
        o.seed = (uint32_t)p->seed;
        if (moetune_open(fresh_path(), &p->m->shape, &o, &p->tuner))
            abort();
    }
    moetune_ask(p->tuner, capacity, &plan);
    return modelled_arm(p->m, &plan);
}

static void learn_tuned(struct policy *p, uint32_t capacity, int arm, double ns)
{
    (void)capacity;
    (void)arm;
    moetune_tell(p->tuner, ns * 1e-3);
}

static void learn_nothing(struct policy *p, uint32_t capacity, int arm, double ns)
{
    (void)p;
    (void)capacity;
    (void)arm;
    (void)ns;
}

static const struct policy_kind kinds[] = {
    { "libmoetune, share 1 %", 0.01, choose_tuned, learn_tuned },
    { "libmoetune, share 5 %", 0.05, choose_tuned, learn_tuned },
    { "1 %, others e^-5", 0.01, choose_tuned, learn_tuned, { ALL_BUT_ONE, ADDED, -5 } },
    { "5 %, others e^-5", 0.05, choose_tuned, learn_tuned, { ALL_BUT_ONE, ADDED, -5 } },
    { "1 %, reversed", 0.01, choose_tuned, learn_tuned, { ALL, REVERSED } },
    { "5 %, reversed", 0.05, choose_tuned, learn_tuned, { ALL, REVERSED } },
    { "1 %, NaN", 0.01, choose_tuned, learn_tuned, { ALL, ADDED, NAN } },
    { "5 %, NaN", 0.05, choose_tuned, learn_tuned, { ALL, ADDED, NAN } },
    { "epsilon-greedy, 2 %", 0.02, choose_epsilon, learn_mean },
    { "epsilon-greedy, 10 %", 0.1, choose_epsilon, learn_mean },
    { "round robin, 1 each", 1, choose_in_turn, learn_mean },
    { "round robin, 5 each", 5, choose_in_turn, learn_mean },
    { "default plan", 0, choose_default, learn_nothing },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- one training */

struct outcome {
    double regret[MARKS]; /* time / the best plans' time - 1, up to there */
    double above_default; /* at the worst step: time / the default plan's - 1 */
    double own;           /* of the library, as a share of the training's time */
};

static double least_ns(const struct modelled *m, uint32_t capacity)
{
    double least = INFINITY;

    for (int arm = 0; arm < (int)m->arm_count; arm++)
        least = fmin(least, modelled_ns(m, capacity, arm));
    return least;
}

static struct outcome train(const struct modelled *m, const struct policy_kind *kind, uint64_t seed,
                            uint32_t steps)
{
    struct policy *p = calloc(1, sizeof(*p));
    struct noise noise = noise_make(seed, 0.05, 0.01, false);
    struct outcome out = { .above_default = -1 };
    double mine = 0, best = 0, by_default = 0;
    int mark = 0;

    if (!p)
        abort();
    *p = (struct policy){ .m = m, .seed = seed };
    model_defect = kind->defect;
    model_defect.arm = m->arms[m->default_arm];
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t capacity = modelled_wander(m, seed, step, marks[MARKS - 1]);
        int arm = kind->choose(p, kind, capacity);
        double ns = modelled_ns(m, capacity, arm);

        kind->learn(p, capacity, arm, (double)noise_sample(&noise, ns));
        mine += ns;
        best += least_ns(m, capacity);
        by_default += modelled_ns(m, capacity, m->default_arm);
        out.above_default = fmax(out.above_default, mine / by_default - 1);
        while (mark < MARKS && step + 1 == marks[mark])
            out.regret[mark++] = mine / best - 1;
    }
    if (p->tuner) {
        struct moetune_status s = MOETUNE_STATUS_INIT;

        moetune_status(p->tuner, &s);
        out.own = s.own_us / s.time_us;
    }
    moetune_close(p->tuner);
    model_defect.scope = NOBODY;
    free(p);
    return out;
}

/* ---- the table */

static const struct setting {
    const char *cluster;
    uint32_t experts;
} settings[] = { { "ndm-a100-32", 2 },
                 { "ndm-a100-32", 4 },
                 { "h100-8nodes", 2 },
                 { "h100-8nodes", 4 },
                 { "one-rank-per-node-slow", 2 },
                 { "workstation-4x4090", 2 },
                 { "ndm-a100-2", 2 },
                 { "cpu-4", 2 } };
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static int open_setting(const char *clusters, const struct setting *s, struct modelled *out)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = s->experts,
                               .top_k = 2,
                               .model_dim = 1024,
                               .hidden_dim = 4096,
                               .dtype = MOE_BF16,
                               .pass = MOE_TRAIN,
                               .tokens = 2048 };
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.txt", clusters, s->cluster);
    return modelled_open(path, &shape, 512, 16, 109, out);
}

static void add(struct outcome *sum, const struct outcome *one)
{
    for (int i = 0; i < MARKS; i++)
        sum->regret[i] += one->regret[i] / (SETTINGS * SEEDS);
    sum->above_default = fmax(sum->above_default, one->above_default);
    sum->own += one->own / (SETTINGS * SEEDS);
}

static int print_table(const char *clusters, uint32_t steps)
{
    struct outcome sums[KINDS] = { { .regret = { 0 } } };

    for (int k = 0; k < KINDS; k++)
        sums[k].above_default = -1;
    for (int s = 0; s < SETTINGS; s++) {
        struct modelled m;

        TRY(open_setting(clusters, &settings[s], &m));
        log_enable(false); /* what drifts in a simulation is no news */
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            for (int k = 0; k < KINDS; k++) {
                struct outcome one = train(&m, &kinds[k], seed, steps);

                add(&sums[k], &one);
            }
        modelled_close(&m);
    }
    printf(
        "%d trainings on modelled clusters: regret after so many steps, %%, on average; the most\n"
        "above the default plan's time at any step of any; the library's own time, %% of "
        "training\n\n%-24s",
        SETTINGS * SEEDS, "policy");
    for (int i = 0; i < MARKS; i++)
        printf("%8u", marks[i]);
    printf("%10s%8s\n", "above", "own");
    for (int k = 0; k < KINDS; k++) {
        printf("%-24s", kinds[k].name);
        for (int i = 0; i < MARKS; i++)
            printf("%8.2f", 100 * sums[k].regret[i]);
        printf("%10.2f%8.3f\n", 100 * sums[k].above_default, 100 * sums[k].own);
    }
    return OK;
}

/* ---- ask and tell */

enum { PAIRS = 1000000 };

static bool plan_is_best(const struct moe_plan *plan)
{
    return plan->r == 2 && plan->d == 2 && plan->a == MOE_A2A_2DH;
}

/* In a loop; steps take no time but are told as 1 ms. */
static double pair_ns(struct moetune *tuner, uint32_t pairs)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    double begun_us = cpu_us(NULL);

    for (uint32_t i = 0; i < pairs; i++) {
        moetune_ask(tuner, 300 + i % 64, &plan);
        moetune_tell(tuner, plan_is_best(&plan) ? 900 + i % 7 : 1000 + i % 7);
    }
    return (cpu_us(NULL) - begun_us) * 1e3 / pairs;
}

static int print_pairs(void)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 64,
                               .hidden_dim = 128,
                               .ranks = 16,
                               .ranks_per_node = 8,
                               .pass = MOE_TRAIN,
                               .tokens = 256 };
    struct moetune_options o = MOETUNE_OPTIONS_INIT;
    struct moetune_status s = MOETUNE_STATUS_INIT;
    struct moetune *tuner;
    double learning, known;
    uint32_t steps = 0;

    o.share = 0.01;
    o.window = 128;
    o.now_us = cpu_us;
    TRY(moetune_open(fresh_path(), &shape, &o, &tuner));
    for (learning = 0; steps < 2000000 && s.decided < 1; steps += 1000) {
        learning += pair_ns(tuner, 1000) * 1000;
        moetune_status(tuner, &s);
    }
    known = pair_ns(tuner, PAIRS);
    moetune_status(tuner, &s);
    printf("\nask + tell of 1 ms steps, processor time: %.1f us on average until the bucket was "
           "decided (%u steps; "
           "%.2f %% of a step),\n%.0f ns once it is (%.4f %%)\n",
           learning / steps * 1e-3, steps, learning / steps / 1e4, known, known / 1e4);
    moetune_close(tuner);
    return OK;
}

int main(int argc, char **argv)
{
    uint32_t steps = argc > 2 ? (uint32_t)atoi(argv[2]) : marks[MARKS - 1];
    char command[PATH_MAX + 16];
    int rc;

    if (argc < 2) {
        fprintf(stderr, "usage: bench_live FOLDER-OF-CLUSTERS [STEPS]\n");
        return 2;
    }
    snprintf(folder, sizeof(folder), "/tmp/moetune-bench-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    rc = print_table(argv[1], steps);
    if (!rc)
        rc = print_pairs();
    snprintf(command, sizeof(command), "rm -rf %.4000s", folder);
    return system(command) || rc;
}
