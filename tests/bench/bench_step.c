/* Compares one rank's steps with the bare products in them.  A forward step: everything around the
 * all-to-alls and the products (T=1024, D=H=512, E=8, k=2).  Experts in a training step, with one
 * chunk and with eight, against the same loop by hand in blocks of 256 rows; and whether a row
 * takes the same time however many rows there are.  ReLU, f32. */
#include "rivals.h"

#include "convert.h"
#include "random.h"
#include "rig.h"
#include "runner.h"
#include "shape.h"
#include "status.h"

#include <cblas.h>

struct step {
    struct rig *rig;
    struct exec *exec;
    float *x, *w, *y;
};

static int64_t run_step(void *self)
{
    struct step *s = self;
    int64_t begin = host_clock_ns();

    if (rig_step(s->rig, s->exec))
        exit(1);
    return host_clock_ns() - begin;
}

static int64_t run_products(void *self)
{
    struct step *s = self;
    int rows = (int)geometry_chunk_rows(&s->exec->geometry), E = 8, D = 512, H = 512;
    int64_t begin = host_clock_ns();

    for (int e = 0; e < E; e++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, H, D, 1, s->x + e * rows * D, D,
                    s->w + e * H * D, D, 0, s->y + e * rows * H, H);
    for (int e = 0; e < E; e++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, D, H, 1, s->y + e * rows * H,
                    H, s->w + e * H * D, D, 0, s->x + e * rows * D, D);
    return host_clock_ns() - begin;
}

static struct moe_shape shape_of(uint32_t experts, uint32_t tokens, uint32_t D, uint32_t H,
                                 uint32_t pass)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = experts,
                               .top_k = experts > 1 ? 2 : 1,
                               .model_dim = D,
                               .hidden_dim = H,
                               .pass = pass,
                               .ranks = 1,
                               .ranks_per_node = 1,
                               .tokens = tokens };
}

static int bench_forward(struct world *world, struct engine *engine)
{
    struct data data = { .seed = 1 };
    struct moe_plan plan = plan_default(NULL);
    struct step s = { 0 };
    struct rivals c;
    uint32_t tokens = 1024;
    uint64_t rows;

    data.shape = shape_of(8, tokens, 512, 512, MOE_FORWARD);
    TRY(rig_open(world, engine, &data, &tokens, 1, &s.rig));
    TRY(rig_exec(s.rig, &plan, &s.exec));
    rows = geometry_chunk_rows(&s.exec->geometry) * 8;
    s.x = calloc(rows * 512, 4);
    s.y = calloc(rows * 512, 4);
    s.w = calloc(8 * 512 * 512, 4);
    for (uint64_t i = 0; i < 8 * 512 * 512; i++)
        s.w[i] = data_weight(&data, TENSOR_W1, i >> 18, i >> 9 & 511, i & 511);
    for (uint64_t i = 0; i < rows * 512; i++)
        s.x[i] = data_token(&data, 0, i >> 9 & 1023, i & 511);
    c = rivals_run(run_step, run_products, &s);
    printf("forward step %.2f ms; everything but the products is %.1f %% of it [%.1f, %.1f]\n",
           c.ours_ns * 1e-6, 100 * (1 - 1 / c.ratio), 100 * (1 - 1 / c.low),
           100 * (1 - 1 / c.high));
    free(s.x), free(s.y), free(s.w);
    exec_close(s.exec);
    rig_close(s.rig);
    return OK;
}

/* ---- experts in a training step */

enum { SIZES = 3, WAYS = 3, ROUNDS = 15 }; /* ways: by hand, d=1, d=8 */
static const uint32_t sizes[SIZES] = { 256, 2048, 16384 };

struct experts {
    struct engine *engine;
    struct rig *rig;
    struct exec *exec[WAYS]; /* none by hand */
    struct marks marks;
    int N, D, H;
    float *x, *y, *hidden, *grad, *grad_x, *w1, *w2, *grad_w1, *grad_w2;
};

static float *random_floats(uint64_t n)
{
    float *f = malloc(n * sizeof(*f));

    for (uint64_t i = 0; i < n; i++)
        f[i] = random_unit(n, i);
    return f;
}

CLONES __attribute__((optimize("O3"))) static void keep_where_positive(const float *of, float *what,
                                                                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        what[i] = of[i] > 0 ? what[i] : 0;
}

static int64_t by_hand(struct experts *e)
{
    enum { BLOCK = 256 };
    int D = e->D, H = e->H;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < e->N; i += BLOCK) {
        float *x = e->x + (size_t)i * D, *y = e->y + (size_t)i * D;
        float *hidden = e->hidden + (size_t)i * H;

        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, BLOCK, H, D, 1, x, D, e->w1, D, 0,
                    hidden, H);
        keep_where_positive(hidden, hidden, (size_t)BLOCK * H);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, BLOCK, D, H, 1, hidden, H, e->w2, D,
                    0, y, D);
    }
    for (int i = 0; i < e->N; i += BLOCK) {
        float *x = e->x + (size_t)i * D, *y = e->y + (size_t)i * D;
        float *hidden = e->hidden + (size_t)i * H, add = i ? 1 : 0;

        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, H, D, BLOCK, 1, hidden, H, y, D, add,
                    e->grad_w2, D);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, BLOCK, H, D, 1, y, D, e->w2, D, 0,
                    e->grad, H);
        keep_where_positive(hidden, e->grad, (size_t)BLOCK * H);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, H, D, BLOCK, 1, e->grad, H, x, D, add,
                    e->grad_w1, D);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, BLOCK, D, H, 1, e->grad, H, e->w1, D,
                    0, e->grad_x + (size_t)i * D, D);
    }
    return host_clock_ns() - begin;
}

/* What the experts took of a step, without what they wait for. */
static int64_t by_executor(struct experts *e, struct exec *exec)
{
    int64_t ns = 0;

    e->engine->comm->muted = true;
    if (marks_begin(&e->marks, e->engine->compute) || rig_step(e->rig, exec))
        exit(1);
    marks_end(e->engine->compute);
    e->engine->comm->muted = false;
    for (size_t i = 1; i <= e->marks.count; i++)
        ns += phase_of(&e->marks.list[i]) == PHASE_EXPERTS ? marks_ns(&e->marks, i) : 0;
    return ns;
}

static int experts_open(struct world *world, struct engine *engine, uint32_t tokens, int D, int H,
                        struct experts *e)
{
    struct data data = { .seed = 1,
                         .shape = shape_of(1, tokens, (uint32_t)D, (uint32_t)H, MOE_TRAIN) };
    size_t n = tokens;

    *e = (struct experts){ .engine = engine, .N = (int)tokens, .D = D, .H = H };
    e->x = random_floats(n * D);
    e->y = random_floats(n * D);
    e->hidden = random_floats(n * H);
    e->grad = random_floats(n * H);
    e->grad_x = random_floats(n * D);
    e->w1 = random_floats((size_t)D * H);
    e->w2 = random_floats((size_t)D * H);
    e->grad_w1 = random_floats((size_t)D * H);
    e->grad_w2 = random_floats((size_t)D * H);
    TRY(rig_open(world, engine, &data, &tokens, 1, &e->rig));
    for (int way = 1; way < WAYS; way++) {
        struct moe_plan plan = plan_default(NULL);

        plan.d = way == 1 ? 1 : 8;
        TRY(rig_exec(e->rig, &plan, &e->exec[way]));
    }
    return OK;
}

static void experts_close(struct experts *e)
{
    marks_close(&e->marks);
    for (int way = 1; way < WAYS; way++)
        exec_close(e->exec[way]);
    rig_close(e->rig);
    free(e->x), free(e->y), free(e->hidden), free(e->grad), free(e->grad_x);
    free(e->w1), free(e->w2), free(e->grad_w1), free(e->grad_w2);
}

static void say(const char *what, int64_t *ratio)
{
    struct spread s = spread_of(ratio, ROUNDS);

    printf("  %s %.3f [%.3f, %.3f]", what, (double)s.median_ns * 1e-6, (double)s.low_ns * 1e-6,
           (double)s.high_ns * 1e-6);
}

static int bench_experts(struct world *world, struct engine *engine, int D, int H)
{
    int64_t ns[SIZES][WAYS][ROUNDS], ratio[ROUNDS];
    struct experts e[SIZES];

    for (int i = 0; i < SIZES; i++)
        TRY(experts_open(world, engine, sizes[i], D, H, &e[i]));
    for (int round = -1; round < ROUNDS; round++) /* the first one warms up */
        for (int k = 0; k < SIZES * WAYS; k++) {
            int at = (k + (round + 1) * 4) % (SIZES * WAYS), i = at / WAYS, way = at % WAYS;
            /* A few rows are taken several times, so that all take about as long. */
            int times = (int)(sizes[1] / sizes[i] ? sizes[1] / sizes[i] : 1);
            int64_t sum = 0;

            for (int n = 0; n < times; n++)
                sum += way ? by_executor(&e[i], e[i].exec[way]) : by_hand(&e[i]);
            if (round >= 0)
                ns[i][way][round] = sum / times;
        }
    for (int i = 0; i < SIZES; i++) {
        printf("experts in training, D=%d H=%d, %5u rows:", D, H, sizes[i]);
        for (int way = 1; way < WAYS; way++) {
            for (int n = 0; n < ROUNDS; n++)
                ratio[n] = (int64_t)(1e6 * (double)ns[i][way][n] / (double)ns[i][0][n]);
            say(way == 1 ? "d=1" : "d=8", ratio);
        }
        printf(" of the loop by hand;");
        for (int n = 0; n < ROUNDS; n++)
            ratio[n] = (int64_t)(1e6 * (double)ns[i][1][n] / (double)ns[1][1][n] *
                                 (double)sizes[1] / (double)sizes[i]);
        say("a row", ratio);
        printf(" of one of %u\n", sizes[1]);
        experts_close(&e[i]);
    }
    return OK;
}

int main(void)
{
    struct engine engine;
    struct world *world;

    if (world_open(0, 0, &world) || engine_open(world, "host", NULL, &engine) ||
        bench_forward(world, &engine) || bench_experts(world, &engine, 128, 256) ||
        bench_experts(world, &engine, 512, 512))
        return 1;
    engine_close(&engine);
    world_close(world);
    return 0;
}
