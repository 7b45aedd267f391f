/* The router on a GPU: a warp chooses a token's experts, then choices get slots in the same order
 * as on the host.
 *
 * Choices get slots in the order (j, token).  This order is cut into ranges, one per warp.  Each
 * warp counts the experts of its range; a scan over ranges finds each range's first slots; then
 * each warp gives slots to its range, in order. */
#include "cuda_rows.cuh"
#include "cuda_scores.cuh"

static const uint32_t window_experts = 8192; /* counters of a block, for all its warps together */
static const uint64_t range_choices = 128;   /* smallest range */
static const uint64_t ranges_wanted = 512;

/* ---- Choosing */

/* A lane's logits: lane, lane + 32, ...  HELD of them are in registers; with HELD 0, they are read
 * again each time. */
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

/* Finds the best expert after (key, expert) in descending order; ties go to the lowest expert.  So
 * nobody need remember which experts were chosen. */
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

/* For known choices: writes the weight of each to its gate, and returns `sum` plus all weights,
 * added in the usual order.  Afterwards the row may be overwritten. */
template <class Weight>
DEVICE float weigh_given(const struct route &r, uint64_t token, float sum, const Weight &weight)
{
    uint32_t lane = threadIdx.x % WARP;

    for (uint32_t j = 0; j < r.top_k; j++) {
        float x = weight(r.given[token * r.top_k + j]);

        sum += x;
        if (lane == j % WARP)
            r.gate[token * r.top_k + j] = x;
    }
    __syncwarp();
    return sum;
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
    if (!HELD && r.given)
        chosen = weigh_given(r, token, ROUTE_LEAST, [&](int32_t e) { return expf(row[e] - top); });
    mine.each([&](uint32_t, uint32_t k) { sum += k ? expf(key_float(k) - top) : 0; });
    sum = warp_sum(sum);
    if (r.importance && lane == 0)
        r.importance[token] = 1 / sum;
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

/* ---- Choosing with groups, with sigmoids, or in two levels */

DEVICE void choose_scored(const struct route &r, uint64_t token)
{
    bool sigmoids = r.router == MOE_ROUTER_SIGMOID;
    uint32_t lane = threadIdx.x % WARP, groups = r.groups ? r.groups : 1;
    uint32_t key = 0xffffffffu, expert = 0xffffffffu;
    float *row = r.logits + token * r.experts, chosen = ROUTE_LEAST, top = 0, sum = 1, largest = 0;
    scores s = {};

    s.row = row, s.bias = r.bias;
    s.experts = r.experts, s.groups = groups, s.each = r.experts / groups;
    s.sums = sigmoids && s.each > 1;
    for (uint32_t e = lane; e < r.experts && sigmoids; e += WARP)
        row[e] = 1 / (1 + expf(-row[e]));
    __syncwarp();
    if (r.groups && r.group_limit < groups)
        limit_groups(s, r.group_limit);
    for (uint32_t j = 0; j < r.top_k; j++) {
        float x;

        next_allowed(s, key, expert);
        x = row[expert];
        top = j ? top : x; /* the best of all is in the best group */
        x = sigmoids ? x : expf(x - top);
        chosen += x;
        largest = x > largest ? x : largest;
        if (lane == j % WARP) {
            r.expert[token * r.top_k + j] = (int32_t)expert;
            r.gate[token * r.top_k + j] = x;
        }
    }
    if (r.given)
        chosen = weigh_given(r, token, ROUTE_LEAST,
                             [&](int32_t e) { return sigmoids ? row[e] : expf(row[e] - top); });
    if (!sigmoids)
        sum = normalise(row, r.experts, top);
    if (r.importance && lane == 0)
        r.importance[token] = sigmoids ? largest : 1 / sum;
    for (uint32_t j = lane; j < r.top_k; j += WARP)
        r.gate[token * r.top_k + j] /= r.top_k > 1 ? chosen : sum;
}

/* Finds the best column of a level, and returns its probability. */
DEVICE float choose_level(float *row, uint32_t n, uint32_t &best)
{
    scores s = {};
    uint32_t key = 0xffffffffu;

    s.row = row, s.experts = s.each = n, s.groups = 1;
    best = 0xffffffffu;
    next_allowed(s, key, best);
    return 1 / normalise(row, n, key_float(key));
}

DEVICE void choose_bilevel(const struct route &r, uint64_t token)
{
    uint32_t each = r.experts / r.groups, group, place;
    float *row = r.logits + token * (r.groups + each);
    float gate = choose_level(row, r.groups, group);

    gate *= choose_level(row + r.groups, each, place);
    __syncwarp();
    if (r.given)
        gate =
            row[(uint32_t)r.given[token] / each] * row[r.groups + (uint32_t)r.given[token] % each];
    if (threadIdx.x % WARP == 0) {
        r.expert[token] = (int32_t)(group * each + place);
        r.gate[token] = gate;
        if (r.importance)
            r.importance[token] = gate;
    }
}

static __global__ void __launch_bounds__(THREADS) choose_otherwise_kernel(struct route r)
{
    for (uint64_t token = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; token < r.tokens;
         token += (uint64_t)gridDim.x * WARPS) {
        if (r.router == MOE_ROUTER_BILEVEL)
            choose_bilevel(r, token);
        else
            choose_scored(r, token);
    }
}

static cudaError_t choose_experts(const struct route *r, cudaStream_t stream)
{
    uint64_t blocks = blocks_for((uint64_t)r->tokens * WARP);

    if (!blocks || !r->experts)
        return cudaSuccess;
    if (r->router != MOE_ROUTER_SOFTMAX || r->groups)
        return launch(choose_otherwise_kernel, blocks, THREADS, stream, *r);
    if (r->given) /* known choices need registers, so no logits are held in registers */
        return launch(choose_kernel<0>, blocks, THREADS, stream, *r);
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

/* ---- Order by importance: a token's place is the number of tokens before it */

static __global__ void __launch_bounds__(THREADS) turn_kernel(struct route r)
{
    SHARED(uint32_t, keys, THREADS);

    /* All threads of a block compare with all tokens, because they load keys for each other. */
    for (uint64_t first = (uint64_t)blockIdx.x * THREADS; first < r.tokens;
         first += (uint64_t)gridDim.x * THREADS) {
        uint64_t token = first + threadIdx.x, before = 0;
        uint32_t own = token < r.tokens ? key_of(r.importance[token]) : 0;

        for (uint64_t base = 0; base < r.tokens; base += THREADS) {
            uint64_t other = base + threadIdx.x;
            uint32_t here = (uint32_t)min(r.tokens - base, (uint64_t)THREADS);

            keys[threadIdx.x] = other < r.tokens ? key_of(r.importance[other]) : 0;
            __syncthreads();
            for (uint32_t i = 0; i < here; i++)
                before += keys[i] > own || (keys[i] == own && base + i < token);
            __syncthreads();
        }
        if (token < r.tokens)
            r.turn[before] = (uint32_t)token;
    }
}

/* ---- Slots */

/* How choices are cut into ranges. */
struct ranges {
    uint64_t choices, each, count; /* each: choices in a range, a multiple of WARP */
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

/* The choice at a place in the order in which choices get slots. */
DEVICE uint64_t choice_at(const struct route &r, uint64_t place)
{
    uint64_t j = place / r.tokens, token = place - j * r.tokens;

    return (r.turn ? r.turn[token] : token) * r.top_k + j;
}

/* The expert of a place, counted from `base`; window_experts or more if it is not in this window.
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

/* One warp handles one expert: it replaces the count of each range by the sum of the counts before
 * it. */
static __global__ void __launch_bounds__(THREADS) scan_kernel(struct route r, struct ranges g)
{
    uint64_t expert = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    uint32_t lane = threadIdx.x % WARP;
    int32_t *row = g.table + expert * g.count, before = 0;

    if (expert >= r.experts)
        return;
    for (uint64_t first = 0; first < g.count; first += WARP) {
        int32_t own = first + lane < g.count ? row[first + lane] : 0, sum = warp_running_sum(own);

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
        /* All lanes run all iterations, because __match_any_sync() needs them. */
        for (uint64_t first = begin; first < end; first += WARP) {
            uint32_t e = expert_at(r, first + lane, end, base);
            unsigned same = __match_any_sync(all_lanes, e);
            int32_t rank = __popc(same & ((1u << lane) - 1)), slot = 0;

            if (e < here) {
                uint64_t capacity = r.capacities ? r.capacities[base + e] : r.capacity;

                slot = counter[e] + rank;
                r.slot[choice_at(r, first + lane)] = (uint64_t)slot < capacity ? slot : -1;
            }
            __syncwarp();
            if (e < here && same >> lane == 1)
                counter[e] = slot + 1; /* the last lane with this expert */
            __syncwarp();
        }
    }
}

static cudaError_t give_slots(const struct route *r, const struct ranges *g, cudaStream_t stream)
{
    /* Warps of a block share its counters; fewer warps are used where each then has a counter for
     * every expert. */
    uint32_t fit = window_experts / (r->experts ? r->experts : 1);
    uint32_t warps = fit < 1 ? 1 : (fit < (uint32_t)WARPS ? fit : (uint32_t)WARPS);
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

    if (r->given)
        return cuda_check(code, "route");
    if (!code && r->turn && r->tokens)
        code = launch(turn_kernel, blocks_for(r->tokens), THREADS, queue->stream, *r);
    if (!code && g.choices && !g.count) /* scratch memory is too small for one range */
        code = cudaErrorInvalidValue;
    return cuda_check(code ? code : give_slots(r, &g, queue->stream), "route");
}

extern "C" int cuda_slots(const struct slots *s, const struct cuda_queue *queue)
{
    struct route route = {};
    struct ranges g;

    route.tokens = s->tokens, route.experts = s->experts, route.top_k = s->top_k;
    route.capacity = s->capacity;
    route.capacities = s->capacities;
    route.expert = (int32_t *)s->expert, route.slot = s->slot, route.needed = s->needed;
    g = ranges_of(&route, queue);
    return cuda_check(g.choices && !g.count ? cudaErrorInvalidValue
                                            : give_slots(&route, &g, queue->stream),
                      "slots");
}

/* ---- Choices that are sent to other ranks */

static __global__ void __launch_bounds__(THREADS) pack_choices_kernel(struct pack_choices p)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < p.choices;
         i += (uint64_t)gridDim.x * THREADS)
        p.to[i] = { p.slot[i] < 0 ? -1 : p.expert[i], p.gate[i] };
}

extern "C" int cuda_pack_choices(const struct pack_choices *p, const struct cuda_queue *queue)
{
    if (!p->choices)
        return 0;
    return cuda_check(
        launch(pack_choices_kernel, blocks_for(p->choices), THREADS, queue->stream, *p),
        "pack_choices");
}

/* Unpacks choices; those that get no slot later keep slot -1. */
static __global__ void __launch_bounds__(THREADS)
    take_apart_kernel(struct recount r, uint64_t choices)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < choices;
         i += (uint64_t)gridDim.x * THREADS) {
        struct sent_choice choice = sent_choice_at(&r, i);

        r.expert[i] = choice.expert;
        r.gate[i] = choice.gate;
        r.slot[i] = -1;
    }
}

/* Expert -1 of a dropped choice is outside every window, so nobody counts it. */
extern "C" int cuda_recount(const struct recount *r, const struct cuda_queue *queue)
{
    struct route route = {};
    struct ranges g;
    cudaError_t code = cudaSuccess;

    route.tokens = r->tokens, route.experts = r->experts, route.top_k = r->top_k;
    route.capacity = r->capacity ? r->capacity : UINT64_MAX;
    route.capacities = r->capacities;
    route.expert = r->expert, route.slot = r->slot, route.needed = r->needed;
    g = ranges_of(&route, queue);
    if (g.choices && !g.count) /* scratch memory is too small for one range */
        code = cudaErrorInvalidValue;
    if (!code && g.choices)
        code =
            launch(take_apart_kernel, blocks_for(g.choices), THREADS, queue->stream, *r, g.choices);
    return cuda_check(code ? code : give_slots(&route, &g, queue->stream), "recount");
}

/* ---- Backward */

/* True where both sets have the same experts; no expert is twice in a set. */
DEVICE bool equal_sets(const int32_t *a, const int32_t *b, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        uint32_t j = 0;

        while (j < k && b[j] != a[i])
            j++;
        if (j == k)
            return false;
    }
    return true;
}

DEVICE bool has_changed(const struct route_backward &r, uint64_t token)
{
    return r.live && !equal_sets(r.expert + token * r.top_k, r.live + token * r.top_k, r.top_k);
}

static __global__ void __launch_bounds__(THREADS)
    route_backward_kernel(struct route_backward r, struct pieces p)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t first, uint32_t step) {
        const float *gate = r.gate + token * r.top_k, *grad = r.grad_gate + token * r.top_k;
        const int32_t *expert = r.expert + token * r.top_k;
        bool changed = has_changed(r, token);
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
            /* Normalised over the chosen experts, the gate is a softmax of their logits alone. */
            for (uint32_t j = 0; j < r.top_k && r.top_k > 1; j++)
                if (expert[j] == (int32_t)e)
                    slope = gate[j] * (grad[j] - dot);
            r.grad_logits[token * r.experts + e] = changed ? 0 : slope;
        }
    });
}

/* The gradients of bilevel and sigmoid.  A choice of bilevel has two columns, each of a softmax.
 * For sigmoid, the slope of its logarithm is 1 - sigmoid, where softmax has 1. */
static __global__ void __launch_bounds__(THREADS)
    router_backward_kernel(struct route_backward r, struct pieces p)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t first, uint32_t step) {
        const float *gate = r.gate + token * r.top_k, *grad = r.grad_gate + token * r.top_k;
        const float *probability = r.probability + token * p.units;
        const int32_t *expert = r.expert + token * r.top_k;
        uint32_t each = (uint32_t)p.units - r.groups;
        bool changed = has_changed(r, token);
        float dot = 0;

        for (uint32_t j = 0; j < r.top_k; j++)
            dot += gate[j] * grad[j];
        for (uint64_t c = first, i = 0; i < DEEP && c < p.units; i++, c += step) {
            uint32_t column = (uint32_t)c, at;
            float slope = 0;

            if (r.router == MOE_ROUTER_BILEVEL) {
                at = column < r.groups ? (uint32_t)expert[0] / each
                                       : r.groups + (uint32_t)expert[0] % each;
                slope = (at == column ? dot : 0) - probability[c] * dot;
            }
            for (uint32_t j = 0; j < r.top_k && r.router == MOE_ROUTER_SIGMOID; j++)
                if (expert[j] == (int32_t)column)
                    slope = (r.top_k > 1 ? gate[j] * (grad[j] - dot) : dot) * (1 - probability[c]);
            r.grad_logits[token * p.units + c] = changed ? 0 : slope;
        }
    });
}

extern "C" int cuda_route_backward(const struct route_backward *r, const struct cuda_queue *queue)
{
    struct pieces p = pieces_of(r->tokens, gate_columns(r->router, r->experts, r->groups));

    if (!p.count)
        return 0;
    if (r->router != MOE_ROUTER_SOFTMAX)
        return cuda_check(
            launch(router_backward_kernel, piece_blocks(p), THREADS, queue->stream, *r, p),
            "route_backward");
    return cuda_check(launch(route_backward_kernel, piece_blocks(p), THREADS, queue->stream, *r, p),
                      "route_backward");
}
