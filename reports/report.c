/* Makes a report: reads the facts from the store, writes data files and scripts, has gnuplot draw
 * them, and writes the page or the text. */
#include "report.h"

#include "gnuplot.h"
#include "output_file.h"
#include "status.h"
#include "text.h"
#include "whatif.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const report_words[] = { "html", "svg", "png", "pdf", "txt", NULL };

/* ---- sections */

/* Returns whether the scope has what the plot shows (enum plot_kind). */
static bool plot_applies(const struct plot *plot, const struct scope *scope)
{
    const struct layer_facts *layer = &scope->layers[0];
    struct whatif_pair pair;

    return (scope->count == 1 || plot->kind & PLOT_TOGETHER) &&
           !(plot->kind & PLOT_OWN && layer->buckets.declared) &&
           !(plot->kind & PLOT_TRAFFIC && !layer->traffic) &&
           !(plot->kind & PLOT_COUNTS && !layer->counts) &&
           !(plot->kind & PLOT_LOADS && !layer->load_count) &&
           !(plot->kind & PLOT_PHASES && !layer->phases) &&
           !(plot->kind & PLOT_PAIRS && !whatif_pair(scope, 0, &pair));
}

static int open_sections(struct report *report)
{
    const struct facts *f = report->facts;
    size_t own_layers = 0, first_layer; /* the section of the first layer alone */

    for (size_t i = 0; i < f->layer_count; i++)
        own_layers += !f->layers[i].buckets.declared;
    /* Section 0 has all layers together if several have moetune's own plans: only such plans are
     * compared between layers. */
    first_layer = own_layers > 1 ? 1 : 0;
    report->sections = calloc(f->layer_count + 1, sizeof(*report->sections));
    if (!report->sections)
        return fail(ERR_NOMEM, "the %zu sections of a report", f->layer_count + 1);
    for (size_t i = 0; i < f->layer_count + first_layer; i++) {
        struct section *s = &report->sections[report->section_count++];

        if (i < first_layer) {
            s->scope = (struct scope){ f->layers, f->layer_count };
            snprintf(s->name, sizeof(s->name), "all");
        } else {
            s->scope = (struct scope){ &f->layers[i - first_layer], 1 };
            text_put(s->name, sizeof(s->name), "layer%zu", i - first_layer + 1);
        }
        for (const struct plot *plot = plots; plot < plots + PLOTS; plot++) {
            struct picture *p = &s->pictures[s->picture_count];

            if (!plot_applies(plot, &s->scope))
                continue;
            p->plot = plot;
            snprintf(p->name, sizeof(p->name), "%s_%s", s->name, plot->name);
            s->picture_count++;
        }
    }
    return OK;
}

/* ---- files */

/* Returns false if the path is too long. */
static bool file_path(const char *folder, const char *name, const char *ending, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s.%s", folder, name, ending) < PATH_MAX;
}

static int create_file(const char *folder, const char *name, const char *ending,
                       struct output_file *file)
{
    char path[PATH_MAX];

    if (!file_path(folder, name, ending, path))
        return fail(ERR_ARGUMENT, "%.60s...: the name is too long", folder);
    return output_begin(path, file);
}

static void remove_file(const char *folder, const char *name, const char *ending)
{
    char path[PATH_MAX];

    if (file_path(folder, name, ending, path))
        output_remove(path);
}

/* Removes the script and the pictures of one plot, but not its data file. */
static void remove_pictures(const char *folder, const char *name)
{
    remove_file(folder, name, "gp");
    remove_file(folder, name, "narrow.svg");
    for (size_t i = REPORT_SVG; report_words[i]; i++)
        remove_file(folder, name, report_words[i]);
}

/* Removes all files of a section.  Returns false if there was none. */
static bool remove_section(const char *folder, const char *section)
{
    char name[PICTURE_NAME_BYTES], path[PATH_MAX];
    bool found = false;

    for (size_t i = 0; i < PLOTS; i++) {
        snprintf(name, sizeof(name), "%s_%s", section, plots[i].name);
        found |= file_path(folder, name, "dat", path) && !access(path, F_OK);
        remove_pictures(folder, name);
        remove_file(folder, name, "dat");
    }
    return found;
}

/* Writes the data file of a plot, and its script if there is something to draw. */
static int write_picture(const struct report *report, const struct section *section,
                         const char *format, struct picture *picture)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    const struct plot *plot = picture->plot;
    struct output_file file;
    char path[PATH_MAX];

    TRY(create_file(report->folder, picture->name, "dat", &file));
    if (section->scope.count == 1)
        fprintf(file.to, "# %s; R=%u%s\n", SHAPE_TEXT(&layer->shape), layer->buckets.window,
                layer->modelled ? "; MODELLED" : "");
    if (section->scope.count == 1 && layer->buckets.declared &&
        !strncmp(plot->columns, "c, rows", 7))
        fprintf(file.to, "# %s: %s%s\n", plot->title, facts_key(layer), plot->columns + 7);
    else
        fprintf(file.to, "# %s: %s\n", plot->title, plot->columns);
    picture->extent = series_write(plot->write, &section->scope, file.to);
    TRY(output_end(&file, OK, NULL, false));
    if (plot->script && !picture->extent.rows)
        picture->without = plot->without;
    else if (plot->kind & (PLOT_OVER_C | PLOT_LOADS | PLOT_PAIRS) &&
             !picture->extent.several_places)
        picture->without = "all its points lie at one place of the axis";
    if (picture->without || !plot->script) {
        remove_pictures(report->folder, picture->name);
        return OK;
    }
    file_path(report->folder, picture->name, format, path);
    TRY(output_check(path));
    TRY(create_file(report->folder, picture->name, "gp", &file));
    plot_script(plot, &section->scope, picture->name, format, report->page, file.to);
    return output_end(&file, OK, NULL, false);
}

/* Writes all plots; gnuplot draws the first ones meanwhile.  *count: how many it draws. */
static int draw_plots(const struct report *report, const char *format, size_t *count)
{
    struct gnuplot *g;
    int rc = OK, ended;

    *count = 0;
    TRY(gnuplot_open(report->folder, format, report->section_count * PLOTS, &g));
    for (size_t i = 0; i < report->section_count; i++)
        for (size_t j = 0; j < report->sections[i].picture_count && !rc; j++) {
            struct picture *p = &report->sections[i].pictures[j];

            rc = write_picture(report, &report->sections[i], format, p);
            if (rc || p->without || !p->plot->script)
                continue;
            rc = gnuplot_draw(g, p->name);
            *count += !rc;
        }
    ended = gnuplot_close(g);
    return rc ? rc : ended;
}

static int write_text(const struct report *report, const char *name, const char *ending,
                      void (*write)(const struct report *report, FILE *to))
{
    struct output_file file;

    TRY(create_file(report->folder, name, ending, &file));
    write(report, file.to);
    return output_end(&file, OK, NULL, false);
}

static int write_report(struct report *report, enum report_format format)
{
    const char *folder = report->folder;
    enum report_format pictures = format == REPORT_HTML ? REPORT_SVG : format;
    size_t count, layers = report->facts->layer_count, old_section = layers;
    char section[24] = "all";
    struct stat info;

    TRY(open_sections(report));
    if (mkdir(folder, 0777) && errno != EEXIST)
        return fail(ERR_IO, "%s: %s", folder, strerror(errno));
    if (stat(folder, &info) || !S_ISDIR(info.st_mode))
        return fail(ERR_IO, "%s is no folder, so no report can be written into it", folder);
    /* An earlier report may have had more layers.  Their files are removed, so that nobody takes
     * them for a part of this report.  Files of the same layers are written again; pictures in
     * another format may stay. */
    if (report->section_count == layers)
        remove_section(folder, section);
    do
        text_put(section, sizeof(section), "layer%zu", ++old_section);
    while (remove_section(folder, section));
    /* An earlier report's page must not stay if this report fails. */
    if (format == REPORT_HTML)
        remove_file(folder, "index", "html");
    if (format == REPORT_TXT)
        remove_file(folder, "report", "txt");
    TRY(draw_plots(report, report_words[pictures], &count));
    if (format == REPORT_TXT) {
        TRY(write_text(report, "report", "txt", sheet_write));
        sheet_write(report, stdout);
        return OK;
    }
    if (format == REPORT_HTML)
        TRY(write_text(report, "index", "html", page_write));
    printf("%s%s: %zu plots of %zu layer%s\n", folder, format == REPORT_HTML ? "/index.html" : "",
           count, layers, layers == 1 ? "" : "s");
    if (!report->facts->entry_count)
        printf("%s holds no entry yet; moetune tune writes entries\n", report->db);
    return OK;
}

int report_write(struct store *store, const struct report_request *request)
{
    struct facts facts;
    struct report report = { .facts = &facts,
                             .db = request->db,
                             .folder = request->folder,
                             .page = request->format == REPORT_HTML };
    size_t unused_layers = 0; /* of the recorded traffic */
    int rc;

    TRY(facts_read(store, request->shape, &facts));
    if (request->traffic)
        unused_layers = facts_traffic(&facts, request->traffic);
    if (unused_layers)
        note("the traffic of %zu recorded layer%s left out: the report has no such layer",
             unused_layers, unused_layers == 1 ? " is" : "s is");
    if (request->shape && !facts.layer_count) {
        note("%s holds no layer \"%s\"; moetune show lists the layers", request->db,
             request->shape);
        rc = UNSUPPORTED;
    } else {
        rc = request->counts ? facts_counts(&facts, request->counts) : OK;
        if (!rc)
            rc = write_report(&report, request->format);
    }
    free(report.sections);
    facts_free(&facts);
    return rc;
}
