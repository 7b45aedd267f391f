/* Chooses the rounds' contestants from the measured entries, runs the rounds, and writes what they
 * change. */
#include "standing.h"

#include "bucket.h"
#include "plan.h"
#include "rounds.h"
#include "standings.h"
#include "status.h"
#include "visit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A series of rounds numbers its samples from here on; none has so many. */
enum { SERIES_STRIDE = 1024 };
_Static_assert((int)ROUNDS_STATICS_MAX <= (int)STANDING_RIVALS_MAX, "plans that have no room in a row");
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

struct seat {
    struct bucket bucket; /* with its entry */
    int published;        /* the arm it held before the rounds */
    double weight;
    bool usable[SEARCH_ARMS_MAX];
};

struct settling {
    struct sweep *sweep;
    struct seat *seats;
    int seat_count;
    int rivals[ROUNDS_STATICS_MAX], rival_count;
    struct standing_row row;
    struct rounds *rounds;
};

static const struct space *space_of(const struct settling *s)
{
    return s->sweep->space;
}

static int arm_of(const struct settling *s, const struct seat *seat)
{
    return space_arm(space_of(s), &seat->bucket.entry.plan);
}

/* ---- buckets */

static bool is_measured(const struct settling *s, const struct entry_row *e)
{
    const struct space *space = space_of(s);

    return e->window == space->window && e->bucket >= space->first && e->bucket <= space->last &&
           !entry_is(e, ENTRY_INFERRED | ENTRY_STALE | ENTRY_REFUTED | ENTRY_IMPORTED) &&
           space_arm(space, &e->plan) >= 0;
}

/* Without room for seats it counts them. */
static int take_seat(void *self, const struct entry_row *e)
{
    struct settling *s = self;
    struct seat *seat = s->seats ? &s->seats[s->seat_count] : NULL;

    if (!is_measured(s, e))
        return OK;
    s->seat_count++;
    if (!seat)
        return OK;
    bucket_init(&seat->bucket, &s->sweep->dictionary, e->bucket);
    seat->bucket.capacity = e->capacity;
    seat->published = space_arm(space_of(s), &e->plan);
    return OK;
}

/* Of too many buckets only every n-th takes part, because a round would not end. */
static void thin_out(struct settling *s)
{
    int count = s->seat_count;

    if (count <= ROUNDS_BUCKETS_MAX)
        return;
    for (int i = 0; i < ROUNDS_BUCKETS_MAX; i++)
        s->seats[i] = s->seats[(size_t)i * (size_t)count / ROUNDS_BUCKETS_MAX];
    s->seat_count = ROUNDS_BUCKETS_MAX;
}

static int take_seats(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;

    TRY(store_entries(d->store, d->cluster, d->shape, take_seat, s));
    s->seats = calloc((size_t)s->seat_count + 1, sizeof(*s->seats));
    if (!s->seats)
        return fail(ERR_NOMEM, "%d buckets", s->seat_count);
    s->seat_count = 0;
    TRY(store_entries(d->store, d->cluster, d->shape, take_seat, s));
    thin_out(s);
    return OK;
}

/* The middle between two buckets, and the edges of the range, on a scale of log c. */
static double border_below(const struct settling *s, int i)
{
    const struct space *space = space_of(s);

    if (i == s->seat_count)
        return log((double)(space->last + 1) * space->window);
    if (i == 0)
        return log(fmax(space->first, 0.5) * space->window);
    return (log((double)s->seats[i - 1].bucket.capacity) +
            log((double)s->seats[i].bucket.capacity)) /
           2;
}

static struct seat *nearest_seat(const struct settling *s, uint32_t bucket)
{
    double at = log((double)space_capacity(space_of(s), bucket));
    int i = 0;

    while (i + 1 < s->seat_count && border_below(s, i + 1) <= at)
        i++;
    return &s->seats[i];
}

static void weigh(struct settling *s)
{
    const struct traffic_layer *traffic = s->sweep->asked;
    double asked = 0;

    for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
        double count = (double)traffic_unpinned(&traffic->buckets[i]);

        nearest_seat(s, traffic->buckets[i].bucket)->weight += count;
        asked += count;
    }
    for (int i = 0; i < s->seat_count && !(asked > 0); i++)
        s->seats[i].weight = border_below(s, i + 1) - border_below(s, i);
}

static int find_usable(struct settling *s)
{
    const struct space *space = space_of(s);

    for (int i = 0; i < s->seat_count; i++) {
        struct bucket *b = &s->seats[i].bucket;

        TRY(bucket_load(b));
        for (int arm = 0; arm < (int)space->arm_count; arm++)
            s->seats[i].usable[arm] =
                b->attempts[arm].usable && space_fits(space, arm, b->key.bucket);
    }
    return OK;
}

static uint32_t count_search(const struct settling *s)
{
    uint32_t count = 0;

    for (int i = 0; i < s->seat_count; i++)
        for (uint32_t k = 0; k < s->seats[i].bucket.told_count; k++)
            count += s->seats[i].bucket.told[k].kind == SAMPLE_SEARCH;
    return count;
}

/* ---- rivals: static plans that may be better than the table */

static bool published_everywhere(const struct settling *s, int arm)
{
    for (int i = 0; i < s->seat_count; i++)
        if (arm_of(s, &s->seats[i]) != arm)
            return false;
    return true;
}

static double share_published(const struct settling *s, int arm)
{
    double share = 0;

    for (int i = 0; i < s->seat_count; i++)
        share += arm_of(s, &s->seats[i]) == arm ? s->seats[i].weight : 0;
    return share;
}

/* The weighted sum of expected log times; where an arm cannot run the default does. */
static double expected(const struct settling *s, int arm)
{
    double sum = 0;

    for (int i = 0; i < s->seat_count; i++) {
        const struct seat *seat = &s->seats[i];
        int runs = seat->usable[arm] ? arm : space_of(s)->default_arm;

        sum += seat->weight *
               log(search_estimate(s->sweep->dictionary.search, seat->bucket.capacity, runs));
    }
    return sum;
}

/* Less is better.  Without a model: the plans that are published most. */
static void rate(const struct settling *s, double ratings[SEARCH_ARMS_MAX])
{
    bool modelled = true;

    for (int arm = 0; arm < (int)space_of(s)->arm_count; arm++) {
        ratings[arm] = expected(s, arm);
        modelled = modelled && !isnan(ratings[arm]);
    }
    for (int arm = 0; arm < (int)space_of(s)->arm_count && !modelled; arm++)
        ratings[arm] = -share_published(s, arm);
}

/* One that is expected to take 5 % longer than the best is none: its steps are better spent. */
static void choose_rivals(struct settling *s)
{
    double ratings[SEARCH_ARMS_MAX], limit = INFINITY, weights = 0;

    for (int i = 0; i < s->seat_count; i++)
        weights += s->seats[i].weight;
    rate(s, ratings);
    for (s->rival_count = 0; s->rival_count < ROUNDS_STATICS_MAX; s->rival_count++) {
        int best = -1;

        for (int arm = 0; arm < (int)space_of(s)->arm_count; arm++)
            if (isfinite(ratings[arm]) && (best < 0 || ratings[arm] < ratings[best]))
                best = arm;
        if (best < 0 || ratings[best] > limit)
            return;
        limit = fmin(limit, ratings[best] + 0.05 * weights);
        s->rivals[s->rival_count] = best;
        ratings[best] = NAN;
        /* Nothing is to be told apart where the default is everywhere and expected to be best. */
        if (!s->rival_count && best == space_of(s)->default_arm && published_everywhere(s, best)) {
            s->rival_count = 1;
            return;
        }
    }
}

static void write_rivals(struct settling *s)
{
    size_t used = 0;

    for (int i = 0; i < s->rival_count; i++)
        used += (size_t)snprintf(s->row.rivals + used, sizeof(s->row.rivals) - used, "%s%s",
                                 i ? ";" : "", PLAN_TEXT(&space_of(s)->arms[s->rivals[i]]));
}

/* Takes the rivals of a series that was cut off.  False if this space has not all of them. */
static bool read_rivals(struct settling *s)
{
    char text[sizeof(s->row.rivals)], *rest = text, *word;
    struct moe_plan plan;

    memcpy(text, s->row.rivals, sizeof(text));
    for (s->rival_count = 0; (word = strsep(&rest, ";")) && *word; s->rival_count++) {
        if (s->rival_count == ROUNDS_STATICS_MAX || plan_parse(word, &plan) ||
            (s->rivals[s->rival_count] = space_arm(space_of(s), &plan)) < 0)
            return false;
    }
    return s->rival_count > 0;
}

/* ---- a series of rounds */

static bool is_cut_off(const struct settling *s)
{
    return s->row.cluster && !s->row.decided_s && !s->sweep->result.measured;
}

/* Goes on with the series that was cut off, unless the table has changed since; rivals are those of
 * then, for its samples are evidence by now and might suggest others. */
static int begin_series(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    uint32_t next = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;

    if (is_cut_off(s) && read_rivals(s))
        return OK;
    s->row = (struct standing_row){ .cluster = d->cluster,
                                    .shape = d->shape,
                                    .run = d->run,
                                    .window = space_of(s)->window,
                                    .gain = GAIN_UNKNOWN,
                                    .static_gain = GAIN_UNKNOWN,
                                    .first_round = next };
    choose_rivals(s);
    write_rivals(s);
    return store_standing(d->store, &s->row);
}

static int open_rounds(struct settling *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->seat_count,
                                  .default_arm = space_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = count_search(s) / 2 + 1,
                                  .seed = s->sweep->campaign->setup->seed ^ s->row.first_round };

    for (int i = 0; i < s->seat_count; i++)
        buckets[i] = (struct rounds_bucket){ s->seats[i].weight, arm_of(s, &s->seats[i]),
                                             s->seats[i].usable };
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    return OK;
}

/* Samples lie by bucket; whether enough is known was asked round by round.  Of an earlier series
 * there are none, for each has its own numbers. */
static void replay(struct settling *s)
{
    uint32_t first = s->row.first_round;

    for (uint32_t round = first; round - first < SERIES_STRIDE; round++)
        for (int i = 0; i < s->seat_count; i++) {
            const struct bucket *b = &s->seats[i].bucket;

            for (uint32_t k = 0; k < b->told_count; k++)
                if (b->told[k].kind == SAMPLE_ROUNDS && b->told[k].round == round)
                    rounds_tell(s->rounds, i, b->told[k].arm, b->told[k].ns);
        }
}

static int play(struct settling *s)
{
    struct step step;
    int seat, arm;

    while (rounds_next(s->rounds, &seat, &arm)) {
        TRY(visit_step(s->sweep, &s->seats[seat].bucket.attempts[arm], SAMPLE_ROUNDS,
                       s->row.first_round + s->rounds->round, &step));
        if (!step.ns)
            rounds_drop(s->rounds, seat, arm);
        else if (step.counts)
            rounds_tell(s->rounds, seat, arm, step.ns);
    }
    return OK;
}

/* ---- entries anew */

/* What was searched more thoroughly in an earlier run stays so: a few more samples take nothing
 * away. */
static int redecide(struct settling *s, struct entry_row *e, int arm)
{
    struct entry_row anew;
    int rc = visit_redecide(s->sweep, e->bucket, arm, &anew);

    if (rc)
        return rc;
    memcpy(anew.effort, e->effort, sizeof(anew.effort));
    memcpy(anew.search, e->search, sizeof(anew.search));
    *e = anew;
    return OK;
}

/* What the decision says of another plan the rounds did not judge: they stand for the old one. */
static int redecide_all(struct settling *s)
{
    for (int i = 0; i < s->seat_count; i++) {
        struct entry_row *e = &s->seats[i].bucket.entry;
        int rc = redecide(s, e, -1);

        if (rc < 0)
            return rc;
        if (rc == OK)
            rounds_republish(s->rounds, i, arm_of(s, &s->seats[i]));
    }
    return OK;
}

/* All are judged before the first is changed. */
static int take_statics(struct settling *s)
{
    struct rounds_result v = rounds_result(s->rounds);
    bool takes[ROUNDS_BUCKETS_MAX];

    for (int i = 0; i < s->seat_count; i++)
        takes[i] = rounds_prefers_static(s->rounds, &v, i);
    for (int i = 0; i < s->seat_count; i++) {
        int rc = takes[i] ? redecide(s, &s->seats[i].bucket.entry, v.static_arm) : UNSUPPORTED;

        if (rc < 0)
            return rc;
        if (rc == OK)
            rounds_republish(s->rounds, i, v.static_arm);
    }
    return OK;
}

static int store_entries_anew(struct settling *s)
{
    for (int i = 0; i < s->seat_count; i++) {
        const struct seat *seat = &s->seats[i];
        bool same = arm_of(s, seat) == seat->published;

        TRY(store_entry(s->sweep->campaign->store, &seat->bucket.entry, same ? NULL : "rounds"));
    }
    return OK;
}

static int store_verdict(struct settling *s)
{
    struct rounds_result v = rounds_result(s->rounds);

    s->row.run = s->sweep->dictionary.run;
    s->row.gain = v.over_default;
    s->row.static_gain = v.over_static;
    if (v.static_arm >= 0)
        s->row.static_plan = space_of(s)->arms[v.static_arm];
    s->row.rounds = v.rounds;
    s->row.decided_s = time(NULL);
    return store_standing(s->sweep->campaign->store, &s->row);
}

/* ---- the whole */

static int settle(struct settling *s)
{
    TRY(find_usable(s));
    weigh(s);
    TRY(begin_series(s));
    TRY(open_rounds(s));
    replay(s);
    TRY(play(s));
    if (s->rounds->steps) {
        TRY(redecide_all(s));
        TRY(take_statics(s));
        TRY(store_entries_anew(s));
    }
    return store_verdict(s);
}

/* *known: nothing has changed since an earlier run settled it. */
static int find_standing(struct settling *s, bool *known)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->window, &s->row);

    *known = false;
    if (rc == OK && !s->sweep->result.measured)
        return standing_is_current(d->store, &s->row, known);
    return rc < 0 ? rc : OK;
}

static const char too_early[] = "the time was up before the table met the default plan";

static int settle_unless_known(struct settling *s, const char **why)
{
    bool known;
    int rc;

    TRY(take_seats(s));
    *why = "no bucket of this layer is measured";
    if (!s->seat_count)
        return OK;
    TRY(find_standing(s, &known));
    rc = known ? OK : campaign_over(s->sweep->campaign) ? ERR_CUT : settle(s);
    *why = rc == ERR_CUT ? too_early : NULL;
    return rc;
}

int standing_begun(struct sweep *sweep, bool *begun)
{
    struct settling s = { .sweep = sweep };

    TRY(find_standing(&s, begun));
    *begun = *begun || is_cut_off(&s);
    return OK;
}

int standing_settle(struct sweep *sweep, struct standing *standing)
{
    struct settling s = { .sweep = sweep };
    int rc = settle_unless_known(&s, &standing->why);

    standing->row = s.row;
    for (int i = 0; s.seats && i < s.seat_count; i++)
        bucket_forget(&s.seats[i].bucket);
    free(s.rounds);
    free(s.seats);
    return rc;
}

int standing_skip(struct sweep *sweep, struct standing *standing)
{
    struct settling s = { .sweep = sweep };
    bool known;
    int rc = find_standing(&s, &known);

    *standing = (struct standing){ .row = s.row, .why = known ? NULL : too_early };
    return rc;
}
