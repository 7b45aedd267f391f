/* moetune export: tables for other sites. */
#include "common_rows.h"
#include "export.h"
#include "output_file.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum format { FORMAT_JSONL, FORMAT_CSV, FORMAT_HEADER, FORMAT_PACKED };
static const char *const format_words[] = { "jsonl", "csv", "header", "packed", NULL };

struct options {
    const char *db, *shape, *fingerprint, *file;
    uint32_t format;
    bool identify, full;
};

static const struct option_row rows[] = {
    { "output", "FILE", OPTION_TEXT, OPTION(file), "where to (standard output)", .letter = 'o' },
    { "format", "WORD", OPTION_WORD, OPTION(format),
      "jsonl (for import), csv, header (C), packed (for libmoelookup)", format_words },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), ""),
    { "fingerprint", "HASH", OPTION_TEXT, OPTION(fingerprint),
      "only clusters whose hash begins so" },
    { "identify", NULL, OPTION_FLAG, OPTION(identify),
      "host names as well; else they stay at home" },
    { "full", NULL, OPTION_FLAG, OPTION(full), "every timed step as well" },
    DB_ROW(OPTION(db)),
    { NULL },
};

static const struct options defaults = { .format = FORMAT_JSONL };

static int write_packed(const char *path, FILE *to)
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
    if (!rc && (fwrite(bytes, 1, size, to) != size || fflush(to)))
        rc = fail(ERR_IO, "the table cannot be written: %s", strerror(errno));
    free(bytes);
    moelookup_close(table);
    return rc;
}

static int write_table(struct store *store, const char *path, const struct options *o, FILE *to)
{
    struct moe_shape any = MOE_SHAPE_INIT;
    struct export_options choice = {
        .cluster = o->fingerprint, .shape = o->shape, .identify = o->identify, .full = o->full
    };
    if (o->shape && shape_parse(o->shape, &any))
        return ERR_ARGUMENT;
    switch ((enum format)o->format) {
    case FORMAT_JSONL: return export_lines(store, &choice, to);
    case FORMAT_CSV: return export_csv(store, &choice, to);
    case FORMAT_HEADER: return export_header(store, &choice, to);
    case FORMAT_PACKED: return write_packed(path, to);
    }
    return ERR_ARGUMENT;
}

/* Packed bytes are no text: they go past stdout, which lets only text through. */
static int write_out(struct store *store, const char *path, const struct options *o)
{
    struct output_file file;
    FILE *to;
    int rc;

    if (o->file) {
        TRY(output_begin(o->file, &file));
        return output_end(&file, write_table(store, path, o, file.to), NULL, true);
    }
    if (o->format != FORMAT_PACKED)
        return write_table(store, path, o, stdout);
    to = fdopen(dup(STDOUT_FILENO), "w");
    if (!to)
        return fail(ERR_IO, "standard output: %s", strerror(errno));
    rc = write_table(store, path, o, to);
    if (fclose(to) && !rc)
        rc = fail(ERR_IO, "standard output: %s", strerror(errno));
    return rc;
}

static int run(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    char path[PATH_MAX];
    struct store *store;
    int rc;

    (void)call;
    if (o->format == FORMAT_PACKED && (o->shape || o->fingerprint))
        return fail(ERR_ARGUMENT, "--format packed holds the whole table");
    TRY(store_path(o->db, false, path, sizeof(path)));
    TRY(store_read(path, &store));
    rc = write_out(store, path, o);
    if (rc == UNSUPPORTED)
        note("%s holds nothing to export", path);
    store_close(store);
    return rc;
}

const struct verb export_verb = {
    .name = "export",
    .summary = "tables for other sites: JSON lines, CSV, C, packed",
    .about = "Writes the dictionary with the proof of each entry. The same content gives the same "
             "bytes on every machine; host names, users and paths stay at home.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "export -o table.jsonl",
    .run = run,
};
