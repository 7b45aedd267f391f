/* Tests how long kernels take on a modelled cluster, by their operations and their bytes. */
#include "sim_stage.h"

/* What one task takes on a fresh device. */
#define KERNEL_NS(cluster, name, ...)                                                              \
    kernel_ns(cluster, KERNEL_##name, &(struct name){ __VA_ARGS__ }, sizeof(struct name))

static int64_t kernel_ns(const struct cluster *cluster, enum kernel kernel, const void *args,
                         size_t bytes)
{
    struct stage s = stage_on(cluster, 0);
    int64_t ns;

    CHECK(!stream_launch(s.engine.compute, kernel, args, bytes));
    CHECK(!engine_sync(&s.engine));
    ns = device_now_ns(s.engine.device);
    stage_close(&s);
    return ns;
}

static void a_product_runs_at_the_rate_that_its_smallest_side_reaches(void)
{
    struct cluster c = small();

    /* 2 * 3 * 100 * 1000 * 2000 operations at 1000 / 2 per ns; its bytes are nothing beside it */
    CHECK(KERNEL_NS(&c, gemm, .batch = 3, .m = 100, .n = 1000, .k = 2000) == 2000 + 2400000);
    CHECK(KERNEL_NS(&c, gemm, .batch = 3, .m = 1000, .n = 2000, .k = 100) == 2000 + 2400000);
    CHECK(KERNEL_NS(&c, gemm, .batch = 1, .m = 300, .n = 1000, .k = 1000) == 2000 + 800000);
    /* one row: (k n + k + n) floats at 500 bytes per ns, or 101 times the operations */
    c.gemm_half_rows = 0;
    CHECK(KERNEL_NS(&c, gemm, .batch = 1, .m = 1, .n = 1000, .k = 1000) == 2000 + 8016);
    CHECK(KERNEL_NS(&c, gemm, .batch = 1, .m = 0, .n = 1000, .k = 1000) == 2000 + 8000);
}

/* 100 tokens with two choices each, of 8 experts with 20 rows each: 160 rows are kept. */
static const struct kept_rows some_rows = {
    .tokens = 100, .experts = 8, .top_k = 2, .hidden = 48, .width = 64, .capacity = 20
};

static void sparse_kernels_take_as_long_as_the_rows_that_are_kept(void)
{
    const struct kept_rows full = {
        .tokens = 1000, .experts = 4, .top_k = 2, .hidden = 1000, .width = 2000, .capacity = 1000
    };
    struct kept_rows few = full;
    struct cluster c = small();

    few.capacity = 100;
    /* 2 * 4 * 500 * 1000 * 2000 operations; 100 of 500 rows of each expert run at half the rate */
    c.gemm_half_rows = 0;
    CHECK(KERNEL_NS(&c, estmm, .at = full) == 2000 + 8000000);
    CHECK(KERNEL_NS(&c, esmm, .at = full, .form = ESMM_TOKENS) == 2000 + 8000000);
    CHECK(KERNEL_NS(&c, esfk, .product = { .at = full }) == 2000 + 2 * 8000000);
    c.gemm_half_rows = 100;
    CHECK(KERNEL_NS(&c, estmm, .at = few) == 2000 + 2 * 1600000);
    few.capacity = 0;
    CHECK(KERNEL_NS(&c, ess, .at = few) == 2000 + 5 * 8 / 500);
    few.experts = 0;
    CHECK(KERNEL_NS(&c, esfk, .product = { .at = few }) == 2000);
}

static void sparse_kernels_move_the_rows_that_are_kept(void)
{
    const double where = (160 + 9) * 8, matrices = 4 * 8 * 48 * 64, tokens = 4 * 160 * 64;
    const double hidden = 4 * 160 * 48, gates = 4 * 160, results = 2 * tokens;
    const double sums = 4 * 100 * 64;
    struct esmm m = { .at = some_rows, .form = ESMM_FORWARD };
    float x, y;

    CHECK(kernel_bytes(
              KERNEL_reindex,
              &(struct reindex){ .tokens = 100, .experts = 8, .top_k = 2, .capacity = 20 }) ==
          200 * 12 + 8 * 8 + where);
    CHECK(kernel_bytes(KERNEL_pack_choices, &(struct pack_choices){ .choices = 100 }) == 100 * 24);
    CHECK(
        kernel_bytes(KERNEL_recount, &(struct recount){ .tokens = 50, .experts = 8, .top_k = 2 }) ==
        100 * 32 + 8 * 8);
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + matrices + tokens + hidden);
    m.post = &x, m.up = &y;
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + matrices + tokens + 3 * hidden);
    m.form = ESMM_BACKWARD, m.gate = m.grad_gate = &x, m.grad_up = &y;
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + matrices + tokens + 5 * hidden + 2 * gates);
    m = (struct esmm){ .at = some_rows, .form = ESMM_TOKENS, .keep = true };
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + matrices + hidden + results + 2 * sums);
    m.keep = false;
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + matrices + hidden + results + sums);
    m.at.dtype = MOE_BF16; /* sums stay in f32 */
    CHECK(kernel_bytes(KERNEL_esmm, &m) == where + (matrices + hidden + results) / 2 + sums);
    m.at.dtype = MOE_F32;
    CHECK(kernel_bytes(KERNEL_estmm, &(struct estmm){ .at = some_rows, .gate = &x }) ==
          where + matrices + tokens + hidden + gates);
    CHECK(kernel_bytes(KERNEL_ess, &(struct ess){ .at = some_rows, .rows = &x, .stride = 48 }) ==
          where + hidden + 4 * 8 * 48);
    CHECK(kernel_bytes(KERNEL_ess, &(struct ess){ .at = some_rows, .stride = 65 }) ==
          where + tokens + 4 * 8 * 65);
    /* fused, the rows are read once */
    CHECK(kernel_bytes(KERNEL_esfk,
                       &(struct esfk){ .product = m, .grad_bias = &x, .grad_stride = 48 }) ==
          kernel_bytes(KERNEL_esmm, &m) + tokens + matrices + 4 * 8 * 48);
}

static void other_kernels_take_as_long_as_their_bytes(void)
{
    struct routing r = {
        .tokens = 100, .experts = 8, .top_k = 2, .width = 64, .rows = 32, .capacity = 20
    };
    double row = 64 * 4, where = 200 * 12 + 8 * 8;
    struct cluster c = small();
    float x;

    CHECK(kernel_bytes(KERNEL_fill, &(struct fill){ .bytes = 4096 }) == 4096);
    CHECK(kernel_bytes(KERNEL_move, &(struct move){ .from_type = MOE_BF16,
                                                    .to_type = MOE_F32,
                                                    .block = 10,
                                                    .dims = { 2, 3, 4 },
                                                    .terms = 5 }) == 240 * (5 * 2 + 4));
    CHECK(kernel_bytes(KERNEL_route, &(struct route){ .tokens = 100, .experts = 8, .top_k = 2 }) ==
          100 * 8 * 8 + 200 * 16 + 64);
    CHECK(kernel_bytes(KERNEL_route_backward,
                       &(struct route_backward){ .tokens = 100, .experts = 8, .top_k = 2 }) ==
          100 * 8 * 8 + 200 * 12);
    /* 200 choices, 8 * 20 of which are kept, in 8 * 32 rows */
    CHECK(kernel_bytes(KERNEL_encode, &(struct encode){ .routing = r }) ==
          where + (160 + 256) * row);
    CHECK(kernel_bytes(KERNEL_encode_backward,
                       &(struct encode_backward){ .routing = r, .add = &x }) ==
          where + (160 + 100 + 100) * row);
    CHECK(kernel_bytes(KERNEL_decode, &(struct decode){ .routing = r }) ==
          where + 800 + (160 + 100) * row);
    CHECK(kernel_bytes(KERNEL_decode_backward, &(struct decode_backward){ .routing = r }) ==
          where + 1600 + (2 * 160 + 256) * row);
    CHECK(kernel_bytes(KERNEL_activate,
                       &(struct activate){
                           .kind = MOE_SWIGLU, .batch = 2, .rows = 3, .width = 5, .post = &x }) ==
          4 * (30 * 4 + 10));
    CHECK(kernel_bytes(KERNEL_activate_backward,
                       &(struct activate_backward){ .batch = 2, .rows = 3, .width = 5 }) ==
          4 * 30 * 3);
    CHECK(kernel_bytes(KERNEL_add_bias, &(struct add_bias){ .batch = 2, .rows = 3, .width = 5 }) ==
          4 * (30 * 2 + 10));
    CHECK(kernel_bytes(KERNEL_sum_rows,
                       &(struct sum_rows){
                           .keep = true, .batch = 2, .rows = 3, .width = 5, .to_stride = 6 }) ==
          4 * (30 + 24));
    CHECK(KERNEL_NS(&c, fill, .bytes = 1000000) == 2000 + 2000);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_product_runs_at_the_rate_that_its_smallest_side_reaches),
        TEST(sparse_kernels_take_as_long_as_the_rows_that_are_kept),
        TEST(sparse_kernels_move_the_rows_that_are_kept),
        TEST(other_kernels_take_as_long_as_their_bytes),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
