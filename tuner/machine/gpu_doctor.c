/* Each check looks at one thing over all ranks, and names the first rank that has it. */
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

/* ---- checks over ranks */

static int first_with(const struct gpu_condition *ranks, uint32_t count,
                      bool (*has)(const struct gpu_condition *c))
{
    for (uint32_t i = 0; i < count; i++)
        if (has(&ranks[i]))
            return (int)i;
    return -1;
}

static void check_libraries(const struct gpu_condition *c, struct findings *out)
{
    static const struct verdict older = { FINDING_NOTE,
                                          "what the newer runtime offers may be missing or slower",
                                          "a driver of at least the runtime's version" };

    findings_add(out, c->driver < c->runtime ? older : finding_fine,
                 "GPU libraries: CUDA %d.%d, a driver for %d.%d, NCCL %d.%d.%d", c->runtime / 1000,
                 c->runtime / 10 % 100, c->driver / 1000, c->driver / 10 % 100, c->nccl / 10000,
                 c->nccl / 100 % 100, c->nccl % 100);
}

static bool same_gpu(const struct gpu_condition *a, const struct gpu_condition *b)
{
    return !strcmp(a->host, b->host) && !strcmp(a->bus, b->bus);
}

static void check_sharing(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct verdict shared = {
        FINDING_WRONG,
        "kernels of different ranks take turns, and their exchanges are copies in one memory: no "
        "time is a cluster's",
        "one rank per GPU: --ranks, or the launcher's slots"
    };

    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (same_gpu(&ranks[i], &ranks[j])) {
                findings_add(out, shared, "GPUs: ranks %u and %u share %s (%s) of %s", j, i,
                             ranks[i].name, ranks[i].bus, ranks[i].host);
                return;
            }
    findings_add(out, finding_fine, "GPUs: %s, one for each of %u rank%s; %d seen on %s",
                 ranks[0].name, count, count > 1 ? "s" : "", ranks[0].seen, ranks[0].host);
}

static bool out_of_reach(const struct gpu_condition *c)
{
    return c->out_of_reach > 0;
}

static void check_reach(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct verdict apart = {
        FINDING_NOTE, "exchanges inside the node go through the host's memory",
        "nvidia-smi topo -p2p rw says why; often IOMMU or ACS settings, or a container's limits"
    };
    int bad = first_with(ranks, count, out_of_reach);

    if (bad >= 0)
        findings_add(out, apart, "peer access: %d of %d GPUs of %s are out of rank %d's reach",
                     ranks[bad].out_of_reach, ranks[bad].seen, ranks[bad].host, bad);
    else if (ranks[0].seen > 1)
        findings_add(out, finding_fine, "peer access: every GPU reaches every other, %s",
                     ranks[0].links > 0 ? "by NVLink" : "not known by what");
}

static bool mig(const struct gpu_condition *c)
{
    return c->mig == 1;
}

static void check_mig(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct verdict cut = {
        FINDING_NOTE,
        "an instance has a part of the multiprocessors, memory and cache; NCCL does not join two "
        "of one GPU",
        "tune on whole GPUs, unless trainers run in instances too"
    };
    int bad = first_with(ranks, count, mig);

    if (bad >= 0)
        findings_add(out, cut, "MIG: the GPU of rank %d on %s is cut into instances", bad,
                     ranks[bad].host);
}

static bool not_persistent(const struct gpu_condition *c)
{
    return c->persistence == 0;
}

static void check_persistence(const struct gpu_condition *ranks, uint32_t count,
                              struct findings *out)
{
    static const struct verdict off = {
        FINDING_NOTE, "between ranks the driver unloads: each start takes seconds, clocks reset",
        "nvidia-smi -pm 1, or nvidia-persistenced"
    };
    int bad = first_with(ranks, count, not_persistent);

    if (bad >= 0)
        findings_add(out, off, "persistence: off on %s (rank %d)", ranks[bad].host, bad);
}

static bool busy(const struct gpu_condition *c)
{
    return c->busy_percent > 5;
}

static void check_busy(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct verdict used = {
        FINDING_WRONG, "another program's kernels take time from some steps and not from others",
        "wait until the GPU is idle (nvidia-smi names the program)"
    };
    int bad = first_with(ranks, count, busy);

    if (bad >= 0)
        findings_add(out, used, "GPU load: %d %% on %s (rank %d), and no rank has begun",
                     ranks[bad].busy_percent, ranks[bad].host, bad);
}

static bool throttled(const struct gpu_condition *c)
{
    return *c->throttled;
}

static void check_clocks(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    static const struct verdict slowed = {
        FINDING_NOTE,
        "the clock follows heat and power: the same plan is faster or slower by turns",
        "better cooling, or a clock that can be held: nvidia-smi -lgc MHZ"
    };
    int bad = first_with(ranks, count, throttled);

    if (bad >= 0)
        findings_add(out, slowed, "GPU clock: %d of %d MHz on %s (rank %d), held back by %s",
                     ranks[bad].clock_mhz, ranks[bad].clock_max_mhz, ranks[bad].host, bad,
                     ranks[bad].throttled);
    else if (ranks[0].clock_mhz >= 0)
        findings_add(out, finding_fine, "GPU clock: %d of %d MHz now, not held back",
                     ranks[0].clock_mhz, ranks[0].clock_max_mhz);
    else
        findings_add(out, finding_fine,
                     "GPU clock: not known, the management library (NVML) is not there");
}

void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    check_libraries(&ranks[0], out);
    check_sharing(ranks, count, out);
    check_reach(ranks, count, out);
    check_mig(ranks, count, out);
    check_persistence(ranks, count, out);
    check_busy(ranks, count, out);
    check_clocks(ranks, count, out);
}

void gpu_doctor_none(const struct gpus *gpus, bool on_the_bus, struct findings *out)
{
    static const struct verdict silent = {
        FINDING_NOTE, "ranks compute on cores although there is a GPU: the table is a CPU's",
        "load the NVIDIA driver; give the container its GPUs; CUDA_VISIBLE_DEVICES may hide them"
    };
    static const struct verdict unbuilt = {
        FINDING_NOTE, "ranks compute on cores although there is a GPU: the table is a CPU's",
        "build where a CUDA toolkit with NCCL is (make GPU=1 says what is missing)"
    };

    if (gpus->count)
        findings_add(out, finding_fine, "GPU: %s answers, but not on every rank, or --device host",
                     gpus->list[0].name);
    else
        findings_add(out, !on_the_bus ? finding_fine : (gpus->built ? silent : unbuilt), "GPU: %s",
                     gpus->why);
}
