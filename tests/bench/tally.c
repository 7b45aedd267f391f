/* Adds up the results of strategies, and prints one line for each. */
#include "tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bucket_outcome entry_outcome(const struct true_bucket *bucket, int arm,
                                    const struct entry_row *entry)
{
    struct bucket_outcome out = true_bucket_outcome(bucket, arm);

    out.samples = entry->samples;
    out.bounded = !isnan(entry->bound);
    out.bound = entry->bound;
    out.undecided = entry_is_undecided(entry);
    return out;
}

/* ---- means and quantiles */

void column_add(struct value_column *c, double value)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->values = realloc(c->values, c->room * sizeof(*c->values));
        if (!c->values)
            abort();
    }
    c->values[c->count++] = value;
}

double column_mean(const struct value_column *c)
{
    double sum = 0;

    for (size_t i = 0; i < c->count; i++)
        sum += c->values[i];
    return c->count ? sum / (double)c->count : NAN;
}

double column_at(const struct value_column *c, double q)
{
    double *sorted = malloc((c->count + 1) * sizeof(*sorted)), value = NAN;

    if (!sorted)
        abort();
    if (c->count) {
        memcpy(sorted, c->values, c->count * sizeof(*sorted));
        sort_doubles(sorted, c->count);
        value = sorted[(size_t)(q * (double)(c->count - 1) + 0.5)];
    }
    free(sorted);
    return value;
}

void summary_add(struct summary *s, const struct bucket_outcome *o)
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

/* ---- lines */

const char *const summary_heading =
    "strategy                cases   mean%%   +-    p95%%   p99%%   +-    max%%  harm>1%%  +-    "
    ">5%%"
    "   steps = search + decision (median)  first   lost   U95%%  covered%%\n";

double column_p99(const struct value_column *c)
{
    return column_at(c, 0.99);
}

double column_harmed(const struct value_column *c)
{
    size_t harmed = 0;

    for (size_t i = 0; i < c->count; i++)
        harmed += c->values[i] > 1;
    return 100 * (double)harmed / (double)c->count;
}

double column_error(const struct value_column *column, statistic *of)
{
    enum { PARTS = 10 };
    struct value_column rest = { .values = malloc((column->count + 1) * sizeof(*rest.values)) };
    double without[PARTS], mean = 0, sum = 0;

    if (!rest.values)
        abort();
    for (size_t part = 0; part < PARTS; part++) {
        size_t first = part * column->count / PARTS, end = (part + 1) * column->count / PARTS;

        rest.count = column->count - (end - first);
        memcpy(rest.values, column->values, first * sizeof(*rest.values));
        memcpy(rest.values + first, column->values + end,
               (column->count - end) * sizeof(*rest.values));
        without[part] = of(&rest);
        mean += without[part] / PARTS;
    }
    free(rest.values);
    for (size_t part = 0; part < PARTS; part++)
        sum += (without[part] - mean) * (without[part] - mean);
    return sqrt(sum * (PARTS - 1) / PARTS);
}

bool gain_holds(const struct gain *claimed, double gain)
{
    return claimed->low <= gain && gain <= claimed->high;
}

void claims_add(struct claims *c, const struct gain *claimed, double gain, double further)
{
    c->count++;
    c->held += gain_holds(claimed, gain);
    c->held_further += further;
    c->half += (claimed->high - claimed->low) / 2;
}

void summary_print(const char *name, struct summary *s)
{
    double share = 100.0 / (double)s->regret.count, searched = column_mean(&s->searched);
    double of_mean = column_error(&s->regret, column_mean),
           of_p99 = column_error(&s->regret, column_p99);

    printf("%-22s %6zu  %6.3f %5.3f %6.2f %6.2f %5.2f %6.1f  %7.2f %5.2f %5.2f", name,
           s->regret.count, column_mean(&s->regret), of_mean, column_at(&s->regret, 0.95),
           column_at(&s->regret, 0.99), of_p99, column_at(&s->regret, 1), share * (double)s->harmed,
           column_error(&s->harm, column_harmed), share * (double)s->hurt);
    printf("  %6.1f   %6.1f %8.1f %10.0f %7.1f %6.1f", column_mean(&s->samples), searched,
           column_mean(&s->samples) - searched, column_at(&s->samples, 0.5),
           column_mean(&s->first_samples), column_mean(&s->lost));
    if (s->bound.count)
        printf("  %6.2f  %8.1f", column_mean(&s->bound),
               100.0 * (double)s->covered / (double)s->bound.count);
    printf("\n");
    fflush(stdout);
}
