/* One kernel copies what an exchange carries, piece by piece, each at its date on the GPU's clock.
 */
#include "cuda_virtual.h"

extern "C" {
#include "cuda.h"
}
#include "cuda_launch.cuh"

/* DEEP: 16-byte loads that each thread has in flight; all of a block's make one piece. */
enum { THREADS = 512, DEEP = 4 };
static const uint64_t PIECE_BYTES = THREADS * DEEP * sizeof(uint4);

static __device__ __forceinline__ void copy_wide(uint4 *to, const uint4 *from, uint64_t units)
{
    uint4 unit[DEEP];

#pragma unroll
    for (int i = 0; i < DEEP; i++)
        if (threadIdx.x + i * THREADS < units)
            unit[i] = from[threadIdx.x + i * THREADS];
#pragma unroll
    for (int i = 0; i < DEEP; i++)
        if (threadIdx.x + i * THREADS < units)
            to[threadIdx.x + i * THREADS] = unit[i];
}

static __device__ void copy_piece(char *to, const char *from, uint64_t bytes)
{
    bool wide = ((uintptr_t)to | (uintptr_t)from) % sizeof(uint4) == 0;
    uint64_t units = wide ? bytes / sizeof(uint4) : 0;

    copy_wide((uint4 *)to, (const uint4 *)from, units);
    for (uint64_t i = units * sizeof(uint4) + threadIdx.x; i < bytes; i += THREADS)
        to[i] = from[i];
}

/* Pieces go round the blocks across copies, so that each has as much to do.  Every block has a
 * clock of its own: as a library's blocks, it carries its share from when it begins. */
static __global__ void __launch_bounds__(THREADS) copy_all(const struct virtual_copies c)
{
    uint64_t begun_ns = gpu_clock_ns(), passed = 0;
    uint32_t turn = blockIdx.x;

    for (uint32_t i = 0; i < c.count; i++) {
        const virtual_copy &copy = c.copies[i];
        uint64_t pieces = (copy.bytes + PIECE_BYTES - 1) / PIECE_BYTES, at = turn;
        bool paced = i >= c.own;

        for (; at < pieces; at += gridDim.x) {
            uint64_t first = at * PIECE_BYTES, left = copy.bytes - first;

            if (threadIdx.x == 0 && paced)
                wait_until(begun_ns + (uint64_t)((double)(passed + first) * c.ns_per_byte));
            __syncthreads();
            copy_piece(copy.to + first, copy.from + first, left < PIECE_BYTES ? left : PIECE_BYTES);
        }
        turn = (uint32_t)(at - pieces);
        passed += paced ? copy.bytes : 0;
    }
    if (threadIdx.x == 0)
        wait_until(begun_ns + (uint64_t)((double)passed * c.ns_per_byte));
}

extern "C" int cuda_virtual_copy(const struct virtual_copies *copies, uint32_t ctas,
                                 cudaStream_t stream)
{
    return CUDA(launch(copy_all, ctas, THREADS, stream, *copies));
}
