/* The CUDA kernels without padding against their host twins, on random inputs: types, odd
 * sizes, pointers that are not aligned, experts without rows and one with all.  Each runs twice and
 * must give the same bits. */
#include "check.h"

#include "cuda_cases.h"
#include "host.h"

enum load {
    ANY,
    UNUSED_EXPERTS,
    ONE_HAS_ALL,
    NO_CAPACITY,
    NO_TOKENS,
    EVERY_EXPERT,
    MANY_EXPERTS, /* more than a warp has lanes */
    MANY_ROWS,    /* several tiles, and a tail */
    MANY_COLUMNS, /* of a token: likewise */
    LOADS
};

/* Kept rows on the host in f32, and the same on the subject in `dtype`. */
struct kept_case {
    struct kept_rows host, subject;
    uint32_t dtype;
    bool exact; /* gates are powers of two: products with them are not rounded */
    float *gate;
    int32_t *expert;
    int64_t *slot, *needed;
    uint64_t choices, rows, most, tokens, matrix; /* numbers, the last two of elements */
};

static uint32_t some_size(void)
{
    uint32_t size = below(6) ? 1 + below(40) : 1 + below(300);

    return all_wide || below(2) ? (size + 7) / 8 * 8 : size;
}

static struct kept_rows some_rows(enum load load)
{
    struct kept_rows at = { .tokens = below(60), .experts = 1 + below(7), .dtype = MOE_F32 };

    at.hidden = some_size();
    at.width = some_size();
    at.top_k = 1 + below(at.experts < 3 ? at.experts : 3);
    at.capacity = below(2) ? below(30) : 100000;
    at.token_type = MOE_F32;
    at.unit_stride = below(2); /* 1: hidden units first */
    switch (load) {
    case ONE_HAS_ALL: at.top_k = 1; break;
    case NO_CAPACITY: at.capacity = 0; break;
    case NO_TOKENS: at.tokens = 0; break;
    case EVERY_EXPERT: at.top_k = at.experts; break;
    case MANY_EXPERTS: at.experts = 33 + below(70), at.hidden = 1 + below(20); break;
    case MANY_ROWS: at.tokens = 200 + below(200); break;
    case MANY_COLUMNS: at.width = 8 * (20 + below(20)); break;
    default: break;
    }
    if (at.unit_stride)
        at.expert_stride = at.width;
    return at;
}

/* So that it is, or is not, chosen. */
static float preference(const struct kept_rows *at, enum load load, uint32_t e)
{
    if (load == UNUSED_EXPERTS && at->top_k + 1 < at->experts && (e == 0 || e == at->experts - 1))
        return -100;
    return (load == ONE_HAS_ALL || load == MANY_ROWS) && e == at->experts / 2 ? 100 : 0;
}

static void route(struct kept_case *c, enum load load)
{
    const struct kept_rows *at = &c->host;
    float *logits = floats((uint64_t)at->tokens * at->experts);

    for (uint64_t i = 0; i < (uint64_t)at->tokens * at->experts; i++)
        logits[i] += preference(at, load, (uint32_t)(i % at->experts));
    host_route(&(struct route){ at->tokens, at->experts, at->top_k, at->capacity, logits, c->gate,
                                c->expert, c->slot, c->needed });
    free(logits);
    for (uint64_t i = 0; i < c->choices && c->exact; i++)
        c->gate[i] = ldexpf(below(2) ? 1 : -1, -(int)below(4));
}

static struct kept_case case_of(int round)
{
    enum load load = (enum load)(round % LOADS);
    struct kept_case c = { .host = some_rows(load), .dtype = below(3), .exact = below(2) };
    struct kept_rows *at = &c.host;
    int64_t *first = calloc(at->experts + 1, sizeof(*first)), *choice;

    c.choices = (uint64_t)at->tokens * at->top_k;
    c.most = kept_rows_limit(at);
    c.tokens = (uint64_t)at->tokens * at->width;
    c.matrix = (uint64_t)at->experts * at->hidden * at->width;
    at->unit_stride *= (uint64_t)at->experts * at->width;
    c.gate = calloc(c.choices + 1, sizeof(*c.gate));
    c.expert = calloc(c.choices + 1, sizeof(*c.expert));
    c.slot = calloc(c.choices + 1, sizeof(*c.slot));
    c.needed = calloc(at->experts + 1, sizeof(*c.needed));
    choice = calloc(c.choices + 1, sizeof(*choice));
    route(&c, load);
    host_reindex(&(struct reindex){ at->tokens, at->experts, at->top_k, at->capacity, c.expert,
                                    c.slot, c.needed, first, choice });
    c.rows = (uint64_t)first[at->experts];
    at->first = first;
    at->choice = choice;
    at->expert = c.expert;
    at->slot = c.slot;
    at->room.scratch = malloc(kept_scratch_bytes(at->hidden, at->width));
    c.subject = *at;
    c.subject.dtype = c.subject.token_type = c.dtype;
    c.subject.first = on_subject(first, (at->experts + 1) * sizeof(*first), 8);
    c.subject.choice = on_subject(choice, c.rows * sizeof(*choice), 8);
    c.subject.room = (struct kept_room){ 0 };
    return c;
}

static void case_free(struct kept_case *c)
{
    free_buffers();
    free(c->gate), free(c->expert), free(c->slot), free(c->needed);
    free((void *)c->host.first), free((void *)c->host.choice), free(c->host.room.scratch);
}

static void *gates(const struct kept_case *c)
{
    return on_subject(c->gate, c->choices * sizeof(*c->gate), 4);
}

/* Of a sum of n terms of products: rounding to `dtype`, where a factor was weighed in it. */
static double terms_of(const struct kept_case *c, uint64_t n, bool weighed)
{
    double each = c->dtype == MOE_F16 ? 0x1p11 : 0x1p14;

    return 4 + 2 * (double)n +
           (weighed && c->dtype != MOE_F32 && !c->exact ? each * (1 + sqrt((double)n)) : 0);
}

static void reindex_is_the_hosts(void)
{
    for (int round = 0; round < 4 * LOADS * rounds; round++) {
        struct kept_case c = case_of(round);
        const struct kept_rows *at = &c.host;
        struct reindex args = { at->tokens,
                                at->experts,
                                at->top_k,
                                at->capacity,
                                on_subject(c.expert, c.choices * sizeof(*c.expert), 4),
                                on_subject(c.slot, c.choices * sizeof(*c.slot), 8),
                                on_subject(c.needed, at->experts * sizeof(*c.needed), 8),
                                on_subject(NULL, (at->experts + 1) * sizeof(int64_t), 8),
                                on_subject(NULL, c.rows * sizeof(int64_t), 8) };

        RUN(reindex, &args);
        CHECK(!memcmp(after(args.first), at->first, (at->experts + 1) * sizeof(int64_t)));
        CHECK(!memcmp(after(args.choice), at->choice, c.rows * sizeof(int64_t)));
        case_free(&c);
    }
}

static uint64_t *some_capacities(uint32_t experts)
{
    uint64_t *rows = malloc((experts + 1) * sizeof(*rows));

    for (uint32_t e = 0; e < experts; e++)
        rows[e] = below(3) * below(6);
    return rows;
}

static void choices_travel_as_on_the_host(void)
{
    for (int round = 0; round < 4 * LOADS * rounds; round++) {
        struct kept_case c = case_of(round);
        const struct kept_rows *at = &c.host;
        size_t packed = c.choices * sizeof(struct sent_choice);
        size_t slots = c.choices * sizeof(int64_t), counts = at->experts * sizeof(int64_t);
        struct sent_choice *sent = calloc(c.choices + 1, sizeof(*sent));
        struct pack_choices pack = { c.choices, c.expert, c.slot, c.gate, sent };
        struct recount host = { at->tokens, at->experts, at->top_k, sent,
                                c.expert,   c.gate,      c.slot,    c.needed },
                       args = host;

        if (round % 2)
            host.capacities = some_capacities(at->experts);
        host_pack_choices(&pack);
        pack.expert = on_subject(c.expert, c.choices * sizeof(*c.expert), 4);
        pack.slot = on_subject(c.slot, slots, 8);
        pack.gate = gates(&c);
        pack.to = on_subject(NULL, packed, 8);
        RUN(pack_choices, &pack);
        CHECK(!memcmp(after(pack.to), sent, packed));
        args.from = on_subject(sent, packed, 8);
        args.expert = on_subject(NULL, c.choices * sizeof(*c.expert), 4);
        args.gate = on_subject(NULL, c.choices * sizeof(*c.gate), 4);
        args.slot = on_subject(NULL, slots, 8);
        args.needed = on_subject(NULL, counts, 8);
        if (host.capacities)
            args.capacities = on_subject(host.capacities, counts, 8);
        RUN(recount, &args);
        host_recount(&host);
        CHECK(!memcmp(after(args.expert), c.expert, c.choices * sizeof(*c.expert)));
        CHECK(!memcmp(after(args.gate), c.gate, c.choices * sizeof(*c.gate)));
        CHECK(!memcmp(after(args.slot), c.slot, slots));
        CHECK(!memcmp(after(args.needed), c.needed, counts));
        free(sent), free((void *)host.capacities);
        case_free(&c);
    }
}

static void first_rows_of_many_experts_are_summed_in_steps(void)
{
    for (int round = 0; round < 3 * rounds; round++) {
        enum { EXPERTS = 1100 };
        int64_t needed[EXPERTS], first[EXPERTS + 1] = { 0 };
        uint64_t capacities[EXPERTS];
        bool differ = round % 2;
        struct reindex args = { .experts = EXPERTS, .top_k = 1, .capacity = 5 };

        for (int e = 0; e < EXPERTS; e++) {
            int64_t most = differ ? below(9) : 5;

            capacities[e] = (uint64_t)most;
            needed[e] = below(8);
            first[e + 1] = first[e] + (needed[e] < most ? needed[e] : most);
        }
        if (differ)
            args.capacities = on_subject(capacities, sizeof(capacities), 8);
        args.needed = on_subject(needed, sizeof(needed), 8);
        args.first = on_subject(NULL, sizeof(first), 8);
        RUN(reindex, &args);
        CHECK(!memcmp(after(args.first), first, sizeof(first)));
        free_buffers();
    }
}

struct values {
    float *x, *dy, *w, *bias, *rows, *pre, *up, *post;
};

static void values_free(struct values *v)
{
    free(v->x), free(v->dy), free(v->w), free(v->bias), free(v->rows);
    free(v->pre), free(v->up), free(v->post);
}

static void forward_is_the_hosts(void)
{
    for (int round = 0; round < 2 * LOADS * rounds; round++) {
        struct kept_case c = case_of(round);
        struct values v = { 0 };
        uint64_t n = c.rows * c.host.hidden, stride = c.host.hidden + 8 * below(2);
        struct esmm m = { .at = c.subject, .form = ESMM_FORWARD, .kind = below(3) }, host = m;
        bool ends = below(3), in_place = ends && m.kind == MOE_RELU && below(2);

        m.bias_stride = host.bias_stride = stride;
        m.weights = typed(c.dtype, c.matrix, 1, &v.w);
        m.tokens = typed(c.dtype, c.tokens, 1, &v.x);
        m.pre = room(c.dtype, n);
        v.pre = floats(n), v.post = floats(n);
        host = (struct esmm){ c.host,
                              ESMM_FORWARD,
                              m.kind,
                              .weights = v.w,
                              .bias_stride = stride,
                              .tokens = v.x,
                              .pre = in_place ? v.post : v.pre };
        if (ends) {
            m.bias = typed(c.dtype, c.host.experts * stride, 1, &v.bias);
            m.up = m.kind == MOE_SWIGLU ? typed(c.dtype, n, 1, &v.up) : NULL;
            m.post = in_place ? m.pre : room(c.dtype, n);
            host.bias = v.bias;
            host.up = v.up;
            host.post = v.post;
        }
        host_esmm(&host);
        RUN(esmm, &m);
        if (!in_place)
            check_values(c.dtype, m.pre, v.pre, n, terms_of(&c, c.host.width, false), 4);
        if (ends)
            check_values(c.dtype, m.post, v.post, n, terms_of(&c, c.host.width, false) + 32, 8);
        values_free(&v);
        case_free(&c);
    }
}

/* What rounding the result of each row to the type may change in a token's sums. */
static double *rounded_results(const struct kept_case *c, const struct esmm *host)
{
    struct esmm alone = *host; /* each choice is like a token that has no other */
    float *results = calloc(c->choices * host->at.width + 1, sizeof(*results));
    double *spare = calloc(c->tokens + 1, sizeof(*spare));

    alone.at.tokens *= alone.at.top_k;
    alone.at.top_k = 1;
    alone.gate = NULL;
    alone.keep = false;
    alone.sums = results;
    host_esmm(&alone);
    for (uint64_t i = 0; i < c->choices * host->at.width && c->dtype != MOE_F32; i++) {
        uint64_t choice = i / host->at.width, d = i % host->at.width;

        spare[choice / host->at.top_k * host->at.width + d] +=
            fabs(host->gate ? (double)host->gate[choice] : 1) * 0.5001 *
            ulp(c->dtype, (double)results[i]);
    }
    free(results);
    return spare;
}

static void check_sums(const float *at, const float *want, const double *spare, uint64_t n,
                       double terms)
{
    const float *got = after(at);
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < n; i++) {
        double allowed = spare[i] + terms * 0x1p-23 * (2 + fabs((double)want[i]));

        if (!(fabs((double)got[i] - (double)want[i]) <= allowed) && !wrong++)
            printf("    sum %llu of %llu: %.9g, wanted %.9g\n", (unsigned long long)i,
                   (unsigned long long)n, (double)got[i], (double)want[i]);
    }
    CHECK(wrong == 0);
}

/* Scratch memory for the columns of one tile or of two, so that wide results come in parts; where
 * there is a room of one, and then the room is used.  Returns how many columns a part has. */
static uint32_t narrow_scratch(const struct esmm *m)
{
    uint32_t tiles = m->at.room.results ? 1 : 1 + m->at.tokens % 2;

    subject_scratch(stream,
                    kept_rows_limit(&m->at) * dtype_bytes(m->at.dtype) * KEPT_TILE_COLUMNS * tiles);
    return m->at.room.results ? KEPT_PART_COLUMNS : KEPT_TILE_COLUMNS * tiles;
}

/* Two launches for each part, however many choices a token has; a GPU's launches are not counted.
 */
static void run_tokens(struct esmm *m)
{
    uint32_t columns = narrow_scratch(m);
    uint64_t before = subject_launches;

    RUN(esmm, m);
    subject_scratch(stream, 0);
    CHECK(subject_launches - before <= RUNS * 2 * ((m->at.width + columns - 1) / columns));
}

/* By esmm, or by esfk with the gradients of the matrix and the bias, which has neither gate nor
 * bias. */
static void check_tokens(int round, bool fused)
{
    struct kept_case c = case_of(round);
    struct values v = { 0 };
    uint64_t n = c.rows * c.host.hidden, stride = c.host.width + 8 * below(2);
    uint64_t wide = c.host.hidden + 8 * below(2);
    float *sums = floats(c.tokens), *grad, *grad_bias;
    double *spare;
    struct esfk f = { .product = { .at = c.subject, .form = ESMM_TOKENS, .keep = below(2) },
                      .grad = typed(c.dtype, c.matrix, 1, &grad),
                      .grad_bias = typed(c.dtype, c.host.experts * wide, 1, &grad_bias),
                      .grad_stride = wide,
                      .keep = below(2) };
    struct esmm *m = &f.product;
    struct esfk host = {
        { c.host, ESMM_TOKENS, .keep = m->keep, .sums = sums }, grad, grad_bias, wide, f.keep
    };

    m->bias_stride = host.product.bias_stride = stride;
    m->weights = typed(c.dtype, c.matrix, 1, &v.w);
    m->rows = typed(c.dtype, n, 1, &v.rows);
    m->sums = on_subject(sums, c.tokens * sizeof(*sums), 4);
    m->at.expert = on_subject(c.expert, c.choices * sizeof(*c.expert), 4);
    m->at.slot = on_subject(c.slot, c.choices * sizeof(*c.slot), 8);
    if (below(2))
        m->at.room.results = room(c.dtype, c.most * KEPT_PART_COLUMNS);
    host.product.weights = v.w;
    host.product.rows = v.rows;
    if (!fused && below(2)) {
        m->bias = typed(c.dtype, c.host.experts * stride, 1, &v.bias);
        m->gate = gates(&c);
        host.product.bias = v.bias;
        host.product.gate = c.gate;
    }
    spare = rounded_results(&c, &host.product);
    if (fused) {
        m->tokens = typed(c.dtype, c.tokens, 1, &v.x);
        host.product.tokens = v.x;
        host_esfk(&host);
        narrow_scratch(m);
        RUN(esfk, &f);
        subject_scratch(stream, 0);
        check_values(c.dtype, f.grad, grad, c.matrix, terms_of(&c, c.rows, false), 2);
        check_values(c.dtype, f.grad_bias, grad_bias, c.host.experts * wide,
                     terms_of(&c, c.rows, false), 2);
    } else {
        host_esmm(&host.product);
        run_tokens(m);
    }
    check_sums(m->sums, sums, spare, c.tokens, terms_of(&c, c.host.hidden * c.host.top_k, false));
    free(spare);
    values_free(&v);
    free(sums), free(grad), free(grad_bias);
    case_free(&c);
}

static void tokens_are_summed_as_on_the_host(void)
{
    for (int round = 0; round < 2 * LOADS * rounds; round++)
        check_tokens(round, false);
}

static void fused_sums_of_tokens_are_the_hosts(void)
{
    for (int round = 0; round < LOADS * rounds; round++)
        check_tokens(round, true);
}

/* Gradients of rows in memory of their own, or where the rows were. */
static void check_backward(int round, bool fused)
{
    struct kept_case c = case_of(round);
    struct values v = { 0 };
    uint64_t n = c.rows * c.host.hidden, stride = c.host.width + 8 * below(2);
    float *grad_pre = floats(n), *grad_up = floats(n), *grad_gate = floats(c.choices);
    float *grad, *grad_bias;
    struct esfk f = {
        .product = { .at = c.subject, .form = ESMM_BACKWARD, .kind = below(3), .keep = below(2) },
        .grad = typed(c.dtype, c.matrix, 1, &grad),
        .grad_bias = typed(c.dtype, c.host.experts * stride, 1, &grad_bias),
        .grad_stride = stride,
        .keep = below(2)
    };
    struct esmm *m = &f.product;
    struct esfk host = {
        { c.host, ESMM_BACKWARD, m->kind, m->keep }, grad, grad_bias, stride, f.keep
    };
    double terms = terms_of(&c, c.host.width, false) + 64;
    bool in_place = below(2);

    m->bias_stride = host.product.bias_stride = stride;
    m->weights = typed(c.dtype, c.matrix, 1, &v.w);
    m->tokens = typed(c.dtype, c.tokens, 1, &v.dy);
    m->bias = below(4) ? typed(c.dtype, c.host.experts * stride, 1, &v.bias) : NULL;
    m->gate = below(4) ? gates(&c) : NULL;
    m->post = typed(c.dtype, n, 1, &v.post);
    m->pre = typed(c.dtype, n, 1, &v.pre);
    m->up = m->kind == MOE_SWIGLU ? typed(c.dtype, n, 1, &v.up) : NULL;
    m->grad_gate = on_subject(grad_gate, c.choices * sizeof(*grad_gate), 4);
    m->grad_pre = in_place ? m->pre : room(c.dtype, n);
    if (m->up)
        m->grad_up = in_place ? m->post : room(c.dtype, n);
    host.product.weights = v.w, host.product.tokens = v.dy, host.product.bias = v.bias;
    host.product.gate = m->gate ? c.gate : NULL;
    host.product.post = v.post, host.product.pre = v.pre, host.product.up = v.up;
    host.product.grad_gate = grad_gate;
    host.product.grad_pre = grad_pre, host.product.grad_up = grad_up;
    if (fused) {
        host_esfk(&host);
        RUN(esfk, &f);
        check_values(c.dtype, f.grad, grad, c.matrix, terms_of(&c, c.rows, m->gate), 2);
        check_values(c.dtype, f.grad_bias, grad_bias, c.host.experts * stride,
                     terms_of(&c, c.rows, false), 2);
    } else {
        host_esmm(&host.product);
        RUN(esmm, m);
    }
    check_values(MOE_F32, m->grad_gate, grad_gate, c.choices,
                 terms_of(&c, c.host.width + c.host.hidden, false), 8);
    check_values(c.dtype, m->grad_pre, grad_pre, n, terms, 8);
    if (m->up)
        check_values(c.dtype, m->grad_up, grad_up, n, terms, 8);
    values_free(&v);
    free(grad_pre), free(grad_up), free(grad_gate), free(grad), free(grad_bias);
    case_free(&c);
}

static void backward_is_the_hosts(void)
{
    for (int round = 0; round < 2 * LOADS * rounds; round++)
        check_backward(round, false);
}

static void a_fused_backward_is_the_hosts(void)
{
    for (int round = 0; round < LOADS * rounds; round++)
        check_backward(round, true);
}

static void gradients_of_matrices_are_the_hosts(void)
{
    for (int round = 0; round < 2 * LOADS * rounds; round++) {
        struct kept_case c = case_of(round);
        struct values v = { 0 };
        float *grad;
        struct estmm m = { .at = c.subject,
                           .grad = typed(c.dtype, c.matrix, 1, &grad),
                           .keep = below(2) };

        m.tokens = typed(c.dtype, c.tokens, 1, &v.x);
        m.rows = typed(c.dtype, c.rows * c.host.hidden, 1, &v.rows);
        m.gate = below(2) ? gates(&c) : NULL;
        host_estmm(&(struct estmm){ c.host, v.x, m.gate ? c.gate : NULL, v.rows, grad, m.keep });
        RUN(estmm, &m);
        check_values(c.dtype, m.grad, grad, c.matrix, terms_of(&c, c.rows, m.gate), 2);
        free(grad);
        values_free(&v);
        case_free(&c);
    }
}

static void gradients_of_biases_are_the_hosts(void)
{
    for (int round = 0; round < 2 * LOADS * rounds; round++) {
        struct kept_case c = case_of(round);
        struct values v = { 0 };
        bool of_rows = below(2);
        uint64_t stride = (of_rows ? c.host.hidden : c.host.width) + below(12);
        uint64_t n = c.host.experts * stride;
        float *grad;
        struct ess s = {
            .at = c.subject, .grad = typed(c.dtype, n, 1, &grad), .stride = stride, .keep = below(2)
        };
        struct ess host = { c.host, .grad = grad, .stride = stride, .keep = s.keep };

        if (of_rows) {
            s.rows = typed(c.dtype, c.rows * c.host.hidden, 1, &v.rows);
            host.rows = v.rows;
        } else {
            s.tokens = typed(c.dtype, c.tokens, 1, &v.x);
            s.gate = below(2) ? gates(&c) : NULL;
            host.tokens = v.x;
            host.gate = s.gate ? c.gate : NULL;
        }
        host_ess(&host);
        RUN(ess, &s);
        check_values(c.dtype, s.grad, grad, n, terms_of(&c, c.rows, false), 2);
        free(grad);
        values_free(&v);
        case_free(&c);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(choices_travel_as_on_the_host),
        TEST(reindex_is_the_hosts),
        TEST(first_rows_of_many_experts_are_summed_in_steps),
        TEST(forward_is_the_hosts),
        TEST(tokens_are_summed_as_on_the_host),
        TEST(fused_sums_of_tokens_are_the_hosts),
        TEST(backward_is_the_hosts),
        TEST(a_fused_backward_is_the_hosts),
        TEST(gradients_of_matrices_are_the_hosts),
        TEST(gradients_of_biases_are_the_hosts),
    };
    const char *more = getenv("MOETUNE_TEST_ROUNDS");
    int failed;

    seed = test_seed();
    rounds = more ? strtod(more, NULL) : 1;
    srand((unsigned)seed);
    if (subject_open(&device) || stream_open(device, &stream))
        return 2;
    printf("  %s\n", device->ops->name);
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    stream_close(stream);
    device_close(device);
    return failed;
}
