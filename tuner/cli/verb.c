/* Finds the verb and its options in a command line, and prints --help. */
#include "verb.h"

#include "screen.h"
#include "status.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

int verb_exit_code(int status)
{
    if (status >= EXIT_CODE_OF_RANKS)
        return status - EXIT_CODE_OF_RANKS;
    switch (status) {
    case OK: return 0;
    case ERR_ARGUMENT: return 2;
    case ERR_WRONG: return 3;
    case UNSUPPORTED: return 4;
    case ERR_BUSY:
    case ERR_CORRUPT: return 6;
    case ERR_CUT: return 75;
    default: return 1;
    }
}

const struct verb_end verb_ends[] = {
    { 0, "done" },
    { 1, "error" },
    { 2, "usage" },
    { 3, "a check failed" },
    { 4, "nothing found, or a plan that does not apply here" },
    { 6, "database busy or unusable" },
    { 75, "cut off: the same command continues" },
    { 0, NULL },
};

enum { WIDTH = 80, HELP_COLUMN = 28 };

void verb_print_wrapped(const char *text, int indent, FILE *out)
{
    int at = indent, screen = screen_columns(out), width = screen < WIDTH ? screen : WIDTH;

    while (*text) {
        int length = (int)strcspn(text, " \n"), next;

        fprintf(out, "%.*s", length, text);
        at += length;
        text += length;
        if (!*text)
            break;
        next = (int)strcspn(text + 1, " \n");
        if (*text == '\n' || at + 1 + next > width) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else {
            fputc(' ', out);
            at++;
        }
        text++;
    }
    fputc('\n', out);
}

/* ---- --help */

static void print_option(const struct option_row *row, const void *defaults, FILE *out)
{
    char left[64], text[512];

    if (row->letter)
        snprintf(left, sizeof(left), "-%c, --%s %s", row->letter, row->name,
                 row->value ? row->value : "");
    else
        snprintf(left, sizeof(left), "--%s %s", row->name, row->value ? row->value : "");
    option_describe(row, defaults, text, sizeof(text));
    fprintf(out, "  %-*s ", HELP_COLUMN - 3, left);
    verb_print_wrapped(text, HELP_COLUMN, out);
}

void verb_help(const struct verb *verb, FILE *out)
{
    static const struct option_row help = { "help", NULL, OPTION_FLAG, 0, "print this text" };
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count = options_flatten(verb->rows, rows);

    fprintf(out, "usage: moetune %s%s%s%s\n\n", verb->name, verb->arguments ? " " : "",
            verb->arguments ? verb->arguments : "", verb->rows ? " [options]" : "");
    verb_print_wrapped(verb->about, 0, out);
    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == OPTION_GROUP)
            fprintf(out, "%s%s:\n", i ? "\n" : "", rows[i].name);
        else
            print_option(&rows[i], verb->defaults, out);
    }
    print_option(&help, NULL, out);
    fputc('\n', out);
    if (verb->tables) {
        verb->tables(out);
        fputc('\n', out);
    }
    if (verb->notes) {
        verb_print_wrapped(verb->notes, 0, out);
        fputc('\n', out);
    }
    fprintf(out, "example: moetune %s\n", verb->example);
}

void verb_overview(const struct verb *const *verbs, FILE *out)
{
    char ends[512] = "Exit codes:";

    fprintf(out, "usage: moetune VERB [options]\n       moetune --cluster [HOSTS] [options]\n\n"
                 "The autotuner for Mixture-of-Experts layers.\n\n");
    for (; *verbs; verbs++)
        if ((*verbs)->summary)
            fprintf(out, "  %-12s %s\n", (*verbs)->name, (*verbs)->summary);
    fprintf(out, "\n\"moetune help VERB\" explains one, \"man moetune\" all of them.\n");
    for (const struct verb_end *end = verb_ends; end->meaning; end++)
        text_add(ends, sizeof(ends), " %d %s%s", end->code, end->meaning,
                 end[1].meaning ? ";" : ".");
    verb_print_wrapped(ends, 0, out);
}

/* ---- finding verbs */

static const struct verb *const *all_verbs; /* for messages; see verb_list() */

static void write_owners(const char *name, char *text, size_t size)
{
    enum { NAMED = 5 };
    int found = 0;

    *text = 0;
    for (const struct verb *const *v = all_verbs; *v; v++) {
        struct option_row rows[OPTION_ROWS_MAX];
        size_t count = (*v)->summary ? options_flatten((*v)->rows, rows) : 0, i = 0;

        while (i < count && (rows[i].kind == OPTION_GROUP || strcmp(rows[i].name, name) != 0))
            i++;
        if (i < count && ++found <= NAMED)
            text_add(text, size, "%s%s", found > 1 ? ", " : "", (*v)->name);
    }
    if (found > NAMED)
        text_add(text, size, " and %d more", found - NAMED);
    if (found)
        text_add(text, size, found > 1 ? " have it" : " has it");
}

void verb_list(const struct verb *const *verbs)
{
    all_verbs = verbs;
    options_of_other_verbs = write_owners;
}

const struct verb *verb_find(const struct verb *const *verbs, const char *name)
{
    while (*verbs && strcmp((*verbs)->name, name) != 0)
        verbs++;
    return *verbs;
}

int verb_unknown(const struct verb *const *verbs, const char *name)
{
    const char *names[64];
    char near[160];
    size_t n = 0;

    if (*name == '-')
        return fail(ERR_ARGUMENT, "%s: name a verb before its options (see moetune --help)", name);
    for (; *verbs && n < 64; verbs++)
        if ((*verbs)->summary)
            names[n++] = (*verbs)->name;
    suggest(name, names, n, "", near, sizeof(near));
    return fail(ERR_ARGUMENT, "no verb \"%s\" (%s)", name, *near ? near : "see moetune --help");
}

/* ---- calling a verb */

/* Whether `word` is in a list as "set|unset|list". */
static bool is_one_of(const char *word, const char *words)
{
    size_t length = strlen(word);

    for (; *words; words += strspn(words, "|")) {
        size_t here = strcspn(words, "|");

        if (here == length && !strncmp(words, word, length))
            return true;
        words += here;
    }
    return false;
}

static int check_arguments(const struct verb_call *call)
{
    const struct verb *verb = call->verb;

    if (!verb->arguments && call->count)
        return fail(ERR_ARGUMENT, "%s takes no argument \"%s\" (see moetune %s --help)", verb->name,
                    call->arguments[0], verb->name);
    if (verb->most && call->count > verb->most)
        return fail(ERR_ARGUMENT, "%s takes no argument \"%s\" after %s (see moetune %s --help)",
                    verb->name, call->arguments[verb->most], verb->arguments, verb->name);
    if (call->count < verb->least)
        return fail(ERR_ARGUMENT, "%s needs %s (see moetune %s --help)", verb->name,
                    verb->arguments, verb->name);
    for (int i = 0; i < call->count; i++)
        if (!*call->arguments[i] ||
            (strchr(verb->arguments, '|') && !is_one_of(call->arguments[i], verb->arguments)))
            return fail(ERR_ARGUMENT, "%s: %s is wanted, not \"%s\"", verb->name, verb->arguments,
                        call->arguments[i]);
    return OK;
}

static int call_verb(const struct verb *verb, char **argv, int first, void *options)
{
    struct verb_call call = { .verb = verb, .argv = argv };
    bool help = false;
    int argc = 0, at;

    if (verb->defaults)
        memcpy(options, verb->defaults, verb->options_size);
    while (argv[first + argc])
        argc++;
    at = argc;
    TRY(options_parse(verb->rows, argc, argv + first, options, &at, &help));
    if (help) {
        verb_help(verb, stdout);
        return OK;
    }
    call.arguments = argv + first + at;
    call.count = argc - at;
    TRY(check_arguments(&call));
    return verb->run(&call, options);
}

int verb_main(const struct verb *verb, char **argv, int first)
{
    void *options = calloc(1, verb->options_size + 1);
    int rc = options ? call_verb(verb, argv, first, options) : fail(ERR_NOMEM, "the options");

    free(options);
    return rc;
}
