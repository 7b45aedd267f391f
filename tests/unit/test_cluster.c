/* Tests texts that describe clusters: they are read, written, hashed, and refused if wrong. */
#include "small_cluster.h"

#include "random.h"
#include "status.h"
#include "text.h"

#include <glob.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static const char *text_of(const struct cluster *cluster)
{
    static char text[CLUSTER_TEXT_BYTES];

    CHECK(cluster_format(cluster, text, sizeof(text)) < (int)sizeof(text));
    return text;
}

static bool same(const struct cluster *a, const struct cluster *b)
{
    uint8_t x[HASH_BYTES], y[HASH_BYTES];

    cluster_hash(a, x);
    cluster_hash(b, y);
    return !memcmp(x, y, sizeof(x));
}

static void every_recorded_cluster_reads_back_the_same(void)
{
    glob_t files;

    CHECK(!glob("tests/data/clusters/*.txt", 0, NULL, &files));
    CHECK(files.gl_pathc >= 14);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct cluster once, twice;
        char text[CLUSTER_TEXT_BYTES];

        CHECK(!cluster_read(files.gl_pathv[i], &once));
        CHECK(!cluster_check_model(&once, files.gl_pathv[i]));
        text_put(text, sizeof(text), "%s", text_of(&once));
        CHECK(!cluster_parse(text, "again", &twice));
        CHECK(!strcmp(text, text_of(&twice)));
        CHECK(same(&once, &twice) && cluster_same_soft(&once, &twice));
    }
    globfree(&files);
}

static void layout_and_comments_do_not_matter(void)
{
    struct cluster a, b;

    CHECK(!cluster_parse("nodes = 2\nranks = 8\nranks_per_node = 4\ndevice = A = B\n", "a", &a));
    CHECK(!cluster_parse("\r\n  # none\r\n\tranks=8.0 # eight\r\nranks_per_node\t=  4\r\n"
                         "device =A = B \r\n\r\nnodes = 2e0",
                         "b", &b));
    CHECK(same(&a, &b) && a.ranks == 8 && !strcmp(b.device, "A = B"));
}

static void malformed_descriptions_are_refused_with_the_line(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "nodes", "x:1: " },
        { "\n\nnodes 3\n", "x:3: " },
        { "node = 3\n", "x:1: no field" },
        { "= 3\n", "x:1: no field" },
        { "nodes = 3\n#\nnodes = 3\n", "x:3: nodes is given twice, first on line 1" },
        { "nodes = \n", "x:1: nodes" },
        { "nodes = three\n", "x:1: nodes" },
        { "nodes = 3x\n", "x:1: nodes" },
        { "nodes = 3 4\n", "x:1: nodes" },
        { "nodes = -1\n", "out of range" },
        { "nodes = 1.5\n", "not a whole number" },
        { "ranks = 4294967296\n", "out of range" },
        { "ranks = 0x10\n", "x:1: ranks" },
        { "launch_us = nan\n", "not a number" },
        { "launch_us = inf\n", "not a number" },
        { "launch_us = 1e999\n", "not a number" },
        { "launch_us = 1,5\n", "not a number" },
        { "launch_us = -0.1\n", "out of range" },
        { "memory_gbs = 0\n", "out of range" },
        { "noise_percent = 101\n", "out of range" },
        { "launch_us = 0000000000000000000000000000000000000000001\n", "not a number" },
        { "device =\n", "empty" },
        { "backend = 0123456789abcdef\n", "too long" },
        { "device = a\001b\n", "control" },
        { "nodes = 2\n\nranks = 9\nranks_per_node = 4\n", "x:3: 2 nodes with 4 ranks each" },
        { "nodes = 2\nranks_per_node = 4\n", "x:2: 2 nodes with 4 ranks each" },
        { "ranks = 9\nranks_per_node = 4\n", "x:1: 9 ranks are not nodes" },
        { "ranks = 8\nranks_per_node = 2\nranks_per_rack = 8\n", "x:1: racks of 8 ranks" },
        { "ranks = 8\nranks_per_node = 2\nranks_per_rack = 3\n", "x:1: racks of 3 ranks" },
        { "nodes = 5\nranks = 4\nranks_per_node = 0\n", "x:2: 5 nodes cannot share 4" },
    };

    log_to(listen, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cluster c = { .ranks = 77 };

        said = 0;
        CHECK(cluster_parse(bad[i].text, "x", &c) == ERR_FORMAT);
        CHECK(c.ranks == 77 && said == 1);
        CHECK(strstr(last, bad[i].says));
    }
    log_to(NULL, NULL);
}

static void put_file(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");

    CHECK(file && fwrite(text, 1, bytes, file) == bytes);
    if (file)
        fclose(file);
}

static void what_is_no_text_or_too_much_of_it_is_refused(void)
{
    static char text[5 * CLUSTER_TEXT_BYTES];
    char path[] = "/tmp/moetune-cluster-XXXXXX";
    int file = mkstemp(path);
    struct cluster c = { .ranks = 77 }, stored;

    CHECK(file >= 0);
    close(file);
    log_to(listen, NULL);
    put_file(path, "nodes = 1\n\0ranks = 1\n", 21);
    CHECK(cluster_read(path, &c) == ERR_FORMAT && strstr(last, "byte 10"));
    /* What no import takes; a database that has it is read all the same. */
    for (int i = 0; i < 3; i++) {
        const char *words[] = { "a\u202eb", "caf\xe9", "a\xc2\x9b" };

        snprintf(text, sizeof(text), "ranks = 4\ndevice = %s\n", words[i]);
        put_file(path, text, strlen(text));
        CHECK(cluster_read(path, &c) == ERR_FORMAT && strstr(last, ": device: \""));
        CHECK(!cluster_parse(text, "x", &stored) && !strcmp(stored.device, words[i]));
    }
    put_file(path, "# caf\xe9\ndevice = caf\u00e9\n", 22);
    CHECK(!cluster_read(path, &stored));
    memset(text, '\n', sizeof(text) - 1);
    put_file(path, text, sizeof(text) - 1);
    CHECK(cluster_read(path, &c) == ERR_FORMAT && strstr(last, "longer"));
    CHECK(cluster_parse(text, "x", &c) == ERR_FORMAT && strstr(last, "longer"));
    memset(text, 'a', sizeof(text) / 2);
    text[sizeof(text) / 2] = 0;
    CHECK(cluster_parse(text, "x", &c) == ERR_FORMAT && strstr(last, "x:1: "));
    unlink(path);
    CHECK(cluster_read(path, &c) == ERR_IO && cluster_read("/tmp", &c) == ERR_IO);
    CHECK(c.ranks == 77);
    log_to(NULL, NULL);
}

static void a_model_with_a_number_missing_is_refused(void)
{
    struct cluster c = small(), broken = c;

    log_to(listen, NULL);
    broken.gemm_gflops = NAN;
    CHECK(cluster_check_model(&broken, "x") == ERR_FORMAT && strstr(last, "gemm_gflops"));
    broken = c;
    snprintf(broken.backend, sizeof(broken.backend), "host");
    CHECK(cluster_check_model(&broken, "x") == ERR_FORMAT && strstr(last, "sim"));
    broken = c;
    broken.nodes = 0;
    CHECK(cluster_check_model(&broken, "x") == ERR_FORMAT);
    log_to(NULL, NULL);
}

static void model_numbers_are_taken_known_or_not(void)
{
    struct cluster to = small(), from = without(small(), "gemm"), before = to;

    from.launch_us = 77;
    from.ranks = 99;
    cluster_take_model(&to, &from);
    CHECK(to.launch_us == 77 && isnan(to.gemm_gflops) && to.ranks == 8);
    cluster_take_model(&to, &before);
    CHECK(same(&to, &before));
}

static void products_have_a_rate_of_one_type_or_of_any(void)
{
    struct cluster c = small(), typed;
    char text[CLUSTER_TEXT_BYTES + 64];

    log_to(listen, NULL);
    CHECK(cluster_multiplies(&c, MOE_F32) && cluster_multiplies(&c, MOE_BF16));
    snprintf(text, sizeof(text), "%sgemm_dtype = bf16\n", text_of(&c));
    CHECK(!cluster_parse(text, "x", &typed) && strstr(text_of(&typed), "gemm_dtype = bf16\n"));
    CHECK(!cluster_check_multiplies(&typed, MOE_BF16));
    CHECK(cluster_check_multiplies(&typed, MOE_F32) == ERR_ARGUMENT && strstr(last, "--dtype f32"));
    cluster_take_model(&c, &typed);
    CHECK(!cluster_multiplies(&c, MOE_F16));
    snprintf(text, sizeof(text), "gemm_dtype = bf17\n");
    CHECK(cluster_parse(text, "x", &typed) == ERR_FORMAT && strstr(last, "bf17"));
    log_to(NULL, NULL);
}

static void numbers_take_their_shortest_form_and_survive_it(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "0.10", "0.1" }, { "1e3", "1000" },   { "1e6", "1000000" },
        { "00.5", "0.5" }, { "-0", "0" },       { "+3", "3" },
        { "1e-400", "0" }, { "2.50e2", "250" }, { "0.30000000000000004", "0.30000000000000004" }
    };
    struct cluster c = cluster_unknown(), back;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[96];

        snprintf(text, sizeof(text), "launch_us = %s\n", cases[i].in);
        CHECK(!cluster_parse(text, "x", &c));
        snprintf(text, sizeof(text), "launch_us = %s\n", cases[i].out);
        CHECK(strstr(text_of(&c), text));
    }
    for (uint64_t i = 0; i < 2000; i++) {
        c.launch_us = (double)random_bits(1, i) * exp2(-(double)(i % 80)) * 0x1p-45;
        if (c.launch_us > 1e6)
            continue;
        CHECK(!cluster_parse(text_of(&c), "x", &back) && back.launch_us == c.launch_us);
    }
}

/* Where a locale with another decimal point is installed. */
static void numbers_are_the_same_in_every_locale(void)
{
    static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8", "de_DE" };
    struct cluster c = small(), back;
    char text[CLUSTER_TEXT_BYTES];

    c.launch_us = 1.5;
    text_put(text, sizeof(text), "%s", text_of(&c));
    for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
        if (!setlocale(LC_ALL, locales[i]))
            continue;
        CHECK(!strcmp(text, text_of(&c)));
        CHECK(!cluster_parse(text, "x", &back) && back.launch_us == 1.5);
    }
    setlocale(LC_ALL, "C");
}

static void words_that_a_line_cannot_hold_are_made_to_fit(void)
{
    struct cluster c = cluster_unknown(), back;

    snprintf(c.device, sizeof(c.device), "  tab\there #1\nline  ");
    CHECK(!cluster_parse(text_of(&c), "x", &back));
    CHECK(!strcmp(back.device, "tab?here ?1?line"));
    CHECK(same(&c, &back));
    c.device[0] = 0;
    CHECK(!strstr(text_of(&c), "device ="));
}

static void change(struct cluster *c, const struct cluster_field *field)
{
    void *at = (char *)c + field->offset;

    switch (field->kind) {
    case FIELD_WORD: snprintf(at, field->bytes, "other"); break;
    case FIELD_COUNT_OF: ++*(uint32_t *)at; break;
    case FIELD_NUMBER: *(double *)at = isnan(*(double *)at) ? 1.5 : *(double *)at + 0.5; break;
    }
}

static void the_hash_covers_what_makes_another_cluster_and_no_more(void)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        struct cluster sim = small(), host = small(), other;

        snprintf(host.backend, sizeof(host.backend), "host");
        other = sim;
        change(&other, f);
        CHECK(same(&sim, &other) == (f->class != CLUSTER_HARD && f->kind != FIELD_NUMBER));
        CHECK(cluster_same_soft(&sim, &other) == (f->class != CLUSTER_SOFT));
        other = host;
        change(&other, f);
        CHECK(same(&host, &other) == (f->class != CLUSTER_HARD));
    }
}

/* Tables were written under these names: whatever fields come later, where they are unknown. */
static void what_nobody_speaks_of_changes_no_name(void)
{
    struct cluster sim = small(), host = sim, launches = sim;
    char hex[2 * HASH_BYTES + 1];

    cluster_hex(&sim, hex);
    CHECK(!strcmp(hex, "e39bdcb294bbd70a8a6a012b1bf35948806d2bef5b0b66fcd153eca8aa9bedb7"));
    snprintf(host.backend, sizeof(host.backend), "host");
    cluster_hex(&host, hex);
    CHECK(!strcmp(hex, "d4e30776a405fed1885ecad1c515b75b50e4893e492e089b808071c8f65acd76"));
    CHECK(!strstr(text_of(&sim), "launch_noise"));
    launches.launch_noise_percent = 2;
    CHECK(!same(&launches, &sim) && strstr(text_of(&launches), "launch_noise_percent = 2\n"));
    cluster_remove_noise(&launches);
    CHECK(same(&launches, &sim));
}

/* Nodes are all as near where nobody knows of racks. */
static bool may_be_unknown(const struct cluster_field *f)
{
    return f->class != CLUSTER_HARD || f->offset == offsetof(struct cluster, ranks_per_rack);
}

static void a_table_answers_only_for_what_is_known_and_equal(void)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        struct cluster table = small(), here = small(), nothing = cluster_unknown();

        CHECK(cluster_answers(&table, &here));
        change(&here, f);
        CHECK(cluster_answers(&table, &here) == (f->class != CLUSTER_HARD));
        memcpy((char *)&here + f->offset, (char *)&nothing + f->offset, f->bytes);
        CHECK(cluster_answers(&table, &here) == may_be_unknown(f));
        CHECK(cluster_answers(&here, &table) == may_be_unknown(f));
        memcpy((char *)&table + f->offset, (char *)&nothing + f->offset, f->bytes);
        CHECK(cluster_answers(&here, &table) == may_be_unknown(f));
    }
}

/* Whatever comes in: an error that leaves the output alone, or a value whose text is stable. */
/* NCCL takes LL128 where it is told to, so nobody is told to where it may do harm. */
static void protocols_are_those_that_the_library_can_be_told(void)
{
    enum { ll = 1 << MOE_PROTO_LL, ll128 = 1 << MOE_PROTO_LL128, simple = 1 << MOE_PROTO_SIMPLE };
    struct cluster c = small();
    struct protocols p = cluster_protocols(&c);

    CHECK(!p.all && !p.usual);
    snprintf(c.comm_library, sizeof(c.comm_library), "NCCL 2.28");
    c.ll_rate_percent = 30, c.ll_latency_percent = 25;
    CHECK(!cluster_protocols(&c).all); /* its model gathers by sends */
    c.ring_step_us = 4;
    p = cluster_protocols(&c);
    CHECK(p.all == (ll | simple) && p.usual == (ll | simple));
    c.ll128_rate_percent = 90, c.ll128_latency_percent = 50;
    CHECK(cluster_protocols(&c).usual == (ll | ll128 | simple));
    snprintf(c.backend, sizeof(c.backend), "cuda");
    c.nodes = 1;
    snprintf(c.link_inside, sizeof(c.link_inside), "NVLink");
    CHECK(cluster_protocols(&c).usual == (ll | ll128 | simple));
    c.nodes = 2;
    p = cluster_protocols(&c);
    CHECK(p.all == (ll | ll128 | simple) && p.usual == (ll | simple));
    c.nodes = 1;
    snprintf(c.link_inside, sizeof(c.link_inside), "PCIe");
    CHECK(cluster_protocols(&c).usual == (ll | simple));
    snprintf(c.comm_library, sizeof(c.comm_library), "copies in one GPU");
    CHECK(!cluster_protocols(&c).all);
}

static void feed(const char *text)
{
    struct cluster c = { .ranks = 77 }, back;
    char once[CLUSTER_TEXT_BYTES];

    if (cluster_parse(text, "x", &c)) {
        CHECK(c.ranks == 77 && !c.backend[0]);
        return;
    }
    text_put(once, sizeof(once), "%s", text_of(&c));
    CHECK(!cluster_parse(once, "again", &back) && !strcmp(once, text_of(&back)));
}

static void damaged_descriptions_never_do_harm(void)
{
    struct cluster c = small();
    char whole[CLUSTER_TEXT_BYTES], text[CLUSTER_TEXT_BYTES];
    size_t length;

    text_put(whole, sizeof(whole), "%s", text_of(&c));
    length = strlen(whole);
    log_to(listen, NULL);
    for (size_t i = 0; i <= length; i++) {
        memcpy(text, whole, i);
        text[i] = 0;
        feed(text);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        memcpy(text, whole, length + 1);
        for (uint64_t j = 0; j <= i % 3; j++)
            text[random_below(3 * i + j, 0, (uint32_t)length)] = (char)random_bits(3 * i + j, 1);
        feed(text);
    }
    log_to(NULL, NULL);
}

/* However many variables there are. */
static void how_steps_are_launched_is_known_in_any_environment(void)
{
    struct cluster c = small();

    for (uint32_t length = 0; length < sizeof(c.environment); length++) {
        memset(c.environment, 'x', length);
        c.environment[length] = 0;
        cluster_add_steps(&c, length % 3);
        CHECK(cluster_steps_are(&c) == length % 3);
        CHECK(strlen(c.environment) < sizeof(c.environment));
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_recorded_cluster_reads_back_the_same),
        TEST(layout_and_comments_do_not_matter),
        TEST(malformed_descriptions_are_refused_with_the_line),
        TEST(what_is_no_text_or_too_much_of_it_is_refused),
        TEST(a_model_with_a_number_missing_is_refused),
        TEST(model_numbers_are_taken_known_or_not),
        TEST(products_have_a_rate_of_one_type_or_of_any),
        TEST(numbers_take_their_shortest_form_and_survive_it),
        TEST(numbers_are_the_same_in_every_locale),
        TEST(words_that_a_line_cannot_hold_are_made_to_fit),
        TEST(the_hash_covers_what_makes_another_cluster_and_no_more),
        TEST(what_nobody_speaks_of_changes_no_name),
        TEST(a_table_answers_only_for_what_is_known_and_equal),
        TEST(protocols_are_those_that_the_library_can_be_told),
        TEST(how_steps_are_launched_is_known_in_any_environment),
        TEST(damaged_descriptions_never_do_harm),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
