/* moetune probe: what this machine is like, as a description of a cluster. */
#include "fault.h"
#include "json.h"
#include "launch.h"
#include "machine.h"
#include "options.h"
#include "plan.h"
#include "probe.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "verbs.h"
#include "workbench.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct probe_options {
    uint32_t ranks, ranks_per_node;
    uint64_t seed;
    double seconds;
    const char *device, *db;
    bool no_store, json, quiet;
};

static const struct probe_options defaults = { .seed = 1, .seconds = 8, .device = "host" };

#define AT(field) offsetof(struct probe_options, field)
static const struct option_row rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks to start here (4, or what a launcher started)",
      NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "pretend that nodes hold M ranks",
      NULL },
    { "seconds", "S", OPTION_NUMBER, AT(seconds), "of rounds, about; at least 5 rounds are made",
      NULL },
    { "device", "NAME", OPTION_TEXT, AT(device), "back end", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or under $XDG_DATA_HOME)",
      NULL },
    { "no-store", NULL, OPTION_FLAG, AT(no_store), "only print", NULL },
    { "seed", "N", OPTION_SEED, AT(seed), "of the order", NULL },
    { "quiet", NULL, OPTION_FLAG, AT(quiet), "no progress", NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "print one JSON object", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]), HOSTS_SHOWN = 32 };

static void print_help(void)
{
    printf(
        "usage: moetune probe [options]\n\n"
        "Measures this machine: links inside and between nodes, alone and beside compute; speed "
        "of\nproducts, of memory and of every rank; how steady steps are.  Prints a description "
        "that\n`moetune tune --sim` replays, and stores it for `moetune tune` to start from.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune probe --ranks 4 >machine.txt && moetune tune --sim machine.txt\n");
}

/* ---- progress, on rank 0 */

struct ticker {
    struct store *store; /* NULL: nothing is stored, or another rank does it */
    bool says;
    double wanted_s, said_s;
};

enum { SAY_EVERY_S = 3 };

static void tick(void *self, uint32_t rounds, double seconds)
{
    struct ticker *t = self;

    if (t->store)
        store_heartbeat(t->store);
    if (!t->says || seconds - t->said_s < SAY_EVERY_S)
        return;
    t->said_s = seconds;
    note("%u rounds, %.0f of about %.0f s", rounds, seconds, t->wanted_s);
}

/* ---- hosts, and how fast their ranks are */

struct host {
    const char *name;
    int ranks;
    double slowest, fastest;
};

/* Ranks that differ by less than this are called equal. */
static const double unequal = 0.1;

/* Ranks of a host need not be consecutive.  Returns how many hosts there are. */
static int group_hosts(const struct probe *p, struct host *hosts)
{
    int count = 0;

    for (int q = 0; q < p->rank_count; q++) {
        const struct probe_rank *r = &p->ranks[q];
        int i = 0;

        while (i < count && strcmp(hosts[i].name, r->host) != 0)
            i++;
        if (i == count)
            hosts[count++] = (struct host){ r->host, 0, r->speed, r->speed };
        hosts[i].ranks++;
        hosts[i].slowest = fmin(hosts[i].slowest, r->speed);
        hosts[i].fastest = fmax(hosts[i].fastest, r->speed);
    }
    return count;
}

static const struct host *slowest_host(const struct host *hosts, int count)
{
    const struct host *slowest = hosts;

    for (int i = 1; i < count; i++)
        if (hosts[i].slowest < slowest->slowest)
            slowest = &hosts[i];
    return slowest;
}

/* "ranks differ by 23 %: ..."; empty if they do not, or if it is not known. */
static void compare_ranks(const struct host *hosts, int count, char *text, size_t size)
{
    const struct host *slowest = slowest_host(hosts, count);

    *text = 0;
    if (slowest->slowest < 1 - unequal)
        snprintf(text, size,
                 "ranks differ by %.0f %%: the slowest, on %s, has %.2f of the speed of the "
                 "fastest, and every step waits for it",
                 100 * (1 - slowest->slowest), slowest->name, slowest->slowest);
}

/* What a comment in a cluster's text can hold. */
static void print_word(const char *word)
{
    for (; *word; word++)
        putchar((unsigned char)*word < 0x20 || *word == 0x7f ? '?' : *word);
}

/* ---- as text */

/* A slow-down of 0: all of the shorter one disappears; of 1: half of it. */
static void print_hidden(double slower)
{
    if (!isnan(slower))
        printf("; %.0f %% of one disappears beside products", 100 / (1 + slower));
    printf("\n");
}

static void print_link(const struct probe_link *link, const char *name)
{
    if (!link->count)
        return;
    printf("# %s nodes: exchanges, measured and as the model has them, us", name);
    print_hidden(link->slower);
    for (size_t i = 0; i < link->count; i++) {
        const struct link_sample *s = &link->samples[i];

        printf("#   %3d x %7.0f bytes %10.1f %10.1f\n", s->messages, s->bytes, s->ns * 1e-3,
               link_ns(&link->fit, s->messages, s->bytes) * 1e-3);
    }
}

static void print_products(const struct probe *p)
{
    printf("# products with %d columns: rows, GFLOP/s of a rank measured and as the model has "
           "them\n",
           PRODUCT_WIDTH);
    for (int i = 0; i < PROBE_PRODUCTS; i++)
        printf("#   %5.0f %10.1f %10.1f\n", p->products[i].smallest,
               p->products[i].ops / p->products[i].ns,
               p->products[i].ops / product_fit_ns(&p->product, &p->products[i]));
}

static void print_hosts(const struct host *hosts, int count)
{
    char differ[256];

    printf("# hosts: ranks, speed of their products (fastest rank: 1)\n");
    for (int i = 0; i < count && i < HOSTS_SHOWN; i++) {
        printf("#   ");
        print_word(hosts[i].name);
        printf("  %d  %.2f-%.2f\n", hosts[i].ranks, hosts[i].slowest, hosts[i].fastest);
    }
    if (count > HOSTS_SHOWN)
        printf("#   and %d more\n", count - HOSTS_SHOWN);
    compare_ranks(hosts, count, differ, sizeof(differ));
    if (*differ)
        printf("# %s\n", differ);
}

static void print_step(const struct probe *p)
{
    char shape[SHAPE_TEXT_BYTES], plan[PLAN_TEXT_BYTES];

    shape_format(&p->shape, shape, sizeof(shape));
    moe_plan_format(&p->plan, plan, sizeof(plan));
    printf("# a step of %s, c=%" PRIu64 ", %s: %.3f ms", shape, p->capacity, plan,
           p->step_ns * 1e-6);
    if (isnan(p->replay_ns))
        printf("; the model cannot say\n");
    else
        printf("; the model says %.3f ms\n", p->replay_ns * 1e-6);
}

static void print_text(const struct probe *p, const struct host *hosts, int host_count)
{
    char text[CLUSTER_TEXT_BYTES], date[32];
    time_t now = time(NULL);

    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
    printf("# moetune %s probe, %s: %d rank%s, medians of %u rounds in %.1f s\n", MOETUNE_VERSION,
           date, p->rank_count, p->rank_count == 1 ? "" : "s", p->rounds, p->seconds);
    print_hosts(hosts, host_count);
    for (int level = 0; level < LINK_LEVELS; level++)
        print_link(&p->links[level], link_level_words[level]);
    print_products(p);
    print_step(p);
    cluster_format(&p->model, text, sizeof(text));
    fputs(text, stdout);
}

/* ---- as JSON */

static void print_value(const char *name, double value, const char *after)
{
    printf("\"%s\": ", name);
    json_print(value, stdout);
    fputs(after, stdout);
}

static void print_cluster_json(const struct cluster *c)
{
    printf("{");
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        char value[1100];

        cluster_value(c, f, value, sizeof(value));
        printf("%s\"%s\": ", i ? ", " : "", f->name);
        if (!strcmp(value, "unknown"))
            printf("null");
        else if (f->kind == FIELD_WORD)
            json_quote(value, stdout);
        else
            printf("%s", value);
    }
    printf("}");
}

static void print_link_json(const struct probe_link *link, const char *name)
{
    printf(",\n  \"%s\": {", name);
    print_value("slower_beside_products", link->slower, ", ");
    print_value("error", link->fit.error, ", \"exchanges\": [");
    for (size_t i = 0; i < link->count; i++) {
        const struct link_sample *s = &link->samples[i];

        printf("%s{\"messages\": %d, \"bytes\": %.0f, ", i ? ", " : "", s->messages, s->bytes);
        print_value("ns", s->ns, ", ");
        print_value("model_ns", link_ns(&link->fit, s->messages, s->bytes), "}");
    }
    printf("]}");
}

static void print_json(const struct probe *p, const struct host *hosts, int host_count)
{
    printf("{\"rounds\": %u, ", p->rounds);
    print_value("seconds", p->seconds, ",\n \"cluster\": ");
    print_cluster_json(&p->model);
    printf(",\n \"hosts\": [");
    for (int i = 0; i < host_count; i++) {
        printf("%s{\"host\": ", i ? ", " : "");
        json_quote(hosts[i].name, stdout);
        printf(", \"ranks\": %d, ", hosts[i].ranks);
        print_value("slowest", hosts[i].slowest, ", ");
        print_value("fastest", hosts[i].fastest, "}");
    }
    printf("],\n \"speeds\": [");
    for (int q = 0; q < p->rank_count; q++) {
        printf(q ? ", " : "");
        json_print(p->ranks[q].speed, stdout);
    }
    printf("],\n \"links\": {\"levels\": %d", LINK_LEVELS);
    for (int level = 0; level < LINK_LEVELS; level++)
        print_link_json(&p->links[level], link_level_words[level]);
    printf("},\n \"products\": [");
    for (int i = 0; i < PROBE_PRODUCTS; i++) {
        printf("%s{", i ? ", " : "");
        print_value("rows", p->products[i].smallest, ", ");
        print_value("ns", p->products[i].ns, ", ");
        print_value("model_ns", product_fit_ns(&p->product, &p->products[i]), "}");
    }
    printf("],\n \"step\": {");
    print_value("ns", p->step_ns, ", ");
    print_value("model_ns", p->replay_ns, "}}\n");
}

/* ---- what rank 0 does with it */

static int print_all(const struct probe *p, bool json)
{
    struct host *hosts = calloc((size_t)p->rank_count, sizeof(*hosts));
    char differ[256];
    int count;

    if (!hosts)
        return fail(ERR_NOMEM, "%d hosts", p->rank_count);
    count = group_hosts(p, hosts);
    (json ? print_json : print_text)(p, hosts, count);
    fflush(stdout);
    compare_ranks(hosts, count, differ, sizeof(differ));
    if (*differ)
        note("%s", differ);
    free(hosts);
    return OK;
}

static int open_store(const struct probe_options *o, char *path, size_t size, struct store **out)
{
    TRY(store_path(o->db, true, path, size));
    return store_open(path, 0, out);
}

static int keep(struct store *store, const char *path, const struct cluster *measured)
{
    int64_t id;

    TRY(store_cluster_model(store, measured, &id));
    TRY(store_publish(store));
    note("stored in %s: moetune tune starts from it", path);
    return OK;
}

/* ---- on the ranks */

static int probe_ranks(struct world *world, struct engine *engine, struct store *store,
                       const char *path, const struct probe_options *o)
{
    const struct topology *t = world_topology(world);
    struct cluster known = machine_cluster((uint32_t)t->ranks, (uint32_t)t->ranks_per_node);
    struct ticker ticker = { store, t->rank == 0 && !o->quiet, o->seconds, 0 };
    struct probe_setup setup = { world, engine, o->seconds, o->seed, tick, &ticker };
    struct probe *probe = NULL;
    int rc;

    TRY(probe_open(&setup, &known, &probe));
    rc = t->rank == 0 ? print_all(probe, o->json) : OK;
    if (!rc && store)
        rc = keep(store, path, &probe->model);
    probe_close(probe);
    return world_settle(world, rc);
}

static int on_rank(struct world *world, const struct probe_options *o)
{
    const struct topology *t = world_topology(world);
    bool stores = t->rank == 0 && !o->no_store;
    struct engine engine = { 0 };
    struct wire *wire = NULL;
    struct store *store = NULL;
    char path[PATH_MAX];
    int rc;

    if (o->ranks && o->ranks != (uint32_t)t->ranks)
        return fail(ERR_ARGUMENT, "--ranks %u, but the launcher started %d", o->ranks, t->ranks);
    TRY(world_settle(world, fault_setup(t->rank)));
    TRY(world_settle(world, stores ? open_store(o, path, sizeof(path), &store) : OK));
    TRY_OUT(world_settle(world, wire_mpi_open(world, &wire)));
    TRY_OUT(world_settle(world, engine_open(o->device, wire, &engine)));
    rc = probe_ranks(world, &engine, store, path, o);
out:
    engine_close(&engine);
    wire_close(wire);
    store_close(store);
    return rc;
}

/* The fingerprint as `tune` will see it: a launcher adds to the environment of its ranks.  A
 * database that cannot be written is so found before anything is measured. */
static int make_known(const struct probe_options *o, uint32_t ranks, uint32_t per_node)
{
    struct cluster here = machine_cluster(ranks, per_node);
    struct store *store = NULL;
    char path[PATH_MAX];
    int64_t id;
    int rc;

    TRY(open_store(o, path, sizeof(path), &store));
    rc = store_cluster(store, &here, &id);
    if (!rc)
        rc = store_commit(store);
    store_close(store);
    return rc;
}

static int start_ranks(const struct probe_options *o, char **argv)
{
    uint32_t ranks = o->ranks ? o->ranks : 4;
    uint32_t per_node = o->ranks_per_node ? o->ranks_per_node : ranks;
    int code;

    if (ranks > 4096)
        return fail(ERR_ARGUMENT, "--ranks %u: at most 4096 can be started on one machine", ranks);
    if (ranks % per_node)
        return fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", per_node, ranks);
    if (!o->no_store)
        TRY(make_known(o, ranks, per_node));
    TRY(launch_ranks((int)ranks, argv, &code));
    return EXIT_CODE_OF_RANKS + code;
}

int probe_main(int argc, char **argv)
{
    struct probe_options o = defaults;
    bool help = false;
    struct world *world;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc)
        return fail(ERR_ARGUMENT, "probe takes no argument \"%s\"", argv[first]);
    if (!(o.seconds >= 0 && o.seconds <= 3600))
        return fail(ERR_ARGUMENT, "--seconds %g: from 0 to 3600 is wanted", o.seconds);
    if (!launch_is_rank())
        return start_ranks(&o, argv - 1);
    TRY(world_open((int)o.ranks_per_node, &world));
    rc = on_rank(world, &o);
    world_close(world);
    return rc;
}
