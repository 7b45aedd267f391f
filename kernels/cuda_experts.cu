/* The kernels of experts on a GPU, except products: biases and activations, forward and backward.
 */
#include "cuda_act.cuh"
#include "cuda_rows.cuh"

/* A batch of experts whose rows follow each other: `rows` each, or as `first` gives them. */
struct owners {
    const uint64_t *first;
    uint64_t count, rows;
};

/* ---- Activations */

/* pre and post may be the same. */
template <int KIND, class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    activate_kernel(struct pieces p, struct owners o, const T *bias, T *pre, const T *up, T *post)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t first, uint32_t step) {
        pack<T, N> in[DEEP], in_bias[DEEP], in_up[DEEP];

        load_units(pre + row * p.units * N, first, step, p.units, in);
        load_units(bias + owner_of(o.first, o.count, o.rows, row) * p.units * N, first, step,
                   p.units, in_bias);
        if (KIND == MOE_SWIGLU)
            load_units(up + row * p.units * N, first, step, p.units, in_up);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t unit = first + i * step, at = (row * p.units + unit) * N;
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

/* grad_pre and grad_post may be the same. */
template <int KIND, class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    activate_backward_kernel(struct pieces p, const T *pre, const T *up, const T *grad_post,
                             T *grad_pre, T *grad_up)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t first, uint32_t step) {
        pack<T, N> in[DEEP], in_grad[DEEP], in_up[DEEP];

        load_units(pre + row * p.units * N, first, step, p.units, in);
        load_units(grad_post + row * p.units * N, first, step, p.units, in_grad);
        if (KIND == MOE_SWIGLU)
            load_units(up + row * p.units * N, first, step, p.units, in_up);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            uint64_t unit = first + i * step, at = (row * p.units + unit) * N;
            float x[N], gate[N] = {}, grad[N], to[N], to_up[N];

            if (unit >= p.units)
                continue;
            in[i].values(x);
            in_grad[i].values(grad);
            if (KIND == MOE_SWIGLU)
                in_up[i].values(gate);
#pragma unroll
            for (int n = 0; n < N; n++)
                to[n] = slope<KIND>(x[n], gate[n], grad[n], to_up[n]);
            store(grad_pre + at, to);
            if (KIND == MOE_SWIGLU)
                store(grad_up + at, to_up);
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

template <class T, int N>
static __global__ void __launch_bounds__(THREADS)
    add_bias_kernel(struct pieces p, struct owners o, uint64_t stride, const T *bias, T *to)
{
    each_piece(p, gridDim.x, [&](uint64_t row, uint64_t first, uint32_t step) {
        pack<T, N> in[DEEP], in_bias[DEEP];

        load_units(to + row * p.units * N, first, step, p.units, in);
        load_units(bias + owner_of(o.first, o.count, o.rows, row) * stride, first, step, p.units,
                   in_bias);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            float x[N], b[N];

            if (first + i * step >= p.units)
                continue;
            in[i].values(x);
            in_bias[i].values(b);
#pragma unroll
            for (int n = 0; n < N; n++)
                x[n] += b[n];
            store(to + (row * p.units + first + i * step) * N, x);
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

struct parts {
    uint64_t batch, rows, width, count, each; /* count: parts; each: rows of a part */
    float *sums;                              /* (batch, count, width) */
    const uint64_t *first;                    /* where rows begin, from this batch on; or NULL */
};

/* Adds N columns of rows first, first + WARPS, ... below `last` to sum; at most DEEP rows. */
template <class T, int N>
DEVICE void add_rows(const T *from, uint64_t first, uint64_t last, uint64_t width, float (&sum)[N])
{
    pack<T, N> in[DEEP];

#pragma unroll
    for (int i = 0; i < DEEP; i++)
        in[i] = pack<T, N>::load(from + min(first + i * WARPS, last - 1) * width);
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        float x[N];

        in[i].values(x);
#pragma unroll
        for (int n = 0; n < N; n++)
            sum[n] += first + i * WARPS < last ? x[n] : 0;
    }
}

/* A block adds up one part of the rows in WARP * N columns; each of its warps takes every WARPS-th
 * row. */
template <class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    sum_parts_kernel(struct parts s, uint64_t across, const T *from)
{
    SHARED(float, shares, THREADS *N);
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint64_t part = blockIdx.x / across, column = ((blockIdx.x % across) * WARP + lane) * N;
    uint64_t batch = part / s.count, begin = first_row_of(s.first, s.rows, batch);
    uint64_t rows = first_row_of(s.first, s.rows, batch + 1) - begin;
    uint64_t first = (part - batch * s.count) * s.each;
    uint64_t last = first + s.each < rows ? first + s.each : rows;
    float sum[N] = {};

    if (column < s.width)
        for (uint64_t row = first + warp; row < last; row += DEEP * WARPS)
            add_rows(from + begin * s.width + column, row, last, s.width, sum);
#pragma unroll
    for (int n = 0; n < N; n++)
        shares[n * THREADS + threadIdx.x] = sum[n];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < WARP * N; i += THREADS) {
        uint64_t at = (blockIdx.x % across) * WARP * N + i;
        float whole = 0;

        for (uint32_t w = 0; w < WARPS; w++)
            whole += shares[i % N * THREADS + w * WARP + i / N];
        if (at < s.width)
            s.sums[part * s.width + at] = whole;
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    add_parts_kernel(struct parts s, bool keep, uint64_t stride, T *to)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < s.batch * stride;
         i += (uint64_t)gridDim.x * THREADS) {
        uint64_t batch = i / stride, column = i - batch * stride;
        float sum = 0;

        for (uint64_t part = 0; part < s.count && column < s.width; part++)
            sum += s.sums[(batch * s.count + part) * s.width + column];
        to[i] = narrow<T>(keep ? widen(to[i]) + sum : sum);
    }
}

template <class T, int N>
static cudaError_t sum_batches(const struct sum_rows *a, const struct parts &s, const T *from,
                               T *to, cudaStream_t stream)
{
    uint64_t across = (s.width + WARP * N - 1) / (WARP * N), blocks = across * s.count * s.batch;
    cudaError_t code = cudaSuccess;

    if (blocks)
        code = launch(sum_parts_kernel<T, N>, blocks, THREADS, stream, s, across, from);
    if (!code)
        code = launch(add_parts_kernel<T>, blocks_for(s.batch * a->to_stride), THREADS, stream, s,
                      a->keep, a->to_stride, to);
    return code;
}

/* Processes as much of the batch at a time as scratch memory has room for its sums. */
template <class T, int N>
static cudaError_t sum_rows_typed(const struct sum_rows *a, const struct cuda_queue *queue)
{
    struct parts s = { 0,         a->rows,
                       a->width,  (a->rows + part_rows - 1) / part_rows,
                       part_rows, (float *)queue->scratch,
                       NULL };
    uint64_t room = a->width ? queue->scratch_bytes / sizeof(float) / a->width : 1;
    uint64_t most = room < parts_most ? room : parts_most;
    cudaError_t code = cudaSuccess;

    if (!a->to_stride || !a->batch)
        return cudaSuccess;
    if (!most)
        return cudaErrorInvalidValue; /* a row takes 32 MiB in f32 */
    if (s.count > most) {
        s.each = (a->rows + most - 1) / most;
        s.count = (a->rows + s.each - 1) / s.each;
    }
    room /= s.count ? s.count : 1;
    for (uint64_t b = 0; !code && b < a->batch; b += s.batch) {
        s.batch = a->batch - b < room ? a->batch - b : room;
        s.first = a->first ? a->first + b : NULL;
        code = sum_batches<T, N>(a, s, (const T *)a->from + (a->first ? 0 : b * a->rows * a->width),
                                 (T *)a->to + b * a->to_stride, queue->stream);
    }
    return code;
}

extern "C" int cuda_sum_rows(const struct sum_rows *a, const struct cuda_queue *queue)
{
    bool wide = a->width % wide_elements(a->dtype) == 0 && aligned(a->from);

    return cuda_check(BY_TYPE(sum_rows_typed, a->dtype, wide, a, queue), "sum_rows");
}
