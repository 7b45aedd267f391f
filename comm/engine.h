/* What a rank computes and communicates with: a device, a wire, and one stream for each.  A stretch
 * is the work of both streams between engine_begin() and the next engine_sync(); its time is a
 * step's time. */
#ifndef ENGINE_H
#define ENGINE_H

#include "device.h"
#include "wire.h"

struct world;

/* A rank's engine.  Whole after engine_open() or engine_open_on(); it owns all that it points to,
 * until engine_close(). */
struct engine {
    struct device *device;
    struct wire *wire;
    struct stream *compute, *comm;
    struct event *begun, *joined, *ended; /* of a stretch; NULL where the host's clock times it */
    int64_t begun_ns;
    bool holds; /* see engine_hold_next() */
};

/* Opens device and wire by name, as device_open() and wire_open() do (wire NULL: the first that
 * applies).  Collective, the same status on every rank.  On device host it may bind the rank to
 * cores (own_cores_bind()), so a caller that counts the machine's cores must do so before. */
int engine_open(struct world *world, const char *device, const char *wire, struct engine *out);

/* Makes an engine of an open device and an open wire.  It owns both from here on, even on failure.
 * Local: no other rank is involved. */
int engine_open_on(struct device *device, struct wire *wire, struct engine *out);
void engine_close(struct engine *engine); /* a zeroed one is fine */

/* Allocates at least `bytes` of device memory that exchanges may write to.  It shares no block of
 * the driver with other memory, because a wire may open the whole block to other ranks. */
int engine_alloc(struct engine *engine, size_t bytes, void **out);

/* Frees memory of engine_alloc().  Where another rank may keep it open for ever, it stays
 * allocated.  NULL is fine. */
void engine_release(struct engine *engine, void *memory);

/* Waits for both streams; gives the first failure of either. */
int engine_sync(struct engine *engine);

/* Begins a stretch.  On an asynchronous device, the stretch lasts from an event that both streams
 * wait for to an event that waits for both; on others, the host's clock times it. */
int engine_begin(struct engine *engine);

/* Makes the next stretch wait on the device until engine_end_hold(), so that the host can queue the
 * whole step first.  The stretch's time begins at engine_end_hold().  The device goes on by itself
 * after a while (stream_hold()); engine_end_hold() then gives UNSUPPORTED.  The caller must call
 * engine_begin() next, and engine_end_hold() before engine_sync(), whatever fails in between. */
void engine_hold_next(struct engine *engine);
/* True from engine_hold_next() to engine_end_hold(). */
bool engine_is_holding(const struct engine *engine);
int engine_end_hold(struct engine *engine);

/* How long the last stretch lasted; to be called after engine_sync(). */
int64_t engine_elapsed_ns(const struct engine *engine);

/* OK where this engine can launch steps in this way (enum steps_are); else ERR_ARGUMENT, and the
 * message of engine_refuse_steps(). */
int engine_check_steps(const struct engine *engine, uint32_t steps_are);

/* Always ERR_ARGUMENT, with a message that names what cannot launch steps so, and what can.  `kind`
 * is "wire" or "device". */
int engine_refuse_steps(uint32_t steps_are, const char *kind, const char *name);

/* Captures what `issue` enqueues on both streams as a graph, and runs nothing of it.  `issue` must
 * have run once before.  graph_launch() on the stream `comm` then does what `issue` does. */
int engine_capture(struct engine *engine, int (*issue)(void *self), void *self, struct graph **out);

/* Empties the device's cache by overwriting `cold`, memory of its cache_bytes, and waits.  NULL:
 * does nothing. */
int engine_cool(struct engine *engine, void *cold);

#endif
