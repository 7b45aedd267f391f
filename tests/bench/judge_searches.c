/* Judges the plans that each search finds by true times.  Every strategy tunes the same buckets by
 * the same noisy clock.  Also judges the table that `tune` made, and how much each axis can gain.
 *   judge_searches --ranks 256 --experts 64 --noise 10 (--help) */
#include "common_rows.h"
#include "json.h"
#include "modelled_layer.h"
#include "plan.h"
#include "settings.h"
#include "status.h"
#include "store.h"
#include "table_rows.h"
#include "tally.h"
#include "verb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct judging {
    struct study_ask ask;
    double limit_percent; /* of a mean regret; NAN: none */
    const char *db;       /* whose table is judged; NULL: none */
    uint32_t strategies;  /* a bit for each of search_words; 0: all, with db none */
    bool json;
};

/* Slower than the default plan by more than that is worse than no table.  The decision takes what
 * it expects to be faster by .1 %, and some of that is noise. */
static const double loses_percent = 0.2;

enum { ROW_BYTES = sizeof(((struct study_cell *)NULL)->row) };

struct search_study {
    const struct judging *ask;
    struct modelled_layer layer;
    struct study_result *result;
    struct table_rows table; /* entries of --db that are about the setting at hand */
    FILE *details;
    int verdict; /* ERR_WRONG after a message: what was asked for does not hold */
};

/* ---- rows */

/* "guided", and in which setting where there are several. */
static const char *row_name(const struct search_study *s, const char *name, char room[ROW_BYTES])
{
    bool several = s->layer.request.space_count > 1;

    snprintf(room, ROW_BYTES, "%.10s%s%s", name, several ? ", " : "",
             several ? SETTING_TEXT(&s->layer.space->shape) : "");
    return room;
}

static int put_summary(struct search_study *s, const char *name, struct summary *sum)
{
    struct study_table *table = &s->result->tables[0];
    double share = 100 / (double)sum->regret.count, bounded = (double)sum->bound.count;
    double regret = column_mean(&sum->regret), over = column_mean(&sum->harm);
    char row[ROW_BYTES];

    row_name(s, name, row);
    TRY(study_put_value(table, row, "regret, %", regret));
    TRY(study_put_value(table, row, "worst, %", column_at(&sum->regret, 1)));
    TRY(study_put_value(table, row, "best plan, %", share * (double)sum->best));
    TRY(study_put_value(table, row, "to default, %", over));
    TRY(study_put_value(table, row, "harm, %", fmax(0, column_at(&sum->harm, 1))));
    TRY(study_put_value(table, row, "steps", column_mean(&sum->samples)));
    TRY(study_put_value(table, row, "bound, %", column_mean(&sum->bound)));
    TRY(study_put_value(table, row, "bound fails, %",
                        bounded > 0 ? 100 * (1 - (double)sum->covered / bounded) : NAN));
    TRY(study_put_value(table, row, "undecided, %", share * (double)sum->undecided));
    TRY(study_put_value(table, row, "hidden, %", sum->undecided ? 100 * sum->hidden : NAN));
    /* Every row that is above the limit is told at once. */
    if (isnan(s->ask->limit_percent))
        return OK;
    if (!(regret <= s->ask->limit_percent))
        s->verdict = fail(ERR_WRONG, "%s: the regret is %.2f %%, above %g: %s", row, regret,
                          s->ask->limit_percent, SHAPE_TEXT(&s->layer.space->shape));
    if (!(over <= loses_percent))
        s->verdict =
            fail(ERR_WRONG, "%s: what is published takes %.2f %% more time than the default: %s",
                 row, over, SHAPE_TEXT(&s->layer.space->shape));
    return OK;
}

/* ---- strategies */

/* Lets the strategy tune every bucket, once for each seed. */
static int judge_strategy(struct search_study *s, const struct search_ops *strategy)
{
    const struct modelled_layer *l = &s->layer;
    struct summary sum = { .best = 0 };
    int rc = OK;

    for (uint32_t run = 0; run < s->ask->ask.seeds && !rc; run++) {
        struct noise noise = modelled_layer_noise(l, run);
        struct search *search = NULL;

        rc = modelled_layer_search(l, strategy, run, &search);
        for (size_t i = 0; i < l->space->anchor_count && !rc; i++) {
            struct true_bucket bucket;
            struct bucket_outcome outcome;

            if (!modelled_layer_bucket(l, l->space->anchors[i], &bucket))
                continue;
            outcome = true_bucket_tune(&bucket, search, &noise, l->request.effort->patience, NULL);
            summary_add(&sum, &outcome);
        }
        search_close(search);
    }
    if (!rc && !sum.regret.count)
        rc = fail(ERR_NOMEM, "no plan fits into %s in any bucket",
                  ACCOUNT_TEXT(l->space->memory_limit_bytes));
    if (!rc)
        rc = put_summary(s, strategy->name, &sum);
    summary_free(&sum);
    return rc;
}

/* ---- a table that `tune` made */

static int read_entries(struct search_study *s)
{
    struct table_rows *t = &s->table;
    struct store *store;
    int64_t cluster, shape;
    size_t count;
    int rc;

    table_rows_free(t);
    if (!s->ask->db)
        return OK;
    TRY(store_check_named(s->ask->db, "--db"));
    TRY(store_read(s->ask->db, &store));
    rc = store_find(store, &s->layer.cluster, &s->layer.space->shape, &cluster, &shape);
    if (!rc)
        rc = table_rows_read(store, cluster, shape, t);
    store_close(store);
    count = t->count;
    t->count = 0;
    for (size_t i = 0; i < count; i++)
        if (t->entries[i].window == s->layer.space->window &&
            !entry_is(&t->entries[i], ENTRY_STALE))
            t->entries[t->count++] = t->entries[i];
    if (rc == UNSUPPORTED || (!rc && !t->count))
        return fail(UNSUPPORTED, "%s: nothing of this layer on this cluster: %s", s->ask->db,
                    SHAPE_TEXT(&s->layer.space->shape));
    return rc;
}

/* Judges what a trainer gets by this entry. */
static int judge_entry(const struct search_study *s, const struct entry_row *e,
                       struct bucket_outcome *out)
{
    const struct modelled_layer *l = &s->layer;
    struct true_bucket bucket;
    int arm = layer_plans_arm(l->space, &e->plan);

    if (arm < 0)
        return fail(ERR_ARGUMENT, "%s: %s is not among the plans of --axes %s", s->ask->db,
                    PLAN_TEXT(&e->plan), s->ask->ask.tune.axes);
    if (!modelled_layer_bucket(l, e->bucket, &bucket) || !bucket.usable[arm])
        return fail(ERR_WRONG, "%s: bucket %u: %s does not fit into %s", s->ask->db, e->bucket,
                    PLAN_TEXT(&e->plan), ACCOUNT_TEXT(l->space->memory_limit_bytes));
    *out = entry_outcome(&bucket, arm, e);
    return OK;
}

static int judge_table(struct search_study *s)
{
    struct summary sum = { .best = 0 };
    struct bucket_outcome outcome;
    int rc = OK;

    for (size_t i = 0; i < s->table.count && !rc; i++) {
        rc = judge_entry(s, &s->table.entries[i], &outcome);
        if (!rc)
            summary_add(&sum, &outcome);
    }
    if (!rc && s->table.count)
        rc = put_summary(s, "table", &sum);
    summary_free(&sum);
    return rc;
}

/* ---- axes */

/* The least time of the plans that have this value, at one capacity; NAN: none can run. */
static double best_with(const struct true_bucket *bucket, const struct layer_plans *space,
                        size_t axis, uint32_t value)
{
    double best = NAN;

    for (int arm = 0; arm < (int)space->arm_count; arm++)
        if (plan_value(&space->arms[arm], axis) == value)
            best = fmin(best, bucket->ns[arm]);
    return best;
}

/* Says what an axis has to offer in the measured buckets: its values to the details, what it is
 * worth to the table. */
static int put_axis(const struct search_study *s, size_t axis)
{
    const struct layer_plans *space = s->layer.space;
    struct study_table *table = &s->result->tables[1];
    uint32_t usual = plan_value(&space->arms[space->default_arm], axis);
    uint32_t values[SEARCH_ARMS_MAX]; /* each once, of plans that can run */
    size_t count = 0;
    struct value_column worth = {
        .count = 0
    };                /* how much slower the best plan with the usual value is */
    double worst = 0; /* and the best plan with the axis's worst value */
    char row[ROW_BYTES];
    int rc;

    for (size_t i = 0; i < space->anchor_count; i++) {
        struct true_bucket bucket;
        double left;

        if (!modelled_layer_bucket(&s->layer, space->anchors[i], &bucket))
            continue;
        for (int arm = 0; arm < (int)space->arm_count; arm++) {
            uint32_t value = plan_value(&space->arms[arm], axis);
            size_t at = 0;

            while (at < count && values[at] != value)
                at++;
            if (bucket.usable[arm] && at == count)
                values[count++] = value;
        }
        for (size_t k = 0; k < count; k++) {
            double over = best_with(&bucket, space, axis, values[k]) / bucket.best_ns - 1;

            worst = over > worst ? over : worst;
        }
        left = best_with(&bucket, space, axis, usual);
        if (!isnan(left))
            column_add(&worth, 100 * (left / bucket.best_ns - 1));
    }
    json_write(s->details, "%s\n    '%s': [", axis ? "," : "", plan_axes[axis].name);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", s->details);
        if (plan_axes[axis].words)
            json_write(s->details, "'%s'", plan_axes[axis].words[values[i]]);
        else
            json_write(s->details, "'%u'", values[i]);
    }
    fputs("]", s->details);
    row_name(s, plan_axes[axis].name, row);
    rc = study_put_value(table, row, "values", (double)count);
    if (!rc)
        rc = study_put_value(table, row, "worth, %", column_mean(&worth));
    if (!rc)
        rc = study_put_value(table, row, "at worst, %", 100 * worst);
    free(worth.values);
    return rc;
}

static void print_words(const char *const *words, FILE *to)
{
    if (!words) {
        fputs("null", to);
        return;
    }
    fputs("[", to);
    for (size_t i = 0; words[i]; i++)
        json_write(to, "%s'%s'", i ? ", " : "", words[i]);
    fputs("]", to);
}

/* Prints the words of a layer with their values (NULL: with the names of all values), but for
 * those of declared spaces, which are a program's: no model has them. */
static void print_fields(const struct moe_shape *shape, FILE *to)
{
    bool first = true;

    for (size_t i = 0; i < shape_field_count; i++) {
        const struct shape_field *f = &shape_fields[i];

        if (f->declared)
            continue;
        json_write(to, "%s'%s': ", first ? "" : ", ", f->name);
        if (!shape)
            print_words(f->words, to);
        else if (f->words)
            json_write(to, "'%s'", f->words[shape_value(shape, i)]);
        else
            json_write(to, "'%u'", shape_value(shape, i));
        first = false;
    }
}

/* Prints all that there is to judge, from the tables that say so: axes and words with the names of
 * their values, and what a load may say. */
static void print_vocabulary(FILE *to)
{
    json_write(to, "'vocabulary': {'axes': {");
    for (size_t i = 0; i < plan_axis_count; i++) {
        json_write(to, "%s'%s': ", i ? ", " : "", plan_axes[i].name);
        print_words(plan_axes[i].words, to);
    }
    json_write(to, "},\n  'words': {");
    print_fields(NULL, to);
    json_write(to, "},\n  'loads': [");
    for (size_t i = 0; load_rows[i].name; i++)
        json_write(to, "%s'%s'", i ? ", " : "", load_rows[i].name);
    fputs("]},\n ", to);
}

/* Says what was judged: all words of the layer, also those that its text leaves out, what the load
 * says, and the values of every axis. */
static int put_axes(const struct search_study *s)
{
    const struct load_options *load = &s->ask->ask.tune.load;
    bool first = true;

    json_write(s->details, "\n  {'words': {");
    print_fields(&s->layer.space->shape, s->details);
    json_write(s->details, "},\n   'loads': [");
    for (size_t i = 0; load_rows[i].name; i++)
        if (option_is_given(&load_rows[i], load, &tune_defaults.load)) {
            json_write(s->details, "%s'%s'", first ? "" : ", ", load_rows[i].name);
            first = false;
        }
    json_write(s->details, "],\n   'axes': {");
    for (size_t i = 0; i < plan_axis_count; i++)
        TRY(put_axis(s, i));
    fputs("}}", s->details);
    return OK;
}

/* ---- the whole */

/* Times every plan at the buckets that are measured, and at those of the table's entries. */
static int time_buckets(struct search_study *s)
{
    const struct layer_plans *space = s->layer.space;
    size_t count = 0;
    uint64_t *capacities = malloc((space->anchor_count + s->table.count) * sizeof(*capacities));
    int rc;

    if (!capacities)
        return fail(ERR_NOMEM, "%zu buckets", space->anchor_count);
    for (size_t i = 0; i < space->anchor_count; i++)
        capacities[count++] = layer_plans_capacity(space, space->anchors[i]);
    for (size_t i = 0; i < s->table.count; i++)
        capacities[count++] = layer_plans_capacity(space, s->table.entries[i].bucket);
    rc = modelled_layer_time(&s->layer, capacities, count);
    free(capacities);
    return rc;
}

static void remark(const struct search_study *s)
{
    const struct modelled_layer *l = &s->layer;
    const struct layer_plans *space = l->space;
    char load[LOAD_NAME_BYTES];

    load_name(space->load, load);
    s->result->machine = l->cluster;
    snprintf(s->result->remark, sizeof(s->result->remark),
             "%s: %zu plans; %zu of the buckets %u to %u of width %u, as `tune --effort %s` "
             "measures%s%s; noise %g %%, seeds %llu to %llu",
             SHAPE_TEXT(&space->shape), space->arm_count, space->anchor_count, space->first,
             space->last, space->window, l->request.effort->name, *load ? "; load " : "", load,
             s->ask->ask.noise_percent, (unsigned long long)l->seed,
             (unsigned long long)(l->seed + s->ask->ask.seeds - 1));
}

/* Judges each setting of the layer: its strategies, or instead of them, unless they are named, the
 * table of --db. */
static int judge_all(struct search_study *s)
{
    uint32_t wanted = s->ask->strategies ? s->ask->strategies : (s->ask->db ? 0 : UINT32_MAX);
    size_t size;

    s->details = open_memstream(&s->result->details, &size);
    if (!s->details)
        return fail(ERR_NOMEM, "what was judged");
    remark(s);
    print_vocabulary(s->details);
    json_write(s->details, "'judged': [");
    for (size_t i = 0; i < s->layer.request.space_count; i++) {
        modelled_layer_choose(&s->layer, i);
        fputs(i ? "," : "", s->details);
        TRY(read_entries(s));
        TRY(time_buckets(s));
        for (size_t k = 0; search_strategies[k]; k++)
            if (wanted >> k & 1)
                TRY(judge_strategy(s, search_strategies[k]));
        TRY(judge_table(s));
        TRY(put_axes(s));
    }
    fputs("]", s->details);
    return OK;
}

static const struct study_row tables[] = {
    { "regret", "What each strategy publishes, beside the best plan of each bucket", "%, and steps",
      "Regret: the true time of the published plan over the least of any plan, minus 1: its mean "
      "and the worst.  Best plan: buckets without regret.  To default: its time over that of the "
      "default plan, minus 1, below 0 where it is faster: the mean; harm: the worst.  Steps: of a "
      "bucket, the decision's, too.  "
      "Bound: what the entry says that it may lose, 95 % sure; bound fails: how often the regret "
      "is above it; -: the strategy cannot say.  Undecided: buckets that `tune` and `show` call "
      "so; hidden: the largest regret of one of them.  Table: all entries of --db, also those that "
      "were not measured; its steps: of the plan and the default." },
    { "axes", "What each axis has to offer", "%",
      "Values: that plans of --axes have and can run with.  Worth: by how much the best plan that "
      "leaves the axis at its default is slower than the best of all, a mean over the buckets.  At "
      "worst: likewise, with the worst of the axis's values, in the worst bucket." },
    { .name = "" },
};

static const struct study study_search = {
    .name = "search",
    .summary = "How good the plans are that each search finds, where the truth is known",
    .assumptions = "True times are those of our executor on a virtual clock; each strategy is told "
                   "them with log-normal noise, fresh for every step, and decides as `tune` does.",
    .rows = tables,
};

static int run(const struct verb_call *call, void *options)
{
    const struct judging *ask = options;
    struct study_table put[sizeof(tables) / sizeof(tables[0])] = { { .count = 0 } };
    struct study_row rows[sizeof(tables) / sizeof(tables[0])];
    struct study_result result = { .study = &study_search, .rows = rows, .tables = put };
    struct search_study s = { .ask = ask, .result = &result };
    int rc;

    (void)call;
    memcpy(rows, tables, sizeof(rows));
    TRY(modelled_layer_open(&ask->ask, &s.layer));
    rc = judge_all(&s);
    if (s.details)
        fclose(s.details);
    if (!rc)
        (ask->json ? study_json : study_print)(&result, stdout);
    for (size_t i = 0; *rows[i].name; i++)
        free(put[i].cells);
    free(result.details);
    table_rows_free(&s.table);
    modelled_layer_close(&s.layer);
    return rc ? rc : s.verdict;
}

#define AT(member) offsetof(struct judging, member)
#define TUNE(member) AT(ask.tune.member)
static const struct option_row rows[] = {
    { "sim", "FILE", OPTION_TEXT, AT(ask.sim), "another modelled cluster than that of the paper" },
    JSON_ROW(AT(json)),
    { "the layer", .kind = OPTION_GROUP, .offset = AT(ask), .rows = study_layer_rows },
    { "strategies", "LIST", OPTION_WORDS, AT(strategies),
      "these alone, as \"guided,paper\" [all of them; none with --db]", search_words },
    BUCKETS_ROW(TUNE(buckets), "buckets of capacity, floor(c/R)"),
    { "max-capacity-factor", "F", OPTION_NUMBER, TUNE(max_factor),
      "else: the buckets that factors from 1 to F reach" },
    { "effort", "WORD", OPTION_WORD, TUNE(effort), "how many of them, and how thoroughly",
      effort_words },
    { "repeats", "N", OPTION_COUNT, TUNE(repeats),
      "samples per comparison (paper), or rounds (exhaustive)", .least = 1, .most = 1000 },
    { "db", "FILE", OPTION_TEXT, AT(db),
      "judge the table that `tune` wrote there for this layer on this cluster" },
    { "limit", "PERCENT", OPTION_NUMBER, AT(limit_percent),
      "a check: no mean regret is above that, and nothing is slower than the default", .least = 0,
      .most = 100 },
    { NULL },
};

static const struct judging defaults = { .ask = STUDY_DEFAULTS, .limit_percent = NAN };

static const struct verb verb = {
    .name = "judge_searches",
    .summary = "how good the plans are that each search finds, where the truth is known",
    .about = "Lets every search tune a layer on a modelled cluster by a noisy clock, and judges by "
             "the true times of our executor what it would publish.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct judging),
    .example = "--ranks 256 --experts 64 --noise 10",
    .run = run,
};

int main(int argc, char **argv)
{
    (void)argc;
    return verb_exit_code(verb_main(&verb, argv, 0));
}
