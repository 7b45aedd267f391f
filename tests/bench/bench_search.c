/* Measures how good the published plans are and how many steps they cost, on made-up clusters whose
 * truth is known.  Search and decision run together, and every step counts, those of the default
 * plan, too.
 *
 *     bench_search [--quick] [--cases=N] [--seed=N] [--guided] [--only="noise 5 %"] [--luck=SD]
 * [regret|claims|neighbours|stress|pockets|time]...
 *
 * Regret: the true time of the plan chosen over that of the best usable plan, minus 1.  The true
 * time is the mean over many launches of the ranks.  All is measured in one launch, which makes
 * each plan in each bucket a little slower or faster (--luck, a deviation of log time). */
#include "command_words.h"
#include "entrants.h"
#include "further_launches.h"
#include "tally.h"

#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NORMAL = 1 /* of efforts[] */ };
static const struct entrant *const guided = &entrants[GUIDED], *const oracle = &entrants[ORACLE];

/* ---- many systems */

struct plan_of_work {
    struct surface_options surface;
    double sigma, outliers, luck;
    enum noise_turns turns;
    size_t systems, buckets;
    bool neighbouring; /* capacities walk by 15 % instead of being scattered */
    bool default_best; /* the default plan is 1 to 7 % faster than any other */
    uint64_t seed;
};

static double true_log_ns(const void *self, double capacity, int arm)
{
    return log(surface_smooth_ns(self, capacity, arm));
}

static struct search *open_search(const struct surface *surface, const struct entrant *e,
                                  uint64_t seed)
{
    static struct search_model truth; /* one search at a time */
    struct search_setup setup = surface_setup(surface, seed);
    struct search *search = NULL;

    truth = (struct search_model){ true_log_ns, surface };
    setup.model = e == oracle ? &truth : NULL;
    setup.repeats = e->repeats;
    if (e->strategy && search_open(search_find(e->strategy), &setup, &search))
        exit(1);
    return search;
}

static void favour_default(struct true_bucket *b, double by)
{
    int of_default = b->default_arm;

    if (!b->usable[of_default] || b->ns[of_default] <= b->best_ns)
        return;
    b->seen_ns[of_default] *= (1 - by) * b->best_ns / b->ns[of_default];
    b->ns[of_default] = b->best_ns = (1 - by) * b->best_ns;
}

static double walk(double capacity, uint64_t key, uint64_t step)
{
    double next = capacity * exp(0.15 * normal_draw(key, step));

    return next < 8 ? 8 : next > 65535 ? 65535 : floor(next);
}

/* What was claimed in one launch, by what the plans take over many and in the next. */
static void judge_claim(const struct surface *surface, double luck, const struct true_bucket *b,
                        const struct bucket_outcome *o, struct claims *claims)
{
    int arm = o->arm, other = b->default_arm;
    double next, ratio = b->ns[arm] / b->ns[other];

    if (arm == other || isnan(o->gain.value))
        return;
    next = ratio * exp(luck * (surface_luck(surface, b->capacity, arm, 1) -
                               surface_luck(surface, b->capacity, other, 1)));
    claims_add(claims, &o->gain, 1 - ratio, gain_holds(&o->gain, 1 - next));
}

/* Of a table, and of its buckets: what further launches take, and what they leave. */
struct further {
    struct value_column pairs;    /* of a bucket, in all further launches together */
    struct value_column launches; /* of a table, launch 0 not among them */
    struct value_column regret,
        harm; /* of what the table holds then; harm: against the default; in % */
};

static void add_further_launches(const struct surface *surface, struct contender *contenders,
                                 int count, struct search *search, double luck, struct noise *noise,
                                 struct further *out)
{
    const struct effort *normal = &efforts[NORMAL];
    struct rounds_setup how = { .launch_cycles = normal->launch_cycles,
                                .launches = normal->launches - 1,
                                .worth = normal->worth,
                                .seed = surface->seed };
    struct rounds_verdict left[ROUNDS_BUCKETS_MAX];
    double pairs[ROUNDS_BUCKETS_MAX];

    column_add(&out->launches, further_launches(surface, contenders, count, search, &how, luck,
                                                noise, left, pairs));
    for (int i = 0; i < count; i++) {
        struct bucket_outcome o = true_bucket_outcome(&contenders[i].bucket, left[i].arm);

        column_add(&out->pairs, pairs[i]);
        column_add(&out->regret, 100 * o.regret);
        column_add(&out->harm, 100 * o.harm);
    }
}

static void further_free(struct further *f)
{
    free(f->pairs.values);
    free(f->launches.values);
    free(f->regret.values);
    free(f->harm.values);
}

static void run_system(const struct plan_of_work *work, const struct entrant *e, uint64_t seed,
                       struct summary *out, struct claims *claims, struct further *further)
{
    static struct contender contenders[ROUNDS_BUCKETS_MAX];
    struct surface surface = surface_make(seed, &work->surface);
    struct noise noise = noise_make(random_bits(seed, 9), work->sigma, work->outliers, true);
    struct search *search = open_search(&surface, e, seed);
    double capacity = surface_capacity(&surface, 0);
    bool first = true;
    int decided = 0;

    noise_set_turns(&noise, work->turns);
    for (uint64_t i = 0; i < work->buckets; i++) {
        struct true_bucket *bucket = &contenders[decided].bucket;
        struct bucket_outcome o;

        if (i)
            capacity = work->neighbouring ? walk(capacity, seed, i) : surface_capacity(&surface, i);
        if (!surface_bucket(&surface, capacity, work->luck, bucket))
            continue;
        if (work->default_best)
            favour_default(bucket, 0.01 + 0.06 * uniform_draw(seed, 7));
        o = e->run ? e->run(bucket, search, &noise)
                   : true_bucket_tune(bucket, search, &noise, further ? 2 * PAIRS_BEFORE_ROUNDS : 0,
                                      &contenders[decided].decision);
        o.first = first;
        first = false;
        summary_add(out, &o);
        if (claims)
            judge_claim(&surface, work->luck, bucket, &o, claims);
        decided += further && decided + 1 < ROUNDS_BUCKETS_MAX;
        if (getenv("BENCH_SHOW") && o.regret > atof(getenv("BENCH_SHOW")))
            printf("    seed %llu bucket %llu regret %.3f\n", (unsigned long long)seed,
                   (unsigned long long)i, o.regret);
    }
    if (further)
        add_further_launches(&surface, contenders, decided, search, work->luck, &noise, further);
    search_close(search);
}

/* `claims` and `further` may be NULL. */
static struct summary run_work(const struct plan_of_work *work, const struct entrant *e,
                               struct claims *claims, struct further *further)
{
    struct summary s = { .harmed = 0 };

    for (size_t i = 0; i < work->systems; i++)
        run_system(work, e, work->seed + i, &s, claims, further);
    return s;
}

static void show(const struct plan_of_work *work, const struct entrant *e, const char *name)
{
    struct summary s = run_work(work, e, NULL, NULL);

    summary_print(name, &s);
    summary_free(&s);
}

/* ---- sections */

struct options {
    size_t cases; /* buckets per row */
    uint64_t seed;
    const char *only; /* conditions of this name; NULL: all */
    double luck;
    bool guided_only;
};

static const struct {
    const char *name;
    uint32_t slices;
} layers[] = { { "W/E 1", 1 }, { "W/E 8", 8 }, { "W/E 32", 32 }, { "W/E 128", 128 } };
enum { LAYERS = sizeof(layers) / sizeof(layers[0]) };
static const double sigmas[] = { 0.02, 0.05, 0.10 };

/* What must be true of the published plans under one kind of noise: means over the layers, shares
 * of all buckets, in %. */
static const struct condition {
    const char *name;
    double sigma;
    enum noise_turns turns;
    bool default_best;
    double regret, p99, steps, harmed; /* at most; 0: not asked for.  Steps: in the first launch */
    double luck;                       /* of a launch */
    bool foreign;                      /* machines that the cost model cannot express */
} conditions[] = {
    { "noise 2 %", 0.02, NOISE_STEADY, false, 0.09, 0, 16, 0.3, 0 },
    { "noise 5 %", 0.05, NOISE_STEADY, false, 0.30, 3, 21, 0.3, 0 },
    { "noise 10 %", 0.10, NOISE_STEADY, false, 0.80, 0, 29, 0.5, 0 },
    { "noise 20 %", 0.20, NOISE_STEADY, false, 2.2, 0, 40, 0.5, 0 },
    { "noise 5 %, bursts", 0.05, NOISE_BURSTS, false, 0.36, 0, 0, 0.3, 0 },
    { "noise 5 %, switching", 0.05, NOISE_SWITCHES, false, 0.9, 0, 0, 0.3, 0 },
    { "noise 5 %, launch luck 2 %", 0.05, NOISE_STEADY, false, 0, 0, 0, 0, 0.02 },
    /* Wherever another plan is published it does harm: the limit itself, 1 %, is what may be. */
    { "noise 5 %, the default is best", 0.05, NOISE_STEADY, true, 0, 0, 0, 1, 0 },
    { .name = "foreign 2 %", .sigma = 0.02, .foreign = true },
    { .name = "foreign 5 %", .sigma = 0.05, .foreign = true },
    { .name = "foreign 10 %", .sigma = 0.10, .foreign = true },
    { .name = "foreign 20 %", .sigma = 0.20, .foreign = true },
};

struct totals {
    double regret, steps, searched, bound, oracle;
    double regret_error, steps_error, harmed_error; /* squares of them */
    size_t buckets, harmed, hurt, bounded, covered;
    double launches, pairs, later_regret, later_harmed; /* further launches, and what they leave */
    double later_regret_error, later_harmed_error, later_p99, later_p99_error, later_worst;
};

static double square_of_share(double x)
{
    return x * x / LAYERS / LAYERS;
}

static void add_totals(struct totals *t, struct summary *s)
{
    t->regret += column_mean(&s->regret) / LAYERS;
    t->steps += column_mean(&s->samples) / LAYERS;
    t->searched += column_mean(&s->searched) / LAYERS;
    t->regret_error += square_of_share(column_error(&s->regret, column_mean));
    t->steps_error += square_of_share(column_error(&s->samples, column_mean));
    t->harmed_error += square_of_share(column_error(&s->harm, column_harmed));
    t->bound += column_mean(&s->bound) / LAYERS;
    t->buckets += s->regret.count;
    t->harmed += s->harmed;
    t->hurt += s->hurt;
    t->bounded += s->bound.count;
    t->covered += s->covered;
}

static void add_further(struct totals *t, const struct further *f)
{
    t->launches += column_mean(&f->launches) / LAYERS;
    t->pairs += column_mean(&f->pairs) / LAYERS;
    t->later_regret += column_mean(&f->regret) / LAYERS;
    t->later_harmed += column_harmed(&f->harm) / LAYERS;
    t->later_regret_error += square_of_share(column_error(&f->regret, column_mean));
    t->later_harmed_error += square_of_share(column_error(&f->harm, column_harmed));
    t->later_p99 += column_p99(&f->regret) / LAYERS;
    t->later_p99_error += square_of_share(column_error(&f->regret, column_p99));
    t->later_worst = fmax(t->later_worst, column_at(&f->regret, 1));
}

/* `error`: the value's standard error; NAN: not known. */
static void judge(const char *what, double value, double error, double least, double most)
{
    bool met = value >= least && value <= most;

    printf("  %-42s %8.3f", what, value);
    if (!isnan(error))
        printf(" +- %.3f", error);
    if (most > 0)
        printf("  (%g to %g) %s", least, most, met ? "met" : "MISSED");
    printf("\n");
}

static void judge_condition(const struct condition *c, const struct totals *t)
{
    double share = 100.0 / (double)t->buckets;

    printf("%s, over the four:\n", c->name);
    judge("regret, mean %", t->later_regret, sqrt(t->later_regret_error), 0, c->regret);
    if (t->oracle > 0)
        judge("regret over that with the true model", t->later_regret / t->oracle, NAN, 0, 0);
    judge("regret, 99 %", t->later_p99, sqrt(t->later_p99_error), 0, c->p99);
    judge("regret, the worst", t->later_worst, NAN, 0, 0);
    judge("buckets slower than the default by 1 %, %", t->later_harmed, sqrt(t->later_harmed_error),
          0, c->harmed);
    judge("steps of a bucket in the first launch", t->steps, sqrt(t->steps_error), 0, c->steps);
    judge("of them for the search", t->searched, NAN, 0, 0);
    judge("further launches of the ranks", t->launches, NAN, 0, 0);
    judge("pairs of a bucket in them", t->pairs, NAN, 0, 0);
    judge("all steps", t->steps + 2 * t->pairs, NAN, 0, 0);
    judge("published before them: regret, mean %", t->regret, sqrt(t->regret_error), 0, 0);
    judge("slower than the default by 1 %, %", share * (double)t->harmed, sqrt(t->harmed_error), 0,
          0);
    judge("bound holds, %", 100 * (double)t->covered / (double)t->bounded, NAN, 94, 98);
    judge("bound, mean %", t->bound, NAN, 0, 0);
}

static void run_layer(const struct options *o, const struct condition *c, int layer,
                      struct totals *t)
{
    struct plan_of_work work = { .surface = { .slices = layers[layer].slices,
                                              .foreign = c->foreign },
                                 .sigma = c->sigma,
                                 .outliers = 0.01,
                                 .luck = fmax(o->luck, c->luck),
                                 .turns = c->turns,
                                 .default_best = c->default_best,
                                 .systems = (o->cases + 11) / 12,
                                 .buckets = 12,
                                 .seed = o->seed + 10000 * (uint64_t)(layer + 1) };
    bool rivals = !o->guided_only && c->sigma == 0.05 && !c->turns && !c->default_best && !c->luck;
    struct further further = { .pairs = { NULL, 0, 0 } };
    struct summary s;

    printf("\n%s, %s, 12 scattered capacities per system\n", c->name, layers[layer].name);
    printf(summary_heading);
    for (int e = 0; rivals && e < GUIDED; e++)
        show(&work, &entrants[e], entrants[e].name);
    s = run_work(&work, guided, NULL, &further);
    summary_print(guided->name, &s);
    add_totals(t, &s);
    add_further(t, &further);
    summary_free(&s);
    further_free(&further);
    if (c->default_best || o->guided_only)
        return; /* what the former's true model is nobody knows */
    s = run_work(&work, oracle, NULL, NULL);
    summary_print(oracle->name, &s);
    t->oracle += column_mean(&s.regret) / LAYERS;
    summary_free(&s);
}

static void section_regret(const struct options *o)
{
    for (size_t n = 0; n < sizeof(conditions) / sizeof(conditions[0]); n++) {
        struct totals t = { 0 };

        if (o->only && strcmp(conditions[n].name, o->only) != 0)
            continue;
        for (int l = 0; l < LAYERS; l++)
            run_layer(o, &conditions[n], l, &t);
        printf("\n");
        judge_condition(&conditions[n], &t);
    }
}

/* What the decision claims is made of one launch's samples, of which some chose the plan. */
static void section_claims(const struct options *o)
{
    static const double noises[] = { 0.03, 0.05, 0.10 }, lucks[] = { 0, 0.01, 0.02, 0.04 };

    printf("\nclaimed gains over the default, intervals of 95 %%, the four layers\n"
           "noise%%  luck%%   regret%%  +-     claims  hold%% (many launches)  (the next one)  "
           "half-width%%\n");
    for (int n = 0; n < 3; n++)
        for (int l = 0; l < 4; l++) {
            struct claims claims = { .count = 0 };
            struct totals t = { 0 };

            for (int layer = 0; layer < LAYERS; layer++) {
                struct plan_of_work work = { .surface = { .slices = layers[layer].slices },
                                             .sigma = noises[n],
                                             .outliers = 0.01,
                                             .luck = lucks[l],
                                             .systems = (o->cases + 11) / 12,
                                             .buckets = 12,
                                             .seed = o->seed + 10000 * (uint64_t)(layer + 1) };
                struct summary s = run_work(&work, guided, &claims, NULL);

                add_totals(&t, &s);
                summary_free(&s);
            }
            printf("%6g %6g  %8.3f  %5.3f %7.0f  %12.1f %19.1f %18.2f\n", 100 * noises[n],
                   100 * lucks[l], t.regret, sqrt(t.regret_error), claims.count,
                   100 * claims.held / claims.count, 100 * claims.held_further / claims.count,
                   100 * claims.half / claims.count);
        }
}

static void section_neighbours(const struct options *o)
{
    for (int n = 0; n < 3; n++) {
        printf("\nnoise %g %%, 40 neighbouring capacities per system (walk by 15 %%), guided\n",
               100 * sigmas[n]);
        printf(summary_heading);
        for (int l = 0; l < LAYERS; l++) {
            struct plan_of_work work = { .surface = { .slices = layers[l].slices },
                                         .sigma = sigmas[n],
                                         .outliers = 0.01,
                                         .systems = (o->cases + 39) / 40,
                                         .buckets = 40,
                                         .neighbouring = true,
                                         .seed = o->seed + 100000 * (uint64_t)(l + 1) };

            show(&work, guided, layers[l].name);
        }
    }
}

static void section_stress(const struct options *o)
{
    struct summary s;
    struct plan_of_work work = { .surface = { .belief_sd = 1 },
                                 .sigma = 0.05,
                                 .outliers = 0.05,
                                 .systems = (o->cases * 8 + 11) / 12,
                                 .buckets = 12,
                                 .seed = o->seed + 1000000 };

    printf("\nstress: noise 5 %%, outliers 5 %%, priors wrong by e^1 (sd 1 in log)\n");
    printf(summary_heading);
    s = run_work(&work, guided, NULL, NULL);
    summary_print("guided", &s);
    judge("regret, mean %", column_mean(&s.regret), column_error(&s.regret, column_mean), 0, 0.4);
    summary_free(&s);
}

static void section_pockets(const struct options *o)
{
    struct plan_of_work work = { .surface = { .slices = 32, .pockets = 3 },
                                 .sigma = 0.05,
                                 .outliers = 0.01,
                                 .systems = (o->cases + 11) / 12,
                                 .buckets = 12,
                                 .seed = o->seed + 2000000 };

    printf("\nhidden pockets: 3 regions per system 10 to 50 %% faster or slower, W/E 32, noise 5 "
           "%%\n");
    printf(summary_heading);
    for (int e = 0; e < ENTRANTS; e++)
        if (!strcmp(entrants[e].name, "race without model") || &entrants[e] == guided ||
            !strcmp(entrants[e].name, "paper x5"))
            show(&work, &entrants[e], entrants[e].name);
}

/* ---- the time of a decision */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static struct surface largest_surface(uint64_t seed)
{
    struct surface_options options = { .slices = 128 };
    struct surface s = surface_make(seed, &options);

    s.shape.ranks = 2048;
    s.shape.experts = 1;
    s.shape.ranks_per_node = 8;
    s.arm_count = plan_list(&s.shape, s.arms, SEARCH_ARMS_MAX);
    return s;
}

static void section_time(const struct options *o)
{
    struct surface surface = largest_surface(o->seed);
    struct noise noise = noise_make(1, 0.05, 0.01, true);
    struct search *search = open_search(&surface, guided, o->seed);
    struct value_column opened = { NULL, 0, 0 }, decided = { NULL, 0, 0 },
                        inferred = { NULL, 0, 0 };

    for (uint64_t i = 0; i < 60; i++) {
        struct search_result verdict;
        struct true_bucket b;
        double begin;
        int arm;

        if (!surface_bucket(&surface, floor(64 * pow(1000, uniform_draw(o->seed, i))), 0, &b))
            continue;
        begin = now_us();
        search_begin(search, b.capacity, b.usable, false);
        if (i >= 20)
            column_add(&opened, now_us() - begin);
        while ((arm = search_next(search)) != SEARCH_DONE) {
            int64_t ns = noise_sample(&noise, b.ns[arm]);

            begin = now_us();
            search_tell(search, arm, ns);
            search_next(search);
            if (i >= 20)
                column_add(&decided, now_us() - begin);
        }
        begin = now_us();
        search_infer(search, (uint64_t)((double)b.capacity * 1.1), NULL, &verdict);
        if (i >= 20)
            column_add(&inferred, now_us() - begin);
    }
    printf("\nW = 2048, %zu plans, after 20 visits, us: a decision %.0f mean, %.0f median, %.0f "
           "p99, %.0f most;\n  opening a visit %.0f mean, inferring a bucket %.0f mean (%zu "
           "decisions)\n",
           surface.arm_count, column_mean(&decided), column_at(&decided, 0.5),
           column_at(&decided, 0.99), column_at(&decided, 1), column_mean(&opened),
           column_mean(&inferred), decided.count);
    search_close(search);
    free(opened.values);
    free(decided.values);
    free(inferred.values);
}

static const struct {
    const char *name;
    void (*run)(const struct options *options);
} sections[] = {
    { "regret", section_regret },         { "claims", section_claims },
    { "neighbours", section_neighbours }, { "stress", section_stress },
    { "pockets", section_pockets },       { "time", section_time },
};

static bool take_option(void *options, const char *text)
{
    struct options *o = options;

    if (!strcmp(text, "--quick"))
        o->cases = 96;
    else if (!strncmp(text, "--only=", 7))
        o->only = text + 7;
    else if (!strcmp(text, "--guided"))
        o->guided_only = true;
    else if (!strncmp(text, "--cases=", 8))
        o->cases = strtoul(text + 8, NULL, 10);
    else if (!strncmp(text, "--luck=", 7))
        o->luck = strtod(text + 7, NULL);
    else if (!strncmp(text, "--seed=", 7))
        o->seed = strtoul(text + 7, NULL, 10);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options o = { .cases = 600, .seed = 1 };
    int count = words_left(argc, argv, take_option, &o);

    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++)
        if (section_wanted(sections[s].name, argv, count))
            sections[s].run(&o);
    return 0;
}
