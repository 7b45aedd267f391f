/* --virtual-ranks: one process is rank 0 of ranks that are not there.  Its kernels are real, its
 * traffic is copied at the pace of a link that the user states: what is measured is how much the
 * two slow each other down, not a cluster. */
#ifndef VIRTUAL_RANKS_H
#define VIRTUAL_RANKS_H

#include "cluster.h"
#include "engine.h"
#include "options.h"

/* Blocks that copy where nobody says how many.  Copies by an engine wait in kernels, which may find
 * no place beside products that fill the GPU: then d=1 wins by construction.  No GPU has told yet.
 */
enum { COPY_CTAS = 16 };

struct virtual_options {
    uint32_t ranks, ctas; /* ranks 0: none are wanted; ctas 0: a copy engine */
    const char *link;
};

extern const struct option_row virtual_rows[]; /* of struct virtual_options */

/* ERR_ARGUMENT after a message, also for a link without virtual ranks. */
int virtual_check(const struct virtual_options *options, uint32_t ranks_per_node,
                  uint32_t ranks_per_rack);

/* The cluster that such a rank on `here` (one real rank) stands for. */
void virtual_cluster(const struct virtual_options *options, uint32_t ranks_per_node,
                     uint32_t ranks_per_rack, const struct cluster *here, struct cluster *out);

/* Whose kernels a cluster's times are of: "host", "cuda" or "sim". */
const char *virtual_kernels(const struct cluster *cluster);
/* The same, but "cuda" for a model of GPUs: which layers and which storage are usual there. */
const char *virtual_device(const struct cluster *cluster);

/* A world of its own and an engine on it, of the rank that stands for all.  The caller closes both,
 * the engine first. */
int virtual_open(const struct virtual_options *options, uint32_t ranks_per_node,
                 uint32_t ranks_per_rack, int rank, const char *device, struct world **world,
                 struct engine *engine);

#endif
