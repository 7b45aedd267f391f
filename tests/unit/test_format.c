/* Reading the files of other programs as they do: recorded files, and files that are wrong. */
#include "check.h"

#include "format.h"
#include "input_file.h"
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
    answer->plan.choice = d->usual;
    *answers = (struct answers){
        .shape = MOE_SHAPE_INIT, .space = d, .device = "NVIDIA H200", .list = answer, .count = 1
    };
    answers->shape.experts = 8;
    answers->shape.ranks = 1;
    answers->shape.hidden_dim = 14336;
    return (struct format_job){ .answers = answers };
}

static char *recorded(const char *name, size_t *length)
{
    char path[512], *text = NULL;

    snprintf(path, sizeof(path), "tests/data/formats/%s", name);
    CHECK(!input_read(path, FORMAT_FILE_MOST, &text, length));
    return text;
}

static bool is(const struct plan_words *words, const char *axis, const char *value)
{
    const struct plan_word *word = plan_words_find(words, axis);

    return word && !strcmp(word->value, value);
}

/* What `configs[min(configs, key=lambda m: abs(m - M))]` gives, worked out by Python; 6 and 160 are
 * as far from one row as from the next, and the first one answers. */
static void a_file_of_vllm_is_read_as_vllm_does(void)
{
    static const struct {
        uint64_t m;
        const char *block_m, *block_n, *warps;
    } rows[] = {
        { 0, "16", "128", "4" },     { 1, "16", "128", "4" },        { 3, "32", "64", "4" },
        { 6, "16", "64", "4" },      { 160, "32", "128", "4" },      { 161, "128", "256", "8" },
        { 4096, "128", "256", "8" }, { 1 << 20, "128", "256", "8" },
    };
    struct answers answers;
    struct answer answer;
    struct format_job job = job_of(tiles, &answers, &answer);
    char name[FORMAT_NAME_BYTES];
    size_t length;
    char *text = recorded(VLLM_FILE, &length);

    CHECK(!format_vllm_moe.file_name(&job, name) && !strcmp(name, VLLM_FILE));
    CHECK(!format_check_name(&format_vllm_moe, &job, "any/" VLLM_FILE));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plan_words read = { 0 };

        CHECK(!format_vllm_moe.read(&job, text, length, rows[i].m, 0, &read));
        CHECK(read.count == 6 && is(&read, "block_size_m", rows[i].block_m));
        CHECK(is(&read, "block_n", rows[i].block_n) && is(&read, "warps", rows[i].warps));
    }
    free(text);
}

static void a_configuration_of_sglang_is_read_as_deepep_does(void)
{
    struct answers answers;
    struct answer answer;
    struct format_job job = job_of(deepep, &answers, &answer);
    struct plan_words read = { 0 };
    size_t length;
    char *text = recorded("deepep.json", &length);

    CHECK(!format_sglang_deepep.read(&job, text, length, 1, 0, &read));
    CHECK(is(&read, "num_sms", "24") && is(&read, "nvl_dispatch", "16"));
    CHECK(is(&read, "nvl_combine", "4") && is(&read, "rdma_dispatch", "16"));
    CHECK(is(&read, "rdma_combine", "6")); /* Config's own, where it is not named */
    free(text);
}

static int read_text(const struct format *format, const struct format_job *job, const char *text)
{
    struct plan_words read = { 0 };
    int rc;

    log_only(false);
    rc = format->read(job, text, strlen(text), 100, 0, &read);
    log_only(true);
    return rc;
}

static void what_a_reader_would_choke_on_is_found(void)
{
#define ROW "\"BLOCK_SIZE_M\": 64, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 64, \"GROUP_SIZE_M\": 1"
#define HALF "{\"num_sms\": 8, \"num_max_nvl_chunked_send_tokens\": "
    static const char *const good_rows[] = { "{\"64\": {" ROW "}}",
                                             "{\"triton_version\": \"3.4\", \"64\": {" ROW "}}",
                                             "{\"64\": {" ROW ", \"SPLIT_K\": 4, "
                                             "\"waves_per_eu\": 0}}" },
                             *const bad_rows[] = {
                                 "{\"64\": {\"BLOCK_SIZE_M\": 64}}",
                                 "{\"64\": {" ROW ", \"num_warps\": 3}}",
                                 "{\"64\": {" ROW ", \"num_warps\": \"4\"}}",
                                 "{\"64\": {" ROW ", \"warps\": 4}}",
                                 "{\"-64\": {" ROW "}}",
                                 "{\"many\": {" ROW "}}",
                                 "{\"64\": 4}",
                                 "{}",
                                 "[]",
                                 "",
                             };
    static const char *const
        good_halves[] = { "{\"normal_dispatch\": " HALF "4}, "
                          "\"normal_combine\": " HALF "255, "
                          "\"num_max_rdma_chunked_send_tokens\": 128}}" },
        *const bad_halves[] = {
            "{\"normal_dispatch\": " HALF "4}}",
            "{\"normal_dispatch\": " HALF "4}, \"normal_combine\": " HALF "256}}",
            "{\"normal_dispatch\": " HALF "4}, \"normal_combine\": {\"num_sms\": 9}}",
            "{\"normal_dispatch\": " HALF "4}, \"normal_combine\": {\"num_sms\": 24}}",
            "{\"normal_dispatch\": " HALF "4}, \"normal_combine\": " HALF "4, "
            "\"num_max_rdma_chunked_send_tokens\": 129}}",
            "{\"normal_dispatch\": " HALF "0}, \"normal_combine\": " HALF "4}}",
            "{\"normal_dispatch\": " HALF "4.5}, \"normal_combine\": " HALF "4}}",
            "{\"normal_dispatch\": " HALF "4, \"chunk\": 1}, \"normal_combine\": " HALF "4}}",
        };
    struct answers answers;
    struct answer answer;
    struct format_job job = job_of(tiles, &answers, &answer);

    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++)
        CHECK(!read_text(&format_vllm_moe, &job, good_rows[i]));
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++)
        CHECK(read_text(&format_vllm_moe, &job, bad_rows[i]) == ERR_FORMAT);
    job = job_of(deepep, &answers, &answer);
    for (size_t i = 0; i < sizeof(good_halves) / sizeof(good_halves[0]); i++)
        CHECK(!read_text(&format_sglang_deepep, &job, good_halves[i]));
    for (size_t i = 0; i < sizeof(bad_halves) / sizeof(bad_halves[0]); i++)
        CHECK(read_text(&format_sglang_deepep, &job, bad_halves[i]) == ERR_FORMAT);
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

        log_only(false);
        rc = cases[i].format->read(&job, text, strlen(text), 100, 0, &read);
        log_only(true);
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
        log_only(false);
        rc = format_vllm_moe.file_name(&job, name);
        log_only(true);
        CHECK(cases[i].file ? !rc && !strcmp(name, cases[i].file) : rc == ERR_ARGUMENT);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_file_of_vllm_is_read_as_vllm_does),
        TEST(a_configuration_of_sglang_is_read_as_deepep_does),
        TEST(what_a_reader_would_choke_on_is_found),
        TEST(members_of_a_configuration_are_told_apart),
        TEST(names_of_files_follow_the_device_and_what_is_set),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
