/* Chooses which of two widths of buckets answers: by date, then by number of entries, then the
 * finer one. */
#include "width.h"

int width_order(const struct width *a, const struct width *b)
{
    if (a->decided_s != b->decided_s)
        return a->decided_s > b->decided_s ? -1 : 1;
    if (a->entries != b->entries)
        return a->entries > b->entries ? -1 : 1;
    return (a->window > b->window) - (a->window < b->window);
}

uint64_t width_reach(uint32_t window, uint32_t bucket)
{
    return ((uint64_t)bucket + 1) * window;
}

bool width_is_short(uint64_t reach, uint64_t widest)
{
    return reach < widest && reach < widest - reach;
}

void width_add(struct width *width, uint32_t bucket, bool measured, bool stale, int64_t decided_s)
{
    uint64_t reach = width_reach(width->window, bucket);

    width->entries++;
    width->reach = reach > width->reach ? reach : width->reach;
    if (measured && !stale && decided_s > width->decided_s)
        width->decided_s = decided_s;
}
