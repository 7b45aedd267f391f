/* The kernels move and move_rows on a GPU.  They copy bytes where both types are equal and there is
 * nothing to add; else they convert and add elements in f32. */
#include "cuda_rows.cuh"

/* The blocks ("cells") of a move, and their strides in units of one access. */
struct cells {
    uint64_t dims[3], from_stride[3], to_stride[3], term_stride;
};

static inline struct cells in_units(const struct move *m, uint64_t units)
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

/* Finds where cell number `cell` begins on both sides, and the step between its terms, in units. */
DEVICE void locate_cell(const struct cells &c, uint64_t cell, uint64_t &from, uint64_t &to,
                        uint64_t &step)
{
    uint64_t j = cell / c.dims[2], k = cell - j * c.dims[2], i = j / c.dims[1];

    j -= i * c.dims[1];
    from = i * c.from_stride[0] + j * c.from_stride[1] + k * c.from_stride[2];
    to = i * c.to_stride[0] + j * c.to_stride[1] + k * c.to_stride[2];
    step = c.term_stride;
}

/* The cells of move_rows: the rows of the blocks in a table; `units` in each row. */
struct listed_rows {
    const struct row_block *blocks;
    uint64_t count, units;
};

DEVICE void locate_cell(const struct listed_rows &r, uint64_t row, uint64_t &from, uint64_t &to,
                        uint64_t &step)
{
    uint64_t block = 0, end = r.count;

    while (end - block > 1) {
        uint64_t middle = (block + end) / 2;

        if (r.blocks[middle].first <= row)
            block = middle;
        else
            end = middle;
    }
    row -= r.blocks[block].first;
    from = (r.blocks[block].from + row) * r.units;
    to = (r.blocks[block].to + row) * r.units;
    step = r.blocks[block].step * r.units;
}

/* Copies each cell, without a conversion. */
template <class U, class Cells>
static __global__ void __launch_bounds__(THREADS)
    copy_kernel(Cells c, struct pieces p, const U *from, U *to)
{
    each_piece(p, gridDim.x, [&](uint64_t cell, uint64_t unit0, uint32_t step) {
        uint64_t from_unit, to_unit, term_step;
        U unit[DEEP];

        locate_cell(c, cell, from_unit, to_unit, term_step);
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (unit0 + i * step < p.units)
                unit[i] = from[from_unit + unit0 + i * step];
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (unit0 + i * step < p.units)
                to[to_unit + unit0 + i * step] = unit[i];
    });
}

/* Writes each cell as the sum of its terms. */
template <class From, class To, int N, class Cells>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    sum_kernel(Cells c, struct pieces p, uint64_t terms, const From *from, To *to)
{
    each_piece(p, gridDim.x, [&](uint64_t cell, uint64_t unit0, uint32_t step) {
        float sum[DEEP][N] = {};
        uint64_t from_unit, to_unit, term_step;

        locate_cell(c, cell, from_unit, to_unit, term_step);
#pragma unroll 1
        for (uint64_t t = 0; t < terms; t++)
            add_units(from + (from_unit + t * term_step) * N, unit0, step, p.units, 1.0f, sum);
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            if (unit0 + i * step < p.units)
                store(to + (to_unit + unit0 + i * step) * N, sum[i]);
    });
}

/* A move or a move_rows: `cells` cells of `block` elements. */
struct copying {
    uint32_t from_type, to_type;
    uint64_t cells, block, terms;
    const void *from;
    void *to;
};

static inline struct listed_rows in_units(const struct move_rows *m, uint64_t units)
{
    return { m->blocks, m->count, units };
}

template <class U, class Move>
static cudaError_t copy_cells(const Move *m, const struct copying &c, uint64_t block_bytes,
                              cudaStream_t stream)
{
    uint64_t units = block_bytes / sizeof(U);
    struct pieces p = pieces_of(c.cells, units);
    auto cells = in_units(m, units);

    return launch(copy_kernel<U, decltype(cells)>, piece_blocks(p), THREADS, stream, cells, p,
                  (const U *)c.from, (U *)c.to);
}

template <class Move>
static cudaError_t copy_bytes(const Move *m, const struct copying &c, cudaStream_t stream)
{
    uint64_t bytes = c.block * (c.to_type == MOE_F32 ? 4 : 2);
    uintptr_t misaligned = ((uintptr_t)c.from | (uintptr_t)c.to | bytes) % WIDE_BYTES;

    if (!misaligned)
        return copy_cells<uint4>(m, c, bytes, stream);
    return misaligned % 4 == 0 ? copy_cells<uint32_t>(m, c, bytes, stream)
                               : copy_cells<uint16_t>(m, c, bytes, stream);
}

template <class From, class To, int N, class Move>
static cudaError_t sum_cells(const Move *m, const struct copying &c, cudaStream_t stream)
{
    struct pieces p = pieces_of(c.cells, c.block / N);
    auto cells = in_units(m, c.block / N);

    return launch(sum_kernel<From, To, N, decltype(cells)>, piece_blocks(p), THREADS, stream, cells,
                  p, c.terms, (const From *)c.from, (To *)c.to);
}

template <class From, class To, class Move>
static cudaError_t sum_from_to(const Move *m, const struct copying &c, cudaStream_t stream)
{
    /* As many elements as fill 16 bytes in the narrower type. */
    constexpr int wide = WIDE_BYTES / (int)(sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));

    if (c.block % wide == 0 && aligned(c.from) && aligned(c.to))
        return sum_cells<From, To, wide>(m, c, stream);
    return sum_cells<From, To, 1>(m, c, stream);
}

template <class From, class Move>
static cudaError_t sum_from(const Move *m, const struct copying &c, cudaStream_t stream)
{
    switch (c.to_type) {
    case MOE_F32: return sum_from_to<From, float>(m, c, stream);
    case MOE_F16: return sum_from_to<From, __half>(m, c, stream);
    default: return sum_from_to<From, __nv_bfloat16>(m, c, stream);
    }
}

template <class Move>
static cudaError_t move_any(const Move *m, const struct copying &c, cudaStream_t stream)
{
    if (!c.block || !c.cells)
        return cudaSuccess;
    if (c.terms == 1 && c.from_type == c.to_type)
        return copy_bytes(m, c, stream);
    switch (c.from_type) {
    case MOE_F32: return sum_from<float>(m, c, stream);
    case MOE_F16: return sum_from<__half>(m, c, stream);
    default: return sum_from<__nv_bfloat16>(m, c, stream);
    }
}

extern "C" int cuda_move(const struct move *m, const struct cuda_queue *queue)
{
    struct copying c = { m->from_type, m->to_type, m->dims[0] * m->dims[1] * m->dims[2],
                         m->block,     m->terms,   m->from,
                         m->to };

    return cuda_check(move_any(m, c, queue->stream), "move");
}

extern "C" int cuda_move_rows(const struct move_rows *m, const struct cuda_queue *queue)
{
    struct copying c = { m->from_type, m->to_type, m->rows, m->width, m->terms, m->from, m->to };

    return cuda_check(move_any(m, c, queue->stream), "move_rows");
}
