/* What a program says in a line, for all verbs that talk to programs.  Pure. */
#ifndef LINES_H
#define LINES_H

#include "declaration.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAID_LINE_BYTES = 1024 }; /* of a line, with the zero at its end */
enum { SAID_NUMBERS_MAX = 16, SAID_NAME_BYTES = 32, SAID_WHY_BYTES = 160 };

/* SAID_NOTHING: no line, for a moment. */
enum said_word { SAID_ASK, SAID_TELL, SAID_FAILED, SAID_STATUS, SAID_NOTHING };

struct said_number {
    char name[SAID_NAME_BYTES];
    double value;
};

struct said {
    enum said_word word;
    uint64_t key; /* ask; without a space no more than UINT32_MAX */
    uint32_t class_thousandths;
    int64_t ns, memory_bytes; /* tell; memory 0: not told */
    size_t numbers;
    struct said_number number[SAID_NUMBERS_MAX];
    const char *reason; /* failed; of the line, never empty */
};

/* "ask KEY [CLASS]", "tell US [memory=BYTES] [NAME=NUMBER ...]", "failed WHY" or "status"; `space`
 * NULL: the key is a capacity, and there is no class.  False: `why` says what is wanted; so for a
 * line of SAID_LINE_BYTES - 1, of which there may have been more. */
bool said_read(const char *line, const struct declaration *space, struct said *out,
               char why[SAID_WHY_BYTES]);

/* ---- What must hold of the numbers that a program tells with a step: "loss<=3.5", "gain>=1". */

struct measured_guard {
    char name[SAID_NAME_BYTES];
    bool at_least;
    double limit;
};

/* ERR_ARGUMENT after a sentence. */
int guard_parse(const char *text, struct measured_guard *out);

/* Whether the step breaks it, or does not say; then `why` does. */
bool guard_broken(const struct measured_guard *guard, const struct said *tell,
                  char why[SAID_WHY_BYTES]);

#endif
