/* Launches a program under two tables in turn, until it is known in every bucket which table is
 * faster. */
#include "two_tables.h"

#include "buckets.h"
#include "common_rows.h"
#include "contest.h"
#include "declaration.h"
#include "dictionary.h"
#include "host.h"
#include "launch_table.h"
#include "launches.h"
#include "ledger.h"
#include "lookup.h"
#include "measuring_run.h"
#include "plan.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "text.h"
#include "verdicts.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AT(field) offsetof(struct two_tables, field)
const struct option_row two_tables_rows[] = {
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "compare two tables in this program, which asks for plans and tells times (see below)" },
    { "against-table", "FILE", OPTION_TEXT, AT(against_table),
      "with --exec: the other table [the default plan]" },
    { "space", "FILE", OPTION_TEXT, AT(space),
      "with --exec: the space of the program, see moetune-spaces(7)" },
    { "launch-steps", "N", OPTION_COUNT, AT(launch_steps),
      "with --exec: steps of a launch; their mean is one sample", .least = 1,
      .most = TUNE_LAUNCH_STEPS_MAX },
    { "warmup", "N", OPTION_COUNT, AT(warmup),
      "with --exec: first steps of each launch at each key that do not count", .least = 0,
      .most = 1000 },
    TRAFFIC_ROW("traffic", AT(traffic), "with --exec: weight ranges of a launch by this traffic"),
    { NULL },
};
#undef AT

/* Launches cost much.  A difference that is not clear after PAIRS_MAX pairs is too small to matter.
 */
enum { SIDES = 2, BUCKETS_MAX = 4096, PAIRS_MAX = 60 };

/* A table whose plans one side runs. */
struct rival_table {
    struct moelookup *table; /* NULL: this side runs the default plan */
    struct moelookup_view *view;
};

/* One bucket in which the two sides are compared.  The comparison owns it and its contest. */
struct compared_bucket {
    struct watched_bucket watched; /* first: see compared_of() */
    struct moe_plan plan[SIDES];
    struct contest *contest;
    char why[200];          /* why the first side failed here; "": it did not */
    bool second_ran;        /* the second side has run a step here */
    bool same;              /* both sides have the same plan: nothing is compared */
    size_t values[SIDES];   /* index of the launch values that each side's plan needs */
    uint32_t warmup_steps;  /* warm-up steps of the launch under way */
    uint32_t shown_launch;  /* the last launch that gave a sample; 0: none */
    uint32_t deaths[SIDES]; /* launches that died in a step here */
};
_Static_assert(offsetof(struct compared_bucket, watched) == 0, "compared_of() casts");

/* One comparison, which two_tables() allocates and frees.  The sides are launched in turn, and each
 * bucket takes their samples in the order A B B A. */
struct program_comparison {
    const struct two_tables *options;
    struct rival_table tables[SIDES];
    struct moe_shape shape;
    struct buckets buckets; /* as narrow as those of the narrower table */
    int64_t begun_ns, deadline_ns;

    /* All plans of the first side have the same launch values, and not the default ones.  They were
     * chosen for all buckets together, so they are also judged together. */
    bool together;
    double *weights;       /* by bucket: how often it is asked for */
    struct contest *whole; /* of sums over all buckets */

    struct session session;
    struct launches launches;
    struct moe_plan plans[DECLARATION_PLANS_MAX];

    /* Of the launch under way. */
    int side;           /* which table it runs */
    bool runs_own_plan; /* the last answer was the plan that this side has in the bucket */
};

/* ---- tables */

/* Returns whether the layer agrees with one of the shapes, or there are none. */
static bool is_wanted(const struct option_list *shapes, const struct moe_shape *layer)
{
    for (int i = 0; i < shapes->count; i++)
        if (shape_agrees(layer, shapes->items[i]))
            return true;
    return !shapes->count;
}

/* Opens a table, which must have plans of exactly one wanted layer.  Narrows t->buckets to its
 * buckets. */
static int open_table(struct program_comparison *t, const char *path, struct rival_table *rival)
{
    uint32_t space = t->buckets.declared ? t->buckets.declared->id : 0, count = 0, wider, narrower;
    const char *space_name = t->buckets.declared ? t->buckets.declared->name : "";
    const char *name = path ? path : "the table of trainers here ($MOELOOKUP_DB; --db)";
    const struct option_list *wanted = t->options->shapes;
    struct lookup_layer layer, found = { 0 };

    TRY(moelookup_open(path, &rival->table));
    /* A shape may name a space of the table, which moelookup_open() has registered. */
    for (int i = 0; i < wanted->count; i++) {
        struct moe_shape parsed = { .struct_size = sizeof(parsed) };

        TRY(shape_parse(wanted->items[i], &parsed) ? ERR_ARGUMENT : OK);
    }
    recorder_close(rival->table->recorder); /* no trainer asks here, so nothing is recorded */
    rival->table->recorder = NULL;
    for (uint32_t i = 0; i < pack_layer_count(rival->table->bytes); i++) {
        layer = pack_layer(rival->table->bytes, i);
        /* A layer of several clusters counts once; moelookup_bind() chooses the cluster. */
        if (layer.shape.space != space || !is_wanted(wanted, &layer.shape) ||
            (count && shape_equal(&layer.shape, &found.shape)))
            continue;
        found = layer;
        count++;
    }
    if (!count)
        return fail(ERR_ARGUMENT, "%s: no table %s%s that answers on this machine", name,
                    space ? "of " : "of a layer", space_name);
    if (count > 1)
        return fail(ERR_ARGUMENT, "%s has tables of %u layers%s%s; --shape says which", name, count,
                    space ? " of " : "", space_name);
    if (t->shape.experts && !shape_equal(&t->shape, &found.shape))
        return fail(ERR_ARGUMENT, "%s is a table of another layer: %s", path,
                    SHAPE_TEXT(&found.shape));
    t->shape = found.shape;
    wider = t->buckets.window > found.window ? t->buckets.window : found.window;
    narrower =
        t->buckets.window && t->buckets.window < found.window ? t->buckets.window : found.window;
    if (wider % narrower)
        return fail(ERR_ARGUMENT,
                    "%s: its buckets are %u wide, those of the other table %u: one "
                    "must be a multiple of the other",
                    path, found.window, t->buckets.window);
    t->buckets.window = narrower;
    return moelookup_bind(rival->table, &found.shape, NULL, &rival->view);
}

/* Returns how many buckets are known before the program asks: those of the space. */
static uint32_t known_buckets(const struct program_comparison *t)
{
    return t->buckets.declared ? (uint32_t)buckets_end(t->buckets) : 0;
}

/* Returns the plan that a trainer would get from the side's table. */
static struct moe_plan plan_of(const struct program_comparison *t, int side, uint32_t bucket)
{
    const struct moelookup_view *view = t->tables[side].view;
    struct moe_plan plan = plan_default(&t->shape);

    if (view)
        moelookup_get_key(view, buckets_key_of(t->buckets, bucket),
                          buckets_class_of(t->buckets, bucket), &plan);
    return plan;
}

/* Finds out whether all entries of the first table have the same launch values, not the default
 * ones.  Then it prepares to judge them together. */
static int find_common_values(struct program_comparison *t)
{
    const struct declaration *d = t->buckets.declared;
    struct moe_plan default_plan = plan_default(&t->shape), table_plan = default_plan;
    double weight_max = 0;
    size_t buckets;

    for (uint32_t bucket = 0; d && bucket < known_buckets(t) && !t->options->against_table;
         bucket++) {
        struct moe_plan plan = plan_of(t, 0, bucket);

        if (plan.source == MOE_DEFAULT)
            continue;
        if (t->together && !declaration_same_launch(d, plan.choice, table_plan.choice)) {
            t->together = false; /* an older moetune wrote launch values for each bucket */
            break;
        }
        table_plan = plan;
        t->together = true;
    }
    t->together =
        t->together && !declaration_same_launch(d, table_plan.choice, default_plan.choice);
    if (!t->together)
        return t->options->traffic.count
                   ? fail(ERR_ARGUMENT,
                          "--traffic: nothing to weigh, because each bucket of this table is "
                          "judged by itself")
                   : OK;
    t->whole = calloc(1, sizeof(*t->whole));
    if (!t->whole)
        return fail(ERR_NOMEM, "a contest");
    TRY(launch_weights(&t->options->traffic, &t->shape, t->buckets.window, &t->weights, &buckets));
    for (size_t bucket = 0; bucket < buckets; bucket++)
        weight_max = fmax(weight_max, t->weights[bucket]);
    for (size_t bucket = 0; bucket < buckets; bucket++)
        t->weights[bucket] /= weight_max; /* keeps the sums of times in the range of a clock */
    return OK;
}

/* Reads the space and the tables. */
static int open_comparison(const struct two_tables *o, struct program_comparison *t)
{
    *t = (struct program_comparison){
        .options = o,
        .begun_ns = host_clock_ns(),
        .deadline_ns = o->budget_s > 0 ? host_clock_ns() + (int64_t)(o->budget_s * 1e9) : 0
    };
    if (o->space)
        TRY(space_file_read(o->space, &t->buckets.declared));
    TRY(open_table(t, o->db, &t->tables[0]));
    if (o->against_table)
        TRY(open_table(t, o->against_table, &t->tables[1]));
    return find_common_values(t);
}

/* ---- buckets */

static struct compared_bucket *compared_of(struct watched_bucket *watched)
{
    return (struct compared_bucket *)watched;
}

static struct compared_bucket *bucket_at(const struct program_comparison *t, size_t i)
{
    return compared_of(t->launches.buckets[i]);
}

static void set_decided(struct compared_bucket *compared, bool decided)
{
    compared->watched.state = decided ? BUCKET_DECIDED : BUCKET_OPEN;
}

static bool is_decided(const struct compared_bucket *compared)
{
    return compared->watched.state != BUCKET_OPEN;
}

/* Returns whether more pairs are of no use.  The contest only asks whether the first side is
 * faster.  If that side seems slower, pairs go on until this is known, too. */
static bool is_over(const struct program_comparison *t, const struct contest *contest)
{
    struct contest_verdict verdict;

    if (contest_next(contest) != CONTEST_DONE)
        return false;
    verdict = contest_verdict(contest);
    return verdict.rounds >= contest->settings.rounds_max ||
           !(verdict.tested.value < -t->options->margin &&
             verdict.tested.high >= -t->options->margin);
}

/* Compares all buckets together: sample n of a side is the weighted sum of every bucket's n-th. */
static void judge_whole(struct program_comparison *t)
{
    struct launches *l = &t->launches;
    uint32_t rounds = CONTEST_ROUNDS_MAX;
    bool is_decided_now;

    for (size_t i = 0; i < l->bucket_count; i++)
        for (int side = 0; side < SIDES && !bucket_at(t, i)->same; side++)
            if (bucket_at(t, i)->contest->taken[side] < rounds)
                rounds = bucket_at(t, i)->contest->taken[side];
    contest_open(t->whole, &bucket_at(t, 0)->contest->settings, SIDES, 1, false);
    for (uint32_t round = 0; round < rounds; round++)
        for (int side = 0; side < SIDES; side++) {
            double total = 0;

            for (size_t i = 0; i < l->bucket_count; i++)
                if (!bucket_at(t, i)->same)
                    total += t->weights[bucket_at(t, i)->watched.bucket] *
                             (double)bucket_at(t, i)->contest->ns[side][round];
            contest_tell(t->whole, side, llround(total));
        }
    is_decided_now = is_over(t, t->whole);
    for (size_t i = 0; i < l->bucket_count; i++)
        if (!bucket_at(t, i)->same && !*bucket_at(t, i)->why)
            set_decided(bucket_at(t, i), is_decided_now);
}

/* Adds a sample of a side, and decides the bucket, or all of them, if that is enough. */
static void add_sample(struct program_comparison *t, struct compared_bucket *compared, int side,
                       int64_t ns)
{
    if (*compared->why) /* the first side fails here, so nothing is compared */
        return;
    contest_tell(compared->contest, side, ns);
    if (t->together)
        judge_whole(t);
    else if (contest_next(compared->contest) == CONTEST_DONE)
        set_decided(compared, is_over(t, compared->contest));
}

/* The second side has run a step here.  So a failure of the first side is its own. */
static void second_side_ran(struct compared_bucket *compared)
{
    compared->second_ran = true;
    if (*compared->why)
        set_decided(compared, true);
}

/* A side cannot run its plan in the bucket.  A failure of the first side is its verdict as soon as
 * the second one has run a step: if neither runs, the machine or the command may be to blame.
 * ERR_LAUNCH if the second side fails: there is nothing to compare with. */
static int fail_side(const struct program_comparison *t, struct compared_bucket *compared, int side,
                     const char *why)
{
    if (side == 0) {
        text_put(compared->why, sizeof(compared->why), "%s", why);
        set_decided(compared, compared->second_ran);
        return OK;
    }
    return fail(ERR_LAUNCH, "%s, %s: %s: there is nothing to compare with",
                SESSION_BUCKET(&t->session, compared->watched.bucket),
                PLAN_WORDS(&compared->plan[side]), why);
}

/* ---- launches */

/* Returns the index in l->values of the launch values that the side needs for the plan. */
static size_t values_of(const struct program_comparison *t, int side, const struct moe_plan *plan)
{
    const struct launches *l = &t->launches;
    size_t i = 0;

    while (i < l->plan_count - 1 && !plan_equal(&t->plans[i], plan))
        i++;
    return (size_t)side * (l->values_count / SIDES) + l->values_of[i];
}

/* Returns the side whose sample the bucket wants next. */
static int turn_of(const struct compared_bucket *compared)
{
    const uint16_t *taken = compared->contest->taken;

    if (*compared->why)
        return 1;
    /* A pair is under way: the side without its sample is next. */
    if (taken[0] != taken[1])
        return taken[0] > taken[1] ? 1 : 0;
    /* Every other pair begins with the second side: A B, B A, ... */
    return taken[0] % 2;
}

/* Adds a bucket with the plans of both sides. */
static int add_bucket(void *self, uint32_t bucket)
{
    struct program_comparison *t = self;
    struct contest_settings settings = { .margin = t->options->margin,
                                         .rounds_max = PAIRS_MAX,
                                         .launched = true,
                                         .seed = t->options->seed ^ bucket };
    struct compared_bucket *compared;

    if (t->launches.bucket_count == BUCKETS_MAX)
        return fail(ERR_ARGUMENT, "the program asks for more than %d buckets", BUCKETS_MAX);
    compared = calloc(1, sizeof(*compared));
    if (!compared)
        return fail(ERR_NOMEM, "a bucket");
    compared->watched.bucket = bucket;
    TRY(launches_add(&t->launches, &compared->watched));
    compared->contest = calloc(1, sizeof(*compared->contest));
    if (!compared->contest)
        return fail(ERR_NOMEM, "a contest");
    contest_open(compared->contest, &settings, SIDES, 1, false);
    for (int side = 0; side < SIDES; side++) {
        compared->plan[side] = plan_of(t, side, bucket);
        compared->values[side] = values_of(t, side, &compared->plan[side]);
    }
    compared->same = plan_equal(&compared->plan[0], &compared->plan[1]);
    set_decided(compared, compared->same);
    for (int side = 0; side < SIDES && !is_decided(compared); side++)
        if (t->launches.values[compared->values[side]].broken)
            TRY(fail_side(t, compared, side, "no launch with these values comes up"));
    return OK;
}

static int vote(void *self)
{
    struct program_comparison *t = self;
    struct launch_values *values = t->launches.values;
    uint32_t buckets = known_buckets(t);

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (!is_decided(bucket_at(t, i)))
            values[bucket_at(t, i)->values[turn_of(bucket_at(t, i))]].votes++;
    if (t->launches.any_ask)
        return OK;
    /* Nobody knows yet which buckets the program asks for.  Launch values get a vote from each
     * bucket whose plans differ. */
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        struct moe_plan first = plan_of(t, 0, bucket), second = plan_of(t, 1, bucket);
        struct launch_values *wanted = &values[values_of(t, 0, &first)];

        wanted->votes += !wanted->broken && !plan_equal(&first, &second);
    }
    values[0].votes += !t->buckets.declared;
    return OK;
}

static int begin_launch(void *self, const char *words)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;

    (void)words;
    t->side = (int)launches_side(l);
    l->watch.exploring = !l->any_ask;
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        watched_begin(&bucket_at(t, i)->watched);
        bucket_at(t, i)->warmup_steps = 0;
    }
    return OK;
}

static enum launch_wish wish_of(void *self, struct watched_bucket *watched)
{
    const struct program_comparison *t = self;
    const struct compared_bucket *compared = compared_of(watched);
    bool can_show = compared->values[t->side] == t->launches.now.values;
    bool has_shown = compared->shown_launch == t->launches.now.number;

    if (is_decided(compared) || has_shown || !can_show || turn_of(compared) != t->side)
        return WISH_NOTHING;
    return WISH_SAMPLE;
}

static int choose_plan(void *self, struct watched_bucket *watched, struct moe_plan *plan)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;
    const struct compared_bucket *compared = compared_of(watched);

    t->runs_own_plan =
        compared->values[t->side] == l->now.values && !(*compared->why && t->side == 0);
    l->sampled = wish_of(t, watched) == WISH_SAMPLE;
    *plan =
        t->runs_own_plan ? compared->plan[t->side] : t->plans[l->values[l->now.values].nearest_arm];
    return OK;
}

static int learn_time(void *self, struct watched_bucket *watched, const struct program_line *tell)
{
    struct program_comparison *t = self;
    struct compared_bucket *compared = compared_of(watched);
    int64_t sample;

    if (t->runs_own_plan && t->side == 1)
        second_side_ran(compared);
    if (!t->launches.sampled || compared->warmup_steps++ < t->options->warmup ||
        !watched_add_step(watched, tell->ns, t->options->launch_steps, &sample))
        return OK;
    compared->shown_launch = t->launches.now.number;
    add_sample(t, compared, t->side, sample);
    return OK;
}

static int learn_failure(void *self, struct watched_bucket *watched,
                         const struct program_line *line)
{
    struct program_comparison *t = self;
    struct compared_bucket *compared = compared_of(watched);
    char text[sizeof(compared->why)];

    if (!t->runs_own_plan || is_decided(compared))
        return OK;
    watched->learnt = true;
    text_put(text, sizeof(text), "failed: %s", TEXT_SHORT(line->reason, 150));
    return fail_side(t, compared, t->side, text);
}

/* Launches with these values fail again and again.  So the side fails in every bucket whose plan
 * needs them. */
static int fail_values(struct program_comparison *t, const char *why)
{
    struct launches *l = &t->launches;
    uint32_t buckets = l->any_ask ? 0 : known_buckets(t);

    l->values[l->now.values].broken = true;
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        struct moe_plan plan = plan_of(t, t->side, bucket);
        size_t i = 0;

        while (i < t->launches.bucket_count && bucket_at(t, i)->watched.bucket != bucket)
            i++;
        if (i == t->launches.bucket_count && values_of(t, t->side, &plan) == l->now.values)
            TRY(add_bucket(t, bucket));
    }
    if (!t->launches.bucket_count)
        return fail(ERR_LAUNCH, "the program runs no step: %s", why);
    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (!is_decided(bucket_at(t, i)) && bucket_at(t, i)->values[t->side] == l->now.values)
            TRY(fail_side(t, bucket_at(t, i), t->side, why));
    return OK;
}

static int end_launch(void *self, const struct launch_end *failure)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;
    struct launch_values *current = &l->values[l->now.values];
    char why[LAUNCH_WHY_BYTES];

    if (!failure) {
        current->failures = 0;
        return OK;
    }
    launch_why(&t->session, failure, why);
    if (t->session.running && t->runs_own_plan && !is_decided(compared_of(l->asked))) {
        /* The program died or fell silent in a step of the side's plan.  The first death may be
         * chance. */
        struct compared_bucket *compared = compared_of(l->asked);
        bool forgiven = !failure->hung && compared->deaths[t->side]++ == 0;

        note("%s, %s: %s%s", SESSION_BUCKET(&t->session, compared->watched.bucket),
             PLAN_WORDS(&compared->plan[t->side]), why, forgiven ? "; once more" : "");
        return forgiven ? OK : fail_side(t, compared, t->side, why);
    }
    note("launch %" PRIu32 ": %s", l->now.number, why);
    current->failures = launches_learnt(l) ? 0 : current->failures + 1;
    if (current->failures < (current->runs ? LAUNCH_PATIENCE : 2))
        return OK;
    return fail_values(t, why);
}

static const struct launch_client client = { .add_bucket = add_bucket,
                                             .vote = vote,
                                             .begin_launch = begin_launch,
                                             .wish = wish_of,
                                             .choose_plan = choose_plan,
                                             .learn_time = learn_time,
                                             .learn_failure = learn_failure,
                                             .end_launch = end_launch };

/* Launches both sides until every bucket is decided. */
static int run_comparison(struct program_comparison *t)
{
    const struct two_tables *o = t->options;
    struct launches *l = &t->launches;
    int rc;

    t->session = (struct session){ .shape = t->shape,
                                   .buckets = t->buckets,
                                   .silence_s = o->silence_s,
                                   .deadline_ns = t->deadline_ns };
    *l = (struct launches){ .client = &client,
                            .self = t,
                            .session = &t->session,
                            .plans = t->plans,
                            .command = o->exec,
                            .sides = SIDES,
                            .watch = { .least = o->warmup + o->launch_steps } };
    t->plans[0] = plan_default(&t->shape);
    l->plan_count =
        t->buckets.declared
            ? declared_plan_list(t->buckets.declared->id, 0, t->plans, DECLARATION_PLANS_MAX)
            : 1; /* moetune's own plans need no launch values: one stands for all */
    progress_open(&t->session.progress, o->quiet, "the program starts");
    t->session.progress.deadline_ns = t->deadline_ns;
    rc = launches_open(l);
    if (!rc)
        rc = launches_run(l);
    /* If nothing was launched, both tables have the same plan in every bucket. */
    for (uint32_t bucket = 0; bucket < known_buckets(t) && !rc && !l->now.number; bucket++)
        rc = add_bucket(t, bucket);
    log_progress_clear();
    return rc;
}

/* ---- verdicts */

/* Returns the verdict in one bucket. */
static struct verdict verdict_of(const struct program_comparison *t,
                                 const struct compared_bucket *compared)
{
    struct contest_verdict contest = contest_verdict(compared->contest);
    double gain = isnan(contest.challenge.value) ? contest.tested.value : contest.challenge.value;
    struct verdict verdict = { .before_us = contest.default_ns * 1e-3,
                               .now_us = contest.default_ns * (1 - gain) * 1e-3,
                               .gain = contest.challenge,
                               .pairs = contest.rounds,
                               .word = "not slower" };
    uint32_t bucket = compared->watched.bucket;
    double margin = t->options->margin;

    text_put(verdict.key, sizeof(verdict.key), "%s",
             t->buckets.declared ? BUCKETS_TEXT(t->buckets, bucket, bucket)
                                 : SESSION_BUCKET(&t->session, bucket));
    /* So few pairs could not show a difference, even one that is in all of them. */
    if (!verdict.pairs || compared->contest->wins_needed[verdict.pairs] > verdict.pairs)
        verdict.gain = contest.tested = (struct gain)GAIN_UNKNOWN;
    snprintf(verdict.plan, sizeof(verdict.plan), "%s", PLAN_WORDS(&compared->plan[0]));
    snprintf(verdict.why, sizeof(verdict.why), "%s", compared->why);
    verdict.failed =
        *compared->why ? compared->second_ran : contest.tested.high < -margin && !t->together;
    if (*compared->why)
        verdict.word = "fails";
    else if (contest.tested.high < -margin)
        verdict.word = t->together ? "slower here" : "slower";
    else if (contest.tested.low > margin)
        verdict.word = "faster";
    else if (compared->same)
        verdict.word = "same plan";
    else if (isnan(verdict.gain.value))
        verdict.word = "too few steps";
    return verdict;
}

/* Returns the verdict over all buckets together. */
static struct verdict verdict_of_whole(const struct program_comparison *t)
{
    struct compared_bucket whole = { .contest = t->whole, .watched = { .bucket = 0 } };
    char words[DECLARATION_PLAN_BYTES];
    struct verdict verdict;

    whole.plan[0] = bucket_at(t, 0)->plan[0];
    verdict = verdict_of(t, &whole);
    text_put(verdict.key, sizeof(verdict.key), "together");
    text_put(verdict.plan, sizeof(verdict.plan), "%s",
             declaration_launch_words(t->buckets.declared, whole.plan[0].choice, words));
    verdict.failed = !strcmp(verdict.word, "slower here");
    verdict.word = verdict.failed ? "slower" : verdict.word;
    return verdict;
}

static int by_bucket(const void *a, const void *b)
{
    uint32_t a_bucket = (*(struct watched_bucket *const *)a)->bucket,
             b_bucket = (*(struct watched_bucket *const *)b)->bucket;

    return (a_bucket > b_bucket) - (a_bucket < b_bucket);
}

/* Prints the verdicts.  ERR_WRONG: the first side is slower in some bucket, or fails.  ERR_LAUNCH:
 * there is no verdict; it prints so, unless the run ended by ERR_LAUNCH, which was printed. */
static int print_verdicts(struct program_comparison *t, int ended_by)
{
    const struct two_tables *o = t->options;
    struct verdict *verdicts = calloc(t->launches.bucket_count + 1, sizeof(*verdicts));
    size_t count = t->launches.bucket_count;
    bool any_failed = false, any_known = false;
    uint32_t same = 0; /* decided without a step */
    int rc = verdicts ? OK : fail(ERR_NOMEM, "%zu verdicts", t->launches.bucket_count);

    if (!rc && t->launches.bucket_count)
        qsort(t->launches.buckets, t->launches.bucket_count, sizeof(*t->launches.buckets),
              by_bucket);
    for (size_t i = 0; i < t->launches.bucket_count && !rc; i++) {
        verdicts[i] = verdict_of(t, bucket_at(t, i));
        any_failed |= verdicts[i].failed;
        any_known |= any_failed || bucket_at(t, i)->same || !isnan(verdicts[i].gain.value);
    }
    if (!rc && t->together && count && t->whole->count) {
        verdicts[count] = verdict_of_whole(t);
        any_failed |= verdicts[count++].failed;
    }
    if (!rc && o->json)
        verdicts_json(verdicts, count, stdout);
    else if (!rc)
        rc = verdicts_table(verdicts, count, stdout);
    if (!rc && !o->json && ended_by == ERR_CUT) {
        size_t decided = t->launches.bucket_count - launches_count(&t->launches, BUCKET_OPEN);

        for (size_t i = 0; i < t->launches.bucket_count; i++)
            same += bucket_at(t, i)->same;
        progress_left(t->launches.bucket_count - decided, t->launches.bucket_count, "buckets",
                      decided - same, (double)(host_clock_ns() - t->begun_ns) * 1e-9, stdout);
    }
    free(verdicts);
    if (rc || any_failed)
        return rc ? rc : ERR_WRONG;
    return any_known || ended_by == ERR_LAUNCH
               ? OK
               : fail(ERR_LAUNCH, "nothing is known in any bucket: more steps are wanted");
}

/* ---- what the verdicts change in the database */

/* The first table in its database, while its entries are judged. */
struct judged_table {
    const struct program_comparison *comparison;
    struct dictionary table; /* its cluster is 0 if the database does not have the table */
    bool of_programs;        /* programs were measured for it; else moetune's own layer was */
    struct run run;
    uint32_t kept, refuted; /* entries */
    /* If the table is judged together: the verdict, and what the launch values gain. */
    bool failed;
    struct gain gain;
};

/* Finds the cluster and the layer of the table by one of its entries. */
static int find_layer(void *self, const struct entry_row *e)
{
    struct judged_table *j = self;
    struct cluster cluster;
    struct moe_shape shape;
    uint8_t hash[HASH_BYTES];

    if (j->table.cluster || e->window != j->comparison->buckets.window)
        return OK;
    TRY(store_shape_get(j->table.store, e->shape, &shape));
    TRY(store_cluster_get(j->table.store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (!shape_equal(&shape, &j->comparison->shape) ||
        memcmp(hash, lookup_view_cluster(j->comparison->tables[0].view), sizeof(hash)) != 0)
        return OK;
    j->table.cluster = e->cluster;
    j->of_programs = !strcmp(cluster.backend, "live");
    return OK;
}

/* Returns whether there are enough pairs to show a difference, or a failure. */
static bool has_verdict(const struct program_comparison *t, const struct compared_bucket *compared)
{
    struct verdict v = verdict_of(t, compared);

    return !compared->same && (v.failed || (isfinite(v.gain.low) && isfinite(v.gain.high)));
}

/* Confirms or refutes an entry by its verdict.  Times stay on the scale of the table, which the
 * neighbours keep: the default plan takes as long as the entry says. */
static int judge_entry(struct judged_table *j, const struct compared_bucket *compared)
{
    const struct program_comparison *t = j->comparison;
    struct verdict verdict = verdict_of(t, compared);
    struct entry_row entry, entry_before;
    double time_before_us;
    char why[64];
    int rc;

    if ((!has_verdict(t, compared) && !t->together) ||
        dictionary_pin(&j->table, compared->watched.bucket))
        return OK;
    rc = dictionary_entry(&j->table, compared->watched.bucket, &entry);
    if (rc || !plan_equal(&entry.plan, &compared->plan[0])) /* no entry, or another plan by now */
        return rc < 0 ? rc : OK;
    if (t->together) { /* one verdict for all; what they gain together is no bucket's claim */
        verdict.failed = j->failed;
        verdict.gain = j->gain;
    }
    if (t->together && !verdict.failed) {
        entry.run = j->run.row.id;
        entry.decided_s = time(NULL);
        j->kept++;
        return ledger_confirm(j->table.store, &entry);
    }
    if (!(entry.default_us > 0))
        entry.default_us = isnan(verdict.before_us) ? 0 : verdict.before_us;
    entry_before = entry;
    entry.gain = verdict.failed ? (struct gain){ 0, 0, 0 } : verdict.gain;
    time_before_us = entry.time_us;
    entry.time_us = entry.default_us * (1 - entry.gain.value);
    entry.low_us = entry.default_us * (1 - entry.gain.high);
    entry.high_us = entry.default_us * (1 - entry.gain.low);
    if (entry.other_us > 0 &&
        time_before_us > 0) /* the other plan stays as much slower as it was */
        entry.other_us *= entry.time_us / time_before_us;
    entry.samples = 2 * verdict.pairs;
    entry.throttled = 0;
    entry.run = j->run.row.id;
    entry.decided_s = time(NULL);
    if (verdict.failed) {
        if (*compared->why)
            text_put(why, sizeof(why), "verify: %s", compared->why);
        else
            text_put(why, sizeof(why), "verify: %.1f %% slower than the default",
                     -100 * verdict.gain.value);
        j->refuted++;
        return ledger_refute(j->table.store, &entry, compared->plan[1], why);
    }
    j->kept++;
    ledger_weigh(&t->shape, &entry_before, &entry);
    return ledger_confirm(j->table.store, &entry);
}

/* Confirms what the launch values save in the whole table. */
static int confirm_standing(struct judged_table *j)
{
    const struct dictionary *d = &j->table;
    struct standing_row row;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &row);

    if (rc)
        return rc < 0 ? rc : OK;
    row.decided_s = time(NULL);
    return store_standing(d->store, &row);
}

/* Judges all entries of the table, in a run of its own. */
static int judge_table(struct judged_table *j)
{
    const struct program_comparison *t = j->comparison;
    struct store *store = j->table.store;
    int rc;

    TRY(store_entries(store, 0, 0, find_layer, j));
    if (!j->table.cluster || !j->of_programs)
        return OK;
    TRY(dictionary_open(&j->table, &t->shape));
    j->run = (struct run){ .store = store,
                           .row = { .buckets_planned = (uint32_t)t->launches.bucket_count } };
    rc = run_begin(&j->run, j->table.cluster, t->options->seed, "verify", "all",
                   t->options->command);
    if (t->together) {
        struct verdict whole = verdict_of_whole(t);

        j->failed = whole.failed;
        j->gain = whole.gain;
        for (size_t i = 0; i < t->launches.bucket_count; i++)
            j->failed |= *bucket_at(t, i)->why && bucket_at(t, i)->second_ran;
    }
    for (size_t i = 0; i < t->launches.bucket_count && !rc; i++)
        rc = judge_entry(j, bucket_at(t, i));
    if (!rc && t->together && !j->failed)
        rc = confirm_standing(j);
    j->run.row.buckets_done = j->kept + j->refuted;
    return rc ? rc : run_end(&j->run, OK, NULL, true);
}

/* Finds the database of the table.  A snapshot is not written to: its database is. */
static int find_database(const struct two_tables *o, char path[PATH_MAX])
{
    static const char snapshot[] = ".published";
    const char *named = o->db ? o->db : getenv("MOELOOKUP_DB"); /* as moelookup_open() has it */
    size_t length;

    TRY(store_path(named && *named ? named : NULL, STORE_CONSULT, path, PATH_MAX));
    length = strlen(path);
    if (length >= sizeof(snapshot) && !strcmp(path + length + 1 - sizeof(snapshot), snapshot))
        path[length + 1 - sizeof(snapshot)] = 0;
    return OK;
}

/* Writes the verdicts against the default plan into the table's database.  If that fails it prints
 * so, and the verdicts stay what they are. */
static int write_verdicts(const struct program_comparison *t)
{
    const struct two_tables *o = t->options;
    struct judged_table j = { .comparison = t, .table = { .buckets = t->buckets } };
    char path[PATH_MAX];
    bool any_known = false;
    int rc = OK;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        any_known |= has_verdict(t, bucket_at(t, i));
    if (t->together && (!t->whole->count || isnan(verdict_of_whole(t).gain.value)))
        any_known = false;
    if (o->against_table || !t->tables[0].view || !any_known)
        return OK;
    TRY(find_database(o, path));
    if (!access(path, F_OK)) {
        rc = store_open(path, o->steal ? STORE_STEAL : 0, &j.table.store);
        if (!rc)
            rc = judge_table(&j);
        store_close(j.table.store);
        dictionary_close(&j.table);
    }
    if (rc || !j.table.cluster)
        note("%s: the table stays as it is%s", path,
             rc ? "" : ", because it is not of this database");
    else if (!j.of_programs)
        note("%s: the table stays as it is, because moetune's own layer was measured for it; "
             "`moetune tune --exec` measures this program",
             path);
    else if (j.refuted)
        note("%s: the default plan replaces %u refuted plan%s, until `moetune tune` has measured "
             "there again",
             path, j.refuted, j.refuted > 1 ? "s" : "");
    return OK;
}

/* ---- the comparison */

int two_tables(const struct two_tables *options)
{
    struct program_comparison *t = calloc(1, sizeof(*t));
    int rc = t ? open_comparison(options, t) : fail(ERR_NOMEM, "two tables"), printed;

    session_catch_signals();
    if (!rc)
        rc = run_comparison(t);
    if (rc == ERR_CUT)
        note("cut off: the same command begins from the start");
    if (!rc || ((rc == ERR_CUT || rc == ERR_LAUNCH) && t->launches.bucket_count)) {
        printed = print_verdicts(t, rc);
        rc = rc && printed != ERR_WRONG ? rc : printed;
        printed = write_verdicts(t);
        rc = rc ? rc : printed;
    }
    for (size_t i = 0; t && i < t->launches.bucket_count; i++) {
        free(bucket_at(t, i)->contest);
        free(bucket_at(t, i));
    }
    if (t) {
        launches_close(&t->launches);
        free(t->whole);
        free(t->weights);
    }
    for (int i = 0; t && i < SIDES; i++) {
        moelookup_view_free(t->tables[i].view);
        moelookup_close(t->tables[i].table);
    }
    free(t);
    return rc;
}
