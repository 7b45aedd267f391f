/* Answers about GPUs that are the same in programs with and without the CUDA unit; without it there
 * are none. */
#include "gpu_list.h"

#include "blas.h"
#ifdef MOETUNE_CUDA
#include "cuda_gpus.h"
#endif
#include "moelookup.h"
#include "status.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

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
    int own = -1;

#ifdef MOETUNE_CUDA
    if (gpus->count)
        own = cuda_gpus_own();
#endif
    return own < gpus->count ? own : -1;
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

static int check_cores(const char *device)
{
    if (blas_version() || !strcmp(gpus_device(device), "cuda"))
        return OK;
    return fail(ERR_DEVICE, "device host: ranks that compute on cores need OpenBLAS, and this "
                            "moetune was built without it (BLAS=0, or none was found)");
}

int gpus_check_device(const char *device, bool elsewhere)
{
    struct gpus gpus;

    if (!strcmp(device, "auto") || !strcmp(device, "host"))
        return elsewhere ? OK : check_cores(device);
    if (strcmp(device, "cuda") != 0)
        return fail(ERR_ARGUMENT, "no device \"%s\": auto, host or cuda is wanted", device);
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
