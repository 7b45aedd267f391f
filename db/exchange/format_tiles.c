/* Writes the tile sizes that the Triton kernel of fused experts reads: in vLLM from a file in the
 * folder $VLLM_TUNED_CONFIG_FOLDER, in SGLang from a file below $SGLANG_MOE_CONFIG_DIR.
 *
 * The rules are those of vLLM 0.19.1 (fused_moe.py: get_config_file_name, get_moe_configs,
 * try_get_optimal_moe_config) and SGLang 0.5.23 (fused_moe_triton_config.py: functions of the same
 * names). Neither program was run.
 *
 * The file's name holds the layer and the device. Its object has a member for each M, the tokens of
 * a call, and the member with the nearest M answers. So a range of our key is written as its two
 * ends: every key between them is nearest to one of the two. */
#include "format.h"

#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A member of a plan, the names that its axis may have, and what the kernel needs. SPLIT_K is
 * missing, because both programs make it 1 whatever the file says. */
struct field {
    const char *name, *axes[3];
    bool needed;       /* the programs have no default for it */
    bool power_of_two; /* Triton needs a power of two */
    bool allows_zero;  /* 0 is a value, too */
};

static const struct field fields[] = {
    { "BLOCK_SIZE_M", { "block_size_m", "block_m" }, .needed = true, .power_of_two = true },
    { "BLOCK_SIZE_N", { "block_size_n", "block_n" }, .needed = true, .power_of_two = true },
    { "BLOCK_SIZE_K", { "block_size_k", "block_k" }, .needed = true, .power_of_two = true },
    { "GROUP_SIZE_M", { "group_size_m", "group_m" }, .needed = true },
    { "num_warps", { "num_warps", "warps" }, .power_of_two = true },
    { "num_stages", { "num_stages", "stages" } },
    { "num_ctas", { "num_ctas", "ctas" }, .power_of_two = true },
    { "waves_per_eu", { "waves_per_eu" }, .allows_zero = true }, /* from here on for AMD */
    { "matrix_instr_nonkdim", { "matrix_instr_nonkdim" }, .power_of_two = true },
    { "kpack", { "kpack" }, .power_of_two = true },
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

/* Facts of --set. Only SGLang knows the first two. */
static const char *const facts[] = { "triton",
                                     "variant",
                                     "key",
                                     "E",
                                     "N",
                                     "device_name",
                                     "dtype",
                                     "block_shape",
                                     "BLOCK_SIZE_M",
                                     "BLOCK_SIZE_N",
                                     "BLOCK_SIZE_K",
                                     "GROUP_SIZE_M",
                                     "num_warps",
                                     "num_stages",
                                     "num_ctas",
                                     "waves_per_eu",
                                     "matrix_instr_nonkdim",
                                     "kpack",
                                     NULL };
static const char *const *const vllm_facts = facts + 2;
enum { NOT_NAMED = -1 };

/* The program that reads the file. */
enum reader { FOR_VLLM, FOR_SGLANG };

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

/* ---- The name of the file. */

/* Returns whether a name of words joined by "_" has this word. */
static bool has_word(const char *name, const char *word)
{
    size_t length = strlen(word);

    for (const char *begin = name; begin;
         begin = strchr(begin, '_') ? strchr(begin, '_') + 1 : NULL)
        if (strcspn(begin, "_") == length && !strncmp(begin, word, length))
            return true;
    return false;
}

/* Writes the device as the program names it. vLLM makes one "_" of blanks and slashes, and has one
 * name for all H200. SGLang makes a "_" of each blank. */
static int write_device_name(const struct format_job *job, enum reader reader,
                             char name[LOOKUP_DEVICE_BYTES])
{
    const char *set = format_set_value(job, "device_name");
    const char *device = set ? set : job->answers->device, *live_code = strstr(device, LOOKUP_LIVE);
    size_t length = live_code ? (size_t)(live_code - device) : strlen(device);

    bool fits = text_put(name, LOOKUP_DEVICE_BYTES, "%.*s", (int)length, device);
    char *to = name;

    /* In our own name a slash separates two devices; in --set it is part of the name. */
    for (const char *from = name; *from; from++) {
        bool is_separator = *from == ' ' || (reader == FOR_VLLM && set && *from == '/');

        if (!is_separator || reader != FOR_VLLM || to == name || to[-1] != '_')
            *to++ = is_separator ? '_' : *from;
    }
    *to = 0;
    if (!length || !fits || strchr(name, '/'))
        return fail(ERR_ARGUMENT,
                    "--set device_name=NAME is wanted: \"%s\" cannot be part of a file's name",
                    name);
    if (reader == FOR_VLLM && has_word(name, "H200"))
        snprintf(name, LOOKUP_DEVICE_BYTES, "NVIDIA_H200");
    return OK;
}

/* Reads --set block_shape: blocks of n by k have one scale in a quantised layer. 0: the layer has
 * none. */
static int read_blocks(const struct format_job *job, int64_t *n, int64_t *k)
{
    const char *set = format_set_value(job, "block_shape");
    char *end = NULL;

    *n = *k = 0;
    if (!set)
        return OK;
    *n = strtoll(set, &end, 10);
    if (*end == ',')
        *k = strtoll(end + 1, &end, 10);
    if (set[strspn(set, "0123456789,")] || *end || *n < 1 || *k < 1 || *n > INT_MAX || *k > INT_MAX)
        return fail(ERR_ARGUMENT, "--set block_shape=%s: two numbers, as 128,128, are wanted", set);
    return OK;
}

/* Writes the part of the name that both programs share. */
static int write_layer_name(const struct format_job *job, enum reader reader,
                            char name[FORMAT_NAME_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const struct moe_shape *s = &job->answers->shape;
    const char *dtype = format_set_value(job, "dtype");
    char device[LOOKUP_DEVICE_BYTES], blocks[64] = "";
    int64_t experts, columns, n, k;

    TRY(format_set_number(job, "E", 1, shape_local_experts(s), &experts));
    TRY(format_set_number(job, "N", 1, s->hidden_dim / shape_slices(s), &columns));
    TRY(write_device_name(job, reader, device));
    TRY(read_blocks(job, &n, &k));
    if (n) /* SGLang writes the list as Python does, with a blank */
        snprintf(blocks, sizeof(blocks), ",block_shape=[%" PRId64 ",%s%" PRId64 "]", n,
                 reader == FOR_VLLM ? "" : " ", k);
    if (dtype && (strlen(dtype) > 32 || dtype[strspn(dtype, letters)]))
        return fail(ERR_ARGUMENT, "--set dtype=%s: a word as fp8_w8a8 is wanted", dtype);
    snprintf(name, FORMAT_NAME_BYTES, "E=%" PRId64 ",N=%" PRId64 ",device_name=%s%s%s%s", experts,
             columns, device, dtype && *dtype ? ",dtype=" : "", dtype ? dtype : "", blocks);
    return OK;
}

static int vllm_file_name(const struct format_job *job, char name[FORMAT_NAME_BYTES])
{
    TRY(write_layer_name(job, FOR_VLLM, name));
    return text_put(name + strlen(name), FORMAT_NAME_BYTES - strlen(name), ".json")
               ? OK
               : fail(ERR_ARGUMENT, "%s: the name is too long", name);
}

/* SGLang looks in a folder for its version of Triton, because the fastest tiles differ between
 * versions. A layer may have a second file for its second product. The name also says how the layer
 * is quantised. */
static int sglang_file_name(const struct format_job *job, char name[FORMAT_NAME_BYTES])
{
    static const char *const variants[] = { "per_channel_quant", "down", "per_channel_quant,down",
                                            NULL };
    static const char *const variant_ends[] = { ",per_channel_quant=True", "_down",
                                                ",per_channel_quant=True_down" };
    const char *triton = format_set_value(job, "triton"),
               *variant = format_set_value(job, "variant");
    int variant_index = variant ? word_find(variants, variant) : 0;
    char layer[FORMAT_NAME_BYTES], version[32];

    if (!triton || !*triton || strlen(triton) >= sizeof(version) ||
        triton[strspn(triton, "0123456789.")])
        return fail(ERR_ARGUMENT, "--set triton=VERSION is wanted, as 3.5.1: SGLang looks for the "
                                  "file in a folder of that name");
    if (variant_index < 0)
        return fail(ERR_ARGUMENT,
                    "--set variant=%s: per_channel_quant, down or per_channel_quant,down is wanted",
                    variant);
    TRY(write_layer_name(job, FOR_SGLANG, layer));
    snprintf(version, sizeof(version), "%s", triton);
    for (char *c = version; *c; c++)
        *c = *c == '.' ? '_' : *c;
    return text_put(name, FORMAT_NAME_BYTES, "configs/triton_%s/%s%s.json", version, layer,
                    variant ? variant_ends[variant_index] : "")
               ? OK
               : fail(ERR_ARGUMENT, "%s: the name is too long", name);
}

/* ---- The content of the file. */

static bool fits_field(const struct field *field, int64_t value)
{
    return value >= !field->allows_zero && value <= INT_MAX &&
           (!field->power_of_two || (value & (value - 1)) == 0);
}

/* Returns the plan's value, else that of --set, else NOT_NAMED. */
static int field_value(const struct format_job *job, const struct field *field,
                       const struct plan_words *words, int64_t *out)
{
    const struct plan_word *word = word_of_field(job, field, words);

    if (!word)
        return format_set_number(job, field->name, !field->allows_zero, NOT_NAMED, out);
    *out = word->number ? strtoll(word->value, NULL, 10) : NOT_NAMED;
    if (format_set_value(job, field->name))
        return fail(ERR_ARGUMENT,
                    "--set %s: the axis %s has this value already; --set %s= leaves the axis out",
                    field->name, word->axis, word->axis);
    return OK;
}

static int check_field(const struct format_job *job, const struct field *field,
                       const struct plan_words *words)
{
    int64_t value, n, k;

    TRY(field_value(job, field, words, &value));
    if (value == NOT_NAMED && field->needed)
        return fail(
            ERR_ARGUMENT,
            "the kernel wants %s: the space has no axis %s, or --set leaves it out; --set %s=N "
            "says it for all plans",
            field->name, field->axes[0], field->name);
    if (value != NOT_NAMED && !fits_field(field, value))
        return fail(ERR_ARGUMENT, "%s=%" PRId64 ": the kernel wants %s", field->name, value,
                    field->power_of_two ? "a power of two" : "a number above 0");
    if (strcmp(field->name, "BLOCK_SIZE_K") != 0)
        return OK;
    /* The kernel cuts tiles along K to a block of scales, so another plan would run than the
     * measured one. */
    TRY(read_blocks(job, &n, &k));
    if (n && value > (n < k ? n : k))
        return fail(ERR_ARGUMENT,
                    "BLOCK_SIZE_K=%" PRId64 ": the kernel would cut it to block_shape=%s", value,
                    format_set_value(job, "block_shape"));
    return OK;
}

static int check_tiles(const struct format_job *job)
{
    const struct answers *a = job->answers;
    const struct declaration *d = a->buckets.declared;
    const char *set = format_set_value(job, "key");
    struct plan_words words = format_axes(job);

    /* A key of another kind, as rows of an expert, cannot be turned into M. */
    if (d && strcmp(set ? set : d->key, "tokens") != 0)
        return fail(ERR_ARGUMENT,
                    "M is the tokens of a call, and the key of %s is %s; --set key=tokens "
                    "says that it is the same",
                    d->name, d->key);
    for (size_t i = 0; i < words.count; i++) {
        set = format_set_value(job, words.list[i].axis);
        if (set && *set)
            return fail(ERR_ARGUMENT,
                        "--set %s: its names are fixed; nothing behind = leaves "
                        "an axis out",
                        words.list[i].axis);
        if (!set && !field_of_axis(words.list[i].axis))
            return fail(ERR_ARGUMENT, "the kernel knows no axis %s; --set %s= leaves it out",
                        words.list[i].axis, words.list[i].axis);
        if (!set && !words.list[i].number)
            return fail(ERR_ARGUMENT, "%s=%s: the kernel wants a number; --set %s= leaves it out",
                        words.list[i].axis, words.list[i].value, words.list[i].axis);
    }
    for (size_t i = 0; i < a->count; i++) {
        words = answer_words(a, &a->list[i].plan);
        for (size_t f = 0; f < FIELDS; f++)
            TRY(check_field(job, &fields[f], &words));
    }
    return OK;
}

static int check_vllm(const struct format_job *job)
{
    char name[FORMAT_NAME_BYTES];

    TRY(check_tiles(job));
    return vllm_file_name(job, name);
}

static int check_sglang(const struct format_job *job)
{
    char name[FORMAT_NAME_BYTES];

    TRY(check_tiles(job));
    return sglang_file_name(job, name);
}

static int write_row(const struct format_job *job, uint64_t tokens, const struct moe_plan *plan,
                     bool is_first, FILE *to)
{
    struct plan_words words = answer_words(job->answers, plan);
    bool has_member = false;

    fprintf(to, "%s\n    \"%" PRIu64 "\": {", is_first ? "" : ",", tokens);
    for (size_t i = 0; i < FIELDS; i++) {
        int64_t value;

        TRY(field_value(job, &fields[i], &words, &value));
        if (value == NOT_NAMED)
            continue;
        fprintf(to, "%s\n        \"%s\": %" PRId64, has_member ? "," : "", fields[i].name, value);
        has_member = true;
    }
    fprintf(to, "\n    }");
    return OK;
}

static int write_tiles(const struct format_job *job, FILE *to)
{
    const struct answers *a = job->answers;
    bool is_first = true;

    fprintf(to, "{");
    for (size_t i = 0; i < a->count; i++) {
        const struct answer *answer = &a->list[i];
        bool has_lower_end = answer->from > 0 && answer->from < answer->to,
             has_upper_end = answer->to != UINT64_MAX;

        if (has_lower_end)
            TRY(write_row(job, answer->from, &answer->plan, is_first, to));
        if (has_upper_end)
            TRY(write_row(job, answer->to, &answer->plan, is_first && !has_lower_end, to));
        is_first = false;
    }
    fprintf(to, "\n}\n");
    return OK;
}

const struct format format_sglang_moe = { .name = "sglang-moe",
                                          .facts = facts,
                                          .check = check_sglang,
                                          .file_name = sglang_file_name,
                                          .write = write_tiles };
const struct format format_vllm_moe = { .name = "vllm-moe",
                                        .facts = vllm_facts,
                                        .check = check_vllm,
                                        .file_name = vllm_file_name,
                                        .write = write_tiles };
