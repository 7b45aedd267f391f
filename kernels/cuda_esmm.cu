/* Experts without padding: the kernel esmm on a GPU, products of only the rows that exist.
 *
 * A grid has enough blocks for the largest possible number of rows.  Each block finds its rows on
 * the device, and ends if it has none.  So the host need not read counts. */
#include "cuda_act.cuh"
#include "cuda_sparse.cuh"

/* ---- The rows of a block */

/* Rows in groups (experts): group i has rows first[i] to first[i + 1] - 1. */
struct groups {
    const int64_t *first;
    uint32_t count;
};

/* The rows of one tile. */
struct part {
    uint32_t group;
    uint64_t row, rows;
};

static inline struct groups experts_of(const struct kept_rows &at)
{
    return { at.first, at.experts };
}

static inline uint64_t tiles_most(uint64_t rows, uint32_t groups)
{
    return rows / TILE_ROWS + groups;
}

/* Group i has its tiles from first[i] / TILE_ROWS + i on.  That leaves room for a last tile that is
 * not full, and needs no sum over groups. */
DEVICE uint64_t first_tile(const struct groups &g, uint32_t i)
{
    return (uint64_t)g.first[i] / TILE_ROWS + i;
}

DEVICE part part_of(const struct groups &g, uint64_t tile)
{
    uint32_t group = 0, left = g.count;
    uint64_t skipped, rows;

    while (left > 1) { /* search by 32 parts: each lane tests one group */
        uint32_t step = (left + WARP - 1) / WARP, at = threadIdx.x % WARP * step;
        bool passed = at < left && first_tile(g, group + at) <= tile;
        uint32_t last = (uint32_t)__popc(__ballot_sync(all_lanes, passed)) - 1;

        group += last * step;
        left = min(step, left - last * step);
    }
    skipped = (tile - first_tile(g, group)) * TILE_ROWS;
    rows = (uint64_t)(g.first[group + 1] - g.first[group]);
    return { group, (uint64_t)g.first[group] + skipped,
             rows > skipped ? min(rows - skipped, (uint64_t)TILE_ROWS) : 0 };
}

/* ---- Activations and their slopes, for a thread's elements of a row */

template <int KIND, int C>
DEVICE void activate_kind(const float (&x)[C], const float (&up)[C], float (&y)[C])
{
#pragma unroll
    for (int i = 0; i < C; i++)
        y[i] = act<KIND>(x[i], up[i]);
}

template <int C>
DEVICE void activate_some(uint32_t kind, const float (&x)[C], const float (&up)[C], float (&y)[C])
{
    switch (kind) {
    case MOE_RELU: activate_kind<MOE_RELU>(x, up, y); break;
    case MOE_GELU: activate_kind<MOE_GELU>(x, up, y); break;
    default: activate_kind<MOE_SWIGLU>(x, up, y);
    }
}

/* Turns the gradient of the activation's result into the gradient of its argument. */
template <int KIND, int C>
DEVICE void slope_kind(const float (&x)[C], const float (&up)[C], float (&grad)[C],
                       float (&grad_up)[C])
{
#pragma unroll
    for (int i = 0; i < C; i++)
        grad[i] = slope<KIND>(x[i], up[i], grad[i], grad_up[i]);
}

template <int C>
DEVICE void slope_some(uint32_t kind, const float (&x)[C], const float (&up)[C], float (&grad)[C],
                       float (&grad_up)[C])
{
    switch (kind) {
    case MOE_RELU: slope_kind<MOE_RELU>(x, up, grad, grad_up); break;
    case MOE_GELU: slope_kind<MOE_GELU>(x, up, grad, grad_up); break;
    default: slope_kind<MOE_SWIGLU>(x, up, grad, grad_up);
    }
}

/* ---- Writing the sums of a tile.  `first` is the tile's first column. */

template <class T> DEVICE const T *bias_of(const struct esmm &m, uint32_t expert)
{
    return m.bias ? (const T *)m.bias + expert * m.bias_stride : NULL;
}

template <bool WIDE, class T, class Sums>
DEVICE void finish_forward(const struct esmm &m, const struct part &p, uint64_t first, Sums &sums)
{
    const T *bias = bias_of<T>(m, p.group);
    bool ends = m.post != NULL;

#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        uint64_t row = (p.row + Sums::row(r)) * m.at.hidden;

        if ((uint64_t)Sums::row(r) >= p.rows)
            continue;
        sums.each_in_row(r, [&](int column, auto &x) {
            constexpr int C = sizeof(x) / sizeof(x[0]);
            uint64_t h = first + column, left = m.at.hidden - h;
            float b[C] = {}, up[C] = {}, y[C];

            if (h >= m.at.hidden)
                return;
            if (ends && bias)
                load_some<WIDE>(bias + h, left, b);
            if (ends && m.kind == MOE_SWIGLU)
                load_some<WIDE>((const T *)m.up + row + h, left, up);
#pragma unroll
            for (int i = 0; i < C; i++)
                x[i] += b[i];
            if (m.pre != m.post)
                store_some<WIDE>((T *)m.pre + row + h, left, x);
            if (!ends)
                return;
            activate_some(m.kind, x, up, y);
            store_some<WIDE>((T *)m.post + row + h, left, y);
        });
    }
}

template <bool WIDE, class T, class Sums>
DEVICE void finish_tokens(const struct esmm &m, const struct part &p, const struct results &to_all,
                          uint64_t first, Sums &sums)
{
    const T *bias = bias_of<T>(m, p.group);

#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        T *to = (T *)to_all.at + (p.row + Sums::row(r)) * to_all.columns;

        if ((uint64_t)Sums::row(r) >= p.rows)
            continue;
        sums.each_in_row(r, [&](int column, auto &x) {
            constexpr int C = sizeof(x) / sizeof(x[0]);
            uint64_t d = first + column, left = m.at.width - d;
            float b[C] = {};

            if (d >= m.at.width)
                return;
            if (bias)
                load_some<WIDE>(bias + d, left, b);
#pragma unroll
            for (int i = 0; i < C; i++)
                x[i] += b[i];
            store_some<WIDE>(to + (d - to_all.column), left, x);
        });
    }
}

/* Stores a row's <u, post> over the tile's columns; `dots` has one number for each warp that shares
 * them. */
template <class Sums> DEVICE void put_dot(float dot, int r, float *dots)
{
#pragma unroll
    for (int lane = Sums::lanes / 2; lane; lane /= 2)
        dot += __shfl_xor_sync(all_lanes, dot, lane);
    if (threadIdx.x % Sums::lanes == 0)
        dots[Sums::column_warp() * TILE_ROWS + Sums::row(r)] = dot;
}

template <class Sums> DEVICE void add_dots(const float *dots, uint64_t stride, float *to)
{
    float sum = 0;

    __syncthreads();
    if (threadIdx.x >= TILE_ROWS)
        return;
#pragma unroll
    for (int warp = 0; warp < Sums::column_warps; warp++)
        sum += dots[warp * TILE_ROWS + threadIdx.x];
    to[threadIdx.x * stride] = sum;
}

/* Writes the gradients of neighbouring elements of a row, and returns their part of <u, post>. */
template <bool WIDE, class T, int C>
DEVICE float backward_some(const struct esmm &m, uint64_t at, uint64_t left, float gate,
                           float (&u)[C])
{
    float pre[C], post[C], up[C] = {}, grad_up[C] = {}, dot = 0;

    load_some<WIDE>((const T *)m.post + at, left, post);
    load_some<WIDE>((const T *)m.pre + at, left, pre);
    if (m.kind == MOE_SWIGLU)
        load_some<WIDE>((const T *)m.up + at, left, up);
#pragma unroll
    for (int i = 0; i < C; i++) {
        dot += u[i] * post[i];
        u[i] *= gate;
    }
    slope_some(m.kind, pre, up, u, grad_up);
    store_some<WIDE>((T *)m.grad_pre + at, left, u);
    if (m.kind == MOE_SWIGLU)
        store_some<WIDE>((T *)m.grad_up + at, left, grad_up);
    return dot;
}

template <bool WIDE, class T, class Sums>
DEVICE void finish_backward(const struct esmm &m, const struct part &p, uint64_t first, Sums &sums,
                            float *dots)
{
#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        uint64_t row = p.row + Sums::row(r);
        bool there = (uint64_t)Sums::row(r) < p.rows;
        float gate = there && m.gate ? m.gate[m.at.choice[row]] : 1, dot = 0;

        sums.each_in_row(r, [&](int column, auto &u) {
            uint64_t h = first + column;

            if (there && h < m.at.hidden)
                dot += backward_some<WIDE, T>(m, row * m.at.hidden + h, m.at.hidden - h, gate, u);
        });
        put_dot<Sums>(dot, r, dots);
    }
}

/* ---- Tiles */

/* The tiles of one launch: `count` from tile `from` on, `across` beside each other.  `results` is
 * for ESMM_TOKENS only; dots (tiles, TILE_ROWS, across) is for ESMM_BACKWARD only. */
struct tiles {
    struct groups groups;
    uint64_t from, count;
    uint32_t across;
    struct results results;
    float *dots;
};

template <class T, bool WIDE, enum esmm_form FORM>
static __global__ void __launch_bounds__(THREADS, BLOCKS) esmm_kernel(struct esmm m, struct tiles t)
{
    constexpr bool hidden = FORM != ESMM_TOKENS; /* the result is hidden rows, else rows of D */
    typedef sums<T, true, hidden> Sums;
    SHARED(uint4, memory, tile<T>::words);
    uint32_t down = blockIdx.x / t.across, across = blockIdx.x % t.across;
    uint32_t first = t.results.column + across * tile<T>::columns, depth, columns;
    struct part p = part_of(t.groups, t.from + down);
    const T *matrix = (const T *)m.weights + p.group * m.at.expert_stride;

    if (!p.rows)
        return;
    depth = hidden ? m.at.width : m.at.hidden;
    columns = (hidden ? m.at.hidden : m.at.width) - first;
    feed<T, WIDE, true, hidden, TILE_ROWS> a(hidden ? tokens_of<T>(m.at, m.tokens)
                                                    : rows_of<T>(m.rows, m.at.hidden),
                                             { p.row, (uint32_t)p.rows, 0, depth });
    feed<T, WIDE, hidden, false, tile<T>::columns> b(rows_of<T>(matrix, m.at.unit_stride),
                                                     hidden ? window{ first, columns, 0, depth }
                                                            : window{ 0, depth, first, columns });
    weights<T, false> none(NULL, NULL, 0);
    Sums sum;

    tile_multiply<T>(a, b, none, depth, (uint32_t)p.rows, columns, memory, sum);
    if constexpr (FORM == ESMM_FORWARD)
        finish_forward<WIDE, T>(m, p, first, sum);
    if constexpr (FORM == ESMM_TOKENS)
        finish_tokens<WIDE, T>(m, p, t.results, first, sum);
    if constexpr (FORM == ESMM_BACKWARD) {
        finish_backward<WIDE, T>(m, p, first, sum, (float *)memory);
        add_dots<Sums>((float *)memory, t.across,
                       t.dots + (uint64_t)down * TILE_ROWS * t.across + across);
    }
}

template <class T, bool WIDE, enum esmm_form FORM>
static cudaError_t esmm_tiles(const struct esmm *m, struct tiles t, cudaStream_t stream)
{
    if (!t.count || !t.across)
        return cudaSuccess;
    return launch(esmm_kernel<T, WIDE, FORM>, t.count * t.across, THREADS, stream, *m, t);
}

template <class T, int N>
static cudaError_t esmm_forward(const struct esmm *m, const struct cuda_queue *queue)
{
    struct tiles t = { experts_of(m->at),
                       0,
                       tiles_most(kept_rows_limit(&m->at), m->at.experts),
                       tiles_across<T>(m->at.hidden),
                       {},
                       NULL };

    return esmm_tiles<T, N != 1, ESMM_FORWARD>(m, t, queue->stream);
}

/* ---- ESMM_TOKENS: the results of all rows, then each token's sum, for some columns at a time.
 * These are two launches, whatever k is, if scratch memory has room for all columns. */

static struct results results_of(const struct esmm *m, size_t element_bytes,
                                 const struct cuda_queue *queue)
{
    uint32_t columns = kept_part_columns(&m->at, element_bytes, queue->scratch_bytes);

    if (m->at.room.results && kept_part_is_narrow(&m->at, columns))
        return { m->at.room.results, KEPT_PART_COLUMNS, 0 };
    return { queue->scratch, columns, 0 };
}

template <class T, int N>
static cudaError_t esmm_tokens(const struct esmm *m, const struct cuda_queue *queue)
{
    struct tiles t = { experts_of(m->at),
                       0,
                       tiles_most(kept_rows_limit(&m->at), m->at.experts),
                       0,
                       results_of(m, sizeof(T), queue),
                       NULL };
    /* Without kept_room.results, scratch memory must have room for the columns of one tile. */
    cudaError_t code = t.results.columns ? cudaSuccess : cudaErrorInvalidValue;

    for (; !code && t.results.column < m->at.width; t.results.column += t.results.columns) {
        uint32_t columns = min(t.results.columns, m->at.width - t.results.column);

        t.across = tiles_across<T>(columns);
        code = esmm_tiles<T, N != 1, ESMM_TOKENS>(m, t, queue->stream);
        if (!code)
            code = add_results(m, &t.results, columns, N != 1, queue->stream);
    }
    return code;
}

/* ---- ESMM_BACKWARD: as many tiles at a time as scratch memory has room for their dots, and then
 * the gradients of their gates. */

template <class T, int N>
static __global__ void __launch_bounds__(THREADS) gates_kernel(struct esmm m, struct tiles t)
{
    struct part p = part_of(t.groups, t.from + blockIdx.x);
    uint32_t lane = threadIdx.x % WARP;
    const T *bias = bias_of<T>(m, p.group);

    for (uint64_t i = threadIdx.x / WARP; i < p.rows; i += WARPS) {
        uint64_t choice = (uint64_t)m.at.choice[p.row + i];
        const T *token = (const T *)m.tokens + choice / m.at.top_k * m.at.width;
        float sum = 0;

        for (uint64_t part = lane; part < t.across; part += WARP)
            sum += t.dots[(blockIdx.x * (uint64_t)TILE_ROWS + i) * t.across + part];
#pragma unroll 4
        for (uint64_t d = (uint64_t)lane * N; bias && d < m.at.width; d += WARP * N) {
            float x[N], b[N];

            load(token + d, x);
            load(bias + d, b);
#pragma unroll
            for (int n = 0; n < N; n++)
                sum += x[n] * b[n];
        }
        sum = warp_sum(sum);
        if (lane == 0)
            m.grad_gate[choice] = sum + (m.keep ? m.grad_gate[choice] : 0);
    }
}

template <class T, int N>
static cudaError_t esmm_backward(const struct esmm *m, const struct cuda_queue *queue)
{
    uint64_t all = tiles_most(kept_rows_limit(&m->at), m->at.experts), room = all;
    struct tiles t = { experts_of(m->at),      0, 0, tiles_across<T>(m->at.hidden), {},
                       (float *)queue->scratch };
    cudaError_t code = cudaSuccess;

    if (t.across)
        room = queue->scratch_bytes / ((uint64_t)t.across * TILE_ROWS * sizeof(float));
    if (all && !room)
        return cudaErrorInvalidValue; /* a row has millions of hidden units */
    for (; !code && t.from < all; t.from += t.count) {
        t.count = all - t.from < room ? all - t.from : room;
        code = esmm_tiles<T, N != 1, ESMM_BACKWARD>(m, t, queue->stream);
        if (!code)
            code = launch(gates_kernel<T, N>, t.count, THREADS, queue->stream, *m, t);
    }
    return code;
}

/* ---- The kernel */

static bool wide_esmm(const struct esmm *m)
{
    const void *const used[] = { m->weights, m->bias,           m->tokens,
                                 m->rows,    m->sums,           m->pre,
                                 m->up,      m->post,           m->grad_pre,
                                 m->grad_up, m->at.room.results };
    bool wide = wide_rows(m->at) && m->bias_stride % wide_elements(m->at.dtype) == 0;

    for (const void *memory : used)
        wide = wide && aligned(memory);
    return wide;
}

template <class T, int N>
static cudaError_t esmm_typed(const struct esmm *m, const struct cuda_queue *queue)
{
    switch (m->form) {
    case ESMM_FORWARD: return esmm_forward<T, N>(m, queue);
    case ESMM_TOKENS: return esmm_tokens<T, N>(m, queue);
    default: return esmm_backward<T, N>(m, queue);
    }
}

extern "C" int cuda_esmm(const struct esmm *args, const struct cuda_queue *queue)
{
    struct esmm m = *args;
    int status;

    m.at = strided(m.at);
    status = check_rows(m.at);
    if (!status && m.form == ESMM_BACKWARD && !m.keep) { /* dropped choices have no row */
        struct fill gates = { m.grad_gate,
                              (uint64_t)m.at.tokens * m.at.top_k * sizeof(*m.grad_gate) };

        status = cuda_fill(&gates, queue);
    }
    if (status)
        return status;
    return cuda_check(BY_TYPE(esmm_typed, m.at.dtype, wide_esmm(&m), &m, queue), "esmm");
}
