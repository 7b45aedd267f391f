/* Reads what this machine is from /proc, /sys, versions of libraries and the environment, and makes
 * one cluster of such descriptions. */
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

/* The length of "0.9" in our version "0.9.3".  A change of the last number leaves tables valid, so
 * a change of how kernels or steps run must change the number before it. */
#define SERIES ((int)(strrchr(MOETUNE_VERSION, '.') - MOETUNE_VERSION))

/* Returns the text after "NAME:" and blanks; NULL if the line has another name. */
static const char *value_after(const char *line, const char *name)
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

bool read_named_value(const char *path, const char *name, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    const char *value = NULL;
    char line[256];

    *text = 0;
    while (file && !value && fgets(line, sizeof(line), file))
        value = value_after(line, name);
    if (value)
        text_put(text, size, "%.*s", (int)strcspn(value, "\n"), value);
    if (file)
        fclose(file);
    return value != NULL;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Does the variable change how fast ranks compute or communicate?  Launchers set more variables
 * with the same prefixes: they name a job, a socket or a file, or how ranks are started and bound,
 * which every launch of ours does alike.  Those do not change speed. */
static bool affects_speed(const char *variable)
{
    static const char *const prefixes[] = { "OMPI_MCA_", "OPENBLAS_", "OMP_NUM", "GOTO_NUM",
                                            "NCCL_",     "UCX_",      "CUDA_",   "FI_",
                                            "PSM2_MTU",  "MALLOC_" };
    static const char *const of_jobs[] = { "uri",      "URI",    "orte_",    "ess",
                                           "_pid",     "_job",   "pmix",     "tmp",
                                           "initial",  "output", "_file",    "_plm",
                                           "oob_",     "rmaps_", "binding_", "_oversubscribe",
                                           "RUNTIME_", "_HOME=", "_PATH=",   "num_procs",
                                           "cpu_type" };
    bool affects = false;

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        affects |= !strncmp(variable, prefixes[i], strlen(prefixes[i]));
    for (size_t i = 0; i < sizeof(of_jobs) / sizeof(of_jobs[0]); i++)
        affects &= !strstr(variable, of_jobs[i]);
    return affects;
}

static void describe_environment(char *text, size_t size)
{
    const char *settings[64] = { 0 };
    size_t count = 0;

    for (char **variable = environ; *variable && count < 64; variable++)
        if (affects_speed(*variable))
            settings[count++] = *variable;
    qsort(settings, count, sizeof(*settings), compare_words);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        text_add(text, size, "%s%s", i ? " " : "", TEXT_SHORT(settings[i], 100));
    if (!count)
        snprintf(text, size, "none");
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c) || *c == '#')
            *c = '?';
}

/* ---- caches and networks, from /sys */

/* Describes the caches of the first core: "L1d 32K, L2 1024K, L3 32768K". */
static void describe_caches(char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < 8; i++) {
        char path[96], level[8], kind[32], bytes[16];

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_named_value(path, "", level, sizeof(level)))
            return;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!read_named_value(path, "", kind, sizeof(kind)) || !strcmp(kind, "Instruction"))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (read_named_value(path, "", bytes, sizeof(bytes)))
            text_add(text, size, "%sL%s%s %s", *text ? ", " : "", level,
                     !strcmp(kind, "Data") ? "d" : "", bytes);
    }
}

/* Describes InfiniBand where there is any; else the link of the default route, else any link that
 * is up. */
static void describe_network(char *text, size_t size)
{
    char path[192], rate[48], line[256], name[80], destination[16], state[16], speed[16];
    DIR *folder = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool is_found = false;
    long megabits = 0;
    FILE *routes;

    while (folder && !is_found && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/1/rate", entry->d_name);
        is_found = read_named_value(path, "", rate, sizeof(rate)); /* "200 Gb/sec (4X HDR)" */
    }
    if (folder)
        closedir(folder);
    if (is_found) {
        snprintf(text, size, "InfiniBand %s", rate);
        return;
    }

    routes = fopen("/proc/net/route", "r");
    while (routes && !is_found && fgets(line, sizeof(line), routes))
        is_found =
            sscanf(line, "%31s %15s", name, destination) == 2 && !strcmp(destination, "00000000");
    if (routes)
        fclose(routes);
    folder = is_found ? NULL : opendir("/sys/class/net");
    while (folder && !is_found && (entry = readdir(folder))) {
        snprintf(name, sizeof(name), "%.64s", entry->d_name);
        snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", name);
        is_found = strcmp(name, "lo") != 0 && read_named_value(path, "", state, sizeof(state)) &&
                   !strcmp(state, "up");
    }
    if (folder)
        closedir(folder);
    if (!is_found)
        return;

    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    if (read_named_value(path, "", speed, sizeof(speed)))
        megabits = atol(speed);
    if (megabits >= 1000 && megabits % 1000 == 0)
        snprintf(text, size, "Ethernet %ld Gb/s", megabits / 1000);
    else if (megabits > 0)
        snprintf(text, size, "Ethernet %ld Mb/s", megabits);
    else
        snprintf(text, size, "Ethernet");
}

/* ---- GPUs on the PCI bus: models come from the drivers, PCIe links from the bus.  Only the
 * vendors' libraries know NVLink or xGMI, and not every build has one. */

enum { PATH_BYTES = 512, KIND_BYTES = 128, KINDS = 8 };

/* A vendor of GPUs: its PCI id, its name, and the name of its links between GPUs. */
static const struct vendor {
    const char *id, *name, *fabric;
} vendors[] = { { "0x10de", "NVIDIA", "NVLink" }, { "0x1002", "AMD", "xGMI" } };

static void read_property(const char *root, const char *device, const char *name, char *text,
                          size_t size)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, device, name);
    read_named_value(path, "", text, size);
}

/* Describes a device as "NVIDIA H200 (PCIe 32 GT/s x16, NVLink unknown)"; false if it is no GPU. */
static bool describe_device(const char *root, const char *device, char *text, size_t size)
{
    char class[16], vendor_id[16], path[PATH_BYTES], model[64], full_name[80], speed[32], width[16],
        pcie[48];
    const struct vendor *vendor = NULL;
    bool has_vendor;

    read_property(root, device, "class", class, sizeof(class));
    read_property(root, device, "vendor", vendor_id, sizeof(vendor_id));
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]) && !vendor; i++)
        if (!strncmp(class, "0x03", 4) && !strcmp(vendor_id, vendors[i].id))
            vendor = &vendors[i];
    if (!vendor)
        return false;

    read_property(root, device, "product_name", model, sizeof(model));
    if (!*model) {
        snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", root, device);
        read_named_value(path, "Model", model, sizeof(model));
    }
    has_vendor = strstr(model, vendor->name) != NULL;
    if (!*model)
        snprintf(full_name, sizeof(full_name), "%s GPU of unknown model", vendor->name);
    else
        snprintf(full_name, sizeof(full_name), "%s%s%s", has_vendor ? "" : vendor->name,
                 has_vendor ? "" : " ", model);

    /* The most that the device and its slot can do, because an idle link may be slower now. */
    read_property(root, device, "max_link_speed", speed, sizeof(speed));
    read_property(root, device, "max_link_width", width, sizeof(width));
    if (strtod(speed, NULL) > 0 && atoi(width) > 0 && atoi(width) < 255)
        snprintf(pcie, sizeof(pcie), "PCIe %g GT/s x%d", strtod(speed, NULL), atoi(width));
    else
        snprintf(pcie, sizeof(pcie), "PCIe unknown");
    text_put(text, size, "%s (%s, %s unknown)", TEXT_SHORT(full_name, 60), pcie, vendor->fabric);
    return true;
}

void gpus_describe(const char *root, char *text, size_t size)
{
    char path[PATH_BYTES], kind[KIND_BYTES], kinds[KINDS][KIND_BYTES];
    int counts[KINDS] = { 0 }, kinds_count = 0;
    struct dirent **devices;
    int count;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    count = scandir(path, &devices, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        bool is_gpu = describe_device(root, devices[i]->d_name, kind, sizeof(kind));
        int k = 0;

        free(devices[i]);
        if (!is_gpu)
            continue;
        while (k < kinds_count && strcmp(kinds[k], kind) != 0)
            k++;
        if (k == KINDS)
            continue;
        if (k == kinds_count)
            text_put(kinds[kinds_count++], KIND_BYTES, "%s", kind);
        counts[k]++;
    }
    if (count >= 0)
        free(devices);
    snprintf(text, size, count < 0 ? "GPUs unknown" : "no GPU");
    if (kinds_count)
        *text = 0;
    for (int k = 0; k < kinds_count; k++)
        text_add(text, size, "%s%d x %s", k ? " + " : "", counts[k], kinds[k]);
}

/* ---- this host */

/* Computes the SHA-256 of this program's file; "" if it cannot be read. */
static void hash_program(char hex[SHA256_HEX_BYTES])
{
    FILE *file = fopen("/proc/self/exe", "r");
    uint8_t bytes[1 << 14], hash[SHA256_BYTES];
    struct sha256 sum;
    size_t count;

    hex[0] = 0;
    if (!file)
        return;
    sha256_init(&sum);
    while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0)
        sha256_add(&sum, bytes, count);
    fclose(file);
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
}

static void describe_processor(struct host_facts *out)
{
    const char *blas = blas_version() ? blas_version() : "no BLAS";
    char memory_kib[64];
    int major = 0, minor = 0, patch = 0;

    if (!read_named_value("/proc/cpuinfo", "model name", out->device, sizeof(out->device)))
        read_named_value("/proc/cpuinfo", "Processor", out->device, sizeof(out->device));
    read_named_value("/proc/meminfo", "MemTotal", memory_kib, sizeof(memory_kib));
    out->free_bytes = allowance_free_bytes();
    out->memory_gib = (uint32_t)((atoll(memory_kib) + (1 << 19)) >> 20);
    world_library(out->comm_library, sizeof(out->comm_library));
    /* "OpenBLAS 0.3.21 NO_LAPACKE ..." -> "OpenBLAS 0.3".  The whole text, with the kernels that
     * OpenBLAS uses, goes into the versions. */
    if (sscanf(blas, "OpenBLAS %d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(out->compute_library, sizeof(out->compute_library), "OpenBLAS %d.%d", major,
                 minor);
    snprintf(out->versions, sizeof(out->versions), "moetune %.*s, %s", SERIES, MOETUNE_VERSION,
             TEXT_SHORT(blas, 127));
}

/* Describes the GPU with this number; number < 0: the GPU that this process would use. */
static void describe_gpu(int number, struct host_facts *out)
{
    struct gpus gpus = gpus_here();
    int index = number < 0 ? gpus_own(&gpus) : (gpus.count ? number % gpus.count : -1);
    const struct gpu *gpu = &gpus.list[index < 0 ? 0 : index];
    char driver[32] = "";
    struct nvml *nvml;

    out->free_bytes = INT64_MAX;
    if (index < 0)
        return;
    nvml = nvml_open(gpu->bus);
    out->free_bytes = (int64_t)gpu->bytes;
    snprintf(out->device, sizeof(out->device), "%s", gpu->name);
    snprintf(out->bus, sizeof(out->bus), "%s", gpu->bus);
    out->multiprocessors = gpu->units;
    out->memory_gib = (uint32_t)((gpu->bytes + (1u << 29)) >> 30);
    snprintf(out->link, sizeof(out->link),
             !nvml ? "unknown" : (nvml_links(nvml) > 0 ? "NVLink" : "PCIe"));
    nvml_close(nvml);
    if (gpus.nccl)
        snprintf(out->comm_library, sizeof(out->comm_library), "NCCL %d.%d", gpus.nccl / 10000,
                 gpus.nccl / 100 % 100);
    else
        snprintf(out->comm_library, sizeof(out->comm_library), "no NCCL");
    snprintf(out->compute_library, sizeof(out->compute_library), "cuBLAS %d.%d", gpus.blas / 1000,
             gpus.blas / 10 % 100);
    read_named_value("/sys/module/nvidia/version", "", driver, sizeof(driver));
    snprintf(out->versions, sizeof(out->versions),
             "moetune %.*s, driver %s, CUDA %d.%d, NCCL patch %d", SERIES, MOETUNE_VERSION,
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
    describe_caches(out->caches, sizeof(out->caches));
    describe_network(out->network, sizeof(out->network));
    gpus_describe("", out->gpus, sizeof(out->gpus));
    hash_program(out->build);
    if (!strcmp(device, "cuda"))
        describe_gpu(-1, out);
    else
        describe_processor(out);
    if (!uname(&system))
        text_put(out->system, sizeof(out->system), "%s %s", system.sysname, system.release);
    describe_environment(out->environment, sizeof(out->environment));
}

/* ---- a cluster from the facts of ranks */

/* Joins the different values of a text as "A / B", sorted, so that the order of hosts does not
 * matter. If one value is not known, `text` stays unchanged, which means not known. */
static void join_values(const struct host_facts *facts, uint32_t ranks, size_t offset, char *text,
                        size_t size)
{
    const char *last = "", *next;

    for (uint32_t i = 0; i < ranks; i++)
        if (!*((const char *)&facts[i] + offset))
            return;
    *text = 0;
    do {
        next = NULL; /* the smallest value after `last` */
        for (uint32_t i = 0; i < ranks; i++) {
            const char *value = (const char *)&facts[i] + offset;

            if (strcmp(value, last) > 0 && (!next || strcmp(value, next) < 0))
                next = value;
        }
        if (next)
            text_add(text, size, "%s%s", *text ? " / " : "", next);
        last = next;
    } while (next);
}

/* Counts the ranks that share the device memory of `rank`, itself included. */
static uint32_t ranks_beside(const struct host_facts *facts, uint32_t ranks,
                             const struct host_facts *rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks; i++)
        count += !strcmp(facts[i].host, rank->host) && !strcmp(facts[i].bus, rank->bus);
    return count;
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

/* Joins a text of all ranks into a text of the cluster `c`. */
#define JOIN(from, to)                                                                             \
    join_values(facts, ranks, offsetof(struct host_facts, from), c.to, sizeof(c.to))

struct cluster machine_compose(const struct host_facts *facts, uint32_t ranks,
                               uint32_t ranks_per_node)
{
    struct cluster c = cluster_unknown();
    int64_t least_bytes = INT64_MAX;
    bool any_shared = false;

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "%s", *facts[0].backend ? facts[0].backend : "host");
    c.ranks = ranks;
    c.ranks_per_node = ranks_per_node;
    c.nodes = ranks_per_node ? ranks / ranks_per_node : count_hosts(facts, ranks);
    c.device_units = units_of(&facts[0]);
    c.device_gib = facts[0].memory_gib;
    /* All ranks wait for the slowest one, and the smallest memory excludes plans. */
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t sharing = ranks_beside(facts, ranks, &facts[i]);
        /* A fifth stays free for what contexts of ranks, wires and libraries take on a GPU. */
        int64_t share_bytes = facts[i].free_bytes / sharing / 10 * 8;

        c.device_units =
            units_of(&facts[i]) < c.device_units ? units_of(&facts[i]) : c.device_units;
        c.device_gib = facts[i].memory_gib < c.device_gib ? facts[i].memory_gib : c.device_gib;
        if (facts[i].free_bytes < INT64_MAX && share_bytes < least_bytes)
            least_bytes = share_bytes;
        any_shared |= *facts[i].bus && sharing > 1;
    }
    /* "none" where there is no such link: an unknown field would make it another cluster each time.
     */
    snprintf(c.link_inside, sizeof(c.link_inside), c.nodes < ranks ? "shared memory" : "none");
    if (c.nodes < ranks && !strcmp(c.backend, "cuda"))
        JOIN(link, link_inside);
    snprintf(c.link_between, sizeof(c.link_between), c.nodes > 1 ? "unknown" : "none");
    if (count_hosts(facts, ranks) > 1)
        JOIN(network, link_between);
    JOIN(device, device);
    JOIN(comm_library, comm_library);
    JOIN(compute_library, compute_library);
    if (any_shared) { /* their times are not those of ranks with a GPU each */
        snprintf(c.link_inside, sizeof(c.link_inside), "one GPU, shared");
        snprintf(c.comm_library, sizeof(c.comm_library), "copies in one GPU");
    }
    JOIN(system, system);
    JOIN(versions, versions);
    JOIN(environment, environment);
    JOIN(host, hosts);
    if (least_bytes < INT64_MAX) /* else no host knows it */
        c.memory_gib = floor((double)least_bytes * 0x1p-30 * 1000) / 1000;
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
