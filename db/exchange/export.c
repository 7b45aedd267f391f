/* Collects the rows of a table, sorts them by content instead of by their ids, and writes them in
 * one form. */
#include "export.h"

#include "array.h"
#include "buckets.h"
#include "declaration.h"
#include "json.h"
#include "plan.h"
#include "row.h"
#include "sha256.h"
#include "shape.h"
#include "standings.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One entry, with its cluster and layer as text. */
struct export_line {
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    const struct declaration *declared; /* NULL: plans are moetune's own */
    struct entry_row entry;
};

/* An export while it is written: its entries, and what the first line will say. */
struct export_lines {
    struct store *store;
    const struct export_options *options;
    struct export_line *list;
    size_t count;
    uint32_t clusters, spaces, standings, launches; /* numbers written so far */
    int version;                 /* oldest version that can hold what was written */
    struct cluster last_cluster; /* the cluster that was read last, its id and its hash */
    int64_t last_cluster_id;
    char last_cluster_hash[SHA256_HEX_BYTES];
};

static int read_cluster(struct export_lines *lines, int64_t id)
{
    if (id == lines->last_cluster_id)
        return OK;
    TRY(store_cluster_get(lines->store, id, &lines->last_cluster));
    lines->last_cluster_id = id;
    cluster_hex(&lines->last_cluster, lines->last_cluster_hash);
    return OK;
}

/* Raises the version that the file claims, because readers of older ones do not know what is
 * written. What each version added:
 *
 *     4    plans without padding
 *     5    w, a=rail; a layer's layout, shares, layers, groups and router; loads
 *     6    a layer's order, projection, combine and racks
 *     7    proto
 *     8    declared spaces
 *     9    shares by tokens or by hidden units; the best plan of the other kind
 *     10   the best plans of launches */
static void need_version(struct export_lines *lines, int version)
{
    lines->version = version > lines->version ? version : lines->version;
}

static void note_plan(struct export_lines *lines, const struct moe_plan *plan)
{
    if (plan->e != MOE_PADDED)
        need_version(lines, 4);
    if (plan->w != MOE_KEEP || plan->a == MOE_A2A_RAIL)
        need_version(lines, 5);
    if (plan->proto != MOE_PROTO_AUTO)
        need_version(lines, 7);
}

/* Finds why a reader of the lines would refuse the entry; NULL: it would not. The reader sees a
 * standing only where it is exported. */
static int find_fault(const struct export_lines *lines, const struct entry_row *e,
                      const struct moe_shape *shape, const struct claim_fault **fault)
{
    const struct claim_fault *fault_alone = entry_fault(e, shape, NULL);
    struct standing_row standing;
    bool current;

    *fault = e->fault;
    if (!fault_alone || e->fault)
        return OK;
    TRY(store_standing_get(lines->store, e->cluster, e->shape, e->window, &standing));
    TRY(standing_is_current(lines->store, &standing, &current));
    if (!current || standing_fault(&standing).field)
        *fault = fault_alone;
    return OK;
}

static int collect_entry(void *self, const struct entry_row *entry)
{
    struct export_lines *lines = self;
    const struct export_options *o = lines->options;
    struct moe_shape shape;
    const struct claim_fault *fault;
    struct export_line line;

    TRY(read_cluster(lines, entry->cluster));
    TRY(store_shape_get(lines->store, entry->shape, &shape));
    if (!cluster_hex_agrees(lines->last_cluster_hash, o->cluster) ||
        !shape_agrees(&shape, o->shape))
        return OK;
    TRY(find_fault(lines, entry, &shape, &fault));
    if (fault) { /* older versions wrote such entries */
        note("bucket %u, %s (%s): \"%s\" %s: it is left out; `moetune tune` measures it again",
             entry->bucket, PLAN_TEXT(&entry->plan), entry->decision, fault->field, fault->why);
        return OK;
    }
    memcpy(line.cluster, lines->last_cluster_hash, sizeof(line.cluster));
    shape_format(&shape, line.layer, sizeof(line.layer));
    line.declared = declaration_find(shape.space);
    line.entry = *entry;
    if (shape.layout || shape.shares || shape.layers || shape.groups || shape.router ||
        *entry->load)
        need_version(lines, 5);
    if (shape.order || shape.projection || shape.combine || shape.ranks_per_rack)
        need_version(lines, 6);
    if (shape.space)
        need_version(lines, 8);
    if (shape.shares > MOE_SHARES_SPEED)
        need_version(lines, 9);
    note_plan(lines, &entry->plan);
    note_plan(lines, &entry->runner_up);
    note_plan(lines, &entry->search_winner);
    note_plan(lines, &entry->other);
    if (entry->other.struct_size || entry->no_other)
        need_version(lines, 9);
    ARRAY_APPEND(lines->list, lines->count, line);
    return OK;
}

static int by_content(const void *a, const void *b)
{
    const struct export_line *x = a, *y = b;
    int order = strcmp(x->cluster, y->cluster);

    order = order ? order : strcmp(x->layer, y->layer);
    if (!order)
        order = (x->entry.window > y->entry.window) - (x->entry.window < y->entry.window);
    return order ? order
                 : (x->entry.bucket > y->entry.bucket) - (x->entry.bucket < y->entry.bucket);
}

static int collect_all(struct store *store, const struct export_options *options,
                       struct export_lines *lines)
{
    int rc;

    *lines = (struct export_lines){ .store = store, .options = options, .version = EXPORT_LOWEST };
    rc = store_entries(store, 0, 0, collect_entry, lines);
    if (!rc && !lines->count)
        rc = UNSUPPORTED;
    if (rc) {
        free(lines->list);
        return rc;
    }
    qsort(lines->list, lines->count, sizeof(*lines->list), by_content);
    return OK;
}

/* ---- JSON lines. */

/* Begins a line with its cluster and layer. The name of the first member says what kind of line it
 * is. */
static void begin_line(const struct export_line *line, const char *name, FILE *to)
{
    fprintf(to, "{\"%s\":\"%s\",\"layer\":\"%s\"", name, line->cluster, line->layer);
}

/* Writes a line for each cluster. Fields come in the order of cluster_fields[], and unknown ones
 * are left out, as in the text form. */
static int write_clusters(struct export_lines *lines, FILE *to)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct export_line *line = &lines->list[i];
        const char *comma = "";

        if (i && !strcmp(line->cluster, lines->list[i - 1].cluster))
            continue;
        TRY(read_cluster(lines, line->entry.cluster));
        fprintf(to, "{\"fingerprint\":\"%s\",\"fields\":{", line->cluster);
        for (size_t k = 0; k < cluster_field_count; k++) {
            const struct cluster_field *f = &cluster_fields[k];
            const char *value = CLUSTER_VALUE(&lines->last_cluster, f);

            /* Which ranks are slow at one site says nothing of another site's. */
            if (!strcmp(value, "unknown") ||
                (f->class == CLUSTER_INFO && !lines->options->identify) ||
                f->offset == offsetof(struct cluster, rank_speeds_percent))
                continue;
            fprintf(to, "%s\"%s\":", comma, f->name);
            json_quote(value, to);
            comma = ",";
        }
        fprintf(to, "}}\n");
        lines->clusters++;
    }
    return OK;
}

/* Writes the spaces of the layers here, each once, sorted by tag. */
static void write_spaces(struct export_lines *lines, FILE *to)
{
    char last_tag[DECLARATION_TAG_BYTES] = "", next_tag[DECLARATION_TAG_BYTES];

    for (;;) {
        const struct declaration *next = NULL;

        for (size_t i = 0; i < lines->count; i++) {
            const struct declaration *d = lines->list[i].declared;
            char tag[DECLARATION_TAG_BYTES];

            if (!d || strcmp(declaration_tag(d, tag), last_tag) <= 0 ||
                (next && strcmp(tag, next_tag) >= 0))
                continue;
            next = d;
            memcpy(next_tag, tag, sizeof(next_tag));
        }
        if (!next)
            return;
        fprintf(to, "{\"space\":\"%s\",\"text\":", next_tag);
        json_quote(next->text, to);
        fputs("}\n", to);
        memcpy(last_tag, next_tag, sizeof(last_tag));
        lines->spaces++;
    }
}

/* Writes what a table is worth as a whole. Writes nothing if the table has changed since, or is the
 * default plan alone. */
static int write_standing(struct export_lines *lines, const struct export_line *line, FILE *to)
{
    const struct entry_row *e = &line->entry;
    struct standing_row row;
    bool current;
    int rc = store_standing_get(lines->store, e->cluster, e->shape, e->window, &row);

    if (rc)
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(lines->store, &row, &current));
    if (!current || standing_fault(&row).field)
        return OK;
    note_plan(lines, &row.static_plan);
    begin_line(line, "standing_of", to);
    row.decided_s = lines->options->undated ? 0 : row.decided_s;
    row_json_exported(&standing_table, &row, to);
    fputs("}\n", to);
    lines->standings++;
    return OK;
}

/* Writes the best plans of launches, without rows that a reader would refuse. */
static int write_launches(struct export_lines *lines, const struct export_line *line, FILE *to)
{
    const struct entry_row *e = &line->entry;
    struct moe_shape shape;
    struct row_list rows;

    if (!line->declared)
        return OK;
    TRY(store_shape_get(lines->store, e->shape, &shape));
    TRY(store_launches(lines->store, e->cluster, e->shape, e->window, &rows));
    EACH_ROW (launch_row, row, rows) {
        if (launch_fault(row, &shape) || row->time_us < 0.001)
            continue;
        need_version(lines, 10);
        begin_line(line, "launch_of", to);
        row_json_exported(&launch_table, row, to);
        fputs("}\n", to);
        lines->launches++;
    }
    free(rows.rows);
    return OK;
}

struct sample_writer {
    FILE *to;
    struct export_lines *lines;
    const struct export_line *line;
};

/* Writes one line for each sample, because samples may not come sorted by trial. */
static int write_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    const struct sample_writer *writer = self;

    if (*sample->load)
        need_version(writer->lines, 5);
    note_plan(writer->lines, &trial->key.plan);
    begin_line(writer->line, "sample_of", writer->to);
    fprintf(writer->to, ",\"window\":%u,\"bucket\":%u,\"plan\":\"%s\"", writer->line->entry.window,
            writer->line->entry.bucket, PLAN_TEXT(&trial->key.plan));
    row_json_exported(&sample_table, sample, writer->to);
    fputs("}\n", writer->to);
    return OK;
}

static int write_body(struct export_lines *lines, FILE *to)
{
    const struct export_line *list = lines->list;

    TRY(write_clusters(lines, to));
    write_spaces(lines, to);
    for (size_t i = 0; i < lines->count; i++) {
        struct entry_row entry = list[i].entry;

        entry.decided_s = lines->options->undated ? 0 : entry.decided_s;
        begin_line(&list[i], "cluster", to);
        row_json_exported(&entry_table, &entry, to);
        fputs("}\n", to);
    }
    for (size_t i = 0; i < lines->count; i++)
        if (!i || !SAME_TABLE(&list[i].entry, &list[i - 1].entry))
            TRY(write_standing(lines, &list[i], to));
    for (size_t i = 0; i < lines->count; i++)
        if (!i || !SAME_TABLE(&list[i].entry, &list[i - 1].entry))
            TRY(write_launches(lines, &list[i], to));
    for (size_t i = 0; i < lines->count && lines->options->full; i++) {
        const struct entry_row *e = &list[i].entry;
        struct sample_writer writer = { .to = to, .lines = lines, .line = &list[i] };

        TRY(store_samples(lines->store, e->cluster, e->shape, e->window, e->bucket, write_sample,
                          &writer));
    }
    return OK;
}

static int check_written(FILE *to)
{
    return fflush(to) || ferror(to) ? fail(ERR_IO, "the table cannot be written") : OK;
}

int export_lines(struct store *store, const struct export_options *options, FILE *to)
{
    struct export_lines lines;
    char hex[SHA256_HEX_BYTES], spaces[32] = "", launches[32] = "", *body = NULL;
    size_t size = 0;
    FILE *memory;
    int rc;

    TRY(collect_all(store, options, &lines));
    memory = open_memstream(&body, &size);
    rc = memory ? write_body(&lines, memory) : fail(ERR_NOMEM, "the table's text");
    if (memory && fclose(memory) && !rc)
        rc = fail(ERR_NOMEM, "the table's text");
    if (!rc) { /* the first line has the hash of all others */
        sha256_text(body, size, hex);
        if (lines.version >= 8)
            snprintf(spaces, sizeof(spaces), "\"spaces\":%u,", lines.spaces);
        if (lines.version >= 10)
            snprintf(launches, sizeof(launches), "\"launches\":%u,", lines.launches);
        fprintf(to,
                "{\"format\":\"moetune-table\",\"version\":%d,\"semantics\":%d,\"clusters\":%u,"
                "%s\"entries\":%zu,\"standings\":%u,%s\"sha256\":\"%s\"}\n",
                lines.version, CLUSTER_SEMANTICS, lines.clusters, spaces, lines.count,
                lines.standings, launches, hex);
        fwrite(body, 1, size, to);
    }
    free(body);
    free(lines.list);
    return rc ? rc : check_written(to);
}

/* ---- For spreadsheets. */

/* Prints a cell, in quotes where the text has a separator; quotes inside are doubled. */
static void print_cell(const char *text, FILE *to)
{
    if (!strpbrk(text, ",\"\r\n") && !strchr("=+-@", *text)) {
        fputs(text, to);
        return;
    }
    /* a spreadsheet would take such a cell for a formula */
    fputs(strchr("=+-@", *text) ? "\"'" : "\"", to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', to);
}

static void print_csv_line(const struct export_lines *lines, const struct export_line *line,
                           FILE *to)
{
    const struct entry_row *e = &line->entry;
    const struct declaration *d = line->declared;
    struct buckets buckets = { d, e->window };
    uint64_t last = buckets_highest(buckets, e->bucket);
    const char *view = entry_in_csv;
    const struct row_field *f;
    char name[ROW_NAME_BYTES], room[ROW_VALUE_BYTES], class[DECLARATION_CLASS_BYTES];

    print_cell(lines->last_cluster.device, to);
    fprintf(to, ",%.12s,%s,%u,%u,", line->cluster, line->layer, e->window, e->bucket);
    /* The bucket's first and last capacity, or key. A space's last range has no end. */
    fprintf(to, "%" PRIu64 ",", buckets_lowest(buckets, e->bucket));
    if (last < UINT64_MAX)
        fprintf(to, "%" PRIu64, last);
    while ((f = row_view_next(&entry_table, &view, name)))
        fprintf(to, ",%s",
                f->kind == ROW_BOOL ? f->words[row_integer(f, e)]
                                    : row_text(f, e, ROW_ROUNDED, room));
    fprintf(to, ",%s\r\n", d ? declaration_class_range(d, e->bucket, class) : "");
}

int export_csv(struct store *store, const struct export_options *options, FILE *to)
{
    struct export_lines lines;
    const char *view = entry_in_csv;
    char name[ROW_NAME_BYTES];
    int rc = OK;

    TRY(collect_all(store, options, &lines));
    fputs("device,cluster,layer,window,bucket,c_from,c_to", to);
    while (row_view_next(&entry_table, &view, name))
        fprintf(to, ",%s", name);
    fputs(",class\r\n", to);
    for (size_t i = 0; i < lines.count && !rc; i++) {
        rc = read_cluster(&lines, lines.list[i].entry.cluster);
        if (!rc)
            print_csv_line(&lines, &lines.list[i], to);
    }
    free(lines.list);
    return rc ? rc : check_written(to);
}

/* ---- To compile in. */

/* Prints the names of these axes, or their values in the plan. */
static void print_axes(uint32_t axes, const struct moe_plan *plan, FILE *to)
{
    for (size_t i = 0; i < plan_axis_count; i++) {
        if (!(axes >> i & 1))
            continue;
        fputs(i ? ", " : "", to);
        if (plan)
            fprintf(to, "%u", plan_value(plan, i));
        else
            fputs(plan_axes[i].name, to);
    }
}

/* Explains numbers: for `a` the words that every reader knows and those that some plan has; for
 * quiet axes all words. */
static void print_words(const struct export_lines *lines, uint32_t axes, FILE *to)
{
    fputs("a: 0 linear, 1 2dh", to);
    for (uint32_t a = MOE_A2A_RAIL; a < PLAN_A2A_COUNT; a++) {
        size_t i = 0;

        while (i < lines->count && lines->list[i].entry.plan.a != a)
            i++;
        if (i < lines->count)
            fprintf(to, ", %u %s", a, plan_axes[PLAN_A].words[a]);
    }
    for (size_t i = 0; i < plan_axis_count; i++) {
        const struct axis *axis = &plan_axes[i];

        if (!(axes >> i & 1) || !axis->quiet || !axis->words)
            continue;
        fprintf(to, "; %s:", axis->name);
        for (int word = 0; axis->words[word]; word++)
            fprintf(to, "%s %d %s", word ? "," : "", word, axis->words[word]);
    }
}

static int write_header(struct export_lines *lines, FILE *to)
{
    uint32_t axes = 0; /* one bit for each */

    /* A quiet axis has a column only where some plan uses it. */
    for (size_t axis = 0; axis < plan_axis_count; axis++) {
        bool used = !plan_axes[axis].quiet;

        for (size_t i = 0; i < lines->count && !used; i++)
            used = plan_value(&lines->list[i].entry.plan, axis) != plan_axes[axis].fallback;
        axes |= (uint32_t)used << axis;
    }
    for (size_t i = 0; i < lines->count; i++)
        if (lines->list[i].declared)
            return fail(
                ERR_ARGUMENT,
                "--format header has columns for r, d and a, and layers here have plans of the "
                "space %s: use --format jsonl, csv or packed, or --shape of another layer",
                lines->list[i].declared->name);
    fprintf(to,
            "/* A table of moetune: the plan of every bucket, c_from <= c < c_from + window. */\n"
            "static const struct {\n"
            "    const char *cluster, *layer;\n"
            "    unsigned window;\n    unsigned long long c_from;\n"
            "    unsigned ");
    print_axes(axes, NULL, to);
    fputs("; /* ", to);
    print_words(lines, axes, to);
    fprintf(to, " */\n} moetune_table[] = {\n");
    for (size_t i = 0; i < lines->count; i++) {
        const struct export_line *line = &lines->list[i];
        const struct entry_row *e = &line->entry;

        if (!i || strcmp(line->cluster, line[-1].cluster) != 0 ||
            strcmp(line->layer, line[-1].layer) != 0) {
            TRY(read_cluster(lines, e->cluster));
            fprintf(to, "    /* ");
            for (const char *c = lines->last_cluster.device; *c; c++) /* leaves out what could end a
                                                                       * comment */
                if ((unsigned char)*c >= ' ' && *c != '*' && *c != '\\')
                    putc(*c, to);
            fprintf(to, " (%.12s), %s */\n", line->cluster, line->layer);
        }
        fprintf(to, "    { \"%.12s\", \"%s\", %u, %" PRIu64 ", ", line->cluster, line->layer,
                e->window, (uint64_t)e->bucket * e->window);
        print_axes(axes, &e->plan, to);
        fputs(" },\n", to);
    }
    fprintf(to, "};\n");
    return OK;
}

int export_header(struct store *store, const struct export_options *options, FILE *to)
{
    struct export_lines lines;
    int rc;

    TRY(collect_all(store, options, &lines));
    rc = write_header(&lines, to);
    free(lines.list);
    return rc ? rc : check_written(to);
}
