/* The report as one page of HTML: head, contents, and a section per layer; all text goes through
 * quote_html. */
#include "page.h"

#include "contrast.h"
#include "inline.h"
#include "origin.h"
#include "plan.h"
#include "quote.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const char style[] =
    ":root{color-scheme:light dark;--text:#1a1a1a;--paper:#fff;--soft:#5a5a5a;--line:#d4d4d4;"
    "--note:#fff4e0}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e8e8e8;--paper:#161616;--soft:#b0b0b0;"
    "--line:#404040;--note:#33270f}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:0 16px 48px;max-width:1360px;background:var(--paper);"
    "color:var(--text);font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:24px 0 8px}h2{font-size:1.15rem;margin:40px 0 8px;"
    "border-top:1px solid var(--line);padding-top:16px;overflow-wrap:anywhere}\n"
    "h3{font-size:1rem;margin:0 0 4px}p{margin:6px 0;overflow-wrap:anywhere}"
    "a{color:inherit}\n"
    ".note{background:var(--note);padding:6px 10px;border-left:4px solid #E69F00}\n"
    ".soft,figcaption{color:var(--soft);font-size:.875rem}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));"
    "gap:24px;margin-top:16px}\n"
    "figure{margin:0;min-width:0}.scroll{overflow-x:auto}\n"
    "figure svg{display:block;width:100%;min-width:340px;max-width:600px;height:auto;"
    "color:var(--text)}\n"
    ".marks{position:absolute}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}"
    "th,td{border-bottom:1px solid var(--line);padding:3px 10px 3px 0;text-align:left;"
    "vertical-align:top}td.n,th.n{text-align:right}\n"
    "td.long{min-width:16em;overflow-wrap:anywhere}summary{cursor:pointer;margin:8px 0}\n"
    "nav ol{margin:4px 0;padding-left:1.6em}code{overflow-wrap:anywhere}\n";

/* A paragraph each; `class` is their style. */
static void print_remarks(const struct remarks *remarks, const char *class, FILE *to)
{
    for (int i = 0; i < remarks->count; i++) {
        fprintf(to, "<p class=\"%s\">", class);
        quote_html(remarks->lines[i], to);
        fputs("</p>\n", to);
    }
}

static void print_title(const struct section *section, FILE *to)
{
    if (section->scope.count > 1)
        fprintf(to, "All %zu layers", section->scope.count);
    else
        quote_html(SHAPE_TEXT(&section->scope.layers[0].shape), to);
}

/* ---- head */

static void print_contents(const struct report *report, FILE *to)
{
    if (report->section_count < 2)
        return;
    fputs("<nav aria-label=\"Contents\"><ol>\n", to);
    for (size_t i = 0; i < report->section_count; i++) {
        fprintf(to, "<li><a href=\"#%s\">", report->sections[i].name);
        print_title(&report->sections[i], to);
        fputs("</a></li>\n", to);
    }
    fputs("</ol></nav>\n", to);
}

static void print_run(const struct run_row *r, FILE *to)
{
    char when[32] = "";
    struct tm tm;
    time_t at = (time_t)r->started_s;

    if (gmtime_r(&at, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
    fprintf(to, "<tr><td class=\"n\">%" PRId64 "</td><td>%s</td><td>%s</td><td>", r->id, when,
            run_state_words[r->state]);
    quote_html(r->search, to);
    fputs(", ", to);
    quote_html(r->effort, to);
    fprintf(to,
            "</td><td class=\"n\">%u/%u</td><td class=\"n\">%" PRIu64
            "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64 "</td><td>%" PRIu64
            "</td><td>",
            r->buckets_done, r->buckets_planned, r->samples_search, r->samples_default,
            r->samples_warm, r->seed);
    quote_html(r->version, to);
    fputs("</td><td class=\"long\"><code>", to);
    quote_html(r->command, to);
    fputs("</code></td></tr>\n", to);
}

static void print_runs(const struct facts *facts, FILE *to)
{
    if (!facts->run_count)
        return;
    fputs("<details><summary>Runs</summary><div class=\"scroll\"><table>\n<tr><th "
          "class=\"n\">run</th><th>started, UTC</th><th>state</th><th>search</th><th "
          "class=\"n\">buckets</th><th class=\"n\">steps to search</th><th class=\"n\">against "
          "the default</th><th class=\"n\">to warm up</th><th>seed</th><th>version</th>"
          "<th>command</th></tr>\n",
          to);
    for (size_t i = 0; i < facts->run_count; i++)
        print_run(&facts->runs[i], to);
    fputs("</table></div></details>\n", to);
}

static void print_head(const struct report *report, FILE *to)
{
    struct remarks remarks;

    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n" /* else browsers ask for one */
          "<title>moetune report</title>\n<style>\n",
          to);
    fputs(style, to);
    fputs("</style>\n</head>\n<body>\n<h1>moetune report</h1>\n<p class=\"soft\">Database ", to);
    quote_html(report->db, to);
    fputs(".  Every plot was drawn from a data file (.dat) by a script (.gp), both named under it "
          "and lying beside this page: <code>gnuplot NAME.gp</code> draws it again.</p>\n",
          to);
    origin_overall(report->facts, &remarks);
    print_remarks(&remarks, "note", to);
    print_runs(report->facts, to);
    print_contents(report, to);
}

/* ---- plots */

static void print_plot(const struct report *report, const struct section *section,
                       const struct picture *picture, FILE *to)
{
    const struct plot *plot = picture->plot;
    char path[PATH_MAX], trace[400];

    fprintf(to, "<figure id=\"%s\">\n", picture->name);
    if (picture->extent.rows) {
        fputs("<div class=\"scroll\">\n", to);
        snprintf(path, sizeof(path), "%s/%s.svg", report->folder, picture->name);
        inline_svg(path, plot->title, to);
        fputs("</div>\n<figcaption>", to);
        quote_html(plot->caption, to);
        origin_trace(&section->scope, picture, trace, sizeof(trace));
        fprintf(to, "<br>%s; %s.dat, %s.gp", trace, picture->name, picture->name);
    } else {
        fprintf(to, "<h3>%s</h3>\n<p class=\"note\">No plot: ", plot->title);
        quote_html(plot->without, to);
        fputs(".</p>\n<figcaption>", to);
        quote_html(plot->caption, to);
    }
    fputs("</figcaption>\n</figure>\n", to);
}

/* ---- tables */

static void print_share(double share, FILE *to)
{
    if (isnan(share))
        fputs("<td class=\"n\">-</td>", to);
    else
        fprintf(to, "<td class=\"n\">%.1f %%</td>", 100 * share);
}

static void improvement_row(const struct scope *scope, uint32_t ranks, int number, bool worst,
                            FILE *to)
{
    struct static_line line = series_line(number);
    uint32_t compared = 0, timed = 0;

    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td>%s</td>", ranks, line.name,
            worst ? "worst" : "mean");
    for (int i = 0; i < line.count; i++) {
        struct improvement one = series_pooled(scope, ranks, &line.plans[i]);

        print_share(worst ? one.worst : one.mean, to);
        compared += one.buckets;
        timed += one.measured;
    }
    if (line.count < SERIES_LINE_PLANS)
        fprintf(to, "<td colspan=\"%d\"></td>", SERIES_LINE_PLANS - line.count);
    fprintf(to, "<td class=\"n\">%u of %u</td></tr>\n", timed, compared);
}

/* The least number of ranks above `after`, or 0. */
static uint32_t next_ranks(const struct scope *scope, uint32_t after)
{
    uint32_t next = 0;

    for (size_t i = 0; i < scope->count; i++) {
        uint32_t ranks = scope->layers[i].shape.ranks;

        if (ranks > after && (!next || ranks < next))
            next = ranks;
    }
    return next;
}

static void print_improvement(const struct section *section, FILE *to)
{
    const struct scope *scope = &section->scope;

    fputs("<details><summary>Improvement of the table over each static plan, r=0 or r=1, as a "
          "table</summary><div class=\"scroll\"><table>\n<tr><th class=\"n\">ranks</th>"
          "<th>static plan</th><th></th><th class=\"n\">d=1</th><th class=\"n\">d=2</th>"
          "<th class=\"n\">d=4</th><th class=\"n\">d=8</th><th class=\"n\">timed</th></tr>\n",
          to);
    for (uint32_t ranks = next_ranks(scope, 0); ranks; ranks = next_ranks(scope, ranks))
        for (int worst = 0; worst < 2; worst++)
            for (int line = 0; line < SERIES_LINES; line++)
                improvement_row(scope, ranks, line, worst == 1, to);
    fputs("</table></div><p class=\"soft\">Time of the static plan / time of the table's plan - 1 "
          "over the measured buckets.  timed: in how many of the cells' buckets the static plan "
          "was timed itself; elsewhere it is interpolated.  -: never timed.</p></details>\n",
          to);
}

enum { FAILURES_SHOWN = 100 };

static void print_failure(const struct trial_facts *t, FILE *to)
{
    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td>%s</td><td class=\"long\">",
            t->row.key.bucket, PLAN_TEXT(&t->row.key.plan), trial_state_words[t->row.state]);
    quote_html(t->row.message, to);
    fputs("</td></tr>\n", to);
}

static void print_failures(const struct layer_facts *layer, FILE *to)
{
    size_t count = 0;

    for (size_t i = 0; i < layer->trial_count; i++) {
        if (layer->trials[i].row.state == TRIAL_OK)
            continue;
        if (!count++)
            fputs("<details><summary>Trials that gave no time</summary><div class=\"scroll\">"
                  "<table>\n<tr><th class=\"n\">bucket</th><th>plan</th><th>state</th>"
                  "<th>message</th></tr>\n",
                  to);
        if (count <= FAILURES_SHOWN)
            print_failure(&layer->trials[i], to);
    }
    if (count)
        fputs("</table></div>", to);
    if (count > FAILURES_SHOWN)
        fprintf(to, "<p class=\"soft\">and %zu more</p>", count - FAILURES_SHOWN);
    if (count)
        fputs("</details>\n", to);
}

/* ---- sections */

static void print_cluster(const struct layer_facts *layer, FILE *to)
{
    const struct cluster *c = &layer->cluster;

    fputs("<p>", to);
    if (layer->modelled)
        fputs("MODELLED: ", to);
    quote_html(c->device, to);
    fprintf(to, ", %u ranks on %u node%s; buckets of %u rows</p>\n", c->ranks, c->nodes,
            c->nodes == 1 ? "" : "s", layer->window);
}

static void print_section(const struct report *report, const struct section *section, FILE *to)
{
    struct remarks remarks;

    fprintf(to, "<section id=\"%s\">\n<h2>", section->name);
    print_title(section, to);
    fputs("</h2>\n", to);
    if (section->scope.count == 1)
        print_cluster(&section->scope.layers[0], to);
    origin_remarks(report->facts, &section->scope, &remarks);
    print_remarks(&remarks, "note", to);
    origin_summary(&section->scope, &remarks);
    print_remarks(&remarks, "soft", to);
    fputs("<div class=\"plots\">\n", to);
    for (size_t i = 0; i < section->picture_count; i++)
        print_plot(report, section, &section->pictures[i], to);
    fputs("</div>\n", to);
    print_improvement(section, to);
    if (section->scope.count == 1)
        print_failures(&section->scope.layers[0], to);
    fputs("</section>\n", to);
}

/* Any picture has them. */
static void print_marks(const struct report *report, FILE *to)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < report->section_count; i++)
        for (size_t j = 0; j < report->sections[i].picture_count; j++) {
            const struct picture *p = &report->sections[i].pictures[j];

            if (!p->extent.rows)
                continue;
            snprintf(path, sizeof(path), "%s/%s.svg", report->folder, p->name);
            inline_marks(path, to);
            return;
        }
}

void page_write(const struct report *report, FILE *to)
{
    print_head(report, to);
    print_marks(report, to);
    for (size_t i = 0; i < report->section_count; i++)
        print_section(report, &report->sections[i], to);
    fputs("</body>\n</html>\n", to);
}
