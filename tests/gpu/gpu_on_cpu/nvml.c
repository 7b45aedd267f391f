/* NVIDIA's management library, made up: what it says is in the environment, as in
 * NVML_ON_CPU="busy=40 mig=1 why=0x24 clock=1980,1200".  Of clocks each question takes the next,
 * and the last one stays. */
#include <stdlib.h>
#include <string.h>

static int gpu;

static unsigned long long said(const char *name, unsigned long long otherwise)
{
    const char *at = getenv("NVML_ON_CPU");

    while (at && (at = strstr(at, name)) && at[strlen(name)] != '=')
        at += strlen(name);
    return at ? strtoull(at + strlen(name) + 1, NULL, 0) : otherwise;
}

static unsigned next_clock(void)
{
    static const char *at;
    static unsigned mhz = 1980;
    char *end;

    if (!at) {
        at = getenv("NVML_ON_CPU");
        at = at ? strstr(at, "clock=") : NULL;
        at = at ? at + strlen("clock=") : "";
    }
    if (*at) {
        mhz = (unsigned)strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : "";
    }
    return mhz;
}

int nvmlInit_v2(void)
{
    return (int)said("init", 0);
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
    *out = &gpu;
    return strncmp(bus, "0000:0", 6);
}

int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *mhz)
{
    *mhz = next_clock();
    return device != &gpu || which != 1;
}

int nvmlDeviceGetMaxClockInfo(void *device, unsigned which, unsigned *mhz)
{
    *mhz = (unsigned)said("most", 1980);
    return device != &gpu || which != 1;
}

int nvmlDeviceGetPersistenceMode(void *device, unsigned *on)
{
    *on = 1;
    return device != &gpu;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next)
{
    *now = (unsigned)said("mig", 0);
    *next = 1;
    return device != &gpu;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *up)
{
    *up = link % 2 == 0;
    return device != &gpu || link > 5;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *both)
{
    both[0] = (unsigned)said("busy", 0);
    both[1] = 99;
    return device != &gpu;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *why)
{
    *why = said("why", 0);
    return device != &gpu;
}
