/* The driver's library: what of it is asked by name. */
#include "gpu_on_cpu.h"

extern "C" int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t memory)
{
    void *at;

    if (!gpu_on_cpu::find_allocation((void *)(uintptr_t)memory, &at, bytes))
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    *base = (uint64_t)(uintptr_t)at;
    return 0;
}
