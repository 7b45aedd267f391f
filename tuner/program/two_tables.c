/* Launches a program under two tables in turn, until it is known at every key under which of them
 * it is faster. */
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

/* A launch is dear: what is not clear after so many pairs is too close to matter. */
enum { SIDES = 2, KEYS_MAX = 4096, PAIRS_MAX = 60 };

struct rival_table {
    struct moelookup *table; /* NULL: the default plan is told */
    struct moelookup_view *view;
};

/* What the steps of both sides showed in one bucket. */
struct rivals_bucket {
    struct watched watched; /* first, for the launcher's pointer to it is cast back */
    struct moe_plan plan[SIDES];
    struct contest *contest;
    char why[200];        /* the first side failed, */
    bool against;         /* and not the second one, of which a step was told */
    bool same;            /* one plan on both sides: there is nothing to compare */
    size_t way[SIDES];    /* by which each side shows its plan */
    uint32_t warm;        /* steps of this launch that did not count */
    uint32_t shown;       /* the last launch that gave a sample; 0: none */
    uint32_t dead[SIDES]; /* launches that died in a step */
};
_Static_assert(offsetof(struct rivals_bucket, watched) == 0, "struct watched is cast to it");

/* One side after the other is started under the plans that its table has, each launch for all keys
 * that want it, and each key gets the samples of its two plans in turn: A B B A. */
struct program_comparison {
    const struct two_tables *options;
    struct rival_table side[SIDES];
    struct moe_shape shape;
    struct buckets buckets; /* as narrow as the narrower of the two tables */
    int64_t begun_ns, deadline_ns;

    /* The first side's plans are of one launch, which is not the default's: it was chosen for all
     * buckets together, and stands or falls with what it takes for all of them. */
    bool together;
    double *weights; /* by bucket: how often each is asked for */
    struct contest *whole;

    struct session session;
    struct launches launches;
    struct moe_plan plans[DECLARATION_PLANS_MAX];

    /* Of the launch under way. */
    int shown; /* the side */
    bool fits; /* its last answer was the plan that the side has at the key */
};

/* ---- tables */

static bool is_wanted(const struct option_list *wanted, const struct moe_shape *shape)
{
    bool is = !wanted->count;

    for (int i = 0; i < wanted->count && !is; i++)
        is = shape_agrees(shape, wanted->items[i]);
    return is;
}

/* Opens the side's table, which must have plans of exactly one layer that is wanted.  Keys are as
 * wide as the narrower buckets of two tables. */
static int open_table(struct program_comparison *t, const char *path, struct rival_table *s)
{
    uint32_t space = t->buckets.declared ? t->buckets.declared->id : 0, count = 0, wide, narrow;
    const char *of = t->buckets.declared ? t->buckets.declared->name : "";
    const char *name = path ? path : "what trainers here are told ($MOELOOKUP_DB; --db)";
    const struct option_list *wanted = t->options->shapes;
    struct lookup_layer layer, found = { 0 };

    TRY(moelookup_open(path, &s->table));
    for (int i = 0; i < wanted->count; i++) { /* the table's spaces are known by now */
        struct moe_shape any = { .struct_size = sizeof(any) };

        TRY(shape_parse(wanted->items[i], &any) ? ERR_ARGUMENT : OK);
    }
    recorder_close(s->table->recorder); /* these are no questions of a trainer */
    s->table->recorder = NULL;
    for (uint32_t i = 0; i < pack_layer_count(s->table->bytes); i++) {
        layer = pack_layer(s->table->bytes, i);
        /* That of several clusters is one layer: which of them, bind says. */
        if (layer.shape.space != space || !is_wanted(wanted, &layer.shape) ||
            (count && shape_equal(&layer.shape, &found.shape)))
            continue;
        found = layer;
        count++;
    }
    if (!count)
        return fail(ERR_ARGUMENT, "%s: no table %s%s that answers on this machine", name,
                    space ? "of " : "of a layer", of);
    if (count > 1)
        return fail(ERR_ARGUMENT, "%s has tables of %u layers%s%s; --shape says which", name, count,
                    space ? " of " : "", of);
    if (t->shape.experts && !shape_equal(&t->shape, &found.shape))
        return fail(ERR_ARGUMENT, "%s is a table of another layer: %s", path,
                    SHAPE_TEXT(&found.shape));
    t->shape = found.shape;
    wide = t->buckets.window > found.window ? t->buckets.window : found.window;
    narrow =
        t->buckets.window && t->buckets.window < found.window ? t->buckets.window : found.window;
    if (wide % narrow)
        return fail(ERR_ARGUMENT,
                    "%s: its buckets are %u wide, those of the other table %u: one "
                    "must be a multiple of the other",
                    path, found.window, t->buckets.window);
    t->buckets.window = narrow;
    return moelookup_bind(s->table, &found.shape, NULL, &s->view);
}

/* So many buckets are known before a program asks. */
static uint32_t known_buckets(const struct program_comparison *t)
{
    return t->buckets.declared ? (uint32_t)buckets_end(t->buckets) : 0;
}

/* What a trainer would be told by the side's table. */
static struct moe_plan plan_of(const struct program_comparison *t, int side, uint32_t bucket)
{
    const struct moelookup_view *view = t->side[side].view;
    struct moe_plan plan = plan_default(&t->shape);

    if (view)
        moelookup_get_key(view, buckets_key_of(t->buckets, bucket),
                          buckets_class_of(t->buckets, bucket), &plan);
    return plan;
}

/* Whether the table has one launch for all of its buckets. */
static int find_launch(struct program_comparison *t)
{
    const struct declaration *d = t->buckets.declared;
    struct moe_plan usual = plan_default(&t->shape), first = usual;
    double most = 0;
    size_t buckets;

    for (uint32_t b = 0; d && b < known_buckets(t) && !t->options->against_table; b++) {
        struct moe_plan plan = plan_of(t, 0, b);

        if (plan.source == MOE_DEFAULT)
            continue;
        if (t->together && !declaration_same_launch(d, plan.choice, first.choice)) {
            t->together = false; /* an older moetune wrote it: each range has its own */
            break;
        }
        first = plan;
        t->together = true;
    }
    t->together = t->together && !declaration_same_launch(d, first.choice, usual.choice);
    if (!t->together)
        return t->options->traffic.count
                   ? fail(ERR_ARGUMENT, "--traffic: this table has no launch that is to be judged "
                                        "for all ranges together")
                   : OK;
    t->whole = calloc(1, sizeof(*t->whole));
    if (!t->whole)
        return fail(ERR_NOMEM, "a contest");
    TRY(launch_weights(&t->options->traffic, &t->shape, t->buckets.window, &t->weights, &buckets));
    for (size_t b = 0; b < buckets; b++)
        most = fmax(most, t->weights[b]);
    for (size_t b = 0; b < buckets; b++)
        t->weights[b] /= most; /* sums of times stay what a clock may count */
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
    TRY(open_table(t, o->db, &t->side[0]));
    if (o->against_table)
        TRY(open_table(t, o->against_table, &t->side[1]));
    return find_launch(t);
}

/* ---- keys */

static struct rivals_bucket *key_of(struct watched *range)
{
    return (struct rivals_bucket *)range;
}

static struct rivals_bucket *key_at(const struct program_comparison *t, size_t i)
{
    return key_of(t->launches.buckets[i]);
}

static void settle(struct rivals_bucket *key, bool settled)
{
    key->watched.state = settled ? BUCKET_DECIDED : BUCKET_OPEN;
}

static bool is_settled(const struct rivals_bucket *key)
{
    return key->watched.state != BUCKET_OPEN;
}

/* Whether more pairs are of no use.  What seems slower goes on until that is known: the contest
 * asks only who is faster. */
static bool is_over(const struct program_comparison *t, const struct contest *contest)
{
    struct contest_verdict v;

    if (contest_next(contest) != CONTEST_DONE)
        return false;
    v = contest_verdict(contest);
    return v.rounds >= contest->settings.rounds_max ||
           !(v.tested.value < -t->options->margin && v.tested.high >= -t->options->margin);
}

/* All buckets together: the n-th samples of each, by how often it is asked for. */
static void judge_whole(struct program_comparison *t)
{
    struct launches *l = &t->launches;
    uint32_t rounds = CONTEST_ROUNDS_MAX;
    bool over;

    for (size_t i = 0; i < l->bucket_count; i++)
        for (int side = 0; side < SIDES && !key_at(t, i)->same; side++)
            if (key_at(t, i)->contest->taken[side] < rounds)
                rounds = key_at(t, i)->contest->taken[side];
    contest_open(t->whole, &key_at(t, 0)->contest->settings, SIDES, 1, false);
    for (uint32_t n = 0; n < rounds; n++)
        for (int side = 0; side < SIDES; side++) {
            double total = 0;

            for (size_t i = 0; i < l->bucket_count; i++)
                if (!key_at(t, i)->same)
                    total += t->weights[key_at(t, i)->watched.bucket] *
                             (double)key_at(t, i)->contest->ns[side][n];
            contest_tell(t->whole, side, llround(total));
        }
    over = is_over(t, t->whole);
    for (size_t i = 0; i < l->bucket_count; i++)
        if (!key_at(t, i)->same && !*key_at(t, i)->why)
            settle(key_at(t, i), over);
}

static void tell_side(struct program_comparison *t, struct rivals_bucket *key, int side, int64_t ns)
{
    if (*key->why) /* a side cannot run its plan there: there is nothing to compare */
        return;
    contest_tell(key->contest, side, ns);
    if (t->together)
        judge_whole(t);
    else if (contest_next(key->contest) == CONTEST_DONE)
        settle(key, is_over(t, key->contest));
}

/* The second side ran a step at the key: where the first one failed that is its own fault. */
static void stand_against(struct rivals_bucket *key)
{
    key->against = true;
    if (*key->why)
        settle(key, true);
}

/* A side cannot run its plan at the key, which is settled once the other one could: where neither
 * does, the machine may be to blame, or the command.  ERR_LAUNCH if it is the second one: the first
 * has nothing to be compared with. */
static int lose(const struct program_comparison *t, struct rivals_bucket *key, int side,
                const char *why)
{
    if (side == 0) {
        text_put(key->why, sizeof(key->why), "%s", why);
        settle(key, key->against);
        return OK;
    }
    return fail(ERR_LAUNCH, "%s, %s: %s: there is nothing to compare with",
                SESSION_RANGE(&t->session, key->watched.bucket), PLAN_WORDS(&key->plan[side]), why);
}

/* ---- launches */

/* The index in l->values of the way by which the side shows the plan. */
static size_t values_of(const struct program_comparison *t, int side, const struct moe_plan *plan)
{
    const struct launches *l = &t->launches;
    size_t i = 0;

    while (i < l->plan_count - 1 && !plan_equal(&t->plans[i], plan))
        i++;
    return (size_t)side * (l->values_count / SIDES) + l->values_of[i];
}

/* The side whose sample the key wants next. */
static int turn_of(const struct rivals_bucket *key)
{
    const uint16_t *taken = key->contest->taken;

    if (*key->why)
        return 1;
    return taken[0] == taken[1] ? taken[0] & 1 : taken[0] > taken[1];
}

static int add_key(void *self, uint32_t bucket)
{
    struct program_comparison *t = self;
    struct contest_settings settings = { .margin = t->options->margin,
                                         .rounds_max = PAIRS_MAX,
                                         .launched = true,
                                         .seed = t->options->seed ^ bucket };
    struct rivals_bucket *key;

    if (t->launches.bucket_count == KEYS_MAX)
        return fail(ERR_ARGUMENT, "the program asks for more than %d buckets", KEYS_MAX);
    key = calloc(1, sizeof(*key));
    if (!key)
        return fail(ERR_NOMEM, "a key");
    key->watched.bucket = bucket;
    TRY(launches_add(&t->launches, &key->watched));
    key->contest = calloc(1, sizeof(*key->contest));
    if (!key->contest)
        return fail(ERR_NOMEM, "a contest");
    contest_open(key->contest, &settings, SIDES, 1, false);
    for (int side = 0; side < SIDES; side++) {
        key->plan[side] = plan_of(t, side, bucket);
        key->way[side] = values_of(t, side, &key->plan[side]);
    }
    key->same = plan_equal(&key->plan[0], &key->plan[1]);
    settle(key, key->same);
    for (int side = 0; side < SIDES && !is_settled(key); side++)
        if (t->launches.values[key->way[side]].broken)
            TRY(lose(t, key, side, "no launch with these values comes up"));
    return OK;
}

static int vote(void *self)
{
    struct program_comparison *t = self;
    struct launch_values *values = t->launches.values;
    uint32_t buckets = known_buckets(t);

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (!is_settled(key_at(t, i)))
            values[key_at(t, i)->way[turn_of(key_at(t, i))]].votes++;
    if (t->launches.heard)
        return OK;
    /* Nobody knows yet which buckets the program asks for: the way that most of those want that are
     * to be compared. */
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        struct moe_plan first = plan_of(t, 0, bucket), second = plan_of(t, 1, bucket);
        struct launch_values *next_values = &values[values_of(t, 0, &first)];

        next_values->votes += !next_values->broken && !plan_equal(&first, &second);
    }
    values[0].votes += !t->buckets.declared;
    return OK;
}

static int begin_launch(void *self, const char *words)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;

    (void)words;
    t->shown = (int)launches_side(l);
    l->watch.looking = !l->heard;
    for (size_t i = 0; i < t->launches.bucket_count; i++) {
        watched_reset(&key_at(t, i)->watched);
        key_at(t, i)->warm = 0;
    }
    return OK;
}

static enum launch_wish wish(void *self, struct watched *range)
{
    const struct program_comparison *t = self;
    const struct rivals_bucket *key = key_of(range);

    return !is_settled(key) && key->shown != t->launches.now.number && turn_of(key) == t->shown &&
                   key->way[t->shown] == t->launches.now.values
               ? WISH_SAMPLE
               : WISH_NOTHING;
}

static int choose(void *self, struct watched *range, struct moe_plan *plan)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;
    const struct rivals_bucket *key = key_of(range);

    t->fits = key->way[t->shown] == l->now.values && !(*key->why && t->shown == 0);
    l->sampled = wish(t, range) == WISH_SAMPLE;
    *plan = t->fits ? key->plan[t->shown] : t->plans[l->values[l->now.values].safe];
    return OK;
}

static int step(void *self, struct watched *range, const struct said *told)
{
    struct program_comparison *t = self;
    struct rivals_bucket *key = key_of(range);
    int64_t sample;

    if (t->fits && t->shown == 1)
        stand_against(key);
    if (!t->launches.sampled || key->warm++ < t->options->warmup ||
        !watched_step(range, told->ns, t->options->launch_steps, &sample))
        return OK;
    key->shown = t->launches.now.number;
    tell_side(t, key, t->shown, sample);
    return OK;
}

static int plan_failed(void *self, struct watched *range, const struct said *told)
{
    struct program_comparison *t = self;
    struct rivals_bucket *key = key_of(range);
    char text[sizeof(key->why)];

    if (!t->fits || is_settled(key))
        return OK;
    range->learnt = true;
    text_put(text, sizeof(text), "failed: %s", TEXT_SHORT(told->reason, 150));
    return lose(t, key, t->shown, text);
}

/* Launches of a way show nothing, again and again: the side loses every key that it would show by
 * it. */
static int lose_way(struct program_comparison *t, const char *why)
{
    struct launches *l = &t->launches;
    uint32_t buckets = l->heard ? 0 : known_buckets(t);

    l->values[l->now.values].broken = true;
    for (uint32_t b = 0; b < buckets; b++) {
        struct moe_plan plan = plan_of(t, t->shown, b);
        size_t i = 0;

        while (i < t->launches.bucket_count && key_at(t, i)->watched.bucket != b)
            i++;
        if (i == t->launches.bucket_count && values_of(t, t->shown, &plan) == l->now.values)
            TRY(add_key(t, b));
    }
    if (!t->launches.bucket_count)
        return fail(ERR_LAUNCH, "the program shows nothing: %s", why);
    for (size_t i = 0; i < t->launches.bucket_count; i++)
        if (!is_settled(key_at(t, i)) && key_at(t, i)->way[t->shown] == l->now.values)
            TRY(lose(t, key_at(t, i), t->shown, why));
    return OK;
}

static int launch_ended(void *self, const struct launch_end *failure)
{
    struct program_comparison *t = self;
    struct launches *l = &t->launches;
    struct launch_values *next_values = &l->values[l->now.values];
    char why[LAUNCH_WHY_BYTES];

    if (!failure) {
        next_values->stillborn = 0;
        return OK;
    }
    launch_why(&t->session, failure, why);
    if (t->session.running && t->fits && !is_settled(key_of(l->range))) {
        /* It died or fell silent in a step of the side's plan; the first time something else may
         * have killed it. */
        struct rivals_bucket *key = key_of(l->range);
        bool forgiven = !failure->hung && key->dead[t->shown]++ == 0;

        note("%s, %s: %s%s", SESSION_RANGE(&t->session, key->watched.bucket),
             PLAN_WORDS(&key->plan[t->shown]), why, forgiven ? "; once more" : "");
        return forgiven ? OK : lose(t, key, t->shown, why);
    }
    note("launch %" PRIu32 ": %s", l->now.number, why);
    next_values->stillborn = launches_learnt(l) ? 0 : next_values->stillborn + 1;
    return next_values->stillborn < (next_values->runs ? LAUNCH_PATIENCE : 2) ? OK
                                                                              : lose_way(t, why);
}

static const struct launch_client client = { .add = add_key,
                                             .vote = vote,
                                             .begin = begin_launch,
                                             .wish = wish,
                                             .choose = choose,
                                             .step = step,
                                             .failed = plan_failed,
                                             .ended = launch_ended };

static int compare(struct program_comparison *t)
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
            : 1; /* of one's own plans any will do: they need no launch */
    progress_open(&t->session.progress, o->quiet, "the program starts");
    t->session.progress.deadline_ns = t->deadline_ns;
    rc = launches_open(l);
    if (!rc)
        rc = launches_run(l);
    /* Where nothing was launched no table says of any range what the other one does not: all
     * buckets are the same. */
    for (uint32_t b = 0; b < known_buckets(t) && !rc && !l->now.number; b++)
        rc = add_key(t, b);
    log_line_clear();
    return rc;
}

/* ---- verdicts */

static struct verdict verdict_of(const struct program_comparison *t,
                                 const struct rivals_bucket *key)
{
    struct contest_verdict c = contest_verdict(key->contest);
    double gain = isnan(c.challenge.value) ? c.tested.value : c.challenge.value;
    struct verdict v = { .before_us = c.default_ns * 1e-3,
                         .now_us = c.default_ns * (1 - gain) * 1e-3,
                         .gain = c.challenge,
                         .pairs = c.rounds,
                         .word = "not slower" };
    uint32_t bucket = key->watched.bucket;
    double margin = t->options->margin;

    text_put(v.key, sizeof(v.key), "%s",
             t->buckets.declared ? BUCKETS_TEXT(t->buckets, bucket, bucket)
                                 : SESSION_RANGE(&t->session, bucket));
    /* In so few pairs no difference could have been shown, were it in all of them. */
    if (!v.pairs || key->contest->wins_needed[v.pairs] > v.pairs)
        v.gain = c.tested = (struct gain)GAIN_UNKNOWN;
    snprintf(v.plan, sizeof(v.plan), "%s", PLAN_WORDS(&key->plan[0]));
    snprintf(v.why, sizeof(v.why), "%s", key->why);
    v.failed = *key->why ? key->against : c.tested.high < -margin && !t->together;
    if (*key->why)
        v.word = "fails";
    else if (c.tested.high < -margin)
        v.word = t->together ? "slower here" : "slower";
    else if (c.tested.low > margin)
        v.word = "faster";
    else if (key->same)
        v.word = "same plan";
    else if (isnan(v.gain.value))
        v.word = "too few steps";
    return v;
}

/* Of the launch, in all buckets together. */
static struct verdict verdict_of_whole(const struct program_comparison *t)
{
    struct rivals_bucket all = { .contest = t->whole, .watched = { .bucket = 0 } };
    char words[DECLARATION_PLAN_BYTES];
    struct verdict v;

    all.plan[0] = key_at(t, 0)->plan[0];
    v = verdict_of(t, &all);
    text_put(v.key, sizeof(v.key), "together");
    text_put(v.plan, sizeof(v.plan), "%s",
             declaration_launch_words(t->buckets.declared, all.plan[0].choice, words));
    v.failed = !strcmp(v.word, "slower here");
    v.word = v.failed ? "slower" : v.word;
    return v;
}

static int by_bucket(const void *a, const void *b)
{
    uint32_t x = (*(struct watched *const *)a)->bucket, y = (*(struct watched *const *)b)->bucket;

    return (x > y) - (x < y);
}

/* Prints verdicts; ERR_WRONG if the first side is slower at some key, or fails;
 * ERR_LAUNCH if there is no verdict at any, which is said unless `ended_by` is why. */
static int report(struct program_comparison *t, int ended_by)
{
    const struct two_tables *o = t->options;
    struct verdict *verdicts = calloc(t->launches.bucket_count + 1, sizeof(*verdicts));
    size_t count = t->launches.bucket_count;
    bool failed = false, known = false;
    uint32_t same = 0; /* settled without a step */
    int rc = verdicts ? OK : fail(ERR_NOMEM, "%zu verdicts", t->launches.bucket_count);

    if (!rc && t->launches.bucket_count)
        qsort(t->launches.buckets, t->launches.bucket_count, sizeof(*t->launches.buckets),
              by_bucket);
    for (size_t i = 0; i < t->launches.bucket_count && !rc; i++) {
        verdicts[i] = verdict_of(t, key_at(t, i));
        failed |= verdicts[i].failed;
        known |= failed || key_at(t, i)->same || !isnan(verdicts[i].gain.value);
    }
    if (!rc && t->together && count && t->whole->count) {
        verdicts[count] = verdict_of_whole(t);
        failed |= verdicts[count++].failed;
    }
    if (!rc && o->json)
        verdicts_json(verdicts, count, stdout);
    else if (!rc)
        rc = verdicts_table(verdicts, count, stdout);
    if (!rc && !o->json && ended_by == ERR_CUT) {
        size_t settled = t->launches.bucket_count - launches_count(&t->launches, BUCKET_OPEN);

        for (size_t i = 0; i < t->launches.bucket_count; i++)
            same += key_at(t, i)->same;
        progress_left(t->launches.bucket_count - settled, t->launches.bucket_count, "keys",
                      settled - same, (double)(host_clock_ns() - t->begun_ns) * 1e-9, stdout);
    }
    free(verdicts);
    if (rc || failed)
        return rc ? rc : ERR_WRONG;
    return known || ended_by == ERR_LAUNCH
               ? OK
               : fail(ERR_LAUNCH, "nothing is known at any key: more steps are wanted");
}

/* ---- what is left of the table */

/* The table in its database. */
struct judged_table {
    const struct program_comparison *t;
    struct dictionary table; /* its cluster 0: it is not there */
    bool of_programs;        /* else moetune's own layer was measured, which is another program */
    struct run run;
    uint32_t kept, refuted;
    /* Of a launch for all buckets together: whether it is slower there, or fails in one. */
    bool failed;
    struct gain gain;
};

static int find_layer(void *self, const struct entry_row *e)
{
    struct judged_table *j = self;
    struct cluster cluster;
    struct moe_shape shape;
    uint8_t hash[HASH_BYTES];

    if (j->table.cluster || e->window != j->t->buckets.window)
        return OK;
    TRY(store_shape_get(j->table.store, e->shape, &shape));
    TRY(store_cluster_get(j->table.store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (!shape_equal(&shape, &j->t->shape) ||
        memcmp(hash, lookup_view_cluster(j->t->side[0].view), sizeof(hash)) != 0)
        return OK;
    j->table.cluster = e->cluster;
    j->of_programs = !strcmp(cluster.backend, "live");
    return OK;
}

/* The verdict is more than that no difference was seen: the pairs are enough to show one. */
static bool is_known(const struct program_comparison *t, const struct rivals_bucket *key)
{
    struct verdict v = verdict_of(t, key);

    return !key->same && (v.failed || (isfinite(v.gain.low) && isfinite(v.gain.high)));
}

/* Times stay on the scale of the table, which neighbours keep: the default takes as long as the
 * entry says. */
static int judge_entry(struct judged_table *j, const struct rivals_bucket *key)
{
    const struct program_comparison *t = j->t;
    struct verdict v = verdict_of(t, key);
    struct entry_row e, claim;
    double was_us;
    char why[64];
    int rc;

    if ((!is_known(t, key) && !t->together) || dictionary_pin(&j->table, key->watched.bucket))
        return OK;
    rc = dictionary_entry(&j->table, key->watched.bucket, &e);
    if (rc || !plan_equal(&e.plan, &key->plan[0])) /* its like was told, or it is another by now */
        return rc < 0 ? rc : OK;
    if (t->together) { /* all buckets are kept, or none; what the launch gains is no range's claim
                        */
        v.failed = j->failed;
        v.gain = j->gain;
    }
    if (t->together && !v.failed) {
        e.run = j->run.row.id;
        e.decided_s = time(NULL);
        j->kept++;
        return ledger_confirm(j->table.store, &e);
    }
    if (!(e.default_us > 0))
        e.default_us = isnan(v.before_us) ? 0 : v.before_us;
    claim = e;
    e.gain = v.failed ? (struct gain){ 0, 0, 0 } : v.gain;
    was_us = e.time_us;
    e.time_us = e.default_us * (1 - e.gain.value);
    e.low_us = e.default_us * (1 - e.gain.high);
    e.high_us = e.default_us * (1 - e.gain.low);
    if (e.other_us > 0 && was_us > 0) /* it is as much slower than this plan as it was */
        e.other_us *= e.time_us / was_us;
    e.samples = 2 * v.pairs;
    e.throttled = 0;
    e.run = j->run.row.id;
    e.decided_s = time(NULL);
    if (v.failed) {
        if (*key->why)
            text_put(why, sizeof(why), "verify: %s", key->why);
        else
            text_put(why, sizeof(why), "verify: %.1f %% slower than the default",
                     -100 * v.gain.value);
        j->refuted++;
        return ledger_refute(j->table.store, &e, key->plan[1], why);
    }
    j->kept++;
    ledger_weigh(&t->shape, &claim, &e);
    return ledger_confirm(j->table.store, &e);
}

/* What the launch is said to gain stays said. */
static int confirm_standing(struct judged_table *j)
{
    const struct dictionary *d = &j->table;
    struct standing_row row;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &row);

    row.decided_s = time(NULL);
    return rc ? (rc < 0 ? rc : OK) : store_standing(d->store, &row);
}

static int judge_table(struct judged_table *j)
{
    const struct program_comparison *t = j->t;
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
            j->failed |= *key_at(t, i)->why && key_at(t, i)->against;
    }
    for (size_t i = 0; i < t->launches.bucket_count && !rc; i++)
        rc = judge_entry(j, key_at(t, i));
    if (!rc && t->together && !j->failed)
        rc = confirm_standing(j);
    j->run.row.buckets_done = j->kept + j->refuted;
    return rc ? rc : run_end(&j->run, OK, NULL, true);
}

/* The work database that the table is of; a snapshot is not written to. */
static int find_database(const struct two_tables *o, char path[PATH_MAX])
{
    static const char snapshot[] = ".published";
    const char *given = o->db ? o->db : getenv("MOELOOKUP_DB"); /* as moelookup_open() has it */
    size_t length;

    TRY(store_path(given && *given ? given : NULL, STORE_CONSULT, path, PATH_MAX));
    length = strlen(path);
    if (length >= sizeof(snapshot) && !strcmp(path + length + 1 - sizeof(snapshot), snapshot))
        path[length + 1 - sizeof(snapshot)] = 0;
    return OK;
}

/* Writes down what the program's table is worth to it, where it met the default plan.  Where that
 * cannot be written this is said, and the verdicts stand. */
static int remember(const struct program_comparison *t)
{
    const struct two_tables *o = t->options;
    struct judged_table j = { .t = t, .table = { .buckets = t->buckets } };
    char path[PATH_MAX];
    bool known = false;
    int rc = OK;

    for (size_t i = 0; i < t->launches.bucket_count; i++)
        known |= is_known(t, key_at(t, i));
    if (t->together && (!t->whole->count || isnan(verdict_of_whole(t).gain.value)))
        known = false;
    if (o->against_table || !t->side[0].view || !known)
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
        note("%s: the table stays as it is%s", path, rc ? "" : ", for it is not of this database");
    else if (!j.of_programs)
        note("%s: the table stays as it is, for moetune's own layer was measured there; moetune "
             "tune --exec measures this program",
             path);
    else if (j.refuted)
        note("%s: the default plan takes the place of %u that %s refuted, until moetune tune has "
             "measured there anew",
             path, j.refuted, j.refuted > 1 ? "are" : "is");
    return OK;
}

/* ---- the whole of it */

int two_tables(const struct two_tables *options)
{
    struct program_comparison *t = calloc(1, sizeof(*t));
    int rc = t ? open_comparison(options, t) : fail(ERR_NOMEM, "two tables"), said;

    session_catch_signals();
    if (!rc)
        rc = compare(t);
    if (rc == ERR_CUT)
        note("cut off: the same command begins again");
    if (!rc || ((rc == ERR_CUT || rc == ERR_LAUNCH) && t->launches.bucket_count)) {
        said = report(t, rc);
        rc = rc && said != ERR_WRONG ? rc : said;
        said = remember(t);
        rc = rc ? rc : said;
    }
    for (size_t i = 0; t && i < t->launches.bucket_count; i++) {
        free(key_at(t, i)->contest);
        free(key_at(t, i));
    }
    if (t) {
        launches_close(&t->launches);
        free(t->whole);
        free(t->weights);
    }
    for (int i = 0; t && i < SIDES; i++) {
        moelookup_view_free(t->side[i].view);
        moelookup_close(t->side[i].table);
    }
    free(t);
    return rc;
}
