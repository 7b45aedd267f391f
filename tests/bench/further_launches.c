/* Plays the rounds of one table over several made-up launches. */
#include "further_launches.h"

#include <math.h>
#include <stdlib.h>

static int by_capacity(const void *a, const void *b)
{
    const struct contender *x = a, *y = b;

    return (x->bucket.capacity > y->bucket.capacity) - (x->bucket.capacity < y->bucket.capacity);
}

static void open_rounds(const struct contender *contenders, int count, struct search *search,
                        const struct rounds_setup *how, struct rounds *out)
{
    static struct pairs first[ROUNDS_BUCKETS_MAX];
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    int statics[ROUNDS_STATICS_MAX], usual = contenders[0].bucket.default_arm;
    struct rounds_setup setup = *how;

    for (int i = 0; i < count; i++) {
        const struct paired_proof *proof = decision_proof(&contenders[i].decision);

        buckets[i] = (struct rounds_bucket){ .weight = 1,
                                             .capacity = contenders[i].bucket.capacity,
                                             .table = proof ? proof->arm : usual,
                                             .usable = contenders[i].bucket.usable };
        if (!proof)
            continue; /* nothing but the default was a candidate */
        first[i] = proof_pairs(proof);
        buckets[i].first = first[i].count ? &first[i] : NULL;
        buckets[i].belief = proof->belief;
    }
    setup.buckets = buckets;
    setup.bucket_count = count;
    setup.default_arm = usual;
    setup.statics = statics;
    setup.static_count = rounds_statics(search, buckets, count, usual, statics);
    rounds_open(out, &setup);
}

int further_launches(const struct surface *surface, struct contender *contenders, int count,
                     struct search *search, const struct rounds_setup *how, double luck,
                     struct noise *noise, struct rounds_verdict *left, double *pairs)
{
    struct rounds *r = malloc(sizeof(*r));
    int at, arm, launches;

    if (!r)
        abort();
    qsort(contenders, (size_t)count, sizeof(*contenders), by_capacity);
    open_rounds(contenders, count, search, how, r);
    for (int i = 0; i < count && pairs; i++)
        pairs[i] = 0;
    while (rounds_next(r, &at, &arm)) {
        const struct true_bucket *b = &contenders[at].bucket;
        double of_launch =
            luck * surface_luck(surface, b->capacity, arm, (uint64_t)rounds_launch(r));

        rounds_tell(r, at, arm, noise_sample(noise, b->ns[arm] * exp(of_launch)));
        if (pairs)
            pairs[at] += .5;
    }
    rounds_decide(r, 0.01, 0.01, left);
    launches = rounds_result(r).launches - 1;
    free(r);
    return launches;
}
