/* Reads a command line by a table of options, with getopt_long.  For an option that the verb does
 * not have, it finds the one that was probably meant. */
#include "options.h"

#include "cluster.h"
#include "common_rows.h"
#include "status.h"
#include "text.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables */

static size_t flatten_rows(const struct option_row *rows, size_t offset, struct option_row *out,
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
            used = flatten_rows(rows->rows, offset + rows->offset, out, used);
    }
    return used;
}

size_t options_flatten(const struct option_row *rows, struct option_row out[OPTION_ROWS_MAX])
{
    return flatten_rows(rows, 0, out, 0);
}

/* ---- the values of options, by their kind */

const char *const graphs_words[] = { "auto", "on", "off", "ahead", NULL };

uint32_t graphs_steps_are(uint32_t way)
{
    return way == GRAPHS_ON ? STEPS_GRAPHS : (way == GRAPHS_AHEAD ? STEPS_AHEAD : STEPS_EAGER);
}

static int refuse_value(const struct option_row *row, const char *text, const char *wanted)
{
    return fail(ERR_ARGUMENT, "--%s %s: %s is wanted", row->name, *text ? text : "\"\"", wanted);
}

static bool has_range(const struct option_row *row)
{
    return row->least < row->most;
}

static int refuse_number(const struct option_row *row, const char *text, const char *what)
{
    char wanted[96] = "";

    if (has_range(row))
        snprintf(wanted, sizeof(wanted), "%s from %.10g to %.10g", what, row->least, row->most);
    return refuse_value(row, text, *wanted ? wanted : what);
}

static bool is_in_range(const struct option_row *row, double value)
{
    return !has_range(row) || (value >= row->least && value <= row->most);
}

static int read_whole_number(const struct option_row *row, const char *text, uint64_t type_max,
                             uint64_t *out)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || !is_in_range(row, (double)value))
        return refuse_number(row, text, "a whole number");
    if (errno || value > type_max)
        return fail(ERR_ARGUMENT, "--%s %s: at most %llu is wanted", row->name, text,
                    (unsigned long long)type_max);
    *out = value;
    return OK;
}

/* A unit as "GiB", and how many base units it is. */
struct option_unit {
    const char *name;
    double factor;
};

/* Reads "2GiB" with one of the units, up to `base_units_max` base units.  False if the text is no
 * such quantity. */
static bool read_quantity(const char *text, const struct option_unit *units, size_t count,
                          double base_units_max, double *out)
{
    const char *end;
    double value;

    if (number_read(text, &end, &value) && value > 0)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(end, units[i].name) && value <= base_units_max / units[i].factor) {
                *out = value * units[i].factor;
                return true;
            }
    return false;
}

bool bytes_read(const char *text, int64_t *bytes)
{
    static const struct option_unit units[] = {
        { "", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }
    };
    double value;

    if (!read_quantity(text, units, 4, 0x1p60, &value))
        return false;
    *bytes = (int64_t)ceil(value); /* rounded up: 0 means that no size was given */
    return true;
}

static int refuse_word(const struct option_row *row, const char *text, const char *what)
{
    char wanted[128];

    text_put(wanted, sizeof(wanted), "%s", what);
    for (uint32_t i = 0; row->words[i]; i++)
        text_add(wanted, sizeof(wanted), " %s", row->words[i]);
    return refuse_value(row, text, wanted);
}

/* Returns the index of a word, or that of the NULL at the end of the words. */
static uint32_t find_word(const char *const *words, const char *text, size_t length)
{
    uint32_t i = 0;

    while (words[i] && (strlen(words[i]) != length || memcmp(words[i], text, length) != 0))
        i++;
    return i;
}

static int read_words(const struct option_row *row, const char *text, uint32_t *mask)
{
    uint32_t bits = 0;

    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        uint32_t index = find_word(row->words, word, length);

        if (!row->words[index] || (bits >> index & 1))
            return refuse_word(row, text, "one or more of");
        bits |= 1u << index;
        word += length;
        if (!*word)
            break;
    }
    *mask = bits;
    return OK;
}

int option_set(const struct option_row *row, const char *text, void *target)
{
    static const struct option_unit times[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 } };
    void *member = (char *)target + row->offset; /* of the type that row->kind says */
    struct option_list *list = member;
    uint64_t count;
    uint32_t word;
    double number;

    switch (row->kind) {
    case OPTION_FLAG: *(bool *)member = true; return OK;
    case OPTION_SEED: return read_whole_number(row, text, UINT64_MAX, member);
    case OPTION_NUMBER:
        if (!number_read(text, NULL, &number) || !is_in_range(row, number))
            return refuse_number(row, text, "a number");
        *(double *)member = number;
        return OK;
    case OPTION_TIME:
        return read_quantity(text, times, 3, 1e9, member)
                   ? OK
                   : refuse_value(row, text, "a time such as 90s, 10m or 2h");
    case OPTION_BYTES:
        return bytes_read(text, member) ? OK
                                        : refuse_value(row, text, "a size such as 512MiB or 2GiB");
    case OPTION_WORD:
        word = find_word(row->words, text, strlen(text));
        if (!row->words[word])
            return refuse_word(row, text, "one of");
        *(uint32_t *)member = word;
        return OK;
    case OPTION_WORDS: return read_words(row, text, member);
    case OPTION_TEXT:
        if (!*text) /* a variable of a script that nobody set */
            return refuse_value(row, text, row->value);
        *(const char **)member = text;
        return OK;
    case OPTION_MAYBE_TEXT: *(const char **)member = text; return OK;
    case OPTION_LIST:
        if (list->count == OPTION_LIST_MAX)
            return fail(ERR_ARGUMENT, "--%s is given more than %d times", row->name,
                        OPTION_LIST_MAX);
        if (!*text)
            return refuse_value(row, text, row->value);
        list->items[list->count++] = text;
        return OK;
    case OPTION_COUNT:
    case OPTION_GROUP: break;
    }
    TRY(read_whole_number(row, text, UINT32_MAX - 1, &count)); /* UINT32_MAX means: not given */
    *(uint32_t *)member = (uint32_t)count;
    return OK;
}

static size_t bytes_of(enum option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG: return sizeof(bool);
    case OPTION_COUNT:
    case OPTION_WORD:
    case OPTION_WORDS: return sizeof(uint32_t);
    case OPTION_SEED: return sizeof(uint64_t);
    case OPTION_NUMBER:
    case OPTION_TIME: return sizeof(double);
    case OPTION_BYTES: return sizeof(int64_t);
    case OPTION_TEXT:
    case OPTION_MAYBE_TEXT: return sizeof(const char *);
    case OPTION_LIST: return sizeof(struct option_list);
    case OPTION_GROUP: break;
    }
    return 0;
}

bool option_is_given(const struct option_row *row, const void *options, const void *defaults)
{
    return memcmp((const char *)options + row->offset, (const char *)defaults + row->offset,
                  bytes_of(row->kind)) != 0;
}

static void format_default(const struct option_row *row, const void *defaults, char *text,
                           size_t size)
{
    const void *member = (const char *)defaults + row->offset;
    const char *word = NULL;

    *text = 0;
    switch (row->kind) {
    case OPTION_COUNT:
        if (*(const uint32_t *)member && *(const uint32_t *)member != UINT32_MAX)
            snprintf(text, size, "%u", *(const uint32_t *)member);
        break;
    case OPTION_SEED:
        snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)member);
        break;
    case OPTION_NUMBER:
        if (!isnan(*(const double *)member))
            snprintf(text, size, "%g", *(const double *)member);
        break;
    case OPTION_WORD:
        if (*(const uint32_t *)member != UINT32_MAX)
            word = row->words[*(const uint32_t *)member];
        break;
    case OPTION_TEXT:
    case OPTION_MAYBE_TEXT: word = *(const char *const *)member; break;
    case OPTION_TIME:
    case OPTION_BYTES:
    case OPTION_WORDS:
    case OPTION_FLAG:
    case OPTION_LIST:
    case OPTION_GROUP: break;
    }
    if (word)
        snprintf(text, size, "%s", word);
}

void option_describe(const struct option_row *row, const void *defaults, char *text, size_t size)
{
    const char *end = strrchr(row->help, ']');
    char value[256] = "";

    if (defaults && !(end && !end[1])) /* the text has no brackets of its own */
        format_default(row, defaults, value, sizeof(value));
    snprintf(text, size, *value ? "%s [%s]" : "%s", row->help, value);
}

/* ---- "did you mean": the word at the least distance of Damerau and Levenshtein, in which
 * swapping two adjacent letters counts one */

enum { LETTERS_MAX = 32 };

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* distance[i][j]: between the first i letters of a and the first j letters of b. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned distance[LETTERS_MAX + 1][LETTERS_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > LETTERS_MAX || b_length > LETTERS_MAX)
        return LETTERS_MAX;
    for (size_t i = 0; i <= a_length; i++)
        for (size_t j = 0; j <= b_length; j++) {
            if (!i || !j) {
                distance[i][j] = (unsigned)(i + j);
                continue;
            }
            distance[i][j] = smaller(smaller(distance[i - 1][j], distance[i][j - 1]) + 1,
                                     distance[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                distance[i][j] = smaller(distance[i][j], distance[i - 2][j - 2] + 1);
        }
    return distance[a_length][b_length];
}

static void append_suggestion(char *text, size_t size, const char *prefix, const char *word)
{
    text_add(text, size, "%s%s%s", *text ? " or " : "did you mean ", prefix, word);
}

void suggest(const char *typed, const char *const *words, size_t count, const char *prefix,
             char *text, size_t size)
{
    size_t length = strlen(typed);
    unsigned least_distance = (unsigned)length / 3 + 1;
    const char *nearest = NULL;

    *text = 0;
    for (size_t i = 0; i < count && length; i++)
        if (!strncmp(words[i], typed, length))
            append_suggestion(text, size, prefix, words[i]);
    for (size_t i = 0; i < count && !*text; i++) {
        unsigned distance = edit_distance(typed, words[i]);

        if (distance < least_distance ||
            (distance == least_distance && !nearest && distance < length)) {
            least_distance = distance;
            nearest = words[i];
        }
    }
    if (nearest)
        append_suggestion(text, size, prefix, nearest);
    if (*text)
        snprintf(text + strlen(text), size - strlen(text), "?");
}

/* ---- the command line */

enum {
    FIRST_ROW = 256
}; /* what getopt_long returns for the first row; smaller numbers are letters */

/* The tables that getopt_long reads, made from a table of rows. */
struct parser {
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count;
    struct option longs[OPTION_ROWS_MAX + 2];
    char letters[2 * OPTION_ROWS_MAX + 8];
};

static void fill_parser(const struct option_row *rows, struct parser *p)
{
    size_t letters_used, longs_used = 0;

    *p = (struct parser){ .letters = ":h" }; /* options and arguments in any order */
    letters_used = strlen(p->letters);
    p->count = options_flatten(rows, p->rows);
    for (size_t i = 0; i < p->count; i++) {
        const struct option_row *row = &p->rows[i];
        bool is_flag = row->kind == OPTION_FLAG;

        if (row->kind == OPTION_GROUP)
            continue;
        p->longs[longs_used++] =
            (struct option){ row->name, is_flag ? no_argument : required_argument, NULL,
                             (int)i + FIRST_ROW };
        if (row->letter)
            letters_used +=
                (size_t)snprintf(p->letters + letters_used, sizeof(p->letters) - letters_used,
                                 "%c%s", row->letter, is_flag ? "" : ":");
    }
    p->longs[longs_used] = (struct option){ "help", no_argument, NULL, 'h' };
}

/* Options that some verbs replace by a word of --shape. */
static const char *const shape_words[][2] = {
    { "ranks", "W=" },     { "ranks-per-node", "m=" }, { "ranks-per-rack", "rack=" },
    { "experts", "E=" },   { "top-k", "k=" },          { "tokens", "T=" },
    { "model-dim", "D=" }, { "hidden-dim", "H=" },     { "space", "space=" },
};

void (*options_of_other_verbs)(const char *name, char *text, size_t size);

/* Writes what to type instead of an option that the verb does not have: the word of --shape that
 * says the same, else options that begin so and verbs that have the option, else an option that is
 * near. Writes "" if there is nothing. */
static void suggest_instead(const struct parser *p, const char *typed, char *text, size_t size)
{
    const char *names[OPTION_ROWS_MAX + 1] = { NULL }, *bare = typed + strspn(typed, "-");
    char name[64], elsewhere[120];
    bool has_shape = false, is_prefix = false;
    size_t count = 0;

    text_put(name, sizeof(name), "%.*s", (int)strcspn(bare, "="), bare);
    if (!strcmp(name, "c")) /* -c means this where it exists */
        text_put(name, sizeof(name), "capacity");
    *text = *elsewhere = 0;
    if (options_of_other_verbs)
        options_of_other_verbs(name, elsewhere, sizeof(elsewhere));
    for (; p->longs[count].name; count++) {
        names[count] = p->longs[count].name;
        has_shape |= !strcmp(names[count], "shape");
        is_prefix |= *name && !strncmp(names[count], name, strlen(name));
    }
    if (!*elsewhere || is_prefix)
        suggest(name, names, count, "--", text, size);
    if (*elsewhere)
        text_add(text, size, "%s%s", *text ? " " : "", elsewhere);
    for (size_t i = 0; i < sizeof(shape_words) / sizeof(shape_words[0]) && has_shape; i++)
        if (!strcmp(name, shape_words[i][0]))
            text_put(text, size, "write --shape \"%s...\" here", shape_words[i][1]);
}

/* Whether another verb has this option, and this verb does not.  getopt_long would accept it as a
 * short form: `lookup --model` as --model-dim. */
static bool is_of_other_verb(const struct parser *p, const char *typed)
{
    char name[64], verbs[120];

    if (strncmp(typed, "--", 2) != 0 || !options_of_other_verbs)
        return false;
    text_put(name, sizeof(name), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    for (const struct option *option = p->longs; option->name; option++)
        if (!strcmp(option->name, name))
            return false;
    options_of_other_verbs(name, verbs, sizeof(verbs));
    return *verbs;
}

static int refuse_option_of_other_verb(const struct parser *p, const char *typed)
{
    char suggestion[300];

    suggest_instead(p, typed, suggestion, sizeof(suggestion));
    return fail(ERR_ARGUMENT, "no option %.*s (%s)", (int)strcspn(typed, "="), typed,
                *suggestion ? suggestion : "see --help");
}

static int refuse_unknown(const struct parser *p, char **argv)
{
    const char *typed = argv[optind - 1];
    char suggestion[300];

    if (optopt >= FIRST_ROW || optopt == 'h')
        return fail(ERR_ARGUMENT, "--%s takes no value",
                    optopt == 'h' ? "help" : p->rows[optopt - FIRST_ROW].name);
    /* A cluster of letters such as "-xc" stays the current argument until its last one is read. */
    if (optopt && !(typed[0] == '-' && typed[1] != '-' && typed[strlen(typed) - 1] == optopt))
        typed = argv[optind];

    /* "--ex" may be more than one, "--tokns" is near one, "-json" lacks a dash. */
    suggest_instead(p, typed, suggestion, sizeof(suggestion));
    if (optopt && !*suggestion)
        return fail(ERR_ARGUMENT, "no option -%c (see --help)", optopt);
    return fail(ERR_ARGUMENT, "no option %s (%s)", typed, *suggestion ? suggestion : "see --help");
}

/* Whether the word is an option of the verb: in "-c --db x" the value of -c was forgotten. */
static bool is_option(const struct parser *p, const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    for (const struct option *option = p->longs; option->name; option++)
        if (!strcmp(option->name, word + 2))
            return true;
    return false;
}

/* Returns the row of what getopt_long returned: a letter, or FIRST_ROW plus the row's index. */
static const struct option_row *row_of_code(const struct parser *p, int code)
{
    for (size_t i = 0; i < p->count && code < FIRST_ROW; i++)
        if (p->rows[i].letter == code)
            return &p->rows[i];
    return &p->rows[code - FIRST_ROW];
}

int options_parse(const struct option_row *rows, int argc, char **argv, void *target,
                  int *first_argument, bool *help)
{
    const char *typed;
    struct parser p;
    int index, code;

    fill_parser(rows, &p);
    optind = 0;
    opterr = 0;
    while ((code = getopt_long(argc, argv, p.letters, p.longs, &index)) != -1) {
        if (code == 'h') {
            *help = true;
            return OK;
        }
        typed = optarg && optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1];
        if (code != '?' && is_of_other_verb(&p, typed))
            return refuse_option_of_other_verb(&p, typed);
        if (code == ':')
            return fail(ERR_ARGUMENT, "%s wants a value (see --help)", argv[optind - 1]);
        if (code == '?')
            return refuse_unknown(&p, argv);
        if (optarg == argv[optind - 1] && is_option(&p, optarg))
            return fail(ERR_ARGUMENT, "%s wants a value, which %s is not", argv[optind - 2],
                        optarg);
        TRY(option_set(row_of_code(&p, code), optarg, target));
    }
    *first_argument = optind;
    return OK;
}
