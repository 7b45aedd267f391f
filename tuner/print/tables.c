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

/* What the legend explains: kinds of default plans (DEFAULTS: all kinds), and tables timed as a
 * whole. */
enum { USUAL = 1, HIDDEN = 2, DECLARED = 4, DEFAULTS = 7, WHOLE = 8 };

/* A walk over the tables of a store, which collects the entries of one table and prints it by
 * `view`. */
struct tables {
    struct store *store;
    FILE *to;
    const struct trainer_view *trainers; /* NULL: only the table itself is wanted */
    int (*view)(struct tables *tables);
    const char *wanted;                /* only layers that shape_agrees() with it; NULL: all */
    uint32_t only;                     /* only this width; 0: all */
    bool every;                        /* a line for each bucket */
    const struct option_list *traffic; /* see launch_table_read(); NULL: none */
    unsigned words;                    /* what the legend has to explain */
    uint32_t count;                    /* tables printed so far */
    /* The current table: */
    struct moe_shape shape;
    struct entry_row *entries;
    size_t entry_count;
};

static int end_table(struct tables *t)
{
    if (!t->entry_count)
        return OK;
    TRY(store_shape_get(t->store, t->entries->shape, &t->shape));
    if (shape_agrees(&t->shape, t->wanted)) {
        TRY(t->view(t));
        t->count++;
    }
    t->entry_count = 0;
    return OK;
}

static int add_entry(void *self, const struct entry_row *e)
{
    struct tables *t = self;

    if (t->only && e->window != t->only)
        return OK;
    if (t->entry_count && !SAME_TABLE(e, t->entries))
        TRY(end_table(t));
    ARRAY_APPEND(t->entries, t->entry_count, *e);
    return OK;
}

/* Prints all tables.  UNSUPPORTED: there is no table. */
static int print_tables(struct tables *t, int64_t cluster, int64_t shape)
{
    int rc = store_entries(t->store, cluster, shape, add_entry, t);

    if (!rc)
        rc = end_table(t);
    free(t->entries);
    return rc ? rc : t->count ? OK : UNSUPPORTED;
}

/* ---- the lines above a table */

int tables_heading(struct store *store, int64_t cluster_id, int64_t shape_id, FILE *to)
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
    fprintf(to, "%s    %s\ncluster  %s%s, W=%u ranks", shape_is_none(&shape) ? "space" : "layer",
            SHAPE_TEXT(&shape), reality, UTF8_LINE(cluster.device), cluster.ranks);
    fprintf(to, " on %u %snode%s, m=%u%s\n", cluster.nodes,
            cluster.ranks_per_node ? "" : "unequal ", cluster.nodes == 1 ? "" : "s",
            cluster.ranks_per_node, cluster.ranks_per_node ? " on each" : "");
    if (!strcmp(cluster.backend, "virtual") && !strcmp(virtual_kernels(&cluster), "cuda"))
        fprintf(to, "copies   %s\n", UTF8_LINE(cluster.comm_library));
    /* Other clusters may print the same line, and differ in a library or a link. */
    if (clusters > 1) {
        cluster_hex(&cluster, hash);
        fprintf(to, "         fingerprint %.12s\n", hash);
    }
    if (cluster_steps_are(&cluster))
        fprintf(to, "steps    %s\n",
                cluster_steps_are(&cluster) == STEPS_GRAPHS
                    ? "launched as CUDA graphs; where experts have unlike rows each is a product "
                      "of its own"
                    : "queued whole before the GPU begins, as by a host that is ahead");
    if (rank_speeds_parse(cluster.rank_speeds_percent, &ranks, &slowest) &&
        slowest < 1 - rank_speeds_unequal)
        fprintf(to, "ranks    unequal: %s with %.2f of the fastest's speed\n",
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
static int cell_of_time(struct grid *grid, const struct plan_range *range)
{
    double ms = range->time_us * 1e-3;
    int digits = isfinite(ms) && ms > 0 ? (int)fmax(0, fmin(6, 3 - floor(log10(ms)))) : -1;

    return digits < 0 ? grid_cell(grid, "-") : grid_cell(grid, "%.*f", digits, ms);
}

static int cell_of_range(struct grid *grid, uint64_t first, uint64_t last)
{
    return first == last ? grid_cell(grid, "%" PRIu64, first)
                         : grid_cell(grid, "%" PRIu64 "-%" PRIu64, first, last);
}

enum { WORDS_BYTES = 512 };

/* Writes what another plan may save in the line's least certain bucket, and which plan.  Steps at
 * other times differ, so pairs of steps and neighbouring buckets decide what may be saved. */
static int add_undecided(const struct tables *t, const struct table_line *line,
                         char words[WORDS_BYTES])
{
    const struct entry_row *e = line->least_sure;
    const struct trial_key key = { e->cluster, e->shape, e->window, e->bucket, .plan = e->plan };
    char rival[RIVAL_TEXT_BYTES] = "";
    struct trial_list trials;
    int rc = trials_read(t->store, &key, true, &trials);

    if (!rc)
        trials_rival(trials.items, trials.count, e->bucket, &e->plan, rival);
    trials_free(&trials);
    text_add(words, WORDS_BYTES, "%s", *words ? ", " : "");
    if (line->range.buckets > 1)
        text_add(words, WORDS_BYTES, "%u ", line->undecided);
    text_add(words, WORDS_BYTES, "undecided");
    if (line->undecided > 1)
        text_add(words, WORDS_BYTES, ", most in bucket %u", e->bucket);
    if (e->likely.struct_size) {
        text_add(words, WORDS_BYTES, ": %s", LIKELY_TEXT(e));
        return rc;
    }
    text_add(words, WORDS_BYTES, "%s%s", *rival ? ": " : "", rival);
    if (!isnan(e->bound))
        text_add(words, WORDS_BYTES, "%s %s", *rival ? "; by all steps together" : ":",
                 LEFT_TEXT(e));
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

static enum ink ink_of(const struct table_line *line)
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
    uint32_t window = line->first->window, first = line->first->bucket, last = line->last->bucket;
    char found[FOUND_BYTES], more[WORDS_BYTES] = "", *states = NULL;

    plan_range_found(&line->range, line->first, ENTRY_TIE,
                     found); /* add_undecided() writes these */
    /* The states of several buckets stand on a line of their own: a screen has 80 columns. */
    if (line->range.buckets > 1)
        states = strstr(found, ", ");
    if (states) {
        text_put(more, sizeof(more), "%s", states + 2);
        *states = 0;
    }
    if (line->undecided)
        TRY(add_undecided(t, line, more));
    if (line->pin && line->pin->plan.struct_size)
        text_add(more, sizeof(more), "%spinned: %s", *more ? "; " : "",
                 PLAN_WORDS(&line->pin->plan));
    TRY(grid_row(grid, ink_of(line)));
    TRY(cell_of_range(grid, first, last));
    TRY(t->shape.space
            ? grid_cell(grid, "%s", BUCKETS_TEXT(buckets_of(&t->shape, window), first, last))
            : cell_of_range(grid, (uint64_t)first * window, bucket_capacity(window, last)));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(&line->first->plan)));
    TRY(cell_of_time(grid, &line->range));
    TRY(grid_percent(grid, line->range.gain.value));
    TRY(grid_percent(grid, line->range.gain.low));
    TRY(grid_cell(grid, "%s", found));
    return *more ? grid_note(grid, more) : OK;
}

static const struct override_row *pin_of(const struct tables *t, const struct entry_row *e)
{
    return t->trainers ? trainer_view_pin(t->trainers, e) : NULL;
}

static int print_lines(const struct tables *t)
{
    const struct declaration *d = declaration_find(t->shape.space);
    struct grid_column named[sizeof(columns) / sizeof(columns[0])];
    const struct entry_row *e = t->entries;
    struct grid grid = GRID_OF(named);
    int rc = OK;

    memcpy(named, columns, sizeof(columns));
    if (d)
        named[CAPACITY_COLUMN].title = d->key;
    for (size_t i = 0, end; i < t->entry_count && !rc; i = end) {
        struct table_line line = { .first = &e[i], .pin = pin_of(t, &e[i]) };

        for (end = i + 1; end < t->entry_count && !t->every &&
                          entries_join(&e[end - 1], &e[end], 1) &&
                          !strcmp(e[end].load, e[i].load) && pin_of(t, &e[end]) == line.pin;)
            end++;
        line.last = &e[end - 1];
        line.range = plan_range_of(&e[i], end - i);
        for (const struct entry_row *x = line.first; x <= line.last; x++) {
            if (!entry_is_undecided(x))
                continue;
            if (!line.undecided++ || entry_leaves_more(x, line.least_sure))
                line.least_sure = x;
        }
        rc = add_line(t, &line, &grid);
    }
    if (!rc)
        grid_print(&grid, t->to);
    grid_clear(&grid);
    return rc;
}

/* ---- a table for a person */

/* Prints how old the table is, its pins, and why it does not answer trainers. */
static int print_footer(const struct tables *t)
{
    int64_t oldest_s = INT64_MAX, newest_s = 0;
    char why[WHY_SILENT_BYTES];
    const char *from, *to;

    for (const struct entry_row *e = t->entries; e < t->entries + t->entry_count; e++) {
        oldest_s = e->decided_s < oldest_s ? e->decided_s : oldest_s;
        newest_s = e->decided_s > newest_s ? e->decided_s : newest_s;
    }
    from = DATE_TEXT(oldest_s, DATE_MINUTE);
    to = DATE_TEXT(newest_s, DATE_MINUTE);
    fprintf(t->to, "\ndecided   %s%s%s UTC, %s ago\n", strcmp(from, to) ? from : "",
            strcmp(from, to) ? " to " : "", to,
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)newest_s))));
    for (size_t i = 0; i < t->trainers->pin_count; i++) {
        const struct override_row *pin = &t->trainers->pins[i];

        if (!SAME_TABLE(pin, t->entries))
            continue;
        fprintf(t->to, "pinned    buckets %u-%u, %s %s: %s since %s UTC: %s\n", pin->first,
                pin->last, buckets_key_name(buckets_of(&t->shape, pin->window)),
                BUCKETS_TEXT(buckets_of(&t->shape, pin->window), pin->first, pin->last),
                PLAN_WORDS(&pin->plan), DATE_TEXT(pin->since_s, DATE_MINUTE), UTF8_LINE(pin->why));
    }
    TRY(trainer_view_why_silent(t->trainers, t->store, t->entries, why));
    if (*why)
        fprintf(t->to, "silent    trainers do not get these plans: %s\n", why);
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
        fprintf(t->to,
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
            fprintf(t->to, "decide    about %s more may decide: %s\n",
                    DURATION_TEXT(fmax(1, standing->more_s)), run->command);
    free(runs.rows);
    return OK;
}

/* Prints the one launch of a table whose axes trainers cannot switch, and what that costs. */
static int print_fixed_launch(const struct tables *t)
{
    struct fixed_row fixed;
    bool all;
    int rc = store_fixed_get(t->store, t->entries->cluster, t->entries->shape, t->entries->window,
                             &fixed);

    if (rc)
        return rc < 0 ? rc : OK;
    all = fixed_is_all(&fixed);
    fprintf(t->to, "launch   %s in all buckets, for trainers that %s%s\n", fixed.launch,
            all ? "switch nothing" : "cannot switch ", all ? "" : fixed.axes);
    if (!isnan(fixed.price.value))
        fprintf(t->to, "         switching %swould save %.1f %%%s beside it\n",
                all                       ? ""
                : strchr(fixed.axes, ',') ? "these, too, "
                                          : "it, too, ",
                fixed.price.value * 100 + 0.0,
                INTERVAL_TEXT("%.1f", fixed.price.low * 100, fixed.price.high * 100));
    fputc('\n', t->to);
    return OK;
}

static int print_table(struct tables *t)
{
    const struct entry_row *first = t->entries, *end = first + t->entry_count;
    const struct declaration *d = declaration_find(t->shape.space);
    struct moe_plan usual = plan_default(&t->shape);
    uint32_t measured = 0, disturbed = 0;
    const char *load = "";
    struct standing_row standing;
    char text[STANDING_TEXT_BYTES];
    bool is_current;
    int rc;

    t->words |= t->shape.space ? DECLARED : t->shape.layout == MOE_LAYOUT_HIDDEN ? HIDDEN : USUAL;
    fprintf(t->to, "%s", t->count ? "\n" : "");
    TRY(tables_heading(t->store, first->cluster, first->shape, t->to));
    if (d)
        fprintf(t->to, "buckets  by %s\ndefault  %s\n", d->key, PLAN_WORDS(&usual));
    else
        fprintf(t->to, "buckets  of width %u\n", first->window);
    /* Print the load; a table in which all tokens chose experts at random has none. */
    for (const struct entry_row *e = first; e < end; e++) {
        if (strcmp(e->load, load) != 0)
            fprintf(t->to, "load     %s, from bucket %u on\n",
                    *e->load ? UTF8_LINE(e->load) : "random", e->bucket);
        load = e->load;
    }
    fprintf(t->to, "\n");

    /* Print what the table saves as a whole if that is known, else the mean of its buckets. */
    rc = standing_current(t->store, first->cluster, first->shape, first->window, &standing);
    if (rc < 0)
        return rc;
    is_current = rc == OK;
    t->words |= is_current ? WHOLE : 0;
    if (is_current)
        standing_text(&standing, &usual, text);
    else
        plan_range_worth(first, t->entry_count, text);
    screen_ink(INK_HEAD, t->to);
    fputs(standing_lines(text), t->to);
    screen_ink(INK_PLAIN, t->to);
    fputs("\n\n", t->to);
    TRY(print_fixed_launch(t));
    TRY(print_lines(t));
    for (const struct entry_row *e = first; e < end; e++) {
        measured += !entry_is(e, ENTRY_INFERRED);
        disturbed += e->throttled > 0;
    }
    if (disturbed)
        fprintf(t->to,
                "%u of %u measured buckets disturbed: other programs, heat or power held steps "
                "back\n",
                disturbed, measured);
    if (is_current)
        TRY(print_decide_command(t, &standing));
    if (d) {
        struct launch_table launches;

        rc = launch_table_read(t->store, first->cluster, first->shape, first->window, t->traffic,
                               &launches);
        if (!rc)
            launch_table_print(&launches, d->key, t->to);
        launch_table_free(&launches);
        if (rc < 0)
            return rc;
    }
    TRY(print_own_kernels(t));
    return t->trainers ? print_footer(t) : OK;
}

int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 const struct option_list *traffic, unsigned *words, FILE *to)
{
    struct tables t = {
        .store = store, .to = to, .view = print_table, .only = window, .traffic = traffic
    };
    int rc = print_tables(&t, cluster, shape);

    *words |= t.words;
    return rc;
}

void tables_legend(unsigned words, FILE *to)
{
    unsigned defaults = words & DEFAULTS;

    fprintf(to,
            "step, saves: means of a row's buckets; %s.\n"
            "at least: the low end of the 95 %% interval of what the row saves in one more\n"
            "launch; below 0 that one may lose, though on average the plan is faster.\n",
            defaults == DECLARED ? "the default plan stands above the table"
                                 : "the default plan is r=1 d=1 a=linear");
    if (words & WHOLE)
        fputs("First line: timed apart, so no mean of the rows; each doubling counts alike.\n", to);
    fputs("undecided: another plan may be faster. More: moetune-tables(7).\n", to);
    if (defaults & HIDDEN)
        fprintf(to, "With layout=hidden the default plan is r=0 d=1 a=linear e=sparse.\n");
    if (defaults & DECLARED && defaults != DECLARED)
        fprintf(to, "Of a declared space it is the one above its table.\n");
}

/* ---- a list of them */

/* Prints one line: the table's buckets, what it saves, and the layer as --shape reads it. */
static int list_table(struct tables *t)
{
    const struct entry_row *e = t->entries;
    struct standing_row row;
    int rc = standing_current(t->store, e->cluster, e->shape, e->window, &row);
    char buckets[32], saves[16 + INTERVAL_BYTES], text[STANDING_TEXT_BYTES];
    struct plan_range all = plan_range_of(e, t->entry_count);
    const struct gain *gain = &all.gain;

    if (rc < 0)
        return rc;
    snprintf(buckets, sizeof(buckets), "%u-%u", e->bucket, e[t->entry_count - 1].bucket);
    /* The same number as in the line above the table. */
    if (rc == OK && !isnan(row.gain.value))
        gain = &row.gain;
    else if (!plan_range_worth(e, t->entry_count, text))
        gain = NULL;
    if (!gain)
        text_put(saves, sizeof(saves), "not proven");
    else
        text_put(saves, sizeof(saves), "%.1f %%%s", gain->value * 100,
                 INTERVAL_TEXT("%.1f", gain->low * 100, gain->high * 100));
    fprintf(t->to, "%-8s %-22s ", buckets, saves);
    shell_word(SHAPE_TEXT(&t->shape), t->to);
    fputc('\n', t->to);
    return OK;
}

/* Prints a list of layers if there are several; one table names its layer itself. */
static int list_several(struct store *store, const char *wanted, FILE *to)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct tables t = { .store = store, .to = memory, .view = list_table, .wanted = wanted };
    int rc = memory ? print_tables(&t, 0, 0) : fail(ERR_NOMEM, "a list of tables");

    if (memory)
        fclose(memory);
    if (!rc && t.count > 1) {
        screen_ink(INK_HEAD, to);
        fputs("layers, by their buckets, what they save, and as --shape takes them:\n", to);
        screen_ink(INK_PLAIN, to);
        fprintf(to, "%s\n", text);
    }
    free(text);
    return rc;
}

int tables_print_all(struct store *store, const char *wanted, bool every,
                     const struct option_list *traffic, FILE *to)
{
    struct trainer_view trainers;
    struct tables t = { .store = store,
                        .to = to,
                        .trainers = &trainers,
                        .view = print_table,
                        .wanted = wanted,
                        .every = every,
                        .traffic = traffic };
    int rc = trainer_view_read(store, &trainers);

    if (!rc)
        rc = list_several(store, wanted, to);
    if (!rc)
        rc = print_tables(&t, 0, 0);
    trainer_view_free(&trainers);
    if (!rc) {
        fprintf(to, "\n");
        tables_legend(t.words, to);
    }
    return rc;
}

/* ---- JSON */

void tables_json_standing(const struct standing_row *row, FILE *to)
{
    static const struct standing_row unknown = { .gain = GAIN_UNKNOWN,
                                                 .static_gain = GAIN_UNKNOWN };

    row_json_view(&standing_table, standing_in_show, row ? row : &unknown, to);
}

void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *to)
{
    struct buckets buckets = buckets_of(shape, 1);
    uint64_t end = buckets_highest(buckets, last);
    char class[DECLARATION_CLASS_BYTES];

    if (!buckets.declared)
        return;
    json_write(to, ", 'key_from': %" PRIu64, buckets_lowest(buckets, first));
    if (end < UINT64_MAX)
        json_write(to, ", 'key_to': %" PRIu64, end);
    else
        json_write(to, ", 'key_to': null");
    if (buckets_classes(buckets) > 1 && first == last)
        json_write(to, ", 'class': '%s'", declaration_class_range(buckets.declared, first, class));
    else
        json_write(to, ", 'class': null");
}

static int json_table(struct tables *t)
{
    static const struct override_row none;
    const struct entry_row *first = t->entries;
    char why[WHY_SILENT_BYTES], hex[2 * HASH_BYTES + 1];
    struct cluster cluster;
    struct standing_row row;
    struct fixed_row fixed;
    const char *comma = "";
    int rc = standing_current(t->store, first->cluster, first->shape, first->window, &row);

    if (rc < 0)
        return rc;
    TRY(store_cluster_get(t->store, first->cluster, &cluster));
    TRY(trainer_view_why_silent(t->trainers, t->store, first, why));
    cluster_hex(&cluster, hex);
    json_write(
        t->to, "%s{'cluster': '%s', 'device': '%s', 'modelled': %s, 'shape': '%s', 'window': %u",
        t->count ? ",\n" : "", hex, cluster.device,
        backend_is_real(cluster.backend) ? "false" : "true", SHAPE_TEXT(&t->shape), first->window);
    if (cluster_steps_are(&cluster))
        json_write(t->to, ", '%s': true",
                   cluster_steps_are(&cluster) == STEPS_GRAPHS ? "graphs" : "ahead");
    tables_json_standing(rc ? NULL : &row, t->to);
    if (t->shape.space) {
        struct launch_table launches;

        rc = launch_table_read(t->store, first->cluster, first->shape, first->window, t->traffic,
                               &launches);
        if (!rc)
            launch_table_json(&launches, t->to);
        launch_table_free(&launches);
        if (rc < 0)
            return rc;
    }
    rc = store_fixed_get(t->store, first->cluster, first->shape, first->window, &fixed);
    if (rc < 0)
        return rc;
    if (rc == OK)
        row_json_view(&fixed_table, fixed_in_show, &fixed, t->to);
    json_write(t->to, ", 'answers': %s, 'pins': [", *why ? "false" : "true");
    for (size_t i = 0; i < t->trainers->pin_count; i++) {
        const struct override_row *pin = &t->trainers->pins[i];

        if (!SAME_TABLE(pin, first))
            continue;
        json_write(t->to, "%s{'first': %u", comma, pin->first);
        tables_json_range(&t->shape, pin->first, pin->last, t->to);
        row_json_view(&override_table, "last_bucket=last plan since_s=since why", pin, t->to);
        fprintf(t->to, "}");
        comma = ", ";
    }
    json_write(t->to, "], 'entries': [\n");
    for (const struct entry_row *e = first; e < first + t->entry_count; e++) {
        const struct override_row *pin = trainer_view_pin(t->trainers, e);

        json_write(t->to, "%s  {'bucket': %u", e > first ? ",\n" : "", e->bucket);
        tables_json_range(&t->shape, e->bucket, e->bucket, t->to);
        row_json_view(&entry_table, entry_in_show, e, t->to);
        if (e->fault)
            json_write(t->to, ", 'unsound': '%s %s'", e->fault->field, e->fault->why);
        row_json_view(&override_table, "plan=pinned", pin ? pin : &none, t->to);
        fprintf(t->to, "}");
    }
    fprintf(t->to, "\n]}");
    return OK;
}

/* Prints the whole text or nothing, because half of it is no JSON. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, const char *wanted,
                const struct option_list *traffic, FILE *to)
{
    char *text = NULL;
    size_t length = 0;
    struct trainer_view trainers;
    struct tables t = { .store = store,
                        .to = open_memstream(&text, &length),
                        .trainers = &trainers,
                        .view = json_table,
                        .wanted = wanted,
                        .traffic = traffic };
    int rc;

    if (!t.to)
        return fail(ERR_NOMEM, "a table as JSON");
    rc = trainer_view_read(store, &trainers);
    fprintf(t.to, "[");
    if (!rc)
        rc = print_tables(&t, cluster, shape);
    fprintf(t.to, "]\n");
    if (fclose(t.to) && rc >= 0)
        rc = fail(ERR_NOMEM, "a table as JSON");
    if (rc >= 0)
        fwrite(text, 1, length, to);
    free(text);
    trainer_view_free(&trainers);
    return rc;
}
