/* Launching, what threads of a block share, and what C++ has no words for: what tests bring of
 * their own, to run kernels on a CPU. */
#ifndef CUDA_LAUNCH_CUH
#define CUDA_LAUNCH_CUH

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifndef CUDA_ON_CPU
#define SHARED(type, name, count) __shared__ type name[count]

template <class T> struct same {
    typedef T type;
};

/* A dim3 and <<< >>> say no more than this, and no formatter knows them. */
template <class... Args>
static cudaError_t launch(void (*kernel)(Args...), uint64_t blocks, unsigned threads,
                          cudaStream_t stream, typename same<Args>::type... args)
{
    void *pointers[] = { &args... };

    return cudaLaunchKernel((const void *)kernel, dim3((unsigned)blocks), dim3(threads), pointers,
                            0, stream);
}

static __device__ __forceinline__ uint64_t gpu_clock_ns()
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* 2^x to a relative 2^-22, and 1/x to 2^-23; what is below the normal numbers is 0. */
static __device__ __forceinline__ float exp2_approx(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float reciprocal_approx(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

static __device__ __forceinline__ void wait_until(uint64_t date_ns)
{
    while (gpu_clock_ns() < date_ns)
        __nanosleep(200);
}

#endif
