/* Tests exported tables: round trips, which entries answer after an import, and which of two
 * entries stays. */
#include "share_tables.h"

#include "claim_faults.h"

#include "declaration.h"

#include <locale.h>
#include <sqlite3.h>
#include <unistd.h>

/* ---- round trips */

static void what_comes_in_goes_out_as_the_same_bytes(void)
{
    for (int i = 0; i < 50; i++) {
        struct text t = some_table(1 + (int)draw(40)), again;
        struct store *store = new_store();
        struct import_result got = { 0 };

        CHECK(take_in(store, t, &got) == OK && got.added == got.entries);
        again = export_of(store, false);
        CHECK(equal(t, again));
        CHECK(take_in(store, t, &got) == OK && got.known);
        store_close(store);
        free(again.bytes);
        free(t.bytes);
    }
}

static void any_order_of_imports_gives_the_same_bytes(void)
{
    enum { TABLES = 5 };
    struct text tables[TABLES], first = { NULL, 0 };
    const char *given = getenv("MOETUNE_TEST_PERMUTATIONS");
    int permutations = given ? atoi(given) : 100;

    for (int i = 0; i < TABLES; i++)
        tables[i] = some_table(30);
    for (int p = 0; p < permutations; p++) {
        struct store *store = new_store();
        int order[TABLES];
        struct text t;

        for (int i = 0; i < TABLES; i++) {
            int j = (int)draw((uint32_t)i + 1);

            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < TABLES; i++) {
            struct import_result got;

            CHECK(take_in(store, tables[order[i]], &got) == OK);
        }
        t = export_of(store, false);
        store_close(store);
        if (!p)
            first = t;
        CHECK(equal(first, t));
        if (p)
            free(t.bytes);
    }
    free(first.bytes);
    for (int i = 0; i < TABLES; i++)
        free(tables[i].bytes);
}

static void the_same_entries_written_in_another_order_are_the_same_bytes(void)
{
    uint64_t begin = drawn;
    struct text a = some_table(30), b;
    struct store *store = new_store();
    struct cluster other = machine(9);
    struct moe_shape shape = layer(9);
    int64_t id;

    /* Ids differ: something was there before. */
    CHECK(store_cluster_add(store, &other, &id) == OK && store_shape_add(store, &shape, &id) == OK);
    drawn = begin;
    fill(store, 30);
    b = export_of(store, false);
    CHECK(equal(a, b));
    store_close(store);
    free(a.bytes);
    free(b.bytes);
}

static void host_names_stay_at_home(void)
{
    struct store *store = new_store();
    struct text t, identified;

    fill(store, 5);
    t = export_of(store, false);
    identified = export_of(store, true);
    CHECK(!memmem(t.bytes, t.size, "secret", 6));
    CHECK(memmem(identified.bytes, identified.size, "secret", 6));
    CHECK(!memmem(t.bytes, t.size, folder, strlen(folder)));
    store_close(store);
    free(t.bytes);
    free(identified.bytes);
}

static void numbers_do_not_follow_the_locale(void)
{
    uint64_t begin = drawn;
    struct text a = some_table(10), b;

    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("  skipped: a comma locale (none is installed)\n");
        free(a.bytes);
        return;
    }
    drawn = begin;
    b = some_table(10);
    setlocale(LC_ALL, "C");
    CHECK(equal(a, b));
    free(a.bytes);
    free(b.bytes);
}

/* ---- what answers, and which one stays */

static void what_was_measured_here_stays(void)
{
    struct store *store = new_store();
    struct text t = table_of("r=2 d=2", false, "thorough", 9999);
    struct import_result got;

    put_entry(store, "r=1", true, "quick", 1);
    CHECK(take_in(store, t, &got) == OK && got.lost == 1 && got.conflicts == 1);
    CHECK(only_entry(store).plan.r == 1 && only_entry(store).tier == TIER_LOCAL);
    store_close(store);
    free(t.bytes);
}

static void of_two_imports_the_order_is_fixed(void)
{
    struct text tables[] = {
        table_of("r=1 d=1", true, "thorough", 9999),
        table_of("r=1 d=2", false, "quick", 1),
        table_of("r=1 d=4", false, "normal", 1),
        table_of("r=1 d=8", false, "normal", 2),
    };
    struct store *store = new_store();
    struct import_result got;

    for (uint32_t i = 0; i < 4; i++) {
        CHECK(take_in(store, tables[i], &got) == OK);
        CHECK(got.added == (i == 0) && got.replaced == (i > 0));
        CHECK(only_entry(store).plan.d == 1u << i && only_entry(store).tier == TIER_IMPORTED);
    }
    store_close(store);
    for (int i = 0; i < 4; i++)
        free(tables[i].bytes);
}

static void is_the_same_in_either_order(const char *was, const char *is, const char * or)
{
    struct text t = table_of("r=1", false, "normal", 1), a = changed(t, was, is);
    struct text b = changed(t, was, or), ab = merge_of(a, b), ba = merge_of(b, a);

    CHECK(equal(ab, ba));
    free(t.bytes);
    free(a.bytes);
    free(b.bytes);
    free(ab.bytes);
    free(ba.bytes);
}

static void the_least_difference_decides_the_same_in_either_order(void)
{
    is_the_same_in_either_order("\"time_us\":1.000", "\"time_us\":1000.001",
                                "\"time_us\":1000.002");
    is_the_same_in_either_order("\"gain\":0.500000", "\"gain\":0.1", "\"gain\":0.2");
    is_the_same_in_either_order("\"effort\":\"normal\"", "\"effort\":\"some\"",
                                "\"effort\":\"any\"");
}

/* Else what a table says of itself would be another table. */
static void more_digits_than_are_written_make_no_difference(void)
{
    static const char *const finer[][2] = {
        { "\"time_us\":1.000", "\"time_us\":1.0004" },
        { "\"gain\":0.500000", "\"gain\":0.5000007" },
        { "\"gain\":0.500000", "\"gain\":123456789012.123456" },
        { "\"bound\":0.000000", "\"bound\":-0.0000001" },
        { "\"time_us\":1.000", "\"time_us\":999999999999.9999" },
    };

    for (size_t i = 0; i < sizeof(finer) / sizeof(finer[0]); i++) {
        struct text t = table_of("r=2", false, "normal", 7);
        struct text fine = changed(t, finer[i][0], finer[i][1]), own;
        struct store *store = new_store();
        struct import_result got;

        CHECK(take_in(store, fine, &got) == OK && got.added == 1);
        own = export_of(store, false);
        CHECK(take_in(store, own, &got) == OK && got.same == 1);
        store_close(store);
        free(t.bytes);
        free(fine.bytes);
        free(own.bytes);
    }
}

static int count_elsewhere(void *self, const struct cluster *cluster)
{
    (void)cluster;
    ++*(int *)self;
    return OK;
}

static void a_cluster_is_elsewhere_until_it_is_found_to_be_here(void)
{
    struct store *store = new_store();
    struct text t = table_of("r=2", false, "normal", 1);
    struct cluster here = machine(0);
    struct import_result got;
    int count = 0;
    int64_t id;

    CHECK(take_in(store, t, &got) == OK);
    CHECK(store_clusters_elsewhere(store, count_elsewhere, &count) == OK && count == 1);
    CHECK(store_cluster_add(store, &here, &id) == OK);
    count = 0;
    CHECK(store_clusters_elsewhere(store, count_elsewhere, &count) == OK && count == 0);
    store_close(store);
    free(t.bytes);
}

static void a_rehearsal_says_what_would_happen_and_leaves_no_trace(void)
{
    struct text t = some_table(10), before, after;
    struct store *store = new_store(), *rehearsal;
    struct import_result got, again;
    char path[128];

    put_entry(store, "r=1", false, "quick", 1);
    before = export_of(store, false);
    last_path(path, sizeof(path));
    for (int i = 0; i < 2; i++) {
        CHECK(store_dry_run(path, &rehearsal) == OK);
        CHECK(take_in(rehearsal, t, &got) == OK && !got.known);
        store_close(rehearsal);
    }
    after = export_of(store, false);
    CHECK(equal(before, after));
    CHECK(take_in(store, t, &again) == OK && !memcmp(&got, &again, sizeof(got)));
    store_close(store);
    snprintf(path, sizeof(path), "%s/none.db", folder);
    CHECK(store_dry_run(path, &rehearsal) == OK && take_in(rehearsal, t, &got) == OK);
    store_close(rehearsal);
    CHECK(access(path, F_OK));
    free(before.bytes);
    free(after.bytes);
    free(t.bytes);
}

/* ---- samples, and what older versions said */

static struct text table_with_sample(enum sample_kind kind)
{
    struct sample_row sample = { .kind = kind, .round = 24, .ns = 1000, .lost_ns = 77, .run = 9 };
    struct store *store = new_store();
    struct trial_row trial = { .capacity = 127, .state = TRIAL_OK };
    struct entry_row e;
    struct text t;

    put_entry(store, "r=2", false, "normal", 7);
    put_standing(store, a_standing(10));
    e = only_entry(store);
    trial.key = (struct trial_key){ e.cluster, e.shape, e.window, e.bucket, e.plan };
    CHECK(store_trial_begin(store, &trial) == OK);
    CHECK(store_sample_add(store, trial.id, &sample) == OK);
    t = export_with(store, (struct export_options){ .full = true });
    store_close(store);
    return t;
}

static void samples_say_what_others_took_and_of_which_rounds_they_are(void)
{
    struct text t = table_with_sample(SAMPLE_ROUNDS);

    CHECK(has(t, "\"kind\":3,\"round\":24,\"ns\":1000,") && has(t, ",\"lost_ns\":77}\n"));
    free(t.bytes);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"lost_ns\":77", "\"lost_ns\":78") == OK);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"lost_ns\":77", "\"lost_ns\":-1") == ERR_FORMAT);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, ",\"lost_ns\":77", "") == ERR_FORMAT);
    t = table_with_sample(SAMPLE_ROUNDS);
    CHECK(with_change_of(t, "\"kind\":3", "\"kind\":4") == ERR_FORMAT);
}

static struct text read_frozen(int version, const char *part)
{
    struct text t = { malloc(1 << 20), 0 };
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "tests/data/corpus/import/version-%d%s.jsonl", version, part);
    file = fopen(path, "r");
    CHECK(file != NULL);
    if (file) {
        t.size = fread(t.bytes, 1, 1 << 20, file);
        fclose(file);
    }
    return t;
}

static struct text body_of(struct text t)
{
    char *body = (char *)memchr(t.bytes, '\n', t.size) + 1;

    return (struct text){ body, t.size - (size_t)(body - t.bytes) };
}

/* The tables of version 1 are those of version 2 before any step was held back. */
static struct text without_throttled(struct text t)
{
    static const char held_back[] = "\"throttled\":7}";
    char *at;

    while ((at = memmem(t.bytes, t.size, held_back, strlen(held_back))))
        at[strlen(held_back) - 2] = '0';
    return t;
}

/* And says the same in the words of today, whether it came in with samples or without. */
static void what_was_once_exported_comes_in(void)
{
    for (int version = 1; version <= EXPORT_VERSION; version++) {
        struct text t = read_frozen(version, ""), full = read_frozen(version, "-full"), a, b;
        struct text now = version == 1 ? without_throttled(read_frozen(2, "")) : t;
        struct store *store = new_store(), *other = new_store();
        struct import_result got = { 0 };

        CHECK(take_in(store, t, &got) == OK && got.added == got.entries && got.entries > 15);
        CHECK((got.standings > 0) == (version >= 3));
        CHECK(take_in(other, full, &got) == OK && got.added == got.entries);
        a = export_of(store, true);
        b = export_of(other, true);
        CHECK(equal(a, b) && equal(body_of(a), body_of(now)));
        store_close(store);
        store_close(other);
        if (version == 1)
            free(now.bytes);
        free(t.bytes);
        free(full.bytes);
        free(a.bytes);
        free(b.bytes);
    }
}

/* ---- entries whose own numbers forbid their plan */

/* Bucket 0 as a database from elsewhere holds it, in which nothing was refused. */
static struct store *store_of(const struct claim_case *c, const char *word, const char *plan,
                              bool stands)
{
    struct store *store = new_store();
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = { .window = 128, .decided_s = 9, .effort = "normal" }, known;
    enum merge_outcome outcome;

    claim_put(c, word, &e);
    CHECK(moe_plan_parse(plan, &e.plan) == OK);
    CHECK(store_cluster_add(store, &cluster, &e.cluster) == OK);
    CHECK(store_shape_add(store, &shape, &e.shape) == OK);
    CHECK(store_entry_merge(store, &e, "import", &known, &outcome) == OK);
    CHECK(store_commit(store) == OK);
    if (stands)
        put_standing(store, a_standing(10));
    return store;
}

static const struct claim_case *const sound = &claim_cases[0];

/* A table whose only entry has these numbers, whatever they say. */
static struct text lines_of(const struct claim_case *c, const char *word, const char *plan,
                            bool stands)
{
    struct store *store = store_of(sound, "adopted", plan, stands);
    struct text t = export_of(store, false), t2;
    struct entry_row e = only_entry(store);
    char *was = NULL, *is = NULL, *end;
    size_t size;
    FILE *to = open_memstream(&was, &size);

    row_json_exported(&entry_table, &e, to);
    fclose(to);
    claim_put(c, word, &e);
    to = open_memstream(&is, &size);
    row_json_exported(&entry_table, &e, to);
    fclose(to);
    end = strstr(is, ",\"throttled\""); /* the same from here on */
    CHECK(end && strstr(was, end));
    t2 = changed(t, was, is);
    store_close(store);
    free(t.bytes);
    free(was);
    free(is);
    return t2;
}

/* Nobody writes it, nobody is told it, and `tune` measures it again. */
static void what_its_own_numbers_forbid_is_not_written(void)
{
    EACH_CLAIM(c, word)
    {
        struct store *store = store_of(c, *word, "r=0 d=1 a=linear", false);
        struct entry_row e = only_entry(store);
        int failed = check_failures;

        if (!c->field)
            CHECK(!e.fault && !entry_is(&e, ENTRY_UNSOUND));
        else
            CHECK(e.fault && !strcmp(e.fault->field, c->field) && entry_is(&e, ENTRY_UNSOUND) &&
                  entry_is(&e, ENTRY_OPEN));
        log_to(keep_words, NULL);
        CHECK(store_entry_put(store, &e, "test") == (c->field ? ERR_WRONG : OK));
        CHECK(!c->field || (strstr(said, c->field) && strstr(said, *word)));
        e.stale = true; /* it may become stale, and stays unsound */
        CHECK(store_entry_put(store, &e, "test") == OK);
        log_to(NULL, NULL);
        e = only_entry(store);
        CHECK(entry_is(&e, ENTRY_UNSOUND) == (c->field != NULL));
        if (check_failures > failed)
            claim_print(c, *word);
        store_close(store);
    }
}

static void what_its_own_numbers_forbid_is_neither_exported_nor_imported(void)
{
    EACH_CLAIM(c, word)
    {
        struct store *store = store_of(c, *word, "r=0 d=1 a=linear", false), *other = new_store();
        struct text t = lines_of(c, *word, "r=0 d=1 a=linear", false);
        bool written = isfinite(c->gain.value) || isnan(c->gain.value);
        FILE *nowhere = fopen("/dev/null", "w");
        struct import_result got = { 0 };
        int failed = check_failures, rc;

        written = written && !isinf(c->gain.low) && !isinf(c->gain.high);
        log_to(keep_words, NULL);
        rc = export_lines(store, &(struct export_options){ 0 }, nowhere);
        CHECK(rc == (c->field ? UNSUPPORTED : OK) &&
              (!c->field || (strstr(said, c->field) && strstr(said, "left out"))));
        rc = take_in(other, t, &got);
        CHECK(!written || rc == (c->field ? ERR_FORMAT : OK));
        CHECK(!written || !c->field || (strstr(said, "test, line 3: ") && strstr(said, c->field)));
        log_to(NULL, NULL);
        if (check_failures > failed)
            claim_print(c, *word);
        fclose(nowhere);
        free(t.bytes);
        store_close(store);
        store_close(other);
    }
}

/* Sound ones are those of which nothing is known, or of which something else counts. */
static void what_only_looks_forbidden_is_exported_and_imported(void)
{
    static const char *const alone_words[] = { "alone", "inferred", "incumbent", "tie" };

    for (int k = 0; k < 4; k++) {
        struct text t = lines_of(&claim_alone, alone_words[k], "r=0 d=1 a=linear", false);
        struct store *store = new_store();
        struct import_result got = { 0 };

        CHECK(take_in(store, t, &got) == OK && got.added == 1 && !only_entry(store).fault);
        free(t.bytes);
        t = export_of(store, false);
        store_close(store);
        free(t.bytes);
    }
    EACH_CLAIM(c, word)
    { /* of the default plan any numbers; of a static one what its table gains */
        bool is_static = !strcmp(*word, "static");
        struct store *store = store_of(c, *word, "r=1 d=1 a=linear", false);
        struct entry_row e = only_entry(store);

        CHECK(!e.fault && store_entry_put(store, &e, "test") == OK);
        store_close(store);
        store = store_of(c, *word, "r=0 d=1 a=linear", true);
        e = only_entry(store);
        CHECK(!e.fault == (!c->field || (is_static && c->is_loss)));
        if (is_static && c->is_loss) {
            struct text t = export_of(store, false);
            struct store *other = new_store();
            struct import_result got = { 0 };

            CHECK(take_in(other, t, &got) == OK && got.added == 1 && got.standings == 1);
            CHECK(!only_entry(other).fault);
            store_close(other);
            /* Of a standing that is older than the entry nothing follows. */
            CHECK(with_change_of(t, "\"decided_s\":10", "\"decided_s\":8") == ERR_FORMAT);
            put_standing(store, a_standing(8));
            log_to(keep_words, NULL);
            CHECK(export_lines(store, &(struct export_options){ 0 }, stdout) == UNSUPPORTED);
            log_to(NULL, NULL);
            CHECK(strstr(said, "left out"));
        }
        store_close(store);
    }
}

/* A space's text vouches for its name, and plans and buckets must be its own. */
static void a_space_that_is_not_what_it_says_is_refused(void)
{
    static const char *const changes[][3] = {
        { "{\"space\":\"dispatch@4", "{\"space\":\"dispatch@5", "line 3: \"space\" is not what" },
        { "{\"space\":\"dispatch@", "{\"space\":\"dispatcj@", "line 3: \"space\" is not what" },
        { "axis r 0 1 default", "axis r 0 1 2 default", "line 3: \"space\" is not what" },
        { "axis r 0 1 default", "axis r  0 1 default", "line 3: \"text\" declares no space" },
        { "need r=1", "need r=", "line 3: \"text\" declares no space" },
        { ",\"text\":", ",\"texts\":", "line 3: \"space\" is no space" },
        { "{\"space\":", "{\"spade\":", "line 3: \"" },
        { "\"spaces\":1,", "\"spaces\":2,", "holds 1 spaces, its first line says 2" },
        { "\"spaces\":1,", "", "line 1: \"spaces\" is missing" },
        { "\"version\":8,", "\"version\":7,", "line 1: \"spaces\" is not known" },
        { "\"window\":1,\"bucket\":1,", "\"window\":2,\"bucket\":1,",
          "line 4: \"window\" is not 1" },
        { "\"bucket\":8,\"capacity\":1024", "\"bucket\":15,\"capacity\":1024",
          "line 11: \"bucket\" is none of its space" },
        { "\"bucket\":8,\"capacity\":1024", "\"bucket\":8,\"capacity\":1025",
          "line 11: \"capacity\" lies outside" },
        { "\"plan\":\"r=1 chunks=1 ", "\"plan\":\"r=0 chunks=2 ", "line 4: \"plan\" is not legal" },
        { "\"plan\":\"r=1 chunks=1 ", "\"plan\":\"r=1 chunks=3 ", "line 4: \"plan\" is no plan" },
        { "\"plan\":\"r=1 chunks=1 dispatcher=rail space=dispatch@4404ad51\"",
          "\"plan\":\"r=1 d=1 a=linear\"", "line 4: \"plan\" is not legal" },
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        CHECK(with_change_of(read_frozen(8, ""), changes[i][0], changes[i][1]) == ERR_FORMAT);
        if (!strstr(said, changes[i][2]))
            printf("    %s: %s\n", changes[i][1], said);
        CHECK(strstr(said, changes[i][2]));
    }
}

/* ---- what launches run best */

static const struct declaration *launched(void)
{
    const struct declaration *d = NULL;

    CHECK(!declaration_register("space launched\naxis ep 4 8 default 4 restart\n"
                                "axis chunks 1 2 4 default 1\nkey tokens edges 64 256\n",
                                &d));
    return d;
}

/* A layer of that space with an entry, measured here, and some rows of launches. */
static struct ids {
    int64_t cluster, shape;
} fill_launches(struct store *store, uint32_t rows)
{
    const struct declaration *d = launched();
    struct cluster cluster = machine(0);
    struct moe_shape shape = layer(0);
    struct entry_row e = draw_entry(&shape);
    struct ids ids;

    shape.space = d->id;
    CHECK(store_cluster_add(store, &cluster, &ids.cluster) == OK);
    CHECK(store_shape_add(store, &shape, &ids.shape) == OK);
    e = (struct entry_row){ .cluster = ids.cluster,
                            .shape = ids.shape,
                            .window = 1,
                            .capacity = 64,
                            .plan = declared_plan(d->id, d->default_choice),
                            .time_us = 10,
                            .default_us = 10,
                            .decided_s = 1,
                            .effort = "normal",
                            .decision = "default" };
    CHECK(store_entry_put(store, &e, "test") == OK);
    for (uint32_t i = 0; i < rows; i++) {
        struct launch_row row = { .cluster = ids.cluster,
                                  .shape = ids.shape,
                                  .window = 1,
                                  .bucket = draw(3),
                                  .plan = declared_plan(d->id, d->plan[draw(d->plans)]),
                                  .time_us = 1 + draw(3),
                                  .sd = draw(3) * 1e-3,
                                  .samples = 1 + draw(3) };

        declaration_launch_words(d, row.plan.choice, row.launch);
        CHECK(store_launch_put(store, &row) == OK);
    }
    CHECK(store_commit(store) == OK);
    return ids;
}

static struct text launches_table(uint32_t rows)
{
    struct store *store = new_store();
    struct text t;

    fill_launches(store, rows);
    t = export_of(store, false);
    store_close(store);
    return t;
}

static bool says_version(struct text t, const char *version)
{
    char words[32];

    snprintf(words, sizeof(words), "\"version\":%s,", version);
    return memmem(t.bytes, t.size, words, strlen(words)) != NULL;
}

static void rows_of_launches_travel_in_any_order(void)
{
    for (int i = 0; i < 30; i++) {
        struct text a = launches_table(1 + draw(12)), b = launches_table(1 + draw(12)), both[2];
        struct text none = launches_table(0);
        struct import_result got;

        CHECK(says_version(a, "10") && says_version(none, "8"));
        for (int k = 0; k < 2; k++) {
            struct store *store = new_store();

            CHECK(take_in(store, k ? b : a, &got) == OK);
            both[k] = export_of(store, false);
            CHECK(equal(both[k], k ? b : a)); /* what came in goes out */
            free(both[k].bytes);
            CHECK(take_in(store, k ? a : b, &got) == OK);
            both[k] = export_of(store, false);
            store_close(store);
        }
        CHECK(equal(both[0], both[1]));
        free(both[0].bytes);
        free(both[1].bytes);
        free(none.bytes);
        free(a.bytes);
        free(b.bytes);
    }
}

static void rows_of_launches_stay_away_from_what_was_measured_here(void)
{
    struct text theirs = launches_table(12), before, after;
    struct store *store = new_store();
    struct import_result got;

    fill_launches(store, 3);
    before = export_of(store, false);
    CHECK(take_in(store, theirs, &got) == OK);
    after = export_of(store, false);
    CHECK(equal(before, after));
    store_close(store);
    free(before.bytes);
    free(after.bytes);
    free(theirs.bytes);
}

static void rows_of_launches_that_make_no_sense_are_refused(void)
{
    static const char *const changes[][3] = {
        { "\"launches\":18,", "\"launches\":17,", "holds 18 launches, its first line says 17" },
        { "\"launches\":18,", "", "line 1: \"launches\" is missing" },
        { "\"version\":10,", "\"version\":9,", "line 1: \"launches\" is not known" },
        { "\"launch\":\"dispatcher=2dh\"", "\"launch\":\"dispatcher=rail\"",
          "\"launch\" is not the one of its plan" },
        { "\"launch\":\"dispatcher=2dh\",\"bucket\":1,",
          "\"launch\":\"dispatcher=2dh\",\"bucket\":0,",
          "\"launch\" comes twice, or is out of order" },
        { "\"launch\":\"dispatcher=2dh\",\"bucket\":14,",
          "\"launch\":\"dispatcher=2dh\",\"bucket\":15,", "\"bucket\" is none of its space" },
        { "\"window\":1,\"launch\"", "\"window\":2,\"launch\"", "has no entries" },
        { "\"plan\":\"r=1 chunks=4 dispatcher=2dh", "\"plan\":\"r=0 chunks=4 dispatcher=2dh",
          "\"plan\" is not legal" },
        { "\"time_us\":103.000,\"sd\"", "\"time_us\":0,\"sd\"", "\"time_us\" is 0" },
        { "\"sd\":0.012500,\"samples\":3", "\"sd\":-1,\"samples\":3", "\"sd\" is no number" },
        { "\"sd\":0.012500,\"samples\":3", "\"sd\":null,\"samples\":3", "\"sd\" is not known" },
        { "\"sd\":0.012500,\"samples\":3", "\"sd\":0.012500,\"samples\":0", "\"samples\" is 0" },
        { "\"sd\":0.012500,\"samples\":3", "\"sd\":0.012500", "\"samples\" is missing" },
        { "{\"launch_of\":\"e", "{\"launch_of\":\"f", "was not described before" },
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        CHECK(with_change_of(read_frozen(10, ""), changes[i][0], changes[i][1]) == ERR_FORMAT);
        if (!strstr(said, changes[i][2]))
            printf("    %s: %s\n", changes[i][1], said);
        CHECK(strstr(said, changes[i][2]));
    }
}

/* A database from elsewhere may hold what no reader of the lines would take. */
static void senseless_rows_of_launches_are_left_out(void)
{
    static const char *const damages[] = { "bucket = 3", "launch = 'ep=5'", "time_us = 0",
                                           "plan = 'r=1 d=1 a=linear'", "samples = 0" };
    struct text none = launches_table(0);

    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct store *store = new_store();
        char path[128], sql[96];
        struct text t;
        sqlite3 *db;

        fill_launches(store, 1);
        last_path(path, sizeof(path));
        CHECK(!sqlite3_open(path, &db));
        snprintf(sql, sizeof(sql), "UPDATE launch SET %s", damages[i]);
        CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
        sqlite3_close(db);
        t = export_of(store, false);
        CHECK(equal(t, none));
        store_close(store);
        free(t.bytes);
    }
    free(none.bytes);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_comes_in_goes_out_as_the_same_bytes),
        TEST(any_order_of_imports_gives_the_same_bytes),
        TEST(the_same_entries_written_in_another_order_are_the_same_bytes),
        TEST(host_names_stay_at_home),
        TEST(numbers_do_not_follow_the_locale),
        TEST(what_was_measured_here_stays),
        TEST(of_two_imports_the_order_is_fixed),
        TEST(the_least_difference_decides_the_same_in_either_order),
        TEST(more_digits_than_are_written_make_no_difference),
        TEST(a_cluster_is_elsewhere_until_it_is_found_to_be_here),
        TEST(a_rehearsal_says_what_would_happen_and_leaves_no_trace),
        TEST(samples_say_what_others_took_and_of_which_rounds_they_are),
        TEST(what_was_once_exported_comes_in),
        TEST(what_its_own_numbers_forbid_is_not_written),
        TEST(what_its_own_numbers_forbid_is_neither_exported_nor_imported),
        TEST(what_only_looks_forbidden_is_exported_and_imported),
        TEST(a_space_that_is_not_what_it_says_is_refused),
        TEST(rows_of_launches_travel_in_any_order),
        TEST(rows_of_launches_stay_away_from_what_was_measured_here),
        TEST(rows_of_launches_that_make_no_sense_are_refused),
        TEST(senseless_rows_of_launches_are_left_out),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), draw_from_seed);
}
