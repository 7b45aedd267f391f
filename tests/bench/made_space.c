/* Draws a made-up space: its axes, and what each of their values costs. */
#include "made_space.h"

#include "random.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>

enum { AXES_MOST = 6, VALUES_MOST = 12 };

/* What a part of a step takes, as logarithms. */
struct effects {
    double alone[AXES_MOST][VALUES_MOST];
    double pair[AXES_MOST][AXES_MOST][VALUES_MOST][VALUES_MOST];
    double level;
};

/* A step is one part, or three: the longer of two that overlap, and a third. */
enum { PARTS = 3 };

struct made {
    size_t axes, values[AXES_MOST];
    bool words[AXES_MOST], in_parts;
    struct effects part[PARTS];
    double left_out; /* the share of combinations that are not legal */
};

static uint64_t drawn(uint64_t *at)
{
    return (*at)++;
}

/* Smooth over numbers: a bowl with its least somewhere; of words anything. */
static void draw_alone(const struct made *m, struct effects *e, size_t a, uint64_t seed,
                       uint64_t *at)
{
    double strength = uniform_draw(seed, drawn(at)) < 0.25 ? 0.01 : 0.25;
    double least = uniform_draw(seed, drawn(at)), tilt = normal_draw(seed, drawn(at));

    for (size_t v = 0; v < m->values[a]; v++) {
        double x = (double)v / (double)(m->values[a] - 1) - least;

        e->alone[a][v] = m->words[a] ? strength * normal_draw(seed, drawn(at))
                                     : strength * (3 * x * x + 0.3 * tilt * x);
    }
    if (uniform_draw(seed, drawn(at)) < 0.2) /* a value that goes badly wrong */
        e->alone[a][random_bits(seed, drawn(at)) % m->values[a]] += 0.8;
}

static double place(const struct made *m, size_t axis, size_t v, double of_word)
{
    return m->words[axis] ? of_word : (double)v / (double)(m->values[axis] - 1) - 0.5;
}

/* Where the least of one lies depends on the other. */
static void draw_pair(const struct made *m, struct effects *e, size_t a, size_t b, uint64_t seed,
                      uint64_t *at)
{
    double strength = uniform_draw(seed, drawn(at)) < 0.5 ? 0 : 0.25;
    double of_a[VALUES_MOST], of_b[VALUES_MOST];

    for (size_t v = 0; v < VALUES_MOST; v++) {
        of_a[v] = 0.6 * normal_draw(seed, drawn(at));
        of_b[v] = 0.6 * normal_draw(seed, drawn(at));
    }
    for (size_t i = 0; i < m->values[a]; i++)
        for (size_t j = 0; j < m->values[b]; j++)
            e->pair[a][b][i][j] = strength * place(m, a, i, of_a[i]) * place(m, b, j, of_b[j]);
}

/* Axes until there are as many combinations as plans are wanted. */
static void draw_axes(struct made *m, uint64_t seed, size_t plans, uint64_t *at)
{
    double combinations = 1, wanted;

    m->left_out = uniform_draw(seed, drawn(at)) < 0.5 ? 0 : 0.3;
    wanted = (double)plans / (1 - m->left_out);
    while (combinations < wanted && m->axes < AXES_MOST) {
        size_t left = (size_t)ceil(wanted / combinations);
        size_t values = 2 + random_bits(seed, drawn(at)) % 7;

        m->words[m->axes] = uniform_draw(seed, drawn(at)) < 0.4;
        if (m->axes + 1 == AXES_MOST)
            values = VALUES_MOST;
        m->values[m->axes] = values > left ? (left < 2 ? 2 : left) : values;
        combinations *= (double)m->values[m->axes++];
    }
}

static void draw_effects(const struct made *m, struct effects *e, uint64_t seed, uint64_t *at)
{
    e->level = 0.5 * normal_draw(seed, drawn(at));
    for (size_t a = 0; a < m->axes; a++)
        draw_alone(m, e, a, seed, at);
    for (size_t a = 0; a < m->axes; a++)
        for (size_t b = a + 1; b < m->axes; b++)
            draw_pair(m, e, a, b, seed, at);
}

static void draw(struct made *m, uint64_t seed, size_t plans)
{
    uint64_t at = 0;

    draw_axes(m, seed, plans, &at);
    m->in_parts = uniform_draw(seed, drawn(&at)) < 0.5;
    for (int i = 0; i < PARTS; i++)
        draw_effects(m, &m->part[i], seed, &at);
}

static double part(const struct made *m, const struct effects *e, const uint16_t *value)
{
    double sum = log(1e7) + e->level;

    for (size_t a = 0; a < m->axes; a++) {
        sum += e->alone[a][value[a]];
        for (size_t b = a + 1; b < m->axes; b++)
            sum += e->pair[a][b][value[a]][value[b]];
    }
    return exp(sum);
}

static double step(const struct made *m, const uint16_t *value)
{
    double first = part(m, &m->part[0], value);

    return m->in_parts ? fmax(first, part(m, &m->part[1], value)) + part(m, &m->part[2], value)
                       : first;
}

static void place_axes(const struct made *m, struct points *points)
{
    double numbers[VALUES_MOST];

    points->axes = m->axes;
    for (size_t a = 0; a < m->axes; a++) {
        for (size_t v = 0; v < m->values[a]; v++)
            numbers[v] = (double)v + 1;
        points_place(&points->axis[a], numbers, m->values[a]);
        points->axis[a].words = m->words[a];
    }
}

/* The n-th combination's values. */
static void combination(const struct made *m, size_t n, uint16_t *value)
{
    for (size_t a = 0; a < m->axes; a++) {
        value[a] = (uint16_t)(n % m->values[a]);
        n /= m->values[a];
    }
}

void made_space_open(uint64_t seed, size_t plans, struct made_space *out)
{
    static const double ripple = 0.01;
    struct made m = { 0 };
    size_t all = 1;

    draw(&m, seed, plans);
    for (size_t a = 0; a < m.axes; a++)
        all *= m.values[a];
    *out = (struct made_space){ .best_ns = INFINITY };
    place_axes(&m, &out->points);
    out->points.value = calloc(all * m.axes, sizeof(uint16_t));
    if (!out->points.value)
        exit(1);
    for (size_t n = 0; n < all && out->points.count < SEARCH_ARMS_MAX; n++) {
        size_t i = out->points.count;
        uint16_t *value = out->points.value + i * m.axes;

        if (n && uniform_draw(seed ^ 1, n) < m.left_out)
            continue;
        combination(&m, n, value);
        out->ns[i] = step(&m, value) * exp(ripple * normal_draw(seed ^ 2, n));
        out->best_ns = fmin(out->best_ns, out->ns[i]);
        out->points.count++;
    }
}

void made_space_close(struct made_space *space)
{
    points_close(&space->points);
}
