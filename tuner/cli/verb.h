/* A verb of the command line: its options and texts, from which --help, the manual page and
 * completion are made, and the function that runs it. */
#ifndef VERB_H
#define VERB_H

#include "options.h"

#include <stdio.h>

struct verb_call;

/* A constant table: each file of verbs/ defines one or two, and main.c lists them. */
struct verb {
    const char *name;
    const char *summary; /* one line for `moetune help`; NULL: moetune alone calls the verb */
    const char
        *arguments;    /* as in the usage line; "set|unset" lists all words; NULL: it takes none */
    int least, most;   /* the number of arguments; most 0: any number */
    const char *about; /* a paragraph: what the verb does */
    const struct option_row *rows;
    const void *defaults; /* the verb's struct of options, filled with defaults; NULL: all zero */
    size_t options_size;
    const char *notes;         /* printed after the options; NULL: none */
    void (*tables)(FILE *out); /* prints text in columns before the notes; NULL: none */
    const char *example;       /* without the program's name */
    /* Runs the verb; `options` are filled from the command line.  Returns a status. */
    int (*run)(const struct verb_call *call, void *options);
};

/* One call of a verb.  Everything is borrowed, for as long as the verb runs. */
struct verb_call {
    const struct verb *verb;
    char **argv;      /* the whole command line: it starts the same call again */
    char **arguments; /* what is no option; ends with NULL */
    int count;
};

/* A verb that passes on the exit code of its ranks returns this plus the exit code. */
enum { EXIT_CODE_OF_RANKS = 1000 };

/* Reads the options of a verb, checks its arguments and runs it, or prints its help.
 * argv[name_index] is the verb's name, or the program's name if no verb was typed.  Returns a
 * status. */
int verb_main(const struct verb *verb, char **argv, int name_index);

/* Prints what `moetune help VERB` prints. */
void verb_help(const struct verb *verb, FILE *out);

/* Prints words of `text` in lines of at most 80 columns.  The cursor stands in column `indent`,
 * where later lines begin as well.  A newline of the text begins a new line. */
void verb_print_wrapped(const char *text, int indent, FILE *out);

/* Sets a global variable: the list of all verbs, so that messages can name the verbs that have an
 * option.  Here and below the list ends with NULL. */
void verb_set_all(const struct verb *const *verbs);
/* The verb of that name; NULL if there is none. */
const struct verb *verb_find(const struct verb *const *verbs, const char *name);
/* Prints what `moetune help` prints. */
void verb_overview(const struct verb *const *verbs, FILE *out);
/* ERR_ARGUMENT after a message that there is no such verb, and which one was probably meant. */
int verb_unknown(const struct verb *const *verbs, const char *name);

/* An exit code of moetune, and what it means.  The list has each code that verb_exit_code() can
 * return, except those of ranks. */
struct exit_code {
    int code;
    const char *meaning;
};
extern const struct exit_code exit_codes[]; /* ends with a NULL meaning */
/* The exit code for the status that a verb returned. */
int verb_exit_code(int status);

/* Print moetune(1) in Markdown, and a completion script for bash, from the tables of the verbs. */
void manual_print(const struct verb *const *verbs, FILE *out);
void completion_print(const struct verb *const *verbs, FILE *out);

#endif
