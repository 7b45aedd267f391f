/* Prints what strategies did, a line each. */
#include "tally.h"

#include <stdio.h>

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
