/* Tests reading of files that others may have written wrongly, and names of files. */
#include "check.h"

#include "format.h"
#include "plan.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

#define VLLM_FILE "E=8,N=14336,device_name=NVIDIA_H200.json"

static const char tiles[] = "space tiles\n"
                            "axis block_size_m 16 32 64 128 default 64\n"
                            "axis block_n 64 128 256 default 128\n"
                            "axis block_k 64 128 256 default 128\n"
                            "axis group_size_m 1 16 32 64 default 1\n"
                            "axis warps 4 8 default 4\n"
                            "axis num_stages 2 3 4 5 default 4\n"
                            "key tokens edges 64 1024\n";
static const char deepep[] = "space deepep\n"
                             "axis num_sms 8 20 24 default 20\n"
                             "axis nvl_dispatch 4 6 16 default 6\n"
                             "axis nvl_combine 1 4 default 4\n"
                             "axis rdma_dispatch 4 16 default 4\n"
                             "axis rdma_combine 6 8 default 8\n"
                             "key tokens edges 64\n";

/* A job about one layer of that space; the default plan answers. */
static struct format_job job_of(const char *text, struct answers *answers, struct answer *answer)
{
    const struct declaration *d = NULL;

    CHECK(!declaration_register(text, &d));
    *answer = (struct answer){ .plan = MOE_PLAN_INIT };
    answer->plan.space = d->id;
    answer->plan.choice = d->default_choice;
    *answers = (struct answers){ .shape = MOE_SHAPE_INIT,
                                 .buckets = { d, 1 },
                                 .device = "NVIDIA H200",
                                 .list = answer,
                                 .count = 1 };
    answers->shape.experts = 8;
    answers->shape.ranks = 1;
    answers->shape.hidden_dim = 14336;
    return (struct format_job){ .answers = answers };
}

static bool is(const struct plan_words *words, const char *axis, const char *value)
{
    const struct plan_word *word = plan_words_find(words, axis);

    return word && !strcmp(word->value, value);
}

/* Of the same name another member is another one, wherever it lies; later ones count. */
static void members_of_a_configuration_are_told_apart(void)
{
    static const struct {
        const struct format *format;
        const char *text, *num_sms; /* NULL: no such text */
    } cases[] = {
        { &format_nested, "{\"a\": {\"num_sms\": 8}, \"num_sms\": 24, \"b\": [{\"num_sms\": 8}]}",
          "24" },
        { &format_nested, "{\"num_sms\": 8, \"num_sms\": 20, \"a\": {\"b\": {}}}", "20" },
        { &format_nested, "{\"num_sms\": \"8\", \"nvl_dispatch\": 4}", "" }, /* a word */
        { &format_nested, "{\"num_sms\": {}}", "" },
        { &format_nested, "{\"num_sms\": 8", NULL },
        { &format_nested, "", NULL },
        { &format_toml, "# it\na.num_sms = 8\nnum_sms = 24\n\n", "24" },
        { &format_toml, "num_sms = 8\nnum_sms = 20", "20" },
        { &format_toml, "num_sms: 8\n", NULL },
        { &format_toml, "[num_sms]\n", NULL },
        { &format_dotted, "a.num_sms=8  num_sms=24 b=1\n", "24" },
        { &format_dotted, "num_sms", NULL },
    };
    struct answers answers;
    struct answer answer;
    struct format_job job = job_of(deepep, &answers, &answer);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct plan_words read = { 0 };
        const char *text = cases[i].text, *wanted = cases[i].num_sms;
        int rc;

        log_enable(false);
        rc = cases[i].format->read(&job, text, strlen(text), 100, 0, &read);
        log_enable(true);
        CHECK(wanted ? !rc : rc == ERR_FORMAT);
        CHECK(!wanted || !*wanted || is(&read, "num_sms", wanted));
        CHECK(!wanted || *wanted || !plan_words_find(&read, "num_sms"));
    }
}

static void names_of_files_follow_the_device_and_what_is_set(void)
{
    static const struct {
        const char *device, *name, *value, *file;
    } cases[] = {
        { "NVIDIA H100 80GB HBM3", "x", "", "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3.json" },
        { "NVIDIA H200 NVL", "x", "", VLLM_FILE },
        { "NVIDIA H2000", "x", "", "E=8,N=14336,device_name=NVIDIA_H2000.json" },
        { "NVIDIA H200; live: torch-moe", "x", "", VLLM_FILE },
        { "NVIDIA H200", "dtype", "fp8_w8a8",
          "E=8,N=14336,device_name=NVIDIA_H200,dtype=fp8_w8a8.json" },
        { "NVIDIA H200", "block_shape", "128,128",
          "E=8,N=14336,device_name=NVIDIA_H200,block_shape=[128,128].json" },
        { "NVIDIA H200", "E", "256", "E=256,N=14336,device_name=NVIDIA_H200.json" },
        { "AMD/INTEL", "device_name", "AMD Instinct MI300X",
          "E=8,N=14336,device_name=AMD_Instinct_MI300X.json" },
        { "AMD/INTEL", "device_name", "AMD / MI300X  OAM",
          "E=8,N=14336,device_name=AMD_MI300X_OAM.json" },
        { "AMD/INTEL", "x", "", NULL },
        { "NVIDIA H200", "dtype", "FP8 w8a8", NULL },
        { "NVIDIA H200", "dtype", "../fp8", NULL },
        { "NVIDIA H200", "block_shape", "128", NULL },
        { "NVIDIA H200", "block_shape", "-1,128", NULL },
        { "NVIDIA H200", "N", "0", NULL },
    };
    struct answers answers;
    struct answer answer;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct format_job job = job_of(tiles, &answers, &answer);
        struct format_set set = { .value = cases[i].value };
        char name[FORMAT_NAME_BYTES] = "";
        int rc;

        snprintf(answers.device, sizeof(answers.device), "%s", cases[i].device);
        snprintf(set.name, sizeof(set.name), "%s", cases[i].name);
        job.sets = &set;
        job.set_count = 1;
        log_enable(false);
        rc = format_vllm_moe.file_name(&job, name);
        log_enable(true);
        CHECK(cases[i].file ? !rc && !strcmp(name, cases[i].file) : rc == ERR_ARGUMENT);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(members_of_a_configuration_are_told_apart),
        TEST(names_of_files_follow_the_device_and_what_is_set),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
