/* Copies at a given pace on a copy engine: traffic of a link that is not there. */
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
    uint64_t bytes; /* so far */
};

/* begin, copies, end: enqueued in this order.  Each copy begins no earlier, and the end comes no
 * earlier, than the bytes before it take. */
int cuda_paced_begin(struct paced *paced, cudaStream_t stream);
int cuda_paced_copy(struct paced *paced, void *to, const void *from, size_t bytes,
                    cudaStream_t stream);
int cuda_paced_end(struct paced *paced, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
