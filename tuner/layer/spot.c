/* Takes some tokens of a rank through their experts, weights drawn row by row. */
#include "spot.h"

#include "random.h"
#include "status.h"

#include <math.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- which tokens */

static double products_of_token(const struct moe_shape *s)
{
    double matrices = s->activation == MOE_SWIGLU ? 3 : 2, ways = s->pass == MOE_TRAIN ? 2 : 1;

    return ways * matrices * s->top_k * s->model_dim * s->hidden_dim;
}

static uint32_t most_tokens(const struct moe_shape *s, uint32_t tokens)
{
    static const double products_most = 1e9;
    double most = products_most / products_of_token(s);
    uint32_t count = most < 2 ? 2 : (most < SPOT_MOST ? (uint32_t)most : SPOT_MOST);

    return count < tokens ? count : tokens;
}

static const int32_t *choices_of(const struct spot *s, const int32_t *expert, uint32_t token)
{
    return expert + (size_t)token * s->p.k;
}

static bool goes_to(const struct spot *s, const int32_t *expert, uint32_t token, uint32_t e)
{
    for (uint32_t j = 0; j < s->p.k; j++)
        if ((uint32_t)choices_of(s, expert, token)[j] == e)
            return true;
    return false;
}

/* The last that the rule serves at the expert with the most tokens: dropped if any is.  Without
 * memory to count, any token. */
static uint32_t last_in_line(const struct spot *s, const int32_t *expert)
{
    uint32_t *line = calloc(s->p.E, sizeof(*line)), most = 0, last = 0;

    for (uint32_t j = 0; j < s->p.k && line; j++)
        for (uint32_t t = 0; t < s->tokens; t++) {
            uint32_t e = (uint32_t)choices_of(s, expert, t)[j];

            if (e < s->p.E && ++line[e] >= most) {
                most = line[e];
                last = t;
            }
        }
    free(line);
    return last;
}

/* From somewhere in the batch on, the first that goes to expert e. */
static uint32_t next_for(const struct spot *s, const int32_t *expert, uint32_t from, uint32_t e)
{
    for (uint32_t i = 0; i < s->tokens; i++)
        if (goes_to(s, expert, (from + i) % s->tokens, e))
            return (from + i) % s->tokens;
    return from;
}

static uint32_t candidate(const struct spot *s, const int32_t *expert, uint32_t i)
{
    uint32_t somewhere = random_below(s->p.data->seed, (uint64_t)s->rank << 32 | i, s->tokens);

    switch (i) {
    case 0: return last_in_line(s, expert);
    case 1: return s->tokens - 1 - somewhere / 2; /* kernels go wrong at a batch's end */
    case 2: return s->tokens - 1;
    case 3: return 0;
    default: return next_for(s, expert, somewhere, (i + (uint32_t)s->rank) % s->p.E);
    }
}

static bool has(const struct spot *s, uint32_t token)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->token[i] == token)
            return true;
    return false;
}

static void pick(struct spot *s, const int32_t *expert)
{
    uint32_t most = most_tokens(&s->p.data->shape, s->tokens);

    for (uint32_t i = 0; i < 4 * SPOT_MOST && s->count < most; i++) {
        uint32_t token = candidate(s, expert, i);

        if (!has(s, token))
            s->token[s->count++] = token;
    }
}

/* ---- what experts make of them */

/* One hidden unit of an expert: its rows of the three matrices, and its bias. */
struct unit {
    float *w1, *w3, *w2;
    double bias;
};

static void draw_unit(const struct spot *s, uint32_t e, uint32_t h, struct unit *u)
{
    data_weight_row(s->p.data, TENSOR_W1, e, h, u->w1);
    data_weight_row(s->p.data, TENSOR_W2, e, h, u->w2);
    if (s->p.data->shape.activation == MOE_SWIGLU)
        data_weight_row(s->p.data, TENSOR_W3, e, h, u->w3);
    u->bias = (double)data_weight(s->p.data, TENSOR_B1, e, h, 0);
}

/* Adds what the unit makes of token i, which is its choice `at`. */
static void pass_unit(struct spot *s, const struct unit *u, uint32_t i, size_t at)
{
    uint32_t kind = s->p.data->shape.activation, D = s->p.D;
    const double *x = s->x + (size_t)i * D;
    const double *row = s->grad + (s->rows > 1 ? at : (size_t)i) * D;
    double pre = u->bias + plain_dot(u->w1, x, D), act = plain_act(kind, pre), grad;
    double up = kind == MOE_SWIGLU ? plain_dot(u->w3, x, D) : 1;

    plain_axpy(act * up, u->w2, s->out + at * D, D);
    if (s->p.data->shape.pass != MOE_TRAIN)
        return;
    grad = plain_dot(u->w2, row, D);
    plain_axpy(grad * plain_act_slope(kind, pre) * up, u->w1, s->back + at * D, D);
    if (plain_is_at_bend(&s->p, u->bias, pre))
        plain_add_sizes(fabs(grad), u->w1, s->bent + at * D, D);
    if (kind == MOE_SWIGLU)
        plain_axpy(grad * act, u->w3, s->back + at * D, D);
}

static void add_bias(struct spot *s, uint32_t e, size_t at)
{
    for (uint32_t c = 0; c < s->p.D; c++)
        s->out[at * s->p.D + c] = (double)data_weight(s->p.data, TENSOR_B2, e, 0, c);
}

/* All that is looked at of one expert: its weights are drawn once. */
static void pass_expert(struct spot *s, uint32_t e, struct unit *u)
{
    size_t all = (size_t)s->count * s->p.k;

    for (size_t at = 0; at < all; at++)
        if ((uint32_t)s->expert[at] == e)
            add_bias(s, e, at);
    for (uint32_t h = 0; h < s->p.H; h++) {
        draw_unit(s, e, h, u);
        for (size_t at = 0; at < all; at++)
            if ((uint32_t)s->expert[at] == e)
                pass_unit(s, u, (uint32_t)(at / s->p.k), at);
    }
}

static bool is_chosen(const struct spot *s, uint32_t e)
{
    for (size_t at = 0; at < (size_t)s->count * s->p.k; at++)
        if ((uint32_t)s->expert[at] == e)
            return true;
    return false;
}

/* A thread takes one expert after the other. */
struct share {
    struct spot *spot;
    atomic_uint *next; /* expert that nobody has taken */
    struct unit unit;
};

static void *pass_share(void *self)
{
    struct share *share = self;
    uint32_t e;

    while ((e = atomic_fetch_add(share->next, 1)) < share->spot->p.E)
        if (is_chosen(share->spot, e))
            pass_expert(share->spot, e, &share->unit);
    return NULL;
}

/* The caller does what threads that cannot be had leave. */
static int pass_experts(struct spot *s, int threads)
{
    enum { THREADS_MOST = 16 };
    pthread_t thread[THREADS_MOST];
    struct share share[THREADS_MOST];
    size_t D = s->p.D;
    int n = threads < 1 ? 1 : (threads < THREADS_MOST ? threads : THREADS_MOST), started = 1;
    float *rows = calloc((size_t)n * 3 * D, sizeof(*rows));
    atomic_uint next = 0;

    if (!rows)
        return fail(ERR_NOMEM, "rows of an expert");
    for (int i = 0; i < n; i++) {
        float *mine = rows + (size_t)i * 3 * D;

        share[i] = (struct share){ s, &next, { mine, mine + D, mine + 2 * D, 0 } };
    }
    while (started < n && !pthread_create(&thread[started], NULL, pass_share, &share[started]))
        started++;
    pass_share(&share[0]);
    for (int i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
    free(rows);
    return OK;
}

/* ---- open and close */

static int allocate(struct spot *s)
{
    size_t rows = (size_t)s->count * s->p.D, n = s->count + 1;

    s->row = calloc(n * s->rows, sizeof(*s->row));
    s->expert = calloc(n * s->p.k, sizeof(*s->expert));
    s->x = calloc(rows + 1, sizeof(*s->x));
    s->grad = calloc(rows * s->rows + 1, sizeof(*s->grad));
    s->loss = calloc(n * s->p.k, sizeof(*s->loss));
    s->out = calloc(rows * s->p.k + 1, sizeof(*s->out));
    s->back = calloc(rows * s->p.k + 1, sizeof(*s->back));
    s->bent = calloc(rows * s->p.k + 1, sizeof(*s->bent));
    s->slack = calloc(rows + 1, sizeof(*s->slack));
    s->want_y = calloc(rows * s->rows + 1, sizeof(*s->want_y));
    s->want_grad_x = calloc(rows + 1, sizeof(*s->want_grad_x));
    return s->row && s->loss && s->expert && s->x && s->grad && s->out && s->back && s->bent &&
                   s->slack && s->want_y && s->want_grad_x
               ? OK
               : fail(ERR_NOMEM, "%u tokens computed anew", s->count);
}

static void load_tokens(struct spot *s, const int32_t *expert)
{
    uint32_t D = s->p.D, k = s->p.k;

    for (uint32_t i = 0; i < s->count; i++) {
        plain_load(&s->p, s->rank, s->token[i]);
        memcpy(s->x + (size_t)i * D, s->p.x, D * sizeof(*s->x));
        memcpy(s->grad + (size_t)i * s->rows * D, s->p.grad, s->rows * D * sizeof(*s->grad));
        memcpy(s->loss + (size_t)i * k, s->p.loss, k * sizeof(*s->loss));
        for (uint32_t j = 0; j < s->rows; j++)
            s->row[i * s->rows + j] = s->token[i] * s->rows + j;
        memcpy(s->expert + (size_t)i * k, choices_of(s, expert, s->token[i]), k * sizeof(*expert));
    }
}

int spot_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
              int threads, struct spot **out)
{
    struct spot *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return fail(ERR_NOMEM, "tokens computed anew");
    TRY_OUT(plain_open(data, &s->p));
    s->rank = rank;
    s->tokens = tokens;
    s->rows = shape_result_rows(&data->shape);
    pick(s, expert);
    TRY_OUT(allocate(s));
    load_tokens(s, expert);
    TRY_OUT(pass_experts(s, threads));
    *out = s;
    return OK;
out:
    spot_close(s);
    return rc;
}

void spot_close(struct spot *s)
{
    if (!s)
        return;
    plain_close(&s->p);
    free(s->row);
    free(s->loss);
    free(s->expert);
    free(s->x);
    free(s->grad);
    free(s->out);
    free(s->back);
    free(s->bent);
    free(s->slack);
    free(s->want_y);
    free(s->want_grad_x);
    free(s);
}

size_t spot_bytes(const struct moe_shape *s)
{
    size_t count = most_tokens(s, s->tokens), rows = count * s->model_dim;
    /* Of several layers tokens and gradients that one is given, as f32 and as they came. */
    size_t given = layer_count(s) > 1 ? 3 * (size_t)s->tokens * s->model_dim : 0;

    return given * sizeof(float) +
           (3 + 2 * (size_t)shape_result_rows(s) + 3 * (size_t)s->top_k) * rows * sizeof(double) +
           (size_t)s->tokens * (s->order == MOE_ORDER_PRIORITY ? sizeof(uint32_t) : 0) +
           4 * layer_cosine(s, COSINE_ROWS) * sizeof(double) +
           ((size_t)shape_gate_rows(s) + 3) * s->model_dim * sizeof(float) +
           (size_t)s->tokens * s->top_k * (sizeof(int32_t) + sizeof(int64_t));
}

/* ---- what a step must give */

bool spot_fits(const struct spot *s, const int32_t *expert)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (memcmp(s->expert + (size_t)i * s->p.k, choices_of(s, expert, s->token[i]),
                   s->p.k * sizeof(*expert)) != 0)
            return false;
    return true;
}

/* Each token takes one turn. */
static int check_turns(const struct spot *s, const uint32_t *turn)
{
    bool *seen = calloc((size_t)s->tokens + 1, sizeof(*seen));
    int rc = seen ? OK : fail(ERR_NOMEM, "turns");

    for (uint32_t i = 0; turn && i < s->tokens && !rc; i++) {
        if (turn[i] >= s->tokens || seen[turn[i]])
            rc = fail(ERR_WRONG, "rank %d: token %u takes a turn twice, or is none", s->rank,
                      turn[i]);
        else
            seen[turn[i]] = true;
    }
    free(seen);
    return rc;
}

static uint32_t turn_of(const struct spot *s, const uint32_t *turn, uint32_t token)
{
    uint32_t i = 0;

    while (i + 1 < s->tokens && turn[i] != token)
        i++;
    return i;
}

/* Of those that are looked at no less important one went before. */
static int check_importance(const struct spot *s, const uint32_t *turn, const double *importance)
{
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t j = 0; j < s->count; j++)
            if (importance[i] > importance[j] + plain_importance_slack(&s->p) &&
                turn_of(s, turn, s->token[i]) > turn_of(s, turn, s->token[j]))
                return fail(ERR_WRONG, "rank %d token %u: a less important one went before",
                            s->rank, s->token[i]);
    return OK;
}

/* All first choices in the order of turns, then all second choices: whoever comes late is dropped.
 */
static int check_slots(const struct spot *s, const int32_t *expert, const int64_t *slot,
                       const uint32_t *turn, const struct capacities *capacities)
{
    int64_t *filled = calloc(s->p.E, sizeof(*filled));
    int rc = filled ? check_turns(s, turn) : fail(ERR_NOMEM, "%u lines", s->p.E);

    for (uint32_t j = 0; j < s->p.k && !rc; j++)
        for (uint32_t i = 0; i < s->tokens && !rc; i++) {
            uint32_t t = turn ? turn[i] : i;
            size_t at = (size_t)t * s->p.k + j;
            bool is_one = expert[at] >= 0 && (uint32_t)expert[at] < s->p.E;
            int64_t next = is_one ? filled[expert[at]]++ : -1;
            bool has = is_one && (uint64_t)next < capacity_of(capacities, (uint64_t)expert[at]);
            int64_t want = has ? next : -1;

            if (!is_one)
                rc = fail(ERR_WRONG, "rank %d token %u: no expert %d", s->rank, t, expert[at]);
            else if (slot[at] != want)
                rc = fail(ERR_WRONG, "rank %d token %u choice %u: slot %lld, should be %lld",
                          s->rank, t, j, (long long)slot[at], (long long)want);
        }
    free(filled);
    return rc;
}

static void add_rows(double scale, const double *from, double *to, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++)
        to[c] += scale * from[c];
}

/* Token i, whose choices are routed: what its gates add up, and the gradients of those gates. */
static void combine(struct spot *s, uint32_t i, double *gate_grad)
{
    uint32_t D = s->p.D;
    double *y = s->want_y + (size_t)i * s->rows * D, *grad_x = s->want_grad_x + (size_t)i * D;
    double *slack = s->slack + (size_t)i * D;
    bool alone = s->p.data->shape.combine == MOE_COMBINE_CHOICES;
    double size = 0; /* of the gates' gradients, were all terms positive */

    memset(y, 0, s->rows * D * sizeof(*y));
    memset(grad_x, 0, D * sizeof(*grad_x));
    memset(slack, 0, D * sizeof(*slack));
    for (uint32_t j = 0; j < s->p.k; j++) {
        const struct choice *c = &s->p.choices[j];
        size_t at = ((size_t)i * s->p.k + j) * D;

        gate_grad[j] = 0;
        if (!c->kept)
            continue;
        add_rows(alone ? 1 : c->gate, s->out + at, y + (s->rows > 1 ? j * D : 0), D);
        add_rows(c->gate, s->back + at, grad_x, D);
        add_rows(fabs(c->gate), s->bent + at, slack, D);
        for (uint32_t d = 0; d < D && !alone; d++) {
            gate_grad[j] += s->out[at + d] * s->p.grad[d];
            size += c->gate * fabs(s->out[at + d] * s->p.grad[d]);
        }
        gate_grad[j] = alone ? s->p.loss[j] : gate_grad[j];
        size += alone ? c->gate * fabs(s->p.loss[j]) : 0;
    }
    plain_route_back(&s->p, gate_grad, size);
    for (uint32_t d = 0; d < D; d++) /* what experts gave */
        s->grad_x_term = fmax(s->grad_x_term, fabs(grad_x[d]));
    for (uint32_t r = 0; r < s->p.rows; r++) {
        const float *gate = s->p.gate + (size_t)r * D;

        plain_axpy(s->p.row_grad[r], gate, grad_x, D);
        for (uint32_t d = 0; d < D; d++)
            s->grad_x_term = /* as the reference has it */
                fmax(s->grad_x_term, fabs(s->p.row_size[r] * (double)gate[d]) / sqrt(D));
    }
}

int spot_expect(struct spot *s, const int32_t *expert, const int64_t *slot, const uint32_t *turn,
                const struct capacities *capacities)
{
    double importance[SPOT_MOST];
    double *gate_grad = calloc(s->p.k, sizeof(*gate_grad));
    int rc = gate_grad ? check_slots(s, expert, slot, turn, capacities) : fail(ERR_NOMEM, "gates");

    if (!rc && s->p.data->balance)
        plain_count(&s->p, expert, s->tokens);
    s->grad_x_term = 0;
    for (uint32_t i = 0; i < s->count && !rc; i++) {
        plain_load(&s->p, s->rank, s->token[i]);
        rc = plain_route(&s->p, s->rank, s->token[i], choices_of(s, expert, s->token[i]));
        for (uint32_t j = 0; j < s->p.k; j++)
            s->p.choices[j].kept = slot[(size_t)s->token[i] * s->p.k + j] >= 0;
        if (!rc)
            combine(s, i, gate_grad);
        importance[i] = plain_importance(&s->p);
    }
    if (turn && !rc)
        rc = check_importance(s, turn, importance);
    free(gate_grad);
    return rc;
}
