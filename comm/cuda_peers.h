/* Which ranks share a host or a GPU: what a wire between GPUs must know before it begins. */
#ifndef CUDA_PEERS_H
#define CUDA_PEERS_H

#include "world.h"

#include <stdbool.h>

struct device;

struct cuda_peer {
    char host[64], bus[24]; /* the PCI bus id of its GPU */
};

/* One for each rank, the same on every rank; to be freed.  Collective. */
int cuda_peers(struct world *world, const struct device *device, struct cuda_peer **out);

bool cuda_peers_share_gpu(const struct cuda_peer *peers, int ranks);
bool cuda_peers_share_host(const struct cuda_peer *peers, int ranks); /* all of them */

#endif
