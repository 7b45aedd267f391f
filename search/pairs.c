/* Huber's mean, and Student's intervals. */
#include "pairs.h"

#include "stats.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static double clipped(double value, double limit)
{
    return fmax(-limit, fmin(limit, value));
}

/* Huber's: values near the centre count as they are, those beyond as if they lay at the limit.  A
 * median would do against outliers but needs half as many samples again for the same interval; a
 * trimmed mean of four rounds would trim two of them. */
static double huber_centre(const double *values, uint32_t count, double limit)
{
    double sorted[PAIRS_MAX], centre;

    memcpy(sorted, values, count * sizeof(*sorted));
    centre = median_of(sorted, count);
    for (int pass = 0; pass < 20; pass++) {
        double sum = 0;

        for (uint32_t i = 0; i < count; i++)
            sum += clipped(values[i] - centre, limit);
        centre += sum / count;
    }
    return centre;
}

/* The values that a plain mean and its plain variance would have to be taken of to get Huber's:
 * with them halves and totals are sums, and one outlier in a half of two cycles is harmless. */
static void straighten(double *values, uint32_t count, double limit)
{
    double centre = huber_centre(values, count, limit);
    uint32_t inside = 0;

    for (uint32_t i = 0; i < count; i++)
        inside += fabs(values[i] - centre) <= limit;
    for (uint32_t i = 0; i < count; i++)
        values[i] = centre + clipped(values[i] - centre, limit) * count / (inside ? inside : 1);
}

struct mean mean_of_pairs(double *values, uint32_t count, double limit)
{
    struct mean m = { .count = count };

    straighten(values, count, limit);
    for (uint32_t i = 0; i < count; i++) {
        m.mean += values[i];
        m.half[i % 2] += values[i];
        m.half_count[i % 2]++;
    }
    m.mean /= count;
    m.half[0] /= m.half_count[0];
    m.half[1] /= m.half_count[1];
    for (uint32_t i = 0; i < count; i++)
        m.variance += (values[i] - m.mean) * (values[i] - m.mean) / (count - 1);
    return m;
}

void total_add_variance(struct total *t, double variance, uint32_t count)
{
    t->variance += variance;
    t->spent += variance * variance / (count - 1);
}

/* Between the rows 1 / freedom is nearly a straight line. */
double student(double freedom, enum level level)
{
    static const struct {
        double freedom, at[LEVELS];
    } rows[] = { { 1, { 12.706, 636.62 } }, { 2, { 4.303, 31.599 } }, { 3, { 3.182, 12.924 } },
                 { 4, { 2.776, 8.610 } },   { 5, { 2.571, 6.869 } },  { 7, { 2.365, 5.408 } },
                 { 10, { 2.228, 4.587 } },  { 20, { 2.086, 3.850 } }, { 1e9, { 1.960, 3.291 } } };
    size_t i = 1;
    double at;

    freedom = fmax(1, fmin(1e9, freedom));
    while (rows[i].freedom < freedom)
        i++;
    at = (1 / rows[i - 1].freedom - 1 / freedom) / (1 / rows[i - 1].freedom - 1 / rows[i].freedom);
    return rows[i - 1].at[level] + at * (rows[i].at[level] - rows[i - 1].at[level]);
}

struct range range_of(const struct total *t, enum level level)
{
    double width = 0;

    if (t->variance > 0)
        width = student(t->variance * t->variance / t->spent, level) * sqrt(t->variance);
    return (struct range){ t->mean, t->mean - width, t->mean + width };
}
