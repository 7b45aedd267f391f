/* Checks of GPUs as a table: each row looks at one thing. */
#include "gpu_doctor.h"

#include "nvml.h"

#include <stdio.h>
#include <string.h>

struct gpu_condition gpu_condition_here(const struct gpus *gpus, const char *host)
{
    int own = gpus_own(gpus);
    const struct gpu *gpu = &gpus->list[own < 0 ? 0 : own];
    struct nvml *nvml = own < 0 ? NULL : nvml_open(gpu->bus);
    const char *throttled = nvml_throttled(nvml);
    struct gpu_condition c = { .seen = gpus->count,
                               .clock_mhz = nvml_clock_mhz(nvml),
                               .clock_max_mhz = nvml_clock_max_mhz(nvml),
                               .persistence = nvml_persistence(nvml),
                               .mig = nvml_mig(nvml),
                               .links = nvml_links(nvml),
                               .busy_percent = nvml_busy_percent(nvml),
                               .copies_beside = -1,
                               .driver = gpus->driver,
                               .runtime = gpus->runtime,
                               .nccl = gpus->nccl };

    nvml_close(nvml);
    for (int i = 0; own >= 0 && i < gpus->count; i++)
        c.out_of_reach += !gpus->reaches[own][i];
    snprintf(c.host, sizeof(c.host), "%s", host);
    snprintf(c.bus, sizeof(c.bus), "%s", gpu->bus);
    snprintf(c.name, sizeof(c.name), "%s", gpu->name);
    snprintf(c.throttled, sizeof(c.throttled), "%s", throttled ? throttled : "");
    return c;
}

/* ---- over all ranks */

static void check_libraries(const struct gpu_condition *c, struct findings *out)
{
    static const struct judgement older = {
        FINDING_NOTE, "what the newer runtime offers may be missing or slower",
        "a driver of at least the runtime's version"
    };

    findings_add(out, c->driver < c->runtime ? older : finding_fine,
                 "GPU libraries: CUDA %d.%d, a driver for %d.%d, NCCL %d.%d.%d", c->runtime / 1000,
                 c->runtime / 10 % 100, c->driver / 1000, c->driver / 10 % 100, c->nccl / 10000,
                 c->nccl / 100 % 100, c->nccl % 100);
}

static void check_sharing(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct judgement shared = {
        FINDING_WRONG,
        "kernels of different ranks take turns, and their exchanges are copies in one memory: no "
        "time is a cluster's",
        "one rank per GPU: --ranks, or the launcher's slots"
    };

    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(ranks[i].host, ranks[j].host) && !strcmp(ranks[i].bus, ranks[j].bus)) {
                findings_add(out, shared, "GPUs: ranks %u and %u share %s (%s) of %s", j, i,
                             ranks[i].name, ranks[i].bus, ranks[i].host);
                return;
            }
    findings_add(out, finding_fine, "GPUs: %s, one for each of %u rank%s; %d seen on %s",
                 ranks[0].name, count, count > 1 ? "s" : "", ranks[0].seen, ranks[0].host);
}

/* ---- of one rank: each says what is wrong there, and returns true if anything is */

static bool out_of_reach(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "peer access: %d of %d GPUs of %s are out of rank %u's reach",
             c->out_of_reach, c->seen, c->host, rank);
    return c->out_of_reach > 0;
}

static bool cut(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "MIG: the GPU of rank %u on %s is cut into instances", rank, c->host);
    return c->mig == 1;
}

static bool not_persistent(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "persistence: off on %s (rank %u)", c->host, rank);
    return c->persistence == 0;
}

static bool busy(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "GPU load: %d %% on %s (rank %u), and no rank has begun", c->busy_percent,
             c->host, rank);
    return c->busy_percent > 5;
}

static bool held_back(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "GPU clock: %d of %d MHz on %s (rank %u), held back by %s", c->clock_mhz,
             c->clock_max_mhz, c->host, rank, c->throttled);
    return *c->throttled;
}

static bool copies_in_kernels(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "copies within the GPU: on its multiprocessors, on %s (rank %u)", c->host,
             rank);
    return c->copies_beside == 0;
}

/* ---- what is said when no rank has it: of rank 0; false: nothing */

static bool reaches(const struct gpu_condition *c, char *what, size_t size)
{
    snprintf(what, size, "peer access: every GPU reaches every other, %s",
             c->links > 0 ? "by NVLink" : "not known by what");
    return c->seen > 1;
}

static bool clock_now(const struct gpu_condition *c, char *what, size_t size)
{
    if (c->clock_mhz >= 0)
        snprintf(what, size, "GPU clock: %d of %d MHz now, not held back", c->clock_mhz,
                 c->clock_max_mhz);
    else
        snprintf(what, size, "GPU clock: not known, the management library (NVML) is not there");
    return true;
}

static bool copies_beside(const struct gpu_condition *c, char *what, size_t size)
{
    snprintf(what, size, "copies within the GPU: beside kernels, by copy engines");
    return c->copies_beside == 1;
}

static const struct check {
    bool (*wrong)(const struct gpu_condition *c, uint32_t rank, char *what, size_t size);
    bool (*fine)(const struct gpu_condition *c, char *what, size_t size); /* NULL: nothing */
    struct judgement judgement;
} checks[] = {
    { out_of_reach,
      reaches,
      { FINDING_NOTE, "exchanges inside the node go through the host's memory",
        "nvidia-smi topo -p2p rw says why; often IOMMU or ACS settings, or a container's "
        "limits" } },
    { cut,
      NULL,
      { FINDING_NOTE,
        "an instance has a part of the multiprocessors, memory and cache; NCCL does not join two "
        "of one GPU",
        "tune on whole GPUs, unless trainers run in instances too" } },
    { not_persistent,
      NULL,
      { FINDING_NOTE, "between ranks the driver unloads: each start takes seconds, clocks reset",
        "nvidia-smi -pm 1, or nvidia-persistenced" } },
    { busy,
      NULL,
      { FINDING_WRONG, "another program's kernels take time from some steps and not from others",
        "wait until the GPU is idle (nvidia-smi names the program)" } },
    { copies_in_kernels,
      copies_beside,
      { FINDING_NOTE,
        "exchanges of ranks that share it, or of virtual ones by copy engines, take time from "
        "products as those between GPUs do not",
        "a GPU for each rank; or --copy-ctas N, which says how much is taken" } },
    { held_back,
      clock_now,
      { FINDING_NOTE,
        "the clock follows heat and power: the same plan is faster or slower by turns",
        "better cooling, or a clock that can be held: nvidia-smi -lgc MHZ" } },
};

/* Names the first rank that has it. */
static void run_check(const struct check *check, const struct gpu_condition *ranks, uint32_t count,
                      struct findings *out)
{
    char what[sizeof(out->list[0].what)];
    uint32_t i = 0;

    while (i < count && !check->wrong(&ranks[i], i, what, sizeof(what)))
        i++;
    if (i < count)
        findings_add(out, check->judgement, "%s", what);
    else if (check->fine && check->fine(&ranks[0], what, sizeof(what)))
        findings_add(out, finding_fine, "%s", what);
}

void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    check_libraries(&ranks[0], out);
    check_sharing(ranks, count, out);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        run_check(&checks[i], ranks, count, out);
}

void gpu_doctor_none(const struct gpus *gpus, bool on_the_bus, struct findings *out)
{
    const struct judgement unused = {
        FINDING_NOTE, "ranks compute on cores although there is a GPU: the table is a CPU's",
        gpus->built ? "load the NVIDIA driver; give the container its GPUs; CUDA_VISIBLE_DEVICES "
                      "may hide them"
                    : "build where a CUDA toolkit with NCCL is (make GPU=1 says what is missing)"
    };

    if (gpus->count)
        findings_add(out, finding_fine, "GPU: %s answers, but not on every rank, or --device host",
                     gpus->list[0].name);
    else
        findings_add(out, on_the_bus ? unused : finding_fine, "GPU: %s", gpus->why);
}
