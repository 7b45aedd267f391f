/* The strategy that runs every plan, in interleaved rounds, so that drift hits all of them alike;
 * it is the judge of the others. */
#include "random.h"
#include "tally.h"

static int exhaustive_open(struct search *search)
{
    struct tally *tally;
    int rc = tally_open(search->setup.arm_count, search->setup.repeats, &tally);

    if (!rc)
        search->own = tally;
    return rc;
}

static void exhaustive_close(struct search *search)
{
    tally_close(search->own);
}

static void exhaustive_visit(struct search *search)
{
    tally_clear(search->own);
}

static bool out_of_samples(const struct search *search)
{
    return search->setup.limit && search->samples >= search->setup.limit;
}

/* The arm that comes first in this round's shuffle among those with the fewest samples. */
static int exhaustive_next(struct search *search)
{
    const struct tally *tally = search->own;
    uint64_t key = search->setup.seed ^ random_bits(search->capacity, 0), first = 0;
    int next = SEARCH_DONE;

    if (out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        uint32_t round = tally_count(tally, i);
        uint64_t place = random_bits(key, (uint64_t)round * SEARCH_ARMS_MAX + (uint64_t)i);
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

static void exhaustive_tell(struct search *search, int arm, double log_ns)
{
    tally_add(search->own, arm, log_ns);
}

static void exhaustive_drop(struct search *search, int arm, bool failed)
{
    (void)failed;
    (void)search;
    (void)arm; /* what is not usable is passed over */
}

static void exhaustive_verdict(struct search *search, struct search_result *out)
{
    tally_verdict(search->own, search, out);
    out->bound = tally_bound(search, out->winner);
    if (out_of_samples(search))
        out->reason = SEARCH_LIMIT;
}

const struct search_ops search_exhaustive = {
    .name = "exhaustive",
    .summary = "every plan, in interleaved rounds",
    .open = exhaustive_open,
    .close = exhaustive_close,
    .visit = exhaustive_visit,
    .next = exhaustive_next,
    .tell = exhaustive_tell,
    .add = tally_add_extra,
    .drop = exhaustive_drop,
    .verdict = exhaustive_verdict,
    .level = tally_level,
    .compare = tally_compare,
    .bound = tally_bound,
};
