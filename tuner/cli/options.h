/* Command-line options as a table: parsing, --help and defaults come from the same rows. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_COUNT,  /* uint32_t */
    OPTION_SEED,   /* uint64_t */
    OPTION_NUMBER, /* double */
    OPTION_WORD,   /* uint32_t, index of one of `words` */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* struct option_list: may be given several times */
};

enum { OPTION_LIST_MAX = 64 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    int count;
};

struct option_row {
    const char *name;  /* without the dashes */
    const char *value; /* its name in --help; NULL for a flag */
    enum option_kind kind;
    size_t offset; /* in the struct that is filled */
    const char *help;
    const char *const *words;
    char letter; /* a short form, or 0 */
};

/* Fills `target` (which holds the defaults) from argv[1..].  *first is the index of the first
 * positional argument.  ERR_ARGUMENT after one message; *help is set for -h or --help. */
int options_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *target,
                  int *first, bool *help);

/* Prints one line per row with its default. */
void options_print(const struct option_row *rows, size_t count, const void *target);

#endif
