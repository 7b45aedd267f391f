/* Copies no faster than a given pace, by copy engines or by a kernel, for links that do not exist
 * (comm/wire_virtual.c); and a kernel that waits for the host. */
#ifndef CUDA_PACED_H
#define CUDA_PACED_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One sequence of copies on one stream, all at the same pace.  A value that the caller fills;
 * `bytes` begins with 0. */
struct paced {
    void *clock; /* 8 bytes of GPU memory, used by one sequence at a time */
    double ns_per_byte;
    uint64_t all;   /* bytes of the whole sequence */
    uint64_t bytes; /* enqueued so far */
};

/* Enqueue a sequence: begin, then copies, then end.  Each copy waits until the link would have
 * carried all earlier bytes of the sequence; the end waits for all bytes.  They return what CUDA
 * says. */
int cuda_paced_begin(struct paced *paced, cudaStream_t stream);
int cuda_paced_copy(struct paced *paced, void *to, const void *from, size_t bytes,
                    cudaStream_t stream);
int cuda_paced_end(struct paced *paced, cudaStream_t stream);

/* ---- all copies of one exchange, in one launch */

/* As many copies as fit into the 4 KiB of a launch's arguments. */
enum { VIRTUAL_COPIES = 128 };

/* One copy inside the GPU's memory. */
struct virtual_copy {
    char *to;
    const char *from;
    uint64_t bytes;
};

/* All copies of a launch.  The first `own` stay on their rank and do not use the link; the bytes of
 * the others pass the link one after the other. */
struct virtual_copies {
    struct virtual_copy copies[VIRTUAL_COPIES];
    uint32_t count, own;
    double ns_per_byte;
};

/* Copies by a kernel of `ctas` blocks, which stay until the link would have carried all bytes. */
int cuda_virtual_copy(const struct virtual_copies *copies, uint32_t ctas, cudaStream_t stream);

/* ---- waiting for the host */

/* Enqueues a kernel that waits for the host.  The host writes the number of its turn to said[0], in
 * pinned memory; the kernel ends when that is at least `turn`.  After most_ns it gives up: it
 * writes `turn` to said[1] and ends. */
int cuda_wait_said(uint32_t said[2], uint32_t turn, uint64_t most_ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
