/* Says in sentences how many runs, entries and trials numbers come from, and in which state those
 * are. */
#include "origin.h"

#include "contrast.h"
#include "plan.h"
#include "standings.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

static void remark(struct remarks *remarks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void remark(struct remarks *remarks, const char *format, ...)
{
    va_list list;

    if (remarks->count == REMARKS_MAX)
        return;
    va_start(list, format);
    text_put_list(remarks->lines[remarks->count++], REMARK_BYTES, format, list);
    va_end(list);
}

/* ---- runs */

enum { RUNS_NAMED = 8 };

struct run_ids {
    int64_t ids[RUNS_NAMED];
    int count;
    bool more;
};

static void add_run_id(struct run_ids *runs, int64_t id)
{
    int i = runs->count;

    for (int j = 0; j < runs->count; j++)
        if (runs->ids[j] == id)
            return;
    if (runs->count == RUNS_NAMED) {
        runs->more = true;
        return;
    }
    for (; i && runs->ids[i - 1] > id; i--)
        runs->ids[i] = runs->ids[i - 1];
    runs->ids[i] = id;
    runs->count++;
}

static struct run_ids runs_of(const struct scope *scope)
{
    struct run_ids runs = { .count = 0 };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];

        for (size_t j = 0; j < layer->entry_count; j++)
            add_run_id(&runs, layer->entries[j].run);
        for (size_t j = 0; j < layer->trial_count; j++)
            add_run_id(&runs, layer->trials[j].row.run);
    }
    return runs;
}

static void runs_text(const struct scope *scope, char *text, size_t size)
{
    struct run_ids runs = runs_of(scope);

    text_put(text, size, "run%s", runs.count == 1 ? "" : "s");
    for (int i = 0; i < runs.count; i++)
        text_add(text, size, "%s %" PRId64, i ? "," : "", runs.ids[i]);
    if (runs.more)
        text_add(text, size, " and more");
}

static void run_remark(const struct run_row *run, struct remarks *out)
{
    if (run->state == RUN_INTERRUPTED || run->state == RUN_KILLED)
        remark(out,
               "PARTIAL: run %" PRId64
               " ended after %u of %u buckets (%s); the same command goes on",
               run->id, run->buckets_done, run->buckets_planned,
               run->state == RUN_KILLED ? run_state_words[run->state] : run->now);
    if (run->state == RUN_RUNNING)
        remark(out, "PARTIAL: run %" PRId64 " is still running: %u of %u buckets so far", run->id,
               run->buckets_done, run->buckets_planned);
    if (run->state == RUN_FAILED)
        remark(out, "PARTIAL: run %" PRId64 " failed after %u of %u buckets: %s", run->id,
               run->buckets_done, run->buckets_planned, run->now);
}

static void throttling(const struct facts *facts, struct remarks *out)
{
    struct heat heat = { 0 };
    char text[HEAT_TEXT_BYTES];

    for (size_t i = 0; i < facts->trial_count; i++)
        heat_join(&heat, &facts->trials[i].heat);
    heat_text(&heat, text);
    if (heat_is_worrying(&heat))
        remark(out, "THROTTLED: %s: heat or power held a GPU's clock back (see moetune doctor)",
               text);
    heat_others_text(&heat, text);
    if (heat.disturbed.steps > heat.disturbed.set_aside)
        remark(out, "DISTURBED: %s (see moetune doctor)", text);
}

void origin_overall(const struct facts *facts, struct remarks *out)
{
    out->count = 0;
    if (!facts->entry_count && !facts->trial_count)
        remark(out, "EMPTY: the database holds no entry and no trial yet (moetune tune writes "
                    "them)");
    else if (!facts->trial_count)
        remark(out, "This database holds no trials: it is a published snapshot, or they have "
                    "expired.  Plots that need them are left out.");
    throttling(facts, out);
    /* What an earlier run left undone, the newest one on that cluster has taken up. */
    for (size_t i = 0; i < facts->run_count; i++) {
        bool newest = true;

        for (size_t j = 0; j < i; j++)
            newest = newest && facts->runs[j].cluster != facts->runs[i].cluster;
        if (newest)
            run_remark(&facts->runs[i], out);
    }
}

/* ---- sections */

struct counts {
    uint32_t measured, inferred, stale, cut, missing, trials, states[TRIAL_RULED_OUT + 1];
    size_t modelled;
    uint32_t throttled; /* entries whose times are of disturbed steps, at least in part */
    struct heat heat;
};

static void count_layer(const struct layer_facts *layer, struct counts *c)
{
    for (size_t i = 0; i < layer->entry_count; i++) {
        c->measured += !layer->entries[i].inferred;
        c->inferred += layer->entries[i].inferred;
        c->stale += entry_is(&layer->entries[i], ENTRY_STALE);
        c->cut += entry_is(&layer->entries[i], ENTRY_CUT);
        c->throttled += layer->entries[i].throttled > 0;
    }
    if (layer->entry_count)
        c->missing += (layer->entries[layer->entry_count - 1].bucket - layer->entries[0].bucket) /
                          facts_stride(layer) +
                      1 - (uint32_t)layer->entry_count;
    for (size_t i = 0; i < layer->trial_count; i++) {
        c->trials++;
        c->states[layer->trials[i].row.state]++;
        heat_join(&c->heat, &layer->trials[i].heat);
    }
    c->modelled += layer->modelled;
}

static struct counts counts_of(const struct scope *scope)
{
    struct counts c = { 0 };

    for (size_t i = 0; i < scope->count; i++)
        count_layer(&scope->layers[i], &c);
    return c;
}

static void failed_trials(const struct counts *c, struct remarks *out)
{
    char text[200] = "";

    for (int state = TRIAL_NO_MEMORY; state <= TRIAL_RULED_OUT; state++)
        if (c->states[state])
            text_add(text, sizeof(text), "%s%u %s", *text ? ", " : "", c->states[state],
                     trial_state_words[state]);
    if (*text)
        remark(out, "Trials that gave no time: %s", text);
    if (c->states[TRIAL_RUNNING])
        remark(out, "%u trials were cut off, or run now", c->states[TRIAL_RUNNING]);
}

static void pinned_plans(const struct facts *facts, const struct layer_facts *layer,
                         struct remarks *out)
{
    for (size_t i = 0; i < facts->override_count; i++) {
        const struct override_row *o = &facts->overrides[i];

        if (o->cluster == layer->cluster_id && o->shape == layer->shape_id &&
            o->window == layer->window)
            remark(out, "Pinned, whatever is shown here: %s in buckets %u to %u: %s",
                   PLAN_WORDS(&o->plan), o->first, o->last, o->why);
    }
}

/* How tokens chose experts, where not at random: the first that is found, and whether all did so.
 */
static void loads(const struct scope *scope, struct remarks *out)
{
    const struct entry_row *first = NULL;
    bool several = false;

    for (size_t i = 0; i < scope->count; i++)
        for (size_t j = 0; j < scope->layers[i].entry_count; j++) {
            const struct entry_row *e = &scope->layers[i].entries[j];

            first = first || !*e->load ? first : e;
            several |= first && strcmp(e->load, first->load) != 0;
        }
    several |= first && !*scope->layers[0].entries[0].load;
    if (first)
        remark(out, "load: tokens chose experts as \"%s\" says%s (moetune-tables(7))",
               UTF8_LINE(first->load), several ? ", in other entries otherwise" : "");
}

void origin_remarks(const struct facts *facts, const struct scope *scope, struct remarks *out)
{
    struct counts c = counts_of(scope);

    out->count = 0;
    if (c.modelled && c.modelled == scope->count)
        remark(out, "MODELLED: nothing here was measured; times are those of a cluster described "
                    "in a file, on a virtual clock");
    else if (c.modelled)
        remark(out, "MODELLED in part: %zu of %zu layers were not measured", c.modelled,
               scope->count);
    if (!c.measured && !c.inferred)
        remark(out, "PARTIAL: no bucket is decided yet");
    else if (c.missing)
        remark(out, "PARTIAL: %u buckets between the first and the last have no entry", c.missing);
    if (c.throttled)
        remark(out,
               "%s: the times of %u entries are those of a machine that %s held back, at least in "
               "part: setting such steps aside did not help",
               c.heat.throttled.steps ? "THROTTLED" : "DISTURBED", c.throttled,
               c.heat.throttled.steps ? "heat or power" : "other processes");
    loads(scope, out);
    if (c.stale)
        remark(out, "%u entries are stale: the machine has changed since", c.stale);
    if (c.cut)
        remark(out, "%u entries are cut off: what was known when the time was up, no decision",
               c.cut);
    failed_trials(&c, out);
    if (scope->count == 1)
        pinned_plans(facts, &scope->layers[0], out);
}

static void summary(const struct scope *scope, struct remarks *out)
{
    struct counts c = counts_of(scope);
    char runs[160], heat[HEAT_TEXT_BYTES], others[HEAT_TEXT_BYTES];

    runs_text(scope, runs, sizeof(runs));
    heat_text(&c.heat, heat);
    heat_others_text(&c.heat, others);
    remark(out, "%u buckets measured, %u inferred; %u trials, %" PRIu64 " timed steps; %s%s%s%s%s",
           c.measured, c.inferred, c.trials, c.heat.steps, runs, *heat ? "; " : "", heat,
           *others ? "; " : "", others);
}

static void traffic(const struct layer_facts *layer, struct remarks *out)
{
    struct traffic_gain g = contrast_traffic(layer);
    double one_percent = g.asked ? (double)g.asked / 100 : 1;
    char gain[160] = "";

    if (!layer->traffic)
        return;
    if (!isnan(g.gain))
        text_put(
            gain, sizeof(gain),
            "; weighted by traffic, steps in buckets with an entry take %.1f %% less time than "
            "with the default plan",
            100 * g.gain);
    remark(out,
           "traffic: %" PRIu64 " look-ups, %.1f %% in measured buckets, %.1f %% in inferred ones, "
           "%.1f %% in buckets without an entry%s",
           g.asked, (double)g.measured / one_percent, (double)g.inferred / one_percent,
           (double)(g.asked - g.measured - g.inferred) / one_percent, gain);
}

void origin_summary(const struct scope *scope, struct remarks *out)
{
    const struct layer_facts *layer = &scope->layers[0];

    out->count = 0;
    summary(scope, out);
    if (scope->count > 1)
        return;
    traffic(layer, out);
}

void origin_trace(const struct scope *scope, const struct picture *picture, char *text, size_t size)
{
    const struct extent *e = &picture->extent;
    bool thinned = picture->plot->kind & PLOT_BARS && series_is_thinned(&scope->layers[0]);
    char runs[160], steps[48] = "", throttled[48] = "";

    runs_text(scope, runs, sizeof(runs));
    if (e->samples)
        snprintf(steps, sizeof(steps), " from %" PRIu64 " timed steps", e->samples);
    if (e->throttled)
        snprintf(throttled, sizeof(throttled), ", %" PRIu64 " of them throttled", e->throttled);
    snprintf(text, size, "%u %s%s%s; %s%s", e->rows, e->rows == 1 ? "value" : "values", steps,
             throttled, runs,
             thinned ? "; not every bucket is drawn, the data file holds all" : "");
}
