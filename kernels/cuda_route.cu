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
    uint32_t lane_key = 0, lane_expert = 0xffffffffu, best_key;

    mine.each([&](uint32_t e, uint32_t k) {
        bool after = k < key || (k == key && e > expert);

        if (after && k > lane_key) {
            lane_key = k;
            lane_expert = e;
        }
    });
    best_key = __reduce_max_sync(all_lanes, lane_key);
    expert = __reduce_min_sync(all_lanes, lane_key == best_key ? lane_expert : 0xffffffffu);
    key = best_key;
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

/* Softmax: chooses a token's experts, and turns its logits into probabilities.  All weights are
 * e^(logit - top). */
template <int HELD> DEVICE void choose(const struct route &r, uint64_t token)
{
    float *row = r.logits + token * r.experts;
    logits<HELD> mine(row, r.experts);
    uint32_t lane = threadIdx.x % WARP, key = 0xffffffffu, expert = 0xffffffffu, lane_key = 0;
    float sum = 0, chosen_sum = 0, top;

    mine.each([&](uint32_t, uint32_t k) { lane_key = k > lane_key ? k : lane_key; });
    top = key_float(__reduce_max_sync(all_lanes, lane_key));
    for (uint32_t j = 0; j < r.top_k; j++) {
        float weight;

        next_best(mine, key, expert);
        weight = expf(key_float(key) - top);
        chosen_sum += weight;
        if (lane == j % WARP) {
            r.expert[token * r.top_k + j] = (int32_t)expert;
            r.gate[token * r.top_k + j] = weight;
        }
    }
    if (!HELD && r.given)
        chosen_sum =
            weigh_given(r, token, ROUTE_LEAST, [&](int32_t e) { return expf(row[e] - top); });
    mine.each([&](uint32_t, uint32_t k) { sum += k ? expf(key_float(k) - top) : 0; });
    sum = warp_sum(sum);
    if (r.importance && lane == 0)
        r.importance[token] = 1 / sum;
    /* The lane that wrote a gate reads it, and the lane that read a logit overwrites it. */
    for (uint32_t j = lane; j < r.top_k; j += WARP)
        r.gate[token * r.top_k + j] /= r.top_k > 1 ? chosen_sum : sum;
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

/* Softmax with groups, and sigmoid. */
DEVICE void choose_scored(const struct route &r, uint64_t token)
{
    bool sigmoids = r.router == MOE_ROUTER_SIGMOID;
    uint32_t lane = threadIdx.x % WARP, groups = r.groups ? r.groups : 1;
    uint32_t key = 0xffffffffu, expert = 0xffffffffu;
    float *row = r.logits + token * r.experts, chosen_sum = ROUTE_LEAST, top = 0, sum = 1,
          largest = 0;
    scores s = {};

    s.row = row, s.bias = r.bias;
    s.experts = r.experts, s.groups = groups, s.group_size = r.experts / groups;
    s.sums_two = sigmoids && s.group_size > 1;
    for (uint32_t e = lane; e < r.experts && sigmoids; e += WARP)
        row[e] = 1 / (1 + expf(-row[e]));
    __syncwarp();
    if (r.groups && r.group_limit < groups)
        limit_groups(s, r.group_limit);
    for (uint32_t j = 0; j < r.top_k; j++) {
        float weight;

        next_allowed(s, key, expert);
        weight = row[expert];
        top = j ? top : weight; /* the best of all is in the best group */
        weight = sigmoids ? weight : expf(weight - top);
        chosen_sum += weight;
        largest = weight > largest ? weight : largest;
        if (lane == j % WARP) {
            r.expert[token * r.top_k + j] = (int32_t)expert;
            r.gate[token * r.top_k + j] = weight;
        }
    }
    if (r.given)
        chosen_sum = weigh_given(r, token, ROUTE_LEAST,
                                 [&](int32_t e) { return sigmoids ? row[e] : expf(row[e] - top); });
    if (!sigmoids)
        sum = normalise(row, r.experts, top);
    if (r.importance && lane == 0)
        r.importance[token] = sigmoids ? largest : 1 / sum;
    for (uint32_t j = lane; j < r.top_k; j += WARP)
        r.gate[token * r.top_k + j] /= r.top_k > 1 ? chosen_sum : sum;
}

/* Finds the best column of a level, and returns its probability. */
DEVICE float choose_level(float *row, uint32_t n, uint32_t &best)
{
    scores s = {};
    uint32_t key = 0xffffffffu;

    s.row = row, s.experts = s.group_size = n, s.groups = 1;
    best = 0xffffffffu;
    next_allowed(s, key, best);
    return 1 / normalise(row, n, key_float(key));
}

DEVICE void choose_bilevel(const struct route &r, uint64_t token)
{
    uint32_t group_size = r.experts / r.groups, group, place;
    float *row = r.logits + token * (r.groups + group_size);
    float gate = choose_level(row, r.groups, group);

    gate *= choose_level(row + r.groups, group_size, place);
    __syncwarp();
    if (r.given)
        gate = row[(uint32_t)r.given[token] / group_size] *
               row[r.groups + (uint32_t)r.given[token] % group_size];
    if (threadIdx.x % WARP == 0) {
        r.expert[token] = (int32_t)(group * group_size + place);
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
    for (uint64_t block_first = (uint64_t)blockIdx.x * THREADS; block_first < r.tokens;
         block_first += (uint64_t)gridDim.x * THREADS) {
        uint64_t token = block_first + threadIdx.x, tokens_before = 0;
        uint32_t token_key = token < r.tokens ? key_of(r.importance[token]) : 0;

        for (uint64_t other_first = 0; other_first < r.tokens; other_first += THREADS) {
            uint64_t other = other_first + threadIdx.x;
            uint32_t count = (uint32_t)min(r.tokens - other_first, (uint64_t)THREADS);

            keys[threadIdx.x] = other < r.tokens ? key_of(r.importance[other]) : 0;
            __syncthreads();
            for (uint32_t i = 0; i < count; i++)
                tokens_before +=
                    keys[i] > token_key || (keys[i] == token_key && other_first + i < token);
            __syncthreads();
        }
        if (token < r.tokens)
            r.turn[tokens_before] = (uint32_t)token;
    }
}

/* ---- Slots */

/* How choices are cut into ranges. */
struct ranges {
    uint64_t choices, choices_per_range, count; /* choices_per_range is a multiple of WARP */
    int32_t *table;                             /* (experts, count) */
};

static inline struct ranges ranges_of(const struct route *r, const struct cuda_queue *queue)
{
    struct ranges g = { (uint64_t)r->tokens * r->top_k, range_choices, 0,
                        (int32_t *)queue->scratch };
    uint64_t room_ranges = r->experts ? queue->scratch_bytes / sizeof(*g.table) / r->experts : 1;
    uint64_t most_ranges = room_ranges < ranges_wanted ? room_ranges : ranges_wanted;

    if (most_ranges && (g.choices + most_ranges - 1) / most_ranges > g.choices_per_range)
        g.choices_per_range =
            ((g.choices + most_ranges - 1) / most_ranges + WARP - 1) / WARP * WARP;
    g.count = most_ranges ? (g.choices + g.choices_per_range - 1) / g.choices_per_range : 0;
    return g;
}

/* The choice at a place in the order in which choices get slots. */
DEVICE uint64_t choice_at(const struct route &r, uint64_t place)
{
    uint64_t j = place / r.tokens, token = place - j * r.tokens;

    return (r.turn ? r.turn[token] : token) * r.top_k + j;
}

/* The expert of a place, counted from expert0; window_experts or more if it is not in this window.
 */
DEVICE uint32_t expert_at(const struct route &r, uint64_t place, uint64_t end, uint32_t expert0)
{
    return place < end ? (uint32_t)r.expert[choice_at(r, place)] - expert0 : 0xffffffffu;
}

/* Counts each range's choices of each expert, for a window of experts at a time. */
static __global__ void __launch_bounds__(THREADS) count_kernel(struct route r, struct ranges g)
{
    SHARED(int32_t, counters, window_experts);
    uint32_t lane = threadIdx.x % WARP, warps = blockDim.x / WARP, window = window_experts / warps;
    uint64_t range = (uint64_t)blockIdx.x * warps + threadIdx.x / WARP;
    uint64_t begin = range * g.choices_per_range, end = begin + g.choices_per_range < g.choices
                                                            ? begin + g.choices_per_range
                                                            : g.choices;
    int32_t *counter = counters + threadIdx.x / WARP * window;

    if (range >= g.count)
        return;
    for (uint32_t expert0 = 0; expert0 < r.experts; expert0 += window) {
        uint32_t experts = r.experts - expert0 < window ? r.experts - expert0 : window;

        for (uint32_t e = lane; e < experts; e += WARP)
            counter[e] = 0;
        __syncwarp();
        for (uint64_t place = begin + lane; place < end; place += WARP) {
            uint32_t e = expert_at(r, place, end, expert0);

            if (e < experts)
                atomicAdd(&counter[e], 1);
        }
        __syncwarp();
        for (uint32_t e = lane; e < experts; e += WARP)
            g.table[(expert0 + e) * g.count + range] = counter[e];
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
    for (uint64_t range0 = 0; range0 < g.count; range0 += WARP) {
        int32_t count = range0 + lane < g.count ? row[range0 + lane] : 0,
                sum = warp_running_sum(count);

        if (range0 + lane < g.count)
            row[range0 + lane] = before + sum - count;
        before += __shfl_sync(all_lanes, sum, WARP - 1);
    }
    if (lane == 0)
        r.needed[expert] = before;
}

/* Gives slots.  A lane's slot is the counter of its expert plus the lanes before it with this
 * expert.
 */
static __global__ void __launch_bounds__(THREADS) slot_kernel(struct route r, struct ranges g)
{
    SHARED(int32_t, counters, window_experts);
    uint32_t lane = threadIdx.x % WARP, warps = blockDim.x / WARP, window = window_experts / warps;
    uint64_t range = (uint64_t)blockIdx.x * warps + threadIdx.x / WARP;
    uint64_t begin = range * g.choices_per_range, end = begin + g.choices_per_range < g.choices
                                                            ? begin + g.choices_per_range
                                                            : g.choices;
    int32_t *counter = counters + threadIdx.x / WARP * window;

    if (range >= g.count)
        return;
    for (uint32_t expert0 = 0; expert0 < r.experts; expert0 += window) {
        uint32_t experts = r.experts - expert0 < window ? r.experts - expert0 : window;

        for (uint32_t e = lane; e < experts; e += WARP)
            counter[e] = g.table[(expert0 + e) * g.count + range];
        __syncwarp();
        /* All lanes run all iterations, because __match_any_sync() needs them. */
        for (uint64_t place0 = begin; place0 < end; place0 += WARP) {
            uint32_t e = expert_at(r, place0 + lane, end, expert0);
            unsigned same = __match_any_sync(all_lanes, e);
            int32_t rank = __popc(same & ((1u << lane) - 1)), slot = 0;

            if (e < experts) {
                uint64_t capacity = r.capacities ? r.capacities[expert0 + e] : r.capacity;

                slot = counter[e] + rank;
                r.slot[choice_at(r, place0 + lane)] = (uint64_t)slot < capacity ? slot : -1;
            }
            __syncwarp();
            if (e < experts && same >> lane == 1)
                counter[e] = slot + 1; /* the last lane with this expert */
            __syncwarp();
        }
    }
}

static cudaError_t give_slots(const struct route *r, const struct ranges *g, cudaStream_t stream)
{
    /* Warps of a block share its counters; fewer warps are used where each then has a counter for
     * every expert. */
    uint32_t warps_that_fit = window_experts / (r->experts ? r->experts : 1);
    uint32_t warps = warps_that_fit < 1
                         ? 1
                         : (warps_that_fit < (uint32_t)WARPS ? warps_that_fit : (uint32_t)WARPS);
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

/* The gradients of softmax.  A unit is one expert. */
static __global__ void __launch_bounds__(THREADS)
    route_backward_kernel(struct route_backward r, struct pieces p)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t unit0, uint32_t step) {
        const float *gate = r.gate + token * r.top_k, *grad = r.grad_gate + token * r.top_k;
        const int32_t *expert = r.expert + token * r.top_k;
        bool changed = has_changed(r, token);
        float dot = 0;

        for (uint32_t j = 0; j < r.top_k; j++)
            dot += gate[j] * grad[j];
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t e = unit0 + i * step;
            float grad_logit = 0;

            if (e >= p.units)
                continue;
            if (r.top_k == 1)
                grad_logit = (expert[0] == (int32_t)e ? dot : 0) -
                             r.probability[token * r.experts + e] * dot;
            /* Normalised over the chosen experts, the gate is a softmax of their logits alone. */
            for (uint32_t j = 0; j < r.top_k && r.top_k > 1; j++)
                if (expert[j] == (int32_t)e)
                    grad_logit = gate[j] * (grad[j] - dot);
            r.grad_logits[token * r.experts + e] = changed ? 0 : grad_logit;
        }
    });
}

/* The gradients of bilevel and sigmoid.  A choice of bilevel has two columns, each of a softmax.
 * For sigmoid, the slope of its logarithm is 1 - sigmoid, where softmax has 1. */
static __global__ void __launch_bounds__(THREADS)
    router_backward_kernel(struct route_backward r, struct pieces p)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t column0, uint32_t step) {
        const float *gate = r.gate + token * r.top_k, *grad = r.grad_gate + token * r.top_k;
        const float *probability = r.probability + token * p.units;
        const int32_t *expert = r.expert + token * r.top_k;
        uint32_t group_size = (uint32_t)p.units - r.groups;
        bool changed = has_changed(r, token);
        float dot = 0;

        for (uint32_t j = 0; j < r.top_k; j++)
            dot += gate[j] * grad[j];
        for (uint64_t c = column0, i = 0; i < DEEP && c < p.units; i++, c += step) {
            uint32_t column = (uint32_t)c, chosen_column;
            float grad_logit = 0;

            if (r.router == MOE_ROUTER_BILEVEL) {
                chosen_column = column < r.groups ? (uint32_t)expert[0] / group_size
                                                  : r.groups + (uint32_t)expert[0] % group_size;
                grad_logit = (chosen_column == column ? dot : 0) - probability[c] * dot;
            }
            for (uint32_t j = 0; j < r.top_k && r.router == MOE_ROUTER_SIGMOID; j++)
                if (expert[j] == (int32_t)column)
                    grad_logit =
                        (r.top_k > 1 ? gate[j] * (grad[j] - dot) : dot) * (1 - probability[c]);
            r.grad_logits[token * p.units + c] = changed ? 0 : grad_logit;
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
