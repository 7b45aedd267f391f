/* Prints the dictionary: entries in the order of buckets, neighbours of one plan as one line. */
#include "tables.h"

#include "array.h"
#include "declaration.h"
#include "grid.h"
#include "plan.h"
#include "progress.h"
#include "rank_speeds.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "text.h"
#include "told.h"
#include "tried.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Buckets first..last, which have the same plan. */
struct line {
    struct entry_row first, last;
    struct entry_row least_sure; /* of them: most may be left there */
    const struct override_row *pin;
    double time_log, gain_log, gain_least; /* sums of logarithms; the least gain */
    uint32_t claims; /* of how many buckets the gains are: of those that have an interval */
    uint32_t buckets, throttled, undecided, states[ENTRY_STATE_COUNT]; /* by bit of entry_state */
    int64_t oldest_s, newest_s;
};

struct printer {
    struct store *store;
    FILE *to;
    bool every;
    bool listed;             /* a line for each table instead of it */
    unsigned defaults;       /* that the legend names */
    const struct told *told; /* NULL: only the dictionary is wanted */
    uint32_t only;           /* this width; 0: all */
    uint32_t tables;         /* that were printed */
    struct moe_shape shape;  /* of the table that is open */
    struct line *lines;      /* and its buckets */
    size_t count;
};

static const char *reality(const struct cluster *cluster)
{
    if (backend_is_real(cluster->backend))
        return "";
    return strcmp(cluster->backend, "sim") ? "VIRTUAL ranks beside one that is measured: "
                                           : "MODELLED, not measured: ";
}

int tables_heading(struct store *store, int64_t cluster_id, int64_t shape_id, FILE *to)
{
    struct cluster cluster;
    struct moe_shape shape;
    size_t ranks;
    double slowest;

    TRY(store_cluster_get(store, cluster_id, &cluster));
    TRY(store_shape_get(store, shape_id, &shape));
    fprintf(to, "layer    %s\ncluster  %s%s, W=%u ranks", SHAPE_TEXT(&shape), reality(&cluster),
            UTF8_LINE(cluster.device), cluster.ranks);
    fprintf(to, " on %u %snode%s, m=%u%s\n", cluster.nodes,
            cluster.ranks_per_node ? "" : "unequal ", cluster.nodes == 1 ? "" : "s",
            cluster.ranks_per_node, cluster.ranks_per_node ? " on each" : "");
    if (cluster_has_graphs(&cluster))
        fprintf(to, "steps    launched as CUDA graphs\n");
    if (rank_speeds_parse(cluster.rank_speeds_percent, &ranks, &slowest) &&
        slowest < 1 - rank_speeds_unequal)
        fprintf(to, "ranks    unequal: %s with %.2f of the fastest's speed\n",
                shape.shares != MOE_SHARES_EQUAL ? "work is shared by speed with one"
                                                 : "every step waits for one",
                slowest);
    return OK;
}

/* What it is worth as a whole, where that is known. */
static int print_standing(const struct printer *p, const struct entry_row *e)
{
    struct standing_row row;
    char text[STANDING_TEXT_BYTES], *second;
    int rc = standing_current(p->store, e->cluster, e->shape, e->window, &row);

    if (rc)
        return rc < 0 ? rc : OK;
    standing_text(&row, text);
    second = strstr(text, "default, ");
    if (second)
        second[strlen("default,")] = '\n'; /* a screen is 80 wide */
    screen_ink(INK_HEAD, p->to);
    fputs(text, p->to);
    screen_ink(INK_PLAIN, p->to);
    fputs("\n\n", p->to);
    return OK;
}

/* ---- a line */

enum { CAPACITY_COLUMN = 1 };
static const struct grid_column columns[] = {
    { "bucket", GRID_LEFT },    { "capacity", GRID_LEFT },  { "plan", GRID_LEFT },
    { "step\nms", GRID_POINT }, { "saves\n%", GRID_POINT }, { "at\nleast", GRID_POINT },
    { "how", GRID_LEFT },
};

/* Four digits: a table of 80 columns has room for no more, and no step is known better. */
static int cell_of_ms(struct grid *grid, double log_us)
{
    double ms = exp(log_us) * 1e-3;
    int digits = isfinite(ms) && ms > 0 ? (int)fmax(0, fmin(6, 3 - floor(log10(ms)))) : -1;

    return digits < 0 ? grid_cell(grid, "-") : grid_cell(grid, "%.*f", digits, ms);
}

static int cell_of_range(struct grid *grid, uint64_t first, uint64_t last)
{
    return first == last ? grid_cell(grid, "%" PRIu64, first)
                         : grid_cell(grid, "%" PRIu64 "-%" PRIu64, first, last);
}

/* The words of decision.h that a stranger would not understand are said in others. */
static const char *plainly(const char *decision)
{
    if (!strcmp(decision, "incumbent"))
        return "kept";
    if (!strcmp(decision, "alone"))
        return "default cannot run";
    return decision;
}

struct how {
    char text[512];
    size_t length;
};

/* Adds to the sentence, after `mark` unless it is empty. */
static void say(struct how *how, const char *mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct how *how, const char *mark, const char *format, ...)
{
    char words[160];
    va_list args;

    va_start(args, format);
    text_put_list(words, sizeof(words), format, args);
    va_end(args);
    snprintf(how->text + how->length, sizeof(how->text) - how->length, "%s%s",
             how->length ? mark : "", words);
    how->length = strlen(how->text);
}

/* What is left to be found where it is least sure, and which plan looked like it. */
static int say_undecided(const struct printer *p, const struct line *line, struct how *how)
{
    const struct entry_row *e = &line->least_sure;
    const struct tried *chosen, *fastest;
    struct tried_list list;
    int rc = tried_read(p->store, e->cluster, e->shape, e->window, e->bucket, &list);
    bool rivalled;

    chosen = tried_find(&list, &e->plan);
    fastest = tried_fastest(&list);
    rivalled = !rc && chosen && fastest && fastest->step.median_ns < chosen->step.median_ns;
    if (line->buckets > 1)
        say(how, ", ", "%u undecided", line->undecided);
    else
        say(how, ", ", "undecided");
    /* Steps of other moments differ: what is left is judged by pairs of them, and by neighbours. */
    if (rivalled)
        say(how, ": ", "%s took %.1f %% less time in its own %zu step%s",
            PLAN_WORDS(&fastest->trial.key.plan),
            100 * (1 - (double)fastest->step.median_ns / (double)chosen->step.median_ns),
            fastest->step.count, fastest->step.count == 1 ? "" : "s");
    if (!isnan(e->bound))
        say(how, rivalled ? "; by all steps together " : ": ", "at most %.2g %% is left",
            fmax(e->bound * 100, 0.1));
    tried_free(&list);
    return rc;
}

/* How one bucket's plan was found. */
static void say_decision(const struct line *line, struct how *how)
{
    const struct entry_row *e = &line->first;

    say(how, ", ", "%s", plainly(UTF8_LINE(e->decision)));
    for (int i = 1; i < ENTRY_STATE_COUNT; i++)
        if (line->states[i] && strcmp(e->decision, entry_state_words[i]) != 0)
            say(how, ", ", "%s", entry_state_words[i]);
    if (line->throttled)
        say(how, ", ", "disturbed");
}

/* What a column has no room for: the states of several buckets, what is left, what is pinned. */
static int say_more(const struct printer *p, const struct line *line, struct how *how)
{
    for (int i = 1; i < ENTRY_STATE_COUNT && line->buckets > 1; i++)
        if (line->states[i] && 1u << i != ENTRY_TIE) /* which is undecided */
            say(how, ", ", "%u %s", line->states[i], entry_state_words[i]);
    if (line->undecided)
        TRY(say_undecided(p, line, how));
    if (line->pin && line->pin->plan.struct_size)
        say(how, "; ", "pinned: %s", PLAN_WORDS(&line->pin->plan));
    return OK;
}

static enum ink ink_of(const struct line *line)
{
    if (line->states[1] || line->states[4]) /* stale, refuted */
        return INK_BAD;
    if (line->undecided || line->states[5]) /* cut off */
        return INK_OPEN;
    if (line->states[0] == line->buckets)
        return INK_FAINT;
    return line->gain_least > 0 ? INK_GOOD : INK_PLAIN;
}

static int cell_of_keys(const struct printer *p, struct grid *grid, const struct line *line)
{
    uint32_t window = line->first.window, first = line->first.bucket, last = line->last.bucket;

    return p->shape.space
               ? grid_cell(grid, "%s", RANGE_TEXT(&p->shape, window, first, last))
               : cell_of_range(grid, (uint64_t)first * window, bucket_capacity(window, last));
}

static int add_row(const struct printer *p, const struct line *line, struct grid *grid)
{
    uint32_t n = line->buckets;
    struct how how = { "", 0 }, more = { "", 0 };

    if (n > 1)
        say(&how, ", ", "%u of %u measured", n - line->states[0], n);
    else
        say_decision(line, &how);
    TRY(say_more(p, line, &more));
    TRY(grid_row(grid, ink_of(line)));
    TRY(cell_of_range(grid, line->first.bucket, line->last.bucket));
    TRY(cell_of_keys(p, grid, line));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(&line->first.plan)));
    TRY(cell_of_ms(grid, line->time_log / n));
    TRY(grid_percent(grid, line->claims ? 1 - exp(line->gain_log / line->claims) : NAN));
    TRY(grid_percent(grid, line->gain_least));
    TRY(grid_cell(grid, "%s", how.text));
    return *more.text ? grid_note(grid, more.text) : OK;
}

/* ---- a table */

static void print_age(const struct printer *p)
{
    int64_t oldest_s = INT64_MAX, newest_s = 0;
    const char *from, *to;

    for (const struct line *line = p->lines; line < p->lines + p->count; line++) {
        oldest_s = line->oldest_s < oldest_s ? line->oldest_s : oldest_s;
        newest_s = line->newest_s > newest_s ? line->newest_s : newest_s;
    }
    from = DATE_TEXT(oldest_s, DATE_MINUTE);
    to = DATE_TEXT(newest_s, DATE_MINUTE);
    fprintf(p->to, "decided   %s%s%s UTC, %s ago\n", strcmp(from, to) ? from : "",
            strcmp(from, to) ? " to " : "", to,
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)newest_s))));
}

static void print_pins(const struct printer *p, const struct entry_row *e)
{
    for (size_t i = 0; i < p->told->pin_count; i++) {
        const struct override_row *pin = &p->told->pins[i];

        if (!SAME_TABLE(pin, e))
            continue;
        fprintf(p->to, "pinned    buckets %u-%u, %s %s: %s since %s UTC: %s\n", pin->first,
                pin->last, shape_key(&p->shape),
                RANGE_TEXT(&p->shape, e->window, pin->first, pin->last), PLAN_WORDS(&pin->plan),
                DATE_TEXT(pin->since_s, DATE_MINUTE), UTF8_LINE(pin->why));
    }
}

static int print_footer(const struct printer *p, const struct entry_row *e)
{
    char why[WHY_SILENT_BYTES];

    fprintf(p->to, "\n");
    print_age(p);
    print_pins(p, e);
    TRY(told_why_silent(p->told, p->store, e, why));
    if (*why)
        fprintf(p->to, "silent    trainers are not told this: %s\n", why);
    return OK;
}

static int print_lines(const struct printer *p)
{
    const struct declaration *d = declaration_find(p->shape.space);
    struct grid_column named[sizeof(columns) / sizeof(columns[0])];
    struct grid grid = GRID_OF(named);
    int rc = OK;

    memcpy(named, columns, sizeof(columns));
    if (d)
        named[CAPACITY_COLUMN].title = d->key;

    for (size_t i = 0; i < p->count && !rc; i++)
        rc = add_row(p, &p->lines[i], &grid);
    if (!rc)
        grid_print(&grid, p->to);
    grid_clear(&grid);
    return rc;
}

static void print_disturbed(const struct printer *p)
{
    uint32_t measured = 0, disturbed = 0;

    for (const struct line *line = p->lines; line < p->lines + p->count; line++) {
        measured += line->buckets - line->states[0];
        disturbed += line->throttled;
    }
    if (disturbed)
        fprintf(p->to,
                "%u of %u measured buckets disturbed: other programs, heat or power held steps "
                "back\n",
                disturbed, measured);
}

/* Of how tokens chose experts; where they did so at random nothing is said. */
static void print_loads(const struct printer *p)
{
    const char *said = "";

    for (const struct line *line = p->lines; line < p->lines + p->count; line++) {
        const struct entry_row *e = &line->first;

        if (strcmp(e->load, said) != 0)
            fprintf(p->to, "load     %s, from bucket %u on\n",
                    *e->load ? UTF8_LINE(e->load) : "random", e->bucket);
        said = e->load;
    }
}

static int print_table(struct printer *p)
{
    const struct entry_row *e = &p->lines->first;
    const struct declaration *d;
    struct moe_plan usual;

    fprintf(p->to, "%s", p->tables ? "\n" : "");
    TRY(store_shape_get(p->store, e->shape, &p->shape));
    p->defaults |= tables_default(&p->shape);
    TRY(tables_heading(p->store, e->cluster, e->shape, p->to));
    d = declaration_find(p->shape.space);
    usual = plan_default(&p->shape);
    if (d)
        fprintf(p->to, "buckets  by %s\ndefault  %s\n", d->key, PLAN_WORDS(&usual));
    else
        fprintf(p->to, "buckets  of width %u\n", e->window);
    print_loads(p);
    fprintf(p->to, "\n");
    TRY(print_standing(p, e));
    TRY(print_lines(p));
    print_disturbed(p);
    return p->told ? print_footer(p, e) : OK;
}

/* Where there are several: its buckets, what it saves, and what --shape wants to hear. */
static int list_table(const struct printer *p)
{
    const struct entry_row *e = &p->lines->first;
    struct standing_row row;
    struct moe_shape shape;
    int rc = standing_current(p->store, e->cluster, e->shape, e->window, &row);
    bool known = rc == OK && !isnan(row.gain.value);
    char buckets[32], saves[16 + INTERVAL_BYTES] = "not known";

    if (rc < 0)
        return rc;
    TRY(store_shape_get(p->store, e->shape, &shape));
    snprintf(buckets, sizeof(buckets), "%u-%u", e->bucket, p->lines[p->count - 1].last.bucket);
    if (known)
        text_put(saves, sizeof(saves), "%.1f %%%s", row.gain.value * 100,
                 INTERVAL_TEXT("%.1f", row.gain.low * 100, row.gain.high * 100));
    fprintf(p->to, "%-8s %-22s ", buckets, saves);
    shell_word(SHAPE_TEXT(&shape), p->to);
    fputc('\n', p->to);
    return OK;
}

/* The table that is open is whole. */
static int end_table(struct printer *p)
{
    int rc = !p->count ? OK : p->listed ? list_table(p) : print_table(p);

    p->tables += p->count > 0;
    p->count = 0;
    return rc;
}

/* ---- entries, one after the other */

static bool continues(const struct printer *p, const struct line *line, const struct entry_row *e,
                      const struct override_row *pin)
{
    return !p->every && e->bucket == line->last.bucket + 1 && !strcmp(e->load, line->first.load) &&
           plan_equal(&e->plan, &line->first.plan) && pin == line->pin;
}

static void add_to_line(struct line *line, const struct entry_row *e)
{
    bool undecided = entry_is_undecided(e);

    if (undecided && (!line->undecided || e->bound > line->least_sure.bound))
        line->least_sure = *e;
    line->oldest_s = e->decided_s < line->oldest_s ? e->decided_s : line->oldest_s;
    line->newest_s = e->decided_s > line->newest_s ? e->decided_s : line->newest_s;
    for (int i = 0; i < ENTRY_STATE_COUNT; i++)
        line->states[i] += entry_is(e, 1u << i);
    line->last = *e;
    line->buckets++;
    line->undecided += undecided;
    line->throttled += e->throttled > 0;
    line->time_log += log(e->time_us);
    if (isfinite(e->gain.value) && isfinite(e->gain.low)) {
        line->claims++;
        line->gain_log += log1p(-e->gain.value);
        line->gain_least = fmin(line->gain_least, e->gain.low);
    }
}

static int take_entry(void *self, const struct entry_row *e)
{
    struct printer *p = self;
    const struct override_row *pin = p->told ? told_pin(p->told, e) : NULL;
    struct line *line = p->count ? &p->lines[p->count - 1] : NULL;

    if (p->only && e->window != p->only)
        return OK;
    if (line && !SAME_TABLE(e, &line->first)) {
        TRY(end_table(p));
        line = NULL;
    }
    if (!line || !continues(p, line, e, pin)) {
        const struct line fresh = { .first = *e,
                                    .pin = pin,
                                    .gain_least = NAN,
                                    .oldest_s = e->decided_s,
                                    .newest_s = e->decided_s };

        ARRAY_APPEND(p->lines, p->count, fresh);
        line = &p->lines[p->count - 1];
    }
    add_to_line(line, e);
    return OK;
}

static int print_entries(struct printer *p, int64_t cluster, int64_t shape)
{
    int rc = store_entries(p->store, cluster, shape, take_entry, p);

    if (!rc)
        rc = end_table(p);
    free(p->lines);
    return rc ? rc : p->tables ? OK : UNSUPPORTED;
}

int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window, FILE *to)
{
    struct printer p = { .store = store, .to = to, .only = window };

    return print_entries(&p, cluster, shape);
}

unsigned tables_default(const struct moe_shape *shape)
{
    return shape->space                         ? TABLES_DECLARED
           : shape->layout == MOE_LAYOUT_HIDDEN ? TABLES_HIDDEN
                                                : TABLES_USUAL;
}

void tables_legend(unsigned defaults, FILE *to)
{
    fprintf(to,
            "saves: of a step's time, against the default plan%s; at least:\n"
            "the (lowest) low end of its 95 %% interval. The whole is timed anew.\n"
            "undecided: another plan may be faster. More: man moetune-tables.\n",
            defaults == TABLES_DECLARED ? "" : " r=1 d=1 a=linear");
    if (defaults & TABLES_HIDDEN)
        fprintf(to, "With layout=hidden the default plan is r=0 d=1 a=linear e=sparse.\n");
    if (defaults & TABLES_DECLARED && defaults != TABLES_DECLARED)
        fprintf(to, "Of a declared space it is the one above its table.\n");
}

/* Nothing where there is one: its name is the line that comes next. */
static int list_several(struct store *store, FILE *to)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct printer p = { .store = store, .to = memory, .listed = true };
    int rc = memory ? print_entries(&p, 0, 0) : fail(ERR_NOMEM, "a list of tables");

    if (memory)
        fclose(memory);
    if (!rc && p.tables > 1) {
        screen_ink(INK_HEAD, to);
        fputs("layers, by their buckets, what they save, and as --shape takes them:\n", to);
        screen_ink(INK_PLAIN, to);
        fprintf(to, "%s\n", text);
    }
    free(text);
    return rc;
}

int tables_print_all(struct store *store, bool every, FILE *to)
{
    struct told told;
    struct printer p = { .store = store, .to = to, .every = every, .told = &told };
    int rc = told_read(store, &told);

    if (!rc)
        rc = list_several(store, to);
    if (!rc)
        rc = print_entries(&p, 0, 0);
    told_free(&told);
    if (!rc) {
        fprintf(to, "\n");
        tables_legend(p.defaults, to);
    }
    return rc;
}
