/* Decides where ranks run, from options, the allocation of a batch system, and the GPUs of this
 * host.
 */
#include "place.h"

#include "allowance.h"
#include "discover.h"
#include "gpu_list.h"
#include "status.h"

#include <string.h>

#define AT(field) offsetof(struct place_setup, field)
static const char *const device_words[] = { "auto", "host", "cuda", NULL };
const struct option_row place_rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks),
      "ranks to start [one per GPU; or as many as HOSTS have room for; or 2, 4 or 8 by the "
      "cores]" },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node),
      "pretend that each node holds M ranks" },
    { "ranks-per-rack", "P", OPTION_COUNT, AT(ranks_per_rack),
      "ranks in a rack; its nodes are nearer to each other than to other nodes" },
    { "device", "NAME", OPTION_TEXT, AT(device),
      "where experts compute: auto (cuda where every rank has a GPU), host, cuda", device_words },
    { "oversubscribe", NULL, OPTION_FLAG, AT(oversubscribe),
      "allow more than 8 ranks per core of this machine, busy GPUs, and MIG instances" },
    { "launcher-args", "ARGS", OPTION_MAYBE_TEXT, AT(launcher_arguments),
      "more arguments for mpirun, with blanks between" },
    { NULL },
};
#undef AT

/* The default number of ranks on this machine: one per GPU; 0 where ranks compute on cores. */
static uint32_t ranks_by_gpus(const char *device)
{
    return strcmp(gpus_device(device), "cuda") ? 0 : (uint32_t)gpus_here().count;
}

int place_check_ready(const struct place_setup *s, const struct launch_where *where)
{
    struct gpus gpus;
    int rc = OK;

    if (s->oversubscribe || where->elsewhere || strcmp(gpus_device(s->device), "cuda") != 0)
        return OK;
    gpus = gpus_here();
    for (int i = 0; i < (int)where->ranks && i < gpus.count && !rc; i++)
        rc = gpu_check_ready(&gpus.list[i]);
    return rc;
}

/* Each rank checks its own GPU, because the launcher may let it see no other. */
int place_check_ready_started(const struct place_setup *s, struct world *world)
{
    const char *device;
    struct gpus gpus;
    int own;

    if (s->oversubscribe)
        return OK;
    TRY(gpus_agree_device(world, s->device, &device));
    if (strcmp(device, "cuda") != 0)
        return OK;
    gpus = gpus_here();
    own = gpus_own(&gpus);
    return world_settle(world, own < 0 ? OK : gpu_check_ready(&gpus.list[own]));
}

static int check_virtual(const struct place_setup *s)
{
    TRY(virtual_check(&s->virtual, s->ranks_per_node, s->ranks_per_rack));
    return s->virtual.ranks && (s->ranks || s->hosts)
               ? fail(ERR_ARGUMENT, "--virtual-ranks is one process: give no HOSTS and no --ranks")
               : OK;
}

static int find_ranks(const struct place_setup *s, struct hosts *hosts, struct launch_where *where)
{
    enum { RANKS_PER_CORE = 8 };
    uint32_t cores = (uint32_t)allowance_cores();
    int rc;

    *hosts = (struct hosts){ .count = 0 };
    TRY(check_virtual(s));
    TRY(gpus_check_device(s->device, true));
    if (s->virtual.ranks) {
        TRY(launch_place(NULL, 1, s->launcher_arguments, 0, hosts, where));
        return gpus_check_device(s->device, where->elsewhere);
    }
    TRY(launch_place(s->hosts, s->ranks, s->launcher_arguments, ranks_by_gpus(s->device), hosts,
                     where));
    rc = gpus_check_device(s->device, where->elsewhere);
    /* Ranks spin while they wait for each other.  More than these would block the machine for
     * everybody, and they would measure the scheduler. */
    if (!rc && !s->oversubscribe && !where->elsewhere && where->ranks > RANKS_PER_CORE * cores)
        rc = fail(ERR_ARGUMENT,
                  "--ranks %u on %u core%s: more than %d ranks per core need --oversubscribe",
                  where->ranks, cores, cores > 1 ? "s" : "", RANKS_PER_CORE);
    if (!rc && s->ranks_per_node && where->ranks % s->ranks_per_node)
        rc = fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", s->ranks_per_node,
                  where->ranks);
    return rc;
}

int place_find(const struct place_setup *s, struct hosts *hosts, struct launch_where *where,
               struct cluster *here)
{
    struct cluster machine;
    uint32_t gpus;

    TRY(find_ranks(s, hosts, where));
    if (s->virtual.ranks) {
        TRY(discover_place(where, s->device, 0, 0, &machine));
        virtual_cluster(&s->virtual, s->ranks_per_node, s->ranks_per_rack, &machine, here);
        return OK;
    }
    /* A trainer may share GPUs on purpose, but nobody should get such a table by surprise. */
    gpus = where->elsewhere ? 0 : ranks_by_gpus(s->device);
    if (gpus && where->ranks > gpus)
        note(
            "%u ranks share %u GPU%s: their exchanges are copies, so times are not those of a link",
            where->ranks, gpus, gpus > 1 ? "s" : "");
    return discover_place(where, s->device, s->ranks_per_node, s->ranks_per_rack, here);
}

int place_check_started(const struct place_setup *s, const struct world *world)
{
    const struct topology *topology = world_topology(world);
    int rc;

    log_enable(topology->rank == 0); /* every rank finds the same fault in the same options */
    rc = check_virtual(s);
    if (!rc && s->virtual.ranks && topology->ranks > 1)
        rc = fail(ERR_ARGUMENT, "--virtual-ranks is one process, but the launcher started %d",
                  topology->ranks);
    if (!rc && s->ranks && s->ranks != (uint32_t)topology->ranks)
        rc = fail(ERR_ARGUMENT, "--ranks %u, but the launcher started %d", s->ranks,
                  topology->ranks);
    log_enable(true);
    return rc;
}

static int join_ranks(const struct place_setup *s, const struct place_verb *verb)
{
    struct world *world;
    int rc;

    TRY(s->virtual.ranks ? world_open(0, 0, &world)
                         : world_open((int)s->ranks_per_node, (int)s->ranks_per_rack, &world));
    rc = place_check_started(s, world);
    if (!rc && verb->measures)
        rc = place_check_ready_started(s, world);
    if (!rc)
        rc = verb->on_rank(world, verb->options);
    world_close(world);
    return rc;
}

int place_run(struct place_setup *s, const struct verb_call *call, const struct place_verb *verb)
{
    struct launch_where where;
    struct hosts hosts;
    int rc;

    s->hosts = call->arguments[0];
    if (launch_is_rank())
        return join_ranks(s, verb);
    rc = find_ranks(s, &hosts, &where);
    if (!rc && verb->check)
        rc = verb->check(&where, verb->options);
    if (!rc && verb->measures)
        rc = place_check_ready(s, &where);
    if (!rc)
        rc = launch_verb(&where, call->argv);
    hosts_free(&hosts);
    return rc;
}
