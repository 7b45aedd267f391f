/* What a rank computes and communicates with: a device, a wire, and one stream for each. */
#ifndef ENGINE_H
#define ENGINE_H

#include "device.h"
#include "wire.h"

struct world;

struct engine {
    struct device *device;
    struct wire *wire;
    struct stream *compute, *comm;
    struct event *begun, *joined, *ended; /* of a stretch; NULL where the host's clock times it */
    int64_t begun_ns;
    bool holds; /* see engine_hold_next() */
};

/* By the names of device_open() and wire_open() (NULL: the wire that suits).  Collective, the same
 * status on every rank.  Where it computes on cores these may become its own
 * (own_cores_bind()): who counts the machine's does so before. */
int engine_open(struct world *world, const char *device, const char *wire, struct engine *out);

/* On a device and a wire that are open; they are owned from here on, even on failure.  Local. */
int engine_open_on(struct device *device, struct wire *wire, struct engine *out);
void engine_close(struct engine *engine); /* a zeroed one is fine */

/* Memory of the device that exchanges may come into, of at least so many bytes: what a wire opens
 * to other ranks has no neighbours there. */
int engine_alloc(struct engine *engine, size_t bytes, void **out);

/* Releases memory of the device that exchanges came into, unless another rank may have it open for
 * ever.  NULL is fine. */
void engine_release(struct engine *engine, void *memory);

/* Waits for both streams; the first failure of either. */
int engine_sync(struct engine *engine);

/* A stretch is what both streams do between engine_begin() and the next engine_sync().  Where
 * kernels run without the host it lasts from an event that both wait for to one that waits for
 * both; else it is taken from the device's clock. */
int engine_begin(struct engine *engine);

/* The next stretch begins when the host says so: what it queues until then waits on the device, and
 * the stretch lasts from there.  The device goes on by itself after a while (stream_hold()): that
 * is UNSUPPORTED from engine_go().  To be followed by engine_begin(); and by engine_go(), whatever
 * fails, before engine_sync(). */
void engine_hold_next(struct engine *engine);
bool engine_holds(const struct engine *engine);
int engine_go(struct engine *engine);
int64_t engine_took_ns(const struct engine *engine); /* after the sync */

/* Where steps cannot be launched so (enum steps_are): ERR_ARGUMENT, with a sentence that says which
 * can. */
int engine_check_steps(const struct engine *engine, uint32_t steps_are);
int engine_refuse_steps(uint32_t steps_are, const char *kind,
                        const char *name); /* the "wire" or "device" that cannot */

/* Keeps what `issue` gives both streams, and runs nothing of it.  It must have run before.
 * graph_launch() on the stream `comm` is then as good as calling `issue`. */
int engine_capture(struct engine *engine, int (*issue)(void *self), void *self, struct graph **out);

/* Makes the device forget what it keeps of earlier steps; waits for it.  `cold` is memory of its
 * cache_bytes, or NULL. */
int engine_cool(struct engine *engine, void *cold);

#endif
