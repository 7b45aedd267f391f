/* Does the published table tell the truth?  Every legal plan is timed afresh beside what the table
 * says, on the same ranks, by the same steps as tune takes; samples go into no database.
 *   bench_truth measure --name NAME --seconds S --out FILE TABLE.db [HOSTS]
 *   bench_truth verdict FILE
 * `measure` adds a line to FILE; `verdict` holds all its lines against what is required. */
#include "crew.h"
#include "host.h"
#include "launch.h"
#include "measure.h"
#include "options.h"
#include "paired_rounds.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "truth_outcome.h"
#include "verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is required of a table */

static const double static_most = 1.01, regret_most = .02, worst_most = .08, claims_least = .9;

/* ---- the table, and the buckets of it that are looked at */

enum { MEASURED_MOST = 8, INFERRED_MOST = 2, ENTRIES_MAX = 4096, OUTCOMES_MAX = 64 };

struct subject {
    struct moe_shape shape;
    struct entry_row entries[ROUNDS_BUCKETS];
    size_t count;
    struct moe_plan plans[ROUNDS_PLANS];
    size_t plan_count;
    int default_arm; /* the default's number */
    double tuning_steps;
};

struct entry_list {
    struct entry_row *rows;
    size_t count;
};

static int keep_entry(void *self, const struct entry_row *entry)
{
    struct entry_list *list = self;

    if (list->count == ENTRIES_MAX)
        return fail(ERR_ARGUMENT, "more than %d entries", ENTRIES_MAX);
    if (list->count && entry->shape != list->rows[0].shape)
        return fail(ERR_ARGUMENT, "a table of one layer is wanted");
    list->rows[list->count++] = *entry;
    return OK;
}

/* At most so many, evenly over all there are of that kind. */
static void pick(const struct entry_list *list, bool inferred, size_t most, struct subject *s)
{
    size_t of_kind = 0, wanted, taken = 0, seen = 0;

    for (size_t i = 0; i < list->count; i++)
        of_kind += list->rows[i].inferred == inferred;
    wanted = of_kind < most ? of_kind : most;
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].inferred != inferred)
            continue;
        if (taken < wanted && seen++ >= taken * (of_kind - 1) / (wanted > 1 ? wanted - 1 : 1)) {
            s->entries[s->count++] = list->rows[i];
            taken++;
        }
    }
}

static int add_steps(struct store *store, double *steps)
{
    struct row_list runs;

    TRY(store_runs(store, &runs));
    EACH_ROW (run_row, run, runs)
        *steps += (double)(run->samples_search + run->samples_default + run->samples_warm);
    free(runs.rows);
    return OK;
}

static int number_of(const struct subject *s, const struct moe_plan *plan)
{
    for (size_t i = 0; i < s->plan_count; i++)
        if (plan_equal(&s->plans[i], plan))
            return (int)i;
    return -1;
}

static int list_plans(struct subject *s)
{
    struct moe_plan default_plan = plan_default(NULL);

    s->plan_count = plan_list(&s->shape, s->plans, ROUNDS_PLANS);
    if (s->plan_count > ROUNDS_PLANS)
        return fail(ERR_ARGUMENT, "%zu plans are legal, %d can be timed", s->plan_count,
                    ROUNDS_PLANS);
    s->default_arm = number_of(s, &default_plan);
    for (size_t b = 0; b < s->count; b++)
        if (number_of(s, &s->entries[b].plan) < 0)
            return fail(ERR_ARGUMENT, "bucket %u: its plan is none of those that are legal",
                        s->entries[b].bucket);
    return OK;
}

static int read_entries(struct store *store, struct entry_list *list, struct subject *s)
{
    TRY(store_entries(store, 0, 0, keep_entry, list));
    if (!list->count)
        return fail(ERR_ARGUMENT, "the table is empty");
    TRY(store_shape_get(store, list->rows[0].shape, &s->shape));
    TRY(add_steps(store, &s->tuning_steps));
    pick(list, false, MEASURED_MOST, s);
    pick(list, true, INFERRED_MOST, s);
    return list_plans(s);
}

static int read_table(const char *path, struct subject *s)
{
    struct entry_list list = { .rows = calloc(ENTRIES_MAX, sizeof(*list.rows)) };
    struct store *store = NULL;
    int rc = list.rows ? OK : fail(ERR_NOMEM, "%d entries", ENTRIES_MAX);

    TRY_OUT(rc);
    TRY_OUT(store_read(path, &store));
    TRY_OUT(read_entries(store, &list, s));
out:
    store_close(store);
    free(list.rows);
    return rc;
}

/* ---- rounds on the ranks */

struct measure_options {
    const char *name, *out;
    double seconds;
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

static int set_layer(struct measuring *m)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = m->subject.shape,
                           .seed = m->options.seed,
                           .memory_limit_bytes = memory_limit_bytes };
    struct reply reply;

    TRY(crew_do(m->crew, &order, &reply));
    return reply.state == TRIAL_OK
               ? OK
               : fail(ERR_DEVICE, "the layer cannot be set up: %s", reply.message);
}

static int step(struct measuring *m, const struct entry_row *entry, int plan, double *ns)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = entry->capacity,
                           .plan = m->subject.plans[plan] };
    struct reply reply;

    TRY(crew_do(m->crew, &order, &reply));
    *ns = reply.state == TRIAL_OK ? (double)reply.ns : INFINITY;
    if (reply.state != TRIAL_OK)
        note("plan %d at c=%" PRIu64 ": %s", plan, entry->capacity, reply.message);
    return OK;
}

static int one_round(struct measuring *m, size_t round, size_t bucket)
{
    int n = (int)m->subject.plan_count, order[ROUNDS_PLANS];
    double ns[ROUNDS_PLANS];

    measure_order(m->options.seed + bucket, round, n, order);
    for (int i = 0; i < n; i++)
        TRY(step(m, &m->subject.entries[bucket], order[i], &ns[order[i]]));
    paired_rounds_tell(&m->rounds, round, bucket, ns);
    return OK;
}

/* Every bucket once, for a few rounds.  Opening a plan warms it, which takes three steps: bucket
 * after bucket in every round would do little else, where not all of them can stay open. */
static int visit_buckets(struct measuring *m)
{
    size_t first = m->rounds.count;
    int order[ROUNDS_BUCKETS];

    TRY(paired_rounds_grow(&m->rounds));
    measure_order(~m->options.seed, first, (int)m->subject.count, order);
    for (size_t b = 0; b < m->subject.count; b++)
        for (size_t i = 0; i < ROUNDS_IN_VISIT; i++)
            TRY(one_round(m, first + i, (size_t)order[b]));
    return OK;
}

/* By ranks of its own: what a process happens to get (memory, cores, ports) favours one plan or
 * another for as long as it lives, and a claim is of another process. */
static int visit_all(struct measuring *m, const struct crew_setup *setup)
{
    int rc;

    TRY(crew_open(setup, &m->crew));
    rc = set_layer(m);
    if (!rc)
        rc = visit_buckets(m);
    crew_close(m->crew);
    return rc;
}

/* What fits into the time, but never less than one visit for each half.  Another visit is begun
 * when half of it fits. */
static int take_rounds(struct measuring *m, const struct launch_where *where)
{
    struct crew_setup setup = { .where = *where, .device = "auto", .timeout_s = 120 };
    int64_t begun_ns = host_clock_ns();
    double visits = 0;

    m->rounds =
        (struct paired_rounds){ .plans = m->subject.plan_count, .buckets = m->subject.count };
    do {
        TRY(visit_all(m, &setup));
        visits++;
        m->seconds = (double)(host_clock_ns() - begun_ns) * 1e-9;
    } while (visits < 2 || m->seconds * (1 + .5 / visits) < m->options.seconds);
    return OK;
}

/* ---- what they say */

static bool claims_something(const struct measuring *m, size_t bucket)
{
    const struct entry_row *e = &m->subject.entries[bucket];

    return isfinite(e->gain.value) && number_of(&m->subject, &e->plan) != m->subject.default_arm;
}

static bool holds(const struct interval *interval, double value)
{
    return interval->low <= value && value <= interval->high;
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
        o->claims++;
        o->claims_inside += holds(&e->bucket_gain[bucket], m->subject.entries[bucket].gain.value);
    }
}

static struct outcome outcome_of(const struct measuring *m, const struct estimate *e)
{
    struct outcome o = { .plans = (double)m->subject.plan_count,
                         .buckets = (double)m->subject.count,
                         .rounds = (double)m->rounds.count,
                         .seconds = m->seconds,
                         .tuning_steps = m->subject.tuning_steps,
                         .over_default = e->over_default,
                         .over_static = e->over_static,
                         .over_best = e->over_best,
                         .regret = e->regret };

    snprintf(o.name, sizeof(o.name), "%s", m->options.name);
    for (size_t b = 0; b < m->subject.count; b++)
        judge_bucket(m, e, b, &o);
    return o;
}

static void print_head(const struct measuring *m)
{
    char shape[SHAPE_TEXT_BYTES];

    shape_format(&m->subject.shape, shape, sizeof(shape));
    printf("  %s\n  tuning took %.0f steps; then %zu plans at %zu buckets in %zu rounds, %.0f s",
           shape, m->subject.tuning_steps, m->subject.plan_count, m->subject.count, m->rounds.count,
           m->seconds);
    if (m->rounds.count == 2 * ROUNDS_IN_VISIT && m->seconds > m->options.seconds)
        printf(" (%.0f s were given: fewer fitted, but these are the least)", m->options.seconds);
    printf("\n");
}

static void print_bucket(const struct measuring *m, const struct estimate *e, size_t bucket)
{
    const struct entry_row *entry = &m->subject.entries[bucket];
    const struct interval *regret = &e->bucket_regret[bucket], *gain = &e->bucket_gain[bucket];
    char plan[PLAN_TEXT_BYTES];

    moe_plan_format(&entry->plan, plan, sizeof(plan));
    printf("  %6u %8" PRIu64 "  %-18s %-9s %6.1f [%5.1f, %5.1f]", entry->bucket, entry->capacity,
           plan, entry->decision, 100 * regret->value, 100 * regret->low, 100 * regret->high);
    if (claims_something(m, bucket))
        printf("   %6.1f %6.1f [%5.1f, %5.1f]%s", 100 * entry->gain.value, 100 * gain->value,
               100 * gain->low, 100 * gain->high,
               holds(gain, entry->gain.value) ? "" : "  outside");
    printf("\n");
}

static void print_ratio(const char *rival, const struct interval *ratio)
{
    printf("  table / %-28s %.3f [%.3f, %.3f]\n", rival, ratio->value, ratio->low, ratio->high);
}

static void print_static(const struct measuring *m, const struct estimate *e)
{
    char plan[2][PLAN_TEXT_BYTES], rival[2 * PLAN_TEXT_BYTES + 8];
    bool agree = e->static_plan[0] == e->static_plan[1];

    for (int half = 0; half < 2; half++)
        moe_plan_format(&m->subject.plans[e->static_plan[half]], plan[half], sizeof(plan[half]));
    snprintf(rival, sizeof(rival), "%s%s%s", plan[0], agree ? "" : ", ", agree ? "" : plan[1]);
    print_ratio("best static plan", &e->over_static);
    printf("    which is %s\n", rival);
}

static void print_outcome(const struct measuring *m, const struct estimate *e,
                          const struct outcome *o)
{
    print_head(m);
    printf("  bucket capacity  plan               how         regret %%              gain %%: "
           "claimed, measured\n");
    for (size_t b = 0; b < m->subject.count; b++)
        print_bucket(m, e, b);
    print_ratio("default", &e->over_default);
    print_static(m, e);
    print_ratio("best plan per bucket", &e->over_best);
    printf("  mean regret %.1f %% [%.1f, %.1f]; worst bucket %.0f: %.1f %% [%.1f, %.1f]\n",
           100 * o->regret.value, 100 * o->regret.low, 100 * o->regret.high, o->worst_bucket,
           100 * o->worst.value, 100 * o->worst.low, 100 * o->worst.high);
    printf(
        "  claimed gains inside the measured interval: %.0f of %.0f (the default, in %.0f buckets, "
        "claims none)\n",
        o->claims_inside, o->claims, o->buckets - o->claims);
}

static int report(const struct measuring *m)
{
    int table[ROUNDS_BUCKETS];
    struct estimate e = { .static_plan = { 0 } };
    struct outcome o;

    for (size_t b = 0; b < m->subject.count; b++)
        table[b] = number_of(&m->subject, &m->subject.entries[b].plan);
    TRY(paired_rounds_estimate(&m->rounds, table, m->subject.default_arm, m->options.seed, &e));
    o = outcome_of(m, &e);
    print_outcome(m, &e, &o);
    return m->options.out ? outcome_write(m->options.out, &o) : OK;
}

/* ---- the verbs */

static int measure(const struct verb_call *call, void *options)
{
    struct measuring m = { .options = *(struct measure_options *)options };
    struct launch_where where;
    struct hosts hosts = { .count = 0 };
    int rc;

    TRY(read_table(call->arguments[0], &m.subject));
    rc = launch_place(call->arguments[1], m.subject.shape.ranks, NULL, 0, &hosts, &where);
    if (!rc)
        rc = take_rounds(&m, &where);
    if (!rc)
        rc = report(&m);
    paired_rounds_free(&m.rounds);
    hosts_free(&hosts);
    return rc;
}

static bool meets_static(const struct outcome *o)
{
    return o->over_static.value <= static_most || o->over_static.low <= static_most;
}

/* Too noisy to say, rather than met. */
static bool meets_static_barely(const struct outcome *o)
{
    return o->over_static.value > static_most && meets_static(o);
}

static bool meets_regret(const struct outcome *o)
{
    return o->regret.value <= regret_most && !o->bad_buckets;
}

static bool meets_claims(const struct outcome *o)
{
    return o->claims_inside >= claims_least * o->claims;
}

static void print_verdict(const struct outcome *o)
{
    printf("%-26s %5.3f [%.3f, %.3f] %-4s %5.1f %6.1f [%5.1f, %5.1f] %-4s %3.0f of %2.0f %-4s "
           "%5.3f %5.0f\n",
           o->name, o->over_static.value, o->over_static.low, o->over_static.high,
           meets_static_barely(o) ? "?" : (meets_static(o) ? "" : "NO"), 100 * o->regret.value,
           100 * o->worst.value, 100 * o->worst.low, 100 * o->worst.high,
           meets_regret(o) ? "" : "NO", o->claims_inside, o->claims, meets_claims(o) ? "" : "NO",
           o->over_default.value, o->tuning_steps);
}

/* Settings that meet each requirement, and all settings' claims as one. */
struct verdict {
    int settings, of_static, barely, of_regret, of_claims, of_all;
    struct outcome claims;
};

static void count(const struct outcome *o, struct verdict *v)
{
    v->settings++;
    v->of_static += meets_static(o);
    v->barely += meets_static_barely(o);
    v->of_regret += meets_regret(o);
    v->of_claims += meets_claims(o);
    v->of_all += meets_static(o) && meets_regret(o) && meets_claims(o);
    v->claims.claims += o->claims;
    v->claims.claims_inside += o->claims_inside;
}

static void print_counts(const struct verdict *v)
{
    printf("\ntable / best static plan at most %.2f, or its interval reaches that: %d of %d, "
           "%d by the interval alone\n",
           static_most, v->of_static, v->settings, v->barely);
    printf("mean regret at most %.0f %%, no bucket certainly above %.0f %%: %d of %d\n",
           100 * regret_most, 100 * worst_most, v->of_regret, v->settings);
    printf("claimed gains inside the measured interval in %.0f of 100: %.0f of %.0f in all, %s; "
           "%d of %d settings\n",
           100 * claims_least, v->claims.claims_inside, v->claims.claims,
           meets_claims(&v->claims) ? "met" : "NOT met", v->of_claims, v->settings);
    printf("%d of %d settings meet all three\n", v->of_all, v->settings);
}

static int verdict(const struct verb_call *call, void *options)
{
    FILE *in = fopen(call->arguments[0], "r");
    struct verdict v = { 0 };
    char line[2048];

    (void)options;
    if (!in)
        return fail(ERR_IO, "%s cannot be read", call->arguments[0]);
    printf("%-26s %-28s %-34s %-15s %s\n", "setting", "table / best static",
           "regret %: mean, worst", "claims inside", "table / default, tuning steps");
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
    { "seconds", "S", OPTION_NUMBER, AT(seconds), "for the rounds", .least = 0, .most = 1e6 },
    { "out", "FILE", OPTION_TEXT, AT(out), "a line of comma-separated values is added to it" },
    { "seed", "N", OPTION_SEED, AT(seed), "of random data and of the order" },
    { NULL },
};
#undef AT

/* Another seed than tune's: what drew the same would prove less. */
static const struct measure_options defaults = { .name = "table", .seconds = 60, .seed = 3 };

static const struct verb measure_verb = {
    .name = "measure",
    .summary = "a table beside every legal plan",
    .arguments = "TABLE [HOSTS]",
    .least = 1,
    .most = 2,
    .about = "Times every legal plan in shuffled rounds at the buckets of a table, and judges it.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "measure --seconds 60 moetune.db",
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
