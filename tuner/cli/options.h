/* Command-line options as tables.  Parsing, --help, the manual page and completion read the same
 * rows. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    /* What the option's member in the struct is, and what the option takes: */
    OPTION_FLAG,       /* bool */
    OPTION_COUNT,      /* uint32_t */
    OPTION_SEED,       /* uint64_t */
    OPTION_NUMBER,     /* double */
    OPTION_TIME,       /* double, seconds: "90s", "10m", "2h" */
    OPTION_BYTES,      /* int64_t: "512MiB", "2GiB" */
    OPTION_WORD,       /* uint32_t: the index of one of `words` */
    OPTION_WORDS,      /* uint32_t: a bit for each of `words` in a list as "a,b" */
    OPTION_TEXT,       /* const char *, not empty; completion offers `words` */
    OPTION_MAYBE_TEXT, /* const char *, may be empty */
    OPTION_LIST,       /* struct option_list: the option may be repeated */
    OPTION_GROUP,      /* the struct of `rows`, at `offset`; a name is a heading for what follows */
};

enum { OPTION_LIST_MAX = 64, OPTION_ROWS_MAX = 80 };

/* The values of an option that may be repeated, in their order.  They lie in argv. */
struct option_list {
    const char *items[OPTION_LIST_MAX];
    int count;
};

/* One option, a row of a constant table. */
struct option_row {
    const char *name;  /* without dashes; a row without name ends the table, unless it is a group */
    const char *value; /* what --help calls it (completion knows FILE, DIR); NULL: a flag */
    enum option_kind kind;
    size_t offset; /* of the member, in the struct that is filled */
    const char *help;
    const char *const *words;
    char letter; /* a short form, or 0 */
    /* The range of a COUNT or NUMBER; both 0: whatever the type holds. */
    double least, most;
    const struct option_row *rows; /* the rows of a group; NULL: only a heading */
};

/* Copies the table to `out` and puts the rows of groups in their place, with offsets in the struct
 * of `rows`.  Headings stay, as groups without rows.  Returns the number of rows. */
size_t options_flatten(const struct option_row *rows, struct option_row out[OPTION_ROWS_MAX]);

/* Fills `target` (which holds the defaults) from argv[1..], and moves the options before the
 * arguments.  Sets *first_argument to the index in argv of the first argument; argc if there is
 * none.  ERR_ARGUMENT after one message.  For -h or --help it sets only *help. */
int options_parse(const struct option_row *rows, int argc, char **argv, void *target,
                  int *first_argument, bool *help);

/* A hook for messages, which verb_set_all() sets; NULL until then.  It writes which verbs have an
 * option of that name, as "lookup has it"; "" if none has. */
extern void (*options_of_other_verbs)(const char *name, char *text, size_t size);

/* Reads `text` as the value of a row from options_flatten(), and stores it in the row's member of
 * `target`.  ERR_ARGUMENT after a message that says what is wanted; then nothing is changed. */
int option_set(const struct option_row *row, const char *text, void *target);

/* Reads "512MiB", "2GiB", "1234".  False if the text is no size above 0; then *bytes is untouched.
 */
bool bytes_read(const char *text, int64_t *bytes);

/* Whether the value of a flat row's option differs from its default. */
bool option_is_given(const struct option_row *row, const void *options, const void *defaults);

/* Writes the help text of a flat row.  The default follows in brackets, unless the text ends with
 * brackets of its own, or `defaults` is NULL. */
void option_describe(const struct option_row *row, const void *defaults, char *text, size_t size);

/* Writes "did you mean --tokens?" with the words that begin with what was typed, else with the one
 * that differs in a few letters; `prefix` stands before each word.  Writes "" if no word is near.
 */
void suggest(const char *typed, const char *const *words, size_t count, const char *prefix,
             char *text, size_t size);

#endif
