/* Writes the sentences of a report: what its numbers rest on and which of them to doubt, what the
 * table saves and cost, what the last run changed, and what to do next. */
#include "remarks.h"

#include "buckets.h"
#include "contrast.h"
#include "plan.h"
#include "shape.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- numbers and runs */

/* Returns a share in percent, rounded to one decimal. */
static double percent(double share)
{
    return round(share * 100 * 10) / 10 + 0.0; /* + 0.0 makes 0 of -0 */
}

enum { RUNS_NAMED = 8 };

/* The ids of the runs that a section rests on, ascending. */
struct run_ids {
    int64_t ids[RUNS_NAMED];
    int count;
    bool more; /* there are more runs than RUNS_NAMED */
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

/* Writes "runs 1, 3 and more". */
static void runs_text(const struct scope *scope, char *text, size_t size)
{
    struct run_ids runs = { .count = 0 };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];

        for (size_t j = 0; j < layer->entry_count; j++)
            add_run_id(&runs, layer->entries[j].run);
        for (size_t j = 0; j < layer->trial_count; j++)
            add_run_id(&runs, layer->trials[j].row.run);
    }
    text_put(text, size, "run%s", runs.count == 1 ? "" : "s");
    for (int i = 0; i < runs.count; i++)
        text_add(text, size, "%s %" PRId64, i ? "," : "", runs.ids[i]);
    if (runs.more)
        text_add(text, size, " and more");
}

void remarks_overall(const struct facts *facts, struct remarks *out)
{
    struct heat heat = { 0 };
    char text[HEAT_TEXT_BYTES];

    if (!facts->entry_count && !facts->trial_count)
        remark(out, "EMPTY: the database holds no entry and no trial yet; moetune tune writes "
                    "them");
    else if (!facts->trial_count)
        remark(out, "This database holds no trials: it is a published snapshot, or its trials "
                    "were deleted.  Plots that need trials are left out.");
    for (size_t i = 0; i < facts->trial_count; i++)
        heat_join(&heat, &facts->trials[i].heat);
    heat_text(&heat, text);
    if (heat_is_worrying(&heat))
        remark(out, "THROTTLED: %s: heat or power held a GPU's clock back (see moetune doctor)",
               text);
    heat_others_text(&heat, text);
    if (heat.disturbed.steps > heat.disturbed.set_aside)
        remark(out, "DISTURBED: %s (see moetune doctor)", text);
    for (size_t i = 0; i < facts->run_count; i++) {
        const struct run_row *run = &facts->runs[i];
        size_t newer = 0;

        /* Only the newest run on a cluster counts: it goes on with what earlier ones left. */
        while (facts->runs[newer].cluster != run->cluster)
            newer++;
        if (newer < i)
            continue;
        if (run->state == RUN_INTERRUPTED || run->state == RUN_KILLED)
            remark(out,
                   "PARTIAL: run %" PRId64
                   " ended after %u of %u buckets (%s); the same command goes on",
                   run->id, run->buckets_done, run->buckets_planned,
                   run->state == RUN_KILLED ? run_state_words[run->state] : run->now);
        if (run->state == RUN_RUNNING)
            remark(out, "PARTIAL: run %" PRId64 " is still running: %u of %u buckets so far",
                   run->id, run->buckets_done, run->buckets_planned);
        if (run->state == RUN_FAILED)
            remark(out, "PARTIAL: run %" PRId64 " failed after %u of %u buckets: %s", run->id,
                   run->buckets_done, run->buckets_planned, run->now);
    }
}

/* ---- sections */

/* How many entries, trials and layers of a section are in which state. */
struct section_counts {
    uint32_t measured, inferred, stale, cut; /* entries */
    uint32_t throttled; /* entries whose times are of disturbed steps, at least in part */
    uint32_t missing;   /* buckets without an entry between the first and the last one */
    uint32_t trials, states[TRIAL_RULED_OUT + 1]; /* by enum trial_state */
    size_t modelled;                              /* layers */
    struct heat heat;                             /* of all timed steps */
};

static struct section_counts counts_of(const struct scope *scope)
{
    struct section_counts c = { 0 };

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];
        const struct entry_row *entries = layer->entries;
        size_t n = layer->entry_count;

        for (size_t j = 0; j < n; j++) {
            c.measured += !entries[j].inferred;
            c.inferred += entries[j].inferred;
            c.stale += entry_is(&entries[j], ENTRY_STALE);
            c.cut += entry_is(&entries[j], ENTRY_CUT);
            c.throttled += entries[j].throttled > 0;
        }
        if (n)
            c.missing +=
                (entries[n - 1].bucket - entries[0].bucket) / facts_stride(layer) + 1 - (uint32_t)n;
        for (size_t j = 0; j < layer->trial_count; j++) {
            c.trials++;
            c.states[layer->trials[j].row.state]++;
            heat_join(&c.heat, &layer->trials[j].heat);
        }
        c.modelled += layer->modelled;
    }
    return c;
}

/* Names the load that entries were measured under, unless tokens chose experts at random: the first
 * load, and whether other entries have another one. */
static void load_remark(const struct scope *scope, struct remarks *out)
{
    const struct entry_row *first_loaded = NULL;
    bool several = false;

    for (size_t i = 0; i < scope->count; i++)
        for (size_t j = 0; j < scope->layers[i].entry_count; j++) {
            const struct entry_row *e = &scope->layers[i].entries[j];

            first_loaded = first_loaded || !*e->load ? first_loaded : e;
            several |= first_loaded && strcmp(e->load, first_loaded->load) != 0;
        }
    several |= first_loaded && !*scope->layers[0].entries[0].load;
    if (first_loaded)
        remark(out, "load: tokens chose experts by the load \"%s\"%s (see moetune-tables(7))",
               UTF8_LINE(first_loaded->load), several ? "; other entries have another load" : "");
}

/* Counts the entries whose plan gains more by its chunks than overlap can hide, and shows the
 * first of them. */
static void beyond_remark(const struct scope *scope, struct remarks *out)
{
    char beyond[BEYOND_TEXT_BYTES], first_text[BEYOND_TEXT_BYTES] = "";
    const struct entry_row *first_entry = NULL;
    size_t found = 0;

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];

        for (size_t k = 0; k < layer->entry_count; k++) {
            trials_beyond(layer->trials, layer->trial_count, layer->entries[k].bucket,
                          &layer->entries[k].plan, beyond);
            if (!*beyond)
                continue;
            if (!found++) {
                first_entry = &layer->entries[k];
                text_put(first_text, sizeof(first_text), "%s", beyond);
            }
        }
    }
    if (found)
        remark(out,
               "%zu entr%s more by chunks than overlap can hide: in bucket %u, %s %s.  At another "
               "time this gain may be smaller",
               found, found == 1 ? "y gains" : "ies gain", first_entry->bucket,
               PLAN_WORDS(&first_entry->plan), first_text);
}

void remarks_section(const struct facts *facts, const struct scope *scope, struct remarks *out)
{
    struct section_counts c = counts_of(scope);
    const char *slowed_by = c.heat.throttled.steps ? "heat or power" : "other processes";
    char failed[200] = "";

    out->count = 0;
    if (c.modelled && c.modelled == scope->count)
        remark(out, "MODELLED: nothing here was measured.  A file describes the cluster, and a "
                    "virtual clock gives the times");
    else if (c.modelled)
        remark(out, "MODELLED in part: %zu of %zu layers are modelled, not measured", c.modelled,
               scope->count);
    if (!c.measured && !c.inferred)
        remark(out, "PARTIAL: no bucket is decided yet");
    else if (c.missing)
        remark(out, "PARTIAL: %u buckets between the first and the last have no entry", c.missing);
    if (c.throttled)
        remark(out,
               "%s: the times of %u entr%s steps that %s slowed.  Such steps were measured again, "
               "but were slowed again",
               c.heat.throttled.steps ? "THROTTLED" : "DISTURBED", c.throttled,
               c.throttled == 1 ? "y include" : "ies include", slowed_by);
    load_remark(scope, out);
    beyond_remark(scope, out);
    if (c.stale)
        remark(out, "%u entr%s stale: the machine changed after the measurement", c.stale,
               c.stale == 1 ? "y is" : "ies are");
    if (c.cut)
        remark(out, "%u entr%s cut off: the time was up before the search decided", c.cut,
               c.cut == 1 ? "y is" : "ies are");
    for (int state = TRIAL_NO_MEMORY; state <= TRIAL_RULED_OUT; state++)
        if (c.states[state])
            text_add(failed, sizeof(failed), "%s%u %s", *failed ? ", " : "", c.states[state],
                     trial_state_words[state]);
    if (*failed)
        remark(out, "Trials that gave no time: %s", failed);
    if (c.states[TRIAL_RUNNING])
        remark(out, "%u trial%s not ended: cut off, or running now", c.states[TRIAL_RUNNING],
               c.states[TRIAL_RUNNING] == 1 ? " has" : "s have");
    for (size_t i = 0; i < facts->override_count && scope->count == 1; i++) {
        const struct override_row *o = &facts->overrides[i];
        const struct layer_facts *layer = &scope->layers[0];

        if (o->cluster == layer->cluster_id && o->shape == layer->shape_id &&
            o->window == layer->buckets.window)
            remark(out,
                   "Pinned: in buckets %u to %u trainers get %s, not the plan that is shown here.  "
                   "The reason: %s",
                   o->first, o->last, PLAN_WORDS(&o->plan), o->why);
    }
}

void remarks_totals(const struct scope *scope, struct remarks *out)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct section_counts c = counts_of(scope);
    char runs[160], heat[HEAT_TEXT_BYTES], others[HEAT_TEXT_BYTES], gain[160] = "";
    struct traffic_gain by_traffic;
    double one_percent;

    out->count = 0;
    runs_text(scope, runs, sizeof(runs));
    heat_text(&c.heat, heat);
    heat_others_text(&c.heat, others);
    remark(out, "%u buckets measured, %u inferred; %u trials, %" PRIu64 " timed steps; %s%s%s%s%s",
           c.measured, c.inferred, c.trials, c.heat.steps, runs, *heat ? "; " : "", heat,
           *others ? "; " : "", others);
    if (scope->count > 1 || !layer->traffic)
        return;
    by_traffic = contrast_traffic(layer);
    one_percent = by_traffic.lookups ? (double)by_traffic.lookups / 100 : 1;
    if (!isnan(by_traffic.gain))
        text_put(
            gain, sizeof(gain),
            "; weighted by traffic, steps in buckets with an entry take %.1f %% less time than "
            "with the default plan",
            100 * by_traffic.gain);
    remark(out,
           "traffic: %" PRIu64 " look-ups, %.1f %% in measured buckets, %.1f %% in inferred ones, "
           "%.1f %% in buckets without an entry%s",
           by_traffic.lookups, (double)by_traffic.measured / one_percent,
           (double)by_traffic.inferred / one_percent,
           (double)(by_traffic.lookups - by_traffic.measured - by_traffic.inferred) / one_percent,
           gain);
}

/* ---- what a run changed */

static const struct run_row *newest_run(const struct facts *facts, const struct layer_facts *layer)
{
    for (size_t i = 0; i < facts->run_count; i++)
        for (size_t j = 0; j < layer->entry_count; j++)
            if (layer->entries[j].run == facts->runs[i].id)
                return &facts->runs[i];
    return NULL;
}

/* Lists the entry that each bucket had before that run; NULL: none, or the run left it unchanged.
 * A run may decide a bucket more than once, so it is the newest entry of another run.  The caller
 * frees the list. */
static const struct entry_row **entries_before(const struct facts *facts,
                                               const struct layer_facts *layer,
                                               const struct run_row *run)
{
    const struct entry_row **before = calloc(layer->entry_count + 1, sizeof(*before)), *e;

    for (const struct history_row *h = facts->history;
         before && h < facts->history + facts->history_count && h->replaced_s >= run->started_s;
         h++) {
        e = SAME_TABLE(&h->entry, layer->entries) ? facts_entry(layer, h->entry.bucket) : NULL;
        if (e && e->run == run->id && h->entry.run != run->id && !before[e - layer->entries])
            before[e - layer->entries] = &h->entry;
    }
    return before;
}

/* How much the step time changed in buckets that kept their plan and were measured both times. */
struct time_changes {
    uint32_t count;          /* buckets */
    double sum, least, most; /* of time now / time before - 1 */
};

static void add_time_change(struct time_changes *changes, double change)
{
    changes->least = changes->count ? fmin(changes->least, change) : change;
    changes->most = changes->count ? fmax(changes->most, change) : change;
    changes->sum += change;
    changes->count++;
}

enum { CHANGES_NAMED = 6 };

void remarks_since(const struct facts *facts, const struct layer_facts *layer, struct remarks *out)
{
    const struct run_row *run = newest_run(facts, layer);
    const struct entry_row **before = run ? entries_before(facts, layer, run) : NULL;
    const struct entry_row *e = layer->entries;
    uint32_t decided = 0, measured = 0, changed = 0; /* buckets */
    uint32_t named = 0;                              /* changes */
    struct time_changes times_changed = { .count = 0 };
    char changes[REMARK_BYTES - 200] = "", times[160] = "", range[BUCKETS_TEXT_BYTES];

    out->count = 0;
    for (size_t i = 0, end; before && i < layer->entry_count; i = end) {
        end = i + 1;
        if (!before[i])
            continue;
        /* Neighbours that changed alike are one change. */
        while (end < layer->entry_count && before[end] &&
               entries_join(&e[end - 1], &e[end], facts_stride(layer)) &&
               plan_equal(&before[end]->plan, &before[i]->plan))
            end++;
        decided += (uint32_t)(end - i);
        for (size_t j = i; j < end; j++)
            measured += !e[j].inferred;
        if (plan_equal(&before[i]->plan, &e[i].plan)) {
            for (size_t j = i; j < end; j++)
                if (!e[j].inferred && !before[j]->inferred && before[j]->time_us > 0)
                    add_time_change(&times_changed, e[j].time_us / before[j]->time_us - 1);
            continue;
        }
        changed += (uint32_t)(end - i);
        if (named++ < CHANGES_NAMED)
            text_add(changes, sizeof(changes), "%s %s: %s, was %s", named > 1 ? ";" : "",
                     facts_range(layer, e[i].bucket, e[end - 1].bucket, range),
                     PLAN_WORDS(&e[i].plan), PLAN_WORDS(&before[i]->plan));
    }
    free(before);
    if (!decided)
        return;
    if (named > CHANGES_NAMED)
        text_add(changes, sizeof(changes), "; and %u more ranges", named - CHANGES_NAMED);
    if (times_changed.count && fabs(times_changed.least) < 5e-4 && fabs(times_changed.most) < 5e-4)
        text_put(times, sizeof(times), "  Under an unchanged plan a step takes as long as before.");
    else if (times_changed.count)
        text_put(times, sizeof(times),
                 "  Under an unchanged plan the step time changed by %+.1f %%, mean of %u "
                 "bucket%s%s.",
                 percent(times_changed.sum / times_changed.count), times_changed.count,
                 times_changed.count == 1 ? "" : "s",
                 INTERVAL_TEXT("%+.1f", percent(times_changed.least), percent(times_changed.most)));
    remark(out, "Run %" PRId64 " of %s UTC decided %u bucket%s again, and measured %u of them.",
           run->id, DATE_TEXT(run->started_s, DATE_MINUTE), decided, decided == 1 ? "" : "s",
           measured);
    if (changed)
        remark(out, "The plan of %u bucket%s changed:%s.%s", changed, changed == 1 ? "" : "s",
               changes, times);
    else
        remark(out, "No plan changed.%s", times);
}

void remarks_trace(const struct scope *scope, const struct picture *picture, char *text,
                   size_t size)
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
             thinned ? "; the plot leaves out some buckets, the data file has all" : "");
}

/* ---- what the table is worth */

void remarks_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES])
{
    struct moe_plan default_plan = plan_default(&layer->shape);

    if (!layer->entry_count)
        snprintf(text, HEADLINE_BYTES, "Nothing is decided yet");
    else if (layer->has_standing)
        standing_text(&layer->standing, &default_plan, text);
    else
        plan_range_worth(layer->entries, layer->entry_count, text);
}

/* ---- three numbers */

/* Writes "4.2 %" and "less time than THAN (2.0 to 6.3)"; for a loss "more time than".  Writes empty
 * words if the gain is NULL or not known. */
static void gain_figure(const struct gain *gain, const char *than, struct figure *out)
{
    struct gain amount; /* of the gain or of the loss, above 0 */
    bool is_loss;

    *out = (struct figure){ .number = "" };
    if (!gain || !isfinite(gain->value))
        return;
    is_loss = percent(gain->value) < 0;
    amount = *gain;
    if (is_loss)
        amount = (struct gain){ -gain->value, -gain->high, -gain->low };
    snprintf(out->number, FIGURE_BYTES, "%.1f %%", fabs(percent(gain->value)));
    text_put(out->words, FIGURE_BYTES, "%s time than %s%s", is_loss ? "more" : "less",
             TEXT_SHORT(than, 40),
             INTERVAL_TEXT("%.1f", percent(amount.low), percent(amount.high)));
}

/* Writes how long the timed steps took together, and how many there were. */
static void cost_figure(const struct layer_facts *layer, struct figure *out)
{
    static const struct {
        double above, seconds;
        const char *name;
    } units[] = { { 7200, 3600, "h" }, { 120, 60, "min" }, { 1, 1, "s" }, { 0, 1e-3, "ms" } };
    double steps_s = 0;
    uint64_t steps = 0;
    int unit = 0;

    for (size_t j = 0; j < layer->trial_count; j++) {
        steps += layer->trials[j].heat.steps;
        steps_s += (double)layer->trials[j].taken_ns * 1e-9;
    }
    *out = (struct figure){ .number = "" };
    if (!steps)
        return;
    while (steps_s < units[unit].above)
        unit++;
    snprintf(out->number, FIGURE_BYTES, "%.3g %s", steps_s / units[unit].seconds, units[unit].name);
    snprintf(out->words, FIGURE_BYTES, "spent on %" PRIu64 " %s step%s", steps,
             layer->modelled ? "modelled" : "timed", steps == 1 ? "" : "s");
}

void remarks_figures(const struct layer_facts *layer, struct figure out[FIGURES])
{
    const struct standing_row *s = &layer->standing;
    struct plan_range all = plan_range_of(layer->entries, layer->entry_count);
    char name[FIGURE_BYTES] = "the best static plan", text[STANDING_TEXT_BYTES];
    bool has_rival; /* the best static plan is neither the table nor the default */

    gain_figure(layer->has_standing ? &s->gain : NULL, "the default", &out[0]);
    if (!layer->has_standing && plan_range_worth(layer->entries, layer->entry_count, text))
        gain_figure(&all.gain, "the default, in the mean of buckets", &out[0]);
    if (layer->has_standing && s->static_plan.struct_size)
        snprintf(name, sizeof(name), "always %s",
                 s->static_plan.r || s->static_plan.e ? PLAN_WORDS(&s->static_plan) : "r=0");
    has_rival = layer->has_standing && !standing_is_one_plan(s) &&
                !plan_is_default(&s->static_plan, &layer->shape);
    gain_figure(has_rival ? &s->static_gain : NULL, name, &out[1]);
    cost_figure(layer, &out[2]);
}

/* ---- what to do next */

/* Buckets that may be improved, for one reason. */
struct improvable_buckets {
    uint32_t count, first, last;
    const struct entry_row *worst; /* that may gain most; borrowed */
};

/* Why a bucket may be improved. */
enum open_reason { UNDECIDED, OUTDATED, CUT, INFERRED, OPEN_REASONS };

static bool may_improve(const struct entry_row *e, enum open_reason reason)
{
    switch (reason) {
    case UNDECIDED: return entry_is_undecided(e);
    case OUTDATED:
        return !e->inferred &&
               entry_is(e, ENTRY_STALE | ENTRY_IMPORTED | ENTRY_REFUTED | ENTRY_UNSOUND);
    case CUT: return entry_is(e, ENTRY_CUT);
    default: return e->inferred;
    }
}

static struct improvable_buckets find_improvable(const struct layer_facts *layer,
                                                 enum open_reason reason)
{
    struct improvable_buckets found = { 0 };

    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];

        if (!may_improve(e, reason))
            continue;
        if (!found.count++)
            found.first = e->bucket;
        found.last = e->bucket;
        if (!found.worst || entry_leaves_more(e, found.worst))
            found.worst = e;
    }
    return found;
}

/* Returns the last command that tuned on this cluster; NULL: there is none, or it may have tuned
 * another layer, or only some buckets. */
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

/* Writes the command with `effort` (" --effort WORD") in place of its own; "": unchanged. */
static void set_effort(const char *command, const char *effort, FILE *to)
{
    static const char option[] = " --effort ";
    const char *own_effort = strstr(command, option);

    if (!*effort || !own_effort) {
        fputs(command, to);
    } else {
        const char *value = own_effort + strlen(option);

        fprintf(to, "%.*s%s", (int)(own_effort - command), command, value + strcspn(value, " "));
    }
    fputs(effort, to);
}

/* Writes the command that goes on with the whole table; parts of a table say nothing about what the
 * whole saves.  UNDECIDED and INFERRED need more effort than before.  Writes "" if the command is
 * not known (a modelled cluster's file, a declared space's program), or if there is no more effort
 * than that of the last command. */
static void command_for(const struct facts *facts, const struct layer_facts *layer, const char *db,
                        enum open_reason reason, char *text, size_t size)
{
    const char *command = last_command(facts, layer);
    const char *effort = reason == UNDECIDED || reason == INFERRED ? " --effort thorough" : "";
    FILE *to = layer->shape.space ? NULL : fmemopen(text, size, "w");

    *text = 0;
    if (!to)
        return;
    if (command && *effort && strstr(command, effort)) {
        fclose(to);
        *text = 0;
        return;
    }
    if (command) {
        set_effort(command, effort, to);
    } else if (!layer->modelled) {
        fprintf(to, "moetune tune --ranks %u --shape ", layer->shape.ranks);
        shell_word(SHAPE_TEXT(&layer->shape), to);
        fprintf(to, " --window %u --db ", layer->buckets.window);
        shell_word(db, to);
        fputs(effort, to);
    }
    fclose(to);
}

/* Writes what is known of an undecided entry, as `moetune show` does: the plan that is probably
 * better; else the plan with the smallest median, and how much another plan may gain. */
static void undecided_words(const struct layer_facts *layer, const struct entry_row *e, char *text,
                            size_t size)
{
    char rival[RIVAL_TEXT_BYTES] = "", may_gain[LEFT_TEXT_BYTES];

    if (e->likely.struct_size) {
        text_put(text, size, "%s", LIKELY_TEXT(e));
        return;
    }
    trials_rival(layer->trials, layer->trial_count, e->bucket, &e->plan, rival);
    entry_left_text(e, may_gain);
    text_put(text, size, "%s%s%s", rival, *rival && *may_gain ? "; by all steps together, " : "",
             may_gain);
}

/* Writes the run's own command, which goes on with the rounds that have not decided, and how long
 * that may take. */
static void rounds_command(const struct facts *facts, const struct layer_facts *layer, char *text,
                           size_t text_size, char *command, size_t size)
{
    for (size_t i = 0; i < facts->run_count; i++)
        if (facts->runs[i].id == layer->standing.run) {
            text_add(text, text_size, "; about %s of further rounds may decide",
                     DURATION_TEXT(fmax(1, layer->standing.more_s)));
            text_put(command, size, "%s", facts->runs[i].command);
        }
}

void remarks_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out)
{
    static const char *const reasons[OPEN_REASONS] = {
        [UNDECIDED] = "undecided: ",
        [OUTDATED] = "stale, imported, refuted or unsound; measure them again",
        [CUT] = "cut off before a decision; the same command goes on",
        [INFERRED] = "inferred from measured neighbours",
    };
    char previous_command[sizeof(facts->runs->command) + 64] = "";
    uint32_t no_memory = 0;

    out->count = 0;
    for (enum open_reason reason = 0; reason < OPEN_REASONS; reason++) {
        struct improvable_buckets found = find_improvable(layer, reason);
        char command[sizeof(previous_command)];
        char details[RIVAL_TEXT_BYTES + LIKELY_TEXT_BYTES] = "";

        if (!found.count)
            continue;
        command_for(facts, layer, db, reason, command, sizeof(command));
        if (reason == UNDECIDED)
            undecided_words(layer, found.worst, details, sizeof(details));
        if (reason == UNDECIDED && layer->has_standing && layer->standing.more_s > 0)
            rounds_command(facts, layer, details, sizeof(details), command, sizeof(command));
        if (reason == INFERRED && *command)
            text_put(details, sizeof(details), "; this command measures more of them");
        if (!strcmp(command, previous_command)) /* an earlier line has the command */
            *command = 0;
        else
            text_put(previous_command, sizeof(previous_command), "%s", command);
        remark(out, "%u bucket%s of %s %" PRIu64 " to %" PRIu64 " %s %s%s%s%s", found.count,
               found.count == 1 ? "" : "s", buckets_key_name(layer->buckets),
               buckets_lowest(layer->buckets, found.first),
               buckets_key_of(layer->buckets, found.last), found.count == 1 ? "is" : "are",
               reasons[reason], details, *command ? "\n" : "", command);
    }
    for (size_t i = 0; i < layer->trial_count; i++)
        no_memory += layer->trials[i].row.state == TRIAL_NO_MEMORY ||
                     layer->trials[i].row.state == TRIAL_RULED_OUT;
    if (no_memory)
        remark(out,
               "%u trial%s not fit into the memory; fewer ranks on a node, or a larger "
               "--max-memory, lets such plans run",
               no_memory, no_memory == 1 ? " did" : "s did");
}
