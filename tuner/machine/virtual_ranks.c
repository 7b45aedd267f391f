/* Checks --virtual-ranks and --link, and makes a cluster, a world and an engine from them. */
#include "virtual_ranks.h"

#include "gpu_list.h"
#include "status.h"
#include "text.h"
#include "wire_virtual.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct virtual_options, field)
const struct option_row virtual_rows[] = {
    { "virtual-ranks", "W", OPTION_COUNT, AT(ranks),
      "run one real rank of W; paced copies stand for the W-1 others" },
    { "link", "GB/s", OPTION_TEXT, AT(link),
      "link speed of virtual ranks, each way: 400, or 400,50 inside and between nodes" },
    { "copy-ctas", "N", OPTION_COUNT, AT(ctas),
      "GPU thread blocks that copy for virtual ranks; 0: a copy engine" },
    { NULL },
};
#undef AT

enum { CTAS_MAX = 64, VIRTUAL_RANKS_MAX = 4096 };

static uint32_t ranks_on_node(const struct virtual_options *o, uint32_t ranks_per_node)
{
    return ranks_per_node ? ranks_per_node : o->ranks;
}

/* Reads --link: "400" or "400,50". */
static int parse_link(const char *text, struct virtual_link *out)
{
    const char *rest = text;
    bool is_valid = number_read(text, &rest, &out->inside_gbs);

    out->between_gbs = out->inside_gbs;
    if (is_valid && *rest == ',')
        is_valid = number_read(rest + 1, &rest, &out->between_gbs);
    if (!is_valid || *rest || !(out->inside_gbs >= 1e-3 && out->inside_gbs <= 1e5) ||
        !(out->between_gbs >= 1e-3 && out->between_gbs <= 1e5))
        return fail(ERR_ARGUMENT, "--link %s: give GB/s as 400, or 400,50, from 0.001 to 100000",
                    text);
    return OK;
}

static struct topology topology_of(const struct virtual_options *o, uint32_t ranks_per_node,
                                   uint32_t ranks_per_rack)
{
    return (struct topology){ .rank = 0,
                              .ranks = (int)o->ranks,
                              .ranks_per_node = (int)ranks_on_node(o, ranks_per_node),
                              .ranks_per_rack = (int)ranks_per_rack };
}

int virtual_check(const struct virtual_options *o, uint32_t ranks_per_node, uint32_t ranks_per_rack)
{
    struct virtual_link link;
    struct topology topology;

    if (!o->ranks)
        return o->link || (o->ctas && o->ctas != COPY_CTAS)
                   ? fail(ERR_ARGUMENT,
                          "--link and --copy-ctas belong to --virtual-ranks: give that, too")
                   : OK;
    if (o->ranks < 2 || o->ranks > VIRTUAL_RANKS_MAX)
        return fail(ERR_ARGUMENT, "--virtual-ranks %u: from 2 to 4096 are possible", o->ranks);
    if (o->ctas > CTAS_MAX)
        return fail(ERR_ARGUMENT, "--copy-ctas %u: at most %d", o->ctas, CTAS_MAX);
    if (o->ranks % ranks_on_node(o, ranks_per_node))
        return fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", ranks_per_node,
                    o->ranks);
    topology = topology_of(o, ranks_per_node, ranks_per_rack);
    if (ranks_per_rack && !topology_three_levels(&topology))
        return fail(ERR_ARGUMENT,
                    "--ranks-per-rack %u: %u ranks with %u per node do not make several racks "
                    "of several nodes",
                    ranks_per_rack, o->ranks, ranks_on_node(o, ranks_per_node));
    if (!o->link)
        return fail(ERR_ARGUMENT,
                    "--virtual-ranks needs --link GB/s, the speed of the link between the ranks");
    return parse_link(o->link, &link);
}

void virtual_cluster(const struct virtual_options *o, uint32_t ranks_per_node,
                     uint32_t ranks_per_rack, const struct cluster *here, struct cluster *out)
{
    uint32_t on_node = ranks_on_node(o, ranks_per_node);
    struct virtual_link link = { .ctas = 0 };
    struct cluster c = *here;

    parse_link(o->link, &link);
    snprintf(c.backend, sizeof(c.backend), "virtual");
    c.ranks = o->ranks;
    c.ranks_per_node = on_node;
    c.nodes = o->ranks / on_node;
    c.ranks_per_rack = ranks_per_rack;
    snprintf(c.link_inside, sizeof(c.link_inside), "none");
    snprintf(c.link_between, sizeof(c.link_between), "none");
    if (on_node > 1)
        snprintf(c.link_inside, sizeof(c.link_inside), "virtual %g GB/s", link.inside_gbs);
    if (c.nodes > 1)
        snprintf(c.link_between, sizeof(c.link_between), "virtual %g GB/s", link.between_gbs);
    snprintf(c.comm_library, sizeof(c.comm_library), "paced copies");
    if (o->ctas && !strcmp(virtual_kernels(&c), "cuda"))
        snprintf(c.comm_library, sizeof(c.comm_library), "paced copies, %u CTAs", o->ctas);
    *out = c;
}

const char *virtual_kernels(const struct cluster *c)
{
    if (strcmp(c->backend, "virtual") != 0)
        return c->backend;
    return strncmp(c->compute_library, "cuBLAS", 6) ? "host" : "cuda";
}

const char *virtual_device(const struct cluster *c)
{
    return !strcmp(c->backend, "sim") && !strncmp(c->compute_library, "cuBLAS", 6)
               ? "cuda"
               : virtual_kernels(c);
}

int virtual_open(const struct virtual_options *o, uint32_t ranks_per_node, uint32_t ranks_per_rack,
                 int rank, const char *device_name, struct world **world, struct engine *engine)
{
    struct topology topology = topology_of(o, ranks_per_node, ranks_per_rack);
    struct virtual_link link = { .ctas = o->ctas };
    struct device *device = NULL;
    struct wire *wire = NULL;
    struct world *alone = NULL;
    int rc;

    TRY(virtual_check(o, ranks_per_node, ranks_per_rack));
    topology.rank = rank;
    TRY(parse_link(o->link, &link));
    TRY(world_alone(&topology, &alone));
    rc = device_open(gpus_device(device_name), &device);
    if (!rc)
        rc = wire_virtual_open(device, &topology, &link, &wire);
    if (rc)
        device_close(device);
    else
        rc = engine_open_on(device, wire, engine);
    if (rc)
        world_close(alone);
    else
        *world = alone;
    return rc;
}
