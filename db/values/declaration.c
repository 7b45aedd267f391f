/* The meaning of a declared space: its plans as numbers and text, the plans that its needs allow,
 * the buckets of its key. Also keeps the list of spaces that this process knows. */
#include "declaration.h"

#include "status.h"
#include "text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void declaration_free(struct declaration *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->axes; i++) {
        free(d->axis[i].text);
        free(d->axis[i].number);
    }
    for (size_t i = 0; i < d->needs; i++)
        free(d->need[i].comparison);
    free(d->need);
    free(d->text);
    free(d->plan);
    free(d);
}

/* ---- Choices. */

uint32_t declaration_value(const struct declaration *d, uint32_t choice, size_t axis)
{
    return choice / d->axis[axis].stride % d->axis[axis].values;
}

uint32_t declaration_with_value(const struct declaration *d, uint32_t choice, size_t axis,
                                uint32_t value)
{
    return choice + (value - declaration_value(d, choice, axis)) * d->axis[axis].stride;
}

bool declaration_legal(const struct declaration *d, uint32_t choice)
{
    uint32_t low = 0, high = d->plans;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (d->plan[middle] < choice)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->plans && d->plan[low] == choice;
}

bool declaration_legal_on(const struct declaration *d, uint32_t choice, uint32_t ranks)
{
    size_t length;

    return declaration_legal(d, choice) && !declaration_broken_need(d, choice, ranks, &length);
}

bool declaration_same_launch(const struct declaration *d, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart && declaration_value(d, a, i) != declaration_value(d, b, i))
            return false;
    return true;
}

uint32_t declaration_launch(const struct declaration *d, uint32_t choice)
{
    for (size_t i = 0; i < d->axes; i++)
        if (!d->axis[i].restart)
            choice = declaration_with_value(d, choice, i, 0);
    return choice;
}

size_t declaration_likeness(const struct declaration *d, uint32_t choice)
{
    size_t alike = 0;

    for (size_t i = 0; i < d->axes; i++)
        alike += !d->axis[i].restart && declaration_value(d, choice, i) == d->axis[i].fallback;
    return alike;
}

bool declaration_launch_default(const struct declaration *d, uint32_t launch, uint32_t ranks,
                                uint32_t *choice)
{
    size_t length, best_likeness = 0;
    bool found = false;

    for (uint32_t i = 0; i < d->plans; i++) {
        size_t likeness = declaration_likeness(d, d->plan[i]);

        if (!declaration_same_launch(d, d->plan[i], launch) ||
            (found && likeness <= best_likeness) ||
            declaration_broken_need(d, d->plan[i], ranks, &length))
            continue;
        *choice = d->plan[i];
        best_likeness = likeness;
        found = true;
    }
    return found;
}

/* Writes the names of the axes that need a restart, as "ep, backend", for a message. */
static void restart_axes(const struct declaration *d, char *text, size_t size)
{
    *text = 0;
    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart)
            text_add(text, size, "%s%s", *text ? ", " : "", d->axis[i].name);
    if (!*text)
        text_put(text, size, "none");
}

int declaration_launch_scan(const struct declaration *d, const char *text, uint32_t *choice,
                            char *why, size_t size)
{
    uint32_t scanned = d->default_choice, seen = 0;
    char axes[DECLARATION_FAULT_BYTES / 2];

    restart_axes(d, axes, sizeof(axes));
    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " "), name = strcspn(text, "= ");
        size_t i = declaration_axis(d, text, name);
        int shown = length < 40 ? (int)length : 40;
        uint32_t value;

        if (i == d->axes || !d->axis[i].restart || name == length) {
            const char *fault = "changes that axis while it runs";

            if (i == d->axes)
                fault = "has no such axis";
            else if (name == length)
                fault = "needs a value";
            text_put(why, size, "\"%.*s\" is no AXIS=VALUE of a launch: %s %s (restart axes: %s)",
                     shown, text, d->name, fault, axes);
            return ERR_ARGUMENT;
        }
        value = declared_axis_value(&d->axis[i], text + name + 1, length - name - 1);
        if (value == d->axis[i].values || (seen >> i & 1)) {
            text_put(why, size, "\"%.*s\": %s", shown, text,
                     seen >> i & 1 ? "the axis is named twice" : "the axis has no such value");
            for (uint32_t v = 0; v < d->axis[i].values && !(seen >> i & 1); v++)
                text_add(why, size, "%s%s", v ? ", " : "; it has ", d->axis[i].text[v]);
            return ERR_ARGUMENT;
        }
        scanned = declaration_with_value(d, scanned, i, value);
        seen |= 1u << i;
        text += length;
    }
    *choice = scanned;
    return OK;
}

char *declaration_launch_words(const struct declaration *d, uint32_t choice,
                               char text[DECLARATION_PLAN_BYTES])
{
    *text = 0;
    for (size_t i = 0; d && i < d->axes; i++)
        if (d->axis[i].restart)
            text_add(text, DECLARATION_PLAN_BYTES, "%s%s=%s", *text ? " " : "", d->axis[i].name,
                     d->axis[i].text[declaration_value(d, choice, i)]);
    return text;
}

/* Each outweighs all that counts less: see declaration.h. */
enum { AXIS_DISTANCE = 1 << 14, RESTART_DISTANCE = 1 << 20 };

uint32_t declaration_distance(const struct declaration *d, uint32_t choice)
{
    uint32_t distance = 0;

    for (size_t a = 0; a < d->axes; a++) {
        uint32_t value = declaration_value(d, choice, a), default_value = d->axis[a].fallback;
        uint32_t steps = value > default_value ? value - default_value : default_value - value;

        if (steps)
            distance += (d->axis[a].restart ? RESTART_DISTANCE : 0) + AXIS_DISTANCE +
                        (d->axis[a].words ? 1 : steps);
    }
    return distance;
}

int declaration_format(const struct declaration *d, uint32_t choice, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < d->axes; i++) {
        const struct declared_axis *axis = &d->axis[i];
        char word[2 * DECLARATION_NAME_BYTES + 1];

        text_put(word, sizeof(word), "%s%s=%s", i ? " " : "", axis->name,
                 axis->text[declaration_value(d, choice, i)]);
        if (used < size)
            text_put(text + used, size - used, "%s", word);
        used += strlen(word);
    }
    return (int)used;
}

/* ---- Needs. */

static int64_t term_value(const struct declared_term *term, const int64_t *numbers)
{
    int64_t value = term->constant;

    for (uint8_t i = 0; i < term->axes; i++)
        value *= numbers[term->axis[i]];
    return value;
}

static bool comparison_holds(const struct declared_comparison *c, const int64_t *numbers)
{
    int64_t left, right;

    if (c->ranks && !numbers[DECLARED_RANKS])
        return true;
    left = term_value(&c->left, numbers);
    right = term_value(&c->right, numbers);
    switch (c->relation) {
    case NEED_EQUAL: return left == right;
    case NEED_UNEQUAL: return left != right;
    case NEED_AT_MOST: return left <= right;
    case NEED_LESS: return left < right;
    case NEED_AT_LEAST: return left >= right;
    case NEED_MORE: return left > right;
    case NEED_DIVIDES: return left ? right % left == 0 : right == 0;
    case NEED_RELATIONS: break;
    }
    return false;
}

bool declared_need_holds(const struct declared_need *need, const int64_t *numbers)
{
    bool all = true;

    for (size_t i = 0; i < need->comparisons; i++) {
        const struct declared_comparison *c = &need->comparison[i];

        if (c->opens) {
            if (all)
                return true;
            all = true;
        }
        if (all)
            all = comparison_holds(c, numbers);
    }
    return all;
}

const char *declaration_broken_need(const struct declaration *d, uint32_t choice, uint32_t ranks,
                                    size_t *length)
{
    int64_t numbers[DECLARED_NUMBERS] = { [DECLARED_RANKS] = ranks };

    for (size_t i = 0; i < d->axes; i++)
        numbers[i] = declared_number(&d->axis[i], declaration_value(d, choice, i));
    for (size_t i = 0; i < d->needs; i++)
        if (!declared_need_holds(&d->need[i], numbers)) {
            *length = d->need[i].length;
            return d->text + d->need[i].text;
        }
    return NULL;
}

/* ---- The list of legal plans. It chooses values axis by axis, and stops where some need cannot
 * become true any more.
 *
 * A need is true if one of its alternatives is, the comparisons between two |. The first comparison
 * that is false rules its alternative out. So the search only keeps the set of alternatives that
 * the values so far have ruled out. */

enum { SET_WORDS = DECLARATION_COMPARISONS_MAX / 64, COMPARED_MAX = 1 << 27 };

/* A set of alternatives. Alternatives of all needs are numbered in the order of the text. */
struct set {
    uint64_t word[SET_WORDS];
};

static void set_add(struct set *s, size_t alternative)
{
    s->word[alternative / 64] |= (uint64_t)1 << alternative % 64;
}

static bool set_has(const struct set *s, size_t alternative)
{
    return s->word[alternative / 64] >> alternative % 64 & 1;
}

static bool set_meets(const struct set *a, const struct set *b)
{
    uint64_t common = 0;

    for (size_t i = 0; i < SET_WORDS; i++)
        common |= a->word[i] & b->word[i];
    return common;
}

static bool set_covers(const struct set *s, const struct set *part)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < SET_WORDS; i++)
        missing |= part->word[i] & ~s->word[i];
    return !missing;
}

/* The state of the search for legal plans; declaration_list() allocates and frees it. */
struct listing {
    const struct declaration *d;
    size_t alternatives;
    struct set sole; /* alternatives that are the only one of their need */
    struct set of_need[DECLARATION_NEEDS_MAX];
    struct level { /* what the values of this axis decide */
        /* The alternatives that each value alone rules out. */
        struct set ruled_out[DECLARATION_VALUES_MAX];
        size_t mixed, needs;
        /* Comparisons of several axes, this one the last of them. */
        struct {
            const struct declared_comparison *comparison;
            size_t alternative;
        } mixed_of[DECLARATION_COMPARISONS_MAX];
        uint8_t need_of[DECLARATION_NEEDS_MAX]; /* needs with several alternatives */
    } level[DECLARATION_AXES_MAX];
    int64_t numbers[DECLARED_NUMBERS]; /* of the values so far; the number of ranks is not known */
    uint32_t compared;
    uint32_t plans, plan[DECLARATION_PLANS_MAX];
};

/* Notes at which axis each comparison of a need is decided. Evaluates comparisons of a single axis
 * here, once for each value. */
static void note_need(struct listing *l, size_t n)
{
    const struct declared_need *need = &l->d->need[n];
    size_t before = l->alternatives;

    for (size_t i = 0; i < need->comparisons; i++) {
        const struct declared_comparison *c = &need->comparison[i];
        size_t axis = 0;
        struct level *level;

        l->alternatives += !i || c->opens;
        set_add(&l->of_need[n], l->alternatives - 1);
        while (c->axes >> (axis + 1))
            axis++;
        level = &l->level[axis];
        if (c->axes & (c->axes - 1)) {
            level->mixed_of[level->mixed].comparison = c;
            level->mixed_of[level->mixed++].alternative = l->alternatives - 1;
            continue;
        }
        for (uint32_t v = 0; v < l->d->axis[axis].values; v++) {
            l->numbers[axis] = declared_number(&l->d->axis[axis], v);
            if (!comparison_holds(c, l->numbers))
                set_add(&level->ruled_out[v], l->alternatives - 1);
        }
    }
    if (l->alternatives == before + 1)
        set_add(&l->sole, before);
    for (size_t axis = 0; axis < l->d->axes && l->alternatives > before + 1; axis++)
        if (need->axes >> axis & 1)
            l->level[axis].need_of[l->level[axis].needs++] = (uint8_t)n;
}

/* Finds which alternatives the values up to this one rule out. Returns false where some need cannot
 * become true. */
static bool rule_out_alternatives(struct listing *l, size_t axis, uint32_t value,
                                  const struct set *before, struct set *out)
{
    const struct level *level = &l->level[axis];

    for (size_t i = 0; i < SET_WORDS; i++)
        out->word[i] = before->word[i] | level->ruled_out[value].word[i];
    if (set_meets(out, &l->sole))
        return false;
    l->compared += (uint32_t)(level->mixed + level->needs);
    for (size_t i = 0; i < level->mixed; i++) {
        size_t alternative = level->mixed_of[i].alternative;

        if (!set_has(out, alternative) &&
            !comparison_holds(level->mixed_of[i].comparison, l->numbers))
            set_add(out, alternative);
    }
    if (set_meets(out, &l->sole))
        return false;
    for (size_t i = 0; i < level->needs; i++)
        if (set_covers(out, &l->of_need[level->need_of[i]]))
            return false;
    return true;
}

/* Lists the plans that begin with the values chosen for the axes before `axis`. Counts one plan
 * more than the limit, but does not keep it. */
static void list_from(struct listing *l, size_t axis, uint32_t choice, const struct set *before)
{
    const struct declared_axis *a = &l->d->axis[axis];
    struct set out;

    if (axis == l->d->axes) {
        if (l->plans < DECLARATION_PLANS_MAX)
            l->plan[l->plans] = choice;
        l->plans++;
        return;
    }
    for (uint32_t v = 0;
         v < a->values && l->plans <= DECLARATION_PLANS_MAX && l->compared <= COMPARED_MAX; v++) {
        l->numbers[axis] = declared_number(a, v);
        if (rule_out_alternatives(l, axis, v, before, &out))
            list_from(l, axis + 1, choice + v * a->stride, &out);
    }
}

int declaration_list(struct declaration *d, char *why, size_t size)
{
    struct listing *l = calloc(1, sizeof(*l));
    const struct set nothing = { { 0 } };
    int rc = OK;

    if (!l)
        return ERR_NOMEM;
    l->d = d;
    for (size_t n = 0; n < d->needs; n++)
        note_need(l, n);
    list_from(l, 0, 0, &nothing);
    if (l->plans > DECLARATION_PLANS_MAX) {
        rc = ERR_ARGUMENT;
        text_put(why, size,
                 "of %u combinations at least %u are legal plans, and at most %d are allowed: "
                 "leave values out, or add needs",
                 d->combinations, l->plans, DECLARATION_PLANS_MAX);
    } else if (l->compared > COMPARED_MAX) {
        rc = ERR_ARGUMENT;
        text_put(why, size,
                 "it takes more than %d comparisons to find the legal plans of %u combinations: "
                 "declare the axes that exclude most first",
                 COMPARED_MAX, d->combinations);
    } else {
        d->plans = l->plans;
        d->plan = malloc(l->plans * sizeof(*d->plan));
        rc = d->plan ? OK : ERR_NOMEM;
        if (d->plan)
            memcpy(d->plan, l->plan, l->plans * sizeof(*d->plan));
    }
    free(l);
    return rc;
}

/* ---- Buckets. */

uint32_t declaration_buckets(const struct declaration *d)
{
    return (uint32_t)(d->key_edges + 1) * declaration_classes(d);
}

uint32_t declaration_bucket(const struct declaration *d, uint64_t key, uint32_t class_thousandths)
{
    uint32_t range = 0, class_index = 0;

    while (range < d->key_edges && key > d->key_edge[range])
        range++;
    while (class_index < d->class_edges && class_thousandths > d->class_edge[class_index])
        class_index++;
    return range * declaration_classes(d) + class_index;
}

/* Compares with the edges as they are written, because 1.1 times 1000 need not be 1100. */
uint32_t declaration_bucket_at(const struct declaration *d, uint64_t key, double class_value)
{
    size_t class_index = 0;

    while (class_index < d->class_edges && class_value > d->class_edge[class_index] / 1000.0)
        class_index++;
    return declaration_bucket(d, key, class_index ? d->class_edge[class_index - 1] + 1 : 0);
}

uint64_t declaration_key(const struct declaration *d, uint32_t bucket)
{
    uint32_t range = bucket / declaration_classes(d);
    uint64_t last = d->key_edge[d->key_edges - 1];

    if (range < d->key_edges)
        return d->key_edge[range];
    return last ? 2 * last : 1;
}

double declaration_class(const struct declaration *d, uint32_t bucket)
{
    uint32_t class = bucket % declaration_classes(d);

    if (!d->class_edges)
        return 0;
    return class < d->class_edges ? d->class_edge[class] / 1e3
                                  : d->class_edge[d->class_edges - 1] / 1e3 + 1;
}

char *declaration_thousandths(uint64_t thousandths, char room[DECLARATION_THOUSANDTHS_BYTES])
{
    char *end;

    snprintf(room, DECLARATION_THOUSANDTHS_BYTES, "%llu.%03llu",
             (unsigned long long)thousandths / 1000, (unsigned long long)thousandths % 1000);
    for (end = room + strlen(room); end[-1] == '0';)
        *--end = 0;
    if (end[-1] == '.')
        end[-1] = 0;
    return room;
}

static char *whole_number(uint64_t number, char room[DECLARATION_THOUSANDTHS_BYTES])
{
    snprintf(room, DECLARATION_THOUSANDTHS_BYTES, "%llu", (unsigned long long)number);
    return room;
}

/* Writes the ranges `first` to `last` between these edges as one range. A number beyond them means
 * the last range. */
static void put_range(const uint64_t *edges, size_t count, uint32_t first, uint32_t last,
                      char *(*edge_text)(uint64_t edge, char room[DECLARATION_THOUSANDTHS_BYTES]),
                      char *text, size_t size)
{
    char low[DECLARATION_THOUSANDTHS_BYTES], high[DECLARATION_THOUSANDTHS_BYTES];

    first = first < count ? first : (uint32_t)count;
    if (last >= count && !first)
        snprintf(text, size, "any");
    else if (last >= count)
        snprintf(text, size, ">%s", edge_text(edges[first - 1], low));
    else if (!first)
        snprintf(text, size, "<=%s", edge_text(edges[last], high));
    else if (edges[first - 1] + 1 == edges[last])
        snprintf(text, size, "%s", edge_text(edges[last], high));
    else
        snprintf(text, size, "%s-%s", edge_text(edges[first - 1] + 1, low),
                 edge_text(edges[last], high));
}

char *declaration_class_range(const struct declaration *d, uint32_t bucket,
                              char room[DECLARATION_CLASS_BYTES])
{
    uint64_t edges[DECLARATION_CLASS_EDGES_MAX];

    *room = 0;
    for (size_t i = 0; i < d->class_edges; i++)
        edges[i] = d->class_edge[i];
    if (d->class_edges)
        put_range(edges, d->class_edges, bucket % declaration_classes(d),
                  bucket % declaration_classes(d), declaration_thousandths, room,
                  DECLARATION_CLASS_BYTES);
    return room;
}

int declaration_ranges(const struct declaration *d, uint32_t first, uint32_t last, char *text,
                       size_t size)
{
    char keys[2 * DECLARATION_THOUSANDTHS_BYTES], class[DECLARATION_CLASS_BYTES];

    put_range(d->key_edge, d->key_edges, first / declaration_classes(d),
              last / declaration_classes(d), whole_number, keys, sizeof(keys));
    if (!d->class_edges)
        return snprintf(text, size, "%s", keys);
    return snprintf(text, size, "%s %s %s", keys, d->class_name,
                    declaration_class_range(d, first, class));
}

int declaration_range(const struct declaration *d, uint32_t bucket, char *text, size_t size)
{
    return declaration_ranges(d, bucket, bucket, text, size);
}

/* ---- The spaces that this process knows: a list that only grows, at its front. */

struct known_space {
    struct declaration *space;
    const struct known_space *next;
};

static _Atomic(const struct known_space *) known_spaces;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const struct declaration *declaration_find(uint32_t id)
{
    const struct known_space *k = atomic_load(&known_spaces);

    while (k && k->space->id != id)
        k = k->next;
    return k ? k->space : NULL;
}

/* Takes ownership of `space`, and frees it where an equal one is known. ERR_FORMAT: *out is another
 * space with the same id. */
static int add_known(struct declaration *space, const struct declaration **out)
{
    struct known_space *added = malloc(sizeof(*added));
    const struct declaration *found;
    int rc = OK;

    if (!added) {
        declaration_free(space);
        return ERR_NOMEM;
    }
    pthread_mutex_lock(&adding);
    found = declaration_find(space->id);
    if (!found) {
        *added = (struct known_space){ space, atomic_load(&known_spaces) };
        atomic_store(&known_spaces, added);
    }
    pthread_mutex_unlock(&adding);
    *out = found ? found : space;
    if (found) {
        rc = strcmp(found->text, space->text) ? ERR_FORMAT : OK;
        declaration_free(space);
        free(added);
    }
    return rc;
}

int declaration_register(const char *text, const struct declaration **out)
{
    const struct declaration *found = NULL;
    struct declaration *space;
    int rc;

    TRY(declaration_parse(text, &space));
    rc = add_known(space, &found);
    if (rc == ERR_FORMAT)
        return fail(rc,
                    "this declared space has the same id %08x as the space %s: rename one of them",
                    found->id, found->name);
    if (rc)
        return fail(rc, "no memory for a declared space");
    *out = found;
    return OK;
}

int declaration_register_silently(const char *text, const struct declaration **out)
{
    char why[DECLARATION_FAULT_BYTES];
    const struct declaration *found = NULL;
    struct declaration *space;

    TRY(declaration_read(text, &space, why, sizeof(why)));
    TRY(add_known(space, &found));
    *out = found;
    return OK;
}

char *declaration_tag(const struct declaration *d, char room[DECLARATION_TAG_BYTES])
{
    snprintf(room, DECLARATION_TAG_BYTES, "%s@%08x", d->name, d->id);
    return room;
}

/* Returns whether a space is called so. A text without '@' is a name, any other text a tag. */
static bool is_called(const struct declaration *d, const char *name, size_t length)
{
    char tag[DECLARATION_TAG_BYTES];
    size_t called_length =
        memchr(name, '@', length) ? strlen(declaration_tag(d, tag)) : strlen(d->name);

    return length == called_length && !memcmp(declaration_tag(d, tag), name, length);
}

bool declaration_is_called(const struct declaration *d, const char *name)
{
    return is_called(d, name, strlen(name));
}

const struct declaration *declaration_named(const char *name, size_t length)
{
    const struct declaration *found = NULL;

    for (const struct known_space *k = atomic_load(&known_spaces); k; k = k->next)
        if (is_called(k->space, name, length)) {
            if (found)
                return NULL;
            found = k->space;
        }
    return found;
}
