/* Reads the store into arrays, with one query per table. */
#include "facts.h"

#include "array.h"
#include "contrast.h"
#include "drops.h"
#include "loads.h"
#include "plan.h"
#include "standings.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static int add_entry(void *self, const struct entry_row *entry)
{
    struct facts *f = self;

    ARRAY_APPEND(f->entries, f->entry_count, *entry);
    return OK;
}

static int add_trial(void *self, const struct trial_row *trial)
{
    struct facts *f = self;
    struct trial_facts t = { .row = *trial };

    ARRAY_APPEND(f->trials, f->trial_count, t);
    return OK;
}

/* ---- phases: they come by trial, and so are the trials at that time */

static int read_phases(struct store *store, struct facts *f)
{
    struct row_list list;
    size_t at = 0;

    TRY(store_phases_all(store, &list));
    EACH_ROW (phase_row, row, list) {
        while (at < f->trial_count && f->trials[at].row.id < row->trial)
            at++;
        if (at < f->trial_count && f->trials[at].row.id == row->trial)
            f->trials[at].phases[row->phase] = row->time;
    }
    free(list.rows);
    return OK;
}

static void note_phases(struct layer_facts *layer)
{
    for (size_t i = 0; i < layer->trial_count; i++)
        layer->phases |= layer->trials[i].phases[PHASE_TOTAL].ns > 0;
}

/* ---- samples: they come by trial, and so are the trials at that time */

struct sampling {
    struct store *store;
    struct facts *facts;
    size_t at; /* the trial whose samples are collected */
    int64_t *ns;
    size_t count; /* what is in it */
};

static void forget_steps(struct sampling *s, struct trial_facts *t)
{
    struct trial_facts forgotten = { .row = t->row };

    memcpy(forgotten.phases, t->phases, sizeof(t->phases));
    *t = forgotten;
    s->count = 0;
}

static int end_trial(struct sampling *s)
{
    struct trial_facts *t = &s->facts->trials[s->at];
    const struct trial_key *k = &t->row.key;
    struct entry_row e;
    int rc = store_entry_get(s->store, k->cluster, k->shape, k->window, k->bucket, &e);

    if (rc < 0)
        return rc;
    if (!rc && strcmp(e.load, t->load) != 0)
        forget_steps(s, t);
    t->steps = spread_of(s->ns, s->count);
    s->count = 0;
    return OK;
}

static int add_sample(void *self, const struct trial_row *of, const struct sample_row *sample)
{
    struct sampling *s = self;
    int64_t trial = of->id;
    const struct facts *f = s->facts;
    struct trial_facts *t;

    if (s->at < f->trial_count && f->trials[s->at].row.id < trial)
        TRY(end_trial(s));
    while (s->at < f->trial_count && f->trials[s->at].row.id < trial)
        s->at++;
    if (s->at == f->trial_count || f->trials[s->at].row.id != trial)
        return OK;
    t = &f->trials[s->at];
    if (strcmp(t->load, sample->load) != 0)
        forget_steps(s, t);
    memcpy(t->load, sample->load, sizeof(t->load));
    heat_add(&t->heat, sample);
    t->taken_ns += sample->ns;
    t->search_steps += sample->kind == SAMPLE_SEARCH;
    t->contest_steps += sample->kind == SAMPLE_CONTEST;
    t->rounds_steps += sample->kind == SAMPLE_ROUNDS;
    if (sample->gpu.throttled != SAMPLE_SET_ASIDE)
        ARRAY_APPEND(s->ns, s->count, sample->ns);
    return OK;
}

static int read_samples(struct store *store, struct facts *facts)
{
    struct sampling s = { .store = store, .facts = facts };
    int rc = facts->trial_count ? store_samples_all(store, add_sample, &s) : OK;

    if (!rc && s.at < facts->trial_count)
        rc = end_trial(&s);
    free(s.ns);
    return rc;
}

/* ---- order */

/* What names a layer. */
struct key {
    int64_t cluster, shape;
    uint32_t window, class;
};

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

static int note_classes(struct store *store, int64_t id, struct facts *f)
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
            TRY(note_classes(store, f->entries[i].shape, f));
    for (size_t i = 0; i < f->trial_count; i++)
        if (!i || f->trials[i].row.key.shape != f->trials[i - 1].row.key.shape)
            TRY(note_classes(store, f->trials[i].row.key.shape, f));
    return OK;
}

static int key_order(const struct key *a, const struct key *b)
{
    if (a->cluster != b->cluster)
        return a->cluster < b->cluster ? -1 : 1;
    if (a->shape != b->shape)
        return a->shape < b->shape ? -1 : 1;
    if (a->window != b->window)
        return a->window < b->window ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

static struct key entry_key(const struct facts *f, const struct entry_row *e)
{
    return (struct key){ e->cluster, e->shape, e->window, class_of(f, e->shape, e->bucket) };
}

static struct key trial_key(const struct facts *f, const struct trial_facts *t)
{
    const struct trial_key *k = &t->row.key;

    return (struct key){ k->cluster, k->shape, k->window, class_of(f, k->shape, k->bucket) };
}

static int entry_order(const void *left, const void *right, void *facts)
{
    const struct entry_row *a = left, *b = right;
    struct key ka = entry_key(facts, a), kb = entry_key(facts, b);
    int order = key_order(&ka, &kb);

    return order ? order : (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Without a layer: by bucket and plan alone. */
static int place_order(const void *left, const void *right)
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
    struct key ka = trial_key(facts, a), kb = trial_key(facts, b);
    int order = key_order(&ka, &kb);

    return order ? order : place_order(&a->row, b);
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

static int list_plans(struct layer_facts *layer)
{
    for (size_t i = 0; i < layer->trial_count; i++)
        if (trial_usable(&layer->trials[i]))
            ARRAY_APPEND(layer->plans, layer->plan_count, layer->trials[i].row.key.plan);
    layer->plan_count = facts_distinct_plans(layer->plans, layer->plan_count);
    return OK;
}

static int name_layer(struct store *store, const struct key *key, struct layer_facts *layer)
{
    int rc;

    layer->cluster_id = key->cluster;
    layer->shape_id = key->shape;
    layer->window = key->window;
    layer->class = key->class;
    TRY(store_cluster_get(store, key->cluster, &layer->cluster));
    TRY(store_shape_get(store, key->shape, &layer->shape));
    layer->declared = declaration_find(layer->shape.space);
    layer->modelled = !backend_is_real(layer->cluster.backend);
    rc = store_standing_get(store, key->cluster, key->shape, key->window, &layer->standing);
    if (rc == OK)
        return standing_is_current(store, &layer->standing, &layer->stands);
    return rc < 0 ? rc : OK;
}

/* Takes the next layer's entries and trials off both sorted arrays. */
static void cut_layer(const struct facts *f, const struct key *key, size_t *entry, size_t *trial,
                      struct layer_facts *out)
{
    struct key at;

    out->entries = f->entries ? f->entries + *entry : NULL;
    out->trials = f->trials ? f->trials + *trial : NULL;
    for (; *entry < f->entry_count; ++*entry, out->entry_count++)
        if (at = entry_key(f, &f->entries[*entry]), key_order(&at, key) != 0)
            break;
    for (; *trial < f->trial_count; ++*trial, out->trial_count++)
        if (at = trial_key(f, &f->trials[*trial]), key_order(&at, key) != 0)
            break;
}

static struct key next_key(const struct facts *f, size_t entry, size_t trial)
{
    struct key e, t;

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
        struct key key = next_key(f, entry, trial);
        struct layer_facts layer = { 0 };

        cut_layer(f, &key, &entry, &trial, &layer);
        TRY(name_layer(store, &key, &layer));
        if (!shape_agrees(&layer.shape, shape))
            continue;
        ARRAY_APPEND(f->layers, f->layer_count, layer);
        note_phases(&f->layers[f->layer_count - 1]);
        TRY(list_plans(&f->layers[f->layer_count - 1]));
        TRY(contrast_prepare(&f->layers[f->layer_count - 1]));
        TRY(loads_read(store, &f->layers[f->layer_count - 1]));
        TRY(drops_read(store, &f->layers[f->layer_count - 1]));
    }
    return OK;
}

static int read_all(struct store *store, const char *shape, struct facts *f)
{
    struct moe_shape any = { 0 };
    struct row_list list;

    if (shape && shape_parse(shape, &any)) /* only to say what is wrong with it */
        return ERR_ARGUMENT;
    TRY(store_runs(store, &list));
    f->runs = list.rows;
    f->run_count = list.count;
    TRY(store_overrides(store, &list));
    f->overrides = list.rows;
    f->override_count = list.count;
    TRY(store_entries(store, 0, 0, add_entry, f));
    TRY(store_trials(store, 0, 0, 0, UINT32_MAX, add_trial, f));
    TRY(read_phases(store, f));
    TRY(read_samples(store, f));
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
    free(facts->overrides);
    free(facts->classes);
    *facts = (struct facts){ 0 };
}

/* ---- traffic */

static bool is_of(const struct traffic_layer *traffic, const struct layer_facts *layer)
{
    struct moe_shape shape = traffic->shape;

    if (!shape.tokens)
        shape.tokens = layer->shape.tokens;
    return traffic->window == layer->window && shape_equal(&shape, &layer->shape);
}

int facts_counts(struct facts *facts, const char *path)
{
    struct counts_trace any;
    uint32_t experts;
    size_t found = 0;

    TRY(counts_read(path, 1, &any));
    experts = any.experts;
    counts_free(&any);
    for (size_t i = 0; i < facts->layer_count; i++) {
        struct layer_facts *layer = &facts->layers[i];

        if (layer->shape.experts != experts)
            continue;
        layer->counts = calloc(1, sizeof(*layer->counts));
        if (!layer->counts)
            return fail(ERR_NOMEM, "counts of experts");
        TRY(counts_read(path, layer->shape.ranks, layer->counts));
        found++;
    }
    if (!found)
        note("%s counts %u experts; no layer of the report has as many", path, experts);
    return found ? OK : UNSUPPORTED;
}

size_t facts_traffic(struct facts *facts, const struct traffic *traffic)
{
    size_t nowhere = traffic->strangers;

    for (size_t i = 0; i < traffic->count; i++) {
        const struct traffic_layer *t = &traffic->layers[i];
        bool found = false;

        for (size_t j = 0; j < facts->layer_count; j++) {
            struct layer_facts *layer = &facts->layers[j];

            if (!is_of(t, layer))
                continue;
            found = true;
            /* The one that says T is meant, if there is one. */
            if (!layer->traffic || t->shape.tokens)
                layer->traffic = t;
        }
        nowhere += !found;
    }
    return nowhere;
}

/* ---- questions */

const char *facts_key(const struct layer_facts *layer)
{
    return layer->declared ? layer->declared->key : "capacity c, rows";
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
    return bsearch(&wanted, layer->trials, layer->trial_count, sizeof(*layer->trials), place_order);
}

bool trial_usable(const struct trial_facts *trial)
{
    return trial->row.state == TRIAL_OK && trial->steps.count > 0;
}
