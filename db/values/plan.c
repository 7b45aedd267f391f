/* A plan's text form and its legality. Everything walks the one table of axes, or asks the declared
 * space of the plan. */
#include "plan.h"

#include "declaration.h"
#include "status.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

static const char *const a2a_words[] = { "linear", "2dh", "nccl", "rail", "3dh", NULL };

const struct a2a_needs plan_a2a_needs[PLAN_A2A_COUNT] = {
    [MOE_A2A_LINEAR] = { .library = false },
    [MOE_A2A_2DH] = { .two_levels = true },
    [MOE_A2A_NCCL] = { .library = true, .equal = true },
    [MOE_A2A_RAIL] = { .two_levels = true, .node = true, .sums = true, .ours = true },
    [MOE_A2A_3DH] = { .two_levels = true, .racks = true, .equal = true, .ours = true },
};

static const char *const experts_words[] = { "padded", "sparse", NULL };

static const char *const weights_words[] = { "keep", "cache", NULL };

static const char *const protocol_words[] = { "auto", "ll", "ll128", "simple", NULL };

const char *const plan_source_words[] = {
    [MOE_EXACT] = "exact",         [MOE_NEIGHBOUR] = "neighbour",
    [MOE_CLAMPED] = "clamped",     [MOE_STALE] = "stale",
    [MOE_OVERRIDE] = "override",   [MOE_DEFAULT] = "default",
    [MOE_INFERRED] = "inferred",   [MOE_IMPORTED] = "imported",
    [MOE_TENTATIVE] = "tentative", [MOE_UNCOMPARED] = "uncompared",
    [MOE_UNSOUND] = "unsound",     [MOE_UNKNOWN_LAUNCH] = "unknown launch",
    [PLAN_SOURCE_COUNT] = NULL,
};

/* Begins the last word of a declared plan's text, which names the space. */
static const char space_word[] = "space=";

#define FIELD(field) .offset = offsetof(struct moe_plan, field)
#define BITS(at, count) .packed_at = (at), .packed_bits = (count)

const struct axis plan_axes[] = {
    [PLAN_R] = { "r", FIELD(r), .fallback = 1, .max = 1u << 20,
                 .legal = "0 or divides the ranks of an expert", BITS(0, 24) },
    [PLAN_D] = { "d", FIELD(d), .fallback = 1, .min = 1, .max = PLAN_MAX_D, .power_of_two = true,
                 .legal = "1, 2, 4 or 8", BITS(32, 8) },
    [PLAN_A] = { "a", FIELD(a), .fallback = MOE_A2A_LINEAR, .max = PLAN_A2A_COUNT - 1,
                 .words = a2a_words, .legal = "linear, 2dh, nccl, rail or 3dh", BITS(40, 6) },
    [PLAN_CTAS] = { "ctas", FIELD(ctas), .max = PLAN_MAX_CTAS, .search_max = 32,
                    .power_of_two = true, .quiet = true, .legal = "0 or a power of two up to 64",
                    BITS(48, 8) },
    [PLAN_E] = { "e", FIELD(e), .max = MOE_SPARSE, .search_max = MOE_SPARSE, .quiet = true,
                 .words = experts_words, .legal = "padded or sparse", BITS(24, 4) },
    [PLAN_W] = { "w", FIELD(w), .max = MOE_CACHE, .search_max = MOE_CACHE, .quiet = true,
                 .words = weights_words, .legal = "keep, or cache with r=0 and layout=hidden",
                 BITS(28, 4) },
    [PLAN_PROTO] = { "proto", FIELD(proto), .max = MOE_PROTO_SIMPLE, .search_max = MOE_PROTO_SIMPLE,
                     .quiet = true, .words = protocol_words, .legal = "auto, ll, ll128 or simple",
                     BITS(46, 2) },
};
const size_t plan_axis_count = sizeof(plan_axes) / sizeof(plan_axes[0]);

size_t plan_axis_find(const char *name, size_t length)
{
    size_t i = 0;

    while (i < plan_axis_count &&
           (strlen(plan_axes[i].name) != length || memcmp(plan_axes[i].name, name, length) != 0))
        i++;
    return i;
}

uint32_t plan_value(const struct moe_plan *plan, size_t axis)
{
    return *(const uint32_t *)((const char *)plan + plan_axes[axis].offset);
}

void plan_set(struct moe_plan *plan, size_t axis, uint32_t value)
{
    *(uint32_t *)((char *)plan + plan_axes[axis].offset) = value;
}

uint32_t plan_next_value(size_t axis, uint32_t value)
{
    return plan_axes[axis].power_of_two && value ? 2 * value : value + 1;
}

static bool axis_allows(const struct axis *axis, uint32_t value)
{
    return value >= axis->min && value <= axis->max &&
           (!axis->power_of_two || (value & (value - 1)) == 0);
}

/* Returns the first axis whose value no shape allows; plan_axis_count: all values are fine. */
static size_t find_illegal(const struct moe_plan *plan)
{
    size_t i = 0;

    while (i < plan_axis_count && axis_allows(&plan_axes[i], plan_value(plan, i)))
        i++;
    return i;
}

static struct moe_plan plan_blank(void)
{
    struct moe_plan plan = { .struct_size = sizeof(plan) };

    for (size_t i = 0; i < plan_axis_count; i++)
        plan_set(&plan, i, plan_axes[i].fallback);
    return plan;
}

struct moe_plan declared_plan(uint32_t space, uint32_t choice)
{
    struct moe_plan plan = plan_blank();

    plan.space = space;
    plan.choice = choice;
    return plan;
}

struct moe_plan declared_plan_default(uint32_t space)
{
    const struct declaration *d = declaration_find(space);

    return declared_plan(space, d ? d->default_choice : 0);
}

struct moe_plan plan_default(const struct moe_shape *shape)
{
    struct moe_plan plan = plan_blank();

    if (shape && shape->space)
        return declared_plan_default(shape->space);
    if (shape && shape->layout == MOE_LAYOUT_HIDDEN) {
        plan.r = 0;
        plan.e = MOE_SPARSE;
    }
    return plan;
}

bool plan_is_default(const struct moe_plan *plan, const struct moe_shape *shape)
{
    struct moe_plan default_plan = plan_default(shape);

    return plan_equal(plan, &default_plan);
}

bool plan_equal(const struct moe_plan *a, const struct moe_plan *b)
{
    return plan_order(a, b) == 0;
}

bool plan_equal_but(const struct moe_plan *a, const struct moe_plan *b, size_t axis)
{
    for (size_t i = 0; i < plan_axis_count; i++)
        if (i != axis && plan_value(a, i) != plan_value(b, i))
            return false;
    return a->space == b->space && a->choice == b->choice;
}

int plan_order(const struct moe_plan *a, const struct moe_plan *b)
{
    for (size_t i = 0; i < plan_axis_count; i++) {
        uint32_t value_a = plan_value(a, i), value_b = plan_value(b, i);

        if (value_a != value_b)
            return value_a < value_b ? -1 : 1;
    }
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    return a->choice < b->choice ? -1 : a->choice > b->choice;
}

struct moe_plan plan_canonical(struct moe_plan plan, const struct moe_shape *shape)
{
    struct moe_plan blank = plan_blank();

    /* Several ranks must gather weights for proto to matter. Ranks that share an expert always
     * gather b2. */
    if (shape && (plan.r ? shape_slices(shape) : shape->ranks) <= 1)
        plan.proto = blank.proto;
    if (plan.r != 0)
        return plan;
    plan.a = blank.a;
    plan.ctas = blank.ctas;
    if (plan.e == MOE_PADDED) {
        plan.d = blank.d;
        plan.w = blank.w;
    }
    return plan;
}

uint64_t plan_pack(const struct moe_plan *plan)
{
    uint64_t packed = 0;

    if (plan->space)
        return plan->choice;
    for (size_t i = 0; i < plan_axis_count; i++)
        packed |= (uint64_t)plan_value(plan, i) << plan_axes[i].packed_at;
    return packed;
}

struct moe_plan plan_unpack(uint64_t packed, uint32_t space)
{
    struct moe_plan plan = { .struct_size = sizeof(plan) };

    if (space) /* a choice has no more bits than r */
        return packed < UINT64_C(1) << plan_axes[PLAN_R].packed_bits
                   ? declared_plan(space, (uint32_t)packed)
                   : plan;
    for (size_t i = 0; i < plan_axis_count; i++)
        plan_set(&plan, i,
                 (uint32_t)(packed >> plan_axes[i].packed_at) &
                     ((1u << plan_axes[i].packed_bits) - 1));
    return plan;
}

size_t plan_bytes(uint32_t struct_size)
{
    enum { FIRST_VERSION = offsetof(struct moe_plan, ctas) };
    size_t bytes = struct_size ? struct_size / sizeof(uint32_t) * sizeof(uint32_t) : FIRST_VERSION;

    return bytes < sizeof(struct moe_plan) ? bytes : sizeof(struct moe_plan);
}

bool plan_fits_struct(const struct moe_plan *plan, size_t bytes)
{
    if (plan->space)
        return bytes >= sizeof(*plan);
    if (plan->w != MOE_KEEP)
        return bytes >= offsetof(struct moe_plan, proto);
    return plan->e == MOE_PADDED || bytes >= offsetof(struct moe_plan, w);
}

/* Writes "num_sms=20 backend=deepep", the plan without its space. ERR_ARGUMENT: this process does
 * not know the space. */
static int format_choice(const struct moe_plan *plan, char *text, size_t size)
{
    const struct declaration *d = declaration_find(plan->space);

    return d ? declaration_format(d, plan->choice, text, size) : MOE_ERR_ARGUMENT;
}

/* Text that is being written; bytes that do not fit are only counted. Plans are written by the
 * thousand, and printf() would cost more than the rest of an entry. */
struct plan_room {
    char *text;
    size_t size, used;
};

static void put_text(struct plan_room *room, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++, room->used++)
        if (room->used + 1 < room->size)
            room->text[room->used] = text[i];
}

static void put_number(struct plan_room *room, uint32_t value)
{
    char digits[10];
    size_t begin = sizeof(digits);

    do
        digits[--begin] = (char)('0' + value % 10);
    while (value /= 10);
    put_text(room, digits + begin, sizeof(digits) - begin);
}

int moe_plan_format(const struct moe_plan *given, char *buf, size_t size)
{
    struct moe_plan plan = plan_blank();
    struct plan_room room = { .text = buf, .size = size };
    char tag[DECLARATION_TAG_BYTES];

    if (!given || (!buf && size))
        return MOE_ERR_ARGUMENT;
    memcpy(&plan, given, plan_bytes(given->struct_size));
    if (plan.space) {
        int used = format_choice(&plan, buf, size);
        bool fits = used >= 0 && (size_t)used < size;

        if (used < 0)
            return used;
        return used + snprintf(fits ? buf + used : NULL, fits ? size - (size_t)used : 0, " %s%s",
                               space_word, declaration_tag(declaration_find(plan.space), tag));
    }
    if (find_illegal(&plan) < plan_axis_count)
        return MOE_ERR_ARGUMENT;
    for (size_t i = 0; i < plan_axis_count; i++) {
        const struct axis *axis = &plan_axes[i];
        uint32_t value = plan_value(&plan, i);

        if (axis->quiet && value == axis->fallback)
            continue;
        put_text(&room, " ", i != 0);
        put_text(&room, axis->name, strlen(axis->name));
        put_text(&room, "=", 1);
        if (axis->words)
            put_text(&room, axis->words[value], strlen(axis->words[value]));
        else
            put_number(&room, value);
    }
    if (size)
        buf[room.used < size ? room.used : size - 1] = 0;
    return (int)room.used;
}

const char *plan_text(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES])
{
    moe_plan_format(plan, room, PLAN_TEXT_BYTES);
    return room;
}

const char *plan_words(const struct moe_plan *plan, char room[PLAN_TEXT_BYTES])
{
    if (!plan->space)
        return plan_text(plan, room);
    format_choice(plan, room, PLAN_TEXT_BYTES);
    return room;
}

bool plan_parse_value(size_t at, const char *text, size_t length, uint32_t *out)
{
    const struct axis *axis = &plan_axes[at];
    uint64_t value = 0;

    if (axis->words) {
        for (uint32_t i = 0; axis->words[i]; i++)
            if (strlen(axis->words[i]) == length && !memcmp(axis->words[i], text, length)) {
                *out = i;
                return true;
            }
        return false;
    }
    if (length == 0 || length > 9 || (length > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (!axis_allows(axis, (uint32_t)value))
        return false;
    *out = (uint32_t)value;
    return true;
}

/* Returns where the word begins that names the space; NULL: the plan has no space. */
static const char *find_space(const char *text)
{
    const char *word = strstr(text, space_word);

    while (word && word > text && word[-1] != ' ')
        word = strstr(word + 1, space_word);
    return word;
}

static int parse_declared(const char *text, const char *space, struct moe_plan *out)
{
    const char *tag = space + strlen(space_word);
    size_t length = strcspn(tag, " ");
    const struct declaration *d = declaration_named(tag, length);
    char rest[PLAN_TEXT_BYTES];
    uint32_t choice;

    if (!d || strlen(text) >= sizeof(rest))
        return MOE_ERR_FORMAT;
    snprintf(rest, sizeof(rest), "%.*s%s", (int)(space - text), text, tag + length);
    if (!declaration_scan(d, rest, &choice))
        return MOE_ERR_FORMAT;
    *out = declared_plan(d->id, choice);
    return MOE_OK;
}

int plan_parse(const char *text, struct moe_plan *out)
{
    struct moe_plan plan = plan_blank();
    const char *space;
    uint32_t seen = 0, value;

    if (!text || !out)
        return MOE_ERR_ARGUMENT;
    space = find_space(text);
    if (space)
        return parse_declared(text, space, out);
    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " "), name_length = strcspn(text, "= ");
        size_t axis = plan_axis_find(text, name_length);

        if (axis == plan_axis_count || name_length == length || (seen >> axis & 1))
            return MOE_ERR_FORMAT;
        if (!plan_parse_value(axis, text + name_length + 1, length - name_length - 1, &value))
            return MOE_ERR_FORMAT;
        plan_set(&plan, axis, value);
        seen |= 1u << axis;
        text += length;
    }
    if (!seen)
        return MOE_ERR_FORMAT;
    *out = plan;
    return MOE_OK;
}

int moe_plan_parse(const char *text, struct moe_plan *out)
{
    struct moe_plan plan;
    int rc;

    if (!out)
        return MOE_ERR_ARGUMENT;
    rc = plan_parse(text, &plan);
    if (rc)
        return rc;
    plan.struct_size = (uint32_t)plan_bytes(out->struct_size);
    if (plan.space && !plan_fits_struct(&plan, plan.struct_size))
        return MOE_ERR_ARGUMENT;
    memcpy(out, &plan, plan.struct_size);
    return MOE_OK;
}

static int refuse_r(uint32_t r, uint32_t slices)
{
    char legal[256] = "0";

    for (uint32_t i = 1; i <= slices; i++)
        if (slices % i == 0)
            text_add(legal, sizeof(legal), ", %u", i);
    return fail(ERR_ARGUMENT, "r=%u is not legal here: with %u rank%s per expert r is one of %s", r,
                slices, slices == 1 ? "" : "s", legal);
}

static bool has_two_levels(const struct moe_shape *shape)
{
    uint32_t m = shape->ranks_per_node;

    return m > 1 && m < shape->ranks && shape->ranks % m == 0;
}

/* Returns whether all ranks of an expert are on one node. */
static bool nodes_hold_whole_experts(const struct moe_shape *shape)
{
    return shape->ranks_per_node % shape_slices(shape) == 0;
}

/* Returns whether the all-to-all can run on these ranks. */
static bool a2a_applies(uint32_t a, const struct moe_shape *shape)
{
    const struct a2a_needs *needs = &plan_a2a_needs[a];

    return (!needs->two_levels || has_two_levels(shape)) &&
           (!needs->racks || shape->ranks_per_rack) &&
           (!needs->node || nodes_hold_whole_experts(shape)) &&
           (!needs->sums || shape->combine == MOE_COMBINE_SUM);
}

static int refuse_a2a(uint32_t a, const struct moe_shape *shape)
{
    if (!has_two_levels(shape))
        note("a=%s does not apply: it needs several nodes with the same number (more than one) of "
             "ranks each; here %u ranks, %u per node",
             a2a_words[a], shape->ranks, shape->ranks_per_node);
    else if (plan_a2a_needs[a].racks)
        note("a=%s does not apply: it needs racks of several nodes (--ranks-per-rack)",
             a2a_words[a]);
    else if (nodes_hold_whole_experts(shape))
        note("a=%s does not apply: it adds up a token's rows on their way, and combine=choices "
             "needs each of them",
             a2a_words[a]);
    else
        note("a=%s does not apply: it needs all ranks of an expert on one node; here an expert "
             "has %u ranks, a node %u",
             a2a_words[a], shape_slices(shape), shape->ranks_per_node);
    return UNSUPPORTED;
}

/* Returns whether e=sparse goes with the other axes in MOE_LAYOUT_EXPERTS. With r >= 1 the rows of
 * a block differ from step to step. */
static bool sparse_legal(const struct moe_plan *plan)
{
    return plan->r ? (plan->a == MOE_A2A_LINEAR || plan->a == MOE_A2A_2DH) && !plan->ctas
                   : plan->d == 1;
}

static bool hidden_legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (plan->e != MOE_SPARSE || plan->r == 0)
        return plan->e == MOE_SPARSE;
    return plan->r == shape->ranks && plan->a == MOE_A2A_LINEAR && !plan->ctas &&
           plan->w == MOE_KEEP && shape->combine == MOE_COMBINE_SUM;
}

/* Returns whether the plan is a legal choice of the shape's space, with all other axes at their
 * defaults. */
static bool declared_legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    struct moe_plan choice_alone = declared_plan(plan->space, plan->choice);
    const struct declaration *d = declaration_find(shape->space);

    return d && plan->space == shape->space && plan_equal(plan, &choice_alone) &&
           declaration_legal_on(d, plan->choice, shape->ranks);
}

bool plan_legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (plan->space || shape->space)
        return declared_legal(plan, shape);
    if (find_illegal(plan) < plan_axis_count)
        return false;
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        return hidden_legal(plan, shape);
    if (plan->w != MOE_KEEP || (plan->e == MOE_SPARSE && !sparse_legal(plan)))
        return false;
    return plan->r == 0 || (shape_slices(shape) % plan->r == 0 && a2a_applies(plan->a, shape));
}

static int check_experts(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t slices = shape_slices(shape);

    if (plan->r != 0 && (plan->r > slices || slices % plan->r != 0))
        return refuse_r(plan->r, slices);
    if (plan->e == MOE_SPARSE && plan->r != 0 && !sparse_legal(plan))
        return fail(ERR_ARGUMENT,
                    "%s is not legal: with r>=1 and e=sparse each step sends its own number of "
                    "rows, so a must be linear or 2dh, and ctas 0",
                    PLAN_TEXT(plan));
    if (plan->e == MOE_SPARSE && plan->r == 0 && plan->d != 1)
        return fail(ERR_ARGUMENT,
                    "r=0 d=%u e=sparse is not legal here: d must be 1, except with layout=hidden",
                    plan->d);
    if (plan->w != MOE_KEEP)
        return fail(ERR_ARGUMENT, "w=cache is not legal here: it goes with layout=hidden and r=0");
    return plan->r != 0 && !a2a_applies(plan->a, shape) ? refuse_a2a(plan->a, shape) : OK;
}

static int check_hidden(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (hidden_legal(plan, shape))
        return OK;
    if (plan->r == shape->ranks && shape->combine == MOE_COMBINE_CHOICES)
        return fail(ERR_ARGUMENT,
                    "r=%u is not legal with layout=hidden and combine=choices: ranks would send "
                    "partial results of every choice, not of every token; r=0 is legal",
                    plan->r);
    return fail(ERR_ARGUMENT,
                "\"%s\" is not legal with layout=hidden: legal are r=0 e=sparse, with w=keep or "
                "w=cache, and r=%u e=sparse with a=linear",
                PLAN_TEXT(plan), shape->ranks);
}

static int check_declared(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t space = shape->space;
    const struct declaration *d = declaration_find(space);
    const char *need;
    size_t length;

    if (declared_legal(plan, shape))
        return OK;
    if (!space)
        return fail(ERR_ARGUMENT, "\"%s\" is of a declared space, and the layer has none",
                    PLAN_TEXT(plan));
    if (!d)
        return fail(ERR_ARGUMENT, "the layer's space (%08x) is not known here", space);
    if (plan->space != space)
        return fail(ERR_ARGUMENT, "\"%s\" is no plan of %s", PLAN_TEXT(plan), d->name);
    need = plan->choice < d->combinations
               ? declaration_broken_need(d, plan->choice, shape->ranks, &length)
               : NULL;
    if (!need)
        return fail(ERR_ARGUMENT, "\"%s\" is no plan of %s", PLAN_TEXT(plan), d->name);
    return fail(ERR_ARGUMENT, "\"%s\" is not legal on %u ranks: %s has need %.*s", PLAN_WORDS(plan),
                shape->ranks, d->name, (int)length, need);
}

int plan_check(const struct moe_plan *plan, const struct moe_shape *shape)
{
    size_t illegal = find_illegal(plan);

    if (plan->space || shape->space)
        return check_declared(plan, shape);
    if (illegal == PLAN_R && shape->layout == MOE_LAYOUT_EXPERTS)
        return refuse_r(plan->r, shape_slices(shape));
    if (illegal < plan_axis_count)
        return fail(ERR_ARGUMENT, "%s=%u is not legal: %s is %s", plan_axes[illegal].name,
                    plan_value(plan, illegal), plan_axes[illegal].name, plan_axes[illegal].legal);
    return shape->layout == MOE_LAYOUT_HIDDEN ? check_hidden(plan, shape)
                                              : check_experts(plan, shape);
}

size_t declared_plan_list(uint32_t space, uint32_t ranks, struct moe_plan *plans, size_t room)
{
    const struct declaration *d = declaration_find(space);
    size_t count = 0, length;

    for (size_t i = 0; d && i < d->plans; i++) {
        if (ranks && declaration_broken_need(d, d->plan[i], ranks, &length))
            continue;
        if (count < room)
            plans[count] = declared_plan(space, d->plan[i]);
        count++;
    }
    return count;
}

/* A list of plans that is being filled: for which shape, what is wanted, and the caller's array.
 * count may exceed room. */
struct listing {
    const struct moe_shape *shape;
    plan_wanted *wanted;
    const void *self;
    struct moe_plan *plans;
    size_t room, count;
};

/* Lists the plans that have this plan's values on all axes before `axis`. A value that is legal or
 * canonical only beside certain values is so beside the default's. So plans grow axis by axis, and
 * a plan that is illegal with the default's values on the following axes is dropped. */
static void list_from(struct listing *l, struct moe_plan plan, size_t axis)
{
    uint32_t default_value, last;

    if (axis == plan_axis_count) {
        if (l->count < l->room)
            l->plans[l->count] = plan;
        l->count++;
        return;
    }
    default_value = plan_value(&plan, axis);
    last = axis == PLAN_R ? l->shape->ranks : plan_axes[axis].max;
    for (uint32_t v = plan_axes[axis].min; v <= last; v = plan_next_value(axis, v)) {
        struct moe_plan canonical;

        plan_set(&plan, axis, v);
        canonical = plan_canonical(plan, l->shape); /* any other plan is another name of it */
        if (plan_legal(&plan, l->shape) && plan_equal(&plan, &canonical) &&
            (v == default_value || l->wanted(l->self, axis, v)))
            list_from(l, plan, axis + 1);
    }
}

size_t plan_list_wanted(const struct moe_shape *shape, plan_wanted *wanted, const void *self,
                        struct moe_plan *plans, size_t room)
{
    struct listing l = { .shape = shape, .wanted = wanted, .self = self, .plans = plans, .room = room };

    if (shape->space)
        return declared_plan_list(shape->space, shape->ranks, plans, room);
    list_from(&l, plan_default(shape), 0);
    return l.count;
}

static bool every_layer_has(const void *self, size_t axis, uint32_t value)
{
    (void)self;
    return !plan_axes[axis].quiet && !(axis == PLAN_A && plan_a2a_needs[value].library);
}

size_t plan_list(const struct moe_shape *shape, struct moe_plan *plans, size_t room)
{
    return plan_list_wanted(shape, every_layer_has, NULL, plans, room);
}
