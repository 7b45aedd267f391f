/* Compares the tables of one layer in several settings (layouts, shares), bucket by bucket. */
#include "settings.h"

#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *setting_text(const struct moe_shape *shape, char room[48])
{
    snprintf(room, 48, "layout=%s shares=%s", layout_words[shape->layout],
             shares_words[shape->shares]);
    return room;
}

/* Logarithms of a bucket's step time and of its interval; NaN: not measured. */
struct logs {
    double value, low, high;
};

/* One layer in one setting. */
struct setting {
    const struct layer_plans *plans;
    struct logs *steps; /* by bucket; owned */
};

static int note_entry(void *self, const struct entry_row *e)
{
    const struct setting *s = self;

    if (e->window == s->plans->window && e->bucket >= s->plans->first &&
        e->bucket <= s->plans->last && !entry_is(e, ENTRY_OPEN))
        s->steps[e->bucket - s->plans->first] =
            (struct logs){ log(e->time_us), log(e->low_us), log(e->high_us) };
    return OK;
}

static int open_setting(const struct layer_plans *plans, struct store *store, int64_t cluster,
                        struct setting *out)
{
    size_t count = plans->last - plans->first + 1;
    int64_t shape;

    *out = (struct setting){ plans, malloc(count * sizeof(*out->steps)) };
    if (!out->steps)
        return fail(ERR_NOMEM, "%zu buckets", count);
    for (size_t i = 0; i < count; i++)
        out->steps[i] = (struct logs){ NAN, NAN, NAN };
    TRY(store_shape_add(store, &plans->shape, &shape));
    return store_entries(store, cluster, shape, note_entry, out);
}

static bool same_layer(const struct layer_plans *a, const struct layer_plans *b)
{
    struct moe_shape x = a->shape, y = b->shape;

    x.layout = y.layout = x.shares = y.shares = 0;
    return shape_equal(&x, &y) && a->window == b->window && a->first == b->first &&
           a->last == b->last;
}

static struct setting_gain compare_settings(const struct setting *first,
                                            const struct setting *other)
{
    struct logs sum = { 0 };
    struct setting_gain out = { .gain = NAN, .low = NAN, .high = NAN };

    for (size_t i = 0; i <= first->plans->last - first->plans->first; i++) {
        const struct logs *a = &first->steps[i], *b = &other->steps[i];

        if (isnan(b->low - a->high) || isnan(b->high - a->low))
            continue;
        sum.value += b->value - a->value;
        sum.low += b->low - a->high;
        sum.high += b->high - a->low;
        out.buckets++;
    }
    if (out.buckets) {
        out.gain = -expm1(sum.value / out.buckets);
        out.low = -expm1(sum.high / out.buckets);
        out.high = -expm1(sum.low / out.buckets);
    }
    return out;
}

/* The best setting of one layer: `first` is its first setting, and others may follow it.  *others:
 * how many do. */
static struct setting_gain find_best(const struct setting *settings, size_t count, size_t first,
                                     size_t *others)
{
    struct setting_gain best = { .first = first, .best = first };

    *others = 0;
    for (size_t i = first + 1; i < count; i++) {
        struct setting_gain gain;

        if (!same_layer(settings[first].plans, settings[i].plans))
            continue;
        gain = compare_settings(&settings[first], &settings[i]);
        gain.first = first;
        gain.best = i;
        best.buckets = best.buckets ? best.buckets : gain.buckets;
        if (gain.gain > best.gain)
            best = gain;
        ++*others;
    }
    return best;
}

static bool is_first_of_layer(const struct setting *settings, size_t number)
{
    for (size_t i = 0; i < number; i++)
        if (same_layer(settings[i].plans, settings[number].plans))
            return false;
    return true;
}

int settings_compare(const struct tune_request *request, size_t swept, struct store *store,
                     int64_t cluster, struct setting_gain *out, size_t room)
{
    struct setting *settings = calloc(swept + 1, sizeof(*settings));
    size_t count = 0, others;
    int rc = settings ? OK : fail(ERR_NOMEM, "%zu settings", swept);

    for (size_t i = 0; i < swept && !rc; i++)
        rc = open_setting(&request->spaces[i], store, cluster, &settings[i]);
    for (size_t i = 0; i < swept && !rc; i++) {
        struct setting_gain best = find_best(settings, swept, i, &others);

        if (!others || count == room || !is_first_of_layer(settings, i))
            continue;
        out[count++] = best;
    }
    for (size_t i = 0; i < swept && settings; i++)
        free(settings[i].steps);
    free(settings);
    return rc ? rc : (int)count;
}
