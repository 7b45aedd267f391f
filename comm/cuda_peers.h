/* Which ranks share a host or a GPU: what a wire between GPUs must know before it begins. */
#ifndef CUDA_PEERS_H
#define CUDA_PEERS_H

#include "world.h"

#include <stdbool.h>

struct device;

/* apart_bytes of wires between GPUs.  Not measured: a send or a copy more is thought to take 2 to 5
 * us, and to put as much in place takes 8 us of an H200's memory. */
enum { CUDA_APART_BYTES = 16 << 20 };

/* Names of hosts may be alike (localhost) or several (containers): `boot` is the machine's own. */
struct cuda_peer {
    char host[64], boot[40], bus[24]; /* bus: the PCI bus id of its GPU */
};

/* One for each rank, the same on every rank; to be freed.  Collective. */
int cuda_peers(struct world *world, const struct device *device, struct cuda_peer **out);

bool cuda_peers_share_gpu(const struct cuda_peer *peers, int ranks);
bool cuda_peers_share_host(const struct cuda_peer *peers, int ranks); /* all of them */

/* Whether this device may open the others' memory.  Of those that this process cannot see it is not
 * known before it is tried: they count as open. */
int cuda_peers_reach(const struct device *device, const struct cuda_peer *peers, int ranks,
                     bool *out);

#endif
