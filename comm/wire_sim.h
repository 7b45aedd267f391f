/* The wire of the device sim: an exchange moves nothing and takes modelled time.  One process
 * stands for one rank of a topology that exists only in the model. */
#ifndef WIRE_SIM_H
#define WIRE_SIM_H

#include "wire.h"

struct cluster;

/* A model of the links: how long an exchange takes.  First member of the model's own struct. */
struct sim_link {
    int64_t (*exchange_ns)(const struct sim_link *link, const struct batch *batch);
    void (*close)(const struct sim_link *link); /* wire_close() calls it; NULL: nothing to do */
    /* The exchange's weight for sim_pass(): how much it slows kernels beside it; NULL: 1. */
    double (*weight)(const struct sim_link *link, const struct batch *batch);
};

/* Opens a wire on this model.  The wire closes `link` where it has a close; else it is borrowed. */
int wire_sim_open(const struct sim_link *link, const struct topology *topology, struct wire **out);

/* Opens the wire of rank `rank` in a modelled cluster that passed cluster_check_model().  The
 * cluster need not outlive the call.
 *
 * An exchange takes the latency of the farthest level it uses, and then the longest of four things
 * that run at the same time: issuing its messages (one after the other, message_us each), the port
 * inside the node, the port between nodes, and the copy of a rank's own bytes.  A port begins when
 * the first of its messages is issued, in the order of the batch.  A message of n bytes passes its
 * port at bandwidth * n / (n + half).  Ports carry both directions at full rate, and the network
 * between nodes has no bottleneck of its own.
 *
 * A cluster may have more values; a missing one changes nothing:
 * - chunk_us: each exchange of an all-to-all takes this time in addition.
 * - message_peer_us: issuing a message between nodes takes this time in addition, for each of the p
 *   peers there.
 * - peer_between_gbs, crowd_between_peers: the port between nodes carries the smaller of its
 *   bandwidth and p * peer_between_gbs, divided by 1 + p / crowd_between_peers.
 * - ll and ll128: protocols with a percentage of the bandwidth and of the latency, and a half of 0.
 *   An exchange uses the fastest protocol.  Gathers and sums use the plan's protocol where the
 *   cluster has it, else the fastest.
 * - ranks_per_rack, and latency_, message_ and bandwidth_racks: messages to another rack have these
 *   costs; they pass the port between nodes, and at the same time a link of this bandwidth.
 * - overlap_slowdown_2dh: replaces overlap_slowdown beside an all-to-all of several exchanges.
 * - ring_step_us: the library gathers and sums, by the faster of two ways.  (1) A ring of g ranks
 *   on n nodes takes g - 1 steps, n - 1 of them of ring_step_between_us if the cluster has that;
 *   to these it adds the longer of the traffic inside a node and between nodes.  (2) Two levels
 *   exchange first between nodes, then inside, and both times add up.  In both ways, bytes from
 *   other nodes come once to each node, through all its ports.
 * - cta_gbs: k CTAs pass at most k * cta_gbs through a port; their weight on products beside them
 *   is k / library_ctas. */
int wire_sim_model_open(const struct cluster *cluster, int rank, struct wire **out);

#endif
