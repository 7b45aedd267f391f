/* Asks NVML whether a GPU is whole and idle. */
#include "gpu_ready.h"

#include "nvml.h"
#include "status.h"

#include <time.h>

enum { BUSY_PERCENT = 5, LOOKS = 20 };
static const struct timespec between_looks = { .tv_nsec = 200000000 };

/* The least of some seconds: NVML averages over the last one, in which ranks of an earlier run may
 * have ended. */
static int busy_percent(const struct nvml *nvml)
{
    int least = nvml_busy_percent(nvml);

    for (int i = 1; i < LOOKS && least > BUSY_PERCENT; i++) {
        int now;

        nanosleep(&between_looks, NULL);
        now = nvml_busy_percent(nvml);
        least = now < least ? now : least;
    }
    return least;
}

static int check(const struct gpu *gpu, const struct nvml *nvml)
{
    int busy;

    if (nvml_mig(nvml) == 1)
        return fail(ERR_DEVICE,
                    "%s (%s) is cut into MIG instances, and a part of a GPU is measured only with "
                    "--oversubscribe",
                    gpu->name, gpu->bus);
    busy = busy_percent(nvml);
    if (busy > BUSY_PERCENT)
        return fail(ERR_DEVICE,
                    "%s (%s) is %d %% busy with another program (nvidia-smi names it), and is "
                    "shared only with --oversubscribe",
                    gpu->name, gpu->bus, busy);
    return OK;
}

int gpu_check_ready(const struct gpu *gpu)
{
    struct nvml *nvml = nvml_open(gpu->bus);
    int rc = check(gpu, nvml);

    nvml_close(nvml);
    return rc;
}
