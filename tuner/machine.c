/* Reads /proc, the libraries' versions and the environment. */
#include "machine.h"

#include "world.h"

#include <ctype.h>
#include <sched.h>
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

int64_t machine_free_bytes(void)
{
    int64_t kib = memory_kib("MemAvailable");

    return kib < 0 ? INT64_MAX : kib * 1024;
}

static uint32_t cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) ? 0 : (uint32_t)CPU_COUNT(&set);
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

/* Launchers set variables that name a job, a socket or a file: those say nothing of speed. */
static bool names_a_job(const char *variable)
{
    static const char *const parts[] = { "uri",  "URI", "orte_",   "ess",    "_pid", "_job",
                                         "pmix", "tmp", "initial", "output", "_file" };

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

struct cluster machine_cluster(uint32_t ranks, uint32_t ranks_per_node)
{
    struct cluster c = cluster_unknown();
    struct utsname system;
    int64_t kib = memory_kib("MemTotal");
    char blas[128];

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "host");
    if (!read_line("/proc/cpuinfo", "model name", c.device, sizeof(c.device)))
        read_line("/proc/cpuinfo", "Processor", c.device, sizeof(c.device));
    c.device_units = cores();
    c.device_gib = kib < 0 ? 0 : (uint32_t)((kib + (1 << 19)) >> 20);
    c.ranks = ranks;
    c.ranks_per_node = ranks_per_node;
    c.nodes = ranks_per_node ? ranks / ranks_per_node : 0;
    world_library(c.comm_library, sizeof(c.comm_library));
    compute_library(c.compute_library, sizeof(c.compute_library), blas, sizeof(blas));
    if (!uname(&system))
        snprintf(c.system, sizeof(c.system), "%.40s %.40s", system.sysname, system.release);
    snprintf(c.versions, sizeof(c.versions), "moetune %s, %s", MOETUNE_VERSION, blas);
    environment(c.environment, sizeof(c.environment));
    gethostname(c.hosts, sizeof(c.hosts) - 1);
    return c;
}
