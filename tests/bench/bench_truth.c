/* Checks whether a published table is true.  It times every legal plan anew, in several launches of
 * the same ranks, by the same steps as tune, and compares.  No sample goes into a database.
 *   bench_truth measure --name NAME --launches N --out FILE TABLE.db [HOSTS]
 *   bench_truth verdict FILE
 * `measure` adds a line to FILE; `verdict` compares all its lines with the required limits. */
#include "arms.h"
#include "cluster.h"
#include "crew.h"
#include "heat.h"
#include "host.h"
#include "launch.h"
#include "measure.h"
#include "options.h"
#include "paired_rounds.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "table_rows.h"
#include "text.h"
#include "truth_outcome.h"
#include "verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is required of a table */

static const double static_most = 1.01, regret_most = .02, worst_most = .08;
static const double expected_most = .15; /* the width of an interval of plan --worth */
static const double covered_least = .9, deviations_most = 1.2; /* of claims; rms of their z */
/* What an interval may be wide, half of it, to be told from an equal one; emulated hosts share two
 * cores with what emulates their links. */
static const double half_most = .02, half_most_of_hosts = .04;

/* ---- the table, and the buckets of it that are looked at */

enum { MEASURED_MOST = 8, INFERRED_MOST = 2 };

struct subject {
    struct moe_shape shape;
    struct entry_row entries[ROUNDS_BUCKETS];
    int table[ROUNDS_BUCKETS]; /* the numbers of their plans */
    size_t count;
    struct moe_plan plans[ROUNDS_PLANS];
    size_t plan_count;
    int default_arm; /* the default's number */
    double tuning_steps;
};

/* At most so many, evenly over all there are of that kind. */
static void pick(const struct table_rows *list, bool inferred, size_t most, struct subject *s)
{
    size_t of_kind = 0, wanted, taken = 0, seen = 0;

    for (size_t i = 0; i < list->count; i++)
        of_kind += list->entries[i].inferred == inferred;
    wanted = of_kind < most ? of_kind : most;
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].inferred != inferred)
            continue;
        if (taken < wanted && seen++ >= taken * (of_kind - 1) / (wanted > 1 ? wanted - 1 : 1)) {
            s->entries[s->count++] = list->entries[i];
            taken++;
        }
    }
}

/* Under a load experts without padding are tried, too. */
static int list_plans(struct subject *s)
{
    const struct arms_setup with_e = { .axes = "r,d,a,e" };
    struct moe_plan default_plan = plan_default(NULL), plans[SEARCH_ARMS_MAX];

    s->plan_count = plan_list(&s->shape, s->plans, ROUNDS_PLANS);
    if (*s->entries[0].load) {
        TRY(arms_list(&s->shape, &with_e, plans, &s->plan_count));
        memcpy(s->plans, plans,
               (s->plan_count < ROUNDS_PLANS ? s->plan_count : ROUNDS_PLANS) * sizeof(*plans));
    }
    if (s->plan_count > ROUNDS_PLANS)
        return fail(ERR_ARGUMENT, "%zu plans are legal, %d can be timed", s->plan_count,
                    ROUNDS_PLANS);
    s->default_arm = arms_find(s->plans, s->plan_count, &default_plan);
    for (size_t b = 0; b < s->count; b++) {
        s->table[b] = arms_find(s->plans, s->plan_count, &s->entries[b].plan);
        if (s->table[b] < 0)
            return fail(ERR_ARGUMENT, "bucket %u: its plan is none of those that are legal",
                        s->entries[b].bucket);
    }
    return OK;
}

static int read_table(const char *path, struct subject *s)
{
    struct table_rows list;
    struct store *store;
    int rc;

    TRY(store_read(path, &store));
    TRY_OUT(table_rows_read(store, 0, 0, &list));
    if (!list.count)
        TRY_OUT(fail(ERR_ARGUMENT, "the table is empty"));
    for (size_t i = 1; i < list.count; i++)
        if (list.entries[i].shape != list.entries[0].shape)
            TRY_OUT(fail(ERR_ARGUMENT, "a table of one layer is wanted"));
    TRY_OUT(store_shape_get(store, list.entries[0].shape, &s->shape));
    s->tuning_steps = list.timed + list.warm;
    pick(&list, false, MEASURED_MOST, s);
    pick(&list, true, INFERRED_MOST, s);
    rc = list_plans(s);
out:
    store_close(store);
    table_rows_free(&list);
    return rc;
}

/* ---- rounds on the ranks */

struct measure_options {
    const char *name, *out, *sim, *expected;
    uint32_t launches;
    uint64_t seed;
};

struct measuring {
    struct measure_options options;
    struct subject subject;
    struct crew *crew;
    struct paired_rounds rounds;
    double seconds; /* they took */
};

/* Per rank; beyond it ranks close the plans that were not used for longest. */
static const int64_t memory_limit_bytes = (int64_t)1 << 30;

/* The ranks that take the place of these ones, launch by launch, are told it by the crew. */
static int set_layer(struct measuring *m)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = m->subject.shape,
                           .seed = m->options.seed,
                           .memory_limit_bytes = memory_limit_bytes };
    struct reply reply;

    /* The name of a skew is also its text; which experts are hot follows from tune's seed. */
    if (*m->subject.entries[0].load)
        order.seed = 1;
    text_put(order.load, sizeof(order.load), "%s", m->subject.entries[0].load);
    TRY(crew_do(m->crew, &order, &reply));
    return reply.state == TRIAL_OK
               ? OK
               : fail(ERR_DEVICE, "the layer cannot be set up: %s", reply.message);
}

/* How often a step that something else held back is taken again: tune sets such steps aside, too.
 */
enum { PATIENCE = 2 };

static int step(struct measuring *m, const struct entry_row *entry, int plan, double *ns)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = entry->capacity,
                           .plan = m->subject.plans[plan] };
    struct reply reply;
    int again = PATIENCE;

    do
        TRY(crew_do(m->crew, &order, &reply));
    while (reply.state == TRIAL_OK && again-- &&
           (reply.gpu.throttled || heat_lost_much(reply.ns, reply.lost_ns)));
    *ns = reply.state == TRIAL_OK ? (double)reply.ns : INFINITY;
    if (reply.state != TRIAL_OK)
        note("plan %d at c=%" PRIu64 ": %s", plan, entry->capacity, reply.message);
    return OK;
}

static int one_round(struct measuring *m, size_t launch, size_t round, size_t bucket)
{
    int n = (int)m->subject.plan_count, order[ROUNDS_PLANS];
    double ns[ROUNDS_PLANS];

    measure_order(m->options.seed + bucket, launch * ROUNDS_IN_LAUNCH + round, n, order);
    for (int i = 0; i < n; i++)
        TRY(step(m, &m->subject.entries[bucket], order[i], &ns[order[i]]));
    paired_rounds_tell(&m->rounds, launch, round, bucket, ns);
    return OK;
}

/* Every bucket once, for a few rounds.  Opening a plan warms it, which takes three steps: bucket
 * after bucket in every round would do little else, where not all of them can stay open. */
static int one_launch(struct measuring *m, uint32_t launch)
{
    int order[ROUNDS_BUCKETS];

    TRY(crew_relaunch(m->crew, launch));
    measure_order(~m->options.seed, launch, (int)m->subject.count, order);
    for (size_t b = 0; b < m->subject.count; b++)
        for (size_t round = 0; round < ROUNDS_IN_LAUNCH; round++)
            TRY(one_round(m, launch, round, (size_t)order[b]));
    return OK;
}

/* As many launches as were asked for, however long they take and whatever they say. */
static int take_rounds(struct measuring *m, const struct crew_setup *setup)
{
    int64_t begun_ns = host_clock_ns();
    int rc;

    TRY(paired_rounds_open(m->subject.plan_count, m->subject.count, m->options.launches,
                           &m->rounds));
    TRY(crew_open(setup, &m->crew));
    rc = set_layer(m);
    for (uint32_t launch = 0; launch < m->options.launches && !rc; launch++)
        rc = one_launch(m, launch);
    crew_close(m->crew);
    m->seconds = (double)(host_clock_ns() - begun_ns) * 1e-9;
    return rc;
}

/* ---- what they say */

static bool claims_something(const struct measuring *m, size_t bucket)
{
    const struct subject *s = &m->subject;

    return isfinite(s->entries[bucket].gain.value) && s->table[bucket] != s->default_arm;
}

static void judge_bucket(const struct measuring *m, const struct estimate *e, size_t bucket,
                         struct outcome *o)
{
    const struct interval *regret = &e->bucket_regret[bucket];

    if (bucket == 0 || regret->value > o->worst.value) {
        o->worst = *regret;
        o->worst_bucket = m->subject.entries[bucket].bucket;
    }
    o->bad_buckets += regret->value > worst_most && regret->low >= worst_most;
    if (claims_something(m, bucket)) {
        const struct gain *claim = &m->subject.entries[bucket].gain;
        const struct interval *gain = &e->bucket_gain[bucket];
        double z = claim_z(claim, gain);

        o->claims++;
        o->claims_covered += claim_covers(z);
        o->claims_squares += z * z;
        if (isfinite(claim->low) && isfinite(claim->high))
            o->claimed_half += (claim->high - claim->low) / 2;
        o->measured_half += (gain->high - gain->low) / 2;
    }
}

/* Gains of the whole range over the default, as tune counts buckets, each by its part of the range
 * of log c: of the table, and of the best plan of each bucket. */
static void find_gains(const struct measuring *m, const struct estimate *e, struct outcome *o)
{
    const struct subject *s = &m->subject;
    double sum = 0, best = 0, weights = 0;

    for (size_t b = 0; b < s->count; b++) {
        double c = log((double)s->entries[b].capacity), below = NAN, above = NAN, weight;

        for (size_t i = 0; i < s->count; i++) {
            double other = log((double)s->entries[i].capacity);

            below = other < c ? fmax(below, other) : below;
            above = other > c ? fmin(above, other) : above;
        }
        weight = fmax(above, c) - fmin(below, c);
        sum += weight * log1p(-e->bucket_gain[b].value);
        best += weight * (log1p(-e->bucket_gain[b].value) - log1p(e->bucket_regret[b].value));
        weights += weight;
    }
    o->gain = 1 - exp(sum / weights);
    o->gain_there = 1 - exp(best / weights);
}

static int read_expected(const char *text, struct outcome *o)
{
    struct interval *g = &o->expected, *s = &o->expected_static;

    *g = *s = (struct interval){ NAN, NAN, NAN };
    if (text && sscanf(text, "%lf %lf %lf %lf %lf %lf", &g->value, &g->low, &g->high, &s->value,
                       &s->low, &s->high) != 6)
        return fail(ERR_ARGUMENT, "--expected \"%s\": six numbers are wanted", text);
    return OK;
}

static struct outcome outcome_of(const struct measuring *m, const struct estimate *e)
{
    struct outcome o = { .plans = (double)m->subject.plan_count,
                         .buckets = (double)m->subject.count,
                         .launches = (double)m->rounds.launches,
                         .seconds = m->seconds,
                         .tuning_steps = m->subject.tuning_steps,
                         .over_default = e->over_default,
                         .over_static = e->over_static,
                         .over_best = e->over_best,
                         .regret = e->regret };

    find_gains(m, e, &o);
    snprintf(o.name, sizeof(o.name), "%s", m->options.name);
    for (size_t b = 0; b < m->subject.count; b++)
        judge_bucket(m, e, b, &o);
    if (o.claims) {
        o.claimed_half /= o.claims;
        o.measured_half /= o.claims;
    }
    return o;
}

static void print_head(const struct measuring *m)
{
    char shape[SHAPE_TEXT_BYTES];

    shape_format(&m->subject.shape, shape, sizeof(shape));
    printf(
        "  %s\n  tuning took %.0f steps; then %zu plans at %zu buckets, %d rounds in each of %zu "
        "launches, %.0f s\n",
        shape, m->subject.tuning_steps, m->subject.plan_count, m->subject.count, ROUNDS_IN_LAUNCH,
        m->rounds.launches, m->seconds);
}

static void print_bucket(const struct measuring *m, const struct estimate *e, size_t bucket)
{
    const struct entry_row *entry = &m->subject.entries[bucket];
    const struct interval *regret = &e->bucket_regret[bucket], *gain = &e->bucket_gain[bucket];
    char plan[PLAN_TEXT_BYTES];

    moe_plan_format(&entry->plan, plan, sizeof(plan));
    printf("  %6u %8" PRIu64 "  %-18s %-9s %6.1f [%5.1f, %5.1f]", entry->bucket, entry->capacity,
           plan, entry->decision, 100 * regret->value, 100 * regret->low, 100 * regret->high);
    if (claims_something(m, bucket)) {
        double z = claim_z(&entry->gain, gain);

        printf("   %6.1f [%5.1f, %5.1f] %6.1f [%5.1f, %5.1f] %5.1f%s", 100 * entry->gain.value,
               100 * entry->gain.low, 100 * entry->gain.high, 100 * gain->value, 100 * gain->low,
               100 * gain->high, z, claim_covers(z) ? "" : "  outside");
    }
    printf("\n");
}

static double half_of(const struct interval *interval)
{
    return (interval->high - interval->low) / 2;
}

static void print_ratio(const char *rival, const struct interval *ratio)
{
    printf("  table / %-28s %.3f [%.3f, %.3f], half-width %.3f\n", rival, ratio->value, ratio->low,
           ratio->high, half_of(ratio));
}

static void print_static(const struct measuring *m, const struct estimate *e)
{
    print_ratio("best static plan", &e->over_static);
    printf("    which is, as all other launches say");
    for (size_t l = 0; l < m->rounds.launches; l++) {
        size_t before = 0;

        while (e->static_plan[before] != e->static_plan[l])
            before++;
        if (before == l)
            printf("%s %s", l ? "," : "", PLAN_TEXT(&m->subject.plans[e->static_plan[l]]));
    }
    printf("\n");
}

/* The root of their mean square. */
static double rms_z(const struct outcome *o)
{
    return sqrt(o->claims_squares / o->claims);
}

static void print_outcome(const struct measuring *m, const struct estimate *e,
                          const struct outcome *o)
{
    print_head(m);
    printf("  bucket capacity  plan               how         regret %%              gain %%: "
           "claimed              measured               z\n");
    for (size_t b = 0; b < m->subject.count; b++)
        print_bucket(m, e, b);
    print_ratio("default", &e->over_default);
    print_static(m, e);
    print_ratio("best plan per bucket", &e->over_best);
    printf("  mean regret %.1f %% [%.1f, %.1f]; worst bucket %.0f: %.1f %% [%.1f, %.1f]\n",
           100 * o->regret.value, 100 * o->regret.low, 100 * o->regret.high, o->worst_bucket,
           100 * o->worst.value, 100 * o->worst.low, 100 * o->worst.high);
    if (o->claims)
        printf(
            "  claims that hold what was measured: %.0f of %.0f, rms z %.2f; half-widths: claimed "
            "%.1f, measured %.1f points\n",
            o->claims_covered, o->claims, rms_z(o), 100 * o->claimed_half, 100 * o->measured_half);
    if (!isnan(o->expected.value))
        printf(
            "  gain over the default %.1f %%, of the best plans %.1f; plan --worth expected %.1f "
            "[%.1f, %.1f]; over the best static plan %.1f, expected %.1f [%.1f, %.1f]\n",
            100 * o->gain, 100 * o->gain_there, 100 * o->expected.value, 100 * o->expected.low,
            100 * o->expected.high, 100 * (1 - o->over_static.value),
            100 * o->expected_static.value, 100 * o->expected_static.low,
            100 * o->expected_static.high);
    if (o->claims < o->buckets)
        printf("  %.0f buckets claim nothing: the default, or nothing was proven\n",
               o->buckets - o->claims);
}

static int report(const struct measuring *m)
{
    struct estimate e;
    struct outcome o;

    paired_rounds_estimate(&m->rounds, m->subject.table, m->subject.default_arm, &e);
    o = outcome_of(m, &e);
    TRY(read_expected(m->options.expected, &o));
    print_outcome(m, &e, &o);
    return m->options.out ? outcome_write(m->options.out, &o) : OK;
}

/* ---- the verbs */

static int measure(const struct verb_call *call, void *options)
{
    struct measuring m = { .options = *(struct measure_options *)options };
    struct crew_setup setup = { .seed = m.options.seed, .device = "auto", .timeout_s = 120 };
    struct hosts hosts = { .count = 0 };
    struct cluster model;
    int rc;

    TRY(read_table(call->arguments[0], &m.subject));
    if (m.options.sim) {
        TRY(cluster_read_model(m.options.sim, m.subject.shape.ranks, &model));
        setup.model = &model;
    }
    rc = m.options.sim ? OK
                       : launch_place(call->arguments[1], m.subject.shape.ranks, NULL, 0, &hosts,
                                      &setup.where);
    if (!rc)
        rc = take_rounds(&m, &setup);
    if (!rc)
        rc = report(&m);
    paired_rounds_free(&m.rounds);
    hosts_free(&hosts);
    return rc;
}

/* An interval that reaches what is required says so only where it is narrow enough to say
 * anything. */
static bool is_narrow(const struct outcome *o)
{
    return half_of(&o->over_static) <= (strchr(o->name, '@') ? half_most_of_hosts : half_most);
}

static bool meets_static(const struct outcome *o)
{
    return o->over_static.value <= static_most ||
           (is_narrow(o) && o->over_static.low <= static_most);
}

static bool meets_regret(const struct outcome *o)
{
    return o->regret.value <= regret_most;
}

static bool meets_claims(const struct outcome *o)
{
    return o->claims_covered >= covered_least * o->claims &&
           o->claims_squares <= deviations_most * deviations_most * o->claims;
}

static void print_verdict(const struct outcome *o)
{
    printf(
        "%-26s %5.3f [%.3f, %.3f] %.3f %-4s %5.1f %6.1f [%5.1f, %5.1f] %-4s %3.0f of %2.0f %4.2f "
        "%4.1f %4.1f %-4s %5.3f %5.0f\n",
        o->name, o->over_static.value, o->over_static.low, o->over_static.high,
        half_of(&o->over_static),
        !meets_static(o)                     ? "NO"
        : o->over_static.value > static_most ? "?"
                                             : "",
        100 * o->regret.value, 100 * o->worst.value, 100 * o->worst.low, 100 * o->worst.high,
        meets_regret(o) ? "" : "NO", o->claims_covered, o->claims, o->claims ? rms_z(o) : 0,
        100 * o->claimed_half, 100 * o->measured_half, meets_claims(o) ? "" : "NO",
        o->over_default.value, o->tuning_steps);
}

/* Settings that meet each requirement, and all settings' claims as one. */
struct verdict {
    int settings, of_static, barely, wide, of_regret, of_worst;
    int expected, held, held_there, held_static,
        narrow; /* by `plan --worth`: how many, and of them */
    struct outcome claims;
};

static void count(const struct outcome *o, struct verdict *v)
{
    v->settings++;
    v->of_static += meets_static(o);
    v->barely += meets_static(o) && o->over_static.value > static_most;
    v->wide += !is_narrow(o);
    v->of_regret += meets_regret(o);
    v->of_worst += !o->bad_buckets;
    v->expected += !isnan(o->expected.value);
    v->held += o->gain >= o->expected.low && o->gain <= o->expected.high;
    v->held_there += o->gain_there >= o->expected.low && o->gain_there <= o->expected.high;
    v->held_static += 1 - o->over_static.value >= o->expected_static.low &&
                      1 - o->over_static.value <= o->expected_static.high;
    v->narrow += o->expected.high - o->expected.low <= expected_most;
    v->claims.claims += o->claims;
    v->claims.claims_covered += o->claims_covered;
    v->claims.claims_squares += o->claims_squares;
}

static void print_counts(const struct verdict *v)
{
    const struct outcome *claims = &v->claims;

    printf("\ntable / best static plan at most %.2f, or its interval reaches that: %d of %d, "
           "%d by the interval alone; in %d it is too wide to count (half: %.2f, hosts %.2f)\n",
           static_most, v->of_static, v->settings, v->barely, v->wide, half_most,
           half_most_of_hosts);
    printf("mean regret at most %.0f %%: %d of %d; no bucket certainly above %.0f %%: %d of %d\n",
           100 * regret_most, v->of_regret, v->settings, 100 * worst_most, v->of_worst,
           v->settings);
    if (v->expected)
        printf(
            "what plan --worth expected holds the table's gain over the default: %d of %d, that of "
            "the best plans: %d, the table's over the best static plan: %d; at most %.0f points "
            "wide: %d\n",
            v->held, v->expected, v->held_there, v->held_static, 100 * expected_most, v->narrow);
    if (claims->claims)
        printf(
            "claims that hold what was measured: %.0f of %.0f, %.1f %%, at least %.0f: %s; rms z "
            "%.2f, at most %.1f: %s\n",
            claims->claims_covered, claims->claims, 100 * claims->claims_covered / claims->claims,
            100 * covered_least,
            claims->claims_covered >= covered_least * claims->claims ? "met" : "NOT met",
            rms_z(claims), deviations_most, rms_z(claims) <= deviations_most ? "met" : "NOT met");
}

static int verdict(const struct verb_call *call, void *options)
{
    FILE *in = fopen(call->arguments[0], "r");
    struct verdict v = { 0 };
    char line[2048];

    (void)options;
    if (!in)
        return fail(ERR_IO, "%s cannot be read", call->arguments[0]);
    printf("%-26s %-31s %-34s %-28s %s\n", "setting", "table / best static, half-width",
           "regret %: mean, worst", "claims hold, rms z, half-widths",
           "table / default, tuning steps");
    while (fgets(line, sizeof(line), in)) {
        struct outcome o = { .plans = 0 };

        if (outcome_read(line, &o)) {
            print_verdict(&o);
            count(&o, &v);
        }
    }
    fclose(in);
    print_counts(&v);
    return OK;
}

#define AT(field) offsetof(struct measure_options, field)
static const struct option_row rows[] = {
    { "name", "TEXT", OPTION_TEXT, AT(name), "what the setting is called" },
    { "launches", "N", OPTION_COUNT, AT(launches), "of the ranks, 2 at least", .least = 2,
      .most = LAUNCHES_MOST },
    { "sim", "FILE", OPTION_TEXT, AT(sim), "ranks of a modelled cluster" },
    { "expected", "NUMBERS", OPTION_TEXT, AT(expected),
      "what plan --worth expected: gain, low, high, and those over the best static plan" },
    { "out", "FILE", OPTION_TEXT, AT(out), "a line of comma-separated values is added to it" },
    { "seed", "N", OPTION_SEED, AT(seed), "of random data and of the order" },
    { NULL },
};
#undef AT

/* Another seed than tune's: what drew the same would prove less. */
static const struct measure_options defaults = { .name = "table", .launches = 6, .seed = 3 };

static const struct verb measure_verb = {
    .name = "measure",
    .summary = "a table beside every legal plan",
    .arguments = "TABLE [HOSTS]",
    .least = 1,
    .most = 2,
    .about =
        "Times every legal plan in shuffled rounds at the buckets of a table, in several launches "
        "of the ranks, and judges it.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "measure --launches 6 moetune.db",
    .run = measure,
};

static const struct option_row no_rows[] = { { NULL } };

static const struct verb verdict_verb = {
    .name = "verdict",
    .summary = "what was measured against what is required",
    .arguments = "FILE",
    .least = 1,
    .most = 1,
    .about = "Holds every line of a file that `measure` wrote against what is required of a table.",
    .rows = no_rows,
    .example = "verdict truth.csv",
    .run = verdict,
};

/* `serve` is what the crew starts on the ranks. */
static const struct verb *const verbs[] = { &measure_verb, &verdict_verb, &serve_verb, NULL };

int main(int argc, char **argv)
{
    const struct verb *verb = argc > 1 ? verb_find(verbs, argv[1]) : NULL;

    if (!verb) {
        fprintf(stderr, "usage: bench_truth measure|verdict ... (--help)\n");
        return 2;
    }
    return verb_main(verb, argv, 1) ? 1 : 0;
}
