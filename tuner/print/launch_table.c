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
    size_t bucket_count = buckets_end(buckets);
    double *weights = calloc(bucket_count, sizeof(*weights));
    int rc = weights ? OK : fail(ERR_NOMEM, "weights of %zu buckets", bucket_count);

    for (int i = 0; i < (files ? files->count : 0) && !rc; i++)
        rc = traffic_read(files->items[i], &traffic);
    if (!rc && files && files->count)
        rc = traffic_weights(&traffic, shape, window, weights, bucket_count);
    else if (!rc)
        traffic_even(buckets, weights, bucket_count);
    traffic_free(&traffic);
    if (rc) {
        free(weights);
        return rc;
    }
    *out = weights;
    *count = bucket_count;
    return OK;
}

/* ---- sums */

static const struct launch_row *find_launch_row(const struct launch_table *t, const char *words,
                                                uint32_t bucket)
{
    EACH_ROW (launch_row, row, t->rows)
        if (row->bucket == bucket && !strcmp(row->launch, words))
            return row;
    return NULL;
}

/* Whether any launch has a row for the bucket.  Other buckets count for no launch. */
static bool has_launches(const struct launch_table *t, uint32_t bucket)
{
    EACH_ROW (launch_row, row, t->rows)
        if (row->bucket == bucket)
            return true;
    return false;
}

static int list_launches(struct launch_table *t, const struct declaration *declaration,
                         const double *weights, size_t buckets)
{
    char default_words[DECLARATION_PLAN_BYTES];

    declaration_launch_words(declaration, declaration->default_choice, default_words);
    EACH_ROW (launch_row, row, t->rows) {
        struct launch_total total = { .words = row->launch,
                                      .is_default = !strcmp(row->launch, default_words) };
        double weighted_sd = 0;

        if (t->count && !strcmp(t->launches[t->count - 1].words, row->launch))
            continue; /* rows come by launch */
        for (uint32_t b = 0; b < buckets; b++) {
            const struct launch_row *in_bucket = find_launch_row(t, row->launch, b);

            if (!in_bucket && weights[b] > 0 && has_launches(t, b)) {
                total.us = 0; /* it did not run in all buckets */
                break;
            }
            if (!in_bucket)
                continue;
            total.us += weights[b] * in_bucket->time_us;
            /* A launch is fast or slow in all buckets alike, so its deviations are added. */
            weighted_sd += weights[b] * in_bucket->time_us * in_bucket->sd;
        }
        total.sd = total.us > 0 ? weighted_sd / total.us : 0;
        ARRAY_APPEND(t->launches, t->count, total);
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
        const struct launch_row *chosen = find_launch_row(t, t->launches[t->chosen].words, b),
                                *best = chosen;

        if (!chosen)
            continue;
        EACH_ROW (launch_row, row, t->rows)
            if (row->bucket == b && row->time_us < best->time_us)
                best = row;
        parts[b] = (struct launch_part){ .weight = weights[b],
                                         .log_ns = log(chosen->time_us),
                                         .best_log_ns = log(best->time_us),
                                         .sd = best == chosen ? 0 : hypot(best->sd, chosen->sd) };
    }
    t->price = launch_price(parts, buckets);
    free(parts);
    return OK;
}

/* Returns the fastest launch whose chance of being harmfully slower than the default is small. */
static int choose_launch(const struct launch_table *t)
{
    static const double harm_max = 0.01; /* the default of tune's --harm */
    int default_index = -1, best;

    for (int i = 0; i < (int)t->count; i++)
        if (t->launches[i].is_default && t->launches[i].us > 0)
            default_index = i;
    best = default_index;
    for (int i = 0; i < (int)t->count; i++) {
        const struct launch_total *launch = &t->launches[i];
        const struct launch_total *against =
            default_index < 0 ? launch : &t->launches[default_index];
        double log_slower = log(launch->us / against->us);
        double sd = fmax(1e-9, hypot(launch->sd, against->sd));

        if (launch->us > 0 && (best < 0 || launch->us < t->launches[best].us) &&
            normal_tail((log_slower - log1p(pairs_harmless)) / sd) <= harm_max)
            best = i;
    }
    return best;
}

/* ---- reading */

/* The launch that the entries of one table have, while they are read. */
struct entry_launch {
    uint32_t window;
    bool has_entry, differs; /* `differs`: two entries have different launches */
    char words[DECLARATION_PLAN_BYTES];
};

static int note_launch(void *self, const struct entry_row *e)
{
    struct entry_launch *found = self;
    char words[DECLARATION_PLAN_BYTES];

    if (e->window != found->window)
        return OK;
    declaration_launch_words(declaration_find(e->plan.space), e->plan.choice, words);
    found->differs |= found->has_entry && strcmp(words, found->words) != 0;
    memcpy(found->words, words, sizeof(words));
    found->has_entry = true;
    return OK;
}

int launch_table_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                      const struct option_list *traffic, struct launch_table *out)
{
    struct entry_launch of_entries = { .window = window };
    const struct declaration *declaration;
    struct moe_shape layer;
    double *weights = NULL;
    size_t buckets;
    int rc;

    *out = (struct launch_table){ .chosen = -1, .by_traffic = traffic && traffic->count > 0 };
    TRY(store_shape_get(store, shape, &layer));
    declaration = declaration_find(layer.space);
    if (!declaration)
        return UNSUPPORTED;
    TRY(store_launches(store, cluster, shape, window, &out->rows));
    if (!out->rows.count)
        return UNSUPPORTED;
    TRY(launch_weights(traffic, &layer, window, &weights, &buckets));
    TRY_OUT(list_launches(out, declaration, weights, buckets));
    TRY_OUT(store_entries(store, cluster, shape, note_launch, &of_entries));
    for (int i = 0; i < (int)out->count; i++)
        if (of_entries.has_entry && !of_entries.differs &&
            !strcmp(out->launches[i].words, of_entries.words))
            out->chosen = i;
    if (out->by_traffic)
        out->chosen = choose_launch(out);
    if (out->chosen >= 0)
        out->launches[out->chosen].is_chosen = true;
    rc = find_price(out, weights, buckets);
out:
    free(weights);
    return rc;
}

/* A walk over entries, until one is of the layer and cluster whose launch is to be chosen. */
struct search_for_table {
    struct store *store;
    const struct moe_shape *shape;
    const uint8_t *hash;
    const struct option_list *traffic;
    char *words;
    bool done;
};

static int choose_launch_of_layer(void *self, const struct entry_row *e)
{
    struct search_for_table *search = self;
    struct launch_table table;
    struct cluster cluster;
    struct moe_shape shape;
    uint8_t hash[HASH_BYTES];
    int rc;

    if (search->done)
        return OK;
    TRY(store_shape_get(search->store, e->shape, &shape));
    TRY(store_cluster_get(search->store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (!shape_equal(&shape, search->shape) || memcmp(hash, search->hash, sizeof(hash)) != 0)
        return OK;
    search->done = true;
    rc = launch_table_read(search->store, e->cluster, e->shape, e->window, search->traffic, &table);
    if (!rc && table.chosen < 0)
        rc = fail(ERR_ARGUMENT, "--traffic: no launch of this table ran in all of its ranges");
    if (!rc)
        text_put(search->words, DECLARATION_PLAN_BYTES, "%s", table.launches[table.chosen].words);
    launch_table_free(&table);
    return rc == UNSUPPORTED
               ? fail(ERR_ARGUMENT, "--traffic: this table has no launches to choose from")
               : rc;
}

int launch_table_choose(const char *path, const struct moe_shape *shape, const uint8_t *cluster,
                        const struct option_list *traffic, char words[DECLARATION_PLAN_BYTES])
{
    struct search_for_table search = {
        .shape = shape, .hash = cluster, .traffic = traffic, .words = words
    };
    int rc;

    TRY(store_read(path, &search.store));
    rc = store_entries(search.store, 0, 0, choose_launch_of_layer, &search);
    store_close(search.store);
    return rc || search.done ? rc : fail(ERR_ARGUMENT, "--traffic: %s holds no such table", path);
}

void launch_table_free(struct launch_table *t)
{
    free(t->rows.rows);
    free(t->launches);
    *t = (struct launch_table){ 0 };
}

/* ---- printing */

static int compare_times(const void *a, const void *b)
{
    double a_us = (*(const struct launch_total *const *)a)->us;
    double b_us = (*(const struct launch_total *const *)b)->us;

    return a_us > 0 && b_us > 0 ? (a_us > b_us) - (a_us < b_us) : (b_us > 0) - (a_us > 0);
}

void launch_table_print(const struct launch_table *t, const char *key, FILE *out)
{
    double chosen_us = t->chosen < 0 ? 0 : t->launches[t->chosen].us;
    const struct launch_total **sorted = calloc(t->count + 1, sizeof(*sorted));
    int words_width = 0;

    if (!sorted)
        return;
    for (size_t i = 0; i < t->count; i++) {
        int length = (int)strlen(t->launches[i].words);

        sorted[i] = &t->launches[i];
        words_width = length > words_width ? length : words_width;
    }
    qsort(sorted, t->count, sizeof(*sorted), compare_times);
    if (t->by_traffic)
        fprintf(out, "launches  time over all buckets, by the traffic:\n");
    else
        fprintf(out, "launches  time over all buckets, each doubling of %s alike:\n", key);
    for (size_t i = 0; i < t->count; i++) {
        const struct launch_total *launch = sorted[i];
        const char *role = launch->is_chosen && launch->is_default ? "  chosen; the default"
                           : launch->is_chosen                     ? "  chosen"
                           : launch->is_default                    ? "  the default"
                                                                   : "";

        if (launch->us > 0 && chosen_us > 0)
            fprintf(out, "          %-*s  %6.1f %%%s\n", words_width, launch->words,
                    100 * launch->us / chosen_us, role);
        else
            fprintf(out, "          %-*s  did not run in all buckets%s\n", words_width,
                    launch->words, role);
    }
    if (!isnan(t->price.value))
        fprintf(
            out, "          A job that starts anew for each bucket would save %.1f %% more%s.\n",
            100 * t->price.value, INTERVAL_TEXT("%.1f", 100 * t->price.low, 100 * t->price.high));
    free(sorted);
}

void launch_table_json(const struct launch_table *t, FILE *out)
{
    double chosen_us = t->chosen < 0 ? NAN : t->launches[t->chosen].us;

    json_write(out, ", 'launch': %s%s%s, 'launches': [", t->chosen < 0 ? "null" : "\"",
               t->chosen < 0 ? "" : t->launches[t->chosen].words, t->chosen < 0 ? "" : "\"");
    for (size_t i = 0; i < t->count; i++) {
        const struct launch_total *launch = &t->launches[i];

        json_write(out, "%s{'launch': '%s', 'time_over_told': ", i ? ", " : "", launch->words);
        if (launch->us > 0 && chosen_us > 0)
            json_write(out, "%.6f", launch->us / chosen_us);
        else
            json_write(out, "null");
        json_write(out, ", 'default': %s}", launch->is_default ? "true" : "false");
    }
    json_write(out, "]");
    if (!isnan(t->price.value))
        json_write(out, ", 'price': %.6f, 'price_low': %.6f, 'price_high': %.6f", t->price.value,
                   t->price.low, t->price.high);
}
