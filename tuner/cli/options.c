/* Reads a command line by a table of options, with getopt_long. */
#include "options.h"

#include "option_values.h"
#include "status.h"
#include "suggest.h"
#include "text.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* ---- tables */

static size_t flatten(const struct option_row *rows, size_t offset, struct option_row *out,
                      size_t used)
{
    for (; rows && (rows->name || rows->kind == OPTION_GROUP); rows++) {
        if (rows->name) {
            assert(used < OPTION_ROWS_MAX);
            out[used] = *rows;
            out[used].offset += offset;
            out[used++].rows = NULL;
        }
        if (rows->kind == OPTION_GROUP)
            used = flatten(rows->rows, offset + rows->offset, out, used);
    }
    return used;
}

size_t options_flatten(const struct option_row *rows, struct option_row out[OPTION_ROWS_MAX])
{
    return flatten(rows, 0, out, 0);
}

/* ---- the command line */

enum { FIRST_ROW = 256 }; /* getopt's number of a row; below are letters */

struct parser {
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count;
    struct option longs[OPTION_ROWS_MAX + 2];
    char letters[2 * OPTION_ROWS_MAX + 8];
};

static void prepare(const struct option_row *rows, struct parser *p)
{
    size_t used, n = 0;

    *p = (struct parser){ .letters = ":h" }; /* options and arguments in any order */
    used = strlen(p->letters);
    p->count = options_flatten(rows, p->rows);
    for (size_t i = 0; i < p->count; i++) {
        const struct option_row *row = &p->rows[i];
        bool flag = row->kind == OPTION_FLAG;

        if (row->kind == OPTION_GROUP)
            continue;
        p->longs[n++] = (struct option){ row->name, flag ? no_argument : required_argument, NULL,
                                         (int)i + FIRST_ROW };
        if (row->letter)
            used += (size_t)snprintf(p->letters + used, sizeof(p->letters) - used, "%c%s",
                                     row->letter, flag ? "" : ":");
    }
    p->longs[n] = (struct option){ "help", no_argument, NULL, 'h' };
}

/* "--ex" may be more than one, "--tokns" is near one, "-json" lacks a dash. */
static void suggest_option(const struct parser *p, const char *typed, char *text, size_t size)
{
    const char *names[OPTION_ROWS_MAX + 1];
    char name[64];
    size_t n = 0;

    typed += strspn(typed, "-");
    text_put(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
    for (; p->longs[n].name; n++)
        names[n] = p->longs[n].name;
    suggest(name, names, n, "--", text, size);
}

/* A cluster of letters such as "-xc" stays the current argument until its last one is read. */
static const char *culprit(char **argv)
{
    const char *last = argv[optind - 1];
    size_t length = strlen(last);

    return optopt && !(last[0] == '-' && last[1] != '-' && last[length - 1] == optopt)
               ? argv[optind]
               : last;
}

static int no_such_option(const struct parser *p, char **argv)
{
    const char *typed;
    char near[160];

    if (optopt >= FIRST_ROW || optopt == 'h')
        return fail(ERR_ARGUMENT, "--%s takes no value",
                    optopt == 'h' ? "help" : p->rows[optopt - FIRST_ROW].name);
    typed = culprit(argv);
    suggest_option(p, typed, near, sizeof(near));
    if (optopt && !*near)
        return fail(ERR_ARGUMENT, "no option -%c (see --help)", optopt);
    return fail(ERR_ARGUMENT, "no option %s (%s)", typed, *near ? near : "see --help");
}

/* "-c --db x": the value was forgotten, and the next option is no value. */
static bool is_option(const struct parser *p, const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    for (const struct option *o = p->longs; o->name; o++)
        if (!strcmp(o->name, word + 2))
            return true;
    return false;
}

static const struct option_row *row_of(const struct parser *p, int found)
{
    for (size_t i = 0; i < p->count && found < FIRST_ROW; i++)
        if (p->rows[i].letter == found)
            return &p->rows[i];
    return &p->rows[found - FIRST_ROW];
}

int options_parse(const struct option_row *rows, int argc, char **argv, void *target, int *first,
                  bool *help)
{
    struct parser p;
    int index, found;

    prepare(rows, &p);
    optind = 0;
    opterr = 0;
    while ((found = getopt_long(argc, argv, p.letters, p.longs, &index)) != -1) {
        if (found == 'h') {
            *help = true;
            return OK;
        }
        if (found == ':')
            return fail(ERR_ARGUMENT, "%s wants a value (see --help)", argv[optind - 1]);
        if (found == '?')
            return no_such_option(&p, argv);
        if (optarg == argv[optind - 1] && is_option(&p, optarg))
            return fail(ERR_ARGUMENT, "%s wants a value, which %s is not", argv[optind - 2],
                        optarg);
        TRY(option_take(row_of(&p, found), optarg, target));
    }
    *first = optind;
    return OK;
}
