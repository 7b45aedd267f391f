/* Gathers host names and bus ids. */
#include "cuda_peers.h"

#include "cuda.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuda_peers(struct world *world, const struct device *device, struct cuda_peer **out)
{
    int ranks = world_topology(world)->ranks, rc;
    struct cuda_peer mine = { "", "" }, *all = calloc((size_t)ranks, sizeof(*all));

    gethostname(mine.host, sizeof(mine.host) - 1);
    rc = all ? CUDA(cudaDeviceGetPCIBusId(mine.bus, sizeof(mine.bus), cuda_ordinal(device)))
             : fail(ERR_NOMEM, "%d ranks", ranks);
    rc = world_settle(world, rc);
    if (!rc)
        rc = world_gather(world, &mine, all, sizeof(mine));
    if (rc)
        free(all);
    else
        *out = all;
    return rc;
}

bool cuda_peers_share_gpu(const struct cuda_peer *peers, int ranks)
{
    for (int i = 1; i < ranks; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(peers[i].bus, peers[j].bus) && !strcmp(peers[i].host, peers[j].host))
                return true;
    return false;
}

bool cuda_peers_share_host(const struct cuda_peer *peers, int ranks)
{
    for (int i = 1; i < ranks; i++)
        if (strcmp(peers[i].host, peers[0].host) != 0)
            return false;
    return true;
}
