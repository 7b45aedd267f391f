/* Lists the legal plans of a declared space: axis by axis, and no further where some need cannot
 * become true any more.
 *
 * A need is true if one of its alternatives is, what stands between two |, and an alternative is
 * ruled out by the first of its comparisons that is not.  So what is kept of the values so far is
 * the set of alternatives that they have ruled out. */
#include "declaration_need.h"

#include "status.h"

#include <stdlib.h>
#include <string.h>

enum { SET_WORDS = DECLARATION_COMPARISONS_MAX / 64, COMPARED_MAX = 1 << 27 };

/* Of alternatives of all needs, numbered as they stand there. */
struct set {
    uint64_t word[SET_WORDS];
};

static void set_add(struct set *s, size_t alternative)
{
    s->word[alternative / 64] |= (uint64_t)1 << alternative % 64;
}

static bool set_has(const struct set *s, size_t alternative)
{
    return s->word[alternative / 64] >> alternative % 64 & 1;
}

static struct set set_or(const struct set *a, const struct set *b)
{
    struct set both;

    for (size_t i = 0; i < SET_WORDS; i++)
        both.word[i] = a->word[i] | b->word[i];
    return both;
}

static bool set_meets(const struct set *a, const struct set *b)
{
    uint64_t common = 0;

    for (size_t i = 0; i < SET_WORDS; i++)
        common |= a->word[i] & b->word[i];
    return common;
}

static bool set_covers(const struct set *s, const struct set *part)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < SET_WORDS; i++)
        missing |= part->word[i] & ~s->word[i];
    return !missing;
}

/* A comparison of several axes, and the alternative that it belongs to. */
struct mixed {
    const struct declared_comparison *comparison;
    size_t alternative;
};

struct listing {
    struct declaration_reader *in;
    const struct declaration *d;
    size_t alternatives;
    struct set sole; /* each is all of its need */
    struct set of_need[DECLARATION_NEEDS_MAX];
    struct level {                             /* what a value of this axis decides */
        struct set by[DECLARATION_VALUES_MAX]; /* the value alone rules these out */
        size_t mixed, needs;
        struct mixed mixed_of[DECLARATION_COMPARISONS_MAX]; /* the last axis of which it is */
        uint8_t need_of[DECLARATION_NEEDS_MAX];             /* of several alternatives */
    } level[DECLARATION_AXES_MAX];
    int64_t at[DECLARATION_AXES_MAX];
    uint32_t compared;
    uint32_t plans, plan[DECLARATION_PLANS_MAX];
};

/* ---- before the search */

static uint32_t axes_of(const struct declared_comparison *c)
{
    return declared_term_axes(&c->left) | declared_term_axes(&c->right);
}

static size_t last_axis(uint32_t axes)
{
    size_t last = 0;

    while (axes >> (last + 1))
        last++;
    return last;
}

/* Of one axis alone: asked once for each of its values. */
static void rule_out(struct listing *l, size_t axis, const struct declared_comparison *c,
                     size_t alternative)
{
    for (uint32_t v = 0; v < l->d->axis[axis].values; v++) {
        l->at[axis] = declared_number(&l->d->axis[axis], v);
        if (!declared_comparison_holds(c, l->at))
            set_add(&l->level[axis].by[v], alternative);
    }
}

static void place_need(struct listing *l, size_t n)
{
    const struct declared_need *need = &l->d->need[n];
    size_t before = l->alternatives;

    for (size_t i = 0; i < need->comparisons; i++) {
        const struct declared_comparison *c = &need->comparison[i];
        uint32_t axes = axes_of(c);
        struct level *level = &l->level[last_axis(axes)];

        l->alternatives += !i || c->opens;
        set_add(&l->of_need[n], l->alternatives - 1);
        if (axes & (axes - 1))
            level->mixed_of[level->mixed++] = (struct mixed){ c, l->alternatives - 1 };
        else
            rule_out(l, last_axis(axes), c, l->alternatives - 1);
    }
    if (l->alternatives == before + 1)
        set_add(&l->sole, before);
    for (size_t axis = 0; axis < l->d->axes && l->alternatives > before + 1; axis++)
        if (need->axes >> axis & 1)
            l->level[axis].need_of[l->level[axis].needs++] = (uint8_t)n;
}

/* ---- the search */

/* What the values up to this one of this axis rule out; false: some need cannot become true. */
static bool take_value(struct listing *l, size_t axis, uint32_t value, const struct set *before,
                       struct set *out)
{
    const struct level *level = &l->level[axis];

    *out = set_or(before, &level->by[value]);
    if (set_meets(out, &l->sole))
        return false;
    l->compared += (uint32_t)(level->mixed + level->needs);
    for (const struct mixed *m = level->mixed_of; m < level->mixed_of + level->mixed; m++)
        if (!set_has(out, m->alternative) && !declared_comparison_holds(m->comparison, l->at))
            set_add(out, m->alternative);
    if (set_meets(out, &l->sole))
        return false;
    for (size_t i = 0; i < level->needs; i++)
        if (set_covers(out, &l->of_need[level->need_of[i]]))
            return false;
    return true;
}

static bool is_enough(const struct listing *l)
{
    return l->plans > DECLARATION_PLANS_MAX || l->compared > COMPARED_MAX;
}

/* All plans that begin with the values of the axes before this one.  One too many is counted, not
 * kept. */
static void list_from(struct listing *l, size_t axis, uint32_t choice, const struct set *before)
{
    const struct declared_axis *a = &l->d->axis[axis];
    struct set out;

    if (axis == l->d->axes) {
        if (l->plans < DECLARATION_PLANS_MAX)
            l->plan[l->plans] = choice;
        l->plans++;
        return;
    }
    for (uint32_t v = 0; v < a->values && !is_enough(l); v++) {
        l->at[axis] = declared_number(a, v);
        if (take_value(l, axis, v, before, &out))
            list_from(l, axis + 1, choice + v * a->stride, &out);
    }
}

static int keep_plans(struct listing *l, struct declaration *d)
{
    if (l->plans > DECLARATION_PLANS_MAX)
        return declaration_wrong(l->in,
                                 "of %u combinations at least %u are legal plans, and %d may be: "
                                 "leave values out, or add needs",
                                 d->combinations, l->plans, DECLARATION_PLANS_MAX);
    if (l->compared > COMPARED_MAX)
        return declaration_wrong(l->in,
                                 "it takes more than %d comparisons to find the legal plans of "
                                 "%u combinations: declare axes first that exclude much",
                                 COMPARED_MAX, d->combinations);
    d->plans = l->plans;
    d->plan = malloc(l->plans * sizeof(*d->plan));
    if (!d->plan)
        return ERR_NOMEM;
    memcpy(d->plan, l->plan, l->plans * sizeof(*d->plan));
    return OK;
}

int declaration_list(struct declaration_reader *in)
{
    struct listing *l = calloc(1, sizeof(*l));
    const struct set nothing = { { 0 } };
    int rc;

    if (!l)
        return ERR_NOMEM;
    l->in = in;
    l->d = in->d;
    for (size_t n = 0; n < in->d->needs; n++)
        place_need(l, n);
    list_from(l, 0, 0, &nothing);
    rc = keep_plans(l, in->d);
    free(l);
    return rc;
}
