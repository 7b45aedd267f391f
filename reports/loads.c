/* Collects samples by load, of the two plans that do the same products with and without padding,
 * and writes their data file. */
#include "loads.h"

#include "array.h"
#include "plan.h"
#include "series.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of one bucket: a plan's samples under one load. */
struct pile {
    char load[LOAD_NAME_BYTES];
    uint32_t experts; /* enum moe_experts */
    int64_t *ns;
    size_t count;
};

struct piles {
    struct pile *items;
    size_t count;
};

static bool without_tokens_moved(const struct moe_plan *plan, uint32_t experts)
{
    struct moe_plan wanted = plan_default(NULL);

    wanted.r = 0;
    wanted.e = experts;
    return plan_equal(plan, &wanted);
}

/* "skew 2", or "max/mean 1.83 1a2b3c4d"; 0: another kind. */
static double skew_of(const char *load)
{
    static const char *const words[] = { "skew ", "max/mean " };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strncmp(load, words[i], strlen(words[i])))
            return strtod(load + strlen(words[i]), NULL);
    return 0;
}

static int find_pile(struct piles *p, const char *load, uint32_t experts, struct pile **out)
{
    struct pile pile = { .experts = experts };
    size_t i = 0;

    while (i < p->count && (p->items[i].experts != experts || strcmp(p->items[i].load, load) != 0))
        i++;
    memcpy(pile.load, load, sizeof(pile.load));
    if (i == p->count)
        ARRAY_APPEND(p->items, p->count, pile);
    *out = &p->items[i];
    return OK;
}

static int add_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    const struct moe_plan *plan = &trial->key.plan;
    struct pile *pile;

    if (!without_tokens_moved(plan, plan->e) || sample->gpu.throttled == SAMPLE_SET_ASIDE ||
        !(skew_of(sample->load) > 0))
        return OK;
    TRY(find_pile(self, sample->load, plan->e, &pile));
    ARRAY_APPEND(pile->ns, pile->count, sample->ns);
    return OK;
}

static int pair_up(const struct piles *p, const struct trial_row *of, struct layer_facts *layer)
{
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < p->count; j++) {
            struct pile *a = &p->items[i], *b = &p->items[j];
            struct load_pair pair = { skew_of(a->load), of->key.bucket, of->capacity,
                                      .padded.count = 0 };

            if (a->experts != MOE_PADDED || b->experts != MOE_SPARSE ||
                strcmp(a->load, b->load) != 0)
                continue;
            pair.padded = spread_of(a->ns, a->count);
            pair.sparse = spread_of(b->ns, b->count);
            ARRAY_APPEND(layer->loads, layer->load_count, pair);
        }
    return OK;
}

static int read_bucket(struct store *store, const struct trial_row *of, struct layer_facts *layer)
{
    struct piles piles = { .count = 0 };
    int rc = store_samples(store, layer->cluster_id, layer->shape_id, layer->window, of->key.bucket,
                           add_sample, &piles);

    if (!rc)
        rc = pair_up(&piles, of, layer);
    for (size_t i = 0; i < piles.count; i++)
        free(piles.items[i].ns);
    free(piles.items);
    return rc;
}

static int by_capacity_and_skew(const void *a, const void *b)
{
    const struct load_pair *x = a, *y = b;

    if (x->capacity != y->capacity)
        return x->capacity < y->capacity ? -1 : 1;
    return (x->skew > y->skew) - (x->skew < y->skew);
}

int loads_read(struct store *store, struct layer_facts *layer)
{
    for (size_t i = 0; i < layer->trial_count; i++)
        if (without_tokens_moved(&layer->trials[i].row.key.plan, MOE_SPARSE))
            TRY(read_bucket(store, &layer->trials[i].row, layer));
    if (layer->load_count)
        qsort(layer->loads, layer->load_count, sizeof(*layer->loads), by_capacity_and_skew);
    return OK;
}

/* ---- the data file */

int series_load_blocks(const struct layer_facts *layer)
{
    int blocks = 0;

    for (size_t i = 0; i < layer->load_count; i++)
        blocks += !i || layer->loads[i].capacity != layer->loads[i - 1].capacity;
    return blocks;
}

/* That of both medians being off in the worst way; single steps have none. */
static void write_interval(const struct load_pair *p, FILE *to)
{
    bool known = p->padded.count > 1 && p->sparse.count > 1;
    double low = (double)p->sparse.low_ns / (double)p->padded.high_ns;
    double high = (double)p->sparse.high_ns / (double)p->padded.low_ns;

    if (known)
        fprintf(to, " %.6g %.6g", low, high);
    else
        fputs(" NaN NaN", to);
}

void series_loads(struct series *s)
{
    for (size_t i = 0; i < s->layer->load_count; i++) {
        const struct load_pair *p = &s->layer->loads[i];
        double padded = (double)p->padded.median_ns, sparse = (double)p->sparse.median_ns;
        char name[32];

        if (!i || p->capacity != p[-1].capacity) {
            snprintf(name, sizeof(name), "c = %" PRIu64, p->capacity);
            series_block(s, name);
        }
        fprintf(s->to, "%.6g %.6g", p->skew, sparse / padded);
        write_interval(p, s->to);
        fprintf(s->to, " %.6g %.6g", padded * 1e-6, sparse * 1e-6);
        series_row_end(s, (uint32_t)(p->padded.count + p->sparse.count), 0);
    }
}
