/* How a warp chooses experts that are in groups or have a bias.  It reads scores from memory each
 * time, since choosing takes little time beside the product before it. */
#ifndef CUDA_SCORES_CUH
#define CUDA_SCORES_CUH

#include "cuda_rows.cuh"

/* Turns a float into an unsigned number above 0 with the same order: -0 equals 0, and NaN comes
 * last. */
DEVICE uint32_t key_of(float x)
{
    uint32_t bits = __float_as_uint(x + 0.0f);

    if (x != x)
        return 1;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float key_float(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The scores by which one token chooses; without groups there is one group. */
struct scores {
    const float *row, *bias;
    uint32_t experts, groups, group_size;
    bool sums_two;    /* a group counts by the sum of its two best scores, else by its best */
    bool limited;     /* limit_groups() has set what follows */
    uint32_t allowed; /* one bit for each group, where there are at most 32 */
    uint32_t last_key, last_group; /* the last group from which the token may choose */
};

DEVICE float score_at(const scores &s, uint32_t expert)
{
    return s.bias ? s.row[expert] + s.bias[expert] : s.row[expert];
}

/* The key by which a token chooses this group. */
DEVICE uint32_t group_key(const scores &s, uint32_t group)
{
    float best = -INFINITY, second = -INFINITY;

    for (uint32_t i = 0; i < s.group_size; i++) {
        float x = score_at(s, group * s.group_size + i);

        if (x > best) {
            second = best;
            best = x;
        } else if (x > second) {
            second = x;
        }
    }
    return key_of(s.sums_two ? best + second : best);
}

/* True where (key, number) comes after (last_key, last): keys descend, and equal keys are in the
 * order of their numbers. */
DEVICE bool comes_after(uint32_t last_key, uint32_t last, uint32_t key, uint32_t number)
{
    return key < last_key || (key == last_key && number > last);
}

DEVICE bool is_allowed(const scores &s, uint32_t group)
{
    if (!s.limited)
        return true;
    if (s.groups <= WARP)
        return s.allowed >> group & 1;
    return !comes_after(s.last_key, s.last_group, group_key(s, group), group);
}

/* Finds the best (key, number) of all lanes; ties go to the lowest number. */
DEVICE void agree_on_best(uint32_t &key, uint32_t &number)
{
    uint32_t best_key = __reduce_max_sync(all_lanes, key);

    number = __reduce_min_sync(all_lanes, key == best_key ? number : 0xffffffffu);
    key = best_key;
}

/* Limits the choice to the `limit` best groups. */
DEVICE void limit_groups(scores &s, uint32_t limit)
{
    uint32_t lane = threadIdx.x % WARP, lane_key = lane < s.groups ? group_key(s, lane) : 0;

    s.last_key = s.last_group = 0xffffffffu;
    for (uint32_t i = 0; i < limit; i++) {
        uint32_t best_key = 0, best_group = 0xffffffffu;

        for (uint32_t g = lane; g < s.groups; g += WARP) {
            uint32_t key = g == lane ? lane_key : group_key(s, g);

            if (key > best_key && comes_after(s.last_key, s.last_group, key, g)) {
                best_key = key;
                best_group = g;
            }
        }
        agree_on_best(best_key, best_group);
        s.last_key = best_key;
        s.last_group = best_group;
    }
    s.allowed = __ballot_sync(
        all_lanes, lane < s.groups && !comes_after(s.last_key, s.last_group, lane_key, lane));
    s.limited = true;
}

/* Replaces (key, expert) by the best expert after it whose group is allowed. */
DEVICE void next_allowed(const scores &s, uint32_t &key, uint32_t &expert)
{
    uint32_t best_key = 0, best_expert = 0xffffffffu;

    for (uint32_t e = threadIdx.x % WARP; e < s.experts; e += WARP) {
        uint32_t this_key = is_allowed(s, e / s.group_size) ? key_of(score_at(s, e)) : 0;

        if (this_key > best_key && comes_after(key, expert, this_key, e)) {
            best_key = this_key;
            best_expert = e;
        }
    }
    agree_on_best(best_key, best_expert);
    key = best_key;
    expert = best_expert;
}

/* Softmax of a row in place, whose largest value is `top`.  Returns the sum. */
DEVICE float normalise(float *row, uint32_t n, float top)
{
    uint32_t lane = threadIdx.x % WARP;
    float sum = 0;

    for (uint32_t e = lane; e < n; e += WARP)
        sum += expf(row[e] - top);
    sum = warp_sum(sum);
    __syncwarp(); /* others may still read what is overwritten */
    for (uint32_t e = lane; e < n; e += WARP)
        row[e] = expf(row[e] - top) / sum;
    return sum;
}

#endif
