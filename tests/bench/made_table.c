/* Describes a surface's machine to `moetune tune`, and runs `tune` on it. */
#include "made_table.h"

#include "cluster.h"
#include "shape.h"
#include "status.h"
#include "verbs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The machine as the search is told of it, blurred; what the search does not read says nothing. */
static int write_cluster(const struct surface *surface, const char *path)
{
    const struct moe_shape *shape = &surface->shape;
    const struct search_machine *m = &surface->machine;
    struct cluster c = cluster_unknown();
    char text[CLUSTER_TEXT_BYTES];
    FILE *file = fopen(path, "w");
    bool written;

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "sim");
    c.ranks = shape->ranks;
    c.ranks_per_node = shape->ranks_per_node;
    c.nodes = c.ranks / c.ranks_per_node;
    c.latency_inside_us = c.latency_between_us = c.half_inside_kib = c.half_between_kib = 0;
    c.message_inside_us = c.message_between_us = 1e6 * m->message_s;
    c.bandwidth_inside_gbs = 1e-9 * m->bytes_per_s_inside;
    c.bandwidth_between_gbs = 1e-9 * m->bytes_per_s_between;
    c.memory_gbs = 1e-9 * m->copy_bytes_per_s;
    c.gemm_gflops = 1e-9 * m->flops;
    c.launch_us = 1e6 * m->launch_s;
    c.gemm_half_rows = c.overlap_slowdown = 0;
    c.noise_percent = c.outlier_percent = c.drift_percent = 0;
    c.memory_gib = 1e8;
    cluster_format(&c, text, sizeof(text));
    if (!file)
        return fail(ERR_IO, "%s cannot be written", path);
    written = fputs(text, file) >= 0;
    return fclose(file) || !written ? fail(ERR_IO, "%s cannot be written", path) : OK;
}

static int tune_in(const char *folder, const struct made_table *table, char path[64])
{
    char cluster[64], window[16], buckets[24], number[24], shape[SHAPE_TEXT_BYTES], effort[16];
    char *argv[] = { "made",     "tune",   "--quiet",   "--sim",    cluster,  "--shape", shape,
                     "--window", window,   "--buckets", buckets,    "--seed", number,    "--db",
                     path,       "--axes", "r,d,a",     "--effort", effort,   NULL };
    int nowhere, out, rc;

    snprintf(cluster, sizeof(cluster), "%s/cluster.txt", folder);
    snprintf(path, 64, "%s/table.db", folder);
    snprintf(window, sizeof(window), "%u", table->window);
    snprintf(buckets, sizeof(buckets), "%u:%u", table->first, table->last);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)table->seed);
    snprintf(effort, sizeof(effort), "%s", table->effort);
    shape_format(&table->surface->shape, shape, sizeof(shape));
    TRY(write_cluster(table->surface, cluster));
    fflush(stdout);
    nowhere = open("/dev/null", O_WRONLY);
    out = dup(STDOUT_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    rc = verb_main(&tune_verb, argv, 1);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(nowhere);
    close(out);
    return rc == ERR_WRONG ? OK : rc;
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = { "",        ".published", ".journal", ".lease",  ".owner",
                                         ".misses", "-wal",       "-shm",     "-journal" };
    char path[96];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/table.db%s", folder, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/cluster.txt", folder);
    unlink(path);
    rmdir(folder);
}

int made_table_tune(const struct made_table *table, struct table_rows *out)
{
    char folder[] = "/tmp/moetune-made-XXXXXX", path[64];
    struct store *store = NULL;
    int rc = OK;

    *out = (struct table_rows){ 0 };
    if (!mkdtemp(folder))
        return fail(ERR_IO, "no folder for a table");
    TRY_OUT(tune_in(folder, table, path));
    TRY_OUT(store_read(path, &store));
    rc = table_rows_read(store, 0, 0, out);
out:
    store_close(store);
    remove_folder(folder);
    return rc;
}
