/* Means and quantiles of what strategies did. */
#include "tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void column_add(struct column *c, double value)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->values = realloc(c->values, c->room * sizeof(*c->values));
        if (!c->values)
            abort();
    }
    c->values[c->count++] = value;
}

double column_mean(const struct column *c)
{
    double sum = 0;

    for (size_t i = 0; i < c->count; i++)
        sum += c->values[i];
    return c->count ? sum / (double)c->count : NAN;
}

int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double column_at(struct column *c, double q)
{
    if (!c->count)
        return NAN;
    qsort(c->values, c->count, sizeof(*c->values), ascending);
    return c->values[(size_t)(q * (double)(c->count - 1) + 0.5)];
}

void summary_add(struct summary *s, const struct outcome *o)
{
    column_add(&s->regret, 100 * o->regret);
    column_add(&s->samples, o->samples);
    column_add(&s->lost, o->lost);
    if (o->first)
        column_add(&s->first_samples, o->samples);
    if (o->bounded) {
        column_add(&s->bound, 100 * o->bound);
        s->covered += o->regret <= o->bound + 1e-12;
    }
    s->harmed += o->harm > 0.01;
    s->hurt += o->harm > 0.05;
}

void summary_free(struct summary *s)
{
    free(s->regret.values);
    free(s->samples.values);
    free(s->first_samples.values);
    free(s->lost.values);
    free(s->bound.values);
}

const char *const summary_heading =
    "strategy                cases   mean%%   p95%%   p99%%   max%%  harm>1%%   >5%%   steps"
    " (median)  first   lost   U95%%  covered%%\n";

void summary_print(const char *name, struct summary *s)
{
    double share = 100.0 / (double)s->regret.count;

    printf("%-22s %6zu  %6.3f %6.2f %6.2f %6.1f  %7.2f %5.2f  %6.1f %8.0f %6.1f %6.1f", name,
           s->regret.count, column_mean(&s->regret), column_at(&s->regret, 0.95),
           column_at(&s->regret, 0.99), column_at(&s->regret, 1), share * (double)s->harmed,
           share * (double)s->hurt, column_mean(&s->samples), column_at(&s->samples, 0.5),
           column_mean(&s->first_samples), column_mean(&s->lost));
    if (s->bound.count)
        printf("  %6.2f  %8.1f", column_mean(&s->bound),
               100.0 * (double)s->covered / (double)s->bound.count);
    printf("\n");
    fflush(stdout);
}
