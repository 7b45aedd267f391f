/* Command-line options as tables: parsing, --help, the manual and completion read the same rows. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,       /* bool */
    OPTION_COUNT,      /* uint32_t */
    OPTION_SEED,       /* uint64_t */
    OPTION_NUMBER,     /* double */
    OPTION_TIME,       /* double, seconds: "90s", "10m", "2h" */
    OPTION_BYTES,      /* int64_t: "512MiB", "2GiB" */
    OPTION_WORD,       /* uint32_t, index of one of `words` */
    OPTION_WORDS,      /* uint32_t, a bit for each of `words` in a list as "a,b" */
    OPTION_TEXT,       /* const char *, not empty; `words` are some of what it may be */
    OPTION_MAYBE_TEXT, /* the same, may be empty */
    OPTION_LIST,       /* struct option_list: may be given several times */
    OPTION_GROUP,      /* `rows` at `offset`; what follows a name stands under that heading */
};

enum { OPTION_LIST_MAX = 64, OPTION_ROWS_MAX = 80 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    int count;
};

struct option_row {
    const char *name;  /* without the dashes; NULL ends a table, unless it is a nameless group */
    const char *value; /* its name in --help (FILE and DIR are completed); NULL for a flag */
    enum option_kind kind;
    size_t offset; /* in the struct that is filled */
    const char *help;
    const char *const *words;
    char letter; /* a short form, or 0 */
    /* Of COUNT and NUMBER; both 0: whatever fits. */
    double least, most;
    const struct option_row *rows; /* of a group; NULL: only a heading */
};

/* Writes the table without groups: their rows with offsets in the struct of `rows`.  Headings stay,
 * as groups without rows.  Returns how many. */
size_t options_flatten(const struct option_row *rows, struct option_row out[OPTION_ROWS_MAX]);

/* Fills `target` (which holds the defaults) from argv[1..].  *first is the index of the first
 * positional argument.  ERR_ARGUMENT after one message; *help is set for -h or --help. */
int options_parse(const struct option_row *rows, int argc, char **argv, void *target, int *first,
                  bool *help);

/* Writes which verbs have an option of that name, or of that letter: "lookup has it"; "": none has.
 * NULL: nobody has said which verbs there are. */
extern void (*options_elsewhere)(const char *name, char *text, size_t size);

/* Puts the value in `text` where a row of options_flatten() says.  ERR_ARGUMENT after a message
 * that says what is wanted; then nothing is changed. */
int option_take(const struct option_row *row, const char *text, void *target);

/* Reads "512MiB", "2GiB", "1234"; false: it is no size above 0, and *bytes is untouched. */
bool bytes_read(const char *text, int64_t *bytes);

/* Whether the option's value is another one than the default. */
bool option_is_given(const struct option_row *row, const void *options, const void *defaults);

/* What a flat row says of its option, with the default in brackets (NULL: there are none). */
void option_describe(const struct option_row *row, const void *defaults, char *text, size_t size);

/* Writes "did you mean --tokens?", with `prefix` before each word: the words that begin with what
 * was typed, else the one that is a few letters away from it.  Empty if there is none. */
void suggest(const char *typed, const char *const *words, size_t count, const char *prefix,
             char *text, size_t size);

#endif
