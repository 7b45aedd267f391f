/* What the buckets of a table are ranges of. */
#include "ranges.h"

#include "shape.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ranges ranges_of(const struct moe_shape *shape, uint32_t window)
{
    return (struct ranges){ declaration_find(shape->space), window };
}

const char *ranges_key(struct ranges r)
{
    return r.declared ? r.declared->key : "capacities";
}

uint64_t ranges_end(struct ranges r)
{
    return r.declared ? declaration_buckets(r.declared) : (uint64_t)UINT32_MAX + 1;
}

bool ranges_find(struct ranges r, uint64_t key, double class, uint32_t *bucket)
{
    if (!r.declared) {
        *bucket = (key < UINT32_MAX ? (uint32_t)key : UINT32_MAX) / r.window;
        return true;
    }
    if (r.declared->class_edges && !(class >= 0))
        return false;
    *bucket = declaration_bucket_at(r.declared, key, class);
    return true;
}

bool ranges_hold(struct ranges r, uint32_t bucket, uint64_t key)
{
    return key >= ranges_from(r, bucket) && key <= ranges_to(r, bucket);
}

uint64_t ranges_from(struct ranges r, uint32_t bucket)
{
    uint32_t classes = ranges_classes(r);

    if (!r.declared)
        return (uint64_t)bucket * r.window;
    return bucket < classes ? 0 : declaration_key(r.declared, bucket - classes) + 1;
}

uint64_t ranges_to(struct ranges r, uint32_t bucket)
{
    return r.declared && bucket / ranges_classes(r) >= r.declared->key_edges
               ? UINT64_MAX
               : ranges_capacity(r, bucket);
}

uint64_t ranges_capacity(struct ranges r, uint32_t bucket)
{
    return r.declared ? declaration_key(r.declared, bucket) : bucket_capacity(r.window, bucket);
}

double ranges_class(struct ranges r, uint32_t bucket)
{
    return r.declared ? declaration_class(r.declared, bucket) : 0;
}

const char *ranges_text(struct ranges r, uint32_t first, uint32_t last, char room[RANGE_TEXT_BYTES])
{
    const struct declaration *d = r.declared;
    uint32_t classes = ranges_classes(r);
    int used;

    if (!d) {
        snprintf(room, RANGE_TEXT_BYTES, "%" PRIu64 "-%" PRIu64, ranges_from(r, first),
                 ranges_to(r, last));
        return room;
    }
    declaration_ranges(d, first, last, room, RANGE_TEXT_BYTES);
    if (classes == 1 || first == last)
        return room;
    if (first % classes == 0 && last % classes == classes - 1) { /* all classes of some ranges */
        room[strcspn(room, " ")] = 0;
        return room;
    }
    used = declaration_range(d, first, room, RANGE_TEXT_BYTES);
    if (used < RANGE_TEXT_BYTES - 8) {
        used += snprintf(room + used, RANGE_TEXT_BYTES - (size_t)used, " to ");
        declaration_range(d, last, room + used, RANGE_TEXT_BYTES - (size_t)used);
    }
    return room;
}

const char *ranges_bucket(struct ranges r, uint32_t bucket, char room[RANGE_TEXT_BYTES])
{
    if (r.declared)
        text_put(room, RANGE_TEXT_BYTES, "bucket %u (%s %s)", bucket, r.declared->key,
                 RANGE_TEXT(r, bucket, bucket));
    else
        snprintf(room, RANGE_TEXT_BYTES, "bucket %u of width %u", bucket, r.window);
    return room;
}
