/* Computes the expected results of a rank's tokens: their experts' outputs hidden unit by hidden
 * unit, whose random weights are made on the way, then sums and gradients. */
#include "judge.h"

#include "random.h"
#include "shape.h"
#include "status.h"

#include <math.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- which tokens are judged */

static uint32_t spot_tokens(const struct moe_shape *s, uint32_t tokens)
{
    static const double products_most = 1e9;
    double matrices = s->activation == MOE_SWIGLU ? 3 : 2, passes = s->pass == MOE_TRAIN ? 2 : 1;
    double affordable =
        products_most / (passes * matrices * s->top_k * s->model_dim * s->hidden_dim);
    uint32_t count =
        affordable < 2 ? 2 : (affordable < SPOT_MOST ? (uint32_t)affordable : SPOT_MOST);

    return count < tokens ? count : tokens;
}

/* The last token that gets a slot of the most popular expert: it is dropped if any token is.
 * Without memory to count, any token. */
static uint32_t last_served_token(const struct judge *j, const int32_t *expert)
{
    uint32_t *served = calloc(j->p.E, sizeof(*served)), most_served = 0, last_token = 0;

    for (uint32_t c = 0; c < j->p.k && served; c++)
        for (uint32_t t = 0; t < j->tokens; t++) {
            uint32_t e = (uint32_t)expert[(size_t)t * j->p.k + c];

            if (e < j->p.E && ++served[e] >= most_served) {
                most_served = served[e];
                last_token = t;
            }
        }
    free(served);
    return last_token;
}

/* The first token that chose expert e, searched cyclically from token `from` on. */
static uint32_t next_token_of(const struct judge *j, const int32_t *expert, uint32_t from,
                              uint32_t e)
{
    for (uint32_t i = 0; i < j->tokens; i++) {
        uint32_t t = (from + i) % j->tokens;

        for (uint32_t c = 0; c < j->p.k; c++)
            if ((uint32_t)expert[(size_t)t * j->p.k + c] == e)
                return t;
    }
    return from;
}

static bool is_judged(const struct judge *j, uint32_t token)
{
    bool found = j->count == j->tokens;

    for (uint32_t i = 0; i < j->count && !found; i++)
        found = j->token[i] == token;
    return found;
}

static void choose_tokens(struct judge *j, const int32_t *expert, uint32_t wanted)
{
    for (uint32_t i = 0; i < 4 * SPOT_MOST && j->count < wanted; i++) {
        uint32_t somewhere = random_below(j->p.data->seed, (uint64_t)j->rank << 32 | i, j->tokens);
        uint32_t token;

        switch (i) {
        case 0: token = last_served_token(j, expert); break;
        case 1: token = j->tokens - 1 - somewhere / 2; break; /* kernels often fail at the end */
        case 2: token = j->tokens - 1; break;
        case 3: token = 0; break;
        default: token = next_token_of(j, expert, somewhere, (i + (uint32_t)j->rank) % j->p.E);
        }
        if (!is_judged(j, token))
            j->token[j->count++] = token;
    }
}

/* ---- one hidden unit of an expert */

/* The weights of one hidden unit: its rows of the three matrices, and its bias. */
struct hidden_unit {
    float *w1, *w3, *w2;
    double bias;
};

static void draw_unit(const struct plain *p, uint32_t e, uint32_t h, struct hidden_unit *u)
{
    data_weight_row(p->data, TENSOR_W1, e, h, u->w1);
    data_weight_row(p->data, TENSOR_W2, e, h, u->w2);
    if (p->data->shape.activation == MOE_SWIGLU)
        data_weight_row(p->data, TENSOR_W3, e, h, u->w3);
    u->bias = (double)data_weight(p->data, TENSOR_B1, e, h, 0);
}

/* The results of one hidden unit for one token. */
struct unit_values {
    double post;              /* hidden value */
    double grad_pre, grad_up; /* gradients before the activation, of W1's and of W3's products */
    double kink_error;        /* how much grad_pre may be off near ReLU's kink */
};

static struct unit_values compute_unit(const struct plain *p, const struct hidden_unit *u,
                                       const double *x, const double *grad_row)
{
    uint32_t kind = p->data->shape.activation;
    double pre = u->bias + plain_dot(u->w1, x, p->D), act = plain_act(kind, pre), grad;
    double up = kind == MOE_SWIGLU ? plain_dot(u->w3, x, p->D) : 1;
    struct unit_values v = { .post = act * up };

    if (p->data->shape.pass != MOE_TRAIN)
        return v;
    grad = plain_dot(u->w2, grad_row, p->D);
    v.grad_pre = grad * plain_act_slope(kind, pre) * up;
    v.grad_up = grad * act;
    v.kink_error = plain_is_at_kink(p, u->bias, pre) ? fabs(grad) : 0;
    return v;
}

/* ---- outputs of experts */

/* A thread, which computes one expert after the other. */
struct judge_thread {
    struct judge *judge;
    atomic_uint *next;     /* the next expert that no thread has */
    const size_t *choices; /* numbers i k + j, sorted by expert */
    const size_t *first;   /* (E + 1) where the choices of each expert begin */
    struct hidden_unit unit;
};

/* Adds the unit's results for one choice. */
static void add_unit(struct judge *j, const struct hidden_unit *u, size_t choice)
{
    uint32_t D = j->p.D;
    size_t i = choice / j->p.k, row = choice * D;
    struct unit_values v =
        compute_unit(&j->p, u, j->x + i * D, j->grad_y + (j->rows > 1 ? choice : i) * D);

    plain_axpy(v.post, u->w2, j->out + row, D);
    if (j->p.data->shape.pass != MOE_TRAIN)
        return;
    plain_axpy(v.grad_pre, u->w1, j->back + row, D);
    if (j->kink_error && v.kink_error > 0)
        plain_add_sizes(v.kink_error, u->w1, j->kink_error + row, D);
    if (j->p.data->shape.activation == MOE_SWIGLU)
        plain_axpy(v.grad_up, u->w3, j->back + row, D);
}

/* Computes all choices of an expert at once, so that its weights are made only once. */
static void *judge_thread_main(void *self)
{
    struct judge_thread *state = self;
    struct judge *j = state->judge;
    uint32_t e;

    while ((e = atomic_fetch_add(state->next, 1)) < j->p.E) {
        const size_t *choices = state->choices + state->first[e];
        size_t n = state->first[e + 1] - state->first[e];

        for (size_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < j->p.D; c++)
                j->out[choices[i] * j->p.D + c] =
                    (double)data_weight(j->p.data, TENSOR_B2, e, 0, c);
        for (uint32_t h = 0; h < j->p.H && n; h++) {
            draw_unit(&j->p, e, h, &state->unit);
            for (size_t i = 0; i < n; i++)
                add_unit(j, &state->unit, choices[i]);
        }
    }
    return NULL;
}

/* Sorts choices by expert, and then by token; leaves out choices without a legal expert. */
static void sort_choices(const struct judge *j, size_t *choices, size_t *first)
{
    size_t choice_count = (size_t)j->count * j->p.k, end = 0;

    for (size_t choice = 0; choice < choice_count; choice++)
        if ((uint32_t)j->expert[choice] < j->p.E)
            first[j->expert[choice]]++;
    /* first[e] becomes the end of the choices of expert e, and then, from the last choice on, their
     * beginning. */
    for (uint32_t e = 0; e <= j->p.E; e++)
        first[e] = end += first[e];
    for (size_t choice = choice_count; choice-- > 0;)
        if ((uint32_t)j->expert[choice] < j->p.E)
            choices[--first[j->expert[choice]]] = choice;
}

enum { THREADS_MOST = 16 };

/* Computes all experts by several threads; if threads cannot be started, the caller does all work.
 */
static int compute_experts(struct judge *j, int threads)
{
    pthread_t thread[THREADS_MOST];
    struct judge_thread state[THREADS_MOST];
    size_t D = j->p.D, choices = (size_t)j->count * j->p.k;
    int thread_count = threads < 1 ? 1 : (threads < THREADS_MOST ? threads : THREADS_MOST),
        started = 1;
    float *rows = calloc((size_t)thread_count * 3 * D, sizeof(*rows));
    size_t *sorted = calloc(choices + 1, sizeof(*sorted));
    size_t *first = calloc((size_t)j->p.E + 1, sizeof(*first));
    atomic_uint next = 0;
    int rc = rows && sorted && first ? OK : fail(ERR_NOMEM, "rows of an expert");

    if (!rc)
        sort_choices(j, sorted, first);
    for (int i = 0; i < thread_count && !rc; i++) {
        float *unit_rows = rows + (size_t)i * 3 * D;

        state[i] = (struct judge_thread){
            .judge = j,
            .next = &next,
            .choices = sorted,
            .first = first,
            .unit = { .w1 = unit_rows, .w3 = unit_rows + D, .w2 = unit_rows + 2 * D },
        };
    }
    while (!rc && started < thread_count &&
           !pthread_create(&thread[started], NULL, judge_thread_main, &state[started]))
        started++;
    if (!rc)
        judge_thread_main(&state[0]);
    for (int i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
    free(rows);
    free(sorted);
    free(first);
    return rc;
}

/* ---- open and close */

static double *doubles(uint64_t count, int *rc)
{
    double *memory = calloc(count + 1, sizeof(*memory));

    if (!memory && !*rc)
        *rc = fail(ERR_NOMEM, "%llu numbers of the reference", (unsigned long long)count);
    return memory;
}

static bool is_trained(const struct moe_shape *s)
{
    return s->pass == MOE_TRAIN;
}

static bool has_kink_error(const struct moe_shape *s)
{
    return is_trained(s) && s->activation == MOE_RELU;
}

/* Allocates arrays for so many tokens, and with parameters for their gradients. */
static int allocate_arrays(struct judge *j, uint32_t tokens)
{
    const struct moe_shape *s = &j->p.data->shape;
    uint64_t rows = (uint64_t)tokens * j->p.D, n = (uint64_t)tokens + 1;
    uint64_t gate = (uint64_t)j->p.rows * j->p.D;
    struct parts parts;
    uint32_t hidden;
    int rc = OK;

    j->token = calloc(n, sizeof(*j->token));
    j->row = calloc(n * j->rows, sizeof(*j->row));
    j->expert = calloc(n * j->p.k, sizeof(*j->expert));
    if (!j->token || !j->row || !j->expert)
        rc = fail(ERR_NOMEM, "%u tokens computed anew", tokens);
    j->x = doubles(rows, &rc);
    j->grad_y = doubles(rows * j->rows, &rc);
    j->out = doubles(rows * j->p.k, &rc);
    if (is_trained(s))
        j->back = doubles(rows * j->p.k, &rc);
    if (has_kink_error(s))
        j->kink_error = doubles(rows * j->p.k, &rc);
    j->y = doubles(rows * j->rows, &rc);
    j->grad_x = doubles(rows, &rc);
    j->grad_x_slack = doubles(rows, &rc);
    if (rc || !j->parameters)
        return rc;
    TRY(parts_open(s, j->p.data->speeds, &parts));
    hidden = parts.hidden[j->rank];
    parts_close(&parts);
    j->grad_gate = doubles(gate, &rc);
    j->grad_gate_size = doubles(gate, &rc);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++)
        j->grad[i] = doubles(layer_units(s, hidden, i), &rc);
    j->grad_size[TENSOR_B1] = doubles(layer_units(s, hidden, TENSOR_B1), &rc);
    j->grad_size[TENSOR_B2] = doubles(layer_units(s, hidden, TENSOR_B2), &rc);
    if (s->activation == MOE_RELU) {
        j->grad_slack[TENSOR_W1] = doubles(layer_units(s, hidden, TENSOR_W1), &rc);
        j->grad_slack[TENSOR_B1] = doubles(layer_units(s, hidden, TENSOR_B1), &rc);
    }
    return rc;
}

/* parameters: judge all tokens and the parameters; else some tokens. */
static int judge_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
                      bool parameters, int threads, struct judge **out)
{
    struct judge *j = calloc(1, sizeof(*j));
    uint32_t judged_most = parameters ? tokens : spot_tokens(&data->shape, tokens), D, k;
    int rc;

    if (!j)
        return fail(ERR_NOMEM, "a judge");
    TRY_OUT(plain_open(data, &j->p));
    D = j->p.D;
    k = j->p.k;
    j->rank = rank;
    j->tokens = tokens;
    j->rows = shape_result_rows(&data->shape);
    j->parameters = parameters;
    TRY_OUT(allocate_arrays(j, judged_most));
    if (parameters) {
        for (j->count = 0; j->count < tokens; j->count++)
            j->token[j->count] = j->count;
    } else {
        choose_tokens(j, expert, judged_most);
    }
    for (uint32_t i = 0; i < j->count; i++) {
        plain_load(&j->p, rank, j->token[i]);
        memcpy(j->x + (size_t)i * D, j->p.x, D * sizeof(*j->x));
        memcpy(j->grad_y + (size_t)i * j->rows * D, j->p.grad, j->rows * D * sizeof(*j->grad_y));
        for (uint32_t r = 0; r < j->rows; r++)
            j->row[i * j->rows + r] = j->token[i] * j->rows + r;
        memcpy(j->expert + (size_t)i * k, expert + (size_t)j->token[i] * k, k * sizeof(*expert));
    }
    TRY_OUT(compute_experts(j, threads));
    *out = j;
    return OK;
out:
    judge_close(j);
    return rc;
}

int reference_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
                   int threads, struct judge **out)
{
    return judge_open(data, rank, tokens, expert, true, threads, out);
}

int spot_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
              int threads, struct judge **out)
{
    return judge_open(data, rank, tokens, expert, false, threads, out);
}

void judge_close(struct judge *j)
{
    if (!j)
        return;
    plain_close(&j->p);
    free(j->token);
    free(j->row);
    free(j->expert);
    free(j->x);
    free(j->grad_y);
    free(j->out);
    free(j->back);
    free(j->kink_error);
    free(j->y);
    free(j->grad_x);
    free(j->grad_x_slack);
    free(j->grad_gate);
    free(j->grad_gate_size);
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        free(j->grad[i]);
        free(j->grad_size[i]);
        free(j->grad_slack[i]);
    }
    free(j);
}

bool judge_fits(const struct judge *j, const int32_t *expert)
{
    uint32_t k = j->p.k;

    for (uint32_t i = 0; i < j->count; i++)
        if (memcmp(j->expert + (size_t)i * k, expert + (size_t)j->token[i] * k,
                   k * sizeof(*expert)) != 0)
            return false;
    return true;
}

/* ---- gates, order and slots */

/* Makes this token the current one of j->p, and computes its gates. */
static int route_token(struct judge *j, const struct routed_tokens *routed, uint32_t token)
{
    const int32_t *expert = routed->expert + (size_t)token * j->p.k;

    plain_load(&j->p, routed->rank, token);
    return plain_route(&j->p, routed->rank, token, expert,
                       routed->live ? routed->live + (size_t)token * j->p.k : expert);
}

/* Checks the order of tokens: each comes once, and no judged token comes before a more important
 * one, except within rounding. */
static int check_turns(struct judge *j, const struct routed_tokens *routed)
{
    bool *seen = calloc((size_t)routed->tokens + 1, sizeof(*seen));
    double least_importance = INFINITY;
    int rc = seen ? OK : fail(ERR_NOMEM, "turns");

    for (uint32_t i = 0; i < routed->tokens && !rc; i++) {
        uint32_t token = routed->turn[i];

        if (token >= routed->tokens || seen[token]) {
            rc = fail(ERR_WRONG, "rank %d: token %u is twice in the order, or does not exist",
                      routed->rank, token);
            break;
        }
        seen[token] = true;
        if (!j->parameters && !is_judged(j, token))
            continue;
        rc = route_token(j, routed, token);
        if (!rc && plain_importance(&j->p) > least_importance + plain_importance_slack(&j->p))
            rc = fail(ERR_WRONG, "rank %d token %u: a less important token came before it",
                      routed->rank, token);
        least_importance = rc ? 0 : fmin(least_importance, plain_importance(&j->p));
    }
    free(seen);
    return rc;
}

/* Finds the slots by the rule: first all first choices in the order of tokens, then all second
 * choices; later ones are dropped (-1).  The caller frees them. */
static int find_slots(struct judge *j, const struct routed_tokens *routed,
                      const struct capacities *capacities, int64_t **out)
{
    uint32_t k = j->p.k;
    int64_t *filled = calloc(j->p.E, sizeof(*filled));
    int64_t *slot = calloc((size_t)routed->tokens * k + 1, sizeof(*slot));
    int rc = filled && slot ? OK : fail(ERR_NOMEM, "slots of %u tokens", routed->tokens);

    if (!rc && routed->turn)
        rc = check_turns(j, routed);
    for (uint32_t nth = 0; nth < k && !rc; nth++)
        for (uint32_t i = 0; i < routed->tokens && !rc; i++) {
            uint32_t token = routed->turn ? routed->turn[i] : i;
            size_t choice = (size_t)token * k + nth;
            int32_t e = routed->expert[choice];

            if (e < 0 || (uint32_t)e >= j->p.E) {
                rc = fail(ERR_WRONG, "rank %d token %u: there is no expert %d", routed->rank, token,
                          e);
                break;
            }
            slot[choice] = filled[e]++;
            if ((uint64_t)slot[choice] >= capacity_of(capacities, (uint64_t)e))
                slot[choice] = -1;
            if (routed->slot && routed->slot[choice] != slot[choice])
                rc = fail(ERR_WRONG, "rank %d token %u choice %u: slot %lld, should be %lld",
                          routed->rank, token, nth, (long long)routed->slot[choice],
                          (long long)slot[choice]);
        }
    free(filled);
    if (rc)
        free(slot);
    else
        *out = slot;
    return rc;
}

/* ---- expected results of a rank's own tokens */

static void add_scaled(double scale, const double *from, double *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += scale * from[i];
}

static double largest_size(const double *values, uint32_t n)
{
    double largest = 0;

    for (uint32_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(values[i]));
    return largest;
}

/* Adds up the kept choices of token i, and computes the gradients of their gates.  Returns the sum
 * of these gradients with all terms positive. */
static double add_choices(struct judge *j, uint32_t i, const int64_t *slot, double *gate_grad)
{
    uint32_t D = j->p.D;
    bool per_choice = j->p.data->shape.combine == MOE_COMBINE_CHOICES;
    double *y = j->y + (size_t)i * j->rows * D, *grad_x = j->grad_x + (size_t)i * D;
    double size = 0;

    memset(y, 0, j->rows * D * sizeof(*y));
    memset(grad_x, 0, D * sizeof(*grad_x));
    memset(j->grad_x_slack + (size_t)i * D, 0, D * sizeof(*grad_x));
    for (uint32_t n = 0; n < j->p.k; n++) {
        double gate = j->p.choices[n].gate;
        size_t row = ((size_t)i * j->p.k + n) * D;

        gate_grad[n] = 0;
        if (slot[n] < 0)
            continue;
        add_scaled(per_choice ? 1 : gate, j->out + row, y + (j->rows > 1 ? n * D : 0), D);
        if (j->back)
            add_scaled(gate, j->back + row, grad_x, D);
        if (j->kink_error)
            add_scaled(gate, j->kink_error + row, j->grad_x_slack + (size_t)i * D, D);
        for (uint32_t d = 0; d < D && !per_choice; d++) {
            gate_grad[n] += j->out[row + d] * j->p.grad[d];
            size += gate * fabs(j->out[row + d] * j->p.grad[d]);
        }
        if (per_choice) { /* of sum(gate * loss) */
            gate_grad[n] = j->p.loss[n];
            size += gate * fabs(j->p.loss[n]);
        }
    }
    return size;
}

/* Adds the gate's part to the gradient of token i, and the token's part to the gate's gradient. */
static void add_gate(struct judge *j, uint32_t i, const double *gate_grad, double size)
{
    uint32_t D = j->p.D;
    double *grad_x = j->grad_x + (size_t)i * D;

    j->grad_x_term = fmax(j->grad_x_term, largest_size(grad_x, D)); /* the part of the experts */
    plain_route_back(&j->p, gate_grad, size);
    for (uint32_t r = 0; r < j->p.rows; r++) {
        const float *gate = j->p.gate + (size_t)r * D;

        plain_axpy(j->p.row_grad[r], gate, grad_x, D);
        for (uint32_t d = 0; d < D; d++) /* D terms of random signs add up to about 1/sqrt(D) of the
                                          * sum of their sizes */
            j->grad_x_term =
                fmax(j->grad_x_term, fabs(j->p.row_size[r] * (double)gate[d]) / sqrt(D));
        if (!j->parameters)
            continue;
        add_scaled(j->p.row_grad[r], j->p.x, j->grad_gate + (size_t)r * D, D);
        for (uint32_t d = 0; d < D; d++)
            j->grad_gate_size[(size_t)r * D + d] += fabs(j->p.row_size[r] * j->p.x[d]);
    }
}

int judge_expect(struct judge *j, const struct routed_tokens *routed,
                 const struct capacities *capacities, bool known_without_gradient)
{
    uint32_t k = j->p.k;
    double *gate_grad = calloc(k, sizeof(*gate_grad)), size;
    int64_t *slot = NULL;
    int rc = gate_grad ? find_slots(j, routed, capacities, &slot) : fail(ERR_NOMEM, "gates");

    if (!rc && j->p.data->balance)
        plain_count(&j->p, routed->expert, j->tokens);
    j->grad_x_term = j->balance = 0;
    j->dropped = 0;
    for (size_t choice = 0; choice < (size_t)j->tokens * k && !rc; choice++)
        j->dropped += slot[choice] < 0;
    for (uint32_t i = 0; i < j->count && !rc; i++) {
        rc = route_token(j, routed, j->token[i]);
        if (rc)
            break;
        j->balance += j->p.data->balance ? plain_balance(&j->p) : 0;
        size = add_choices(j, i, slot + (size_t)j->token[i] * k, gate_grad);
        if (known_without_gradient && j->p.changed)
            memset(gate_grad, 0, k * sizeof(*gate_grad));
        if (j->p.data->shape.pass == MOE_TRAIN)
            add_gate(j, i, gate_grad, size);
    }
    free(slot);
    free(gate_grad);
    return rc;
}

/* ---- expected gradients of this rank's slice of the weights, from the tokens of all ranks */

/* This rank's slice: some hidden units of each of its experts, and some columns of b2. */
struct slice {
    uint32_t first_expert, experts, first_unit, units, first_column, columns;
    struct hidden_unit *unit; /* (experts,units), owned */
    float *rows;              /* the memory of their rows, owned */
};

static int slice_open(const struct judge *j, struct slice *out)
{
    const struct moe_shape *s = &j->p.data->shape;
    uint32_t slices = shape_slices(s), place = (uint32_t)j->rank % slices, D = j->p.D;
    struct slice slice = { .experts = shape_local_experts(s), .columns = shape_bias2_slice(s) };
    struct parts parts;
    size_t unit_count;

    TRY(parts_open(s, j->p.data->speeds, &parts));
    slice.first_expert = (uint32_t)j->rank / slices * slice.experts;
    slice.first_unit = parts.first_unit[j->rank];
    slice.units = parts.hidden[j->rank];
    slice.first_column = place * slice.columns;
    parts_close(&parts);
    if (slice.first_column + slice.columns > D) /* the last ones are padding */
        slice.columns = slice.first_column < D ? D - slice.first_column : 0;
    unit_count = (size_t)slice.experts * slice.units;
    slice.unit = calloc(unit_count + 1, sizeof(*slice.unit));
    slice.rows = calloc(unit_count * 3 * D + 1, sizeof(*slice.rows));
    if (!slice.unit || !slice.rows) {
        free(slice.unit);
        free(slice.rows);
        return fail(ERR_NOMEM, "weights of %zu hidden units", unit_count);
    }
    for (size_t i = 0; i < unit_count; i++) {
        float *row = slice.rows + i * 3 * D;

        slice.unit[i] = (struct hidden_unit){ .w1 = row, .w3 = row + D, .w2 = row + 2 * D };
        draw_unit(&j->p, slice.first_expert + (uint32_t)(i / slice.units),
                  slice.first_unit + (uint32_t)(i % slice.units), &slice.unit[i]);
    }
    *out = slice;
    return OK;
}

/* Adds the gradients from one choice of the current token, for an expert of the slice. */
static void add_slice(struct judge *j, const struct slice *slice, uint32_t choice)
{
    const struct moe_shape *s = &j->p.data->shape;
    const struct token_choice *c = &j->p.choices[choice];
    const double *row = plain_grad_row(&j->p, choice);
    uint32_t D = j->p.D, local = c->expert - slice->first_expert,
             bias_columns = shape_bias2_slice(s);
    double **grad = j->grad, *term = j->grad_term, gate = c->gate;
    double largest_x = largest_size(j->p.x, D), largest_row = largest_size(row, D);

    for (uint32_t h = 0; h < slice->units; h++) {
        struct unit_values v =
            compute_unit(&j->p, &slice->unit[local * slice->units + h], j->p.x, row);
        uint64_t unit = s->layout == MOE_LAYOUT_HIDDEN ? (uint64_t)h * slice->experts + local
                                                       : (uint64_t)local * slice->units + h;

        add_scaled(gate * v.grad_pre, j->p.x, grad[TENSOR_W1] + unit * D, D);
        if (s->activation == MOE_SWIGLU)
            add_scaled(gate * v.grad_up, j->p.x, grad[TENSOR_W3] + unit * D, D);
        if (v.kink_error > 0) {
            for (uint32_t i = 0; i < D; i++)
                j->grad_slack[TENSOR_W1][unit * D + i] += gate * v.kink_error * fabs(j->p.x[i]);
            j->grad_slack[TENSOR_B1][unit] += gate * v.kink_error;
        }
        grad[TENSOR_B1][unit] += gate * v.grad_pre;
        j->grad_size[TENSOR_B1][unit] += fabs(gate * v.grad_pre);
        add_scaled(gate * v.post, row, grad[TENSOR_W2] + unit * D, D);
        term[TENSOR_W1] = fmax(term[TENSOR_W1], largest_x * fabs(gate * v.grad_pre));
        term[TENSOR_W3] = fmax(term[TENSOR_W3], largest_x * fabs(gate * v.grad_up));
        term[TENSOR_W2] = fmax(term[TENSOR_W2], gate * fabs(v.post) * largest_row);
    }
    for (uint32_t i = 0; i < slice->columns; i++) {
        double b2 = gate * row[slice->first_column + i];

        grad[TENSOR_B2][local * bias_columns + i] += b2;
        j->grad_size[TENSOR_B2][local * bias_columns + i] += fabs(b2);
    }
}

int judge_parameters(struct judge *j, const struct routed_tokens *ranks,
                     const struct capacities *capacities)
{
    struct slice slice = { .experts = 0 };
    uint32_t k = j->p.k;
    int rc = OK;

    TRY(slice_open(j, &slice));
    for (uint32_t q = 0; q < j->p.data->shape.ranks && !rc; q++) {
        const struct routed_tokens *routed = &ranks[q];
        int64_t *slot = NULL;

        rc = find_slots(j, routed, capacities, &slot);
        for (uint32_t t = 0; t < routed->tokens && !rc; t++) {
            rc = route_token(j, routed, t);
            for (uint32_t n = 0; n < k && !rc; n++)
                if (slot[(size_t)t * k + n] >= 0 &&
                    j->p.choices[n].expert - slice.first_expert < slice.experts)
                    add_slice(j, &slice, n);
        }
        free(slot);
    }
    free(slice.unit);
    free(slice.rows);
    return rc;
}

/* ---- how large a reference may be */

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* Plain loops in double precision compute about 1e9 products a second. */
struct moe_shape reference_shape(struct moe_shape shape)
{
    static const double products_most = 1e9, weights_most = 1 << 20;
    uint32_t slices = shape_slices(&shape), hidden_most = (48 + slices - 1) / slices * slices;
    double expert = (double)shape.model_dim * shape.hidden_dim;

    shape.layers = at_most(shape.layers, 3); /* a first, a middle and a last layer */
    if (layer_count(&shape) * 12 * expert * shape.tokens * shape.top_k < products_most &&
        expert * shape.experts <= weights_most)
        return shape;
    shape.tokens = at_most(shape.tokens, 96);
    shape.model_dim = at_most(shape.model_dim, 48);
    if (shape.hidden_dim > hidden_most) /* an uneven cut stays uneven */
        shape.hidden_dim = hidden_most + shape.hidden_dim % slices;
    return shape;
}

bool reference_is_affordable(const struct moe_shape *s)
{
    static const double products_most = 2e10, weights_most = 1 << 28;
    double expert = (double)s->model_dim * s->hidden_dim;

    return layer_count(s) * 12 * expert * s->tokens * s->top_k < products_most &&
           expert * s->experts < weights_most;
}

uint64_t reference_capacity(const struct moe_shape *shape)
{
    return (uint64_t)shape->tokens * shape->top_k / shape->experts + 1;
}

/* Bytes for the judged tokens, and for the weights of a unit in each thread. */
static size_t token_bytes(const struct moe_shape *s, uint64_t count)
{
    uint64_t rows = shape_result_rows(s), k = s->top_k;
    uint64_t numbers = 3 + 2 * rows + k * (1 + is_trained(s) + has_kink_error(s));

    return (numbers * s->model_dim * sizeof(double) + (1 + rows + k) * sizeof(uint32_t) +
            k * sizeof(size_t)) *
               count +
           ((uint64_t)s->experts + 1) * sizeof(size_t) +
           (uint64_t)THREADS_MOST * 3 * s->model_dim * sizeof(float);
}

size_t reference_bytes(const struct moe_shape *s)
{
    uint64_t rows = (uint64_t)s->tokens * s->model_dim,
             gate = (uint64_t)shape_gate_rows(s) * s->model_dim;
    uint64_t choices = (uint64_t)s->ranks * s->tokens * s->top_k;
    uint64_t results = rows * shape_result_rows(s), cosine = layer_cosine(s, COSINE_ROWS);
    uint64_t floats = gate, doubles = 2 * gate + 3 * cosine;
    uint64_t compared = results > gate ? results : gate;
    bool bends = s->activation == MOE_RELU;

    if (layer_count(s) > 1) /* given tokens and gradients: of all ranks, and this rank's to send */
        floats += 2 * ((uint64_t)s->ranks + 1) * rows;
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        uint64_t slice = layer_slice(s, i);

        floats += i == TENSOR_W1 ? 3 * slice : 0; /* a slice's units are drawn with room for W3 */
        doubles += i == TENSOR_B1 || i == TENSOR_B2 ? 2 * slice : slice;
        doubles += bends && (i == TENSOR_W1 || i == TENSOR_B1) ? slice : 0;
        compared = slice > compared ? slice : compared;
    }
    return token_bytes(s, s->tokens) + layer_slice(s, TENSOR_B1) * sizeof(struct hidden_unit) +
           floats * sizeof(float) + doubles * sizeof(double) + choices * 2 * sizeof(int32_t) +
           (uint64_t)s->tokens * s->top_k * 2 * sizeof(int64_t) +
           (s->order == MOE_ORDER_PRIORITY ? 2 * (uint64_t)s->ranks * s->tokens * sizeof(uint32_t)
                                           : 0) +
           compared * (sizeof(float) + dtype_bytes(s->dtype));
}

size_t spot_bytes(const struct moe_shape *s)
{
    /* Tokens and gradients that one of several layers is given, in f32 and in their own type. */
    size_t given = layer_count(s) > 1 ? 3 * (size_t)s->tokens * s->model_dim : 0;

    return given * sizeof(float) + token_bytes(s, spot_tokens(s, s->tokens)) +
           (size_t)s->tokens * (s->order == MOE_ORDER_PRIORITY ? sizeof(uint32_t) : 0) +
           4 * layer_cosine(s, COSINE_ROWS) * sizeof(double) +
           ((size_t)shape_gate_rows(s) + 3) * s->model_dim * sizeof(float) +
           (size_t)s->tokens * s->top_k * (sizeof(int32_t) + 2 * sizeof(int64_t));
}
