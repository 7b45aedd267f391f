/* What all strategies share: their table, which arms are usable, the number of samples of each, and
 * the meaning of each --effort. */
#include "search.h"

#include "stats.h"
#include "status.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct search_ops search_guided, search_paper, search_exhaustive, search_blind;

const struct search_ops *const search_strategies[] = { &search_guided, &search_paper,
                                                       &search_exhaustive, &search_blind, NULL };
const char *const search_words[] = { "guided", "paper", "exhaustive", "blind", NULL };
const char *const search_reason_words[] = { "certain", "limit", "cut", "inferred", NULL };

/* name, summary, anchors_per_octave, worth, refine_above, patience, launches, launch_cycles */
const struct effort efforts[] = {
    { "quick", "two buckets per doubling of c", 2, 1.2e-4, 0, 20, 2, 3 },
    { "normal", "three buckets per doubling of c, and doubtful ones between them", 3, 7e-5, 0.02,
      40, 4, 2 },
    { "thorough", "every bucket, and more steps for each", 0, 1e-5, 0, 80, 6, 2 },
};

const struct search_ops *search_find(const char *name)
{
    for (size_t i = 0; search_strategies[i]; i++)
        if (!strcmp(search_strategies[i]->name, name))
            return search_strategies[i];
    return NULL;
}

int search_least(const struct search *search, const bool *among, const double *mean, int but)
{
    int best = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        if (i != but && (!among || among[i]) &&
            (best < 0 || mean[i] < mean[best] || (isfinite(mean[i]) && !isfinite(mean[best]))))
            best = i;
    return best;
}

int search_open(const struct search_ops *ops, const struct search_setup *setup, struct search **out)
{
    struct search *search;
    int rc;

    if (!setup->arm_count || setup->arm_count > SEARCH_ARMS_MAX)
        return fail(ERR_ARGUMENT, "a search over %zu plans: from 1 to %d are possible",
                    setup->arm_count, SEARCH_ARMS_MAX);
    search = calloc(1, sizeof(*search));
    if (!search)
        return fail(ERR_NOMEM, "a search");
    search->ops = ops;
    search->setup = *setup;
    if (setup->arms)
        memcpy(search->arms, setup->arms, setup->arm_count * sizeof(*setup->arms));
    search->setup.arms = search->arms;
    rc = ops->open(search);
    if (rc) {
        search_close(search);
        return rc;
    }
    *out = search;
    return OK;
}

void search_close(struct search *search)
{
    if (!search)
        return;
    search->ops->close(search);
    free(search);
}

void search_begin(struct search *search, uint64_t capacity, const bool *usable, bool alone)
{
    search->capacity = capacity;
    search->alone = alone;
    search->samples = search->ran = 0;
    search->cut = false;
    search->repeats = 0;
    memset(search->count, 0, sizeof(search->count));
    for (size_t i = 0; i < SEARCH_ARMS_MAX; i++)
        search->usable[i] = i < search->setup.arm_count && (!usable || usable[i]);
    search->ops->begin(search);
    search->buckets++;
}

static bool anything_usable(const struct search *search)
{
    for (size_t i = 0; i < search->setup.arm_count; i++)
        if (search->usable[i])
            return true;
    return false;
}

int search_next(struct search *search)
{
    if (search->cut || !search->buckets || !anything_usable(search))
        return SEARCH_DONE;
    return search->ops->next(search);
}

int search_next_among(struct search *search, const bool *among)
{
    if (!search->ops->next_among || search_next(search) == SEARCH_DONE)
        return SEARCH_DONE;
    return search->ops->next_among(search, among, NULL);
}

int search_next_within(struct search *search, const bool *within, const bool *among)
{
    return search->ops->next_among ? search->ops->next_among(search, among, within) : SEARCH_DONE;
}

static void tell(struct search *search, int arm, int64_t ns, bool asked)
{
    double log_ns = log((double)(ns > 0 ? ns : 1));

    assert(arm >= 0 && (size_t)arm < search->setup.arm_count);
    if (!search->usable[arm])
        return; /* it was dropped in the meantime */
    search->samples++;
    search->ran += !search->count[arm];
    if (search->count[arm]++ && search->repeats < SEARCH_REPEATS_MAX)
        search->repeat_gap[search->repeats++] = fabs(log_ns - search->log_last[arm]);
    search->log_last[arm] = log_ns;
    search->ops->tell(search, arm, log_ns, asked);
}

void search_tell(struct search *search, int arm, int64_t ns)
{
    tell(search, arm, ns, true);
}

void search_tell_unasked(struct search *search, int arm, int64_t ns)
{
    tell(search, arm, ns, false);
}

void search_drop(struct search *search, int arm, bool failed)
{
    assert(arm >= 0 && (size_t)arm < search->setup.arm_count);
    search->usable[arm] = false;
    if (search->ops->drop)
        search->ops->drop(search, arm, failed);
}

void search_cut(struct search *search)
{
    search->cut = true;
}

struct search_result search_result(struct search *search)
{
    struct search_result out = { .winner = -1,
                                 .runner_up = -1,
                                 .bound = NAN,
                                 .samples = search->samples,
                                 .reason = SEARCH_CERTAIN };

    for (size_t i = 0; i < search->setup.arm_count; i++)
        out.arms += search->count[i] > 0;
    if (!search->buckets || !anything_usable(search))
        return out;
    search->ops->verdict(search, &out);
    if (!search->samples)
        out.reason = SEARCH_INFERRED;
    else if (search->cut)
        out.reason = SEARCH_CUT;
    return out;
}

bool search_infer(struct search *search, uint64_t capacity, const bool *usable,
                  struct search_result *out)
{
    struct search_result found = {
        .winner = -1, .runner_up = -1, .bound = NAN, .reason = SEARCH_INFERRED
    };

    if (!search->ops->infer || !search->buckets)
        return false;
    search->ops->infer(search, capacity, usable, &found);
    if (found.winner < 0)
        return false;
    *out = found;
    return true;
}

double search_estimate(struct search *search, uint64_t capacity, int arm)
{
    if (!search->ops->estimate || arm < 0 || (size_t)arm >= search->setup.arm_count)
        return NAN;
    return exp(search->ops->estimate(search, capacity, arm));
}

/* Turns a belief that is not a number into "nothing is known".  A NAN would pass every comparison
 * with a limit. */
static struct normal known_or_nothing(struct normal n)
{
    return isfinite(n.mean) && n.sd >= 0 ? n : (struct normal){ 0, INFINITY };
}

struct normal search_level(struct search *search, int arm)
{
    return known_or_nothing(search->ops->level(search, arm));
}

struct normal search_compare(struct search *search, int arm, int other)
{
    return arm == other ? (struct normal){ 0, 0 }
                        : known_or_nothing(search->ops->compare(search, arm, other));
}

double search_bound(struct search *search, int arm)
{
    return search->ops->bound ? search->ops->bound(search, arm) : NAN;
}

double search_noise(const struct search *search, double *freedom)
{
    double gap[SEARCH_REPEATS_MAX], sd;

    if (search->ops->noise)
        return search->ops->noise(search, freedom);
    /* The median of a normal's absolute value is 0.6745 of its standard deviation; a gap is the
     * difference of two samples, hence the sqrt(2). */
    memcpy(gap, search->repeat_gap, search->repeats * sizeof(*gap));
    sd = search->repeats ? median_of(gap, search->repeats) / (0.6745 * sqrt(2)) : 0;
    *freedom = search->repeats * 0.37; /* the efficiency of a median against a mean of squares */
    return sd * sd;
}

double search_rescale(struct search *search, int arm, uint64_t from, uint64_t to)
{
    return search->ops->slope ? exp(search->ops->slope(search, arm, from, to)) : 1;
}
