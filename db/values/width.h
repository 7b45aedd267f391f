/* Tables of one layer on one cluster with buckets of several widths: which of them answers. */
#ifndef WIDTH_H
#define WIDTH_H

#include <stdbool.h>
#include <stdint.h>

struct width {
    uint32_t window;   /* R */
    int64_t decided_s; /* its most recent measured decision that is not stale; 0: none */
    uint32_t entries;
};

/* Before 0: the first one answers.  Whoever tuned last meant it; where that says nothing, the one
 * that is most tuned, then the finer one. */
int width_order(const struct width *a, const struct width *b);

/* Counts an entry. */
void width_add(struct width *width, bool measured, bool stale, int64_t decided_s);

#endif
