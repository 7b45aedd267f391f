/* Which plans a table holds, and in how many buckets. */
#include "plan_shares.h"

#include <stdlib.h>

struct share {
    struct moe_plan plan;
    uint32_t measured, inferred;
};

enum { SHARES_MAX = 16 }; /* rows of the plot; the rest is one more */

static int by_count(const void *left, const void *right)
{
    const struct share *a = left, *b = right;
    uint32_t x = a->measured + a->inferred, y = b->measured + b->inferred;

    return x != y ? (x < y) - (x > y) : plan_order(&a->plan, &b->plan);
}

static struct share *share_of(const struct moe_plan *plan, struct share *shares, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (plan_equal(&shares[i].plan, plan))
            return &shares[i];
    shares[*count] = (struct share){ .plan = *plan };
    return &shares[(*count)++];
}

static struct share *count_shares(const struct scope *scope, size_t *count)
{
    struct share *shares;
    size_t room = 1;

    for (size_t i = 0; i < scope->count; i++)
        room += scope->layers[i].entry_count;
    shares = calloc(room, sizeof(*shares));
    *count = 0;
    for (size_t i = 0; i < scope->count && shares; i++)
        for (size_t j = 0; j < scope->layers[i].entry_count; j++) {
            const struct entry_row *e = &scope->layers[i].entries[j];
            struct share *share = share_of(&e->plan, shares, count);

            share->measured += !e->inferred;
            share->inferred += e->inferred;
        }
    if (*count)
        qsort(shares, *count, sizeof(*shares), by_count);
    return shares;
}

struct bands series_bands(const struct layer_facts *layer)
{
    struct scope scope = { layer, 1 };
    struct bands bands = { .count = 0 };
    size_t count;
    struct share *shares = count_shares(&scope, &count);

    for (size_t i = 0; i < count && i < SERIES_BANDS; i++) {
        bands.plans[i] = shares[i].plan;
        snprintf(bands.names[bands.count++], PLAN_TEXT_BYTES, "%s", PLAN_WORDS(&shares[i].plan));
    }
    if (count > SERIES_BANDS)
        snprintf(bands.names[bands.count++], sizeof(bands.names[0]), "%zu more plans",
                 count - SERIES_BANDS);
    free(shares);
    return bands;
}

int series_band(const struct bands *bands, const struct moe_plan *plan)
{
    int i = 0;

    while (i < bands->count && i < SERIES_BANDS && !plan_equal(&bands->plans[i], plan))
        i++;
    return i;
}

void series_distribution(struct series *s)
{
    size_t count;
    struct share *shares = count_shares(s->scope, &count), rest = { 0 };
    uint32_t at = (uint32_t)(count < SHARES_MAX ? count : SHARES_MAX + 1);

    for (size_t i = 0; i < count; i++) {
        s->extent.rows += shares[i].measured + shares[i].inferred;
        if (i >= SHARES_MAX) {
            rest.measured += shares[i].measured;
            rest.inferred += shares[i].inferred;
            continue;
        }
        fprintf(s->to, "%u %u %u \"%s\"\n", at--, shares[i].measured, shares[i].inferred,
                PLAN_WORDS(&shares[i].plan));
    }
    if (rest.measured + rest.inferred)
        fprintf(s->to, "%u %u %u \"%zu more plans\"\n", at, rest.measured, rest.inferred,
                count - SHARES_MAX);
    free(shares);
}
