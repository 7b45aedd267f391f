/* Starts one side after the other under the plans that its table has, each launch for all ranges
 * that want it, and gives each range the samples of its two plans in turn: A B B A. */
#include "launch_ways.h"
#include "launch_words.h"
#include "plan.h"
#include "session.h"
#include "status.h"
#include "text.h"
#include "two_sides.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A launch is dear: what is not clear after so many pairs is too close to matter. */
enum { PAIRS_MAX = 60 };

struct two_launches {
    struct two_sides *t;
    struct session session;
    struct moe_plan plans[DECLARATION_PLANS_MAX];
    uint32_t way_of[DECLARATION_PLANS_MAX]; /* of each plan */
    size_t plan_count, way_count;
    struct way *ways; /* of the first side, then as many of the second one */
    uint32_t silent;  /* launches in a row that asked nothing */
    uint32_t launch;  /* the one under way */
    uint64_t told, tried;
    bool seen; /* what the program asks for */

    /* Of the launch under way. */
    int side;
    size_t way;
    struct launch_watch watch;
    size_t at; /* the key that it asked for last, and whether it was told the plan of the key */
    bool fits; /* and side, and whether its time counts */
    bool counts;
};

/* ---- which launch next */

/* In l->ways: where the side shows the plan. */
static size_t way_of(const struct two_launches *l, int side, const struct moe_plan *plan)
{
    size_t i = 0;

    while (i < l->plan_count - 1 && !plan_equal(&l->plans[i], plan))
        i++;
    return (size_t)side * l->way_count + l->way_of[i];
}

/* Whose sample the key wants next. */
static int turn_of(const struct key *key)
{
    const uint16_t *told = key->contest->told;

    return told[0] == told[1] ? told[0] & 1 : told[0] > told[1];
}

static bool wants(const struct two_launches *l, const struct key *key)
{
    return !key->settled && key->shown != l->launch && turn_of(key) == l->side &&
           key->way[l->side] == l->way;
}

/* One program and one plan on both sides: what differs is chance. */
static bool is_same(const struct two_sides *t, const struct moe_plan *a, const struct moe_plan *b)
{
    return !t->options->against && plan_equal(a, b);
}

static int add_key(struct two_launches *l, uint32_t bucket, size_t *at, bool *fresh)
{
    struct two_sides *t = l->t;
    struct key *key;

    TRY(two_sides_key(t, bucket, at, fresh));
    if (!*fresh)
        return OK;
    key = &t->keys[*at];
    for (int side = 0; side < SIDES; side++) {
        key->plan[side] = two_sides_plan(t, side, bucket, 0);
        key->way[side] = way_of(l, side, &key->plan[side]);
    }
    key->same = key->settled = is_same(t, &key->plan[0], &key->plan[1]);
    for (int side = 0; side < SIDES && !key->settled; side++)
        if (l->ways[key->way[side]].broken)
            TRY(two_sides_lose(t, key, side, "no launch with these values comes up"));
    return OK;
}

/* Nobody knows yet which ranges the program asks for: the way that most of those want that are
 * to be compared. */
static void vote_unseen(struct two_launches *l)
{
    for (uint32_t bucket = 0; bucket < declaration_buckets(l->t->space); bucket++) {
        struct moe_plan first = two_sides_plan(l->t, 0, bucket, 0);
        struct moe_plan second = two_sides_plan(l->t, 1, bucket, 0);
        struct way *way = &l->ways[way_of(l, 0, &first)];

        way->votes += !way->broken && !is_same(l->t, &first, &second);
    }
}

/* -1: nothing is wanted. */
static int next_way(struct two_launches *l)
{
    const struct two_sides *t = l->t;

    for (size_t w = 0; w < SIDES * l->way_count; w++)
        l->ways[w].votes = 0;
    for (size_t i = 0; i < t->key_count; i++) {
        const struct key *key = &t->keys[i];

        if (!key->settled)
            l->ways[key->way[turn_of(key)]].votes++;
    }
    if (!l->seen)
        vote_unseen(l);
    return ways_next(l->ways, SIDES * l->way_count, l->launch);
}

/* ---- answers */

static bool goes_on(const struct two_launches *l)
{
    uint64_t question = l->session.asked + 1;

    for (size_t i = 0; i < l->t->key_count; i++)
        if (wants(l, &l->t->keys[i]) &&
            watch_awaits(&l->watch, &l->t->keys[i].watched, l->t->key_count, false, question))
            return true;
    return watch_looks(&l->watch, question);
}

static int is_asked(void *self, const struct said *ask, struct moe_plan *plan)
{
    struct two_launches *l = self;
    struct key *key;
    bool fresh;

    l->seen = true;
    TRY(add_key(l, two_sides_bucket(l->t, ask), &l->at, &fresh));
    key = &l->t->keys[l->at];
    key->watched.asked = l->session.asked + 1;
    if (fresh)
        l->watch.newest = key->watched.asked;
    if (!goes_on(l))
        return UNSUPPORTED;
    l->fits = key->way[l->side] == l->way && !*key->why;
    l->counts = wants(l, key);
    *plan = l->fits ? key->plan[l->side] : l->plans[l->ways[l->way].safe];
    return OK;
}

static void show(struct two_launches *l)
{
    struct progress *p = &l->session.progress;

    p->done = two_sides_settled(l->t);
    p->buckets = (uint32_t)l->t->key_count;
    p->steps = l->told;
    progress_show(p, "launch %" PRIu32 ", %s: %s=%" PRIu64 " %s", l->launch,
                  l->t->side[l->side].name, l->t->space->key, l->session.key,
                  PLAN_WORDS(&l->session.plan));
}

static int is_told(void *self, const struct said *tell)
{
    struct two_launches *l = self;
    struct key *key = &l->t->keys[l->at];
    int64_t sample;

    l->ways[l->way].runs = true;
    l->told++;
    l->tried += l->counts;
    show(l);
    if (!l->counts || key->warm++ < l->t->options->warmup ||
        !watched_step(&key->watched, tell->ns, l->t->options->launch_steps, &sample))
        return OK;
    key->shown = l->launch;
    two_sides_tell(l->t, key, l->side, sample);
    return OK;
}

static int is_told_failure(void *self, enum trial_state state, const char *why)
{
    struct two_launches *l = self;
    struct key *key = &l->t->keys[l->at];
    char text[sizeof(key->why)];

    (void)state;
    l->ways[l->way].runs = true; /* it came up, and says what it cannot do */
    if (!l->fits || key->settled)
        return OK;
    key->watched.learnt = true;
    text_put(text, sizeof(text), "failed: %s", TEXT_SHORT(why, 150));
    return two_sides_lose(l->t, key, l->side, text);
}

static struct moetune_status status_of(void *self)
{
    const struct two_launches *l = self;
    uint32_t decided = two_sides_settled(l->t);

    return (struct moetune_status){ .decided = decided,
                                    .open = (uint32_t)l->t->key_count - decided,
                                    .steps = l->told,
                                    .tried = l->tried };
}

static const struct session_ops ops = {
    .ask = is_asked, .tell = is_told, .failed = is_told_failure, .status = status_of
};

/* ---- how a launch ended */

/* It died or fell silent in a step; the first time something else may have killed it. */
static int blame(struct two_launches *l, const struct launch_end *end, const char *why)
{
    struct key *key = &l->t->keys[l->at];
    bool forgiven = !end->hung && key->dead[l->side]++ == 0;
    char range[80];

    declaration_range(l->t->space, key->bucket, range, sizeof(range));
    note("%s: %s %s, %s: %s%s", l->t->side[l->side].name, l->t->space->key, range,
         PLAN_WORDS(&key->plan[l->side]), why, forgiven ? "; once more" : "");
    return forgiven ? OK : two_sides_lose(l->t, key, l->side, why);
}

/* All ranges that the side would show by launches as this one. */
static int add_keys(struct two_launches *l)
{
    size_t at;
    bool fresh;

    for (uint32_t bucket = 0; bucket < declaration_buckets(l->t->space); bucket++) {
        struct moe_plan plan = two_sides_plan(l->t, l->side, bucket, 0);

        if (way_of(l, l->side, &plan) == l->way)
            TRY(add_key(l, bucket, &at, &fresh));
    }
    return OK;
}

/* Launches under these values show nothing, again and again. */
static int give_way_up(struct two_launches *l, const char *why)
{
    l->ways[l->way].broken = true;
    if (!l->seen)
        TRY(add_keys(l));
    for (size_t i = 0; i < l->t->key_count; i++) {
        struct key *key = &l->t->keys[i];

        if (!key->settled && key->way[l->side] == l->way)
            TRY(two_sides_lose(l->t, key, l->side, why));
    }
    return OK;
}

static bool has_learnt(const struct two_launches *l)
{
    for (size_t i = 0; i < l->t->key_count; i++)
        if (l->t->keys[i].watched.learnt)
            return true;
    return false;
}

static int judge_failure(struct two_launches *l, const struct launch_end *end)
{
    struct way *way = &l->ways[l->way];
    char why[LAUNCH_WHY_BYTES];

    launch_why(&l->session, end, why);
    if (l->session.running && l->fits && !l->t->keys[l->at].settled)
        return blame(l, end, why);
    note("launch %" PRIu32 " of %s: %s", l->launch, l->t->side[l->side].name, why);
    way->stillborn = has_learnt(l) ? 0 : way->stillborn + 1;
    return way->stillborn < (way->runs ? LAUNCH_PATIENCE : 2) ? OK : give_way_up(l, why);
}

/* A launch that ended well and did not show what it was started for. */
static void count_misses(struct two_launches *l)
{
    char range[80];

    for (size_t i = 0; i < l->t->key_count; i++) {
        struct key *key = &l->t->keys[i];

        if (!wants(l, key) || !watched_in_vain(&key->watched))
            continue;
        declaration_range(l->t->space, key->bucket, range, sizeof(range));
        note("%s %s is left: %d launches in a row did not run %" PRIu32 " steps of one plan there",
             l->t->space->key, range, LAUNCH_PATIENCE, l->watch.least);
        key->settled = true;
    }
}

static int judge_end(struct two_launches *l, const struct launch_end *end)
{
    bool failed = !l->session.dismissed && (end->hung || end->exit_code);

    l->silent = l->session.asked || failed ? 0 : l->silent + 1;
    if (failed)
        return judge_failure(l, end);
    l->ways[l->way].stillborn = 0;
    if (l->silent >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "%s ended %d times in a row without asking anything",
                    l->t->side[l->side].name, LAUNCH_PATIENCE);
    count_misses(l);
    return OK;
}

/* ---- launches */

static int launch(struct two_launches *l, size_t number)
{
    const struct declaration *d = l->t->space;
    uint32_t choice = l->plans[l->ways[number].arm].choice;
    char words[DECLARATION_PLAN_BYTES], *command;
    struct launch_end end;
    int rc;

    l->side = number >= l->way_count;
    l->way = number;
    l->watch.looking = !l->seen;
    l->watch.newest = 0;
    l->ways[number].last = ++l->launch;
    for (size_t i = 0; i < l->t->key_count; i++) {
        watched_reset(&l->t->keys[i].watched);
        l->t->keys[i].warm = 0;
    }
    TRY(launch_command(l->t->side[l->side].command, d, choice, &command));
    rc = session_launch(&l->session, command, launch_words(d, choice, words), false, &end);
    free(command);
    return rc ? rc : judge_end(l, &end);
}

/* All ranges, where no table says of any of them what the other one does not. */
static int settle_all(struct two_launches *l)
{
    size_t at;
    bool fresh;

    for (uint32_t bucket = 0; bucket < declaration_buckets(l->t->space); bucket++)
        TRY(add_key(l, bucket, &at, &fresh));
    return OK;
}

static int check_commands(const struct two_sides *t)
{
    char *command;

    for (int side = 0; side < SIDES; side++) {
        TRY(launch_command(t->side[side].command, t->space, t->space->usual, &command));
        free(command);
    }
    return OK;
}

/* Both sides can be started in the same ways, and what is learnt of one says nothing of the other.
 */
static int list_ways(struct two_launches *l)
{
    struct way *both;

    l->plan_count = declared_plan_list(l->t->space->id, l->plans, DECLARATION_PLANS_MAX);
    TRY(ways_list(l->t->space, l->plans, l->plan_count, l->way_of, &l->ways, &l->way_count));
    both = realloc(l->ways, SIDES * l->way_count * sizeof(*both));
    if (!both)
        return fail(ERR_NOMEM, "ways to start two programs");
    memcpy(both + l->way_count, both, l->way_count * sizeof(*both));
    l->ways = both;
    return OK;
}

static int run(struct two_launches *l)
{
    int rc = OK, way;

    TRY(check_commands(l->t));
    TRY(list_ways(l));
    while (!rc && (way = next_way(l)) >= 0)
        rc = launch(l, (size_t)way);
    return rc || l->launch ? rc : settle_all(l);
}

int two_launches(struct two_sides *t)
{
    const struct two_programs *o = t->options;
    struct two_launches *l = calloc(1, sizeof(*l));
    int rc;

    if (!l)
        return fail(ERR_NOMEM, "two programs");
    l->t = t;
    t->pairs_max = PAIRS_MAX;
    l->watch.least = o->warmup + o->launch_steps;
    l->session = (struct session){ .ops = &ops,
                                   .self = l,
                                   .shape = t->shape,
                                   .space = t->space,
                                   .window = t->window,
                                   .silence_s = o->silence_s,
                                   .deadline_ns = t->deadline_ns };
    progress_open(&l->session.progress, o->quiet, "the program starts");
    l->session.progress.deadline_ns = t->deadline_ns;
    rc = run(l);
    log_line_clear();
    free(l->ways);
    free(l);
    return rc;
}
