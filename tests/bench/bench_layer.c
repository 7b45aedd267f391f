/* Compares a whole training step under every plan with the same layer as a user would write it:
 * blocking MPI_Alltoall, one product per expert, no chunks, no streams.  E = W, ReLU, f32.  Started
 * by mpirun.  First checks the two against each other. */
#include "measure.h"
#include "rig.h"
#include "shape.h"
#include "stats.h"
#include "status.h"

#include <cblas.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 1024, D = 512, H = 512, K = 2, ROUNDS = 25, PLANS_MAX = 64 };

struct by_hand {
    int ranks;
    uint64_t c, rows; /* capacity; W * c rows reach this rank's expert */
    const float *x, *grad_y, *gate_w, *w1, *b1, *w2, *b2;
    float *y, *grad_x, *logits, *gate, *grad_gate, *grad_logits;
    int *expert, *slot, *count;
    float *send, *in, *hidden, *out, *back, *grad_hidden;
    float *grad_gate_w, *grad_w1, *grad_b1, *grad_w2, *grad_b2;
};

static float *take(uint64_t n)
{
    return calloc(n, sizeof(float));
}

static void gate(struct by_hand *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, T, p->ranks, D, 1, p->x, D, p->gate_w, D,
                0, p->logits, p->ranks);
    for (int t = 0; t < T; t++) {
        const float *l = p->logits + t * p->ranks;
        int a = 0, b = -1;

        for (int e = 1; e < p->ranks; e++)
            if (l[e] > l[a])
                a = e;
        for (int e = 0; e < p->ranks; e++)
            if (e != a && (b < 0 || l[e] > l[b]))
                b = e;
        p->expert[2 * t] = a;
        p->expert[2 * t + 1] = b;
        p->gate[2 * t] = 1 / (1 + expf(l[b] - l[a]));
        p->gate[2 * t + 1] = 1 - p->gate[2 * t];
    }
    memset(p->count, 0, (size_t)p->ranks * sizeof(int));
    for (int k = 0; k < K; k++)
        for (int t = 0; t < T; t++) {
            int at = p->count[p->expert[2 * t + k]]++;

            p->slot[2 * t + k] = (uint64_t)at < p->c ? at : -1;
        }
}

static float *row(const struct by_hand *p, float *base, int choice)
{
    return base + ((uint64_t)p->expert[choice] * p->c + (uint64_t)p->slot[choice]) * D;
}

static void exchange(const struct by_hand *p, float *from, float *to)
{
    MPI_Alltoall(from, (int)(p->c * D), MPI_FLOAT, to, (int)(p->c * D), MPI_FLOAT, MPI_COMM_WORLD);
}

static void forward(struct by_hand *p)
{
    int n = (int)p->rows;

    gate(p);
    memset(p->send, 0, p->rows * D * sizeof(float));
    for (int i = 0; i < T * K; i++)
        if (p->slot[i] >= 0)
            memcpy(row(p, p->send, i), p->x + i / K * D, D * sizeof(float));
    exchange(p, p->send, p->in);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, H, D, 1, p->in, D, p->w1, D, 0,
                p->hidden, H);
    for (int i = 0; i < n; i++)
        for (int h = 0; h < H; h++) {
            float v = p->hidden[i * H + h] + p->b1[h];

            p->hidden[i * H + h] = v > 0 ? v : 0;
        }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, D, H, 1, p->hidden, H, p->w2, D, 0,
                p->out, D);
    for (int i = 0; i < n; i++)
        for (int d = 0; d < D; d++)
            p->out[i * D + d] += p->b2[d];
    exchange(p, p->out, p->back);
    memset(p->y, 0, T * D * sizeof(float));
    for (int i = 0; i < T * K; i++)
        if (p->slot[i] >= 0)
            for (int d = 0; d < D; d++)
                p->y[i / K * D + d] += p->gate[i] * row(p, p->back, i)[d];
}

static void gate_backward(struct by_hand *p)
{
    memset(p->grad_logits, 0, (size_t)(T * p->ranks) * sizeof(float));
    for (int t = 0; t < T; t++) {
        float mean =
            p->gate[2 * t] * p->grad_gate[2 * t] + p->gate[2 * t + 1] * p->grad_gate[2 * t + 1];

        for (int k = 0; k < K; k++)
            p->grad_logits[t * p->ranks + p->expert[2 * t + k]] =
                p->gate[2 * t + k] * (p->grad_gate[2 * t + k] - mean);
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p->ranks, D, T, 1, p->grad_logits,
                p->ranks, p->x, D, 0, p->grad_gate_w, D);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, T, D, p->ranks, 1, p->grad_logits,
                p->ranks, p->gate_w, D, 0, p->grad_x, D);
}

static void backward(struct by_hand *p)
{
    int n = (int)p->rows;

    memset(p->send, 0, p->rows * D * sizeof(float));
    for (int i = 0; i < T * K; i++) {
        p->grad_gate[i] = 0;
        if (p->slot[i] < 0)
            continue;
        for (int d = 0; d < D; d++) {
            row(p, p->send, i)[d] = p->gate[i] * p->grad_y[i / K * D + d];
            p->grad_gate[i] += p->grad_y[i / K * D + d] * row(p, p->back, i)[d];
        }
    }
    gate_backward(p);
    exchange(p, p->send, p->out);
    memset(p->grad_b2, 0, D * sizeof(float));
    memset(p->grad_b1, 0, H * sizeof(float));
    for (int i = 0; i < n; i++)
        for (int d = 0; d < D; d++)
            p->grad_b2[d] += p->out[i * D + d];
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, H, D, n, 1, p->hidden, H, p->out, D, 0,
                p->grad_w2, D);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, H, D, 1, p->out, D, p->w2, D, 0,
                p->grad_hidden, H);
    for (int i = 0; i < n; i++)
        for (int h = 0; h < H; h++) {
            float g = p->hidden[i * H + h] > 0 ? p->grad_hidden[i * H + h] : 0;

            p->grad_hidden[i * H + h] = g;
            p->grad_b1[h] += g;
        }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, H, D, n, 1, p->grad_hidden, H, p->in, D, 0,
                p->grad_w1, D);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, D, H, 1, p->grad_hidden, H, p->w1, D,
                0, p->out, D);
    exchange(p, p->out, p->send);
    for (int i = 0; i < T * K; i++)
        if (p->slot[i] >= 0)
            for (int d = 0; d < D; d++)
                p->grad_x[i / K * D + d] += row(p, p->send, i)[d];
}

static int plain_step(void *self)
{
    forward(self);
    backward(self);
    return OK;
}

struct ours {
    struct rig *rig;
    struct exec *exec;
};

static int our_step(void *self)
{
    struct ours *o = self;

    return rig_step(o->rig, o->exec);
}

static struct by_hand make_plain(const struct rig *rig)
{
    struct by_hand p = { .ranks = (int)rig->data.shape.ranks, .c = rig->capacity };
    uint64_t n = p.rows = (uint64_t)p.ranks * p.c;

    p.x = rig->x;
    p.grad_y = rig->grad_y;
    p.gate_w = rig->layer->gate;
    p.w1 = rig->layer->slice[TENSOR_W1];
    p.b1 = rig->layer->slice[TENSOR_B1];
    p.w2 = rig->layer->slice[TENSOR_W2];
    p.b2 = rig->layer->slice[TENSOR_B2];
    p.y = take(T * D), p.grad_x = take(T * D);
    p.logits = take((uint64_t)(T * p.ranks)), p.grad_logits = take((uint64_t)(T * p.ranks));
    p.gate = take(T * K), p.grad_gate = take(T * K);
    p.expert = calloc(T * K, sizeof(int)), p.slot = calloc(T * K, sizeof(int));
    p.count = calloc((size_t)p.ranks, sizeof(int));
    p.send = take(n * D), p.in = take(n * D), p.out = take(n * D), p.back = take(n * D);
    p.hidden = take(n * H), p.grad_hidden = take(n * H);
    p.grad_gate_w = take((uint64_t)(p.ranks * D)), p.grad_w1 = take(H * D), p.grad_b1 = take(H);
    p.grad_w2 = take(H * D), p.grad_b2 = take(D);
    return p;
}

static double distance(const float *a, const float *b, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static int64_t time_of(struct rig *rig, int (*step)(void *self), void *self)
{
    struct measured took = { 0 };

    measure_once(rig->world, NULL, NULL, step, self, &took);
    return took.ns;
}

static void race(struct rig *rig, struct by_hand *plain, const struct moe_plan *plan)
{
    struct ours ours = { .rig = rig };
    int64_t a[ROUNDS] = { 0 }, b[ROUNDS] = { 0 }, ratio[ROUNDS], far[3];
    char name[PLAN_TEXT_BYTES];
    struct spread s;

    if (rig_exec(rig, plan, &ours.exec))
        exit(1);
    our_step(&ours);
    plain_step(plain);
    far[0] = (int64_t)(1e6 * distance(plain->y, rig->y, T * D));
    far[1] = (int64_t)(1e6 * distance(plain->grad_x, rig->grad_x, T * D));
    far[2] = (int64_t)(1e6 * distance(plain->grad_w1, rig->layer->grad[TENSOR_W1], H * D));
    world_max(rig->world, far, 3);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2)
            a[i] = time_of(rig, our_step, &ours);
        b[i] = time_of(rig, plain_step, plain);
        if (i % 2 == 0)
            a[i] = time_of(rig, our_step, &ours);
        ratio[i] = a[i] * 1000000 / b[i];
    }
    s = spread_of(ratio, ROUNDS);
    moe_plan_format(plan, name, sizeof(name));
    if (world_topology(rig->world)->rank == 0)
        printf("%-18s %.2f x the plain layer's step [%.2f, %.2f]; differs by %.0e %.0e %.0e (y dx "
               "dW1)\n",
               name, (double)s.median_ns * 1e-6, (double)s.low_ns * 1e-6, (double)s.high_ns * 1e-6,
               (double)far[0] * 1e-6, (double)far[1] * 1e-6, (double)far[2] * 1e-6);
    exec_close(ours.exec);
}

int main(void)
{
    struct world *world;
    struct engine engine;
    struct rig *rig;
    struct moe_plan plans[PLANS_MAX];
    uint32_t tokens[64];
    struct data data = { .seed = 1 };
    struct by_hand plain;
    size_t n;

    if (world_open(0, 0, &world) || engine_open(world, "host", NULL, &engine))
        return 1;
    data.shape = (struct moe_shape){ .struct_size = sizeof(data.shape),
                                     .top_k = K,
                                     .model_dim = D,
                                     .hidden_dim = H,
                                     .tokens = T,
                                     .pass = MOE_TRAIN,
                                     .activation = MOE_RELU };
    data.shape.ranks = data.shape.experts = (uint32_t)world_topology(world)->ranks;
    data.shape.ranks_per_node = (uint32_t)world_topology(world)->ranks_per_node;
    for (uint32_t q = 0; q < data.shape.ranks && q < 64; q++)
        tokens[q] = T;
    if (data.shape.ranks < 2 || data.shape.ranks > 64 ||
        rig_open(world, &engine, &data, tokens, 1, &rig))
        return 1;
    plain = make_plain(rig);
    n = plan_list(&data.shape, plans, PLANS_MAX);
    for (size_t i = 0; i < n; i++)
        race(rig, &plain, &plans[i]);
    rig_close(rig);
    engine_close(&engine);
    world_close(world);
    return 0;
}
