/* Weighted least squares over every set of unknowns that may be zero, reweighted until equations
 * that are far off weigh little. */
#include "least_squares.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS = 30, ALL = UNKNOWNS_MAX };

/* Columns are scaled to length 1; a pivot below this is rounding. */
static const double least_pivot = 1e-9;

/* Deviations below this share count as if they were this large. */
static const double least_deviation = 2e-3;

struct problem {
    const struct equation *rows;
    size_t count;
    int unknowns;
    double scale[ALL]; /* of each column */
};

static double part(const struct problem *p, size_t row, int column)
{
    return p->rows[row].part[column] / p->scale[column];
}

static double deviation(const struct problem *p, size_t row, const double *x)
{
    double sum = -1;

    for (int i = 0; i < p->unknowns; i++)
        sum += part(p, row, i) * x[i];
    return sum;
}

static double weight(const struct problem *p, size_t row, const double *x)
{
    return p->rows[row].weight / fmax(fabs(deviation(p, row, x)), least_deviation);
}

static double cost(const struct problem *p, const double *weights_from, const double *x)
{
    double sum = 0;

    for (size_t row = 0; row < p->count; row++) {
        double off = deviation(p, row, x);

        sum += weight(p, row, weights_from) * off * off;
    }
    return sum;
}

/* Normal equations of the columns in `set`; the others stand for x = 0. */
static void set_up(const struct problem *p, const double *weights_from, unsigned set,
                   double m[ALL][ALL + 1])
{
    memset(m, 0, ALL * sizeof(*m));
    for (size_t row = 0; row < p->count; row++) {
        double w = weight(p, row, weights_from);

        for (int i = 0; i < p->unknowns; i++) {
            for (int j = 0; j < p->unknowns; j++)
                m[i][j] += w * part(p, row, i) * part(p, row, j);
            m[i][ALL] += w * part(p, row, i);
        }
    }
    for (int i = 0; i < p->unknowns; i++)
        for (int j = 0; j < p->unknowns; j++)
            if (i != j && !(set >> i & set >> j & 1))
                m[i][j] = 0;
    for (int i = 0; i < p->unknowns; i++)
        if (!(set >> i & 1))
            m[i][ALL] = 0;
}

/* Cholesky would do; elimination needs no second half.  The matrix is symmetric and not negative,
 * so its diagonal holds good pivots. */
static bool eliminate(double m[ALL][ALL + 1], int n, double *x)
{
    double diagonal[ALL];

    for (int i = 0; i < n; i++)
        diagonal[i] = m[i][i];
    for (int i = 0; i < n; i++) {
        if (!(m[i][i] > least_pivot * diagonal[i]))
            return false;
        for (int j = i + 1; j < n; j++) {
            double factor = m[j][i] / m[i][i];

            for (int k = i; k < ALL; k++)
                m[j][k] -= factor * m[i][k];
            m[j][ALL] -= factor * m[i][ALL];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        x[i] = m[i][ALL];
        for (int j = i + 1; j < n; j++)
            x[i] -= m[i][j] * x[j];
        x[i] /= m[i][i];
    }
    return true;
}

static bool is_legal(const double *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!(x[i] >= 0))
            return false;
    return true;
}

/* The best of all sets of unknowns that are not zero: with four of them, fifteen. */
static bool solve(const struct problem *p, const double *weights_from, double *out)
{
    double least = INFINITY, m[ALL][ALL + 1], x[ALL];

    for (unsigned set = (1u << p->unknowns) - 1; set; set--) {
        double now;

        set_up(p, weights_from, set, m);
        if (!eliminate(m, p->unknowns, x)) {
            if (set == (1u << p->unknowns) - 1)
                return false; /* not all are determined */
            continue;
        }
        if (!is_legal(x, p->unknowns))
            continue;
        now = cost(p, weights_from, x);
        if (now < least) {
            least = now;
            memcpy(out, x, sizeof(x));
        }
    }
    return isfinite(least);
}

static bool find_scale(struct problem *p)
{
    for (int i = 0; i < p->unknowns; i++) {
        double sum = 0;

        for (size_t row = 0; row < p->count; row++)
            sum += p->rows[row].part[i] * p->rows[row].part[i];
        p->scale[i] = sqrt(sum);
        if (!(p->scale[i] > 0 && isfinite(p->scale[i])))
            return false;
    }
    return p->count > 0;
}

bool least_deviations(const struct equation *equations, size_t count, int unknowns, double *x)
{
    struct problem p = { .rows = equations, .count = count, .unknowns = unknowns };
    double now[ALL] = { 0 }, next[ALL] = { 0 };

    if (!find_scale(&p))
        return false;
    for (int i = 0; i < ITERATIONS; i++) { /* at x = 0 all deviations are 1 and all weights equal */
        if (!solve(&p, now, next))
            return false;
        memcpy(now, next, sizeof(now));
    }
    for (int i = 0; i < unknowns; i++)
        x[i] = now[i] / p.scale[i];
    return true;
}
