/* The rows, and the gnuplot of each.  `data` is its file, f(v, end) an interval's end or the value
 * itself, at(c, i) where the i-th series has its points, unless there are too many; colours and
 * marks are those of gnuplot.c. */
#include "plots.h"

#include "contrast.h"
#include "followed.h"
#include "moelookup.h"
#include "phase_bars.h"
#include "plan_shares.h"

/* How many plans have bands. */
static void bands_count(const struct layer_facts *layer, FILE *to)
{
    fprintf(to, "bands = %d\n", series_bands(layer).count);
}

static void loads_count(const struct layer_facts *layer, FILE *to)
{
    fprintf(to, "last = %d\n", series_load_blocks(layer) - 1);
}

static void followed_experts(const struct layer_facts *layer, FILE *to)
{
    uint32_t experts = layer->counts ? layer->counts->experts : 1;

    fprintf(to, "drawn = %u\n", (experts < FOLLOWED_DRAWN ? experts : FOLLOWED_DRAWN) - 1);
}

static void phases_bucket(const struct layer_facts *layer, FILE *to)
{
    fprintf(to, "set xlabel 'ms at c = %u, each phase while nothing else runs'\n",
            phase_bars_capacity(layer));
}

static void static_words(const struct layer_facts *layer, FILE *to)
{
    const struct moe_plan *best = contrast_ranked(layer, 0);

    fprintf(to, "static = 'over the best static plan (%s)'\n", best ? PLAN_WORDS(best) : "no plan");
}

#define STATICS_AFTER(first)                                                                       \
    "     for [i=" #first ":last] data index i using (at($1,i)):2:(f($2,$3)):(f($2,$4)) "          \
    "with yerrorbars lt (i-" #first "+3) title columnheader(1)\n"

/* Tics at powers of two: those of ten are too few in a small range. */
#define LOG_Y "set logscale y 2\n"

/* One plan that is many times slower must not press all others flat. */
#define RATIO_Y                                                                                    \
    "stats data using 2 nooutput\n"                                                                \
    "wide = 4*STATS_up_quartile - 3\n"                                                             \
    "wide = wide > 1.2 ? wide : 1.2\n"                                                             \
    "set yrange [(STATS_min < 0.95 ? 0.97*STATS_min : 0.92):"                                      \
    "(STATS_max < wide ? (STATS_max > 1.1 ? 1.03*STATS_max : 1.13) : wide)]\n"

/* Numbers that a browser shows where the pointer rests: see inline.c. */
#define HOVER(block, y, words)                                                                     \
    "     data index " block " using 1:" y ":(hover(sprintf(" words                                \
    "))) with labels left font ',0.01' "                                                           \
    "notitle"

/* Two panels over one axis.  gnuplot draws the page's picture twice, for wide and narrow screens.
 */
static const char times[] =
    LOG_Y "mid(a, b) = 0.5*(a + b)\non(kind, wanted) = kind == wanted ? 0.5 : NaN\n"
          "pale(inferred) = inferred == 1 ? ', inferred' : ''\n"
          "do for [narrow=0:(page ? 1 : 0)] {\n"
          "if (narrow) { eval narrow_svg; set output name.'.narrow.svg' }\n"
          "if (!narrow && page) { eval wide_svg; set output name.'.svg' }\n"
          "left = page && !narrow ? 0.1 : 0.2\n"
          "low = narrow ? 0.36 : 0.28\n"
          "if (page) { set label 103 mark at screen 0.02, 0.97 font small }\n"
          "set multiplot\n"
          "set lmargin at screen left; set rmargin at screen 0.97\n"
          "set tmargin at screen top; set bmargin at screen low + 0.08\n"
          "set xlabel ''; set format x ''\n"
          "set key inside top left vertical Left reverse samplen 2 font small\n"
          "plot data index 2 using 1:2 with linespoints lt 2 pt 5 ps 0.5 title "
          "columnheader(1), \\\n"
          "     data index 3 using 1:2 with linespoints lt 3 pt 9 ps 0.5 dt 2 title "
          "columnheader(1), \\\n"
          "     data index 1 using 1:2 with points lt 1 pt 7 ps 0.25 notitle, \\\n"
          "     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 1 "
          "pt 7 notitle, \\\n"
          "     data index 0 using 1:2 with linespoints lt 1 lw 2 pt 7 title "
          "columnheader(1), \\\n"
          "     for [i=0:3] data index i using 1:2:(hover(sprintf('c = %d: %.4g ms, %s', $1, $2, "
          "columnheader(1)))) with labels left font ',0.01' notitle\n"
          "set key inside at screen left, screen (narrow ? 0.25 : 0.13) top left "
          "horizontal Left\n"
          "set key reverse samplen 1 font small maxcols (narrow ? 1 : 4)\n"
          "set tmargin at screen low + 0.06; set bmargin at screen low\n"
          "set format x '%.0f'; set xlabel over; set ylabel ''\n"
          "unset logscale y; unset ytics; unset grid; set yrange [0:1]; set border 1\n"
          "unset label 101; unset label 102; unset label 103\n"
          "set style fill solid 1.0 noborder\n"
          "plot for [k=4:3+bands] data index k using "
          "(mid($1,$2)):(on($3,0)):(from($1)):2:(0):(1) \\\n"
          "         with boxxyerror lt (7+k) title columnheader(1), \\\n"
          "     for [k=4:3+bands] data index k using "
          "(mid($1,$2)):(on($3,1)):(from($1)):2:(0):(1) \\\n"
          "         with boxxyerror lt (7+k) fs transparent solid 0.55 noborder notitle, \\\n"
          "     for [k=4:3+bands] data index k using (from(mid($1,$2))):(0.5): \\\n"
          "         (hover(sprintf('c = %d to %d: %s%s', $1, $2 - 1, stringcolumn(6), "
          "pale($3)))) with labels left font ',0.01' notitle\n"
          "unset multiplot\n"
          "set ylabel 'step, ms'; set ytics; set grid; set logscale y 2; set border 3; set "
          "autoscale y\n"
          "}\n";

static const char ratios[] = RATIO_Y
    "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 1 lw 1.5\n"
    "last = STATS_blocks - 1\n"
    "plot data index 1 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 8 pt 7 ps 0.4 "
    "title columnheader(1), \\\n"
    "     data index 0 using (at($1,1)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 2 "
    "title columnheader(1), \\\n"
    "     NaN with lines lt 1 lw 1.5 title \"table's plan\", \\\n"
    "     for [i=2:last] data index i using 1:2:(hover(sprintf('c = %d: %.3f, %s', $1, $2, "
    "columnheader(1)))) with labels left font ',0.01' notitle, \\\n" HOVER(
        "0", "2", "'c = %d: %.3f, default plan', $1, $2") ", \\\n" STATICS_AFTER(2);

static const char gain[] =
    "set yrange [*<-2:5<*]\n"
    "set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8\n"
    "plot data index 1 using 1:2 with points lt 2 pt 5 ps 0.3 title "
    "columnheader(1), \\\n"
    "     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with "
    "yerrorbars lt 2 "
    "title columnheader(1), \\\n"
    "     data index 2 using (at($1,2)):2 with points lt 3 pt 9 title "
    "static, \\\n"
    "     data index 3 using (at($1,2)):2 with points lt 3 pt 8 title "
    "columnheader(1), \\\n" HOVER(
        "0", "2",
        "'c = %d: %.1f %%%s over the default plan', $1, $2, "
        "ends('%.1f', $3, $4)") ", \\\n" HOVER("2", "2",
                                               "'c = %d: %.1f %% over the best static "
                                               "plan', $1, $2") "\n";

static const char traffic[] = "set yrange [*<-2:5<*]\n"
                              "set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8\n"
                              "plot data index 0 using 1:2 with impulses lt 1 lw 3 title "
                              "columnheader(1), \\\n"
                              "     data index 1 using 1:2 with impulses lt 3 lw 3 title "
                              "columnheader(1), \\\n"
                              "     data index 2 using 1:2 with impulses lt 4 lw 3 title "
                              "columnheader(1), \\\n"
                              "     data index 0 using 1:3 with points lt 2 pt 7 title 'gain over "
                              "the default plan', \\\n"
                              "     data index 1 using 1:3 with points lt 2 pt 6 title 'the same, "
                              "inferred', \\\n" HOVER("0", "2",
                                                      "'c = %d: %.1f %% of the look-ups, gain %.1f "
                                                      "%%', $1, $2, $3") ", \\\n" HOVER("1", "2",
                                                                                        "'c = %d: "
                                                                                        "%.1f %% "
                                                                                        "of the "
                                                                                        "look-ups, "
                                                                                        "gain %.1f "
                                                                                        "%%, "
                                                                                        "inferred',"
                                                                                        " $1, $2, "
                                                                                        "$3") "\n";

static const char where[] =
    "set yrange [0:*<150]\n"
    /* No half takes longer than the whole: such a step was disturbed, and is not drawn. */
    "share(part, step) = part <= 1.1 * step ? 100.0 * part / step : NaN\n"
    "plot 100 notitle with lines lt 8, \\\n"
    "     data index 0 using (at($1,0)):(share($2,$4)) with points lt 3 pt 9 title "
    "'compute alone', \\\n"
    "     data index 0 using (at($1,0)):(share($3,$4)) with points lt 4 pt 5 title "
    "'communication alone', \\\n" HOVER(
        "0", "(share($2,$4))",
        "'c = %d: compute %.4g ms, communication %.4g ms, step %.4g ms', $1, $2, $3, $4") "\n";

static const char hidden[] =
    "set yrange [0:100]\n"
    /* A line, too: gnuplot draws nothing at all where every point lies outside. */
    "plot 0 notitle with lines lt 8, \\\n"
    "     data index 0 using (at($1,0)):5:6:7 with yerrorbars lt 1 pt 7 notitle, \\\n" HOVER(
        "0", "5", "'c = %d: %.0f %% hidden%s', $1, $5, ends('%.0f', $6, $7)") "\n";

static const char regret[] =
    "set yrange [*<-1:4<*] noextend\nset offsets 0, 0, graph 0.04, graph 0.04\n"
    "set arrow 1 from graph 0, first 3 to graph 1, first 3 nohead lt 8 dt 2\n"
    "plot data index 0 using 1:($3 == 1 ? $2 : NaN) with points lt 1 pt 7 title columnheader(1), "
    "\\\n"
    "     data index 1 using ($1*shift(1)):($3 == 1 ? $2 : NaN) with points lt 2 pt 5 "
    "title columnheader(1), \\\n"
    "     data index 0 using 1:($3 == 1 ? NaN : $2) with points lt 1 pt 6 "
    "title 'below, interpolated', \\\n"
    "     data index 1 using ($1*shift(1)):($3 == 1 ? NaN : $2) with points lt 2 pt 4 "
    "title 'above, interpolated', \\\n"
    "     NaN with lines lt 8 dt 2 title '3 %', \\\n" HOVER(
        "0", "2",
        "'c = %d: %.1f %% more with the plan below', $1, $2") ", \\\n" HOVER("1", "2",
                                                                             "'c = %d: %.1f %% "
                                                                             "more with the plan "
                                                                             "above', $1, $2") "\n";

static const char a2a[] =
    RATIO_Y "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 8\n"
            "set key width 2\n" /* words of three letters stand too close */
            "plot for [i=0:3] data index i using (at($1,i)):2:3:4 with yerrorbars lt (i+1) "
            "title columnheader(1), \\\n"
            "     for [i=0:3] data index i using 1:2:(hover(sprintf('c = %d: %.3f%s', $1, $2, "
            "ends('%.3f', $3, $4)))) with labels left font ',0.01' notitle\n";

static const char loads[] =
    "set logscale x 2\nset xrange [0.9:*]\nset yrange [0:1.2<*]\n"
    "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 8\n"
    "plot for [i=0:last] data index i using 1:2 with linespoints lt (i%6+1) pt 7 "
    "title columnheader(1), \\\n"
    "     for [i=0:last] data index i using 1:2:3:4 with yerrorbars lt (i%6+1) pt 7 notitle, \\\n"
    "     for [i=0:last] data index i using 1:2:(hover(sprintf('max/mean %.3g: %.2f%s, %s', "
    "$1, $2, ends('%.2f', $3, $4), columnheader(1)))) with labels left font ',0.01' notitle\n";

static const char phases[] =
    "stats data index 0 using 1 name 'place' nooutput\n"
    "stats data index 0 using 10 name 'most' nooutput\n"
    "set grid noytics\nset yrange [place_min-0.6:place_max+0.6]\n"
    "set xrange [0:most_max*1.05]\n"
    "array names[6] = ['between nodes', 'inside nodes', 'gate and route', 'encode and decode', "
    "'experts', 'other']\n"
    "below(i) = i > 2 ? sum [k=2:i-1] column(k) : 0\n"
    "plot for [i=2:7] data index 0 using (below(i)+0.5*column(i)):1:(below(i)):(below(i+1)):"
    "($1-0.38):($1+0.38):ytic(11) with boxxyerror lt (i-1) fs solid 1.0 noborder "
    "title names[i-1], \\\n"
    "     data index 0 using 8:1:9:10 with xerrorbars lt 8 pt 7 ps 0.3 notitle, \\\n"
    "     for [i=2:7] data index 0 using (below(i)+0.5*column(i)):1:(hover(sprintf('%s: %s %.4g of "
    "%.4g ms', stringcolumn(11), names[i-1], column(i), $8))) with labels left font ',0.01' "
    "notitle\n";

static const char whatif[] =
    "set logscale xy 2\n"
    "plot for [i=0:4] data index i using 1:2:(f($2,$3)):(f($2,$4)) with yerrorbars lt (i+1) "
    "title columnheader(1), \\\n"
    "     for [i=0:4] data index i using 1:2 with lines lt (i+1) notitle, \\\n"
    "     for [i=0:4] data index i using 1:2:(hover(sprintf('c = %d: %s, %s: %.4g ms, %.4g MiB "
    "between nodes', $1, columnheader(1), stringcolumn(8), $2, $5))) with "
    "labels left font ',0.01' notitle\n";

static const char followed[] =
    "set yrange [0:*]\n"
    "plot for [i=0:drawn] data index (3+i) using 1:3 with lines lt (i%6+1) lw 0.5 dt 3 notitle, "
    "\\\n"
    "     for [i=0:drawn] data index (3+i) using 1:2 with steps lt (i%6+1) lw 2 title "
    "columnheader(1), \\\n"
    "     data index 0 using 1:2 with steps lt 8 dt 2 title columnheader(1), \\\n"
    "     data index 1 using 1:2 with steps lt 8 dt 4 title columnheader(1), \\\n"
    "     data index 2 using 1:2 with steps lt 8 lw 2 title columnheader(1), \\\n"
    "     for [i=0:2] data index i using 1:2:(hover(sprintf('step %d: %.2f, %s', $1, $2, "
    "columnheader(1)))) with labels left font ',0.01' notitle\n";

static const char distribution[] =
    "stats data using 1 name 'place' nooutput\nstats data using ($2+$3) name 'count' nooutput\n"
    "set grid noytics\nset yrange [place_min-0.6:place_max+0.6]\n"
    "set xrange [0:count_max*1.15]\n"
    "plot data using (0.5*$2):1:(0):2:($1-0.38):($1+0.38):ytic(4) with boxxyerror lt 1 "
    "fs solid 1.0 noborder title 'measured', \\\n"
    "     data using ($2+0.5*$3):1:2:($2+$3):($1-0.38):($1+0.38) with boxxyerror lt 1 "
    "fs transparent solid 0.35 noborder title 'inferred', \\\n"
    "     data using ($2+$3):1:(sprintf('%d', $2+$3)) with labels left offset 0.7,0 notitle, \\\n"
    "     data using (0.5*($2+$3)):1:(hover(sprintf('%s: %d measured, %d inferred', "
    "stringcolumn(4), $2, $3))) with labels left font ',0.01' notitle\n";

#define CAPACITY NULL /* facts_key() */
#define WHERE_COLUMNS                                                                              \
    "c, rows; compute alone, ms; communication alone, ms; step, ms; hidden share, %; low end, %; " \
    "high end, %; step - compute, ms; samples of the step; of them throttled"
#define NEEDS_TRIALS                                                                               \
    "needs trials and their samples, which this database does not hold (a published snapshot "     \
    "holds "                                                                                       \
    "the dictionary alone; the database beside it has them)"

const struct plot plots[PLOTS] = {
    { "times", "Step time, and the plan that is told", CAPACITY, "step, ms",
      PLOT_OVER_C | PLOT_BARS | PLOT_LARGE,
      "c, rows; step, ms; low end, ms; high end, ms; samples; of them throttled (bands: c from; c "
      "to; 1 = inferred; first bucket; last; plan)",
      series_times, times, bands_count,
      "A point is the median step of a plan in one bucket, with its interval.  The band below is "
      "the table: the plan of each capacity, pale where it is inferred.",
      "Interval: distribution-free for the median, at least 95 % from 6 samples on; with fewer it "
      "is the whole range.  A step takes as long as its slowest rank.  Table's and default plan: "
      "from the rounds they ran against each other.  Small dots: expected by the search's model.  "
      "Other plans are in the data file.",
      "needs entries or trials: nothing is measured yet" },
    { "gain", "Gain", CAPACITY, "less time, %", PLOT_OVER_C | PLOT_BARS,
      "c, rows; gain, %; low end, %; high end, %; samples; of them throttled", series_gain, gain,
      static_words, "How much less time a step takes under the table.  Bars: 95 % interval.",
      "1 - time of the table's plan / time of the other.  It is 0 where the default is kept.  The "
      "best static plan is the one that did best in the rounds that the table met before it was "
      "published; without rounds, the one with the least mean of log(time / time of the table's "
      "plan) over the measured buckets.  Where it was not timed, its ratio to the default plan is "
      "interpolated over log c (open triangles).",
      "needs entries with a default to compare with" },
    { "ratios", "Plans against the table", CAPACITY, "step / table's step", PLOT_OVER_C | PLOT_BARS,
      "c, rows; ratio; low end; high end; samples; of them throttled", series_ratios, ratios, NULL,
      "Above 1 a plan is slower than the table's.  Those beyond the frame are in the data file.",
      "Median step of a plan over that of the table's plan in the same bucket.  Plans that soon "
      "proved slow have few samples; one below 1 was not expected to be better by all that was "
      "sampled, or might have been slower than the default.",
      "of plans other than the table's " NEEDS_TRIALS },
    { "traffic", "What trainers asked, and what it gains", CAPACITY, "%",
      PLOT_OVER_C | PLOT_TRAFFIC, "c, rows; share of look-ups, %; gain, %; look-ups; bucket",
      series_traffic, traffic, NULL,
      "Bars: share of a bucket among all recorded look-ups.  Points: the gain of its entry.",
      "Buckets without an entry got another bucket's plan; `moetune tune --from-misses` measures "
      "them.  The gain by traffic is sum(look-ups * default's time * gain) / sum(look-ups * "
      "default's time) over the buckets with an entry, pinned look-ups left out: the share of all "
      "step time that the table saves.",
      "needs look-ups of this layer in the record" },
    { "loads", "Sparse against padded experts", "largest over mean of the tokens per expert",
      "sparse step / padded step", PLOT_LOADS,
      "max/mean; ratio; low end; high end; padded step, ms; sparse step, ms; samples; of them "
      "throttled",
      series_loads, loads, loads_count,
      "Below 1 a step is faster when experts compute only the rows there are.  A line for each "
      "capacity.",
      "Median step of r=0 e=sparse over that of r=0, of all steps taken under the load; the "
      "interval "
      "is that of both medians being off in the worst way; single steps have none.  Each load is "
      "one that tune was given: "
      "--skew, or --routing.",
      "needs both plans measured under a load: tune --skew X --axes r,d,a,e" },
    { "where", "Where the time goes", CAPACITY, "% of the step", PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      WHERE_COLUMNS, series_where, where, NULL,
      "Compute and communication, each timed alone, against the step of the table's plan.  "
      "Together "
      "they exceed 100 % by what is hidden.",
      "Each alone: one step with the other stream muted; where steps of the plan vary by more than "
      "a tenth it is not known, and one that took a tenth longer than the whole step is not drawn. "
      " Communication is the all-to-alls and the "
      "gathering of weights.  Step - compute is communication that is not hidden; the data file "
      "has it, and the default plan's.",
      "needs trials in the database whose steps vary by less than a tenth" },
    { "phases", "What a step is made of", "ms, each phase while nothing else runs", "", PLOT_PHASES,
      "place; between nodes, ms; inside nodes, ms; gate and route, ms; encode and decode, ms; "
      "experts, ms; other, ms; total, ms; low end, ms; high end, ms; plan",
      series_phases, phases, phases_bucket,
      "One bar for each plan of one bucket; without overlap a step would take the whole bar.",
      "Kernels and exchanges of steps in which one stream is muted, summed by what they are for: "
      "medians of six such steps; the interval is that of their sum.  An exchange that reaches "
      "another node counts as between nodes, all of it.  Drawn is the bucket with the most plans; "
      "the data file has all.",
      "needs trials with phases: tune --phases" },
    { "hidden", "Hidden share", CAPACITY, "hidden, % of the shorter one",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN, WHERE_COLUMNS, series_hidden, hidden, NULL,
      "How much of the shorter half disappears behind the longer one.  Left out where noise leaves "
      "it unknown.",
      "(compute + communication - step) / min(compute, communication).  d chunks can hide 1 - 1/d. "
      " Its interval is that of the step and of two single ones, for each half was timed once; "
      "where "
      "it misses 0 to 1 - 1/d the halves are not known well enough.",
      "needs trials of plans with several chunks whose steps vary by less than a tenth" },
    { "regret", "If the neighbouring bucket's plan were used", CAPACITY, "more time, %",
      PLOT_OVER_C, "c, rows; regret, %; 1 = timed in that bucket; samples; of them throttled",
      series_regret, regret, NULL,
      "Many points above 3 % say that buckets are too wide.  Open: interpolated.",
      "Time of the neighbouring bucket's plan in this bucket over that of its own plan, less 1, in "
      "measured buckets.  Below 0, the neighbour's plan was not expected to be better by all that "
      "was sampled.  Where it was not timed, its ratio to the default plan is interpolated over "
      "log c.",
      "needs a measured bucket with a neighbour" },
    { "a2a", "2dh against linear", CAPACITY, "step with 2dh / step with linear",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a linear message, KiB; r; samples; of them "
      "throttled",
      series_a2a, a2a, NULL,
      "Two plans that differ in the all-to-all alone.  Below 1, 2dh is "
      "faster.",
      "Ratio of the median steps wherever both were timed.  Bars: one interval's low end over the "
      "other's high end, so at least 90 % from 6 samples on.  The data file holds the size of a "
      "message.",
      "needs buckets in which both all-to-alls were timed with the same r and d" },
    { "3dh", "3dh against 2dh", CAPACITY, "step with 3dh / step with 2dh",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a message of 2dh, KiB; r; samples; of them "
      "throttled",
      series_3dh, a2a, NULL,
      "Two plans that differ in the all-to-all alone.  Below 1, 3dh is "
      "faster: a third level, racks, pays.",
      "Ratio of the median steps wherever both were timed.  Bars: one interval's low end over the "
      "other's high end, so at least 90 % from 6 samples on.  The data file holds the size of a "
      "message.",
      "needs racks, and buckets in which 3dh and 2dh were timed with the same r and d" },
    { "rail", "rail against linear", CAPACITY, "step with rail / step with linear",
      PLOT_OVER_C | PLOT_BARS | PLOT_OWN,
      "c, rows; ratio; low end; high end; size of a linear message, KiB; r; samples; of them "
      "throttled",
      series_rail, a2a, NULL,
      "Two plans that differ in the all-to-all alone.  Below 1, rail is "
      "faster.",
      "Ratio of the median steps wherever both were timed.  Bars: one interval's low end over the "
      "other's high end, so at least 90 % from 6 samples on.  The data file holds the size of a "
      "message.",
      "needs buckets in which rail and linear were timed with the same r and d" },
    { "whatif", "What if routing were limited", CAPACITY, "step, ms", PLOT_TOGETHER | PLOT_PAIRS,
      "c, rows; step, ms; low end, ms; high end, ms; sent between nodes, MiB; samples; of them "
      "throttled; plan",
      series_whatif, whatif, NULL,
      "Two layers that differ in their router alone.  What lies between flat x linear and flat x "
      "rail is the transport's gain, and needs no change of the model.",
      "Of the plans with r above 0 that were timed at a capacity, the one with the least median "
      "step.  Bars: 95 % interval of the median, from 6 steps on; that of a gain is both medians "
      "being off in the worst way.  Drawn is the first such pair of layers; the data file has all. "
      " Capacities are those at which flat x linear and limited x rail were timed (tune --search "
      "exhaustive times all plans).  Sent between nodes, by one rank in a step: with linear and "
      "2dh "
      "(E/n) r C rows for each other node and trip, C = c rounded up to a multiple of g d; with "
      "3dh most of what goes to other racks goes twice; with "
      "rail c1 rows, and what goes with their k choices, with c1 as random routing needs it.",
      "needs a capacity at which both layers were timed" },
    { "followed", "Capacities that follow the experts", "step", "rows / even share", PLOT_COUNTS,
      "first of some steps; rows / even share (of an expert, or of all); what was needed (ways: "
      "dropped, %; step, ms)",
      series_followed, followed, followed_experts,
      "Bright: an expert's capacity. Dotted: what it needed. Black: all experts together, for "
      "three "
      "ways to set capacities.",
      "The controller of libmoelookup on the counts of --counts, from the static factor 2.5 on, "
      "with its default options; beside it that static factor, and the rule that DynaMoE's authors "
      "left in a comment (an average with .99; where it leaves .6 to .92 of the capacity, 1.25 of "
      "it). 1 is k T/E, as an even gate would need.  Of the steps between two points the largest. "
      "The ms of the data file are the table's at the equal capacity that takes as long.",
      "needs counts of as many experts" },
    { "distribution", "How often each plan wins", "buckets", "", PLOT_TOGETHER,
      "place; measured buckets; inferred buckets; plan", series_distribution, distribution, NULL,
      "Buckets of the table by their plan.", "Pale: inferred.",
      "needs entries: nothing is decided yet" },
    { "spent", "What the table cost", "", "", PLOT_TOGETHER, "place; count; what", series_spent,
      NULL, NULL, NULL, NULL, NULL },
    { "improvement", "The table against one static plan", "", "", PLOT_TOGETHER,
      "place; mean, %; worst bucket, %; buckets; of these timed there; plan", series_improvement,
      NULL, NULL, NULL, NULL, NULL },
};
