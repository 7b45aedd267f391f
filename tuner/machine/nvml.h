/* Reads what only NVIDIA's management library (NVML) knows of a GPU.  The library is loaded at run
 * time where it exists, so the build needs nothing of it.  Without it everything is unknown. */
#ifndef NVML_H
#define NVML_H

#include <stdbool.h>
#include <stdint.h>

/* The loaded library and one GPU.  The caller closes it. */
struct nvml;

/* Opens the GPU with this PCI bus id.  NULL where the library or the GPU does not exist. */
struct nvml *nvml_open(const char *bus);
void nvml_close(struct nvml *nvml); /* NULL is fine */

/* Each function reads one number of the GPU now.  -1: not known, as always for NULL. */
int nvml_clock_mhz(const struct nvml *nvml);     /* of the multiprocessors, now */
int nvml_clock_max_mhz(const struct nvml *nvml); /* the most that they may reach */
int nvml_persistence(const struct nvml *nvml);   /* 1: the driver stays loaded */
int nvml_mig(const struct nvml *nvml);           /* 1: split into instances */
int nvml_links(const struct nvml *nvml);         /* NVLinks that are up */
int nvml_busy_percent(const struct nvml *nvml);  /* over about the last second */

/* Why the clock is held below its maximum now: "power", "heat" or "hardware".  NULL: none of these
 * reasons, or not known. */
const char *nvml_throttled(const struct nvml *nvml);

#endif
