/* Gathers what each rank reports of its host, compares the hosts, and makes one cluster of them. */
#include "discover.h"

#include "gpu_list.h"
#include "status.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long ranks may take to describe their hosts, and how often the skew is measured. */
enum { DISCOVER_MS = 60000, SKEW_TRIES = 5 };

/* Measures by how much the ranks' dates differ when they leave a barrier; takes the least of
 * SKEW_TRIES tries. */
static int measure_skew(struct world *world, int64_t *skew_us)
{
    *skew_us = INT64_MAX;
    for (int i = 0; i < SKEW_TRIES; i++) {
        struct timespec now;
        int64_t dates[2]; /* the latest date, and minus the earliest one: both as maxima */

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
    struct discovery discovery = { .ranks = (uint32_t)topology->ranks };
    struct host_facts *mine = malloc(sizeof(*mine));
    int rc;

    discovery.facts = malloc(discovery.ranks * sizeof(*discovery.facts));
    rc = world_settle(world,
                      mine && discovery.facts ? OK : fail(ERR_NOMEM, "%u ranks", discovery.ranks));
    if (!rc)
        rc = gpus_agree_device(world, device, &device);
    if (!rc)
        machine_facts(device, mine);
    if (!rc)
        rc = world_gather(world, mine, discovery.facts, sizeof(*mine));
    if (!rc)
        rc = measure_skew(world, &discovery.clock_skew_us);
    free(mine);
    if (rc) {
        discovery_free(&discovery);
        return rc;
    }
    discovery.cluster =
        machine_compose(discovery.facts, discovery.ranks,
                        ranks_per_node ? ranks_per_node : (uint32_t)topology->ranks_per_node);
    discovery.cluster.ranks_per_rack = (uint32_t)topology->ranks_per_rack;
    *out = discovery;
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

static const char *fact_text(const struct host_facts *facts, const struct comparison *comparison)
{
    return (const char *)facts + comparison->offset;
}

int discovery_check(const struct discovery *d)
{
    int rc = OK;

    for (int k = 0; k < COMPARISONS; k++) {
        const struct comparison *c = &comparisons[k];
        const char *first_text = fact_text(&d->facts[0], c);
        uint32_t i = 1;

        while (i < d->ranks && !strcmp(first_text, fact_text(&d->facts[i], c)))
            i++;
        if (i == d->ranks)
            continue;
        /* The first host that differs is enough to know what to do. */
        note("hosts differ in their %s: %s has \"%s\", %s has \"%s\"", c->name, d->facts[0].host,
             TEXT_SHORT(first_text, 200), d->facts[i].host,
             TEXT_SHORT(fact_text(&d->facts[i], c), 200));
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
        const struct host_facts *facts = &discovery->facts[i];
        uint32_t last = i;

        while (last + 1 < discovery->ranks && !strcmp(discovery->facts[last + 1].host, facts->host))
            last++;
        fprintf(to, "# host %s, rank%s %u", facts->host, last > i ? "s" : "", i);
        if (last > i)
            fprintf(to, "-%u", last);
        fprintf(to, ": %u core%s (%s), %u GiB, %s, %s\n", facts->cores,
                facts->cores == 1 ? "" : "s", *facts->caches ? facts->caches : "caches unknown",
                facts->memory_gib, *facts->network ? facts->network : "network unknown",
                facts->gpus);
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
    struct cluster unmeasured = cluster_unknown();
    struct launched ranks;
    bool is_complete = true;
    int rc;

    snprintf(per_node, sizeof(per_node), "%u", ranks_per_node);
    snprintf(per_rack, sizeof(per_rack), "%u", ranks_per_rack);
    TRY(launch_start(where, arguments, &ranks));
    /* ERR_LAUNCH: the ranks have ended.  UNSUPPORTED: no line came in time. */
    while ((rc = launch_read(&ranks, DISCOVER_MS, line, sizeof(line))) == OK)
        is_complete = is_complete && strlen(line) < sizeof(line) - 1 &&
                      text_add(text, sizeof(text), "%s\n", line);
    launch_end(&ranks, rc == ERR_LAUNCH, how, sizeof(how));
    if (rc == UNSUPPORTED)
        rc = fail(ERR_LAUNCH,
                  "the ranks did not describe their hosts within %d s: a host, or the network "
                  "between them, hangs",
                  DISCOVER_MS / 1000);
    else
        rc = *text && is_complete ? OK : fail(ERR_LAUNCH, "the ranks did not start: %s", how);
    if (!rc)
        rc = cluster_parse(text, "what the ranks print", out);
    if (rc) {
        launch_reach(where);
        return rc;
    }
    /* The ranks' database may have measured the model's numbers; the caller uses its own database.
     */
    unmeasured.memory_gib = out->memory_gib;
    cluster_take_model(out, &unmeasured);
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
