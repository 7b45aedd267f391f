extern "C" {
#include "cuda_kernels.h"
#include "cuda.h"
#define PENDING(name) int cuda_##name(const struct name *, const struct cuda_queue *) { return cuda_check(cudaErrorNotSupported, #name); }
PENDING(route) PENDING(route_backward) PENDING(encode) PENDING(encode_backward) PENDING(decode) PENDING(decode_backward)
PENDING(move) PENDING(activate) PENDING(activate_backward) PENDING(add_bias) PENDING(sum_rows)
}
