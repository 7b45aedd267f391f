/* Reads what this machine is from /proc, /sys, the versions of libraries, and the environment. */
#include "machine.h"

#include "allowance.h"
#include "blas.h"
#include "gpu_list.h"
#include "nvml.h"
#include "sha256.h"
#include "text.h"
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

/* Behind the blanks; NULL if the line is of another name. */
static const char *value_behind(const char *line, const char *name)
{
    size_t length = strlen(name);

    if (strncmp(line, name, length))
        return NULL;
    line += length;
    line += strspn(line, " \t");
    if (length && *line++ != ':')
        return NULL;
    return line + strspn(line, " \t");
}

bool first_line(const char *path, const char *name, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    const char *value = NULL;
    char line[256];

    *text = 0;
    while (file && !value && fgets(line, sizeof(line), file))
        value = value_behind(line, name);
    if (value)
        text_put(text, size, "%.*s", (int)strcspn(value, "\n"), value);
    if (file)
        fclose(file);
    return value != NULL;
}

/* "OpenBLAS 0.3.21 NO_LAPACKE ..." -> "OpenBLAS 0.3"; the kernels it picked belong to it too. */
static void compute_library(char *text, size_t size, char *version, size_t version_size)
{
    const char *config = blas_version() ? blas_version() : "no BLAS";
    int major = 0, minor = 0, patch = 0;

    if (sscanf(config, "OpenBLAS %d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(text, size, "OpenBLAS %d.%d", major, minor);
    text_put(version, version_size, "%s", config);
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
                                         "RUNTIME_", "_HOME=", "_PATH=",   "num_procs",
                                         "cpu_type" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(variable, parts[i]))
            return true;
    return false;
}

static void environment(char *text, size_t size)
{
    const char *found[64] = { 0 };
    size_t count = 0;

    for (char **e = environ; *e && count < 64; e++)
        if (relevant(*e) && !names_a_job(*e))
            found[count++] = *e;
    qsort(found, count, sizeof(*found), compare_words);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        text_add(text, size, "%s%s", i ? " " : "", TEXT_SHORT(found[i], 100));
    if (!count)
        snprintf(text, size, "none");
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c) || *c == '#')
            *c = '?';
}

/* ---- what /sys knows */

/* "L1d 32K, L2 1024K, L3 32768K" of the first core. */
static void caches(char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < 8; i++) {
        char path[96], level[8], kind[32], bytes[16];

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!first_line(path, "", level, sizeof(level)))
            return;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!first_line(path, "", kind, sizeof(kind)) || !strcmp(kind, "Instruction"))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (first_line(path, "", bytes, sizeof(bytes)))
            text_add(text, size, "%sL%s%s %s", *text ? ", " : "", level,
                     !strcmp(kind, "Data") ? "d" : "", bytes);
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
    if (!first_line(path, "", rate, sizeof(rate)))
        return false;
    snprintf(out->at, out->size, "InfiniBand %s", rate);
    return true;
}

static void describe_link(const char *name, struct text *out)
{
    char path[128], speed[16];
    long megabits = 0;

    snprintf(path, sizeof(path), "/sys/class/net/%.64s/speed", name);
    if (first_line(path, "", speed, sizeof(speed)))
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
    if (!strcmp(name, "lo") || !first_line(path, "", state, sizeof(state)) ||
        strcmp(state, "up") != 0)
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

/* ---- GPUs on the bus: models come from the drivers, links from the bus.  Which of them are joined
 * by NVLink or xGMI only their vendors' libraries say, and not every build has one. */

enum { PATH_BYTES = 512, KIND_BYTES = 128, KINDS = 8 };

/* Models of GPUs, and how many there are of each. */
struct gpu_kinds {
    char text[KINDS][KIND_BYTES];
    int counts[KINDS], count;
};

static const struct vendor {
    const char *id, *name, *fabric;
} vendors[] = { { "0x10de", "NVIDIA", "NVLink" }, { "0x1002", "AMD", "xGMI" } };

static void read_property(const char *root, const char *device, const char *name, char *text,
                          size_t size)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, device, name);
    first_line(path, "", text, size);
}

static const struct vendor *vendor_of(const char *root, const char *device)
{
    char class[16], id[16];

    read_property(root, device, "class", class, sizeof(class));
    read_property(root, device, "vendor", id, sizeof(id));
    for (int i = 0; i < (int)(sizeof(vendors) / sizeof(vendors[0])); i++)
        if (!strncmp(class, "0x03", 4) && !strcmp(id, vendors[i].id))
            return &vendors[i];
    return NULL;
}

static void read_model(const char *root, const char *device, const struct vendor *vendor,
                       char *text, size_t size)
{
    char path[PATH_BYTES], model[64];
    bool named;

    read_property(root, device, "product_name", model, sizeof(model));
    if (!*model) {
        snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", root, device);
        first_line(path, "Model", model, sizeof(model));
    }
    named = strstr(model, vendor->name) != NULL;
    if (!*model)
        snprintf(text, size, "%s GPU of unknown model", vendor->name);
    else
        snprintf(text, size, "%s%s%s", named ? "" : vendor->name, named ? "" : " ", model);
}

/* What the device and its slot can do: a link that is idle may be slower now. */
static void read_link(const char *root, const char *device, char *text, size_t size)
{
    char speed[32], width[16];

    read_property(root, device, "max_link_speed", speed, sizeof(speed));
    read_property(root, device, "max_link_width", width, sizeof(width));
    if (strtod(speed, NULL) > 0 && atoi(width) > 0 && atoi(width) < 255)
        snprintf(text, size, "PCIe %g GT/s x%d", strtod(speed, NULL), atoi(width));
    else
        snprintf(text, size, "PCIe unknown");
}

static void look_at_gpu(const char *root, const char *device, struct gpu_kinds *kinds)
{
    const struct vendor *vendor = vendor_of(root, device);
    char model[80], link[48], kind[KIND_BYTES];
    int i = 0;

    if (!vendor)
        return;
    read_model(root, device, vendor, model, sizeof(model));
    read_link(root, device, link, sizeof(link));
    text_put(kind, sizeof(kind), "%s (%s, %s unknown)", TEXT_SHORT(model, 60), link,
             vendor->fabric);
    while (i < kinds->count && strcmp(kinds->text[i], kind) != 0)
        i++;
    if (i == KINDS)
        return;
    if (i == kinds->count)
        text_put(kinds->text[kinds->count++], KIND_BYTES, "%s", kind);
    kinds->counts[i]++;
}

void gpus_describe(const char *root, char *text, size_t size)
{
    struct gpu_kinds kinds = { .count = 0 };
    char path[PATH_BYTES];
    struct dirent **devices;
    int count;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    count = scandir(path, &devices, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        look_at_gpu(root, devices[i]->d_name, &kinds);
        free(devices[i]);
    }
    if (count >= 0)
        free(devices);
    snprintf(text, size, count < 0 ? "GPUs unknown" : "no GPU");
    if (kinds.count)
        *text = 0;
    for (int i = 0; i < kinds.count; i++)
        text_add(text, size, "%s%d x %s", i ? " + " : "", kinds.counts[i], kinds.text[i]);
}

/* ---- this host */

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

static void describe_processor(struct host_facts *out)
{
    char blas[128], kib[64];

    if (!first_line("/proc/cpuinfo", "model name", out->device, sizeof(out->device)))
        first_line("/proc/cpuinfo", "Processor", out->device, sizeof(out->device));
    first_line("/proc/meminfo", "MemTotal", kib, sizeof(kib));
    out->free_bytes = allowance_free_bytes();
    out->memory_gib = (uint32_t)((atoll(kib) + (1 << 19)) >> 20);
    world_library(out->comm_library, sizeof(out->comm_library));
    compute_library(out->compute_library, sizeof(out->compute_library), blas, sizeof(blas));
    snprintf(out->versions, sizeof(out->versions), "moetune %s, %s", MOETUNE_VERSION, blas);
}

static const char *link_of(const struct gpu *gpu)
{
    struct nvml *nvml = nvml_open(gpu->bus);
    const char *link = !nvml ? "unknown" : (nvml_links(nvml) > 0 ? "NVLink" : "PCIe");

    nvml_close(nvml);
    return link;
}

/* number < 0: the one that this process would use. */
static void describe_gpu(int number, struct host_facts *out)
{
    struct gpus gpus = gpus_here();
    int own = number < 0 ? gpus_own(&gpus) : (gpus.count ? number % gpus.count : -1);
    const struct gpu *gpu = &gpus.list[own < 0 ? 0 : own];
    char driver[32] = "";

    out->free_bytes = INT64_MAX;
    if (own < 0)
        return;
    out->free_bytes = (int64_t)gpu->bytes;
    snprintf(out->device, sizeof(out->device), "%s", gpu->name);
    snprintf(out->bus, sizeof(out->bus), "%s", gpu->bus);
    out->multiprocessors = gpu->units;
    out->memory_gib = (uint32_t)((gpu->bytes + (1u << 29)) >> 30);
    snprintf(out->link, sizeof(out->link), "%s", link_of(gpu));
    snprintf(out->comm_library, sizeof(out->comm_library), "NCCL %d.%d", gpus.nccl / 10000,
             gpus.nccl / 100 % 100);
    snprintf(out->compute_library, sizeof(out->compute_library), "cuBLAS %d.%d", gpus.blas / 1000,
             gpus.blas / 10 % 100);
    first_line("/sys/module/nvidia/version", "", driver, sizeof(driver));
    snprintf(out->versions, sizeof(out->versions),
             "moetune %s, driver %s, CUDA %d.%d, NCCL patch %d", MOETUNE_VERSION,
             *driver ? driver : "unknown", gpus.runtime / 1000, gpus.runtime / 10 % 100,
             gpus.nccl % 100);
}

void machine_facts(const char *device, struct host_facts *out)
{
    struct utsname system;

    memset(out, 0, sizeof(*out));
    gethostname(out->host, sizeof(out->host) - 1);
    snprintf(out->backend, sizeof(out->backend), "%s", device);
    out->cores = (uint32_t)allowance_cores();
    caches(out->caches, sizeof(out->caches));
    network(out->network, sizeof(out->network));
    gpus_describe("", out->gpus, sizeof(out->gpus));
    build(out->build);
    if (!strcmp(device, "cuda"))
        describe_gpu(-1, out);
    else
        describe_processor(out);
    if (!uname(&system))
        text_put(out->system, sizeof(out->system), "%s %s", system.sysname, system.release);
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

    for (uint32_t i = 0; i < ranks; i++)
        if (!*((const char *)&facts[i] + offset))
            return;
    *text = 0;
    while ((value = value_after(facts, ranks, offset, value)))
        text_add(text, size, "%s%s", *text ? " / " : "", value);
}

/* Ranks that share the memory of this one's device, itself included. */
static uint32_t ranks_beside(const struct host_facts *facts, uint32_t ranks,
                             const struct host_facts *one)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks; i++)
        count += !strcmp(facts[i].host, one->host) && !strcmp(facts[i].bus, one->bus);
    return count;
}

/* Memory that a rank may use, in GiB, the least over the ranks; NAN where it is not known of any
 * host.  A fifth is left for what the context of each rank, wires and libraries take on a GPU. */
static double least_memory(const struct host_facts *facts, uint32_t ranks)
{
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < ranks; i++) {
        int64_t share = facts[i].free_bytes / ranks_beside(facts, ranks, &facts[i]) / 10 * 8;

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

static uint32_t units_of(const struct host_facts *f)
{
    return strcmp(f->backend, "cuda") ? f->cores : f->multiprocessors;
}

static bool share_gpu(const struct host_facts *facts, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++)
        if (*facts[i].bus && ranks_beside(facts, ranks, &facts[i]) > 1)
            return true;
    return false;
}

#define JOIN(from, to) join(facts, ranks, offsetof(struct host_facts, from), c.to, sizeof(c.to))

struct cluster machine_compose(const struct host_facts *facts, uint32_t ranks,
                               uint32_t ranks_per_node)
{
    struct cluster c = cluster_unknown();

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "%s", *facts[0].backend ? facts[0].backend : "host");
    c.ranks = ranks;
    c.ranks_per_node = ranks_per_node;
    c.nodes = ranks_per_node ? ranks / ranks_per_node : count_hosts(facts, ranks);
    c.device_units = units_of(&facts[0]);
    c.device_gib = facts[0].memory_gib;
    /* Ranks wait for the slowest, and the smallest memory rules plans out. */
    for (uint32_t i = 1; i < ranks; i++) {
        c.device_units =
            units_of(&facts[i]) < c.device_units ? units_of(&facts[i]) : c.device_units;
        c.device_gib = facts[i].memory_gib < c.device_gib ? facts[i].memory_gib : c.device_gib;
    }
    /* A link that is not there is known: "unknown" would equal nothing. */
    snprintf(c.link_inside, sizeof(c.link_inside), c.nodes < ranks ? "shared memory" : "none");
    if (c.nodes < ranks && !strcmp(c.backend, "cuda"))
        JOIN(link, link_inside);
    snprintf(c.link_between, sizeof(c.link_between), c.nodes > 1 ? "unknown" : "none");
    if (count_hosts(facts, ranks) > 1)
        JOIN(network, link_between);
    JOIN(device, device);
    JOIN(comm_library, comm_library);
    JOIN(compute_library, compute_library);
    if (share_gpu(facts, ranks)) { /* what they measure is of no cluster that has them apart */
        snprintf(c.link_inside, sizeof(c.link_inside), "one GPU, shared");
        snprintf(c.comm_library, sizeof(c.comm_library), "copies in one GPU");
    }
    JOIN(system, system);
    JOIN(versions, versions);
    JOIN(environment, environment);
    JOIN(host, hosts);
    c.memory_gib = least_memory(facts, ranks);
    return c;
}

struct cluster machine_cluster(const char *device, uint32_t ranks, uint32_t ranks_per_node)
{
    struct host_facts *facts = calloc(ranks, sizeof(*facts));
    struct cluster c = cluster_unknown();

    if (!facts)
        return c;
    machine_facts(device, &facts[0]);
    for (uint32_t i = 1; i < ranks; i++)
        facts[i] = facts[0];
    for (uint32_t i = 0; i < ranks && !strcmp(device, "cuda"); i++)
        describe_gpu((int)i, &facts[i]);
    c = machine_compose(facts, ranks, ranks_per_node);
    free(facts);
    return c;
}
