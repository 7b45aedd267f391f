/* A verb of the command line: what --help, the manual and completion say of it, and what it does.
 */
#ifndef VERB_H
#define VERB_H

#include "options.h"

#include <stdio.h>

struct verb_call;

struct verb {
    const char *name;
    const char *summary;   /* a line for the list of verbs; NULL: for moetune itself */
    const char *arguments; /* as the usage line has them; "set|unset" are the words there are;
                              NULL: it takes none */
    int least, most;       /* how many arguments; most 0: as many as come */
    const char *about;     /* a paragraph */
    const struct option_row *rows;
    const void *defaults; /* a struct of the verb's options; NULL: all zero */
    size_t options_size;
    const char *notes;         /* after the options; NULL: none */
    void (*tables)(FILE *out); /* longer things, printed as they are; NULL: none */
    const char *example;       /* without the program's name */
    /* `options` are filled from the command line.  A status. */
    int (*run)(const struct verb_call *call, void *options);
};

struct verb_call {
    const struct verb *verb;
    char **argv;      /* the whole command line, which starts the same again */
    char **arguments; /* what is no option, and a NULL */
    int count;
};

/* A verb that only passes on what its ranks ended with returns this + their exit code. */
enum { EXIT_CODE_OF_RANKS = 1000 };

/* argv[first] is the verb, or the program's name where none was said. */
int verb_main(const struct verb *verb, char **argv, int first);

void verb_help(const struct verb *verb, FILE *out);

/* Prints words of `text` in lines of at most 80 columns.  The cursor stands in column `indent`,
 * where later lines begin as well.  A newline of the text begins a new line. */
void verb_print_wrapped(const char *text, int indent, FILE *out);

/* Lists end with NULL.  verb_list() tells errors which verbs there are. */
void verb_list(const struct verb *const *verbs);
const struct verb *verb_find(const struct verb *const *verbs, const char *name);
void verb_overview(const struct verb *const *verbs, FILE *out);
/* ERR_ARGUMENT after "no verb", and which one may have been meant. */
int verb_unknown(const struct verb *const *verbs, const char *name);

/* How moetune ends: the one list, by exit code. */
struct verb_end {
    int code;
    const char *meaning;
};
extern const struct verb_end verb_ends[]; /* ends with a NULL meaning */
int verb_exit_code(int status);

/* From the tables that --help is printed from: moetune(1), in Markdown; a script for bash to
 * source. */
void manual_print(const struct verb *const *verbs, FILE *out);
void completion_print(const struct verb *const *verbs, FILE *out);

#endif
