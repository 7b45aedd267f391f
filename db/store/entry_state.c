/* How far an entry is believed, and how it becomes stale. */
#include "store_inside.h"

#include "status.h"

#include <math.h>
#include <string.h>

const char *const entry_state_words[ENTRY_STATE_COUNT] = { "inferred", "stale",   "imported",
                                                           "tie",      "refuted", "cut off" };

bool entry_is(const struct entry_row *entry, unsigned states)
{
    bool refuted = !strcmp(entry->decision, "refuted");
    unsigned state = (entry->inferred ? ENTRY_INFERRED : 0) | (entry->stale ? ENTRY_STALE : 0) |
                     (entry->tier == TIER_IMPORTED ? ENTRY_IMPORTED : 0) |
                     (!strcmp(entry->decision, "tie") ? ENTRY_TIE : 0) |
                     (refuted ? ENTRY_REFUTED : 0) |
                     (!strcmp(entry->reason, "cut") ? ENTRY_CUT : 0) |
                     (entry->stale && !refuted ? ENTRY_OUTDATED : 0);

    return state & states;
}

bool entry_is_unsound(const struct entry_row *entry)
{
    bool claims = !strcmp(entry->decision, "adopted") || !strcmp(entry->decision, "likely");

    return claims && !entry->stale && !(isfinite(entry->gain.value) && entry->gain.value > 0);
}

/* Less than this is not worth another look. */
static const double undecided_loss = 0.02;

bool entry_is_undecided(const struct entry_row *entry)
{
    static const char *const open_words[] = { "default", "likely", "incumbent" };
    bool open = false;

    if (entry_is(entry, ENTRY_TIE))
        return true;

    for (size_t i = 0; i < sizeof(open_words) / sizeof(open_words[0]); i++)
        open |= !strcmp(entry->decision, open_words[i]);
    /* What is proven faster than the default may not be the best, but it is a decision. */
    return open && !entry->inferred && !(entry->gain.low > 0) && entry->bound > undecided_loss;
}

struct expiry {
    struct store *store;
    uint32_t window, first, last;
    const char *why, *load; /* load NULL: whatever it is */
};

static int make_stale(void *self, const struct entry_row *entry)
{
    const struct expiry *x = self;
    struct entry_row stale = *entry;

    if (entry->stale || (x->window && entry->window != x->window) || entry->bucket < x->first ||
        entry->bucket > x->last || (x->load && !strcmp(entry->load, x->load)))
        return OK;
    stale.stale = true;
    return store_entry(x->store, &stale, x->why);
}

int store_expire(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t first, uint32_t last, const char *why)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    struct expiry expiry = { store, window, first, last, why, NULL };

    TRY(store_entries(store, cluster, shape, make_stale, &expiry));
    TRY(records_delete(&store->records, "sample", RECORDS_SAMPLES, range, 5));
    TRY(records_delete(&store->records, "phase", RECORDS_SAMPLES, range, 5));
    return records_delete(&store->records, "trial", RECORDS_RANGE, range, 5);
}

int store_expire_loads(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, const char *load)
{
    struct expiry expiry = { store, window, first, last, "another load", load };

    return store_entries(store, cluster, shape, make_stale, &expiry);
}
