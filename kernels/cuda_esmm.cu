/* Experts without padding: the kernel esmm on a GPU, products of only the rows that exist.
 *
 * A grid has enough blocks for the largest possible number of rows.  Each block finds its rows on
 * the device, and ends if it has none.  So the host need not read counts. */
#include "cuda_act.cuh"
#include "cuda_sparse.cuh"

/* ---- The rows of a block */

/* Rows in groups (experts): group i has rows starts[i] to starts[i + 1] - 1. */
struct groups {
    const int64_t *starts;
    uint32_t count;
};

/* The rows of one tile: `rows` rows of a group, from `row` on.  0 rows: the tile is not needed. */
struct part {
    uint32_t group;
    uint64_t row, rows;
};

static inline struct groups experts_of(const struct kept_rows &at)
{
    return { at.first, at.experts };
}

/* The largest number of tiles for so many rows: each group may end with one that is not full. */
static inline uint64_t tiles_most(uint64_t rows, uint32_t groups)
{
    return rows / TILE_ROWS + groups;
}

/* Group i has its tiles from starts[i] / TILE_ROWS + i on.  That leaves room for a last tile that
 * is not full, and needs no sum over groups. */
DEVICE uint64_t first_tile(const struct groups &g, uint32_t i)
{
    return (uint64_t)g.starts[i] / TILE_ROWS + i;
}

/* Finds the rows of a tile.  All lanes of a warp call it together. */
DEVICE part part_of(const struct groups &g, uint64_t tile)
{
    uint32_t group = 0, left = g.count;
    uint64_t skipped, rows;

    while (left > 1) { /* search by 32 parts: each lane tests one group */
        uint32_t step = (left + WARP - 1) / WARP, tested = threadIdx.x % WARP * step;
        bool begins_before = tested < left && first_tile(g, group + tested) <= tile;
        uint32_t last_passed = (uint32_t)__popc(__ballot_sync(all_lanes, begins_before)) - 1;

        group += last_passed * step;
        left = min(step, left - last_passed * step);
    }
    skipped = (tile - first_tile(g, group)) * TILE_ROWS;
    rows = (uint64_t)(g.starts[group + 1] - g.starts[group]);
    return { group, (uint64_t)g.starts[group] + skipped,
             rows > skipped ? min(rows - skipped, (uint64_t)TILE_ROWS) : 0 };
}

/* ---- Activations, forward and backward, for a thread's elements of a row */

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
DEVICE void act_backward_kind(const float (&x)[C], const float (&up)[C], float (&grad)[C],
                              float (&grad_up)[C])
{
#pragma unroll
    for (int i = 0; i < C; i++)
        grad[i] = act_backward<KIND>(x[i], up[i], grad[i], grad_up[i]);
}

template <int C>
DEVICE void act_backward_some(uint32_t kind, const float (&x)[C], const float (&up)[C],
                              float (&grad)[C], float (&grad_up)[C])
{
    switch (kind) {
    case MOE_RELU: act_backward_kind<MOE_RELU>(x, up, grad, grad_up); break;
    case MOE_GELU: act_backward_kind<MOE_GELU>(x, up, grad, grad_up); break;
    default: act_backward_kind<MOE_SWIGLU>(x, up, grad, grad_up);
    }
}

/* ---- Writing the sums of a tile.  `column0` is the tile's first column.  C neighbouring elements
 * of a row are written at once; h and d are their first column in rows of H and of D elements. */

template <class T> DEVICE const T *bias_of(const struct esmm &m, uint32_t expert)
{
    return m.bias ? (const T *)m.bias + expert * m.bias_stride : NULL;
}

/* ESMM_FORWARD: writes pre = x + bias, and post = act(pre) where the call asks for it. */
template <bool WIDE, class T, class Sums>
DEVICE void finish_forward(const struct esmm &m, const struct part &p, uint64_t column0, Sums &sums)
{
    const T *bias = bias_of<T>(m, p.group);
    bool has_post = m.post != NULL;

#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        uint64_t row_start = (p.row + Sums::row(r)) * m.at.hidden;

        if ((uint64_t)Sums::row(r) >= p.rows)
            continue;
        sums.each_in_row(r, [&](int column, auto &x) {
            constexpr int C = sizeof(x) / sizeof(x[0]);
            uint64_t h = column0 + column, left = m.at.hidden - h;
            float b[C] = {}, up[C] = {}, y[C];

            if (h >= m.at.hidden)
                return;
            if (has_post && bias)
                load_some<WIDE>(bias + h, left, b);
            if (has_post && m.kind == MOE_SWIGLU)
                load_some<WIDE>((const T *)m.up + row_start + h, left, up);
#pragma unroll
            for (int i = 0; i < C; i++)
                x[i] += b[i];
            if (m.pre != m.post)
                store_some<WIDE>((T *)m.pre + row_start + h, left, x);
            if (!has_post)
                return;
            activate_some(m.kind, x, up, y);
            store_some<WIDE>((T *)m.post + row_start + h, left, y);
        });
    }
}

/* ESMM_TOKENS: writes x + bias to `results`. */
template <bool WIDE, class T, class Sums>
DEVICE void finish_tokens(const struct esmm &m, const struct part &p, const struct results &results,
                          uint64_t column0, Sums &sums)
{
    const T *bias = bias_of<T>(m, p.group);

#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        T *to_row = (T *)results.at + (p.row + Sums::row(r)) * results.columns;

        if ((uint64_t)Sums::row(r) >= p.rows)
            continue;
        sums.each_in_row(r, [&](int column, auto &x) {
            constexpr int C = sizeof(x) / sizeof(x[0]);
            uint64_t d = column0 + column, left = m.at.width - d;
            float b[C] = {};

            if (d >= m.at.width)
                return;
            if (bias)
                load_some<WIDE>(bias + d, left, b);
#pragma unroll
            for (int i = 0; i < C; i++)
                x[i] += b[i];
            store_some<WIDE>(to_row + (d - results.column), left, x);
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

/* Adds up what put_dot() stored, and writes one number for each row, `stride` apart. */
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

/* Writes the gradients of C neighbouring elements of a row, at `offset` elements into the matrices.
 * u is the gradient of post before the gate; returns its part of <u, post>. */
template <bool WIDE, class T, int C>
DEVICE float backward_some(const struct esmm &m, uint64_t offset, uint64_t left, float gate,
                           float (&u)[C])
{
    float pre[C], post[C], up[C] = {}, grad_up[C] = {}, dot = 0;

    load_some<WIDE>((const T *)m.post + offset, left, post);
    load_some<WIDE>((const T *)m.pre + offset, left, pre);
    if (m.kind == MOE_SWIGLU)
        load_some<WIDE>((const T *)m.up + offset, left, up);
#pragma unroll
    for (int i = 0; i < C; i++) {
        dot += u[i] * post[i];
        u[i] *= gate;
    }
    act_backward_some(m.kind, pre, up, u, grad_up);
    store_some<WIDE>((T *)m.grad_pre + offset, left, u);
    if (m.kind == MOE_SWIGLU)
        store_some<WIDE>((T *)m.grad_up + offset, left, grad_up);
    return dot;
}

/* ESMM_BACKWARD: writes the gradients of pre and up.  dots gets each row's <u, post> over the tile.
 */
template <bool WIDE, class T, class Sums>
DEVICE void finish_backward(const struct esmm &m, const struct part &p, uint64_t column0,
                            Sums &sums, float *dots)
{
#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        uint64_t row = p.row + Sums::row(r);
        bool is_row = (uint64_t)Sums::row(r) < p.rows;
        float gate = is_row && m.gate ? m.gate[m.at.choice[row]] : 1, dot = 0;

        sums.each_in_row(r, [&](int column, auto &u) {
            uint64_t h = column0 + column;

            if (is_row && h < m.at.hidden)
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
    constexpr bool to_hidden = FORM != ESMM_TOKENS; /* the result has rows of H, else rows of D */
    typedef sums<T, true, to_hidden> Sums;
    SHARED(uint4, memory, tile<T>::words);
    uint32_t down = blockIdx.x / t.across, across = blockIdx.x % t.across;
    uint32_t column0 = t.results.column + across * tile<T>::columns, depth, columns;
    struct part p = part_of(t.groups, t.from + down);
    const T *matrix = (const T *)m.weights + p.group * m.at.expert_stride;

    if (!p.rows)
        return;
    depth = to_hidden ? m.at.width : m.at.hidden;
    columns = (to_hidden ? m.at.hidden : m.at.width) - column0;
    feed<T, WIDE, true, to_hidden, TILE_ROWS> a(to_hidden ? tokens_of<T>(m.at, m.tokens)
                                                          : rows_of<T>(m.rows, m.at.hidden),
                                                { p.row, (uint32_t)p.rows, 0, depth });
    feed<T, WIDE, to_hidden, false, tile<T>::columns> b(
        rows_of<T>(matrix, m.at.unit_stride),
        to_hidden ? window{ column0, columns, 0, depth } : window{ 0, depth, column0, columns });
    weights<T, false> no_weights(NULL, NULL, 0);
    Sums sum;

    tile_multiply<T>(a, b, no_weights, depth, (uint32_t)p.rows, columns, memory, sum);
    if constexpr (FORM == ESMM_FORWARD)
        finish_forward<WIDE, T>(m, p, column0, sum);
    if constexpr (FORM == ESMM_TOKENS)
        finish_tokens<WIDE, T>(m, p, t.results, column0, sum);
    if constexpr (FORM == ESMM_BACKWARD) {
        finish_backward<WIDE, T>(m, p, column0, sum, (float *)memory);
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
    struct tiles t = {};

    t.groups = experts_of(m->at);
    t.count = tiles_most(kept_rows_limit(&m->at), m->at.experts);
    t.across = tiles_across<T>(m->at.hidden);
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
    struct tiles t = {};
    cudaError_t code = cudaSuccess;

    t.groups = experts_of(m->at);
    t.count = tiles_most(kept_rows_limit(&m->at), m->at.experts);
    t.results = results_of(m, sizeof(T), queue);
    /* Without kept_room.results, scratch memory must have room for the columns of one tile. */
    if (!t.results.columns)
        code = cudaErrorInvalidValue;
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

/* Writes the gradients of gates, one warp for each row: its dots, and <token, bias>. */
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

        for (uint64_t tile_column = lane; tile_column < t.across; tile_column += WARP)
            sum += t.dots[(blockIdx.x * (uint64_t)TILE_ROWS + i) * t.across + tile_column];
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
    uint64_t all = tiles_most(kept_rows_limit(&m->at), m->at.experts), room_tiles = all;
    struct tiles t = {};
    cudaError_t code = cudaSuccess;

    t.groups = experts_of(m->at);
    t.across = tiles_across<T>(m->at.hidden);
    t.dots = (float *)queue->scratch;
    if (t.across)
        room_tiles = queue->scratch_bytes / ((uint64_t)t.across * TILE_ROWS * sizeof(float));
    if (all && !room_tiles)
        return cudaErrorInvalidValue; /* a row has millions of hidden units */
    for (; !code && t.from < all; t.from += t.count) {
        t.count = all - t.from < room_tiles ? all - t.from : room_tiles;
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
