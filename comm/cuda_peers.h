/* Which ranks share a host or a GPU.  Wires between GPUs ask before they open. */
#ifndef CUDA_PEERS_H
#define CUDA_PEERS_H

#include "world.h"

#include <stdbool.h>

struct device;

/* separate_bytes of the wires between GPUs.  An estimate, not a measurement: one more send or copy
 * takes 2 to 5 us, and an H200 needs 8 us to put as many bytes in place. */
enum { CUDA_SEPARATE_BYTES = 16 << 20 };

/* Where one rank runs.  A plain value.  Host names alone do not tell: two machines may both be
 * "localhost", and containers of one machine may have different names.  `boot` is one machine's. */
struct cuda_peer {
    char host[64], boot[40], bus[24]; /* bus: the PCI bus id of its GPU */
};

/* Collects one cuda_peer for each rank; every rank gets the same array, and frees it.  Collective.
 */
int cuda_peers(struct world *world, const struct device *device, struct cuda_peer **out);

/* True where at least two ranks share a GPU. */
bool cuda_peers_share_gpu(const struct cuda_peer *peers, int ranks);

/* True where all ranks share one host. */
bool cuda_peers_share_host(const struct cuda_peer *peers, int ranks);

/* *out: whether this device may open the memory of the others.  A GPU that this process cannot see
 * counts as reachable; only an attempt shows. */
int cuda_peers_reach(const struct device *device, const struct cuda_peer *peers, int ranks,
                     bool *out);

#endif
