/* What one device offers: memory, in-order streams, events between them, and kernels.
 *
 * A stream runs what it is given in order; different streams run at the same time; an event orders
 * them.  Everything that takes a stream only enqueues, and may start as late as the next
 * stream_sync() of any stream.  A failure inside a stream is kept there:
 * later kernels of that stream are skipped, its events still happen (so nobody waits for ever), and
 * stream_sync() returns it. */
#ifndef DEVICE_H
#define DEVICE_H

#include "kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_ops;
struct marks;

struct device {
    const struct device_ops *ops;
    bool computes_f32;   /* whatever the storage type */
    bool asynchronous;   /* kernels run without the host: a stretch is timed by events */
    size_t cache_bytes;  /* what repeated steps would find in a cache that a trainer's do not; 0: as
                          * on the host, whose ranks share theirs */
    uint32_t block_rows; /* experts are faster in blocks of so many rows, which stay in a cache from
                          * product to product; 0: they are not */
    bool modelled;       /* memory is only counted: nothing can be filled, read or checked */
    uint64_t kernels,
        events; /* issued so far: kernels by the names of kernels.h, records and waits */
};

struct stream {
    struct device *device;
    bool muted;          /* kernels and exchanges are dropped, events still happen */
    struct marks *marks; /* see below; NULL: none are made */
    uint32_t purpose;    /* of what is enqueued, for who reads the marks: any number, 0 at first */
};

struct event {
    struct device *device;
    bool dated; /* it knows when it happened */
};

/* Work of one or more streams, kept to be launched as one. */
struct graph {
    struct device *device;
    uint64_t nodes; /* kernels, copies and fills */
};

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
    int (*hold)(struct stream *stream); /* NULL: it cannot wait for the host, nor go() */
    int (*go)(struct device *device);
    int (*graph_begin)(struct stream *stream); /* NULL: it has no graphs, and none of these */
    int (*graph_end)(struct stream *stream, struct graph **out);
    int (*graph_launch)(struct graph *graph, struct stream *stream);
    void (*graph_close)(struct graph *graph);
};

/* Opens a back end by name: "host", "cuda".  ERR_ARGUMENT lists what there is. */
int device_open(const char *name, struct device **out);
void device_close(struct device *device);

/* The type in which `storage` data is computed on this device. */
uint32_t device_compute_type(const struct device *device, uint32_t storage);

/* ERR_NOMEM is a result, not a broken device. Memory is aligned to 256 bytes, not cleared. */
int device_alloc(struct device *device, size_t bytes, void **out);
void device_release(struct device *device, void *memory); /* NULL is fine */

/* What all processes that share its memory may still take together; INT64_MAX if it is not known.
 */
int64_t device_free_bytes(struct device *device);
int device_upload(struct device *device, void *to, const void *from_host, size_t bytes);
int device_download(struct device *device, void *to_host, const void *from, size_t bytes);

int stream_open(struct device *device, struct stream **out);
/* Its work goes first where the device can choose: an exchange would else wait until a product that
 * came later, and fills the device, has ended. */
int stream_open_urgent(struct device *device, struct stream **out);
void stream_close(struct stream *stream); /* NULL is fine; waits for what is queued */
int stream_sync(struct stream *stream);   /* the first failure since the last sync */

/* Orders streams.  Of a dated one event_ns() can be asked, too: on a GPU every record then writes a
 * timestamp, which a hand-over between two streams would wait for. */
int event_open(struct device *device, struct event **out);
int event_open_dated(struct device *device, struct event **out);
void event_close(struct event *event);

/* A wait refers to the latest record enqueued before it; without one it passes at once. */
int event_record(struct event *event, struct stream *stream);
int event_wait(struct event *event, struct stream *stream);

/* When the latest record of a dated event happened, on the device's clock; valid after a sync. */
int64_t event_ns(const struct event *event);

/* The device's clock, seen from the host: after a sync, not before what was synced ended. */
int64_t device_now_ns(struct device *device);

/* What the stream is given behind a hold waits until device_go() is called, or HOLD_MOST_NS have
 * passed: a queue that is full would else stop the host, who alone can say go.  A device has one
 * hold at a time.  UNSUPPORTED from device_go(): that much had passed, and the device had gone on.
 */
enum { HOLD_MOST_NS = 50000000 };
bool device_holds(const struct device *device);
int stream_hold(struct stream *stream);
int device_go(struct device *device);

/* From graph_begin() to graph_end() what the stream is given is kept and does not run; so is what
 * other streams are given that wait for an event of it, and that it waits for in the end.
 * Meanwhile nothing may be allocated, synced, or waited for that happened before.  Of the same
 * addresses the graph may be launched again and again.  It is closed while it does not run. */
bool device_has_graphs(const struct device *device);
int graph_begin(struct stream *stream);
int graph_end(struct stream *stream, struct graph **out);
int graph_launch(struct graph *graph, struct stream *stream);
void graph_close(struct graph *graph); /* NULL is fine */

int stream_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes);

/* launch_gemm(stream, &(struct gemm){ ... }) and so on: arguments are copied. */
#define KERNEL_LAUNCHER(name)                                                                      \
    static inline int launch_##name(struct stream *stream, const struct name *args)                \
    {                                                                                              \
        return stream_launch(stream, KERNEL_##name, args, sizeof(*args));                          \
    }
KERNELS(KERNEL_LAUNCHER)
#undef KERNEL_LAUNCHER

/* ---- marks: dates in a stream, after each kernel and exchange: where its time goes.  Nothing is
 * marked, and nothing costs anything, unless somebody asks. */

/* What a piece of work is: a kernel, or an exchange by whom it reaches. */
enum { MARK_INSIDE = KERNEL_COUNT, MARK_BETWEEN, MARK_WORKS };

struct mark {
    struct event *event;
    uint32_t work, purpose; /* of the stream when the work was enqueued */
};

/* list[0] is the beginning, list[1] to list[count] end pieces of work. */
struct marks {
    struct mark *list;
    size_t count, room;
};

/* From here to marks_end() the stream's work is marked; what was marked before is forgotten.  The
 * events stay, so that a second time allocates nothing. */
int marks_begin(struct marks *marks, struct stream *stream);
void marks_end(struct stream *stream);
void marks_close(struct marks *marks); /* a zeroed one is fine */

/* Behind what was just enqueued, if the stream is marked. */
int marks_add(struct stream *stream, uint32_t work);

/* How long the piece of work list[i] took, i > 0, and what it waited for.  After a sync. */
int64_t marks_ns(const struct marks *marks, size_t i);

#endif
