/* The strategy that runs every plan, in interleaved rounds, so that drift hits all of them alike;
 * it is the judge of the others. */
#include "random.h"
#include "tally.h"

/* Of the arms with the fewest samples the one that comes first in this round's shuffle. */
static int exhaustive_next(struct search *search)
{
    enum { ROUND = 512 };
    const struct tally *tally = search->own;
    uint64_t key = search->setup.seed ^ random_bits(search->capacity, 0), first = 0;
    int next = SEARCH_DONE;

    if (tally_out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        uint32_t round = tally_count(tally, i);
        uint64_t place = random_bits(key, (uint64_t)round * ROUND + (uint64_t)i);
        uint32_t least = next < 0 ? UINT32_MAX : tally_count(tally, next);

        if (!search->usable[i] || tally_full(tally, i))
            continue;
        if (round < least || (round == least && place < first)) {
            next = i;
            first = place;
        }
    }
    return next;
}

static void exhaustive_verdict(struct search *search, struct search_result *out)
{
    tally_verdict(search, out);
    out->bound = tally_bound(search, out->winner);
}

const struct search_ops search_exhaustive = {
    .name = "exhaustive",
    .summary = "every plan, in interleaved rounds",
    .open = tally_open,
    .close = tally_close,
    .visit = tally_visit,
    .next = exhaustive_next,
    .tell = tally_tell,
    .verdict = exhaustive_verdict,
    .level = tally_level,
    .compare = tally_compare,
    .bound = tally_bound,
};
