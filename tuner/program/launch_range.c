/* Gathers the steps of a launch into samples, and writes down each of them at once: a launch is
 * dear. */
#include "launch_range.h"

#include "plan.h"
#include "status.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

int launch_range_open(struct launch_range *r, const struct dictionary *shared, uint32_t bucket,
                      const struct search_setup *search)
{
    *r = (struct launch_range){ .dictionary = *shared, .wanted = DECISION_DONE, .arm = -1 };
    r->shown = calloc(shared->arm_count, sizeof(*r->shown));
    if (!r->shown)
        return fail(ERR_NOMEM, "plans of a range");
    TRY(search_open(search_find("blind"), search, &r->dictionary.search));
    bucket_init(&r->bucket, &r->dictionary, bucket);
    return bucket_load(&r->bucket);
}

void launch_range_close(struct launch_range *r)
{
    bucket_forget(&r->bucket);
    search_close(r->dictionary.search);
    free(r->shown);
}

void launch_range_reset(struct launch_range *r)
{
    r->arm = -1;
    r->failing = false;
    watched_reset(&r->watched);
}

bool launch_range_pin(struct launch_range *r, struct row_list pins)
{
    const struct override_row *pin = override_of(pins, &r->bucket.key);
    const struct declaration *d = r->dictionary.declared;
    char range[64];

    if (!pin)
        return false;
    r->state = RANGE_PINNED;
    r->pinned = dictionary_arm(&r->dictionary, &pin->plan);
    declaration_range(d, r->bucket.key.bucket, range, sizeof(range));
    note("%s %s is left alone: %s is pinned (%s)", d->key, range, PLAN_WORDS(&pin->plan),
         UTF8_LINE(pin->why));
    return true;
}

/* ---- the decision */

/* What earlier runs decided with no less effort holds, if its plan can still run. */
static bool is_decided(const struct launch_range *r)
{
    const struct entry_row *e = &r->bucket.entry;
    int arm = r->bucket.known ? dictionary_arm(&r->dictionary, &e->plan) : -1;

    return arm >= 0 && r->bucket.attempts[arm].usable && !entry_is(e, ENTRY_OPEN) &&
           effort_rank(e->effort) >= effort_rank(r->dictionary.effort->name);
}

static int write_entry(struct launch_range *r)
{
    struct entry_row entry;
    int rc = bucket_entry(&r->bucket, -1, &entry);

    r->state = RANGE_DECIDED;
    if (rc == UNSUPPORTED)
        return OK; /* no plan runs here: the trials say why */
    TRY(rc);
    TRY(store_entry(r->dictionary.store, &entry, "measured in launches"));
    r->bucket.entry = entry;
    r->bucket.known = true;
    return store_publish(r->dictionary.store);
}

static int advance(struct launch_range *r)
{
    r->wanted = decision_next(&r->bucket.decision, &r->purpose);
    return r->wanted == DECISION_DONE ? write_entry(r) : OK;
}

int launch_range_begin(struct launch_range *r)
{
    r->state = !r->demand ? RANGE_LEFT_OUT : is_decided(r) ? RANGE_DECIDED : RANGE_OPEN;
    if (r->state != RANGE_OPEN)
        return OK;
    bucket_open(&r->bucket, false);
    return advance(r);
}

/* ---- what a launch shows */

int launch_range_step(struct launch_range *r, uint32_t launch, int64_t ns, uint32_t steps)
{
    int arm = r->wanted;
    int64_t sample;

    if (r->arm != arm)
        r->watched.steps = 0;
    r->arm = arm;
    if (!watched_step(&r->watched, ns, steps, &sample))
        return OK;
    TRY(bucket_learn(&r->bucket, r->purpose, arm, sample));
    TRY(store_commit(r->dictionary.store));
    r->shown[arm] = launch;
    return advance(r);
}

int launch_range_fail(struct launch_range *r, int arm, enum trial_state state, const char *why)
{
    bool in_force = r->state == RANGE_DECIDED && r->bucket.known &&
                    dictionary_arm(&r->dictionary, &r->bucket.entry.plan) == arm;

    if (!r->bucket.attempts[arm].usable)
        return OK; /* that is known */
    TRY(bucket_begin(&r->bucket, arm, true));
    TRY(bucket_fail(&r->bucket, arm, state, why));
    r->watched.steps = 0;
    r->watched.learnt = true;
    if (in_force) /* what was decided does not hold: everything else is told again */
        return launch_range_begin(r);
    if (r->state != RANGE_OPEN)
        return OK;
    decision_drop(&r->bucket.decision, arm);
    return advance(r);
}
