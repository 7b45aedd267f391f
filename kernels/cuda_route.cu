/* The gate: a warp picks a token's experts, then slots are given in the host's order.
 *
 * Slots go to choices in the order (j, token).  That order is cut into ranges, one per warp: each
 * counts its experts, a scan over ranges says where each range begins, and each range then hands
 * out its slots in order. */
#include "cuda_rows.cuh"

static const uint32_t window_experts = 8192; /* counted at a time, over the warps of a block */
static const uint64_t range_choices = 128;   /* the least a warp takes */
static const uint64_t ranges_wanted = 512;

/* ---- Choosing */

/* Orders floats as unsigned numbers; above 0 for every float.  -0 is 0; what is no number comes
 * last. */
DEVICE uint32_t key_of(float x)
{
    uint32_t bits = __float_as_uint(x + 0.0f);

    if (x != x)
        return 1;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float key_float(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* A lane's logits: lane, lane + 32, ...; HELD of them in registers, or read again each time. */
template <int HELD> struct logits {
    const float *row;
    uint32_t experts;
    uint32_t key[HELD ? HELD : 1];

    __device__ __forceinline__ logits(const float *from, uint32_t n) : row(from), experts(n)
    {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            uint32_t e = threadIdx.x % WARP + i * WARP;

            key[i] = e < experts ? key_of(row[e]) : 0;
        }
    }
    /* Calls body(expert, key) in ascending order. */
    template <class Body> __device__ __forceinline__ void each(const Body &body) const
    {
        if (HELD) {
#pragma unroll
            for (int i = 0; i < HELD; i++)
                body(threadIdx.x % WARP + i * WARP, key[i]);
        } else {
            for (uint32_t e = threadIdx.x % WARP; e < experts; e += WARP)
                body(e, key_of(row[e]));
        }
    }
};

/* The best that comes after (key, expert) in descending order, ties by the lowest expert: what was
 * taken need not be remembered. */
template <int HELD> DEVICE void next_best(const logits<HELD> &mine, uint32_t &key, uint32_t &expert)
{
    uint32_t best = 0, at = 0xffffffffu, most;

    mine.each([&](uint32_t e, uint32_t k) {
        bool after = k < key || (k == key && e > expert);

        if (after && k > best) {
            best = k;
            at = e;
        }
    });
    most = __reduce_max_sync(all_lanes, best);
    expert = __reduce_min_sync(all_lanes, best == most ? at : 0xffffffffu);
    key = most;
}

template <int HELD> DEVICE void choose(const struct route &r, uint64_t token)
{
    float *row = r.logits + token * r.experts;
    logits<HELD> mine(row, r.experts);
    uint32_t lane = threadIdx.x % WARP, key = 0xffffffffu, expert = 0xffffffffu, most = 0;
    float sum = 0, chosen = 0, top;

    mine.each([&](uint32_t, uint32_t k) { most = k > most ? k : most; });
    top = key_float(__reduce_max_sync(all_lanes, most));
    for (uint32_t j = 0; j < r.top_k; j++) {
        float e;

        next_best(mine, key, expert);
        e = expf(key_float(key) - top);
        chosen += e;
        if (lane == j % WARP) {
            r.expert[token * r.top_k + j] = (int32_t)expert;
            r.gate[token * r.top_k + j] = e;
        }
    }
    mine.each([&](uint32_t, uint32_t k) { sum += k ? expf(key_float(k) - top) : 0; });
    sum = warp_sum(sum);
    /* The lane that wrote a gate reads it, and the lane that read a logit overwrites it. */
    for (uint32_t j = lane; j < r.top_k; j += WARP)
        r.gate[token * r.top_k + j] /= r.top_k > 1 ? chosen : sum;
    mine.each([&](uint32_t e, uint32_t k) {
        if (e < r.experts)
            row[e] = expf(key_float(k) - top) / sum;
    });
}

template <int HELD> static __global__ void __launch_bounds__(THREADS) choose_kernel(struct route r)
{
    for (uint64_t token = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; token < r.tokens;
         token += (uint64_t)gridDim.x * WARPS)
        choose<HELD>(r, token);
}

static cudaError_t choose_experts(const struct route *r, cudaStream_t stream)
{
    uint64_t blocks = blocks_for((uint64_t)r->tokens * WARP);

    if (!blocks || !r->experts)
        return cudaSuccess;
    if (r->experts <= 1 * WARP)
        return launch(choose_kernel<1>, blocks, THREADS, stream, *r);
    if (r->experts <= 4 * WARP)
        return launch(choose_kernel<4>, blocks, THREADS, stream, *r);
    if (r->experts <= 8 * WARP)
        return launch(choose_kernel<8>, blocks, THREADS, stream, *r);
    if (r->experts <= 16 * WARP)
        return launch(choose_kernel<16>, blocks, THREADS, stream, *r);
    return launch(choose_kernel<0>, blocks, THREADS, stream, *r);
}

/* ---- Slots */

struct ranges {
    uint64_t choices, each, count; /* each: a multiple of WARP */
    int32_t *table;                /* (experts, count) */
};

static inline struct ranges ranges_of(const struct route *r, const struct cuda_queue *queue)
{
    struct ranges g = { (uint64_t)r->tokens * r->top_k, range_choices, 0,
                        (int32_t *)queue->scratch };
    uint64_t room = r->experts ? queue->scratch_bytes / sizeof(*g.table) / r->experts : 1;
    uint64_t most = room < ranges_wanted ? room : ranges_wanted;

    if (most && (g.choices + most - 1) / most > g.each)
        g.each = ((g.choices + most - 1) / most + WARP - 1) / WARP * WARP;
    g.count = most ? (g.choices + g.each - 1) / g.each : 0;
    return g;
}

/* Warps of a block that share the window: a range's counters are all of the experts, if they fit.
 */
static inline uint32_t window_warps(uint32_t experts)
{
    uint32_t fit = window_experts / (experts ? experts : 1);

    return fit < 1 ? 1 : (fit < (uint32_t)WARPS ? fit : (uint32_t)WARPS);
}

/* A choice by its place in the order of slots. */
DEVICE uint64_t choice_at(const struct route &r, uint64_t place)
{
    uint64_t j = place / r.tokens;

    return (place - j * r.tokens) * r.top_k + j;
}

/* The expert of a place as counted from `base`; window_experts or more if it is not in this window.
 */
DEVICE uint32_t expert_at(const struct route &r, uint64_t place, uint64_t end, uint32_t base)
{
    return place < end ? (uint32_t)r.expert[choice_at(r, place)] - base : 0xffffffffu;
}

static __global__ void __launch_bounds__(THREADS) count_kernel(struct route r, struct ranges g)
{
    SHARED(int32_t, counters, window_experts);
    uint32_t lane = threadIdx.x % WARP, warps = blockDim.x / WARP, window = window_experts / warps;
    uint64_t range = (uint64_t)blockIdx.x * warps + threadIdx.x / WARP;
    uint64_t begin = range * g.each, end = begin + g.each < g.choices ? begin + g.each : g.choices;
    int32_t *counter = counters + threadIdx.x / WARP * window;

    if (range >= g.count)
        return;
    for (uint32_t base = 0; base < r.experts; base += window) {
        uint32_t here = r.experts - base < window ? r.experts - base : window;

        for (uint32_t e = lane; e < here; e += WARP)
            counter[e] = 0;
        __syncwarp();
        for (uint64_t place = begin + lane; place < end; place += WARP) {
            uint32_t e = expert_at(r, place, end, base);

            if (e < here)
                atomicAdd(&counter[e], 1);
        }
        __syncwarp();
        for (uint32_t e = lane; e < here; e += WARP)
            g.table[(base + e) * g.count + range] = counter[e];
        __syncwarp();
    }
}

/* A warp takes an expert: counts of ranges become what lies before them. */
static __global__ void __launch_bounds__(THREADS) scan_kernel(struct route r, struct ranges g)
{
    uint64_t expert = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    uint32_t lane = threadIdx.x % WARP;
    int32_t *row = g.table + expert * g.count, before = 0;

    if (expert >= r.experts)
        return;
    for (uint64_t first = 0; first < g.count; first += WARP) {
        int32_t own = first + lane < g.count ? row[first + lane] : 0, sum = own;

#pragma unroll
        for (int back = 1; back < WARP; back *= 2) {
            int32_t other = __shfl_up_sync(all_lanes, sum, back);

            sum += lane >= (uint32_t)back ? other : 0;
        }
        if (first + lane < g.count)
            row[first + lane] = before + sum - own;
        before += __shfl_sync(all_lanes, sum, WARP - 1);
    }
    if (lane == 0)
        r.needed[expert] = before;
}

static __global__ void __launch_bounds__(THREADS) slot_kernel(struct route r, struct ranges g)
{
    SHARED(int32_t, counters, window_experts);
    uint32_t lane = threadIdx.x % WARP, warps = blockDim.x / WARP, window = window_experts / warps;
    uint64_t range = (uint64_t)blockIdx.x * warps + threadIdx.x / WARP;
    uint64_t begin = range * g.each, end = begin + g.each < g.choices ? begin + g.each : g.choices;
    int32_t *counter = counters + threadIdx.x / WARP * window;

    if (range >= g.count)
        return;
    for (uint32_t base = 0; base < r.experts; base += window) {
        uint32_t here = r.experts - base < window ? r.experts - base : window;

        for (uint32_t e = lane; e < here; e += WARP)
            counter[e] = g.table[(base + e) * g.count + range];
        __syncwarp();
        /* All lanes go through all places: those who match need each other. */
        for (uint64_t first = begin; first < end; first += WARP) {
            uint32_t e = expert_at(r, first + lane, end, base);
            unsigned same = __match_any_sync(all_lanes, e);
            int32_t rank = __popc(same & ((1u << lane) - 1)), slot = 0;

            if (e < here) {
                slot = counter[e] + rank;
                r.slot[choice_at(r, first + lane)] = (uint64_t)slot < r.capacity ? slot : -1;
            }
            __syncwarp();
            if (e < here && same >> lane == 1)
                counter[e] = slot + 1; /* the last of its kind */
            __syncwarp();
        }
    }
}

static cudaError_t give_slots(const struct route *r, const struct ranges *g, cudaStream_t stream)
{
    uint32_t warps = window_warps(r->experts);
    uint64_t blocks = (g->count + warps - 1) / warps;
    cudaError_t code = cudaSuccess;

    if (blocks)
        code = launch(count_kernel, blocks, warps * WARP, stream, *r, *g);
    if (!code && r->experts)
        code =
            launch(scan_kernel, blocks_for((uint64_t)r->experts * WARP), THREADS, stream, *r, *g);
    if (!code && blocks)
        code = launch(slot_kernel, blocks, warps * WARP, stream, *r, *g);
    return code;
}

extern "C" int cuda_route(const struct route *r, const struct cuda_queue *queue)
{
    struct ranges g = ranges_of(r, queue);
    cudaError_t code = choose_experts(r, queue->stream);

    if (!code && g.choices && !g.count) /* not even one range of so many experts */
        code = cudaErrorInvalidValue;
    return cuda_check(code ? code : give_slots(r, &g, queue->stream), "route");
}

/* ---- Backward */

static __global__ void __launch_bounds__(THREADS)
    route_backward_kernel(struct route_backward r, struct pieces p)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t first, uint32_t step) {
        const float *gate = r.gate + token * r.top_k, *grad = r.grad_gate + token * r.top_k;
        const int32_t *expert = r.expert + token * r.top_k;
        float dot = 0;

        for (uint32_t j = 0; j < r.top_k; j++)
            dot += gate[j] * grad[j];
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t e = first + i * step;
            float slope = 0;

            if (e >= p.units)
                continue;
            if (r.top_k == 1)
                slope = (expert[0] == (int32_t)e ? dot : 0) -
                        r.probability[token * r.experts + e] * dot;
            /* Normalised over the chosen, the gate is a softmax of the chosen logits alone. */
            for (uint32_t j = 0; j < r.top_k && r.top_k > 1; j++)
                if (expert[j] == (int32_t)e)
                    slope = gate[j] * (grad[j] - dot);
            r.grad_logits[token * r.experts + e] = slope;
        }
    });
}

extern "C" int cuda_route_backward(const struct route_backward *r, const struct cuda_queue *queue)
{
    struct pieces p = pieces_of(r->tokens, r->experts);

    if (!p.count)
        return 0;
    return cuda_check(launch(route_backward_kernel, piece_blocks(p), THREADS, queue->stream, *r, p),
                      "route_backward");
}
