/* Cuts a copy into pieces, each of which waits for its date on the GPU's own clock. */
extern "C" {
#include "cuda.h"
#include "status.h"
}
#include "cuda_launch.cuh"
#include "cuda_paced.h"

#include <stdint.h>

/* A block copies a piece in a moment and then waits for the next one's date; an engine's pieces are
 * larger, because each costs two launches. */
enum { THREADS = 512, DEEP = 4 }; /* DEEP: loads that a thread has in flight */
static const uint64_t BLOCK_PIECE_BYTES = THREADS * DEEP * sizeof(uint4);
static const uint64_t ENGINE_PIECE_BYTES = 4 << 20;

static __device__ __forceinline__ void wait_until(uint64_t date_ns)
{
    while (gpu_clock_ns() < date_ns)
        __nanosleep(200);
}

static __global__ void begin(uint64_t *clock)
{
    *clock = gpu_clock_ns();
}

/* One thread, so that it takes next to nothing from the kernels beside it. */
static __global__ void wait_for(const uint64_t *clock, uint64_t due_ns)
{
    wait_until(*clock + due_ns);
}

struct piece_copy {
    char *to;
    const char *from;
    uint64_t bytes, before; /* before: bytes of the sequence that come first */
    const uint64_t *clock;
    double ns_per_byte;
    bool wide;
};

/* `units` of a piece, 1 at least: all loads come before the first store, and past the end the last
 * unit is loaded again, since conditions would take the loads apart. */
static __device__ void copy_units(const uint4 *from, uint4 *to, uint32_t units)
{
    uint4 unit[DEEP];

#pragma unroll
    for (uint32_t i = 0; i < DEEP; i++)
        unit[i] = from[min(threadIdx.x + i * THREADS, units - 1)];
#pragma unroll
    for (uint32_t i = 0; i < DEEP; i++)
        if (threadIdx.x + i * THREADS < units)
            to[threadIdx.x + i * THREADS] = unit[i];
}

static __device__ void copy_piece(const piece_copy &c, uint64_t at, uint64_t bytes)
{
    uint64_t units = c.wide ? bytes / sizeof(uint4) : 0;

    if (units)
        copy_units((const uint4 *)(c.from + at), (uint4 *)(c.to + at), (uint32_t)units);
    for (uint64_t i = units * sizeof(uint4) + threadIdx.x; i < bytes; i += THREADS)
        c.to[at + i] = c.from[at + i];
}

static __global__ void __launch_bounds__(THREADS) copy_pieces(piece_copy c)
{
    uint64_t begun_ns = *c.clock;

    for (uint64_t at = (uint64_t)blockIdx.x * BLOCK_PIECE_BYTES; at < c.bytes;
         at += (uint64_t)gridDim.x * BLOCK_PIECE_BYTES) {
        uint64_t left = c.bytes - at;

        if (threadIdx.x == 0)
            wait_until(begun_ns + (uint64_t)((double)(c.before + at) * c.ns_per_byte));
        __syncthreads();
        copy_piece(c, at, left < BLOCK_PIECE_BYTES ? left : BLOCK_PIECE_BYTES);
    }
}

static int copy_by_blocks(const struct paced *p, void *to, const void *from, size_t bytes,
                          cudaStream_t stream)
{
    piece_copy c = { (char *)to,
                     (const char *)from,
                     bytes,
                     p->bytes,
                     (const uint64_t *)p->clock,
                     p->ns_per_byte,
                     ((uintptr_t)to | (uintptr_t)from) % sizeof(uint4) == 0 };

    return CUDA(launch(copy_pieces, p->ctas, THREADS, stream, c));
}

static int wait_for_bytes(const struct paced *p, uint64_t bytes, cudaStream_t stream)
{
    return CUDA(launch(wait_for, 1, 1, stream, (const uint64_t *)p->clock,
                       (uint64_t)((double)bytes * p->ns_per_byte)));
}

static int copy_by_engine(const struct paced *p, char *to, const char *from, size_t bytes,
                          cudaStream_t stream)
{
    for (size_t at = 0; at < bytes; at += ENGINE_PIECE_BYTES) {
        size_t n = bytes - at < ENGINE_PIECE_BYTES ? bytes - at : ENGINE_PIECE_BYTES;

        if (p->bytes + at)
            TRY(wait_for_bytes(p, p->bytes + at, stream));
        TRY(CUDA(cudaMemcpyAsync(to + at, from + at, n, cudaMemcpyDeviceToDevice, stream)));
    }
    return OK;
}

int cuda_paced_begin(struct paced *p, cudaStream_t stream)
{
    p->bytes = 0;
    return CUDA(launch(begin, 1, 1, stream, (uint64_t *)p->clock));
}

int cuda_paced_copy(struct paced *p, void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    int rc = p->ctas ? copy_by_blocks(p, to, from, bytes, stream)
                     : copy_by_engine(p, (char *)to, (const char *)from, bytes, stream);

    p->bytes += bytes;
    return rc;
}

int cuda_paced_end(struct paced *p, cudaStream_t stream)
{
    return wait_for_bytes(p, p->bytes, stream);
}
