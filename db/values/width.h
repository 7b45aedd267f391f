/* Tables of one layer on one cluster with buckets of several widths: which of them answers. */
#ifndef WIDTH_H
#define WIDTH_H

#include <stdbool.h>
#include <stdint.h>

struct width {
    uint32_t window;   /* R */
    int64_t decided_s; /* its most recent measured decision that is not stale; 0: none */
    uint32_t entries;
    uint64_t reach; /* width_reach() of its last entry; 0: none */
};

/* Before 0: the first one answers, of those that are not short.  Whoever tuned last meant it; where
 * that says nothing, the one that is most tuned, then the finer one. */
int width_order(const struct width *a, const struct width *b);

/* Where the bucket ends: the first capacity that is beyond it. */
uint64_t width_reach(uint32_t window, uint32_t bucket);

/* Beside a table that reaches more than twice as far (`widest`: of all of them) it does not answer
 * yet: it would answer far beyond what was measured. */
bool width_is_short(uint64_t reach, uint64_t widest);

/* Counts an entry. */
void width_add(struct width *width, uint32_t bucket, bool measured, bool stale, int64_t decided_s);

#endif
