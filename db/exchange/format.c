/* What all formats share: options that fit, and reading back what was written. */
#include "format.h"

#include "input_file.h"
#include "plan.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *format_set_value(const struct format_job *job, const char *name)
{
    for (size_t i = 0; i < job->set_count; i++)
        if (!strcmp(job->sets[i].name, name))
            return job->sets[i].value;
    return NULL;
}

const struct plan_word *format_word(const struct format_job *job, const struct plan_words *words,
                                    const char *axis)
{
    const char *set = format_set_value(job, axis);

    return set && !*set ? NULL : plan_words_find(words, axis);
}

int format_set_number(const struct format_job *job, const char *name, int64_t least,
                      int64_t fallback, int64_t *out)
{
    const char *text = format_set_value(job, name);
    char *end;

    *out = fallback;
    if (!text)
        return OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *out < least || *out > INT_MAX)
        return fail(ERR_ARGUMENT, "--set %s=%s: a whole number from %" PRId64 " to %d is wanted",
                    name, text, least, INT_MAX);
    return OK;
}

int format_json_integer(const struct json_value *value, int64_t *out)
{
    *out = value->kind == JSON_NUMBER && !value->value[strspn(value->value, "0123456789")]
               ? strtoll(value->value, NULL, 10)
               : -1;
    if (*out < 0 || *out > INT_MAX)
        return fail(ERR_FORMAT, "%s: a whole number from 0 to %d is wanted", value->key, INT_MAX);
    return OK;
}

/* ---- before anything is written */

static bool is_fact(const struct format *format, const char *name)
{
    for (const char *const *f = format->facts; f && *f; f++)
        if (!strcmp(*f, name))
            return true;
    return false;
}

static int unknown_set(const struct format *format, const struct format_job *job, const char *name)
{
    struct plan_words words = answer_words(job->answers, &job->answers->list[0].plan);
    char known[1024] = "";
    size_t used = 0;

    for (size_t i = 0; i < words.count; i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
                                 words.list[i].axis);
    for (const char *const *f = format->facts; f && *f; f++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, ", %s", *f);
    return fail(ERR_ARGUMENT, "--set %s: there is no such name; %s has %s", name, format->name,
                known);
}

static int check_sets(const struct format *format, const struct format_job *job)
{
    struct plan_words words = answer_words(job->answers, &job->answers->list[0].plan);

    for (size_t i = 0; i < job->set_count; i++) {
        const char *name = job->sets[i].name;

        if (!is_fact(format, name) && !plan_words_find(&words, name))
            return unknown_set(format, job, name);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(job->sets[k].name, name))
                return fail(ERR_ARGUMENT, "--set %s is given twice", name);
    }
    return OK;
}

/* One plan is wanted, and the ranges have several. */
static int several_plans(const struct format *format, const struct answers *a)
{
    note("--format %s holds one plan, and the table has several: --key N%s must say which:",
         format->name, a->space->class_edges ? " and --class X" : "");
    for (size_t i = 0; i < a->count; i++)
        note("  %s %s: %s", a->space->key, ANSWER_TEXT(a, &a->list[i]),
             PLAN_WORDS(&a->list[i].plan));
    return ERR_ARGUMENT;
}

/* A range comes twice: for two classes. */
static bool several_classes(const struct answers *a)
{
    return a->count > 1 && a->list[0].from == a->list[1].from;
}

int format_check(const struct format *format, const struct format_job *job)
{
    const struct answers *a = job->answers;

    TRY(check_sets(format, job));
    if (format->one && !answers_agree(a))
        return several_plans(format, a);
    if (!format->one && !format->classes && several_classes(a))
        return fail(ERR_ARGUMENT, "--format %s knows no class: --class X must say which %s",
                    format->name, a->space->class_name);
    return format->check(job);
}

/* ---- reading back */

static int other_plan(const struct format_job *job, const char *path, uint64_t key,
                      const struct plan_word *wanted, const struct plan_word *read)
{
    return fail(ERR_FORMAT, "%s: for %s %" PRIu64 " its reader takes %s=%s, the table says %s=%s",
                path, shape_key(&job->answers->shape), key, wanted->axis,
                read ? read->value : "nothing", wanted->axis, wanted->value);
}

/* Both say the same of every axis; what is left out on purpose is not asked. */
static int compare(const struct format_job *job, const char *path, uint64_t key,
                   const struct plan_words *wanted, const struct plan_words *read)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const struct plan_word *w = &wanted->list[i], *r = plan_words_find(read, w->axis);

        if (format_word(job, wanted, w->axis) && (!r || strcmp(r->value, w->value) != 0))
            return other_plan(job, path, key, w, r);
    }
    return OK;
}

static int read_key(const struct format *format, const struct format_job *job, const char *path,
                    const char *text, size_t length, uint64_t key, double class_value)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    struct plan_words wanted, read = { 0 };

    TRY(moelookup_get_key(job->answers->view, key, class_value, &plan));
    wanted = answer_words(job->answers, &plan);
    TRY(format->read(job, text, length, key, class_value, &read));
    return compare(job, path, key, &wanted, &read);
}

static int read_range(const struct format *format, const struct format_job *job, const char *path,
                      const char *text, size_t length, const struct answer *a)
{
    const struct declaration *space = job->answers->space;
    double class_value = space ? declaration_class(space, a->bucket) : 0;
    uint64_t last = a->to == UINT64_MAX ? 4 * a->from + 3 : a->to;
    const uint64_t keys[] = { a->from, a->from + (last - a->from) / 2, last };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        TRY(read_key(format, job, path, text, length, keys[i], class_value));
    return OK;
}

static void say_range(const struct format_job *job, const struct answer *a)
{
    double gain = a->plan.default_us > 0 && a->plan.time_us > 0
                      ? 100 * (1 - (double)a->plan.time_us / (double)a->plan.default_us)
                      : 0;

    printf("%-9s  %5.1f %%  %s %s: %s\n", plan_source_words[a->plan.source], gain,
           shape_key(&job->answers->shape), ANSWER_TEXT(job->answers, a), PLAN_WORDS(&a->plan));
}

int format_check_name(const struct format *format, const struct format_job *job, const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[FORMAT_NAME_BYTES];

    if (!format->file_name)
        return OK;
    TRY(format->file_name(job, name));
    return strcmp(slash ? slash + 1 : path, name)
               ? fail(ERR_ARGUMENT, "%s: the file that is looked for is %s", path, name)
               : OK;
}

int format_read_back(const struct format *format, const struct format_job *job, const char *path)
{
    size_t length;
    char *text;
    int rc = OK;

    TRY(input_read(path, FORMAT_FILE_MOST, &text, &length));
    for (size_t i = 0; i < job->answers->count && !rc; i++)
        rc = read_range(format, job, path, text, length, &job->answers->list[i]);
    free(text);
    for (size_t i = 0; i < job->answers->count && !rc; i++)
        say_range(job, &job->answers->list[i]);
    return rc;
}
