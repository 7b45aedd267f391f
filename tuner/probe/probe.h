/* `moetune probe`: measures on the ranks what links, kernels and products of a machine cost, and
 * turns that into the model fields of a cluster.
 *
 * Everything is timed as steps are: from a barrier, on the streams and the wire of steps, as the
 * largest time over the ranks, in shuffled rounds, as the median over rounds. */
#ifndef PROBE_H
#define PROBE_H

#include "cluster.h"
#include "engine.h"
#include "fits.h"
#include "moelookup.h"
#include "world.h"

/* ---- partners: with which ranks a rank exchanges while one kind of link is measured */

enum link_level { LINK_INSIDE, LINK_BETWEEN, LINK_LEVELS };
extern const char *const link_level_words[];

/* 8 partners show how the costs of messages add up; messages to all of 2,047 ranks would not fit
 * into memory. */
enum { PARTNERS_MAX = 8 };

/* Finds the partners of a rank; returns how many, 0 to PARTNERS_MAX.  node[q]: the number of rank
 * q's node.  Inside: ranks of the same node.  Between: ranks at the same place of other nodes, so
 * that all ranks of a node send at once.  Partners are mutual.  Pure: every rank computes the same.
 */
int partners_find(const int *node, int ranks, int rank, enum link_level level,
                  int partners[PARTNERS_MAX]);

/* ---- quotas of processor time (cpu.max of a control group).  A quota pauses a rank; between
 * pauses the rank has full speed, so times of single products do not show the quota.  Other
 * programs make pauses, too; the control group's own account tells them apart. */

/* Measures the share of a core that quotas leave to this thread, by keeping it busy for `ns`; about
 * ten periods are enough.  1 if no quota paused it. */
double quota_share(int64_t ns);

/* The end of a quota's pause, where the next period begins.  A plain value. */
struct quota_pause {
    int64_t end_ns, ran_ns; /* on the host clock; processor time of the thread until then */
};

/* Computes the share of quota_share(): the median over the spans between ends of pauses; 1 for
 * fewer than two ends.  In a span in which other programs ran much, the share is
 * too small; the median ignores a few of these. */
double quota_share_of(const struct quota_pause *pauses, size_t count);

enum {
    PROBE_ROUNDS_LEAST = 5,
    PROBE_EXCHANGES = 16, /* per level */
    PROBE_PRODUCTS = 6,
    PROBE_HOST_BYTES = 64
};

/* Which products of a feed-forward network are timed.  Cores always multiply in f32.  A GPU has one
 * rate per dtype, and narrow products are far slower.  A plain value. */
struct products {
    uint32_t dtype, model_dim, hidden_dim;
    uint64_t rows[PROBE_PRODUCTS]; /* from few to many */
    uint64_t beside; /* rows of products that run beside exchanges, or show ranks' speeds */
};

/* What probe_open() measures, and on which ranks.  Borrowed for the call. */
struct probe_setup {
    struct world *world;
    struct engine *engine;
    struct products gpu; /* on GPUs: dtype, model_dim and hidden_dim of products */
    double seconds;      /* about how long to measure; at least PROBE_ROUNDS_LEAST rounds */
    uint64_t seed;
    void (*tick)(void *self, uint32_t rounds, double seconds); /* after every round, on all ranks */
    void *self;
};

/* What was found of one rank.  A plain value. */
struct probe_rank {
    char host[PROBE_HOST_BYTES];
    int node;     /* ranks of one node have the same number */
    double speed; /* speed of its products, as a share of the fastest rank's */
};

/* The samples of one kind of link, and the constants fitted to them.  A plain value. */
struct probe_link {
    struct link_sample samples[PROBE_EXCHANGES];
    size_t count;
    struct link_fit fit;
    double slower; /* overlap_fit() of exchanges beside products */
};

/* Everything that a probe found.  probe_open() makes it whole; probe_close() frees it. */
struct probe {
    struct cluster model; /* the known cluster with its model fields; NAN: not determined */
    struct probe_link links[LINK_LEVELS];
    struct products products; /* which products were timed */
    struct product_sample product_samples[PROBE_PRODUCTS];
    struct product_fit product;
    struct moe_shape shape; /* the layer whose steps showed the noise; its plan and capacity */
    struct moe_plan plan;
    uint64_t capacity;
    double step_ns, replay_ns; /* its step: measured median, and as the model computes it */
    struct probe_rank *ranks;  /* owned */
    int rank_count;
    uint32_t rounds;
    double seconds;    /* that the rounds took */
    int copies_beside; /* -1: not known; the caller may set it, from gpus_copies_beside() */
};

/* Measures.  Collective; the same status and the same numbers on every rank.  `cluster`: the
 * cluster without its model fields. */
int probe_open(const struct probe_setup *setup, const struct cluster *cluster, struct probe **out);
void probe_close(struct probe *probe); /* NULL is fine */

#endif
