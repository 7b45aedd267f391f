/* Checks what tables claim, on made-up clusters whose truth is known.  It runs `tune` as a whole,
 * from the first step of the search to the last launch, with ranks that answer from made-up times
 * (made_ranks.h).
 *
 *     bench_claims [--cases=N] [--seed=N] [--noise=PERCENT] [--luck=PERCENT] [SECTION]...
 *
 * claims: compares the gains of entries over the default plan with gains in launches that tune did
 * not see, and with their mean. alike: all plans take the same time, so there is nothing to find.
 * table: 511 narrow buckets, of which few are measured: regret of those, and between them. */
#include "arms.h"
#include "command_words.h"
#include "made_ranks.h"
#include "made_table.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is required, in % */

static const double covered_least = 91, all_least = 93, all_most = 97; /* of claims */
static const double adopted_most = 2, nothing_least = 92;              /* where all are alike */

/* ---- one table of a made-up cluster */

enum { TOKENS = 65536, BUCKETS = 24, FURTHER = 8 };

static double true_ns(const void *self, const struct moe_shape *shape, const struct moe_plan *plan,
                      uint64_t capacity)
{
    const struct surface *s = self;
    int arm = arms_find(s->arms, s->arm_count, plan);

    (void)shape;
    return arm < 0 ? NAN : surface_ns(s, (double)capacity, arm);
}

static struct surface system_of(uint64_t seed, uint32_t slices, bool alike)
{
    struct surface_options options = { .slices = slices, .alike = alike };
    struct surface s = surface_make(seed, &options);

    s.shape.tokens = TOKENS;
    s.memory_bytes = INFINITY; /* as tune is told */
    return s;
}

/* ---- what its entries say */

struct cell {
    double noise, luck; /* shares */
    struct claims claims;
    double squares; /* of how far a claim lies from the mean launch, in deviations */
    /* Of buckets between: how many claim something; claims that are intervals. */
    double inferred;
    struct claims inferred_claims;
    double tables, buckets;
    double adopted, nothing, harmed, gain, regret, claimed, steps;
    double of_tables[3]; /* sums of covered^2, covered * claims and claims^2 */
};

/* In how many of some launches that tune did not see the gain is what was claimed. */
static double share_of_further(const struct surface *s, const struct entry_row *e, double ratio)
{
    struct moe_plan standard = plan_default(NULL);
    double inside = 0;

    for (uint32_t launch = 1000; launch < 1000 + FURTHER; launch++) {
        double luck = made_luck(&s->shape, &e->plan, e->capacity, launch) -
                      made_luck(&s->shape, &standard, e->capacity, launch);

        inside += gain_holds(&e->gain, -expm1(ratio + luck));
    }
    return inside / FURTHER;
}

static void judge_entry(const struct surface *s, const struct entry_row *e, struct cell *c)
{
    double ratio, gain, half = (e->gain.high - e->gain.low) / 2;
    bool claims = isfinite(e->gain.value) && !plan_is_default(&e->plan, NULL);
    int arm = arms_find(s->arms, s->arm_count, &e->plan);
    struct true_bucket b;

    surface_bucket(s, (double)e->capacity, 0, &b);
    ratio = log(b.ns[arm] / b.ns[b.default_arm]);
    gain = -expm1(ratio);
    if (entry_is(e, ENTRY_INFERRED)) {
        c->inferred += claims;
        if (claims && isfinite(half))
            claims_add(&c->inferred_claims, &e->gain, gain, share_of_further(s, e, ratio));
        return;
    }
    c->buckets++;
    c->adopted += !strcmp(e->decision, "adopted");
    c->nothing += !claims || gain_holds(&e->gain, 0);
    c->harmed += ratio > .01;
    c->gain += gain;
    c->regret += true_bucket_regret(&b, arm);
    if (!claims)
        return;
    claims_add(&c->claims, &e->gain, gain, share_of_further(s, e, ratio));
    c->squares += pow(1.96 * (e->gain.value - gain) / half, 2);
    c->claimed += e->gain.value - gain;
}

static void judge_table(const struct surface *s, const struct table_rows *table, struct cell *c)
{
    double claims = c->claims.count, covered = c->claims.held_further;

    for (size_t i = 0; i < table->count; i++)
        judge_entry(s, &table->entries[i], c);
    claims = c->claims.count - claims;
    covered = c->claims.held_further - covered;
    c->tables++;
    c->steps += table->timed;
    c->of_tables[0] += covered * covered;
    c->of_tables[1] += covered * claims;
    c->of_tables[2] += claims * claims;
}

struct options {
    double cases; /* buckets of a cell */
    uint64_t seed;
    double noise, luck; /* of the one cell that is wanted, in %; negative: all */
};

static int tune(const struct surface *s, int buckets, uint64_t seed, double noise, double luck,
                struct table_rows *out)
{
    double rows = 2.0 * TOKENS * s->shape.top_k / s->shape.experts;
    uint32_t window = (uint32_t)ceil(rows / buckets), last = (uint32_t)buckets - 1;
    struct made_table table = { s, window, 1, last, "normal", seed };

    made_ranks = (struct made_ranks){ .true_ns = true_ns,
                                      .self = s,
                                      .noise = noise,
                                      .outliers = .01,
                                      .luck = luck,
                                      .seed = random_bits(s->seed, 17) };
    return made_table_tune(&table, out);
}

/* The same layers and machines in every cell. */
static int run_cell(const struct options *o, bool alike, struct cell *c)
{
    static const uint32_t slices[] = { 1, 8, 32, 128 };
    int rc = OK;

    for (uint64_t i = 0; c->buckets < o->cases && !rc; i++) {
        uint64_t seed = random_bits(o->seed, i);
        struct surface s = system_of(seed, alike ? 8 : slices[i % 4], alike);
        struct table_rows rows;

        rc = tune(&s, BUCKETS, i + 1, c->noise, c->luck, &rows);
        if (!rc)
            judge_table(&s, &rows, c);
        table_rows_free(&rows);
    }
    return rc;
}

/* ---- sections */

static bool is_wanted(double wanted, double percent)
{
    return wanted < 0 || fabs(wanted - percent) < 1e-9;
}

static void judge(const char *what, double value, double least, double most)
{
    printf("  %-58s %6.2f  (%g to %g) %s\n", what, value, least, most,
           value >= least && value <= most ? "met" : "MISSED");
}

static double coverage(const struct cell *c)
{
    return 100 * c->claims.held_further / c->claims.count;
}

/* Half of its interval: tables are drawn independently, buckets of one are not. */
static double coverage_half(const struct cell *c)
{
    double share = c->claims.held_further / c->claims.count;
    double squares =
        c->of_tables[0] - 2 * share * c->of_tables[1] + share * share * c->of_tables[2];

    return 196 * sqrt(fmax(squares, 0)) / c->claims.count;
}

static void print_cell(const char *name, const struct cell *c)
{
    const struct claims *between = &c->inferred_claims;
    double claims = c->claims.count, buckets = c->buckets;

    printf("%-12s %6.0f %6.0f   %5.1f +- %3.1f %6.1f %6.2f %+6.2f %6.2f   %6.0f", name, buckets,
           claims, coverage(c), coverage_half(c), 100 * c->claims.held / claims,
           sqrt(c->squares / claims), 100 * c->claimed / claims, 100 * c->claims.half / claims,
           c->inferred);
    if (between->count)
        printf(" %5.1f %6.2f", 100 * between->held_further / between->count,
               100 * between->half / between->count);
    else
        printf(" %5s %6s", "-", "-");
    printf("   %5.1f %6.2f %6.1f %6.2f %5.1f\n", 100 * c->adopted / buckets,
           100 * c->harmed / buckets, 100 * c->gain / buckets, 100 * c->regret / buckets,
           c->steps / buckets);
    fflush(stdout);
}

/* All fields are sums of numbers. */
static void add_cell(struct cell *sum, const struct cell *c)
{
    const double *from = (const double *)(const void *)c;
    double *to = (double *)(void *)sum;

    for (size_t i = 0; i < sizeof(*c) / sizeof(double); i++)
        to[i] += from[i];
}

static int section_claims(const struct options *o)
{
    static const double noises[] = { 3, 5, 10, 30 }, lucks[] = { 0, 1, 2, 4 };
    struct cell all = { .noise = 0 };
    double least = 100;

    printf(
        "\nclaims: further launches whose gain is in the interval that is claimed (of 95 %%; +- "
        "its own "
        "interval, over tables),\nthe same of the mean launch; rms z of that; what is claimed too "
        "much, and half-widths, points; of buckets between\n(inferred) how many have another plan "
        "than the default, and the same of their intervals; %% of buckets adopted, slower\nthan "
        "the "
        "default by 1 %%; what they save, and lose beside the best plan, %% on average; steps of a "
        "bucket\n");
    printf("noise luck  buckets claims   further      mean      z   over   half  inferred hold   "
           "half  adopted slower  saves   lose steps\n");
    for (int n = 0; n < (o->noise < 0 ? 3 : 4); n++) /* 30 %: where it is asked for */
        for (int l = 0; l < 4; l++) {
            struct cell c = { .noise = noises[n] / 100, .luck = lucks[l] / 100 };
            char name[32];

            if (!is_wanted(o->noise, noises[n]) || !is_wanted(o->luck, lucks[l]))
                continue;
            TRY(run_cell(o, false, &c));
            snprintf(name, sizeof(name), "%3g %% %3g %%", noises[n], lucks[l]);
            print_cell(name, &c);
            add_cell(&all, &c);
            least = fmin(least, coverage(&c));
        }
    print_cell("all", &all);
    judge("claims that hold, over all, %", coverage(&all), all_least, all_most);
    judge("in the worst of the cells, %", least, covered_least, 100);
    return OK;
}

static int section_alike(const struct options *o)
{
    static const double lucks[] = { 0, 2 };

    printf("\nalike: all plans take the same time, noise 5 %%, W/E 8\n");
    for (int l = 0; l < 2; l++) {
        struct cell c = { .noise = .05, .luck = lucks[l] / 100 };

        if (!is_wanted(o->luck, lucks[l]))
            continue;
        TRY(run_cell(o, true, &c));
        printf("launch luck %g %%, %.0f buckets of %.0f tables, %.1f steps each:\n", lucks[l],
               c.buckets, c.tables, c.steps / c.buckets);
        judge("adopted, %", 100 * c.adopted / c.buckets, 0, adopted_most);
        judge("the interval holds 0, or nothing is claimed, %", 100 * c.nothing / c.buckets,
              nothing_least, 100);
        printf("  %-58s %6.2f\n", "claimed where another plan is published, on average, %",
               100 * c.claimed / c.claims.count);
    }
    return OK;
}

/* What is measured, and what is inferred between. */
struct whole_table {
    struct summary measured, between, all;
    struct value_column steps;
};

static void add_table(const struct surface *s, const struct table_rows *rows,
                      struct whole_table *out)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct entry_row *e = &rows->entries[i];
        struct bucket_outcome o;
        struct true_bucket b;

        surface_bucket(s, (double)e->capacity, 0, &b);
        o = entry_outcome(&b, arms_find(s->arms, s->arm_count, &e->plan), e);
        summary_add(entry_is(e, ENTRY_INFERRED) ? &out->between : &out->measured, &o);
        summary_add(&out->all, &o);
    }
    column_add(&out->steps, rows->timed);
}

static int section_table(const struct options *o)
{
    static const double noises[] = { 2, 5, 10 };
    static const uint32_t slices[] = { 8, 32, 128 };
    enum { NARROW = 512 };

    for (int n = 0; n < 3; n++)
        for (int l = 0; l < 3; l++) {
            struct whole_table t = { .steps = { NULL, 0, 0 } };
            struct table_rows rows;
            int rc = OK;

            if (!is_wanted(o->noise, noises[n]))
                continue;
            for (uint64_t i = 0; (double)i < o->cases / 60 && !rc; i++) {
                uint64_t seed = random_bits(o->seed, 3000000 + 1000 * (uint64_t)l + i);
                struct surface s = system_of(seed, slices[l], false);

                rc = tune(&s, NARROW, i + 1, noises[n] / 100, 0, &rows);
                if (!rc)
                    add_table(&s, &rows, &t);
                table_rows_free(&rows);
            }
            TRY(rc);
            printf(
                "\ntable: W/E %u, noise %g %%, %zu tables: %.0f steps (median %.0f, most %.0f)\n",
                slices[l], noises[n], t.steps.count, column_mean(&t.steps),
                column_at(&t.steps, 0.5), column_at(&t.steps, 1));
            printf(summary_heading);
            summary_print("measured", &t.measured);
            summary_print("between", &t.between);
            summary_print("all", &t.all);
            summary_free(&t.measured);
            summary_free(&t.between);
            summary_free(&t.all);
            free(t.steps.values);
        }
    return OK;
}

static const struct {
    const char *name;
    int (*run)(const struct options *o);
} sections[] = { { "claims", section_claims },
                 { "alike", section_alike },
                 { "table", section_table } };

static bool take_option(void *options, const char *text)
{
    struct options *o = options;

    if (!strncmp(text, "--cases=", 8))
        o->cases = strtod(text + 8, NULL);
    else if (!strncmp(text, "--seed=", 7))
        o->seed = strtoull(text + 7, NULL, 10);
    else if (!strncmp(text, "--noise=", 8))
        o->noise = strtod(text + 8, NULL);
    else if (!strncmp(text, "--luck=", 7))
        o->luck = strtod(text + 7, NULL);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options o = { .cases = 300, .seed = 1, .noise = -1, .luck = -1 };
    int count = words_left(argc, argv, take_option, &o);

    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++)
        if (section_wanted(sections[s].name, argv, count) && sections[s].run(&o))
            return 1;
    return 0;
}
