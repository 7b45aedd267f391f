/* Copies at a limited pace, for virtual ranks.  Copies are cut into pieces, and each piece waits
 * for its time on the GPU's clock.  A copy engine or a kernel copies the pieces.  Also a kernel
 * that waits for the host. */
extern "C" {
#include "cuda.h"
#include "status.h"
}
#include "cuda_copy.h"
#include "cuda_launch.cuh"
#include "cuda_paced.h"

#include <stdint.h>

/* ---- by a copy engine */

/* Each wait is a kernel, which needs a place on a multiprocessor, and other kernels may occupy it
 * for long.  So pieces are large, and a sequence has at most PIECES_MOST (and one more for each of
 * its copies). */
static const uint64_t PIECE_BYTES_LEAST = 4 << 20, PIECES_MOST = 16;

static __global__ void begin(uint64_t *clock)
{
    *clock = gpu_clock_ns();
}

/* One thread, so that it takes almost nothing from the kernels beside it. */
static __global__ void wait_for(const uint64_t *clock, uint64_t due_ns)
{
    wait_until(*clock + due_ns);
}

static int wait_for_bytes(const struct paced *p, uint64_t bytes, cudaStream_t stream)
{
    return CUDA(launch(wait_for, 1, 1, stream, (const uint64_t *)p->clock,
                       (uint64_t)((double)bytes * p->ns_per_byte)));
}

int cuda_paced_begin(struct paced *p, cudaStream_t stream)
{
    p->bytes = 0;
    return CUDA(launch(begin, 1, 1, stream, (uint64_t *)p->clock));
}

int cuda_paced_copy(struct paced *p, void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    uint64_t equal_part = (p->all + PIECES_MOST - 1) / PIECES_MOST;
    uint64_t piece_bytes = equal_part > PIECE_BYTES_LEAST ? equal_part : PIECE_BYTES_LEAST;

    for (size_t offset = 0; offset < bytes; offset += piece_bytes) {
        size_t n = bytes - offset < piece_bytes ? bytes - offset : piece_bytes;

        if (p->bytes)
            TRY(wait_for_bytes(p, p->bytes, stream));
        TRY(cuda_copy_beside((char *)to + offset, (const char *)from + offset, n, stream));
        p->bytes += n;
    }
    return OK;
}

int cuda_paced_end(struct paced *p, cudaStream_t stream)
{
    return wait_for_bytes(p, p->bytes, stream);
}

/* ---- by a kernel */

/* DEEP: 16-byte loads that each thread has in flight; those of a whole block are one piece. */
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

/* Blocks take pieces in turn, across copies, so that each has the same work.  Every block counts
 * time from its own beginning, as the blocks of a communication library do. */
static __global__ void __launch_bounds__(THREADS) copy_all(const struct virtual_copies c)
{
    uint64_t begun_ns = gpu_clock_ns(), passed_bytes = 0;
    uint32_t next_piece = blockIdx.x;

    for (uint32_t i = 0; i < c.count; i++) {
        const virtual_copy &copy = c.copies[i];
        uint64_t pieces = (copy.bytes + PIECE_BYTES - 1) / PIECE_BYTES, piece = next_piece;
        bool paced = i >= c.own;

        for (; piece < pieces; piece += gridDim.x) {
            uint64_t offset = piece * PIECE_BYTES, left = copy.bytes - offset;

            if (threadIdx.x == 0 && paced)
                wait_until(begun_ns + (uint64_t)((double)(passed_bytes + offset) * c.ns_per_byte));
            __syncthreads();
            copy_piece(copy.to + offset, copy.from + offset,
                       left < PIECE_BYTES ? left : PIECE_BYTES);
        }
        next_piece = (uint32_t)(piece - pieces);
        passed_bytes += paced ? copy.bytes : 0;
    }
    if (threadIdx.x == 0)
        wait_until(begun_ns + (uint64_t)((double)passed_bytes * c.ns_per_byte));
}

extern "C" int cuda_virtual_copy(const struct virtual_copies *copies, uint32_t ctas,
                                 cudaStream_t stream)
{
    return CUDA(launch(copy_all, ctas, THREADS, stream, *copies));
}

/* ---- waiting for the host */

/* See cuda_wait_said(). */
static __global__ void wait_said(volatile uint32_t *said, uint32_t turn, uint64_t most_ns)
{
    uint64_t end_ns = gpu_clock_ns() + most_ns;

    while ((int32_t)(said[0] - turn) < 0) { /* numbers may wrap around */
        if (gpu_clock_ns() >= end_ns) {
            said[1] = turn;
            return;
        }
        wait_until(gpu_clock_ns() + 200);
    }
}

extern "C" int cuda_wait_said(uint32_t said[2], uint32_t turn, uint64_t most_ns,
                              cudaStream_t stream)
{
    return CUDA(launch(wait_said, 1, 1, stream, (volatile uint32_t *)said, turn, most_ns));
}
