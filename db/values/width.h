/* Chooses between tables of one layer on one cluster whose buckets have different widths: which of
 * them answers. */
#ifndef WIDTH_H
#define WIDTH_H

#include <stdbool.h>
#include <stdint.h>

/* One such table, summed up by width_add(); a plain value. */
struct width {
    uint32_t window; /* R */
    int64_t
        decided_s; /* newest measured decision that is not stale, in seconds since 1970; 0: none */
    uint32_t entries;
    uint64_t reach; /* width_reach() of its last entry; 0: none */
};

/* Orders tables as qsort does; the first one that is not short answers. The newest decision comes
 * first, because the last person to tune meant it. Then come more entries, then the finer width. */
int width_order(const struct width *a, const struct width *b);

/* Returns the first capacity beyond the bucket. */
uint64_t width_reach(uint32_t window, uint32_t bucket);

/* Returns whether a table must not answer yet, because another one (`widest`: of all of them)
 * reaches more than twice as far. A short table would answer far beyond what was measured. */
bool width_is_short(uint64_t reach, uint64_t widest);

/* Counts one entry. */
void width_add(struct width *width, uint32_t bucket, bool measured, bool stale, int64_t decided_s);

#endif
