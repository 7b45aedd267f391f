/* Reads the lines that a program writes: ask, tell, failed and status.  Every verb that talks to
 * programs uses it.  Its functions are pure. */
#ifndef LINES_H
#define LINES_H

#include "declaration.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRAM_LINE_BYTES = 1024 }; /* of a line, with the zero at its end */
enum { LINE_NUMBERS_MAX = 16, LINE_NAME_BYTES = 32, LINE_WHY_BYTES = 160 };

/* LINE_NONE: no line came for a moment. */
enum line_word { LINE_ASK, LINE_TELL, LINE_FAILED, LINE_STATUS, LINE_NONE };

/* NAME=NUMBER of a "tell" line.  A value that is no number is NAN. */
struct named_number {
    char name[LINE_NAME_BYTES];
    double value;
};

/* One line of a program, as a plain value.  Only the members of its word are set. */
struct program_line {
    enum line_word word;
    uint64_t key; /* ask; without a space at most UINT32_MAX */
    uint32_t class_thousandths;
    int64_t ns, memory_bytes; /* tell; memory_bytes 0: the line names none */
    size_t numbers;
    struct named_number number[LINE_NUMBERS_MAX];
    const char *reason; /* failed: points into the line that was read, and is never empty */
};

/* Reads "ask KEY [CLASS]", "tell US [memory=BYTES] [NAME=NUMBER ...]", "failed WHY" or "status".
 * Without a space (NULL) the key is a capacity, and there is no class.  Returns false if the line
 * is wrong; then `why` says what should stand there.  A line of PROGRAM_LINE_BYTES - 1 is wrong,
 * because its end may be missing. */
bool program_line_read(const char *line, const struct declaration *space, struct program_line *out,
                       char why[LINE_WHY_BYTES]);

/* ---- guards: limits of the numbers in a "tell" line, such as "loss<=3.5" or "gain>=1" */

struct measured_guard {
    char name[LINE_NAME_BYTES];
    bool at_least; /* the number must be at least the limit; else at most */
    double limit;
};

/* Reads the text of --guard.  Prints what is wrong with it and returns ERR_ARGUMENT. */
int guard_parse(const char *text, struct measured_guard *out);

/* Returns whether the step breaks the guard, or its line does not name the number; then `why` says
 * which. */
bool guard_broken(const struct measured_guard *guard, const struct program_line *tell,
                  char why[LINE_WHY_BYTES]);

#endif
