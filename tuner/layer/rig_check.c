/* Checks the results of a step: all of them against the reference, or those of some tokens against
 * a spot check (judge.h). */
#include "fault.h"
#include "rig.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Gathers numbers of four bytes from the devices of all ranks: `mine` of this rank, and room for
 * `each` of every rank.  *out stays NULL where `from` is NULL.  Collective; the caller frees *out.
 */
static int gather_numbers(struct rig *rig, const void *from, size_t own_count,
                          size_t count_per_rank, void **out)
{
    enum { WIDTH = sizeof(int32_t) };
    void *send, *all;
    int rc;

    if (!from)
        return OK;
    send = calloc(count_per_rank + 1, WIDTH);
    all = calloc(count_per_rank * rig->data.shape.ranks + 1, WIDTH);
    rc = send && all ? OK : fail(ERR_NOMEM, "choices or turns of all ranks");
    if (!rc)
        rc = device_download(rig->engine->device, send, from, own_count * WIDTH);
    rc = world_settle(rig->world, rc);
    if (!rc)
        rc = world_gather(rig->world, send, all, count_per_rank * WIDTH);
    free(send);
    if (rc)
        free(all);
    else
        *out = all;
    return rc;
}

static uint32_t layer_number(const struct rig *rig, const struct exec *exec)
{
    return (uint32_t)(exec->layer - rig->layer);
}

static bool has_one_layer(const struct rig *rig)
{
    return layer_count(&rig->data.shape) == 1;
}

/* Reads this rank's rows as f32. */
static int download_rows(const struct rig *rig, const void *rows, float *to)
{
    const struct moe_shape *s = &rig->data.shape;
    uint64_t elements = (uint64_t)rig->layer->tokens * s->model_dim;
    size_t bytes = elements * dtype_bytes(s->dtype);
    void *raw = malloc(bytes + 1);
    int rc = raw ? device_download(rig->engine->device, raw, rows, bytes)
                 : fail(ERR_NOMEM, "%zu bytes to check with", bytes);

    if (!rc)
        row_load(s->dtype, raw, 0, to, elements);
    free(raw);
    return rc;
}

static void close_given(struct given_rows *given)
{
    free(given->tokens);
    free(given->grads);
    *given = (struct given_rows){ 0 };
}

/* Downloads the real inputs of this rank's layer, by which a layer is judged that another one
 * feeds. */
static int open_given(const struct rig *rig, const struct exec *exec, uint64_t tokens,
                      struct given_rows *out)
{
    uint32_t i = layer_number(rig, exec);
    size_t elements = tokens * rig->data.shape.model_dim;
    struct given_rows given = { calloc(elements + 1, sizeof(float)),
                                calloc(elements + 1, sizeof(float)), tokens, rig->layer->rank };
    int rc =
        given.tokens && given.grads ? OK : fail(ERR_NOMEM, "%zu numbers to check with", elements);

    if (!rc)
        rc = download_rows(rig, rig->rows[i], given.tokens);
    if (!rc && rig->data.shape.pass == MOE_TRAIN)
        rc = download_rows(rig, rig->grads[i + 1], given.grads);
    if (rc)
        close_given(&given);
    *out = given;
    return rc;
}

/* Gathers the real inputs of the layers of all ranks.  Collective. */
static int gather_given(struct rig *rig, const struct exec *exec, struct given_rows *out)
{
    uint64_t tokens = rig_most_tokens(rig);
    size_t elements = tokens * rig->data.shape.model_dim,
           all_elements = elements * rig->data.shape.ranks;
    struct given_rows own_rows = { 0 };
    int rc = open_given(rig, exec, tokens, &own_rows);

    *out = (struct given_rows){ calloc(all_elements + 1, sizeof(float)),
                                calloc(all_elements + 1, sizeof(float)), tokens, 0 };
    if (!rc && !(out->tokens && out->grads))
        rc = fail(ERR_NOMEM, "%zu numbers to check with", all_elements);
    rc = world_settle(rig->world, rc);
    if (!rc)
        rc = world_gather(rig->world, own_rows.tokens, out->tokens, elements * sizeof(float));
    if (!rc)
        rc = world_gather(rig->world, own_rows.grads, out->grads, elements * sizeof(float));
    close_given(&own_rows);
    return rc;
}

static int threads_of(const struct rig *rig)
{
    return world_cores(rig->world) / world_neighbours(rig->world);
}

/* The choices of the tokens of all ranks; NULL where the step has no such array. */
struct choices_of_ranks {
    void *expert, *live, *turn;
};

static int judge_all(struct rig *rig, const struct exec *exec, const struct data *data,
                     const struct choices_of_ranks *choices, struct judge **out)
{
    const struct capacities capacities = rig_capacities(rig);
    uint32_t ranks = rig->data.shape.ranks;
    int self = rig->layer->rank;
    size_t tokens = rig_most_tokens(rig), k = rig->data.shape.top_k;
    struct routed_tokens *routed = calloc(ranks, sizeof(*routed));
    struct judge *judge = NULL;
    int rc = routed ? OK : fail(ERR_NOMEM, "choices of %u ranks", ranks);

    for (uint32_t q = 0; q < ranks && !rc; q++) {
        routed[q] = (struct routed_tokens){ .rank = (int)q, .tokens = rig->parts.tokens[q] };
        routed[q].expert = (const int32_t *)choices->expert + q * tokens * k;
        if (choices->live)
            routed[q].live = (const int32_t *)choices->live + q * tokens * k;
        if (choices->turn)
            routed[q].turn = (const uint32_t *)choices->turn + q * tokens;
    }
    if (!rc)
        rc = reference_open(data, self, routed[self].tokens, routed[self].expert, threads_of(rig),
                            &judge);
    if (!rc)
        rc = judge_expect(judge, &routed[self], &capacities, exec->router.routes == ROUTES_ZERO);
    if (!rc && rig->data.shape.pass == MOE_TRAIN)
        rc = judge_parameters(judge, routed, &capacities);
    free(routed);
    if (rc) {
        judge_close(judge);
        return rc;
    }
    judge->p.data = NULL; /* it belongs to the caller, and ends before the judge does */
    *out = judge;
    return OK;
}

static int make_reference(struct rig *rig, const struct exec *exec)
{
    struct data data = data_of_layer(&rig->data, layer_number(rig, exec));
    struct given_rows given = { 0 };
    struct choices_of_ranks choices = { NULL, NULL, NULL };
    uint64_t tokens = rig_most_tokens(rig), k = rig->data.shape.top_k,
             own_tokens = rig->layer->tokens;
    int rc = gather_numbers(rig, exec->router.expert, own_tokens * k, tokens * k, &choices.expert);

    if (!rc)
        rc = gather_numbers(rig, exec->router.live, own_tokens * k, tokens * k, &choices.live);
    if (!rc)
        rc = gather_numbers(rig, exec->router.turn, own_tokens, tokens, &choices.turn);
    if (!rc && !has_one_layer(rig)) {
        rc = gather_given(rig, exec, &given);
        data.given = &given;
    }
    if (!rc)
        rc = judge_all(rig, exec, &data, &choices, &rig->reference);
    close_given(&given);
    free(choices.expert);
    free(choices.live);
    free(choices.turn);
    rc = world_settle(rig->world, rc);
    /* All ranks drop it together: a rank that kept its own would not take part when the others make
     * theirs for the next plan. */
    if (rc)
        rig_forget_reference(rig);
    return rc;
}

/* The largest relative change by rounding to the storage type. */
static double storage_rounding(uint32_t dtype)
{
    return dtype == MOE_F32 ? 0x1p-24 : (dtype == MOE_BF16 ? 0x1p-9 : 0x1p-12);
}

/* The error that rounding may explain, relative to the largest value.  It allows for a few
 * roundings to storage (more where r partial results are stored and added up), and for f32 sums
 * over D, H and E terms (a softmax divides by a sum over E, and a token's gradient is such a sum).
 */
static double rounding_of(const struct rig *rig, const struct exec *exec)
{
    const struct moe_shape *s = &rig->data.shape;
    double storage = storage_rounding(s->dtype);
    struct data data = data_of_layer(&rig->data, layer_number(rig, exec));
    double cosine = 1; /* the factor of a cosine router, which also multiplies rounding */

    if (s->router == MOE_ROUTER_COSINE)
        cosine =
            fmax(1, exp(fmin((double)data_cosine(&data, COSINE_SCALE, 0), (double)UNIT_ROWS_MOST)));
    return (6 + 2 * sqrt(exec->geometry.copies * exec->geometry.shares)) * storage +
           8 * sqrt((double)s->model_dim + s->hidden_dim + s->experts) * 0x1p-24 * cosine;
}

/* A comparison of some rows of a result with the expected ones.  A value that borrows its arrays.
 */
struct rows_comparison {
    const char *name; /* of the tensor, for messages */
    const char *got;  /* in the device's memory */
    const double *want;
    const double *size;  /* values to which rounding is relative; NULL: want */
    double term;         /* or relative to this, if larger: cancelled terms are rounded, too */
    const double *slack; /* additional allowed error; NULL: 0 */
    uint64_t count;      /* elements */
    uint32_t dtype;
    const uint32_t *row; /* numbers of the rows of `got`; NULL: it is one row */
    uint64_t width;      /* elements of a row */
};

static int check_values(const struct rows_comparison *c, const float *got, double allowed,
                        double *worst)
{
    double scale = c->term, largest_error = 0;
    uint64_t worst_element = 0;

    for (uint64_t i = 0; i < c->count; i++)
        scale = fmax(scale, fabs(c->size ? c->size[i] : c->want[i]));
    for (uint64_t i = 0; i < c->count; i++) {
        double deviation = fabs((double)got[i] - c->want[i]) - (c->slack ? c->slack[i] : 0);
        double error = deviation / (allowed * scale);

        if (deviation <= 0) /* else 0/0 where all values are zero */
            continue;
        if (isnan(error))
            error = INFINITY;
        if (error > largest_error) {
            largest_error = error;
            worst_element = i;
        }
    }
    *worst = fmax(*worst, largest_error);
    if (largest_error <= 1)
        return OK;
    return fail(ERR_WRONG, "%s[%llu] is %.9g, should be %.9g: %.3g times the allowed rounding",
                c->name,
                (unsigned long long)(c->row ? c->row[worst_element / c->width] * c->width +
                                                  worst_element % c->width
                                            : worst_element),
                (double)got[worst_element], c->want[worst_element], largest_error);
}

static int compare_values(const struct rig *rig, const struct rows_comparison *c, double allowed,
                          double *worst)
{
    struct device *device = rig->engine->device;
    size_t bytes = c->count * dtype_bytes(c->dtype), row_bytes = c->width * dtype_bytes(c->dtype);
    char *raw = malloc(bytes + 1);
    float *got = malloc(c->count * sizeof(*got) + 1);
    int rc = raw && got ? OK : fail(ERR_NOMEM, "%zu bytes to compare", bytes);

    if (!rc && !c->row)
        rc = device_download(device, raw, c->got, bytes);
    for (uint64_t i = 0; c->row && i < c->count / c->width && !rc; i++)
        rc =
            device_download(device, raw + i * row_bytes, c->got + c->row[i] * row_bytes, row_bytes);
    if (!rc) {
        row_load(c->dtype, raw, 0, got, c->count);
        rc = check_values(c, got, allowed, worst);
    }
    free(raw);
    free(got);
    return rc;
}

static int compare_counts(struct rig *rig, struct exec *exec, double allowed)
{
    const struct judge *want = rig->reference;
    const struct capacities capacities = rig_capacities(rig);
    double loss = 0;
    int64_t dropped = 0;

    TRY(router_balance(&exec->router, &loss));
    if (!(fabs(loss - want->balance) <= allowed * fabs(want->balance)))
        return fail(ERR_WRONG, "the balance loss is %.9g, should be %.9g", loss, want->balance);
    TRY(router_dropped(&exec->router, &capacities, &dropped));
    if ((uint64_t)dropped != want->dropped)
        return fail(ERR_WRONG, "the step dropped %lld choices, should be %llu", (long long)dropped,
                    (unsigned long long)want->dropped);
    return OK;
}

/* Compares the gradients of the gate, and of the other tensors of a cosine router. */
static int compare_router(struct rig *rig, const struct exec *exec, double allowed, double *worst)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct judge *want = rig->reference;
    const struct plain_cosine *cosine = &want->p.cosine;
    const struct layer *got = exec->layer;
    const struct rows_comparison gradients[] = {
        { .name = "dgate",
          .got = (const char *)got->grad_gate,
          .want = want->grad_gate,
          .size = want->grad_gate_size,
          .count = (uint64_t)shape_gate_rows(s) * s->model_dim },
        { .name = "dbias",
          .got = (const char *)got->grad_cosine[COSINE_BIAS],
          .want = cosine->grad_bias,
          .size = cosine->grad_bias_size,
          .count = layer_cosine(s, COSINE_BIAS) },
        { .name = "drows",
          .got = (const char *)got->grad_cosine[COSINE_ROWS],
          .want = cosine->grad_experts,
          .size = cosine->grad_experts_size,
          .count = layer_cosine(s, COSINE_ROWS) },
        { .name = "dscale",
          .got = (const char *)got->grad_cosine[COSINE_SCALE],
          .want = &cosine->grad_scale,
          .size = &cosine->grad_scale_size,
          .count = layer_cosine(s, COSINE_SCALE) },
    };
    size_t n = s->router == MOE_ROUTER_COSINE ? sizeof(gradients) / sizeof(gradients[0]) : 1;

    for (size_t i = 0; i < n; i++) {
        struct rows_comparison c = gradients[i];

        c.dtype = MOE_F32;
        TRY(compare_values(rig, &c, allowed, worst));
    }
    return OK;
}

static int compare_weights(struct rig *rig, const struct exec *exec, double allowed, double *worst)
{
    static const char *const names[TENSOR_COUNT] = { "dW1", "dW3", "db1", "dW2", "db2" };
    const struct moe_shape *s = &rig->data.shape;
    const struct judge *want = rig->reference;

    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct rows_comparison c = { .name = names[i],
                                     .got = exec->layer->grad[i],
                                     .want = want->grad[i],
                                     .size = want->grad_size[i],
                                     .term = want->grad_term[i],
                                     .slack = want->grad_slack[i],
                                     .count = layer_units(s, rig->layer->hidden, i),
                                     .dtype = s->dtype };
        double sums = weights_roundings(&exec->weights, i) * storage_rounding(s->dtype);

        TRY(compare_values(rig, &c, 2 * allowed + sums, worst));
    }
    return OK;
}

static int compare_all(struct rig *rig, struct exec *exec, double *worst)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct judge *want = rig->reference;
    uint64_t elements = (uint64_t)rig->layer->tokens * s->model_dim;
    double allowed = rounding_of(rig, exec);
    uint32_t layer = layer_number(rig, exec);
    struct rows_comparison y = { .name = "y",
                                 .got = rig->rows[layer + 1],
                                 .want = want->y,
                                 .count = elements * shape_result_rows(s),
                                 .dtype = s->dtype };
    struct rows_comparison grad_x = { .name = "dx",
                                      .got = rig->grads[layer],
                                      .want = want->grad_x,
                                      .term = want->grad_x_term,
                                      .slack = want->grad_x_slack,
                                      .count = elements,
                                      .dtype = s->dtype };

    TRY(compare_counts(rig, exec, allowed));
    TRY(compare_values(rig, &y, allowed, worst));
    if (s->pass != MOE_TRAIN)
        return OK;
    TRY(compare_values(rig, &grad_x, allowed, worst));
    TRY(compare_router(rig, exec, allowed, worst));
    return compare_weights(rig, exec, allowed, worst);
}

/* Agrees on the largest error over the ranks, and on the status. */
static int agree_on_worst(struct rig *rig, int rc, double own_error, double *worst)
{
    int64_t millionths = (int64_t)(fmin(own_error, 1e9) * 1e6);

    TRY(world_max(rig->world, &millionths, 1));
    *worst = (double)millionths * 1e-6;
    return world_settle(rig->world, rc);
}

/* Makes a token's result wrong where a test asks for it (fault.h). */
static void inject_fault(struct rig *rig, const char *point, uint64_t token)
{
    static const uint32_t wrong = 0x42424242; /* 48.6 as f32, two values of 48 or 3 in 16 bits */
    size_t offset = token * rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);

    if (rig->layer->tokens && fault_hit(point))
        device_upload(rig->engine->device, (char *)rig->y + offset, &wrong, sizeof(wrong));
}

int rig_check(struct rig *rig, struct exec *exec, double *worst)
{
    *worst = 0;
    TRY(world_settle(rig->world, rig_step(rig, exec)));
    inject_fault(rig, "wrong", 0);
    for (uint32_t i = 0; i < layer_count(&rig->data.shape); i++) {
        double own_error = 0, layer_error = 0;
        int rc;

        if (!rig->reference)
            TRY(make_reference(rig, &exec[i]));
        rc = compare_all(rig, &exec[i], &own_error);
        rc = agree_on_worst(rig, rc, own_error, &layer_error);
        *worst = fmax(*worst, layer_error);
        /* The reference of a single layer serves all plans.  The inputs of later layers depend on
         * the plan's rounding. */
        if (!has_one_layer(rig))
            rig_forget_reference(rig);
        TRY(rc);
    }
    return OK;
}

/* ---- spot checks, at the layer's real size */

/* Overwrites row t of a layer's results. */
static int overwrite_row(const struct rig *rig, uint32_t layer, uint32_t token, const char *nan_row)
{
    struct device *device = rig->engine->device;
    size_t bytes = rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);
    uint32_t rows = shape_result_rows(&rig->data.shape);

    for (uint32_t j = 0; j < rows; j++)
        TRY(device_upload(device, (char *)rig->rows[layer + 1] + (token * rows + j) * bytes,
                          nan_row, bytes));
    if (rig->data.shape.pass != MOE_TRAIN)
        return OK;
    return device_upload(device, (char *)rig->grads[layer] + token * bytes, nan_row, bytes);
}

int rig_overwrite_results(struct rig *rig)
{
    size_t bytes = rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);
    const struct judge *spot = rig->spot;
    /* With several layers it is not known before the step which tokens will be checked. */
    uint32_t count = !has_one_layer(rig) ? rig->layer->tokens : spot ? spot->count : 0;
    char *nan_row = malloc(bytes);
    int rc = nan_row ? OK : fail(ERR_NOMEM, "a row");

    if (!rc)
        rc = rig_replay(rig, 0); /* `spot`, which serves several plans, is of step 0 */
    if (nan_row)
        memset(nan_row, 0xff, bytes); /* NaN in every type */
    for (uint32_t layer = 0; layer < layer_count(&rig->data.shape); layer++)
        for (uint32_t i = 0; i < count && !rc; i++)
            rc = overwrite_row(rig, layer, has_one_layer(rig) ? spot->token[i] : i, nan_row);
    free(nan_row);
    return world_settle(rig->world, rc);
}

static void forget_spot(struct rig *rig)
{
    judge_close(rig->spot);
    rig->spot = NULL;
}

/* Sets the expected results of some tokens, from how the last step routed them. */
static int expect_some(struct rig *rig, const struct data *data, const struct exec *exec)
{
    const struct capacities capacities = rig_capacities(rig);
    uint32_t tokens = rig->layer->tokens;
    size_t n = (size_t)tokens * rig->data.shape.top_k;
    int32_t *expert = malloc(n * sizeof(*expert) + 1);
    int64_t *slot = malloc(n * sizeof(*slot) + 1);
    uint32_t *turn = malloc(tokens * sizeof(*turn) + 1);
    const struct routed_tokens routed = { .rank = rig->layer->rank,
                                          .tokens = tokens,
                                          .expert = expert,
                                          .slot = slot,
                                          .turn = exec->router.turn ? turn : NULL };
    struct device *device = rig->engine->device;
    int rc = expert && slot && turn ? OK : fail(ERR_NOMEM, "%zu choices", n);

    if (!rc)
        rc = device_download(device, expert, exec->router.expert, n * sizeof(*expert));
    if (!rc)
        rc = device_download(device, slot, exec->router.slot, n * sizeof(*slot));
    if (!rc && exec->router.turn)
        rc = device_download(device, turn, exec->router.turn, tokens * sizeof(*turn));
    if (!rc && rig->spot && !judge_fits(rig->spot, expert))
        forget_spot(rig);
    if (!rc && !rig->spot)
        rc = spot_open(data, rig->layer->rank, tokens, expert, threads_of(rig), &rig->spot);
    if (!rc)
        rc = judge_expect(rig->spot, &routed, &capacities, false);
    free(expert);
    free(slot);
    free(turn);
    return rc;
}

static int compare_some(struct rig *rig, const struct data *data, const struct exec *exec,
                        double *worst)
{
    const struct moe_shape *shape = &rig->data.shape;
    double allowed = rounding_of(rig, exec);
    uint32_t layer = layer_number(rig, exec);
    struct rows_comparison c = {
        .name = "y", .got = rig->rows[layer + 1], .dtype = shape->dtype, .width = shape->model_dim
    };

    TRY(expect_some(rig, data, exec));
    if (!rig->spot->count)
        return OK;
    inject_fault(rig, "large", rig->spot->row[0]);
    c.row = rig->spot->row;
    c.count = (uint64_t)rig->spot->count * rig->spot->rows * shape->model_dim;
    c.want = rig->spot->y;
    TRY(compare_values(rig, &c, allowed, worst));
    if (shape->pass != MOE_TRAIN)
        return OK;
    c.name = "dx";
    c.row = rig->spot->token;
    c.count = (uint64_t)rig->spot->count * shape->model_dim;
    c.got = rig->grads[layer];
    c.want = rig->spot->grad_x;
    c.term = rig->spot->grad_x_term;
    c.slack = rig->spot->grad_x_slack;
    return compare_values(rig, &c, allowed, worst);
}

int rig_check_some(struct rig *rig, struct exec *exec, double *worst)
{
    double own_error = 0;
    int rc = OK;

    if (has_one_layer(rig))
        rc = compare_some(rig, &rig->data, exec, &own_error);
    for (uint32_t i = 0; !has_one_layer(rig) && i < layer_count(&rig->data.shape) && !rc; i++) {
        struct data data = data_of_layer(&rig->data, i);
        struct given_rows given;

        rc = open_given(rig, &exec[i], rig->layer->tokens, &given);
        if (rc)
            break;
        data.given = &given;
        rc = compare_some(rig, &data, &exec[i], &own_error);
        forget_spot(rig); /* another plan gives this layer other inputs */
        close_given(&given);
    }
    return agree_on_worst(rig, rc, own_error, worst);
}
