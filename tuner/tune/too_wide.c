/* Finds buckets that are too wide by the search's model, which knows what was measured at their
 * upper edges. */
#include "too_wide.h"

#include "shape.h"
#include "status.h"

#include <math.h>

struct probing {
    struct sweep *sweep;
    uint32_t bucket;
    uint64_t lower_end;
    bool usable[SEARCH_ARMS_MAX]; /* memory at the upper edge, for which the entry was made */
};

/* The first bucket begins where nothing runs: there the capacity of factor 1 counts, or a row. */
static uint64_t lower_end_of(const struct space *space, uint32_t bucket)
{
    const struct moe_shape *s = &space->shape;
    uint64_t rows = moe_capacity(1, s->top_k, s->experts, s->tokens, 0);

    if (bucket)
        return (uint64_t)bucket * space->window;
    return rows && rows < space->window ? rows : 1;
}

/* What failed in some bucket of the layer is no plan that another width would bring. */
struct failures {
    const struct space *space;
    bool failed[SEARCH_ARMS_MAX];
};

static int note_failure(void *self, const struct trial_row *trial)
{
    struct failures *f = self;
    int arm = space_arm(f->space, &trial->key.plan);

    /* What was ruled out by arithmetic is so for each bucket by itself. */
    if (arm >= 0 && trial->state > TRIAL_OK && trial->state != TRIAL_RULED_OUT)
        f->failed[arm] = true;
    return OK;
}

static struct probing probe_at(struct sweep *sweep, const struct failures *f, uint32_t bucket)
{
    const struct space *space = sweep->space;
    struct probing p = { .sweep = sweep,
                         .bucket = bucket,
                         .lower_end = lower_end_of(space, bucket) };

    for (int arm = 0; arm < (int)space->arm_count; arm++)
        p.usable[arm] = !f->failed[arm] && space_fits(space, arm, bucket);
    return p;
}

/* The best arm at a capacity; -1: there is no model. */
static int best_at(const struct probing *p, uint64_t capacity)
{
    struct search_result verdict;

    return search_infer(p->sweep->dictionary.search, capacity, p->usable, &verdict) ? verdict.winner
                                                                                    : -1;
}

/* What an arm loses at the lower end; 0 where nobody knows. */
static double loss_of(const struct probing *p, int arm)
{
    struct search *search = p->sweep->dictionary.search;
    int best = best_at(p, p->lower_end);
    double loss;

    if (arm < 0 || best < 0)
        return 0;
    loss = search_estimate(search, p->lower_end, arm) / search_estimate(search, p->lower_end, best);
    return isnan(loss) ? 0 : loss - 1;
}

/* The widest half, quarter and so on of the width in whose bucket the lower end does not lose. */
static uint32_t width_that_helps(const struct probing *p)
{
    uint32_t window = p->sweep->space->window / 2;

    for (; window > 1; window /= 2) {
        uint64_t edge = (p->lower_end / window + 1) * window - 1;

        if (loss_of(p, best_at(p, edge)) <= TOO_WIDE_LOSS)
            break;
    }
    return window;
}

static int look(struct sweep *sweep, const struct failures *failures, uint32_t bucket,
                struct too_wide *found)
{
    const struct campaign *c = sweep->campaign;
    struct probing p = probe_at(sweep, failures, bucket);
    struct entry_row entry;
    uint32_t window, own = shape_window(&sweep->space->shape);
    int rc = store_entry_get(c->store, c->cluster_id, sweep->dictionary.shape, sweep->space->window,
                             bucket, &entry);

    if (rc || loss_of(&p, space_arm(sweep->space, &entry.plan)) <= TOO_WIDE_LOSS)
        return rc < 0 ? rc : OK;
    window = width_that_helps(&p);
    found->buckets++;
    /* A layer's own width is known to be narrow enough; the model may hope for too much. */
    window = window < own ? window : own;
    if (!found->window || window < found->window)
        found->window = window;
    return OK;
}

int too_wide_find(struct sweep *sweep, struct too_wide *out)
{
    const struct campaign *c = sweep->campaign;
    struct failures failures = { .space = sweep->space };
    struct too_wide found = { 0 };

    TRY(store_trials(c->store, c->cluster_id, sweep->dictionary.shape, sweep->space->window,
                     UINT32_MAX, note_failure, &failures));
    for (uint32_t b = sweep->space->first; b <= sweep->space->last && sweep->space->window > 1; b++)
        TRY(look(sweep, &failures, b, &found));
    *out = found;
    return OK;
}
