/* moetune export: writes tables for other sites, and the answers for one layer for other programs.
 */
#include "common_rows.h"
#include "export.h"
#include "export_thresholds.h"
#include "format.h"
#include "launch_table.h"
#include "output_file.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "store.h"
#include "thresholds.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first four formats hold a table.  From FORM_ANSWERS on they hold the answers for one layer.
 */
enum form { FORM_JSONL, FORM_CSV, FORM_HEADER, FORM_PACKED, FORM_ANSWERS };
static const char *const format_words[] = { "jsonl",         "csv",        "header",   "packed",
                                            "env",           "flags",      "dotted",   "toml",
                                            "nested",        "json",       "vllm-moe", "sglang-moe",
                                            "sglang-deepep", "thresholds", NULL };
#define ANSWER_FORMATS                                                                             \
    "env, flags, dotted, toml, nested, json, vllm-moe, sglang-moe, sglang-deepep, thresholds"
static const struct format *const answer_formats[] = {
    &format_env,  &format_flags,    &format_dotted,     &format_toml,         &format_nested,
    &format_json, &format_vllm_moe, &format_sglang_moe, &format_sglang_deepep
};
/* The last format is about all buckets together, and also needs the samples. */
enum { FORM_THRESHOLDS = FORM_ANSWERS + sizeof(answer_formats) / sizeof(answer_formats[0]) };

/* The values of the options in `rows`. */
struct options {
    const char *db, *shape, *fingerprint, *file;
    uint32_t format;
    bool identify, full;
    /* For the answers for one layer: */
    const char *space, *key, *class, *launch;
    struct option_list sets;
    bool check;
    struct thresholds_options thresholds;
};

static const struct option_row rows[] = {
    { "output", "FILE", OPTION_TEXT, OPTION(file), "output file; -: standard output [-]",
      .letter = 'o' },
    { "format", "WORD", OPTION_WORD, OPTION(format),
      "a table: jsonl (for import), csv, header (C), packed (for libmoelookup); or the answers for "
      "one layer: " ANSWER_FORMATS " [jsonl]",
      format_words },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), ""),
    FINGERPRINT_ROW(OPTION(fingerprint)),
    { "identify", NULL, OPTION_FLAG, OPTION(identify), "include host names" },
    { "full", NULL, OPTION_FLAG, OPTION(full), "include every timed step" },
    DB_ROW(OPTION(db)),
    { "answers for one layer", .kind = OPTION_GROUP },
    { "space", "NAME|FILE", OPTION_TEXT, OPTION(space),
      "a layer of this declared space; --shape chooses if it has several" },
    { "key", "N", OPTION_TEXT, OPTION(key),
      "only for this key (the capacity, for moetune's own layer) [all keys, if one plan or launch "
      "answers them]" },
    { "class", "X", OPTION_TEXT, OPTION(class), "only for this class beside the key" },
    { "launch", "WORDS", OPTION_TEXT, OPTION(launch),
      "inside this launch of the space, as \"backend=deepep ep=8\" [the one that tune chose]" },
    TRAFFIC_ROW("traffic", OPTION(thresholds.traffic),
                "choose the launch and the switch points by this traffic"),
    { "set", "NAME=VALUE", OPTION_LIST, OPTION(sets),
      "what the reader calls an axis (empty: leave it out), or a fact of its file; may be "
      "repeated" },
    { "check", NULL, OPTION_FLAG, OPTION(check),
      "read the file back by the reader's rules, and print what answers which keys" },
    { "thresholds: the best few switch points over the key", .kind = OPTION_GROUP },
    { "switches", "K", OPTION_COUNT, OPTION(thresholds.switches),
      "largest number of switch points in each class", .most = THRESHOLDS_SWITCHES_MAX },
    JSON_ROW(OPTION(thresholds.json)),
    { NULL },
};

static const struct options defaults = { .format = FORM_JSONL, .thresholds.switches = 1 };

/* ---- a table */

static int write_packed(const char *path, FILE *out)
{
    struct moelookup *table;
    size_t size;
    void *bytes;
    int rc;

    TRY(moelookup_open(path, &table));
    rc = moelookup_pack(table, NULL, &size);
    bytes = malloc(size);
    if (!rc)
        rc = bytes ? moelookup_pack(table, bytes, &size) : ERR_NOMEM;
    if (!rc && (fwrite(bytes, 1, size, out) != size || fflush(out)))
        rc = fail(ERR_IO, "the table cannot be written: %s", strerror(errno));
    free(bytes);
    moelookup_close(table);
    return rc;
}

static int write_table(struct store *store, const char *path, const struct options *o, FILE *out)
{
    struct moe_shape parsed = MOE_SHAPE_INIT;
    struct export_options filter = {
        .cluster = o->fingerprint, .shape = o->shape, .identify = o->identify, .full = o->full
    };
    if (o->shape && shape_parse(o->shape, &parsed))
        return ERR_ARGUMENT;
    switch ((enum form)o->format) {
    case FORM_JSONL: return export_lines(store, &filter, out);
    case FORM_CSV: return export_csv(store, &filter, out);
    case FORM_HEADER: return export_header(store, &filter, out);
    case FORM_PACKED: return write_packed(path, out);
    case FORM_ANSWERS: break;
    }
    return ERR_ARGUMENT;
}

/* Writes the table to the file of -o, or to standard output.  Packed bytes go past stdout's stream,
 * which lets only text through (screen_guard()). */
static int write_table_file(struct store *store, const char *path, const struct options *o)
{
    struct output_file file;
    FILE *packed;
    int rc;

    if (o->file) {
        TRY(output_begin(o->file, &file));
        rc = output_end(&file, write_table(store, path, o, file.to), NULL, true);
        if (!rc)
            note("%s is written", o->file);
        return rc;
    }
    if (o->format != FORM_PACKED)
        return write_table(store, path, o, stdout);
    packed = fdopen(dup(STDOUT_FILENO), "w");
    if (!packed)
        return fail(ERR_IO, "standard output: %s", strerror(errno));
    rc = write_table(store, path, o, packed);
    if (fclose(packed) && !rc)
        rc = fail(ERR_IO, "standard output: %s", strerror(errno));
    return rc;
}

/* ---- the answers for one layer, as other programs read them */

/* Makes the output's path.  If `file` is a folder, the file gets the name that its reader looks
 * for; the folders in that name are created. */
static int make_output_path(const struct format *format, const struct format_job *job,
                            const char *file, char path[PATH_MAX])
{
    char name[FORMAT_NAME_BYTES];
    struct stat info;
    size_t length = strlen(file);
    bool is_folder = (!stat(file, &info) && S_ISDIR(info.st_mode)) || file[length - 1] == '/';

    if (is_folder && !format->file_name)
        return fail(ERR_ARGUMENT, "--output %s: a file is wanted", file);
    if (is_folder)
        TRY(format->file_name(job, name));
    if (snprintf(path, PATH_MAX, "%s%s%s", file, is_folder && file[length - 1] != '/' ? "/" : "",
                 is_folder ? name : "") >= PATH_MAX)
        return fail(ERR_ARGUMENT, "--output %.60s...: the name is too long", file);
    TRY(format_check_name(format, job, path));
    for (char *slash = is_folder ? strchr(path + length, '/') : NULL; slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        *slash = '/';
    }
    return OK;
}

static int write_thresholds(const char *path, const struct answers *answers,
                            const struct options *o)
{
    struct output_file output;
    struct store *store;
    int rc;

    TRY(store_read(path, &store));
    if (!o->file) {
        rc = export_thresholds(store, answers, &o->thresholds, stdout);
    } else {
        rc = output_begin(o->file, &output);
        if (!rc)
            rc = output_end(&output, export_thresholds(store, answers, &o->thresholds, output.to),
                            NULL, true);
        if (!rc)
            note("%s is written", o->file);
    }
    store_close(store);
    return rc;
}

static int write_answers(const struct format *format, struct answers *answers,
                         const struct options *o)
{
    struct format_set sets[OPTION_LIST_MAX];
    struct format_job job = { answers, sets, (size_t)o->sets.count };
    struct output_file output;
    char path[PATH_MAX];

    for (int i = 0; i < o->sets.count; i++) {
        const char *set_text = o->sets.items[i], *value = strchr(set_text, '=');
        size_t name_length = value ? (size_t)(value - set_text) : 0;

        if (!name_length || name_length >= sizeof(sets[i].name))
            return fail(ERR_ARGUMENT, "--set %s: NAME=VALUE is wanted", set_text);
        snprintf(sets[i].name, sizeof(sets[i].name), "%.*s", (int)name_length, set_text);
        sets[i].value = value + 1;
    }
    if (format->one && !o->key)
        answers_keep_launch(answers);
    TRY(format_check(format, &job));
    if (!o->file)
        return format->write(&job, stdout);
    TRY(make_output_path(format, &job, o->file, path));
    TRY(output_begin(path, &output));
    TRY(output_end(&output, format->write(&job, output.to), NULL, true));
    note("%s is written", path);
    return o->check ? format_read_back(format, &job, path) : OK;
}

/* Writes the answers for one layer in a format, and reads them back with --check.  format NULL:
 * writes thresholds. */
static int export_answers(const struct format *format, const char *database,
                          const struct options *o)
{
    struct answers_choice choice = { .path = database,
                                     .space = o->space,
                                     .shape = o->shape,
                                     .cluster = o->fingerprint,
                                     .launch = o->launch,
                                     .keyed = o->key,
                                     .class = -1 };
    char launch_words[DECLARATION_PLAN_BYTES];
    struct moe_shape parsed = MOE_SHAPE_INIT;
    struct moelookup *library;
    struct answers answers;
    int rc;

    if (o->shape && shape_parse(o->shape, &parsed))
        return ERR_ARGUMENT;
    if (!format && !o->space)
        return fail(ERR_ARGUMENT, "--format thresholds: --space must name a declared space, for "
                                  "moetune's own layer changes plans at every step");
    if (!format && (o->key || o->sets.count || o->check))
        return fail(ERR_ARGUMENT, "--format thresholds is about all keys, and its options have "
                                  "fixed names: --key, --set and --check go with other formats");
    if (o->check && !format->read)
        return fail(ERR_ARGUMENT, "--check: only the program that --format %s is for can read it",
                    format->name);
    if (o->check && !o->file)
        return fail(ERR_ARGUMENT, "--check reads a file back: name it with -o");
    if (o->key)
        TRY(space_key_read("key", o->key, &choice.key));
    if (o->class)
        TRY(space_class_read(o->class, &choice.class));
    TRY(moelookup_open(database, &library));
    rc = answers_open(library, &choice, &answers);
    if (!rc && format && o->thresholds.traffic.count) {
        rc = launch_table_choose(database, &answers.shape, lookup_view_cluster(answers.view),
                                 &o->thresholds.traffic, launch_words);
        answers_close(&answers);
        choice.launch = launch_words;
        rc = rc ? rc : answers_open(library, &choice, &answers);
    }
    if (!rc) {
        rc = format ? write_answers(format, &answers, o) : write_thresholds(database, &answers, o);
        answers_close(&answers);
    }
    moelookup_close(library);
    return rc;
}

static int verb_export(const struct verb_call *call, void *options)
{
    struct options *o = options;
    char path[PATH_MAX], space_name[SPACE_NAME_BYTES];
    struct store *store;
    int rc;

    (void)call;
    TRY(space_name_of(&o->space, space_name));
    if (o->file && !strcmp(o->file, "-"))
        o->file = NULL;
    if (o->format == FORM_PACKED && (o->shape || o->fingerprint))
        return fail(ERR_ARGUMENT, "--format packed holds the whole table");
    if (o->format < FORM_ANSWERS && (o->space || o->key || o->class || o->sets.count || o->check ||
                                     o->launch || o->thresholds.traffic.count))
        return fail(ERR_ARGUMENT,
                    "--format %s holds tables: --space, --key, --class, --launch, --traffic, --set "
                    "and --check go with " ANSWER_FORMATS,
                    format_words[o->format]);
    if (o->format >= FORM_ANSWERS && (o->identify || o->full))
        return fail(ERR_ARGUMENT, "--format %s holds answers: --identify and --full go with tables",
                    format_words[o->format]);
    if (o->format != FORM_THRESHOLDS &&
        (o->thresholds.switches != defaults.thresholds.switches || o->thresholds.json))
        return fail(ERR_ARGUMENT, "--switches and --json go with --format thresholds");
    if (o->launch && o->thresholds.traffic.count)
        return fail(ERR_ARGUMENT, "--launch and --traffic both choose a launch: give one of them");
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    if (o->format >= FORM_ANSWERS)
        return export_answers(
            o->format == FORM_THRESHOLDS ? NULL : answer_formats[o->format - FORM_ANSWERS], path,
            o);
    TRY(store_read(path, &store));
    rc = write_table_file(store, path, o);
    if (rc == UNSUPPORTED)
        note("%s holds nothing to export", path);
    store_close(store);
    return rc;
}

const struct verb export_verb = {
    .name = "export",
    .summary = "write the table for other sites and programs (JSON, CSV ...)",
    .about = "Writes the table with the proof of each entry. Equal content gives equal bytes on "
             "every machine. Host names, users and paths are left out.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "export -o table.jsonl",
    .run = verb_export,
};
