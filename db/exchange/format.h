/* A table's answers in the forms that other programs read.  Each form is a row of formats[], and
 * has a reader of its own, which follows the rules of the program that it is for, so that what was
 * written can be read back as that program will. */
#ifndef FORMAT_H
#define FORMAT_H

#include "answers.h"
#include "json.h"

#include <stdio.h>

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

    /* How the file must be called; NULL: as one likes. */
    int (*file_name)(const struct format_job *job, char name[FORMAT_NAME_BYTES]);

    int (*write)(const struct format_job *job, FILE *to);

    /* What the reader would take from the text for a key and class: the axes that it is told.
     * ERR_FORMAT after a message. */
    int (*read)(const struct format_job *job, const char *text, size_t length, uint64_t key,
                double class_value, struct plan_words *out);
};

extern const struct format format_env, format_flags, format_json, format_vllm_moe,
    format_sglang_deepep;

/* All that can be wrong before anything is written. */
int format_check(const struct format *format, const struct format_job *job);

/* ERR_ARGUMENT after a message: the program looks for a file of another name. */
int format_check_name(const struct format *format, const struct format_job *job, const char *path);

/* Reads a file as its program will, for both ends and the middle of each range, and says for each
 * range on standard output what answers it.  ERR_FORMAT after a message: another plan is read. */
int format_read_back(const struct format *format, const struct format_job *job, const char *path);

/* ---- for the formats */

/* The value of --set; NULL: not given. */
const char *format_set_value(const struct format_job *job, const char *name);

/* The plan's word for an axis; NULL: it has none, or --set leaves it out. */
const struct plan_word *format_word(const struct format_job *job, const struct plan_words *words,
                                    const char *axis);

/* A whole number of --set, from least to what a C int holds; `fallback` where it is not given. */
int format_set_number(const struct format_job *job, const char *name, int64_t least,
                      int64_t fallback, int64_t *out);

/* The same of a file.  ERR_FORMAT after a message: it is none. */
int format_json_integer(const struct json_value *value, int64_t *out);

#endif
