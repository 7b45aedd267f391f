/* Runs a decision against true times with noise: it asks for plans, and gets one time for each. */
#include "true_bucket.h"

#include "store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double true_bucket_regret(const struct true_bucket *b, int arm)
{
    return b->ns[arm] / b->best_ns - 1;
}

struct bucket_outcome true_bucket_outcome(const struct true_bucket *b, int arm)
{
    return (struct bucket_outcome){ .arm = arm,
                                    .regret = true_bucket_regret(b, arm),
                                    .harm = b->usable[b->default_arm]
                                                ? b->ns[arm] / b->ns[b->default_arm] - 1
                                                : 0 };
}

struct bucket_outcome true_bucket_tune(const struct true_bucket *b, struct search *search,
                                       struct noise *noise, uint32_t patience,
                                       struct decision *decision)
{
    struct bucket_outcome out;
    double lost = 0;
    uint32_t samples = 0, searched = 0;
    struct decision_setup setup = { .search = search,
                                    .capacity = b->capacity,
                                    .usable = b->usable,
                                    .default_arm = b->default_arm,
                                    .incumbent = -1,
                                    .patience = patience };
    struct decision_result result;
    struct entry_row entry;
    enum decision_purpose purpose;
    struct decision unseen; /* if the caller does not want to see it */
    int arm;

    if (!decision)
        decision = &unseen;
    decision_open(decision, &setup);
    while ((arm = decision_next(decision, &purpose)) != DECISION_DONE) {
        decision_tell(decision, purpose, arm, noise_sample(noise, b->seen_ns[arm]));
        lost += true_bucket_regret(b, arm);
        samples++;
        searched += purpose == DECISION_SEARCH;
    }
    if (!decision_result(decision, &result)) /* impossible: an arm is usable */
        abort();
    out = true_bucket_outcome(b, result.arm);
    out.lost = lost;
    out.samples = samples;
    out.searched = searched;
    out.bounded = !isnan(result.bound);
    out.bound = result.bound;
    out.gain = result.gain;
    entry = (struct entry_row){ .gain = result.gain, .bound = result.bound };
    snprintf(entry.decision, sizeof(entry.decision), "%s", decision_words[result.word]);
    out.undecided = entry_is_undecided(&entry);
    return out;
}
