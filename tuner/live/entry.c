/* Verdicts into rows. */
#include "entry.h"

#include "plan.h"

#include <stdio.h>
#include <time.h>

void entry_times(const struct contest_verdict *v, struct entry_row *out)
{
    out->time_us = v->median_ns * 1e-3;
    out->low_us = v->low_ns * 1e-3;
    out->high_us = v->high_ns * 1e-3;
    out->default_us = v->default_ns * 1e-3;
    out->gain = v->gain;
    out->gain_low = v->gain_low;
    out->gain_high = v->gain_high;
    out->samples = v->rounds;
}

void entry_fill(const struct decision_result *result, const struct moe_plan *arms,
                struct entry_row *out)
{
    const struct search_verdict *found = &result->found;
    const struct contest_verdict *contest = &result->contest;

    out->plan = arms[result->arm];
    out->search_winner = arms[found->winner];
    out->bound = found->bound;
    out->decided_s = time(NULL);
    entry_times(contest, out);
    if (found->runner_up >= 0)
        out->runner_up = arms[found->runner_up];
    /* Who keeps the default loses at most what the winner may be better by. */
    if (!plan_equal(&out->plan, &out->search_winner) && contest->missed_high > 0)
        out->bound += contest->missed_high;
    snprintf(out->reason, sizeof(out->reason), "%s", search_reason_words[found->reason]);
    snprintf(out->decision, sizeof(out->decision), "%s", contest_decision_words[contest->decision]);
}
