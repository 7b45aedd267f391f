/* Loads NVIDIA's management library (libnvidia-ml.so.1) at run time, and calls one function of it
 * for each number. */
#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Our own declarations of what NVIDIA's nvml.h declares; the ABI is stable by name and version
 * suffix.
 */
typedef void *nvml_device;
enum { CLOCK_SM = 1, LINKS_MOST = 18 };
enum {
    SLOWED_BY_POWER = 0x4,
    SLOWED_BY_HARDWARE = 0x8,
    HEAT_SOFTWARE = 0x20,
    HEAT_HARDWARE = 0x40,
    BRAKED = 0x80
};

struct nvml {
    void *library;
    nvml_device gpu;
};

static void (*symbol(const struct nvml *nvml, const char *name))(void)
{
    void *address = nvml ? dlsym(nvml->library, name) : NULL;
    void (*function)(void);

    memcpy(&function, &address,
           sizeof(function)); /* ISO C has no cast from a data pointer to a function pointer */
    return function;
}

struct nvml *nvml_open(const char *bus)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    int (*init)(void);
    int (*by_bus)(const char *bus, nvml_device *out);

    if (!nvml)
        return NULL;
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (nvml->library) {
        init = (int (*)(void))symbol(nvml, "nvmlInit_v2");
        by_bus =
            (int (*)(const char *, nvml_device *))symbol(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
        if (init && by_bus && !init()) {
            if (!by_bus(bus, &nvml->gpu))
                return nvml;
        } else {
            dlclose(nvml->library);
            nvml->library = NULL;
        }
    }
    nvml_close(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml)
{
    int (*shutdown)(void);

    if (!nvml)
        return;
    if (nvml->library) {
        shutdown = (int (*)(void))symbol(nvml, "nvmlShutdown");
        if (shutdown)
            shutdown();
        dlclose(nvml->library);
    }
    free(nvml);
}

/* Calls a function that takes an index, for instance which clock, and returns a number. */
static int read_indexed(const struct nvml *nvml, const char *name, unsigned which)
{
    int (*get)(nvml_device gpu, unsigned which, unsigned *value) =
        (int (*)(nvml_device, unsigned, unsigned *))symbol(nvml, name);
    unsigned value = 0;

    return get && !get(nvml->gpu, which, &value) ? (int)value : -1;
}

int nvml_clock_mhz(const struct nvml *nvml)
{
    return read_indexed(nvml, "nvmlDeviceGetClockInfo", CLOCK_SM);
}

int nvml_clock_max_mhz(const struct nvml *nvml)
{
    return read_indexed(nvml, "nvmlDeviceGetMaxClockInfo", CLOCK_SM);
}

int nvml_persistence(const struct nvml *nvml)
{
    int (*get)(nvml_device gpu, unsigned *mode) =
        (int (*)(nvml_device, unsigned *))symbol(nvml, "nvmlDeviceGetPersistenceMode");
    unsigned mode = 0;

    return get && !get(nvml->gpu, &mode) ? (int)mode : -1;
}

int nvml_mig(const struct nvml *nvml)
{
    int (*get)(nvml_device gpu, unsigned *current, unsigned *pending) =
        (int (*)(nvml_device, unsigned *, unsigned *))symbol(nvml, "nvmlDeviceGetMigMode");
    unsigned current = 0, pending = 0;

    return get && !get(nvml->gpu, &current, &pending) ? (int)current : -1;
}

int nvml_links(const struct nvml *nvml)
{
    int links_up = 0;

    for (unsigned link = 0; link < LINKS_MOST; link++) {
        int state = read_indexed(nvml, "nvmlDeviceGetNvLinkState", link);

        if (state < 0)
            return link ? links_up : -1;
        links_up += state == 1;
    }
    return links_up;
}

int nvml_busy_percent(const struct nvml *nvml)
{
    struct {
        unsigned units, memory;
    } busy = { 0, 0 };
    int (*get)(nvml_device gpu, void *out) =
        (int (*)(nvml_device, void *))symbol(nvml, "nvmlDeviceGetUtilizationRates");

    return get && !get(nvml->gpu, &busy) ? (int)busy.units : -1;
}

const char *nvml_throttled(const struct nvml *nvml)
{
    int (*get)(nvml_device gpu, unsigned long long *reasons) =
        (int (*)(nvml_device, unsigned long long *))symbol(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons");
    unsigned long long reasons = 0;

    if (!get || get(nvml->gpu, &reasons))
        return NULL;
    if (reasons & (HEAT_SOFTWARE | HEAT_HARDWARE))
        return "heat";
    if (reasons & (SLOWED_BY_HARDWARE | BRAKED))
        return "hardware";
    return reasons & SLOWED_BY_POWER ? "power" : NULL;
}
