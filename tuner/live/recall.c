/* Opens the table when a trainer starts, finds the answer of each bucket in it, and closes it. */
#include "live.h"

#include "arms.h"
#include "cluster.h"
#include "costs.h"
#include "lookup.h"
#include "plan.h"
#include "sha256.h"
#include "status.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EFFORT_NORMAL = 1 }; /* index in efforts[] */

uint64_t bucket_demand(const struct table_setup *setup, uint32_t bucket)
{
    for (size_t i = 0; i < setup->demand_count; i++)
        if (setup->demands[i].bucket == bucket)
            return setup->demands[i].asks;
    return setup->demands ? 0 : 1;
}

/* ---- answers */

void live_stop_learning(struct live *live)
{
    if (!live->status.looking_up)
        note("this process learns nothing more; it answers by what is known");
    live->status.looking_up = 1;
    live->focus = NULL;
}

void live_set_answer(struct live *live, struct live_bucket *lb, int arm, uint32_t source)
{
    if (arm != lb->best) {
        lb->level.count = 0;
        lb->slope = (struct slope){ 0 };
    }
    lb->best = arm;
    lb->answer = live->arms[arm];
    lb->answer.source = source;
    lb->answer.bucket = lb->bucket.key.bucket;
    lb->answer.time_us = lb->answer.default_us = 0;
}

void live_set_capacity(const struct live *live, struct live_bucket *lb, uint64_t capacity)
{
    if (lb->bucket.capacity == capacity ||
        !buckets_contain(live->dictionary.buckets, lb->bucket.key.bucket, capacity))
        return;
    lb->bucket.capacity = capacity;
    lb->level.count = 0;
    lb->slope = (struct slope){ 0 };
}

bool live_apply_entry(struct live *live, struct live_bucket *lb)
{
    const struct entry_row *e = &lb->bucket.entry;
    bool is_demanded = live->setup.demands && bucket_demand(&live->setup, e->bucket);
    int arm = lb->bucket.known ? arms_find(live->arms, live->dictionary.arm_count, &e->plan) : -1;
    uint32_t source = entry_is(e, ENTRY_OUTDATED)   ? MOE_STALE
                      : entry_is(e, ENTRY_IMPORTED) ? MOE_IMPORTED
                      : e->inferred                 ? MOE_INFERRED
                                                    : MOE_EXACT;
    double slow_above_ns;

    if (lb->bucket.known && entry_is(e, ENTRY_UNSOUND)) { /* the bucket stays open */
        live_set_capacity(live, lb, e->capacity);
        live_set_answer(live, lb, live->dictionary.default_arm, MOE_UNSOUND);
        return true;
    }
    if (arm < 0)
        return false;
    live_set_capacity(live, lb, e->capacity);
    live_set_answer(live, lb, arm, source);
    lb->rematch = entry_is(e, ENTRY_OUTDATED) && !entry_is(e, ENTRY_INFERRED);
    if (!dictionary_holds(&live->dictionary, e, !is_demanded))
        return true;
    /* The entry holds: it answers from now on, and steps are compared with it. */
    lb->state = LIVE_DECIDED;
    lb->answer.time_us = e->time_us > 0 ? (float)e->time_us : 0;
    lb->answer.default_us = e->default_us > 0 ? (float)e->default_us : 0;
    /* A step that takes longer is slower than its entry says.  A measured entry has an interval, an
     * inferred one a bound.  NAN: the entry has neither. */
    slow_above_ns =
        1e3 * (e->inferred ? e->time_us * (1 + e->bound) : fmax(e->time_us, e->high_us));
    lb->watched = slow_above_ns > 0;
    if (lb->watched)
        drift_open(&lb->drift, 1e3 * e->time_us, slow_above_ns, e->inferred);
    return true;
}

/* Returns the measured time of a neighbour's best plan over that of the default plan there; 1: it
 * is not known.  With fewer samples than LEAST an outlier could decide. */
static double part_of_default(const struct live *live, const struct live_bucket *lb)
{
    enum { LEAST = 3 };
    const struct bucket *bucket = &lb->bucket;
    int default_arm = live->dictionary.default_arm;
    double part = NAN;

    if (lb->state == LIVE_DECIDED)
        part = 1 - bucket->entry.gain.value;
    else if (bucket_count(bucket, default_arm) >= LEAST && bucket_count(bucket, lb->best) >= LEAST)
        part = bucket_median_ns(bucket, lb->best) / bucket_median_ns(bucket, default_arm);
    return part > 0 ? part : 1;
}

/* Returns whether a neighbour's plan cannot be slower here than the default plan, without a model:
 * it is faster there by more than the ratio of capacities.  Time grows with capacity, at most in
 * proportion. */
static bool is_harmless(const struct live *live, const struct live_bucket *lb,
                        const struct live_bucket *near)
{
    double ratio = (double)near->bucket.capacity / (double)lb->bucket.capacity;

    /* Classes take different times at one capacity. */
    return near->bucket.dictionary == lb->bucket.dictionary &&
           part_of_default(live, near) * fmax(ratio, 1 / ratio) <= 1;
}

/* Answers by the default plan or a neighbour's plan, whichever the search expects to be faster
 * here.
 */
static void guess_answer(struct live *live, struct live_bucket *lb)
{
    struct live_bucket_pair around =
        live_buckets_around(&live->buckets, lb->bucket.key.bucket, BY_ANY_SAMPLES);
    struct search *search = lb->bucket.dictionary->search;
    const struct live_bucket *neighbours[] = { around.below, around.above };
    double least_ns = NAN;
    int best = live->dictionary.default_arm;

    if (neighbours[0] || neighbours[1])
        least_ns = search_estimate(search, lb->bucket.capacity, best);
    for (int i = 0; i < 2; i++) {
        double ns =
            neighbours[i] ? search_estimate(search, lb->bucket.capacity, neighbours[i]->best) : NAN;

        if (ns < (1 - live->setup.margin) * least_ns && is_harmless(live, lb, neighbours[i])) {
            least_ns = ns;
            best = neighbours[i]->best;
        }
    }
    live_set_answer(live, lb, best,
                    best == live->dictionary.default_arm ? MOE_DEFAULT : MOE_NEIGHBOUR);
    lb->guessed = live->insights;
}

void live_look_up(const struct live *live, uint32_t bucket, uint64_t capacity,
                  struct moe_plan *plan)
{
    *plan = (struct moe_plan)MOE_PLAN_INIT;
    if (live->view)
        moelookup_get_key(live->view, capacity, buckets_class_of(live->dictionary.buckets, bucket),
                          plan);
}

void live_ensure_answer(struct live *live, struct live_bucket *lb)
{
    if (!lb->answer.struct_size) { /* the first ask */
        struct moe_plan plan;
        bool known = true;

        live_look_up(live, lb->bucket.key.bucket, lb->bucket.capacity, &plan);
        if (plan.source == MOE_OVERRIDE) {
            /* A pin counts more than anything measured. */
            lb->answer = plan;
            lb->best = -1;
            lb->state = LIVE_FIXED;
        } else {
            known = live_apply_entry(live, lb);
        }
        if (lb->state == LIVE_OPEN && !bucket_demand(&live->setup, lb->bucket.key.bucket))
            lb->state = LIVE_FIXED;
        if (!known)
            guess_answer(live, lb);
    } else if (lb->state == LIVE_OPEN && !lb->bucket.known && !lb->bucket.sample_count &&
               lb->guessed != live->insights) {
        guess_answer(live, lb);
    }
}

/* ---- entries of earlier runs */

/* Adds the bucket of an entry, and teaches the search its samples. */
static int recall_entry(void *self, const struct entry_row *entry)
{
    struct live *live = self;
    struct live_bucket *lb;
    bool fresh;

    if (entry->window != live->setup.window)
        return OK;
    lb = live_bucket_at(live, entry->bucket, &fresh);
    if (!lb)
        return fail(ERR_NOMEM, "a bucket");
    lb->bucket.known = true;
    lb->bucket.entry = *entry;
    live_ensure_answer(live, lb);
    if (lb->state != LIVE_DECIDED)
        return OK;
    live->decided++;
    if (entry->inferred)
        return OK;
    /* A decided bucket teaches the search about those that are not. */
    TRY(bucket_load(&lb->bucket));
    bucket_open(&lb->bucket, false);
    bucket_forget(&lb->bucket);
    return OK;
}

/* ---- opening */

int live_cluster(const struct table_setup *setup, struct cluster *out)
{
    struct cluster c = cluster_unknown();
    const struct moe_shape *s = &setup->shape;

    if (setup->cluster)
        TRY(cluster_parse(setup->cluster, "options.cluster", &c));
    TRY(cluster_check_words(&c, "options.cluster"));
    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "live");
    c.ranks = s->ranks;
    c.ranks_per_node = s->ranks_per_node;
    c.ranks_per_rack = s->ranks_per_rack;
    c.nodes = s->ranks_per_node ? s->ranks / s->ranks_per_node : c.nodes;
    if (setup->layer && strlen(setup->layer) >= sizeof(c.compute_library))
        return fail(ERR_ARGUMENT, "options.layer: more than %zu characters",
                    sizeof(c.compute_library) - 1);
    if (setup->layer)
        snprintf(c.compute_library, sizeof(c.compute_library), "%s", setup->layer);
    *out = c;
    return OK;
}

/* Opens the view of libmoelookup, which knows pins, FORCE and DISABLE. */
static int open_view(struct live *live, const char *path, const struct cluster *cluster)
{
    char hex[SHA256_HEX_BYTES];
    struct recorder *recorder;
    struct moelookup *table;
    int rc;

    cluster_hex(cluster, hex);
    TRY(moelookup_open(path, &table));
    table->level = LOOKUP_NEVER; /* do not log gaps: this process fills them */
    recorder = table->recorder;
    if (live->dictionary.store)
        table->recorder = NULL; /* a look for pins is no miss */
    rc = moelookup_bind(table, &live->setup.shape, hex, &live->view);
    table->recorder = recorder;
    moelookup_close(table);
    return rc;
}

int table_arms(const struct table_setup *setup, struct dictionary *d,
               struct moe_plan arms[SEARCH_ARMS_MAX])
{
    struct arms_setup axes = { .axes = setup->axes ? setup->axes : "r,d,a", .foreign = true };
    struct moe_plan default_plan = plan_default(&setup->shape);

    *d = (struct dictionary){ .buckets = buckets_of(&setup->shape, setup->window),
                              .arms = arms,
                              .effort = setup->effort ? setup->effort : &efforts[EFFORT_NORMAL],
                              .any_effort = !setup->effort,
                              .harm = setup->harm,
                              .margin = setup->margin };
    TRY(arms_list(&setup->shape, &axes, arms, &d->arm_count));
    d->default_arm = arms_find(arms, d->arm_count, &default_plan);
    return OK;
}

struct search_setup table_search(const struct table_setup *setup, const struct dictionary *d,
                                 const struct cluster *cluster)
{
    return (struct search_setup){ .shape = setup->shape,
                                  .arms = d->arms,
                                  .arm_count = d->arm_count,
                                  .machine = known_machine(cluster, &(struct search_machine){ 0 }),
                                  .worth = d->effort->worth,
                                  .seed = setup->seed };
}

int table_begin(const struct table_setup *setup, struct cluster *cluster, const char *search,
                struct dictionary *d, struct run *run)
{
    const char *command = setup->command ? setup->command : "a trainer, with libmoetune";

    TRY(recognise(d->store, cluster, &d->cluster));
    TRY(dictionary_open(d, &setup->shape));
    run->store = d->store;
    TRY(run_begin(run, d->cluster, setup->seed, search, d->effort->name, command));
    d->run = run->row.id;
    if (!setup->command)
        return OK;
    TRY(run_first(d->store, d->cluster, command, false, &d->first_run));
    d->pairs_since = d->first_run;
    return OK;
}

/* Opens a search of all plans. */
static int open_search(struct live *live, const struct cluster *cluster, struct search **out)
{
    struct search_setup search = table_search(&live->setup, &live->dictionary, cluster);

    return search_open(search_find(live->dictionary.buckets.declared ? "blind" : "guided"), &search,
                       out);
}

struct live_bucket *live_bucket_at(struct live *live, uint32_t bucket, bool *fresh)
{
    return live_buckets_at(&live->buckets, &live->classes[bucket % live->class_count], bucket,
                           fresh);
}

/* Opens the store and its table, and reads the entries.  If another process has the lease, this one
 * only looks up. */
static int open_store(struct live *live, const char *path, struct cluster *cluster)
{
    /* Disks differ, so committing and publishing take at most these shares of the time. */
    static const struct run_pace pace = { .commit_every_us = 1e6,
                                          .commit_share = 0.001,
                                          .commit_at_last_us = 20e6,
                                          .publish_share = 0.01,
                                          .alive_every_us = 10e6 };
    const struct table_setup *setup = &live->setup;
    struct dictionary *d = &live->dictionary;
    uint32_t count = buckets_classes(d->buckets);
    int rc = setup->dry_run ? store_dry_run("", &d->store)
                            : store_open(path, setup->store_flags, &d->store);

    if (rc == ERR_BUSY) {
        note("%s: this process only looks up", path);
        open_view(live, path, cluster); /* if it fails, the default plan answers */
        return OK;
    }
    TRY(rc);
    live->run = (struct run){
        .row = { .now = "training" }, .pace = pace, .now_us = setup->now_us, .self = setup->self
    };
    TRY(table_begin(setup, cluster, d->search->ops->name, d, &live->run));
    if (!setup->dry_run)
        TRY(open_view(live, path, cluster));
    /* Each class has the ids of the dictionary and a search of its own.  The first class has the
     * search that is open. */
    live->classes = calloc(count, sizeof(*live->classes));
    if (!live->classes)
        return fail(ERR_NOMEM, "the classes of a space");
    for (; live->class_count < count; live->class_count++) {
        struct dictionary *class = &live->classes[live->class_count];

        *class = *d;
        if (live->class_count)
            TRY(open_search(live, cluster, &class->search));
    }
    return store_entries(d->store, d->cluster, d->shape, recall_entry, live);
}

int live_open(const struct table_setup *setup, struct live **out)
{
    struct live *live = calloc(1, sizeof(*live));
    const char *disable_text = getenv("MOELOOKUP_DISABLE");
    bool is_disabled = disable_text && *disable_text && strcmp(disable_text, "0") != 0;
    struct cluster cluster;
    char path[PATH_MAX];
    int rc;

    if (!live)
        return fail(ERR_NOMEM, "a tuner");
    live->setup = *setup;
    live->budget.share = setup->share;
    TRY_OUT(live_cluster(setup, &cluster));
    TRY_OUT(table_arms(setup, &live->dictionary, live->arms));
    TRY_OUT(reach_open(live->arms, live->dictionary.arm_count, &live->reach));
    TRY_OUT(open_search(live, &cluster, &live->dictionary.search));
    if (!setup->dry_run)
        TRY_OUT(store_path(setup->path, STORE_TO_WRITE, path, sizeof(path)));
    TRY_OUT(!setup->dry_run && is_disabled ? open_view(live, path, &cluster)
                                           : open_store(live, path, &cluster));
    live->setup.path = live->setup.layer = live->setup.cluster = live->setup.axes = NULL;
    *out = live;
    return OK;
out:
    live_close(live);
    return rc;
}

void live_close(struct live *live)
{
    if (!live)
        return;
    if (live->dictionary.store && live->run.row.id)
        run_end(&live->run, OK, NULL, live->decided && !live->setup.dry_run);
    store_close(live->dictionary.store);
    moelookup_view_free(live->view);
    for (uint32_t i = 1; i < live->class_count; i++)
        search_close(live->classes[i].search);
    free(live->classes);
    dictionary_close(&live->dictionary);
    live_buckets_free(&live->buckets);
    reach_close(&live->reach);
    free(live);
}
