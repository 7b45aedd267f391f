/* Divides keys into buckets: from the width of a layer's table, or from the edges that a space
 * declares. */
#include "buckets.h"

#include "shape.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct buckets buckets_of(const struct moe_shape *shape, uint32_t window)
{
    return (struct buckets){ declaration_find(shape->space), window };
}

const char *buckets_key_name(struct buckets r)
{
    return r.declared ? r.declared->key : "capacities";
}

uint64_t buckets_end(struct buckets r)
{
    return r.declared ? declaration_buckets(r.declared) : (uint64_t)UINT32_MAX + 1;
}

bool buckets_find(struct buckets r, uint64_t key, double class, uint32_t *bucket)
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

bool buckets_contain(struct buckets r, uint32_t bucket, uint64_t key)
{
    return key >= buckets_lowest(r, bucket) && key <= buckets_highest(r, bucket);
}

uint64_t buckets_lowest(struct buckets r, uint32_t bucket)
{
    uint32_t classes = buckets_classes(r);

    if (!r.declared)
        return (uint64_t)bucket * r.window;
    return bucket < classes ? 0 : declaration_key(r.declared, bucket - classes) + 1;
}

uint64_t buckets_highest(struct buckets r, uint32_t bucket)
{
    return r.declared && bucket / buckets_classes(r) >= r.declared->key_edges
               ? UINT64_MAX
               : buckets_key_of(r, bucket);
}

uint64_t buckets_key_of(struct buckets r, uint32_t bucket)
{
    return r.declared ? declaration_key(r.declared, bucket) : bucket_capacity(r.window, bucket);
}

double buckets_class_of(struct buckets r, uint32_t bucket)
{
    return r.declared ? declaration_class(r.declared, bucket) : 0;
}

const char *buckets_text(struct buckets r, uint32_t first, uint32_t last,
                         char room[BUCKETS_TEXT_BYTES])
{
    const struct declaration *d = r.declared;
    uint32_t classes = buckets_classes(r);
    int used;

    if (!d) {
        snprintf(room, BUCKETS_TEXT_BYTES, "%" PRIu64 "-%" PRIu64, buckets_lowest(r, first),
                 buckets_highest(r, last));
        return room;
    }
    declaration_ranges(d, first, last, room, BUCKETS_TEXT_BYTES);
    if (classes == 1 || first == last)
        return room;
    if (first % classes == 0 && last % classes == classes - 1) { /* all classes of some ranges */
        room[strcspn(room, " ")] = 0;
        return room;
    }
    used = declaration_range(d, first, room, BUCKETS_TEXT_BYTES);
    if (used < BUCKETS_TEXT_BYTES - 8) {
        used += snprintf(room + used, BUCKETS_TEXT_BYTES - (size_t)used, " to ");
        declaration_range(d, last, room + used, BUCKETS_TEXT_BYTES - (size_t)used);
    }
    return room;
}

const char *bucket_name(struct buckets r, uint32_t bucket, char room[BUCKETS_TEXT_BYTES])
{
    if (r.declared)
        text_put(room, BUCKETS_TEXT_BYTES, "bucket %u (%s %s)", bucket, r.declared->key,
                 BUCKETS_TEXT(r, bucket, bucket));
    else
        snprintf(room, BUCKETS_TEXT_BYTES, "bucket %u of width %u", bucket, r.window);
    return room;
}
