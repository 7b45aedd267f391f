/* The axes of a plan, and which plans are legal for a shape. */
#ifndef PLAN_H
#define PLAN_H

#include "moelookup.h"
#include "shape.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_TEXT_BYTES = 64, PLAN_MAX_D = 8, PLAN_MAX_CTAS = 64, PLAN_A2A_COUNT = 3 };

/* The algorithms that every wire can run: the first ones of enum moe_a2a. */
enum { PLAN_A2A_OWN = 2 };

/* One tunable.  A new one is a row in plan.c and a field in struct moe_plan. */
struct axis {
    const char *name;
    size_t offset; /* of its uint32_t in struct moe_plan */
    uint32_t fallback, min, max;
    bool power_of_two;        /* or 0, where min allows it */
    bool quiet;               /* not written while it has its fallback */
    const char *const *words; /* names of the values, or NULL: plain numbers */
};

extern const struct axis plan_axes[];
extern const size_t plan_axis_count;

/* Names of enum moe_source, in the order of their values, NULL-terminated. */
enum { PLAN_SOURCE_COUNT = 8 };
extern const char *const plan_source_words[];

/* r=1 d=1 a=linear: what a trainer runs today without a tuner. */
struct moe_plan plan_default(void);

/* Equal on every axis; where they came from does not count. */
bool plan_equal(const struct moe_plan *a, const struct moe_plan *b);

/* The order of two plans as qsort wants it: axis by axis, 0 where they are equal. */
int plan_order(const struct moe_plan *a, const struct moe_plan *b);

/* moe_plan_parse() for callers of this program: *out need not be set. */
int plan_parse(const char *text, struct moe_plan *out);

/* r = 0 moves no tokens, so d, a and ctas mean nothing: gives the one name such plans share. */
struct moe_plan plan_canonical(struct moe_plan plan);

/* OK, ERR_ARGUMENT (r or d illegal for the shape; says which values are legal), or UNSUPPORTED
 * (2dh where there is only one level; says why). */
int plan_check(const struct moe_plan *plan, const struct moe_shape *shape);

/* True if plan_check would say OK; silent. */
bool plan_legal(const struct moe_plan *plan, const struct moe_shape *shape);

/* Every legal plan that applies, canonical, in the order r, d, a, by our own all-to-alls and
 * without a limit to their CTAs. Returns their number, at most `room` of them written. */
size_t plan_list(const struct moe_shape *shape, struct moe_plan *plans, size_t room);

#endif
