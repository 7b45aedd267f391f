/* A device made of dates. */
#include "sim.h"

#include "status.h"

#include <stdlib.h>

struct sim_device {
    struct device base;
    const struct sim_costs *costs;
    uintptr_t next; /* addresses are handed out, never touched */
    int64_t now_ns; /* the latest date any sync has seen */
};

struct sim_stream {
    struct stream base;
    int64_t free_ns;
};

struct sim_event {
    struct event base;
    int64_t when_ns;
};

int64_t sim_stream_ns(const struct stream *stream)
{
    return ((const struct sim_stream *)stream)->free_ns;
}

void sim_pass(struct stream *stream, int64_t ns)
{
    if (!stream->muted)
        ((struct sim_stream *)stream)->free_ns += ns;
}

static int sim_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    const struct sim_costs *costs = ((struct sim_device *)stream->device)->costs;

    (void)bytes;
    sim_pass(stream, costs->kernel_ns(costs, kernel, args));
    return OK;
}

static int sim_event_record(struct event *event, struct stream *stream)
{
    ((struct sim_event *)event)->when_ns = sim_stream_ns(stream);
    return OK;
}

static int sim_event_wait(struct event *event, struct stream *stream)
{
    int64_t when = ((struct sim_event *)event)->when_ns;
    struct sim_stream *s = (struct sim_stream *)stream;

    if (when > s->free_ns)
        s->free_ns = when;
    return OK;
}

static int64_t sim_event_ns(const struct event *event)
{
    return ((const struct sim_event *)event)->when_ns;
}

static int sim_event_open(struct device *device, struct event **out)
{
    struct sim_event *event = calloc(1, sizeof(*event));

    if (!event)
        return fail(ERR_NOMEM, "an event");
    event->base.device = device;
    *out = &event->base;
    return OK;
}

static void sim_event_close(struct event *event)
{
    free(event);
}

static int sim_stream_open(struct device *device, struct stream **out)
{
    struct sim_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return fail(ERR_NOMEM, "a stream");
    stream->base.device = device;
    stream->free_ns = ((struct sim_device *)device)->now_ns;
    *out = &stream->base;
    return OK;
}

static void sim_stream_close(struct stream *stream)
{
    free(stream);
}

static int sim_stream_sync(struct stream *stream)
{
    struct sim_device *device = (struct sim_device *)stream->device;

    if (sim_stream_ns(stream) > device->now_ns)
        device->now_ns = sim_stream_ns(stream);
    return OK;
}

static int sim_alloc(struct device *device, size_t bytes, void **out)
{
    struct sim_device *sim = (struct sim_device *)device;

    *out = (void *)sim->next;
    sim->next += (bytes + 511) & ~(size_t)255;
    return OK;
}

static void sim_release(struct device *device, void *memory)
{
    (void)device, (void)memory;
}

static int sim_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device, (void)to, (void)from, (void)bytes;
    return OK;
}

static void sim_close(struct device *device)
{
    free(device);
}

static const struct device_ops sim_ops = {
    .name = "sim",
    .close = sim_close,
    .alloc = sim_alloc,
    .release = sim_release,
    .upload = sim_copy,
    .download = sim_copy,
    .stream_open = sim_stream_open,
    .stream_close = sim_stream_close,
    .stream_sync = sim_stream_sync,
    .event_open = sim_event_open,
    .event_close = sim_event_close,
    .event_record = sim_event_record,
    .event_wait = sim_event_wait,
    .event_ns = sim_event_ns,
    .launch = sim_launch,
};

int sim_open(const struct sim_costs *costs, struct device **out)
{
    struct sim_device *device = calloc(1, sizeof(*device));

    if (!device)
        return fail(ERR_NOMEM, "a device");
    device->base.ops = &sim_ops;
    device->base.computes_f32 = false;
    device->costs = costs;
    device->next = 4096;
    *out = &device->base;
    return OK;
}
