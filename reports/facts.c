/* Reads the store into arrays with one query per table, joins steps with trials, and cuts the
 * arrays into layers. */
#include "facts.h"

#include "array.h"
#include "contrast.h"
#include "drops.h"
#include "plan.h"
#include "standings.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- trials */

/* Trials while their samples are read. */
struct sample_reader {
    struct trial_list *trials;
    struct step_list {
        int64_t *ns;
        size_t count;
    } * steps; /* of each trial, those that count */
};

static int add_trial(void *self, const struct trial_row *trial)
{
    struct trial_list *list = self;
    const struct trial_facts fresh = { .row = *trial };

    ARRAY_APPEND(list->items, list->count, fresh);
    return OK;
}

static void remove_steps(struct trial_facts *trial, struct step_list *steps)
{
    *trial = (struct trial_facts){ .row = trial->row };
    steps->count = 0;
}

static int order_id(const void *id, const void *trial)
{
    int64_t a = *(const int64_t *)id, b = ((const struct trial_facts *)trial)->row.id;

    return (a > b) - (a < b);
}

static int add_sample(void *self, const struct trial_row *row, const struct sample_row *sample)
{
    struct sample_reader *reader = self;
    struct trial_facts *trial =
        bsearch(&row->id, reader->trials->items, reader->trials->count, sizeof(*trial), order_id);
    struct step_list *steps;

    if (!trial)
        return OK;
    steps = &reader->steps[trial - reader->trials->items];
    if (strcmp(trial->load, sample->load) != 0) /* steps under another load cannot be compared */
        remove_steps(trial, steps);
    memcpy(trial->load, sample->load, sizeof(trial->load));
    heat_add(&trial->heat, sample);
    trial->taken_ns += sample->ns;
    trial->search_steps += sample->kind == SAMPLE_SEARCH;
    trial->contest_steps += sample->kind == SAMPLE_CONTEST;
    trial->rounds_steps += sample->kind == SAMPLE_ROUNDS;
    if (sample->gpu.throttled != SAMPLE_SET_ASIDE)
        ARRAY_APPEND(steps->ns, steps->count, sample->ns);
    return OK;
}

/* Removes the steps of trials whose load is not that of their bucket's entry. */
static int remove_other_loads(struct store *store, struct sample_reader *reader)
{
    for (size_t i = 0; i < reader->trials->count; i++) {
        struct trial_facts *trial = &reader->trials->items[i];
        const struct trial_key *key = &trial->row.key;
        struct entry_row entry;
        int rc = trial->heat.steps ? store_entry_get(store, key->cluster, key->shape, key->window,
                                                     key->bucket, &entry)
                                   : UNSUPPORTED;

        if (rc < 0)
            return rc;
        if (!rc && strcmp(entry.load, trial->load) != 0)
            remove_steps(trial, &reader->steps[i]);
    }
    return OK;
}

int trials_read(struct store *store, const struct trial_key *wanted, bool as_decided,
                struct trial_list *out)
{
    struct sample_reader reader = { .trials = out };
    int rc;

    *out = (struct trial_list){ NULL, 0 };
    TRY(store_trials(store, wanted->cluster, wanted->shape, wanted->window, wanted->bucket,
                     add_trial, out));
    if (!out->count)
        return OK;
    reader.steps = calloc(out->count, sizeof(*reader.steps));
    if (!reader.steps)
        return fail(ERR_NOMEM, "the steps of %zu trials", out->count);
    rc = wanted->bucket == UINT32_MAX
             ? store_samples_all(store, add_sample, &reader)
             : store_samples(store, wanted->cluster, wanted->shape, wanted->window, wanted->bucket,
                             add_sample, &reader);
    if (!rc && as_decided)
        rc = remove_other_loads(store, &reader);
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].steps = spread_of(reader.steps[i].ns, reader.steps[i].count);
        free(reader.steps[i].ns);
    }
    free(reader.steps);
    return rc;
}

void trials_free(struct trial_list *list)
{
    free(list->items);
    *list = (struct trial_list){ NULL, 0 };
}

bool trial_usable(const struct trial_facts *trial)
{
    return trial->row.state == TRIAL_OK && trial->steps.count > 0;
}

void trials_rival(const struct trial_facts *trials, size_t count, uint32_t bucket,
                  const struct moe_plan *plan, char text[RIVAL_TEXT_BYTES])
{
    const struct trial_facts *of_plan = NULL, *best = NULL;

    for (const struct trial_facts *t = trials; t < trials + count; t++) {
        if (t->row.key.bucket != bucket || !t->steps.count)
            continue;
        if (plan_equal(&t->row.key.plan, plan))
            of_plan = t;
        if (t->row.state == TRIAL_OK && (!best || t->steps.median_ns < best->steps.median_ns))
            best = t;
    }
    *text = 0;
    if (of_plan && best && best->steps.median_ns < of_plan->steps.median_ns)
        snprintf(text, RIVAL_TEXT_BYTES, "%s took %.1f %% less time in its own %zu step%s",
                 PLAN_WORDS(&best->row.key.plan),
                 100 * (1 - (double)best->steps.median_ns / (double)of_plan->steps.median_ns),
                 best->steps.count, best->steps.count == 1 ? "" : "s");
}

void trials_beyond(const struct trial_facts *trials, size_t count, uint32_t bucket,
                   const struct moe_plan *plan, char text[BEYOND_TEXT_BYTES])
{
    const struct trial_facts *unchunked = NULL, *chunked = NULL;
    struct moe_plan one_chunk = *plan;

    *text = 0;
    if (plan->space || plan->d <= 1)
        return;
    one_chunk.d = 1;
    for (const struct trial_facts *t = trials; t < trials + count; t++)
        if (t->row.key.bucket == bucket && trial_usable(t)) {
            chunked = plan_equal(&t->row.key.plan, plan) ? t : chunked;
            unchunked = plan_equal(&t->row.key.plan, &one_chunk) ? t : unchunked;
        }
    if (unchunked && chunked)
        overlap_beyond(
            &(struct step_halves){ unchunked->steps, unchunked->row.compute_ns,
                                   unchunked->row.comm_ns },
            &(struct step_halves){ chunked->steps, chunked->row.compute_ns, chunked->row.comm_ns },
            text);
}

/* ---- entries */

bool entries_join(const struct entry_row *entry, const struct entry_row *next, uint32_t stride)
{
    return next->bucket == entry->bucket + stride && plan_equal(&next->plan, &entry->plan);
}

struct plan_range plan_range_of(const struct entry_row *entries, size_t count)
{
    struct plan_range r = { .buckets = (uint32_t)count, .gain = GAIN_UNKNOWN };
    /* Sums over the entries that claim a gain, and over all others. */
    enum { CLAIMS, OTHERS, KINDS } kind;
    double log_us[KINDS] = { 0 }, log_default_us[KINDS] = { 0 }, counted;
    double mean = 0, low = 0, high = 0;

    for (const struct entry_row *e = entries; e < entries + count; e++) {
        for (int i = 0; i < ENTRY_STATE_COUNT; i++)
            r.states[i] += entry_is(e, 1u << i);
        r.disturbed += e->throttled > 0;
        kind = OTHERS;
        if (isfinite(e->gain.value) && isfinite(e->gain.low) && !entry_is(e, ENTRY_UNSOUND))
            kind = CLAIMS;
        log_us[kind] += log(e->time_us);
        log_default_us[kind] += log(e->default_us);
        if (kind == CLAIMS) {
            r.claims++;
            mean += log1p(-e->gain.value);
            low += log1p(-e->gain.low);
            high += log1p(-e->gain.high);
        }
    }
    /* Times are of the same entries as the gain; otherwise a row would contradict itself. */
    kind = r.claims ? CLAIMS : OTHERS;
    counted = r.claims ? r.claims : (double)count;
    r.time_us = exp(log_us[kind] / counted);
    r.default_us = exp(log_default_us[kind] / counted);
    if (r.claims)
        r.gain = (struct gain){ 1 - exp(mean / r.claims), 1 - exp(low / r.claims),
                                1 - exp(high / r.claims) };
    return r;
}

bool plan_range_worth(const struct entry_row *entries, size_t count, char text[STANDING_TEXT_BYTES])
{
    struct plan_range all = plan_range_of(entries, count);
    bool faster = false;

    for (size_t i = 0; i < count; i++)
        faster |= !entry_is(&entries[i], ENTRY_UNSOUND) &&
                  (!strcmp(entries[i].decision, "adopted") || entries[i].gain.low > 0);
    faster = faster && all.gain.value >= 5e-4;
    if (faster)
        snprintf(text, STANDING_TEXT_BYTES,
                 "Saves %.1f %%%s against the default, in the mean of %u bucket%s",
                 100 * all.gain.value,
                 INTERVAL_TEXT("%.1f", 100 * all.gain.low, 100 * all.gain.high), all.claims,
                 all.claims == 1 ? "" : "s");
    else
        snprintf(text, STANDING_TEXT_BYTES, "Nothing is proven to be faster than the default");
    return faster;
}

void plan_range_found(const struct plan_range *range, const struct entry_row *entries,
                      unsigned but_for, char text[FOUND_BYTES])
{
    const char *decision = UTF8_LINE(entries->decision), *words = decision;

    /* Two words of decision.h need other words for people. */
    if (!strcmp(decision, "incumbent"))
        words = "kept";
    else if (!strcmp(decision, "alone"))
        words = "default cannot run";
    if (range->buckets > 1)
        text_put(text, FOUND_BYTES, "%u of %u measured", range->buckets - range->states[0],
                 range->buckets);
    else
        text_put(text, FOUND_BYTES, "%s", words);
    for (int i = 1; i < ENTRY_STATE_COUNT; i++)
        if (!range->states[i] || 1u << i & but_for)
            continue;
        else if (range->buckets > 1)
            text_add(text, FOUND_BYTES, ", %u %s", range->states[i], entry_state_words[i]);
        else if (strcmp(decision, entry_state_words[i]) != 0)
            text_add(text, FOUND_BYTES, ", %s", entry_state_words[i]);
    if (range->disturbed && range->buckets == 1)
        text_add(text, FOUND_BYTES, ", disturbed");
}

/* ---- the whole database, and its order */

static int add_entry(void *self, const struct entry_row *entry)
{
    struct facts *f = self;

    ARRAY_APPEND(f->entries, f->entry_count, *entry);
    return OK;
}

/* Phases are read in the order of trials; call it before the trials are sorted otherwise. */
static int read_phases(struct store *store, struct facts *f)
{
    struct row_list list;
    size_t i = 0;

    TRY(store_phases_all(store, &list));
    EACH_ROW (phase_row, row, list) {
        while (i < f->trial_count && f->trials[i].row.id < row->trial)
            i++;
        if (i < f->trial_count && f->trials[i].row.id == row->trial)
            f->trials[i].phases[row->phase] = row->time;
    }
    free(list.rows);
    return OK;
}

/* What makes a layer of struct facts: entries and trials with the same key belong together. */
struct layer_key {
    int64_t cluster, shape;
    uint32_t window, class;
};

/* How many classes the declared space of a shape has. */
struct classes {
    int64_t shape;
    uint32_t count;
};

static uint32_t class_of(const struct facts *f, int64_t shape, uint32_t bucket)
{
    for (size_t i = 0; i < f->classes_count; i++)
        if (f->classes[i].shape == shape)
            return bucket % f->classes[i].count;
    return 0;
}

/* Adds the classes of a shape, unless they are known or it has no declared space. */
static int add_classes(struct store *store, int64_t id, struct facts *f)
{
    const struct declaration *d;
    struct moe_shape shape;

    for (size_t i = 0; i < f->classes_count; i++)
        if (f->classes[i].shape == id)
            return OK;
    TRY(store_shape_get(store, id, &shape));
    d = declaration_find(shape.space);
    if (d)
        ARRAY_APPEND(f->classes, f->classes_count,
                     ((struct classes){ id, declaration_classes(d) }));
    return OK;
}

static int read_classes(struct store *store, struct facts *f)
{
    for (size_t i = 0; i < f->entry_count; i++)
        if (!i || f->entries[i].shape != f->entries[i - 1].shape)
            TRY(add_classes(store, f->entries[i].shape, f));
    for (size_t i = 0; i < f->trial_count; i++)
        if (!i || f->trials[i].row.key.shape != f->trials[i - 1].row.key.shape)
            TRY(add_classes(store, f->trials[i].row.key.shape, f));
    return OK;
}

static int key_order(const struct layer_key *a, const struct layer_key *b)
{
    if (a->cluster != b->cluster)
        return a->cluster < b->cluster ? -1 : 1;
    if (a->shape != b->shape)
        return a->shape < b->shape ? -1 : 1;
    if (a->window != b->window)
        return a->window < b->window ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

static struct layer_key entry_key(const struct facts *f, const struct entry_row *e)
{
    return (struct layer_key){ e->cluster, e->shape, e->window, class_of(f, e->shape, e->bucket) };
}

static struct layer_key trial_key(const struct facts *f, const struct trial_facts *t)
{
    const struct trial_key *k = &t->row.key;

    return (struct layer_key){ k->cluster, k->shape, k->window, class_of(f, k->shape, k->bucket) };
}

static int entry_order(const void *left, const void *right, void *facts)
{
    const struct entry_row *a = left, *b = right;
    struct layer_key ka = entry_key(facts, a), kb = entry_key(facts, b);
    int order = key_order(&ka, &kb);

    return order ? order : (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Orders trials of one layer, by bucket and plan alone. */
static int bucket_and_plan_order(const void *left, const void *right)
{
    const struct trial_row *a = left;
    const struct trial_facts *b = right;

    if (a->key.bucket != b->row.key.bucket)
        return a->key.bucket < b->row.key.bucket ? -1 : 1;
    return plan_order(&a->key.plan, &b->row.key.plan);
}

static int trial_order(const void *left, const void *right, void *facts)
{
    const struct trial_facts *a = left, *b = right;
    struct layer_key ka = trial_key(facts, a), kb = trial_key(facts, b);
    int order = key_order(&ka, &kb);

    return order ? order : bucket_and_plan_order(&a->row, b);
}

/* ---- layers */

static int order_plans(const void *a, const void *b)
{
    return plan_order(a, b);
}

size_t facts_distinct_plans(struct moe_plan *plans, size_t count)
{
    size_t kept = 0;

    if (count)
        qsort(plans, count, sizeof(*plans), order_plans);
    for (size_t i = 0; i < count; i++)
        if (!kept || plan_order(&plans[kept - 1], &plans[i]) != 0)
            plans[kept++] = plans[i];
    return kept;
}

/* Reads what a layer's key stands for, and the comparison of its table as a whole. */
static int read_layer(struct store *store, const struct layer_key *key, struct layer_facts *layer)
{
    int rc;

    layer->cluster_id = key->cluster;
    layer->shape_id = key->shape;
    layer->class = key->class;
    TRY(store_cluster_get(store, key->cluster, &layer->cluster));
    TRY(store_shape_get(store, key->shape, &layer->shape));
    layer->buckets = buckets_of(&layer->shape, key->window);
    layer->modelled = !backend_is_real(layer->cluster.backend);
    rc = store_standing_get(store, key->cluster, key->shape, key->window, &layer->standing);
    if (rc == OK)
        rc = standing_is_current(store, &layer->standing, &layer->has_standing);
    layer->has_standing = layer->has_standing && standing_is_whole(&layer->standing);
    return rc < 0 ? rc : OK;
}

/* ---- loads */

/* Returns whether the plan is r=0 with these experts and no other axis changed. */
static bool is_plain_r0(const struct moe_plan *plan, uint32_t experts)
{
    struct moe_plan wanted = plan_default(NULL);

    wanted.r = 0;
    wanted.e = experts;
    return plan_equal(plan, &wanted);
}

/* Returns largest over mean of a load: "skew 2", or "max/mean 1.83 1a2b3c4d".  0: another kind. */
static double skew_of(const char *load)
{
    static const char *const words[] = { "skew ", "max/mean " };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strncmp(load, words[i], strlen(words[i])))
            return strtod(load + strlen(words[i]), NULL);
    return 0;
}

/* The samples of one bucket: of padded and of sparse experts, under each load. */
struct loaded_samples {
    struct loaded_steps {
        char load[LOAD_NAME_BYTES];
        uint32_t experts; /* enum moe_experts */
        struct step_list steps;
    } * items;
    size_t count;
};

static int add_loaded_sample(void *self, const struct trial_row *trial,
                             const struct sample_row *sample)
{
    const struct moe_plan *plan = &trial->key.plan;
    struct loaded_samples *loaded = self;
    struct loaded_steps fresh = { .experts = plan->e };
    struct step_list *steps;
    size_t i = 0;

    if (!is_plain_r0(plan, plan->e) || sample->gpu.throttled == SAMPLE_SET_ASIDE ||
        !(skew_of(sample->load) > 0))
        return OK;
    while (i < loaded->count && (loaded->items[i].experts != plan->e ||
                                 strcmp(loaded->items[i].load, sample->load) != 0))
        i++;
    memcpy(fresh.load, sample->load, sizeof(fresh.load));
    if (i == loaded->count)
        ARRAY_APPEND(loaded->items, loaded->count, fresh);
    steps = &loaded->items[i].steps;
    ARRAY_APPEND(steps->ns, steps->count, sample->ns);
    return OK;
}

/* Adds a pair for each load under which both kinds of experts were timed. */
static int pair_loads(const struct loaded_samples *loaded, const struct trial_row *trial,
                      struct layer_facts *layer)
{
    for (size_t i = 0; i < loaded->count; i++)
        for (size_t j = 0; j < loaded->count; j++) {
            struct loaded_steps *padded = &loaded->items[i], *sparse = &loaded->items[j];
            struct load_pair pair = { skew_of(padded->load), trial->key.bucket, trial->capacity,
                                      .padded.count = 0 };

            if (padded->experts != MOE_PADDED || sparse->experts != MOE_SPARSE ||
                strcmp(padded->load, sparse->load) != 0)
                continue;
            pair.padded = spread_of(padded->steps.ns, padded->steps.count);
            pair.sparse = spread_of(sparse->steps.ns, sparse->steps.count);
            ARRAY_APPEND(layer->loads, layer->load_count, pair);
        }
    return OK;
}

static int order_loads(const void *a, const void *b)
{
    const struct load_pair *x = a, *y = b;

    if (x->capacity != y->capacity)
        return x->capacity < y->capacity ? -1 : 1;
    return (x->skew > y->skew) - (x->skew < y->skew);
}

static int read_loads(struct store *store, struct layer_facts *layer)
{
    for (size_t i = 0; i < layer->trial_count; i++) {
        const struct trial_row *trial = &layer->trials[i].row;
        struct loaded_samples loaded = { NULL, 0 };
        int rc;

        if (!is_plain_r0(&trial->key.plan, MOE_SPARSE))
            continue;
        rc = store_samples(store, layer->cluster_id, layer->shape_id, layer->buckets.window,
                           trial->key.bucket, add_loaded_sample, &loaded);
        if (!rc)
            rc = pair_loads(&loaded, trial, layer);
        for (size_t j = 0; j < loaded.count; j++)
            free(loaded.items[j].steps.ns);
        free(loaded.items);
        TRY(rc);
    }
    if (layer->load_count)
        qsort(layer->loads, layer->load_count, sizeof(*layer->loads), order_loads);
    return OK;
}

/* ---- cutting layers off the sorted arrays */

static bool same_key(struct layer_key a, struct layer_key b)
{
    return key_order(&a, &b) == 0;
}

static struct layer_key next_key(const struct facts *f, size_t entry, size_t trial)
{
    struct layer_key e, t;

    if (entry == f->entry_count)
        return trial_key(f, &f->trials[trial]);
    e = entry_key(f, &f->entries[entry]);
    if (trial == f->trial_count)
        return e;
    t = trial_key(f, &f->trials[trial]);
    return key_order(&e, &t) <= 0 ? e : t;
}

static int cut_layers(struct store *store, const char *shape, struct facts *f)
{
    size_t entry = 0, trial = 0;

    while (entry < f->entry_count || trial < f->trial_count) {
        struct layer_key key = next_key(f, entry, trial);
        struct layer_facts layer = { .entries = f->entries ? f->entries + entry : NULL,
                                     .trials = f->trials ? f->trials + trial : NULL },
                           *kept;

        while (entry < f->entry_count && same_key(entry_key(f, &f->entries[entry]), key)) {
            entry++;
            layer.entry_count++;
        }
        while (trial < f->trial_count && same_key(trial_key(f, &f->trials[trial]), key)) {
            trial++;
            layer.trial_count++;
        }
        TRY(read_layer(store, &key, &layer));
        if (!shape_agrees(&layer.shape, shape))
            continue;
        ARRAY_APPEND(f->layers, f->layer_count, layer);
        kept = &f->layers[f->layer_count - 1]; /* facts_free() frees its arrays after an error */
        for (size_t i = 0; i < kept->trial_count; i++) {
            const struct trial_facts *t = &kept->trials[i];

            kept->phases |= t->phases[PHASE_TOTAL].ns > 0;
            if (trial_usable(t))
                ARRAY_APPEND(kept->plans, kept->plan_count, t->row.key.plan);
        }
        kept->plan_count = facts_distinct_plans(kept->plans, kept->plan_count);
        TRY(contrast_prepare(kept));
        TRY(read_loads(store, kept));
        TRY(drops_read(store, kept));
    }
    return OK;
}

static int read_all(struct store *store, const char *shape, struct facts *f)
{
    const struct trial_key all_trials = { .bucket = UINT32_MAX };
    struct moe_shape parsed = { 0 };
    struct trial_list trials;
    struct row_list list;
    int rc;

    if (shape && shape_parse(shape, &parsed)) /* prints what is wrong with the text */
        return ERR_ARGUMENT;
    TRY(store_runs(store, &list));
    f->runs = list.rows;
    f->run_count = list.count;
    TRY(store_history(store, &list));
    f->history = list.rows;
    f->history_count = list.count;
    TRY(store_overrides(store, &list));
    f->overrides = list.rows;
    f->override_count = list.count;
    TRY(store_entries(store, 0, 0, add_entry, f));
    rc = trials_read(store, &all_trials, true, &trials);
    f->trials = trials.items;
    f->trial_count = trials.count;
    TRY(rc);
    TRY(read_phases(store, f));
    TRY(read_classes(store, f));
    if (f->trial_count)
        qsort_r(f->trials, f->trial_count, sizeof(*f->trials), trial_order, f);
    if (f->entry_count)
        qsort_r(f->entries, f->entry_count, sizeof(*f->entries), entry_order, f);
    return cut_layers(store, shape, f);
}

int facts_read(struct store *store, const char *shape, struct facts *out)
{
    struct facts facts = { 0 };
    int rc = read_all(store, shape, &facts);

    if (rc)
        facts_free(&facts);
    else
        *out = facts;
    return rc;
}

void facts_free(struct facts *facts)
{
    for (size_t i = 0; i < facts->layer_count; i++) {
        free(facts->layers[i].plans);
        free(facts->layers[i].loads);
        if (facts->layers[i].counts)
            counts_free(facts->layers[i].counts);
        free(facts->layers[i].counts);
        free(facts->layers[i].popularity);
        contrast_free(&facts->layers[i]);
    }
    free(facts->layers);
    free(facts->entries);
    free(facts->trials);
    free(facts->runs);
    free(facts->history);
    free(facts->overrides);
    free(facts->classes);
    *facts = (struct facts){ 0 };
}

/* ---- traffic */

int facts_counts(struct facts *facts, const char *path)
{
    struct counts_trace trace;
    uint32_t experts;
    size_t found = 0;

    TRY(counts_read(path, 1, &trace));
    experts = trace.experts;
    counts_free(&trace);
    for (size_t i = 0; i < facts->layer_count; i++) {
        struct layer_facts *layer = &facts->layers[i];

        if (layer->shape.experts != experts)
            continue;
        layer->counts = calloc(1, sizeof(*layer->counts));
        if (!layer->counts)
            return fail(ERR_NOMEM, "the counts of %u experts", experts);
        TRY(counts_read(path, layer->shape.ranks, layer->counts));
        found++;
    }
    if (!found)
        note("%s has counts of %u experts; no layer of the report has as many", path, experts);
    return found ? OK : UNSUPPORTED;
}

size_t facts_traffic(struct facts *facts, const struct traffic *traffic)
{
    size_t without_layer = traffic->unknown_spaces;

    for (size_t i = 0; i < traffic->count; i++) {
        const struct traffic_layer *recorded = &traffic->layers[i];
        bool found = false;

        for (size_t j = 0; j < facts->layer_count; j++) {
            struct layer_facts *layer = &facts->layers[j];
            struct moe_shape shape = recorded->shape;

            if (!shape.tokens)
                shape.tokens = layer->shape.tokens;
            if (recorded->window != layer->buckets.window || !shape_equal(&shape, &layer->shape))
                continue;
            found = true;
            /* Traffic that gives T is preferred. */
            if (!layer->traffic || recorded->shape.tokens)
                layer->traffic = recorded;
        }
        without_layer += !found;
    }
    return without_layer;
}

/* ---- look-ups in a layer's facts */

const char *facts_range(const struct layer_facts *layer, uint32_t first, uint32_t last,
                        char room[BUCKETS_TEXT_BYTES])
{
    if (!layer->buckets.declared)
        return buckets_text(layer->buckets, first, last, room);
    declaration_ranges(layer->buckets.declared, first, last, room, BUCKETS_TEXT_BYTES);
    return room;
}

const char *facts_key(const struct layer_facts *layer)
{
    return layer->buckets.declared ? buckets_key_name(layer->buckets) : "capacity c, rows";
}

static int order_bucket(const void *left, const void *right)
{
    uint32_t bucket = *(const uint32_t *)left, other = ((const struct entry_row *)right)->bucket;

    return (bucket > other) - (bucket < other);
}

const struct entry_row *facts_entry(const struct layer_facts *layer, uint32_t bucket)
{
    if (!layer->entry_count)
        return NULL;
    return bsearch(&bucket, layer->entries, layer->entry_count, sizeof(*layer->entries),
                   order_bucket);
}

const struct trial_facts *facts_trial(const struct layer_facts *layer, uint32_t bucket,
                                      const struct moe_plan *plan)
{
    struct trial_row wanted = { .key = { .bucket = bucket, .plan = *plan } };

    if (!layer->trial_count)
        return NULL;
    return bsearch(&wanted, layer->trials, layer->trial_count, sizeof(*layer->trials),
                   bucket_and_plan_order);
}
