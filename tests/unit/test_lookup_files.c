/* Tests files that hold tables and files that only claim to, with every kind of damage and of name.
 */
#include "lookup_tables.h"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/wait.h>

static void what_is_no_table_is_refused(void)
{
    char noise[4096];

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)draw(256);
    write_file(place("noise"), noise, sizeof(noise));
    write_file(place("short"), noise, 3);
    write_file(place("empty"), noise, 0);
    CHECK(is_refused(place("not-there.db"), MOE_ERR_IO));
    CHECK(is_refused("", MOE_ERR_IO));
    CHECK(is_refused(folder, MOE_ERR_IO));
    CHECK(is_refused(place("noise/below.db"), MOE_ERR_IO));
    CHECK(is_refused(place("noise"), MOE_ERR_FORMAT));
    CHECK(is_refused(place("short"), MOE_ERR_FORMAT));
    CHECK(is_refused(place("empty"), MOE_ERR_FORMAT));
}

static void a_name_that_is_too_long_is_refused(void)
{
    char name[3 * PATH_MAX];

    memset(name, 'x', sizeof(name));
    name[0] = '/';
    for (size_t length = PATH_MAX - 24; length < PATH_MAX + 24; length++) {
        name[length] = 0;
        CHECK(is_refused(name, MOE_ERR_IO));
        name[length] = 'x';
    }
    name[sizeof(name) - 1] = 0;
    CHECK(is_refused(name, MOE_ERR_IO));
    setenv("MOELOOKUP_DB", name, 1);
    setenv("XDG_DATA_HOME", name, 1);
    setenv("HOME", name, 1);
    moelookup_close(open_table(NULL));
    no_environment();
}

/* The database and its snapshot alike. */
static bool is_refused_with(const char *name, const char *sql)
{
    alter(altered(name, sql), sql);
    return is_refused(place(name), MOE_ERR_FORMAT);
}

static void newer_and_foreign_databases_are_refused(void)
{
    CHECK(is_refused_with("newer.db", "PRAGMA user_version=99"));
    CHECK(is_refused_with("older.db", "PRAGMA user_version=12"));
    CHECK(is_refused_with("foreign.db", "PRAGMA application_id=7"));
    CHECK(is_refused_with("no-entry.db", "DROP VIEW dictionary; DROP TABLE entry"));
}

static void an_unsound_file_on_the_search_path_is_passed_over(void)
{
    char noise[600] = "noise";

    write_file(place("unsound.db"), noise, sizeof(noise));
    write_small(place("sound.db"), "abacus", 96);
    setenv("MOELOOKUP_DB", place("unsound.db"), 1);
    setenv("MOETUNE_DB", place("sound.db"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    setenv("MOELOOKUP_DB", altered("newest.db", "PRAGMA user_version=99"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    no_environment();
}

static size_t file_size(const char *path)
{
    struct stat found = { 0 };

    CHECK(!stat(path, &found));
    return (size_t)found.st_size;
}

/* The snapshot is named, and no answer is lost. */
static bool only_the_database_answers(const char *name)
{
    char snapshot[64];
    struct moe_plan plan;

    snprintf(snapshot, sizeof(snapshot), "%s.published", name);
    CHECK(is_refused(place(snapshot), MOE_ERR_FORMAT));
    catch_stderr();
    plan = ask_file(place(name), layer(96), 256);
    release_stderr();
    return is_answer(plan, "r=2 d=4", MOE_EXACT) && strstr(heard, snapshot) &&
           strstr(heard, "reading ");
}

static void half_a_snapshot_is_refused_and_does_not_blind(void)
{
    static const size_t lengths[] = { 1, 15, 16, 17, 63, 64, 99, 100, 101, 511, 512, 513 };
    const char *name = "half.db.published";
    size_t whole, page = 4096;

    setenv("MOELOOKUP_LOG", "warn", 1);
    write_small(place("half.db"), "abacus", 96);
    whole = file_size(place(name));
    CHECK(!truncate(place(name), (off_t)(whole - 1)));
    CHECK(only_the_database_answers("half.db"));
    for (size_t length = whole - page; length > page; length -= page) {
        CHECK(!truncate(place(name), (off_t)length + 100));
        CHECK(only_the_database_answers("half.db"));
        CHECK(!truncate(place(name), (off_t)length));
        CHECK(only_the_database_answers("half.db"));
    }
    for (int i = sizeof(lengths) / sizeof(lengths[0]) - 1; i >= 0; i--) {
        CHECK(!truncate(place(name), (off_t)lengths[i]));
        CHECK(only_the_database_answers("half.db"));
    }
    CHECK(!unlink(place("half.db")));
    CHECK(is_refused(place("half.db"), MOE_ERR_FORMAT) && strstr(heard, "half.db.published"));
    setenv("MOELOOKUP_LOG", "error", 1);
}

enum { PAGE = 4096 };

static void overwrite(const char *path, const void *bytes, size_t at, size_t size)
{
    int fd = open(path, O_WRONLY);

    CHECK(fd >= 0 && pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size);
    close(fd);
}

/* With other bytes in the place of a page: refused, or nobody needs that page. */
static void page_is_seen(const char *name, const char *instead, size_t at, const uint8_t digest[32])
{
    struct moelookup *table = NULL;
    uint8_t got[32];
    int rc;

    overwrite(place(name), instead, at, PAGE);
    catch_stderr();
    rc = moelookup_open(place(name), &table);
    release_stderr();
    CHECK(rc == MOE_ERR_FORMAT || rc == MOE_OK);
    if (!rc)
        CHECK(!moelookup_digest(table, got) && !memcmp(digest, got, 32));
    moelookup_close(table);
}

static void a_page_that_was_never_written_is_seen(void)
{
    static char whole[1 << 20], zeros[PAGE];
    const char *name = "page.db.published";
    uint8_t digest[32];
    size_t size;

    write_small(place("page.db"), "abacus", 96);
    digest_of(place(name), digest);
    size = read_bytes(place(name), whole, sizeof(whole));
    for (size_t at = 0; at + PAGE <= size; at += PAGE) {
        page_is_seen(name, zeros, at, digest);
        overwrite(place(name), whole + at, at, PAGE);
    }
}

/* Only rows of one table: SQLite does not know a page of another one. */
static bool holds_entries(const char *page)
{
    return page[0] == 0x0d && memmem(page, PAGE, "adopted", 7);
}

static void a_page_in_anothers_place_is_seen(void)
{
    static char whole[1 << 20];
    const char *name = "torn.db.published";
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(place("torn.db"));
    struct ids ids = add_layer(store, &cluster, &shape);
    uint8_t digest[32];
    size_t size;
    int pages = 0;

    for (uint32_t b = 0; b < 200; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    publish_and_close(store);
    digest_of(place(name), digest);
    size = read_bytes(place(name), whole, sizeof(whole));
    for (size_t at = 0; at + 2 * PAGE <= size; at += PAGE)
        if (holds_entries(whole + at) && holds_entries(whole + at + PAGE)) {
            page_is_seen(name, whole + at + PAGE, at, digest);
            overwrite(place(name), whole + at, at, PAGE);
            pages++;
        }
    CHECK(pages > 2);
}

static void flip_byte(const char *path, size_t at, uint32_t with)
{
    FILE *file = fopen(path, "r+");
    int byte;

    fseek(file, (long)at, SEEK_SET);
    byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ (int)with, file);
    fclose(file);
}

/* Whatever the snapshot says: the database is sound, so that it opens, with legal plans. */
static void opens(const char *path)
{
    struct moelookup *table = NULL;
    struct moe_shape shape = layer(96);
    struct moelookup_view *view = NULL;

    catch_stderr();
    CHECK(moelookup_open(path, &table) == MOE_OK);
    if (moelookup_bind(table, &shape, NULL, &view) == MOE_OK)
        for (uint32_t b = 0; b < 8; b++) {
            struct moe_plan plan = ask(view, b * 128);

            CHECK(legal(&plan, &shape));
        }
    release_stderr();
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_damaged_snapshot_is_no_harm(void)
{
    const char *name = "damaged.db.published";
    size_t whole;

    write_small(place("damaged.db"), "abacus", 96);
    whole = file_size(place(name));
    for (int i = 0; i < 400; i++) {
        size_t at = chance(30) ? draw(100) : draw((uint32_t)whole);
        uint32_t with = 1 + draw(255);

        flip_byte(place(name), at, with);
        opens(place("damaged.db"));
        if (chance(80)) /* the rest piles up */
            flip_byte(place(name), at, with);
    }
}

/* Also one that leaves every text and every number readable. */
static void no_flipped_byte_of_a_snapshot_answers(void)
{
    const char *name = "flipped.db.published";
    size_t whole;

    setenv("MOELOOKUP_LOG", "warn", 1);
    write_small(place("flipped.db"), "abacus", 96);
    CHECK(is_answer(ask_file(place(name), layer(96), 256), "r=2 d=4", MOE_EXACT));
    whole = file_size(place(name));
    for (int i = 0; i < 600; i++) {
        size_t at = i < 50 ? whole - 1 - (size_t)i : draw((uint32_t)whole);
        uint32_t with = 1 + draw(255);

        flip_byte(place(name), at, with);
        if (!only_the_database_answers("flipped.db")) {
            printf("    byte %zu with %u\n", at, with);
            CHECK(false);
        }
        flip_byte(place(name), at, with);
    }
    CHECK(is_answer(ask_file(place(name), layer(96), 256), "r=2 d=4", MOE_EXACT));
    setenv("MOELOOKUP_LOG", "error", 1);
}

/* As older versions wrote them. */
static void a_snapshot_without_a_seal_answers(void)
{
    char snapshot[PATH_MAX];

    write_small(place("unsealed.db"), "abacus", 96);
    snprintf(snapshot, sizeof(snapshot), "%s", place("unsealed.db.published"));
    CHECK(!unlink(place("unsealed.db")) && file_size(snapshot) % PAGE);
    unseal(snapshot);
    CHECK(file_size(snapshot) % PAGE == 0);
    CHECK(is_answer(ask_file(snapshot, layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void a_deleted_file_goes_on_answering(void)
{
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("deleted.db"), "abacus", 96);
    table = open_table(place("deleted.db"));
    CHECK(!unlink(place("deleted.db.published")) && !unlink(place("deleted.db")));
    view = bind_layer(table, layer(96));
    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(table);
}

static int names_in(const char *path)
{
    DIR *list = opendir(path);
    int count = 0;

    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

static void opening_leaves_nothing_open_and_nothing_behind(void)
{
    int files, names;

    CHECK(!mkdir(place("bare"), 0777));
    write_small(place("bare/x.db"), "abacus", 96);
    /* Only the snapshot; nobody may write beside it. */
    CHECK(!unlink(place("bare/x.db")) && !unlink(place("bare/x.db.journal")));
    unlink(place("bare/x.db.owner"));
    CHECK(!chmod(place("bare/x.db.published"), 0444) && !chmod(place("bare"), 0555));
    files = names_in("/proc/self/fd");
    names = names_in(place("bare"));
    CHECK(is_answer(ask_file(place("bare/x.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(place("bare/x.db.published"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(names_in(place("bare")) == names && names_in("/proc/self/fd") == files);
    CHECK(!chmod(place("bare"), 0755));
}

static void the_work_database_answers_where_nothing_is_published(void)
{
    write_small(place("work.db"), "abacus", 96);
    CHECK(!unlink(place("work.db.published")));
    CHECK(is_answer(ask_file(place("work.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

/* Seen from another process: this one's own locks are not in its way. */
static bool is_reserved(const char *path)
{
    enum { RESERVED_BYTE = 0x40000001 }; /* SQLite's */
    pid_t child = fork();
    int status = 0;

    if (!child) {
        struct flock lock = { .l_type = F_WRLCK, .l_start = RESERVED_BYTE, .l_len = 1 };
        int fd = open(path, O_RDWR);

        _exit(fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return !WEXITSTATUS(status);
}

/* A tuner of this process may be in the middle of a transaction. */
static void a_look_up_takes_no_locks_from_its_process(void)
{
    const char *path = place("locked.db");
    struct moelookup *table = NULL;
    sqlite3 *writer = NULL;

    write_small(path, "abacus", 96);
    CHECK(!unlink(place("locked.db.published")));
    path = place("locked.db");
    CHECK(!sqlite3_open(path, &writer));
    CHECK(!sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL) && is_reserved(path));
    CHECK(!moelookup_open(path, &table) && is_reserved(path));
    moelookup_close(table);
    CHECK(is_reserved(path));
    sqlite3_close(writer);
    CHECK(!is_reserved(path));
}

/* A layer's buckets 2 to 5, 3 and 4 without padding, with a pin beyond them. */
static void write_counted(const char *path)
{
    struct store *store = new_store(path);
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct ids ids = add_layer(store, &cluster, &shape);

    for (uint32_t b = 2; b < 6; b++)
        add_entry(store, ids, b,
                  b == 3   ? "r=2 d=4 a=2dh e=sparse"
                  : b == 4 ? "r=1 e=sparse"
                           : "r=2 d=4");
    add_pin(store, ids, 8, 9, "r=4 d=2 e=sparse");
    publish_and_close(store);
}

static bool counted_answers(const char *path)
{
    struct moelookup *table = open_table(path);
    struct moelookup_view *view = bind_layer(table, layer(96));
    bool all = is_answer(ask(view, 300), "r=2 d=4", MOE_EXACT) &&
               is_answer(ask(view, 400), "r=2 d=4 a=2dh e=sparse", MOE_EXACT) &&
               is_answer(ask(view, 600), "r=1 e=sparse", MOE_EXACT) &&
               is_answer(ask(view, 700), "r=2 d=4", MOE_EXACT) &&
               is_answer(ask(view, 1100), "r=4 d=2 e=sparse", MOE_OVERRIDE);

    moelookup_view_free(view);
    moelookup_close(table);
    return all;
}

static void plans_without_padding_answer_from_every_form_of_a_table(void)
{
    const char *path = place("counted.db");
    uint8_t digests[2][32];
    struct packed packed;

    unlink(path);
    write_counted(path);
    packed = pack_file(path);
    CHECK(counted_answers(place("counted.db")));
    digest_of(place("counted.db"), digests[0]);
    CHECK(!unlink(place("counted.db.published")));
    CHECK(counted_answers(place("counted.db")));
    digest_of(place("counted.db"), digests[1]);
    CHECK(!memcmp(digests[0], digests[1], sizeof(digests[0])));
    write_file(place("counted.packed"), packed.bytes, packed.size);
    CHECK(counted_answers(place("counted.packed")));
    free(packed.bytes);
    /* A copy made by hand answers what its columns say. */
    alter(place("counted.db"), "DROP VIEW dictionary; DROP TABLE meta");
    CHECK(is_answer(ask_file(place("counted.db"), layer(96), 400), "r=1", MOE_EXACT));
    CHECK(is_answer(ask_file(place("counted.db"), layer(96), 1100), "r=1", MOE_OVERRIDE));
}

static void the_snapshot_answers_where_there_is_one(void)
{
    write_small(place("both.db"), "abacus", 96);
    alter(place("both.db"), "UPDATE entry SET plan='r=4 d=1 a=linear'");
    CHECK(is_answer(ask_file(place("both.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void a_name_may_hold_any_character(void)
{
    static const char *const names[] = { "a b.db", "a?mode=memory.db", "a#b.db",  "a%20b.db",
                                         "a%.db",  "a&b=c.db",         "a'b.db",  "a\"b.db",
                                         "file:a", ":memory:",         "a\\b.db", "\xc3\xa9.db" };
    char back[PATH_MAX];

    CHECK(getcwd(back, sizeof(back)) && !chdir(folder));
    write_small(place("named.db"), "abacus", 96);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK(!rename(i ? names[i - 1] : "named.db.published", names[i]));
        CHECK(is_answer(ask_file(place(names[i]), layer(96), 256), "r=2 d=4", MOE_EXACT));
        CHECK(is_answer(ask_file(names[i], layer(96), 256), "r=2 d=4", MOE_EXACT));
    }
    CHECK(!chdir(back));
}

/* As with HOME=/, which makes "//.local/share/moetune/moetune.db". */
static void a_path_may_begin_with_any_number_of_slashes(void)
{
    char path[512];

    write_small(place("slashes.db"), "abacus", 96);
    for (int more = 1; more < 5; more++) {
        snprintf(path, sizeof(path), "%.*s%s", more, "////", place("slashes.db"));
        CHECK(is_answer(ask_file(path, layer(96), 256), "r=2 d=4", MOE_EXACT));
    }
}

static void what_a_later_version_adds_is_passed_over(void)
{
    static const char *const additions[] = {
        "ALTER TABLE entry ADD COLUMN weather TEXT DEFAULT 'fair'",
        "INSERT INTO fingerprint_field VALUES(9999, 1, 'weather', 'soft', 'fair')",
        "UPDATE fingerprint SET text = text || 'weather = fair' || char(10)",
        "CREATE TABLE weather(x)",
        "INSERT INTO shape VALUES(9, 'E=2 k=2 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4"
        " weather=fair')",
    };

    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++)
        CHECK(is_answer(ask_file(altered("later.db", additions[i]), layer(96), 256), "r=2 d=4",
                        MOE_EXACT));
}

/* Each alters bucket 2; bucket 3 has to answer for it. */
static void an_entry_that_is_not_understood_is_no_entry(void)
{
    static const char *const alterations[] = {
        "UPDATE entry SET plan='r=2 d=4 a=linear z=1' WHERE bucket=2",
        "UPDATE entry SET plan='r=2 d=4 a=3dh' WHERE bucket=2",
        "UPDATE entry SET plan='' WHERE bucket=2",
        "UPDATE entry SET plan='r=2 d=4' || char(0) || ' a=2dh' WHERE bucket=2",
        "UPDATE entry SET plan='r=3 d=1 a=linear' WHERE bucket=2",
        "UPDATE entry SET bucket=-1 WHERE bucket=2",
        "UPDATE entry SET bucket=4294967296+2 WHERE bucket=2",
        "UPDATE entry SET window=0 WHERE bucket=2",
        "UPDATE entry SET window=-128 WHERE bucket=2",
        "UPDATE entry SET window=4294967296+128 WHERE bucket=2",
        "UPDATE entry SET shape=77 WHERE bucket=2",
        "UPDATE entry SET fingerprint=77 WHERE bucket=2",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++) {
        struct moe_plan got = ask_file(altered("strange.db", alterations[i]), layer(96), 256);

        CHECK(is_answer(got, "r=2 d=4", MOE_CLAMPED) && got.bucket == 3);
    }
}

static void a_layer_that_is_not_understood_is_no_layer(void)
{
    static const char *const alterations[] = {
        "UPDATE shape SET text = text || ' weather=fair'",
        "UPDATE shape SET text = replace(text, 'f32', 'f64')",
        "UPDATE shape SET text = replace(text, 'E=2', 'E=3')",
        "UPDATE shape SET text = ''",
        "DELETE FROM shape",
        "DELETE FROM fingerprint",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++)
        CHECK(is_answer(ask_file(altered("unknown.db", alterations[i]), layer(96), 256), "r=1",
                        MOE_DEFAULT));
}

static void a_time_that_is_no_time_is_unknown(void)
{
    static const char *const alterations[] = {
        "UPDATE entry SET time_us=NULL, default_us=NULL",
        "UPDATE entry SET time_us=9e999, default_us=-9e999",
        "UPDATE entry SET time_us=-1, default_us=-0.0",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++) {
        struct moe_plan got = ask_file(altered("times.db", alterations[i]), layer(96), 256);

        CHECK(is_answer(got, "r=2 d=4", MOE_EXACT));
        CHECK(got.time_us == 0 && got.default_us == 0 && !signbit(got.default_us));
    }
}

/* Only a writer that forgot the rules leaves overlapping pins in one file. */
static void an_illegal_pin_pins_nothing(void)
{
    const char *path = altered("pins.db", "INSERT INTO override VALUES"
                                          "(1,1,1,128,0,99,'r=3 d=1 a=linear','',0),"
                                          "(2,1,1,128,2,2,'r=4 d=1 a=linear','',0),"
                                          "(3,1,1,128,3,-1,'r=1 d=8 a=linear','',0),"
                                          "(4,1,1,128,5,3,'r=1 d=8 a=linear','',0)");

    CHECK(is_answer(ask_file(path, layer(96), 2 * 128), "r=4", MOE_OVERRIDE));
    CHECK(is_answer(ask_file(path, layer(96), 3 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(path, layer(96), 5 * 128), "r=2 d=4", MOE_EXACT));
}

/* Each narrow pin cuts the wide one. */
static void a_table_with_thousands_of_pins_can_be_packed(void)
{
    const char *path = altered(
        "many-pins.db",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)"
        " INSERT INTO override SELECT i, 1, 1, 128, 2 * i, 2 * i, 'r=4 d=1 a=linear', '', 0 FROM n;"
        "INSERT INTO override VALUES(9999, 1, 1, 128, 0, 1000000, 'r=1 d=8 a=linear', '', 0)");
    struct moelookup *table = open_table(path), *copy = unpacked(table);

    for (int i = 0; i < 2; i++) {
        struct moelookup_view *view = bind_layer(i ? copy : table, layer(96));

        for (uint32_t b = 2; b < 8000 && view; b++)
            if (!is_answer(ask(view, b * 128), b % 2 ? "r=1 d=8" : "r=4", MOE_OVERRIDE)) {
                CHECK(!"pinned");
                break;
            }
        moelookup_view_free(view);
    }
    moelookup_close(table);
    moelookup_close(copy);
}

static void a_file_of_packed_bytes_is_a_table(void)
{
    struct moelookup *table, *again;
    uint8_t bytes[4096], digests[2][32];
    size_t size = sizeof(bytes);

    write_small(place("to-pack.db"), "abacus", 96);
    table = open_table(place("to-pack.db"));
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    write_file(place("packed"), bytes, size);
    again = open_table(place("packed"));
    CHECK(moelookup_digest(table, digests[0]) == MOE_OK);
    CHECK(moelookup_digest(again, digests[1]) == MOE_OK);
    CHECK(!memcmp(digests[0], digests[1], 32));
    moelookup_close(again);
    moelookup_close(table);
    bytes[size / 2] ^= 1;
    write_file(place("packed"), bytes, size);
    CHECK(is_refused(place("packed"), MOE_ERR_FORMAT));
    write_file(place("packed"), bytes, 40);
    CHECK(is_refused(place("packed"), MOE_ERR_FORMAT));
}

static void of_a_packed_file_only_the_tables_are_taken(void)
{
    struct moelookup *table;
    char bytes[4096];
    size_t size = sizeof(bytes);

    write_small(place("forced.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=8", 1);
    table = open_table(place("forced.db"));
    no_environment();
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    write_file(place("forced"), bytes, size);
    CHECK(is_answer(ask_file(place("forced"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    moelookup_close(table);
}

static bool comma_locale(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8",
                                         "de_DE",       "ru_RU.utf8", "nl_NL.utf8",  NULL };

    for (int i = 0; names[i]; i++)
        if (setlocale(LC_ALL, names[i]) && *localeconv()->decimal_point == ',')
            return true;
    setlocale(LC_ALL, "C");
    return false;
}

static void a_comma_locale_changes_nothing(void)
{
    char texts[2][512];
    uint8_t digests[2][32];

    write_small(place("locale.db"), "abacus", 96);
    for (int i = 0; i < 2; i++) {
        struct moelookup *table;
        struct moelookup_view *view;

        if (i && !comma_locale()) {
            printf("  skipped: a comma locale (none is installed)\n");
            break;
        }
        table = open_table(place("locale.db"));
        view = bind_layer(table, layer(96));
        CHECK(moelookup_digest(table, digests[i]) == MOE_OK);
        CHECK(moelookup_explain(view, 300, texts[i], sizeof(texts[i])) > 0);
        CHECK(!i || (!memcmp(digests[0], digests[1], 32) && !strcmp(texts[0], texts[1])));
        moelookup_view_free(view);
        moelookup_close(table);
    }
    setlocale(LC_ALL, "C");
}

/* For an older library: the table, its snapshot, and beside it its packed bytes. */
static int leave_counted(const char *path)
{
    char name[512];
    struct packed packed;

    write_counted(path);
    packed = pack_file(path);
    snprintf(name, sizeof(name), "%s.packed", path);
    write_file(name, packed.bytes, packed.size);
    free(packed.bytes);
    return check_failures != 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_no_table_is_refused),
        TEST(a_name_that_is_too_long_is_refused),
        TEST(newer_and_foreign_databases_are_refused),
        TEST(an_unsound_file_on_the_search_path_is_passed_over),
        TEST(half_a_snapshot_is_refused_and_does_not_blind),
        TEST(a_page_that_was_never_written_is_seen),
        TEST(a_page_in_anothers_place_is_seen),
        TEST(a_damaged_snapshot_is_no_harm),
        TEST(no_flipped_byte_of_a_snapshot_answers),
        TEST(a_snapshot_without_a_seal_answers),
        TEST(a_deleted_file_goes_on_answering),
        TEST(opening_leaves_nothing_open_and_nothing_behind),
        TEST(the_work_database_answers_where_nothing_is_published),
        TEST(a_look_up_takes_no_locks_from_its_process),
        TEST(plans_without_padding_answer_from_every_form_of_a_table),
        TEST(the_snapshot_answers_where_there_is_one),
        TEST(a_name_may_hold_any_character),
        TEST(a_path_may_begin_with_any_number_of_slashes),
        TEST(what_a_later_version_adds_is_passed_over),
        TEST(an_entry_that_is_not_understood_is_no_entry),
        TEST(a_layer_that_is_not_understood_is_no_layer),
        TEST(a_time_that_is_no_time_is_unknown),
        TEST(an_illegal_pin_pins_nothing),
        TEST(a_table_with_thousands_of_pins_can_be_packed),
        TEST(a_file_of_packed_bytes_is_a_table),
        TEST(of_a_packed_file_only_the_tables_are_taken),
        TEST(a_comma_locale_changes_nothing),
    };

    if (argc > 2 && !strcmp(argv[1], "--counted"))
        return leave_counted(argv[2]);
    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
