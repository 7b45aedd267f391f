/* Decides which plan, or which values, are to blame for a launch that failed. */
#include "launch_words.h"
#include "launches_state.h"

#include "plan.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

/* Programs die by chance, too: of a plan, or of a way to start, that died less often than this it
 * is tried again, in its turn. */
enum { DEATHS_LEAST = 4 };

/* What ran before is given up only where it dies much more often than it works. */
static bool dies_always(uint32_t deaths, uint32_t worked)
{
    return deaths >= DEATHS_LEAST && deaths > 2 * worked;
}

static bool has_learnt(const struct launches *l)
{
    for (size_t i = 0; i < l->range_count; i++)
        if (l->ranges[i]->watched.learnt)
            return true;
    return false;
}

/* A plan under which the program died or fell silent. */
static int blame(struct launches *l, struct launch_range *r, int arm, const struct launch_end *end)
{
    enum trial_state state = end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED;
    uint32_t deaths = ++r->bucket.attempts[arm].kills;
    bool forgiven = !end->hung && !dies_always(deaths, bucket_count(&r->bucket, arm));
    char why[LAUNCH_WHY_BYTES], range[64];

    launch_why(l->session, end, why);
    declaration_range(l->space, r->bucket.key.bucket, range, sizeof(range));
    note("%s %s, %s: %s%s", l->space->key, range, PLAN_WORDS(&l->arms[arm]), why,
         forgiven ? "; once more" : "");
    if (forgiven)
        return OK;
    if (arm == l->dictionary.default_arm) /* which ends the run, and is not held against it */
        return fail(ERR_LAUNCH, "the default plan itself does not run: %s", why);
    TRY(launch_range_fail(r, arm, state, why));
    TRY(store_commit(l->dictionary.store));
    l->barren = has_learnt(l) ? 0 : l->barren + 1; /* that plan had failed before */
    return l->barren < LAUNCH_PATIENCE
               ? OK
               : fail(ERR_LAUNCH, "the program failed %d times in a row and showed nothing: %s",
                      LAUNCH_PATIENCE, why);
}

/* No launch under these values ever ran a step: each plan with them fails, in every range. */
static int give_way_up(struct launches *l, const struct launch_end *end)
{
    struct way *way = &l->ways[l->now.way];
    char words[DECLARATION_PLAN_BYTES], why[LAUNCH_WHY_BYTES];

    way->broken = true;
    launch_why(l->session, end, why);
    launch_words(l->space, l->arms[way->arm].choice, words);
    if (way == &l->ways[l->way_of[l->dictionary.default_arm]])
        return fail(ERR_LAUNCH, "the default plan itself does not run (%s): %s", words, why);
    note("%s: %s, %d times before a step was timed: no plan with it is tried", words, why,
         DEATHS_LEAST);
    for (size_t i = 0; i < l->range_count; i++)
        for (int arm = 0; arm < (int)l->dictionary.arm_count; arm++)
            if (l->way_of[arm] == l->now.way)
                TRY(launch_range_fail(l->ranges[i], arm, end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED,
                                      why));
    return OK;
}

/* Nothing ever ran under these values: they may be the reason, or the plan that came first. */
static int judge_stillborn(struct launches *l, const struct launch_end *end)
{
    struct way *way = &l->ways[l->now.way];
    char why[LAUNCH_WHY_BYTES];

    if (dies_always(++way->stillborn, 0))
        return give_way_up(l, end);
    if (l->session->running)
        l->range->bucket.attempts[l->arm].kills++;
    note("launch %" PRIu32 ": %s, before a step was timed; once more", l->now.number,
         launch_why(l->session, end, why));
    return OK;
}

static int judge_failure(struct launches *l, const struct launch_end *end)
{
    char why[LAUNCH_WHY_BYTES];

    if (!l->ways[l->now.way].runs)
        return judge_stillborn(l, end);
    if (l->session->running)
        return blame(l, l->range, l->arm, end);
    l->barren = has_learnt(l) ? 0 : l->barren + 1;
    if (l->barren >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program failed outside of steps %d times in a row: %s",
                    LAUNCH_PATIENCE, launch_why(l->session, end, why));
    note("launch %" PRIu32 ": %s, %s", l->now.number, launch_why(l->session, end, why),
         l->session->asked ? "between two steps" : "before it asked anything");
    return OK;
}

/* A launch that ended well and did not show what it was started for. */
static void count_misses(struct launches *l)
{
    char range[64];

    for (size_t i = 0; i < l->range_count; i++) {
        struct launch_range *r = l->ranges[i];

        if (!launch_range_gives_up(r, &l->now))
            continue;
        declaration_range(l->space, r->bucket.key.bucket, range, sizeof(range));
        note("%s %s is left: %d launches in a row did not run %" PRIu32 " steps of one plan there",
             l->space->key, range, LAUNCH_PATIENCE, l->watch.least);
    }
}

/* The first two launches died alike, before the program wrote a line: nothing that could be tried
 * changes that. */
static int judge_silent_death(struct launches *l, const struct launch_end *end)
{
    if (l->now.number == 1)
        memcpy(l->silent_end, end->how, sizeof(l->silent_end));
    if (l->now.number != 2 || strcmp(l->silent_end, end->how) != 0)
        return OK;
    return fail(ERR_LAUNCH, "%s, twice before it asked anything: %s%s%s", end->how,
                TEXT_SHORT(l->options->exec, 300), *end->last_lines ? "; it wrote: " : "",
                end->last_lines);
}

int launches_judge_end(struct launches *l, const struct launch_end *end)
{
    bool failed = !l->session->dismissed && (end->hung || end->exit_code);

    l->silent = l->session->asked || failed ? 0 : l->silent + 1;
    if (failed && !end->hung && !l->session->spoken)
        TRY(judge_silent_death(l, end));
    if (failed)
        return judge_failure(l, end);
    l->barren = 0;
    if (l->silent >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program ended %d times in a row without asking anything",
                    LAUNCH_PATIENCE);
    count_misses(l);
    return OK;
}
