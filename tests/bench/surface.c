/* Computes the true step times behind the search's simulations. */
#include "surface.h"

#include "arms.h"
#include "plan.h"
#include "random.h"
#include "shape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double pi = 3.141592653589793;

/* ---- the machine and the layer */

struct draw {
    uint64_t key, at;
};

static double log_uniform(struct draw *draw, double low, double high)
{
    return low * pow(high / low, uniform_draw(draw->key, draw->at++));
}

static uint32_t power_of_two(struct draw *draw, uint32_t low, uint32_t high)
{
    uint32_t choices = 1, value = low;

    for (uint32_t x = low; x < high; x *= 2)
        choices++;
    for (uint32_t skip = random_below(draw->key, draw->at++, choices); skip; skip--)
        value *= 2;
    return value;
}

static struct moe_shape draw_shape(struct draw *draw, uint32_t slices)
{
    struct moe_shape shape = { .struct_size = sizeof(shape), .top_k = 1 };

    if (!slices)
        slices = power_of_two(draw, 1, 128);
    shape.ranks = power_of_two(draw, slices > 8 ? slices : 8, 2048);
    shape.ranks_per_node = power_of_two(draw, 4, 8);
    shape.experts = shape.ranks / slices;
    if (slices == 1 && shape.experts <= 512)
        shape.experts *= power_of_two(draw, 1, 4);
    shape.model_dim = power_of_two(draw, 1024, 4096);
    shape.hidden_dim = power_of_two(draw, 2048, 32768);
    shape.dtype = MOE_BF16;
    shape.pass = random_below(draw->key, draw->at++, 4) ? MOE_TRAIN : MOE_FORWARD;
    shape.activation = MOE_RELU;
    return shape;
}

static void draw_machine(struct surface *s, struct draw *draw)
{
    s->message_inside_s = log_uniform(draw, 5e-7, 4e-6);
    s->message_between_s = log_uniform(draw, 1e-6, 1e-5);
    s->inside = log_uniform(draw, 2e10, 3e11);
    s->between = log_uniform(draw, 3e9, 5e10);
    s->copy = log_uniform(draw, 4e11, 2.5e12);
    s->flops = log_uniform(draw, 2e13, 4e14);
    s->launch_s = log_uniform(draw, 5e-6, 5e-5);
    s->small_message_bytes = log_uniform(draw, 4096, 524288);
    s->gather_between = s->between * log_uniform(draw, 0.5, 2);
    s->gather_weight = log_uniform(draw, 1, 4);
    s->rows_half = log_uniform(draw, 32, 512);
    s->hidden_half = log_uniform(draw, 32, 512);
    for (int a = 0; a < 2; a++) {
        s->slowed_compute[a] = 1 + log_uniform(draw, 0.02, 0.3);
        s->slowed_exchange[a] = 1 + log_uniform(draw, 0.02, 0.3);
    }
    s->step_s = log_uniform(draw, 5e-5, 5e-4);
    s->memory_bytes = 30e9;
}

/* What only rail depends on, by numbers of its own: all else is as without it. */
static void draw_for_rail(struct surface *s)
{
    struct draw draw = { .key = random_bits(s->seed, 9) };

    s->shape.top_k = power_of_two(&draw, 1, s->shape.experts < 8 ? 1 : 8);
    s->slowed_compute[MOE_A2A_RAIL] = 1 + log_uniform(&draw, 0.02, 0.3);
    s->slowed_exchange[MOE_A2A_RAIL] = 1 + log_uniform(&draw, 0.02, 0.3);
    s->crowd = 1 + log_uniform(&draw, 0.01, 0.2);
}

static void tell_machine(struct surface *s, double sd)
{
    uint64_t key = random_bits(s->seed, 77);

    s->machine = (struct search_machine){
        .message_s = s->message_between_s * exp(sd * normal_draw(key, 0)),
        .bytes_per_s_between = s->between * exp(sd * normal_draw(key, 1)),
        .bytes_per_s_inside = s->inside * exp(sd * normal_draw(key, 2)),
        .copy_bytes_per_s = s->copy * exp(sd * normal_draw(key, 3)),
        .flops = s->flops * exp(sd * normal_draw(key, 4)),
        .launch_s = s->launch_s * exp(sd * normal_draw(key, 5)),
    };
}

static void draw_pockets(struct surface *s, int count, struct draw *draw)
{
    for (int i = 0; i < count && i < SURFACE_POCKETS_MAX; i++) {
        struct pocket *p = &s->pockets[s->pocket_count++];
        double r = s->arms[random_below(draw->key, draw->at++, (uint32_t)s->arm_count)].r;
        double c = surface_capacity(s, random_bits(draw->key, draw->at++));
        double size = log_uniform(draw, 1.1, 1.5);

        p->r_low = r / 1.5;
        p->r_high = r * 1.5;
        p->c_low = c / 2;
        p->c_high = c * 2;
        p->d = power_of_two(draw, 1, 8);
        p->a = random_below(draw->key, draw->at++, 2);
        p->factor = random_below(draw->key, draw->at++, 2) ? size : 1 / size;
    }
}

struct surface surface_make(uint64_t seed, const struct surface_options *options)
{
    struct draw draw = { .key = random_bits(seed, 1) };
    struct surface s = { .seed = seed,
                         .shape = draw_shape(&draw, options->slices),
                         .alike = options->alike };

    draw_machine(&s, &draw);
    draw_for_rail(&s);
    s.ripple = options->ripple > 0 ? options->ripple : log_uniform(&draw, 0.005, 0.03);
    s.arm_count = plan_list(&s.shape, s.arms, SEARCH_ARMS_MAX);
    tell_machine(&s, options->belief_sd > 0 ? options->belief_sd : 0.35);
    draw_pockets(&s, options->pockets, &draw);
    if (options->foreign)
        s.foreign_sd = log_uniform(&(struct draw){ .key = random_bits(seed, 13) }, 0.02, 0.12);
    return s;
}

double surface_capacity(const struct surface *surface, uint64_t index)
{
    double tokens = 256 * pow(256, uniform_draw(random_bits(surface->seed, 5), index));
    double rows = 2 * tokens / surface->shape.experts;

    return rows < 8 ? 8 : floor(rows < 65535 ? rows : 65535);
}

/* ---- one step */

static double link_s(const struct surface *s, double messages, double bytes_each, double latency,
                     double bandwidth)
{
    if (bytes_each < s->small_message_bytes)
        bandwidth /= 1.7;
    return messages * (latency + bytes_each / bandwidth);
}

/* Links inside and between nodes work at once, but not quite. */
static double both_s(double x, double y)
{
    return fmax(x, y) + 0.25 * fmin(x, y);
}

static double linear_s(const struct surface *s, double bytes)
{
    double w = s->shape.ranks, m = fmin(s->shape.ranks_per_node, w);

    return both_s(link_s(s, m - 1, bytes / w, s->message_inside_s, s->inside),
                  link_s(s, w - m, bytes / w, s->message_between_s, s->between));
}

static double two_level_s(const struct surface *s, double bytes)
{
    double w = s->shape.ranks, m = s->shape.ranks_per_node, n = w / m;

    return link_s(s, m - 1, bytes / m, s->message_inside_s, s->inside) +
           link_s(s, n - 1, bytes / n, s->message_between_s, s->between) +
           2 * (bytes / s->copy * (1 + 2048 / (2048 + bytes / w)) + s->launch_s / 2);
}

/* rail's hop between nodes, of whole tokens; a node gets more than the mean has. */
static double rail_between_s(const struct surface *s, double c)
{
    double n = s->shape.ranks / (double)s->shape.ranks_per_node, k = s->shape.top_k;
    double rows = s->crowd * (1 - pow(1 - 1 / n, k)) * c * s->shape.experts / k;
    double bytes = rows * s->shape.model_dim * 2;

    return link_s(s, n - 1, bytes, s->message_between_s, s->between) + 2 * n * bytes / s->copy +
           s->launch_s;
}

static double rail_inside_s(const struct surface *s, double bytes)
{
    double m = s->shape.ranks_per_node;

    return link_s(s, m - 1, bytes / m, s->message_inside_s, s->inside) + 1.5 * bytes / s->copy +
           s->launch_s / 2;
}

static double exchange_s(const struct surface *s, uint32_t a, double bytes)
{
    if (a == MOE_A2A_RAIL)
        return rail_inside_s(s, bytes);
    return a == MOE_A2A_2DH ? two_level_s(s, bytes) : linear_s(s, bytes);
}

static double gather_s(const struct surface *s, double group, double bytes_each)
{
    double m = s->shape.ranks_per_node, bandwidth = group > m ? s->gather_between : s->inside;
    double received = (group - 1) * bytes_each;

    if (group <= 1)
        return 0;
    return s->gather_weight * (log2(group) * s->message_between_s * 3 +
                               received / (bandwidth * received / (received + 1e6)));
}

static double gemm_s(const struct surface *s, double experts, double rows, double hidden)
{
    double tiles = ceil(rows / 64) * 64, wide = ceil(hidden / 128) * 128;
    double efficiency = tiles / (tiles + s->rows_half) * wide / (wide + s->hidden_half);
    double math = experts * 4 * tiles * wide * s->shape.model_dim / (s->flops * efficiency);
    double reads = experts * 4 * hidden * s->shape.model_dim / (0.8 * s->copy);

    return sqrt(math * math + reads * reads) + 2 * s->launch_s * fmin(experts, 4) / 4;
}

/* Two queues of work; each is slower while the other is busy too. */
struct streams {
    double left[2], slowed[2]; /* of the running job; 0: exchange, 1: compute */
    double now;
};

static void run_until(struct streams *t, bool until_exchange)
{
    int which = until_exchange ? 0 : 1;

    while (t->left[which] > 0) {
        bool both = t->left[0] > 0 && t->left[1] > 0;
        double rate[2] = { both ? 1 / t->slowed[0] : 1, both ? 1 / t->slowed[1] : 1 };
        double wait = t->left[which] / rate[which];

        if (both)
            wait = fmin(t->left[0] / rate[0], t->left[1] / rate[1]);
        for (int i = 0; i < 2; i++)
            if (t->left[i] > 0)
                t->left[i] = t->left[i] - wait * rate[i] < 1e-15 ? 0 : t->left[i] - wait * rate[i];
        t->now += wait;
    }
}

/* All sends first, then the returns; expert i starts when chunk i has arrived. */
static double pipeline_s(const struct surface *s, uint32_t d, uint32_t a, double exchange,
                         double expert)
{
    struct streams t = { .slowed = { s->slowed_exchange[a], s->slowed_compute[a] } };
    uint32_t exchanged = 0, computed = 0;

    t.left[0] = exchange;
    while (exchanged < 2 * d) {
        bool may_compute = computed < d && exchanged > computed;

        if (may_compute && !(t.left[1] > 0))
            t.left[1] = expert;
        if (t.left[0] > 0 &&
            (!(t.left[1] > 0) || t.left[0] * t.slowed[0] <= t.left[1] * t.slowed[1])) {
            run_until(&t, true);
            exchanged++;
        } else {
            run_until(&t, false);
            computed++;
        }
        if (!(t.left[0] > 0) && exchanged < 2 * d && (exchanged < d || computed > exchanged - d))
            t.left[0] = exchange;
        if (t.left[1] == 0 && t.left[0] == 0 && computed < d && exchanged > computed)
            t.left[1] = expert;
    }
    return t.now + (d > 1 ? 3 * d * s->launch_s : 0);
}

static double sharded_s(const struct surface *s, double c, const struct moe_plan *p, bool train)
{
    double slices = shape_slices(&s->shape), r = p->r, g = slices / r;
    double rows = ceil(c / (g * p->d)) * g * p->d;
    double bytes = r * s->shape.experts * rows * s->shape.model_dim * 2;
    double hidden = s->shape.hidden_dim / r, local = shape_local_experts(&s->shape);
    double weights = local * 4 * s->shape.model_dim * hidden / g;
    double exchange = exchange_s(s, p->a, bytes / p->d);
    double whole = p->a == MOE_A2A_RAIL ? 2 * rail_between_s(s, c) : 0;
    double expert = gemm_s(s, local, s->shape.ranks * rows / (g * p->d), hidden);
    double copies = bytes / r / s->copy * (2 + 1.5 * (r > 1 ? r : 0));
    double t =
        gather_s(s, g, weights) + copies + pipeline_s(s, p->d, p->a, exchange, expert) + whole;

    if (train)
        t += 0.5 * gather_s(s, g, weights) + copies +
             pipeline_s(s, p->d, p->a, exchange, 2.1 * expert) + whole;
    return t;
}

static double local_s(const struct surface *s, double c, bool train)
{
    double w = s->shape.ranks, e = s->shape.experts;
    double weights = e / w * 4 * s->shape.model_dim * s->shape.hidden_dim;
    double expert = gemm_s(s, e, c, s->shape.hidden_dim);
    double copies = e * c * s->shape.model_dim * 4 / s->copy;

    return gather_s(s, w, weights) * (train ? 1.5 : 1) + expert * (train ? 3.1 : 1) +
           copies * (train ? 2 : 1);
}

/* Smooth in log2 c, independent between arms. */
static double ripple(const struct surface *s, double c, int arm)
{
    double at = log2(c), low = floor(at), x = at - low;
    uint64_t key = random_bits(s->seed, 1000 + (uint64_t)arm);
    double from = normal_draw(key, (uint64_t)low), to = normal_draw(key, (uint64_t)low + 1);
    double blend = 0.5 - 0.5 * cos(pi * x);

    return s->ripple * (from * (1 - blend) + to * blend);
}

static double pocket_factor(const struct surface *s, double c, const struct moe_plan *plan)
{
    double factor = 1;

    for (int i = 0; i < s->pocket_count; i++) {
        const struct pocket *p = &s->pockets[i];

        if (plan->r >= p->r_low && plan->r <= p->r_high && c >= p->c_low && c <= p->c_high &&
            (!plan->r || (plan->d == p->d && plan->a == p->a)))
            factor *= p->factor;
    }
    return factor;
}

/* ---- a machine that no formula describes */

/* Of mean 0 and deviation 1.  Periods are 3 to 15 doublings of c, and capacities span 8: what is
 * fast at both ends may be slow between them. */
static double wave(uint64_t key, double doublings)
{
    double sum = 0;

    for (uint64_t i = 0; i < 6; i += 2) {
        double period = 3 * pow(5, uniform_draw(key, i));

        sum += cos(2 * pi * (doublings / period + uniform_draw(key, i + 1)));
    }
    return sum * sqrt(2. / 3);
}

/* Plans that share r, d or a share a function of c, and so do those that share two of them: d may
 * help with one algorithm only. */
static double waves(uint64_t key, const struct moe_plan *p, double doublings)
{
    enum { OF_R = 1, OF_D = 2, OF_A = 4, ALL = 7 };
    static const double size[ALL + 1] = {
        [OF_R] = 0.8,        [OF_D] = 0.5,        [OF_A] = 0.5, [OF_R | OF_D] = 0.4,
        [OF_R | OF_A] = 0.4, [OF_D | OF_A] = 0.6, [ALL] = 0.2,
    };
    double sum = 0;

    for (uint64_t axes = 1; axes <= ALL; axes++) {
        uint64_t of = random_bits(key, axes);

        of = random_bits(of, axes & OF_R ? p->r : 0);
        of = random_bits(of, axes & OF_D ? p->d : 0);
        of = random_bits(of, axes & OF_A ? p->a : 0);
        sum += size[axes] * wave(of, doublings);
    }
    return sum;
}

/* A protocol switches at a size of messages, a cache is too small from a size of chunks on, kernels
 * take whole tiles of rows.  Where, and how much that costs, each algorithm has for itself. */
static double kinks(uint64_t key, const struct moe_plan *p, double doublings)
{
    struct draw draw = { .key = random_bits(key, 100 + p->a) };
    double rows = pow(2, doublings) / p->d, message = rows * (p->r ? p->r : 1);
    double switches = log_uniform(&draw, 1, 256), jump = 0.7 * normal_draw(draw.key, 100);
    double cache = log_uniform(&draw, 1, 256), spilt = fmin(fmax(log2(rows / cache), 0), 1);
    double tile = log_uniform(&draw, 1, 16), wasted = ceil(rows / tile) * tile / rows - 1;

    return (message > switches ? jump : 0) + uniform_draw(draw.key, 99) * spilt + fmin(wasted, 1);
}

/* The level is the default plan's by the formulas above, for all plans: it favours none. */
static double foreign_ns(const struct surface *s, double c, const struct moe_plan *p)
{
    const struct moe_plan usual = plan_default(NULL);
    uint64_t key = random_bits(s->seed, 13);
    double doublings = log2(c * s->shape.experts / 512); /* since 256 tokens per rank */
    double level = sharded_s(s, c, &usual, s->shape.pass == MOE_TRAIN) + s->step_s;
    double differs = s->foreign_sd * (waves(key, p, doublings) + kinks(key, p, doublings));
    double ns = level * exp(differs) * 1e9;

    assert(isfinite(ns) && ns > 0);
    return ns;
}

double surface_smooth_ns(const struct surface *surface, double capacity, int arm)
{
    const struct moe_plan *plan = &surface->arms[arm];
    bool train = surface->shape.pass == MOE_TRAIN;
    double t;

    if (surface->foreign_sd > 0)
        return foreign_ns(surface, capacity, plan);
    t = plan->r ? sharded_s(surface, capacity, plan, train) : local_s(surface, capacity, train);
    return (t + surface->step_s) * pocket_factor(surface, capacity, plan) * 1e9;
}

double surface_ns(const struct surface *surface, double capacity, int arm)
{
    if (surface->alike)
        return 1e4 * (1e3 + capacity);
    return surface_smooth_ns(surface, capacity, arm) * exp(ripple(surface, capacity, arm));
}

bool surface_fits(const struct surface *surface, double capacity, int arm)
{
    const struct moe_shape *p = &surface->shape;
    double r = surface->arms[arm].r, train = p->pass == MOE_TRAIN ? 2 : 1;
    double matrix = 4.0 * p->model_dim * p->hidden_dim, tokens = 2.0 * capacity * p->model_dim;
    double weights = r > 0 ? matrix * shape_local_experts(p) / r : matrix * p->experts;

    if (surface->foreign_sd > 0 && plan_is_default(&surface->arms[arm], NULL))
        return true;
    return train * (weights + p->experts * tokens * (1 + 2 * r)) <= surface->memory_bytes;
}

/* ---- a bucket of it */

struct search_setup surface_setup(const struct surface *surface, uint64_t seed)
{
    return (struct search_setup){ .shape = surface->shape,
                                  .arms = surface->arms,
                                  .arm_count = surface->arm_count,
                                  .machine = surface->machine,
                                  .seed = seed };
}

double surface_luck(const struct surface *surface, uint64_t capacity, int arm, uint64_t launch)
{
    uint64_t key = random_bits(random_bits(surface->seed, 11), capacity);

    return normal_draw(random_bits(key, launch), (uint64_t)arm);
}

bool surface_bucket(const struct surface *surface, double capacity, double luck,
                    struct true_bucket *out)
{
    struct moe_plan usual = plan_default(NULL);

    out->capacity = (uint64_t)capacity;
    out->arm_count = surface->arm_count;
    out->default_arm = arms_find(surface->arms, surface->arm_count, &usual);
    out->best_ns = INFINITY;
    for (int i = 0; i < (int)surface->arm_count; i++) {
        out->ns[i] = out->seen_ns[i] = surface_ns(surface, capacity, i);
        if (luck > 0)
            out->seen_ns[i] *= exp(luck * surface_luck(surface, out->capacity, i, 0));
        out->usable[i] = surface_fits(surface, capacity, i);
        if (out->usable[i])
            out->best_ns = fmin(out->best_ns, out->ns[i]);
    }
    return isfinite(out->best_ns);
}
