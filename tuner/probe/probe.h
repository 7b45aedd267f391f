/* What a machine is like, measured on its ranks: the model fields of a cluster, and what they were
 * read from.
 *
 * Everything is timed as a step is: from a barrier, the largest time over the ranks, on the streams
 * and the wire that steps use, in shuffled rounds, medians over rounds. */
#ifndef PROBE_H
#define PROBE_H

#include "cluster.h"
#include "engine.h"
#include "link_fit.h"
#include "moelookup.h"
#include "partners.h"
#include "rate_fit.h"
#include "world.h"

enum {
    PROBE_ROUNDS_LEAST = 5,
    PROBE_EXCHANGES = 16, /* per level */
    PROBE_PRODUCTS = 6,
    PROBE_HOST_BYTES = 64
};

struct probe_setup {
    struct world *world;
    struct engine *engine;
    double seconds; /* of rounds, about; at least PROBE_ROUNDS_LEAST are made */
    uint64_t seed;
    void (*tick)(void *self, uint32_t rounds, double seconds); /* after every round, on all ranks */
    void *self;
};

struct probe_rank {
    char host[PROBE_HOST_BYTES];
    int node;     /* another number for another node */
    double speed; /* rate of its products, as a share of the fastest rank's */
};

struct probe_link {
    struct link_sample samples[PROBE_EXCHANGES];
    size_t count;
    struct link_fit fit;
    double slower; /* overlap_fit of exchanges beside products */
};

struct probe {
    struct cluster model; /* what was known, and its model fields; NAN where nothing came out */
    struct probe_link links[LINK_LEVELS];
    struct product_sample products[PROBE_PRODUCTS];
    struct product_fit product;
    struct moe_shape shape; /* of the layer whose steps noise was read from */
    struct moe_plan plan;
    uint64_t capacity;
    double step_ns, replay_ns; /* its step measured; as the model has it */
    struct probe_rank *ranks;
    int rank_count;
    uint32_t rounds;
    double seconds;
    int copies_beside; /* -1; who opened it may know more: gpus_copies_beside() */
};

/* Collective; the same status and the same numbers on every rank.  `known` is the cluster without
 * its model fields. */
int probe_open(const struct probe_setup *setup, const struct cluster *known, struct probe **out);
void probe_close(struct probe *probe); /* NULL is fine */

#endif
