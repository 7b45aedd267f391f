/* The tile sizes that vLLM's Triton kernel of fused experts reads, from a file in the folder
 * $VLLM_TUNED_CONFIG_FOLDER.  Rules as in vLLM 0.19.1 (fused_moe.py: get_config_file_name,
 * get_moe_configs, try_get_optimal_moe_config); not run with vLLM.
 *
 * The name of the file says the layer and the device; an object has a member for each M, the tokens
 * of a call, and the member whose M is nearest answers.  So a range of our key is written as its
 * two ends: whatever lies between them is nearest to one of the two. */
#include "format.h"

#include "json.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A member of a plan, the names that an axis for it may have, and what the kernel wants of it. */
struct field {
    const char *name, *axes[3];
    bool needed;       /* vLLM has no value of its own */
    bool power_of_two; /* Triton counts in these */
};

static const struct field fields[] = {
    { "BLOCK_SIZE_M", { "block_size_m", "block_m" }, true, true },
    { "BLOCK_SIZE_N", { "block_size_n", "block_n" }, true, true },
    { "BLOCK_SIZE_K", { "block_size_k", "block_k" }, true, true },
    { "GROUP_SIZE_M", { "group_size_m", "group_m" }, true, false },
    { "SPLIT_K", { "split_k" }, false, false },
    { "num_warps", { "num_warps", "warps" }, false, true },
    { "num_stages", { "num_stages", "stages" }, false, false },
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static const char *const facts[] = { "E",
                                     "N",
                                     "device_name",
                                     "dtype",
                                     "block_shape",
                                     "BLOCK_SIZE_M",
                                     "BLOCK_SIZE_N",
                                     "BLOCK_SIZE_K",
                                     "GROUP_SIZE_M",
                                     "SPLIT_K",
                                     "num_warps",
                                     "num_stages",
                                     NULL };

static const struct field *field_of_axis(const char *axis)
{
    for (size_t i = 0; i < FIELDS; i++)
        for (const char *const *name = fields[i].axes; *name; name++)
            if (!strcmp(*name, axis))
                return &fields[i];
    return NULL;
}

static const struct plan_word *word_of_field(const struct format_job *job,
                                             const struct field *field,
                                             const struct plan_words *words)
{
    const struct plan_word *word = NULL;

    for (const char *const *name = field->axes; *name && !word; name++)
        word = format_word(job, words, *name);
    return word;
}

/* ---- the name of the file */

static int name_device(const struct format_job *job, char name[LOOKUP_DEVICE_BYTES])
{
    const char *set = format_set_value(job, "device_name");
    char *rest;

    snprintf(name, LOOKUP_DEVICE_BYTES, "%s", set ? set : job->answers->device);
    rest = strstr(name, LOOKUP_LIVE);
    if (rest)
        *rest = 0;
    for (char *c = name; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    if (!*name || strchr(name, '/'))
        return fail(ERR_ARGUMENT,
                    "--set device_name=NAME is wanted: \"%s\" cannot be part of a file's name",
                    name);
    if (strstr(name, "_H200") || !strncmp(name, "H200", 4)) /* vLLM calls them all alike */
        snprintf(name, LOOKUP_DEVICE_BYTES, "NVIDIA_H200");
    return OK;
}

static int name_blocks(const struct format_job *job, char text[64])
{
    const char *set = format_set_value(job, "block_shape");
    unsigned n, k;
    int end = 0;

    *text = 0;
    if (!set)
        return OK;
    if (sscanf(set, "%u,%u%n", &n, &k, &end) != 2 || set[end] || !n || !k)
        return fail(ERR_ARGUMENT, "--set block_shape=%s: two numbers, as 128,128, are wanted", set);
    snprintf(text, 64, ",block_shape=[%u,%u]", n, k);
    return OK;
}

static int vllm_file_name(const struct format_job *job, char name[FORMAT_NAME_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const struct moe_shape *s = &job->answers->shape;
    const char *dtype = format_set_value(job, "dtype");
    char device[LOOKUP_DEVICE_BYTES], blocks[64];
    int64_t experts, columns;

    TRY(format_set_number(job, "E", 1, shape_local_experts(s), &experts));
    TRY(format_set_number(job, "N", 1, s->hidden_dim, &columns));
    TRY(name_device(job, device));
    TRY(name_blocks(job, blocks));
    if (dtype && dtype[strspn(dtype, letters)])
        return fail(ERR_ARGUMENT, "--set dtype=%s: a word of vLLM, as fp8_w8a8, is wanted", dtype);
    snprintf(name, FORMAT_NAME_BYTES, "E=%" PRId64 ",N=%" PRId64 ",device_name=%s%s%s%s.json",
             experts, columns, device, dtype && *dtype ? ",dtype=" : "", dtype ? dtype : "",
             blocks);
    return OK;
}

/* ---- what stands in it */

static bool fits_field(const struct field *field, int64_t value)
{
    return value > 0 && (!field->power_of_two || (value & (value - 1)) == 0);
}

static int value_of(const struct format_job *job, const struct field *field,
                    const struct plan_words *words, int64_t *out)
{
    const struct plan_word *word = word_of_field(job, field, words);

    if (!word)
        return format_set_number(job, field->name, 1, 0, out);
    *out = word->number ? strtoll(word->value, NULL, 10) : 0;
    return fits_field(field, *out)
               ? OK
               : fail(ERR_ARGUMENT, "%s=%s: vLLM wants %s for %s", word->axis, word->value,
                      field->power_of_two ? "a power of two" : "a number above 0", field->name);
}

static int check_fields(const struct format_job *job, const struct plan_words *words)
{
    int64_t value;

    for (size_t i = 0; i < FIELDS; i++) {
        TRY(value_of(job, &fields[i], words, &value));
        if (fields[i].needed && !value)
            return fail(ERR_ARGUMENT,
                        "vLLM wants %s: the space has no axis %s; --set %s=N says it for all plans",
                        fields[i].name, fields[i].axes[0], fields[i].name);
        if (value && !fits_field(&fields[i], value))
            return fail(ERR_ARGUMENT, "--set %s: vLLM wants a power of two", fields[i].name);
    }
    return OK;
}

static int check_vllm(const struct format_job *job)
{
    const struct answers *a = job->answers;
    struct plan_words words = answer_words(a, &a->list[0].plan);
    char name[FORMAT_NAME_BYTES];

    for (size_t i = 0; i < words.count; i++) {
        const char *set = format_set_value(job, words.list[i].axis);

        if (set && *set)
            return fail(ERR_ARGUMENT,
                        "--set %s: vLLM's names are fixed; nothing behind = leaves "
                        "an axis out",
                        words.list[i].axis);
        if (!set && !field_of_axis(words.list[i].axis))
            return fail(ERR_ARGUMENT, "vLLM knows no axis %s; --set %s= leaves it out",
                        words.list[i].axis, words.list[i].axis);
    }
    for (size_t i = 0; i < a->count; i++) {
        words = answer_words(a, &a->list[i].plan);
        TRY(check_fields(job, &words));
    }
    return vllm_file_name(job, name);
}

static int write_row(const struct format_job *job, uint64_t m, const struct moe_plan *plan,
                     bool first, FILE *to)
{
    struct plan_words words = answer_words(job->answers, plan);
    bool begun = false;

    fprintf(to, "%s\n    \"%" PRIu64 "\": {", first ? "" : ",", m);
    for (size_t i = 0; i < FIELDS; i++) {
        int64_t value;

        TRY(value_of(job, &fields[i], &words, &value));
        if (value)
            fprintf(to, "%s\n        \"%s\": %" PRId64, begun ? "," : "", fields[i].name, value);
        begun |= value != 0;
    }
    fprintf(to, "\n    }");
    return OK;
}

static int write_vllm(const struct format_job *job, FILE *to)
{
    const struct answers *a = job->answers;
    bool first = true;

    fprintf(to, "{");
    for (size_t i = 0; i < a->count; i++) {
        const struct answer *x = &a->list[i];
        bool lower = x->from > 0 && x->from < x->to, upper = x->to != UINT64_MAX;

        if (lower)
            TRY(write_row(job, x->from, &x->plan, first, to));
        if (upper)
            TRY(write_row(job, x->to, &x->plan, first && !lower, to));
        first = false;
    }
    fprintf(to, "\n}\n");
    return OK;
}

/* ---- as vLLM reads it */

struct row_reader {
    uint64_t m, now, nearest;
    bool any, takes; /* some row was seen; the row at hand is the nearest so far */
    int64_t value[FIELDS];
};

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* int(key) of Python; of rows that are equally near the first one answers. */
static int begin_row(struct row_reader *r, const struct json_value *v)
{
    char *end;

    errno = 0;
    r->now = strtoull(v->key, &end, 10);
    if (*v->key < '0' || *v->key > '9' || *end || errno)
        return fail(ERR_FORMAT, "\"%s\" is no number of tokens", v->key);
    r->takes = !r->any || r->now == r->nearest || apart(r->now, r->m) < apart(r->nearest, r->m);
    r->any = true;
    if (r->takes) {
        r->nearest = r->now;
        memset(r->value, 0, sizeof(r->value));
    }
    return OK;
}

static int take_member(struct row_reader *r, const struct json_value *v)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (strcmp(v->key, fields[i].name) != 0)
            continue;
        if (v->kind != JSON_NUMBER || !fits_field(&fields[i], strtoll(v->value, NULL, 10)) ||
            strspn(v->value, "0123456789") != strlen(v->value))
            return fail(ERR_FORMAT, "\"%" PRIu64 "\": %s is no number that the kernel can use",
                        r->now, v->key);
        if (r->takes)
            r->value[i] = strtoll(v->value, NULL, 10);
        return OK;
    }
    return fail(ERR_FORMAT, "\"%" PRIu64 "\": the kernel knows no %s", r->now, v->key);
}

static int take_row(void *self, const struct json_value *v)
{
    if (v->depth == 1 && v->key && !strcmp(v->key, "triton_version"))
        return OK;
    if (v->depth == 1 && v->key)
        return v->kind == JSON_OBJECT ? begin_row(self, v)
                                      : fail(ERR_FORMAT, "\"%s\" is no object", v->key);
    return v->depth == 2 && v->key ? take_member(self, v) : OK;
}

static int read_vllm(const struct format_job *job, const char *text, size_t length, uint64_t key,
                     double class_value, struct plan_words *out)
{
    struct plan_words words = answer_words(job->answers, &job->answers->list[0].plan);
    struct row_reader r = { .m = key };

    (void)class_value;
    TRY(json_read(text, length, "the configurations", take_row, &r));
    for (size_t i = 0; i < FIELDS; i++) {
        const struct plan_word *word = word_of_field(job, &fields[i], &words);

        if (fields[i].needed && !r.value[i])
            return fail(ERR_FORMAT, "\"%" PRIu64 "\" has no %s", r.nearest, fields[i].name);
        if (!word || !r.value[i])
            continue;
        out->list[out->count] = *word;
        snprintf(out->list[out->count++].value, DECLARATION_NAME_BYTES, "%" PRId64, r.value[i]);
    }
    return OK;
}

const struct format format_vllm_moe = { .name = "vllm-moe",
                                        .facts = facts,
                                        .check = check_vllm,
                                        .file_name = vllm_file_name,
                                        .write = write_vllm,
                                        .read = read_vllm };
