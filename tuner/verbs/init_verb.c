/* moetune init: writes a program with a space, for `tune --space FILE --exec`.
 *
 * The files lie in tuner/program/init/NAME/.  The build puts them into moetune, so that it need not
 * find them when it runs.  The docstring of a program describes it: its first line is the summary,
 * and the indented lines after it are what to type next. */
#include "common_rows.h"
#include "output_file.h"
#include "status.h"
#include "text.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The values of the options in `rows`. */
struct options {
    bool force;
};

static const struct option_row rows[] = {
    { "force", NULL, OPTION_FLAG, OPTION(force), "overwrite files that exist" },
    { NULL },
};

/* All files of all programs; the files of one program are neighbours. */
static const struct file {
    const char *program, *name;
    size_t size;
    const char *text; /* `size` bytes, and a 0 */
} files[] = {
#include <init_files.inc>
};

enum { FILE_COUNT = sizeof(files) / sizeof(files[0]) };

static bool is_main(const struct file *file)
{
    return !strncmp(file->text, "#!", 2);
}

static const char *summary_of(const struct file *file)
{
    return strstr(file->text, "\"\"\"") + 3;
}

/* Returns the beginning of the next line, or the end of the text. */
static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

static void list_programs(FILE *out)
{
    fputs("Programs:\n", out);
    for (const struct file *file = files; file < files + FILE_COUNT; file++)
        if (is_main(file))
            fprintf(out, "  %-10s %.*s\n", file->program, (int)strcspn(summary_of(file), "\n"),
                    summary_of(file));
}

static int path_of(const struct file *file, const char *folder, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, file->name) < PATH_MAX
               ? OK
               : fail(ERR_ARGUMENT, "%.60s...: the name is too long", folder);
}

/* Writes all files of a program.  Without `overwrite` it writes none if one of them exists. */
static int write_program(const char *name, const char *folder, bool overwrite)
{
    struct output_file output;
    char path[PATH_MAX];

    for (const struct file *file = files; file < files + FILE_COUNT && !overwrite; file++) {
        if (strcmp(file->program, name) != 0)
            continue;
        TRY(path_of(file, folder, path));
        if (!access(path, F_OK))
            return fail(ERR_ARGUMENT, "%s exists: --force overwrites it", path);
    }
    if (mkdir(folder, 0777) && errno != EEXIST)
        return fail(ERR_IO, "%s: %s", folder, strerror(errno));
    for (const struct file *file = files; file < files + FILE_COUNT; file++) {
        if (strcmp(file->program, name) != 0)
            continue;
        TRY(path_of(file, folder, path));
        TRY(output_begin(path, &output));
        fwrite(file->text, 1, file->size, output.to);
        TRY(output_end(&output, OK, NULL, false));
        printf("wrote %s\n", path);
    }
    return OK;
}

/* Finds a program by its name.  ERR_ARGUMENT after a message with the one that was probably meant.
 */
static int find_main_file(const char *name, const struct file **found)
{
    const char *names[FILE_COUNT];
    char suggestion[160];
    size_t count = 0;

    for (const struct file *file = files; file < files + FILE_COUNT; file++) {
        if (!is_main(file))
            continue;
        if (!strcmp(file->program, name)) {
            *found = file;
            return OK;
        }
        names[count++] = file->program;
    }
    suggest(name, names, count, "", suggestion, sizeof(suggestion));
    return fail(ERR_ARGUMENT, "init: no program \"%s\" (%s)", name,
                *suggestion ? suggestion : "moetune init lists them");
}

static int verb_init(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    const char *name = call->arguments[0], *folder = call->count > 1 ? call->arguments[1] : ".";
    static const char indent[] = "    ";
    const struct file *program = NULL;

    if (!name) {
        list_programs(stdout);
        return OK;
    }
    TRY(find_main_file(name, &program));
    TRY(write_program(name, folder, o->force));

    /* Prints what to type next: the indented lines after the summary and a blank line. */
    printf("\nnext:\n");
    if (strcmp(folder, ".") != 0) {
        printf("%scd ", indent);
        shell_word(folder, stdout);
        putchar('\n');
    }
    for (const char *line = next_line(next_line(summary_of(program)));
         !strncmp(line, indent, sizeof(indent) - 1); line = next_line(line))
        printf("%.*s", (int)(next_line(line) - line), line);
    return OK;
}

const struct verb init_verb = {
    .name = "init",
    .summary = "write a program to start from, and the space of its axes",
    .arguments = "[NAME [DIR]]",
    .most = 2,
    .about = "Writes the files of a program for `tune --space FILE --exec` into DIR, by default "
             "the current folder. They are a Python program that runs the steps, and a .space file "
             "that declares its axes. Then it prints what to type next. Without NAME it lists the "
             "programs. Without --force it overwrites no file.",
    .rows = rows,
    .options_size = sizeof(struct options),
    .tables = list_programs,
    .notes = "A program asks for a plan before a step and tells its time afterwards, by "
             "moetune.torch.Asker of the Python package (moetune.Asker without torch). It answers "
             "that it cannot run a plan, where that is so. If moetune did not start it, it runs "
             "the plan of --plan. Programs marked \"not run\" were never run here, and say which "
             "sources they follow.",
    .example = "init torch-moe my-layer",
    .run = verb_init,
};
