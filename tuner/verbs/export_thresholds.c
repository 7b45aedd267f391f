/* Gathers the samples of a table, finds the best switch points, and writes them as text or JSON. */
#include "export_thresholds.h"

#include "launch_table.h"
#include "ledger.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"
#include "thresholds.h"
#include "traffic.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The switch points of one class of the key.  export_thresholds() frees the arrays. */
struct class_switches {
    uint32_t class;
    double *weight; /* of each range */
    bool alike;     /* ranges count by doublings: the traffic never asked for this class */
    /* The plans that take part, as numbers in the declaration: those with samples here, the
     * table's, the default. */
    size_t *plans, count;
    struct thresholds found;
};

/* The work on one table, for all classes that are asked for. */
struct collapse {
    struct store *store;
    const struct answers *answers;
    const struct thresholds_options *options;
    const struct declaration *d;
    uint32_t buckets, classes, ranges;
    int64_t cluster, shape;       /* ids in the store; 0: no trial of the table was found yet */
    struct threshold_cell *cells; /* bucket * plans + the plan's number in the declaration */
    double *weight, *even;        /* of each bucket, by the traffic; by doublings */
    double asked;                 /* look-ups in the traffic; 0: no traffic */
    uint32_t launch;              /* a plan (its choice) with the restart values of the job */
    size_t elsewhere;             /* ranges whose plan in the table needs another launch */
    struct class_switches *of;    /* one for each class that is asked for */
    size_t count;
};

/* ---- what was measured */

/* Returns the number of a plan in the declaration; d->plans: the space has no such plan. */
static size_t number_of(const struct declaration *d, uint32_t choice)
{
    size_t low = 0, high = d->plans;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (d->plan[middle] < choice)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->plans && d->plan[low] == choice ? low : d->plans;
}

/* Returns the sums of a trial's plan and bucket; NULL: the plan is not of the space. */
static struct threshold_cell *cell_of(const struct collapse *c, const struct trial_key *key)
{
    size_t number = number_of(c->d, key->plan.choice);

    return key->plan.space == c->d->id && key->bucket < c->buckets && number < c->d->plans
               ? &c->cells[key->bucket * c->d->plans + number]
               : NULL;
}

/* Finds the ids under which the table's trials lie, and notes which plans failed. */
static int note_trial(void *self, const struct trial_row *trial)
{
    struct collapse *c = self;
    struct threshold_cell *cell = cell_of(c, &trial->key);
    struct moe_shape shape;
    struct cluster cluster;
    uint8_t hash[SHA256_BYTES];

    if (!cell)
        return OK;
    if (trial->key.cluster != c->cluster || trial->key.shape != c->shape) {
        if (c->cluster) /* the ids are known, and this trial has others */
            return OK;
        TRY(store_shape_get(c->store, trial->key.shape, &shape));
        TRY(store_cluster_get(c->store, trial->key.cluster, &cluster));
        cluster_hash(&cluster, hash);
        if (!shape_equal(&shape, &c->answers->shape) ||
            memcmp(hash, lookup_view_cluster(c->answers->view), SHA256_BYTES) != 0)
            return OK;
        c->cluster = trial->key.cluster;
        c->shape = trial->key.shape;
    }
    cell->failed = trial->state > TRIAL_OK;
    return OK;
}

static int add_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct threshold_cell *cell = cell_of(self, &trial->key);
    struct attempt attempt = { .trial = *trial };

    /* A declared space has no load. */
    if (cell && !*sample->load && sample->ns > 0 && ledger_counts(&attempt, sample))
        threshold_cell_add(cell, (double)sample->ns);
    return OK;
}

static int gather_samples(struct collapse *c)
{
    bool any = false;

    TRY(store_trials(c->store, 0, 0, 1, UINT32_MAX, note_trial, c));
    for (size_t i = 0; i < c->answers->count && c->cluster; i++)
        TRY(store_samples(c->store, c->cluster, c->shape, 1, c->answers->list[i].bucket, add_sample,
                          c));
    for (size_t i = 0; i < c->buckets * (size_t)c->d->plans && !any; i++)
        any = c->cells[i].samples && !c->cells[i].failed;
    return any ? OK
               : fail(ERR_ARGUMENT,
                      "this database has no samples of this table, which switch points "
                      "need: export from the database in which `tune` measured it");
}

/* ---- weights */

static int read_weights(struct collapse *c)
{
    size_t buckets;

    TRY(launch_weights(&c->options->traffic, &c->answers->shape, 1, &c->weight, &buckets));
    traffic_even(c->answers->buckets, c->even, c->buckets);
    for (uint32_t b = 0; b < c->buckets && c->options->traffic.count; b++)
        c->asked += c->weight[b];
    return OK;
}

static double class_weight(const struct collapse *c, uint32_t class)
{
    double all = 0;

    for (uint32_t range = 0; range < c->ranges; range++)
        all += c->weight[range * c->classes + class];
    return all;
}

/* Chooses the launch that most of the traffic's plans in the table need; the default launch if no
 * other one has more. */
static void choose_launch(struct collapse *c)
{
    const struct answers *a = c->answers;
    double most = 0;

    c->launch = c->d->default_choice;
    for (size_t i = 0; i <= a->count; i++) { /* the default launch comes first */
        uint32_t launch = i ? a->list[i - 1].plan.choice : c->d->default_choice;
        double weight = 0;

        for (size_t k = 0; k < a->count; k++) {
            const struct answer *other = &a->list[k];
            struct trial_key key = { .bucket = other->bucket, .plan = other->plan };
            const struct threshold_cell *cell = cell_of(c, &key);

            if (cell && cell->samples && declaration_same_launch(c->d, launch, other->plan.choice))
                weight += c->weight[other->bucket];
        }
        if (weight > most) {
            most = weight;
            c->launch = launch;
        }
    }
    for (size_t i = 0; i < a->count; i++)
        c->elsewhere += !declaration_same_launch(c->d, c->launch, a->list[i].plan.choice);
}

/* ---- one class */

/* Returns a bit for each threshold axis that has its second value under this plan. */
static uint32_t raised_axes(const struct declaration *d, uint32_t choice)
{
    uint32_t axes = 0;

    for (size_t i = 0; i < d->axes; i++)
        if (*d->axis[i].threshold && declaration_value(d, choice, i))
            axes |= 1u << i;
    return axes;
}

/* Returns the table's answer for a range in the class. */
static const struct answer *answer_at(const struct collapse *c, const struct class_switches *one,
                                      uint32_t range)
{
    size_t i = 0;

    while (c->answers->list[i].bucket != range * c->classes + one->class)
        i++;
    return &c->answers->list[i];
}

/* Whether a plan takes part: it has samples in the class, the table has it, or it is the default.
 */
static bool is_wanted(const struct collapse *c, const struct class_switches *one, size_t number)
{
    const struct declaration *d = c->d;

    for (uint32_t range = 0; range < c->ranges; range++)
        if (c->cells[(range * c->classes + one->class) * d->plans + number].samples ||
            answer_at(c, one, range)->plan.choice == d->plan[number])
            return true;
    return d->plan[number] == d->default_choice;
}

static int collapse_class(struct collapse *c, struct class_switches *one)
{
    const struct declaration *d = c->d;
    struct thresholds_problem p = { .ranges = c->ranges, .switches = c->options->switches };
    struct threshold_plan *plan = calloc(d->plans, sizeof(*plan));
    struct threshold_cell *cells = calloc((size_t)c->ranges * d->plans, sizeof(*cells));
    size_t *table = calloc(c->ranges, sizeof(*table));
    int rc;

    one->plans = calloc(d->plans, sizeof(*one->plans));
    one->weight = calloc(c->ranges, sizeof(*one->weight));
    one->found.chosen = calloc(c->ranges, sizeof(*one->found.chosen));
    if (!plan || !cells || !table || !one->plans || !one->weight || !one->found.chosen) {
        rc = fail(ERR_NOMEM, "switch points of %u ranges", c->ranges);
        goto out;
    }
    one->alike = !(c->asked > 0) || !(class_weight(c, one->class) > 0);
    for (size_t number = 0; number < d->plans; number++)
        if (is_wanted(c, one, number)) {
            plan[one->count] =
                (struct threshold_plan){ .candidate =
                                             declaration_same_launch(d, c->launch, d->plan[number]),
                                         .distance = declaration_distance(d, d->plan[number]),
                                         .raised_axes = raised_axes(d, d->plan[number]) };
            one->plans[one->count++] = number;
        }
    for (uint32_t range = 0; range < c->ranges; range++) {
        uint32_t bucket = range * c->classes + one->class;

        one->weight[range] = one->alike ? c->even[bucket] : c->weight[bucket];
        table[range] = one->count;
        for (size_t i = 0; i < one->count; i++) {
            cells[range * one->count + i] = c->cells[bucket * (size_t)d->plans + one->plans[i]];
            if (d->plan[one->plans[i]] == answer_at(c, one, range)->plan.choice)
                table[range] = i;
        }
    }
    p.plans = one->count;
    p.plan = plan;
    p.cells = cells;
    p.weight = one->weight;
    p.table = table;
    rc = thresholds_find(&p, &one->found);
    if (rc == UNSUPPORTED)
        rc = fail(ERR_ARGUMENT,
                  "the measured plans do not cover all ranges with at most %u switch point%s: "
                  "--switches may be up to %d",
                  p.switches, p.switches == 1 ? "" : "s", THRESHOLDS_SWITCHES_MAX);
out:
    free(plan);
    free(cells);
    free(table);
    return rc;
}

/* ---- what is written */

static uint32_t chosen_at(const struct collapse *c, const struct class_switches *one, size_t range)
{
    return c->d->plan[one->plans[one->found.chosen[range]]];
}

static uint64_t from_of(const struct collapse *c, size_t range)
{
    return buckets_lowest(c->answers->buckets, (uint32_t)range * c->classes);
}

/* Returns the first range behind `range` that has another plan; c->ranges: there is none. */
static size_t next_switch(const struct collapse *c, const struct class_switches *one, size_t range)
{
    size_t next = range + 1;

    while (next < c->ranges && one->found.chosen[next] == one->found.chosen[range])
        next++;
    return next;
}

/* Writes the axes of one kind, "path=mega chunks=2". */
static void write_axes(const struct declaration *d, uint32_t choice, bool restart, FILE *to)
{
    const char *blank = "";

    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart == restart) {
            fprintf(to, "%s%s=%s", blank, d->axis[i].name,
                    d->axis[i].text[declaration_value(d, choice, i)]);
            blank = " ";
        }
}

/* Returns the key from which on the axis has its second value.  If it never has, returns a number
 * that no key reaches, and that programs with 32-bit integers can read. */
static uint64_t threshold_of(const struct collapse *c, const struct class_switches *one,
                             size_t axis)
{
    const struct declaration *d = c->d;

    for (size_t range = 0; range < c->ranges; range++)
        if (declaration_value(d, chosen_at(c, one, range), axis))
            return from_of(c, range);
    return d->key_edge[d->key_edges - 1] < INT32_MAX ? INT32_MAX : INT64_MAX;
}

static void write_switches(const struct collapse *c, const struct class_switches *one, FILE *to)
{
    for (size_t range = 0; range < c->ranges;) {
        size_t next = next_switch(c, one, range);
        uint64_t from = from_of(c, range), to_key = next < c->ranges ? from_of(c, next) - 1 : 0;

        if (next < c->ranges && range)
            fprintf(to, "; from %" PRIu64 " to %" PRIu64 ": ", from, to_key);
        else if (next < c->ranges)
            fprintf(to, "up to %" PRIu64 " %s: ", to_key, c->d->key);
        else if (range)
            fprintf(to, "; from %" PRIu64 " on: ", from);
        else
            fprintf(to, "any number of %s: ", c->d->key);
        write_axes(c->d, chosen_at(c, one, range), false, to);
        range = next;
    }
    fputc('\n', to);
}

static void write_regret(const struct collapse *c, const struct class_switches *one, FILE *to)
{
    const struct gain *r = &one->found.regret;
    double sign = r->value < 0 ? -100 : 100, looks = class_weight(c, one->class);

    if (isnan(r->value))
        fprintf(to, "what this loses is not known: the table's plans have no samples there");
    else if (one->found.same)
        fprintf(to, "as fast as the table, which has the same plans there");
    else
        fprintf(to, "%.1f %%%s %s than the table, which has a plan for each range", sign * r->value,
                r->value < 0 ? INTERVAL_TEXT("%.1f", sign * r->high, sign * r->low)
                             : INTERVAL_TEXT("%.1f", sign * r->low, sign * r->high),
                r->value < 0 ? "faster" : "slower");
    if (!isnan(r->value) && isnan(r->low))
        fprintf(to, " (no plan was sampled twice: how sure this is is not known)");
    if (one->alike)
        fprintf(to, "; each doubling of %s counts alike", c->d->key);
    else
        fprintf(to, "; ranges count by %.0f look-up%s of the traffic", looks, looks > 1 ? "s" : "");
    if (one->found.judged > 0 && one->found.judged < 0.9995)
        fprintf(to, "; %.1f %% of that lies in ranges without samples, and is left out",
                100 * (1 - one->found.judged));
    fputc('\n', to);
}

static void write_text(const struct collapse *c, FILE *to)
{
    const struct declaration *d = c->d;
    char class[DECLARATION_CLASS_BYTES];

    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart) {
            fprintf(to, "started with ");
            write_axes(d, c->launch, true, to);
            if (c->elsewhere)
                fprintf(to, ", while %zu of %zu ranges of the table want another launch",
                        c->elsewhere, c->answers->count);
            fputc('\n', to);
            break;
        }
    for (size_t i = 0; i < c->count; i++) {
        const struct class_switches *one = &c->of[i];

        if (d->class_edges)
            fprintf(to, "%s %s:\n", d->class_name, declaration_class_range(d, one->class, class));
        write_switches(c, one, to);
        write_regret(c, one, to);
        for (size_t axis = 0; axis < d->axes; axis++)
            if (*d->axis[axis].threshold)
                fprintf(to, "%s=%" PRIu64 "\n", d->axis[axis].threshold,
                        threshold_of(c, one, axis));
    }
}

/* Writes the axes of one plan as JSON members: all axes, or those that need a restart. */
static void write_words(const struct declaration *d, uint32_t choice, bool all, FILE *to)
{
    const char *comma = "";

    for (size_t i = 0; i < d->axes; i++)
        if (all || d->axis[i].restart) {
            json_write(to, d->axis[i].words ? "%s'%s': '%s'" : "%s'%s': %s", comma, d->axis[i].name,
                       d->axis[i].text[declaration_value(d, choice, i)]);
            comma = ", ";
        }
}

static void write_class(const struct collapse *c, const struct class_switches *one, FILE *to)
{
    const struct declaration *d = c->d;
    uint32_t class = one->class;
    const char *comma = "";

    json_write(to, "{");
    if (d->class_edges) /* the class lies above one edge and up to the other; null: no edge */
        json_write(to, "'class_above': %g, 'class_to': %g, ",
                   class ? d->class_edge[class - 1] / 1e3 : 0,
                   class < d->class_edges ? d->class_edge[class] / 1e3 : NAN);
    json_write(to, "'switches': [");
    for (size_t range = 0; range < c->ranges; range = next_switch(c, one, range)) {
        json_write(to, "%s{'key_from': %" PRIu64 ", 'plan': {", range ? ", " : "",
                   from_of(c, range));
        write_words(d, chosen_at(c, one, range), true, to);
        json_write(to, "}}");
    }
    json_write(to, "], 'thresholds': {");
    for (size_t axis = 0; axis < d->axes; axis++)
        if (*d->axis[axis].threshold) {
            json_write(to, "%s'%s': %" PRIu64, comma, d->axis[axis].threshold,
                       threshold_of(c, one, axis));
            comma = ", ";
        }
    json_write(to, "},\n   'regret': {'value': %g, 'low': %g, 'high': %g, 'judged': %g},",
               one->found.regret.value, one->found.regret.low, one->found.regret.high,
               one->found.judged);
    json_write(to, " 'weights_of': '%s', 'weights': [", one->alike ? "doublings" : "traffic");
    for (uint32_t range = 0; range < c->ranges; range++)
        json_write(to, "%s%g", range ? ", " : "", one->weight[range]);
    json_write(to, "]}");
}

static void write_json(const struct collapse *c, FILE *to)
{
    char tag[DECLARATION_TAG_BYTES];

    json_write(to, "{'layer': '%s', 'device': '%s', 'space': '%s', 'key': '%s'",
               SHAPE_TEXT(&c->answers->shape), c->answers->device, declaration_tag(c->d, tag),
               c->d->key);
    if (c->d->class_edges)
        json_write(to, ", 'class': '%s'", c->d->class_name);
    json_write(to, ", 'launch': {");
    write_words(c->d, c->launch, false, to);
    json_write(to, "},\n 'classes': [");
    for (size_t i = 0; i < c->count; i++) {
        json_write(to, i ? ",\n  " : "\n  ");
        write_class(c, &c->of[i], to);
    }
    json_write(to, "\n ]}\n");
}

/* ---- the whole */

static int collapse_all(struct collapse *c)
{
    c->cells = calloc((size_t)c->buckets * c->d->plans, sizeof(*c->cells));
    c->even = calloc(c->buckets, sizeof(*c->even));
    c->of = calloc(c->classes, sizeof(*c->of));
    if (!c->cells || !c->even || !c->of)
        return fail(ERR_NOMEM, "samples of %u ranges", c->buckets);
    TRY(gather_samples(c));
    TRY(read_weights(c));
    choose_launch(c);
    for (size_t i = 0; i < c->answers->count; i++)
        if (c->answers->list[i].bucket < c->classes) { /* of the first range */
            c->of[c->count].class = c->answers->list[i].bucket;
            TRY(collapse_class(c, &c->of[c->count++]));
        }
    return OK;
}

int export_thresholds(struct store *store, const struct answers *answers,
                      const struct thresholds_options *options, FILE *to)
{
    struct collapse c = { .store = store,
                          .answers = answers,
                          .options = options,
                          .d = answers->buckets.declared,
                          .buckets = (uint32_t)buckets_end(answers->buckets),
                          .classes = buckets_classes(answers->buckets) };
    int rc;

    c.ranges = c.buckets / c.classes;
    rc = collapse_all(&c);
    if (!rc)
        (options->json ? write_json : write_text)(&c, to);
    for (size_t i = 0; i < c.count; i++) {
        free(c.of[i].plans);
        free(c.of[i].weight);
        free(c.of[i].found.chosen);
    }
    free(c.cells);
    free(c.weight);
    free(c.even);
    free(c.of);
    return rc;
}
