/* Search, contest, and the search again if its winner fails in the contest. */
#include "decision.h"

#include <string.h>

void decision_open(struct decision *d, const struct decision_setup *setup)
{
    size_t arms = setup->search->setup.arm_count;

    memset(d, 0, sizeof(*d));
    d->setup = *setup;
    d->setup.usable = NULL;
    for (size_t i = 0; i < arms; i++)
        d->usable[i] = !setup->usable || setup->usable[i];
    if (!setup->rematch)
        search_visit(setup->search, setup->capacity, d->usable);
}

/* ---- the contest */

static int place_of(const struct decision *d, int arm)
{
    for (int i = 0; i < d->contestant_count; i++)
        if (d->contestants[i] == arm)
            return i;
    return -1;
}

static void enter(struct decision *d, int arm)
{
    if (arm >= 0 && d->usable[arm] && place_of(d, arm) < 0)
        d->contestants[d->contestant_count++] = arm;
}

static void open_contest(struct decision *d)
{
    struct moe_plan plans[CONTEST_PLANS_MAX];

    d->contestant_count = 0;
    enter(d, d->found.winner);
    enter(d, d->setup.standard);
    enter(d, d->setup.incumbent);
    for (int i = 0; i < d->contestant_count; i++)
        plans[i] = d->setup.search->setup.arms[d->contestants[i]];
    contest_open(&d->contest, &d->setup.contest, plans, d->contestant_count,
                 place_of(d, d->setup.standard), place_of(d, d->setup.incumbent));
    d->contested = true;
    for (uint32_t i = 0; i < d->kept_count; i++)
        if (place_of(d, d->kept[i].arm) >= 0)
            contest_tell(&d->contest, place_of(d, d->kept[i].arm), d->kept[i].ns);
}

/* ---- who meets the default plan */

static int first_usable(const struct decision *d, const int *arms, int count)
{
    for (int i = 0; i < count; i++)
        if (arms[i] >= 0 && d->usable[arms[i]])
            return arms[i];
    return -1;
}

static struct search_verdict find(const struct decision *d)
{
    const int known[] = { d->setup.challenger, d->setup.incumbent, d->setup.standard };
    struct search_verdict found = { .winner = -1, .runner_up = -1, .reason = SEARCH_CERTAIN };

    if (!d->setup.rematch)
        return search_verdict(d->setup.search);
    found.winner = first_usable(d, known, 3);
    return found;
}

int decision_next(struct decision *d, enum decision_phase *phase)
{
    int next;

    *phase = DECISION_SEARCH;
    if (!d->contested && !d->setup.rematch && (next = search_next(d->setup.search)) != SEARCH_DONE)
        return next;
    if (!d->contested) {
        d->found = find(d);
        if (d->found.winner < 0)
            return DECISION_DONE;
        open_contest(d);
    }
    *phase = DECISION_CONTEST;
    next = contest_next(&d->contest);
    return next == CONTEST_DONE ? DECISION_DONE : d->contestants[next];
}

void decision_tell(struct decision *d, enum decision_phase phase, int arm, int64_t ns)
{
    if (phase == DECISION_SEARCH) {
        search_tell(d->setup.search, arm, ns);
        return;
    }
    if (d->kept_count < DECISION_KEPT_MAX)
        d->kept[d->kept_count++] = (struct kept){ arm, ns };
    if (d->contested && place_of(d, arm) >= 0)
        contest_tell(&d->contest, place_of(d, arm), ns);
}

void decision_recall(struct decision *d, enum decision_phase phase, int arm, int64_t ns)
{
    if (!d->usable[arm] || (phase == DECISION_SEARCH && d->setup.rematch))
        return;
    if (phase == DECISION_SEARCH)
        search_next(d->setup.search); /* what it answers was done then */
    decision_tell(d, phase, arm, ns);
}

static void leave_contest(struct decision *d, int arm)
{
    d->usable[arm] = false;
    if (d->contested && place_of(d, arm) >= 0)
        contest_drop(&d->contest, place_of(d, arm));
    if (d->contested && arm == d->found.winner)
        d->contested = false; /* another one has to be found */
}

void decision_drop(struct decision *d, int arm)
{
    if (!d->setup.rematch)
        search_drop(d->setup.search, arm);
    leave_contest(d, arm);
}

void decision_shun(struct decision *d, int arm)
{
    if (!d->setup.rematch)
        search_shun(d->setup.search, arm);
    leave_contest(d, arm);
}

bool decision_result(const struct decision *d, struct decision_result *out)
{
    struct contest_verdict verdict;

    if (!d->contested)
        return false;
    verdict = contest_verdict(&d->contest);
    if (verdict.adopted < 0)
        return false;
    *out = (struct decision_result){ .arm = d->contestants[verdict.adopted],
                                     .found = d->found,
                                     .contest = verdict };
    return true;
}
