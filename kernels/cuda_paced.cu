/* Cuts a copy into pieces, each of which waits for its date on the GPU's own clock. */
extern "C" {
#include "cuda.h"
#include "status.h"
}
#include "cuda_copy.h"
#include "cuda_launch.cuh"
#include "cuda_paced.h"

#include <stdint.h>

/* Large, because each costs two launches. */
static const uint64_t PIECE_BYTES = 4 << 20;

static __global__ void begin(uint64_t *clock)
{
    *clock = gpu_clock_ns();
}

/* One thread, so that it takes next to nothing from the kernels beside it. */
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
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

        if (p->bytes)
            TRY(wait_for_bytes(p, p->bytes, stream));
        TRY(cuda_copy_beside((char *)to + at, (const char *)from + at, n, stream));
        p->bytes += n;
    }
    return OK;
}

int cuda_paced_end(struct paced *p, cudaStream_t stream)
{
    return wait_for_bytes(p, p->bytes, stream);
}
