/* A Gaussian process over arms: a Cholesky factor that grows by a row with each sample, and the
 * means and variances of all arms that follow from it. */
#include "gaussian.h"

#include "distribution.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int gaussian_open(size_t arms, size_t rows_max, double least, struct gaussian *g)
{
    size_t stride = (arms + 3) / 4 * 4;

    *g = (struct gaussian){ .rows_max = rows_max, .least = least };
    g->mean = calloc(2 * stride + rows_max + 1, sizeof(double));
    g->arm_rows = calloc(rows_max * stride + 1, sizeof(double));
    g->factor = calloc(rows_max * rows_max, sizeof(double));
    if (!g->mean || !g->arm_rows || !g->factor)
        return fail(ERR_NOMEM, "%zu samples of %zu plans in a search", rows_max, arms);
    g->variance = g->mean + stride;
    g->residuals = g->variance + stride;
    gaussian_reset(g, arms);
    return OK;
}

void gaussian_close(struct gaussian *g)
{
    free(g->mean);
    free(g->arm_rows);
    free(g->factor);
}

void gaussian_reset(struct gaussian *g, size_t arms)
{
    g->rows = 0;
    g->arms = arms;
    g->stride = (arms + 3) / 4 * 4;
}

double capacity_correlation(double log_c, double other)
{
    double apart = log_c - other;

    return apart == 0 ? 1 : exp(-apart * apart / 4.5);
}

/* The compiler turns these loops into vector instructions. */
void subtract_scaled(double *restrict from, const double *restrict what, double factor,
                     size_t padded)
{
    for (size_t i = 0; i < padded; i += 4) {
        from[i] -= factor * what[i];
        from[i + 1] -= factor * what[i + 1];
        from[i + 2] -= factor * what[i + 2];
        from[i + 3] -= factor * what[i + 3];
    }
}

double dot(const double *a, const double *b, size_t n)
{
    double sum[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += a[i + (size_t)k] * b[i + (size_t)k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

double *gaussian_sample_row(struct gaussian *g)
{
    return g->factor + g->rows * g->rows_max;
}

double *gaussian_arm_row(struct gaussian *g)
{
    return g->arm_rows + g->rows * g->stride;
}

void gaussian_add(struct gaussian *g, double residual)
{
    double *row = gaussian_sample_row(g), *arm_rows = gaussian_arm_row(g), scale;
    size_t n = g->rows++;

    for (size_t j = 0; j < n; j++) {
        const double *other = g->factor + j * g->rows_max;

        row[j] = (row[j] - dot(row, other, j)) / other[j];
    }
    row[n] = safe_deviation(row[n] - dot(row, row, n), g->least);
    g->residuals[n] = (residual - dot(row, g->residuals, n)) / row[n];
    scale = 1 / row[n];
    for (size_t i = g->arms; i < g->stride; i++)
        arm_rows[i] = 0; /* padding; the caller may have left anything there */
    for (size_t k = 0; k < n; k++)
        subtract_scaled(arm_rows, g->arm_rows + k * g->stride, row[k], g->stride);
    for (size_t i = 0; i < g->stride; i++)
        arm_rows[i] *= scale;
    subtract_scaled(g->mean, arm_rows, -g->residuals[n], g->stride);
    for (size_t i = 0; i < g->arms; i++)
        g->variance[i] -= arm_rows[i] * arm_rows[i];
}

double gaussian_covariance(const struct gaussian *g, double before, int a, int b)
{
    for (size_t k = 0; k < g->rows; k++)
        before -= g->arm_rows[k * g->stride + (size_t)a] * g->arm_rows[k * g->stride + (size_t)b];
    return before;
}

double gaussian_difference_sd(const struct gaussian *g, double before, int a, int b)
{
    return safe_deviation(
        g->variance[a] + g->variance[b] - 2 * gaussian_covariance(g, before, a, b), g->least);
}

void gaussian_solve_lower(const struct gaussian *g, double *x)
{
    for (size_t i = 0; i < g->rows; i++) {
        const double *row = g->factor + i * g->rows_max;

        x[i] = (x[i] - dot(row, x, i)) / row[i];
    }
}

void gaussian_weights(const struct gaussian *g, double *out)
{
    memcpy(out, g->residuals, g->rows * sizeof(*out));
    for (size_t i = g->rows; i-- > 0;) {
        const double *row = g->factor + i * g->rows_max;

        out[i] /= row[i];
        for (size_t j = 0; j < i; j++)
            out[j] -= row[j] * out[i];
    }
}

double gaussian_precision(const struct gaussian *g, size_t at, double *scratch)
{
    size_t n = g->rows - at;
    double sum = 0;

    memset(scratch, 0, n * sizeof(*scratch));
    scratch[0] = 1;
    for (size_t i = 0; i < n; i++) {
        const double *row = g->factor + (at + i) * g->rows_max + at;

        scratch[i] = (scratch[i] - dot(row, scratch, i)) / row[i];
        sum += scratch[i] * scratch[i];
    }
    return sum;
}
