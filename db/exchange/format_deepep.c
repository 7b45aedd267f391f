/* Writes SGLang's --deepep-config, by which SGLang tells DeepEP its SMs and chunks: a JSON text, or
 * the file of one.
 *
 * The rules are those of SGLang 0.5.23 (token_dispatcher/deepep.py: DeepEPConfig), which passes
 * each of two objects to deep_ep.Config, and of DeepEP 2.1.0 (csrc/legacy/config.hpp: Config).
 * Neither program was run. Config checks the buffers as they are given, before it rounds one of
 * them up. */
#include "format.h"

#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The two objects, and their members. */
static const char *const halves[] = { "normal_dispatch", "normal_combine" };
enum { HALVES = 2 };

enum member { SMS, NVL_SEND, NVL_RECV, RDMA_SEND, RDMA_RECV, MEMBERS };
static const struct {
    const char *name, *axis[HALVES]; /* name of the axis, for each object */
    const char *fact[HALVES];        /* name of a fact of --set, for each object */
    int64_t default_value;           /* default in Config */
} members[] = {
    [SMS] = { "num_sms", { "num_sms", "num_sms" }, { NULL, NULL }, 20 },
    [NVL_SEND] = { "num_max_nvl_chunked_send_tokens",
                   { "nvl_dispatch", "nvl_combine" },
                   { NULL, NULL },
                   6 },
    [NVL_RECV] = { "num_max_nvl_chunked_recv_tokens",
                   { NULL, NULL },
                   { "nvl_buffer", "nvl_buffer" },
                   256 },
    [RDMA_SEND] = { "num_max_rdma_chunked_send_tokens",
                    { "rdma_dispatch", "rdma_combine" },
                    { "rdma_dispatch", "rdma_combine" },
                    6 },
    [RDMA_RECV] = { "num_max_rdma_chunked_recv_tokens",
                    { NULL, NULL },
                    { "rdma_buffer", "rdma_buffer" },
                    256 },
};

static const char *const facts[] = { "nvl_buffer", "rdma_buffer", "rdma_dispatch", "rdma_combine",
                                     NULL };

enum { NOT_NAMED = -1 };
struct config {
    int64_t value[HALVES][MEMBERS];
};

/* ---- The rules of Config and SGLang. */

/* Fills in Config's defaults, and refuses what Config or SGLang would refuse. */
static int complete_config(struct config *c)
{
    for (size_t h = 0; h < HALVES; h++) {
        const char *half = halves[h];
        int64_t *v = c->value[h];

        for (size_t m = 0; m < MEMBERS; m++)
            if (v[m] == NOT_NAMED)
                v[m] = members[m].default_value;
        if (v[SMS] < 2 || v[SMS] % 2)
            return fail(ERR_ARGUMENT,
                        "%s: num_sms=%" PRId64 ": SGLang needs an even number from 2 on", half,
                        v[SMS]);
        if (v[NVL_SEND] < 1 || v[NVL_SEND] >= v[NVL_RECV])
            return fail(ERR_ARGUMENT,
                        "%s: %" PRId64 " rows at a time over NVLink, of a buffer for %" PRId64
                        ": it must be from 1 to less than the buffer",
                        half, v[NVL_SEND], v[NVL_RECV]);
        if (v[RDMA_SEND] < 1 || v[RDMA_SEND] > v[RDMA_RECV] / 2) /* before Config rounds it up */
            return fail(ERR_ARGUMENT,
                        "%s: %" PRId64 " rows at a time over RDMA, of a buffer for %" PRId64
                        ": it must be from 1 to half of the buffer",
                        half, v[RDMA_SEND], v[RDMA_RECV]);
    }
    return c->value[0][SMS] == c->value[1][SMS]
               ? OK
               : fail(ERR_ARGUMENT, "num_sms differs: SGLang needs the same for both");
}

/* ---- Writing. */

static int fill_config(const struct format_job *job, struct config *c)
{
    struct plan_words words = format_axes(job);

    for (size_t h = 0; h < HALVES; h++)
        for (size_t m = 0; m < MEMBERS; m++) {
            const char *axis = members[m].axis[h], *fact = members[m].fact[h];
            bool has_axis = axis && plan_words_find(&words, axis);
            const struct plan_word *word = has_axis ? format_word(job, &words, axis) : NULL;

            c->value[h][m] = word ? strtoll(word->value, NULL, 10) : NOT_NAMED;
            if (fact && !has_axis)
                TRY(format_set_number(job, fact, 1, NOT_NAMED, &c->value[h][m]));
        }
    return OK;
}

static bool has_member(const char *axis)
{
    for (size_t m = 0; m < MEMBERS; m++)
        for (size_t h = 0; h < HALVES; h++)
            if (members[m].axis[h] && !strcmp(members[m].axis[h], axis))
                return true;
    return false;
}

static int check_deepep(const struct format_job *job)
{
    struct plan_words words = format_axes(job);
    struct config config;

    for (size_t i = 0; i < words.count; i++) {
        const struct plan_word *word = &words.list[i];
        const char *set = format_set_value(job, word->axis);

        if (set && *set)
            return fail(ERR_ARGUMENT,
                        "--set %s: DeepEP's names are fixed; nothing behind = leaves "
                        "an axis out",
                        word->axis);
        if (!set && !has_member(word->axis))
            return fail(ERR_ARGUMENT, "DeepEP knows no axis %s; --set %s= leaves it out",
                        word->axis, word->axis);
        if (!set && !word->number)
            return fail(ERR_ARGUMENT, "%s=%s: DeepEP wants a number", word->axis, word->value);
    }
    if (!format_word(job, &words, "num_sms"))
        return fail(ERR_ARGUMENT, "DeepEP wants the axis num_sms, which the space has not");
    TRY(fill_config(job, &config));
    return complete_config(&config);
}

static int write_deepep(const struct format_job *job, FILE *to)
{
    struct config config;

    TRY(fill_config(job, &config));
    for (size_t h = 0; h < HALVES; h++) {
        fprintf(to, "%s\"%s\": {\"%s\": %" PRId64, h ? ", " : "{", halves[h], members[SMS].name,
                config.value[h][SMS]);
        for (size_t m = SMS + 1; m < MEMBERS; m++)
            if (config.value[h][m] != NOT_NAMED)
                fprintf(to, ", \"%s\": %" PRId64, members[m].name, config.value[h][m]);
        fprintf(to, "}");
    }
    fprintf(to, "}\n");
    return OK;
}

const struct format format_sglang_deepep = { .name = "sglang-deepep",
                                             .facts = facts,
                                             .one = true,
                                             .check = check_deepep,
                                             .write = write_deepep };
