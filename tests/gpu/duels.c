#include "duels.h"

#include "rivals.h"

#include "moelookup.h"
#include "random.h"
#include "status.h"

enum { TAKEN = 32, SEED_BYTES = 64 << 20, DENSE = 8192 };

struct device *duel_device;
struct stream *duel_stream;

static struct {
    struct event *begin, *end;
    void *taken[TAKEN];
    int taken_count;
    void *seed;           /* random values in bf16 */
    char *from, *to;      /* of the copy */
    size_t copy_capacity; /* of each */
    struct work dense;
    FILE *json;
    long json_end; /* of its last row */
    bool below, any;
} b;

static struct {
    struct work *ours, *theirs;
} duel;

void must(int status)
{
    if (status) {
        printf("bench_cuda: status %d\n", status);
        exit(1);
    }
}

/* ---- Memory */

void *take(uint64_t bytes)
{
    void *memory;

    if (b.taken_count == TAKEN)
        must(fail(ERR_NOMEM, "%d buffers are not enough", TAKEN));
    must(device_alloc(duel_device, bytes, &memory));
    return b.taken[b.taken_count++] = memory;
}

void give_all(void)
{
    while (b.taken_count)
        device_release(duel_device, b.taken[--b.taken_count]);
}

static void seed_make(void)
{
    uint16_t *values = malloc(SEED_BYTES);

    for (uint64_t i = 0; i < SEED_BYTES / 2; i++) {
        float x = random_unit(6, i);

        row_store(MOE_BF16, values, i, &x, 1);
    }
    must(device_alloc(duel_device, SEED_BYTES, &b.seed));
    must(device_upload(duel_device, b.seed, values, SEED_BYTES));
    free(values);
}

void *taken_random(uint64_t elements)
{
    uint64_t bytes = elements * 2;
    char *memory = take(bytes);

    for (uint64_t at = 0; at < bytes; at += SEED_BYTES)
        must(CUDA(cudaMemcpyAsync(memory + at, b.seed,
                                  bytes - at < SEED_BYTES ? bytes - at : SEED_BYTES,
                                  cudaMemcpyDeviceToDevice, cuda_stream(duel_stream))));
    must(stream_sync(duel_stream));
    return memory;
}

bool fits(const char *what, const char *shape, uint64_t bytes)
{
    size_t free_bytes, total_bytes;

    must(CUDA(cudaMemGetInfo(&free_bytes, &total_bytes)));
    if (bytes < free_bytes / 20 * 19)
        return true;
    printf("%-22s %-12s skipped: wants %.1f GiB, %.1f are free\n", what, shape,
           (double)bytes * 0x1p-30, (double)free_bytes * 0x1p-30);
    return false;
}

/* ---- Timing */

static void enqueue(const struct work *w)
{
    cudaStream_t stream = cuda_stream(duel_stream);

    if (w->graph)
        must(CUDA(cudaGraphLaunch(w->graph, stream)));
    if (w->copy_bytes)
        must(CUDA(cudaMemcpyAsync(b.to, b.from, w->copy_bytes, cudaMemcpyDeviceToDevice, stream)));
    for (int i = 0; i < w->count; i++)
        must(stream_launch(duel_stream, w->steps[i].kernel, &w->steps[i].args, w->steps[i].bytes));
}

int64_t timed_work(const struct work *w)
{
    must(event_record(b.begin, duel_stream));
    enqueue(w);
    must(event_record(b.end, duel_stream));
    must(stream_sync(duel_stream));
    return event_ns(b.end) - event_ns(b.begin);
}

static int64_t time_ours(void *self)
{
    (void)self;
    return timed_work(duel.ours);
}

static int64_t time_theirs(void *self)
{
    (void)self;
    return timed_work(duel.theirs);
}

/* ---- Results */

void report(const char *what, const char *shape, double us, double rate, const char *unit,
            double share, double low, double high, double wanted)
{
    bool enough = wanted == 0 || high >= wanted; /* what noise may have hidden is no failure */
    char goal[320] = ""; /* any double */

    if (wanted > 0)
        snprintf(goal, sizeof(goal), "%.2f", wanted);
    printf("%-22s %-12s %10.1f us %9.1f %-8s %6.3f [%.3f, %.3f]  %5s %s\n", what, shape, us, rate,
           unit, share, low, high, goal, enough ? "" : "BELOW");
    if (b.json) {
        fseek(b.json, b.json_end, SEEK_SET);
        fprintf(b.json,
                "%s\n  {\"what\": \"%s\", \"shape\": \"%s\", \"us\": %.3f, \"rate\": %.3f, "
                "\"unit\": \"%s\", \"share\": %.4f, \"low\": %.4f, \"high\": %.4f, "
                "\"wanted\": %.2f}",
                b.any ? "," : "", what, shape, us, rate, unit, share, low, high, wanted);
        b.json_end = ftell(b.json);
        fputs("\n]\n", b.json);
        fflush(b.json); /* with the end, in one piece: it is whole whenever somebody kills this */
    }
    b.any = true;
    b.below |= !enough;
}

void against_copy(const char *what, const char *shape, struct work *ours, uint64_t moved,
                  double wanted)
{
    struct work copy = { .copy_bytes = moved / 2 / 256 * 256 };
    struct rivals r;

    if (copy.copy_bytes > b.copy_capacity)
        copy.copy_bytes = b.copy_capacity;
    duel.ours = ours;
    duel.theirs = &copy;
    r = rivals_run(time_ours, time_theirs, NULL);
    /* A copy that was cut short counts by its rate. */
    double scale = (double)moved / (2.0 * (double)copy.copy_bytes);
    report(what, shape, r.ours_ns * 1e-3, (double)moved / r.ours_ns, "GB/s", scale / r.ratio,
           scale / r.high, scale / r.low, wanted);
}

void against_dense(const char *what, const char *shape, struct work *ours, double flops,
                   double wanted)
{
    double scale = flops / (2.0 * DENSE * DENSE * (double)DENSE);
    struct rivals r;

    duel.ours = ours;
    duel.theirs = &b.dense;
    r = rivals_run(time_ours, time_theirs, NULL);
    report(what, shape, r.ours_ns * 1e-3, flops / r.ours_ns * 1e-3, "TFLOP/s", scale / r.ratio,
           scale / r.high, scale / r.low, wanted);
}

void against_others(const char *what, const char *shape, struct work *ours, struct work *theirs,
                    double flops)
{
    struct rivals r;

    duel.ours = ours;
    duel.theirs = theirs;
    r = rivals_run(time_ours, time_theirs, NULL);
    report(what, shape, r.ours_ns * 1e-3, flops / r.ours_ns * 1e-3, "TFLOP/s", 1 / r.ratio,
           1 / r.high, 1 / r.low, 0);
}

/* ---- Begin and end */

static void ceilings(void)
{
    uint64_t n = (uint64_t)DENSE * DENSE;
    struct work copy = { .copy_bytes = b.copy_capacity };

    STEP(&b.dense, gemm,
         (struct gemm){ .dtype = MOE_BF16,
                        .batch = 1,
                        .m = DENSE,
                        .n = DENSE,
                        .k = DENSE,
                        .a = taken_random(n),
                        .b = taken_random(n),
                        .c = take(n * 2) });
    b.taken_count = 0; /* kept for the others */
    /* Half a second of products: what follows runs at the clock that lasts. */
    for (int i = 0; i < 400; i++)
        enqueue(&b.dense);
    against_copy("copy against itself", "1 GiB", &copy, 2 * copy.copy_bytes, 0);
    against_dense("8192^3 against itself", "dense", &b.dense, 2.0 * (double)n * DENSE, 0);
}

void duels_begin(const char *json_path)
{
    void *memory;

    must(device_open("cuda", &duel_device));
    must(stream_open(duel_device, &duel_stream));
    must(event_open_dated(duel_device, &b.begin));
    must(event_open_dated(duel_device, &b.end));
    b.copy_capacity = (size_t)1 << 30;
    must(device_alloc(duel_device, b.copy_capacity, &memory));
    b.from = memory;
    must(device_alloc(duel_device, b.copy_capacity, &memory));
    b.to = memory;
    seed_make();
    b.json = json_path ? fopen(json_path, "w") : NULL;
    if (b.json)
        fputs("[", b.json);
    b.json_end = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%-22s %-12s %13s %18s %6s %-16s %5s\n", "what", "shape", "median", "rate", "share",
           " 95 % interval", "goal");
    ceilings();
}

int duels_end(void)
{
    if (b.json)
        fclose(b.json);
    return b.below ? 3 : 0;
}
