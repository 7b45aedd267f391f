/* moetune study: computes studies on modelled clusters.  Starts no ranks and measures nothing. */
#include "common_rows.h"
#include "output_file.h"
#include "status.h"
#include "study.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* The values of the options in `rows`. */
struct options {
    struct study_ask ask;
    const char *folder;
    bool json;
};

#define ASK(member) OPTION(ask.member)
#define TUNE(member) OPTION(ask.tune.member)

static const struct option_row paper_rows[] = {
    { "only", "ROW", OPTION_TEXT, ASK(only),
      "compute one table or figure only, as table6 or figure14" },
    { NULL },
};

#undef TUNE
#define TUNE(member) offsetof(struct study_ask, tune.member)
const struct option_row study_layer_rows[] = {
    { "ranks", "N", OPTION_COUNT, TUNE(setup.where.ranks),
      "ranks of the cluster [those that its file says; 64 on the paper's]", .least = 1,
      .most = 65536 },
    { "ranks-per-rack", "P", OPTION_COUNT, TUNE(setup.where.ranks_per_rack),
      "ranks in a rack of nodes [as its file says]", .least = 1 },
    { .kind = OPTION_GROUP, .offset = TUNE(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_LIST, TUNE(shapes),
      "the layer as text, as \"E=8 k=2 T=4096 D=1024 H=4096\" [without layer options: that of "
      "Tutel's Figure 1]" },
    { "model", "FILE", OPTION_LIST, TUNE(models),
      "read the layer from a Hugging Face config.json" },
    { .kind = OPTION_GROUP, .offset = TUNE(load), .rows = load_rows },
    { "axes", "LIST", OPTION_TEXT, TUNE(axes), "axes to vary, as for `tune`" },
    WINDOW_ROW(TUNE(window), "follows the layer"),
    { "noise", "PERCENT", OPTION_NUMBER, offsetof(struct study_ask, noise_percent),
      "noise of each step, log-normal; 0: none", .least = 0, .most = 100 },
    { "seeds", "N", OPTION_COUNT, offsetof(struct study_ask, seeds),
      "runs, each with its own noise", .least = 1, .most = 10000 },
    SEED_ROW(TUNE(setup.seed)),
    { NULL },
};

static const struct option_row trace_rows[] = {
    { .kind = OPTION_GROUP, .offset = OPTION(ask), .rows = study_layer_rows },
    { "share", "SHARE", OPTION_NUMBER, ASK(share),
      "share of training time that may be spent on trying plans", .least = 0, .most = 1 },
    { NULL },
};

static const struct option_row rows[] = {
    { "sim", "FILE", OPTION_TEXT, ASK(sim), "use this modelled cluster instead of the paper's" },
    { "output", "DIR", OPTION_TEXT, OPTION(folder), "also write DIR/NAME.html and DIR/NAME.json",
      .letter = 'o' },
    JSON_ROW(OPTION(json)),
    { "of papers", .kind = OPTION_GROUP, .rows = paper_rows },
    { "of trace", .kind = OPTION_GROUP, .rows = trace_rows },
    { NULL },
};

static const struct options defaults = { .ask = STUDY_DEFAULTS };

/* Refuses options of `trace` for the study of a paper, and the other way round. */
static int check_options(const struct study *study, const struct options *o)
{
    struct option_row flat[OPTION_ROWS_MAX];
    size_t count = options_flatten(study->run ? paper_rows : trace_rows, flat);

    for (size_t i = 0; i < count; i++)
        if (flat[i].kind != OPTION_GROUP && option_is_given(&flat[i], o, &defaults))
            return fail(ERR_ARGUMENT,
                        "--%s is no option of the study %s (see moetune study --help)",
                        flat[i].name, study->name);
    return OK;
}

static int write_form(const struct study_result *result, const char *folder, const char *ending,
                      void (*write)(const struct study_result *result, FILE *to))
{
    struct output_file file;
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s.%s", folder, result->study->name, ending) >=
        (int)sizeof(path))
        return fail(ERR_ARGUMENT, "-o %.60s...: the path is too long", folder);
    TRY(output_begin(path, &file));
    write(result, file.to);
    TRY(output_end(&file, OK, NULL, false));
    note("%s is written", path);
    return OK;
}

static int verb_study(const struct verb_call *call, void *options)
{
    struct options *o = options;
    const struct study *study;
    struct study_result result;
    int rc = OK;

    TRY(study_find(call->arguments[0], &study));
    TRY(check_options(study, o));
    o->ask.file = call->arguments[1];
    if (o->ask.file && !study->argument)
        return fail(ERR_ARGUMENT, "study %s takes no argument \"%s\"", study->name, o->ask.file);
    TRY(study_run(study, &o->ask, &result));
    if (o->folder && mkdir(o->folder, 0777) && errno != EEXIST)
        rc = fail(ERR_IO, "%s: %s", o->folder, strerror(errno));
    if (o->folder && !rc) {
        int drawn = study_draw(&result, o->folder);

        result.folder = drawn ? NULL : o->folder;
        /* Without gnuplot the page has the numbers alone. */
        rc = drawn == ERR_ARGUMENT || drawn == ERR_NOMEM ? drawn : OK;
    }
    if (o->folder && !rc)
        rc = write_form(&result, o->folder, "html", study_page);
    if (o->folder && !rc)
        rc = write_form(&result, o->folder, "json", study_json);
    (o->json ? study_json : study_print)(&result, stdout);
    study_free(&result);
    return rc;
}

static void print_studies(FILE *out)
{
    enum { NAME_COLUMNS = 14 };

    fprintf(out, "studies:\n");
    for (size_t i = 0; studies[i]; i++) {
        const char *title = study_title(studies[i]), *number = strstr(title, "(arXiv");
        char name[32];

        snprintf(name, sizeof(name), "%s %s", studies[i]->name,
                 studies[i]->argument ? studies[i]->argument : "");
        fprintf(out, "  %-*s ", NAME_COLUMNS, name);
        /* Print "SMILE (arXiv 2212.05191)": whole titles are longer than a line. */
        if (number)
            fprintf(out, "%.*s %s\n", (int)strcspn(title, ":"), title, number);
        else
            verb_print_wrapped(title, NAME_COLUMNS + 3, out);
    }
}

const struct verb study_verb = {
    .name = "study",
    .summary = "compute papers' results and trainings on modelled clusters",
    .arguments = "STUDY [FILE]",
    .least = 1,
    .most = 2,
    .about = "Computes on a modelled cluster, with our executor on a virtual clock. The study of a "
             "paper prints each number beside the published one. A number is fitted if the "
             "cluster's numbers were chosen by it, else predicted. The study trace prints what a "
             "training costs whose capacity changes from step to step. It needs no GPU, no MPI and "
             "no database, and gives the same bytes every time.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct options),
    .tables = print_studies,
    .notes =
        "FILE of trace has a capacity on each line, from the first step to the last (man "
        "moetune-tables). Without FILE the capacity swings 4.38 times, as in Tutel's Figure 1.",
    .example = "study tutel --only table6",
    .run = verb_study,
};
