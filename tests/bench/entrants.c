/* Tunes one bucket by each of the compared strategies. */
#include "entrants.h"

#include "stats.h"

#include <math.h>
#include <string.h>

static struct bucket_outcome run_default(const struct true_bucket *b, struct search *search,
                                         struct noise *noise)
{
    (void)search;
    (void)noise;
    return true_bucket_outcome(b, b->default_arm);
}

static struct bucket_outcome run_model(const struct true_bucket *b, struct search *search,
                                       struct noise *noise)
{
    struct search_result verdict;
    struct bucket_outcome out;

    (void)noise;
    search_begin(search, b->capacity, b->usable, false);
    verdict = search_result(search);
    out = true_bucket_outcome(b, verdict.winner);
    out.bounded = true;
    out.bound = verdict.bound;
    return out;
}

/* What the truth says of the winner, after so many steps. */
static struct bucket_outcome outcome_of(const struct true_bucket *b, int winner, uint32_t samples,
                                        double lost)
{
    struct bucket_outcome out = true_bucket_outcome(b, winner);

    out.samples = samples;
    out.lost = lost;
    return out;
}

/* All samples of a plan in a row, as most tuners do it: drift is taken for difference. */
static struct bucket_outcome run_in_a_row(const struct true_bucket *b, struct search *search,
                                          struct noise *noise)
{
    double least = INFINITY, lost = 0, times[5];
    uint32_t samples = 0;
    int winner = 0;

    (void)search;
    for (int arm = 0; arm < (int)b->arm_count; arm++) {
        if (!b->usable[arm])
            continue;
        for (int i = 0; i < 5; i++) {
            times[i] = (double)noise_sample(noise, b->seen_ns[arm]);
            lost += true_bucket_regret(b, arm);
            samples++;
        }
        sort_doubles(times, 5);
        if (times[2] < least) {
            least = times[2];
            winner = arm;
        }
    }
    return outcome_of(b, winner, samples, lost);
}

/* Interleaved rounds without a model: an arm leaves once it is clearly behind the leader. */
static struct bucket_outcome run_race(const struct true_bucket *b, struct search *search,
                                      struct noise *noise)
{
    enum { ROUNDS = 40 };
    static double log_ns[SEARCH_ARMS_MAX][ROUNDS];
    bool in[SEARCH_ARMS_MAX];
    uint32_t samples = 0;
    double lost = 0;
    int n_in = 0, leader = -1;

    (void)search;
    for (int i = 0; i < (int)b->arm_count; i++)
        n_in += in[i] = b->usable[i];
    for (int round = 0; round < ROUNDS && (n_in > 1 || leader < 0); round++) {
        double mean[SEARCH_ARMS_MAX], squares = 0.0025 * 6, freedom = 6;

        leader = -1;
        for (int i = 0; i < (int)b->arm_count; i++) {
            double middle, sum = 0, kept = 0, sorted[ROUNDS];

            if (!in[i])
                continue;
            log_ns[i][round] = log((double)noise_sample(noise, b->seen_ns[i]));
            samples++;
            lost += true_bucket_regret(b, i);
            memcpy(sorted, log_ns[i], sizeof(sorted));
            sort_doubles(sorted, (size_t)round + 1);
            middle = sorted[round / 2];
            for (int k = 0; k <= round; k++)
                if (fabs(sorted[k] - middle) < 0.4) {
                    sum += sorted[k];
                    kept++;
                }
            mean[i] = sum / kept;
            for (int k = 0; k <= round; k++)
                if (fabs(sorted[k] - middle) < 0.4)
                    squares += (sorted[k] - mean[i]) * (sorted[k] - mean[i]);
            freedom += kept - 1;
            if (leader < 0 || mean[i] < mean[leader])
                leader = i;
        }
        for (int i = 0; i < (int)b->arm_count; i++)
            if (in[i] && i != leader && round >= 1 &&
                mean[i] - mean[leader] + 0.01 >
                    2.3 * sqrt(1.15 * squares / freedom * 2 / (round + 1))) {
                in[i] = false;
                n_in--;
            }
    }
    return outcome_of(b, leader, samples, lost);
}

const struct entrant entrants[ENTRANTS] = {
    { "paper x1", "paper", 1, NULL },
    { "paper x5", "paper", 5, NULL },
    { "paper x10", "paper", 10, NULL },
    { "exhaustive x5 in a row", NULL, 5, run_in_a_row },
    { "exhaustive x20", "exhaustive", 20, NULL },
    { "race without model", NULL, 0, run_race },
    { "model alone", "guided", 0, run_model },
    { "default plan", NULL, 0, run_default },
    { "guided", "guided", 0, NULL },
    { "  with the true model", "guided", 0, NULL },
};
