/* The balance loss on a GPU: each column's share of choices and mean probability, and the gradient.
 *
 * Tokens are cut into ranges, one per block, and each block writes its column sums to scratch
 * memory.  A second kernel adds them up in double precision, always in the same order. */
#include "cuda_rows.cuh"

static const uint32_t held_tokens = THREADS; /* tokens whose sums a block holds at a time */

/* How tokens are cut into ranges. */
struct balance_ranges {
    uint32_t columns;
    uint64_t tokens_per_range, count;
    float *sums; /* (count, columns) */
};

static inline struct balance_ranges ranges_of(const struct balance *b,
                                              const struct cuda_queue *queue)
{
    struct balance_ranges ranges = { gate_columns(b->router, b->experts, b->groups), held_tokens, 0,
                                     (float *)queue->scratch };
    uint64_t room_ranges =
        ranges.columns ? queue->scratch_bytes / sizeof(*ranges.sums) / ranges.columns : 0;

    if (room_ranges && (b->tokens + room_ranges - 1) / room_ranges > ranges.tokens_per_range)
        ranges.tokens_per_range = (b->tokens + room_ranges - 1) / room_ranges;
    ranges.count =
        room_ranges ? (b->tokens + ranges.tokens_per_range - 1) / ranges.tokens_per_range : 0;
    return ranges;
}

/* The sum by which a token's probabilities are divided: 1 except for sigmoids. */
DEVICE float sum_of_row(uint32_t router, const float *row, uint32_t n)
{
    float sum = 0;

    if (router != MOE_ROUTER_SIGMOID)
        return 1;
    for (uint32_t e = threadIdx.x % WARP; e < n; e += WARP)
        sum += row[e];
    return warp_sum(sum);
}

static __global__ void __launch_bounds__(THREADS)
    sum_range_kernel(struct balance b, struct balance_ranges g)
{
    SHARED(float, row_sum, held_tokens);
    uint64_t begin = blockIdx.x * g.tokens_per_range, end = begin + g.tokens_per_range;

    end = end < b.tokens ? end : b.tokens;
    for (uint64_t held_first = begin; held_first < end; held_first += held_tokens) {
        uint32_t held = (uint32_t)(end - held_first < held_tokens ? end - held_first : held_tokens);
        const float *rows = b.probability + held_first * g.columns;

        for (uint32_t t = threadIdx.x / WARP; t < held; t += WARPS) {
            float sum = sum_of_row(b.router, rows + (uint64_t)t * g.columns, g.columns);

            if (threadIdx.x % WARP == 0)
                row_sum[t] = sum;
        }
        __syncthreads();
        for (uint32_t c = threadIdx.x; c < g.columns; c += THREADS) {
            float *to = g.sums + blockIdx.x * (uint64_t)g.columns + c;
            float sum = held_first > begin ? *to : 0;

            for (uint32_t t = 0; t < held; t++)
                sum += rows[(uint64_t)t * g.columns + c] / row_sum[t];
            *to = sum;
        }
        __syncthreads();
    }
}

/* Number of choices of a column.  With a bilevel router, the first `groups` columns are groups, and
 * each column after them is a place within every group. */
DEVICE int64_t count_of(const struct balance &b, uint32_t column)
{
    uint32_t group_size = b.router == MOE_ROUTER_BILEVEL ? b.experts / b.groups : 1;
    bool is_place = b.router == MOE_ROUTER_BILEVEL && column >= b.groups;
    uint32_t count = is_place ? b.groups : group_size, step = is_place ? group_size : 1;
    uint32_t expert0 = is_place ? column - b.groups : column * group_size;
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += b.needed[expert0 + i * step];
    return sum;
}

static __global__ void __launch_bounds__(THREADS)
    mean_kernel(struct balance b, struct balance_ranges g)
{
    for (uint64_t c = (uint64_t)blockIdx.x * THREADS + threadIdx.x; c < g.columns;
         c += (uint64_t)gridDim.x * THREADS) {
        double sum = 0, choices = (double)b.tokens * b.top_k;

        for (uint64_t i = 0; i < g.count; i++)
            sum += (double)g.sums[i * g.columns + c];
        b.mean[c] = b.tokens ? (float)(sum / b.tokens) : 0;
        b.share[c] = b.tokens ? (float)((double)count_of(b, (uint32_t)c) / choices) : 0;
    }
}

extern "C" int cuda_balance(const struct balance *b, const struct cuda_queue *queue)
{
    struct balance_ranges g = ranges_of(b, queue);
    cudaError_t code = cudaSuccess;

    if (b->tokens && g.columns && !g.count) /* scratch memory is too small for one range */
        code = cudaErrorInvalidValue;
    if (!code && g.count)
        code = launch(sum_range_kernel, g.count, THREADS, queue->stream, *b, g);
    if (!code && g.columns)
        code = launch(mean_kernel, blocks_for(g.columns), THREADS, queue->stream, *b, g);
    return cuda_check(code, "balance");
}

/* A warp adds one token's gradient for n columns; `weight` is per token. */
DEVICE void balance_columns(const struct balance_backward &b, const float *row, const float *share,
                            uint32_t n, float weight, float *to)
{
    float row_sum = sum_of_row(b.router, row, n), mean = 0;

    for (uint32_t c = threadIdx.x % WARP; c < n; c += WARP)
        mean += share[c] * row[c];
    mean = warp_sum(mean) / row_sum;
    for (uint32_t c = threadIdx.x % WARP; c < n; c += WARP)
        to[c] += weight * row[c] / row_sum * (b.router == MOE_ROUTER_SIGMOID ? 1 - row[c] : 1.0f) *
                 (share[c] - mean);
}

static __global__ void __launch_bounds__(THREADS)
    balance_backward_kernel(struct balance_backward b, uint32_t columns)
{
    /* columns of the first level; only a bilevel router has a second one */
    uint32_t level1 = b.router == MOE_ROUTER_BILEVEL ? b.groups : columns;

    for (uint64_t token = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; token < b.tokens;
         token += (uint64_t)gridDim.x * WARPS) {
        const float *row = b.probability + token * columns;
        float *to = b.grad_logits + token * columns;

        balance_columns(b, row, b.share, level1, b.weight[0] / b.tokens, to);
        if (level1 < columns)
            balance_columns(b, row + level1, b.share + level1, columns - level1,
                            b.weight[1] / b.tokens, to + level1);
    }
}

extern "C" int cuda_balance_backward(const struct balance_backward *b,
                                     const struct cuda_queue *queue)
{
    uint64_t blocks = blocks_for((uint64_t)b->tokens * WARP);

    if (!blocks || !b->experts)
        return 0;
    return cuda_check(launch(balance_backward_kernel, blocks, THREADS, queue->stream, *b,
                             gate_columns(b->router, b->experts, b->groups)),
                      "balance_backward");
}
