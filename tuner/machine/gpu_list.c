/* Answers questions about GPUs in programs with and without the CUDA unit; without it there are no
 * GPUs. */
#include "gpu_list.h"

#include "blas.h"
#include "moelookup.h"
#include "nvml.h"
#include "status.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BUSY_PERCENT = 5, BUSY_CHECKS = 20 };

struct gpus gpus_here(void)
{
    struct gpus gpus = { 0 };

#ifdef MOETUNE_CUDA
    gpus.built = true;
    cuda_gpus(&gpus);
#else
    snprintf(gpus.why, sizeof(gpus.why),
             "this moetune was built without CUDA (the build found no toolkit, or GPU=0)");
#endif
    return gpus;
}

int gpus_own(const struct gpus *gpus)
{
    int own_gpu = -1;

#ifdef MOETUNE_CUDA
    if (gpus->count)
        own_gpu = cuda_gpus_own();
#endif
    return own_gpu < gpus->count ? own_gpu : -1;
}

int gpus_copies_beside(const struct gpus *gpus)
{
#ifdef MOETUNE_CUDA
    if (gpus->count)
        return cuda_gpus_copies_beside();
#endif
    (void)gpus;
    return -1;
}

const char *gpus_device(const char *device)
{
    if (strcmp(device, "auto") != 0)
        return device;
    return gpus_here().count ? "cuda" : "host";
}

uint32_t gpus_dtype(const char *device)
{
    return strcmp(device, "cuda") ? MOE_F32 : MOE_BF16;
}

int gpus_check_device(const char *device, bool elsewhere)
{
    struct gpus gpus;

    if (!strcmp(device, "auto") || !strcmp(device, "host")) {
        if (elsewhere || blas_version() || !strcmp(gpus_device(device), "cuda"))
            return OK;
        return fail(ERR_DEVICE, "device host: ranks that compute on cores need OpenBLAS, but this "
                                "moetune was built without it (BLAS=0, or none was found)");
    }
    if (strcmp(device, "cuda") != 0)
        return fail(ERR_ARGUMENT, "no device \"%s\": give --device auto, host or cuda", device);
    gpus = gpus_here();
    if (!gpus.built)
        return fail(ERR_ARGUMENT, "--device cuda: %s", gpus.why);
    return gpus.count || elsewhere ? OK : fail(ERR_DEVICE, "--device cuda: %s", gpus.why);
}

int gpus_agree_device(struct world *world, const char *device, const char **out)
{
    int64_t lacks = strcmp(gpus_device(device), "cuda") != 0;

    if (!strcmp(device, "auto")) {
        TRY(world_max(world, &lacks, 1));
        device = lacks ? "host" : "cuda";
    }
    TRY(world_settle(world, gpus_check_device(device, false)));
    *out = device;
    return OK;
}

/* Returns the lowest load of some seconds: NVML averages over the last second, in which ranks of an
 * earlier run may still have worked. */
static int min_busy_percent(const struct nvml *nvml)
{
    static const struct timespec pause = { .tv_nsec = 200000000 };
    int least = nvml_busy_percent(nvml);

    for (int check = 1; check < BUSY_CHECKS && least > BUSY_PERCENT; check++) {
        int percent;

        nanosleep(&pause, NULL);
        percent = nvml_busy_percent(nvml);
        least = percent < least ? percent : least;
    }
    return least;
}

int gpu_check_ready(const struct gpu *gpu)
{
    struct nvml *nvml = nvml_open(gpu->bus);
    bool is_split = nvml_mig(nvml) == 1;
    int busy_percent = is_split ? 0 : min_busy_percent(nvml);

    nvml_close(nvml);
    if (is_split)
        return fail(ERR_DEVICE,
                    "%s (%s) is split into MIG instances: moetune measures a part of a GPU only "
                    "with --oversubscribe",
                    gpu->name, gpu->bus);
    if (busy_percent > BUSY_PERCENT)
        return fail(ERR_DEVICE,
                    "%s (%s) is %d %% busy with another program: wait until it ends (nvidia-smi "
                    "names it), or share the GPU with --oversubscribe",
                    gpu->name, gpu->bus, busy_percent);
    return OK;
}
