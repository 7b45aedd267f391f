/* Reads a need, writes it as canonical text, and says whether it is true. */
#include "declaration_need.h"

#include "status.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum relation { EQUAL, UNEQUAL, AT_MOST, LESS, AT_LEAST, MORE, DIVIDES, RELATIONS };

/* Longer ones before those that they begin with. */
static const char *const relation_texts[RELATIONS] = { "=", "!=", "<=", "<", ">=", ">", "divides" };

/* Up to here no product leaves 64 bits. */
static const uint64_t product_most = ((uint64_t)1 << 62) - 1;

/* ---- what is true */

static int64_t term_value(const struct declared_term *term, const int64_t *at)
{
    int64_t value = term->constant;

    for (uint8_t i = 0; i < term->axes; i++)
        value *= at[term->axis[i]];
    return value;
}

bool declared_comparison_holds(const struct declared_comparison *c, const int64_t *at)
{
    int64_t left = term_value(&c->left, at), right = term_value(&c->right, at);

    switch ((enum relation)c->relation) {
    case EQUAL: return left == right;
    case UNEQUAL: return left != right;
    case AT_MOST: return left <= right;
    case LESS: return left < right;
    case AT_LEAST: return left >= right;
    case MORE: return left > right;
    case DIVIDES: return left ? right % left == 0 : right == 0;
    case RELATIONS: break;
    }
    return false;
}

static bool need_holds(const struct declared_need *need, const int64_t *at)
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
            all = declared_comparison_holds(c, at);
    }
    return all;
}

size_t declared_needs_broken(const struct declaration *d, const int64_t *at)
{
    size_t i = 0;

    while (i < d->needs && need_holds(&d->need[i], at))
        i++;
    return i;
}

/* ---- the words of a need */

static void skip_blanks(struct declaration_reader *in)
{
    while (in->at < in->end && strchr(" \t\r", *in->at))
        in->at++;
}

static struct span next_letters(struct declaration_reader *in)
{
    struct span s;

    skip_blanks(in);
    s.at = in->at;
    while (in->at < in->end && declaration_is_letter(*in->at))
        in->at++;
    s.length = (size_t)(in->at - s.at);
    return s;
}

/* The rest of the line, for a message. */
static struct span rest_of(struct declaration_reader *in)
{
    skip_blanks(in);
    return (struct span){ in->at, (size_t)(in->end - in->at) };
}

static bool take_sign(struct declaration_reader *in, char sign)
{
    skip_blanks(in);
    if (in->at == in->end || *in->at != sign)
        return false;
    in->at++;
    return true;
}

/* ---- terms */

/* One side of a comparison, before it is known what the other one is. */
struct side {
    struct span word;  /* the first factor */
    struct span odd;   /* the first factor that is no integer and no axis of integers */
    struct span large; /* the first one with which the product could be too large */
    size_t factors;
    uint64_t most; /* the largest product, without its sign */
    struct declared_term term;
};

static uint64_t size_of(int64_t number)
{
    return number < 0 ? (uint64_t)-number : (uint64_t)number;
}

/* Zeros count as ones, so that a product stays in bounds on the way to them. */
static bool grow(struct side *s, int64_t low, int64_t high)
{
    uint64_t most = size_of(low) > size_of(high) ? size_of(low) : size_of(high);

    most = most ? most : 1;
    if (s->most > product_most / most)
        return false;
    s->most *= most;
    return true;
}

static int add_factor(struct declaration_reader *in, struct side *s, struct span word)
{
    const struct declaration *d = in->d;
    size_t axis = declaration_axis(d, word.at, word.length);
    int64_t number;
    bool fits = true;

    if (!s->factors++)
        s->word = word;
    if (axis < d->axes && !d->axis[axis].words) {
        if (s->term.axes == DECLARATION_AXES_MAX)
            return declaration_wrong(in, "a product of more than %d axes", DECLARATION_AXES_MAX);
        fits = grow(s, d->axis[axis].number[0], d->axis[axis].number[d->axis[axis].values - 1]);
        s->term.axis[s->term.axes++] = (uint8_t)axis;
    } else if (span_is_number(word)) {
        fits = span_number(word, -INT64_MAX, INT64_MAX, &number) && grow(s, number, number);
        s->term.constant *= fits ? number : 1;
    } else if (!s->odd.length) {
        s->odd = word;
    }
    if (!fits && !s->large.length)
        s->large = word;
    return OK;
}

static int read_side(struct declaration_reader *in, struct side *out)
{
    *out = (struct side){ .most = 1, .term.constant = 1 };
    do {
        struct span word = next_letters(in);

        if (!word.length)
            return declaration_wrong(in, "%s stands where an axis, an integer or a word should",
                                     SPAN_SHOWN(rest_of(in)));
        TRY(add_factor(in, out, word));
    } while (take_sign(in, '*'));
    return OK;
}

static int read_relation(struct declaration_reader *in, uint8_t *relation)
{
    struct span rest = rest_of(in);

    for (uint8_t i = 0; i < RELATIONS; i++) {
        size_t length = strlen(relation_texts[i]);

        if (rest.length < length || memcmp(rest.at, relation_texts[i], length) != 0 ||
            (i == DIVIDES && rest.length > length && declaration_is_letter(rest.at[length])))
            continue;
        in->at += length;
        *relation = i;
        return OK;
    }
    return declaration_wrong(in, "%s stands where =, !=, <, <=, >, >= or divides should",
                             SPAN_SHOWN(rest));
}

/* ---- comparisons */

enum { LIST_BYTES = 160 };

/* One side is an axis of words alone; d->axes: it is not. */
static size_t axis_of_words(const struct declaration *d, const struct side *s)
{
    size_t axis = declaration_axis(d, s->word.at, s->word.length);

    return s->factors == 1 && axis < d->axes && d->axis[axis].words ? axis : d->axes;
}

/* The side is an axis of words, and the other one a word of it. */
static bool take_words(const struct declaration *d, struct side *s, struct side *other)
{
    size_t axis = axis_of_words(d, s);
    uint32_t value;

    if (axis == d->axes || other->factors != 1)
        return false;
    value = declared_axis_value(&d->axis[axis], other->word.at, other->word.length);
    if (value == d->axis[axis].values)
        return false;
    s->term = (struct declared_term){ .constant = 1, .axes = 1, .axis = { (uint8_t)axis } };
    other->term = (struct declared_term){ .constant = value };
    return true;
}

/* A list that ends with dots before it becomes too long for a sentence. */
static void list_word(char list[LIST_BYTES], const char *word)
{
    size_t used = strlen(list);

    if (used < LIST_BYTES - 2 * DECLARATION_NAME_BYTES)
        text_add(list, LIST_BYTES, "%s%s", used ? ", " : "", word);
    else if (list[used - 1] != '.')
        text_add(list, LIST_BYTES, ", ...");
}

static int refuse_word(struct declaration_reader *in, size_t axis, struct span word)
{
    const struct declared_axis *a = &in->d->axis[axis];
    char list[LIST_BYTES] = "";

    for (uint32_t i = 0; i < a->values; i++)
        list_word(list, a->text[i]);
    return declaration_wrong(in, "%s is no value of the axis %s, which has %s", SPAN_SHOWN(word),
                             a->name, list);
}

static int refuse_name(struct declaration_reader *in, struct span word)
{
    char list[LIST_BYTES] = "";

    for (size_t i = 0; i < in->d->axes; i++)
        list_word(list, in->d->axis[i].name);
    return declaration_wrong(in, "%s is no integer and no axis declared above%s%s",
                             SPAN_SHOWN(word), *list ? ": " : "", list);
}

/* Neither two numbers nor an axis of words with one of them. */
static int refuse_sides(struct declaration_reader *in, const struct side *left,
                        const struct side *right)
{
    const struct declaration *d = in->d;
    size_t axis = axis_of_words(d, left);
    struct span odd = left->odd.length ? left->odd : right->odd,
                large = left->large.length ? left->large : right->large;

    if (axis < d->axes)
        return refuse_word(in, axis, right->word);
    axis = axis_of_words(d, right);
    if (axis < d->axes)
        return refuse_word(in, axis, left->word);
    if (odd.length && declaration_axis(d, odd.at, odd.length) < d->axes)
        return declaration_wrong(in, "%s has words, of which there is no product", SPAN_SHOWN(odd));
    if (odd.length)
        return refuse_name(in, odd);
    return declaration_wrong(in, "the product with %s may be 2^62 or more", SPAN_SHOWN(large));
}

static bool is_number(const struct side *s)
{
    return !s->odd.length && !s->large.length;
}

static int read_comparison(struct declaration_reader *in, struct declared_comparison *c)
{
    struct side left, right;
    bool words;

    TRY(read_side(in, &left));
    TRY(read_relation(in, &c->relation));
    TRY(read_side(in, &right));
    words = take_words(in->d, &left, &right) || take_words(in->d, &right, &left);
    if (!words && !(is_number(&left) && is_number(&right)))
        return refuse_sides(in, &left, &right);
    if (words && c->relation != EQUAL && c->relation != UNEQUAL)
        return declaration_wrong(in, "words are compared by = and !=, not by %s",
                                 relation_texts[c->relation]);
    if (!left.term.axes && !right.term.axes)
        return declaration_wrong(in, "%s is compared with %s, and neither is an axis",
                                 SPAN_SHOWN(left.word), SPAN_SHOWN(right.word));
    c->left = left.term;
    c->right = right.term;
    return OK;
}

/* ---- needs */

static void write_term(struct declaration_reader *in, const struct declared_term *term,
                       const struct declared_term *other)
{
    const struct declaration *d = in->d;

    for (uint8_t i = 0; i < term->axes; i++)
        declaration_write(in, "%s%s", i ? "*" : "", d->axis[term->axis[i]].name);
    if (!term->axes && other->axes == 1 && d->axis[other->axis[0]].words)
        declaration_write(in, "%s", d->axis[other->axis[0]].text[term->constant]);
    else if (!term->axes || term->constant != 1)
        declaration_write(in, "%s%lld", term->axes ? "*" : "", (long long)term->constant);
}

static void write_need(struct declaration_reader *in, struct declared_need *need)
{
    declaration_write(in, "need ");
    need->text = in->written;
    for (size_t i = 0; i < need->comparisons; i++) {
        const struct declared_comparison *c = &need->comparison[i];
        const char *blank = c->relation == DIVIDES ? " " : "";

        declaration_write(in, "%s", i ? c->opens ? " | " : " & " : "");
        write_term(in, &c->left, &c->right);
        declaration_write(in, "%s%s%s", blank, relation_texts[c->relation], blank);
        write_term(in, &c->right, &c->left);
    }
    need->length = in->written - need->text;
    declaration_write(in, "\n");
}

static int add_comparison(struct declaration_reader *in, struct declared_need *need, bool opens)
{
    struct declared_comparison c = { .opens = opens }, *more;

    if (in->comparisons++ == DECLARATION_COMPARISONS_MAX)
        return declaration_wrong(in, "more than %d comparisons in all needs",
                                 DECLARATION_COMPARISONS_MAX);
    TRY(read_comparison(in, &c));
    more = realloc(need->comparison, (need->comparisons + 1) * sizeof(*more));
    if (!more)
        return ERR_NOMEM;
    need->comparison = more;
    need->comparison[need->comparisons++] = c;
    need->axes |= declared_term_axes(&c.left) | declared_term_axes(&c.right);
    return OK;
}

/* The plan that runs where nothing is known must be legal. */
static int ask_default(struct declaration_reader *in, const struct declared_need *need)
{
    const struct declaration *d = in->d;
    int64_t at[DECLARATION_AXES_MAX] = { 0 };
    char list[DECLARATION_FAULT_BYTES] = "";

    for (size_t i = 0; i < d->axes; i++) {
        const struct declared_axis *axis = &d->axis[i];

        at[i] = declared_number(axis, axis->fallback);
        if (need->axes >> i & 1)
            text_add(list, sizeof(list), "%s%s=%s", *list ? " " : "", axis->name,
                     axis->text[axis->fallback]);
    }
    if (need_holds(need, at))
        return OK;
    return declaration_wrong(in, "the need excludes the default plan, which has %s", list);
}

int declared_need_read(struct declaration_reader *in)
{
    struct declaration *d = in->d;
    struct declared_need *need;
    bool opens = false;

    if (d->needs == DECLARATION_NEEDS_MAX)
        return declaration_wrong(in, "more than %d needs", DECLARATION_NEEDS_MAX);
    if (!d->need)
        d->need = calloc(DECLARATION_NEEDS_MAX, sizeof(*d->need));
    if (!d->need)
        return ERR_NOMEM;
    need = &d->need[d->needs++];
    for (;;) {
        struct span rest;

        TRY(add_comparison(in, need, opens));
        rest = rest_of(in);
        if (!rest.length)
            break;
        opens = *rest.at == '|';
        if (!opens && *rest.at != '&')
            return declaration_wrong(in, "%s follows a comparison: & and | join two of them",
                                     SPAN_SHOWN(rest));
        in->at++;
    }
    write_need(in, need);
    return ask_default(in, need);
}

void declared_need_free(struct declared_need *need)
{
    free(need->comparison);
}
