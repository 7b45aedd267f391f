/* Kernel launches, shared memory and single GPU instructions.  Tests replace this part to run the
 * kernels on a CPU (CUDA_ON_CPU). */
#ifndef CUDA_LAUNCH_CUH
#define CUDA_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifndef CUDA_ON_CPU
#define SHARED(type, name, count) __shared__ type name[count]

template <class T> struct same {
    typedef T type;
};

/* Launches a kernel.  It replaces dim3 and <<< >>>, which clang-format does not know. */
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

/* 2^x with relative error 2^-22, and 1/x with 2^-23; subnormal numbers count as 0. */
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

/* Begins to copy 16 bytes to shared memory (`exists` false: 16 zero bytes).  The copy belongs to
 * the group that the thread commits next, and has ended after copies_wait(). */
static __device__ __forceinline__ void copy_async(uint4 *to, const void *from, bool exists)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(exists ? 16 : 0));
}
static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits for the thread's own copies, except those of its last GROUPS groups. */
template <int GROUPS> static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
}

/* Loads four matrices of 8 rows of 8 elements of 16 bits.  Lanes 8 i to 8 i + 7 give the addresses
 * of the rows of matrix i.  A lane gets column 2 (lane % 4) and the next one, of row lane / 4;
 * transposed, these rows of that column. */
template <bool TRANSPOSED>
static __device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const uint4 *row)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(row);

    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address));
}

/* c (16,8) += a (16,16) b (16,8); PTX's mma.m16n8k16 defines which lane has which elements. */
#define MMA_OF(type, name)                                                                         \
    static __device__ __forceinline__ void mma(type, float(&c)[4], const uint32_t(&a)[4],          \
                                               uint32_t b0, uint32_t b1)                           \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                         \
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }
MMA_OF(__half, "f16")
MMA_OF(__nv_bfloat16, "bf16")
#undef MMA_OF
#endif

static __device__ __forceinline__ void wait_until(uint64_t date_ns)
{
    while (gpu_clock_ns() < date_ns)
        __nanosleep(200);
}

#endif
