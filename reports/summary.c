/* The head of a report: gains of the table as a whole, its cost, and what is still open. */
#include "summary.h"

#include "contrast.h"
#include "plan.h"
#include "shape.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- what it is worth */

/* Without a sign where nothing but zeros would follow it. */
static double percent(double share, int decimals)
{
    double unit = decimals ? 10 : 1;

    return round(share * 100 * unit) / unit + 0.0;
}

/* In whole percent, unless that says nothing. */
static const char *ends_text(const struct gain *g, char room[INTERVAL_BYTES])
{
    bool narrow = g->high - g->low < 0.02;

    return interval_text(narrow ? "%.1f" : "%.0f", percent(g->low, narrow),
                         percent(g->high, narrow), false, room);
}

/* Where no rounds tell of the whole: NAN without a measured bucket. */
static double mean_gain(const struct layer_facts *layer)
{
    double sum = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < layer->entry_count; i++)
        if (!layer->entries[i].inferred && isfinite(layer->entries[i].gain.value)) {
            sum += layer->entries[i].gain.value;
            count++;
        }
    return count ? sum / count : NAN;
}

static const char *static_name(const struct moe_plan *plan, char room[FIGURE_BYTES])
{
    snprintf(room, FIGURE_BYTES, "always %s", plan->r || plan->e ? PLAN_WORDS(plan) : "r=0");
    return room;
}

void summary_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES])
{
    double mean = mean_gain(layer);

    if (!layer->entry_count)
        snprintf(text, HEADLINE_BYTES, "Nothing is decided yet");
    else if (layer->stands)
        standing_text(&layer->standing, text);
    else if (isfinite(mean))
        snprintf(
            text, HEADLINE_BYTES,
            "Saves about %.1f %% against the default: the mean of %u buckets, not yet measured "
            "as a whole",
            percent(mean, 1), contrast_measured_buckets(layer));
    else
        snprintf(text, HEADLINE_BYTES, "What the table saves is not known");
}

/* ---- three numbers */

/* A loss is said as one. */
static void gain_figure(const struct gain *gain, bool known, const char *than, struct figure *out)
{
    struct gain loss = { -gain->value, -gain->high, -gain->low };
    bool is_loss = percent(gain->value, 1) < 0;
    char ends[INTERVAL_BYTES];

    snprintf(out->number, FIGURE_BYTES, "?");
    text_put(out->words, FIGURE_BYTES, "less time than %s (unknown)", TEXT_SHORT(than, 40));
    if (!known || !isfinite(gain->value))
        return;
    ends_text(is_loss ? &loss : gain, ends);
    snprintf(out->number, FIGURE_BYTES, "%.1f %%", fabs(percent(gain->value, 1)));
    text_put(out->words, FIGURE_BYTES, "%s time than %s%s", is_loss ? "more" : "less",
             TEXT_SHORT(than, 40), ends);
}

static void time_text(double seconds, char text[FIGURE_BYTES])
{
    static const struct {
        double above, unit;
        const char *name;
    } units[] = { { 7200, 3600, "h" }, { 120, 60, "min" }, { 1, 1, "s" }, { 0, 1e-3, "ms" } };
    int i = 0;

    while (seconds < units[i].above)
        i++;
    snprintf(text, FIGURE_BYTES, "%.3g %s", seconds / units[i].unit, units[i].name);
}

static void cost_figure(const struct layer_facts *layer, struct figure *out)
{
    double steps_s = 0;
    uint64_t steps = 0;

    for (size_t i = 0; i < layer->trial_count; i++) {
        steps += layer->trials[i].heat.steps;
        steps_s += (double)layer->trials[i].taken_ns * 1e-9;
    }
    snprintf(out->number, FIGURE_BYTES, "?");
    snprintf(out->words, FIGURE_BYTES, "of steps: no trials are in this database");
    if (!steps)
        return;
    time_text(steps_s, out->number);
    snprintf(out->words, FIGURE_BYTES, "of %ssteps to tune it: %" PRIu64 " of them",
             layer->modelled ? "modelled " : "", steps);
}

void summary_figures(const struct layer_facts *layer, struct figure out[FIGURES])
{
    const struct standing_row *s = &layer->standing;
    struct gain mean = { mean_gain(layer), NAN, NAN };
    char name[FIGURE_BYTES] = "the best static plan";

    gain_figure(&s->gain, layer->stands, "the default", &out[0]);
    if (!layer->stands && isfinite(mean.value)) {
        snprintf(out[0].number, FIGURE_BYTES, "%.1f %%", percent(mean.value, 1));
        snprintf(out[0].words, FIGURE_BYTES, "less time than the default, in the mean of buckets");
    }
    if (layer->stands && s->static_plan.struct_size)
        static_name(&s->static_plan, name);
    gain_figure(&s->static_gain, layer->stands, name, &out[1]);
    if (layer->stands && standing_is_one_plan(s))
        snprintf(out[1].words, FIGURE_BYTES, "less time than %s: the table is that plan", name);
    cost_figure(layer, &out[2]);
}

/* ---- what is open */

struct open_buckets {
    uint32_t count, first, last;
    const struct entry_row *worst;
};

static void add_open(struct open_buckets *o, const struct entry_row *e)
{
    if (!o->count++)
        o->first = e->bucket;
    o->last = e->bucket;
    if (!o->worst || e->bound > o->worst->bound || isnan(o->worst->bound))
        o->worst = e;
}

static bool is_outdated(const struct entry_row *e)
{
    return !e->inferred && entry_is(e, ENTRY_STALE | ENTRY_IMPORTED | ENTRY_REFUTED);
}

static bool is_cut(const struct entry_row *e)
{
    return entry_is(e, ENTRY_CUT);
}

static bool is_inferred(const struct entry_row *e)
{
    return e->inferred;
}

static struct open_buckets open_where(const struct layer_facts *layer,
                                      bool (*holds)(const struct entry_row *e))
{
    struct open_buckets o = { 0 };

    for (size_t i = 0; i < layer->entry_count; i++)
        if (holds(&layer->entries[i]))
            add_open(&o, &layer->entries[i]);
    return o;
}

/* The last command that tuned on this cluster; NULL: there is none, or it may have been about
 * another layer or about other buckets. */
static const char *last_command(const struct facts *facts, const struct layer_facts *layer)
{
    for (size_t i = 0; i < facts->run_count && facts->layer_count == 1; i++) {
        const char *command = facts->runs[i].command;

        if (facts->runs[i].cluster == layer->cluster_id &&
            (strstr(command, " tune ") || strstr(command, " --cluster")))
            return strstr(command, "--buckets") ? NULL : command;
    }
    return NULL;
}

/* A command that measures these buckets again, longer; "" for a cluster whose file is not known,
 * and for a declared space, whose program is not. */
static void command_for(const struct facts *facts, const struct layer_facts *layer, const char *db,
                        const struct open_buckets *o, char *text, size_t size)
{
    const char *base = last_command(facts, layer);
    FILE *to = layer->shape.space ? NULL : fmemopen(text, size, "w");

    *text = 0;
    if (!to)
        return;
    if (base) {
        fputs(base, to);
    } else if (!layer->modelled) {
        fprintf(to, "moetune tune --ranks %u --shape ", layer->shape.ranks);
        shell_word(SHAPE_TEXT(&layer->shape), to);
        fprintf(to, " --window %u --db ", layer->window);
        shell_word(db, to);
    }
    if (base || !layer->modelled)
        fprintf(to, " --buckets %u:%u %s", o->first, o->last,
                base && strstr(base, "--effort") ? "--retune" : "--effort thorough");
    fclose(to);
}

/* By the medians of their steps, as `moetune show` has it. */
static void rival_text(const struct layer_facts *layer, const struct entry_row *e, char *text,
                       size_t size)
{
    const struct trial_facts *own = facts_trial(layer, e->bucket, &e->plan), *best = own;

    for (const struct trial_facts *t = layer->trials; t < layer->trials + layer->trial_count; t++)
        if (own && t->row.key.bucket == e->bucket && trial_usable(t) &&
            t->steps.median_ns < best->steps.median_ns)
            best = t;
    if (best != own)
        snprintf(text, size,
                 "%s took %.1f %% less time in its own %zu step%s; by all steps together ",
                 PLAN_WORDS(&best->row.key.plan),
                 100 * (1 - (double)best->steps.median_ns / (double)own->steps.median_ns),
                 best->steps.count, best->steps.count == 1 ? "" : "s");
}

static void add_step(struct remarks *out, const struct open_buckets *o,
                     const struct layer_facts *layer, const char *words, const char *command)
{
    if (o->count && out->count < REMARKS_MAX)
        snprintf(out->lines[out->count++], REMARK_BYTES,
                 "%u bucket%s of %s %" PRIu64 " to %" PRIu64 " %s%s%s", o->count,
                 o->count == 1 ? "" : "s", shape_key(&layer->shape),
                 shape_bucket_from(&layer->shape, layer->window, o->first),
                 shape_capacity(&layer->shape, layer->window, o->last), words, *command ? "\n" : "",
                 command);
}

static void memory_step(const struct layer_facts *layer, struct remarks *out)
{
    uint32_t count = 0;

    for (size_t i = 0; i < layer->trial_count; i++)
        count += layer->trials[i].row.state == TRIAL_NO_MEMORY ||
                 layer->trials[i].row.state == TRIAL_RULED_OUT;
    if (count && out->count < REMARKS_MAX)
        snprintf(out->lines[out->count++], REMARK_BYTES,
                 "%u trials had no memory: fewer ranks on a node or --max-memory lets them run",
                 count);
}

void summary_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out)
{
    static const struct {
        bool (*holds)(const struct entry_row *e);
        const char *words;
    } steps[] = { { entry_is_undecided, "undecided: " },
                  { is_outdated, "stale, imported or refuted, and to be measured again" },
                  { is_cut, "cut off, and no decision: the same command goes on" },
                  { is_inferred, "inferred, which is measuring left out" } };

    out->count = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct open_buckets o = open_where(layer, steps[i].holds);
        char words[128 + PLAN_TEXT_BYTES], rival[64 + PLAN_TEXT_BYTES] = "",
                                                      command[sizeof(facts->runs->command) + 64];

        if (!o.count)
            continue;
        command_for(facts, layer, db, &o, command, sizeof(command));
        if (i == 0)
            rival_text(layer, o.worst, rival, sizeof(rival));
        snprintf(words, sizeof(words), "%s %s%s", o.count == 1 ? "is" : "are", steps[i].words,
                 rival);
        if (i == 0 && !isnan(o.worst->bound))
            text_add(words, sizeof(words), "at most %.0f %% is left", ceil(100 * o.worst->bound));
        add_step(out, &o, layer, words, command);
    }
    memory_step(layer, out);
}
