/* Where the arguments of kernels lie, for callers in other languages: bench_cuda.py asks here, and
 * so never knows it by heart. */
#include "cuda_kernels.h"

#include <stddef.h>

struct kernel_layout {
    const char *structure, *field; /* field "": the whole structure */
    size_t offset, bytes;
};

#define WHOLE(s)                                                                                   \
    {                                                                                              \
#s, "", 0, sizeof(struct s)                                                                \
    }
#define FIELD(s, f)                                                                                \
    {                                                                                              \
#s, #f, offsetof(struct s, f), sizeof(((struct s *)0)->f)                                  \
    }

/* Ends with a row without names. */
extern const struct kernel_layout kernel_layouts[];
const struct kernel_layout kernel_layouts[] = {
    WHOLE(cuda_queue),
    FIELD(cuda_queue, stream),
    FIELD(cuda_queue, scratch),
    FIELD(cuda_queue, scratch_bytes),
    FIELD(cuda_queue, blas),
    FIELD(cuda_queue, blas_workspace),
    WHOLE(route),
    FIELD(route, tokens),
    FIELD(route, experts),
    FIELD(route, top_k),
    FIELD(route, capacity),
    FIELD(route, logits),
    FIELD(route, gate),
    FIELD(route, expert),
    FIELD(route, slot),
    FIELD(route, needed),
    WHOLE(routing),
    FIELD(routing, tokens),
    FIELD(routing, experts),
    FIELD(routing, top_k),
    FIELD(routing, width),
    FIELD(routing, rows),
    FIELD(routing, capacity),
    FIELD(routing, expert),
    FIELD(routing, slot),
    FIELD(routing, needed),
    WHOLE(encode),
    FIELD(encode, routing),
    FIELD(encode, dtype),
    FIELD(encode, from),
    FIELD(encode, to),
    WHOLE(encode_backward),
    FIELD(encode_backward, routing),
    FIELD(encode_backward, dtype),
    FIELD(encode_backward, from),
    FIELD(encode_backward, to),
    WHOLE(decode),
    FIELD(decode, routing),
    FIELD(decode, dtype),
    FIELD(decode, gate),
    FIELD(decode, from),
    FIELD(decode, to),
    WHOLE(gemm),
    FIELD(gemm, dtype),
    FIELD(gemm, transpose_a),
    FIELD(gemm, transpose_b),
    FIELD(gemm, keep),
    FIELD(gemm, batch),
    FIELD(gemm, m),
    FIELD(gemm, n),
    FIELD(gemm, k),
    FIELD(gemm, a),
    FIELD(gemm, b),
    FIELD(gemm, c),
    FIELD(gemm, stride_a),
    FIELD(gemm, stride_b),
    FIELD(gemm, stride_c),
    WHOLE(reindex),
    FIELD(reindex, tokens),
    FIELD(reindex, experts),
    FIELD(reindex, top_k),
    FIELD(reindex, capacity),
    FIELD(reindex, expert),
    FIELD(reindex, slot),
    FIELD(reindex, needed),
    FIELD(reindex, first),
    FIELD(reindex, choice),
    WHOLE(kept_rows),
    FIELD(kept_rows, tokens),
    FIELD(kept_rows, experts),
    FIELD(kept_rows, top_k),
    FIELD(kept_rows, token_type),
    FIELD(kept_rows, dtype),
    FIELD(kept_rows, hidden),
    FIELD(kept_rows, width),
    FIELD(kept_rows, capacity),
    FIELD(kept_rows, expert),
    FIELD(kept_rows, slot),
    FIELD(kept_rows, first),
    FIELD(kept_rows, choice),
    WHOLE(esmm),
    FIELD(esmm, at),
    FIELD(esmm, weights),
    FIELD(esmm, tokens),
    FIELD(esmm, pre),
    { 0 },
};
