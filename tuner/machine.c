/* Reads /proc, /sys, the libraries' versions and the environment. */
#include "machine.h"

#include "allowance.h"
#include "gpus.h"
#include "sha256.h"
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;
extern char *openblas_get_config(void);

/* The value of the first "name : value" line of a file; false if there is none. */
static bool read_line(const char *path, const char *name, char *value, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[256];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name)) && strchr(line, ':')) {
            const char *at = strchr(line, ':') + 1;

            at += strspn(at, " \t");
            snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

static int64_t memory_kib(const char *name)
{
    char value[64];

    return read_line("/proc/meminfo", name, value, sizeof(value)) ? atoll(value) : -1;
}

/* "OpenBLAS 0.3.21 NO_LAPACKE ..." -> "OpenBLAS 0.3"; the kernels it picked belong to it too. */
static void compute_library(char *text, size_t size, char *version, size_t version_size)
{
    const char *config = openblas_get_config();
    int major = 0, minor = 0, patch = 0;

    if (sscanf(config, "OpenBLAS %d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(text, size, "OpenBLAS %d.%d", major, minor);
    snprintf(version, version_size, "%.100s", config);
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Variables that change how fast ranks compute or talk. */
static bool relevant(const char *variable)
{
    static const char *const prefixes[] = { "OMPI_MCA_", "OPENBLAS_", "OMP_NUM", "GOTO_NUM",
                                            "NCCL_",     "UCX_",      "CUDA_",   "FI_",
                                            "PSM2_MTU",  "MALLOC_" };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* Launchers set variables that name a job, a socket or a file, or say how ranks are started and
 * bound (as every launch of ours does alike): those say nothing of speed. */
static bool names_a_job(const char *variable)
{
    static const char *const parts[] = { "uri",      "URI",    "orte_",    "ess",
                                         "_pid",     "_job",   "pmix",     "tmp",
                                         "initial",  "output", "_file",    "_plm",
                                         "oob_",     "rmaps_", "binding_", "_oversubscribe",
                                         "RUNTIME_", "_HOME=", "_PATH=" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(variable, parts[i]))
            return true;
    return false;
}

static void environment(char *text, size_t size)
{
    const char *found[64] = { 0 };
    size_t count = 0, used = 0;

    for (char **e = environ; *e && count < 64; e++)
        if (relevant(*e) && !names_a_job(*e))
            found[count++] = *e;
    qsort(found, count, sizeof(*found), compare_words);
    text[0] = 0;
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.100s", i ? " " : "", found[i]);
    if (!count)
        snprintf(text, size, "none");
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c) || *c == '#')
            *c = '?';
}

/* ---- what /sys knows */

/* The first line of a file without its end; false if there is none. */
static bool read_first(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    bool found = file && fgets(text, (int)size, file);

    if (file)
        fclose(file);
    if (found)
        text[strcspn(text, "\n")] = 0;
    return found;
}

/* "L1d 32K, L2 1024K, L3 32768K" of the first core. */
static void caches(char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < 8 && used < size; i++) {
        char path[96], level[8], kind[32], bytes[16];

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_first(path, level, sizeof(level)))
            return;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!read_first(path, kind, sizeof(kind)) || !strcmp(kind, "Instruction"))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (read_first(path, bytes, sizeof(bytes)))
            used += (size_t)snprintf(text + used, size - used, "%sL%s%s %s", used ? ", " : "",
                                     level, !strcmp(kind, "Data") ? "d" : "", bytes);
    }
}

/* Calls `each` with every name in a folder, in no order, until it returns true. */
static bool any_in(const char *folder, bool (*each)(void *self, const char *name), void *self)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    bool found = false;

    while (list && !found && (entry = readdir(list)))
        if (entry->d_name[0] != '.')
            found = each(self, entry->d_name);
    if (list)
        closedir(list);
    return found;
}

struct text {
    char *at;
    size_t size;
};

/* "200 Gb/sec (4X HDR)" */
static bool infiniband(void *self, const char *name)
{
    struct text *out = self;
    char path[192], rate[48];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/1/rate", name);
    if (!read_first(path, rate, sizeof(rate)))
        return false;
    snprintf(out->at, out->size, "InfiniBand %s", rate);
    return true;
}

static void describe_link(const char *name, struct text *out)
{
    char path[128], speed[16];
    long megabits = 0;

    snprintf(path, sizeof(path), "/sys/class/net/%.64s/speed", name);
    if (read_first(path, speed, sizeof(speed)))
        megabits = atol(speed);
    if (megabits >= 1000 && megabits % 1000 == 0)
        snprintf(out->at, out->size, "Ethernet %ld Gb/s", megabits / 1000);
    else if (megabits > 0)
        snprintf(out->at, out->size, "Ethernet %ld Mb/s", megabits);
    else
        snprintf(out->at, out->size, "Ethernet");
}

static bool interface_up(void *self, const char *name)
{
    char path[128], state[16];

    snprintf(path, sizeof(path), "/sys/class/net/%.64s/operstate", name);
    if (!strcmp(name, "lo") || !read_first(path, state, sizeof(state)) || strcmp(state, "up") != 0)
        return false;
    describe_link(name, self);
    return true;
}

/* The link that leads away by default, else any that is up. */
static void network(char *text, size_t size)
{
    struct text out = { text, size };
    FILE *routes;
    char line[256], name[32], destination[16];
    bool found = any_in("/sys/class/infiniband", infiniband, &out);

    if (found)
        return;
    routes = fopen("/proc/net/route", "r");
    while (routes && !found && fgets(line, sizeof(line), routes))
        found =
            sscanf(line, "%31s %15s", name, destination) == 2 && !strcmp(destination, "00000000");
    if (routes)
        fclose(routes);
    if (found)
        describe_link(name, &out);
    else
        any_in("/sys/class/net", interface_up, &out);
}

static void build(char hex[SHA256_HEX_BYTES])
{
    FILE *file = fopen("/proc/self/exe", "r");
    uint8_t bytes[1 << 14], hash[SHA256_BYTES];
    struct sha256 sum;
    size_t n;

    hex[0] = 0;
    if (!file)
        return;
    sha256_init(&sum);
    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0)
        sha256_add(&sum, bytes, n);
    fclose(file);
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
}

void machine_facts(struct host_facts *out)
{
    struct utsname system;
    int64_t kib = memory_kib("MemTotal");
    char blas[128];

    memset(out, 0, sizeof(*out));
    gethostname(out->host, sizeof(out->host) - 1);
    if (!read_line("/proc/cpuinfo", "model name", out->device, sizeof(out->device)))
        read_line("/proc/cpuinfo", "Processor", out->device, sizeof(out->device));
    out->cores = (uint32_t)allowance_cores();
    out->free_bytes = allowance_free_bytes();
    out->memory_gib = kib < 0 ? 0 : (uint32_t)((kib + (1 << 19)) >> 20);
    caches(out->caches, sizeof(out->caches));
    network(out->network, sizeof(out->network));
    gpus_describe("", out->gpus, sizeof(out->gpus));
    build(out->build);
    world_library(out->comm_library, sizeof(out->comm_library));
    compute_library(out->compute_library, sizeof(out->compute_library), blas, sizeof(blas));
    if (!uname(&system))
        snprintf(out->system, sizeof(out->system), "%.40s %.40s", system.sysname, system.release);
    snprintf(out->versions, sizeof(out->versions), "moetune %s, %s", MOETUNE_VERSION, blas);
    environment(out->environment, sizeof(out->environment));
}

/* ---- hosts into a cluster */

/* The first of the values in the order of bytes that comes after `last`; NULL: none. */
static const char *value_after(const struct host_facts *facts, uint32_t ranks, size_t offset,
                               const char *last)
{
    const char *next = NULL;

    for (uint32_t i = 0; i < ranks; i++) {
        const char *value = (const char *)&facts[i] + offset;

        if (strcmp(value, last) > 0 && (!next || strcmp(value, next) < 0))
            next = value;
    }
    return next;
}

/* The different values of a text: "A / B", in whatever order hosts are listed.  Where one of them
 * is not known, the whole is not, and `text` is left alone. */
static void join(const struct host_facts *facts, uint32_t ranks, size_t offset, char *text,
                 size_t size)
{
    const char *value = "";
    size_t used = 0;

    for (uint32_t i = 0; i < ranks; i++)
        if (!*((const char *)&facts[i] + offset))
            return;
    while ((value = value_after(facts, ranks, offset, value)) && used < size)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " / " : "", value);
}

static uint32_t ranks_on(const struct host_facts *facts, uint32_t ranks, const char *host)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks; i++)
        count += !strcmp(facts[i].host, host);
    return count;
}

/* Of one rank, in GiB; the least over the ranks.  NAN where it is not known of any host. */
static double least_memory(const struct host_facts *facts, uint32_t ranks)
{
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < ranks; i++) {
        int64_t share = facts[i].free_bytes / ranks_on(facts, ranks, facts[i].host) / 10 * 8;

        if (facts[i].free_bytes < INT64_MAX && share < least)
            least = share;
    }
    return least < INT64_MAX ? floor((double)least * 0x1p-30 * 1000) / 1000 : NAN;
}

static uint32_t count_hosts(const struct host_facts *facts, uint32_t ranks)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks; i++) {
        bool seen = false;

        for (uint32_t j = 0; j < i && !seen; j++)
            seen = !strcmp(facts[i].host, facts[j].host);
        count += !seen;
    }
    return count;
}

#define JOIN(from, to) join(facts, ranks, offsetof(struct host_facts, from), c.to, sizeof(c.to))

struct cluster machine_compose(const struct host_facts *facts, uint32_t ranks,
                               uint32_t ranks_per_node)
{
    struct cluster c = cluster_unknown();

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "host");
    c.ranks = ranks;
    c.ranks_per_node = ranks_per_node;
    c.nodes = ranks_per_node ? ranks / ranks_per_node : count_hosts(facts, ranks);
    c.device_units = facts[0].cores;
    c.device_gib = facts[0].memory_gib;
    /* Ranks wait for the slowest, and the smallest memory rules plans out. */
    for (uint32_t i = 1; i < ranks; i++) {
        c.device_units = facts[i].cores < c.device_units ? facts[i].cores : c.device_units;
        c.device_gib = facts[i].memory_gib < c.device_gib ? facts[i].memory_gib : c.device_gib;
    }
    /* A link that is not there is known: "unknown" would equal nothing. */
    snprintf(c.link_inside, sizeof(c.link_inside), c.nodes < ranks ? "shared memory" : "none");
    snprintf(c.link_between, sizeof(c.link_between), c.nodes > 1 ? "unknown" : "none");
    if (count_hosts(facts, ranks) > 1)
        JOIN(network, link_between);
    JOIN(device, device);
    JOIN(comm_library, comm_library);
    JOIN(compute_library, compute_library);
    JOIN(system, system);
    JOIN(versions, versions);
    JOIN(environment, environment);
    JOIN(host, hosts);
    c.memory_gib = least_memory(facts, ranks);
    return c;
}

struct cluster machine_cluster(uint32_t ranks, uint32_t ranks_per_node)
{
    struct host_facts *facts = calloc(ranks, sizeof(*facts));
    struct cluster c = cluster_unknown();

    if (!facts)
        return c;
    machine_facts(&facts[0]);
    for (uint32_t i = 1; i < ranks; i++)
        facts[i] = facts[0];
    c = machine_compose(facts, ranks, ranks_per_node);
    free(facts);
    return c;
}
