/* A table's answers in the forms that other programs read.  Each form is a row of formats[].  Those
 * that many programs read have a reader, so that what was written can be read back. */
#ifndef FORMAT_H
#define FORMAT_H

#include "buckets.h"
#include "declaration.h"
#include "json.h"
#include "lookup.h"
#include "shape.h"
#include "store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- What a table answers for one layer, range by range, as libmoelookup tells a trainer. */

/* Which layer, and which of its answers. */
struct answers_choice {
    const char *space;   /* its name or tag; NULL: any layer */
    const char *shape;   /* for shape_agrees(); NULL: any */
    const char *cluster; /* beginning of a hash; NULL: any */
    const char *launch;  /* inside it; NULL or "": the one that the table tells */
    bool keyed;          /* only the range of `key` */
    uint64_t key;        /* a capacity where plans are moetune's own */
    const char *path;    /* of the database that this is */
    double class;        /* a number: only this one's; below 0: of all classes */
};

struct answer {
    uint32_t bucket;
    uint64_t from, to; /* keys, both included; UINT64_MAX: it has no end */
    struct moe_plan plan;
};

struct answers {
    struct moe_shape shape;
    struct buckets buckets; /* with the declaration whose plans they are, too */
    char device[LOOKUP_DEVICE_BYTES];
    struct moelookup_view *view;
    struct answer *list; /* ascending by bucket */
    size_t count;
    char axes[DECLARATION_TEXT_BYTES]; /* "r,d": words are of these alone; "": of all */
};

/* Where the plans of a declared space differ, but not in their restart values, leaves the words of
 * these: a job is started with them. */
void answers_keep_launch(struct answers *answers);

/* ERR_ARGUMENT after a message: no layer or several are meant, a class or a key is missing that
 * they need. */
int answers_open(const struct moelookup *table, const struct answers_choice *choice,
                 struct answers *out);
void answers_close(struct answers *answers);

/* "65-256 skew <=1.25", or the one key that was asked for.  It lasts as long as the block around
 * it. */
#define ANSWER_TEXT(answers, answer) answer_text(answers, answer, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *answer_text(const struct answers *answers, const struct answer *answer,
                        char room[BUCKETS_TEXT_BYTES]);

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

/* ---- The forms of these answers. */

/* NAME=VALUE of --set: what the reader calls an axis ("": it is left out), or a fact that the
 * table does not know. */
struct format_set {
    char name[DECLARATION_NAME_BYTES];
    const char *value;
};

struct format_job {
    const struct answers *answers;
    const struct format_set *sets;
    size_t set_count;
};

enum { FORMAT_NAME_BYTES = 256, FORMAT_FILE_MOST = 1 << 22 };

struct format {
    const char *name;
    const char *const *facts; /* that --set may give, beside axes; NULL-terminated */
    bool one;                 /* it holds one plan */
    bool classes;             /* it can say the class of an answer */

    /* ERR_ARGUMENT after a message: the space lacks something, or has what the reader knows not. */
    int (*check)(const struct format_job *job);

    /* How the file must be called, perhaps with folders; NULL: as one likes. */
    int (*file_name)(const struct format_job *job, char name[FORMAT_NAME_BYTES]);

    int (*write)(const struct format_job *job, FILE *to);

    /* What the reader would take from the text for a key and class: the axes that it is told.
     * ERR_FORMAT after a message.  NULL: one program alone reads it, which was never run here. */
    int (*read)(const struct format_job *job, const char *text, size_t length, uint64_t key,
                double class_value, struct plan_words *out);
};

extern const struct format format_env, format_flags, format_dotted, format_toml, format_nested,
    format_json, format_vllm_moe, format_sglang_moe, format_sglang_deepep;

/* All that can be wrong before anything is written. */
int format_check(const struct format *format, const struct format_job *job);

/* ERR_ARGUMENT after a message: the program looks for a file of another name. */
int format_check_name(const struct format *format, const struct format_job *job, const char *path);

/* Reads a file as its program will, for both ends and the middle of each range, and says for each
 * range on standard output what answers it.  ERR_FORMAT after a message: another plan is read. */
int format_read_back(const struct format *format, const struct format_job *job, const char *path);

/* ---- for the formats */

/* The words of the first answer: every plan of a layer has the same axes. */
struct plan_words format_axes(const struct format_job *job);

/* The value of --set; NULL: not given. */
const char *format_set_value(const struct format_job *job, const char *name);

/* The plan's word for an axis; NULL: it has none, or --set leaves it out. */
const struct plan_word *format_word(const struct format_job *job, const struct plan_words *words,
                                    const char *axis);

/* A whole number of --set, from least to what a C int holds; `fallback` where it is not given. */
int format_set_number(const struct format_job *job, const char *name, int64_t least,
                      int64_t fallback, int64_t *out);

#endif
