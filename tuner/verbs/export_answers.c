/* Picks a layer's answers, writes them in one of the formats, and reads them back. */
#include "export_answers.h"

#include "output_file.h"
#include "space_file.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool answers_options_given(const struct answers_options *o)
{
    return o->space || o->key || o->class || o->sets.count || o->check;
}

static int read_sets(const struct answers_options *o, struct format_set *sets)
{
    for (int i = 0; i < o->sets.count; i++) {
        const char *text = o->sets.items[i], *value = strchr(text, '=');
        size_t length = value ? (size_t)(value - text) : 0;

        if (!length || length >= sizeof(sets[i].name))
            return fail(ERR_ARGUMENT, "--set %s: NAME=VALUE is wanted", text);
        snprintf(sets[i].name, sizeof(sets[i].name), "%.*s", (int)length, text);
        sets[i].value = value + 1;
    }
    return OK;
}

/* A folder's file has the name that its reader looks for. */
static int find_place(const struct format *format, const struct format_job *job, const char *file,
                      char path[PATH_MAX])
{
    char name[FORMAT_NAME_BYTES];
    struct stat is;
    size_t length = strlen(file);
    bool folder = (!stat(file, &is) && S_ISDIR(is.st_mode)) || file[length - 1] == '/';

    if (folder && !format->file_name)
        return fail(ERR_ARGUMENT, "--output %s: a file is wanted", file);
    if (folder)
        TRY(format->file_name(job, name));
    if (snprintf(path, PATH_MAX, "%s%s%s", file, folder && file[length - 1] != '/' ? "/" : "",
                 folder ? name : "") >= PATH_MAX)
        return fail(ERR_ARGUMENT, "--output: the name is too long");
    return format_check_name(format, job, path);
}

static int write_file(const struct format *format, const struct format_job *job, bool check,
                      const char *file)
{
    struct output_file output;
    char path[PATH_MAX];

    if (!file)
        return format->write(job, stdout);
    TRY(find_place(format, job, file, path));
    TRY(output_begin(path, &output));
    TRY(output_end(&output, format->write(job, output.to), NULL, true));
    if (format->file_name)
        note("%s", path);
    return check ? format_read_back(format, job, path) : OK;
}

static int write_answers(const struct format *format, const struct answers *answers,
                         const struct answers_options *o, const char *file)
{
    struct format_set sets[OPTION_LIST_MAX];
    struct format_job job = { answers, sets, (size_t)o->sets.count };

    TRY(read_sets(o, sets));
    TRY(format_check(format, &job));
    return write_file(format, &job, o->check, file);
}

int export_answers(const struct format *format, const char *table, const char *shape,
                   const char *cluster, const struct answers_options *o, const char *file)
{
    struct answers_choice choice = {
        .space = o->space, .shape = shape, .cluster = cluster, .keyed = o->key, .class = -1
    };
    struct moe_shape any = MOE_SHAPE_INIT;
    struct moelookup *open;
    struct answers answers;
    int rc;

    if (shape && shape_parse(shape, &any))
        return ERR_ARGUMENT;
    if (o->check && !file)
        return fail(ERR_ARGUMENT, "--check reads a file back: -o must name one");
    if (o->key)
        TRY(space_key_read(o->key, &choice.key));
    if (o->class)
        TRY(space_class_read(o->class, &choice.class));
    TRY(moelookup_open(table, &open));
    rc = answers_open(open, &choice, &answers);
    if (!rc) {
        rc = write_answers(format, &answers, o, file);
        answers_close(&answers);
    }
    moelookup_close(open);
    return rc;
}
