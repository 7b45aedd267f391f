/* Says in sentences how many runs, entries and trials numbers come from and in which state those
 * are, what a table is worth as a whole, what it cost, and what is still open. */
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

/* Rounds, and drops the sign where nothing but zeros would follow it. */
static double percent(double share, int decimals)
{
    double unit = decimals ? 10 : 1;

    return round(share * 100 * unit) / unit + 0.0;
}

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
        remark(out, "EMPTY: the database holds no entry and no trial yet (moetune tune writes "
                    "them)");
    else if (!facts->trial_count)
        remark(out, "This database holds no trials: it is a published snapshot, or they have "
                    "expired.  Plots that need them are left out.");
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

        /* What an earlier run left undone, the newest one on that cluster has taken up. */
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

struct counts {
    uint32_t measured, inferred, stale, cut, missing, trials, states[TRIAL_RULED_OUT + 1];
    size_t modelled;
    uint32_t throttled; /* entries whose times are of disturbed steps, at least in part */
    struct heat heat;
};

static struct counts counts_of(const struct scope *scope)
{
    struct counts c = { 0 };

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

/* Says how tokens chose experts, where not at random: the first load that is found, and whether all
 * entries have it. */
static void load_remark(const struct scope *scope, struct remarks *out)
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

/* Of the entries whose chunks gain more than overlap can, how many, and the first. */
static void beyond_remark(const struct scope *scope, struct remarks *out)
{
    char text[BEYOND_TEXT_BYTES], first[BEYOND_TEXT_BYTES] = "";
    const struct entry_row *at = NULL;
    size_t found = 0;

    for (size_t i = 0; i < scope->count; i++) {
        const struct layer_facts *layer = &scope->layers[i];

        for (size_t k = 0; k < layer->entry_count; k++) {
            trials_beyond(layer->trials, layer->trial_count, layer->entries[k].bucket,
                          &layer->entries[k].plan, text);
            if (!*text)
                continue;
            if (!found++) {
                at = &layer->entries[k];
                text_put(first, sizeof(first), "%s", text);
            }
        }
    }
    if (found)
        remark(out,
               "%zu entr%s more by chunks than overlap can hide: in bucket %u, %s %s.  At another "
               "time it may gain less",
               found, found == 1 ? "y gains" : "ies gain", at->bucket, PLAN_WORDS(&at->plan),
               first);
}

void remarks_section(const struct facts *facts, const struct scope *scope, struct remarks *out)
{
    struct counts c = counts_of(scope);
    char failed[200] = "";

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
    load_remark(scope, out);
    beyond_remark(scope, out);
    if (c.stale)
        remark(out, "%u entries are stale: the machine has changed since", c.stale);
    if (c.cut)
        remark(out, "%u entries are cut off: what was known when the time was up, no decision",
               c.cut);
    for (int state = TRIAL_NO_MEMORY; state <= TRIAL_RULED_OUT; state++)
        if (c.states[state])
            text_add(failed, sizeof(failed), "%s%u %s", *failed ? ", " : "", c.states[state],
                     trial_state_words[state]);
    if (*failed)
        remark(out, "Trials that gave no time: %s", failed);
    if (c.states[TRIAL_RUNNING])
        remark(out, "%u trials were cut off, or run now", c.states[TRIAL_RUNNING]);
    for (size_t i = 0; i < facts->override_count && scope->count == 1; i++) {
        const struct override_row *o = &facts->overrides[i];
        const struct layer_facts *layer = &scope->layers[0];

        if (o->cluster == layer->cluster_id && o->shape == layer->shape_id &&
            o->window == layer->buckets.window)
            remark(out, "Pinned, whatever is shown here: %s in buckets %u to %u: %s",
                   PLAN_WORDS(&o->plan), o->first, o->last, o->why);
    }
}

void remarks_totals(const struct scope *scope, struct remarks *out)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct counts c = counts_of(scope);
    char runs[160], heat[HEAT_TEXT_BYTES], others[HEAT_TEXT_BYTES], gain[160] = "";
    struct traffic_gain g;
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
    g = contrast_traffic(layer);
    one_percent = g.asked ? (double)g.asked / 100 : 1;
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

/* ---- what a run changed */

static const struct run_row *newest_run(const struct facts *facts, const struct layer_facts *layer)
{
    for (size_t i = 0; i < facts->run_count; i++)
        for (size_t j = 0; j < layer->entry_count; j++)
            if (layer->entries[j].run == facts->runs[i].id)
                return &facts->runs[i];
    return NULL;
}

/* What each bucket said before that run; NULL: nothing, or the run left it as it was.  The newest
 * row of another run is meant, for a run may decide a bucket more than once.  The caller frees. */
static const struct entry_row **
said_before(const struct facts *facts, const struct layer_facts *layer, const struct run_row *run)
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

/* How times of the same plan moved: a bucket's is compared where both were measured. */
struct moved {
    uint32_t count;
    double sum, least, most;
};

static void moved_add(struct moved *m, double ratio)
{
    m->least = m->count ? fmin(m->least, ratio) : ratio;
    m->most = m->count ? fmax(m->most, ratio) : ratio;
    m->sum += ratio;
    m->count++;
}

enum { CHANGES_NAMED = 6 };

void remarks_since(const struct facts *facts, const struct layer_facts *layer, struct remarks *out)
{
    const struct run_row *run = newest_run(facts, layer);
    const struct entry_row **before = run ? said_before(facts, layer, run) : NULL;
    const struct entry_row *e = layer->entries;
    uint32_t seen = 0, measured = 0, changed = 0, named = 0;
    struct moved moved = { .count = 0 };
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
        seen += (uint32_t)(end - i);
        for (size_t j = i; j < end; j++)
            measured += !e[j].inferred;
        if (plan_equal(&before[i]->plan, &e[i].plan)) {
            for (size_t j = i; j < end; j++)
                if (!e[j].inferred && !before[j]->inferred && before[j]->time_us > 0)
                    moved_add(&moved, e[j].time_us / before[j]->time_us - 1);
            continue;
        }
        changed += (uint32_t)(end - i);
        if (named++ < CHANGES_NAMED)
            text_add(changes, sizeof(changes), "%s %s: %s, was %s", named > 1 ? ";" : "",
                     facts_range(layer, e[i].bucket, e[end - 1].bucket, range),
                     PLAN_WORDS(&e[i].plan), PLAN_WORDS(&before[i]->plan));
    }
    free(before);
    if (!seen)
        return;
    if (named > CHANGES_NAMED)
        text_add(changes, sizeof(changes), "; and %u more ranges", named - CHANGES_NAMED);
    if (moved.count && fabs(moved.least) < 5e-4 && fabs(moved.most) < 5e-4)
        text_put(times, sizeof(times), "  Where it stayed a step takes as long as before.");
    else if (moved.count)
        text_put(
            times, sizeof(times),
            "  Where it stayed a step takes %+.1f %% against before, in the mean of %u buckets%s.",
            percent(moved.sum / moved.count, 1), moved.count,
            INTERVAL_TEXT("%+.1f", percent(moved.least, 1), percent(moved.most, 1)));
    remark(out, "Run %" PRId64 " of %s UTC decided %u bucket%s anew, %u of them by measuring.",
           run->id, DATE_TEXT(run->started_s, DATE_MINUTE), seen, seen == 1 ? "" : "s", measured);
    if (changed)
        remark(out, "The plan of %u changed:%s.%s", changed, changes, times);
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
             thinned ? "; not every bucket is drawn, the data file holds all" : "");
}

/* ---- what it is worth */

void remarks_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES])
{
    struct moe_plan usual = plan_default(&layer->shape);

    if (!layer->entry_count)
        snprintf(text, HEADLINE_BYTES, "Nothing is decided yet");
    else if (layer->stands)
        standing_text(&layer->standing, &usual, text);
    else
        plan_range_worth(layer->entries, layer->entry_count, text);
}

/* ---- three numbers */

/* A loss is said as one. */
static void gain_figure(const struct gain *gain, bool known, const char *than, struct figure *out)
{
    struct gain loss = { -gain->value, -gain->high, -gain->low };
    bool is_loss = percent(gain->value, 1) < 0;
    const struct gain *g = is_loss ? &loss : gain;

    *out = (struct figure){ .number = "" };
    if (!known || !isfinite(gain->value))
        return;
    snprintf(out->number, FIGURE_BYTES, "%.1f %%", fabs(percent(gain->value, 1)));
    text_put(out->words, FIGURE_BYTES, "%s time than %s%s", is_loss ? "more" : "less",
             TEXT_SHORT(than, 40), INTERVAL_TEXT("%.1f", percent(g->low, 1), percent(g->high, 1)));
}

static void cost_figure(const struct layer_facts *layer, struct figure *out)
{
    static const struct {
        double above, unit;
        const char *name;
    } units[] = { { 7200, 3600, "h" }, { 120, 60, "min" }, { 1, 1, "s" }, { 0, 1e-3, "ms" } };
    double steps_s = 0;
    uint64_t steps = 0;
    int i = 0;

    for (size_t j = 0; j < layer->trial_count; j++) {
        steps += layer->trials[j].heat.steps;
        steps_s += (double)layer->trials[j].taken_ns * 1e-9;
    }
    *out = (struct figure){ .number = "" };
    if (!steps)
        return;
    while (steps_s < units[i].above)
        i++;
    snprintf(out->number, FIGURE_BYTES, "%.3g %s", steps_s / units[i].unit, units[i].name);
    snprintf(out->words, FIGURE_BYTES, "of %ssteps timed for it: %" PRIu64,
             layer->modelled ? "modelled " : "", steps);
}

void remarks_figures(const struct layer_facts *layer, struct figure out[FIGURES])
{
    const struct standing_row *s = &layer->standing;
    struct plan_range all = plan_range_of(layer->entries, layer->entry_count);
    char name[FIGURE_BYTES] = "the best static plan", text[STANDING_TEXT_BYTES];

    gain_figure(&s->gain, layer->stands, "the default", &out[0]);
    if (!layer->stands && plan_range_worth(layer->entries, layer->entry_count, text))
        gain_figure(&all.gain, true, "the default, in the mean of buckets", &out[0]);
    if (layer->stands && s->static_plan.struct_size)
        snprintf(name, sizeof(name), "always %s",
                 s->static_plan.r || s->static_plan.e ? PLAN_WORDS(&s->static_plan) : "r=0");
    gain_figure(&s->static_gain,
                layer->stands && !standing_is_one_plan(s) &&
                    !plan_is_default(&s->static_plan, &layer->shape),
                name, &out[1]);
    cost_figure(layer, &out[2]);
}

/* ---- what is open */

struct open_buckets {
    uint32_t count, first, last;
    const struct entry_row *worst;
};

/* Why a bucket is worth another look. */
enum why { UNDECIDED, OUTDATED, CUT, INFERRED, WHYS };

static bool is_open(const struct entry_row *e, enum why why)
{
    switch (why) {
    case UNDECIDED: return entry_is_undecided(e);
    case OUTDATED:
        return !e->inferred &&
               entry_is(e, ENTRY_STALE | ENTRY_IMPORTED | ENTRY_REFUTED | ENTRY_UNSOUND);
    case CUT: return entry_is(e, ENTRY_CUT);
    default: return e->inferred;
    }
}

static struct open_buckets open_buckets(const struct layer_facts *layer, enum why why)
{
    struct open_buckets o = { 0 };

    for (size_t i = 0; i < layer->entry_count; i++) {
        const struct entry_row *e = &layer->entries[i];

        if (!is_open(e, why))
            continue;
        if (!o.count++)
            o.first = e->bucket;
        o.last = e->bucket;
        if (!o.worst || entry_leaves_more(e, o.worst))
            o.worst = e;
    }
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

/* Writes the command without its --effort, which it sets: "", or another one. */
static void set_effort(const char *command, const char *effort, FILE *to)
{
    static const char word[] = " --effort ";
    const char *at = strstr(command, word);

    if (!*effort || !at) {
        fputs(command, to);
    } else {
        const char *behind = at + strlen(word);

        fprintf(to, "%.*s%s", (int)(at - command), command, behind + strcspn(behind, " "));
    }
    fputs(effort, to);
}

/* The command that goes on with the whole table, for what a part of it gains says nothing of the
 * whole; where more is to be measured than before, longer.  "" for a cluster whose file is not
 * known, for a declared space, whose program is not, and where nothing is longer. */
static void command_for(const struct facts *facts, const struct layer_facts *layer, const char *db,
                        enum why why, char *text, size_t size)
{
    const char *base = last_command(facts, layer);
    const char *effort = why == UNDECIDED || why == INFERRED ? " --effort thorough" : "";
    FILE *to = layer->shape.space ? NULL : fmemopen(text, size, "w");

    *text = 0;
    if (!to)
        return;
    if (base && *effort && strstr(base, effort)) {
        fclose(to);
        *text = 0;
        return;
    }
    if (base) {
        set_effort(base, effort, to);
    } else if (!layer->modelled) {
        fprintf(to, "moetune tune --ranks %u --shape ", layer->shape.ranks);
        shell_word(SHAPE_TEXT(&layer->shape), to);
        fprintf(to, " --window %u --db ", layer->buckets.window);
        shell_word(db, to);
        fputs(effort, to);
    }
    fclose(to);
}

/* The plan that is likely to be better; else, as `moetune show` has it, the one that took least by
 * the medians of its steps, and what may be left. */
static void undecided_words(const struct layer_facts *layer, const struct entry_row *e, char *text,
                            size_t size)
{
    char rival[RIVAL_TEXT_BYTES] = "", left[LEFT_TEXT_BYTES];

    if (e->likely.struct_size) {
        text_put(text, size, "%s", LIKELY_TEXT(e));
        return;
    }
    trials_rival(layer->trials, layer->trial_count, e->bucket, &e->plan, rival);
    entry_left_text(e, left);
    text_put(text, size, "%s%s%s", rival, *rival && *left ? "; by all steps together " : "", left);
}

/* The same command goes on with what its rounds left undecided. */
static void more_command(const struct facts *facts, const struct layer_facts *layer, char *text,
                         size_t text_size, char *command, size_t size)
{
    for (size_t i = 0; i < facts->run_count; i++)
        if (facts->runs[i].id == layer->standing.run) {
            text_add(text, text_size, "; about %s more may decide",
                     DURATION_TEXT(fmax(1, layer->standing.more_s)));
            text_put(command, size, "%s", facts->runs[i].command);
        }
}

void remarks_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out)
{
    static const char *const words[WHYS] = {
        [UNDECIDED] = "undecided: ",
        [OUTDATED] = "stale, imported, refuted or unsound, and to be measured again",
        [CUT] = "cut off, and no decision: the same command goes on",
        [INFERRED] = "estimated from measured neighbours",
    };
    char last[sizeof(facts->runs->command) + 64] = "";
    uint32_t no_memory = 0;

    out->count = 0;
    for (enum why why = 0; why < WHYS; why++) {
        struct open_buckets o = open_buckets(layer, why);
        char command[sizeof(last)];
        char doubt[RIVAL_TEXT_BYTES + LIKELY_TEXT_BYTES] = "";

        if (!o.count)
            continue;
        command_for(facts, layer, db, why, command, sizeof(command));
        if (why == UNDECIDED)
            undecided_words(layer, o.worst, doubt, sizeof(doubt));
        if (why == UNDECIDED && layer->stands && layer->standing.more_s > 0)
            more_command(facts, layer, doubt, sizeof(doubt), command, sizeof(command));
        if (why == INFERRED && *command)
            text_put(doubt, sizeof(doubt), "; this measures more of them");
        if (!strcmp(command, last)) /* it has been said */
            *command = 0;
        else
            text_put(last, sizeof(last), "%s", command);
        remark(out, "%u bucket%s of %s %" PRIu64 " to %" PRIu64 " %s %s%s%s%s", o.count,
               o.count == 1 ? "" : "s", buckets_key(layer->buckets),
               buckets_from(layer->buckets, o.first), buckets_capacity(layer->buckets, o.last),
               o.count == 1 ? "is" : "are", words[why], doubt, *command ? "\n" : "", command);
    }
    for (size_t i = 0; i < layer->trial_count; i++)
        no_memory += layer->trials[i].row.state == TRIAL_NO_MEMORY ||
                     layer->trials[i].row.state == TRIAL_RULED_OUT;
    if (no_memory)
        remark(out, "%u trials had no memory: fewer ranks on a node or --max-memory lets them run",
               no_memory);
}
