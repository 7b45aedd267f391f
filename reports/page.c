/* The report as one page of HTML: head, contents, and a section per layer; all text goes through
 * quote_html. */
#include "page.h"

#include "contrast.h"
#include "drops.h"
#include "followed.h"
#include "gains.h"
#include "inline.h"
#include "legend.h"
#include "origin.h"
#include "plan.h"
#include "quote.h"
#include "summary.h"
#include "text.h"
#include "whatif_table.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const char style[] =
    ":root{color-scheme:light dark;--text:#1a1a1a;--paper:#fff;--soft:#5a5a5a;--line:#d4d4d4;"
    "--note:#fff4e0}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--text:#e8e8e8;--paper:#161616;"
    "--soft:#b0b0b0;--line:#404040;--note:#33270f}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:0 16px 48px;max-width:1840px;background:var(--paper);"
    "color:var(--text);font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1rem;margin:16px 0 0;color:var(--soft)}h2{font-size:1.5rem;line-height:1.25;"
    "margin:16px 0 4px}section+section{border-top:1px solid var(--line);margin-top:40px}\n"
    "h3{font-size:1.05rem;margin:24px 0 4px}p,li{margin:6px 0;max-width:75ch;"
    "overflow-wrap:anywhere}a{color:inherit}\n"
    ".figures{display:flex;flex-wrap:wrap;gap:8px 40px;margin:12px 0}"
    ".figures "
    "div{display:flex;flex-direction:column-reverse;justify-content:flex-end;max-width:18em}."
    "figures dd{margin:0;"
    "font-size:2rem;line-height:1.2;font-weight:600}.figures dt,.soft,figcaption{color:var(--soft);"
    "font-size:.875rem}\n"
    ".note{background:var(--note);padding:6px 10px;border-left:4px solid #E69F00}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));"
    "gap:8px 24px}\n"
    "figure{margin:0;min-width:0}.scroll{overflow-x:auto}\n"
    "figure svg{display:block;width:100%;max-width:520px;height:auto;color:var(--text)}\n"
    "@media screen and (min-width:1600px){.top{display:grid;gap:0 40px;"
    "grid-template-columns:minmax(0,1040px) minmax(700px,1fr)}.top .dictionary "
    ".plan{white-space:normal}}\n"
    "figure svg.wide{max-width:1200px}.narrow{display:none!important}\n"
    "@media screen and (max-width:700px){figure svg.wide{display:none}"
    ".narrow{display:block!important}.dictionary "
    ".extra{display:none}.dictionary{font-size:.8rem}.dictionary .plan,.dictionary tr "
    "th{white-space:normal}"
    ".dictionary td,.dictionary th{padding-right:8px}.figures{gap:8px 24px}.figures "
    "dd{font-size:1.5rem}}\n"
    ".marks{position:absolute}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}"
    "th,td{border-bottom:1px solid var(--line);padding:3px 12px 3px 0;text-align:left;"
    "vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}.plan{white-space:nowrap}\n"
    "td.long{min-width:16em;overflow-wrap:anywhere}summary{cursor:pointer;margin:8px 0}\n"
    ".key{display:grid;grid-template-columns:max-content 1fr;gap:0 12px;font-size:.875rem}"
    ".key dd{margin:0}\n"
    "nav ol{margin:4px 0;padding-left:1.6em}code{overflow-wrap:anywhere}\n"
    "@page{size:A4;margin:14mm}@media print{body{padding:0;font-size:11pt}"
    ".plots{grid-template-columns:1fr 1fr}figure,tr{break-inside:avoid}.scroll{overflow:visible}"
    "h3{break-after:avoid}}\n";

/* A paragraph each; `class` is their style. */
static void print_remarks(const struct remarks *remarks, const char *class, FILE *to)
{
    for (int i = 0; i < remarks->count; i++) {
        fprintf(to, "<p class=\"%s\">", class);
        quote_html(remarks->lines[i], to);
        fputs("</p>\n", to);
    }
}

static void print_layer(const struct layer_facts *layer, FILE *to)
{
    const char *class = layer->declared && *layer->declared->class_name
                            ? strchr(RANGE_TEXT(&layer->shape, 1, layer->class, layer->class), ' ')
                            : NULL;

    quote_html(SHAPE_TEXT(&layer->shape), to);
    if (class) {
        fputs(",", to);
        quote_html(class, to);
    }
}

static void print_title(const struct section *section, FILE *to)
{
    if (section->scope.count > 1)
        fprintf(to, "All %zu layers", section->scope.count);
    else
        print_layer(&section->scope.layers[0], to);
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
        fputs("</a>", to);
        if (report->sections[i].scope.count == 1) {
            char text[HEADLINE_BYTES];

            summary_headline(&report->sections[i].scope.layers[0], text);
            fprintf(to, ": %s", text);
        }
        fputs("</li>\n", to);
    }
    fputs("</ol></nav>\n", to);
}

static void print_run(const struct run_row *r, FILE *to)
{
    fprintf(to, "<tr><td class=\"n\">%" PRId64 "</td><td>%s</td><td>%s</td><td>", r->id,
            DATE_TEXT(r->started_s, DATE_MINUTE), run_state_words[r->state]);
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

void page_begin(const char *title, FILE *to)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n" /* else browsers ask for one */
            "<title>%s</title>\n<style>\n",
            title);
    fputs(style, to);
    fprintf(to, "</style>\n</head>\n<body>\n<h1>%s</h1>\n", title);
}

static void print_head(const struct report *report, FILE *to)
{
    struct remarks remarks;

    page_begin("moetune report", to);
    fputs("<p class=\"soft\">Database ", to);
    quote_html(report->db, to);
    fputs("</p>\n", to);
    origin_overall(report->facts, &remarks);
    print_remarks(&remarks, "note", to);
    print_contents(report, to);
}

/* ---- plots */

static void print_picture(const struct report *report, const struct picture *picture, FILE *to)
{
    bool large = picture->plot->kind & PLOT_LARGE;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.svg", report->folder, picture->name);
    inline_svg(path, picture->plot->title, large ? "wide" : "small", to);
    snprintf(path, sizeof(path), "%s/%s.narrow.svg", report->folder, picture->name);
    if (large)
        inline_svg(path, picture->plot->title, "narrow", to);
}

static void print_plot(const struct report *report, const struct section *section,
                       const struct picture *picture, FILE *to)
{
    const struct plot *plot = picture->plot;
    char trace[400];

    fprintf(to, "<figure id=\"%s\">\n<h3>%s</h3>\n", picture->name, plot->title);
    if (picture->extent.rows)
        print_picture(report, picture, to);
    fputs("<figcaption>", to);
    quote_html(plot->caption, to);
    fputs("<details><summary>How it is computed</summary>", to);
    quote_html(plot->formula, to);
    origin_trace(&section->scope, picture, trace, sizeof(trace));
    fprintf(to, "<br>%s; %s.dat, %s.gp</details></figcaption>\n</figure>\n", trace, picture->name,
            picture->name);
}

static void print_plots(const struct report *report, const struct section *section, bool large,
                        FILE *to)
{
    for (size_t i = 0; i < section->picture_count; i++) {
        const struct picture *p = &section->pictures[i];

        if (p->plot->script && p->extent.rows && !(p->plot->kind & PLOT_LARGE) == !large)
            print_plot(report, section, p, to);
    }
}

/* What has no picture, and what it takes. */
static void print_missing(const struct section *section, FILE *to)
{
    for (size_t i = 0; i < section->picture_count; i++) {
        const struct picture *p = &section->pictures[i];

        if (!p->plot->script || p->extent.rows)
            continue;
        fprintf(to, "<p class=\"soft\">No plot \"%s\": ", p->plot->title);
        quote_html(p->plot->without, to);
        fputs(".</p>\n", to);
    }
}

/* ---- the dictionary */

static void print_share(double share, FILE *to)
{
    if (isnan(share))
        fputs("<td class=\"n\">-</td>", to);
    else
        fprintf(to, "<td class=\"n\">%.1f %%</td>", 100 * share);
}

static size_t same_plan(const struct layer_facts *layer, size_t from)
{
    size_t end = from + 1;

    while (end < layer->entry_count &&
           layer->entries[end].bucket == layer->entries[end - 1].bucket + facts_stride(layer) &&
           plan_equal(&layer->entries[end].plan, &layer->entries[from].plan))
        end++;
    return end;
}

static void print_range(double low, double high, const char *class, FILE *to)
{
    fprintf(to, "<td class=\"%s\">", class);
    if (!isfinite(low))
        fputs("-</td>", to);
    else if (high < low * 1.005)
        fprintf(to, "%.4g</td>", low * 1e-3);
    else
        fprintf(to, "%.4g to %.4g</td>", low * 1e-3, high * 1e-3);
}

static void print_keys(const struct layer_facts *layer, uint32_t first, uint32_t last, FILE *to)
{
    fputs("<tr><td class=\"n\">", to);
    if (layer->declared)
        quote_html(RANGE_TEXT(&layer->shape, layer->window, first, last), to);
    else
        fprintf(to, "%" PRIu64 " to %" PRIu64, (uint64_t)first * layer->window,
                ((uint64_t)last + 1) * layer->window - 1);
    fputs("</td>", to);
}

/* As `moetune show` has it. */
static void print_found(const struct entry_row *e, size_t count, FILE *to)
{
    uint32_t states[ENTRY_STATE_COUNT] = { 0 };

    for (size_t n = 0; n < count; n++)
        for (int i = 0; i < ENTRY_STATE_COUNT; i++)
            states[i] += entry_is(&e[n], 1u << i);
    fputs("<td class=\"extra\">", to);
    if (count == 1)
        quote_html(e->decision, to);
    else
        fprintf(to, "%zu measured, %u inferred", count - states[0], states[0]);
    for (int i = 1; i < ENTRY_STATE_COUNT; i++)
        if (states[i] && count > 1)
            fprintf(to, ", %u %s", states[i], entry_state_words[i]);
        else if (states[i] && strcmp(e->decision, entry_state_words[i]) != 0)
            fprintf(to, ", %s", entry_state_words[i]);
    fputs("</td></tr>\n", to);
}

static void dictionary_row(const struct layer_facts *layer, size_t from, size_t end, FILE *to)
{
    const struct entry_row *e = layer->entries;
    double low = INFINITY, high = 0, default_low = INFINITY, default_high = 0, gain = 0, claims = 0;
    double least = INFINITY;

    for (size_t i = from; i < end; i++) {
        low = fmin(low, e[i].time_us);
        high = fmax(high, e[i].time_us);
        default_low = fmin(default_low, e[i].default_us);
        default_high = fmax(default_high, e[i].default_us);
        if (isfinite(e[i].gain.value) && isfinite(e[i].gain.low)) {
            claims++;
            gain += log1p(-e[i].gain.value);
            least = fmin(least, e[i].gain.low);
        }
    }
    print_keys(layer, e[from].bucket, e[end - 1].bucket, to);
    fprintf(to, "<td class=\"plan\">%s</td>", PLAN_WORDS(&e[from].plan));
    print_range(low, high, "n", to);
    print_range(default_low, default_high, "n extra", to);
    print_share(claims ? 1 - exp(gain / claims) : NAN, to);
    if (isfinite(least))
        fprintf(to, "<td class=\"n extra\">%.1f %%</td>", 100 * least);
    else
        fputs("<td class=\"n extra\">-</td>", to);
    print_found(&e[from], end - from, to);
}

static void print_dictionary(const struct layer_facts *layer, FILE *to)
{
    if (!layer->entry_count)
        return;
    fprintf(to,
            "<h3>The table</h3>\n<div class=\"scroll\"><table class=\"dictionary\">\n<tr>"
            "<th class=\"n\">%s</th><th>plan</th><th class=\"n\">step, ms</th>"
            "<th class=\"n extra\">default, ms</th><th class=\"n\">gain</th>"
            "<th class=\"n extra\">at least</th><th class=\"extra\">found</th></tr>\n",
            facts_key(layer));
    for (size_t i = 0, end; i < layer->entry_count; i = end) {
        end = same_plan(layer, i);
        dictionary_row(layer, i, end, to);
    }
    fputs("</table></div>\n", to);
}

static void print_next(const struct report *report, const struct layer_facts *layer, FILE *to)
{
    struct remarks next;

    summary_next(report->facts, layer, report->db, &next);
    if (!next.count)
        return;
    fputs("<h3>What to do next</h3>\n<ul>\n", to);
    for (int i = 0; i < next.count; i++) {
        char *command = strchr(next.lines[i], '\n');

        if (command)
            *command++ = 0;
        fputs("<li>", to);
        quote_html(next.lines[i], to);
        if (command) {
            fputs(":<br><code>", to);
            quote_html(command, to);
            fputs("</code>", to);
        }
        fputs("</li>\n", to);
    }
    fputs("</ul>\n", to);
}

/* ---- tables */

static void improvement_row(const struct scope *scope, uint32_t ranks,
                            const struct static_line *line, bool worst, FILE *to)
{
    uint32_t compared = 0, timed = 0;

    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td>%s</td>", ranks, line->name,
            worst ? "worst" : "mean");
    for (int i = 0; i < line->count; i++) {
        struct improvement one = series_pooled(scope, ranks, &line->plans[i]);

        print_share(worst ? one.worst : one.mean, to);
        compared += one.buckets;
        timed += one.measured;
    }
    if (line->count < SERIES_LINE_PLANS)
        fprintf(to, "<td colspan=\"%d\"></td>", SERIES_LINE_PLANS - line->count);
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
    struct static_line lines[SERIES_LINES];
    int count = series_lines(scope, lines);

    fputs("<details><summary>Improvement of the table over each static plan, r=0 or r=1, as a "
          "table</summary><div class=\"scroll\"><table>\n<tr><th class=\"n\">ranks</th>"
          "<th>static plan</th><th></th><th class=\"n\">d=1</th><th class=\"n\">d=2</th>"
          "<th class=\"n\">d=4</th><th class=\"n\">d=8</th><th class=\"n\">timed</th></tr>\n",
          to);
    for (uint32_t ranks = next_ranks(scope, 0); ranks; ranks = next_ranks(scope, ranks))
        for (int worst = 0; worst < 2; worst++)
            for (int line = 0; line < count; line++)
                improvement_row(scope, ranks, &lines[line], worst == 1, to);
    fputs("</table></div><p class=\"soft\">Time of the static plan / time of the table's plan - 1 "
          "over the measured buckets.  timed: in how many of the cells' buckets the static plan "
          "was timed itself; elsewhere it is interpolated.  -: never timed.</p></details>\n",
          to);
}

enum { FAILURES_SHOWN = 100 };

static void print_failure(const struct trial_facts *t, FILE *to)
{
    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td>%s</td><td class=\"long\">",
            t->row.key.bucket, PLAN_WORDS(&t->row.key.plan), trial_state_words[t->row.state]);
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

static void print_whatif(const struct scope *scope, FILE *to)
{
    struct remarks remarks;
    struct whatif_pair pair;

    whatif_remarks(scope, &remarks);
    print_remarks(&remarks, "whatif", to);
    for (size_t i = 0; whatif_pair(scope, i, &pair); i++)
        whatif_table(&pair, to);
    followed_remarks(scope, &remarks);
    print_remarks(&remarks, "followed", to);
}

/* ---- sections */

static void print_cluster(const struct layer_facts *layer, FILE *to)
{
    const struct cluster *c = &layer->cluster;

    fputs("<p>", to);
    if (layer->modelled)
        fputs("MODELLED: ", to);
    quote_html(c->device, to);
    fprintf(to, ", %u ranks on %u node%s; buckets ", c->ranks, c->nodes, c->nodes == 1 ? "" : "s");
    if (layer->declared)
        fprintf(to, "by %s</p>\n", layer->declared->key);
    else
        fprintf(to, "of %u rows</p>\n", layer->window);
}

static void print_headline(const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    char text[HEADLINE_BYTES];
    struct figure figures[FIGURES];

    summary_headline(layer, text);
    summary_figures(layer, figures);
    fprintf(to, "<h2>%s</h2>\n<dl class=\"figures\">\n", text);
    for (int i = 0; i < FIGURES; i++)
        fprintf(to, "<div><dt>%s</dt><dd>%s</dd></div>\n", figures[i].words, figures[i].number);
    fputs("</dl>\n<p><b>", to);
    print_title(section, to);
    fputs("</b></p>\n", to);
    print_cluster(layer, to);
}

/* Steps by what they were for, beside what other searches would have taken. */
static void print_spent(const struct section *section, FILE *to)
{
    struct spent spent = series_spent_of(&section->scope);

    if (spent.trials)
        fprintf(to,
                "<p class=\"soft\">%" PRIu64 " steps for the search, %" PRIu64
                " against the default, %" PRIu64
                " in rounds of the table.  The paper's search takes %" PRIu64
                " trials for these buckets, every plan once %" PRIu64 ".</p>\n",
                spent.search, spent.contest, spent.rounds, spent.paper, spent.exhaustive);
}

static void print_section(const struct report *report, const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    bool one = section->scope.count == 1;
    struct remarks remarks;

    fprintf(to, "<section id=\"%s\">\n", section->name);
    if (one)
        print_headline(section, to);
    else
        fprintf(to, "<h2>All %zu layers</h2>\n", section->scope.count);
    origin_remarks(report->facts, &section->scope, &remarks);
    print_remarks(&remarks, "note", to);
    fputs("<div class=\"top\"><div>\n", to);
    print_plots(report, section, true, to);
    fputs("</div><div>\n", to);
    if (one) {
        print_dictionary(layer, to);
        print_next(report, layer, to);
    }
    fputs("</div></div>\n", to);
    if (one && !layer->declared) {
        drops_remarks(layer, &remarks);
        print_remarks(&remarks, "soft", to);
    }
    print_whatif(&section->scope, to);
    fputs("<div class=\"plots\">\n", to);
    print_plots(report, section, false, to);
    fputs("</div>\n", to);
    print_missing(section, to);
    origin_summary(&section->scope, &remarks);
    print_remarks(&remarks, "soft", to);
    if (scope_has_own(&section->scope)) {
        print_spent(section, to);
        print_improvement(section, to);
    }
    if (one)
        print_failures(layer, to);
    fputs("</section>\n", to);
}

/* Any picture has them. */
static void print_marks(const struct report *report, FILE *to)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < report->section_count; i++)
        for (size_t j = 0; j < report->sections[i].picture_count; j++) {
            const struct picture *p = &report->sections[i].pictures[j];

            if (!p->extent.rows || !p->plot->script)
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
    legend_write(report->facts, to);
    print_runs(report->facts, to);
    fputs(
        "<p class=\"soft\">Every plot was drawn from a data file (.dat) by a script (.gp) that lie "
        "beside this page: <code>gnuplot NAME.gp</code> draws it again.</p>\n</body>\n</html>\n",
        to);
}
