/* Sorts plans by how the program has to be started for them. */
#include "launch_ways.h"

#include "array.h"
#include "status.h"

static size_t find_way(const struct declaration *d, const struct way *ways, size_t count,
                       const struct moe_plan *plans, uint32_t choice)
{
    size_t w = 0;

    while (w < count && !declaration_same_launch(d, choice, plans[ways[w].arm].choice))
        w++;
    return w;
}

/* How many live axes a choice has as the default has them. */
static size_t likeness(const struct declaration *d, uint32_t choice)
{
    size_t alike = 0;

    for (size_t a = 0; a < d->axes; a++)
        alike += !d->axis[a].restart && declaration_value(d, choice, a) == d->axis[a].fallback;
    return alike;
}

int ways_list(const struct declaration *d, const struct moe_plan *plans, size_t count,
              uint32_t *way_of, struct way **ways, size_t *way_count)
{
    for (size_t i = 0; i < count; i++) {
        size_t w = find_way(d, *ways, *way_count, plans, plans[i].choice);
        const struct way fresh = { .arm = (int)i, .safe = (int)i };

        if (w == *way_count)
            ARRAY_APPEND(*ways, *way_count, fresh);
        else if (likeness(d, plans[i].choice) > likeness(d, plans[(*ways)[w].safe].choice))
            (*ways)[w].safe = (int)i;
        way_of[i] = (uint32_t)w;
    }
    return OK;
}

int ways_next(const struct way *ways, size_t count, uint32_t launches)
{
    double most = 0;
    int next = -1;

    for (size_t w = 0; w < count; w++) {
        double urgent = ways[w].votes * (launches + 1 - ways[w].last);
        bool again = launches && ways[w].last == launches;

        if (urgent > 0 &&
            (next < 0 || (urgent > most && !again) || (launches && ways[next].last == launches))) {
            most = urgent;
            next = (int)w;
        }
    }
    return next;
}
