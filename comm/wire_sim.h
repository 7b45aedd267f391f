/* The wire of the sim back end: an exchange takes the time its costs say, for one representative
 * rank of a topology that exists only here. */
#ifndef WIRE_SIM_H
#define WIRE_SIM_H

#include "wire.h"

struct cluster;

struct sim_link {
    int64_t (*exchange_ns)(const struct sim_link *link, const struct batch *batch);
    void (*close)(const struct sim_link *link); /* with the wire; NULL: nothing to do */
    /* Of the device, as sim_pass() has it; NULL: 1. */
    double (*weight)(const struct sim_link *link, const struct batch *batch);
};

/* `link` is borrowed unless it has a close; it must outlive the wire. */
int wire_sim_open(const struct sim_link *link, const struct topology *topology, struct wire **out);

/* One rank's wire in a modelled cluster that passed cluster_check_model(); it is not kept.
 *
 * An exchange takes the latency of the farthest level it uses, and then the longest of four things
 * that go on at the same time: issuing its messages (one after the other, message_us each), the
 * port inside the node, the port between nodes, and copying what stays.  A port begins when the
 * first of its messages is issued, in the order of the batch.  A message of n bytes passes its port
 * at bandwidth * n / (n + half).  Ports carry both directions at full rate, and the network between
 * nodes has no bottleneck of its own.
 *
 * What a cluster may say besides, and what changes nothing where it does not:
 * - chunk_us: each exchange of an all-to-all takes this, too.
 * - message_peer_us: issuing a message between nodes takes this for each of the p peers there.
 * - peer_between_gbs, crowd_between_peers: the port between nodes carries the less of its bandwidth
 *   and p * peer_between_gbs, over 1 + p / crowd_between_peers.
 * - ll and ll128: an exchange goes by the fastest protocol.  These have a share of the bandwidth
 * and of the latency, and a half of 0.  So do the library's gathers and sums, unless a plan says by
 * which: then by that one, if the cluster knows it.
 * - ranks_per_rack and latency_, message_ and bandwidth_racks: messages to another rack have these
 *   costs, pass the port between nodes, and at the same time a link that carries no more.
 * - overlap_slowdown_2dh: in place of overlap_slowdown beside an all-to-all of several exchanges.
 * - ring_step_us: gathers and sums are the library's own, the faster of two.  A ring of g ranks on
 *   n nodes takes g - 1 steps, n - 1 of which last ring_step_between_us where the cluster says
 *   that, and the longer of what passes inside a node and between nodes; in two levels, first
 *   between nodes, then inside, both add up.  Either way what comes from other nodes
 *   comes once to a node, through all its ports.
 *
 * Where the cluster says what a CTA can do, k of them pass no more than k * cta_gbs through a port,
 * and weigh k / library_ctas on products beside them. */
int wire_sim_model_open(const struct cluster *cluster, int rank, struct wire **out);

#endif
