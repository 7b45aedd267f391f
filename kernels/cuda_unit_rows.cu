/* The kernels unit_rows, its gradient, and keep_losses on a GPU; one warp handles one row. */
#include "cuda_rows.cuh"

DEVICE float factor_of(const float *exponent)
{
    return exponent ? expf(fminf(*exponent, UNIT_ROWS_MOST)) : 1;
}

DEVICE float dot(const float *a, const float *b, uint64_t n)
{
    float sum = 0;

    for (uint64_t i = threadIdx.x % WARP; i < n; i += WARP)
        sum += a[i] * b[i];
    return warp_sum(sum);
}

static __global__ void __launch_bounds__(THREADS) unit_rows_kernel(struct unit_rows u)
{
    uint32_t lane = threadIdx.x % WARP;
    float factor = factor_of(u.exponent);

    for (uint64_t r = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; r < u.rows;
         r += (uint64_t)gridDim.x * WARPS) {
        const float *from = u.from + r * u.width;
        float length = fmaxf(sqrtf(dot(from, from, u.width)), UNIT_ROWS_LEAST);
        float scale = factor / length;

        for (uint64_t i = lane; i < u.width; i += WARP)
            u.to[r * u.width + i] = scale * from[i];
        if (lane == 0)
            u.length[r] = length;
    }
}

extern "C" int cuda_unit_rows(const struct unit_rows *u, const struct cuda_queue *queue)
{
    if (!u->rows)
        return 0;
    return cuda_check(
        launch(unit_rows_kernel, blocks_for(u->rows * WARP), THREADS, queue->stream, *u),
        "unit_rows");
}

/* With to = factor * from / length, the gradient has no part along `to`, except where the length is
 * the constant UNIT_ROWS_LEAST. */
static __global__ void __launch_bounds__(THREADS)
    unit_rows_backward_kernel(struct unit_rows_backward u)
{
    uint32_t lane = threadIdx.x % WARP;
    float factor = factor_of(u.exponent);

    for (uint64_t r = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; r < u.rows;
         r += (uint64_t)gridDim.x * WARPS) {
        const float *to = u.to + r * u.width, *grad = u.grad_to + r * u.width;
        float length = u.length[r], along = dot(to, grad, u.width), scale = factor / length;
        float back = length > UNIT_ROWS_LEAST ? along / (factor * length) : 0;

        for (uint64_t i = lane; i < u.width; i += WARP)
            u.grad_from[r * u.width + i] = scale * grad[i] - back * to[i];
        if (u.grad_exponent && lane == 0)
            u.grad_exponent[r] = *u.exponent > UNIT_ROWS_MOST ? 0 : along;
    }
}

extern "C" int cuda_unit_rows_backward(const struct unit_rows_backward *u,
                                       const struct cuda_queue *queue)
{
    if (!u->rows)
        return 0;
    return cuda_check(
        launch(unit_rows_backward_kernel, blocks_for(u->rows * WARP), THREADS, queue->stream, *u),
        "unit_rows_backward");
}

static __global__ void __launch_bounds__(THREADS) keep_losses_kernel(struct keep_losses l)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < l.choices;
         i += (uint64_t)gridDim.x * THREADS)
        l.grad_gate[i] = l.slot[i] < 0 ? 0 : l.loss[i];
}

extern "C" int cuda_keep_losses(const struct keep_losses *l, const struct cuda_queue *queue)
{
    if (!l->choices)
        return 0;
    return cuda_check(
        launch(keep_losses_kernel, blocks_for(l->choices), THREADS, queue->stream, *l),
        "keep_losses");
}
