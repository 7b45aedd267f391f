/* Measures the anchors of a layer, then what lies between them, then the table as a whole. */
#include "sweep.h"

#include "between.h"
#include "pairs.h"
#include "plan.h"
#include "standing.h"
#include "status.h"
#include "too_wide.h"
#include "visit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- measured buckets */

static int get(struct sweep *sweep, uint32_t bucket, struct entry_row *out)
{
    return dictionary_entry(&sweep->dictionary, bucket, out);
}

/* An entry that need not be measured again. */
static int is_known(struct sweep *sweep, uint32_t bucket, bool *known)
{
    struct entry_row e;
    int rc = get(sweep, bucket, &e);

    *known = rc == OK && !entry_is(&e, ENTRY_OPEN) && !strcmp(e.load, sweep->dictionary.load) &&
             effort_rank(e.effort) >= effort_rank(sweep->request->effort->name);
    return rc < 0 ? rc : OK;
}

static int measure(struct sweep *sweep, uint32_t bucket)
{
    struct campaign *c = sweep->campaign;
    struct entry_row entry;
    int rc;

    rc = visit_measure(sweep, bucket, &entry);
    if (rc == UNSUPPORTED) {
        note("bucket %u: no plan can run there; `moetune show --trials` says why", bucket);
        return OK;
    }
    TRY(rc);
    TRY(store_entry(c->store, &entry, "measured"));
    sweep->result.measured++;
    c->progress.fresh++;
    return campaign_publish(c, false);
}

static int visit(struct sweep *sweep, uint32_t bucket)
{
    bool known;

    TRY(is_known(sweep, bucket, &known));
    if (known) {
        sweep->result.known++;
        TRY(visit_recall(sweep, bucket));
    } else {
        TRY(measure(sweep, bucket));
    }
    sweep->campaign->progress.done++;
    sweep->campaign->run.row.buckets_done++;
    return OK;
}

/* Visits a bucket that was not foreseen. */
static int visit_more(struct sweep *sweep, uint32_t bucket)
{
    sweep->campaign->progress.buckets++;
    sweep->campaign->run.row.buckets_planned++;
    return visit(sweep, bucket);
}

/* Nothing can be inferred where `moetune verify` has shown an inference, or a winner, to be wrong.
 */
static int visit_refuted(struct sweep *sweep)
{
    for (uint32_t b = sweep->space->first; b <= sweep->space->last; b++) {
        struct entry_row entry;
        int rc = get(sweep, b, &entry);

        if (rc == OK && entry_is(&entry, ENTRY_REFUTED))
            rc = campaign_over(sweep->campaign) ? ERR_CUT : visit_more(sweep, b);
        if (rc && rc != UNSUPPORTED)
            return rc;
    }
    return OK;
}

/* ---- buckets between */

static int store_inferred(struct sweep *sweep, const struct entry_row *entry)
{
    struct entry_row old;
    int rc = get(sweep, entry->bucket, &old);
    bool same;

    if (rc < 0)
        return rc;
    sweep->result.inferred++;
    /* A measured entry of this cluster, even at lesser effort, is better than an inferred one; and
     * one that a whole sweep has inferred is better than one by a few buckets. */
    if (rc == OK && !entry_is(&old, ENTRY_STALE | (sweep->misses ? 0u : ENTRY_INFERRED)))
        return OK;
    same = rc == OK && plan_equal(&old.plan, &entry->plan) && !entry_is(&old, ENTRY_STALE);
    if (same && fabs(old.bound - entry->bound) < 1e-4)
        return OK;
    return store_entry(sweep->campaign->store, entry, same ? NULL : "inferred");
}

static int fill(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high)
{
    struct entry_row entry;
    uint32_t doubtful;

    while (!sweep->misses && !sweep->settled && !campaign_over(sweep->campaign) &&
           between_doubtful(sweep, low, high, &doubtful)) {
        int rc;

        rc = visit_more(sweep, doubtful);
        if (rc == ERR_CUT)
            break;
        TRY(rc);
        TRY(get(sweep, doubtful, &entry));
        TRY(fill(sweep, low, &entry));
        return fill(sweep, &entry, high);
    }
    for (uint32_t b = low->bucket + 1; b < high->bucket; b++) {
        between_infer(sweep, low, high, b, &entry);
        TRY(store_inferred(sweep, &entry));
    }
    return OK;
}

static bool is_anchor(const struct space *space, uint32_t bucket)
{
    for (size_t i = 0; i < space->anchor_count; i++)
        if (space->anchors[i] == bucket)
            return true;
    return false;
}

/* Measured by an earlier sweep than this one and those that it goes on with. */
static bool is_older(const struct sweep *sweep, const struct entry_row *entry)
{
    return !entry->inferred && entry->run < sweep->first_run &&
           !is_anchor(sweep->space, entry->bucket);
}

/* Inference begins and ends there.  A sweep that goes on is led to the same doubtful buckets as it
 * was the first time: what they came to does not count before. */
static bool is_end(const struct sweep *sweep, const struct entry_row *entry)
{
    return !entry->inferred && !strcmp(entry->load, sweep->dictionary.load) &&
           (sweep->settled || sweep->misses || is_older(sweep, entry) ||
            is_anchor(sweep->space, entry->bucket));
}

/* Fills what lies between each of these buckets and the next. */
static int fill_all(struct sweep *sweep)
{
    struct entry_row low = { 0 }, entry;
    bool have_low = false;

    for (uint32_t b = sweep->space->first; b <= sweep->space->last; b++) {
        int rc = get(sweep, b, &entry);

        if (rc < 0)
            return rc;
        if (rc != OK || !is_end(sweep, &entry))
            continue;
        if (have_low && low.bucket + 1 < b)
            TRY(fill(sweep, &low, &entry));
        low = entry;
        have_low = true;
    }
    return OK;
}

/* ---- the sweep */

static int visit_anchors(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->space->anchor_count; i++) {
        if (campaign_over(sweep->campaign))
            return ERR_CUT;
        TRY(visit(sweep, sweep->space->anchors[i]));
    }
    return OK;
}

/* What earlier sweeps found between the anchors of this one tells of what is between, too. */
static int recall_older(struct sweep *sweep)
{
    for (uint32_t b = sweep->space->first; b <= sweep->space->last; b++) {
        struct entry_row entry;
        int rc = get(sweep, b, &entry);

        if (rc == OK && is_older(sweep, &entry) && !entry_is(&entry, ENTRY_STALE))
            rc = visit_recall(sweep, b);
        if (rc < 0)
            return rc;
    }
    return OK;
}

/* `cut`: ERR_CUT if the buckets were cut short, which is what is returned then. */
static int conclude(struct sweep *sweep, int cut)
{
    int rc;

    search_cut(sweep->dictionary.search); /* an unfinished visit must not be taken for one */
    TRY(standing_begun(sweep, &sweep->settled));
    TRY(fill_all(sweep));
    sweep->settled = true;
    rc = cut ? standing_skip(sweep, &sweep->result.standing)
             : standing_settle(sweep, &sweep->result.standing);
    if (rc && rc != ERR_CUT)
        return rc;
    sweep->campaign->progress.compared = sweep->campaign->progress.done;
    sweep->result.inferred = 0;
    TRY(fill_all(sweep)); /* from entries that the rounds may have changed */
    TRY(too_wide_find(sweep, &sweep->result.too_wide));
    TRY(campaign_publish(sweep->campaign, true));
    return cut ? cut : rc;
}

static int expire_other_loads(const struct sweep *sweep)
{
    const struct dictionary *d = &sweep->dictionary;
    const struct space *space = sweep->space;

    return store_expire_loads(d->store, d->cluster, d->shape, space->window, space->first,
                              space->last, d->load);
}

static int run(struct sweep *sweep)
{
    const struct campaign *c = sweep->campaign;
    int rc;

    if (sweep->request->options->retune)
        TRY(store_expire(c->store, c->cluster_id, sweep->dictionary.shape, sweep->space->window,
                         sweep->space->first, sweep->space->last, "to be measured again"));
    TRY(expire_other_loads(sweep));
    rc = visit_anchors(sweep);
    if (!rc)
        rc = visit_refuted(sweep);
    if (!rc)
        rc = recall_older(sweep);
    if (rc && rc != ERR_CUT)
        return rc;
    return conclude(sweep, rc);
}

static int open_sweep(struct campaign *c, const struct tune_request *request, size_t number,
                      struct sweep *out)
{
    const struct tune_options *o = request->options;
    struct space *space = &request->spaces[number];
    struct dictionary d = { .store = c->store,
                            .cluster = c->cluster_id,
                            .run = c->run.row.id,
                            .window = space->window,
                            .arms = space->arms,
                            .arm_count = space->arm_count,
                            .default_arm = space->default_arm,
                            .effort = request->effort,
                            .patience = 2 * PAIRS_LEAST, /* more follows: see standing.h */
                            .harm = o->harm,
                            .margin = o->margin };
    struct search_setup search = { .shape = space->shape,
                                   .kept = load_kept,
                                   .load = load_counts(space->load),
                                   .arms = space->arms,
                                   .arm_count = space->arm_count,
                                   .machine = request->machine,
                                   .worth = request->effort->worth,
                                   .repeats = o->repeats,
                                   .seed = c->setup->seed };

    load_name(space->load, d.load);
    TRY(store_shape(c->store, &space->shape, &d.shape));
    TRY(search_open(request->strategy, &search, &d.search));
    *out = (struct sweep){ .campaign = c,
                           .request = request,
                           .space = space,
                           .asked = request->asked[number],
                           .dictionary = d };
    TRY(campaign_first_run(c, &out->first_run));
    out->dictionary.pairs_since = out->first_run;
    return OK;
}

int sweep_layer(struct campaign *campaign, const struct tune_request *request, size_t number,
                struct sweep_result *out)
{
    struct sweep sweep;
    int rc;

    TRY(open_sweep(campaign, request, number, &sweep));
    rc = run(&sweep);
    search_close(sweep.dictionary.search);
    *out = sweep.result;
    return rc;
}

/* ---- misses */

static int run_misses(struct sweep *sweeps, size_t count, const struct misses *misses)
{
    struct sweep *last = NULL;
    int rc = OK;

    for (size_t i = 0; i < misses->count && !rc; i++) {
        struct sweep *sweep = &sweeps[misses->list[i].space];

        if (last && last != sweep)
            last->told = false; /* the ranks know one layer at a time */
        last = sweep;
        rc = campaign_over(sweep->campaign) ? ERR_CUT : visit(sweep, misses->list[i].bucket);
    }
    if (rc && rc != ERR_CUT)
        return rc;
    for (size_t i = 0; i < count; i++) {
        sweeps[i].told = false;
        rc = conclude(&sweeps[i], rc);
        if (rc && rc != ERR_CUT)
            return rc;
    }
    return rc;
}

int sweep_misses(struct campaign *campaign, const struct tune_request *request,
                 const struct misses *misses, struct sweep_result *results)
{
    size_t space_count = request->space_count;
    struct sweep *sweeps = calloc(space_count, sizeof(*sweeps));
    int rc = sweeps ? OK : fail(ERR_NOMEM, "%zu layers", space_count);

    for (size_t i = 0; i < space_count && !rc; i++) {
        rc = open_sweep(campaign, request, i, &sweeps[i]);
        sweeps[i].misses = true;
    }
    if (!rc)
        rc = run_misses(sweeps, space_count, misses);
    for (size_t i = 0; sweeps && i < space_count; i++) {
        search_close(sweeps[i].dictionary.search);
        results[i] = sweeps[i].result;
    }
    free(sweeps);
    return rc;
}
