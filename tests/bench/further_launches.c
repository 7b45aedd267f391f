/* Plays the rounds of one table, and holds what they leave of it against the truth. */
#include "further_launches.h"

#include "effort.h"
#include "rounds.h"

#include <math.h>
#include <stdlib.h>

enum { NORMAL = 1 /* of efforts[] */ };

static int candidate_of(const struct contender *c)
{
    return c->trial.arm < 0 ? default_arm(&c->bucket) : c->trial.arm;
}

static void open_rounds(const struct contender *contenders, int count, uint64_t seed,
                        struct rounds *out)
{
    static struct pairs first[ROUNDS_BUCKETS_MAX];
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = count,
                                  .default_arm = default_arm(&contenders[0].bucket),
                                  .launch_cycles = efforts[NORMAL].launch_cycles,
                                  .launches = efforts[NORMAL].launches - 1,
                                  .seed = seed };

    for (int i = 0; i < count; i++) {
        const struct contender *c = &contenders[i];

        first[i].count = 0;
        if (c->trial.arm >= 0)
            first[i] = trial_pairs(&c->trial);
        buckets[i] = (struct rounds_bucket){ 1, candidate_of(c), c->bucket.usable,
                                             first[i].count ? &first[i] : NULL, c->trial.belief };
    }
    rounds_open(out, &setup);
}

/* What is not proven so well gives way to the default. */
static void give_up(struct rounds *r, const struct contender *contenders, int count,
                    enum proof least, int *arms)
{
    struct rounds_word words[ROUNDS_BUCKETS_MAX];

    rounds_prove(r, -1, 0.01, words);
    for (int i = 0; i < count; i++)
        if (words[i].proof < least &&
            contenders[i].bucket.usable[default_arm(&contenders[i].bucket)])
            rounds_republish(r, i, arms[i] = default_arm(&contenders[i].bucket));
}

static void obey(struct rounds *r, const struct contender *contenders, int count, int *arms)
{
    give_up(r, contenders, count, PROOF_HARMLESS, arms);
    if (rounds_result(r).may_lose)
        give_up(r, contenders, count, PROOF_FASTER, arms);
    if (rounds_result(r).loses)
        give_up(r, contenders, count, (enum proof)(PROOF_FASTER + 1), arms);
}

void further_launches(const struct contender *contenders, int count, double luck,
                      struct noise *noise, uint64_t seed, struct further *out)
{
    struct rounds *r = malloc(sizeof(*r));
    int arms[ROUNDS_BUCKETS_MAX], at, arm;
    double pairs[ROUNDS_BUCKETS_MAX] = { 0 };

    if (!r)
        abort();
    open_rounds(contenders, count, seed, r);
    while (rounds_next(r, &at, &arm)) {
        const struct bucket *b = &contenders[at].bucket;
        double of_launch = luck * luck_of(b->surface, b->capacity, arm, (uint64_t)rounds_launch(r));

        rounds_tell(r, at, arm, noise_sample(noise, b->ns[arm] * exp(of_launch)));
        pairs[at] += .5;
    }
    for (int i = 0; i < count; i++)
        arms[i] = candidate_of(&contenders[i]);
    obey(r, contenders, count, arms);
    column_add(&out->launches, rounds_result(r).launches - 1);
    for (int i = 0; i < count; i++) {
        const struct bucket *b = &contenders[i].bucket;
        int standard = default_arm(b);

        column_add(&out->pairs, pairs[i]);
        column_add(&out->regret, 100 * regret_of(b, arms[i]));
        column_add(&out->harm,
                   b->usable[standard] ? 100 * (b->ns[arms[i]] / b->ns[standard] - 1) : 0);
    }
    free(r);
}

void further_free(struct further *f)
{
    free(f->pairs.values);
    free(f->launches.values);
    free(f->regret.values);
    free(f->harm.values);
}
