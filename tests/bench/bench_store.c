/* Times a commit with and without the journal, and shows what a damaged database loses without the
 * journal, the snapshot, or both: the reasons to keep both. */
#include "check.h"
#include "random.h"
#include "rivals.h"
#include "store_inside.h"
#include "store_rows.h"

#include <sqlite3.h>
#include <sys/stat.h>

enum { BUCKETS = 128, COMMITS = 8, PAGE = 4096, DRAWS = 20 };

/* ---- a commit */

struct commits {
    struct store *store, *bare; /* bare: without a journal */
    FILE *lines;                /* a journal without SQLite */
    uint64_t round;
    int64_t trial;
};

static int64_t take(struct commits *c, struct store *store)
{
    int64_t begin = host_clock_ns();

    for (int i = 0; i < COMMITS; i++) {
        for (int k = 0; k < 8; k++)
            if (store_sample_add(store, c->trial, &some_sample(SAMPLE_SEARCH, c->round++, 100000)))
                exit(1);
        if (store_commit(store))
            exit(1);
    }
    return host_clock_ns() - begin;
}

static int64_t with_journal(void *self)
{
    struct commits *c = self;

    return take(c, c->store);
}

static int64_t without_journal(void *self)
{
    struct commits *c = self;

    return take(c, c->bare);
}

/* What the lines alone would cost, if they were the only store. */
static int64_t lines_alone(void *self)
{
    struct commits *c = self;
    int64_t begin = host_clock_ns();

    for (int i = 0; i < COMMITS; i++) {
        for (int k = 0; k < 8; k++)
            fprintf(c->lines, "%0120d\n", (int)c->round++);
        if (fflush(c->lines) || fdatasync(fileno(c->lines)))
            exit(1);
    }
    return host_clock_ns() - begin;
}

/* 1,000 entries are published as a whole. */
static int64_t publish(void *self)
{
    struct commits *c = self;
    int64_t begin = host_clock_ns();

    if (store_publish(c->store))
        exit(1);
    return host_clock_ns() - begin;
}

static void say(const char *what, struct rivals r, double each)
{
    printf("%-44s %5.2f (%.2f to %.2f)  %7.3f ms\n", what, r.ratio, r.low, r.high,
           r.ours_ns * 1e-6 / each);
}

static void bench_commits(void)
{
    struct commits c = { .trial = 1 };

    c.store = fill(place("both.db"), BUCKETS, 0);
    c.bare = fill(place("bare.db"), BUCKETS, 0);
    fclose(c.bare->records.journal);
    c.bare->records.journal = NULL;
    c.lines = fopen(place("lines"), "w");
    if (!c.lines)
        exit(1);
    printf("a commit of 8 samples, against one without the journal:\n");
    say("SQLite and the journal", rivals_run(with_journal, without_journal, &c), COMMITS);
    say("lines alone", rivals_run(lines_alone, without_journal, &c), COMMITS);
    say("a publication, against 8 commits", rivals_run(publish, with_journal, &c), 1);
    fclose(c.lines);
    store_close(c.store);
    store_close(c.bare);
}

/* ---- damage */

static const char *const tables[] = { "entry", "trial", "sample" };
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

static void count_rows_of(const char *path, double rows[TABLES])
{
    sqlite3 *db;
    sqlite3_stmt *s;
    char sql[64];

    memset(rows, 0, TABLES * sizeof(*rows));
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK)
        for (int i = 0; i < TABLES; i++) {
            snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", tables[i]);
            if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
                continue;
            if (sqlite3_step(s) == SQLITE_ROW)
                rows[i] = sqlite3_column_double(s, 0);
            sqlite3_finalize(s);
        }
    sqlite3_close(db);
}

static void copy_file(const char *from, const char *to)
{
    size_t length;
    char *bytes = contents(from, &length);

    unlink(to);
    write_bytes(to, 0, bytes, length);
    free(bytes);
}

static void copy_beside(const char *whole, const char *path, const char *end)
{
    char from[300], to[300];

    snprintf(from, sizeof(from), "%s%s", whole, end);
    snprintf(to, sizeof(to), "%s%s", path, end);
    if (!access(from, F_OK))
        copy_file(from, to);
}

static void forget_all(const char *path)
{
    char name[300];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", path,
                 (const char *[]){ "", ".journal", ".published", ".owner" }[i]);
        unlink(name);
    }
    snprintf(name, sizeof(name), "%s.damaged-1", path);
    unlink(name);
    snprintf(name, sizeof(name), "%s.journal.damaged-1", path);
    unlink(name);
}

/* Pages at random, those of the file's head as well, are filled with what is no page. */
static void damage(const char *path, int pages, uint64_t draw)
{
    char bytes[PAGE];
    struct stat s;

    memset(bytes, 0xa5, sizeof(bytes));
    if (stat(path, &s))
        exit(1);
    for (int i = 0; i < pages; i++)
        write_bytes(path, PAGE * (long)random_below(draw, i, (uint32_t)(s.st_size / PAGE)), bytes,
                    PAGE);
}

struct kept_files {
    const char *name;
    bool journal, snapshot;
};

static void bench_damage(const char *whole, const struct kept_files *kept, int pages)
{
    double before[TABLES], after[TABLES], share[TABLES] = { 0 };
    char path[256];

    snprintf(path, sizeof(path), "%s", place("damaged.db"));
    count_rows_of(whole, before);
    for (int draw = 0; draw < DRAWS; draw++) {
        struct store *store;

        copy_beside(whole, path, "");
        if (kept->journal)
            copy_beside(whole, path, ".journal");
        if (kept->snapshot)
            copy_beside(whole, path, ".published");
        damage(path, pages, (uint64_t)draw);
        if (!store_open(path, STORE_RELAXED | STORE_REPAIR, &store))
            store_close(store);
        count_rows_of(path, after);
        for (int i = 0; i < TABLES; i++)
            share[i] += 100 * after[i] / before[i] / DRAWS;
        forget_all(path);
    }
    printf("%-34s %5d", kept->name, pages);
    for (int i = 0; i < TABLES; i++)
        printf(" %8.1f", share[i]);
    printf("\n");
}

static void bench_losses(void)
{
    static const struct kept_files ways[] = { { "journal and snapshot", true, true },
                                              { "journal", true, false },
                                              { "snapshot", false, true },
                                              { "neither: the damaged file alone", false, false } };
    char whole[256];
    struct store *store;

    snprintf(whole, sizeof(whole), "%s", place("whole.db"));
    store = fill(whole, BUCKETS, STORE_RELAXED);
    CHECK(!store_publish(store));
    store_close(store);
    printf("\n%% of the rows after --repair, pages at random destroyed, mean of %d draws:\n"
           "%-34s %5s",
           DRAWS, "what is there besides", "pages");
    for (int i = 0; i < TABLES; i++)
        printf(" %8s", tables[i]);
    printf("\n");
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (int pages = 1; pages <= 16; pages *= 4)
            bench_damage(whole, &ways[w], pages);
}

int main(void)
{
    static const struct test tests[] = { TEST(bench_commits), TEST(bench_losses) };

    return check_in_folder(tests, 2, listen);
}
