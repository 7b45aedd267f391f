/* Lets two programs, or one under two tables, run steps until it is known at every key which of
 * them is faster: both at once, a step each in turn, or launch by launch where they have a space of
 * their own. */
#include "two_programs.h"

#include "array.h"
#include "contest.h"
#include "declaration.h"
#include "dictionary.h"
#include "host.h"
#include "launches.h"
#include "ledger.h"
#include "lookup.h"
#include "measuring_run.h"
#include "plan.h"
#include "random.h"
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

#define AT(field) offsetof(struct two_programs, field)
const struct option_row two_programs_rows[] = {
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "instead: this program, which asks and tells, against ..." },
    { "against", "COMMAND", OPTION_TEXT, AT(against),
      "... another one, with the same plans [itself, with other plans]" },
    { "against-table", "FILE", OPTION_TEXT, AT(against_table),
      "... told the plans of this table [--exec alone: the default plan]" },
    { "space", "FILE", OPTION_TEXT, AT(space),
      "plans of its own that the programs have, see moetune-spaces(7)" },
    { "launch-steps", "N", OPTION_COUNT, AT(launch_steps),
      "--space: steps of a launch that are one sample", .least = 1, .most = TUNE_LAUNCH_STEPS_MAX },
    { "warmup", "N", OPTION_COUNT, AT(warmup),
      "steps of each (launch) at each key that do not count", .least = 0, .most = 1000 },
    { NULL },
};
#undef AT

enum { SIDES = 2, KEYS_MAX = 4096 };

struct rival_program {
    const char *name, *command;
    struct moelookup *table; /* NULL: it is told the default plan */
    struct moelookup_view *view;
};

/* What the steps of both sides showed in one bucket. */
struct rivals_bucket {
    struct watched watched; /* first, for the launcher's pointer to it is cast back */
    uint32_t seen[SIDES];
    struct moe_plan plan[SIDES];
    struct contest *contest;
    char why[200]; /* the first side failed, */
    bool against;  /* and not the second one, of which a step was told */
    bool same;     /* one program and one plan: there is nothing to compare */
    bool settled;  /* nothing more is wanted here */

    /* Where it is compared launch by launch. */
    size_t way[SIDES];    /* by which each side shows its plan */
    uint32_t warm;        /* steps of this launch that did not count */
    uint32_t shown;       /* the last launch that gave a sample; 0: none */
    uint32_t dead[SIDES]; /* launches that died in a step */
};
_Static_assert(offsetof(struct rivals_bucket, watched) == 0, "struct watched is cast to it");

struct program_comparison {
    const struct two_programs *options;
    struct rival_program side[SIDES];
    struct moe_shape shape;
    const struct declaration *space; /* NULL: moetune's own plans */
    uint32_t window;
    uint32_t pairs_max; /* at a key */
    struct rivals_bucket **keys;
    size_t key_count;
    int64_t begun_ns, deadline_ns;
};

/* ---- tables */

static bool is_wanted(const struct option_list *wanted, const struct moe_shape *shape)
{
    bool is = !wanted->count;

    for (int i = 0; i < wanted->count && !is; i++)
        is = shape_agrees(shape, wanted->items[i]);
    return is;
}

/* Opens the side's table, which must have plans of exactly one layer that is wanted. */
static int open_table(struct program_comparison *t, const char *path, struct rival_program *s)
{
    uint32_t space = t->space ? t->space->id : 0, count = 0;
    const char *of = t->space ? t->space->name : "";
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
        /* Of a space, that of several clusters is one layer: which of them, bind says. */
        if (layer.shape.space != space || !is_wanted(wanted, &layer.shape) ||
            (space && count && shape_equal(&layer.shape, &found.shape)))
            continue;
        found = layer;
        count++;
    }
    if (!count)
        return fail(ERR_ARGUMENT, "%s: no table %s%s that answers on this machine",
                    path ? path : "the database", space ? "of " : "of a layer", of);
    if (count > 1)
        return fail(ERR_ARGUMENT,
                    "%s: a table of one layer%s%s is wanted, it has %u; --shape says which",
                    path ? path : "the table", space ? " of " : "", of, count);
    if (t->shape.experts && !shape_equal(&t->shape, &found.shape))
        return fail(ERR_ARGUMENT, "%s is a table of another layer: %s", path,
                    SHAPE_TEXT(&found.shape));
    t->shape = found.shape;
    t->window = found.window;
    return moelookup_bind(s->table, &found.shape, NULL, &s->view);
}

/* Reads the space and the tables. */
static int open_comparison(const struct two_programs *o, struct program_comparison *t)
{
    *t = (struct program_comparison){
        .options = o,
        .side = { { .name = "--exec", .command = o->exec },
                  { .name = o->against ? "--against" : "the second program",
                    .command = o->against ? o->against : o->exec } },
        .window = 1,
        .pairs_max = CONTEST_ROUNDS_MAX,
        .begun_ns = host_clock_ns(),
        .deadline_ns = o->budget_s > 0 ? host_clock_ns() + (int64_t)(o->budget_s * 1e9) : 0
    };
    if (o->space)
        TRY(space_file_read(o->space, &t->space));
    if (o->db || !o->against)
        TRY(open_table(t, o->db, &t->side[0]));
    if (o->against_table)
        return open_table(t, o->against_table, &t->side[1]);
    return o->against && o->db ? open_table(t, o->db, &t->side[1]) : OK;
}

/* What a trainer would be told by the side's table. */
static struct moe_plan plan_of(const struct program_comparison *t, int side, uint32_t bucket,
                               uint64_t key)
{
    const struct moelookup_view *view = t->side[side].view;
    struct moe_plan plan = t->space ? declared_plan_default(t->space->id)
                                    : plan_default(t->shape.experts ? &t->shape : NULL);

    if (view && t->space)
        moelookup_get_key(view, declaration_key(t->space, bucket),
                          declaration_class(t->space, bucket), &plan);
    else if (view)
        moelookup_get(view, (uint32_t)key, &plan);
    return plan;
}

/* ---- keys */

static uint32_t bucket_of(const struct program_comparison *t, const struct said *ask)
{
    return t->space ? declaration_bucket(t->space, ask->key, ask->class_thousandths)
                    : (uint32_t)ask->key / t->window;
}

/* Finds the key of a bucket, or adds it (*fresh). */
static int find_key(struct program_comparison *t, uint32_t bucket, struct rivals_bucket **out,
                    bool *fresh)
{
    struct contest_settings settings = { .margin = t->options->margin,
                                         .rounds_max = t->pairs_max,
                                         .seed = t->options->seed ^ bucket };
    struct rivals_bucket *key;

    *fresh = false;
    for (size_t i = 0; i < t->key_count; i++)
        if (t->keys[i]->watched.bucket == bucket) {
            *out = t->keys[i];
            return OK;
        }
    if (t->key_count == KEYS_MAX)
        return fail(ERR_ARGUMENT, "the programs ask for more than %d buckets", KEYS_MAX);
    key = calloc(1, sizeof(*key));
    if (!key)
        return fail(ERR_NOMEM, "a key");
    ARRAY_APPEND(t->keys, t->key_count, key);
    key->watched.bucket = bucket;
    key->contest = calloc(1, sizeof(*key->contest));
    if (!key->contest)
        return fail(ERR_NOMEM, "a contest");
    contest_open(key->contest, &settings, SIDES, 1, false);
    *out = key;
    *fresh = true;
    return OK;
}

static uint32_t count_settled(const struct program_comparison *t)
{
    uint32_t count = 0;

    for (size_t i = 0; i < t->key_count; i++)
        count += t->keys[i]->settled;
    return count;
}

static void tell_side(const struct program_comparison *t, struct rivals_bucket *key, int side,
                      int64_t ns)
{
    struct contest_verdict v;

    if (*key->why) /* a side cannot run its plan there: there is nothing to compare */
        return;
    contest_tell(key->contest, side, ns);
    if (contest_next(key->contest) != CONTEST_DONE)
        return;
    v = contest_verdict(key->contest);
    /* What seems slower goes on until that is known: the contest asks only who is faster. */
    key->settled =
        v.rounds >= key->contest->settings.rounds_max ||
        !(v.challenge.value < -t->options->margin && v.challenge.high >= -t->options->margin);
}

/* The second side ran a step at the key: where the first one failed that is its own fault. */
static void stand_against(struct rivals_bucket *key)
{
    key->against = true;
    key->settled |= *key->why != 0;
}

/* A side cannot run its plan at the key, which is settled once the other one could: where neither
 * does, the machine may be to blame, or the command.  ERR_LAUNCH if it is the second one: the first
 * has nothing to be compared with. */
static int lose(const struct program_comparison *t, struct rivals_bucket *key, int side,
                const char *why)
{
    char range[80];

    if (side == 0) {
        text_put(key->why, sizeof(key->why), "%s", why);
        key->settled = key->against;
        return OK;
    }
    if (t->space)
        declaration_range(t->space, key->watched.bucket, range, sizeof(range));
    else
        snprintf(range, sizeof(range), "%" PRIu64, (uint64_t)key->watched.bucket * t->window);
    return fail(ERR_LAUNCH, "%s: %s, at %s %s under %s: there is nothing to compare with",
                t->side[side].name, why, t->space ? t->space->key : "capacity", range,
                PLAN_WORDS(&key->plan[side]));
}

/* ---- both at once: steps take turns, and what differs between two starts is not seen */

enum { PAIRS_LEAST = 8 };

/* One of the two programs. */
struct speaker {
    struct session session;
    struct meeting *meeting;
    int side;
    struct said asked; /* its answer is held back until it is this side's turn */
    int64_t ns;        /* what that step took; 0: it failed, */
    char why[200];     /* for this reason */
};

struct meeting {
    struct program_comparison *t;
    struct speaker speakers[SIDES];
    uint64_t rounds, newest; /* steps of each; when the newest key came */
    struct progress progress;
};

static int hold_question(void *self, const struct said *ask, struct moe_plan *plan)
{
    struct speaker *s = self;
    const struct program_comparison *t = s->meeting->t;

    s->asked = *ask;
    *plan = plan_of(t, s->side, bucket_of(t, ask), ask->key);
    s->session.held = true;
    return OK;
}

static int hold_time(void *self, const struct said *tell)
{
    struct speaker *s = self;

    s->ns = tell->ns;
    s->session.held = true;
    return OK;
}

static int hold_failure(void *self, enum trial_state state, const char *why)
{
    struct speaker *s = self;

    (void)state;
    text_put(s->why, sizeof(s->why), "failed: %s", TEXT_SHORT(why, 150));
    s->session.held = true;
    return OK;
}

static struct moetune_status meeting_status(void *self)
{
    const struct meeting *m = ((struct speaker *)self)->meeting;
    uint32_t known = count_settled(m->t);

    return (struct moetune_status){ .decided = known,
                                    .open = (uint32_t)m->t->key_count - known,
                                    .steps = m->rounds };
}

static void tick(void *self)
{
    progress_tick(&((struct speaker *)self)->meeting->progress);
}

static const struct session_ops meeting_ops = { .ask = hold_question,
                                                .tell = hold_time,
                                                .failed = hold_failure,
                                                .status = meeting_status,
                                                .idle = tick };

/* Listens until the program has asked or told; UNSUPPORTED: it has ended. */
static int listen_to(struct speaker *s)
{
    struct launch_end end = { .hung = false };
    char why[LAUNCH_WHY_BYTES];
    int rc = session_listen(&s->session, &end.hung);

    return end.hung
               ? fail(ERR_LAUNCH, "%s: %s", s->session.name, launch_why(&s->session, &end, why))
               : rc;
}

/* Lets one side run a step, while the other one waits for its answer. */
static int run_step(struct meeting *m, struct speaker *s)
{
    struct program_comparison *t = m->t;
    struct rivals_bucket *key;
    bool fresh;
    int rc;

    s->ns = 0;
    snprintf(s->why, sizeof(s->why), "the program ended in a step");
    TRY(session_release(&s->session));
    rc = listen_to(s);
    if (rc && rc != UNSUPPORTED)
        return rc;
    TRY(find_key(t, bucket_of(t, &s->asked), &key, &fresh));
    if (fresh)
        m->newest = m->rounds;
    key->plan[s->side] = s->session.plan;
    if (!s->ns)
        return lose(t, key, s->side, s->why);
    if (s->side == 1)
        stand_against(key);
    if (key->seen[s->side]++ >= t->options->warmup)
        tell_side(t, key, s->side, s->ns);
    return OK;
}

static int run_round(struct meeting *m)
{
    int first = random_bits(m->t->options->seed, m->rounds) & 1;

    for (int i = 0; i < SIDES; i++)
        TRY(listen_to(&m->speakers[i]));
    TRY(run_step(m, &m->speakers[first]));
    TRY(run_step(m, &m->speakers[!first]));
    for (int i = 0; i < SIDES; i++)
        TRY(child_ended(&m->speakers[i].session.child) ? UNSUPPORTED
                                                       : session_release(&m->speakers[i].session));
    m->rounds++;
    m->progress.done = count_settled(m->t);
    m->progress.buckets = (uint32_t)m->t->key_count;
    m->progress.steps = 2 * m->rounds;
    progress_show(&m->progress, "pair %" PRIu64, m->rounds);
    return OK;
}

/* Lets them run steps until all keys are settled, and no new one came for as long as it took to see
 * these. */
static int compare_in_turn(struct program_comparison *t)
{
    struct meeting *m = calloc(1, sizeof(*m));
    int rc = OK, ends = OK;

    if (!m)
        return fail(ERR_NOMEM, "two programs");
    m->t = t;
    for (int i = 0; i < SIDES; i++) {
        struct speaker *s = &m->speakers[i];

        s->meeting = m;
        s->side = i;
        s->session = (struct session){ .ops = &meeting_ops,
                                       .self = s,
                                       .name = t->side[i].name,
                                       .strict = true,
                                       .shape = t->shape,
                                       .window = t->window,
                                       .silence_s = t->options->silence_s,
                                       .deadline_ns = t->deadline_ns };
        progress_open(&s->session.progress, true, ""); /* the meeting's is shown */
    }
    progress_open(&m->progress, t->options->quiet, "the programs start");
    m->progress.deadline_ns = t->deadline_ns;
    for (int i = 0; i < SIDES && !rc; i++)
        rc = session_start(&m->speakers[i].session, t->side[i].command, NULL, false);
    while (!rc && !(t->key_count && count_settled(t) == t->key_count &&
                    m->rounds >= 2 * m->newest + PAIRS_LEAST))
        rc = run_round(m);
    log_line_clear();
    for (int i = 0; i < SIDES; i++)
        session_stop(&m->speakers[i].session);
    for (int i = 0; i < SIDES; i++) {
        struct launch_end end = { .hung = false };

        session_end(&m->speakers[i].session, OK, &end);
        if (!end.by_itself || !end.exit_code)
            continue;
        note("%s: %s", t->side[i].name, end.how); /* a fault of its own */
        if (!ends)
            ends = i == 0 && t->key_count ? ERR_WRONG : ERR_LAUNCH;
    }
    free(m);
    if (rc && rc != UNSUPPORTED)
        return rc;
    return !ends && !t->key_count ? fail(ERR_LAUNCH, "a program ended without asking anything")
                                  : ends;
}

/* ---- launch by launch, so that their luck is a part of what is compared */

/* A launch is dear: what is not clear after so many pairs is too close to matter. */
enum { PAIRS_MAX = 60 };

/* One side after the other is started under the plans that its table has, each launch for all
 * ranges that want it, and each range gets the samples of its two plans in turn: A B B A. */
struct launched_sides {
    struct launches launches;
    struct program_comparison *t;
    struct session session;
    struct moe_plan plans[DECLARATION_PLANS_MAX];

    /* Of the launch under way. */
    int side;
    bool fits; /* its last answer was the plan that the side has at the key */
};

static struct rivals_bucket *key_of(struct watched *range)
{
    return (struct rivals_bucket *)range;
}

/* The index in l->ways of the way by which the side shows the plan. */
static size_t way_of(const struct launched_sides *r, int side, const struct moe_plan *plan)
{
    const struct launches *l = &r->launches;
    size_t i = 0;

    while (i < l->plan_count - 1 && !plan_equal(&r->plans[i], plan))
        i++;
    return (size_t)side * (l->way_count / SIDES) + l->way_of[i];
}

/* The side whose sample the key wants next. */
static int turn_of(const struct rivals_bucket *key)
{
    const uint16_t *told = key->contest->told;

    if (*key->why)
        return 1;
    return told[0] == told[1] ? told[0] & 1 : told[0] > told[1];
}

/* Whether both sides are one program with one plan: what differs is chance. */
static bool is_same(const struct program_comparison *t, const struct moe_plan *a,
                    const struct moe_plan *b)
{
    return !t->options->against && plan_equal(a, b);
}

static int add_key(void *self, uint32_t bucket, struct watched **out)
{
    struct launched_sides *r = self;
    struct program_comparison *t = r->t;
    struct rivals_bucket *key;
    bool fresh;

    TRY(find_key(t, bucket, &key, &fresh));
    *out = &key->watched;
    if (!fresh)
        return OK;
    for (int side = 0; side < SIDES; side++) {
        key->plan[side] = plan_of(t, side, bucket, 0);
        key->way[side] = way_of(r, side, &key->plan[side]);
    }
    key->same = key->settled = is_same(t, &key->plan[0], &key->plan[1]);
    for (int side = 0; side < SIDES && !key->settled; side++)
        if (r->launches.ways[key->way[side]].broken)
            TRY(lose(t, key, side, "no launch with these values comes up"));
    return OK;
}

static struct watched *key_at(void *self, size_t i)
{
    const struct program_comparison *t = ((struct launched_sides *)self)->t;

    return i < t->key_count ? &t->keys[i]->watched : NULL;
}

static void vote(void *self)
{
    struct launched_sides *r = self;
    struct program_comparison *t = r->t;
    struct launch_way *ways = r->launches.ways;

    for (size_t i = 0; i < t->key_count; i++)
        if (!t->keys[i]->settled)
            ways[t->keys[i]->way[turn_of(t->keys[i])]].votes++;
    if (r->launches.heard)
        return;
    /* Nobody knows yet which ranges the program asks for: the way that most of those want that are
     * to be compared. */
    for (uint32_t bucket = 0; bucket < declaration_buckets(t->space); bucket++) {
        struct moe_plan first = plan_of(t, 0, bucket, 0), second = plan_of(t, 1, bucket, 0);
        struct launch_way *way = &ways[way_of(r, 0, &first)];

        way->votes += !way->broken && !is_same(t, &first, &second);
    }
}

static int begin_launch(void *self, const char *words)
{
    struct launched_sides *r = self;
    struct launches *l = &r->launches;

    (void)words;
    r->side = launches_program(l) == &l->programs[1];
    l->watch.looking = !l->heard;
    for (size_t i = 0; i < r->t->key_count; i++) {
        watched_reset(&r->t->keys[i]->watched);
        r->t->keys[i]->warm = 0;
    }
    return OK;
}

static enum launch_wish wish(void *self, struct watched *range)
{
    const struct launched_sides *r = self;
    const struct rivals_bucket *key = key_of(range);

    return !key->settled && key->shown != r->launches.now.number && turn_of(key) == r->side &&
                   key->way[r->side] == r->launches.now.way
               ? WISH_SAMPLE
               : WISH_NOTHING;
}

static int choose(void *self, struct watched *range, struct moe_plan *plan)
{
    struct launched_sides *r = self;
    struct launches *l = &r->launches;
    const struct rivals_bucket *key = key_of(range);

    r->fits = key->way[r->side] == l->now.way && !(*key->why && r->side == 0);
    l->sampled = wish(r, range) == WISH_SAMPLE;
    *plan = r->fits ? key->plan[r->side] : r->plans[l->ways[l->now.way].safe];
    return OK;
}

static int step(void *self, struct watched *range, int64_t ns)
{
    struct launched_sides *r = self;
    struct rivals_bucket *key = key_of(range);
    int64_t sample;

    if (r->fits && r->side == 1)
        stand_against(key);
    if (!r->launches.sampled || key->warm++ < r->t->options->warmup ||
        !watched_step(range, ns, r->t->options->launch_steps, &sample))
        return OK;
    key->shown = r->launches.now.number;
    tell_side(r->t, key, r->side, sample);
    return OK;
}

static int plan_failed(void *self, struct watched *range, enum trial_state state, const char *why)
{
    struct launched_sides *r = self;
    struct rivals_bucket *key = key_of(range);
    char text[sizeof(key->why)];

    (void)state;
    if (!r->fits || key->settled)
        return OK;
    range->learnt = true;
    text_put(text, sizeof(text), "failed: %s", TEXT_SHORT(why, 150));
    return lose(r->t, key, r->side, text);
}

static struct launch_counts count_keys(void *self)
{
    const struct program_comparison *t = ((struct launched_sides *)self)->t;
    uint32_t settled = count_settled(t), all = (uint32_t)t->key_count;

    return (struct launch_counts){ .decided = settled, .open = all - settled, .ranges = all };
}

static void leave(void *self, struct watched *range)
{
    (void)self;
    key_of(range)->settled = true;
}

static int launch_ended(void *self, const struct launch_end *failure)
{
    struct launched_sides *r = self;
    struct program_comparison *t = r->t;
    struct launches *l = &r->launches;
    struct launch_way *way = &l->ways[l->now.way];
    const char *name = t->side[r->side].name;
    char why[LAUNCH_WHY_BYTES];

    if (!failure) {
        way->stillborn = 0;
        return OK;
    }
    launch_why(&r->session, failure, why);
    if (r->session.running && r->fits && !key_of(l->range)->settled) {
        /* It died or fell silent in a step of the side's plan; the first time something else may
         * have killed it. */
        struct rivals_bucket *key = key_of(l->range);
        bool forgiven = !failure->hung && key->dead[r->side]++ == 0;
        char range[80];

        declaration_range(t->space, key->watched.bucket, range, sizeof(range));
        note("%s: %s %s, %s: %s%s", name, t->space->key, range, PLAN_WORDS(&key->plan[r->side]),
             why, forgiven ? "; once more" : "");
        return forgiven ? OK : lose(t, key, r->side, why);
    }
    note("launch %" PRIu32 " of %s: %s", l->now.number, name, why);
    way->stillborn = launches_learnt(l) ? 0 : way->stillborn + 1;
    if (way->stillborn < (way->runs ? LAUNCH_PATIENCE : 2))
        return OK;
    /* Launches under these values show nothing, again and again: the side loses every range that it
     * would show by them. */
    way->broken = true;
    for (uint32_t b = 0; b < declaration_buckets(t->space) && !l->heard; b++) {
        struct moe_plan plan = plan_of(t, r->side, b, 0);
        struct watched *range;

        if (way_of(r, r->side, &plan) == l->now.way)
            TRY(add_key(r, b, &range));
    }
    for (size_t i = 0; i < t->key_count; i++)
        if (!t->keys[i]->settled && t->keys[i]->way[r->side] == l->now.way)
            TRY(lose(t, t->keys[i], r->side, why));
    return OK;
}

static const struct launch_client client = { .range = key_at,
                                             .add = add_key,
                                             .vote = vote,
                                             .begin = begin_launch,
                                             .wish = wish,
                                             .choose = choose,
                                             .step = step,
                                             .failed = plan_failed,
                                             .count = count_keys,
                                             .leave = leave,
                                             .ended = launch_ended };

static int compare_launches(struct program_comparison *t)
{
    const struct two_programs *o = t->options;
    struct launched_sides *r = calloc(1, sizeof(*r));
    struct watched *range;
    int rc;

    if (!r)
        return fail(ERR_NOMEM, "two programs");
    t->pairs_max = PAIRS_MAX;
    r->t = t;
    r->session = (struct session){ .shape = t->shape,
                                   .space = t->space,
                                   .window = t->window,
                                   .silence_s = o->silence_s,
                                   .deadline_ns = t->deadline_ns };
    r->launches = (struct launches){ .client = &client,
                                     .self = r,
                                     .session = &r->session,
                                     .space = t->space,
                                     .plans = r->plans,
                                     .program_count = SIDES,
                                     .watch = { .least = o->warmup + o->launch_steps } };
    for (int i = 0; i < SIDES; i++)
        r->launches.programs[i] = (struct launched_program){ t->side[i].name, t->side[i].command };
    r->launches.plan_count = declared_plan_list(t->space->id, 0, r->plans, DECLARATION_PLANS_MAX);
    progress_open(&r->session.progress, o->quiet, "the program starts");
    r->session.progress.deadline_ns = t->deadline_ns;
    rc = launches_open(&r->launches);
    if (!rc)
        rc = launches_run(&r->launches);
    /* Where nothing was launched no table says of any range what the other one does not: all
     * ranges are the same. */
    for (uint32_t b = 0; b < declaration_buckets(t->space) && !rc && !r->launches.now.number; b++)
        rc = add_key(r, b, &range);
    log_line_clear();
    launches_close(&r->launches);
    free(r);
    return rc;
}

/* ---- verdicts */

static struct verdict verdict_of(const struct program_comparison *t,
                                 const struct rivals_bucket *key)
{
    struct contest_verdict c = contest_verdict(key->contest);
    struct verdict v = { .before_us = c.default_ns * 1e-3,
                         .now_us = c.default_ns * (1 - c.challenge.value) * 1e-3,
                         .gain = c.challenge,
                         .pairs = c.rounds,
                         .word = "not slower" };
    uint64_t first = (uint64_t)key->watched.bucket * t->window;
    double margin = t->options->margin;

    if (t->space)
        declaration_range(t->space, key->watched.bucket, v.key, sizeof(v.key));
    else if (t->window == 1)
        snprintf(v.key, sizeof(v.key), "c=%u", key->watched.bucket);
    else
        snprintf(v.key, sizeof(v.key), "c=%" PRIu64 "-%" PRIu64, first, first + t->window - 1);
    /* In so few pairs no difference could have been shown, were it in all of them. */
    if (!v.pairs || key->contest->wins_needed[v.pairs] > v.pairs)
        v.gain = (struct gain)GAIN_UNKNOWN;
    snprintf(v.plan, sizeof(v.plan), "%s", PLAN_WORDS(&key->plan[0]));
    snprintf(v.why, sizeof(v.why), "%s", key->why);
    v.failed = *key->why ? key->against : v.gain.high < -margin;
    if (*key->why)
        v.word = "fails";
    else if (v.failed)
        v.word = "slower";
    else if (v.gain.low > margin)
        v.word = "faster";
    else if (key->same)
        v.word = "same plan";
    else if (isnan(v.gain.value))
        v.word = "too few steps";
    return v;
}

static int by_bucket(const void *a, const void *b)
{
    uint32_t x = (*(struct rivals_bucket *const *)a)->watched.bucket;
    uint32_t y = (*(struct rivals_bucket *const *)b)->watched.bucket;

    return (x > y) - (x < y);
}

/* Prints verdicts; ERR_WRONG if the first side is slower at some key, or fails;
 * ERR_LAUNCH if there is no verdict at any, which is said unless `ended_by` is why. */
static int report(struct program_comparison *t, int ended_by)
{
    const struct two_programs *o = t->options;
    struct verdict *verdicts = calloc(t->key_count + 1, sizeof(*verdicts));
    bool failed = false, known = false;
    uint32_t same = 0; /* settled without a step */
    int rc = verdicts ? OK : fail(ERR_NOMEM, "%zu verdicts", t->key_count);

    if (!rc && t->key_count)
        qsort(t->keys, t->key_count, sizeof(*t->keys), by_bucket);
    for (size_t i = 0; i < t->key_count && !rc; i++) {
        verdicts[i] = verdict_of(t, t->keys[i]);
        failed |= verdicts[i].failed;
        known |= failed || t->keys[i]->same || !isnan(verdicts[i].gain.value);
    }
    if (!rc && o->json)
        verdicts_json(verdicts, t->key_count, stdout);
    else if (!rc)
        rc = verdicts_table(verdicts, t->key_count, stdout);
    if (!rc && !o->json && ended_by == ERR_CUT) {
        uint32_t settled = count_settled(t);

        for (size_t i = 0; i < t->key_count; i++)
            same += t->keys[i]->same;
        progress_left(t->key_count - settled, t->key_count, "keys", settled - same,
                      (double)(host_clock_ns() - t->begun_ns) * 1e-9, stdout);
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
};

static int find_layer(void *self, const struct entry_row *e)
{
    struct judged_table *j = self;
    struct cluster cluster;
    struct moe_shape shape;
    uint8_t hash[HASH_BYTES];

    if (j->table.cluster || e->window != j->t->window)
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

/* The verdict is more than that no difference was seen: its interval holds whenever steps ended. */
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

    if (!is_known(t, key) || dictionary_pin(&j->table, key->watched.bucket))
        return OK;
    rc = dictionary_entry(&j->table, key->watched.bucket, &e);
    if (rc || !plan_equal(&e.plan, &key->plan[0])) /* its like was told, or it is another by now */
        return rc < 0 ? rc : OK;
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
    ledger_weigh(&t->shape, &claim, &v.gain, &e);
    return ledger_confirm(j->table.store, &e);
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
    j->run = (struct run){ .store = store, .row = { .buckets_planned = (uint32_t)t->key_count } };
    rc = run_begin(&j->run, j->table.cluster, t->options->seed, "verify", "all",
                   t->options->command);
    for (size_t i = 0; i < t->key_count && !rc; i++)
        rc = judge_entry(j, t->keys[i]);
    j->run.row.buckets_done = j->kept + j->refuted;
    return rc ? rc : run_end(&j->run, OK, NULL, true);
}

/* The work database that the table is of; a snapshot is not written to. */
static int find_database(const struct two_programs *o, char path[PATH_MAX])
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
    const struct two_programs *o = t->options;
    struct judged_table j = { .t = t, .table = { .window = t->window } };
    char path[PATH_MAX];
    bool known = false;
    int rc = OK;

    for (size_t i = 0; i < t->key_count; i++)
        known |= is_known(t, t->keys[i]);
    if (o->against || o->against_table || !t->side[0].view || !known)
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

int two_programs(const struct two_programs *options)
{
    struct program_comparison t;
    int rc = open_comparison(options, &t), said;

    session_catch_signals();
    if (!rc)
        rc = t.space ? compare_launches(&t) : compare_in_turn(&t);
    if (rc == ERR_CUT)
        note("cut off: the same command begins again");
    if (!rc || ((rc == ERR_WRONG || rc == ERR_CUT || rc == ERR_LAUNCH) && t.key_count)) {
        said = report(&t, rc);
        rc = rc && said != ERR_WRONG ? rc : said;
        said = remember(&t);
        rc = rc ? rc : said;
    }
    for (size_t i = 0; i < t.key_count; i++) {
        free(t.keys[i]->contest);
        free(t.keys[i]);
    }
    free(t.keys);
    for (int i = 0; i < SIDES; i++) {
        moelookup_view_free(t.side[i].view);
        moelookup_close(t.side[i].table);
    }
    return rc;
}
