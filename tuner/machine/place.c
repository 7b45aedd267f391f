/* Options, allocation and GPUs become a place. */
#include "place.h"

#include "discover.h"
#include "gpu_list.h"
#include "slurm.h"
#include "status.h"

#include <string.h>

uint32_t place_ranks(const char *device)
{
    return strcmp(gpus_device(device), "cuda") ? 0 : (uint32_t)gpus_here().count;
}

int place_check_device(const char *device, const char *hosts)
{
    return gpus_check_device(device, hosts || slurm_job());
}

/* A trainer may share GPUs on purpose; a table of such ranks should not come as a surprise. */
static void say_if_shared(const struct launch_where *where, const char *device)
{
    uint32_t gpus = where->elsewhere ? 0 : place_ranks(device);

    if (gpus && where->ranks > gpus)
        note("%u ranks on %u GPU%s: they share them, and no time of an exchange is a link's",
             where->ranks, gpus, gpus > 1 ? "s" : "");
}

static int place_one(const struct place_setup *s, struct hosts *hosts, struct launch_where *where,
                     struct cluster *here)
{
    struct cluster alone;

    if (s->ranks || s->hosts)
        return fail(ERR_ARGUMENT, "--virtual-ranks is one process: no HOSTS, no --ranks");
    TRY(launch_place(NULL, 1, s->launcher_arguments, 0, hosts, where));
    TRY(discover_place(where, s->device, 0, &alone));
    virtual_cluster(&s->pretence, s->ranks_per_node, &alone, here);
    return OK;
}

int place_find(const struct place_setup *s, struct hosts *hosts, struct launch_where *where,
               struct cluster *here)
{
    *hosts = (struct hosts){ .count = 0 };
    TRY(virtual_check(&s->pretence, s->ranks_per_node));
    TRY(gpus_check_device(s->device, true));
    if (s->pretence.ranks)
        return place_one(s, hosts, where, here);
    TRY(launch_place(s->hosts, s->ranks, s->launcher_arguments, place_ranks(s->device), hosts,
                     where));
    TRY(gpus_check_device(s->device, where->elsewhere));
    say_if_shared(where, s->device);
    return discover_place(where, s->device, s->ranks_per_node, here);
}
