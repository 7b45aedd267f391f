/* The kernel move on a GPU: it copies bytes where types agree and nothing is summed, and goes
 * through f32 element by element elsewhere. */
#include "cuda_rows.cuh"

/* The cells of a move and their strides in units of an access. */
struct cells {
    uint64_t dims[3], from_stride[3], to_stride[3], term_stride;
};

static inline struct cells cells_of(const struct move *m, uint64_t units)
{
    struct cells c;

    for (int i = 0; i < 3; i++) {
        c.dims[i] = m->dims[i];
        c.from_stride[i] = m->from_stride[i] * units;
        c.to_stride[i] = m->to_stride[i] * units;
    }
    c.term_stride = m->term_stride * units;
    return c;
}

/* Where cell number `cell` begins on both sides, in units. */
DEVICE void locate(const struct cells &c, uint64_t cell, uint64_t &from, uint64_t &to)
{
    uint64_t j = cell / c.dims[2], k = cell - j * c.dims[2], i = j / c.dims[1];

    j -= i * c.dims[1];
    from = i * c.from_stride[0] + j * c.from_stride[1] + k * c.from_stride[2];
    to = i * c.to_stride[0] + j * c.to_stride[1] + k * c.to_stride[2];
}

template <class U>
static __global__ void __launch_bounds__(THREADS)
    copy_kernel(struct cells c, struct pieces p, const U *from, U *to)
{
    each_piece(p, gridDim.x, [&](uint64_t cell, uint64_t first, uint32_t step) {
        uint64_t in, out;
        U unit[DEEP];

        locate(c, cell, in, out);
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (first + i * step < p.units)
                unit[i] = from[in + first + i * step];
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (first + i * step < p.units)
                to[out + first + i * step] = unit[i];
    });
}

template <class From, class To, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    sum_kernel(struct cells c, struct pieces p, uint64_t terms, const From *from, To *to)
{
    each_piece(p, gridDim.x, [&](uint64_t cell, uint64_t first, uint32_t step) {
        float sum[DEEP][N] = {};
        uint64_t in, out;

        locate(c, cell, in, out);
#pragma unroll 1
        for (uint64_t t = 0; t < terms; t++)
            add_units(from + (in + t * c.term_stride) * N, first, step, p.units, 1.0f, sum);
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (first + i * step < p.units)
                store(to + (out + first + i * step) * N, sum[i]);
    });
}

static inline uint64_t cell_count(const struct move *m)
{
    return m->dims[0] * m->dims[1] * m->dims[2];
}

template <class U>
static cudaError_t copy(const struct move *m, uint64_t block_bytes, cudaStream_t stream)
{
    uint64_t units = block_bytes / sizeof(U);
    struct pieces p = pieces_of(cell_count(m), units);

    return launch(copy_kernel<U>, piece_blocks(p), THREADS, stream, cells_of(m, units), p,
                  (const U *)m->from, (U *)m->to);
}

static cudaError_t copy_bytes(const struct move *m, cudaStream_t stream)
{
    uint64_t bytes = m->block * (m->to_type == MOE_F32 ? 4 : 2);
    uintptr_t off = ((uintptr_t)m->from | (uintptr_t)m->to | bytes) % WIDE_BYTES;

    if (!off)
        return copy<uint4>(m, bytes, stream);
    return off % 4 == 0 ? copy<uint32_t>(m, bytes, stream) : copy<uint16_t>(m, bytes, stream);
}

template <class From, class To, int N>
static cudaError_t sum(const struct move *m, cudaStream_t stream)
{
    struct pieces p = pieces_of(cell_count(m), m->block / N);

    return launch(sum_kernel<From, To, N>, piece_blocks(p), THREADS, stream,
                  cells_of(m, m->block / N), p, m->terms, (const From *)m->from, (To *)m->to);
}

template <class From, class To> static cudaError_t sum_from_to(const struct move *m, cudaStream_t s)
{
    /* As many elements as make 16 bytes of the narrower type. */
    constexpr int wide = WIDE_BYTES / (int)(sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));

    if (m->block % wide == 0 && aligned(m->from) && aligned(m->to))
        return sum<From, To, wide>(m, s);
    return sum<From, To, 1>(m, s);
}

template <class From> static cudaError_t sum_from(const struct move *m, cudaStream_t stream)
{
    switch (m->to_type) {
    case MOE_F32: return sum_from_to<From, float>(m, stream);
    case MOE_F16: return sum_from_to<From, __half>(m, stream);
    default: return sum_from_to<From, __nv_bfloat16>(m, stream);
    }
}

static cudaError_t move_any(const struct move *m, cudaStream_t stream)
{
    if (!m->block || !cell_count(m))
        return cudaSuccess;
    if (m->terms == 1 && m->from_type == m->to_type)
        return copy_bytes(m, stream);
    switch (m->from_type) {
    case MOE_F32: return sum_from<float>(m, stream);
    case MOE_F16: return sum_from<__half>(m, stream);
    default: return sum_from<__nv_bfloat16>(m, stream);
    }
}

extern "C" int cuda_move(const struct move *m, const struct cuda_queue *queue)
{
    return cuda_check(move_any(m, queue->stream), "move");
}
