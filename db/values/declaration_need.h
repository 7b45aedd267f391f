/* Conditions between the axes of a declared space: | of & of comparisons. */
#ifndef DECLARATION_NEED_H
#define DECLARATION_NEED_H

#include "declaration_read.h"

/* A constant times values of axes; or the value of one axis of words, or a word: by its index. */
struct declared_term {
    int64_t constant;
    uint8_t axes;
    uint8_t axis[DECLARATION_AXES_MAX];
};

struct declared_comparison {
    struct declared_term left, right;
    uint8_t relation;
    bool opens; /* a | stands before it, not a & */
};

struct declared_need {
    size_t comparisons;
    struct declared_comparison *comparison;
    uint32_t axes;       /* those that it names, a bit for each */
    size_t text, length; /* where it stands in the declaration's text */
};

/* What is left of the reader's line, into the next of d->need; says it in the canonical text. */
int declared_need_read(struct declaration_reader *in);
void declared_need_free(struct declared_need *need);

/* at[axis]: declared_number() of its value; those that the comparison names are read. */
bool declared_comparison_holds(const struct declared_comparison *c, const int64_t *at);

/* Those that a term names, a bit for each. */
static inline uint32_t declared_term_axes(const struct declared_term *term)
{
    uint32_t axes = 0;

    for (uint8_t i = 0; i < term->axes; i++)
        axes |= 1u << term->axis[i];
    return axes;
}

/* The number that a need sees: a value, or the index of a word. */
static inline int64_t declared_number(const struct declared_axis *axis, uint32_t value)
{
    return axis->number ? axis->number[value] : value;
}

/* The first need that does not hold; d->needs: all hold. */
size_t declared_needs_broken(const struct declaration *d, const int64_t *at);

#endif
