/* Experts without padding: the kernel reindex on a GPU, which sorts kept choices by expert. */
#include "cuda_rows.cuh"

/* Finds where each expert's rows begin.  One warp adds them up, 32 experts at a time. */
static __global__ void __launch_bounds__(WARP) first_kernel(struct reindex r)
{
    uint32_t lane = threadIdx.x;
    int64_t rows_before = 0;

    if (lane == 0)
        r.first[0] = 0;
    for (uint32_t expert0 = 0; expert0 < r.experts; expert0 += WARP) {
        uint32_t e = expert0 + lane;
        uint64_t capacity = r.capacities && e < r.experts ? r.capacities[e] : r.capacity;
        int64_t rows = e < r.experts ? (int64_t)min((uint64_t)r.needed[e], capacity) : 0;

        rows = warp_running_sum(rows);
        if (e < r.experts)
            r.first[e + 1] = rows_before + rows;
        rows_before += __shfl_sync(all_lanes, rows, WARP - 1);
    }
}

/* Writes the choice of each row. */
static __global__ void __launch_bounds__(THREADS) choice_kernel(struct reindex r, uint64_t choices)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < choices;
         i += (uint64_t)gridDim.x * THREADS)
        if (r.slot[i] >= 0)
            r.choice[r.first[r.expert[i]] + r.slot[i]] = (int64_t)i;
}

extern "C" int cuda_reindex(const struct reindex *r, const struct cuda_queue *queue)
{
    uint64_t choices = (uint64_t)r->tokens * r->top_k;
    cudaError_t code = launch(first_kernel, 1, WARP, queue->stream, *r);

    if (!code && choices)
        code = launch(choice_kernel, blocks_for(choices), THREADS, queue->stream, *r, choices);
    return cuda_check(code, "reindex");
}
