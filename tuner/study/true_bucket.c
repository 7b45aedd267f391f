/* Asks the decision what to run next, and tells it the true time with noise. */
#include "true_bucket.h"

#include "store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double regret_of(const struct true_bucket *b, int arm)
{
    return b->ns[arm] / b->best_ns - 1;
}

static bool is_undecided(const struct decision_result *r)
{
    struct entry_row entry = { .gain = r->gain, .bound = r->bound };

    snprintf(entry.decision, sizeof(entry.decision), "%s", decision_words[r->word]);
    return entry_is_undecided(&entry);
}

struct outcome true_bucket_outcome(const struct true_bucket *b, int arm)
{
    return (struct outcome){ .arm = arm,
                             .regret = regret_of(b, arm),
                             .harm = b->usable[b->default_arm]
                                         ? b->ns[arm] / b->ns[b->default_arm] - 1
                                         : 0 };
}

struct outcome true_bucket_tune(const struct true_bucket *b, struct search *search,
                                struct noise *noise, const struct effort *effort)
{
    const double *seen_ns = b->seen_ns ? b->seen_ns : b->ns;
    struct outcome out;
    double lost = 0;
    uint32_t samples = 0, searched = 0;
    struct decision_setup setup = { .search = search,
                                    .capacity = b->capacity,
                                    .usable = b->usable,
                                    .default_arm = b->default_arm,
                                    .incumbent = -1,
                                    .patience = effort ? effort->patience : 0 };
    struct decision_result result;
    enum decision_purpose purpose;
    struct decision decision;
    int arm;

    decision_open(&decision, &setup);
    while ((arm = decision_next(&decision, &purpose)) != DECISION_DONE) {
        decision_tell(&decision, purpose, arm, noise_sample(noise, seen_ns[arm]));
        lost += regret_of(b, arm);
        samples++;
        searched += purpose == DECISION_SEARCH;
    }
    if (!decision_result(&decision, &result))
        abort();
    if (b->trial)
        *b->trial =
            decision_trial(&decision) ? *decision_trial(&decision) : (struct trial_of){ .arm = -1 };
    out = true_bucket_outcome(b, result.arm);
    out.lost = lost;
    out.samples = samples;
    out.searched = searched;
    out.bounded = !isnan(result.bound);
    out.bound = result.bound;
    out.gain = result.gain;
    out.undecided = is_undecided(&result);
    return out;
}
