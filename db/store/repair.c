/* Checks and repairs a database. One list of rules says which rows make no sense: the check asks
 * it, and the repair leaves such rows out. */
#include "store_inside.h"

#include "cluster.h"
#include "declaration.h"
#include "output_file.h"
#include "plan.h"
#include "schema.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_CLUSTER "fingerprint NOT IN (SELECT id FROM fingerprint)"
#define NO_LAYER NO_CLUSTER " OR shape NOT IN (SELECT id FROM shape)"

/* SQL conditions: which rows of a table make no sense. A table stands after the tables that its
 * rows refer to. Nouns are the rows that all others refer to. */
static const struct rule {
    const char *table, *senseless;
    bool noun;
} rules[] = {
    { "fingerprint", "NOT is_cluster(text)", .noun = true },
    { "fingerprint_field", NO_CLUSTER " OR NOT is_field(name)", .noun = true },
    { "space", "NOT is_space(text)", .noun = true },
    { "shape", "NOT is_layer(text)", .noun = true },
    { "run", NO_CLUSTER },
    { "load", "name = ''" },
    { "trial", NO_LAYER " OR NOT is_plan(plan)" },
    { "sample", "trial NOT IN (SELECT id FROM trial)" },
    { "phase", "trial NOT IN (SELECT id FROM trial)" },
    { "entry", NO_LAYER " OR NOT is_plan(plan)" },
    { "history", NO_LAYER " OR NOT is_plan(plan)" },
    { "standing", NO_LAYER " OR NOT (static_plan IS NULL OR is_plan(static_plan))" },
    { "verification", NO_LAYER },
    { "override", NO_LAYER " OR NOT is_plan(plan) OR first_bucket > last_bucket" },
    { "meta", "(k BETWEEN 'entry ' AND 'entry!' OR k BETWEEN 'override ' AND 'override!')"
              " AND NOT is_plan(v)" },
    { "launch", NO_LAYER " OR NOT is_launch(launch || '|' || plan)"
                         " OR bucket < 0 OR NOT (time_us > 0) OR NOT (sd >= 0) OR samples < 1" },
    { "fixed", NO_LAYER },
};
enum { RULE_COUNT = sizeof(rules) / sizeof(rules[0]) };

/* Which tables a step of the repair is about. */
enum rule_choice { RULES_OF_NOUNS, ALL_RULES };

static bool is_cluster(const char *text)
{
    struct cluster cluster;

    return !cluster_parse(text, "a cluster", &cluster);
}

static bool is_field(const char *name)
{
    for (size_t i = 0; i < cluster_field_count; i++)
        if (!strcmp(cluster_fields[i].name, name))
            return true;
    return false;
}

/* Returns whether a text is a space. If so, this process knows the space from here on, because
 * layers and plans name it. */
static bool is_space(const char *text)
{
    const struct declaration *d;

    return !declaration_register(text, &d);
}

static bool is_layer(const char *text)
{
    struct moe_shape shape = { .struct_size = sizeof(shape) };

    return !shape_scan(text, &shape);
}

static bool is_plan(const char *text)
{
    struct moe_plan plan;

    return !plan_parse(text, &plan);
}

/* Reads "ep=4|ep=4 chunks=2 space=knobs@0a1b2c3d": returns whether the plan behind the bar is of
 * the launch before it. */
static bool is_launch(const char *text)
{
    const char *plan_text = strchr(text, '|') + 1;
    size_t length = (size_t)(plan_text - 1 - text);
    char words[DECLARATION_PLAN_BYTES];
    const struct declaration *d;
    struct moe_plan plan;

    if (plan_parse(plan_text, &plan) || !(d = declaration_find(plan.space)))
        return false;
    return strlen(declaration_launch_words(d, plan.choice, words)) == length &&
           !memcmp(words, text, length);
}

/* A function of SQL. `user_data` is the predicate above that it calls. */
static void call_predicate(sqlite3_context *context, int count, sqlite3_value **values)
{
    bool (*const *makes_sense)(const char *) = sqlite3_user_data(context);
    const char *text = (const char *)sqlite3_value_text(values[0]);
    bool has_no_zero_byte = text && strlen(text) == (size_t)sqlite3_value_bytes(values[0]);
    bool was_enabled = log_enable(false);

    (void)count;
    sqlite3_result_int(context, has_no_zero_byte && (*makes_sense)(text));
    log_enable(was_enabled);
}

static int add_functions(struct records *r)
{
    static const struct {
        const char *name;
        bool (*makes_sense)(const char *text);
    } functions[] = { { "is_cluster", is_cluster }, { "is_field", is_field },
                      { "is_space", is_space },     { "is_layer", is_layer },
                      { "is_plan", is_plan },       { "is_launch", is_launch } };
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, code = SQLITE_OK;

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && code == SQLITE_OK; i++)
        code =
            sqlite3_create_function(r->db, functions[i].name, 1, flags,
                                    (void *)&functions[i].makes_sense, call_predicate, NULL, NULL);
    return schema_status(r->db, code, r->path, "cannot be read");
}

int repair_check(struct records *r)
{
    char sql[512], answer[200];

    TRY(schema_ask(r->db, r->path, "PRAGMA integrity_check(1)", answer, sizeof(answer)));
    if (strcmp(answer, "ok") != 0)
        return fail(ERR_CORRUPT, "%s is damaged (%s)", r->path, answer);
    TRY(add_functions(r));
    for (int i = 0; i < RULE_COUNT; i++) {
        if (!schema_has(r->db, "main", rules[i].table))
            continue;
        snprintf(sql, sizeof(sql), "SELECT '%s ' || rowid FROM %s WHERE %s LIMIT 1", rules[i].table,
                 rules[i].table, rules[i].senseless);
        TRY(schema_ask(r->db, r->path, sql, answer, sizeof(answer)));
        if (*answer)
            return fail(ERR_CORRUPT, "%s is damaged (%s makes no sense)", r->path, answer);
    }
    return OK;
}

enum { SET_ASIDE_MAX = 9999 }; /* store_open() leaves room for a number of four digits */

int repair_set_aside(const char *path, char *to, size_t size)
{
    char target[PATH_MAX], rollback[PATH_MAX + 16];

    /* If the path is a symbolic link, the damaged file is the one behind it. */
    if (!realpath(path, target))
        return fail(ERR_IO, "%s cannot be set aside: %s", path, strerror(errno));
    for (int i = 1; i <= SET_ASIDE_MAX; i++) {
        if (snprintf(to, size, "%s.damaged-%d", target, i) >= (int)size)
            return fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
        if (!link(target, to)) {
            unlink(target);
            /* SQLite's own rollback journal belongs to the damaged file. */
            snprintf(rollback, sizeof(rollback), "%s-journal", target);
            unlink(rollback);
            note("%s is set aside as %s", path, to);
            return OK;
        }
        if (errno != EEXIST)
            break;
    }
    return fail(ERR_IO, "%s cannot be set aside: %s", path, strerror(errno));
}

void repair_put_back(const char *path, const char *aside)
{
    char target[PATH_MAX], rollback[PATH_MAX + 16];

    if (*aside)
        text_put(target, sizeof(target), "%.*s", (int)(strrchr(aside, '.') - aside), aside);
    else if (!realpath(path, target))
        return;
    snprintf(rollback, sizeof(rollback), "%s-journal", target);
    unlink(rollback);
    if (!*aside)
        unlink(target);
    else if (!rename(aside, target))
        note("%s is put back: it is as damaged as before", path);
}

/* Copies the rows that another database has and this one lacks, as far as they can be read. */
static void fill_gaps(struct records *r, const char *other, enum rule_choice choice)
{
    bool was_enabled = log_enable(false);

    if (!access(other, R_OK) && !schema_attach(r->db, other)) {
        for (int i = 0; i < RULE_COUNT; i++) {
            char sql[512];

            if (!schema_has(r->db, "source", rules[i].table))
                continue;
            schema_make(r->db, r->path, rules[i].table);
            snprintf(sql, sizeof(sql),
                     "INSERT OR IGNORE INTO main.%s SELECT * FROM source.%s WHERE NOT (%s)",
                     rules[i].table, rules[i].table, rules[i].senseless);
            if (rules[i].noun || choice == ALL_RULES)
                schema_run(r->db, r->path, sql);
        }
        schema_run(r->db, r->path, "DETACH source");
    }
    log_enable(was_enabled);
}

static int leave_out_senseless(struct records *r, enum rule_choice choice, int *count)
{
    char sql[512];

    for (int i = 0; i < RULE_COUNT; i++) {
        if ((choice == RULES_OF_NOUNS && !rules[i].noun) ||
            !schema_has(r->db, "main", rules[i].table))
            continue;
        snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s", rules[i].table, rules[i].senseless);
        TRY(schema_run(r->db, r->path, sql));
        *count += sqlite3_changes(r->db);
    }
    return OK;
}

int repair_journal(struct records *r)
{
    struct output_file file;
    char journal[PATH_MAX];

    TRY(store_beside(r->path, ".journal", journal));
    TRY(output_begin(journal, &file));
    return output_end(&file, records_write_all(r, file.to), r->path, !r->relaxed);
}

int repair_fill(struct records *r, const char *aside, size_t *skipped)
{
    char journal[PATH_MAX], snapshot[PATH_MAX];
    enum rule_choice missing;
    size_t lines = 0;
    int senseless = 0;

    *skipped = 0;
    TRY(store_beside(r->path, ".journal", journal));
    TRY(store_beside(r->path, ".published", snapshot));
    if (!access(journal, F_OK))
        TRY(records_replay(r, journal, &lines, skipped));
    TRY(add_functions(r));
    TRY(leave_out_senseless(r, RULES_OF_NOUNS, &senseless));
    /* A journal that was used knows which rows were deleted. Then only nouns are copied. */
    missing = lines > *skipped ? RULES_OF_NOUNS : ALL_RULES;
    fill_gaps(r, snapshot, missing);
    fill_gaps(r, aside, missing);
    TRY(leave_out_senseless(r, ALL_RULES, &senseless));
    TRY(schema_show_plans(r->db, r->path));
    note("%s is rebuilt from %zu lines of %s; %zu could not be used", r->path, lines, journal,
         *skipped);
    if (lines == *skipped)
        note("the rows in its snapshot and in the damaged file are added");
    if (senseless)
        note("%d rows made no sense and are left out", senseless);
    return OK;
}
