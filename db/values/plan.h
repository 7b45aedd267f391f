/* The axes of a plan, and which plans are legal for a shape. */
#ifndef PLAN_H
#define PLAN_H

#include "moelookup.h"
#include "shape.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_TEXT_BYTES = 312, PLAN_MAX_D = 8, PLAN_MAX_CTAS = 64, PLAN_A2A_COUNT = 5 };

/* What an all-to-all needs, by enum moe_a2a. */
struct a2a_needs {
    bool library;    /* one of the wire's own, which few have; without it every wire can run it */
    bool two_levels; /* several nodes of equally many ranks, more than one each */
    bool racks;      /* and several racks of nodes */
    bool equal;      /* as many rows for every rank */
    bool node;       /* all ranks of an expert on one node */
    bool sums;       /* adds up a token's rows on the way: MOE_COMBINE_SUM only */
    bool ours;       /* moetune's layer: those of other programs have it only if they say so */
};
extern const struct a2a_needs plan_a2a_needs[PLAN_A2A_COUNT];

/* One tunable.  A new one is a field in struct moe_plan, a row in plan.c and its name in PLAN_AXES.
 * It is quiet, its default is 0, and its bits lie where older tables left zeros: so everything
 * written before it means the same as before. */
struct axis {
    const char *name;
    size_t offset; /* of its uint32_t in struct moe_plan */
    uint32_t fallback, min, max;
    uint32_t search_max;            /* quiet axes: the largest value that a search tries */
    bool power_of_two;              /* or 0, where min allows it */
    bool quiet;                     /* not written while it has its fallback */
    const char *const *words;       /* names of the values, or NULL: plain numbers */
    const char *legal;              /* its values, as a message lists them */
    uint8_t packed_at, packed_bits; /* in the number that plan_pack() gives */
};

/* Those whose meaning some code knows; the others are only carried. */
enum plan_axis { PLAN_R, PLAN_D, PLAN_A, PLAN_CTAS, PLAN_E, PLAN_W, PLAN_PROTO };

extern const struct axis plan_axes[];
extern const size_t plan_axis_count;

/* The names of all axes, for messages and help. */
#define PLAN_AXES "r, d, a, ctas, e, w, proto"

/* The axis of that name, or plan_axis_count. */
size_t plan_axis_find(const char *name, size_t length);

/* Reads one value of an axis, a word or a number; false: it is legal for no shape. */
bool plan_parse_value(size_t axis, const char *text, size_t length, uint32_t *value);

uint32_t plan_value(const struct moe_plan *plan, size_t axis);
void plan_set(struct moe_plan *plan, size_t axis, uint32_t value);

/* The legal value after this one; beyond max where there is none. */
uint32_t plan_next_value(size_t axis, uint32_t value);

/* Names of enum moe_source, in the order of their values, NULL-terminated. */
enum { PLAN_SOURCE_COUNT = 12 };
extern const char *const plan_source_words[];

/* What a trainer runs today without a tuner: r=1 d=1 a=linear; in MOE_LAYOUT_HIDDEN r=0 d=1
 * a=linear e=sparse; what a declared space says.  shape NULL: of another layout. */
struct moe_plan plan_default(const struct moe_shape *shape);

bool plan_is_default(const struct moe_plan *plan, const struct moe_shape *shape);

/* Equal on every axis; where they came from does not count. */
bool plan_equal(const struct moe_plan *a, const struct moe_plan *b);

/* Equal on every axis but this one, on which they may be. */
bool plan_equal_but(const struct moe_plan *a, const struct moe_plan *b, size_t axis);

/* One moves tokens (r >= 1), the other one weights (r = 0).  Where experts' capacities differ, the
 * first waits for the fullest rank, and the second computes the rows of all experts on every rank:
 * the equal capacities at which they take as long are two numbers. */
static inline bool plan_other_kind(const struct moe_plan *a, const struct moe_plan *b)
{
    return (a->r == 0) != (b->r == 0);
}

/* Tokens travel in as many rows as each step counts (r >= 1, e=sparse): such a step is as long as
 * its fullest rank has rows, whatever the capacity is.  In MOE_LAYOUT_HIDDEN tokens themselves
 * travel. */
static inline bool plan_is_counted(const struct moe_plan *plan, const struct moe_shape *shape)
{
    return plan->r && plan->e == MOE_SPARSE && shape->layout == MOE_LAYOUT_EXPERTS;
}

/* The order of two plans as qsort wants it: axis by axis, 0 where they are equal. */
int plan_order(const struct moe_plan *a, const struct moe_plan *b);

/* moe_plan_parse() for callers of this program: *out need not be set. */
int plan_parse(const char *text, struct moe_plan *out);

/* The plan as moe_plan_format() writes it, "?" where it is none; the result lasts as long as the
 * block around it. */
#define PLAN_TEXT(plan) plan_text(plan, (char[PLAN_TEXT_BYTES]){ "?" })
const char *plan_text(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES]);

/* The same without the name of a declared space, for where that is said already. */
#define PLAN_WORDS(plan) plan_words(plan, (char[PLAN_TEXT_BYTES]){ "?" })
const char *plan_words(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES]);

/* All axes in one number, and a plan of them, which may be illegal; of a declared space its choice.
 * Written to files: r lies in the lowest 3 bytes, e and w in the halves of byte 3, then come bytes
 * for d, a and ctas; proto has the upper 2 bits of a's.  Readers that know no e or w find that byte
 * 3 is not what they would write, and refuse; those that know no proto find a version that they do
 * not know. */
enum { PLAN_PACKED_BYTES = 7 };
uint64_t plan_pack(const struct moe_plan *plan);
struct moe_plan plan_unpack(uint64_t packed, uint32_t space);

/* How much of a caller's struct moe_plan may be read and written, if this is its struct_size: only
 * fields that are wholly inside; 0 counts as the size of the first version. */
size_t plan_bytes(uint32_t struct_size);

/* r = 0 moves no tokens, so a and ctas mean nothing, nor, with padded experts, do d and w; and
 * proto means nothing where no weights are gathered, which the shape says: gives the one name such
 * plans share.  shape NULL: of any layer, some of which gather. */
struct moe_plan plan_canonical(struct moe_plan plan, const struct moe_shape *shape);

/* Whether the plan can be told in so many bytes of struct moe_plan: e and w, which say what is
 * computed and kept, must not be left out; ctas and proto, which say how bytes travel, may. */
bool plan_fits_struct(const struct moe_plan *plan, size_t bytes);

/* OK, ERR_ARGUMENT (a value that is illegal for the shape; says which are legal), or UNSUPPORTED
 * (an all-to-all that needs other nodes; says why). */
int plan_check(const struct moe_plan *plan, const struct moe_shape *shape);

/* True if plan_check would say OK; silent. */
bool plan_legal(const struct moe_plan *plan, const struct moe_shape *shape);

/* Whether plans are to be listed that have this value, which is not the default's, on that axis. */
typedef bool plan_wanted(const void *self, size_t axis, uint32_t value);

/* The default and every legal plan of wanted values, canonical, in the order of the axes and their
 * values; every legal one of a declared space, whatever is wanted.  Returns their number, at most
 * `room` of them written. */
size_t plan_list_wanted(const struct moe_shape *shape, plan_wanted *wanted, const void *self,
                        struct moe_plan *plans, size_t room);

/* Those without all-to-alls of a library, quiet axes at their defaults. */
size_t plan_list(const struct moe_shape *shape, struct moe_plan *plans, size_t room);

/* ---- Plans of a declared space: a choice instead of moetune's own axes, which have their
 * defaults. All functions above know them, too. */

struct moe_plan declared_plan(uint32_t space, uint32_t choice);

/* The default; the choice 0 where this process does not know the space. */
struct moe_plan declared_plan_default(uint32_t space);

/* As plan_list(), on so many ranks; 0: all that are legal on some number of them. */
size_t declared_plan_list(uint32_t space, uint32_t ranks, struct moe_plan *plans, size_t room);

#endif
