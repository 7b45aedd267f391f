/* The part of CUDA that our kernels use, for a C++ compiler on a CPU: force-included before a .cu.
 *
 * Every thread of a block is a fiber, so barriers and what a warp exchanges are real.  Threads run
 * in a random order, one at a time, until each waits: what lacks a barrier reads what is not there
 * yet.  Waiting at different places, or for a thread that has ended, is an error of the launch.
 * Shared memory is poisoned, and of exact size, for AddressSanitizer. */
#ifndef CUDA_ON_CPU_H
#define CUDA_ON_CPU_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <functional>
#include <vector>

#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline

extern dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace cuda_on_cpu
{

enum exchange { SYNC, SHUFFLE, BALLOT, MATCH, REDUCE, MATRICES, PRODUCT };

struct place {
    const char *file;
    int line;
};

struct lanes {
    uint64_t value[32];
    uint32_t mask; /* who takes part */
};

void block_barrier(place at);
/* Waits for every lane of the mask at the same place; what each brought. */
const lanes &warp_exchange(exchange kind, uint32_t mask, uint64_t value, place at);
void *shared(place at, size_t bytes);
uint32_t lane();
/* A thread's copies to shared memory, done as late as may be. */
void copy_later(uint4 *to, const uint4 *from);
void copies_end_group();
void copies_done_but(unsigned groups);

struct start {
    uint64_t blocks;
    unsigned threads;
    std::function<void()> thread;
    std::vector<uint64_t> words; /* of the arguments: some are pointers */
};

/* What run() takes of a grid: cuda_subject.h, subject_sample(). */
extern double part_at;
extern uint64_t part_blocks;

bool fits(const start &what);
cudaError_t run(const start &what);

/* What a device does beside a kernel that waits; NULL: nothing. */
extern void (*meanwhile)();
/* Who takes what is launched on a stream; NULL: it is run at once. */
extern cudaError_t (*queue)(cudaStream_t stream, const start &what);

template <class T> void add_words(std::vector<uint64_t> &to, const T &argument)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= sizeof(T); at += sizeof(uint64_t)) {
        to.emplace_back();
        memcpy(&to.back(), (const char *)&argument + at, sizeof(uint64_t));
    }
}

template <class T> uint64_t to_bits(T x)
{
    uint64_t bits = 0;

    memcpy(&bits, &x, sizeof(x));
    return bits;
}

template <class T> T from_bits(uint64_t bits)
{
    T x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

template <class T> T shuffle(uint32_t mask, T x, uint32_t from, place at)
{
    const lanes &all = warp_exchange(SHUFFLE, mask, to_bits(x), at);

    return from < 32 && (all.mask >> from & 1) ? from_bits<T>(all.value[from]) : x;
}

inline uint32_t ballot(uint32_t mask, bool yes, place at)
{
    const lanes &all = warp_exchange(BALLOT, mask, yes, at);
    uint32_t bits = 0;

    for (int i = 0; i < 32; i++)
        bits |= (uint32_t)((all.mask >> i & 1) && all.value[i]) << i;
    return bits;
}

inline uint32_t match_any(uint32_t mask, uint32_t x, place at)
{
    const lanes &all = warp_exchange(MATCH, mask, x, at);
    uint32_t bits = 0;

    for (int i = 0; i < 32; i++)
        bits |= (uint32_t)((all.mask >> i & 1) && all.value[i] == x) << i;
    return bits;
}

inline uint32_t reduce(uint32_t mask, uint32_t x, bool largest, place at)
{
    const lanes &all = warp_exchange(REDUCE, mask, x, at);
    uint64_t best = x;

    for (int i = 0; i < 32; i++)
        if (all.mask >> i & 1)
            best = (all.value[i] > best) == largest ? all.value[i] : best;
    return (uint32_t)best;
}

template <class T> struct same {
    typedef T type;
};

} // namespace cuda_on_cpu

/* NOLINTBEGIN: CUDA's own names */
#define CUDA_ON_CPU_HERE                                                                           \
    cuda_on_cpu::place                                                                             \
    {                                                                                              \
        __FILE__, __LINE__                                                                         \
    }
#define SHARED(type, name, count)                                                                  \
    type *name = static_cast<type *>(cuda_on_cpu::shared(CUDA_ON_CPU_HERE, sizeof(type) * (count)))
#define __syncthreads() cuda_on_cpu::block_barrier(CUDA_ON_CPU_HERE)
#define __syncwarp() cuda_on_cpu::warp_exchange(cuda_on_cpu::SYNC, 0xffffffffu, 0, CUDA_ON_CPU_HERE)
#define __shfl_sync(mask, x, from) cuda_on_cpu::shuffle(mask, x, (uint32_t)(from), CUDA_ON_CPU_HERE)
#define __shfl_xor_sync(mask, x, by)                                                               \
    cuda_on_cpu::shuffle(mask, x, cuda_on_cpu::lane() ^ (uint32_t)(by), CUDA_ON_CPU_HERE)
#define __shfl_up_sync(mask, x, by)                                                                \
    cuda_on_cpu::shuffle(mask, x, cuda_on_cpu::lane() - (uint32_t)(by), CUDA_ON_CPU_HERE)
#define __ballot_sync(mask, yes) cuda_on_cpu::ballot(mask, yes, CUDA_ON_CPU_HERE)
#define __match_any_sync(mask, x) cuda_on_cpu::match_any(mask, x, CUDA_ON_CPU_HERE)
#define __reduce_max_sync(mask, x) cuda_on_cpu::reduce(mask, x, true, CUDA_ON_CPU_HERE)
#define __reduce_min_sync(mask, x) cuda_on_cpu::reduce(mask, x, false, CUDA_ON_CPU_HERE)
/* NOLINTEND */

/* Threads run one at a time. */
template <class T> T atomicAdd(T *at, T by)
{
    T old = *at;

    *at += by;
    return old;
}

template <class T> T min(T a, T b)
{
    return b < a ? b : a;
}

inline int __popc(uint32_t x)
{
    return __builtin_popcount(x);
}

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline uint32_t __float_as_uint(float x)
{
    return (uint32_t)cuda_on_cpu::to_bits(x);
}

inline float __uint_as_float(uint32_t x)
{
    return cuda_on_cpu::from_bits<float>(x);
}

inline uint64_t gpu_clock_ns()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

inline void __nanosleep(unsigned ns)
{
    struct timespec t = { 0, (long)ns };

    if (cuda_on_cpu::meanwhile)
        cuda_on_cpu::meanwhile();
    nanosleep(&t, NULL);
}

template <class T> void __stcg(T *to, T x)
{
    *to = x;
}

/* As far off as the instruction may be, now up, now down. */
inline float cuda_on_cpu_approx(float x, float exact, float error)
{
    float y = exact * (__float_as_uint(x) & 1 ? 1 + error : 1 - error);

    return std::fabs(y) < 0x1p-126f ? std::copysign(0.0f, y) : y;
}

inline float exp2_approx(float x)
{
    return cuda_on_cpu_approx(x, std::exp2(x), 0x1p-22f);
}

inline float reciprocal_approx(float x)
{
    return cuda_on_cpu_approx(x, 1 / x, 0x1p-23f);
}

inline void copy_async(uint4 *to, const void *from, bool there)
{
    cuda_on_cpu::copy_later(to, there ? static_cast<const uint4 *>(from) : NULL);
}

inline void copies_commit()
{
    cuda_on_cpu::copies_end_group();
}

template <int GROUPS> void copies_wait()
{
    cuda_on_cpu::copies_done_but(GROUPS);
}

template <bool TRANSPOSED> void load_matrices(uint32_t (&to)[4], const uint4 *row)
{
    const cuda_on_cpu::lanes &all = cuda_on_cpu::warp_exchange(
        cuda_on_cpu::MATRICES, 0xffffffffu, (uint64_t)(uintptr_t)row, CUDA_ON_CPU_HERE);
    uint32_t major = cuda_on_cpu::lane() / 4, minor = cuda_on_cpu::lane() % 4 * 2;

    for (uint32_t i = 0; i < 4; i++) {
        uint16_t two[2];

        for (uint32_t n = 0; n < 2; n++) {
            uint32_t r = TRANSPOSED ? minor + n : major, c = TRANSPOSED ? major : minor + n;
            uint4 from = *(const uint4 *)(uintptr_t)all.value[8 * i + r];

            memcpy(&two[n], (const char *)&from + 2 * c, 2);
        }
        memcpy(&to[i], two, sizeof(two));
    }
}

inline float cuda_on_cpu_half(__half, const uint32_t *words, uint32_t i)
{
    return __half2float(((const __half *)words)[i]);
}
inline float cuda_on_cpu_half(__nv_bfloat16, const uint32_t *words, uint32_t i)
{
    return __bfloat162float(((const __nv_bfloat16 *)words)[i]);
}

template <class T> void mma(T type, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    uint32_t mine[6] = { a[0], a[1], a[2], a[3], b0, b1 };
    const cuda_on_cpu::lanes all = cuda_on_cpu::warp_exchange(
        cuda_on_cpu::PRODUCT, 0xffffffffu, (uint64_t)(uintptr_t)mine, CUDA_ON_CPU_HERE);
    uint32_t q = cuda_on_cpu::lane() % 4, g = cuda_on_cpu::lane() / 4;

    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 16; k++) {
            uint32_t owner = k % 8 / 2, n = 2 * q + i % 2, upper = k / 8;
            const uint32_t *of_a = (const uint32_t *)(uintptr_t)all.value[g * 4 + owner];
            const uint32_t *of_b = (const uint32_t *)(uintptr_t)all.value[n * 4 + owner];

            c[i] += cuda_on_cpu_half(type, of_a + 2 * upper + i / 2, k % 2) *
                    cuda_on_cpu_half(type, of_b + 4 + upper, k % 2);
        }
    /* Until all have read what each brought. */
    cuda_on_cpu::warp_exchange(cuda_on_cpu::SYNC, 0xffffffffu, 0, CUDA_ON_CPU_HERE);
}

template <class... Args>
cudaError_t launch(void (*kernel)(Args...), uint64_t blocks, unsigned threads, cudaStream_t stream,
                   typename cuda_on_cpu::same<Args>::type... args)
{
    cuda_on_cpu::start what = { blocks, threads, [=] { kernel(args...); }, {} };

    (cuda_on_cpu::add_words(what.words, args), ...);
    return cuda_on_cpu::queue ? cuda_on_cpu::queue(stream, what) : cuda_on_cpu::run(what);
}

#endif
