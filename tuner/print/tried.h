/* What was tried, and what the steps of each trial took. */
#ifndef TRIED_H
#define TRIED_H

#include "heat.h"
#include "stats.h"
#include "store.h"

struct tried {
    struct trial_row trial;
    struct heat heat;
    struct spread step; /* of the steps that count; count 0: there are none */
    int64_t *steps_ns;  /* those, sorted */
    size_t step_count;
    char load[LOAD_NAME_BYTES]; /* all of them were taken under; those before it are left out */
};

struct tried_list {
    struct tried *items;
    size_t count;
};

/* Ids of 0 mean any; a bucket of UINT32_MAX means all.  Of one bucket only steps under the load of
 * its entry are there.  tried_free() also after an error. */
int tried_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
               uint32_t bucket, struct tried_list *out);
void tried_free(struct tried_list *list);

/* By the median of the steps, those without any last. */
void tried_sort(struct tried_list *list);

/* That of a plan; NULL: none of its steps counts. */
const struct tried *tried_find(const struct tried_list *list, const struct moe_plan *plan);

/* The plan whose steps had the least median; NULL: there is none. */
const struct tried *tried_fastest(const struct tried_list *list);

/* Three cells: the median of its steps, and the ends of its interval, in ms. */
struct grid;
int tried_cells(struct grid *grid, const struct tried *tried);

/* Every trial there is: state, times, memory, volume. */
int tried_print(struct store *store, FILE *to);

#endif
