/* The rows, and the gnuplot of each.  `data` is its file, f(v, end) an interval's end or the value
 * itself, at(c, i) where the i-th series has its points, unless there are too many; colours and
 * marks are those of gnuplot.c. */
#include "plots.h"

#include "contrast.h"
#include "lanes.h"
#include "moelookup.h"

/* Lanes without numbers: which value an axis takes. */
static void winner_lanes(const struct layer_facts *layer, FILE *to)
{
    struct lanes lanes = lanes_of(layer);
    char text[32];

    fprintf(to, "set ytics (");
    for (int i = 0; i < lanes.count; i++) {
        lane_name(&lanes.at[i], text);
        if (*text)
            fprintf(to, "%s'%s' %d", i ? ", " : "", text, i);
    }
    fprintf(to, ")\nset yrange [-0.7:%d.%d]\nlast = %d\n", lanes.count ? lanes.count - 1 : 1, 7,
            2 * lanes.axes - 1);
}

static void static_words(const struct layer_facts *layer, FILE *to)
{
    const struct moe_plan *best = contrast_ranked(layer, 0);

    fprintf(to, "static = 'over the best static plan (%s)'\n", best ? PLAN_TEXT(best) : "no plan");
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

/* Lines pass over the points that are left out.  Not where a row may lack its interval. */
#define LINES_GO_ON "set datafile missing NaN\n"

static const char winners[] =
    "unset grid\nset grid xtics\n"
    "if (format eq 'txt') {\n"
    "plot for [i=0:last:2] data index i using 2:3 with points pt 1 notitle, \\\n"
    "     for [i=1:last:2] data index i using 2:3 with points pt 2 notitle, \\\n"
    "     NaN with points pt 1 title 'measured', NaN with points pt 2 title 'inferred'\n"
    "} else {\n"
    "set style fill solid 1.0 noborder\n"
    "box(i) = word('1 1 3 3 4 4 5 5', i+1)\n"
    "plot for [i=0:last] data index i using (0.5*($1+$2)):3:(from($1)):2:($3-0.38):($3+0.38) \\\n"
    "     with boxxyerror lt (int(box(i))) fs transparent solid (i % 2 ? 0.35 : 1.0) noborder "
    "notitle, \\\n"
    "     NaN with boxes lt 8 fs solid 1.0 noborder title 'measured', \\\n"
    "     NaN with boxes lt 8 fs transparent solid 0.35 noborder title 'inferred'\n"
    "}\n";

static const char times[] = LOG_Y
    "stats data using 1 nooutput\nlast = STATS_blocks - 1\n"
    "plot data index 3 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 8 pt 7 ps 0.4 "
    "title columnheader(1), \\\n"
    "     data index 1 using 1:2 with points lt 1 pt 7 ps 0.3 title columnheader(1), \\\n"
    "     data index 2 using (at($1,1)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 2 "
    "title columnheader(1), \\\n"
    "     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 1 "
    "title columnheader(1), \\\n" STATICS_AFTER(4);

static const char ratios[] = RATIO_Y
    "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 1 lw 1.5\n"
    "last = STATS_blocks - 1\n"
    "plot data index 1 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 8 pt 7 ps 0.4 "
    "title columnheader(1), \\\n"
    "     data index 0 using (at($1,1)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 2 "
    "title columnheader(1), \\\n"
    "     NaN with lines lt 1 lw 1.5 title \"table's plan\", \\\n" STATICS_AFTER(2);

static const char gain[] =
    "set yrange [*<-2:5<*]\n"
    "set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8\n"
    "plot data index 1 using 1:2 with points lt 2 pt 5 ps 0.3 title columnheader(1), \\\n"
    "     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 2 "
    "title columnheader(1), \\\n"
    "     data index 2 using (at($1,2)):2 with points lt 3 pt 9 title static, \\\n"
    "     data index 3 using (at($1,2)):2 with points lt 3 pt 8 title columnheader(1)\n";

static const char traffic[] =
    "set yrange [*<-2:5<*]\n"
    "set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8\n"
    "plot data index 0 using 1:2 with impulses lt 1 lw 3 title columnheader(1), \\\n"
    "     data index 1 using 1:2 with impulses lt 3 lw 3 title columnheader(1), \\\n"
    "     data index 2 using 1:2 with impulses lt 4 lw 3 title columnheader(1), \\\n"
    "     data index 0 using 1:3 with points lt 2 pt 7 title 'gain over the default plan', \\\n"
    "     data index 1 using 1:3 with points lt 2 pt 6 title 'the same, inferred'\n";

static const char where[] = LOG_Y LINES_GO_ON
    "plot data index 1 using (at($1,0)):2 with linespoints lt 3 pt 8 dt 2 title 'default: "
    "compute alone', \\\n"
    "     data index 1 using (at($1,0)):3 with linespoints lt 4 pt 4 dt 2 title 'default: "
    "communication alone', \\\n"
    "     data index 1 using (at($1,0)):4 with linespoints lt 1 pt 6 dt 2 title 'default: "
    "step', \\\n"
    "     data index 0 using (at($1,0)):2 with linespoints lt 3 pt 9 title 'table: compute "
    "alone', \\\n"
    "     data index 0 using (at($1,0)):3 with linespoints lt 4 pt 5 title 'table: "
    "communication alone', \\\n"
    "     data index 0 using (at($1,0)):4 with linespoints lt 1 pt 7 title 'table: step'\n";

static const char hidden[] = LINES_GO_ON
    "set yrange [-110<*:*<130]\n"
    /* A line, no arrow: gnuplot draws nothing at all where every point lies outside. */
    "plot 0 notitle with lines lt 8, \\\n"
    "     data index 1 using (at($1,0)):5 with linespoints lt 2 pt 4 dt 2 title columnheader(1), "
    "\\\n"
    "     data index 0 using (at($1,0)):5 with linespoints lt 1 pt 7 title columnheader(1)\n";

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
    "     NaN with lines lt 8 dt 2 title '3 %'\n";

static const char a2a[] =
    RATIO_Y "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 8\n"
            "set key width 2\n" /* words of three letters stand too close */
            "plot for [i=0:3] data index i using (at($1,i)):2:3:4 with yerrorbars lt (i+1) "
            "title columnheader(1)\n";

static const char spent[] =
    "stats data using 2 nooutput\n"
    "unset key\nset grid noytics\nset logscale x\nset xrange [0.5:STATS_max*20]\n"
    "set format x '%.0s%c'\n"
    "set yrange [0.4:5.6]\nset style fill solid 1.0 noborder\n"
    "plot data using (0.5*$2):1:(0.5):2:($1-0.3):($1+0.3):($1 > 2 ? 1 : 8):ytic(3) "
    "with boxxyerror lt 1 lc variable, \\\n"
    "     data using 2:1:2 with labels left offset 0.7,0\n";

static const char distribution[] =
    "stats data using 1 name 'place' nooutput\nstats data using ($2+$3) name 'count' nooutput\n"
    "set grid noytics\nset yrange [place_min-0.6:place_max+0.6]\n"
    "set xrange [0:count_max*1.15]\n"
    "plot data using (0.5*$2):1:(0):2:($1-0.38):($1+0.38):ytic(4) with boxxyerror lt 1 "
    "fs solid 1.0 noborder title 'measured', \\\n"
    "     data using ($2+0.5*$3):1:2:($2+$3):($1-0.38):($1+0.38) with boxxyerror lt 1 "
    "fs transparent solid 0.35 noborder title 'inferred', \\\n"
    "     data using ($2+$3):1:(sprintf('%d', $2+$3)) with labels left offset 0.7,0 notitle\n";

static const char improvement[] =
    "stats data using 3 nooutput\n"
    "set grid noytics\nset yrange [0.4:9.6]\nset xrange [(STATS_min < 0 ? STATS_min*1.1 : 0):"
    "(STATS_max > 0 ? STATS_max : 1)*1.2]\n"
    "plot data using (0.5*$3):1:(0):3:($1-0.42):($1-0.02):ytic(6) with boxxyerror lt 4 "
    "fs solid 1.0 noborder title 'worst bucket', \\\n"
    "     data using (0.5*$2):1:(0):2:($1+0.02):($1+0.42) with boxxyerror lt 1 "
    "fs solid 1.0 noborder title 'mean', \\\n"
    "     data using (most($3)):($1-0.22):(sprintf('%.1f', $3)) with labels left offset 0.7,0 "
    "notitle, \\\n"
    "     data using (most($2)):($1+0.22):(sprintf('%.1f', $2)) with labels left offset 0.7,0 "
    "notitle\n";

#define CAPACITY "capacity c, rows"
#define NEEDS_TRIALS                                                                               \
    "needs trials and their samples, which this database does not hold (a published snapshot "     \
    "holds "                                                                                       \
    "the dictionary alone; the database beside it has them)"

const struct plot plots[PLOTS] = {
    { "winners", "Which plan wins", CAPACITY, "", PLOT_OVER_C,
      "c from, rows; c to, rows; lane; bucket", series_winners, winners, winner_lanes,
      "For every bucket of the table, the value of each axis of its plan.  Full: measured in that "
      "bucket; pale: inferred between buckets that were.  At r=0 no token travels, so d and a are "
      "left out.",
      "needs entries: nothing is decided yet" },
    { "times", "Step time", CAPACITY, "step, ms", PLOT_OVER_C | PLOT_BARS,
      "c, rows; step, ms; low end, ms; high end, ms; samples; of them throttled", series_times,
      times, NULL,
      "A point is the median over the timed steps of one plan in one bucket, a step being the "
      "largest time over the ranks.  Bars: distribution-free interval of the median, at least 95 "
      "% from 6 samples on; with fewer it is the whole range.  Table's and default plan: from the "
      "rounds they ran against each other.  The other plans with a name are the best static "
      "ones.  Small dots: expected by the search's model.  Points of one bucket are set side by "
      "side.",
      "needs entries or trials: nothing is measured yet" },
    { "ratios", "Plans against the table", CAPACITY, "step / step of the table's plan",
      PLOT_OVER_C | PLOT_BARS, "c, rows; ratio; low end; high end; samples; of them throttled",
      series_ratios, ratios, NULL,
      "Median step of a plan over that of the table's plan in the same bucket; above 1 is "
      "slower.  Bars: the plan's own interval over the same number.  Plans that soon proved slow "
      "have few samples, and those beyond the frame are in the data file alone; one below 1 was "
      "not expected to be better by all that was sampled, or might have been slower than the "
      "default.",
      "of plans other than the table's " NEEDS_TRIALS },
    { "gain", "Gain", CAPACITY, "less time, %", PLOT_OVER_C | PLOT_BARS,
      "c, rows; gain, %; low end, %; high end, %; samples; of them throttled", series_gain, gain,
      static_words,
      "1 - time of the table's plan / time of the other.  Over the default: a 95 % interval by "
      "all that was sampled.  It is 0 where the default is kept.  The best static plan is the one "
      "that did best in the rounds that the table met before it was published; without rounds, "
      "the one with the least mean of log(time / time of the table's plan) over the measured "
      "buckets.  Where it was not timed, its ratio to the default plan is interpolated over log c "
      "(open triangles).",
      "needs entries with a default to compare with" },
    { "traffic", "What trainers asked, and what it gains", CAPACITY, "%",
      PLOT_OVER_C | PLOT_TRAFFIC, "c, rows; share of look-ups, %; gain, %; look-ups; bucket",
      series_traffic, traffic, NULL,
      "Bars: share of a bucket among all look-ups that were recorded for this layer "
      "(MOELOOKUP_RECORD), whatever answered them then; buckets without an entry got another "
      "bucket's plan, and `moetune tune --from-misses` measures them.  Points: the gain of this "
      "bucket's entry, as in the plot above.  The gain by traffic that is stated at the head is "
      "sum(look-ups * default's time * gain) / sum(look-ups * default's time) over the buckets "
      "with an entry, pinned look-ups left out: the share of all step time that the table saves.",
      "needs look-ups of this layer in the record" },
    { "where", "Where the time goes", CAPACITY, "ms", PLOT_OVER_C | PLOT_BARS,
      "c, rows; compute alone, ms; communication alone, ms; step, ms; hidden share, %; step - "
      "compute, ms; samples of the step; of them throttled",
      series_where, where, NULL,
      "Compute alone and communication alone: one step each with the other stream muted.  Step: "
      "both, the median.  Communication is the all-to-alls and the gathering of weights.  What "
      "the step takes beyond compute alone is communication that is not hidden; the data file has "
      "it as a column.",
      NEEDS_TRIALS },
    { "hidden", "Hidden share", CAPACITY, "hidden, % of the shorter one", PLOT_OVER_C | PLOT_BARS,
      "c, rows; compute alone, ms; communication alone, ms; step, ms; hidden share, %; step - "
      "compute, ms; samples of the step; of them throttled",
      series_where, hidden, NULL,
      "(compute + communication - step) / min(compute, communication), from the times above.  d "
      "chunks of equal halves can hide 1 - 1/d.  Below 0: running both at once costs more than "
      "one after the other.  The two halves are one step each, so where there is noise a single "
      "point means little; those beyond the frame are in the data file alone.",
      NEEDS_TRIALS },
    { "regret", "If the neighbouring bucket's plan were used", CAPACITY, "more time, %",
      PLOT_OVER_C, "c, rows; regret, %; 1 = timed in that bucket; samples; of them throttled",
      series_regret, regret, NULL,
      "Time of the neighbouring bucket's plan in this bucket over that of its own plan, less 1, "
      "in measured buckets.  0 where both have the same plan.  Many points above 3 % say that "
      "buckets are too wide; below 0, the neighbour's plan was not expected to be better by all "
      "that was sampled.  Open: the plan was not timed there; its ratio to the default plan is "
      "interpolated over log c.",
      "needs a measured bucket with a neighbour" },
    { "a2a", "2dh against linear", CAPACITY, "step with 2dh / step with linear",
      PLOT_OVER_C | PLOT_BARS,
      "c, rows; ratio; low end; high end; size of a linear message, KiB; r; samples; of them "
      "throttled",
      series_a2a, a2a, NULL,
      "Ratio of the median steps of two plans that differ in the all-to-all alone, wherever both "
      "were timed; below 1, 2dh is faster.  Bars: one interval's low end over the other's high "
      "end, so at least 90 % from 6 samples on.  The data file holds the size of a message.",
      "needs buckets in which both all-to-alls were timed with the same r and d" },
    { "spent", "What the table cost", "timed steps, or trials", "", PLOT_TOGETHER,
      "place; count; what", series_spent, spent, NULL,
      "Steps for the search, steps against the default, and those of rounds of the table as a "
      "whole as counted in the database, warm-up left out.  Paper's search: (log_1.5(W/E) + 2) * "
      "8 trials for every bucket of the table; every plan once: all legal plans in every bucket "
      "of the table.  Either of these needs several steps a trial where there is noise.",
      NEEDS_TRIALS },
    { "distribution", "How often each plan wins", "buckets", "", PLOT_TOGETHER,
      "place; measured buckets; inferred buckets; plan", series_distribution, distribution, NULL,
      "Buckets of the table by their plan.", "needs entries: nothing is decided yet" },
    { "improvement", "The table against one static plan", "improvement, %", "", PLOT_TOGETHER,
      "place; mean, %; worst bucket, %; buckets; of these timed there; plan", series_improvement,
      improvement, NULL,
      "Step of r=0, or of r=1 with that all-to-all and d, in every bucket, over that of the "
      "table's plan, less 1: the mean over the measured buckets, and the largest.  Where the "
      "static plan was not timed, its ratio to the default plan is interpolated over log c.",
      "needs measured entries, and trials for all but the default plan" },
};
