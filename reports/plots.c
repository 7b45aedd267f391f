/* The table of plots, and what writes the gnuplot program of each: the common head
 * (gnuplot/head.gp), settings of the layer, and the plot's script. */
#include "plots.h"

#include "buckets.h"
#include "contrast.h"
#include "followed.h"
#include "moelookup.h"
#include "quote.h"
#include "shape.h"
#include "text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- settings of the layer that a script needs */

/* head.gp defines a line type for each colour of plans, from this one on. */
enum { FIRST_PLAN_LINE = 11 };

/* Returns the line type of a plan. */
static int line_of(const struct layer_facts *layer, const struct moe_plan *plan)
{
    return FIRST_PLAN_LINE + (plan ? series_colour(layer, plan) : SERIES_COLOURS);
}

/* The line types of the bands in series_times, and of the best static plan. */
static void set_bands_and_static(const struct layer_facts *layer, FILE *to)
{
    struct bands bands = series_bands(layer);

    fprintf(to, "bands = %d\narray band[%d]\n", bands.count, SERIES_BANDS + 1);
    for (int i = 0; i < bands.count; i++)
        fprintf(to, "band[%d] = %d\n", i + 1,
                line_of(layer, i < SERIES_BANDS ? &bands.plans[i] : NULL));
    fprintf(to, "static = %d\n", line_of(layer, contrast_ranked(layer, 0)));
}

/* The line types of the static plans in series_ratios. */
static void set_rivals(const struct layer_facts *layer, FILE *to)
{
    fprintf(to, "array rival[%d]\n", SERIES_RIVALS);
    for (int i = 0; i < SERIES_RIVALS; i++)
        fprintf(to, "rival[%d] = %d\n", i + 1, line_of(layer, series_rival(layer, (size_t)i)));
}

/* The index of the last block: there is one for each capacity. */
static void set_last_block(const struct layer_facts *layer, FILE *to)
{
    int blocks = 0;

    for (size_t i = 0; i < layer->load_count; i++)
        blocks += !i || layer->loads[i].capacity != layer->loads[i - 1].capacity;
    fprintf(to, "last = %d\n", blocks - 1);
}

/* The index of the last expert that is drawn. */
static void set_last_expert(const struct layer_facts *layer, FILE *to)
{
    uint32_t experts = layer->counts ? layer->counts->experts : 1;

    fprintf(to, "drawn = %u\n", (experts < FOLLOWED_DRAWN ? experts : FOLLOWED_DRAWN) - 1);
}

static void set_phases_label(const struct layer_facts *layer, FILE *to)
{
    fprintf(to, "set xlabel 'ms at c = %u, each phase while nothing else runs'\n",
            series_phases_capacity(layer));
}

/* Line type and name of the best static plan. */
static void set_static_plan(const struct layer_facts *layer, FILE *to)
{
    const struct moe_plan *best = contrast_ranked(layer, 0);

    fprintf(to, "static = %d\nname_of_static = 'over always %s'\n", line_of(layer, best),
            best ? PLAN_WORDS(best) : "one plan");
}

/* ---- the table */

#define CAPACITY NULL /* the x axis is facts_key() */
#define WHERE_COLUMNS                                                                              \
    "c, rows; compute alone, ms; communication alone, ms; step, ms; hidden share, %; low end, %; " \
    "high end, %; step - compute, ms; samples of the step; of them throttled"
#define A2A_FORMULA                                                                                \
    "Median step with the one all-to-all over that with the other, in buckets where both were "    \
    "timed.  Bars: one interval's low end over the other's high end, at least 90 % from 6 "        \
    "samples on.  The data file has the size of a message."

/* Members are in the order of struct plot: name, title, x, y, kind, columns, write, script,
 * write_settings, caption, formula, without. */
const struct plot plots[PLOTS] = {
    { "times", "Step time, and the table's plan", CAPACITY, "step, ms",
      PLOT_OVER_C | PLOT_BARS | PLOT_LARGE,
      "c, rows; step, ms; low end, ms; high end, ms; samples; of them throttled (bands: c from; c "
      "to; 1 = inferred; first bucket; last; plan)",
      series_times, "times", set_bands_and_static,
      "A point is the median step of a plan in one bucket, with its interval.  The band below "
      "shows the plan of the table; a pale band is inferred.  A plan has the same colour in the "
      "next two plots.",
      "Interval: distribution-free for the median, at least 95 % from 6 samples on, and the whole "
      "range of fewer samples.  A step takes as long as its slowest rank.  The times of the "
      "table's plan and of the default plan come from the rounds that compared them.  Small dots: "
      "expected by the search's model.  The data file has all other plans.",
      "needs entries or trials: nothing is measured yet" },
    { "gain", "What the table saves", CAPACITY, "less time, %", PLOT_OVER_C | PLOT_BARS,
      "c, rows; gain, %; low end, %; high end, %; samples; of them throttled", series_gain, "gain",
      set_static_plan, "How much less time a step takes with the table.  Bars: 95 % interval.",
      "1 - time of the table's plan / time of the other plan; 0 where the table has the default.  "
      "The best static plan is the fastest of those that the rounds compared with the table before "
      "it was published.  Without rounds it is the plan with the smallest mean of log(time / time "
      "of the table's plan) over the measured buckets.  In buckets where it was not timed, its "
      "ratio to the default plan is interpolated over log c (open triangles).",
      "needs an entry that gains something over the default plan" },
    { "ratios", "Plans against the table", CAPACITY, "step / table's step", PLOT_OVER_C | PLOT_BARS,
      "c, rows; ratio; low end; high end; samples; of them throttled", series_ratios, "ratios",
      set_rivals,
      "Above 1 a plan is slower than the table's plan.  Points below 1 come from a few steps at "
      "another time: all steps together do not prove such a plan faster.",
      "Median step of a plan over that of the table's plan in the same bucket.  Plans that soon "
      "proved slow have few samples.  A plan below 1 is not in the table because all samples "
      "together did not make it the better plan, or because it might be slower than the default.",
      "needs trials of other plans than the table's, and this database has none (a published "
      "snapshot holds the dictionary alone; the database beside it has the trials)" },
    { "traffic", "What trainers asked, and what it gains", CAPACITY, "%",
      PLOT_OVER_C | PLOT_TRAFFIC, "c, rows; share of look-ups, %; gain, %; look-ups; bucket",
      series_traffic, "traffic", NULL,
      "Bars: a bucket's share of all recorded look-ups.  Points: the gain of its entry.",
      "Look-ups in buckets without an entry got another bucket's plan; `moetune tune "
      "--from-misses` measures such buckets.  The gain by traffic is the share of all step time "
      "that the table saves: sum(look-ups * default's time * gain) / sum(look-ups * default's "
      "time) over the buckets with an entry, without pinned look-ups.",
      "needs look-ups of this layer in the record" },
    { "loads", "Sparse against padded experts", "largest over mean of the tokens per expert",
      "sparse step / padded step", PLOT_LOADS,
      "max/mean; ratio; low end; high end; padded step, ms; sparse step, ms; samples; of them "
      "throttled",
      series_loads, "loads", set_last_block,
      "Below 1 a step is faster when experts compute only the rows they got.  One line for each "
      "capacity.",
      "Median step of r=0 e=sparse over that of r=0, from all steps under the load.  The interval "
      "combines the far ends of both medians; single steps have none.  A load is one that tune was "
      "given by --skew or --routing.",
      "needs both plans measured under a load: tune --skew X --axes r,d,a,e" },
    { "where", "Where the time goes", CAPACITY, "% of the step", PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      WHERE_COLUMNS, series_where, "where", NULL,
      "Compute and communication, each timed alone, in percent of the table's step.  If their sum "
      "is above 100 %, the part above is hidden.",
      "Alone: one step with the other stream muted.  If steps of the plan vary by more than a "
      "tenth, the half is unknown; a half that took a tenth longer than the whole step is not "
      "drawn.  Communication is the all-to-alls and the gathering of weights.  Step - compute is "
      "communication that is not hidden; the data file has it, also for the default plan.",
      "needs trials in the database whose steps vary by less than a tenth" },
    { "phases", "What a step is made of", "ms, each phase while nothing else runs", "", PLOT_PHASES,
      "place; between nodes, ms; inside nodes, ms; gate and route, ms; encode and decode, ms; "
      "experts, ms; other, ms; total, ms; low end, ms; high end, ms; plan",
      series_phases, "phases", set_phases_label,
      "One bar for each plan of one bucket.  Without overlap a step would take the whole bar.",
      "Times of kernels and exchanges in steps with one stream muted, summed by phase.  A bar is "
      "the median of six such steps; the interval is that of their sum.  An exchange that reaches "
      "another node counts as between nodes as a whole.  The plot shows the bucket with the most "
      "plans; the data file has all buckets.",
      "needs trials with phases: tune --phases" },
    { "hidden", "Hidden share", CAPACITY, "hidden, % of the shorter one",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN, WHERE_COLUMNS, series_hidden, "hidden", NULL,
      "How much of the shorter half, compute or communication, runs behind the longer one.  Points "
      "that noise makes unknown are left out.",
      "(compute + communication - step) / min(compute, communication).  d chunks can hide at most "
      "1 - 1/d.  The interval is that of the step and of two single steps, because each half was "
      "timed once.  A point whose interval misses 0 to 1 - 1/d is left out.",
      "needs trials of plans with several chunks whose steps vary by less than a tenth" },
    { "regret", "If the neighbouring bucket's plan were used", CAPACITY, "more time, %",
      PLOT_OVER_C, "c, rows; regret, %; 1 = timed in that bucket; samples; of them throttled",
      series_regret, "regret", NULL,
      "Many points above 3 % mean that buckets are too wide.  Open points are interpolated.",
      "Time of the neighbouring bucket's plan in this bucket / time of its own plan - 1, in "
      "measured buckets.  Below 0, all samples together did not make the neighbour's plan the "
      "better one.  Where that plan was not timed, its ratio to the default plan is interpolated "
      "over log c.",
      "needs a measured bucket in which the neighbour's plan differs by half a percent" },
    { "a2a", "2dh against linear", CAPACITY, "step with 2dh / step with linear",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a linear message, KiB; r; samples; of them "
      "throttled",
      series_a2a, "a2a", NULL,
      "Two plans that differ only in the all-to-all.  Below 1, 2dh is faster.", A2A_FORMULA,
      "needs buckets in which both all-to-alls were timed with the same r and d" },
    { "3dh", "3dh against 2dh", CAPACITY, "step with 3dh / step with 2dh",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a message of 2dh, KiB; r; samples; of them "
      "throttled",
      series_3dh, "a2a", NULL,
      "Two plans that differ only in the all-to-all.  Below 1, 3dh is faster: the third level, "
      "racks, pays.",
      A2A_FORMULA,
      "needs racks, and buckets in which 3dh and 2dh were timed with the same r and d" },
    { "rail", "rail against linear", CAPACITY, "step with rail / step with linear",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a linear message, KiB; r; samples; of them "
      "throttled",
      series_rail, "a2a", NULL,
      "Two plans that differ only in the all-to-all.  Below 1, rail is faster.", A2A_FORMULA,
      "needs buckets in which rail and linear were timed with the same r and d" },
    { "whatif", "What if routing were limited", CAPACITY, "step, ms", PLOT_TOGETHER | PLOT_PAIRS,
      "c, rows; step, ms; low end, ms; high end, ms; sent between nodes, MiB; samples; of them "
      "throttled; plan",
      series_whatif, "whatif", NULL,
      "Two layers that differ only in their router.  What lies between flat x linear and flat x "
      "rail is the transport's gain, and needs no change of the model.",
      "A point is the smallest median step of the plans with r above 0 that were timed at a "
      "capacity.  Bars: 95 % interval of the median, from 6 steps on; the interval of a gain "
      "combines the far ends of both medians.  The plot shows the first such pair of layers; the "
      "data file has all.  Capacities are those at which flat x linear and limited x rail were "
      "timed (tune --search exhaustive times all plans).  Sent between nodes, by one rank in a "
      "step: linear and 2dh send (E/n) r C rows for each other node and trip, C = c rounded up to "
      "a multiple of g d.  3dh sends most rows for other racks twice.  rail sends c1 rows with the "
      "data of their k choices, where c1 is what random routing needs.",
      "needs a capacity at which both layers were timed" },
    { "followed", "Capacities that follow the experts", "step", "rows / even share", PLOT_COUNTS,
      "first of some steps; rows / even share (of an expert, or of all); what was needed (ways: "
      "dropped, %; step, ms)",
      series_followed, "followed", set_last_expert,
      "Bright: an expert's capacity. Dotted: the rows it needed. Black: all experts together, for "
      "three rules that set capacities.",
      "followed: libmoelookup's controller with its default options, on the counts of --counts, "
      "from the static factor 2.5 on.  static: that factor.  EMA rule: from a comment of DynaMoE's "
      "authors (an average with .99; outside .6 to .92 of the capacity, the capacity becomes 1.25 "
      "of it).  1 is k T/E, the rows that an even gate would need.  A point is the largest of the "
      "steps up to the next point.  The ms of the data file are the table's, at the equal capacity "
      "that takes as long.",
      "needs counts of as many experts" },
    { "spent", "What the table cost", "", "", PLOT_TOGETHER, "place; count; what", series_spent,
      NULL, NULL, NULL, NULL, NULL },
    { "improvement", "The table against one static plan", "", "", PLOT_TOGETHER,
      "place; mean, %; worst bucket, %; buckets; of these timed there; plan", series_improvement,
      NULL, NULL, NULL, NULL, NULL },
};

/* ---- a plot's program */

/* The text of each gnuplot/NAME.gp; the build makes the .inc file (rules.mk). */
static const struct {
    const char *name, *text;
} scripts[] = {
#include <report_scripts.inc>
};

static const char *script_text(const char *name)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (!strcmp(scripts[i].name, name))
            return scripts[i].text;
    assert(!"each plot has a script in reports/gnuplot");
    return "";
}

/* Writes a gnuplot string that says which layers are modelled; empty if none is. */
static void write_modelled_share(const struct scope *scope, FILE *to)
{
    size_t modelled = 0;

    for (size_t i = 0; i < scope->count; i++)
        modelled += scope->layers[i].modelled;
    if (modelled == scope->count)
        fputs("'MODELLED, not measured'", to);
    else if (modelled)
        fprintf(to, "'%zu of them MODELLED, not measured'", modelled);
    else
        fputs("''", to);
}

/* Writes title, layer and cluster as labels, because gnuplot would centre a title over the plot. */
static void write_heading(const struct plot *plot, const struct scope *scope, bool page, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    char text[SHAPE_TEXT_BYTES];

    if (page) { /* the page has title, layer and cluster in HTML */
        fputs("mark = ", to);
        write_modelled_share(scope, to);
        fputs("\nset label 103 mark at screen 0.02, 0.97 font small\n", to);
        return;
    }
    if (scope->count > 1)
        snprintf(text, sizeof(text), "%zu layers", scope->count);
    else
        shape_format(&layer->shape, text, sizeof(text));
    gnuplot_write(to,
                  "set label 101 %s at screen 0.02, 0.965 font large\n"
                  "set label 102 %s at screen 0.02, 0.91 font small\nset label 103 ",
                  plot->title, text);
    if (scope->count > 1)
        write_modelled_share(scope, to);
    else
        gnuplot_write(
            to, layer->modelled ? "%s.', %u ranks; MODELLED, not measured'" : "%s.', %u ranks'",
            TEXT_SHORT(layer->cluster.device, 43), layer->cluster.ranks);
    fputs(" at screen 0.02, 0.865 font small\n", to);
}

/* Sets the x axis of capacities: logarithmic if they span a factor of 6, because tune measures a
 * fixed number of buckets for each doubling.  If buckets are many, points with bars would overlap.
 * Then the axis has SERIES_CELLS cells, and at() draws only the first point of each; cell(c) is the
 * cell of c. */
static void write_capacity_axis(const struct plot *plot, const struct layer_facts *layer, FILE *to)
{
    double smallest = INFINITY, largest = 0;

    for (size_t i = 0; i < layer->entry_count; i++) {
        smallest = fmin(smallest, (double)layer->entries[i].capacity);
        largest = fmax(largest, (double)layer->entries[i].capacity);
    }
    for (size_t i = 0; i < layer->trial_count; i++) {
        smallest = fmin(smallest, (double)layer->trials[i].row.capacity);
        largest = fmax(largest, (double)layer->trials[i].row.capacity);
    }
    /* Trainers may look up capacities far from all that were measured. */
    for (size_t i = 0; plot->kind & PLOT_TRAFFIC && i < layer->traffic->bucket_count; i++) {
        double looked_up =
            (double)buckets_key_of(layer->buckets, layer->traffic->buckets[i].bucket);

        smallest = fmin(smallest, looked_up);
        largest = fmax(largest, looked_up);
    }
    if (smallest < 1 || largest <= 6 * smallest) {
        double margin = layer->buckets.window + 0.03 * (largest - smallest);

        fprintf(to, "set xrange [%.6g:%.6g]\nfrom(c) = c\nshift(i) = 1\n", smallest - margin,
                largest + margin);
        fprintf(to, "cell(c) = floor(c*%d/%.6g)\n", SERIES_CELLS, largest + 1);
    } else {
        double axis_begin = smallest / 1.3, tic_ratio = 2;

        while (log(largest / smallest) / log(tic_ratio) > 9)
            tic_ratio *= 2;
        fprintf(to,
                "set logscale x 2\nset xtics %.0f, %.0f\nset xrange [%.6g:%.6g]\n"
                "from(c) = c > %.6g ? c : %.6g\nshift(i) = 1.012**i\n",
                exp2(floor(log2(smallest))), tic_ratio, axis_begin, largest * 1.15, axis_begin,
                axis_begin);
        fprintf(to, "cell(c) = floor(log(c)*%d/%.6g)\n", SERIES_CELLS, log(largest / smallest));
    }
    if (series_is_thinned(layer))
        fprintf(to, "at(c, i) = c <= %u || cell(c) > cell(c - %u) ? c*shift(i) : NaN\n",
                layer->buckets.window, layer->buckets.window);
    else
        fputs("at(c, i) = c*shift(i)\n", to);
}

void script_begin(const char *name, const char *format, bool page, FILE *to)
{
    fprintf(to,
            "# Draws %s.dat: gnuplot %s.gp, or gnuplot -e \"format='pdf'\" %s.gp\n"
            "if (!exists(\"format\")) format = '%s'\n"
            "name = '%s'\npage = %d && format eq 'svg'\n",
            name, name, name, format, name, page);
    fputs(script_text("head"), to);
    fputs("data = name.'.dat'\n", to);
}

void script_end(const char *script, FILE *to)
{
    fputs("set output name.'.'.format\n", to);
    fputs(script_text(script), to);
    fputs("unset output\n", to);
}

void plot_script(const struct plot *plot, const struct scope *scope, const char *name,
                 const char *format, bool page, FILE *to)
{
    script_begin(name, format, page, to);
    write_heading(plot, scope, page, to);
    /* The empty line keeps the legend off the label. */
    gnuplot_write(to, "over = %s\nat_key = %s\nset xlabel over.\"\\n \"\nset ylabel %s\n",
                  plot->x ? plot->x : facts_key(&scope->layers[0]),
                  scope->layers[0].buckets.declared ? facts_key(&scope->layers[0]) : "c", plot->y);
    if (plot->kind & PLOT_OVER_C)
        write_capacity_axis(plot, &scope->layers[0], to);
    if (plot->write_settings)
        plot->write_settings(&scope->layers[0], to);
    script_end(plot->script, to);
}
