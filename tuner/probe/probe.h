/* What a machine is like, measured on its ranks: the model fields of a cluster, and what they were
 * read from.
 *
 * Everything is timed as a step is: from a barrier, the largest time over the ranks, on the streams
 * and the wire that steps use, in shuffled rounds, medians over rounds. */
#ifndef PROBE_H
#define PROBE_H

#include "cluster.h"
#include "engine.h"
#include "fits.h"
#include "moelookup.h"
#include "world.h"

/* With whom a rank exchanges when one kind of link is measured.  Pure; the same answer for all who
 * ask with the same nodes. */
enum link_level { LINK_INSIDE, LINK_BETWEEN, LINK_LEVELS };
extern const char *const link_level_words[];

/* Enough to see how messages add up; with all of 2,047 others, memory would decide the sizes. */
enum { PARTNERS_MAX = 8 };

/* node[q] tells rank q's node from others.  Inside: ranks of the same node; between: the ranks that
 * have the same place in other nodes, so that all ranks of a node send at once.  Whoever is a
 * rank's partner has that rank as his.  Returns how many there are, 0 to PARTNERS_MAX. */
int partners_find(const int *node, int ranks, int rank, enum link_level level,
                  int partners[PARTNERS_MAX]);

/* What a quota of processor time (cpu.max of a control group) leaves to a rank.  It strikes in
 * pauses, between which the rank is as fast as any, so the time of a product does not tell of it;
 * and others' programs make pauses that pass, which its account does. */

/* The share of a core that quotas leave to this thread, which keeps it busy for `ns`: some ten
 * periods say it.  1 if they did not hold it back. */
double quota_share(int64_t ns);

/* A quota's pause has ended: periods begin there, with all that the quota gives. */
struct quota_pause {
    int64_t end_ns, ran_ns; /* ran: the thread, until then */
};

/* The median over the spans between such ends; 1 where there are none.  A span in which others took
 * so much that the quota was not used up says too little, and has company. */
double quota_share_of(const struct quota_pause *pauses, size_t count);

enum {
    PROBE_ROUNDS_LEAST = 5,
    PROBE_EXCHANGES = 16, /* per level */
    PROBE_PRODUCTS = 6,
    PROBE_HOST_BYTES = 64
};

/* The products of a feed-forward network that are timed.  Cores multiply in f32, whatever rows are
 * stored in; a GPU's rate is that of one type, and far lower for narrow products. */
struct products {
    uint32_t dtype, model_dim, hidden_dim;
    uint64_t rows[PROBE_PRODUCTS]; /* from few to many */
    uint64_t beside;               /* rows, where exchanges or other ranks are measured besides */
};

struct probe_setup {
    struct world *world;
    struct engine *engine;
    struct products gpu; /* of a GPU: its type and two sides */
    double seconds;      /* of rounds, about; at least PROBE_ROUNDS_LEAST are made */
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
    struct products products; /* that were timed */
    struct product_sample product_samples[PROBE_PRODUCTS];
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
