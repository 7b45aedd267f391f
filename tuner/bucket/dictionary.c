/* Looks up arms, entries and pins of one layer, and makes entries for buckets that were not
 * measured. */
#include "dictionary.h"

#include "arms.h"
#include "pairs.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int dictionary_open(struct dictionary *d, const struct moe_shape *shape)
{
    TRY(store_shape_add(d->store, shape, &d->shape));
    return store_overrides(d->store, &d->pins);
}

void dictionary_close(struct dictionary *d)
{
    search_close(d->search);
    free(d->pins.rows);
}

int dictionary_arm(const struct dictionary *d, const struct moe_plan *plan)
{
    return plan->struct_size ? arms_find(d->arms, d->arm_count, plan) : -1;
}

int dictionary_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out)
{
    return store_entry_get(d->store, d->cluster, d->shape, d->buckets.window, bucket, out);
}

const struct override_row *dictionary_pin(const struct dictionary *d, uint32_t bucket)
{
    return override_of(d->pins,
                       &(struct bucket_key){ d->cluster, d->shape, d->buckets.window, bucket });
}

bool dictionary_holds(const struct dictionary *d, const struct entry_row *e, bool inferred)
{
    unsigned open = inferred ? ENTRY_OPEN & ~ENTRY_INFERRED : ENTRY_OPEN;

    return !entry_is(e, open) && !strcmp(e->load, d->load) &&
           (d->any_effort || effort_rank(e->effort) >= effort_rank(d->effort->name));
}

double dictionary_expected_us(const struct dictionary *d, uint32_t bucket, int arm)
{
    return search_estimate(d->search, buckets_key_of(d->buckets, bucket), arm) * 1e-3;
}

void dictionary_begin_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out)
{
    *out = (struct entry_row){ .cluster = d->cluster,
                               .shape = d->shape,
                               .run = d->run,
                               .window = d->buckets.window,
                               .bucket = bucket,
                               .capacity = buckets_key_of(d->buckets, bucket),
                               .decided_s = time(NULL) };
    snprintf(out->load, sizeof(out->load), "%s", d->load);
    snprintf(out->effort, sizeof(out->effort), "%s", d->effort->name);
    snprintf(out->search, sizeof(out->search), "%s", d->search->ops->name);
}

void dictionary_doubt(const struct dictionary *d, const struct doubt *doubt, struct entry_row *out)
{
    out->likely = doubt->arm < 0 ? (struct moe_plan){ 0 } : d->arms[doubt->arm];
    out->likely_gain = doubt->arm < 0 ? 0 : doubt->gain;
    out->likely_chance = doubt->arm < 0 ? 0 : doubt->chance;
}

void dictionary_infer(const struct dictionary *d, uint32_t bucket, int arm, const bool *usable,
                      struct entry_row *out)
{
    struct search_result verdict;
    struct entry_row e;

    dictionary_begin_entry(d, bucket, &e);
    e.plan = d->arms[arm];
    e.inferred = true;
    e.time_us = dictionary_expected_us(d, bucket, arm);
    e.default_us = dictionary_expected_us(d, bucket, d->default_arm);
    e.gain = (struct gain)GAIN_UNKNOWN;
    e.low_us = e.high_us = e.bound = NAN;
    if (search_infer(d->search, e.capacity, usable, &verdict)) {
        e.search_winner = d->arms[verdict.winner];
        e.bound = verdict.bound +
                  fmax(0, e.time_us / dictionary_expected_us(d, bucket, verdict.winner) - 1);
    }
    snprintf(e.decision, sizeof(e.decision), "inferred");
    snprintf(e.reason, sizeof(e.reason), "inferred");
    *out = e;
}

void dictionary_infer_other(const struct dictionary *d, const bool *usable, struct entry_row *inout)
{
    inout->no_other = true;
    for (int i = 0; i < (int)d->arm_count; i++) {
        double us;

        if ((usable && !usable[i]) || !plan_other_kind(&d->arms[i], &inout->plan))
            continue;
        inout->no_other = false;
        us = dictionary_expected_us(d, inout->bucket, i);
        if (us > 0 && (!(inout->other_us > 0) || us < inout->other_us)) {
            inout->other = d->arms[i];
            inout->other_us = us;
        }
    }
}
