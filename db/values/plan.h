/* The axes of a plan, its text and packed forms, and which plans are legal for a layer. */
#ifndef PLAN_H
#define PLAN_H

#include "moelookup.h"
#include "shape.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_TEXT_BYTES = 312, PLAN_MAX_D = 8, PLAN_MAX_CTAS = 64, PLAN_A2A_COUNT = 5 };

/* What an all-to-all needs. plan_a2a_needs[] is indexed by enum moe_a2a. */
struct a2a_needs {
    bool library; /* one of the library's own, which few have; without it every wire can run it */
    bool two_levels; /* several nodes of equally many ranks, more than one each */
    bool racks;      /* several racks of nodes, too */
    bool equal;      /* equally many rows for every rank */
    bool node;       /* all ranks of an expert on one node */
    bool sums;       /* adds up a token's rows on the way: MOE_COMBINE_SUM only */
    bool ours;       /* for moetune's layer; other programs must declare it */
};
extern const struct a2a_needs plan_a2a_needs[PLAN_A2A_COUNT];

/* One axis of a plan. A new axis is a field in struct moe_plan, a row in plan.c and a name in
 * PLAN_AXES. A new axis is quiet, its default is 0, and its bits lie where older tables wrote
 * zeros. So everything written before keeps its meaning. */
struct axis {
    const char *name;
    size_t offset; /* of its uint32_t in struct moe_plan */
    uint32_t fallback, min, max;
    uint32_t search_max;            /* quiet axes: the largest value that a search tries */
    bool power_of_two;              /* or 0, where min allows it */
    bool quiet;                     /* not written while it has its default */
    const char *const *words;       /* names of the values; NULL: plain numbers */
    const char *legal;              /* its legal values, for messages */
    uint8_t packed_at, packed_bits; /* its bits in the number of plan_pack() */
};

/* The axes that code knows by name. */
enum plan_axis { PLAN_R, PLAN_D, PLAN_A, PLAN_CTAS, PLAN_E, PLAN_W, PLAN_PROTO };

extern const struct axis plan_axes[];
extern const size_t plan_axis_count;

/* The names of all axes, for messages and help. */
#define PLAN_AXES "r, d, a, ctas, e, w, proto"

/* Returns the axis with that name, or plan_axis_count. */
size_t plan_axis_find(const char *name, size_t length);

/* Reads one value of an axis, a word or a number. Returns false where no shape allows it. */
bool plan_parse_value(size_t axis, const char *text, size_t length, uint32_t *value);

/* Reads and sets the value of an axis. */
uint32_t plan_value(const struct moe_plan *plan, size_t axis);
void plan_set(struct moe_plan *plan, size_t axis, uint32_t value);

/* Returns the legal value after this one; beyond max where this one is the last. */
uint32_t plan_next_value(size_t axis, uint32_t value);

/* Names of enum moe_source, in the order of their values, NULL-terminated. */
enum { PLAN_SOURCE_COUNT = 12 };
extern const char *const plan_source_words[];

/* Returns the plan that a trainer runs without a tuner. In most layers it is r=1 d=1 a=linear; in
 * MOE_LAYOUT_HIDDEN r=0 d=1 a=linear e=sparse; in a declared space the space's default. shape NULL:
 * a layer of another layout than MOE_LAYOUT_HIDDEN. */
struct moe_plan plan_default(const struct moe_shape *shape);

/* Returns whether a plan equals the default plan of the shape. */
bool plan_is_default(const struct moe_plan *plan, const struct moe_shape *shape);

/* Returns whether two plans are equal on every axis. Their source does not count. */
bool plan_equal(const struct moe_plan *a, const struct moe_plan *b);

/* Returns whether two plans are equal on every axis except perhaps this one. */
bool plan_equal_but(const struct moe_plan *a, const struct moe_plan *b, size_t axis);

/* Returns whether one plan moves tokens (r >= 1) and the other one weights (r = 0). Where experts'
 * capacities differ, the first waits for the fullest rank, and the second computes the rows of all
 * experts on every rank. So the equal capacities at which they take as long are two numbers. */
static inline bool plan_other_kind(const struct moe_plan *a, const struct moe_plan *b)
{
    return (a->r == 0) != (b->r == 0);
}

/* Returns whether tokens travel in as many rows as each step counts (r >= 1, e=sparse). Such a step
 * takes as long as its fullest rank has rows, whatever the capacity is. In MOE_LAYOUT_HIDDEN the
 * tokens themselves travel, so it is false. */
static inline bool plan_is_counted(const struct moe_plan *plan, const struct moe_shape *shape)
{
    return plan->r && plan->e == MOE_SPARSE && shape->layout == MOE_LAYOUT_EXPERTS;
}

/* Compares two plans axis by axis, as qsort wants it; 0: equal. */
int plan_order(const struct moe_plan *a, const struct moe_plan *b);

/* Does what moe_plan_parse() does for callers in this program: *out need not be initialised. */
int plan_parse(const char *text, struct moe_plan *out);

/* Writes the plan as moe_plan_format() does, "?" where it cannot. The macro's text lasts as long as
 * the block around it. */
#define PLAN_TEXT(plan) plan_text(plan, (char[PLAN_TEXT_BYTES]){ "?" })
const char *plan_text(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES]);

/* Writes the plan without the name of a declared space, for places that name the space already. */
#define PLAN_WORDS(plan) plan_words(plan, (char[PLAN_TEXT_BYTES]){ "?" })
const char *plan_words(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES]);

/* Packs all axes into one number, or a declared space's choice; plan_unpack() may return an illegal
 * plan. Files hold this number. r is in the lowest 3 bytes, e and w are the halves of byte 3, then
 * follow bytes for d, a and ctas. proto has the upper 2 bits of a's byte. Readers that know no e or
 * w find that byte 3 is not what they would write, and refuse. Readers that know no proto find an
 * unknown version. */
enum { PLAN_PACKED_BYTES = 7 };
uint64_t plan_pack(const struct moe_plan *plan);
struct moe_plan plan_unpack(uint64_t packed, uint32_t space);

/* Returns how many bytes of a caller's struct moe_plan with this struct_size may be read and
 * written: only whole fields. 0 means the size of the first version. */
size_t plan_bytes(uint32_t struct_size);

/* Returns the one name of plans that do the same. r = 0 moves no tokens, so a and ctas mean
 * nothing; with padded experts d and w neither. proto means nothing where no weights are gathered,
 * which the shape says. shape NULL: any layer, some of which gather. */
struct moe_plan plan_canonical(struct moe_plan plan, const struct moe_shape *shape);

/* Returns whether the first `bytes` bytes of struct moe_plan can describe the plan. e and w change
 * what is computed and kept, so they must fit; ctas and proto change only how bytes travel, so they
 * need not. */
bool plan_fits_struct(const struct moe_plan *plan, size_t bytes);

/* OK; ERR_ARGUMENT after a message (a value is illegal for the shape) that lists the legal values;
 * or UNSUPPORTED after a message (the all-to-all needs other nodes). */
int plan_check(const struct moe_plan *plan, const struct moe_shape *shape);

/* Returns whether plan_check() would return OK, without a message. */
bool plan_legal(const struct moe_plan *plan, const struct moe_shape *shape);

/* Returns whether to list plans with this value, which is not the default's, on that axis. */
typedef bool plan_wanted(const void *self, size_t axis, uint32_t value);

/* Lists the default and every legal plan of wanted values, canonical, in the order of the axes and
 * their values. In a declared space it lists every legal plan, whatever is wanted. Returns their
 * number, and writes at most `room` of them. */
size_t plan_list_wanted(const struct moe_shape *shape, plan_wanted *wanted, const void *self,
                        struct moe_plan *plans, size_t room);

/* Lists the plans without a library's all-to-alls, with quiet axes at their defaults. */
size_t plan_list(const struct moe_shape *shape, struct moe_plan *plans, size_t room);

/* ---- Plans of a declared space have a choice instead of moetune's axes, which are at their
 * defaults. All functions above accept them, too. */

/* Returns the plan with that choice. */
struct moe_plan declared_plan(uint32_t space, uint32_t choice);

/* Returns the default plan of a space; the choice 0 where this process does not know the space. */
struct moe_plan declared_plan_default(uint32_t space);

/* Lists the plans of a space as plan_list() does, for this number of ranks; 0: plans that are legal
 * on some number of ranks. */
size_t declared_plan_list(uint32_t space, uint32_t ranks, struct moe_plan *plans, size_t room);

#endif
