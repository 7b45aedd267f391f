/* Gathers what each rank reports of its host, compares the hosts, and makes one cluster of them. */
#include "discover.h"

#include "gpu_list.h"
#include "status.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DISCOVER_MS = 60000 };

/* Measures by how much the ranks' dates differ when they leave a barrier; takes the least of five
 * tries. */
static int measure_skew(struct world *world, int64_t *skew_us)
{
    *skew_us = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct timespec now;
        int64_t dates[2];

        TRY(world_barrier(world));
        clock_gettime(CLOCK_REALTIME, &now);
        dates[0] = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        dates[1] = -dates[0];
        TRY(world_max(world, dates, 2));
        if (dates[0] + dates[1] < *skew_us)
            *skew_us = dates[0] + dates[1];
    }
    return OK;
}

int discover(struct world *world, const char *device, uint32_t ranks_per_node,
             struct discovery *out)
{
    const struct topology *topology = world_topology(world);
    struct discovery d = { .ranks = (uint32_t)topology->ranks };
    struct host_facts *mine = malloc(sizeof(*mine));
    int rc;

    d.facts = malloc(d.ranks * sizeof(*d.facts));
    rc = world_settle(world, mine && d.facts ? OK : fail(ERR_NOMEM, "%u ranks", d.ranks));
    if (!rc)
        rc = gpus_agree_device(world, device, &device);
    if (!rc)
        machine_facts(device, mine);
    if (!rc)
        rc = world_gather(world, mine, d.facts, sizeof(*mine));
    if (!rc)
        rc = measure_skew(world, &d.clock_skew_us);
    free(mine);
    if (rc) {
        discovery_free(&d);
        return rc;
    }
    d.cluster = machine_compose(
        d.facts, d.ranks, ranks_per_node ? ranks_per_node : (uint32_t)topology->ranks_per_node);
    d.cluster.ranks_per_rack = (uint32_t)topology->ranks_per_rack;
    *out = d;
    return OK;
}

void discovery_free(struct discovery *discovery)
{
    free(discovery->facts);
    discovery->facts = NULL;
}

/* ---- comparing hosts */

/* A text of struct host_facts that should be the same on all hosts. */
static const struct comparison {
    const char *name;
    size_t offset;
    bool fatal; /* ranks that differ in it may not run together */
} comparisons[] = {
    { "program (its file)", offsetof(struct host_facts, build), true },
    { "MPI", offsetof(struct host_facts, comm_library), true },
    { "BLAS", offsetof(struct host_facts, compute_library), true },
    { "processor", offsetof(struct host_facts, device), false },
    { "system", offsetof(struct host_facts, system), false },
    { "network", offsetof(struct host_facts, network), false },
    { "caches", offsetof(struct host_facts, caches), false },
    { "device (--device)", offsetof(struct host_facts, backend), true },
    { "environment", offsetof(struct host_facts, environment), false },
};
enum { COMPARISONS = sizeof(comparisons) / sizeof(comparisons[0]) };

int discovery_check(const struct discovery *d)
{
    int rc = OK;

    for (int k = 0; k < COMPARISONS; k++) {
        const struct comparison *c = &comparisons[k];
        const char *first = (const char *)&d->facts[0] + c->offset, *here = first;
        uint32_t i = 1;

        while (i < d->ranks && !strcmp(first, here = (const char *)&d->facts[i] + c->offset))
            i++;
        if (i == d->ranks)
            continue;
        /* The first host that differs is enough to know what to do. */
        note("hosts differ in their %s: %s has \"%s\", %s has \"%s\"", c->name, d->facts[0].host,
             TEXT_SHORT(first, 200), d->facts[i].host, TEXT_SHORT(here, 200));
        if (c->fatal)
            rc = ERR_LAUNCH;
    }
    if (!d->cluster.ranks_per_node)
        note("hosts have different numbers of ranks: the 2dh all-to-all does not apply");
    return rc;
}

void discovery_print_hosts(const struct discovery *discovery, FILE *to)
{
    for (uint32_t i = 0; i < discovery->ranks;) {
        const struct host_facts *f = &discovery->facts[i];
        uint32_t last = i;

        while (last + 1 < discovery->ranks && !strcmp(discovery->facts[last + 1].host, f->host))
            last++;
        fprintf(to, "# host %s, rank%s %u", f->host, last > i ? "s" : "", i);
        if (last > i)
            fprintf(to, "-%u", last);
        fprintf(to, ": %u core%s (%s), %u GiB, %s, %s\n", f->cores, f->cores == 1 ? "" : "s",
                *f->caches ? f->caches : "caches unknown", f->memory_gib,
                *f->network ? f->network : "network unknown", f->gpus);
        i = last + 1;
    }
}

/* ---- for a process that is no rank */

/* Starts ranks that run `moetune fingerprint`, and reads what they print until they end. */
static int fingerprint_by_ranks(const struct launch_where *where, const char *device,
                                uint32_t ranks_per_node, uint32_t ranks_per_rack,
                                struct cluster *out)
{
    char per_node[16], per_rack[16], how[128];
    char line[CLUSTER_TEXT_BYTES / 4], text[2 * CLUSTER_TEXT_BYTES] = "";
    char *arguments[] = { "moetune",  "fingerprint",      "--ranks-per-node",
                          per_node,   "--ranks-per-rack", per_rack,
                          "--device", (char *)device,     NULL };
    struct cluster found = cluster_unknown();
    struct launched ranks;
    bool whole = true;
    int rc;

    snprintf(per_node, sizeof(per_node), "%u", ranks_per_node);
    snprintf(per_rack, sizeof(per_rack), "%u", ranks_per_rack);
    TRY(launch_start(where, arguments, &ranks));
    while ((rc = launch_read(&ranks, DISCOVER_MS, line, sizeof(line))) == OK)
        whole =
            whole && strlen(line) < sizeof(line) - 1 && text_add(text, sizeof(text), "%s\n", line);
    launch_end(&ranks, rc == ERR_LAUNCH, how, sizeof(how));
    if (rc == UNSUPPORTED)
        rc = fail(ERR_LAUNCH,
                  "the ranks did not describe their hosts within %d s: a host, or the network "
                  "between them, hangs",
                  DISCOVER_MS / 1000);
    else
        rc = *text && whole ? OK : fail(ERR_LAUNCH, "the ranks did not start: %s", how);
    if (!rc)
        rc = cluster_parse(text, "what the ranks print", out);
    if (rc) {
        launch_reach(where);
        return rc;
    }
    /* The ranks' database may have measured the model's numbers; the caller uses its own database.
     */
    found.memory_gib = out->memory_gib;
    cluster_take_model(out, &found);
    return OK;
}

int discover_place(const struct launch_where *where, const char *device, uint32_t ranks_per_node,
                   uint32_t ranks_per_rack, struct cluster *out)
{
    uint32_t ranks = where->ranks;

    if (ranks_per_node && ranks % ranks_per_node)
        return fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", ranks_per_node,
                    ranks);
    if (where->elsewhere)
        return fingerprint_by_ranks(where, device, ranks_per_node, ranks_per_rack, out);
    *out = machine_cluster(gpus_device(device), ranks, ranks_per_node ? ranks_per_node : ranks);
    out->ranks_per_rack = ranks_per_rack;
    return OK;
}
