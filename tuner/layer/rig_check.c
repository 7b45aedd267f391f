/* Compares the results of a step with what they should be: all of them with the reference, or some
 * with what their tokens must become. */
#include "allowance.h"
#include "fault.h"
#include "rig.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everybody's choices, `each` of every rank: padded to the most tokens for one gather.
 * Collective; the caller frees them. */
static int gather_choices(struct rig *rig, struct exec *exec, size_t each, int32_t **out)
{
    uint32_t ranks = rig->data.shape.ranks;
    size_t mine = (size_t)rig->layer->tokens * rig->data.shape.top_k;
    int32_t *send = calloc(each + 1, sizeof(*send)), *all = calloc(each * ranks + 1, sizeof(*all));
    int rc = send && all ? OK : fail(ERR_NOMEM, "the choices of all ranks");

    if (!rc)
        rc = device_download(rig->engine->device, send, exec->router.expert, mine * sizeof(*send));
    rc = world_settle(rig->world, rc);
    if (!rc)
        rc = world_gather(rig->world, send, all, each * sizeof(*send));
    free(send);
    if (rc)
        free(all);
    else
        *out = all;
    return rc;
}

static int make_reference(struct rig *rig, struct exec *exec)
{
    struct batch_of_tokens batch = { .ranks = (int)rig->data.shape.ranks,
                                     .tokens = rig->tokens,
                                     .each = rig_most_tokens(rig) * rig->data.shape.top_k,
                                     .capacity = rig->capacity };
    int32_t *choices = NULL;
    int rc = gather_choices(rig, exec, batch.each, &choices);

    batch.expert = choices;
    if (!rc)
        rc = reference_open(&rig->data, &batch, rig->layer->rank, &rig->reference);
    free(choices);
    return world_settle(rig->world, rc);
}

/* What rounding may explain, as a share of the largest value: a few roundings to storage (more
 * where r partial results are stored and summed), and f32 sums over D and H terms. */
static double rounding_of(const struct rig *rig, const struct exec *exec)
{
    const struct moe_shape *s = &rig->data.shape;
    double storage = s->dtype == MOE_F32 ? 0x1p-24 : (s->dtype == MOE_BF16 ? 0x1p-9 : 0x1p-12);

    return (6 + 2 * sqrt(exec->geometry.copies * exec->geometry.shares)) * storage +
           8 * sqrt((double)s->model_dim + s->hidden_dim) * 0x1p-24;
}

/* Rows of a result against what they should be. */
struct comparison {
    const char *name;
    const char *got;
    const double *want;
    const double *size; /* what rounding is measured against; NULL: want */
    uint64_t count;     /* elements */
    uint32_t dtype;
    const uint32_t *row; /* which rows of `got`; NULL: it is one row */
    uint64_t width;      /* of a row */
};

static int fetch(const struct rig *rig, const struct comparison *c, char *to)
{
    size_t bytes = c->width * dtype_bytes(c->dtype);
    int rc = OK;

    if (!c->row)
        return device_download(rig->engine->device, to, c->got, c->count * dtype_bytes(c->dtype));
    for (uint64_t i = 0; i < c->count / c->width && !rc; i++)
        rc =
            device_download(rig->engine->device, to + i * bytes, c->got + c->row[i] * bytes, bytes);
    return rc;
}

static int judge(const struct comparison *c, const float *got, double allowed, double *worst)
{
    double scale = 0, most = 0;
    uint64_t at = 0;

    for (uint64_t i = 0; i < c->count; i++)
        scale = fmax(scale, fabs(c->size ? c->size[i] : c->want[i]));
    for (uint64_t i = 0; i < c->count; i++) {
        double error = fabs((double)got[i] - c->want[i]) / (allowed * scale);

        if (isnan(error)) /* 0/0: both are zero; everything else that is not a number is wrong */
            error = (double)got[i] == c->want[i] ? 0 : INFINITY;
        if (error > most) {
            most = error;
            at = i;
        }
    }
    *worst = fmax(*worst, most);
    if (most <= 1)
        return OK;
    return fail(
        ERR_WRONG, "%s[%llu] is %.9g, should be %.9g: %.3g times what rounding explains", c->name,
        (unsigned long long)(c->row ? c->row[at / c->width] * c->width + at % c->width : at),
        (double)got[at], c->want[at], most);
}

static int compare(const struct rig *rig, const struct comparison *c, double allowed, double *worst)
{
    size_t bytes = c->count * dtype_bytes(c->dtype);
    void *raw = malloc(bytes + 1);
    float *got = malloc(c->count * sizeof(*got) + 1);
    int rc = raw && got ? fetch(rig, c, raw) : fail(ERR_NOMEM, "%zu bytes to compare", bytes);

    if (!rc) {
        row_load(c->dtype, raw, 0, got, c->count);
        rc = judge(c, got, allowed, worst);
    }
    free(raw);
    free(got);
    return rc;
}

static int compare_all(struct rig *rig, struct exec *exec, double *worst)
{
    static const char *const names[TENSOR_COUNT] = { "dW1", "dW3", "db1", "dW2", "db2" };
    const struct reference *want = rig->reference;
    const struct moe_shape *s = &rig->data.shape;
    uint64_t own = (uint64_t)rig->layer->tokens * s->model_dim;
    double allowed = rounding_of(rig, exec);
    struct comparison y = { "y", rig->y, want->y, NULL, own, s->dtype, NULL, 0 };
    struct comparison grad_x = { "dx", rig->grad_x, want->grad_x, NULL, own, s->dtype, NULL, 0 };
    struct comparison gate = { "dgate",
                               (const char *)rig->layer->grad_gate,
                               want->grad_gate,
                               want->grad_gate_size,
                               (uint64_t)s->experts * s->model_dim,
                               MOE_F32,
                               NULL,
                               0 };
    int64_t dropped = 0;

    TRY(router_dropped(&exec->router, rig->capacity, &dropped));
    if ((uint64_t)dropped != want->dropped)
        return fail(ERR_WRONG, "%lld choices dropped, should be %llu", (long long)dropped,
                    (unsigned long long)want->dropped);
    TRY(compare(rig, &y, allowed, worst));
    if (s->pass != MOE_TRAIN)
        return OK;
    TRY(compare(rig, &grad_x, allowed, worst));
    TRY(compare(rig, &gate, allowed, worst));
    for (enum tensor i = 0; i < TENSOR_COUNT; i++) {
        struct comparison c = { names[i],
                                rig->layer->grad[i],
                                want->grad[i],
                                want->grad_size[i],
                                layer_slice(s, i),
                                s->dtype,
                                NULL,
                                0 };

        TRY(compare(rig, &c, 2 * allowed, worst));
    }
    return OK;
}

/* The largest error over the ranks, and whether any of them found one too large. */
static int agree(struct rig *rig, int rc, double mine, double *worst)
{
    int64_t millionths = (int64_t)(fmin(mine, 1e9) * 1e6);

    TRY(world_max(rig->world, &millionths, 1));
    *worst = (double)millionths * 1e-6;
    return world_settle(rig->world, rc);
}

/* Where a test wants a result to be wrong. */
static void inject_fault(struct rig *rig, const char *point, uint64_t token)
{
    static const uint32_t wrong = 0x42424242; /* 48.6 as f32, two values of 48 or 3 in 16 bits */
    size_t at = token * rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);

    if (rig->layer->tokens && fault_hit(point))
        device_upload(rig->engine->device, (char *)rig->y + at, &wrong, sizeof(wrong));
}

int rig_check(struct rig *rig, struct exec *exec, double *worst)
{
    double mine = 0;
    int rc;

    TRY(world_settle(rig->world, rig_step(rig, exec)));
    if (!rig->reference)
        TRY(make_reference(rig, exec));
    inject_fault(rig, "wrong", 0);
    rc = compare_all(rig, exec, &mine);
    return agree(rig, rc, mine, worst);
}

/* ---- some tokens of a step at the layer's real size */

int rig_spoil(struct rig *rig)
{
    size_t bytes = rig->data.shape.model_dim * dtype_bytes(rig->data.shape.dtype);
    const struct spot *s = rig->spot;
    char *nothing = malloc(bytes);
    int rc = nothing ? OK : fail(ERR_NOMEM, "a row");

    if (nothing)
        memset(nothing, 0xff, bytes); /* NaN in every type */
    for (uint32_t i = 0; s && i < s->count && !rc; i++) {
        rc = device_upload(rig->engine->device, (char *)rig->y + s->token[i] * bytes, nothing,
                           bytes);
        if (!rc && rig->data.shape.pass == MOE_TRAIN)
            rc = device_upload(rig->engine->device, (char *)rig->grad_x + s->token[i] * bytes,
                               nothing, bytes);
    }
    free(nothing);
    return world_settle(rig->world, rc);
}

/* What the last step was to give. */
static int expect(struct rig *rig, const int32_t *expert, const int64_t *slot)
{
    if (rig->spot && !spot_fits(rig->spot, expert)) {
        spot_close(rig->spot);
        rig->spot = NULL;
    }
    if (!rig->spot)
        TRY(spot_open(&rig->data, rig->layer->rank, rig->layer->tokens, expert,
                      allowance_cores() / world_neighbours(rig->world), &rig->spot));
    return spot_expect(rig->spot, expert, slot, rig->capacity);
}

static int look_at_routing(struct rig *rig, const struct exec *exec)
{
    size_t n = (size_t)rig->layer->tokens * rig->data.shape.top_k;
    int32_t *expert = malloc(n * sizeof(*expert) + 1);
    int64_t *slot = malloc(n * sizeof(*slot) + 1);
    struct device *device = rig->engine->device;
    int rc = expert && slot ? OK : fail(ERR_NOMEM, "%zu choices", n);

    if (!rc)
        rc = device_download(device, expert, exec->router.expert, n * sizeof(*expert));
    if (!rc)
        rc = device_download(device, slot, exec->router.slot, n * sizeof(*slot));
    if (!rc)
        rc = expect(rig, expert, slot);
    free(expert);
    free(slot);
    return rc;
}

static int compare_some(struct rig *rig, const struct exec *exec, double *worst)
{
    const struct moe_shape *p = &rig->data.shape;
    double allowed = rounding_of(rig, exec);
    struct comparison c = { .name = "y", .got = rig->y, .dtype = p->dtype, .width = p->model_dim };

    TRY(look_at_routing(rig, exec));
    if (!rig->spot->count)
        return OK;
    inject_fault(rig, "large", rig->spot->token[0]);
    c.row = rig->spot->token;
    c.count = (uint64_t)rig->spot->count * p->model_dim;
    c.want = rig->spot->want_y;
    TRY(compare(rig, &c, allowed, worst));
    if (p->pass != MOE_TRAIN)
        return OK;
    c.name = "dx";
    c.got = rig->grad_x;
    c.want = rig->spot->want_grad_x;
    return compare(rig, &c, allowed, worst);
}

int rig_check_some(struct rig *rig, struct exec *exec, double *worst)
{
    double mine = 0;
    int rc = compare_some(rig, exec, &mine);

    return agree(rig, rc, mine, worst);
}
