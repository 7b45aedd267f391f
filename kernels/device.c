/* The table of back ends, and what all of them share: muted streams, counts of kernels and events,
 * and marks. */
#include "device.h"

#ifdef MOETUNE_CUDA
#include "cuda.h"
#endif
#include "host.h"
#include "moelookup.h"
#include "status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*open)(struct device **out);
} backends[] = {
    { "host", host_open },
#ifdef MOETUNE_CUDA
    { "cuda", cuda_open },
#endif
};

int device_open(const char *name, struct device **out)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (!strcmp(backends[i].name, name))
            return backends[i].open(out);
    return fail(ERR_ARGUMENT, "this build has no device \"%s\": it has %s", name,
                sizeof(backends) > sizeof(backends[0])
                    ? "host and cuda"
                    : "host (for cuda, build moetune with a CUDA toolkit)");
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}

uint32_t device_compute_type(const struct device *device, uint32_t storage)
{
    return device->computes_f32 ? MOE_F32 : storage;
}

int device_alloc(struct device *device, size_t bytes, void **out)
{
    return device->ops->alloc(device, bytes, out);
}

void device_release(struct device *device, void *memory)
{
    if (memory)
        device->ops->release(device, memory);
}

int64_t device_free_bytes(struct device *device)
{
    return device->ops->free_bytes(device);
}

int device_upload(struct device *device, void *to, const void *from_host, size_t bytes)
{
    return device->ops->upload(device, to, from_host, bytes);
}

int device_download(struct device *device, void *to_host, const void *from, size_t bytes)
{
    return device->ops->download(device, to_host, from, bytes);
}

int stream_open(struct device *device, struct stream **out)
{
    return device->ops->stream_open(device, false, out);
}

int stream_open_urgent(struct device *device, struct stream **out)
{
    return device->ops->stream_open(device, true, out);
}

void stream_close(struct stream *stream)
{
    if (stream)
        stream->device->ops->stream_close(stream);
}

int stream_sync(struct stream *stream)
{
    return stream->device->ops->stream_sync(stream);
}

static int open_event(struct device *device, bool dated, struct event **out)
{
    TRY(device->ops->event_open(device, dated, out));
    (*out)->dated = dated;
    return OK;
}

int event_open(struct device *device, struct event **out)
{
    return open_event(device, false, out);
}

int event_open_dated(struct device *device, struct event **out)
{
    return open_event(device, true, out);
}

void event_close(struct event *event)
{
    if (event)
        event->device->ops->event_close(event);
}

int event_record(struct event *event, struct stream *stream)
{
    stream->device->events++;
    return stream->device->ops->event_record(event, stream);
}

int event_wait(struct event *event, struct stream *stream)
{
    stream->device->events++;
    return stream->device->ops->event_wait(event, stream);
}

int64_t event_ns(const struct event *event)
{
    assert(event->dated);
    return event->device->ops->event_ns(event);
}

int64_t device_now_ns(struct device *device)
{
    return device->ops->now_ns(device);
}

bool device_can_hold(const struct device *device)
{
    return device->ops->hold != NULL;
}

int stream_hold(struct stream *stream)
{
    return stream->device->ops->hold(stream);
}

int device_end_hold(struct device *device)
{
    return device->ops->end_hold(device);
}

bool device_has_graphs(const struct device *device)
{
    return device->ops->graph_begin != NULL;
}

int graph_begin(struct stream *stream)
{
    return stream->device->ops->graph_begin(stream);
}

int graph_end(struct stream *stream, struct graph **out)
{
    return stream->device->ops->graph_end(stream, out);
}

int graph_launch(struct graph *graph, struct stream *stream)
{
    stream->device->kernels++;
    return stream->device->ops->graph_launch(graph, stream);
}

void graph_close(struct graph *graph)
{
    if (graph)
        graph->device->ops->graph_close(graph);
}

int stream_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    if (stream->muted)
        return OK;
    stream->device->kernels++;
    TRY(stream->device->ops->launch(stream, kernel, args, bytes));
    return marks_add(stream, kernel);
}

/* ---- marks */

static int record_mark(struct marks *marks, struct stream *stream, size_t i)
{
    struct mark *mark;

    if (i == marks->room) {
        size_t new_room = marks->room ? 2 * marks->room : 64;
        struct mark *grown = realloc(marks->list, new_room * sizeof(*grown));

        if (!grown)
            return fail(ERR_NOMEM, "%zu marks", new_room);
        for (size_t j = marks->room; j < new_room; j++)
            grown[j] = (struct mark){ 0 };
        marks->list = grown;
        marks->room = new_room;
    }
    mark = &marks->list[i];
    if (!mark->event)
        TRY(event_open_dated(stream->device, &mark->event));
    return event_record(mark->event, stream);
}

int marks_begin(struct marks *marks, struct stream *stream)
{
    marks->count = 0;
    TRY(record_mark(marks, stream, 0));
    stream->marks = marks;
    stream->purpose = 0;
    return OK;
}

void marks_end(struct stream *stream)
{
    stream->marks = NULL;
}

void marks_close(struct marks *marks)
{
    for (size_t i = 0; i < marks->room; i++)
        event_close(marks->list[i].event);
    free(marks->list);
    *marks = (struct marks){ 0 };
}

int marks_add(struct stream *stream, uint32_t work)
{
    struct marks *marks = stream->marks;

    if (!marks)
        return OK;
    TRY(record_mark(marks, stream, marks->count + 1));
    marks->count++;
    marks->list[marks->count].work = work;
    marks->list[marks->count].purpose = stream->purpose;
    return OK;
}

int64_t marks_ns(const struct marks *marks, size_t i)
{
    return event_ns(marks->list[i].event) - event_ns(marks->list[i - 1].event);
}
