/* moetune study: a paper's evaluation on a modelled cluster.  Starts no ranks and measures nothing.
 */
#include "common_rows.h"
#include "output_file.h"
#include "status.h"
#include "study.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

struct options {
    const char *only, *folder, *sim;
    bool json;
};

static const struct option_row rows[] = {
    { "only", "ROW", OPTION_TEXT, OPTION(only), "one table or figure: table6, figure14" },
    { "output", "DIR", OPTION_TEXT, OPTION(folder), "write DIR/NAME.html and DIR/NAME.json, too",
      .letter = 'o' },
    { "sim", "FILE", OPTION_TEXT, OPTION(sim),
      "another modelled cluster than that of the paper, of any number of ranks" },
    JSON_ROW(OPTION(json)),
    { NULL },
};

static int write_form(const struct study_result *result, const char *folder, const char *ending,
                      void (*form)(const struct study_result *result, FILE *to))
{
    struct output_file file;
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s.%s", folder, result->study->name, ending) >=
        (int)sizeof(path))
        return fail(ERR_ARGUMENT, "-o: the path is too long");
    TRY(output_begin(path, &file));
    form(result, file.to);
    return output_end(&file, OK, NULL, false);
}

static int write_files(const struct study_result *result, const char *folder)
{
    if (mkdir(folder, 0777) && errno != EEXIST)
        return fail(ERR_IO, "%s: %s", folder, strerror(errno));
    TRY(write_form(result, folder, "html", study_page));
    return write_form(result, folder, "json", study_json);
}

static int run(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    const struct study *study;
    struct study_result result;
    int rc = OK;

    TRY(study_find(call->arguments[0], &study));
    TRY(study_run(study, o->only, o->sim, &result));
    if (o->folder)
        rc = write_files(&result, o->folder);
    (o->json ? study_json : study_print)(&result, stdout);
    study_free(&result);
    return rc;
}

const struct verb study_verb = {
    .name = "study",
    .summary = "a paper's tables and figures on a modelled cluster, beside what was published",
    .arguments = "STUDY",
    .least = 1,
    .most = 1,
    .about = "Computes what a paper evaluates with our executor on a virtual clock, and puts each "
             "number beside the published one: fitted, where the cluster's numbers were chosen by "
             "it, or predicted. It needs no GPU, no MPI and no database, and gives the same bytes "
             "every time.",
    .rows = rows,
    .options_size = sizeof(struct options),
    .example = "study tutel --only table6",
    .run = run,
};
