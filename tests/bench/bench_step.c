/* One forward step on one rank against the bare products in it: everything around the all-to-alls
 * and the products.  T=1024, D=H=512, E=8, k=2, ReLU, f32. */
#include "rivals.h"

#include "rig.h"
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

int main(void)
{
    struct data data = { .seed = 1 };
    struct moe_plan plan = plan_default(NULL);
    struct engine engine;
    struct step s = { 0 };
    struct rivals c;
    struct world *world;
    uint32_t tokens = 1024;
    uint64_t rows;

    data.shape = (struct moe_shape){ .struct_size = sizeof(data.shape),
                                     .experts = 8,
                                     .top_k = 2,
                                     .model_dim = 512,
                                     .hidden_dim = 512,
                                     .ranks = 1,
                                     .ranks_per_node = 1,
                                     .tokens = tokens };
    if (world_open(0, 0, &world) || engine_open(world, "host", NULL, &engine) ||
        rig_open(world, &engine, &data, &tokens, 1, &s.rig) || rig_exec(s.rig, &plan, &s.exec))
        return 1;
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
    engine_close(&engine);
    world_close(world);
    return 0;
}
