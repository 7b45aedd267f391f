/* Tests databases that others have locked, that are damaged, or that are not ours. */
#include "store_rows.h"

#include "store_inside.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Every table as text, to compare databases; NULL if that cannot be read. */
static char *dump(const char *path)
{
    static const char *const tables[] = {
        "fingerprint", "fingerprint_field", "shape", "run", "trial", "sample",
        "entry",       "history",           NULL
    };
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    sqlite3 *db = NULL;

    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    for (int i = 0; tables[i]; i++) {
        sqlite3_stmt *s = NULL;
        char sql[100];

        snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY 1", tables[i]);
        sqlite3_prepare_v2(db, sql, -1, &s, NULL);
        while (sqlite3_step(s) == SQLITE_ROW)
            for (int k = 0; k < sqlite3_column_count(s); k++)
                fprintf(to, "%s|", (const char *)sqlite3_column_text(s, k));
        fprintf(to, "\n");
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
    fclose(to);
    return text;
}

/* ---- rivals and damage */

static void a_second_writer_is_refused_with_the_owners_name(void)
{
    const char *path = place("owned.db");
    struct store *store = fill(path, 1, 0), *second = NULL;
    char pid[32];

    snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    CHECK(store_open(path, 0, &second) == ERR_BUSY && !second);
    CHECK(strstr(said, pid) != NULL);
    CHECK(!store_read(path, &second)); /* readers are welcome */
    store_close(second);
    store_close(store);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void a_killed_owner_leaves_no_lock(void)
{
    const char *path = place("orphan.db");
    int ready[2];
    pid_t child;
    char byte;
    struct store *store = NULL;

    CHECK(!pipe(ready));
    child = fork();
    if (child == 0) {
        fill(path, 2, 0);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(store_open(path, 0, &store) == ERR_BUSY);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
    close(ready[0]);
    close(ready[1]);
}

static void an_owner_on_another_host_is_believed_while_it_is_alive(void)
{
    const char *path = place("afar.db"), *owner = place("afar.db.owner");
    static const char text[] = "host far-away process 1 since long ago\n";
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    struct store *store = NULL;

    write_bytes(owner, 0, text, sizeof(text) - 1);
    CHECK(store_open(path, 0, &store) == ERR_BUSY && strstr(said, "far-away"));
    CHECK(!store_open(path, STORE_STEAL, &store));
    store_close(store);
    write_bytes(owner, 0, text, sizeof(text) - 1);
    CHECK(!utimensat(AT_FDCWD, owner, old, 0));
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void refused_untouched(const char *path, int status)
{
    size_t before_length, after_length;
    char *before = contents(path, &before_length), *after;
    struct store *store = NULL;

    CHECK(store_open(path, 0, &store) == status && !store);
    after = contents(path, &after_length);
    CHECK(before_length == after_length && !memcmp(before, after, before_length));
    free(before);
    free(after);
}

static void what_is_not_ours_is_refused_and_left_alone(void)
{
    sqlite3 *db;
    char noise[4096];

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)(i * 37 + 11);
    write_bytes(place("noise.db"), 0, noise, sizeof(noise));
    refused_untouched(place("noise.db"), ERR_CORRUPT);
    CHECK(strstr(said, "no database of moetune") && !strstr(said, "--repair"));

    sqlite3_open(place("foreign.db"), &db);
    sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL);
    sqlite3_close(db);
    refused_untouched(place("foreign.db"), ERR_CORRUPT);
    CHECK(strstr(said, "some other program") != NULL);

    store_close(fill(place("newer.db"), 1, 0));
    sqlite3_open(place("newer.db"), &db);
    sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL);
    sqlite3_close(db);
    refused_untouched(place("newer.db"), ERR_CORRUPT);
    CHECK(strstr(said, "newer moetune") != NULL);

    store_close(fill(place("cut.db"), 50, 0));
    CHECK(!truncate(place("cut.db"), 3 * 4096 + 100));
    refused_untouched(place("cut.db"), ERR_CORRUPT);
    CHECK(strstr(said, "rebuilds it from") && strstr(said, "cut.db.journal"));
    CHECK(!unlink(place("cut.db.journal")));
    refused_untouched(place("cut.db"), ERR_CORRUPT);
    CHECK(strstr(said, "rebuilds it from what is left of it"));
}

static void a_locked_database_is_busy(void)
{
    const char *path = place("locked.db");
    struct store *store = NULL;
    sqlite3 *db;

    store_close(fill(path, 1, 0));
    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK);
    CHECK(store_open(path, 0, &store) == ERR_BUSY);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    CHECK(!store_open(path, 0, &store));
    store_close(store);
}

static void a_damaged_database_is_rebuilt_from_its_journal(void)
{
    const char *path = place("broken.db");
    struct store *store = fill(path, 20, 0);
    char *before, *after;
    static const char torn[] = "{\"table\":\"sample\",\"id\":99999,\"tri";

    CHECK(!store_expire(store, 1, 1, 128, 4, 4, "asked"));
    store_close(store);
    before = dump(path);
    CHECK(!truncate(path, 9000));
    CHECK(store_open(path, 0, &store) == ERR_CORRUPT && strstr(said, "--repair"));
    {
        FILE *journal = fopen(place("broken.db.journal"), "a");

        CHECK(fwrite(torn, 1, sizeof(torn) - 1, journal) == sizeof(torn) - 1);
        fclose(journal);
    }
    CHECK(!store_open(path, STORE_REPAIR, &store));
    store_close(store);
    after = dump(path);
    CHECK(!strcmp(before, after));
    CHECK(!access(place("broken.db.damaged-1"), F_OK));
    free(before);
    free(after);
}

/* Writes over what stands in the file instead of `text`, everywhere. */
static int replace_text(const char *path, const char *text, const char *with)
{
    char bytes[1 << 18];
    FILE *file = fopen(path, "r+");
    size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
    int count = 0;

    CHECK(size > 0 && size < sizeof(bytes) && strlen(text) == strlen(with));
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text, strlen(text)));
         count++)
        memcpy(at, with, strlen(with));
    rewind(file);
    CHECK(fwrite(bytes, 1, size, file) == size);
    fclose(file);
    return count;
}

static bool is_repaired_as(const char *path, const char *before)
{
    struct store *store = NULL;
    char *after;
    bool same;

    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(store && !store_publish(store));
    store_close(store);
    after = dump(path);
    same = !strcmp(before, after);
    if (!same)
        printf("    %s: %s\n", path, said);
    free(after);
    return same;
}

/* Damage that SQLite's quick check does not see: a cluster's text, an index, a table's name. */
static void what_makes_no_sense_is_damage_too(void)
{
    const char *path = place("sense.db");
    struct store *store = fill(path, 20, 0);
    char *before;

    CHECK(!store_publish(store));
    store_close(store);
    before = dump(path);
    CHECK(replace_text(path, "bandwidth_between_gbs", "bandw?dth_between_gbs"));
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-1"), F_OK));
    CHECK(replace_text(path, "TABLE history", "TABLE hist?ry"));
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-2"), F_OK));
    CHECK(replace_text(path, "semantics =", "semant?cs =") +
              replace_text(path, "r=2 d=4", "r=2?d=4") >
          1);
    CHECK(is_repaired_as(path, before) && !access(place("sense.db.damaged-3"), F_OK));
    /* Sound: it stays the file it is. */
    CHECK(is_repaired_as(path, before) && access(place("sense.db.damaged-4"), F_OK));
    free(before);
}

/* Version 0 is that of an empty file. */
static void tables_without_a_version_are_damage(void)
{
    const char *path = place("versionless.db");
    struct store *store = NULL;
    char *before;
    sqlite3 *db;

    store_close(fill(path, 3, 0));
    before = dump(path);
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, "PRAGMA user_version=0", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    CHECK(store_read(path, &store) == ERR_CORRUPT && strstr(said, "is damaged"));
    CHECK(store_open(path, 0, &store) == ERR_CORRUPT && strstr(said, "tune --repair"));
    CHECK(is_repaired_as(path, before));
    free(before);
}

static void what_is_lost_is_rebuilt_from_what_is_sound(void)
{
    const char *path = place("lost.db"), *journal = place("lost.db.journal");
    struct store *store = fill(path, 20, 0);
    int rows = 0;
    char *before;

    CHECK(!store_publish(store));
    store_close(store);
    before = dump(path);
    CHECK(!truncate(path, 0)); /* an empty file, then none, beside a journal */
    CHECK(is_repaired_as(path, before));
    CHECK(!unlink(path));
    CHECK(is_repaired_as(path, before));
    CHECK(!unlink(journal)); /* written anew, and good for the next time */
    CHECK(is_repaired_as(path, before) && !unlink(path));
    CHECK(is_repaired_as(path, before));
    /* The journal's cluster makes no sense: the snapshot has it. */
    CHECK(replace_text(journal, "semantics =", "semant?cs =") && !unlink(path));
    CHECK(is_repaired_as(path, before));
    /* Only the snapshot is left. */
    CHECK(!unlink(journal) && !unlink(path));
    CHECK(!store_open(path, STORE_REPAIR, &store));
    CHECK(!store_entries(store, 0, 0, count_rows, &rows) && rows == 20);
    store_close(store);
    free(before);
}

static void a_foreign_database_is_not_repaired(void)
{
    const char *path = place("foreign-too.db");
    struct store *store = NULL;
    sqlite3 *db;

    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    CHECK(store_open(path, STORE_REPAIR, &store) == ERR_CORRUPT && strstr(said, "other program"));
    CHECK(access(place("foreign-too.db.damaged-1"), F_OK));
}

static void a_full_disk_is_an_error_and_no_damage(void)
{
    const char *path = place("full.db");
    struct store *store = NULL;
    struct rlimit limit;
    pid_t child;
    int status;

    store_close(fill(path, 3, 0));
    child = fork();
    if (child == 0) {
        struct trial_row trial = some_trial(1, 1, 9, "r=1 d=1 a=linear");
        int rc;

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = 150000;
        rc = store_open(path, 0, &store);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (!rc)
            rc = store_trial_begin(store, &trial);
        for (int i = 0; i < 100000 && !rc; i++) {
            rc = store_sample_add(store, trial.id, &some_sample(SAMPLE_SEARCH, 0, i));
            if (!rc && i % 100 == 0)
                rc = store_commit(store);
        }
        _exit(rc == ERR_IO ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(!store_open(path, 0, &store));
    CHECK(!store_publish(store));
    store_close(store);
}

/* Whether a copy of the journal alone makes the same database. */
static bool is_what_its_journal_says(const char *path)
{
    char command[1200];
    char *have = dump(path);
    bool same;

    snprintf(command, sizeof(command), "rm -f '%s/again.db'* && cp '%s.journal' '%s'", folder, path,
             place("again.db.journal"));
    CHECK(!system(command));
    same = is_repaired_as(place("again.db"), have);
    free(have);
    return same;
}

enum { BATCH = 20 };

/* Writes batches of samples and entries until a row or a commit fails. */
static int write_batches(struct store *store, int64_t trial)
{
    int rc = OK;

    for (uint32_t batch = 1; !rc; batch++) {
        for (uint32_t i = 0; i < BATCH && !rc; i++) {
            struct entry_row entry = some_entry(1, 1, BATCH * batch + i, "r=1 d=2 a=linear", 10);

            rc = store_sample_add(store, trial, &some_sample(SAMPLE_VERIFY, i, 100000 + i));
            if (!rc)
                rc = store_entry_put(store, &entry, NULL);
        }
        if (!rc)
            rc = store_commit(store);
    }
    return rc;
}

/* For want of room SQLite takes back a row, or all since the last commit. */
static void a_full_disk_leaves_whole_batches_in_database_and_journal(void)
{
    char name[32], path[512], sql[100];

    for (int more = 1; more <= 24; more++) {
        struct run_row run = { .cluster = 1, .state = RUN_RUNNING };
        struct store *store;
        sqlite3 *db;

        snprintf(name, sizeof(name), "room-for-%d.db", more);
        snprintf(path, sizeof(path), "%s", place(name)); /* place() forgets */
        store = fill(path, 3, 0);
        CHECK(!store_run_begin(store, &run) && !store_commit(store));
        db = store->records.db;
        /* With a small cache it is also found when pages are written to make room for others. */
        snprintf(sql, sizeof(sql), "PRAGMA cache_size=%d; PRAGMA max_page_count=%d",
                 more % 2 ? 2 : 500, count_text(db, "PRAGMA page_count") + more);
        CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
        CHECK(write_batches(store, 1) == ERR_IO);
        run.state = RUN_FAILED;
        CHECK(!store_run_update(store, &run) && !store_commit(store)); /* takes no new page */
        store_close(store);
        CHECK(is_what_its_journal_says(path));
        CHECK(sqlite3_open(path, &db) == SQLITE_OK);
        snprintf(sql, sizeof(sql), "SELECT count(*) %% %d FROM sample WHERE kind=%d", BATCH,
                 SAMPLE_VERIFY);
        CHECK(count_text(db, sql) == 0);
        snprintf(sql, sizeof(sql), "SELECT count(*) %% %d FROM entry WHERE bucket>=%d", BATCH,
                 BATCH);
        CHECK(count_text(db, sql) == 0);
        CHECK(count_text(db, "SELECT count(*) FROM run WHERE state='failed'") == 1);
        sqlite3_close(db);
    }
}

/* So many rows wait in SQLite's memory, but not in the journal's; room comes back before the
 * commit. */
static void a_journal_without_room_is_named_with_the_reason(void)
{
    const char *path = place("journal-full.db");
    struct store *store = NULL;
    int said_by[2], status;
    char heard[sizeof(said)] = "";
    pid_t child;

    store_close(fill(path, 3, 0));
    CHECK(!pipe(said_by));
    child = fork();
    if (child == 0) {
        struct rlimit limit;
        int rc = store_open(path, 0, &store);

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = 150000;
        setrlimit(RLIMIT_FSIZE, &limit);
        for (int i = 0; i < 5000 && !rc; i++)
            rc = store_sample_add(store, 1, &some_sample(SAMPLE_SEARCH, 0, i));
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
        if (!rc && !access(place("nothing"), F_OK)) /* errno: no such file */
            rc = ERR_WRONG;
        if (!rc)
            rc = store_commit(store);
        store_close(store);
        if (write(said_by[1], said, strlen(said)) < 0)
            _exit(2);
        _exit(rc == ERR_IO ? 0 : 1);
    }
    close(said_by[1]);
    CHECK(read(said_by[0], heard, sizeof(heard) - 1) > 0);
    close(said_by[0]);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(strstr(heard, "journal-full.db.journal: File too large") != NULL);
    CHECK(is_what_its_journal_says(path));
}

/* A repair that finds no room changes nothing, so that the next one has all that there was. */
static void a_repair_on_a_full_disk_can_be_made_again(void)
{
    const char *path = place("no-room.db");
    char *before;

    store_close(fill(path, 60, 0));
    before = dump(path);
    CHECK(!truncate(path, 5000));
    for (rlim_t most = 4096; most <= 65536; most *= 4) { /* no tables, tables, some rows */
        pid_t child = fork();
        int status;

        if (child == 0) {
            struct store *store = NULL;
            struct rlimit limit;

            signal(SIGXFSZ, SIG_IGN);
            getrlimit(RLIMIT_FSIZE, &limit);
            limit.rlim_cur = most;
            setrlimit(RLIMIT_FSIZE, &limit);
            _exit(store_open(path, STORE_REPAIR, &store) == ERR_IO ? 0 : 1);
        }
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(access(place("no-room.db.damaged-1"), F_OK));
    }
    CHECK(is_repaired_as(path, before));
    CHECK(!access(place("no-room.db.damaged-1"), F_OK));
    free(before);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_second_writer_is_refused_with_the_owners_name),
        TEST(a_killed_owner_leaves_no_lock),
        TEST(an_owner_on_another_host_is_believed_while_it_is_alive),
        TEST(what_is_not_ours_is_refused_and_left_alone),
        TEST(a_locked_database_is_busy),
        TEST(a_damaged_database_is_rebuilt_from_its_journal),
        TEST(what_makes_no_sense_is_damage_too),
        TEST(tables_without_a_version_are_damage),
        TEST(what_is_lost_is_rebuilt_from_what_is_sound),
        TEST(a_foreign_database_is_not_repaired),
        TEST(a_full_disk_is_an_error_and_no_damage),
        TEST(a_full_disk_leaves_whole_batches_in_database_and_journal),
        TEST(a_journal_without_room_is_named_with_the_reason),
        TEST(a_repair_on_a_full_disk_can_be_made_again),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), listen);
}
