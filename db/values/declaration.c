/* Plans of a declared space as numbers and as text, and the buckets of its key. */
#include "declaration.h"

#include "declaration_need.h"
#include "text.h"

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
        declared_need_free(&d->need[i]);
    free(d->need);
    free(d->text);
    free(d->plan);
    free(d);
}

/* ---- choices */

uint32_t declaration_value(const struct declaration *d, uint32_t choice, size_t axis)
{
    return choice / d->axis[axis].stride % d->axis[axis].values;
}

uint32_t declaration_with(const struct declaration *d, uint32_t choice, size_t axis, uint32_t value)
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

const char *declaration_refusal(const struct declaration *d, uint32_t choice, size_t *length)
{
    int64_t at[DECLARATION_AXES_MAX];
    size_t broken;

    for (size_t i = 0; i < d->axes; i++)
        at[i] = declared_number(&d->axis[i], declaration_value(d, choice, i));
    broken = declared_needs_broken(d, at);
    if (broken == d->needs)
        return NULL;
    *length = d->need[broken].length;
    return d->text + d->need[broken].text;
}

bool declaration_same_launch(const struct declaration *d, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < d->axes; i++)
        if (d->axis[i].restart && declaration_value(d, a, i) != declaration_value(d, b, i))
            return false;
    return true;
}

/* ---- text */

size_t declaration_axis(const struct declaration *d, const char *name, size_t length)
{
    size_t i = 0;

    while (i < d->axes && !span_is((struct span){ name, length }, d->axis[i].name))
        i++;
    return i;
}

uint32_t declared_axis_value(const struct declared_axis *axis, const char *text, size_t length)
{
    struct span word = { text, length };
    int64_t number = 0;
    uint32_t i = 0;

    if (!axis->words &&
        !span_number(word, -DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST, &number))
        return axis->values;
    while (i < axis->values &&
           !(axis->words ? span_is(word, axis->text[i]) : axis->number[i] == number))
        i++;
    return i;
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

bool declaration_scan(const struct declaration *d, const char *text, uint32_t *choice)
{
    uint32_t said = d->usual, seen = 0;

    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " "), name = strcspn(text, "= ");
        size_t i = declaration_axis(d, text, name);
        uint32_t value;

        if (i == d->axes || name == length || (seen >> i & 1))
            return false;
        value = declared_axis_value(&d->axis[i], text + name + 1, length - name - 1);
        if (value == d->axis[i].values)
            return false;
        said = declaration_with(d, said, i, value);
        seen |= 1u << i;
        text += length;
    }
    *choice = said;
    return true;
}

char *declaration_tag(const struct declaration *d, char room[DECLARATION_TAG_BYTES])
{
    snprintf(room, DECLARATION_TAG_BYTES, "%s@%08x", d->name, d->id);
    return room;
}

bool declaration_is_called(const struct declaration *d, const char *name)
{
    char tag[DECLARATION_TAG_BYTES];

    return !strcmp(name, d->name) || !strcmp(name, declaration_tag(d, tag));
}

/* ---- buckets */

uint32_t declaration_buckets(const struct declaration *d)
{
    return (uint32_t)(d->key_edges + 1) * declaration_classes(d);
}

uint32_t declaration_bucket(const struct declaration *d, uint64_t key, uint32_t class_thousandths)
{
    uint32_t range = 0, class = 0;

    while (range < d->key_edges && key > d->key_edge[range])
        range++;
    while (class < d->class_edges && class_thousandths > d->class_edge[class])
        class ++;
    return range * declaration_classes(d) + class;
}

/* Edges are compared as they are written, because 1.1 times 1000 need not be 1100. */
uint32_t declaration_bucket_at(const struct declaration *d, uint64_t key, double class)
{
    size_t at = 0;

    while (at<d->class_edges &&class> d->class_edge[at] / 1000.0)
        at++;
    return declaration_bucket(d, key, at ? d->class_edge[at - 1] + 1 : 0);
}

uint64_t declaration_key(const struct declaration *d, uint32_t bucket)
{
    uint32_t range = bucket / declaration_classes(d);
    uint64_t last = d->key_edge[d->key_edges - 1];

    if (range < d->key_edges)
        return d->key_edge[range];
    return last ? 2 * last : 1;
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

static char *whole(uint64_t number, char room[DECLARATION_THOUSANDTHS_BYTES])
{
    snprintf(room, DECLARATION_THOUSANDTHS_BYTES, "%llu", (unsigned long long)number);
    return room;
}

typedef char *put_number(uint64_t number, char room[DECLARATION_THOUSANDTHS_BYTES]);

/* The range of the n-th of these edges, as text; what is beyond them lies in the last one. */
static void put_range(const uint64_t *edges, size_t count, uint32_t n, put_number *put, char *text,
                      size_t size)
{
    char low[DECLARATION_THOUSANDTHS_BYTES], high[DECLARATION_THOUSANDTHS_BYTES];

    if (n >= count)
        snprintf(text, size, ">%s", put(edges[count - 1], low));
    else if (!n)
        snprintf(text, size, "<=%s", put(edges[n], high));
    else if (edges[n - 1] + 1 == edges[n])
        snprintf(text, size, "%s", put(edges[n], high));
    else
        snprintf(text, size, "%s-%s", put(edges[n - 1] + 1, low), put(edges[n], high));
}

double declaration_class(const struct declaration *d, uint32_t bucket)
{
    uint32_t class = bucket % declaration_classes(d);

    if (!d->class_edges)
        return 0;
    return class < d->class_edges ? d->class_edge[class] / 1e3
                                  : d->class_edge[d->class_edges - 1] / 1e3 + 1;
}

char *declaration_class_range(const struct declaration *d, uint32_t bucket,
                              char room[DECLARATION_CLASS_BYTES])
{
    uint64_t edges[DECLARATION_CLASS_EDGES_MAX];

    *room = 0;
    for (size_t i = 0; i < d->class_edges; i++)
        edges[i] = d->class_edge[i];
    if (d->class_edges)
        put_range(edges, d->class_edges, bucket % declaration_classes(d), declaration_thousandths,
                  room, DECLARATION_CLASS_BYTES);
    return room;
}

int declaration_range(const struct declaration *d, uint32_t bucket, char *text, size_t size)
{
    char keys[2 * DECLARATION_THOUSANDTHS_BYTES], class[DECLARATION_CLASS_BYTES];

    put_range(d->key_edge, d->key_edges, bucket / declaration_classes(d), whole, keys,
              sizeof(keys));
    if (!d->class_edges)
        return snprintf(text, size, "%s", keys);
    return snprintf(text, size, "%s %s %s", keys, d->class_name,
                    declaration_class_range(d, bucket, class));
}
