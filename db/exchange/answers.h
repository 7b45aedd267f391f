/* What a table answers for one layer, range by range, as libmoelookup tells a trainer. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include "declaration.h"
#include "lookup.h"
#include "shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which layer, and which of its answers. */
struct answers_choice {
    const char *space;   /* its name or tag; NULL: any layer */
    const char *shape;   /* for shape_agrees(); NULL: any */
    const char *cluster; /* beginning of a hash; NULL: any */
    bool keyed;          /* only the range of `key` */
    uint64_t key;        /* a capacity where plans are moetune's own */
    double class;        /* a number: only this one's; below 0: of all classes */
};

struct answer {
    uint32_t bucket;
    uint64_t from, to; /* keys, both included; UINT64_MAX: it has no end */
    struct moe_plan plan;
};

struct answers {
    struct moe_shape shape;
    const struct declaration *space; /* NULL: plans are moetune's own */
    char device[LOOKUP_DEVICE_BYTES];
    struct moelookup_view *view;
    struct answer *list; /* ascending by bucket */
    size_t count;
};

/* ERR_ARGUMENT after a message: no layer or several are meant, a class or a key is missing that
 * they need. */
int answers_open(const struct moelookup *table, const struct answers_choice *choice,
                 struct answers *out);
void answers_close(struct answers *answers);

/* "65-256 skew <=1.25", or the one key that was asked for.  It lasts as long as the block around
 * it. */
#define ANSWER_TEXT(answers, answer) answer_text(answers, answer, (char[RANGE_TEXT_BYTES]){ 0 })
const char *answer_text(const struct answers *answers, const struct answer *answer,
                        char room[RANGE_TEXT_BYTES]);

/* All answers are one plan. */
bool answers_agree(const struct answers *answers);

/* A plan, word by word. */
struct plan_word {
    char axis[DECLARATION_NAME_BYTES], value[DECLARATION_NAME_BYTES];
    bool number; /* the axis has integers */
};
struct plan_words {
    size_t count;
    struct plan_word list[DECLARATION_AXES_MAX];
};
struct plan_words answer_words(const struct answers *answers, const struct moe_plan *plan);
const struct plan_word *plan_words_find(const struct plan_words *words, const char *axis);

#endif
