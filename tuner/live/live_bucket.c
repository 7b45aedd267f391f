/* Stores the buckets of a live tuner in a sorted array, and computes the level and the slope of
 * each bucket's steps. */
#include "live_bucket.h"

#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void level_add(struct level *level, double ns)
{
    level->ns[level->count++ % LEVEL_STEPS] = ns;
}

double level_ns(const struct level *level)
{
    double values[LEVEL_STEPS];
    size_t count = level->count < LEVEL_STEPS ? level->count : LEVEL_STEPS;

    memcpy(values, level->ns, sizeof(values));
    return count ? median_of(values, count) : NAN;
}

/* Assumed: steps have noise of 5 %, and the standard deviation of slopes is 0.5. */
/* After OUTLIER_STEPS steps, a step further off than outlier_log does not count. */
enum { OUTLIER_STEPS = 5 };
static const double step_noise = 0.05, slope_prior = 0.05 * 0.05 / (0.5 * 0.5), outlier_log = 0.4;

void slope_add(struct slope *s, double log_c, double log_ns)
{
    double dx = log_c - s->x, dy = log_ns - s->y;

    if (s->count >= OUTLIER_STEPS && fabs(dy) > outlier_log)
        return;
    s->count++;
    s->x += dx / s->count;
    s->y += dy / s->count;
    s->xx += dx * (log_c - s->x);
    s->xy += dx * (log_ns - s->y);
}

double slope_of(const struct slope *s)
{
    return s->xy / (s->xx + slope_prior);
}

double slope_error(const struct slope *s)
{
    return 2 * step_noise / sqrt(s->xx + slope_prior);
}

/* ---- all buckets */

/* Returns the index at which the bucket is, or would be. */
static uint32_t index_of(const struct live_buckets *buckets, uint32_t bucket)
{
    uint32_t low = 0, high = buckets->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (buckets->items[middle]->bucket.key.bucket < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct live_bucket *live_buckets_at(struct live_buckets *buckets,
                                    const struct dictionary *dictionary, uint32_t bucket,
                                    bool *fresh)
{
    uint32_t index = index_of(buckets, bucket);
    struct live_bucket *lb;

    *fresh = false;
    if (index < buckets->count && buckets->items[index]->bucket.key.bucket == bucket)
        return buckets->items[index];
    if (buckets->count == buckets->room) {
        uint32_t new_room = 2 * buckets->room + 16;
        struct live_bucket **items =
            realloc(buckets->items, new_room * sizeof(struct live_bucket *));

        if (!items)
            return NULL;
        buckets->items = items;
        buckets->room = new_room;
    }
    lb = calloc(1, sizeof(*lb));
    if (!lb)
        return NULL;
    memmove(buckets->items + index + 1, buckets->items + index,
            (buckets->count - index) * sizeof(struct live_bucket *));
    buckets->items[index] = lb;
    buckets->count++;
    bucket_init(&lb->bucket, dictionary, bucket);
    *fresh = true;
    return lb;
}

void live_buckets_free(struct live_buckets *buckets)
{
    for (uint32_t i = 0; i < buckets->count; i++) {
        bucket_forget(&buckets->items[i]->bucket);
        free(buckets->items[i]);
    }
    free(buckets->items);
    *buckets = (struct live_buckets){ 0 };
}

/* Returns whether the best plan of a bucket was measured in this way. */
static bool is_measured(const struct live_bucket *lb, enum measured_how how)
{
    if (lb->state == LIVE_DECIDED)
        return lb->bucket.known && !lb->bucket.entry.inferred && lb->best >= 0;
    return how == BY_ANY_SAMPLES && lb->state == LIVE_OPEN && lb->answer.source == MOE_TENTATIVE;
}

struct live_bucket_pair live_buckets_around(const struct live_buckets *buckets, uint32_t bucket,
                                            enum measured_how how)
{
    uint32_t index = index_of(buckets, bucket);
    struct live_bucket_pair pair = { NULL, NULL };

    for (uint32_t i = index; i-- > 0 && !pair.below;)
        if (is_measured(buckets->items[i], how))
            pair.below = buckets->items[i];
    for (uint32_t i = index; i < buckets->count && !pair.above; i++)
        if (buckets->items[i]->bucket.key.bucket != bucket && is_measured(buckets->items[i], how))
            pair.above = buckets->items[i];
    return pair;
}
