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
    double *weight;    /* of each range */
    bool by_doublings; /* ranges count by doublings: the traffic never asked for this class */
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
    const struct declaration *declaration;
    uint32_t buckets, classes, ranges;
    int64_t cluster, shape;          /* ids in the store; 0: no trial of the table was found yet */
    struct threshold_cell *cells;    /* bucket * plans + the plan's number in the declaration */
    double *weight, *even_weight;    /* of each bucket, by the traffic; by doublings */
    double lookups;                  /* look-ups in the traffic; 0: no traffic */
    uint32_t launch;                 /* a plan (its choice) with the restart values of the job */
    size_t other_launch;             /* ranges whose plan in the table needs another launch */
    struct class_switches *by_class; /* one for each class that is asked for */
    size_t count;
};

/* ---- what was measured */

/* Returns the number of a plan in the declaration; d->plans: the space has no such plan. */
static size_t plan_number(const struct declaration *d, uint32_t choice)
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
    size_t number = plan_number(c->declaration, key->plan.choice);

    return key->plan.space == c->declaration->id && key->bucket < c->buckets &&
                   number < c->declaration->plans
               ? &c->cells[key->bucket * c->declaration->plans + number]
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
    bool has_sample = false;

    TRY(store_trials(c->store, 0, 0, 1, UINT32_MAX, note_trial, c));
    for (size_t i = 0; i < c->answers->count && c->cluster; i++)
        TRY(store_samples(c->store, c->cluster, c->shape, 1, c->answers->list[i].bucket, add_sample,
                          c));
    for (size_t i = 0; i < c->buckets * (size_t)c->declaration->plans && !has_sample; i++)
        has_sample = c->cells[i].samples && !c->cells[i].failed;
    return has_sample ? OK
                      : fail(ERR_ARGUMENT,
                             "this database has no samples of this table, which switch points "
                             "need: export from the database in which `tune` measured it");
}

/* ---- weights */

static int read_weights(struct collapse *c)
{
    size_t buckets;

    TRY(launch_weights(&c->options->traffic, &c->answers->shape, 1, &c->weight, &buckets));
    traffic_even(c->answers->buckets, c->even_weight, c->buckets);
    for (uint32_t b = 0; b < c->buckets && c->options->traffic.count; b++)
        c->lookups += c->weight[b];
    return OK;
}

static double class_weight(const struct collapse *c, uint32_t class)
{
    double sum = 0;

    for (uint32_t range = 0; range < c->ranges; range++)
        sum += c->weight[range * c->classes + class];
    return sum;
}

/* Chooses the launch that most of the traffic's plans in the table need; the default launch if no
 * other one has more. */
static void choose_launch(struct collapse *c)
{
    const struct answers *answers = c->answers;
    double largest_weight = 0;

    c->launch = c->declaration->default_choice;
    for (size_t i = 0; i <= answers->count; i++) { /* the default launch comes first */
        uint32_t launch = i ? answers->list[i - 1].plan.choice : c->declaration->default_choice;
        double weight = 0;

        for (size_t j = 0; j < answers->count; j++) {
            const struct answer *other = &answers->list[j];
            struct trial_key key = { .bucket = other->bucket, .plan = other->plan };
            const struct threshold_cell *cell = cell_of(c, &key);

            if (cell && cell->samples &&
                declaration_same_launch(c->declaration, launch, other->plan.choice))
                weight += c->weight[other->bucket];
        }
        if (weight > largest_weight) {
            largest_weight = weight;
            c->launch = launch;
        }
    }
    for (size_t i = 0; i < answers->count; i++)
        c->other_launch +=
            !declaration_same_launch(c->declaration, c->launch, answers->list[i].plan.choice);
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
static const struct answer *answer_at(const struct collapse *c,
                                      const struct class_switches *switches, uint32_t range)
{
    size_t i = 0;

    while (c->answers->list[i].bucket != range * c->classes + switches->class)
        i++;
    return &c->answers->list[i];
}

/* Whether a plan takes part: it has samples in the class, the table has it, or it is the default.
 */
static bool takes_part(const struct collapse *c, const struct class_switches *switches,
                       size_t number)
{
    const struct declaration *d = c->declaration;

    for (uint32_t range = 0; range < c->ranges; range++)
        if (c->cells[(range * c->classes + switches->class) * d->plans + number].samples ||
            answer_at(c, switches, range)->plan.choice == d->plan[number])
            return true;
    return d->plan[number] == d->default_choice;
}

static int find_class_switches(struct collapse *c, struct class_switches *switches)
{
    const struct declaration *d = c->declaration;
    struct thresholds_problem problem = { .ranges = c->ranges, .switches = c->options->switches };
    struct threshold_plan *plans = calloc(d->plans, sizeof(*plans));
    struct threshold_cell *cells = calloc((size_t)c->ranges * d->plans, sizeof(*cells));
    size_t *table = calloc(c->ranges, sizeof(*table));
    int rc;

    switches->plans = calloc(d->plans, sizeof(*switches->plans));
    switches->weight = calloc(c->ranges, sizeof(*switches->weight));
    switches->found.chosen = calloc(c->ranges, sizeof(*switches->found.chosen));
    if (!plans || !cells || !table || !switches->plans || !switches->weight ||
        !switches->found.chosen) {
        rc = fail(ERR_NOMEM, "switch points of %u ranges", c->ranges);
        goto out;
    }
    switches->by_doublings = !(c->lookups > 0) || !(class_weight(c, switches->class) > 0);
    for (size_t number = 0; number < d->plans; number++)
        if (takes_part(c, switches, number)) {
            plans[switches->count] =
                (struct threshold_plan){ .candidate =
                                             declaration_same_launch(d, c->launch, d->plan[number]),
                                         .distance = declaration_distance(d, d->plan[number]),
                                         .raised_axes = raised_axes(d, d->plan[number]) };
            switches->plans[switches->count++] = number;
        }
    for (uint32_t range = 0; range < c->ranges; range++) {
        uint32_t bucket = range * c->classes + switches->class;

        switches->weight[range] =
            switches->by_doublings ? c->even_weight[bucket] : c->weight[bucket];
        table[range] = switches->count;
        for (size_t i = 0; i < switches->count; i++) {
            cells[range * switches->count + i] =
                c->cells[bucket * (size_t)d->plans + switches->plans[i]];
            if (d->plan[switches->plans[i]] == answer_at(c, switches, range)->plan.choice)
                table[range] = i;
        }
    }
    problem.plans = switches->count;
    problem.plan = plans;
    problem.cells = cells;
    problem.weight = switches->weight;
    problem.table = table;
    rc = thresholds_find(&problem, &switches->found);
    if (rc == UNSUPPORTED)
        rc = fail(ERR_ARGUMENT,
                  "the measured plans do not cover all ranges with at most %u switch point%s: "
                  "--switches may be up to %d",
                  problem.switches, problem.switches == 1 ? "" : "s", THRESHOLDS_SWITCHES_MAX);
out:
    free(plans);
    free(cells);
    free(table);
    return rc;
}

/* ---- what is written */

static uint32_t choice_at(const struct collapse *c, const struct class_switches *switches,
                          size_t range)
{
    return c->declaration->plan[switches->plans[switches->found.chosen[range]]];
}

static uint64_t first_key(const struct collapse *c, size_t range)
{
    return buckets_lowest(c->answers->buckets, (uint32_t)range * c->classes);
}

/* Returns the first range behind `range` that has another plan; c->ranges: there is none. */
static size_t next_switch(const struct collapse *c, const struct class_switches *switches,
                          size_t range)
{
    size_t next = range + 1;

    while (next < c->ranges && switches->found.chosen[next] == switches->found.chosen[range])
        next++;
    return next;
}

enum axis_kind { AXES_SWITCHED, AXES_RESTART };

/* Writes the axes of one kind, "path=mega chunks=2". */
static void write_axes(const struct declaration *d, uint32_t choice, enum axis_kind kind, FILE *out)
{
    const char *blank = "";

    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart == (kind == AXES_RESTART)) {
            fprintf(out, "%s%s=%s", blank, d->axis[i].name,
                    d->axis[i].text[declaration_value(d, choice, i)]);
            blank = " ";
        }
}

/* Returns the key from which on the axis has its second value.  If it never has, returns a number
 * that no key reaches, and that programs with 32-bit integers can read. */
static uint64_t threshold_key(const struct collapse *c, const struct class_switches *switches,
                              size_t axis)
{
    const struct declaration *d = c->declaration;

    for (size_t range = 0; range < c->ranges; range++)
        if (declaration_value(d, choice_at(c, switches, range), axis))
            return first_key(c, range);
    return d->key_edge[d->key_edges - 1] < INT32_MAX ? INT32_MAX : INT64_MAX;
}

static void write_switches(const struct collapse *c, const struct class_switches *switches,
                           FILE *out)
{
    for (size_t range = 0; range < c->ranges;) {
        size_t next_range = next_switch(c, switches, range);
        uint64_t from_key = first_key(c, range),
                 to_key = next_range < c->ranges ? first_key(c, next_range) - 1 : 0;

        if (next_range < c->ranges && range)
            fprintf(out, "; from %" PRIu64 " to %" PRIu64 ": ", from_key, to_key);
        else if (next_range < c->ranges)
            fprintf(out, "up to %" PRIu64 " %s: ", to_key, c->declaration->key);
        else if (range)
            fprintf(out, "; from %" PRIu64 " on: ", from_key);
        else
            fprintf(out, "any number of %s: ", c->declaration->key);
        write_axes(c->declaration, choice_at(c, switches, range), AXES_SWITCHED, out);
        range = next_range;
    }
    fputc('\n', out);
}

static void write_regret(const struct collapse *c, const struct class_switches *switches, FILE *out)
{
    const struct gain *regret = &switches->found.regret;
    double sign = regret->value < 0 ? -100 : 100, lookups = class_weight(c, switches->class);

    if (isnan(regret->value))
        fprintf(out, "what this loses is not known: the table's plans have no samples there");
    else if (switches->found.same)
        fprintf(out, "as fast as the table, which has the same plans there");
    else
        fprintf(out, "%.1f %%%s %s than the table, which has a plan for each range",
                sign * regret->value,
                regret->value < 0 ? INTERVAL_TEXT("%.1f", sign * regret->high, sign * regret->low)
                                  : INTERVAL_TEXT("%.1f", sign * regret->low, sign * regret->high),
                regret->value < 0 ? "faster" : "slower");
    if (!isnan(regret->value) && isnan(regret->low))
        fprintf(out, " (no plan was sampled twice: how sure this is is not known)");
    if (switches->by_doublings)
        fprintf(out, "; each doubling of %s counts alike", c->declaration->key);
    else
        fprintf(out, "; ranges count by %.0f look-up%s of the traffic", lookups,
                lookups > 1 ? "s" : "");
    if (switches->found.judged > 0 && switches->found.judged < 0.9995)
        fprintf(out, "; %.1f %% of that lies in ranges without samples, and is left out",
                100 * (1 - switches->found.judged));
    fputc('\n', out);
}

static void write_text(const struct collapse *c, FILE *out)
{
    const struct declaration *d = c->declaration;
    char class[DECLARATION_CLASS_BYTES];

    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart) {
            fprintf(out, "started with ");
            write_axes(d, c->launch, AXES_RESTART, out);
            if (c->other_launch)
                fprintf(out, ", while %zu of %zu ranges of the table want another launch",
                        c->other_launch, c->answers->count);
            fputc('\n', out);
            break;
        }
    for (size_t i = 0; i < c->count; i++) {
        const struct class_switches *switches = &c->by_class[i];

        if (d->class_edges)
            fprintf(out, "%s %s:\n", d->class_name,
                    declaration_class_range(d, switches->class, class));
        write_switches(c, switches, out);
        write_regret(c, switches, out);
        for (size_t axis = 0; axis < d->axes; axis++)
            if (*d->axis[axis].threshold)
                fprintf(out, "%s=%" PRIu64 "\n", d->axis[axis].threshold,
                        threshold_key(c, switches, axis));
    }
}

enum plan_members { ALL_AXES, ONLY_RESTART_AXES };

/* Writes the axes of one plan as JSON members. */
static void write_plan_members(const struct declaration *d, uint32_t choice,
                               enum plan_members members, FILE *out)
{
    const char *comma = "";

    for (size_t i = 0; i < d->axes; i++)
        if (members == ALL_AXES || d->axis[i].restart) {
            json_write(out, d->axis[i].words ? "%s'%s': '%s'" : "%s'%s': %s", comma,
                       d->axis[i].name, d->axis[i].text[declaration_value(d, choice, i)]);
            comma = ", ";
        }
}

static void write_class_json(const struct collapse *c, const struct class_switches *switches,
                             FILE *out)
{
    const struct declaration *d = c->declaration;
    uint32_t class = switches->class;
    const char *comma = "";

    json_write(out, "{");
    if (d->class_edges) /* the class lies above one edge and up to the other; null: no edge */
        json_write(out, "'class_above': %g, 'class_to': %g, ",
                   class ? d->class_edge[class - 1] / 1e3 : 0,
                   class < d->class_edges ? d->class_edge[class] / 1e3 : NAN);
    json_write(out, "'switches': [");
    for (size_t range = 0; range < c->ranges; range = next_switch(c, switches, range)) {
        json_write(out, "%s{'key_from': %" PRIu64 ", 'plan': {", range ? ", " : "",
                   first_key(c, range));
        write_plan_members(d, choice_at(c, switches, range), ALL_AXES, out);
        json_write(out, "}}");
    }
    json_write(out, "], 'thresholds': {");
    for (size_t axis = 0; axis < d->axes; axis++)
        if (*d->axis[axis].threshold) {
            json_write(out, "%s'%s': %" PRIu64, comma, d->axis[axis].threshold,
                       threshold_key(c, switches, axis));
            comma = ", ";
        }
    json_write(out, "},\n   'regret': {'value': %g, 'low': %g, 'high': %g, 'judged': %g},",
               switches->found.regret.value, switches->found.regret.low,
               switches->found.regret.high, switches->found.judged);
    json_write(out, " 'weights_of': '%s', 'weights': [",
               switches->by_doublings ? "doublings" : "traffic");
    for (uint32_t range = 0; range < c->ranges; range++)
        json_write(out, "%s%g", range ? ", " : "", switches->weight[range]);
    json_write(out, "]}");
}

static void write_json(const struct collapse *c, FILE *out)
{
    char tag[DECLARATION_TAG_BYTES];

    json_write(out, "{'layer': '%s', 'device': '%s', 'space': '%s', 'key': '%s'",
               SHAPE_TEXT(&c->answers->shape), c->answers->device,
               declaration_tag(c->declaration, tag), c->declaration->key);
    if (c->declaration->class_edges)
        json_write(out, ", 'class': '%s'", c->declaration->class_name);
    json_write(out, ", 'launch': {");
    write_plan_members(c->declaration, c->launch, ONLY_RESTART_AXES, out);
    json_write(out, "},\n 'classes': [");
    for (size_t i = 0; i < c->count; i++) {
        json_write(out, i ? ",\n  " : "\n  ");
        write_class_json(c, &c->by_class[i], out);
    }
    json_write(out, "\n ]}\n");
}

/* ---- the whole */

static int find_all_switches(struct collapse *c)
{
    c->cells = calloc((size_t)c->buckets * c->declaration->plans, sizeof(*c->cells));
    c->even_weight = calloc(c->buckets, sizeof(*c->even_weight));
    c->by_class = calloc(c->classes, sizeof(*c->by_class));
    if (!c->cells || !c->even_weight || !c->by_class)
        return fail(ERR_NOMEM, "samples of %u ranges", c->buckets);
    TRY(gather_samples(c));
    TRY(read_weights(c));
    choose_launch(c);
    for (size_t i = 0; i < c->answers->count; i++)
        if (c->answers->list[i].bucket < c->classes) { /* of the first range */
            c->by_class[c->count].class = c->answers->list[i].bucket;
            TRY(find_class_switches(c, &c->by_class[c->count++]));
        }
    return OK;
}

int export_thresholds(struct store *store, const struct answers *answers,
                      const struct thresholds_options *options, FILE *out)
{
    struct collapse c = { .store = store,
                          .answers = answers,
                          .options = options,
                          .declaration = answers->buckets.declared,
                          .buckets = (uint32_t)buckets_end(answers->buckets),
                          .classes = buckets_classes(answers->buckets) };
    int rc;

    c.ranges = c.buckets / c.classes;
    rc = find_all_switches(&c);
    if (!rc)
        (options->json ? write_json : write_text)(&c, out);
    for (size_t i = 0; i < c.count; i++) {
        free(c.by_class[i].plans);
        free(c.by_class[i].weight);
        free(c.by_class[i].found.chosen);
    }
    free(c.cells);
    free(c.weight);
    free(c.even_weight);
    free(c.by_class);
    return rc;
}
