/* What the readers of a declaration's lines share. */
#ifndef DECLARATION_READ_H
#define DECLARATION_READ_H

#include "declaration.h"

/* A piece of the text that is read. */
struct span {
    const char *at;
    size_t length;
};

/* As a sentence names it: in quotes, the end cut off where it is long; an empty one is the end of
 * the line.  The result lasts as long as the block around it. */
enum { SPAN_SHOWN_BYTES = 48 };
#define SPAN_SHOWN(span) span_shown(span, (char[SPAN_SHOWN_BYTES]){ 0 })
const char *span_shown(struct span s, char room[SPAN_SHOWN_BYTES]);

struct declaration_reader {
    struct declaration *d;
    const char *at, *end; /* what is left of the line */
    unsigned line;
    size_t comparisons, written; /* so far: in all needs; of d->text */
    size_t plan_bytes;           /* of the longest plan, so far */
    unsigned space_line;
    char *why;
    size_t why_size;
};

bool declaration_is_letter(char c); /* of values */

/* Puts "line 3: ..." where the caller wants to read why, and returns ERR_ARGUMENT. */
int declaration_wrong(struct declaration_reader *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The next word of the line, and the same without passing it.  Blanks and commas are between words;
 * an empty one is the end of the line. */
struct span declaration_word(struct declaration_reader *in);
struct span declaration_peek(struct declaration_reader *in);
int declaration_end(struct declaration_reader *in); /* there must be none */

/* The next word, as a name; and as one that no axis, key or class has. */
int declaration_name(struct declaration_reader *in, const char *of_what, bool minus,
                     char name[DECLARATION_NAME_BYTES]);
int declaration_column(struct declaration_reader *in, const char *of_what,
                       char name[DECLARATION_NAME_BYTES]);

/* What is left of a line that begins with "axis", into the next of d->axis. */
int declared_axis_read(struct declaration_reader *in);

/* Fills d->plan, when all lines are read. */
int declaration_list(struct declaration_reader *in);

/* Appends to the canonical text; what is beyond its end is counted, and refused by the caller. */
void declaration_write(struct declaration_reader *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool span_is(struct span s, const char *word)
{
    size_t i = 0;

    while (i < s.length && word[i] == s.at[i] && word[i])
        i++;
    return i == s.length && !word[i];
}

bool span_is_one_of(struct span s, const char *const *words); /* NULL ends them */

/* Only digits, perhaps with a minus before them. */
bool span_is_number(struct span s);
/* Its value, which must lie between these two; false: it does not, or is no number. */
bool span_number(struct span s, int64_t least, int64_t most, int64_t *out);

/* 1250 as "1.25"; returns `room`. */
enum { DECLARATION_THOUSANDTHS_BYTES = 24 };
char *declaration_thousandths(uint64_t thousandths, char room[DECLARATION_THOUSANDTHS_BYTES]);

/* Values of axes. */
enum { DECLARATION_NUMBER_MOST = 1000000000 };

#endif
