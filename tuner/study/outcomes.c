/* Means and quantiles of what strategies did. */
#include "outcomes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

double column_at(const struct column *c, double q)
{
    double *sorted = malloc((c->count + 1) * sizeof(*sorted)), value = NAN;

    if (!sorted)
        abort();
    if (c->count) {
        memcpy(sorted, c->values, c->count * sizeof(*sorted));
        qsort(sorted, c->count, sizeof(*sorted), ascending);
        value = sorted[(size_t)(q * (double)(c->count - 1) + 0.5)];
    }
    free(sorted);
    return value;
}

void summary_add(struct summary *s, const struct outcome *o)
{
    column_add(&s->regret, 100 * o->regret);
    column_add(&s->harm, 100 * o->harm);
    column_add(&s->samples, o->samples);
    column_add(&s->searched, o->searched);
    column_add(&s->lost, o->lost);
    if (o->first)
        column_add(&s->first_samples, o->samples);
    if (o->bounded) {
        column_add(&s->bound, 100 * o->bound);
        s->covered += o->regret <= o->bound + 1e-12;
    }
    s->best += o->regret <= 0;
    s->undecided += o->undecided;
    if (o->undecided && !(o->regret <= s->hidden))
        s->hidden = o->regret;
    s->harmed += o->harm > 0.01;
    s->hurt += o->harm > 0.05;
}

void summary_free(struct summary *s)
{
    free(s->regret.values);
    free(s->harm.values);
    free(s->samples.values);
    free(s->searched.values);
    free(s->first_samples.values);
    free(s->lost.values);
    free(s->bound.values);
}
