/* One device: memory, streams, events between streams, and kernels.  Each back end (host, cuda,
 * sim) implements these functions; the executor of a layer uses nothing else.
 *
 * A stream runs its work in order.  Streams run at the same time, and an event makes one wait for
 * another.  Functions that take a stream only enqueue work; the work may begin as late as the next
 * stream_sync() of any stream.  A stream stores its first failure, and stream_sync() returns it.
 * After a failure the stream skips its kernels; its events still happen, so that nobody waits for
 * ever. */
#ifndef DEVICE_H
#define DEVICE_H

#include "kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_ops;
struct marks;

/* An open device: the part that all back ends share, first member of each one's own struct.
 * device_close() frees it. */
struct device {
    const struct device_ops *ops;
    bool computes_f32; /* it computes in f32, whatever the storage type */
    bool asynchronous; /* kernels run without the host, so events time them */
    /* Size of a cache that repeated steps would find warm and a trainer's steps would not; 0: such
     * a cache does not matter, as on the host, whose ranks share theirs. */
    size_t cache_bytes;
    /* Experts run faster in blocks of so many rows, which stay in a cache from product to product;
     * 0: they do not. */
    uint32_t block_rows;
    bool modelled;            /* memory is only counted: nobody can fill, read or check it */
    uint64_t kernels, events; /* issued so far: kernels of kernels.h; records and waits */
};

/* A queue of work, run in order: first member of each back end's own struct.  stream_close() frees
 * it. */
struct stream {
    struct device *device;
    bool muted;          /* kernels and exchanges are dropped; events still happen */
    struct marks *marks; /* see marks_begin(); NULL: work is not marked */
    uint32_t purpose;    /* any number that marks store with the work; 0 at first */
};

/* A point in a stream, for which other streams can wait.  event_close() frees it. */
struct event {
    struct device *device;
    bool dated; /* it stores the time at which it happened */
};

/* Work of one or more streams that can be launched as one.  graph_close() frees it. */
struct graph {
    struct device *device;
    uint64_t nodes; /* number of kernels, copies and fills */
};

/* The functions of one back end; the functions below say what each does. */
struct device_ops {
    const char *name;
    void (*close)(struct device *device);
    int (*alloc)(struct device *device, size_t bytes, void **out);
    void (*release)(struct device *device, void *memory);
    int64_t (*free_bytes)(struct device *device);
    int (*upload)(struct device *device, void *to, const void *from_host, size_t bytes);
    int (*download)(struct device *device, void *to_host, const void *from, size_t bytes);
    int (*stream_open)(struct device *device, bool urgent, struct stream **out);
    void (*stream_close)(struct stream *stream);
    int (*stream_sync)(struct stream *stream);
    int (*event_open)(struct device *device, bool dated, struct event **out);
    void (*event_close)(struct event *event);
    int (*event_record)(struct event *event, struct stream *stream);
    int (*event_wait)(struct event *event, struct stream *stream);
    int64_t (*event_ns)(const struct event *event);
    int64_t (*now_ns)(struct device *device);
    int (*launch)(struct stream *stream, enum kernel kernel, const void *args, size_t bytes);
    int (*hold)(struct stream *stream); /* NULL: it cannot wait for the host */
    int (*end_hold)(struct device *device);
    int (*graph_begin)(struct stream *stream); /* NULL: it has no graphs */
    int (*graph_end)(struct stream *stream, struct graph **out);
    int (*graph_launch)(struct graph *graph, struct stream *stream);
    void (*graph_close)(struct graph *graph);
};

/* Opens a back end by name: "host" or "cuda".  ERR_ARGUMENT: this build has no such device; the
 * message lists what it has. */
int device_open(const char *name, struct device **out);
void device_close(struct device *device); /* NULL is fine */

/* The type in which this device computes data of type `storage`. */
uint32_t device_compute_type(const struct device *device, uint32_t storage);

/* Allocates memory that is aligned to 256 bytes and not cleared.  ERR_NOMEM: memory is short; the
 * device can still be used. */
int device_alloc(struct device *device, size_t bytes, void **out);
void device_release(struct device *device, void *memory); /* NULL is fine */

/* Free bytes of the device's memory, for all processes that share it; INT64_MAX if unknown. */
int64_t device_free_bytes(struct device *device);

/* Copies from the host's memory to the device, and back; both wait for the end. */
int device_upload(struct device *device, void *to, const void *from_host, size_t bytes);
int device_download(struct device *device, void *to_host, const void *from, size_t bytes);

int stream_open(struct device *device, struct stream **out);

/* Opens a stream whose work the device prefers, if it can choose.  Otherwise an exchange could wait
 * for a product that came later and fills the device. */
int stream_open_urgent(struct device *device, struct stream **out);

/* Waits for the queued work, and frees the stream.  NULL is fine. */
void stream_close(struct stream *stream);

/* Waits for the queued work, and returns the stream's first failure since the last sync. */
int stream_sync(struct stream *stream);

int event_open(struct device *device, struct event **out);

/* Opens an event that event_ns() can read.  On a GPU each record of it writes a timestamp, for
 * which a waiting stream would wait, too. */
int event_open_dated(struct device *device, struct event **out);
void event_close(struct event *event); /* NULL is fine */

/* Records the event behind the stream's queued work. */
int event_record(struct event *event, struct stream *stream);

/* Makes the stream wait for the latest record that was enqueued before this call; without a record
 * it does not wait. */
int event_wait(struct event *event, struct stream *stream);

/* When the latest record of a dated event happened, on the device's clock; valid after a sync. */
int64_t event_ns(const struct event *event);

/* The device's clock.  After a sync it is not earlier than the end of the synced work. */
int64_t device_now_ns(struct device *device);

/* Work that a stream gets after stream_hold() waits for device_end_hold(), but at most
 * HOLD_MOST_NS: a full queue would stop the host, and only the host can end the hold.  A device has
 * one hold at a time.  UNSUPPORTED from device_end_hold(): HOLD_MOST_NS had passed, and the work
 * had begun. */
enum { HOLD_MOST_NS = 50000000 };
bool device_can_hold(const struct device *device);
int stream_hold(struct stream *stream);
int device_end_hold(struct device *device);

/* From graph_begin() to graph_end(), the work of this stream is captured and does not run.  This
 * includes work of other streams that wait for an event of this one; this stream must wait for them
 * before the end.  In between nobody may allocate or sync, or wait for an earlier event.  A graph
 * can be launched many times, with the same addresses.  It must not run while it is closed. */
bool device_has_graphs(const struct device *device);
int graph_begin(struct stream *stream);
int graph_end(struct stream *stream, struct graph **out);
int graph_launch(struct graph *graph, struct stream *stream);
void graph_close(struct graph *graph); /* NULL is fine */

/* Enqueues a kernel; the `bytes` of its arguments are copied. */
int stream_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes);

/* Defines launch_gemm(stream, &(struct gemm){ ... }) and so on, one for each kernel. */
#define KERNEL_LAUNCHER(name)                                                                      \
    static inline int launch_##name(struct stream *stream, const struct name *args)                \
    {                                                                                              \
        return stream_launch(stream, KERNEL_##name, args, sizeof(*args));                          \
    }
KERNELS(KERNEL_LAUNCHER)
#undef KERNEL_LAUNCHER

/* ---- marks: an event behind each kernel and exchange of a stream, to find out where its time
 * goes. Without marks_begin() there are none, and they cost nothing. */

/* Kinds of work: a kernel (enum kernel), or an exchange inside a node or between nodes. */
enum { MARK_INSIDE = KERNEL_COUNT, MARK_BETWEEN, MARK_WORKS };

/* The end of one piece of work. */
struct mark {
    struct event *event;
    uint32_t work, purpose; /* kind of work; the stream's purpose when it was enqueued */
};

/* All marks of a stream.  list[0] is the beginning; list[1] to list[count] end pieces of work.
 * A zeroed value is fine; marks_close() frees the list. */
struct marks {
    struct mark *list;
    size_t count, room;
};

/* Begins to mark the stream's work, until marks_end().  Earlier marks are dropped; their events
 * stay open, so that the next marks need no allocation. */
int marks_begin(struct marks *marks, struct stream *stream);
void marks_end(struct stream *stream);
void marks_close(struct marks *marks); /* a zeroed one is fine */

/* Adds a mark behind the work that was just enqueued; nothing if the stream is not marked. */
int marks_add(struct stream *stream, uint32_t work);

/* The time of piece of work list[i], i > 0, including its waits.  Valid after a sync. */
int64_t marks_ns(const struct marks *marks, size_t i);

#endif
