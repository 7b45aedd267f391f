/* Collects the rows of a table, sorts them by what they say instead of by their ids, and writes
 * them in one form. */
#include "export.h"

#include "bucket_key.h"
#include "json.h"
#include "plan.h"
#include "sha256.h"
#include "shape.h"
#include "standings.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    struct entry_row entry;
};

struct lines {
    struct store *store;
    const struct export_options *options;
    struct line *list;
    size_t count, room;
    uint32_t clusters, standings; /* that were written */
    struct cluster known;         /* the last one that was read */
    int64_t known_id;
    char known_hash[SHA256_HEX_BYTES];
};

static int read_cluster(struct lines *lines, int64_t id)
{
    uint8_t hash[HASH_BYTES];

    if (id == lines->known_id)
        return OK;
    TRY(store_cluster_get(lines->store, id, &lines->known));
    lines->known_id = id;
    cluster_hash(&lines->known, hash);
    sha256_hex(hash, lines->known_hash);
    return OK;
}

static bool chosen(const struct export_options *o, const char *hash, const struct moe_shape *shape)
{
    return (!o->cluster || !strncmp(hash, o->cluster, strlen(o->cluster))) &&
           shape_agrees(shape, o->shape);
}

static int collect(void *self, const struct entry_row *entry)
{
    struct lines *lines = self;
    struct moe_shape shape;
    struct line *line;

    TRY(read_cluster(lines, entry->cluster));
    TRY(store_shape_get(lines->store, entry->shape, &shape));
    if (!chosen(lines->options, lines->known_hash, &shape))
        return OK;
    if (lines->count == lines->room) {
        size_t room = 2 * lines->room + 64;
        struct line *more = realloc(lines->list, room * sizeof(*more));

        if (!more)
            return fail(ERR_NOMEM, "%zu entries", room);
        lines->list = more;
        lines->room = room;
    }
    line = &lines->list[lines->count++];
    memcpy(line->cluster, lines->known_hash, sizeof(line->cluster));
    shape_format(&shape, line->layer, sizeof(line->layer));
    line->entry = *entry;
    return OK;
}

static int by_content(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int by = strcmp(x->cluster, y->cluster);

    by = by ? by : strcmp(x->layer, y->layer);
    if (!by)
        by = (x->entry.window > y->entry.window) - (x->entry.window < y->entry.window);
    return by ? by : (x->entry.bucket > y->entry.bucket) - (x->entry.bucket < y->entry.bucket);
}

static int collect_all(struct store *store, const struct export_options *options,
                       struct lines *lines)
{
    int rc;

    *lines = (struct lines){ .store = store, .options = options };
    rc = store_entries(store, 0, 0, collect, lines);
    if (!rc && !lines->count)
        rc = UNSUPPORTED;
    if (rc) {
        free(lines->list);
        return rc;
    }
    qsort(lines->list, lines->count, sizeof(*lines->list), by_content);
    return OK;
}

/* ---- numbers and words, the same in every locale */

static uint64_t scale_of(int decimals)
{
    uint64_t scale = 1;

    while (decimals-- > 0)
        scale *= 10;
    return scale;
}

static const uint64_t no_digits = UINT64_MAX;

static uint64_t digits_of(double value, int decimals)
{
    double digits = round(fabs(value) * (double)scale_of(decimals));

    return digits < 1e15 ? (uint64_t)digits : no_digits;
}

double export_rounded(double value, int decimals)
{
    uint64_t digits = digits_of(value, decimals);

    if (digits == no_digits)
        return NAN;
    return (value < 0 && digits ? -1 : 1) * ((double)digits / (double)scale_of(decimals));
}

/* As integers: a printed double would take the locale's point. */
static void print_fixed(double value, int decimals, FILE *to)
{
    uint64_t scale = scale_of(decimals), digits = digits_of(value, decimals);

    if (digits == no_digits)
        fprintf(to, "null");
    else
        fprintf(to, "%s%" PRIu64 ".%0*" PRIu64, value < 0 && digits ? "-" : "", digits / scale,
                decimals, digits % scale);
}

static void print_plan(const char *name, const struct moe_plan *plan, FILE *to)
{
    char text[PLAN_TEXT_BYTES];

    if (!plan->struct_size) {
        fprintf(to, ",\"%s\":null", name);
        return;
    }
    moe_plan_format(plan, text, sizeof(text));
    fprintf(to, ",\"%s\":\"%s\"", name, text);
}

static void print_number(const char *name, double value, int decimals, FILE *to)
{
    fprintf(to, ",\"%s\":", name);
    print_fixed(value, decimals, to);
}

static void print_word(const char *name, const char *word, FILE *to)
{
    fprintf(to, ",\"%s\":", name);
    json_quote(word, to);
}

static void print_entry(const struct line *line, FILE *to)
{
    const struct entry_row *e = &line->entry;

    fprintf(
        to,
        "{\"cluster\":\"%s\",\"layer\":\"%s\",\"window\":%u,\"bucket\":%u,\"capacity\":%" PRIu64,
        line->cluster, line->layer, e->window, e->bucket, e->capacity);
    print_plan("plan", &e->plan, to);
    print_plan("runner_up", &e->runner_up, to);
    print_plan("search_winner", &e->search_winner, to);
    print_number("time_us", e->time_us, TIME_DECIMALS, to);
    print_number("low_us", e->low_us, TIME_DECIMALS, to);
    print_number("high_us", e->high_us, TIME_DECIMALS, to);
    print_number("default_us", e->default_us, TIME_DECIMALS, to);
    print_number("gain", e->gain, SHARE_DECIMALS, to);
    print_number("gain_low", e->gain_low, SHARE_DECIMALS, to);
    print_number("gain_high", e->gain_high, SHARE_DECIMALS, to);
    print_number("bound", e->bound, SHARE_DECIMALS, to);
    fprintf(to, ",\"samples\":%u,\"inferred\":%s,\"stale\":%s", e->samples,
            e->inferred ? "true" : "false", e->stale ? "true" : "false");
    print_word("effort", e->effort, to);
    print_word("search", e->search, to);
    print_word("reason", e->reason, to);
    print_word("decision", e->decision, to);
    fprintf(to, ",\"decided_s\":%" PRId64 ",\"throttled\":%u}\n", e->decided_s, e->throttled);
}

static void print_standing(const struct line *line, const struct standing_row *row, FILE *to)
{
    fprintf(to, "{\"standing_of\":\"%s\",\"layer\":\"%s\",\"window\":%u", line->cluster,
            line->layer, row->window);
    print_number("gain", row->gain, SHARE_DECIMALS, to);
    print_number("gain_low", row->gain_low, SHARE_DECIMALS, to);
    print_number("gain_high", row->gain_high, SHARE_DECIMALS, to);
    print_number("static_gain", row->static_gain, SHARE_DECIMALS, to);
    print_number("static_gain_low", row->static_gain_low, SHARE_DECIMALS, to);
    print_number("static_gain_high", row->static_gain_high, SHARE_DECIMALS, to);
    print_plan("static_plan", &row->static_plan, to);
    fprintf(to, ",\"rounds\":%u,\"decided_s\":%" PRId64 "}\n", row->rounds, row->decided_s);
}

/* Which of a site's ranks are slow says nothing of another site's. */
static bool is_of_single_ranks(const struct cluster_field *field)
{
    return field->offset == offsetof(struct cluster, rank_speeds_percent);
}

/* Fields in the order of the one list; what is unknown is left out, as in the text form. */
static void print_cluster(const struct cluster *cluster, const char *hash, bool identify, FILE *to)
{
    char value[1100];
    bool first = true;

    fprintf(to, "{\"fingerprint\":\"%s\",\"fields\":{", hash);
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];

        cluster_value(cluster, f, value, sizeof(value));
        if (!strcmp(value, "unknown") || (f->class == CLUSTER_INFO && !identify) ||
            is_of_single_ranks(f))
            continue;
        fprintf(to, "%s\"%s\":", first ? "" : ",", f->name);
        json_quote(value, to);
        first = false;
    }
    fprintf(to, "}}\n");
}

/* ---- JSON lines */

static int write_clusters(struct lines *lines, FILE *to)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct line *line = &lines->list[i];

        if (i && !strcmp(line->cluster, lines->list[i - 1].cluster))
            continue;
        TRY(read_cluster(lines, line->entry.cluster));
        print_cluster(&lines->known, line->cluster, lines->options->identify, to);
        lines->clusters++;
    }
    return OK;
}

static bool begins_table(const struct lines *lines, size_t i)
{
    const struct line *line = &lines->list[i];

    return !i || line->entry.cluster != line[-1].entry.cluster ||
           line->entry.shape != line[-1].entry.shape || line->entry.window != line[-1].entry.window;
}

/* Of a table that has changed since, or that is the default plan alone, nothing is known. */
static int write_standing(struct lines *lines, const struct line *line, FILE *to)
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
    print_standing(line, &row, to);
    lines->standings++;
    return OK;
}

static int write_standings(struct lines *lines, FILE *to)
{
    for (size_t i = 0; i < lines->count; i++)
        if (begins_table(lines, i))
            TRY(write_standing(lines, &lines->list[i], to));
    return OK;
}

struct trials {
    FILE *to;
    const struct line *line;
    int64_t id;
};

/* Samples come sorted by trial only if they were taken so: one line for each is never wrong. */
static int write_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct trials *t = self;
    char plan[PLAN_TEXT_BYTES];

    moe_plan_format(&trial->key.plan, plan, sizeof(plan));
    fprintf(t->to,
            "{\"sample_of\":\"%s\",\"layer\":\"%s\",\"window\":%u,\"bucket\":%u,\"plan\":\"%s\","
            "\"kind\":%d,\"round\":%u,\"ns\":%" PRId64 ",\"clock_mhz\":%u,\"throttled\":%u,"
            "\"lost_ns\":%" PRId64 "}\n",
            t->line->cluster, t->line->layer, t->line->entry.window, t->line->entry.bucket, plan,
            (int)sample->kind, sample->round, sample->ns, sample->gpu.clock_mhz,
            sample->gpu.throttled, sample->lost_ns);
    return OK;
}

static int write_samples(struct lines *lines, FILE *to)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct entry_row *e = &lines->list[i].entry;
        struct trials t = { .to = to, .line = &lines->list[i] };

        TRY(store_samples(lines->store, e->cluster, e->shape, e->window, e->bucket, write_sample,
                          &t));
    }
    return OK;
}

static int write_body(struct lines *lines, FILE *to)
{
    TRY(write_clusters(lines, to));
    for (size_t i = 0; i < lines->count; i++)
        print_entry(&lines->list[i], to);
    TRY(write_standings(lines, to));
    return lines->options->full ? write_samples(lines, to) : OK;
}

/* The first line vouches for the rest. */
static void write_all(const struct lines *lines, const char *body, size_t size, FILE *to)
{
    struct sha256 sum;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    sha256_init(&sum);
    sha256_add(&sum, body, size);
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
    fprintf(to,
            "{\"format\":\"moetune-table\",\"version\":%d,\"semantics\":%d,\"clusters\":%u,"
            "\"entries\":%zu,\"standings\":%u,\"sha256\":\"%s\"}\n",
            EXPORT_VERSION, CLUSTER_SEMANTICS, lines->clusters, lines->count, lines->standings,
            hex);
    fwrite(body, 1, size, to);
}

static int finish(FILE *to)
{
    return fflush(to) || ferror(to) ? fail(ERR_IO, "the table cannot be written") : OK;
}

int export_lines(struct store *store, const struct export_options *options, FILE *to)
{
    struct lines lines;
    char *body = NULL;
    size_t size = 0;
    FILE *memory;
    int rc;

    TRY(collect_all(store, options, &lines));
    memory = open_memstream(&body, &size);
    rc = memory ? write_body(&lines, memory) : fail(ERR_NOMEM, "the table's text");
    if (memory && fclose(memory) && !rc)
        rc = fail(ERR_NOMEM, "the table's text");
    if (!rc)
        write_all(&lines, body, size, to);
    free(body);
    free(lines.list);
    return rc ? rc : finish(to);
}

/* ---- for spreadsheets */

/* Quoted where the text holds what separates; quotes inside are doubled. */
static void print_cell(const char *text, FILE *to)
{
    if (!strpbrk(text, ",\"\r\n") && !strchr("=+-@", *text)) {
        fputs(text, to);
        return;
    }
    /* A spreadsheet would take these for the beginning of a formula. */
    fputs(strchr("=+-@", *text) ? "\"'" : "\"", to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', to);
}

static void print_csv_number(double value, int decimals, FILE *to)
{
    putc(',', to);
    if (isfinite(value))
        print_fixed(value, decimals, to);
}

static void print_csv_line(const struct lines *lines, const struct line *line, FILE *to)
{
    const struct entry_row *e = &line->entry;
    char plan[PLAN_TEXT_BYTES];

    moe_plan_format(&e->plan, plan, sizeof(plan));
    print_cell(lines->known.device, to);
    fprintf(to, ",%.12s,%s,%u,%u,%" PRIu64 ",%" PRIu64 ",%s", line->cluster, line->layer, e->window,
            e->bucket, (uint64_t)e->bucket * e->window, bucket_capacity(e->window, e->bucket),
            plan);
    print_csv_number(e->time_us, TIME_DECIMALS, to);
    print_csv_number(e->low_us, TIME_DECIMALS, to);
    print_csv_number(e->high_us, TIME_DECIMALS, to);
    print_csv_number(e->default_us, TIME_DECIMALS, to);
    print_csv_number(e->gain, SHARE_DECIMALS, to);
    print_csv_number(e->bound, SHARE_DECIMALS, to);
    fprintf(to, ",%u,%s,%s,%s,%u\r\n", e->samples, e->inferred ? "inferred" : "measured",
            e->stale ? "stale" : "fresh", e->decision, e->throttled);
}

int export_csv(struct store *store, const struct export_options *options, FILE *to)
{
    struct lines lines;
    int rc = OK;

    TRY(collect_all(store, options, &lines));
    fprintf(to, "device,cluster,layer,window,bucket,c_from,c_to,plan,time_us,low_us,high_us,"
                "default_us,gain,bound,samples,how,state,decision,throttled\r\n");
    for (size_t i = 0; i < lines.count && !rc; i++) {
        rc = read_cluster(&lines, lines.list[i].entry.cluster);
        if (!rc)
            print_csv_line(&lines, &lines.list[i], to);
    }
    free(lines.list);
    return rc ? rc : finish(to);
}

/* ---- to compile in */

/* What could end a comment or a line is left out. */
static void print_comment(const char *text, FILE *to)
{
    for (; *text; text++)
        if ((unsigned char)*text >= ' ' && *text != '*' && *text != '\\')
            putc(*text, to);
}

static int print_layer_comment(struct lines *lines, size_t i, FILE *to)
{
    const struct line *line = &lines->list[i];

    if (i && !strcmp(line->cluster, lines->list[i - 1].cluster) &&
        !strcmp(line->layer, lines->list[i - 1].layer))
        return OK;
    TRY(read_cluster(lines, line->entry.cluster));
    fprintf(to, "    /* ");
    print_comment(lines->known.device, to);
    fprintf(to, " (%.12s), %s */\n", line->cluster, line->layer);
    return OK;
}

/* One bit per axis: a quiet one has a column only where some plan uses it. */
static uint32_t header_axes(const struct lines *lines)
{
    uint32_t axes = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++) {
        bool used = !plan_axes[axis].quiet;

        for (size_t i = 0; i < lines->count && !used; i++)
            used = plan_value(&lines->list[i].entry.plan, axis) != plan_axes[axis].fallback;
        axes |= (uint32_t)used << axis;
    }
    return axes;
}

/* Their names, or their values in this plan. */
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

int export_header(struct store *store, const struct export_options *options, FILE *to)
{
    struct lines lines;
    uint32_t axes;
    int rc = OK;

    TRY(collect_all(store, options, &lines));
    axes = header_axes(&lines);
    fprintf(to,
            "/* A table of moetune: the plan of every bucket, c_from <= c < c_from + window. */\n"
            "static const struct {\n"
            "    const char *cluster, *layer;\n"
            "    unsigned window;\n    unsigned long long c_from;\n"
            "    unsigned ");
    print_axes(axes, NULL, to);
    fprintf(to, "; /* a: 0 linear, 1 2dh */\n} moetune_table[] = {\n");
    for (size_t i = 0; i < lines.count && !rc; i++) {
        const struct entry_row *e = &lines.list[i].entry;

        rc = print_layer_comment(&lines, i, to);
        fprintf(to, "    { \"%.12s\", \"%s\", %u, %" PRIu64 ", ", lines.list[i].cluster,
                lines.list[i].layer, e->window, (uint64_t)e->bucket * e->window);
        print_axes(axes, &e->plan, to);
        fputs(" },\n", to);
    }
    fprintf(to, "};\n");
    free(lines.list);
    return rc ? rc : finish(to);
}
