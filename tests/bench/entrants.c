/* Strategies that are compared: how each of them tunes one bucket. */
#include "entrants.h"

#include "plan.h"
#include "random.h"
#include "stats.h"
#include "true_bucket.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double luck_of(const struct surface *surface, double capacity, int arm, uint64_t launch)
{
    uint64_t key = random_bits(random_bits(surface->seed, 11), (uint64_t)capacity);

    return normal_draw(random_bits(key, launch), (uint64_t)arm);
}

bool bucket_at(const struct surface *surface, double capacity, double luck, bool first,
               struct bucket *out)
{
    *out = (struct bucket){
        .surface = surface, .capacity = capacity, .best_ns = INFINITY, .first = first
    };
    for (int i = 0; i < (int)surface->arm_count; i++) {
        out->ns[i] = out->seen_ns[i] = surface_ns(surface, capacity, i);
        if (luck > 0)
            out->seen_ns[i] *= exp(luck * luck_of(surface, capacity, i, 0));
        out->usable[i] = surface_fits(surface, capacity, i);
        if (out->usable[i])
            out->best_ns = fmin(out->best_ns, out->ns[i]);
    }
    return isfinite(out->best_ns);
}

double regret_of(const struct bucket *b, int arm)
{
    return b->ns[arm] / b->best_ns - 1;
}

int default_arm(const struct bucket *b)
{
    struct moe_plan default_plan = plan_default(NULL);

    for (int i = 0; i < (int)b->surface->arm_count; i++)
        if (plan_equal(&b->surface->arms[i], &default_plan))
            return i;
    return 0;
}

struct bucket_outcome tune_bucket(struct search *search, struct noise *noise,
                                  const struct bucket *b)
{
    struct true_bucket truth = { .capacity = (uint64_t)b->capacity,
                                 .ns = b->ns,
                                 .seen_ns = b->seen_ns,
                                 .usable = b->usable,
                                 .default_arm = default_arm(b),
                                 .best_ns = b->best_ns,
                                 .trial = b->trial,
                                 .patience = b->patience };
    struct bucket_outcome out = true_bucket_tune(&truth, search, noise, NULL);

    out.first = b->first;
    return out;
}

/* ---- strategies to compare */

static struct bucket_outcome run_default(struct search *search, struct noise *noise,
                                         const struct bucket *b)
{
    (void)search;
    (void)noise;
    return (struct bucket_outcome){ .regret = regret_of(b, default_arm(b)), .first = b->first };
}

static struct bucket_outcome run_model(struct search *search, struct noise *noise,
                                       const struct bucket *b)
{
    struct search_result verdict;

    (void)noise;
    search_visit(search, (uint64_t)b->capacity, b->usable, false);
    verdict = search_result(search);
    return (struct bucket_outcome){ .regret = regret_of(b, verdict.winner),
                                    .first = b->first,
                                    .bounded = true,
                                    .bound = verdict.bound };
}

/* All samples of a plan in a row, as most tuners do it: drift is taken for difference. */
static struct bucket_outcome run_in_a_row(struct search *search, struct noise *noise,
                                          const struct bucket *b)
{
    struct bucket_outcome out = { .first = b->first };
    double least = INFINITY, times[5];
    int winner = 0;

    (void)search;
    for (int arm = 0; arm < (int)b->surface->arm_count; arm++) {
        if (!b->usable[arm])
            continue;
        for (int i = 0; i < 5; i++) {
            times[i] = (double)noise_sample(noise, b->seen_ns[arm]);
            out.lost += regret_of(b, arm);
            out.samples++;
        }
        sort_doubles(times, 5);
        if (times[2] < least) {
            least = times[2];
            winner = arm;
        }
    }
    out.regret = regret_of(b, winner);
    return out;
}

/* Interleaved rounds without a model: an arm leaves once it is clearly behind the leader. */
static struct bucket_outcome run_race(struct search *search, struct noise *noise,
                                      const struct bucket *b)
{
    enum { ROUNDS = 40 };
    static double log_ns[SEARCH_ARMS_MAX][ROUNDS];
    bool in[SEARCH_ARMS_MAX];
    struct bucket_outcome out = { .first = b->first };
    int n_in = 0, leader = -1;

    (void)search;
    for (int i = 0; i < (int)b->surface->arm_count; i++)
        n_in += in[i] = b->usable[i];
    for (int round = 0; round < ROUNDS && (n_in > 1 || leader < 0); round++) {
        double mean[SEARCH_ARMS_MAX], squares = 0.0025 * 6, freedom = 6;

        leader = -1;
        for (int i = 0; i < (int)b->surface->arm_count; i++) {
            double middle, sum = 0, kept = 0, sorted[ROUNDS];

            if (!in[i])
                continue;
            log_ns[i][round] = log((double)noise_sample(noise, b->seen_ns[i]));
            out.samples++;
            out.lost += regret_of(b, i);
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
        for (int i = 0; i < (int)b->surface->arm_count; i++)
            if (in[i] && i != leader && round >= 1 &&
                mean[i] - mean[leader] + 0.01 >
                    2.3 * sqrt(1.15 * squares / freedom * 2 / (round + 1))) {
                in[i] = false;
                n_in--;
            }
    }
    out.regret = regret_of(b, leader);
    return out;
}

const struct entrant entrants[ENTRANTS] = {
    { "paper x1", "paper", 1, tune_bucket },
    { "paper x5", "paper", 5, tune_bucket },
    { "paper x10", "paper", 10, tune_bucket },
    { "exhaustive x5 in a row", NULL, 5, run_in_a_row },
    { "exhaustive x20", "exhaustive", 20, tune_bucket },
    { "race without model", NULL, 0, run_race },
    { "model alone", "guided", 0, run_model },
    { "default plan", NULL, 0, run_default },
    { "guided", "guided", 0, tune_bucket },
    { "  with the true model", "guided", 0, tune_bucket },
};
