/* A space that a program declares in a short text: which axes may vary and over which values, which
 * combinations mean something, and which number of a step (and perhaps a class beside it) the
 * answer depends on.  moetune-spaces(7) explains the language. */
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
    DECLARATION_PLANS_MAX = 2000,           /* legal ones */
    DECLARATION_KEY_EDGES_MAX = 64,
    DECLARATION_CLASS_EDGES_MAX = 8,
    DECLARATION_NAME_BYTES = 32,
    DECLARATION_TEXT_BYTES = 16384, /* of a text, also with its ranges written out */
    DECLARATION_PLAN_BYTES = 257,   /* room for the text of a plan */
    DECLARATION_TAG_BYTES = DECLARATION_NAME_BYTES + 9,
    DECLARATION_OPTION_BYTES = 64, /* of the option of a threshold */
    DECLARATION_FAULT_BYTES = 320
};

struct declared_axis {
    char name[DECLARATION_NAME_BYTES];
    uint32_t values, fallback;            /* how many; the index of the default */
    uint32_t stride;                      /* what the next value adds to a choice */
    bool words;                           /* values have no order */
    bool restart;                         /* to change it the program has to be started again */
    char (*text)[DECLARATION_NAME_BYTES]; /* of each value */
    int64_t *number;                      /* of each value, ascending; NULL: words */
    /* The option by which its program takes the key from which on the second of two values runs;
     * "": none. */
    char threshold[DECLARATION_OPTION_BYTES];
};

/* How the left term of a comparison stands to the right one. */
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

/* One side of a comparison: a constant times values of axes; or, where words are compared, the
 * value of one axis of words, or a word of that axis by its index.  DECLARED_RANKS among the axes
 * is the number of ranks. */
enum { DECLARED_RANKS = DECLARATION_AXES_MAX, DECLARED_NUMBERS };
struct declared_term {
    int64_t constant;
    uint8_t axes;
    uint8_t axis[DECLARATION_AXES_MAX];
};

struct declared_comparison {
    struct declared_term left, right;
    enum declared_relation relation;
    uint32_t axes; /* those that it names, a bit for each */
    bool ranks;    /* it names the ranks: true where nobody knows how many there are */
    bool opens;    /* a | stands before it, not a & */
};

/* A condition between axes: | of & of comparisons. */
struct declared_need {
    size_t comparisons;
    struct declared_comparison *comparison;
    uint32_t axes;       /* those that it names, a bit for each */
    size_t text, length; /* where it stands in the declaration's text */
};

/* A choice is a plan of the space as one number, legal or not: mixed radix over all axes in the
 * order they are declared, the first one most significant, values by their index. */
struct declaration {
    char name[DECLARATION_NAME_BYTES];
    uint32_t id; /* of the text: the first 4 bytes (big-endian) of its SHA-256; never 0 */
    char *text;  /* canonical: a line per statement, no comments, ranges written out, one space
                    between words, '\n' after each line */
    size_t axes;
    struct declared_axis axis[DECLARATION_AXES_MAX];
    size_t needs;
    struct declared_need *need;
    char key[DECLARATION_NAME_BYTES], class_name[DECLARATION_NAME_BYTES]; /* class_name "": none */
    size_t key_edges, class_edges;
    uint64_t key_edge[DECLARATION_KEY_EDGES_MAX];
    uint32_t class_edge[DECLARATION_CLASS_EDGES_MAX]; /* thousandths */
    uint32_t combinations;                            /* choices are below this */
    uint32_t usual;                                   /* the default's choice */
    uint32_t plans;                                   /* legal ones */
    uint32_t *plan;                                   /* their choices, ascending */
};

/* ERR_ARGUMENT after one sentence with the number of the line. */
int declaration_parse(const char *text, struct declaration **out);
/* The same, with the sentence in `why` instead of said. */
int declaration_read(const char *text, struct declaration **out, char *why, size_t size);
void declaration_free(struct declaration *d); /* NULL is fine */

/* The index of the value that a choice has on an axis, and the choice with another one there. */
uint32_t declaration_value(const struct declaration *d, uint32_t choice, size_t axis);
uint32_t declaration_with(const struct declaration *d, uint32_t choice, size_t axis,
                          uint32_t value);

/* All needs are true of it, on some number of ranks; false for numbers beyond all combinations. */
bool declaration_legal(const struct declaration *d, uint32_t choice);
/* On so many of them. */
bool declaration_legal_on(const struct declaration *d, uint32_t choice, uint32_t ranks);

/* The first need that is not true of a choice below `combinations` on so many ranks (0: on any), as
 * canonical text that is not terminated, and its length; NULL: it is legal. */
const char *declaration_refusal(const struct declaration *d, uint32_t choice, uint32_t ranks,
                                size_t *length);

/* The axis of that name; d->axes: none. */
size_t declaration_axis(const struct declaration *d, const char *name, size_t length);

/* The index of a value; axis->values: none. */
uint32_t declared_axis_value(const struct declared_axis *axis, const char *text, size_t length);

/* "num_sms=20 nvl=8 backend=alltoall": all axes in their order.  The length as snprintf. */
int declaration_format(const struct declaration *d, uint32_t choice, char *text, size_t size);

/* The same text, words in any order; an axis that is left out has its default.  False: not
 * understood (an unknown axis or value, or one twice), and *choice is untouched.  Whether the plan
 * is legal is not asked. */
bool declaration_scan(const struct declaration *d, const char *text, uint32_t *choice);

/* Alike on all axes that need a restart. */
bool declaration_same_launch(const struct declaration *d, uint32_t a, uint32_t b);

/* Those axes alone, "dispatcher=alltoall ep=4"; "" where there are none, or no space (NULL).
 * Returns `text`. */
char *declaration_launch_words(const struct declaration *d, uint32_t choice,
                               char text[DECLARATION_PLAN_BYTES]);

/* How far a plan lies from the default one: what needs a restart counts most, then on how many axes
 * they differ, then by how many values. */
uint32_t declaration_apart(const struct declaration *declaration, uint32_t choice);

/* Words of restart axes in any order, "ep=4 dispatcher=alltoall"; one that is left out has its
 * default.  *choice: with these values, and all others as the default has them, which may not be
 * legal.  ERR_ARGUMENT with a sentence in `why`. */
int declaration_launch_scan(const struct declaration *d, const char *text, uint32_t *choice,
                            char *why, size_t size);

/* How many live axes a choice has as the default has them. */
size_t declaration_likeness(const struct declaration *d, uint32_t choice);

/* Of the plans of that launch that are legal on so many ranks, the first of those that are most
 * like the default.  False: there is none. */
bool declaration_launch_usual(const struct declaration *d, uint32_t launch, uint32_t ranks,
                              uint32_t *choice);

/* The number of a choice's launch: those alike on all axes that need a restart have the same. */
uint32_t declaration_launch(const struct declaration *d, uint32_t choice);

/* A bucket is a range of the key and a class in one number: range * classes + class.  n edges make
 * n + 1 ranges: up to the first edge, up to the second, ..., and above the last. */
uint32_t declaration_buckets(const struct declaration *d);
uint32_t declaration_bucket(const struct declaration *d, uint64_t key, uint32_t class_thousandths);
/* The same with a class as a number. */
uint32_t declaration_bucket_at(const struct declaration *d, uint64_t key, double class);

/* How many classes each range has: 1 without a class. */
static inline uint32_t declaration_classes(const struct declaration *d)
{
    return (uint32_t)d->class_edges + 1;
}

/* The key that stands for a bucket: its upper edge; of the open last range twice the last edge, at
 * least the edge + 1. */
uint64_t declaration_key(const struct declaration *d, uint32_t bucket);

/* The class that stands for a bucket: its upper edge; of the last one, or without a class, a number
 * that lies in it. */
double declaration_class(const struct declaration *d, uint32_t bucket);

/* "65-256", "<=64", ">4096"; with a class "65-256 skew <=1.25".  The length as snprintf. */
int declaration_range(const struct declaration *d, uint32_t bucket, char *text, size_t size);
/* All from one bucket to another of its class, as one range: "65-1024", "any". */
int declaration_ranges(const struct declaration *d, uint32_t first, uint32_t last, char *text,
                       size_t size);

/* Of that the class alone: "<=1.25"; "" without a class. */
enum { DECLARATION_CLASS_BYTES = 48 };
char *declaration_class_range(const struct declaration *d, uint32_t bucket,
                              char room[DECLARATION_CLASS_BYTES]);

/* "NAME@3f2a91c0": how a space is called elsewhere.  Returns `room`. */
char *declaration_tag(const struct declaration *d, char room[DECLARATION_TAG_BYTES]);
/* By its name or its tag. */
bool declaration_is_called(const struct declaration *d, const char *name);

/* ---- For the parser. */

/* The number that a need sees: a value, or the index of a word. */
static inline int64_t declared_number(const struct declared_axis *axis, uint32_t value)
{
    return axis->number ? axis->number[value] : value;
}

/* at[axis]: declared_number() of its value; those that the need names are read.
 * at[DECLARED_RANKS]: 0 where it is not known. */
bool declared_need_holds(const struct declared_need *need, const int64_t *at);

/* Fills d->plan when all axes and needs are there.  ERR_ARGUMENT with a sentence in `why`: there
 * are too many plans, or they are too hard to find. */
int declaration_list(struct declaration *d, char *why, size_t size);

/* 1250 as "1.25"; returns `room`. */
enum { DECLARATION_THOUSANDTHS_BYTES = 24 };
char *declaration_thousandths(uint64_t thousandths, char room[DECLARATION_THOUSANDTHS_BYTES]);

/* ---- Those that this process knows.  None is ever taken away, so reading needs no lock; any
 * thread may add. */

/* Parses; gives the one that is known already if it is equal.  ERR_FORMAT: another space has the
 * same id. */
int declaration_register(const char *text, const struct declaration **out);
const struct declaration *declaration_find(uint32_t id); /* NULL: unknown */

/* The same, silent: for texts of files that nobody here wrote. */
int declaration_learn(const char *text, const struct declaration **out);

/* By its tag or, where only one of that name is known, by its name; NULL: none. */
const struct declaration *declaration_named(const char *name, size_t length);

#endif
