/* All copies of one exchange with ranks that are not there, in one launch, no faster than a link.
 */
#ifndef CUDA_VIRTUAL_H
#define CUDA_VIRTUAL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
