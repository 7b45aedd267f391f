/* Selects the entries to verify, and sorts them by how doubtful they are. */
#include "verify_entries.h"

#include "array.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

const char *const verify_only_words[] = {
    "all", "stale", "imported", "measured", "inferred", NULL
};

struct finding {
    struct campaign *campaign;
    const struct verify_wanted *wanted;
    struct verify_entries *claims;
};

/* ---- entries */

static bool shape_asked_for(const struct verify_wanted *w, const struct moe_shape *shape)
{
    for (int i = 0; i < w->shapes.count; i++)
        if (shape_agrees(shape, w->shapes.items[i]))
            return true;
    return !w->shapes.count;
}

static bool kind_asked_for(const struct verify_wanted *w, const struct entry_row *e)
{
    return w->kind == ONLY_ALL || (w->kind == ONLY_STALE && entry_is(e, ENTRY_STALE)) ||
           (w->kind == ONLY_IMPORTED && entry_is(e, ENTRY_IMPORTED)) ||
           w->kind == (entry_is(e, ENTRY_INFERRED) ? ONLY_INFERRED : ONLY_MEASURED);
}

/* Where nothing is known of the default plan's time here, it can be timed at least. */
static enum verify_kind kind_before(const struct finding *f, const struct entry_row *e,
                                    const struct moe_shape *shape)
{
    if (e->run >= f->claims->first_run && !entry_is(e, ENTRY_OUTDATED))
        return VERIFY_EARLIER;
    if (!plan_is_default(&e->plan, shape) || entry_is(e, ENTRY_STALE | ENTRY_IMPORTED) ||
        verify_challenger(e, shape))
        return VERIFY_PENDING;
    return VERIFY_DEFAULT;
}

static int add(struct verify_entries *c, const struct verify_result *verdict)
{
    ARRAY_APPEND(c->verdicts, c->count, *verdict);
    return OK;
}

static int take_entry(void *self, const struct entry_row *e)
{
    struct finding *f = self;
    struct verify_result verdict = { .claim = *e, .now = { NAN, NAN, NAN } };

    TRY(store_shape_get(f->campaign->store, e->shape, &verdict.shape));
    verdict.kind = kind_before(f, e, &verdict.shape);
    if (e->bucket < f->wanted->first || e->bucket > f->wanted->last ||
        !shape_asked_for(f->wanted, &verdict.shape))
        return OK;
    /* What was settled before a cut may no longer look like what was asked for: once verified, an
     * entry is not stale. */
    if (verdict.kind == VERIFY_EARLIER)
        return add(f->claims, &verdict);
    f->claims->waiting += entry_is(e, ENTRY_REFUTED);
    return kind_asked_for(f->wanted, e) && !entry_is(e, ENTRY_REFUTED) ? add(f->claims, &verdict)
                                                                       : OK;
}

/* ---- order */

/* In this order a part of the buckets lies all over the range: 64, 32, 16, 48, 8, 24, ... */
static uint32_t grid_place(uint32_t bucket)
{
    uint32_t place = 0;

    for (int bit = 0; bit < 32; bit++)
        place |= (bucket >> bit & 1) << (31 - bit);
    return place;
}

/* Stale, then of another site, then inferred, then a coarse grid over the range, so that a small
 * budget sees it all; layer by layer within those, for to set one up and to check its plans takes
 * longer than to verify an entry. */
static int worse_first(const void *a, const void *b)
{
    const struct entry_row *x = &((const struct verify_result *)a)->claim;
    const struct entry_row *y = &((const struct verify_result *)b)->claim;

    if (x->stale != y->stale)
        return y->stale - x->stale;
    if ((x->tier == TIER_IMPORTED) != (y->tier == TIER_IMPORTED))
        return x->tier == TIER_IMPORTED ? -1 : 1;
    if (x->inferred != y->inferred)
        return y->inferred - x->inferred;
    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    return grid_place(x->bucket) < grid_place(y->bucket) ? -1 : x->bucket != y->bucket;
}

static int by_bucket(const void *a, const void *b)
{
    const struct entry_row *x = &((const struct verify_result *)a)->claim;
    const struct entry_row *y = &((const struct verify_result *)b)->claim;

    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* ---- both */

int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out)
{
    struct finding f = { campaign, wanted, out };

    *out = (struct verify_entries){ .first_run = INT64_MAX };
    if (!wanted->restart)
        TRY(campaign_first_run(campaign, &out->first_run));
    TRY(store_entries(campaign->store, campaign->cluster_id, 0, take_entry, &f));
    if (out->count)
        qsort(out->verdicts, out->count, sizeof(*out->verdicts), worse_first);
    else
        note("%s: nothing to verify: no entry of this machine is one of those asked for",
             campaign->path);
    if (!out->count && out->waiting)
        note("%u refuted before: moetune tune measures there again", out->waiting);
    return out->count ? OK : UNSUPPORTED;
}

struct declared {
    struct store *store;
    const struct verify_wanted *wanted;
    uint32_t count;
};

static int count_declared(void *self, const struct entry_row *e)
{
    struct declared *d = self;
    struct moe_shape shape;

    TRY(store_shape_get(d->store, e->shape, &shape));
    d->count += shape.space && shape_asked_for(d->wanted, &shape);
    return OK;
}

int verify_entries_declared(struct store *store, const struct verify_wanted *wanted)
{
    struct declared d = { store, wanted, 0 };

    TRY(store_entries(store, 0, 0, count_declared, &d));
    if (d.count)
        note("entries of spaces that programs declare: %u; `moetune verify --space FILE --exec "
             "COMMAND` measures them",
             d.count);
    return OK;
}

void verify_entries_sort(struct verify_entries *claims)
{
    qsort(claims->verdicts, claims->count, sizeof(*claims->verdicts), by_bucket);
}

void verify_entries_free(struct verify_entries *claims)
{
    free(claims->verdicts);
    *claims = (struct verify_entries){ 0 };
}
