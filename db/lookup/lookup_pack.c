/* Packed bytes: takes a tidy lookup_set (form 2) and gives packed bytes (form 3), or reads them
 * back as rows of a set.  lookup.h explains the forms.
 *
 * The bytes are little-endian, with offsets instead of pointers, and equal contents have equal
 * bytes:
 *
 *     header     64 bytes   magic, version, total bytes, layers, switches, checksum
 *     layers    192 each    shape, window, file, counts, offsets, cluster, device
 *               216         from version 2 on: also six later words of the shape
 *               232         from version 4 on: also four more
 *               236         from version 5 on: also its space
 *               244         from version 8 on: also the count and offset of its launches
 *     entries    20 each    of all layers, one layer after the other
 *               32         from version 6 on: also the best plan of the other kind
 *     pins       16 each    of all layers, one layer after the other
 *     launches   12 each    from version 8 on: bucket, choice, time; of all layers, as above
 *     spaces                from version 5 on: those of the layers, by id: length (4), text
 *
 * The writer uses the oldest version that can hold the content, for older readers:
 *
 *     2   a layer's shape has one of the six later words
 *     3   a plan has a value that readers of version 2 do not know
 *     4   a shape has one of the four words after them, or a plan has a=3dh
 *     5   a layer has a space, or a plan has proto, in whose bits older readers would find a
 *         wrong a
 *     6   an entry has a plan of the other kind, or a shape has a later word of shares
 *     7   a plan lets rows travel without padding; older readers would leave its entry out, and a
 *         neighbouring bucket would answer
 *     8   a layer has rows of launches
 *
 * An entry that is unsound although its times do not show it has a flag, which older readers of any
 * version take for damage.  The checksum is the SHA-256 of all bytes but itself, and is the table's
 * digest. */
#include "lookup.h"

#include "declaration.h"
#include "plan.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION_AT = 8, /* the parts of the header; the forced plan follows the switches */
    TOTAL_BYTES_AT = 12,
    LAYER_COUNT_AT = 16,
    SWITCHES_AT = 20,
    SUM_AT = 32,
    HEADER = 64,
    LAYER = 192, /* of version 1 */
    ADDED_V2 = 24,
    ADDED_V4 = 16,
    ADDED_V5 = 4,
    ENTRY = 20,
    ENTRY_FLAGS_AT = 18,
    ADDED_V6 = 12, /* to an entry: time and plan of the other kind */
    PIN = 16,
    ADDED_V8 = 8,
    LAUNCH = 12,
    VERSION = 8, /* the newest */
    DISABLED = 1,
    FORCED = 2,
    DECLARED = 4, /* the forced plan is of a space: its choice, and behind it the space */
};
static const uint8_t magic[8] = { 'm', 'o', 'e', 'l', 'o', 'o', 'k', 1 };

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_float(uint8_t *at, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_u32(at, bits);
}

static float get_float(const uint8_t *at)
{
    uint32_t bits = get_u32(at);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The rows, with the bytes of each part:
 *
 *     entry    bucket 0-3, time 8-11, default plan's time 12-15, flags 18, plan: in_entry
 *              from version 6 on: time of the other plan 20-23, its plan: in_other
 *     pin      first bucket 0-3, last bucket 4-7, plan: in_pin
 *     launch   bucket 0-3, choice 4-7, time 8-11
 *
 * A plan_place lists the bytes that hold a packed plan. */
typedef uint8_t plan_place[PLAN_PACKED_BYTES];
static const plan_place forced_at = { 24, 25, 26, 27, 28, 29, 30 },
                        in_entry = { 4, 5, 6, 7, 16, 17, 19 },
                        in_pin = { 8, 9, 10, 11, 12, 13, 14 },
                        in_other = { 24, 25, 26, 27, 28, 29, 30 };

static void put_packed(uint8_t *row, const plan_place at, uint64_t packed)
{
    for (int i = 0; i < PLAN_PACKED_BYTES; i++)
        row[at[i]] = (uint8_t)(packed >> 8 * i);
}

static uint64_t get_packed(const uint8_t *row, const plan_place at)
{
    uint64_t packed = 0;

    for (int i = 0; i < PLAN_PACKED_BYTES; i++)
        packed |= (uint64_t)row[at[i]] << 8 * i;
    return packed;
}

static struct moe_plan get_plan(const uint8_t *row, const plan_place at, uint32_t space)
{
    return plan_unpack(get_packed(row, at), space);
}

/* ---- Reading. */

bool pack_claims(const uint8_t begin[8])
{
    return !memcmp(begin, magic, sizeof(magic));
}

const uint8_t *pack_digest(const uint8_t *bytes)
{
    return bytes + SUM_AT;
}

uint32_t pack_layer_count(const uint8_t *bytes)
{
    return get_u32(bytes + LAYER_COUNT_AT);
}

enum { CHOICE_BITS = 24, CHOICE_MASK = DECLARATION_COMBINATIONS_MAX - 1 };

struct lookup_switches pack_switches(const uint8_t *bytes)
{
    uint32_t flags = get_u32(bytes + SWITCHES_AT);
    uint64_t packed = get_packed(bytes, forced_at);
    struct moe_plan force = plan_unpack(packed, 0);

    if (flags & DECLARED)
        force = plan_unpack(packed & CHOICE_MASK, (uint32_t)(packed >> CHOICE_BITS));
    return (struct lookup_switches){ .disabled = flags & DISABLED,
                                     .forced = flags & FORCED,
                                     .force = force };
}

/* A shape's members in the order of a layer's record. */
static const size_t shape_words[] = {
    offsetof(struct moe_shape, experts),    offsetof(struct moe_shape, top_k),
    offsetof(struct moe_shape, model_dim),  offsetof(struct moe_shape, hidden_dim),
    offsetof(struct moe_shape, ranks),      offsetof(struct moe_shape, ranks_per_node),
    offsetof(struct moe_shape, dtype),      offsetof(struct moe_shape, pass),
    offsetof(struct moe_shape, activation), offsetof(struct moe_shape, tokens),
};
static const size_t later_words[] = {
    offsetof(struct moe_shape, layout),      offsetof(struct moe_shape, shares),
    offsetof(struct moe_shape, layers),      offsetof(struct moe_shape, groups),
    offsetof(struct moe_shape, group_limit), offsetof(struct moe_shape, router),
    offsetof(struct moe_shape, order),       offsetof(struct moe_shape, projection),
    offsetof(struct moe_shape, combine),     offsetof(struct moe_shape, ranks_per_rack),
    offsetof(struct moe_shape, space),
};
enum {
    LATER_WORDS = ADDED_V2 / 4,                /* in version 2 */
    FOURTH_WORDS = LATER_WORDS + ADDED_V4 / 4, /* in version 4 */
    LATEST_WORDS = sizeof(later_words) / sizeof(later_words[0]),
    SHAPE_WORDS = sizeof(shape_words) / sizeof(shape_words[0]),
    WINDOW_AT = 4 * SHAPE_WORDS,
    FILE_AT = WINDOW_AT + 4,
    ENTRY_COUNT_AT = FILE_AT + 4,
    PIN_COUNT_AT = ENTRY_COUNT_AT + 4,
    ENTRIES_AT = PIN_COUNT_AT + 4,
    PINS_AT = ENTRIES_AT + 4,
    CLUSTER_AT = PINS_AT + 4,
    DEVICE_AT = CLUSTER_AT + SHA256_BYTES,
    LAUNCH_COUNT_AT = LAYER + ADDED_V2 + ADDED_V4 + ADDED_V5,
    LAUNCHES_AT = LAUNCH_COUNT_AT + 4,
};

/* Returns the bytes of a layer's record. */
static size_t record_bytes(uint32_t version)
{
    return LAYER + (version > 1 ? ADDED_V2 : 0) + (version > 3 ? ADDED_V4 : 0) +
           (version > 4 ? ADDED_V5 : 0) + (version > 7 ? ADDED_V8 : 0);
}

static size_t entry_bytes(uint32_t version)
{
    return ENTRY + (version > 5 ? ADDED_V6 : 0);
}

/* Returns how many of later_words a record of this version has. */
static int later_count(uint32_t version)
{
    return (int)(record_bytes(version) - LAYER - (version > 7 ? ADDED_V8 : 0)) / 4;
}

static uint32_t version_of(const uint8_t *bytes)
{
    return get_u32(bytes + VERSION_AT);
}

static const uint8_t *record_of(const uint8_t *bytes, uint32_t layer)
{
    return bytes + HEADER + record_bytes(version_of(bytes)) * layer;
}

static uint32_t word_of(const struct moe_shape *shape, size_t at)
{
    return *(const uint32_t *)((const char *)shape + at);
}

struct lookup_layer pack_layer(const uint8_t *bytes, uint32_t at)
{
    const uint8_t *record = record_of(bytes, at);
    struct lookup_layer layer = {
        .shape.struct_size = sizeof(layer.shape),
        .window = get_u32(record + WINDOW_AT),
        .file = get_u32(record + FILE_AT),
        .entry_count = get_u32(record + ENTRY_COUNT_AT),
        .pin_count = get_u32(record + PIN_COUNT_AT),
        .launch_count = version_of(bytes) > 7 ? get_u32(record + LAUNCH_COUNT_AT) : 0,
    };

    for (int i = 0; i < SHAPE_WORDS; i++)
        *(uint32_t *)((char *)&layer.shape + shape_words[i]) = get_u32(record + 4 * i);
    for (int i = 0; i < later_count(version_of(bytes)); i++)
        *(uint32_t *)((char *)&layer.shape + later_words[i]) = get_u32(record + LAYER + 4 * i);
    memcpy(layer.cluster, record + CLUSTER_AT, sizeof(layer.cluster));
    memcpy(layer.device, record + DEVICE_AT, sizeof(layer.device));
    return layer;
}

/* Returns the space of the layer's plans; 0: moetune's own plans. */
static uint32_t space_of(const uint8_t *bytes, uint32_t layer)
{
    return version_of(bytes) > 4 ? get_u32(record_of(bytes, layer) + LAYER + 4 * FOURTH_WORDS) : 0;
}

static uint8_t flags_of(uint32_t version)
{
    return version > 6 ? LOOKUP_FLAGS | LOOKUP_LOADED : LOOKUP_FLAGS;
}

struct lookup_entry pack_entry(const uint8_t *bytes, uint32_t layer, uint32_t at)
{
    const uint8_t *row =
        bytes + get_u32(record_of(bytes, layer) + ENTRIES_AT) + entry_bytes(version_of(bytes)) * at;
    uint8_t others = version_of(bytes) > 5 ? LOOKUP_OTHER | LOOKUP_NO_OTHER : 0;
    struct lookup_entry entry = { .plan = get_plan(row, in_entry, space_of(bytes, layer)),
                                  .flags = row[ENTRY_FLAGS_AT] & flags_of(version_of(bytes)),
                                  .no_other = row[ENTRY_FLAGS_AT] & others & LOOKUP_NO_OTHER };

    entry.plan.bucket = get_u32(row);
    entry.plan.time_us = get_float(row + 8);
    entry.plan.default_us = get_float(row + 12);
    if (row[ENTRY_FLAGS_AT] & others & LOOKUP_OTHER) {
        entry.other = get_plan(row, in_other, 0);
        entry.other.time_us = get_float(row + ENTRY);
    }
    return entry;
}

struct lookup_pin pack_pin(const uint8_t *bytes, uint32_t layer, uint32_t at)
{
    const uint8_t *row = bytes + get_u32(record_of(bytes, layer) + PINS_AT) + (size_t)PIN * at;

    return (struct lookup_pin){ get_u32(row), get_u32(row + 4),
                                get_plan(row, in_pin, space_of(bytes, layer)) };
}

struct lookup_launch pack_launch(const uint8_t *bytes, uint32_t layer, uint32_t at)
{
    const uint8_t *row =
        bytes + get_u32(record_of(bytes, layer) + LAUNCHES_AT) + (size_t)LAUNCH * at;
    struct lookup_launch launch = { .plan = plan_unpack(get_u32(row + 4), space_of(bytes, layer)) };

    launch.plan.bucket = get_u32(row);
    launch.plan.time_us = get_float(row + 8);
    return launch;
}

int pack_merge(const uint8_t *bytes, uint32_t file, struct lookup_set *set)
{
    uint32_t layers = pack_layer_count(bytes);

    for (uint32_t index = 0; index < layers; index++) {
        struct lookup_layer from = pack_layer(bytes, index), *to;

        from.file += file;
        from.decided_s = layers - index; /* packed layers have no dates, but come in their order */
        to = lookup_set_layer(set, &from);
        if (!to)
            return ERR_NOMEM;
        for (uint32_t i = 0; i < from.entry_count; i++) {
            struct lookup_entry entry = pack_entry(bytes, index, i);

            entry.file = from.file;
            TRY(lookup_layer_add(to, &entry));
        }
        for (uint32_t i = 0; i < from.pin_count; i++) {
            struct lookup_pin pin = pack_pin(bytes, index, i);

            TRY(lookup_layer_pin(to, &pin));
        }
        for (uint32_t i = 0; i < from.launch_count; i++) {
            struct lookup_launch launch = pack_launch(bytes, index, i);

            launch.file = from.file;
            TRY(lookup_layer_launch(to, &launch));
        }
    }
    return OK;
}

/* ---- Writing. */

static uint32_t newer_version(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t version_of_plan(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (plan_is_counted(plan, shape))
        return 7;
    if (plan->space || plan->proto != MOE_PROTO_AUTO)
        return 5;
    return plan->a == MOE_A2A_3DH ? 4 : plan->a == MOE_A2A_RAIL ? 3 : 1;
}

/* Returns the oldest version that can hold the set. A forced plan may be for any layer of the set;
 * without layers it may be for any layer at all. */
static uint32_t version_for(const struct lookup_set *set)
{
    const struct moe_plan *force = set->switches.forced ? &set->switches.force : NULL;
    const struct moe_shape hidden = { .layout = MOE_LAYOUT_HIDDEN }, any = { 0 };
    uint32_t version = force ? version_of_plan(force, set->count ? &hidden : &any) : 1;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct lookup_layer *layer = &set->layers[i];

        if (force)
            version = newer_version(version, version_of_plan(force, &layer->shape));
        for (int k = 0; k < LATEST_WORDS; k++)
            if (word_of(&layer->shape, later_words[k]))
                version = newer_version(version, k < LATER_WORDS ? 2 : k < FOURTH_WORDS ? 4 : 5);
        if (layer->shape.shares > MOE_SHARES_SPEED) /* older readers would take it for damage */
            version = newer_version(version, 6);
        for (uint32_t j = 0; j < layer->entry_count; j++) {
            const struct lookup_entry *e = &layer->entries[j];

            version = newer_version(version, version_of_plan(&e->plan, &layer->shape));
            if (e->other.struct_size || e->no_other)
                version = newer_version(version, 6);
            if (plan_is_counted(&e->other, &layer->shape))
                version = newer_version(version, 7);
        }
        for (uint32_t j = 0; j < layer->pin_count; j++)
            version = newer_version(version, version_of_plan(&layer->pins[j].plan, &layer->shape));
        if (layer->launch_count)
            version = 8;
    }
    return version;
}

/* Returns the space with the lowest id above `above`, of layers and the forced plan; NULL: there
 * are no more. So each space comes once. */
static const struct declaration *next_space(const struct lookup_set *set, uint32_t above)
{
    uint32_t lowest = 0;

    for (uint32_t i = 0; i <= set->count; i++) {
        uint32_t space = i < set->count         ? set->layers[i].shape.space
                         : set->switches.forced ? set->switches.force.space
                                                : 0;

        if (space > above && (!lowest || space < lowest))
            lowest = space;
    }
    return declaration_find(lowest);
}

/* Where the parts of the bytes begin; a plain value. */
struct pack_sizes {
    uint32_t version;
    size_t entries_at, pins_at, launches_at, spaces_at, total;
};

static struct pack_sizes measure_set(const struct lookup_set *set)
{
    struct pack_sizes s = { .version = version_for(set) };

    s.entries_at = HEADER + record_bytes(s.version) * set->count;
    s.pins_at = s.entries_at;
    for (uint32_t i = 0; i < set->count; i++)
        s.pins_at += entry_bytes(s.version) * set->layers[i].entry_count;
    s.launches_at = s.pins_at;
    for (uint32_t i = 0; i < set->count; i++)
        s.launches_at += (size_t)PIN * set->layers[i].pin_count;
    s.spaces_at = s.launches_at;
    for (uint32_t i = 0; i < set->count; i++)
        s.spaces_at += (size_t)LAUNCH * set->layers[i].launch_count;
    s.total = s.spaces_at;
    for (const struct declaration *d = NULL; (d = next_space(set, d ? d->id : 0));)
        s.total += 4 + strlen(d->text);
    return s;
}

/* Writes everything but the checksum; the bytes must be zero before. */
static void write_set(const struct lookup_set *set, struct pack_sizes s, uint8_t *bytes)
{
    const struct lookup_switches *switches = &set->switches;
    uint32_t force_space = switches->forced ? switches->force.space : 0;
    uint8_t *entry = bytes + s.entries_at, *pin = bytes + s.pins_at, *space = bytes + s.spaces_at;
    uint8_t *launch = bytes + s.launches_at;

    memcpy(bytes, magic, sizeof(magic));
    put_u32(bytes + VERSION_AT, s.version);
    put_u32(bytes + TOTAL_BYTES_AT, (uint32_t)s.total);
    put_u32(bytes + LAYER_COUNT_AT, set->count);
    put_u32(bytes + SWITCHES_AT, (switches->disabled ? DISABLED : 0) |
                                     (switches->forced ? FORCED : 0) |
                                     (force_space ? DECLARED : 0));
    if (switches->forced)
        put_packed(bytes, forced_at,
                   plan_pack(&switches->force) | (uint64_t)force_space << CHOICE_BITS);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct lookup_layer *layer = &set->layers[i];
        uint8_t *record = bytes + HEADER + record_bytes(s.version) * i;

        for (int k = 0; k < SHAPE_WORDS; k++)
            put_u32(record + 4 * k, word_of(&layer->shape, shape_words[k]));
        for (int k = 0; k < later_count(s.version); k++)
            put_u32(record + LAYER + 4 * k, word_of(&layer->shape, later_words[k]));
        put_u32(record + WINDOW_AT, layer->window);
        put_u32(record + FILE_AT, layer->file);
        put_u32(record + ENTRY_COUNT_AT, layer->entry_count);
        put_u32(record + PIN_COUNT_AT, layer->pin_count);
        put_u32(record + ENTRIES_AT, (uint32_t)(entry - bytes));
        put_u32(record + PINS_AT, (uint32_t)(pin - bytes));
        memcpy(record + CLUSTER_AT, layer->cluster, sizeof(layer->cluster));
        memcpy(record + DEVICE_AT, layer->device, sizeof(layer->device));
        for (uint32_t j = 0; j < layer->entry_count; j++, entry += entry_bytes(s.version)) {
            const struct lookup_entry *e = &layer->entries[j];
            bool other = e->other.struct_size;
            uint8_t flags;

            put_u32(entry, e->plan.bucket);
            put_float(entry + 8, e->plan.time_us);
            put_float(entry + 12, e->plan.default_us);
            flags = e->flags & flags_of(s.version);
            if (lookup_times_forbid(&layer->shape, &e->plan)) /* a reader sees it from the times */
                flags &= (uint8_t)~LOOKUP_UNSOUND;
            entry[ENTRY_FLAGS_AT] =
                (uint8_t)(flags | (other ? LOOKUP_OTHER : 0) | (e->no_other ? LOOKUP_NO_OTHER : 0));
            put_packed(entry, in_entry, plan_pack(&e->plan));
            if (other) {
                put_float(entry + ENTRY, e->other.time_us);
                put_packed(entry, in_other, plan_pack(&e->other));
            }
        }
        for (uint32_t j = 0; j < layer->pin_count; j++, pin += PIN) {
            put_u32(pin, layer->pins[j].first);
            put_u32(pin + 4, layer->pins[j].last);
            put_packed(pin, in_pin, plan_pack(&layer->pins[j].plan));
        }
        if (s.version > 7) {
            put_u32(record + LAUNCH_COUNT_AT, layer->launch_count);
            put_u32(record + LAUNCHES_AT, (uint32_t)(launch - bytes));
        }
        for (uint32_t j = 0; j < layer->launch_count; j++, launch += LAUNCH) {
            put_u32(launch, layer->launches[j].plan.bucket);
            put_u32(launch + 4, layer->launches[j].plan.choice);
            put_float(launch + 8, layer->launches[j].plan.time_us);
        }
    }
    for (const struct declaration *d = NULL; (d = next_space(set, d ? d->id : 0));) {
        size_t length = strlen(d->text);

        put_u32(space, (uint32_t)length);
        memcpy(space + 4, d->text, length);
        space += 4 + length;
    }
}

static void checksum(const uint8_t *bytes, size_t size, uint8_t sum[SHA256_BYTES])
{
    struct sha256 hash;

    sha256_init(&hash);
    sha256_add(&hash, bytes, SUM_AT);
    sha256_add(&hash, bytes + HEADER, size - HEADER);
    sha256_end(&hash, sum);
}

void pack_seal(uint8_t *bytes, size_t size)
{
    if (size >= HEADER)
        checksum(bytes, size, bytes + SUM_AT);
}

static int write_tidy(struct lookup_set *set, uint8_t **bytes, size_t *size)
{
    struct pack_sizes s;
    uint8_t *packed_bytes;

    TRY(lookup_set_tidy(set));
    s = measure_set(set);
    if (s.total > UINT32_MAX)
        return ERR_FORMAT;
    packed_bytes = calloc(1, s.total);
    if (!packed_bytes)
        return ERR_NOMEM;
    write_set(set, s, packed_bytes);
    *bytes = packed_bytes;
    *size = s.total;
    return OK;
}

int pack_set(struct lookup_set *set, uint8_t **bytes, size_t *size)
{
    TRY(write_tidy(set, bytes, size));
    pack_seal(*bytes, *size);
    return OK;
}

/* ---- Checking. */

/* Finds where all rows end. Returns false where rows of some layer lie outside or overlap:
 * overlapping rows could be far more than there are bytes. */
static bool check_rows(const uint8_t *bytes, size_t size, uint64_t *end)
{
    uint32_t layers = pack_layer_count(bytes), version = version_of(bytes);

    if (layers > (size - HEADER) / record_bytes(version))
        return false;
    *end = HEADER;
    for (uint32_t i = 0; i < layers; i++) {
        const uint8_t *record = record_of(bytes, i);
        uint64_t entries = entry_bytes(version) * (uint64_t)get_u32(record + ENTRY_COUNT_AT);
        uint64_t pins = (uint64_t)PIN * get_u32(record + PIN_COUNT_AT), launches = 0;

        if (version > 7)
            launches = (uint64_t)LAUNCH * get_u32(record + LAUNCH_COUNT_AT);
        if (get_u32(record + ENTRIES_AT) + entries > size ||
            get_u32(record + PINS_AT) + pins > size ||
            (version > 7 && get_u32(record + LAUNCHES_AT) + launches > size))
            return false;
        *end += record_bytes(version) + entries + pins + launches;
    }
    return *end <= size;
}

/* Registers the spaces behind the rows in this process. */
static int learn_spaces(const uint8_t *bytes, uint64_t at, size_t size)
{
    char text[DECLARATION_TEXT_BYTES + 1];
    const struct declaration *d;

    while (version_of(bytes) > 4 && at + 4 <= size) {
        uint32_t length = get_u32(bytes + at);

        at += 4;
        if (length > DECLARATION_TEXT_BYTES || length > size - at)
            return ERR_FORMAT;
        memcpy(text, bytes + at, length);
        text[length] = 0;
        if (declaration_register_silently(text, &d))
            return ERR_FORMAT;
        at += length;
    }
    return at == size ? OK : ERR_FORMAT;
}

static bool switches_sound(const uint8_t *bytes)
{
    struct lookup_switches s = pack_switches(bytes);
    struct moe_plan again = plan_canonical(s.force, NULL);
    char text[PLAN_TEXT_BYTES];

    return get_u32(bytes + SWITCHES_AT) <= (DISABLED | FORCED | DECLARED) &&
           (!s.forced ||
            (plan_equal(&s.force, &again) && moe_plan_format(&s.force, text, sizeof(text)) > 0 &&
             !plan_parse(text, &again) && plan_equal(&s.force, &again)));
}

/* Packs again what was read. Any difference means that moetune did not write the bytes. */
static int compare_with_rewritten(const uint8_t *bytes, size_t size)
{
    struct lookup_set set = { .switches = pack_switches(bytes) };
    uint8_t *rewritten = NULL;
    size_t rewritten_size = 0;
    int rc;

    TRY_OUT(pack_merge(bytes, 0, &set));
    TRY_OUT(write_tidy(&set, &rewritten, &rewritten_size));
    if (rewritten_size != size || memcmp(rewritten, bytes, SUM_AT) != 0 ||
        memcmp(rewritten + HEADER, bytes + HEADER, size - HEADER) != 0)
        rc = ERR_FORMAT;
out:
    free(rewritten);
    lookup_set_free(&set);
    return rc;
}

int pack_check(const uint8_t *bytes, size_t size)
{
    uint8_t sum[SHA256_BYTES];
    uint64_t end;

    if (size < HEADER || size > UINT32_MAX || !pack_claims(bytes) ||
        get_u32(bytes + TOTAL_BYTES_AT) != size || version_of(bytes) < 1 ||
        version_of(bytes) > VERSION)
        return ERR_FORMAT;
    checksum(bytes, size, sum);
    if (memcmp(sum, pack_digest(bytes), sizeof(sum)) != 0 || !check_rows(bytes, size, &end))
        return ERR_FORMAT;
    TRY(learn_spaces(bytes, end, size));
    return switches_sound(bytes) ? compare_with_rewritten(bytes, size) : ERR_FORMAT;
}
