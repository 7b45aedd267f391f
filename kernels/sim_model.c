/* How long each kernel takes on a modelled cluster, from its bytes, its operations and the
 * cluster's numbers.  bytes_X() counts the bytes of kernel X. */
#include "sim_model.h"

#include "cluster.h"
#include "gemm_rows.h"
#include "shape.h"
#include "sim.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* The model of one cluster's device; model_close() frees it. */
struct model_costs {
    struct sim_costs base;
    double launch_ns, ops_per_ns, half_rows, bytes_per_ns;
};

static double bytes_gemm(const struct gemm *g)
{
    double m = (double)g->m, n = (double)g->n, k = (double)g->k;

    return (double)g->batch *
           ((m * k + k * n) * (double)dtype_bytes(g->dtype) +
            (g->keep ? 2 : 1) * m * n * (double)dtype_bytes(gemm_result_type(g)));
}

static double bytes_gemm_rows(const struct gemm_rows *g)
{
    double bytes = 0;

    for (uint32_t i = 0; i < g->experts; i++) {
        struct gemm product = gemm_of_rows(g, i);

        bytes += product.m && product.n ? bytes_gemm(&product) : 0;
    }
    return bytes;
}

/* Bytes of the experts' capacities, where they have different ones. */
static double bytes_capacities(const uint64_t *capacities, uint32_t experts)
{
    return capacities ? (double)experts * sizeof(*capacities) : 0;
}

/* Sorting by importance: each block of GPU threads compares its tokens with all tokens. */
static double bytes_turns(const struct route *r)
{
    static const double block_tokens = 256;
    double tokens = r->turn ? (double)r->tokens : 0;

    return tokens * (sizeof(*r->importance) + 2 * sizeof(*r->turn)) +
           ceil(tokens / block_tokens) * tokens * sizeof(*r->importance);
}

static double bytes_route(const struct route *r)
{
    double choice_bytes = sizeof(*r->gate) + sizeof(*r->expert) + sizeof(*r->slot);

    return (double)r->tokens * gate_columns(r->router, r->experts, r->groups) * 2 *
               sizeof(*r->logits) +
           (double)r->tokens * r->top_k * choice_bytes + (double)r->experts * sizeof(*r->needed) +
           bytes_capacities(r->capacities, r->experts) + bytes_turns(r);
}

static double bytes_slots(const struct slots *s)
{
    return (double)s->tokens * s->top_k * (sizeof(*s->expert) + sizeof(*s->slot)) +
           (double)s->experts * sizeof(*s->needed) + bytes_capacities(s->capacities, s->experts);
}

static double bytes_unit_rows(const struct unit_rows *u)
{
    return (double)u->rows * (2 * (double)u->width + 1) * sizeof(*u->to);
}

static double bytes_unit_rows_backward(const struct unit_rows_backward *u)
{
    return (double)u->rows * (3 * (double)u->width + 1 + (u->grad_exponent != NULL)) *
           sizeof(*u->to);
}

static double bytes_keep_losses(const struct keep_losses *l)
{
    return (double)l->choices * (sizeof(*l->slot) + sizeof(*l->loss) + sizeof(*l->grad_gate));
}

static double bytes_route_backward(const struct route_backward *r)
{
    double choice_bytes = sizeof(*r->gate) + sizeof(*r->expert) + sizeof(*r->grad_gate);

    return (double)r->tokens * gate_columns(r->router, r->experts, r->groups) *
               (sizeof(*r->probability) + sizeof(*r->grad_logits)) +
           (double)r->tokens * r->top_k * choice_bytes;
}

static double bytes_balance(const struct balance *b)
{
    double columns = gate_columns(b->router, b->experts, b->groups);

    return ((double)b->tokens + 2) * columns * sizeof(*b->probability) +
           (double)b->experts * sizeof(*b->needed);
}

static double bytes_balance_backward(const struct balance_backward *b)
{
    double columns = gate_columns(b->router, b->experts, b->groups);

    return (3 * (double)b->tokens + 1) * columns * sizeof(*b->grad_logits);
}

static double choices_of(const struct routing *r)
{
    return (double)r->tokens * r->top_k;
}

/* Bytes of the rows of kept choices under a balanced load. */
static double bytes_kept(const struct routing *r, uint32_t dtype)
{
    double room = r->first ? (double)r->rows : (double)r->experts * (double)r->capacity;

    return fmin(choices_of(r), room) * r->width * (double)dtype_bytes(dtype);
}

static double bytes_routing(const struct routing *r)
{
    return choices_of(r) * (sizeof(*r->expert) + sizeof(*r->slot)) +
           (double)r->experts * sizeof(*r->needed) + 2 * bytes_capacities(r->first, r->experts);
}

static double bytes_tokens(const struct routing *r, uint32_t dtype)
{
    return (double)r->tokens * r->width * (double)dtype_bytes(dtype);
}

static double bytes_rows(const struct routing *r, uint32_t dtype)
{
    return (double)routing_rows(r) * r->width * (double)dtype_bytes(dtype);
}

static double bytes_encode(const struct encode *e)
{
    return bytes_routing(&e->routing) + bytes_kept(&e->routing, e->dtype) +
           bytes_rows(&e->routing, e->dtype);
}

static double bytes_encode_backward(const struct encode_backward *e)
{
    return bytes_routing(&e->routing) + bytes_kept(&e->routing, e->dtype) +
           bytes_tokens(&e->routing, e->dtype) + (e->add ? bytes_tokens(&e->routing, MOE_F32) : 0);
}

static double bytes_decode(const struct decode *d)
{
    return bytes_routing(&d->routing) + choices_of(&d->routing) * sizeof(*d->gate) +
           bytes_kept(&d->routing, d->dtype) + bytes_tokens(&d->routing, d->dtype);
}

static double bytes_decode_backward(const struct decode_backward *d)
{
    return bytes_routing(&d->routing) +
           choices_of(&d->routing) * (sizeof(*d->gate) + sizeof(*d->grad_gate)) +
           2 * bytes_kept(&d->routing, d->dtype) + bytes_rows(&d->routing, d->dtype);
}

static double bytes_one_hot(const struct one_hot *o)
{
    return (double)o->tokens * ((double)o->columns * sizeof(*o->to) + sizeof(*o->expert) +
                                sizeof(*o->slot) + (o->scale ? sizeof(*o->scale) : 0));
}

static double bytes_one_hot_backward(const struct one_hot_backward *o)
{
    return (double)o->tokens *
           (sizeof(*o->expert) + sizeof(*o->slot) + sizeof(*o->grad) + sizeof(*o->grad_scale));
}

static double bytes_nonzero(const struct nonzero *z)
{
    return (double)z->count * (sizeof(*z->from) + (double)dtype_bytes(z->dtype));
}

/* A repeated source counts for each of its copies, which lie too far apart to share a cache. */
static double bytes_move(const struct move *m)
{
    double elements =
        (double)m->block * (double)m->dims[0] * (double)m->dims[1] * (double)m->dims[2];

    return elements *
           ((double)m->terms * (double)dtype_bytes(m->from_type) + (double)dtype_bytes(m->to_type));
}

static double bytes_move_rows(const struct move_rows *m)
{
    double element_bytes =
        (double)m->terms * (double)dtype_bytes(m->from_type) + (double)dtype_bytes(m->to_type);

    return (double)m->rows * (double)m->width * element_bytes +
           (double)m->count * (double)sizeof(*m->blocks);
}

/* Number of rows of a whole batch. */
static double all_rows(const uint64_t *first, uint64_t batch, uint64_t rows)
{
    return (double)rows_of_all(first, batch, rows);
}

static double bytes_activate(const struct activate *a)
{
    double rows = all_rows(a->first, a->batch, a->rows);
    double passes = 2 + (a->post != a->pre) + (a->kind == MOE_SWIGLU);

    return (double)a->width * (rows * passes + (double)a->batch) * (double)dtype_bytes(a->dtype);
}

static double bytes_activate_backward(const struct activate_backward *a)
{
    double passes = 3 + (a->kind == MOE_SWIGLU ? 2 : 0);

    return (double)a->batch * (double)a->rows * (double)a->width * passes *
           (double)dtype_bytes(a->dtype);
}

static double bytes_add_bias(const struct add_bias *a)
{
    return (double)a->width * (2 * all_rows(a->first, a->batch, a->rows) + (double)a->batch) *
           (double)dtype_bytes(a->dtype);
}

static double bytes_sum_rows(const struct sum_rows *s)
{
    return (all_rows(s->first, s->batch, s->rows) * (double)s->width +
            (s->keep ? 2 : 1) * (double)s->batch * (double)s->to_stride) *
           (double)dtype_bytes(s->dtype);
}

static double bytes_fill(const struct fill *f)
{
    return (double)f->bytes;
}

/* ---- experts without padding */

/* Number of kept rows: as the caller expects, else those of a balanced load. */
static double kept_rows_of(const struct kept_rows *at)
{
    return (double)(at->expected ? at->expected : kept_rows_limit(at));
}

/* Bytes of `first` and `choice`, which sort kept choices by expert. */
static double bytes_of_order(const struct kept_rows *at)
{
    return (kept_rows_of(at) + at->experts + 1) * (double)sizeof(*at->first);
}

static double bytes_matrices(const struct kept_rows *at)
{
    return (double)at->experts * at->hidden * at->width * (double)dtype_bytes(at->dtype);
}

static double bytes_gathered(const struct kept_rows *at)
{
    return kept_rows_of(at) * at->width * (double)dtype_bytes(at->token_type);
}

static double bytes_hidden(const struct kept_rows *at)
{
    return kept_rows_of(at) * at->hidden * (double)dtype_bytes(at->dtype);
}

static double bytes_gates(const struct kept_rows *at, const float *gate)
{
    return gate ? kept_rows_of(at) * sizeof(*gate) : 0;
}

static double bytes_pack_choices(const struct pack_choices *p)
{
    return (double)p->choices *
           (sizeof(*p->expert) + sizeof(*p->slot) + sizeof(*p->gate) + sizeof(*p->to));
}

static double bytes_recount(const struct recount *r)
{
    double choice_bytes =
        sizeof(*r->from) + sizeof(*r->expert) + sizeof(*r->gate) + 2 * sizeof(*r->slot);

    return (double)r->tokens * r->top_k * choice_bytes + (double)r->experts * sizeof(*r->needed);
}

static double bytes_listed(const struct listed_choices *c)
{
    return (double)c->tokens * c->top_k * (sizeof(*c->expert) + sizeof(*c->slot));
}

static double bytes_node_rows(const struct listed_choices *c, const struct node_rows *at)
{
    return (double)c->tokens * most_nodes_per_token(c) * (sizeof(*at->node) + sizeof(*at->slot));
}

static double bytes_list_nodes(const struct list_nodes *l)
{
    return bytes_listed(&l->choices) +
           (double)l->choices.tokens * most_nodes_per_token(&l->choices) * sizeof(*l->to);
}

static double bytes_label_rows(const struct label_rows *l)
{
    const struct listed_choices *c = &l->choices;

    return bytes_listed(c) + bytes_node_rows(c, &l->at) +
           (double)c->tokens * c->top_k * sizeof(*l->gate) +
           (double)c->nodes * (double)l->at.rows * c->top_k * sizeof(struct sent_choice);
}

static double bytes_collect_gates(const struct collect_gates *g)
{
    return bytes_listed(&g->choices) + bytes_node_rows(&g->choices, &g->at) +
           2.0 * g->choices.tokens * g->choices.top_k * sizeof(*g->grad_gate);
}

static double bytes_reindex(const struct reindex *r)
{
    const struct kept_rows at = {
        .tokens = r->tokens, .experts = r->experts, .top_k = r->top_k, .capacity = r->capacity
    };
    double choice_bytes = sizeof(*r->expert) + sizeof(*r->slot);

    return (double)r->tokens * r->top_k * choice_bytes + (double)r->experts * sizeof(*r->needed) +
           bytes_of_order(&at) + bytes_capacities(r->capacities, r->experts);
}

/* Each row's result is written and read; a token's sum is written, and with keep read first. */
static double bytes_sums(const struct esmm *m)
{
    double rows = 2 * kept_rows_of(&m->at) * (double)dtype_bytes(m->at.dtype);
    double tokens = (m->keep ? 2.0 : 1.0) * m->at.tokens * sizeof(*m->sums);

    return (rows + tokens) * m->at.width;
}

static double bytes_esmm(const struct esmm *m)
{
    const struct kept_rows *at = &m->at;
    double bytes = bytes_of_order(at) + bytes_matrices(at) + bytes_gates(at, m->gate);
    double tensors = 1 + (m->post && m->post != m->pre) + (m->up != NULL);

    if (m->form == ESMM_TOKENS)
        return bytes + bytes_hidden(at) + bytes_sums(m);
    if (m->form == ESMM_BACKWARD)
        tensors += 1 + (m->grad_up != NULL);
    return bytes + bytes_gathered(at) + (m->keep ? 2 : 1) * bytes_gates(at, m->grad_gate) +
           tensors * bytes_hidden(at);
}

static double bytes_estmm(const struct estmm *m)
{
    return bytes_of_order(&m->at) + bytes_gathered(&m->at) + bytes_gates(&m->at, m->gate) +
           bytes_hidden(&m->at) + (m->keep ? 2 : 1) * bytes_matrices(&m->at);
}

static double bytes_ess(const struct ess *s)
{
    return bytes_of_order(&s->at) +
           (s->rows ? bytes_hidden(&s->at)
                    : bytes_gathered(&s->at) + bytes_gates(&s->at, s->gate)) +
           (s->keep ? 2 : 1) * (double)s->at.experts * (double)s->stride *
               (double)dtype_bytes(s->at.dtype);
}

/* The three products of esfk read rows and tokens once. */
static double bytes_esfk(const struct esfk *f)
{
    const struct kept_rows *at = &f->product.at;
    double bias = f->grad_bias ? (double)at->experts * (double)f->grad_stride : 0;
    double grads = bytes_matrices(at) + bias * (double)dtype_bytes(at->dtype);

    return bytes_esmm(&f->product) + (f->keep ? 2 : 1) * grads +
           (f->product.form == ESMM_TOKENS ? bytes_gathered(at) : 0);
}

#define BYTES_ROW(name)                                                                            \
    static double count_##name(const void *args)                                                   \
    {                                                                                              \
        return bytes_##name(args);                                                                 \
    }
KERNELS(BYTES_ROW)
#undef BYTES_ROW

#define BYTES_ENTRY(name) [KERNEL_##name] = count_##name,
static double (*const bytes_table[KERNEL_COUNT])(const void *args) = { KERNELS(BYTES_ENTRY) };
#undef BYTES_ENTRY

double kernel_bytes(enum kernel kernel, const void *args)
{
    return bytes_table[kernel](args);
}

static double product_ns(const struct model_costs *model, uint32_t batch, double m, double n,
                         double k)
{
    double smallest = fmin(m, fmin(n, k));

    if (!smallest)
        return 0;
    return 2 * batch * m * n * k / model->ops_per_ns * (smallest + model->half_rows) / smallest;
}

/* Each expert multiplies an equal part of the rows. */
static double sparse_ns(const struct model_costs *model, const struct kept_rows *at)
{
    return at->experts ? product_ns(model, at->experts, kept_rows_of(at) / at->experts, at->hidden,
                                    at->width)
                       : 0;
}

static double gemm_rows_ns(const struct model_costs *model, const struct gemm_rows *g)
{
    double ns = 0;

    for (uint32_t i = 0; i < g->experts; i++) {
        struct gemm product = gemm_of_rows(g, i);

        ns += product_ns(model, 1, (double)product.m, (double)product.n, (double)product.k);
    }
    return ns;
}

/* The time of the multiplications in a kernel; 0: it has no product. */
static double products_ns(const struct model_costs *model, enum kernel kernel, const void *args)
{
    const struct gemm *g = args;

    switch (kernel) {
    case KERNEL_gemm: return product_ns(model, g->batch, (double)g->m, (double)g->n, (double)g->k);
    case KERNEL_gemm_rows: return gemm_rows_ns(model, args);
    case KERNEL_esmm: return sparse_ns(model, &((const struct esmm *)args)->at);
    case KERNEL_estmm: return sparse_ns(model, &((const struct estmm *)args)->at);
    case KERNEL_esfk: return 2 * sparse_ns(model, &((const struct esfk *)args)->product.at);
    default: return 0;
    }
}

static int64_t model_kernel_ns(const struct sim_costs *costs, enum kernel kernel, const void *args)
{
    const struct model_costs *model = (const struct model_costs *)costs;
    double bytes_ns = kernel_bytes(kernel, args) / model->bytes_per_ns;

    return llround(model->launch_ns + fmax(bytes_ns, products_ns(model, kernel, args)));
}

static void model_close(const struct sim_costs *costs)
{
    free((void *)costs);
}

int sim_model_open(const struct cluster *c, uint64_t seed, struct device **out)
{
    struct model_costs *model = malloc(sizeof(*model));
    int rc;

    if (!model)
        return fail(ERR_NOMEM, "a model of the device");
    *model = (struct model_costs){
        .base = { .kernel_ns = model_kernel_ns,
                  .close = model_close,
                  .overlap_slowdown = c->overlap_slowdown,
                  .noise = { .seed = seed,
                             .sigma = c->noise_percent / 100,
                             .outlier_share = c->outlier_percent / 100,
                             .drift = c->drift_percent / 100,
                             .launch = isfinite(c->launch_noise_percent)
                                           ? c->launch_noise_percent / 100
                                           : 0 },
                  .memory_bytes = (uint64_t)(c->memory_gib * 0x1p30) },
        .launch_ns = c->launch_us * 1e3,
        .ops_per_ns = c->gemm_gflops,
        .half_rows = c->gemm_half_rows,
        .bytes_per_ns = c->memory_gbs,
    };
    rc = sim_open(&model->base, out);
    if (rc)
        free(model);
    return rc;
}
