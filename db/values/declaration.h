/* A declared space: a program's short text says which axes may vary over which values, which
 * combinations are legal, and by which number of a step (the key, perhaps with a class) an answer
 * is looked up. moetune-spaces(7) explains the language. */
#ifndef DECLARATION_H
#define DECLARATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DECLARATION_AXES_MAX = 16,
    DECLARATION_VALUES_MAX = 256, /* of one axis */
    DECLARATION_NEEDS_MAX = 64,
    DECLARATION_COMPARISONS_MAX = 256,      /* in all needs */
    DECLARATION_COMBINATIONS_MAX = 1 << 24, /* of values, legal or not */
    DECLARATION_PLANS_MAX = 2000,           /* legal plans */
    DECLARATION_KEY_EDGES_MAX = 64,
    DECLARATION_CLASS_EDGES_MAX = 8,
    DECLARATION_NAME_BYTES = 32,
    DECLARATION_TEXT_BYTES = 16384, /* of a text whose ranges are written out */
    DECLARATION_PLAN_BYTES = 257,   /* room for the text of a plan */
    DECLARATION_TAG_BYTES = DECLARATION_NAME_BYTES + 9,
    DECLARATION_OPTION_BYTES = 64, /* of the option of a threshold */
    DECLARATION_FAULT_BYTES = 320
};

/* One axis of a space. struct declaration owns its arrays. */
struct declared_axis {
    char name[DECLARATION_NAME_BYTES];
    uint32_t values, fallback; /* number of values; index of the default value */
    uint32_t stride;           /* added to a choice by the next value */
    bool words;                /* values have no order */
    bool restart;              /* the program must be started again to change the value */
    char (*text)[DECLARATION_NAME_BYTES]; /* of each value */
    int64_t *number;                      /* of each value, ascending; NULL: words */
    /* Option by which the program takes a threshold: from that key on it uses the second of two
     * values. "": the program has none. */
    char threshold[DECLARATION_OPTION_BYTES];
};

/* The relation of the left term to the right term of a comparison. */
enum declared_relation {
    NEED_EQUAL,
    NEED_UNEQUAL,
    NEED_AT_MOST,
    NEED_LESS,
    NEED_AT_LEAST,
    NEED_MORE,
    NEED_DIVIDES,
    NEED_RELATIONS
};

/* One side of a comparison: a constant times the values of axes. Where words are compared, a side
 * is one axis of words, or the index of a word of that axis. DECLARED_RANKS among the axes is the
 * number of ranks. */
enum { DECLARED_RANKS = DECLARATION_AXES_MAX, DECLARED_NUMBERS };
struct declared_term {
    int64_t constant;
    uint8_t axes;
    uint8_t axis[DECLARATION_AXES_MAX];
};

/* One comparison of a need. */
struct declared_comparison {
    struct declared_term left, right;
    enum declared_relation relation;
    uint32_t axes; /* a bit for each axis in it */
    bool ranks;    /* names the number of ranks; true while that number is not known */
    bool opens;    /* a | stands before it, not a & */
};

/* One condition between axes: alternatives, joined by |, of comparisons, joined by &. struct
 * declaration owns its array. */
struct declared_need {
    size_t comparisons;
    struct declared_comparison *comparison;
    uint32_t axes;       /* a bit for each axis in it */
    size_t text, length; /* its place in the declaration's text */
};

/* One space, whole after declaration_read(); declaration_free() frees all of it.
 *
 * A choice is a plan of the space as one number, legal or not. It is a number in mixed radix: one
 * digit per axis in declared order, the first axis most significant, and each digit is the index of
 * a value. */
struct declaration {
    char name[DECLARATION_NAME_BYTES];
    uint32_t id; /* first 4 bytes (big-endian) of the text's SHA-256; never 0 */
    char *text;  /* canonical text: one statement per line, no comments, ranges written out, one
                  * space between words, '\n' after each line */
    size_t axes;
    struct declared_axis axis[DECLARATION_AXES_MAX];
    size_t needs;
    struct declared_need *need;
    char key[DECLARATION_NAME_BYTES],
        class_name[DECLARATION_NAME_BYTES]; /* class_name "": no class */
    size_t key_edges, class_edges;
    uint64_t key_edge[DECLARATION_KEY_EDGES_MAX];
    uint32_t class_edge[DECLARATION_CLASS_EDGES_MAX]; /* thousandths */
    uint32_t combinations;                            /* every choice is below this */
    uint32_t default_choice;                          /* choice of the default plan */
    uint32_t plans;                                   /* number of legal plans */
    uint32_t *plan;                                   /* choices of the legal plans, ascending */
};

/* Reads a text into a new declaration. ERR_ARGUMENT after one sentence with the number of the
 * line. */
int declaration_parse(const char *text, struct declaration **out);
/* Does what declaration_parse() does, but writes the sentence into `why` instead of printing it. */
int declaration_read(const char *text, struct declaration **out, char *why, size_t size);
void declaration_free(struct declaration *d); /* NULL is fine */

/* Return the index of a choice's value on an axis, and the choice with another value there. */
uint32_t declaration_value(const struct declaration *d, uint32_t choice, size_t axis);
uint32_t declaration_with_value(const struct declaration *d, uint32_t choice, size_t axis,
                                uint32_t value);

/* Returns whether all needs are true of a choice on some number of ranks. False for numbers beyond
 * all combinations. */
bool declaration_legal(const struct declaration *d, uint32_t choice);
/* Returns whether all needs are true of a choice on this number of ranks. */
bool declaration_legal_on(const struct declaration *d, uint32_t choice, uint32_t ranks);

/* Returns the first need that is not true of a choice, as canonical text without a terminator, and
 * its length. NULL: the choice is legal. The choice must be below `combinations`; `ranks` 0: any
 * number of ranks. */
const char *declaration_broken_need(const struct declaration *d, uint32_t choice, uint32_t ranks,
                                    size_t *length);

/* Returns the index of the axis with that name; d->axes: no axis has it. */
size_t declaration_axis(const struct declaration *d, const char *name, size_t length);

/* Returns the index of a value; axis->values: the axis does not have it. */
uint32_t declared_axis_value(const struct declared_axis *axis, const char *text, size_t length);

/* Writes a choice as "num_sms=20 nvl=8 backend=alltoall", all axes in declared order. Returns the
 * length as snprintf does. */
int declaration_format(const struct declaration *d, uint32_t choice, char *text, size_t size);

/* Reads the text that declaration_format() writes, its words in any order. An axis that is missing
 * has its default. Returns false, and leaves *choice alone, for an unknown axis or value, or an
 * axis that occurs twice. Does not check whether the plan is legal. */
bool declaration_scan(const struct declaration *d, const char *text, uint32_t *choice);

/* Returns whether two choices have equal launch values, the values of the axes that need a
 * restart. */
bool declaration_same_launch(const struct declaration *d, uint32_t a, uint32_t b);

/* Writes a choice's launch values: "dispatcher=alltoall ep=4". "" where no axis needs a restart, or
 * d is NULL. Returns `text`. */
char *declaration_launch_words(const struct declaration *d, uint32_t choice,
                               char text[DECLARATION_PLAN_BYTES]);

/* Returns a distance of a plan from the default one. Axes that need a restart count most, then the
 * number of axes that differ, then the number of values between. */
uint32_t declaration_distance(const struct declaration *declaration, uint32_t choice);

/* Reads launch values in any order, "ep=4 dispatcher=alltoall"; one that is missing has its
 * default. *choice gets these launch values and the default's values elsewhere, which may be
 * illegal together. ERR_ARGUMENT with a sentence in `why`. */
int declaration_launch_scan(const struct declaration *d, const char *text, uint32_t *choice,
                            char *why, size_t size);

/* Returns on how many live axes a choice has the default's value. */
size_t declaration_likeness(const struct declaration *d, uint32_t choice);

/* Finds the default plan of a launch: of its plans that are legal on this number of ranks, the
 * first of those most like the space's default. Returns false where the launch has no legal
 * plan. */
bool declaration_launch_default(const struct declaration *d, uint32_t launch, uint32_t ranks,
                                uint32_t *choice);

/* Returns a number for the launch of a choice: equal for choices with equal launch values. */
uint32_t declaration_launch(const struct declaration *d, uint32_t choice);

/* Return the number of buckets, and the bucket of a key and class. A bucket is range * classes +
 * class. n edges make n + 1 ranges: up to the first edge, up to the second, and so on, and above
 * the last. */
uint32_t declaration_buckets(const struct declaration *d);
uint32_t declaration_bucket(const struct declaration *d, uint64_t key, uint32_t class_thousandths);
/* Returns the bucket of a key and a class that is given as a number, not in thousandths. */
uint32_t declaration_bucket_at(const struct declaration *d, uint64_t key, double class);

/* Returns how many classes each range has: 1 where the space has no class. */
static inline uint32_t declaration_classes(const struct declaration *d)
{
    return (uint32_t)d->class_edges + 1;
}

/* Returns the key that stands for a bucket: its upper edge. For the last, open range it is twice
 * the last edge, or 1 where that edge is 0. */
uint64_t declaration_key(const struct declaration *d, uint32_t bucket);

/* Returns the class that stands for a bucket: its upper edge. For the last class, or without
 * classes, it is a number that lies in the class. */
double declaration_class(const struct declaration *d, uint32_t bucket);

/* Writes a bucket's range: "65-256", "<=64", ">4096"; with a class "65-256 skew <=1.25". Returns
 * the length as snprintf does. */
int declaration_range(const struct declaration *d, uint32_t bucket, char *text, size_t size);
/* Writes the keys from one bucket to another of its class as one range: "65-1024", "any". Returns
 * the length as snprintf does. */
int declaration_ranges(const struct declaration *d, uint32_t first, uint32_t last, char *text,
                       size_t size);

/* Writes a bucket's class alone: "<=1.25"; "" where the space has no class. Returns `room`. */
enum { DECLARATION_CLASS_BYTES = 48 };
char *declaration_class_range(const struct declaration *d, uint32_t bucket,
                              char room[DECLARATION_CLASS_BYTES]);

/* Writes the space's tag, its name elsewhere: "NAME@3f2a91c0". Returns `room`. */
char *declaration_tag(const struct declaration *d, char room[DECLARATION_TAG_BYTES]);
/* Returns whether `name` is the space's name or its tag. */
bool declaration_is_called(const struct declaration *d, const char *name);

/* ---- The functions from here on are for the parser. */

/* Returns the number that a need compares: a value, or the index of a word. */
static inline int64_t declared_number(const struct declared_axis *axis, uint32_t value)
{
    return axis->number ? axis->number[value] : value;
}

/* Returns whether a need is true. numbers[axis] is declared_number() of the axis's value, and only
 * axes of the need are read. numbers[DECLARED_RANKS] is 0 where the number of ranks is not known.
 */
bool declared_need_holds(const struct declared_need *need, const int64_t *numbers);

/* Fills d->plan after all axes and needs were read. ERR_ARGUMENT with a sentence in `why` where
 * there are too many plans, or finding them takes too many comparisons. */
int declaration_list(struct declaration *d, char *why, size_t size);

/* Writes 1250 as "1.25". Returns `room`. */
enum { DECLARATION_THOUSANDTHS_BYTES = 24 };
char *declaration_thousandths(uint64_t thousandths, char room[DECLARATION_THOUSANDTHS_BYTES]);

/* ---- The spaces that this process knows. None is ever removed, so readers need no lock. Any
 * thread may add one. */

/* Parses a text and adds its space, or finds the equal one that is known already. ERR_FORMAT:
 * another space has the same id. */
int declaration_register(const char *text, const struct declaration **out);
const struct declaration *declaration_find(uint32_t id); /* NULL: unknown */

/* Does what declaration_register() does without messages: for texts in files that nobody here
 * wrote. */
int declaration_register_silently(const char *text, const struct declaration **out);

/* Finds a space by its tag. A name alone finds it only while no other space has that name. NULL:
 * not found. */
const struct declaration *declaration_named(const char *name, size_t length);

#endif
