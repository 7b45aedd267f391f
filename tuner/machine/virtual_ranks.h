/* --virtual-ranks: one process is rank 0, and the other ranks do not exist.  Its kernels are real.
 * Its messages are copies inside its memory, at the pace of a link that the user states.  This
 * measures how much kernels and copies slow each other down; it does not measure a cluster. */
#ifndef VIRTUAL_RANKS_H
#define VIRTUAL_RANKS_H

#include "cluster.h"
#include "engine.h"
#include "options.h"

/* The default number of blocks that copy.  Copies by an engine wait in kernels, which may find no
 * place beside products that fill the GPU; then d=1 wins by construction.  Not yet measured on a
 * GPU. */
enum { COPY_CTAS = 16 };

/* The options of virtual ranks.  A plain value; the text is borrowed. */
struct virtual_options {
    uint32_t ranks, ctas; /* ranks 0: no virtual ranks; ctas 0: a copy engine copies */
    const char *link;     /* --link, in GB/s; NULL: not given */
};

extern const struct option_row virtual_rows[]; /* of struct virtual_options */

/* Checks the options.  ERR_ARGUMENT after a message, also for a link without virtual ranks. */
int virtual_check(const struct virtual_options *options, uint32_t ranks_per_node,
                  uint32_t ranks_per_rack);

/* Describes the cluster of these virtual ranks; `here` describes the machine, with one real rank.
 */
void virtual_cluster(const struct virtual_options *options, uint32_t ranks_per_node,
                     uint32_t ranks_per_rack, const struct cluster *here, struct cluster *out);

/* Which kernels a cluster's times come from: "host", "cuda" or "sim". */
const char *virtual_kernels(const struct cluster *cluster);
/* Which device decides the defaults of a layer: as virtual_kernels(), but "cuda" for a model of
 * GPUs. */
const char *virtual_device(const struct cluster *cluster);

/* Opens a world and an engine for the one real rank, at place `rank`.  The caller closes both, the
 * engine first. */
int virtual_open(const struct virtual_options *options, uint32_t ranks_per_node,
                 uint32_t ranks_per_rack, int rank, const char *device, struct world **world,
                 struct engine *engine);

#endif
