/* The kernels of experts on a GPU, except products: biases and activations, forward and backward.
 *
 * Template parameters: T is the type of elements in memory.  N is how many elements one load or
 * store moves: 16 bytes of T, or 1 where rows are not aligned to that.  A unit is N elements.  KIND
 * is the activation, a MOE_... word.  Each lane loads DEEP units before it computes
 * (cuda_rows.cuh).
 */
#include "cuda_act.cuh"
#include "cuda_rows.cuh"

/* The experts of a batch, whose rows follow each other: expert i begins at row starts[i].
 * starts NULL: each expert has `rows` rows. */
struct owners {
    const uint64_t *starts;
    uint64_t count, rows;
};

/* The expert that a row belongs to. */
DEVICE uint64_t owner_of_row(const struct owners &o, uint64_t row)
{
    return owner_of(o.starts, o.count, o.rows, row);
}

/* ---- Activations */

/* Computes post = act(pre + bias) for each row; for SwiGLU, silu(pre + bias) * up.  Keeps pre +
 * bias in pre for the backward pass, unless pre and post are the same. */
template <int KIND, class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    activate_kernel(struct pieces p, struct owners o, const T *bias, T *pre, const T *up, T *post)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t unit0, uint32_t step) {
        pack<T, N> in[DEEP], in_bias[DEEP], in_up[DEEP];

        load_units(pre + row * p.units * N, unit0, step, p.units, in);
        load_units(bias + owner_of_row(o, row) * p.units * N, unit0, step, p.units, in_bias);
        if (KIND == MOE_SWIGLU)
            load_units(up + row * p.units * N, unit0, step, p.units, in_up);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t unit = unit0 + i * step, at = (row * p.units + unit) * N;
            float x[N], b[N], gate[N] = {}, y[N];

            if (unit >= p.units)
                continue;
            in[i].values(x);
            in_bias[i].values(b);
            if (KIND == MOE_SWIGLU)
                in_up[i].values(gate);
#pragma unroll
            for (int n = 0; n < N; n++) {
                x[n] += b[n];
                y[n] = act<KIND>(x[n], gate[n]);
            }
            if (pre != post)
                store(pre + at, x);
            store(post + at, y);
        }
    });
}

/* Computes grad_pre = grad_post * act'(pre) for each row, where pre has its bias already.  For
 * SwiGLU it also computes grad_up.  grad_pre and grad_post may be the same. */
template <int KIND, class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    activate_backward_kernel(struct pieces p, const T *pre, const T *up, const T *grad_post,
                             T *grad_pre, T *grad_up)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t unit0, uint32_t step) {
        pack<T, N> in[DEEP], in_grad_post[DEEP], in_up[DEEP];

        load_units(pre + row * p.units * N, unit0, step, p.units, in);
        load_units(grad_post + row * p.units * N, unit0, step, p.units, in_grad_post);
        if (KIND == MOE_SWIGLU)
            load_units(up + row * p.units * N, unit0, step, p.units, in_up);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t unit = unit0 + i * step, at = (row * p.units + unit) * N;
            float x[N], gate[N] = {}, grad_out[N], grad_in[N], grad_up_in[N];

            if (unit >= p.units)
                continue;
            in[i].values(x);
            in_grad_post[i].values(grad_out);
            if (KIND == MOE_SWIGLU)
                in_up[i].values(gate);
#pragma unroll
            for (int n = 0; n < N; n++)
                grad_in[n] = act_backward<KIND>(x[n], gate[n], grad_out[n], grad_up_in[n]);
            store(grad_pre + at, grad_in);
            if (KIND == MOE_SWIGLU)
                store(grad_up + at, grad_up_in);
        }
    });
}

template <int KIND, class T, int N>
static cudaError_t activate_kind(const struct activate *a, cudaStream_t stream)
{
    struct pieces p = pieces_of(rows_of_all(a->first, a->batch, a->rows), a->width / N);
    struct owners o = { a->first, a->batch, a->rows };

    if (!p.count)
        return cudaSuccess;
    return launch(activate_kernel<KIND, T, N>, piece_blocks(p), THREADS, stream, p, o,
                  (const T *)a->bias, (T *)a->pre, (const T *)a->up, (T *)a->post);
}

template <int KIND, class T, int N>
static cudaError_t activate_backward_kind(const struct activate_backward *a, cudaStream_t stream)
{
    struct pieces p = pieces_of(a->batch * a->rows, a->width / N);

    if (!p.count)
        return cudaSuccess;
    return launch(activate_backward_kernel<KIND, T, N>, piece_blocks(p), THREADS, stream, p,
                  (const T *)a->pre, (const T *)a->up, (const T *)a->grad_post, (T *)a->grad_pre,
                  (T *)a->grad_up);
}

#define BY_KIND(function, a, stream)                                                               \
    ((a)->kind == MOE_RELU ? function<MOE_RELU, T, N>(a, stream)                                   \
                           : ((a)->kind == MOE_GELU ? function<MOE_GELU, T, N>(a, stream)          \
                                                    : function<MOE_SWIGLU, T, N>(a, stream)))

template <class T, int N>
static cudaError_t activate_typed(const struct activate *a, cudaStream_t stream)
{
    return BY_KIND(activate_kind, a, stream);
}

template <class T, int N>
static cudaError_t activate_backward_typed(const struct activate_backward *a, cudaStream_t stream)
{
    return BY_KIND(activate_backward_kind, a, stream);
}

extern "C" int cuda_activate(const struct activate *a, const struct cuda_queue *queue)
{
    bool wide = a->width % wide_elements(a->dtype) == 0 && aligned(a->bias) && aligned(a->pre) &&
                aligned(a->up) && aligned(a->post);

    return cuda_check(BY_TYPE(activate_typed, a->dtype, wide, a, queue->stream), "activate");
}

extern "C" int cuda_activate_backward(const struct activate_backward *a,
                                      const struct cuda_queue *queue)
{
    bool wide = a->width % wide_elements(a->dtype) == 0 && aligned(a->pre) && aligned(a->up) &&
                aligned(a->grad_post) && aligned(a->grad_pre) && aligned(a->grad_up);

    return cuda_check(BY_TYPE(activate_backward_typed, a->dtype, wide, a, queue->stream),
                      "activate_backward");
}

/* ---- Biases */

/* Adds to each row the bias of its expert.  Biases are `stride` elements apart. */
template <class T, int N>
static __global__ void __launch_bounds__(THREADS)
    add_bias_kernel(struct pieces p, struct owners o, uint64_t stride, const T *bias, T *to)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t unit0, uint32_t step) {
        pack<T, N> in[DEEP], in_bias[DEEP];

        load_units(to + row * p.units * N, unit0, step, p.units, in);
        load_units(bias + owner_of_row(o, row) * stride, unit0, step, p.units, in_bias);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            float x[N], b[N];

            if (unit0 + i * step >= p.units)
                continue;
            in[i].values(x);
            in_bias[i].values(b);
#pragma unroll
            for (int n = 0; n < N; n++)
                x[n] += b[n];
            store(to + (row * p.units + unit0 + i * step) * N, x);
        }
    });
}

template <class T, int N>
static cudaError_t add_bias_typed(const struct add_bias *a, cudaStream_t stream)
{
    struct pieces p = pieces_of(rows_of_all(a->first, a->batch, a->rows), a->width / N);
    struct owners o = { a->first, a->batch, a->rows };

    if (!p.count)
        return cudaSuccess;
    return launch(add_bias_kernel<T, N>, piece_blocks(p), THREADS, stream, p, o, a->bias_stride,
                  (const T *)a->bias, (T *)a->to);
}

extern "C" int cuda_add_bias(const struct add_bias *a, const struct cuda_queue *queue)
{
    uint32_t n = wide_elements(a->dtype);
    bool wide = a->width % n == 0 && a->bias_stride % n == 0 && aligned(a->bias) && aligned(a->to);

    return cuda_check(BY_TYPE(add_bias_typed, a->dtype, wide, a, queue->stream), "add_bias");
}

/* ---- Column sums, in two passes.  Rows are cut into parts that depend only on the shape, so the
 * sum is the same on every GPU and in every run.  Where experts have different numbers of rows,
 * each gets as many parts as all rows together need; most of these are empty. */

static const uint64_t part_rows = 256, parts_most = 64;

/* The parts of the experts that one launch sums. */
struct parts {
    uint64_t experts, rows, width; /* `rows` of each expert where starts is NULL */
    uint64_t count, rows_per_part; /* parts of each expert */
    float *sums;                   /* (experts, count, width) */
    const uint64_t *starts;        /* first row of each of these experts; or NULL */
};

/* Adds N columns of rows row0, row0 + WARPS, ... below `last` to sum; at most DEEP rows. */
template <class T, int N>
DEVICE void add_rows(const T *from, uint64_t row0, uint64_t last, uint64_t width, float (&sum)[N])
{
    pack<T, N> in[DEEP];

#pragma unroll
    for (int i = 0; i < DEEP; i++)
        in[i] = pack<T, N>::load(from + min(row0 + i * WARPS, last - 1) * width);
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        float x[N];

        in[i].values(x);
#pragma unroll
        for (int n = 0; n < N; n++)
            sum[n] += row0 + i * WARPS < last ? x[n] : 0;
    }
}

/* A block adds up one part of the rows in WARP * N columns; each of its warps takes every WARPS-th
 * row. */
template <class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    sum_parts_kernel(struct parts s, uint64_t across, const T *from)
{
    /* shares[n * THREADS + t]: thread t's sum of its n-th column */
    SHARED(float, shares, THREADS *N);
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint64_t part = blockIdx.x / across, column = ((blockIdx.x % across) * WARP + lane) * N;
    uint64_t expert = part / s.count, start = first_row_of(s.starts, s.rows, expert);
    uint64_t rows = first_row_of(s.starts, s.rows, expert + 1) - start;
    uint64_t part_first = (part - expert * s.count) * s.rows_per_part;
    uint64_t part_last = part_first + s.rows_per_part < rows ? part_first + s.rows_per_part : rows;
    float sum[N] = {};

    if (column < s.width)
        for (uint64_t row = part_first + warp; row < part_last; row += DEEP * WARPS)
            add_rows(from + start * s.width + column, row, part_last, s.width, sum);
#pragma unroll
    for (int n = 0; n < N; n++)
        shares[n * THREADS + threadIdx.x] = sum[n];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < WARP * N; i += THREADS) {
        uint64_t sum_column = (blockIdx.x % across) * WARP * N + i;
        float block_sum = 0;

        for (uint32_t w = 0; w < WARPS; w++)
            block_sum += shares[i % N * THREADS + w * WARP + i / N];
        if (sum_column < s.width)
            s.sums[part * s.width + sum_column] = block_sum;
    }
}

/* Adds up each expert's parts, and writes its row of `to`, `stride` elements long.  Columns past
 * the width become 0, or stay as they are with `keep`. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    add_parts_kernel(struct parts s, bool keep, uint64_t stride, T *to)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < s.experts * stride;
         i += (uint64_t)gridDim.x * THREADS) {
        uint64_t expert = i / stride, column = i - expert * stride;
        float sum = 0;

        for (uint64_t part = 0; part < s.count && column < s.width; part++)
            sum += s.sums[(expert * s.count + part) * s.width + column];
        to[i] = narrow<T>(keep ? widen(to[i]) + sum : sum);
    }
}

template <class T, int N>
static cudaError_t sum_experts(const struct sum_rows *a, const struct parts &s, const T *from,
                               T *to, cudaStream_t stream)
{
    uint64_t across = (s.width + WARP * N - 1) / (WARP * N), blocks = across * s.count * s.experts;
    cudaError_t code = cudaSuccess;

    if (blocks)
        code = launch(sum_parts_kernel<T, N>, blocks, THREADS, stream, s, across, from);
    if (!code)
        code = launch(add_parts_kernel<T>, blocks_for(s.experts * a->to_stride), THREADS, stream, s,
                      a->keep, a->to_stride, to);
    return code;
}

/* Processes as many experts at a time as scratch memory has room for their sums. */
template <class T, int N>
static cudaError_t sum_rows_typed(const struct sum_rows *a, const struct cuda_queue *queue)
{
    struct parts s = {};
    uint64_t room_rows = a->width ? queue->scratch_bytes / sizeof(float) / a->width : 1;
    uint64_t most_parts = room_rows < parts_most ? room_rows : parts_most, room_experts;
    cudaError_t code = cudaSuccess;

    s.rows = a->rows;
    s.width = a->width;
    s.count = (a->rows + part_rows - 1) / part_rows;
    s.rows_per_part = part_rows;
    s.sums = (float *)queue->scratch;
    if (!a->to_stride || !a->batch)
        return cudaSuccess;
    if (!most_parts)
        return cudaErrorInvalidValue; /* one row of sums does not fit in scratch memory */
    if (s.count > most_parts) {
        s.rows_per_part = (a->rows + most_parts - 1) / most_parts;
        s.count = (a->rows + s.rows_per_part - 1) / s.rows_per_part;
    }
    room_experts = room_rows / (s.count ? s.count : 1);
    for (uint64_t done = 0; !code && done < a->batch; done += s.experts) {
        s.experts = a->batch - done < room_experts ? a->batch - done : room_experts;
        s.starts = a->first ? a->first + done : NULL;
        code =
            sum_experts<T, N>(a, s, (const T *)a->from + (a->first ? 0 : done * a->rows * a->width),
                              (T *)a->to + done * a->to_stride, queue->stream);
    }
    return code;
}

extern "C" int cuda_sum_rows(const struct sum_rows *a, const struct cuda_queue *queue)
{
    bool wide = a->width % wide_elements(a->dtype) == 0 && aligned(a->from);

    return cuda_check(BY_TYPE(sum_rows_typed, a->dtype, wide, a, queue), "sum_rows");
}
