/* The kernels that move tokens to rows (E,C,D) and back, on a GPU: encode, decode, their gradients,
 * and the matrices of the baseline `dense`.
 *
 * Every token is read once and every row is written once.  encode loops over tokens: slots are
 * unique, so it needs no map from rows to tokens. */
#include "cuda_sparse.cuh"

/* Rows that a warp checks at a time, to find rows without a choice. */
enum { ROWS_PER_WARP = 8 };

/* The row of a choice, counted in rows; negative if the choice was dropped. */
DEVICE int64_t row_of(const struct routing &r, uint64_t choice)
{
    int64_t slot = r.slot[choice];

    return slot < 0 ? -1
                    : (int64_t)first_row_of(r.first, r.rows, (uint64_t)r.expert[choice]) + slot;
}

/* True where a choice has this row. */
DEVICE bool is_filled(const struct routing &r, uint64_t row)
{
    uint64_t expert = owner_of(r.first, r.experts, r.rows, row);
    uint64_t slot = row - first_row_of(r.first, r.rows, expert);
    uint64_t capacity = r.capacities ? r.capacities[expert] : r.capacity;

    return slot < capacity && slot < (uint64_t)r.needed[expert];
}

static inline uint64_t clear_warps(const struct routing &r)
{
    return (routing_rows(&r) + ROWS_PER_WARP - 1) / ROWS_PER_WARP;
}

/* Zeroes the rows without a choice; this warp is number `warp` of `warps`.  A row is `units` units
 * of type U. */
template <class U>
DEVICE void clear_unfilled(const struct routing &r, uint64_t units, U *to, uint64_t warp,
                           uint64_t warps)
{
    uint64_t rows = r.first ? r.rows : r.experts * r.rows;
    uint32_t lane = threadIdx.x % WARP;

    for (uint64_t row0 = warp * ROWS_PER_WARP; row0 < rows; row0 += warps * ROWS_PER_WARP) {
        uint64_t lane_row = row0 + lane;
        bool empty = lane < ROWS_PER_WARP && lane_row < rows && !is_filled(r, lane_row);
        unsigned empty_rows = __ballot_sync(all_lanes, empty);

        for (; empty_rows; empty_rows &= empty_rows - 1) {
            U *row = to + (row0 + (uint64_t)(__ffs((int)empty_rows) - 1)) * units;

#pragma unroll 4
            for (uint64_t i = lane; i < units; i += WARP)
                row[i] = U();
        }
    }
}

/* ---- encode: it copies bytes, so only the width of an access matters */

/* Copies tokens in the first token_blocks blocks, and zeroes the other rows in the blocks after
 * them.
 */
template <class U>
static __global__ void __launch_bounds__(THREADS)
    encode_kernel(struct routing r, struct pieces p, uint64_t token_blocks, const U *from, U *to)
{
    if (blockIdx.x >= token_blocks) {
        clear_unfilled(r, p.units, to,
                       (uint64_t)(blockIdx.x - token_blocks) * WARPS + threadIdx.x / WARP,
                       (gridDim.x - token_blocks) * WARPS);
        return;
    }
    each_piece(p, token_blocks, [&](uint64_t token, uint64_t unit0, uint32_t step) {
        U unit[DEEP];

#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (unit0 + i * step < p.units)
                unit[i] = from[token * p.units + unit0 + i * step];
        for (uint32_t j = 0; j < r.top_k; j++) {
            int64_t row = row_of(r, token * r.top_k + j);

            if (row < 0)
                continue;
#pragma unroll
            for (int i = 0; i < DEEP; i++)
                if (unit0 + i * step < p.units)
                    to[(uint64_t)row * p.units + unit0 + i * step] = unit[i];
        }
    });
}

template <class U>
static cudaError_t encode_units(const struct encode *e, size_t row_bytes, cudaStream_t stream)
{
    struct pieces p = pieces_of(e->routing.tokens, row_bytes / sizeof(U));
    uint64_t token_blocks = piece_blocks(p);
    uint64_t blocks = token_blocks + blocks_for(clear_warps(e->routing) * WARP);

    if (!blocks || !p.units)
        return cudaSuccess;
    return launch(encode_kernel<U>, blocks, THREADS, stream, e->routing, p, token_blocks,
                  (const U *)e->from, (U *)e->to);
}

extern "C" int cuda_encode(const struct encode *e, const struct cuda_queue *queue)
{
    size_t row_bytes = (size_t)e->routing.width * (e->dtype == MOE_F32 ? 4 : 2);
    uintptr_t misaligned = ((uintptr_t)e->from | (uintptr_t)e->to | row_bytes) % WIDE_BYTES;

    if (!misaligned)
        return cuda_check(encode_units<uint4>(e, row_bytes, queue->stream), "encode");
    if (misaligned % 4 == 0)
        return cuda_check(encode_units<uint32_t>(e, row_bytes, queue->stream), "encode");
    return cuda_check(encode_units<uint16_t>(e, row_bytes, queue->stream), "encode");
}

/* ---- decode, encode_backward and the end of ESMM_TOKENS: the weighted sum of a token's rows */

/* Writes to = add (NULL: 0) + the sum of gate (NULL: 1) * row.  Rows of `to` and `add` are `stride`
 * elements apart. */
template <class T, class Out, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    combine_kernel(struct routing r, struct pieces p, const float *gate, const T *from,
                   const float *add, Out *to, uint64_t stride)
{
    each_piece(p, gridDim.x, [&](uint64_t token, uint64_t unit0, uint32_t step) {
        float sum[DEEP][N] = {};

        if (add)
            add_units(add + token * stride, unit0, step, p.units, 1.0f, sum);
#pragma unroll 1
        for (uint32_t j = 0; j < r.top_k; j++) {
            uint64_t choice = token * r.top_k + j;
            int64_t row = row_of(r, choice);
            float scale = gate ? gate[choice] : 1.0f;

            if (row >= 0)
                add_units(from + (uint64_t)row * r.width, unit0, step, p.units, scale, sum);
        }
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (unit0 + i * step < p.units)
                store(to + token * stride + (unit0 + i * step) * N, sum[i]);
    });
}

/* Combines the first `columns` columns of the rows. */
template <class T, int N, class Out>
static cudaError_t combine(const struct routing &r, uint32_t columns, const float *gate,
                           const T *from, const float *add, Out *to, uint64_t stride,
                           cudaStream_t stream)
{
    struct pieces p = pieces_of(r.tokens, columns / N);

    if (!p.count)
        return cudaSuccess;
    return launch(combine_kernel<T, Out, N>, piece_blocks(p), THREADS, stream, r, p, gate, from,
                  add, to, stride);
}

template <class T, int N>
static cudaError_t combine_rows(const struct routing &r, const float *gate, const void *from,
                                const float *add, void *to, cudaStream_t stream)
{
    return combine<T, N>(r, r.width, gate, (const T *)from, add, (T *)to, r.width, stream);
}

extern "C" int cuda_decode(const struct decode *d, const struct cuda_queue *queue)
{
    bool wide =
        d->routing.width % wide_elements(d->dtype) == 0 && aligned(d->from) && aligned(d->to);

    return cuda_check(BY_TYPE(combine_rows, d->dtype, wide, d->routing, d->gate, d->from, NULL,
                              d->to, queue->stream),
                      "decode");
}

extern "C" int cuda_encode_backward(const struct encode_backward *e, const struct cuda_queue *queue)
{
    bool wide = e->routing.width % wide_elements(e->dtype) == 0 && aligned(e->from) &&
                aligned(e->to) && aligned(e->add);

    return cuda_check(BY_TYPE(combine_rows, e->dtype, wide, e->routing, NULL, e->from, e->add,
                              e->to, queue->stream),
                      "encode_backward");
}

template <class T, int N>
static cudaError_t add_typed(const struct esmm *m, const struct results *results, uint32_t columns,
                             cudaStream_t stream)
{
    const struct kept_rows &at = m->at;
    struct routing r = {}; /* experts' rows follow each other */
    float *sums = m->sums + results->column;

    r.tokens = at.tokens;
    r.experts = at.experts;
    r.top_k = at.top_k;
    r.width = results->columns;
    r.expert = at.expert;
    r.slot = at.slot;
    r.first = (const uint64_t *)at.first;
    return combine<T, N>(r, columns, m->gate, (const T *)results->at, m->keep ? sums : NULL, sums,
                         at.width, stream);
}

cudaError_t add_results(const struct esmm *m, const struct results *r, uint32_t columns, bool wide,
                        cudaStream_t stream)
{
    return BY_TYPE(add_typed, m->at.dtype, wide, m, r, columns, stream);
}

/* ---- decode_backward: one block handles one token.  It reads the token's gradient once and holds
 * it, DEEP units in each of BLOCK threads.  Short rows use fewer threads, so that each thread still
 * has DEEP loads. */

/* Writes to = scale * grad for the held units, and returns the lane's part of grad . result. */
template <class T, int N, int BLOCK>
DEVICE float scale_and_dot(const pack<T, N> (&held_grad)[DEEP], const T *result, float scale, T *to,
                           uint64_t unit0, uint64_t units)
{
    float dot = 0;
    pack<T, N> in[DEEP];

    load_units(result, unit0, BLOCK, units, in);
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        uint64_t unit = unit0 + (uint64_t)i * BLOCK;
        float grad[N], x[N], scaled[N];

        if (unit >= units)
            continue;
        held_grad[i].values(grad);
        in[i].values(x);
#pragma unroll
        for (int n = 0; n < N; n++) {
            dot += grad[n] * x[n];
            scaled[n] = scale * grad[n];
        }
        store(to + unit * N, scaled);
    }
    return dot;
}

/* Handles choices choice0 to choice0 + WARP - 1 of a token.  `parts` has one number for each choice
 * and warp; always the same lane writes it. */
template <class T, int N, int BLOCK>
DEVICE void token_backward(const struct decode_backward &d, uint64_t token, uint32_t choice0,
                           uint64_t units, float *parts)
{
    const struct routing &r = d.routing;
    uint32_t count = min(r.top_k - choice0, (uint32_t)WARP);
    constexpr uint32_t warps = BLOCK / WARP;
    uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;

    if (lane < count)
        parts[lane * warps + warp] = 0;
    __syncwarp();
    for (uint64_t held_unit0 = 0; held_unit0 < units; held_unit0 += DEEP * BLOCK) {
        pack<T, N> held[DEEP];

        load_units((const T *)d.grad + token * r.width, held_unit0 + threadIdx.x, BLOCK, units,
                   held);
        for (uint32_t j = 0; j < count; j++) {
            uint64_t choice = token * r.top_k + choice0 + j;
            int64_t row = row_of(r, choice);
            float dot = 0;

            if (row >= 0)
                dot = warp_sum(scale_and_dot<T, N, BLOCK>(
                    held, (const T *)d.result + (uint64_t)row * r.width, d.gate[choice],
                    (T *)d.to + (uint64_t)row * r.width, held_unit0 + threadIdx.x, units));
            if (lane == 0)
                parts[j * warps + warp] += dot;
        }
    }
    __syncthreads();
    if (threadIdx.x < count) {
        float dot = 0;

        for (uint32_t w = 0; w < warps; w++)
            dot += parts[threadIdx.x * warps + w];
        d.grad_gate[token * r.top_k + choice0 + threadIdx.x] = dot;
    }
    __syncthreads();
}

template <class T, int N, int BLOCK>
static __global__ void __launch_bounds__(BLOCK, 768 / BLOCK)
    decode_backward_kernel(struct decode_backward d, uint64_t token_blocks)
{
    SHARED(float, parts, BLOCK); /* WARP choices of BLOCK / WARP warps */
    uint64_t units = d.routing.width / N;

    if (blockIdx.x >= token_blocks) {
        clear_unfilled(d.routing, units, (pack<T, N> *)d.to,
                       ((blockIdx.x - token_blocks) * (uint64_t)BLOCK + threadIdx.x) / WARP,
                       (gridDim.x - token_blocks) * (uint64_t)BLOCK / WARP);
        return;
    }
    for (uint64_t token = blockIdx.x; token < d.routing.tokens; token += token_blocks)
        for (uint32_t choice0 = 0; choice0 < d.routing.top_k; choice0 += WARP)
            token_backward<T, N, BLOCK>(d, token, choice0, units, parts);
}

template <class T, int N, int BLOCK>
static cudaError_t decode_backward_blocks(const struct decode_backward *d, cudaStream_t stream)
{
    uint64_t warps_that_clear = d->routing.width ? clear_warps(d->routing) : 0;
    uint64_t token_blocks = d->routing.tokens < (1u << 30) ? d->routing.tokens : 1u << 30;
    uint64_t blocks = token_blocks + blocks_for(warps_that_clear * WARP) * (THREADS / BLOCK);

    if (!blocks)
        return cudaSuccess;
    return launch(decode_backward_kernel<T, N, BLOCK>, blocks, BLOCK, stream, *d, token_blocks);
}

template <class T, int N>
static cudaError_t decode_backward_tokens(const struct decode_backward *d, cudaStream_t stream)
{
    uint64_t units = d->routing.width / N;

    if (units <= 64 * DEEP)
        return decode_backward_blocks<T, N, 64>(d, stream);
    if (units <= 128 * DEEP)
        return decode_backward_blocks<T, N, 128>(d, stream);
    return decode_backward_blocks<T, N, 256>(d, stream);
}

extern "C" int cuda_decode_backward(const struct decode_backward *d, const struct cuda_queue *queue)
{
    bool wide = d->routing.width % wide_elements(d->dtype) == 0 && aligned(d->grad) &&
                aligned(d->result) && aligned(d->to);

    return cuda_check(BY_TYPE(decode_backward_tokens, d->dtype, wide, d, queue->stream),
                      "decode_backward");
}

/* ---- the matrices of the baseline `dense`: one element of a one_hot row is not zero */

static __global__ void __launch_bounds__(THREADS) one_hot_kernel(struct one_hot o)
{
    for (uint64_t t = (uint64_t)blockIdx.x * THREADS + threadIdx.x; t < o.tokens;
         t += (uint64_t)gridDim.x * THREADS) {
        uint64_t choice = t * o.top_k + o.choice;
        int64_t slot = o.slot[choice];

        if (slot >= 0)
            o.to[t * o.columns + (uint64_t)(o.by_slot ? slot : o.expert[choice])] =
                o.scale ? o.scale[choice] : 1;
    }
}

extern "C" int cuda_one_hot(const struct one_hot *o, const struct cuda_queue *queue)
{
    struct fill zeros = { o->to, o->tokens * o->columns * sizeof(*o->to) };
    int rc = cuda_fill(&zeros, queue);

    if (rc || !o->tokens)
        return rc;
    return cuda_check(launch(one_hot_kernel, blocks_for(o->tokens), THREADS, queue->stream, *o),
                      "one_hot");
}

static __global__ void __launch_bounds__(THREADS) one_hot_backward_kernel(struct one_hot_backward o)
{
    for (uint64_t t = (uint64_t)blockIdx.x * THREADS + threadIdx.x; t < o.tokens;
         t += (uint64_t)gridDim.x * THREADS) {
        uint64_t choice = t * o.top_k + o.choice;

        o.grad_scale[choice] =
            o.slot[choice] < 0 ? 0 : o.grad[t * o.columns + (uint64_t)o.expert[choice]];
    }
}

extern "C" int cuda_one_hot_backward(const struct one_hot_backward *o,
                                     const struct cuda_queue *queue)
{
    if (!o->tokens)
        return 0;
    return cuda_check(
        launch(one_hot_backward_kernel, blocks_for(o->tokens), THREADS, queue->stream, *o),
        "one_hot_backward");
}

template <class T>
static __global__ void __launch_bounds__(THREADS) nonzero_kernel(struct nonzero z)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < z.count;
         i += (uint64_t)gridDim.x * THREADS)
        ((T *)z.to)[i] = narrow<T>(z.from[i] != 0);
}

template <class T, int N>
static cudaError_t nonzero_elements(const struct nonzero *z, cudaStream_t stream)
{
    return launch(nonzero_kernel<T>, blocks_for(z->count), THREADS, stream, *z);
}

extern "C" int cuda_nonzero(const struct nonzero *z, const struct cuda_queue *queue)
{
    if (!z->count)
        return 0;
    return cuda_check(BY_TYPE(nonzero_elements, z->dtype, false, z, queue->stream), "nonzero");
}
