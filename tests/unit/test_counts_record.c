/* Tests the file of counts that a trainer records.  It has the bytes of a plain recorder, which
 * keeps every line and follows the written rule.  It stays short, evenly spread and whole, also
 * where the disk is full. */
#include "folder.h"

#include "counts_file.h"
#include "moelookup.h"
#include "status.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXPERTS = 5, LINES_MOST = 1 << 16, TEXT_BYTES = 1 << 20 };

static char file_text[TEXT_BYTES], plain_text[TEXT_BYTES];

static const char *text_of(const char *path)
{
    FILE *from = fopen(path, "r");
    size_t got = from ? fread(file_text, 1, TEXT_BYTES - 1, from) : 0;

    file_text[got] = 0;
    if (from)
        fclose(from);
    return file_text;
}

static struct moe_counts_options options_of(uint32_t every, uint32_t room)
{
    struct moe_counts_options o = MOE_COUNTS_OPTIONS_INIT;

    o.experts = EXPERTS;
    o.every = every;
    o.room = room;
    return o;
}

static uint64_t step_number(uint32_t call)
{
    return 100 + 3 * (uint64_t)call;
}

static uint32_t count_of(uint32_t call, uint32_t expert)
{
    return random_below(draw_seed + 7, (uint64_t)call * EXPERTS + expert, 50000) + (expert == 0);
}

static int hand_in(struct moe_counts *c, uint32_t call)
{
    uint32_t counts[EXPERTS];

    for (uint32_t e = 0; e < EXPERTS; e++)
        counts[e] = count_of(call, e);
    return moe_counts_step(c, step_number(call), call % 3 ? 1 + call : 0, counts, EXPERTS);
}

/* ---- the plain recorder: a list of calls, and printf */

static uint32_t kept[LINES_MOST];

static uint32_t plain_calls(uint32_t calls, uint32_t every, uint32_t room)
{
    uint64_t stride = every, done = UINT64_MAX; /* block that has its step */
    uint32_t count = 0;

    for (uint32_t call = 0; call < calls; call++) {
        uint64_t block = call / stride;

        if (block == done || call % stride != random_bits(stride, block) % stride)
            continue;
        kept[count++] = call;
        done = block;
        if (count < room)
            continue;
        for (uint32_t i = 0; i < room / 2; i++)
            kept[i] = kept[2 * i + (random_bits(stride, i) >= (uint64_t)1 << 63)];
        count = room / 2;
        stride *= 2;
        done = call / stride;
    }
    return count;
}

static const char *plain_file(uint32_t count)
{
    char *to = plain_text;

    for (uint32_t i = 0; i < count; i++) {
        to += sprintf(to, "{\"step\":%llu,\"ranks\":1", (unsigned long long)step_number(kept[i]));
        if (kept[i] % 3)
            to += sprintf(to, ",\"capacity\":%u", 1 + kept[i]);
        to += sprintf(to, ",\"counts\":[");
        for (uint32_t e = 0; e < EXPERTS; e++)
            to += sprintf(to, "%s%u", e ? "," : "", count_of(kept[i], e));
        to += sprintf(to, "]}\n");
    }
    *to = 0;
    return plain_text;
}

static void the_file_is_that_of_a_plain_recorder(void)
{
    static const uint32_t rooms[] = { 2, 4, 10, 64, 1024 };

    for (uint32_t i = 0; i < 60; i++) {
        uint32_t room = rooms[i % 5], every = 1 + draw(4), calls = draw(40 * room + 2);
        struct moe_counts_options o = options_of(every, room);
        struct moe_counts *c = NULL;
        const char *path = place("plain.jsonl");

        unlink(path);
        CHECK(!moe_counts_open(&o, path, &c));
        for (uint32_t call = 0; call < calls; call++)
            CHECK(!hand_in(c, call));
        moe_counts_close(c);
        CHECK(!strcmp(text_of(path), plain_file(plain_calls(calls, every, room))));
    }
}

/* Of 64 to 128 lines each stands for as many steps, and over many lengths none is preferred. */
static void steps_are_a_fair_sample(void)
{
    uint32_t odd = 0, all = 0;

    for (uint32_t calls = 1000; calls < 9000; calls += 100) {
        uint32_t count = plain_calls(calls, 1, 128), far = 0;

        CHECK(count >= 64 && count < 128);
        for (uint32_t i = 1; i < count; i++)
            far = kept[i] - kept[i - 1] > far ? kept[i] - kept[i - 1] : far;
        CHECK(far <= 2 * calls / 64);
        for (uint32_t i = 0; i < count; i++, all++)
            odd += kept[i] % 2;
    }
    CHECK(odd > all * 4 / 10 && odd < all * 6 / 10); /* whatever has a period of two */
}

/* ---- files */

static int add_one(void *self, const struct counts_line *line)
{
    (void)line;
    ++*(uint32_t *)self;
    return OK;
}

static void what_was_there_stays_and_half_a_line_is_ended(void)
{
    const char *path = place("before.jsonl");
    struct moe_counts_options o = options_of(1, 4);
    struct moe_counts *c = NULL;
    FILE *to = fopen(path, "w");

    fputs("{\"counts\":[1,2,3,4,5]}\n{\"counts\":[1,2", to);
    fclose(to);
    CHECK(!moe_counts_open(&o, path, &c));
    for (uint32_t call = 0; call < 50; call++)
        CHECK(!hand_in(c, call));
    moe_counts_close(c);
    CHECK(!strncmp(text_of(path), "{\"counts\":[1,2,3,4,5]}\n{\"counts\":[1,2\n{\"step\":", 46));
    CHECK(!strcmp(strstr(file_text, "{\"step\""), plain_file(plain_calls(50, 1, 4))));
}

static void what_is_wrong_is_refused(void)
{
    struct moe_counts_options o = options_of(1, 4);
    uint32_t right[EXPERTS] = { 4, 4, 0, 0, 0 }, zero[EXPERTS] = { 0 };
    uint32_t minus[EXPERTS] = { UINT32_MAX, 1 }, few[EXPERTS] = { 4, 3 };
    uint32_t twice[EXPERTS] = { 5, 3, 0, 0, 0 };
    const char *path = place("wrong.jsonl");
    struct moe_counts *c = NULL;
    bool was = log_enable(false);

    CHECK(moe_counts_open(&o, place("no/such/folder"), &c) == MOE_ERR_IO);
    CHECK(moe_counts_open(NULL, path, &c) == MOE_ERR_ARGUMENT);
    o.room = 3;
    CHECK(moe_counts_open(&o, path, &c) == MOE_ERR_ARGUMENT);
    o.room = 4, o.every = 0;
    CHECK(moe_counts_open(&o, path, &c) == MOE_ERR_ARGUMENT);
    o.every = 1, o.experts = 0;
    CHECK(moe_counts_open(&o, path, &c) == MOE_ERR_ARGUMENT);
    o.experts = EXPERTS, o.tokens = 2, o.ranks = 2;
    CHECK(moe_counts_open(&o, path, &c) == MOE_ERR_ARGUMENT); /* k */
    o.top_k = 2;
    CHECK(!moe_counts_open(&o, path, &c));
    CHECK(moe_counts_step(c, 0, 0, right, EXPERTS - 1) == MOE_ERR_ARGUMENT);
    CHECK(moe_counts_step(c, 0, 0, zero, EXPERTS) == MOE_ERR_ARGUMENT);
    CHECK(moe_counts_step(c, 0, 0, minus, EXPERTS) == MOE_ERR_ARGUMENT);
    CHECK(moe_counts_step(c, 0, 0, few, EXPERTS) == MOE_ERR_ARGUMENT);
    CHECK(moe_counts_step(c, 0, 0, twice, EXPERTS) == MOE_ERR_ARGUMENT);
    CHECK(moe_counts_step(NULL, 0, 0, right, EXPERTS) == MOE_ERR_ARGUMENT);
    CHECK(!moe_counts_step(c, 0, 0, right, EXPERTS));
    moe_counts_close(c);
    moe_counts_close(NULL);
    log_enable(was);
    CHECK(!strcmp(text_of(path), "{\"step\":0,\"ranks\":2,\"tokens\":2,\"counts\":[4,4,0,0,0]}\n"));
}

static void a_file_that_is_halved_stays_where_it_is(void)
{
    struct moe_counts_options o = options_of(1, 8);
    char link[PATH_MAX];
    struct moe_counts *c;
    struct stat is;

    snprintf(link, sizeof(link), "%s", place("link.jsonl"));
    unlink(link);
    fclose(fopen(place("target.jsonl"), "w"));
    CHECK(!chmod(place("target.jsonl"), 0640) && !symlink(place("target.jsonl"), link));
    CHECK(!moe_counts_open(&o, link, &c));
    for (uint32_t call = 0; call < 100; call++)
        CHECK(!hand_in(c, call));
    moe_counts_close(c);
    CHECK(!lstat(link, &is) && S_ISLNK(is.st_mode));
    CHECK(!stat(link, &is) && (is.st_mode & 0777) == 0640 && is.st_size > 0);
    CHECK(moe_counts_open(&o, "/dev/null", &c) == MOE_ERR_IO && errno == EINVAL);
}

static void the_environment_names_the_file(void)
{
    struct moe_counts_options o = options_of(1, 4);
    struct moe_counts *c = NULL;

    unsetenv("MOELOOKUP_COUNTS");
    CHECK(!moe_counts_open(&o, NULL, &c) && !hand_in(c, 0));
    moe_counts_close(c);
    setenv("MOELOOKUP_COUNTS", place("named.jsonl"), 1);
    CHECK(!moe_counts_open(&o, NULL, &c) && !hand_in(c, 0));
    moe_counts_close(c);
    CHECK(!strcmp(text_of(place("named.jsonl")), plain_file(plain_calls(1, 1, 4))));
    unsetenv("MOELOOKUP_COUNTS");
}

static void a_child_records_nothing(void)
{
    struct moe_counts_options o = options_of(1, 64);
    const char *path = place("child.jsonl");
    struct moe_counts *c = NULL;
    int status = 1;

    CHECK(!moe_counts_open(&o, path, &c) && !hand_in(c, 0));
    if (!fork())
        _exit(hand_in(c, 1) != 0);
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(!hand_in(c, 1));
    moe_counts_close(c);
    CHECK(!strcmp(text_of(path), plain_file(plain_calls(2, 1, 64))));
}

/* In a process of its own, which may write so many bytes to a file. */
static int record_with_little_room(const char *path, uint32_t bytes)
{
    struct rlimit limit = { bytes, bytes };
    struct moe_counts_options o = options_of(1, 16);
    struct moe_counts *c = NULL;
    uint32_t refused = 0;

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) || moe_counts_open(&o, path, &c))
        return 1;
    for (uint32_t call = 0; call < 400; call++)
        refused += hand_in(c, call) == MOE_ERR_IO;
    moe_counts_close(c);
    return refused ? 0 : 2;
}

static void a_full_disk_leaves_whole_lines(void)
{
    for (uint32_t bytes = 40; bytes < 800; bytes += 37) {
        const char *path = place("full.jsonl"), *text;
        uint32_t steps = 0;
        int status = 1;

        unlink(path);
        if (!fork())
            _exit(record_with_little_room(path, bytes));
        CHECK(wait(&status) > 0 && status == 0);
        text = text_of(path);
        CHECK(!*text || text[strlen(text) - 1] == '\n');
        CHECK(!*text || (!counts_file_read(path, add_one, &steps) && steps > 0));
        CHECK(access(place("full.jsonl.short"), F_OK) != 0);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_file_is_that_of_a_plain_recorder),
        TEST(steps_are_a_fair_sample),
        TEST(what_was_there_stays_and_half_a_line_is_ended),
        TEST(what_is_wrong_is_refused),
        TEST(a_file_that_is_halved_stays_where_it_is),
        TEST(the_environment_names_the_file),
        TEST(a_child_records_nothing),
        TEST(a_full_disk_leaves_whole_lines),
    };

    draw_from_seed();
    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
