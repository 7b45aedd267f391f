/* Kernels that are wrong, to see that cuda_on_cpu.h notices: see tests/gpu/test_cuda_kernels.c. */
#include "cuda_rows.cuh"

/* Half of the block waits at a barrier that the other half never reaches. */
static __global__ void divergent_barrier(int *to)
{
    if (threadIdx.x < 64)
        __syncthreads();
    else
        to[threadIdx.x] = 1;
    __syncthreads();
}

/* A lane that has left is asked for its value. */
static __global__ void absent_lane(int *to)
{
    if (threadIdx.x % WARP == 3)
        return;
    to[threadIdx.x] = __shfl_xor_sync(all_lanes, 1, 1);
}

/* Each thread reads what its neighbour writes, with a barrier between or without. */
static __global__ void neighbours(int *to, bool barrier)
{
    SHARED(int, line, 128);

    line[threadIdx.x] = (int)threadIdx.x;
    if (barrier)
        __syncthreads();
    to[threadIdx.x] = line[threadIdx.x ^ 1];
}

/* Each thread reads what it has copied, after that copy has come or while it may be under way. */
static __global__ void copied(const uint4 *from, int *to, bool waits)
{
    SHARED(uint4, line, 128);

    copy_async(line + threadIdx.x, from + threadIdx.x, true);
    copies_commit();
    copies_commit();
    if (waits)
        copies_wait<1>();
    else
        copies_wait<2>();
    to[threadIdx.x] = (int)line[threadIdx.x].x;
}

extern "C" int broken_divergent_barrier(int *to)
{
    return launch(divergent_barrier, 1, 128, NULL, to);
}

extern "C" int broken_absent_lane(int *to)
{
    return launch(absent_lane, 1, 128, NULL, to);
}

extern "C" int broken_neighbours(int *to, int barrier)
{
    return launch(neighbours, 1, 128, NULL, to, barrier != 0);
}

extern "C" int broken_copies(const void *from, int *to, int waits)
{
    return launch(copied, 1, 128, NULL, (const uint4 *)from, to, waits != 0);
}
