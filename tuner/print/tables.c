/* Prints the tables of a store one after the other: for a person, as a list of layers, or as JSON.
 */
#include "tables.h"

#include "array.h"
#include "buckets.h"
#include "declaration.h"
#include "facts.h"
#include "grid.h"
#include "json.h"
#include "launch_table.h"
#include "plan.h"
#include "rank_speeds.h"
#include "row.h"
#include "sha256.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "text.h"
#include "trainer_view.h"
#include "virtual_ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the legend explains: kinds of default plans (LEGEND_DEFAULTS: all kinds), and tables timed
 * as a whole. */
enum {
    LEGEND_USUAL = 1,
    LEGEND_HIDDEN = 2,
    LEGEND_DECLARED = 4,
    LEGEND_DEFAULTS = 7,
    LEGEND_WHOLE = 8
};

/* A walk over the tables of a store, which collects the entries of one table and prints it by
 * print_one(). */
struct tables {
    struct store *store;
    FILE *out;
    const struct trainer_view *trainers; /* NULL: only the table itself is wanted */
    int (*print_one)(struct tables *tables);
    const char *shape_filter;          /* only layers that shape_agrees() with it; NULL: all */
    uint32_t window;                   /* only this width; 0: all */
    bool line_per_bucket;              /* a line for each bucket */
    const struct option_list *traffic; /* see launch_table_read(); NULL: none */
    unsigned legend_words;             /* what the legend has to explain */
    uint32_t count;                    /* tables printed so far */
    /* The current table: */
    struct moe_shape shape;
    struct entry_row *entries;
    size_t entry_count;
};

static int print_collected_table(struct tables *t)
{
    if (!t->entry_count)
        return OK;
    TRY(store_shape_get(t->store, t->entries->shape, &t->shape));
    if (shape_agrees(&t->shape, t->shape_filter)) {
        TRY(t->print_one(t));
        t->count++;
    }
    t->entry_count = 0;
    return OK;
}

static int collect_entry(void *self, const struct entry_row *e)
{
    struct tables *t = self;

    if (t->window && e->window != t->window)
        return OK;
    if (t->entry_count && !SAME_TABLE(e, t->entries))
        TRY(print_collected_table(t));
    ARRAY_APPEND(t->entries, t->entry_count, *e);
    return OK;
}

/* Prints all tables.  UNSUPPORTED: there is no table. */
static int print_tables(struct tables *tables, int64_t cluster, int64_t shape)
{
    int rc = store_entries(tables->store, cluster, shape, collect_entry, tables);

    if (!rc)
        rc = print_collected_table(tables);
    free(tables->entries);
    return rc ? rc : tables->count ? OK : UNSUPPORTED;
}

/* ---- the lines above a table */

int tables_heading(struct store *store, int64_t cluster_id, int64_t shape_id, FILE *out)
{
    struct cluster cluster;
    struct moe_shape shape;
    char hash[SHA256_HEX_BYTES];
    const char *reality;
    int64_t clusters;
    size_t ranks;
    double slowest;

    TRY(store_cluster_get(store, cluster_id, &cluster));
    TRY(store_cluster_count(store, &clusters));
    TRY(store_shape_get(store, shape_id, &shape));
    reality = backend_is_real(cluster.backend) ? ""
              : strcmp(cluster.backend, "sim") ? "VIRTUAL ranks beside one that is measured: "
                                               : "MODELLED, not measured: ";
    fprintf(out, "%s    %s\ncluster  %s%s, W=%u ranks", shape_is_none(&shape) ? "space" : "layer",
            SHAPE_TEXT(&shape), reality, UTF8_LINE(cluster.device), cluster.ranks);
    fprintf(out, " on %u %snode%s, m=%u%s\n", cluster.nodes,
            cluster.ranks_per_node ? "" : "unequal ", cluster.nodes == 1 ? "" : "s",
            cluster.ranks_per_node, cluster.ranks_per_node ? " on each" : "");
    if (!strcmp(cluster.backend, "virtual") && !strcmp(virtual_kernels(&cluster), "cuda"))
        fprintf(out, "copies   %s\n", UTF8_LINE(cluster.comm_library));
    /* Other clusters may print the same line, and differ in a library or a link. */
    if (clusters > 1) {
        cluster_hex(&cluster, hash);
        fprintf(out, "         fingerprint %.12s\n", hash);
    }
    if (cluster_steps_are(&cluster))
        fprintf(out, "steps    %s\n",
                cluster_steps_are(&cluster) == STEPS_GRAPHS
                    ? "launched as CUDA graphs; where experts have unlike rows each is a product "
                      "of its own"
                    : "queued whole before the GPU begins, as by a host that is ahead");
    if (rank_speeds_parse(cluster.rank_speeds_percent, &ranks, &slowest) &&
        slowest < 1 - rank_speeds_unequal)
        fprintf(out, "ranks    unequal: %s with %.2f of the fastest's speed\n",
                shape.shares != MOE_SHARES_EQUAL ? "work is shared by speed with one"
                                                 : "every step waits for one",
                slowest);
    return OK;
}

/* ---- a line: neighbouring buckets with one plan */

enum { CAPACITY_COLUMN = 1 };
static const struct grid_column columns[] = {
    { "bucket", GRID_LEFT },    { "capacity", GRID_LEFT },  { "plan", GRID_LEFT },
    { "step\nms", GRID_POINT }, { "saves\n%", GRID_POINT }, { "at\nleast", GRID_POINT },
    { "how", GRID_LEFT },
};

/* One line of a table: neighbouring buckets with one plan. */
struct table_line {
    const struct entry_row *first, *last;
    /* The undecided bucket in which a plan probably saves most, else the one in which most may be
     * left. */
    const struct entry_row *least_sure;
    const struct override_row *pin;
    struct plan_range range;
    uint32_t undecided;
};

/* Adds a time with four digits: 80 columns have room for no more, and no step is known better. */
static int add_time_cell(struct grid *grid, const struct plan_range *range)
{
    double ms = range->time_us * 1e-3;
    int digits = isfinite(ms) && ms > 0 ? (int)fmax(0, fmin(6, 3 - floor(log10(ms)))) : -1;

    return digits < 0 ? grid_cell(grid, "-") : grid_cell(grid, "%.*f", digits, ms);
}

static int add_range_cell(struct grid *grid, uint64_t first, uint64_t last)
{
    return first == last ? grid_cell(grid, "%" PRIu64, first)
                         : grid_cell(grid, "%" PRIu64 "-%" PRIu64, first, last);
}

enum { NOTE_BYTES = 512 };

/* Writes what another plan may save in the line's least certain bucket, and which plan.  Steps at
 * other times differ, so pairs of steps and neighbouring buckets decide what may be saved. */
static int add_undecided(const struct tables *t, const struct table_line *line,
                         char note[NOTE_BYTES])
{
    const struct entry_row *e = line->least_sure;
    const struct trial_key key = { e->cluster, e->shape, e->window, e->bucket, .plan = e->plan };
    char rival[RIVAL_TEXT_BYTES] = "";
    struct trial_list trials;
    int rc = trials_read(t->store, &key, true, &trials);

    if (!rc)
        trials_rival(trials.items, trials.count, e->bucket, &e->plan, rival);
    trials_free(&trials);
    text_add(note, NOTE_BYTES, "%s", *note ? ", " : "");
    if (line->range.buckets > 1)
        text_add(note, NOTE_BYTES, "%u ", line->undecided);
    text_add(note, NOTE_BYTES, "undecided");
    if (line->undecided > 1)
        text_add(note, NOTE_BYTES, ", most in bucket %u", e->bucket);
    if (e->likely.struct_size) {
        text_add(note, NOTE_BYTES, ": %s", LIKELY_TEXT(e));
        return rc;
    }
    text_add(note, NOTE_BYTES, "%s%s", *rival ? ": " : "", rival);
    if (!isnan(e->bound))
        text_add(note, NOTE_BYTES, "%s %s", *rival ? "; by all steps together" : ":", LEFT_TEXT(e));
    return rc;
}

/* Returns how many buckets of the line are in this state (one bit of enum entry_state). */
static uint32_t buckets_in(const struct table_line *line, unsigned state)
{
    int bit = 0;

    while (!(state >> bit & 1))
        bit++;
    return line->range.states[bit];
}

static enum ink line_ink(const struct table_line *line)
{
    if (buckets_in(line, ENTRY_STALE) || buckets_in(line, ENTRY_REFUTED) ||
        buckets_in(line, ENTRY_UNSOUND))
        return INK_BAD;
    if (line->undecided || buckets_in(line, ENTRY_CUT))
        return INK_OPEN;
    if (buckets_in(line, ENTRY_INFERRED) == line->range.buckets)
        return INK_FAINT;
    return line->range.gain.low > 0 ? INK_GOOD : INK_PLAIN;
}

static int add_line(const struct tables *t, const struct table_line *line, struct grid *grid)
{
    uint32_t window = line->first->window, first_bucket = line->first->bucket,
             last_bucket = line->last->bucket;
    char how[FOUND_BYTES], note[NOTE_BYTES] = "", *states = NULL;

    plan_range_found(&line->range, line->first, ENTRY_TIE, how); /* add_undecided() writes these */
    /* The states of several buckets stand on a line of their own: a screen has 80 columns. */
    if (line->range.buckets > 1)
        states = strstr(how, ", ");
    if (states) {
        text_put(note, sizeof(note), "%s", states + 2);
        *states = 0;
    }
    if (line->undecided)
        TRY(add_undecided(t, line, note));
    if (line->pin && line->pin->plan.struct_size)
        text_add(note, sizeof(note), "%spinned: %s", *note ? "; " : "",
                 PLAN_WORDS(&line->pin->plan));
    TRY(grid_row(grid, line_ink(line)));
    TRY(add_range_cell(grid, first_bucket, last_bucket));
    if (t->shape.space)
        TRY(grid_cell(grid, "%s",
                      BUCKETS_TEXT(buckets_of(&t->shape, window), first_bucket, last_bucket)));
    else
        TRY(add_range_cell(grid, (uint64_t)first_bucket * window,
                           bucket_capacity(window, last_bucket)));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(&line->first->plan)));
    TRY(add_time_cell(grid, &line->range));
    TRY(grid_percent(grid, line->range.gain.value));
    TRY(grid_percent(grid, line->range.gain.low));
    TRY(grid_cell(grid, "%s", how));
    return *note ? grid_note(grid, note) : OK;
}

static const struct override_row *pin_of(const struct tables *t, const struct entry_row *e)
{
    return t->trainers ? trainer_view_pin(t->trainers, e) : NULL;
}

/* Returns the end of the entries that share a line with entry `first`. */
static size_t line_end(const struct tables *t, size_t first)
{
    const struct entry_row *entries = t->entries;
    size_t end = first + 1;

    if (t->line_per_bucket)
        return end;
    while (end < t->entry_count && entries_join(&entries[end - 1], &entries[end], 1) &&
           !strcmp(entries[end].load, entries[first].load) &&
           pin_of(t, &entries[end]) == pin_of(t, &entries[first]))
        end++;
    return end;
}

static int print_lines(const struct tables *t)
{
    const struct declaration *declaration = declaration_find(t->shape.space);
    struct grid_column titled[sizeof(columns) / sizeof(columns[0])];
    const struct entry_row *entries = t->entries;
    struct grid grid = GRID_OF(titled);
    int rc = OK;

    memcpy(titled, columns, sizeof(columns));
    if (declaration)
        titled[CAPACITY_COLUMN].title = declaration->key;
    for (size_t i = 0, end; i < t->entry_count && !rc; i = end) {
        struct table_line line = { .first = &entries[i], .pin = pin_of(t, &entries[i]) };

        end = line_end(t, i);
        line.last = &entries[end - 1];
        line.range = plan_range_of(&entries[i], end - i);
        for (const struct entry_row *e = line.first; e <= line.last; e++) {
            if (!entry_is_undecided(e))
                continue;
            if (!line.undecided || entry_leaves_more(e, line.least_sure))
                line.least_sure = e;
            line.undecided++;
        }
        rc = add_line(t, &line, &grid);
    }
    if (!rc)
        grid_print(&grid, t->out);
    grid_clear(&grid);
    return rc;
}

/* ---- a table for a person */

/* Prints how old the table is, its pins, and why it does not answer trainers. */
static int print_footer(const struct tables *t)
{
    int64_t oldest_s = INT64_MAX, newest_s = 0;
    char why[WHY_SILENT_BYTES];
    const char *oldest, *newest;

    for (const struct entry_row *e = t->entries; e < t->entries + t->entry_count; e++) {
        oldest_s = e->decided_s < oldest_s ? e->decided_s : oldest_s;
        newest_s = e->decided_s > newest_s ? e->decided_s : newest_s;
    }
    oldest = DATE_TEXT(oldest_s, DATE_MINUTE);
    newest = DATE_TEXT(newest_s, DATE_MINUTE);
    fprintf(t->out, "\ndecided   %s%s%s UTC, %s ago\n", strcmp(oldest, newest) ? oldest : "",
            strcmp(oldest, newest) ? " to " : "", newest,
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)newest_s))));
    for (size_t i = 0; i < t->trainers->pin_count; i++) {
        const struct override_row *pin = &t->trainers->pins[i];

        if (!SAME_TABLE(pin, t->entries))
            continue;
        fprintf(t->out, "pinned    buckets %u-%u, %s %s: %s since %s UTC: %s\n", pin->first,
                pin->last, buckets_key_name(buckets_of(&t->shape, pin->window)),
                BUCKETS_TEXT(buckets_of(&t->shape, pin->window), pin->first, pin->last),
                PLAN_WORDS(&pin->plan), DATE_TEXT(pin->since_s, DATE_MINUTE), UTF8_LINE(pin->why));
    }
    TRY(trainer_view_why_silent(t->trainers, t->store, t->entries, why));
    if (*why)
        fprintf(t->out, "silent    trainers do not get these plans: %s\n", why);
    return OK;
}

/* Prints that e=sparse was timed with our own kernels: on GPUs a library may have faster ones. */
static int print_own_kernels(const struct tables *t)
{
    struct cluster cluster;
    bool sparse = false;

    for (const struct entry_row *e = t->entries; e < t->entries + t->entry_count; e++)
        sparse |= e->plan.e == MOE_SPARSE;
    TRY(store_cluster_get(t->store, t->entries->cluster, &cluster));
    if (sparse && (!strcmp(cluster.backend, "cuda") || !strcmp(cluster.backend, "virtual")))
        fprintf(t->out,
                "e=sparse  by kernels of moetune's own: a library's grouped product may take less\n"
                "          (man moetune-gpu)\n");
    return OK;
}

/* Prints the command that continues with undecided buckets, if it is likely to decide some. */
static int print_decide_command(const struct tables *t, const struct standing_row *standing)
{
    struct row_list runs;

    if (!(standing->more_s > 0))
        return OK;
    TRY(store_runs(t->store, &runs));
    EACH_ROW (run_row, run, runs)
        if (run->id == standing->run)
            fprintf(t->out, "decide    about %s more may decide: %s\n",
                    DURATION_TEXT(fmax(1, standing->more_s)), run->command);
    free(runs.rows);
    return OK;
}

/* Prints the one launch of a table whose axes trainers cannot switch, and what that costs. */
static int print_fixed_launch(const struct tables *t)
{
    struct fixed_row fixed;
    bool fixes_all;
    int rc = store_fixed_get(t->store, t->entries->cluster, t->entries->shape, t->entries->window,
                             &fixed);

    if (rc)
        return rc < 0 ? rc : OK;
    fixes_all = fixed_is_all(&fixed);
    fprintf(t->out, "launch   %s in all buckets, for trainers that %s%s\n", fixed.launch,
            fixes_all ? "switch nothing" : "cannot switch ", fixes_all ? "" : fixed.axes);
    if (!isnan(fixed.price.value))
        fprintf(t->out, "         switching %swould save %.1f %%%s beside it\n",
                fixes_all                 ? ""
                : strchr(fixed.axes, ',') ? "these, too, "
                                          : "it, too, ",
                fixed.price.value * 100 + 0.0,
                INTERVAL_TEXT("%.1f", fixed.price.low * 100, fixed.price.high * 100));
    fputc('\n', t->out);
    return OK;
}

static int print_table(struct tables *t)
{
    const struct entry_row *first = t->entries, *end = first + t->entry_count;
    const struct declaration *declaration = declaration_find(t->shape.space);
    struct moe_plan default_plan = plan_default(&t->shape);
    uint32_t measured = 0, disturbed = 0;
    const char *load = "";
    struct standing_row standing;
    char worth[STANDING_TEXT_BYTES];
    bool is_current;
    int rc;

    t->legend_words |= t->shape.space                         ? LEGEND_DECLARED
                       : t->shape.layout == MOE_LAYOUT_HIDDEN ? LEGEND_HIDDEN
                                                              : LEGEND_USUAL;
    fprintf(t->out, "%s", t->count ? "\n" : "");
    TRY(tables_heading(t->store, first->cluster, first->shape, t->out));
    if (declaration)
        fprintf(t->out, "buckets  by %s\ndefault  %s\n", declaration->key,
                PLAN_WORDS(&default_plan));
    else
        fprintf(t->out, "buckets  of width %u\n", first->window);
    /* Print the load; a table in which all tokens chose experts at random has none. */
    for (const struct entry_row *e = first; e < end; e++) {
        if (strcmp(e->load, load) != 0)
            fprintf(t->out, "load     %s, from bucket %u on\n",
                    *e->load ? UTF8_LINE(e->load) : "random", e->bucket);
        load = e->load;
    }
    fprintf(t->out, "\n");

    /* Print what the table saves as a whole if that is known, else the mean of its buckets. */
    rc = standing_current(t->store, first->cluster, first->shape, first->window, &standing);
    if (rc < 0)
        return rc;
    is_current = rc == OK;
    t->legend_words |= is_current ? LEGEND_WHOLE : 0;
    if (is_current)
        standing_text(&standing, &default_plan, worth);
    else
        plan_range_worth(first, t->entry_count, worth);
    screen_ink(INK_HEAD, t->out);
    fputs(standing_lines(worth), t->out);
    screen_ink(INK_PLAIN, t->out);
    fputs("\n\n", t->out);
    TRY(print_fixed_launch(t));
    TRY(print_lines(t));
    for (const struct entry_row *e = first; e < end; e++) {
        measured += !entry_is(e, ENTRY_INFERRED);
        disturbed += e->throttled > 0;
    }
    if (disturbed)
        fprintf(t->out,
                "%u of %u measured buckets disturbed: other programs, heat or power held steps "
                "back\n",
                disturbed, measured);
    if (is_current)
        TRY(print_decide_command(t, &standing));
    if (declaration) {
        struct launch_table launches;

        rc = launch_table_read(t->store, first->cluster, first->shape, first->window, t->traffic,
                               &launches);
        if (!rc)
            launch_table_print(&launches, declaration->key, t->out);
        launch_table_free(&launches);
        if (rc < 0)
            return rc;
    }
    TRY(print_own_kernels(t));
    return t->trainers ? print_footer(t) : OK;
}

int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 const struct option_list *traffic, unsigned *legend_words, FILE *out)
{
    struct tables tables = {
        .store = store, .out = out, .print_one = print_table, .window = window, .traffic = traffic
    };
    int rc = print_tables(&tables, cluster, shape);

    *legend_words |= tables.legend_words;
    return rc;
}

void tables_legend(unsigned legend_words, FILE *out)
{
    unsigned defaults = legend_words & LEGEND_DEFAULTS;

    fprintf(out,
            "step, saves: means of a row's buckets; %s.\n"
            "at least: lower end of the 95 %% interval of what a further launch saves.\n"
            "If it is below 0, a single launch may lose time.\n",
            defaults == LEGEND_DECLARED ? "the default plan stands above the table"
                                        : "the default plan is r=1 d=1 a=linear");
    if (legend_words & LEGEND_WHOLE)
        fputs("The line Saves was timed separately; each doubling has the same weight.\n", out);
    fputs("undecided: another plan may be faster.  See moetune-tables(7).\n", out);
    if (defaults & LEGEND_HIDDEN)
        fprintf(out, "With layout=hidden the default plan is r=0 d=1 a=linear e=sparse.\n");
    if (defaults & LEGEND_DECLARED && defaults != LEGEND_DECLARED)
        fprintf(out, "A declared space has its own default plan, above its table.\n");
}

/* ---- a list of them */

/* Prints one line: the table's buckets, what it saves, and the layer as --shape reads it. */
static int list_table(struct tables *t)
{
    const struct entry_row *entries = t->entries;
    struct standing_row standing;
    int rc =
        standing_current(t->store, entries->cluster, entries->shape, entries->window, &standing);
    char buckets[32], saves[16 + INTERVAL_BYTES], unused_text[STANDING_TEXT_BYTES];
    struct plan_range whole_table = plan_range_of(entries, t->entry_count);
    const struct gain *gain = &whole_table.gain;

    if (rc < 0)
        return rc;
    snprintf(buckets, sizeof(buckets), "%u-%u", entries->bucket,
             entries[t->entry_count - 1].bucket);
    /* The same number as in the line above the table. */
    if (rc == OK && !isnan(standing.gain.value))
        gain = &standing.gain;
    else if (!plan_range_worth(entries, t->entry_count, unused_text))
        gain = NULL;
    if (!gain)
        text_put(saves, sizeof(saves), "not proven");
    else
        text_put(saves, sizeof(saves), "%.1f %%%s", gain->value * 100,
                 INTERVAL_TEXT("%.1f", gain->low * 100, gain->high * 100));
    fprintf(t->out, "%-8s %-22s ", buckets, saves);
    shell_word(SHAPE_TEXT(&t->shape), t->out);
    fputc('\n', t->out);
    return OK;
}

/* Prints a list of layers if there are several; one table names its layer itself. */
static int list_several(struct store *store, const char *shape_filter, FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct tables list = {
        .store = store, .out = memory, .print_one = list_table, .shape_filter = shape_filter
    };
    int rc = memory ? print_tables(&list, 0, 0) : fail(ERR_NOMEM, "a list of tables");

    if (memory)
        fclose(memory);
    if (!rc && list.count > 1) {
        screen_ink(INK_HEAD, out);
        fputs("layers, by their buckets, what they save, and as --shape takes them:\n", out);
        screen_ink(INK_PLAIN, out);
        fprintf(out, "%s\n", text);
    }
    free(text);
    return rc;
}

int tables_print_all(struct store *store, const char *shape_filter, bool line_per_bucket,
                     const struct option_list *traffic, FILE *out)
{
    struct trainer_view trainers;
    struct tables tables = { .store = store,
                             .out = out,
                             .trainers = &trainers,
                             .print_one = print_table,
                             .shape_filter = shape_filter,
                             .line_per_bucket = line_per_bucket,
                             .traffic = traffic };
    int rc = trainer_view_read(store, &trainers);

    if (!rc)
        rc = list_several(store, shape_filter, out);
    if (!rc)
        rc = print_tables(&tables, 0, 0);
    trainer_view_free(&trainers);
    if (!rc) {
        fprintf(out, "\n");
        tables_legend(tables.legend_words, out);
    }
    return rc;
}

/* ---- JSON */

void tables_json_standing(const struct standing_row *row, FILE *out)
{
    static const struct standing_row unknown = { .gain = GAIN_UNKNOWN,
                                                 .static_gain = GAIN_UNKNOWN };

    row_json_view(&standing_table, standing_in_show, row ? row : &unknown, out);
}

void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *out)
{
    struct buckets buckets = buckets_of(shape, 1);
    uint64_t key_to = buckets_highest(buckets, last);
    char class[DECLARATION_CLASS_BYTES];

    if (!buckets.declared)
        return;
    json_write(out, ", 'key_from': %" PRIu64, buckets_lowest(buckets, first));
    if (key_to < UINT64_MAX)
        json_write(out, ", 'key_to': %" PRIu64, key_to);
    else
        json_write(out, ", 'key_to': null");
    if (buckets_classes(buckets) > 1 && first == last)
        json_write(out, ", 'class': '%s'", declaration_class_range(buckets.declared, first, class));
    else
        json_write(out, ", 'class': null");
}

static int json_table(struct tables *t)
{
    static const struct override_row no_pin;
    const struct entry_row *first = t->entries;
    char why[WHY_SILENT_BYTES], hex[2 * HASH_BYTES + 1];
    struct cluster cluster;
    struct standing_row standing;
    struct fixed_row fixed;
    const char *comma = "";
    int rc = standing_current(t->store, first->cluster, first->shape, first->window, &standing);

    if (rc < 0)
        return rc;
    TRY(store_cluster_get(t->store, first->cluster, &cluster));
    TRY(trainer_view_why_silent(t->trainers, t->store, first, why));
    cluster_hex(&cluster, hex);
    json_write(
        t->out, "%s{'cluster': '%s', 'device': '%s', 'modelled': %s, 'shape': '%s', 'window': %u",
        t->count ? ",\n" : "", hex, cluster.device,
        backend_is_real(cluster.backend) ? "false" : "true", SHAPE_TEXT(&t->shape), first->window);
    if (cluster_steps_are(&cluster))
        json_write(t->out, ", '%s': true",
                   cluster_steps_are(&cluster) == STEPS_GRAPHS ? "graphs" : "ahead");
    tables_json_standing(rc ? NULL : &standing, t->out);
    if (t->shape.space) {
        struct launch_table launches;

        rc = launch_table_read(t->store, first->cluster, first->shape, first->window, t->traffic,
                               &launches);
        if (!rc)
            launch_table_json(&launches, t->out);
        launch_table_free(&launches);
        if (rc < 0)
            return rc;
    }
    rc = store_fixed_get(t->store, first->cluster, first->shape, first->window, &fixed);
    if (rc < 0)
        return rc;
    if (rc == OK)
        row_json_view(&fixed_table, fixed_in_show, &fixed, t->out);
    json_write(t->out, ", 'answers': %s, 'pins': [", *why ? "false" : "true");
    for (size_t i = 0; i < t->trainers->pin_count; i++) {
        const struct override_row *pin = &t->trainers->pins[i];

        if (!SAME_TABLE(pin, first))
            continue;
        json_write(t->out, "%s{'first': %u", comma, pin->first);
        tables_json_range(&t->shape, pin->first, pin->last, t->out);
        row_json_view(&override_table, "last_bucket=last plan since_s=since why", pin, t->out);
        fprintf(t->out, "}");
        comma = ", ";
    }
    json_write(t->out, "], 'entries': [\n");
    for (const struct entry_row *e = first; e < first + t->entry_count; e++) {
        const struct override_row *pin = trainer_view_pin(t->trainers, e);

        json_write(t->out, "%s  {'bucket': %u", e > first ? ",\n" : "", e->bucket);
        tables_json_range(&t->shape, e->bucket, e->bucket, t->out);
        row_json_view(&entry_table, entry_in_show, e, t->out);
        if (e->fault)
            json_write(t->out, ", 'unsound': '%s %s'", e->fault->field, e->fault->why);
        row_json_view(&override_table, "plan=pinned", pin ? pin : &no_pin, t->out);
        fprintf(t->out, "}");
    }
    fprintf(t->out, "\n]}");
    return OK;
}

/* Prints the whole text or nothing, because half of it is no JSON. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, const char *shape_filter,
                const struct option_list *traffic, FILE *out)
{
    char *text = NULL;
    size_t length = 0;
    struct trainer_view trainers;
    struct tables tables = { .store = store,
                             .out = open_memstream(&text, &length),
                             .trainers = &trainers,
                             .print_one = json_table,
                             .shape_filter = shape_filter,
                             .traffic = traffic };
    int rc;

    if (!tables.out)
        return fail(ERR_NOMEM, "a table as JSON");
    rc = trainer_view_read(store, &trainers);
    fprintf(tables.out, "[");
    if (!rc)
        rc = print_tables(&tables, cluster, shape);
    fprintf(tables.out, "]\n");
    if (fclose(tables.out) && rc >= 0)
        rc = fail(ERR_NOMEM, "a table as JSON");
    if (rc >= 0)
        fwrite(text, 1, length, out);
    free(text);
    trainer_view_free(&trainers);
    return rc;
}
