/* Plays the rounds of one table, and holds what they leave of it against the truth. */
#include "further_launches.h"

#include "rounds.h"

#include <math.h>
#include <stdlib.h>

enum { NORMAL = 1 /* of efforts[] */ };

static int candidate_of(const struct contender *c)
{
    return c->trial.arm < 0 ? default_arm(&c->bucket) : c->trial.arm;
}

static void open_rounds(const struct contender *contenders, int count, struct search *search,
                        uint64_t seed, struct rounds *out)
{
    static struct pairs first[ROUNDS_BUCKETS_MAX];
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    int statics[ROUNDS_STATICS_MAX], of_default = default_arm(&contenders[0].bucket);
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = count,
                                  .default_arm = of_default,
                                  .statics = statics,
                                  .launch_cycles = efforts[NORMAL].launch_cycles,
                                  .launches = efforts[NORMAL].launches - 1,
                                  .worth = efforts[NORMAL].worth,
                                  .seed = seed };

    for (int i = 0; i < count; i++) {
        const struct contender *c = &contenders[i];

        first[i].count = 0;
        if (c->trial.arm >= 0)
            first[i] = trial_pairs(&c->trial);
        buckets[i] = (struct rounds_bucket){ 1,
                                             (uint64_t)c->bucket.capacity,
                                             candidate_of(c),
                                             c->bucket.usable,
                                             first[i].count ? &first[i] : NULL,
                                             c->trial.belief };
    }
    setup.static_count = rounds_statics(search, buckets, count, of_default, statics);
    rounds_open(out, &setup);
}

static int by_capacity(const void *a, const void *b)
{
    const struct contender *x = a, *y = b;

    return (x->bucket.capacity > y->bucket.capacity) - (x->bucket.capacity < y->bucket.capacity);
}

void further_launches(struct contender *contenders, int count, struct search *search, double luck,
                      struct noise *noise, uint64_t seed, struct further *out)
{
    struct rounds *r = malloc(sizeof(*r));
    struct rounds_left left[ROUNDS_BUCKETS_MAX];
    int at, arm;
    double pairs[ROUNDS_BUCKETS_MAX] = { 0 };

    if (!r)
        abort();
    qsort(contenders, (size_t)count, sizeof(*contenders), by_capacity);
    open_rounds(contenders, count, search, seed, r);
    while (rounds_next(r, &at, &arm)) {
        const struct bucket *b = &contenders[at].bucket;
        double of_launch = luck * luck_of(b->surface, b->capacity, arm, (uint64_t)rounds_launch(r));

        rounds_tell(r, at, arm, noise_sample(noise, b->ns[arm] * exp(of_launch)));
        pairs[at] += .5;
    }
    rounds_obey(r, 0.01, 0.01, left);
    column_add(&out->launches, rounds_result(r).launches - 1);
    for (int i = 0; i < count; i++) {
        const struct bucket *b = &contenders[i].bucket;
        int standard = default_arm(b);

        column_add(&out->pairs, pairs[i]);
        column_add(&out->regret, 100 * regret_of(b, left[i].arm));
        column_add(&out->harm,
                   b->usable[standard] ? 100 * (b->ns[left[i].arm] / b->ns[standard] - 1) : 0);
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
