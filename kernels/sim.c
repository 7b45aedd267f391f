/* A device on a virtual clock: each stream has the time until which it is busy. */
#include "sim.h"

#include "fault.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_INTERVALS = 128, DRIFT_STEPS = 700, DRIFT_MEMORY_STEPS = 300, OUTLIER_FACTOR = 3 };

/* A stretch of time in which a stream works. */
struct busy_interval {
    int64_t begin_ns, end_ns;
    double weight;
};

struct allocation {
    struct allocation *next;
    uintptr_t address;
    size_t bytes;
};

/* An open device of this kind; sim_close() frees it. */
struct sim_device {
    struct device base;
    const struct sim_costs *costs;
    struct sim_stream *streams;
    struct allocation *allocations;
    uintptr_t next_address; /* to give out; nobody reads or writes there */
    uint64_t used_bytes;
    int64_t now_ns, step_ns; /* latest time of any sync; beginning of this step */
    uint64_t step, launch;
    bool step_is_set;    /* by sim_set_step() */
    double factor;       /* noise of this step */
    double drift_state;  /* random part of the drift, of deviation 1 */
    uint64_t drift_step; /* the step of drift_state */
};

struct sim_stream {
    struct stream base;
    struct sim_stream *next;
    int64_t free_ns;
    struct busy_interval busy[BUSY_INTERVALS]; /* of this step, ascending, without overlap */
    int busy_count;
};

struct sim_event {
    struct event base;
    int64_t when_ns;
};

int64_t sim_stream_ns(const struct stream *stream)
{
    return ((const struct sim_stream *)stream)->free_ns;
}

/* A random number, uniform in (0, 1). */
static double uniform(uint64_t seed, uint64_t index)
{
    return ((double)(random_bits(seed, index) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t seed, uint64_t index)
{
    double radius = sqrt(-2 * log(uniform(seed, 2 * index)));

    return radius * cos(2 * M_PI * uniform(seed, 2 * index + 1));
}

/* The drift of this step, of deviation 1: a sine and an autoregressive random part, of equal
 * weight. */
static double draw_drift(struct sim_device *device, uint64_t seed)
{
    double phase = uniform(seed, 0) + (double)(device->step % DRIFT_STEPS) / DRIFT_STEPS;
    uint64_t step = device->drift_step + 1;

    /* The random part depends on all earlier steps.  It is computed step by step, from the first
     * step again if this step is not later than the last one. */
    if (device->step < device->drift_step || !device->drift_step)
        step = 0;
    for (; step <= device->step; step++) {
        double kept = step ? exp(-1.0 / DRIFT_MEMORY_STEPS) : 0;

        device->drift_state =
            kept * device->drift_state + sqrt(1 - kept * kept) * normal(seed + 1, step);
        device->drift_step = step;
    }
    return sin(2 * M_PI * phase) + M_SQRT1_2 * device->drift_state;
}

static void draw_factor(struct sim_device *device)
{
    const struct sim_noise *noise = &device->costs->noise;
    uint64_t seed = random_bits(noise->seed, 0);

    device->factor = 1;
    if (noise->sigma > 0)
        device->factor *= exp(noise->sigma * normal(seed, device->step));
    if (noise->drift > 0)
        device->factor *= exp(noise->drift * draw_drift(device, seed + 1));
    if (noise->outlier_share > 0 && uniform(seed + 3, device->step) < noise->outlier_share)
        device->factor *= OUTLIER_FACTOR;
    if (noise->launch > 0)
        device->factor *= exp(noise->launch * normal(seed + 4, device->launch));
}

/* The largest weight of the other streams' work at now_ns (0: all idle); *until_ns is the time at
 * which this may change. */
static double others_weight(const struct sim_stream *stream, int64_t now_ns, int64_t *until_ns)
{
    const struct sim_device *device = (const struct sim_device *)stream->base.device;
    double weight = 0;

    *until_ns = INT64_MAX;
    for (const struct sim_stream *s = device->streams; s; s = s->next) {
        int i = 0;

        if (s == stream)
            continue;
        while (i < s->busy_count && s->busy[i].end_ns <= now_ns)
            i++;
        if (i == s->busy_count)
            continue;
        if (s->busy[i].begin_ns <= now_ns) {
            weight = fmax(weight, s->busy[i].weight);
            *until_ns = s->busy[i].end_ns < *until_ns ? s->busy[i].end_ns : *until_ns;
        } else {
            *until_ns = s->busy[i].begin_ns < *until_ns ? s->busy[i].begin_ns : *until_ns;
        }
    }
    return weight;
}

/* When `work_ns` of work that begins at now_ns is done, slowed beside other streams' work. */
static int64_t slowed_end(const struct sim_stream *stream, int64_t now_ns, int64_t work_ns,
                          double slowdown)
{
    double left_ns = (double)work_ns;

    for (;;) {
        int64_t until_ns;
        double pace = 1 + slowdown * others_weight(stream, now_ns, &until_ns);

        if (until_ns == INT64_MAX || left_ns * pace <= (double)(until_ns - now_ns))
            return now_ns + llround(left_ns * pace);
        left_ns -= (double)(until_ns - now_ns) / pace;
        now_ns = until_ns;
    }
}

static void add_busy(struct sim_stream *stream, struct busy_interval busy)
{
    struct busy_interval *last = stream->busy + stream->busy_count - 1;

    if (stream->busy_count && last->end_ns == busy.begin_ns && last->weight == busy.weight) {
        last->end_ns = busy.end_ns;
        return;
    }
    if (stream->busy_count == BUSY_INTERVALS) {
        /* Drop the oldest: work that is queued later hardly ever overlaps it. */
        memmove(stream->busy, stream->busy + 1, sizeof(stream->busy) - sizeof(*stream->busy));
        stream->busy_count--;
    }
    stream->busy[stream->busy_count++] = busy;
}

void sim_pass(struct stream *base, int64_t ns, double weight)
{
    struct sim_stream *stream = (struct sim_stream *)base;
    const struct sim_device *device = (const struct sim_device *)base->device;
    double slowdown = device->costs->overlap_slowdown;
    int64_t begin_ns = stream->free_ns, work_ns = ns;

    if (base->muted || ns <= 0)
        return;
    if (device->factor != 1)
        work_ns = llround((double)ns * device->factor);
    stream->free_ns += work_ns;
    if (slowdown > 0) {
        stream->free_ns = slowed_end(stream, begin_ns, work_ns, slowdown * weight);
        add_busy(stream, (struct busy_interval){ begin_ns, stream->free_ns, weight });
    }
}

static int sim_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    const struct sim_costs *costs = ((struct sim_device *)stream->device)->costs;

    (void)bytes;
    sim_pass(stream, costs->kernel_ns(costs, kernel, args), 1);
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

static int sim_event_open(struct device *device, bool dated, struct event **out)
{
    struct sim_event *event = calloc(1, sizeof(*event));

    (void)dated; /* all are */
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

static int sim_stream_open(struct device *device, bool urgent, struct stream **out)
{
    struct sim_device *sim = (struct sim_device *)device;
    struct sim_stream *stream = calloc(1, sizeof(*stream));

    (void)urgent;
    if (!stream)
        return fail(ERR_NOMEM, "a stream");
    stream->base.device = device;
    stream->free_ns = sim->now_ns;
    stream->next = sim->streams;
    sim->streams = stream;
    *out = &stream->base;
    return OK;
}

static void sim_stream_close(struct stream *base)
{
    struct sim_stream *stream = (struct sim_stream *)base;
    struct sim_stream **link = &((struct sim_device *)base->device)->streams;

    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    free(stream);
}

void sim_set_step(struct device *base, uint64_t number)
{
    struct sim_device *device = (struct sim_device *)base;

    device->step_is_set = true;
    device->step = number;
    draw_factor(device);
}

void sim_set_launch(struct device *base, uint64_t number)
{
    struct sim_device *device = (struct sim_device *)base;

    device->launch = number;
    draw_factor(device);
}

static int sim_stream_sync(struct stream *stream)
{
    struct sim_device *device = (struct sim_device *)stream->device;

    if (sim_stream_ns(stream) > device->now_ns)
        device->now_ns = sim_stream_ns(stream);
    for (const struct sim_stream *s = device->streams; s; s = s->next)
        if (s->free_ns > device->now_ns)
            return OK;
    if (device->now_ns <= device->step_ns)
        return OK;
    /* No stream has work left: the next step begins. */
    for (struct sim_stream *s = device->streams; s; s = s->next) {
        s->free_ns = device->now_ns;
        s->busy_count = 0;
    }
    device->step_ns = device->now_ns;
    if (!device->step_is_set) {
        device->step++;
        draw_factor(device);
    }
    return OK;
}

static int64_t sim_now_ns(struct device *device)
{
    return ((const struct sim_device *)device)->now_ns;
}

/* The device's memory; without a limit, more than anybody allocates. */
static uint64_t memory_bytes(const struct sim_device *device)
{
    return device->costs->memory_bytes ? device->costs->memory_bytes : UINT64_MAX / 4;
}

static int64_t sim_free_bytes(struct device *base)
{
    const struct sim_device *device = (const struct sim_device *)base;

    return (int64_t)(memory_bytes(device) - device->used_bytes);
}

static int sim_alloc(struct device *base, size_t bytes, void **out)
{
    struct sim_device *device = (struct sim_device *)base;
    uint64_t limit = memory_bytes(device);
    struct allocation *allocation;

    if (fault_hit("alloc"))
        return fail(ERR_NOMEM, "%zu bytes of modelled memory (injected)", bytes);
    if (bytes > limit || device->used_bytes > limit - bytes)
        return fail(ERR_NOMEM, "%zu bytes of modelled memory: %llu of %llu are in use", bytes,
                    (unsigned long long)device->used_bytes, (unsigned long long)limit);
    allocation = malloc(sizeof(*allocation));
    if (!allocation)
        return fail(ERR_NOMEM, "a record of modelled memory");
    *allocation = (struct allocation){ device->allocations, device->next_address, bytes };
    device->allocations = allocation;
    device->next_address += (bytes + 511) & ~(size_t)255; /* aligned, with a gap */
    device->used_bytes += bytes;
    *out = (void *)allocation->address;
    return OK;
}

static void sim_release(struct device *base, void *memory)
{
    struct sim_device *device = (struct sim_device *)base;
    struct allocation **link = &device->allocations, *found;

    while (*link && (*link)->address != (uintptr_t)memory)
        link = &(*link)->next;
    found = *link;
    if (!found)
        return;
    *link = found->next;
    device->used_bytes -= found->bytes;
    free(found);
}

static int sim_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device, (void)to, (void)from, (void)bytes;
    return OK;
}

static void sim_close(struct device *base)
{
    struct sim_device *device = (struct sim_device *)base;

    while (device->allocations)
        sim_release(base, (void *)device->allocations->address);
    if (device->costs->close)
        device->costs->close(device->costs);
    free(device);
}

static const struct device_ops sim_ops = {
    .name = "sim",
    .close = sim_close,
    .alloc = sim_alloc,
    .release = sim_release,
    .free_bytes = sim_free_bytes,
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
    .now_ns = sim_now_ns,
    .launch = sim_launch,
};

int sim_open(const struct sim_costs *costs, struct device **out)
{
    struct sim_device *device = calloc(1, sizeof(*device));

    if (!device)
        return fail(ERR_NOMEM, "a device");
    device->base.ops = &sim_ops;
    device->base.computes_f32 = false;
    device->base.modelled = true;
    device->costs = costs;
    device->next_address = 4096;
    draw_factor(device);
    *out = &device->base;
    return OK;
}
