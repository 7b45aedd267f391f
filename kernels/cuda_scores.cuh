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
    uint32_t experts, groups, each;
    bool sums, limited;
    uint32_t allowed;              /* one bit for each group, where there are at most 32 */
    uint32_t last_key, last_group; /* the last group from which the token may choose */
};

DEVICE float score_at(const scores &s, uint32_t expert)
{
    return s.bias ? s.row[expert] + s.bias[expert] : s.row[expert];
}

DEVICE uint32_t group_key(const scores &s, uint32_t group)
{
    float best = -INFINITY, second = -INFINITY;

    for (uint32_t i = 0; i < s.each; i++) {
        float x = score_at(s, group * s.each + i);

        if (x > best) {
            second = best;
            best = x;
        } else if (x > second) {
            second = x;
        }
    }
    return key_of(s.sums ? best + second : best);
}

DEVICE bool comes_after(uint32_t last_key, uint32_t last, uint32_t key, uint32_t at)
{
    return key < last_key || (key == last_key && at > last);
}

DEVICE bool is_allowed(const scores &s, uint32_t group)
{
    if (!s.limited)
        return true;
    if (s.groups <= WARP)
        return s.allowed >> group & 1;
    return !comes_after(s.last_key, s.last_group, group_key(s, group), group);
}

/* Finds the best of all lanes; ties go to the lowest number. */
DEVICE void agree_on_best(uint32_t &key, uint32_t &at)
{
    uint32_t most = __reduce_max_sync(all_lanes, key);

    at = __reduce_min_sync(all_lanes, key == most ? at : 0xffffffffu);
    key = most;
}

DEVICE void limit_groups(scores &s, uint32_t limit)
{
    uint32_t lane = threadIdx.x % WARP, own = lane < s.groups ? group_key(s, lane) : 0;

    s.last_key = s.last_group = 0xffffffffu;
    for (uint32_t i = 0; i < limit; i++) {
        uint32_t best = 0, at = 0xffffffffu;

        for (uint32_t g = lane; g < s.groups; g += WARP) {
            uint32_t key = g == lane ? own : group_key(s, g);

            if (key > best && comes_after(s.last_key, s.last_group, key, g)) {
                best = key;
                at = g;
            }
        }
        agree_on_best(best, at);
        s.last_key = best;
        s.last_group = at;
    }
    s.allowed = __ballot_sync(all_lanes,
                              lane < s.groups && !comes_after(s.last_key, s.last_group, own, lane));
    s.limited = true;
}

DEVICE void next_allowed(const scores &s, uint32_t &key, uint32_t &expert)
{
    uint32_t best = 0, at = 0xffffffffu;

    for (uint32_t e = threadIdx.x % WARP; e < s.experts; e += WARP) {
        uint32_t k = is_allowed(s, e / s.each) ? key_of(score_at(s, e)) : 0;

        if (k > best && comes_after(key, expert, k, e)) {
            best = k;
            at = e;
        }
    }
    agree_on_best(best, at);
    key = best;
    expert = at;
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
