/* Ranks exchange the name of their host and the bus id of their GPU, for the wires between GPUs. */
#include "cuda_peers.h"

#include "cuda.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuda_peers(struct world *world, const struct device *device, struct cuda_peer **out)
{
    int ranks = world_topology(world)->ranks, rc;
    struct cuda_peer mine = { "", "", "" }, *all = calloc((size_t)ranks, sizeof(*all));

    gethostname(mine.host, sizeof(mine.host) - 1);
    world_machine(mine.boot, sizeof(mine.boot));
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

static bool same_machine(const struct cuda_peer *a, const struct cuda_peer *b)
{
    return *a->boot || *b->boot ? !strcmp(a->boot, b->boot) : !strcmp(a->host, b->host);
}

bool cuda_peers_share_gpu(const struct cuda_peer *peers, int ranks)
{
    for (int i = 1; i < ranks; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(peers[i].bus, peers[j].bus) && same_machine(&peers[i], &peers[j]))
                return true;
    return false;
}

bool cuda_peers_share_host(const struct cuda_peer *peers, int ranks)
{
    for (int i = 1; i < ranks; i++)
        if (strcmp(peers[i].host, peers[0].host) != 0 || !same_machine(&peers[i], &peers[0]))
            return false;
    return true;
}

int cuda_peers_reach(const struct device *device, const struct cuda_peer *peers, int ranks,
                     bool *out)
{
    int own_gpu = cuda_ordinal(device), has_events = 0, peer_gpu, reaches = 1;

    TRY(CUDA(cudaDeviceGetAttribute(&has_events, cudaDevAttrIpcEventSupport, own_gpu)));
    for (int q = 0; q < ranks && reaches; q++) {
        if (cudaDeviceGetByPCIBusId(&peer_gpu, peers[q].bus) != cudaSuccess)
            (void)cudaGetLastError(); /* not visible here */
        else if (peer_gpu != own_gpu)
            TRY(CUDA(cudaDeviceCanAccessPeer(&reaches, own_gpu, peer_gpu)));
    }
    *out = has_events && reaches;
    return OK;
}
