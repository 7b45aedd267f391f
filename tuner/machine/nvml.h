/* What only NVIDIA's management library knows of a GPU.  It is loaded where it is there; nothing is
 * needed to build with it, and without it everything is unknown. */
#ifndef NVML_H
#define NVML_H

#include <stdbool.h>
#include <stdint.h>

struct nvml;

/* NULL where the library or the GPU (by its PCI bus id) is not there. */
struct nvml *nvml_open(const char *bus);
void nvml_close(struct nvml *nvml); /* NULL is fine */

/* -1: not known; a NULL library knows nothing. */
int nvml_clock_mhz(const struct nvml *nvml);     /* of the multiprocessors, now */
int nvml_clock_max_mhz(const struct nvml *nvml); /* what they may reach */
int nvml_persistence(const struct nvml *nvml);   /* 1: the driver stays loaded */
int nvml_mig(const struct nvml *nvml);           /* 1: cut into instances */
int nvml_links(const struct nvml *nvml);         /* NVLinks that are up */
int nvml_busy_percent(const struct nvml *nvml);  /* of the last moments */

/* Why the clock is below what it may reach now, of those reasons that come from heat or power:
 * "power", "heat", "hardware"; NULL: none, or not known. */
const char *nvml_throttled(const struct nvml *nvml);

#endif
