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

/* In words, what verb_exit_code() returns: a new code there needs a row here. */
const struct exit_code exit_codes[] = {
    { 0, "done" },
    { 1, "error" },
    { 2, "usage" },
    { 3, "a check failed" },
    { 4, "nothing found, or a plan that does not apply here" },
    { 6, "database busy or unusable" },
    { 75, "cut off: the same command continues" },
    { 0, NULL },
};

enum { LINE_WIDTH_MAX = 80, HELP_COLUMN = 28 };

void verb_print_wrapped(const char *text, int indent, FILE *out)
{
    int column = indent, screen_width = screen_columns(out);
    int line_width = screen_width < LINE_WIDTH_MAX ? screen_width : LINE_WIDTH_MAX;

    while (*text) {
        int word_length = (int)strcspn(text, " \n"), next_length;

        fprintf(out, "%.*s", word_length, text);
        column += word_length;
        text += word_length;
        if (!*text)
            break;
        next_length = (int)strcspn(text + 1, " \n");
        if (*text == '\n' || column + 1 + next_length > line_width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else {
            fputc(' ', out);
            column++;
        }
        text++;
    }
    fputc('\n', out);
}

/* ---- --help */

static void print_option(const struct option_row *row, const void *defaults, FILE *out)
{
    char name[64], help[512];

    if (row->letter)
        snprintf(name, sizeof(name), "-%c, --%s %s", row->letter, row->name,
                 row->value ? row->value : "");
    else
        snprintf(name, sizeof(name), "--%s %s", row->name, row->value ? row->value : "");
    option_describe(row, defaults, help, sizeof(help));
    fprintf(out, "  %-*s ", HELP_COLUMN - 3, name);
    verb_print_wrapped(help, HELP_COLUMN, out);
}

void verb_help(const struct verb *verb, FILE *out)
{
    static const struct option_row help_row = { "help", NULL, OPTION_FLAG, 0, "print this text" };
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
    print_option(&help_row, NULL, out);
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
    char codes[512] = "Exit codes:";

    fprintf(out, "usage: moetune VERB [options]\n       moetune --cluster [HOSTS] [options]\n\n"
                 "The autotuner for Mixture-of-Experts layers.\n\n");
    for (; *verbs; verbs++)
        if ((*verbs)->summary)
            fprintf(out, "  %-12s %s\n", (*verbs)->name, (*verbs)->summary);
    fprintf(out, "\n\"moetune help VERB\" explains one, \"man moetune\" all of them.\n");
    for (const struct exit_code *row = exit_codes; row->meaning; row++)
        text_add(codes, sizeof(codes), " %d %s%s", row->code, row->meaning,
                 row[1].meaning ? ";" : ".");
    verb_print_wrapped(codes, 0, out);
}

/* ---- finding verbs */

static const struct verb *const *all_verbs; /* for messages; verb_set_all() sets it */

/* Whether the verb has an option of this name. */
static bool has_option(const struct verb *verb, const char *name)
{
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count = options_flatten(verb->rows, rows);

    for (size_t i = 0; i < count; i++)
        if (rows[i].kind != OPTION_GROUP && !strcmp(rows[i].name, name))
            return true;
    return false;
}

/* Writes which verbs have an option: "tune has it", "show, log have it", or "a, b, c, d, e and 2
 * more have it"; "" if none has. */
static void write_verbs_with_option(const char *name, char *text, size_t size)
{
    enum { NAMES_MAX = 5 };
    int count = 0;

    *text = 0;
    for (const struct verb *const *verb = all_verbs; *verb; verb++) {
        if (!(*verb)->summary || !has_option(*verb, name))
            continue;
        count++;
        if (count <= NAMES_MAX)
            text_add(text, size, "%s%s", count > 1 ? ", " : "", (*verb)->name);
    }
    if (count > NAMES_MAX)
        text_add(text, size, " and %d more", count - NAMES_MAX);
    if (count)
        text_add(text, size, count > 1 ? " have it" : " has it");
}

void verb_set_all(const struct verb *const *verbs)
{
    all_verbs = verbs;
    options_of_other_verbs = write_verbs_with_option;
}

const struct verb *verb_find(const struct verb *const *verbs, const char *name)
{
    while (*verbs && strcmp((*verbs)->name, name) != 0)
        verbs++;
    return *verbs;
}

int verb_unknown(const struct verb *const *verbs, const char *name)
{
    enum { VERBS_MAX = 64 };
    const char *names[VERBS_MAX];
    char suggestion[160];
    size_t count = 0;

    if (*name == '-')
        return fail(ERR_ARGUMENT, "%s: name a verb before its options (see moetune --help)", name);
    for (; *verbs && count < VERBS_MAX; verbs++)
        if ((*verbs)->summary)
            names[count++] = (*verbs)->name;
    suggest(name, names, count, "", suggestion, sizeof(suggestion));
    return fail(ERR_ARGUMENT, "no verb \"%s\" (%s)", name,
                *suggestion ? suggestion : "see moetune --help");
}

/* ---- calling a verb */

/* Whether `word` is in `list`, for instance "set|unset|list". */
static bool is_one_of(const char *word, const char *list)
{
    size_t word_length = strlen(word);

    for (; *list; list += strspn(list, "|")) {
        size_t listed_length = strcspn(list, "|");

        if (listed_length == word_length && !strncmp(list, word, word_length))
            return true;
        list += listed_length;
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

static int call_verb(const struct verb *verb, char **argv, int name_index, void *options)
{
    struct verb_call call = { .verb = verb, .argv = argv };
    char **words = argv + name_index; /* the verb's name, its options and arguments */
    bool help = false;
    int count = 0, first_argument = 0;

    if (verb->defaults)
        memcpy(options, verb->defaults, verb->options_size);
    while (words[count])
        count++;
    /* Moves the options before the arguments, and sets the index of the first argument. */
    TRY(options_parse(verb->rows, count, words, options, &first_argument, &help));
    if (help) {
        verb_help(verb, stdout);
        return OK;
    }
    call.arguments = words + first_argument;
    call.count = count - first_argument;
    TRY(check_arguments(&call));
    return verb->run(&call, options);
}

int verb_main(const struct verb *verb, char **argv, int name_index)
{
    /* One byte more: calloc() may return NULL for a verb without options, whose size is 0. */
    void *options = calloc(1, verb->options_size + 1);
    int rc = options ? call_verb(verb, argv, name_index, options) : fail(ERR_NOMEM, "the options");

    free(options);
    return rc;
}
