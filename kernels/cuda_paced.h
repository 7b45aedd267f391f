/* Kernels that wait: for a date, between copies at a given pace, by a copy engine or on
 * multiprocessors, as traffic of a link that is not there; and for the host. */
#ifndef CUDA_PACED_H
#define CUDA_PACED_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One sequence of copies on one stream; the bytes of all of them share one pace. */
struct paced {
    void *clock; /* 8 bytes of GPU memory, used by one sequence at a time */
    double ns_per_byte;
    uint64_t all;   /* bytes that there will be */
    uint64_t bytes; /* so far */
};

/* begin, copies, end: enqueued in this order.  Each copy begins no earlier, and the end comes no
 * earlier, than the bytes before it take. */
int cuda_paced_begin(struct paced *paced, cudaStream_t stream);
int cuda_paced_copy(struct paced *paced, void *to, const void *from, size_t bytes,
                    cudaStream_t stream);
int cuda_paced_end(struct paced *paced, cudaStream_t stream);

/* ---- all copies of one exchange, in one launch */

/* As many as fit beside the rest into the 4 KiB that a launch may bring. */
enum { VIRTUAL_COPIES = 128 };

struct virtual_copy {
    char *to;
    const char *from;
    uint64_t bytes;
};

/* The first `own` take nothing from the link; the bytes of the others pass it one after the other.
 */
struct virtual_copies {
    struct virtual_copy copies[VIRTUAL_COPIES];
    uint32_t count, own;
    double ns_per_byte;
};

/* On `ctas` blocks of threads, which stay until the link would have carried all of it. */
int cuda_virtual_copy(const struct virtual_copies *copies, uint32_t ctas, cudaStream_t stream);

/* ---- the host's word */

/* Waits until said[0], of pinned memory, is `turn` or has passed it, or so long: then said[1] is
 * `turn`. */
int cuda_wait_said(uint32_t said[2], uint32_t turn, uint64_t most_ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
