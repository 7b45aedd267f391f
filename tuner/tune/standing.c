/* From measured entries to contestants, from samples to entries. */
#include "standing.h"

#include "attempt.h"
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
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

struct seat {
    struct entry_row entry;
    int published; /* the arm it held before the rounds */
    double weight;
    bool usable[SEARCH_ARMS_MAX];
    struct attempt attempts[ROUNDS_ARMS_MAX]; /* as the rounds place them */
};

struct replayed {
    uint32_t round;
    int seat, arm;
    int64_t ns;
};

struct settling {
    struct sweep *sweep;
    struct seat *seats;
    int seat_count, at; /* at: the one whose rows are read */
    uint32_t search_samples;
    int rivals[ROUNDS_STATICS_MAX], rival_count;
    struct standing_row row;
    struct rounds *rounds;
    struct replayed *told;
    size_t told_count, told_room;
};

static struct campaign *campaign_of(const struct settling *s)
{
    return s->sweep->setup->campaign;
}

static const struct space *space_of(const struct settling *s)
{
    return s->sweep->space;
}

/* ---- buckets */

static bool is_measured(const struct settling *s, const struct entry_row *e)
{
    const struct space *space = space_of(s);

    return e->window == space->window && e->bucket >= space->first && e->bucket <= space->last &&
           !entry_is(e, ENTRY_INFERRED | ENTRY_STALE | ENTRY_REFUTED | ENTRY_IMPORTED) &&
           space_arm(space, &e->plan) >= 0;
}

static int count_entry(void *self, const struct entry_row *e)
{
    struct settling *s = self;

    s->seat_count += is_measured(s, e);
    return OK;
}

static int seat_entry(void *self, const struct entry_row *e)
{
    struct settling *s = self;

    if (is_measured(s, e))
        s->seats[s->at++] = (struct seat){ *e, .published = space_arm(space_of(s), &e->plan) };
    return OK;
}

/* Of very many every so manieth: a round would not end. */
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
    struct campaign *c = campaign_of(s);

    TRY(store_entries(c->store, c->cluster_id, s->sweep->dictionary.shape, count_entry, s));
    s->seats = calloc((size_t)s->seat_count + 1, sizeof(*s->seats));
    if (!s->seats)
        return fail(ERR_NOMEM, "%d buckets", s->seat_count);
    TRY(store_entries(c->store, c->cluster_id, s->sweep->dictionary.shape, seat_entry, s));
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
    return (log((double)s->seats[i - 1].entry.capacity) + log((double)s->seats[i].entry.capacity)) /
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

static void weigh(struct settling *s, const struct traffic_layer *traffic)
{
    double asked = 0;

    for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
        double count = (double)traffic_unpinned(&traffic->buckets[i]);

        nearest_seat(s, traffic->buckets[i].bucket)->weight += count;
        asked += count;
    }
    for (int i = 0; i < s->seat_count && !(asked > 0); i++)
        s->seats[i].weight = border_below(s, i + 1) - border_below(s, i);
}

/* ---- what can run where */

static struct trial_key key_of(const struct settling *s, const struct seat *seat, int arm)
{
    return (struct trial_key){ .cluster = campaign_of(s)->cluster_id,
                               .shape = s->sweep->dictionary.shape,
                               .window = space_of(s)->window,
                               .bucket = seat->entry.bucket,
                               .plan = space_of(s)->arms[arm] };
}

static int read_trials(struct settling *s, int seat,
                       int (*each)(void *self, const struct trial_row *trial))
{
    struct trial_key key = key_of(s, &s->seats[seat], 0);

    s->at = seat;
    return store_trials(campaign_of(s)->store, key.cluster, key.shape, key.window, key.bucket, each,
                        s);
}

static int read_samples(struct settling *s, int seat,
                        int (*each)(void *self, const struct trial_row *trial,
                                    const struct sample_row *sample))
{
    struct trial_key key = key_of(s, &s->seats[seat], 0);

    s->at = seat;
    return store_samples(campaign_of(s)->store, key.cluster, key.shape, key.window, key.bucket,
                         each, s);
}

static int note_usable(void *self, const struct trial_row *trial)
{
    struct settling *s = self;
    struct seat *seat = &s->seats[s->at];
    int arm = space_arm(space_of(s), &trial->key.plan);
    struct attempt attempt = { 0 };

    if (arm < 0)
        return OK;
    TRY(ledger_recall(campaign_of(s)->store, &attempt, trial));
    seat->usable[arm] = seat->usable[arm] && attempt.usable;
    return OK;
}

static int count_search(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct settling *s = self;

    (void)trial;
    s->search_samples += sample->kind == SAMPLE_SEARCH;
    return OK;
}

static int find_usable(struct settling *s)
{
    const struct space *space = space_of(s);

    for (int i = 0; i < s->seat_count; i++) {
        struct seat *seat = &s->seats[i];

        for (int arm = 0; arm < (int)space->arm_count; arm++)
            seat->usable[arm] =
                space_bytes(space, arm, seat->entry.bucket) <= space->memory_limit_bytes;
        TRY(read_trials(s, i, note_usable));
        TRY(read_samples(s, i, count_search));
    }
    return OK;
}

/* ---- rivals: static plans that may be better than the table */

static bool published_everywhere(const struct settling *s, int arm)
{
    for (int i = 0; i < s->seat_count; i++)
        if (space_arm(space_of(s), &s->seats[i].entry.plan) != arm)
            return false;
    return true;
}

static double share_published(const struct settling *s, int arm)
{
    double share = 0;

    for (int i = 0; i < s->seat_count; i++)
        share += space_arm(space_of(s), &s->seats[i].entry.plan) == arm ? s->seats[i].weight : 0;
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
               log(search_estimate(s->sweep->dictionary.search, seat->entry.capacity, runs));
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

static double weight_of_all(const struct settling *s)
{
    double sum = 0;

    for (int i = 0; i < s->seat_count; i++)
        sum += s->seats[i].weight;
    return sum;
}

/* One that is expected to take 5 % longer than the best is none: its steps are better spent. */
static void choose_rivals(struct settling *s)
{
    double ratings[SEARCH_ARMS_MAX], limit = INFINITY;

    rate(s, ratings);
    for (s->rival_count = 0; s->rival_count < ROUNDS_STATICS_MAX; s->rival_count++) {
        int best = -1;

        for (int arm = 0; arm < (int)space_of(s)->arm_count; arm++)
            if (isfinite(ratings[arm]) && (best < 0 || ratings[arm] < ratings[best]))
                best = arm;
        if (best < 0 || ratings[best] > limit)
            return;
        limit = fmin(limit, ratings[best] + 0.05 * weight_of_all(s));
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

    for (int i = 0; i < s->rival_count; i++) {
        char plan[PLAN_TEXT_BYTES];

        moe_plan_format(&space_of(s)->arms[s->rivals[i]], plan, sizeof(plan));
        used += (size_t)snprintf(s->row.rivals + used, sizeof(s->row.rivals) - used, "%s%s",
                                 i ? ";" : "", plan);
    }
}

/* Of a series that was cut off.  False: this space has not all of them. */
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
    uint32_t next = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;

    if (is_cut_off(s) && read_rivals(s))
        return OK;
    s->row = (struct standing_row){ .cluster = campaign_of(s)->cluster_id,
                                    .shape = s->sweep->dictionary.shape,
                                    .run = campaign_of(s)->run.id,
                                    .window = space_of(s)->window,
                                    .gain = NAN,
                                    .gain_low = NAN,
                                    .gain_high = NAN,
                                    .static_gain = NAN,
                                    .static_gain_low = NAN,
                                    .static_gain_high = NAN,
                                    .first_round = next };
    choose_rivals(s);
    write_rivals(s);
    return store_standing(campaign_of(s)->store, &s->row);
}

static int open_rounds(struct settling *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->seat_count,
                                  .standard = space_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = s->search_samples / 2 + 1,
                                  .seed = campaign_of(s)->setup.seed ^ s->row.first_round };

    for (int i = 0; i < s->seat_count; i++)
        buckets[i] = (struct rounds_bucket){ s->seats[i].weight,
                                             space_arm(space_of(s), &s->seats[i].entry.plan),
                                             s->seats[i].usable };
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    return OK;
}

static struct attempt *attempt_of(struct settling *s, int seat, int arm)
{
    const struct rounds_contest *c = &s->rounds->contests[seat];

    for (int i = 0; i < c->arm_count; i++)
        if (c->arms[i] == arm)
            return &s->seats[seat].attempts[i];
    return NULL;
}

static int recall_trial(void *self, const struct trial_row *trial)
{
    struct settling *s = self;
    struct attempt *a = attempt_of(s, s->at, space_arm(space_of(s), &trial->key.plan));

    return a ? ledger_recall(campaign_of(s)->store, a, trial) : OK;
}

static int keep_told(struct settling *s, struct replayed told)
{
    if (s->told_count == s->told_room) {
        size_t room = 2 * s->told_room + 256;
        struct replayed *more = realloc(s->told, room * sizeof(*more));

        if (!more)
            return fail(ERR_NOMEM, "%zu samples", room);
        s->told = more;
        s->told_room = room;
    }
    s->told[s->told_count++] = told;
    return OK;
}

static int recall_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct settling *s = self;
    int arm = space_arm(space_of(s), &trial->key.plan);
    struct attempt *a = attempt_of(s, s->at, arm);
    uint32_t round = sample->round - s->row.first_round;

    if (!a || sample->kind != SAMPLE_ROUNDS || sample->round < s->row.first_round ||
        round >= SERIES_STRIDE || !ledger_counts(a, sample))
        return OK;
    return keep_told(s, (struct replayed){ round, s->at, arm, sample->ns });
}

static int recall_seat(struct settling *s, int seat)
{
    const struct rounds_contest *c = &s->rounds->contests[seat];

    for (int i = 0; i < c->arm_count; i++)
        s->seats[seat].attempts[i] =
            (struct attempt){ .trial = { .key = key_of(s, &s->seats[seat], c->arms[i]),
                                         .capacity = s->seats[seat].entry.capacity },
                              .usable = true };
    TRY(read_trials(s, seat, recall_trial));
    return read_samples(s, seat, recall_sample);
}

static int by_round(const void *a, const void *b)
{
    const struct replayed *x = a, *y = b;

    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return (x->seat > y->seat) - (x->seat < y->seat);
}

/* Rows come by bucket; whether enough is known was asked round by round. */
static int replay(struct settling *s)
{
    for (int i = 0; i < s->seat_count; i++)
        TRY(recall_seat(s, i));
    if (s->told_count)
        qsort(s->told, s->told_count, sizeof(*s->told), by_round);
    for (size_t i = 0; i < s->told_count; i++)
        rounds_tell(s->rounds, s->told[i].seat, s->told[i].arm, s->told[i].ns);
    return OK;
}

static int tell_ranks(struct settling *s)
{
    struct sweep *sweep = s->sweep;

    if (!sweep->told)
        TRY(campaign_layer(campaign_of(s), &sweep->space->shape, sweep->setup->limit_bytes));
    sweep->told = true;
    return OK;
}

static int play(struct settling *s)
{
    struct campaign *c = campaign_of(s);
    struct step step;
    int seat, arm;

    while (rounds_next(s->rounds, &seat, &arm)) {
        struct attempt *a = attempt_of(s, seat, arm);

        if (campaign_over(c))
            return ERR_CUT;
        TRY(tell_ranks(s));
        TRY(attempt_step(c, a, SAMPLE_ROUNDS, s->row.first_round + s->rounds->round, &step));
        if (!step.ns)
            rounds_drop(s->rounds, seat, arm);
        else if (step.counts)
            rounds_tell(s->rounds, seat, arm, step.ns);
        attempt_show(c, a, step.ns);
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
        struct entry_row *e = &s->seats[i].entry;
        int rc = redecide(s, e, -1);

        if (rc < 0)
            return rc;
        if (rc == OK)
            rounds_republish(s->rounds, i, space_arm(space_of(s), &e->plan));
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
        int rc = takes[i] ? redecide(s, &s->seats[i].entry, v.static_arm) : UNSUPPORTED;

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
        const struct entry_row *e = &s->seats[i].entry;
        bool same = space_arm(space_of(s), &e->plan) == s->seats[i].published;

        TRY(store_entry(campaign_of(s)->store, e, same ? NULL : "rounds"));
    }
    return OK;
}

static int store_verdict(struct settling *s)
{
    struct rounds_result v = rounds_result(s->rounds);

    s->row.run = campaign_of(s)->run.id;
    s->row.gain = v.over_default.gain;
    s->row.gain_low = v.over_default.low;
    s->row.gain_high = v.over_default.high;
    s->row.static_gain = v.over_static.gain;
    s->row.static_gain_low = v.over_static.low;
    s->row.static_gain_high = v.over_static.high;
    if (v.static_arm >= 0)
        s->row.static_plan = space_of(s)->arms[v.static_arm];
    s->row.rounds = v.rounds;
    s->row.decided_s = time(NULL);
    return store_standing(campaign_of(s)->store, &s->row);
}

static int conclude(struct settling *s)
{
    if (s->rounds->steps) {
        TRY(redecide_all(s));
        TRY(take_statics(s));
        TRY(store_entries_anew(s));
    }
    return store_verdict(s);
}

/* ---- the whole */

static int settle(struct settling *s, const struct traffic_layer *traffic)
{
    TRY(find_usable(s));
    weigh(s, traffic);
    TRY(begin_series(s));
    TRY(open_rounds(s));
    TRY(replay(s));
    TRY(play(s));
    return conclude(s);
}

/* *known: nothing has changed since an earlier run settled it. */
static int find_standing(struct settling *s, bool *known)
{
    struct campaign *c = campaign_of(s);
    int rc = store_standing_get(c->store, c->cluster_id, s->sweep->dictionary.shape,
                                space_of(s)->window, &s->row);

    *known = false;
    if (rc == OK && !s->sweep->result.measured)
        return standing_is_current(c->store, &s->row, known);
    return rc < 0 ? rc : OK;
}

static const char too_early[] = "the time was up before the table met the default plan";

static int settle_unless_known(struct settling *s, const struct traffic_layer *traffic,
                               const char **why)
{
    bool known;
    int rc;

    TRY(take_seats(s));
    *why = "no bucket of this layer is measured";
    if (!s->seat_count)
        return OK;
    TRY(find_standing(s, &known));
    rc = known ? OK : campaign_over(campaign_of(s)) ? ERR_CUT : settle(s, traffic);
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

int standing_settle(struct sweep *sweep, const struct traffic_layer *traffic,
                    struct standing *standing)
{
    struct settling s = { .sweep = sweep };
    int rc = settle_unless_known(&s, traffic, &standing->why);

    standing->row = s.row;
    free(s.told);
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
