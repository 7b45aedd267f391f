/* Writes a table's answers in the forms that other programs read. Each form is a struct format.
 * Forms that many programs read also have a reader, so that a written file can be checked. */
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

/* ---- The answers: what the table answers for one layer, range by range, as libmoelookup tells a
 * trainer. */

/* Which layer, and which of its answers: what the command line says. Borrows its texts. */
struct answers_choice {
    const char *space;   /* its name or tag; NULL: any layer */
    const char *shape;   /* for shape_agrees(); NULL: any */
    const char *cluster; /* beginning of a hash; NULL: any */
    const char *launch;  /* inside this launch; NULL or "": the one that the table answers with */
    bool keyed;          /* only the range of `key` */
    uint64_t key;        /* a capacity where plans are moetune's own */
    const char *path;    /* of the database */
    double class;        /* a number: only answers of this class; below 0: of all classes */
};

/* The plan of one bucket. */
struct answer {
    uint32_t bucket;
    uint64_t from, to; /* keys, both included; UINT64_MAX: no end */
    struct moe_plan plan;
};

/* The answers of one layer; answers_close() frees them. */
struct answers {
    struct moe_shape shape;
    struct buckets buckets; /* with the declaration of the plans, if there is one */
    char device[LOOKUP_DEVICE_BYTES];
    struct moelookup_view *view;
    struct answer *list; /* ascending by bucket */
    size_t count;
    char
        axes[DECLARATION_TEXT_BYTES]; /* "r,d": words of a plan are only these axes; "": all axes */
};

/* Restricts the words to launch values, where answers of one launch have different plans: a job is
 * started with launch values. */
void answers_keep_launch(struct answers *answers);

/* Finds the layer and its answers. ERR_ARGUMENT after a message: no layer matches, or several; or a
 * class or key is missing. */
int answers_open(const struct moelookup *table, const struct answers_choice *choice,
                 struct answers *out);
void answers_close(struct answers *answers);

/* Writes the range of an answer, "65-256 skew <=1.25", or the one key that was asked for. The
 * macro's text lasts as long as the block around it. */
#define ANSWER_TEXT(answers, answer) answer_text(answers, answer, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *answer_text(const struct answers *answers, const struct answer *answer,
                        char room[BUCKETS_TEXT_BYTES]);

/* One axis of a plan with its value, as text. */
struct plan_word {
    char axis[DECLARATION_NAME_BYTES], value[DECLARATION_NAME_BYTES];
    bool number; /* the axis has integers */
};
/* A plan, word by word: a plain value. */
struct plan_words {
    size_t count;
    struct plan_word list[DECLARATION_AXES_MAX];
};
/* Returns the words of a plan; answers->axes may restrict them. */
struct plan_words answer_words(const struct answers *answers, const struct moe_plan *plan);
/* Finds the word of an axis; NULL: none. */
const struct plan_word *plan_words_find(const struct plan_words *words, const char *axis);

/* ---- The forms of these answers. */

/* NAME=VALUE of --set: the reader's name for an axis ("": the axis is left out), or a fact that the
 * table does not know. */
struct format_set {
    char name[DECLARATION_NAME_BYTES];
    const char *value;
};

/* What is to be written; borrows everything. */
struct format_job {
    const struct answers *answers;
    const struct format_set *sets;
    size_t set_count;
};

enum { FORMAT_NAME_BYTES = 256, FORMAT_FILE_MOST = 1 << 22 };

/* One form of answers, with the functions that write and read it; all are constants. */
struct format {
    const char *name;
    const char *const *facts; /* names that --set may give besides axes; NULL-terminated */
    bool one;                 /* it holds one plan */
    bool classes;             /* it can hold the class of an answer */

    /* ERR_ARGUMENT after a message: the space lacks something that the reader needs, or has
     * something that the reader does not know. */
    int (*check)(const struct format_job *job);

    /* Writes the name that the file must have, perhaps with folders. NULL: any name. */
    int (*file_name)(const struct format_job *job, char name[FORMAT_NAME_BYTES]);

    int (*write)(const struct format_job *job, FILE *to);

    /* Reads from the text what the program would use for a key and class: the axes that the text
     * holds. ERR_FORMAT after a message. NULL: only one program reads it, and it was never run
     * here. */
    int (*read)(const struct format_job *job, const char *text, size_t length, uint64_t key,
                double class_value, struct plan_words *out);
};

extern const struct format format_env, format_flags, format_dotted, format_toml, format_nested,
    format_json, format_vllm_moe, format_sglang_moe, format_sglang_deepep;

/* Checks everything that can be wrong before anything is written. */
int format_check(const struct format *format, const struct format_job *job);

/* ERR_ARGUMENT after a message: the program looks for a file of another name. */
int format_check_name(const struct format *format, const struct format_job *job, const char *path);

/* Reads a file as its program will, at both ends and in the middle of each range. Prints what
 * answers in each range. ERR_FORMAT after a message: another plan is read. */
int format_read_back(const struct format *format, const struct format_job *job, const char *path);

/* ---- For the formats. */

/* Returns the words of the first answer: every plan of a layer has the same axes. */
struct plan_words format_axes(const struct format_job *job);

/* Returns the value of --set for a name; NULL: not given. */
const char *format_set_value(const struct format_job *job, const char *name);

/* Returns the plan's word for an axis; NULL: the plan has none, or --set leaves it out. */
const struct plan_word *format_word(const struct format_job *job, const struct plan_words *words,
                                    const char *axis);

/* Reads a whole number of --set, from `least` to the largest C int. `fallback` where it is not
 * given. */
int format_set_number(const struct format_job *job, const char *name, int64_t least,
                      int64_t fallback, int64_t *out);

#endif
