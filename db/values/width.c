/* Which of two widths of buckets answers: by date, then by number of entries, then the finer one.
 */
#include "width.h"

int width_order(const struct width *a, const struct width *b)
{
    if (a->decided_s != b->decided_s)
        return a->decided_s > b->decided_s ? -1 : 1;
    if (a->entries != b->entries)
        return a->entries > b->entries ? -1 : 1;
    return (a->window > b->window) - (a->window < b->window);
}

void width_add(struct width *width, bool measured, bool stale, int64_t decided_s)
{
    width->entries++;
    if (measured && !stale && decided_s > width->decided_s)
        width->decided_s = decided_s;
}
