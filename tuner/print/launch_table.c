/* Adds up the rows of launches by the weights of buckets, and chooses the launch for a job. */
#include "launch_table.h"

#include "array.h"
#include "buckets.h"
#include "cluster.h"
#include "declaration.h"
#include "distribution.h"
#include "json.h"
#include "launch_decision.h"
#include "pairs.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"
#include "traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int launch_weights(const struct option_list *files, const struct moe_shape *shape, uint32_t window,
                   double **out, size_t *count)
{
    struct buckets buckets = buckets_of(shape, window);
    struct traffic traffic = { 0 };
    size_t all = buckets_end(buckets);
    double *weights = calloc(all, sizeof(*weights));
    int rc = weights ? OK : fail(ERR_NOMEM, "weights of %zu buckets", all);

    for (int i = 0; i < (files ? files->count : 0) && !rc; i++)
        rc = traffic_read(files->items[i], &traffic);
    if (!rc && files && files->count)
        rc = traffic_weights(&traffic, shape, window, weights, all);
    else if (!rc)
        traffic_even(buckets, weights, all);
    traffic_free(&traffic);
    if (rc) {
        free(weights);
        return rc;
    }
    *out = weights;
    *count = all;
    return OK;
}

/* ---- sums */

static const struct launch_row *row_of(const struct launch_table *t, const char *words,
                                       uint32_t bucket)
{
    EACH_ROW (launch_row, row, t->rows)
        if (row->bucket == bucket && !strcmp(row->launch, words))
            return row;
    return NULL;
}

/* Whether any launch has a row for the bucket.  Other buckets count for no launch. */
static bool is_known(const struct launch_table *t, uint32_t bucket)
{
    EACH_ROW (launch_row, row, t->rows)
        if (row->bucket == bucket)
            return true;
    return false;
}

static int list_launches(struct launch_table *t, const struct declaration *d, const double *weights,
                         size_t buckets)
{
    char usual[DECLARATION_PLAN_BYTES];

    declaration_launch_words(d, d->default_choice, usual);
    EACH_ROW (launch_row, row, t->rows) {
        struct launch_total fresh = { .words = row->launch, .usual = !strcmp(row->launch, usual) };
        double spread = 0;

        if (t->count && !strcmp(t->launches[t->count - 1].words, row->launch))
            continue; /* rows come by launch */
        for (uint32_t b = 0; b < buckets; b++) {
            const struct launch_row *in = is_known(t, b) ? row_of(t, row->launch, b) : NULL;

            if (!in && is_known(t, b) && weights[b] > 0) {
                fresh.us = 0;
                break;
            }
            if (!in)
                continue;
            fresh.us += weights[b] * in->time_us;
            spread += weights[b] * in->time_us *
                      in->sd; /* a launch is fast or slow in all buckets alike */
        }
        fresh.sd = fresh.us > 0 ? spread / fresh.us : 0;
        ARRAY_APPEND(t->launches, t->count, fresh);
    }
    return OK;
}

/* Finds what a job would save against the chosen launch if each range had a launch of its own. */
static int find_price(struct launch_table *t, const double *weights, size_t buckets)
{
    struct launch_part *parts;

    t->price = (struct gain)GAIN_UNKNOWN;
    if (t->chosen < 0 || !(t->launches[t->chosen].us > 0))
        return OK;
    parts = calloc(buckets, sizeof(*parts));
    if (!parts)
        return fail(ERR_NOMEM, "%zu ranges", buckets);
    for (uint32_t b = 0; b < buckets; b++) {
        const struct launch_row *chosen = row_of(t, t->launches[t->chosen].words, b),
                                *best = chosen;

        if (!chosen)
            continue;
        EACH_ROW (launch_row, row, t->rows)
            if (row->bucket == b && row->time_us < best->time_us)
                best = row;
        parts[b] = (struct launch_part){ weights[b], log(chosen->time_us), log(best->time_us),
                                         best == chosen ? 0 : hypot(best->sd, chosen->sd) };
    }
    t->price = launch_price(parts, buckets);
    free(parts);
    return OK;
}

/* Returns the fastest launch whose chance of being harmfully slower than the default is small. */
static int choose_launch(const struct launch_table *t)
{
    static const double harm = 0.01; /* the default of tune's --harm */
    int usual = -1, best = -1;

    for (int i = 0; i < (int)t->count; i++)
        usual = t->launches[i].usual && t->launches[i].us > 0 ? i : usual;
    best = usual;
    for (int i = 0; i < (int)t->count; i++) {
        const struct launch_total *l = &t->launches[i], *d = &t->launches[usual < 0 ? i : usual];
        double over = log(l->us / d->us), sd = fmax(1e-9, hypot(l->sd, d->sd));

        if (l->us > 0 && (best < 0 || l->us < t->launches[best].us) &&
            normal_tail((over - log1p(pairs_harmless)) / sd) <= harm)
            best = i;
    }
    return best;
}

/* ---- reading */

/* The launch that the entries of one table have, while they are read. */
struct entry_launch {
    uint32_t window;
    bool any, several;
    char words[DECLARATION_PLAN_BYTES];
};

static int note_launch(void *self, const struct entry_row *e)
{
    struct entry_launch *t = self;
    char words[DECLARATION_PLAN_BYTES];

    if (e->window != t->window)
        return OK;
    declaration_launch_words(declaration_find(e->plan.space), e->plan.choice, words);
    t->several |= t->any && strcmp(words, t->words) != 0;
    memcpy(t->words, words, sizeof(words));
    t->any = true;
    return OK;
}

int launch_table_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                      const struct option_list *traffic, struct launch_table *out)
{
    struct entry_launch chosen = { .window = window };
    const struct declaration *d;
    struct moe_shape layer;
    double *weights = NULL;
    size_t buckets;
    int rc;

    *out = (struct launch_table){ .chosen = -1, .by_traffic = traffic && traffic->count > 0 };
    TRY(store_shape_get(store, shape, &layer));
    d = declaration_find(layer.space);
    if (!d)
        return UNSUPPORTED;
    TRY(store_launches(store, cluster, shape, window, &out->rows));
    if (!out->rows.count)
        return UNSUPPORTED;
    TRY(launch_weights(traffic, &layer, window, &weights, &buckets));
    TRY_OUT(list_launches(out, d, weights, buckets));
    TRY_OUT(store_entries(store, cluster, shape, note_launch, &chosen));
    for (int i = 0; i < (int)out->count; i++)
        if (chosen.any && !chosen.several && !strcmp(out->launches[i].words, chosen.words))
            out->chosen = i;
    if (out->by_traffic)
        out->chosen = choose_launch(out);
    if (out->chosen >= 0)
        out->launches[out->chosen].chosen = true;
    rc = find_price(out, weights, buckets);
out:
    free(weights);
    return rc;
}

/* A look for the table of one layer on one cluster, whose launch is to be chosen. */
struct search_for_table {
    struct store *store;
    const struct moe_shape *shape;
    const uint8_t *hash;
    const struct option_list *traffic;
    char *words;
    bool done;
};

static int choose_if_layer(void *self, const struct entry_row *e)
{
    struct search_for_table *s = self;
    struct launch_table table;
    struct cluster cluster;
    struct moe_shape shape;
    uint8_t hash[HASH_BYTES];
    int rc;

    if (s->done)
        return OK;
    TRY(store_shape_get(s->store, e->shape, &shape));
    TRY(store_cluster_get(s->store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (!shape_equal(&shape, s->shape) || memcmp(hash, s->hash, sizeof(hash)) != 0)
        return OK;
    s->done = true;
    rc = launch_table_read(s->store, e->cluster, e->shape, e->window, s->traffic, &table);
    if (!rc && table.chosen < 0)
        rc = fail(ERR_ARGUMENT, "--traffic: no launch of this table ran in all of its ranges");
    if (!rc)
        text_put(s->words, DECLARATION_PLAN_BYTES, "%s", table.launches[table.chosen].words);
    launch_table_free(&table);
    return rc == UNSUPPORTED
               ? fail(ERR_ARGUMENT, "--traffic: this table has no launches to choose from")
               : rc;
}

int launch_table_choose(const char *path, const struct moe_shape *shape, const uint8_t *cluster,
                        const struct option_list *traffic, char words[DECLARATION_PLAN_BYTES])
{
    struct search_for_table s = {
        .shape = shape, .hash = cluster, .traffic = traffic, .words = words
    };
    int rc;

    TRY(store_read(path, &s.store));
    rc = store_entries(s.store, 0, 0, choose_if_layer, &s);
    store_close(s.store);
    return rc || s.done ? rc : fail(ERR_ARGUMENT, "--traffic: %s holds no such table", path);
}

void launch_table_free(struct launch_table *t)
{
    free(t->rows.rows);
    free(t->launches);
    *t = (struct launch_table){ 0 };
}

/* ---- printing */

static int by_time(const void *a, const void *b)
{
    double x = (*(const struct launch_total *const *)a)->us;
    double y = (*(const struct launch_total *const *)b)->us;

    return x > 0 && y > 0 ? (x > y) - (x < y) : (y > 0) - (x > 0);
}

void launch_table_print(const struct launch_table *t, const char *key, FILE *to)
{
    double chosen_us = t->chosen < 0 ? 0 : t->launches[t->chosen].us;
    const struct launch_total **sorted = calloc(t->count + 1, sizeof(*sorted));
    int wide = 0;

    if (!sorted)
        return;
    for (size_t i = 0; i < t->count; i++) {
        int length = (int)strlen(t->launches[i].words);

        sorted[i] = &t->launches[i];
        wide = length > wide ? length : wide;
    }
    qsort(sorted, t->count, sizeof(*sorted), by_time);
    if (t->by_traffic)
        fprintf(to, "launches  time over all buckets, by the traffic:\n");
    else
        fprintf(to, "launches  time over all buckets, each doubling of %s alike:\n", key);
    for (size_t i = 0; i < t->count; i++) {
        const struct launch_total *l = sorted[i];
        const char *role = l->chosen && l->usual ? "  chosen; the default"
                           : l->chosen           ? "  chosen"
                           : l->usual            ? "  the default"
                                                 : "";

        if (l->us > 0 && chosen_us > 0)
            fprintf(to, "          %-*s  %6.1f %%%s\n", wide, l->words, 100 * l->us / chosen_us,
                    role);
        else
            fprintf(to, "          %-*s  did not run in all buckets%s\n", wide, l->words, role);
    }
    if (!isnan(t->price.value))
        fprintf(to, "          A job that starts anew for each bucket would save %.1f %% more%s.\n",
                100 * t->price.value,
                INTERVAL_TEXT("%.1f", 100 * t->price.low, 100 * t->price.high));
    free(sorted);
}

void launch_table_json(const struct launch_table *t, FILE *to)
{
    double chosen_us = t->chosen < 0 ? NAN : t->launches[t->chosen].us;

    json_write(to, ", 'launch': %s%s%s, 'launches': [", t->chosen < 0 ? "null" : "\"",
               t->chosen < 0 ? "" : t->launches[t->chosen].words, t->chosen < 0 ? "" : "\"");
    for (size_t i = 0; i < t->count; i++) {
        const struct launch_total *l = &t->launches[i];

        json_write(to, "%s{'launch': '%s', 'time_over_told': ", i ? ", " : "", l->words);
        if (l->us > 0 && chosen_us > 0)
            json_write(to, "%.6f", l->us / chosen_us);
        else
            json_write(to, "null");
        json_write(to, ", 'default': %s}", l->usual ? "true" : "false");
    }
    json_write(to, "]");
    if (!isnan(t->price.value))
        json_write(to, ", 'price': %.6f, 'price_low': %.6f, 'price_high': %.6f", t->price.value,
                   t->price.low, t->price.high);
}
