/* Prints entries in the order of buckets, neighbours of one plan as one line, and all of them as
 * JSON. */
#include "tables.h"

#include "array.h"
#include "bucket_key.h"
#include "heat.h"
#include "json.h"
#include "plan.h"
#include "progress.h"
#include "rank_speeds.h"
#include "row.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "told.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct printer {
    struct store *store;
    FILE *to;
    bool every;
    const struct told *told; /* NULL: only the dictionary is wanted */
    uint32_t only;           /* this width; 0: all */
    int64_t cluster, shape;  /* of the block that is open; 0: none */
    uint32_t window, lines;
    int64_t oldest_s, newest_s;
    struct entry_row first, last; /* of the line that is open */
    const struct override_row *pin;
    double time_low, time_high, default_low, default_high, gain_log, gain_least, bound;
    uint32_t buckets, throttled, states[ENTRY_STATE_COUNT]; /* entries, by bit of entry_state */
};

void tables_percent(double share, int width, FILE *to)
{
    if (isnan(share))
        fprintf(to, " %*s", width, "-");
    else
        fprintf(to, " %*.1f", width, share * 100);
}

static void milliseconds(double low_us, double high_us, char *text, size_t size)
{
    if (isnan(low_us) || low_us <= 0)
        snprintf(text, size, "-");
    else if (high_us < low_us * 1.005)
        snprintf(text, size, "%.4g", low_us * 1e-3);
    else
        snprintf(text, size, "%.4g-%.4g", low_us * 1e-3, high_us * 1e-3);
}

/* How one bucket's plan was found, or those of several, and what stands in its place. */
static void print_how(const struct printer *p)
{
    if (p->buckets == 1)
        fprintf(p->to, "%s%s%s%s", UTF8_LINE(p->first.decision), p->throttled ? ", disturbed" : "",
                entry_is(&p->first, ENTRY_STALE) ? ", stale" : "",
                entry_is(&p->first, ENTRY_IMPORTED) ? ", imported" : "");
    else
        fprintf(p->to, "%u measured, %u inferred", p->buckets - p->states[0], p->states[0]);
    for (int i = 1; i < ENTRY_STATE_COUNT && p->buckets > 1; i++)
        if (p->states[i])
            fprintf(p->to, ", %u %s", p->states[i], entry_state_words[i]);
    if (p->buckets > 1 && p->throttled)
        fprintf(p->to, ", some disturbed");
    if (p->pin && p->pin->plan.struct_size)
        fprintf(p->to, "; pinned: %s", PLAN_TEXT(&p->pin->plan));
    fprintf(p->to, "\n");
}

/* The closing of one line: buckets first..last have the same plan. */
static void end_line(struct printer *p)
{
    char buckets[32], rows[32], took[40], default_took[40];
    uint64_t from = (uint64_t)p->first.bucket * p->window;
    uint64_t to = bucket_capacity(p->window, p->last.bucket);

    if (!p->buckets)
        return;
    if (p->first.bucket == p->last.bucket)
        snprintf(buckets, sizeof(buckets), "%u", p->first.bucket);
    else
        snprintf(buckets, sizeof(buckets), "%u-%u", p->first.bucket, p->last.bucket);
    snprintf(rows, sizeof(rows), "%" PRIu64 "-%" PRIu64, from, to);
    milliseconds(p->time_low, p->time_high, took, sizeof(took));
    milliseconds(p->default_low, p->default_high, default_took, sizeof(default_took));
    fprintf(p->to, "%-7s %-13s %-18s %12s %12s", buckets, rows, PLAN_TEXT(&p->first.plan), took,
            default_took);
    tables_percent(1 - exp(p->gain_log / p->buckets), 6, p->to);
    tables_percent(p->gain_least, 9, p->to);
    tables_percent(p->bound, 6, p->to);
    fprintf(p->to, "  ");
    print_how(p);
    p->lines++;
    p->buckets = 0;
}

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
    fprintf(to, "layer    %s\ncluster  %s%s, %u ranks", SHAPE_TEXT(&shape), reality(&cluster),
            UTF8_LINE(cluster.device), cluster.ranks);
    fprintf(to, cluster.ranks_per_node ? " on %u node%s\n" : " on %u unequal node%s\n",
            cluster.nodes, cluster.nodes == 1 ? "" : "s");
    if (cluster_has_graphs(&cluster))
        fprintf(to, "steps    launched as CUDA graphs\n");
    if (rank_speeds_parse(cluster.rank_speeds_percent, &ranks, &slowest) &&
        slowest < 1 - rank_speeds_unequal)
        fprintf(to, "ranks    unequal: every step waits for one with %.2f of the fastest's speed\n",
                slowest);
    return OK;
}

/* UNSUPPORTED: there is none, or it is out of date. */
static int current_standing(const struct printer *p, int64_t cluster, int64_t shape,
                            uint32_t window, struct standing_row *out)
{
    bool current;

    TRY(store_standing_get(p->store, cluster, shape, window, out));
    TRY(standing_is_current(p->store, out, &current));
    return current ? OK : UNSUPPORTED;
}

/* What it is worth as a whole, where that is known. */
static int print_standing(const struct printer *p)
{
    struct standing_row row;
    int rc = current_standing(p, p->cluster, p->shape, p->window, &row);

    if (rc)
        return rc < 0 ? rc : OK;
    fprintf(p->to, "gain      %s\n", STANDING_TEXT(&row));
    return OK;
}

const char *tables_date(int64_t at_s, char room[DATE_BYTES])
{
    time_t at = (time_t)at_s;
    struct tm tm;

    if (!gmtime_r(&at, &tm) || !strftime(room, DATE_BYTES, "%Y-%m-%d %H:%M", &tm))
        snprintf(room, DATE_BYTES, "?");
    return room;
}

static void print_age(const struct printer *p)
{
    const char *from = DATE_TEXT(p->oldest_s), *to = DATE_TEXT(p->newest_s);

    fprintf(p->to, "decided   %s%s%s UTC, %s ago\n", strcmp(from, to) ? from : "",
            strcmp(from, to) ? " to " : "", to,
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)p->newest_s))));
}

static void print_pins(const struct printer *p)
{
    for (size_t i = 0; i < p->told->pin_count; i++) {
        const struct override_row *pin = &p->told->pins[i];

        if (!SAME_TABLE(pin, p))
            continue;
        fprintf(p->to,
                "pinned    buckets %u-%u, capacities %" PRIu64 "-%" PRIu64
                ": %s since %s UTC: %s\n",
                pin->first, pin->last, (uint64_t)pin->first * p->window,
                bucket_capacity(p->window, pin->last), PLAN_TEXT(&pin->plan),
                DATE_TEXT(pin->since_s), UTF8_LINE(pin->why));
    }
}

/* "" if trainers are told what the table says, else why not. */
static int why_silent(const struct printer *p, const struct entry_row *e, char text[128])
{
    uint32_t answers = told_width(p->told, e->cluster, e->shape);
    struct cluster cluster;
    bool here;

    *text = 0;
    TRY(store_cluster_get(p->store, e->cluster, &cluster));
    TRY(store_cluster_is_here(p->store, e->cluster, &here));
    if (!backend_is_real(cluster.backend))
        snprintf(text, 128, "it is modelled");
    else if (!here)
        snprintf(text, 128, "it is imported, and no moetune has run on such a cluster yet");
    else if (answers != e->window)
        snprintf(text, 128,
                 "that of width %u is the last measured one of those that reach far enough; pins "
                 "hold all the same",
                 answers);
    return OK;
}

static int end_block(struct printer *p)
{
    char why[128];

    end_line(p);
    if (!p->told || !p->cluster)
        return OK;
    fprintf(p->to, "\n");
    TRY(print_standing(p));
    print_age(p);
    print_pins(p);
    TRY(why_silent(p, &p->last, why));
    if (*why)
        fprintf(p->to, "silent    trainers are not told this: %s\n", why);
    return OK;
}

static int begin_block(struct printer *p, const struct entry_row *e)
{
    fprintf(p->to, "%s", p->lines ? "\n" : "");
    TRY(tables_heading(p->store, e->cluster, e->shape, p->to));
    fprintf(p->to, "buckets  of width %u\n\n", e->window);
    fprintf(p->to, "%-7s %-13s %-18s %12s %12s %6s %9s %6s  %s\n", "bucket", "capacity", "plan",
            "ms", "default ms", "gain%", "at least%", "bound%", "how");
    p->cluster = e->cluster;
    p->shape = e->shape;
    p->window = e->window;
    p->oldest_s = p->newest_s = e->decided_s;
    return OK;
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

static double higher(double a, double b)
{
    return a > b ? a : b;
}

static void add_to_line(struct printer *p, const struct entry_row *e)
{
    if (!p->buckets) {
        p->first = *e;
        p->time_low = p->time_high = e->time_us;
        p->default_low = p->default_high = e->default_us;
        p->gain_log = p->bound = 0;
        p->gain_least = NAN;
        p->throttled = 0;
        memset(p->states, 0, sizeof(p->states));
    }
    p->oldest_s = e->decided_s < p->oldest_s ? e->decided_s : p->oldest_s;
    p->newest_s = e->decided_s > p->newest_s ? e->decided_s : p->newest_s;
    for (int i = 0; i < ENTRY_STATE_COUNT; i++)
        p->states[i] += entry_is(e, 1u << i);
    p->last = *e;
    p->buckets++;
    p->throttled += e->throttled > 0;
    p->time_low = lower(p->time_low, e->time_us);
    p->time_high = higher(p->time_high, e->time_us);
    p->default_low = lower(p->default_low, e->default_us);
    p->default_high = higher(p->default_high, e->default_us);
    p->gain_log += log1p(-e->gain.value);
    p->gain_least = fmin(p->gain_least, e->gain.low); /* of those that are known */
    p->bound = higher(p->bound, e->bound);
}

static int print_entry(void *self, const struct entry_row *e)
{
    struct printer *p = self;
    bool same_block = SAME_TABLE(e, p);
    const struct override_row *pin = p->told ? told_pin(p->told, e) : NULL;

    if (p->only && e->window != p->only)
        return OK;
    if (!same_block || p->every || e->bucket != p->last.bucket + 1 ||
        !plan_equal(&e->plan, &p->first.plan) || pin != p->pin)
        end_line(p);
    if (!same_block) {
        TRY(end_block(p));
        TRY(begin_block(p, e));
    }
    add_to_line(p, e);
    p->pin = pin;
    return OK;
}

static int print_entries(struct printer *p, int64_t cluster, int64_t shape)
{
    TRY(store_entries(p->store, cluster, shape, print_entry, p));
    TRY(end_block(p));
    return p->lines ? OK : UNSUPPORTED;
}

int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window, FILE *to)
{
    struct printer p = { .store = store, .to = to, .only = window };

    return print_entries(&p, cluster, shape);
}

int tables_print_all(struct store *store, bool every, FILE *to)
{
    struct told told;
    struct printer p = { .store = store, .to = to, .every = every, .told = &told };
    int rc = told_read(store, &told);

    if (!rc)
        rc = print_entries(&p, 0, 0);
    told_free(&told);
    return rc;
}

/* ---- JSON */

void tables_json_standing(const struct standing_row *row, FILE *to)
{
    static const struct standing_row unknown = { .gain = GAIN_UNKNOWN,
                                                 .static_gain = GAIN_UNKNOWN };

    row_json_view(&standing_table, standing_in_show, row ? row : &unknown, to);
}

static void json_pins(const struct printer *p, const struct entry_row *e)
{
    bool any = false;

    fprintf(p->to, ", \"pins\": [");
    for (size_t i = 0; i < p->told->pin_count; i++) {
        const struct override_row *pin = &p->told->pins[i];

        if (!SAME_TABLE(pin, e))
            continue;
        fprintf(p->to, "%s{\"first\": %u", any ? ", " : "", pin->first);
        row_json_view(&override_table, "last_bucket=last plan since_s=since why", pin, p->to);
        fprintf(p->to, "}");
        any = true;
    }
    fprintf(p->to, "]");
}

static int json_block(struct printer *p, const struct entry_row *e)
{
    char why[128];
    struct cluster cluster;
    struct moe_shape shape;
    char hex[2 * HASH_BYTES + 1];
    struct standing_row row;
    int rc;

    TRY(store_cluster_get(p->store, e->cluster, &cluster));
    TRY(store_shape_get(p->store, e->shape, &shape));
    cluster_hex(&cluster, hex);
    fprintf(p->to, "%s{\"cluster\": \"%s\", \"device\": ", p->cluster ? "\n]},\n" : "", hex);
    json_quote(cluster.device, p->to);
    fprintf(p->to, ", \"modelled\": %s, \"shape\": \"%s\", \"window\": %u",
            backend_is_real(cluster.backend) ? "false" : "true", SHAPE_TEXT(&shape), e->window);
    if (cluster_has_graphs(&cluster))
        fprintf(p->to, ", \"graphs\": true");
    rc = current_standing(p, e->cluster, e->shape, e->window, &row);
    if (rc < 0)
        return rc;
    tables_json_standing(rc ? NULL : &row, p->to);
    TRY(why_silent(p, e, why));
    fprintf(p->to, ", \"answers\": %s", *why ? "false" : "true");
    json_pins(p, e);
    fprintf(p->to, ", \"entries\": [\n");
    p->cluster = e->cluster;
    p->shape = e->shape;
    p->window = e->window;
    p->lines = 0;
    return OK;
}

static int json_entry(void *self, const struct entry_row *e)
{
    struct printer *p = self;
    static const struct override_row none;
    const struct override_row *pin = told_pin(p->told, e);

    if (!SAME_TABLE(e, p))
        TRY(json_block(p, e));
    fprintf(p->to, "%s  {\"bucket\": %u", p->lines++ ? ",\n" : "", e->bucket);
    row_json_view(&entry_table, entry_in_show, e, p->to);
    row_json_view(&override_table, "plan=pinned", pin ? pin : &none, p->to);
    fprintf(p->to, "}");
    return OK;
}

/* Whole, or not at all: half of it is no JSON. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, FILE *to)
{
    char *text = NULL;
    size_t length = 0;
    struct told told;
    struct printer p = { .store = store, .to = open_memstream(&text, &length), .told = &told };
    int rc;

    if (!p.to)
        return fail(ERR_NOMEM, "a table as JSON");
    rc = told_read(store, &told);
    fprintf(p.to, "[");
    if (!rc)
        rc = store_entries(store, cluster, shape, json_entry, &p);
    fprintf(p.to, p.cluster ? "\n]}]\n" : "]\n");
    if (fclose(p.to) && !rc)
        rc = fail(ERR_NOMEM, "a table as JSON");
    if (!rc)
        fwrite(text, 1, length, to);
    free(text);
    told_free(&told);
    return rc ? rc : p.cluster ? OK : UNSUPPORTED;
}

/* ---- trials */

/* Samples come by trial, as trials do. */
struct heats {
    FILE *to;
    struct trial_heat {
        int64_t trial;
        struct heat heat;
    } * list;
    size_t count, at;
};

static int add_heat(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct heats *h = self;
    const struct trial_heat fresh = { .trial = trial->id };

    if (!h->count || h->list[h->count - 1].trial != trial->id)
        ARRAY_APPEND(h->list, h->count, fresh);
    heat_add(&h->list[h->count - 1].heat, sample);
    return OK;
}

static struct heat heat_of(struct heats *h, int64_t trial)
{
    while (h->at < h->count && h->list[h->at].trial < trial)
        h->at++;
    return h->at < h->count && h->list[h->at].trial == trial ? h->list[h->at].heat
                                                             : (struct heat){ 0 };
}

static int print_trial(void *self, const struct trial_row *t)
{
    struct heats *h = self;
    struct heat heat = heat_of(h, t->id);
    char clock[32] = "-";

    if (heat.clock_low_mhz)
        snprintf(clock, sizeof(clock), "%u-%u", heat.clock_low_mhz, heat.clock_high_mhz);
    fprintf(h->to,
            "%-7" PRId64 " %-7u %-7u %-18s %-10s %10.3f %10.3f %9.3f %9.3f %6" PRIu64 " %9" PRIu64
            " %9s  %s\n",
            t->key.shape, t->key.bucket, t->key.window, PLAN_TEXT(&t->key.plan),
            trial_state_words[t->state], (double)t->compute_ns * 1e-6, (double)t->comm_ns * 1e-6,
            (double)t->sent_bytes * 0x1p-20, (double)t->memory_bytes * 0x1p-20, heat.steps,
            heat.throttled.steps + heat.disturbed.steps, clock, UTF8_LINE(t->message));
    return OK;
}

int tables_print_trials(struct store *store, FILE *to)
{
    struct heats heats = { .to = to };
    int rc = store_samples_all(store, add_heat, &heats);

    fprintf(to, "%-7s %-7s %-7s %-18s %-10s %10s %10s %9s %9s %6s %9s %9s\n", "layer", "bucket",
            "width", "plan", "state", "compute ms", "comm ms", "sent MiB", "mem MiB", "steps",
            "disturbed", "SM MHz");
    if (!rc)
        rc = store_trials(store, 0, 0, 0, UINT32_MAX, print_trial, &heats);
    free(heats.list);
    return rc;
}
