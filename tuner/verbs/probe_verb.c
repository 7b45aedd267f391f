/* moetune probe: measures this machine, and prints it as the description of a cluster. */
#include "common_rows.h"
#include "discover.h"
#include "fault.h"
#include "gpu_list.h"
#include "json.h"
#include "place.h"
#include "plan.h"
#include "probe.h"
#include "rank_speeds.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "text.h"
#include "unequal.h"
#include "verbs.h"
#include "workbench.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The values of the options in `rows`. */
struct options {
    struct place_setup where;
    struct products gpu;
    uint64_t seed;
    double seconds;
    const char *db;
    bool no_store, json, quiet;
};

static const struct options defaults = { .where = PLACE_DEFAULTS,
                                         .gpu = { MOE_BF16, .model_dim = 4096, .hidden_dim = 4096 },
                                         .seed = 1,
                                         .seconds = 8 };

static const struct option_row rows[] = {
    { .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    { "seconds", "S", OPTION_NUMBER, OPTION(seconds),
      "time for the rounds, about; at least 5 rounds are made", .least = 0, .most = 3600 },
    { "dtype", "TYPE", OPTION_WORD, OPTION(gpu.dtype),
      "type of a GPU's products: f32, f16, bf16; CPUs multiply in f32", dtype_words },
    { "model-dim", "D", OPTION_COUNT, OPTION(gpu.model_dim),
      "one side of a GPU's products, as in your layer", .least = 1, .most = 1 << 17 },
    { "hidden-dim", "H", OPTION_COUNT, OPTION(gpu.hidden_dim), "the other side of a GPU's products",
      .least = 1, .most = 1 << 20 },
    DB_ROW(OPTION(db)),
    { "no-store", NULL, OPTION_FLAG, OPTION(no_store), "print only, store nothing" },
    SEED_ROW(OPTION(seed)),
    QUIET_ROW(OPTION(quiet)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

enum { HOSTS_SHOWN = 32 };

/* ---- hosts, and how fast their ranks are */

/* A host and the range of its ranks' speeds; the fastest rank of all has 1. */
struct host_speed {
    const char *name;
    int ranks;
    double slowest, fastest;
};

/* Collects the hosts of all ranks, which need not be consecutive.  Returns the number of hosts. */
static int group_hosts(const struct probe *p, struct host_speed *hosts)
{
    int count = 0;

    for (int rank = 0; rank < p->rank_count; rank++) {
        const struct probe_rank *of_rank = &p->ranks[rank];
        int i = 0;

        while (i < count && strcmp(hosts[i].name, of_rank->host) != 0)
            i++;
        if (i == count)
            hosts[count++] =
                (struct host_speed){ of_rank->host, 0, of_rank->speed, of_rank->speed };
        hosts[i].ranks++;
        hosts[i].slowest = fmin(hosts[i].slowest, of_rank->speed);
        hosts[i].fastest = fmax(hosts[i].fastest, of_rank->speed);
    }
    return count;
}

/* ---- as text */

static void print_number(double value)
{
    if (isfinite(value))
        printf(" %10.1f", value);
    else
        printf(" %10s", "-");
}

/* Names the type of the products.  cuBLAS uses TF32 for f32 only if NVIDIA_TF32_OVERRIDE=1. */
static const char *products_type(const struct probe *p)
{
    const char *tf32 = getenv("NVIDIA_TF32_OVERRIDE");

    if (p->products.dtype != MOE_F32 || !strcmp(p->model.gemm_dtype, "unknown"))
        return dtype_words[p->products.dtype];
    return tf32 && !strcmp(tf32, "1") ? "f32 by TF32 (NVIDIA_TF32_OVERRIDE=1)" : "f32 without TF32";
}

/* Prints the description, and the measurements as comments.  `difference`: how ranks differ, in
 * words; "": they do not, or it is unknown. */
static void print_text(const struct probe *p, const struct host_speed *hosts, int host_count,
                       const char *difference)
{
    char text[CLUSTER_TEXT_BYTES];

    printf("# moetune %s probe, %s: %d rank%s, medians of %u rounds in %.1f s\n", MOETUNE_VERSION,
           DATE_TEXT(time(NULL), DATE_DAY), p->rank_count, p->rank_count == 1 ? "" : "s", p->rounds,
           p->seconds);
    printf("# hosts: ranks, speed of their products (fastest rank: 1)\n");
    for (int i = 0; i < host_count && i < HOSTS_SHOWN; i++) {
        printf("#   ");
        for (const char *character = hosts[i].name; *character;
             character++) /* a comment has no control characters */
            putchar((unsigned char)*character < 0x20 || *character == 0x7f ? '?' : *character);
        printf("  %d  %.2f-%.2f\n", hosts[i].ranks, hosts[i].slowest, hosts[i].fastest);
    }
    if (host_count > HOSTS_SHOWN)
        printf("#   and %d more\n", host_count - HOSTS_SHOWN);
    if (*difference)
        printf("# %s\n", difference);
    for (int level = 0; level < LINK_LEVELS; level++) {
        const struct probe_link *link = &p->links[level];

        if (!link->count)
            continue;
        printf("# %s nodes: exchanges, measured and as the model has them, us",
               link_level_words[level]);
        /* With a slow-down of 0 all of the shorter one disappears, with 1 half of it. */
        if (!isnan(link->slower))
            printf("; %.0f %% of one disappears beside products", 100 / (1 + link->slower));
        printf("\n");
        for (size_t i = 0; i < link->count; i++) {
            const struct link_sample *sample = &link->samples[i];

            printf("#   %3d x %7.0f bytes", sample->messages, sample->bytes);
            print_number(sample->ns * 1e-3);
            print_number(link_ns(&link->fit, sample->messages, sample->bytes) * 1e-3);
            printf("\n");
        }
    }
    printf("# products in %s, D=%u H=%u: rows, GFLOP/s of a rank measured and as the model has "
           "them\n",
           products_type(p), p->products.model_dim, p->products.hidden_dim);
    for (int i = 0; i < PROBE_PRODUCTS; i++) {
        const struct product_sample *sample = &p->product_samples[i];

        printf("#   %5" PRIu64, sample->rows);
        print_number(sample->ops / sample->ns);
        print_number(sample->ops / product_fit_ns(&p->product, sample));
        printf("\n");
    }
    if (p->copies_beside >= 0)
        printf("# copies within a GPU %s\n",
               p->copies_beside ? "go on beside kernels that fill it: copy engines carry them"
                                : "run on its multiprocessors, not on copy engines");
    printf("# a step of %s, c=%" PRIu64 ", %s: %.3f ms", SHAPE_TEXT(&p->shape), p->capacity,
           PLAN_TEXT(&p->plan), p->step_ns * 1e-6);
    if (isnan(p->replay_ns))
        printf("; the model cannot say\n");
    else
        printf("; the model says %.3f ms\n", p->replay_ns * 1e-6);
    cluster_format(&p->model, text, sizeof(text));
    fputs(text, stdout);
}

/* ---- as JSON */

static void print_json(const struct probe *p, const struct host_speed *hosts, int host_count)
{
    /* The words of probe.copies_beside, whose values begin at -1. */
    static const char *const copies_words[] = { "null", "false", "true" };

    json_write(stdout, "{'rounds': %u, 'seconds': %g,\n 'cluster': {", p->rounds, p->seconds);
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *field = &cluster_fields[i];
        const char *value = CLUSTER_VALUE(&p->model, field);

        json_write(stdout,
                   field->kind == FIELD_WORD && strcmp(value, "unknown") != 0 ? "%s'%s': '%s'"
                                                                              : "%s'%s': %s",
                   i ? ", " : "", field->name, strcmp(value, "unknown") != 0 ? value : "null");
    }
    json_write(stdout, "},\n 'hosts': [");
    for (int i = 0; i < host_count; i++)
        json_write(stdout, "%s{'host': '%s', 'ranks': %d, 'slowest': %g, 'fastest': %g}",
                   i ? ", " : "", hosts[i].name, hosts[i].ranks, hosts[i].slowest,
                   hosts[i].fastest);
    json_write(stdout, "],\n 'speeds': [");
    for (int rank = 0; rank < p->rank_count; rank++)
        json_write(stdout, "%s%g", rank ? ", " : "", p->ranks[rank].speed);
    json_write(stdout, "],\n 'links': {");
    for (int level = 0; level < LINK_LEVELS; level++) {
        const struct probe_link *link = &p->links[level];

        json_write(stdout, "%s\n  '%s': {'slower_beside_products': %g, 'error': %g, 'exchanges': [",
                   level ? "," : "", link_level_words[level], link->slower, link->fit.error);
        for (size_t i = 0; i < link->count; i++) {
            const struct link_sample *sample = &link->samples[i];

            json_write(stdout, "%s{'messages': %d, 'bytes': %.0f, 'ns': %g, 'model_ns': %g}",
                       i ? ", " : "", sample->messages, sample->bytes, sample->ns,
                       link_ns(&link->fit, sample->messages, sample->bytes));
        }
        printf("]}");
    }
    json_write(stdout, "},\n 'products_in': '%s', 'model_dim': %u, 'hidden_dim': %u, 'products': [",
               products_type(p), p->products.model_dim, p->products.hidden_dim);
    for (int i = 0; i < PROBE_PRODUCTS; i++)
        json_write(stdout, "%s{'rows': %" PRIu64 ", 'ns': %g, 'model_ns': %g}", i ? ", " : "",
                   p->product_samples[i].rows, p->product_samples[i].ns,
                   product_fit_ns(&p->product, &p->product_samples[i]));
    json_write(stdout, "],\n 'copies_beside_kernels': %s,\n 'step': {'ns': %g, 'model_ns': %g}}\n",
               copies_words[p->copies_beside + 1], p->step_ns, p->replay_ns);
}

/* Prints the description of the cluster with its measurements as comments, or a JSON object.  A
 * note on standard error names unequal ranks. */
static int print_probe(const struct probe *p, bool json)
{
    struct host_speed *hosts = calloc((size_t)p->rank_count, sizeof(*hosts)), *slowest = hosts;
    char difference[256] = "";
    int count;

    if (!hosts)
        return fail(ERR_NOMEM, "%d hosts", p->rank_count);
    count = group_hosts(p, hosts);
    for (int i = 1; i < count; i++)
        if (hosts[i].slowest < slowest->slowest)
            slowest = &hosts[i];
    if (slowest->slowest < 1 - rank_speeds_unequal)
        text_put(difference, sizeof(difference),
                 "ranks differ by %.0f %%: the slowest, on %s, has %.2f of the speed of the "
                 "fastest, and every step waits for it",
                 100 * (1 - slowest->slowest), slowest->name, slowest->slowest);
    if (json)
        print_json(p, hosts, count);
    else
        print_text(p, hosts, count, difference);
    fflush(stdout);
    if (*difference)
        note("%s", difference);
    free(hosts);
    return OK;
}

/* ---- what rank 0 does during and after the measurement */

/* Keeps the store's owner alive and reports progress between rounds. */
struct ticker {
    struct store *store; /* NULL: this rank stores nothing */
    bool reports;
    double wanted_s, reported_s;
};

enum { NOTE_EVERY_S = 3 };

static void report_rounds(void *self, uint32_t rounds, double seconds)
{
    struct ticker *ticker = self;

    if (ticker->store)
        store_heartbeat(ticker->store);
    if (!ticker->reports || seconds - ticker->reported_s < NOTE_EVERY_S)
        return;
    ticker->reported_s = seconds;
    note("%u rounds, %.0f of about %.0f s", rounds, seconds, ticker->wanted_s);
}

static int open_store(const struct options *o, char *path, size_t size, struct store **out)
{
    TRY(store_path(o->db, STORE_TO_WRITE, path, size));
    return store_open(path, 0, out);
}

static int store_model(struct store *store, const char *path, const struct cluster *measured)
{
    int64_t id;

    TRY(store_cluster_model(store, measured, &id));
    TRY(unequal_expire(store, id, measured));
    TRY(store_publish(store));
    note("stored in %s: moetune tune starts from it", path);
    return OK;
}

/* ---- on the ranks */

static int on_rank(struct world *world, const void *options)
{
    const struct options *o = options;
    bool is_first = world_topology(world)->rank == 0;
    struct ticker ticker = { .reports = is_first && !o->quiet, .wanted_s = o->seconds };
    struct engine engine = { 0 };
    struct probe_setup setup = { .world = world,
                                 .engine = &engine,
                                 .gpu = o->gpu,
                                 .seconds = o->seconds,
                                 .seed = o->seed,
                                 .tick = report_rounds,
                                 .self = &ticker };
    struct discovery discovery = { .ranks = 0 };
    struct store *store = NULL;
    struct probe *probe = NULL;
    const char *device = NULL;
    char path[PATH_MAX];
    int copies_beside = -1, rc;

    TRY(world_settle(world, fault_setup(world_topology(world)->rank)));
    rc = is_first && !o->no_store ? open_store(o, path, sizeof(path), &store) : OK;
    TRY(world_settle(world, rc));
    TRY_OUT(gpus_agree_device(world, o->where.device, &device));
    /* Count the machine's cores before the engine binds to a share of them. */
    TRY_OUT(discover(world, o->where.device, o->where.ranks_per_node, &discovery));
    TRY_OUT(engine_open(world, device, NULL, &engine));
    /* The first rank looks at copies while the others wait for the first round. */
    if (is_first && !strcmp(engine.device->ops->name, "cuda")) {
        struct gpus gpus = gpus_here();

        copies_beside = gpus_copies_beside(&gpus);
    }
    ticker.store = store;
    TRY_OUT(probe_open(&setup, &discovery.cluster, &probe));
    probe->copies_beside = copies_beside;
    rc = is_first ? print_probe(probe, o->json) : OK;
    if (!rc && store)
        rc = store_model(store, path, &probe->model);
    probe_close(probe);
    rc = world_settle(world, rc);
out:
    discovery_free(&discovery);
    engine_close(&engine);
    store_close(store);
    return rc;
}

/* Refuses a database that cannot be written, before anything is measured. */
static int check_database(const struct launch_where *where, const void *options)
{
    const struct options *o = options;
    struct store *store = NULL;
    char path[PATH_MAX];
    int rc = o->no_store ? OK : open_store(o, path, sizeof(path), &store);

    (void)where;
    store_close(store);
    return rc;
}

static int verb_probe(const struct verb_call *call, void *options)
{
    struct options *o = options;

    return place_run(
        &o->where, call,
        &(struct place_verb){
            .check = check_database, .on_rank = on_rank, .options = o, .measures = true });
}

const struct verb probe_verb = {
    .name = "probe",
    .summary = "measure links, products and noise; a file for tune --sim",
    .arguments = "[HOSTS]",
    .most = 1,
    .about = "Measures this machine: links inside and between nodes, alone and beside compute; the "
             "speed of products, of memory and of every rank; how steady steps are. Prints a "
             "description that `moetune tune --sim` replays. Stores it, so that `moetune tune` "
             "starts from it.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "probe --ranks 4 >machine.txt && moetune tune --sim machine.txt",
    .run = verb_probe,
};
