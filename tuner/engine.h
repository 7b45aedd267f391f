/* What a rank computes and communicates with: a device, a wire, and one stream for each. */
#ifndef ENGINE_H
#define ENGINE_H

#include "device.h"
#include "wire.h"

struct engine {
    struct device *device;
    struct wire *wire; /* borrowed */
    struct stream *compute, *comm;
};

/* The wire is borrowed; the device is owned. */
int engine_open(const char *name, struct wire *wire, struct engine *out);

/* On a device that is open; it is owned from here on, even on failure. */
int engine_open_on(struct device *device, struct wire *wire, struct engine *out);
void engine_close(struct engine *engine);

/* Waits for both streams; the first failure of either. */
int engine_sync(struct engine *engine);

#endif
