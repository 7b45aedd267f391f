/* Chooses the rounds' contestants from the measured buckets, runs the rounds over several launches
 * of the ranks, and obeys what they say: bucket by bucket, then for the table as a whole. */
#include "standing.h"

#include "bucket.h"
#include "host.h"
#include "pairs.h"
#include "plan.h"
#include "rounds.h"
#include "standings.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A series of rounds numbers its samples from here on; none has so many. */
enum { SERIES_STRIDE = 1024 };
/* Claims that are wider by less are not said to be: two digits do not show it. */
static const double kappa_noticed = 1.005;
_Static_assert((int)ROUNDS_STATICS_MAX <= (int)STANDING_RIVALS_MAX,
               "plans that have no room in a row");
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

struct standing_bucket {
    struct bucket bucket; /* with its entry */
    int published;        /* the arm it held before the rounds */
    int arm;              /* that was chosen there, and has to prove itself */
    struct pairs first;   /* of that and the default, since it was chosen */
    struct normal belief; /* what was believed of them */
    double weight;
    bool settled; /* by an earlier series, or a verification */
    bool usable[SEARCH_ARMS_MAX];
};

struct settling {
    struct sweep *sweep;
    struct standing_bucket *seats;
    int seat_count;
    uint32_t first, last; /* of the measured buckets, whichever the sweep was asked for */
    bool leaves_out;      /* some of them have no seat, for the sweep was not asked for them */
    bool other_effort;    /* some were measured with another effort than this tuning's */
    bool again;           /* the series has ended, and its undecided buckets go on */
    int rivals[ROUNDS_STATICS_MAX], rival_count;
    struct standing_row row;
    int64_t settled; /* the last run whose decisions stay unless they are shown to be slower; 0 */
    struct calibration found; /* of this cluster's claims */
    struct rounds *rounds;
    struct rounds_left left[ROUNDS_BUCKETS_MAX]; /* in each seat, once they are obeyed */
    int launch; /* of the ranks that run now, as the rounds number them; 0: no matter which */
};

static const struct space *space_of(const struct settling *s)
{
    return s->sweep->space;
}

/* What the rounds say is not said of the table: they meet a part of it.  Where trainers asked, it
 * is what they asked for that counts. */
static bool is_part(const struct settling *s)
{
    return s->leaves_out && !s->sweep->asked;
}

static bool is_cut_off(const struct settling *s)
{
    return s->row.cluster && !s->row.decided_s && !s->sweep->result.measured;
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

/* Whether the series goes on where it ended, for the buckets that it left undecided: this tuning is
 * about the same table and plans, and launches ranks as that one did. */
static bool goes_on(struct settling *s)
{
    bool launches = s->row.launches > 1;

    return s->row.more_s > 0 && !s->sweep->misses && !s->leaves_out && !s->other_effort &&
           launches == !s->sweep->campaign->world && read_rivals(s);
}

/* ---- buckets */

/* A seat for each bucket that was measured.  While there is no room for seats it counts them. */
static int add_seat(void *self, const struct entry_row *e)
{
    struct settling *s = self;
    const struct space *space = space_of(s);
    int arm = space_arm(space, &e->plan);
    bool asked_for = arm >= 0 && e->bucket >= space->first && e->bucket <= space->last;

    if (e->window != space->window || e->inferred ||
        dictionary_pin(&s->sweep->dictionary, e->bucket))
        return OK;
    s->leaves_out |= !asked_for;
    s->other_effort |= strcmp(e->effort, s->sweep->request->effort->name) != 0;
    s->first = e->bucket < s->first ? e->bucket : s->first;
    s->last = e->bucket > s->last ? e->bucket : s->last;
    if (!asked_for || entry_is(e, ENTRY_STALE | ENTRY_REFUTED | ENTRY_IMPORTED | ENTRY_UNSOUND))
        return OK;
    if (s->seats) {
        struct standing_bucket *seat = &s->seats[s->seat_count];

        bucket_init(&seat->bucket, &s->sweep->dictionary, e->bucket);
        seat->bucket.capacity = e->capacity;
        seat->published = seat->arm = arm;
    }
    s->seat_count++;
    return OK;
}

static int open_seats(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;

    int count;

    TRY(store_entries(d->store, d->cluster, d->shape, add_seat, s));
    s->seats = calloc((size_t)s->seat_count + 1, sizeof(*s->seats));
    if (!s->seats)
        return fail(ERR_NOMEM, "%d buckets", s->seat_count);
    s->seat_count = 0;
    TRY(store_entries(d->store, d->cluster, d->shape, add_seat, s));
    count = s->seat_count;
    if (count <= ROUNDS_BUCKETS_MAX)
        return OK;
    /* Of too many buckets only every n-th takes part, because a round would not end. */
    for (int i = 0; i < ROUNDS_BUCKETS_MAX; i++)
        s->seats[i] = s->seats[(size_t)i * (size_t)count / ROUNDS_BUCKETS_MAX];
    s->seat_count = ROUNDS_BUCKETS_MAX;
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

/* What trainers asked for counts in the nearest bucket; where nobody knows, every factor of c
 * counts alike. */
static void weigh(struct settling *s)
{
    const struct traffic_layer *traffic = s->sweep->asked;
    double asked = 0;

    for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
        double count = (double)traffic_unpinned(&traffic->buckets[i]);
        double at = log((double)space_capacity(space_of(s), traffic->buckets[i].bucket));
        int nearest = 0;

        while (nearest + 1 < s->seat_count && border_below(s, nearest + 1) <= at)
            nearest++;
        s->seats[nearest].weight += count;
        asked += count;
    }
    for (int i = 0; i < s->seat_count && !(asked > 0); i++)
        s->seats[i].weight = border_below(s, i + 1) - border_below(s, i);
}

/* What `moetune verify` found of this cluster's claims, whichever layers they are of. */
static int find_calibration(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct row_list rows;

    TRY(store_verifications(d->store, d->cluster, &rows));
    EACH_ROW (verification_row, row, rows)
        calibration_add(&s->found, &row->claim, row->kappa, &row->found);
    free(rows.rows);
    return OK;
}

/* The last run before this tuning whose series of rounds came to its end; 0: there is none.  The
 * row of a series that was cut off names the one before it or, without any, its own, which is not
 * complete. */
static int64_t settled_run(const struct settling *s, const struct row_list *runs)
{
    if (s->row.run >= s->sweep->dictionary.pairs_since)
        return 0;
    EACH_ROW (run_row, run, *runs)
        if (run->id == s->row.run)
            return s->row.decided_s || run->state == RUN_COMPLETE ? run->id : 0;
    return 0;
}

/* What an earlier series left, or `moetune verify` has confirmed since, has proven itself, and
 * stays where further buckets were measured; what a series decided stays where it goes on.  All of
 * it is judged anew where verifications found since that claims are too sure. */
static int find_settled(struct settling *s)
{
    struct row_list runs;

    for (int i = 0; i < s->seat_count && s->again; i++)
        s->seats[i].settled = s->seats[i].arm == s->seats[i].published;
    if (s->again || (!is_cut_off(s) && calibration_is_too_sure(&s->found, s->row.kappa)))
        return OK;
    TRY(store_runs(s->sweep->campaign->store, &runs));
    s->settled = settled_run(s, &runs);
    for (int i = 0; i < s->seat_count && s->settled; i++) {
        struct standing_bucket *seat = &s->seats[i];
        int64_t decided = seat->bucket.entry.run;

        seat->settled = decided <= s->settled;
        EACH_ROW (run_row, run, runs)
            seat->settled = seat->settled || (run->id == decided && !strcmp(run->search, "verify"));
    }
    free(runs.rows);
    return OK;
}

/* Of the plan that the search chose there nothing is published unless it has shown by now that it
 * is not slower than the default; the rounds may yet show it. */
static int find_candidates(struct settling *s)
{
    const struct space *space = space_of(s);

    for (int i = 0; i < s->seat_count; i++) {
        struct standing_bucket *seat = &s->seats[i];
        struct bucket *b = &seat->bucket;
        int arm, favoured = -1;

        TRY(bucket_load(b));
        for (int k = 0; k < (int)space->arm_count; k++)
            seat->usable[k] = b->attempts[k].usable && space_fits(space, k, b->key.bucket);
        if (s->again) { /* its pairs are in the series */
            arm = b->entry.likely.struct_size ? space_arm(space, &b->entry.likely) : -1;
            seat->arm = arm >= 0 && seat->usable[arm] ? arm : seat->published;
            continue;
        }
        TRY(visit_candidate(s->sweep, b->key.bucket, &arm, &seat->first, &seat->belief));
        if (b->entry.search_winner.struct_size)
            favoured = space_arm(space, &b->entry.search_winner);
        /* What an earlier run gave up stays so.  What the search favoured when it was there is the
         * candidate, even where it has changed its mind since. */
        if (seat->published == space->default_arm &&
            b->entry.run >= s->sweep->dictionary.pairs_since) {
            if (arm < 0)
                arm = favoured;
            if (arm >= 0 && seat->usable[arm])
                seat->arm = arm;
        }
        if (arm != seat->arm)
            seat->first.count = 0;
    }
    return OK;
}

/* ---- a series of rounds */

static void describe_seats(const struct settling *s, struct rounds_bucket *out)
{
    for (int i = 0; i < s->seat_count; i++) {
        const struct standing_bucket *seat = &s->seats[i];

        out[i] = (struct rounds_bucket){ seat->weight,
                                         seat->bucket.capacity,
                                         seat->arm,
                                         seat->usable,
                                         seat->first.count ? &seat->first : NULL,
                                         seat->belief,
                                         seat->settled };
    }
}

/* Goes on with the series that was cut off, unless the table has changed since; rivals are those of
 * then, for its samples are evidence by now and might suggest others. */
static int begin_series(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    uint32_t next = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;
    double kappa = calibration_kappa(&s->found);
    size_t used = 0;

    s->row.goes += s->again;
    if (s->again || (is_cut_off(s) && read_rivals(s)))
        return OK;
    if (kappa >= kappa_noticed)
        note("moetune verify measured %u claimed gains again, and their intervals were too narrow: "
             "those of this table are %.2f times as wide as its own samples make them",
             s->found.count, kappa);
    s->row = (struct standing_row){ .cluster = d->cluster,
                                    .shape = d->shape,
                                    .run = s->settled ? s->settled : d->run,
                                    .window = space_of(s)->window,
                                    .gain = GAIN_UNKNOWN,
                                    .static_gain = GAIN_UNKNOWN,
                                    .first_round = next,
                                    .kappa = kappa };
    describe_seats(s, buckets);
    s->rival_count =
        rounds_statics(d->search, buckets, s->seat_count, space_of(s)->default_arm, s->rivals);
    for (int i = 0; i < s->rival_count; i++)
        used += (size_t)snprintf(s->row.rivals + used, sizeof(s->row.rivals) - used, "%s%s",
                                 i ? ";" : "", PLAN_TEXT(&space_of(s)->arms[s->rivals[i]]));
    return store_standing(d->store, &s->row);
}

/* Rounds go on where a series was cut off: they are told what was played then. */
static int open_rounds(struct settling *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    const struct effort *effort = s->sweep->request->effort;
    uint32_t first = s->row.first_round;
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->seat_count,
                                  .default_arm = space_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = 1, /* and as many as the search took */
                                  .worth = effort->worth,
                                  .goes = s->row.goes,
                                  .seed = s->sweep->campaign->setup->seed ^ first,
                                  .kappa = s->row.kappa };

    for (int i = 0; i < s->seat_count; i++)
        for (uint32_t k = 0; k < s->seats[i].bucket.told_count; k++)
            setup.steps_max += s->seats[i].bucket.told[k].kind == SAMPLE_SEARCH;
    /* Ranks that somebody else launched cannot be launched anew: what is said is of this launch. */
    if (!s->sweep->campaign->world) {
        setup.launch_cycles = effort->launch_cycles;
        setup.launches = effort->launches - 1;
    }
    describe_seats(s, buckets);
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    /* Samples lie by bucket; whether enough is known was asked round by round.  Of an earlier
     * series there are none, for each has its own numbers. */
    for (uint32_t round = first; round - first < SERIES_STRIDE; round++)
        for (int i = 0; i < s->seat_count; i++) {
            const struct bucket *b = &s->seats[i].bucket;

            for (uint32_t k = 0; k < b->told_count; k++)
                if (b->told[k].kind != SAMPLE_ROUNDS || b->told[k].round != round)
                    continue;
                else if (s->again)
                    rounds_recall(s->rounds, i, b->told[k].arm, round - first, b->told[k].ns);
                else
                    rounds_tell(s->rounds, i, b->told[k].arm, b->told[k].ns);
        }
    if (s->again)
        rounds_go_on(s->rounds);
    return OK;
}

static int play(struct settling *s)
{
    static const int64_t unnoticed_ns = 500000000;
    struct campaign *c = s->sweep->campaign;
    double before = c->progress.compared;
    uint32_t known = s->again ? s->rounds->steps : 0;
    struct campaign_step step;
    int seat, arm, rc;

    while (rounds_next(s->rounds, &seat, &arm)) {
        int launch = rounds_launch(s->rounds);

        if (launch && launch != s->launch) {
            int64_t ns = crew_launch_ns(c->crew);

            /* One launch more than the search's is enough where a launch takes long, unless nobody
             * would notice it; and those for undecided buckets alone may be many. */
            if (!s->again && (s->launch == 1 || (s->launch && s->rounds->longer)) &&
                ns > unnoticed_ns && ns * 10 > host_clock_ns() - c->begun_ns) {
                if (s->launch == 1)
                    note("to start the ranks takes %.1f s, more than a tenth of the time so far: "
                         "gains rest on two launches of them",
                         (double)ns * 1e-9);
                break;
            }
            TRY(crew_relaunch(c->crew, s->row.first_round + (uint32_t)launch));
            s->launch = launch;
        }
        rc = visit_step(s->sweep, &s->seats[seat].bucket.attempts[arm], SAMPLE_ROUNDS,
                        s->row.first_round + s->rounds->round, &step);
        /* What all contestants have shown is known by then, and a budget is no reason to lose it.
         */
        if (rc == ERR_CUT && s->rounds->longer && c->deadline_ns &&
            host_clock_ns() >= c->deadline_ns)
            break;
        TRY(rc);
        if (!step.ns)
            rounds_drop(s->rounds, seat, arm);
        else if (step.counts)
            rounds_tell(s->rounds, seat, arm, step.ns);
        c->progress.compared =
            before + (c->progress.done - before) *
                         fmin(1, (double)(s->rounds->steps - known) / s->rounds->setup.steps_max);
    }
    return OK;
}

/* ---- what is left of the table */

/* Times are those that all samples make likely; the gain is what fresh pairs say.  What was
 * searched more thoroughly in an earlier run stays so: a few more samples take nothing away. */
static int write_entry(struct settling *s, int i)
{
    struct standing_bucket *seat = &s->seats[i];
    const struct rounds_left *left = &s->left[i];
    struct entry_row *e = &seat->bucket.entry, anew;
    int default_arm = space_of(s)->default_arm;
    bool alone =
        default_arm < 0 || !seat->usable[default_arm] || !seat->bucket.attempts[default_arm].usable;
    const char *word = alone                        ? "alone"
                       : left->arm == default_arm   ? "default"
                       : left->as == LEFT_AS_STATIC ? "static"
                       : left->arm == seat->published && !strcmp(e->decision, "incumbent")
                           ? "incumbent"
                       : left->word.proof == PROOF_FASTER ? "adopted"
                                                          : "likely";
    int rc;

    if (left->as == LEFT_SETTLED)
        return OK;
    rc = visit_redecide(s->sweep, e->bucket, left->arm, &anew);
    if (rc)
        return rc < 0 ? rc : OK;
    snprintf(anew.decision, sizeof(anew.decision), "%s", word);
    memcpy(anew.effort, e->effort, sizeof(anew.effort));
    memcpy(anew.search, e->search, sizeof(anew.search));
    if (!alone && left->arm != default_arm) {
        double ratio = anew.default_us * (1 - left->word.gain.value) / anew.time_us;

        anew.gain = left->word.gain; /* and the times with it */
        anew.time_us = anew.default_us * (1 - anew.gain.value);
        anew.low_us *= ratio;
        anew.high_us *= ratio;
        anew.other_us *= ratio;
    }
    dictionary_doubt(&s->sweep->dictionary, &left->doubt, &anew);
    *e = anew;
    return store_entry_put(s->sweep->campaign->store, e,
                           left->arm == seat->published ? NULL
                           : left->as == LEFT_AS_SHARED
                               ? "rounds: the plan on both sides is as good"
                               : "rounds");
}

/* About how long undecided buckets would take to be decided if they went on. */
static double seconds_to_decide(const struct settling *s)
{
    double left = rounds_cycles_left(s->rounds), of_launch = rounds_launch_cycles(s->rounds);
    const struct run_row *run = &s->sweep->campaign->run.row;
    double timed = (double)(run->samples_search + run->samples_default), seconds = 0, most = 0;

    for (int i = 0; i < s->seat_count; i++) {
        const struct doubt *doubt = &s->left[i].doubt;
        double cycles = doubt->arm >= 0 && isfinite(doubt->pairs) ? fmin(doubt->pairs, left) : 0;

        seconds += cycles * s->seats[i].bucket.entry.default_us * (2 - doubt->gain) * 1e-6;
        most = fmax(most, cycles);
    }
    if (timed > 0) /* steps that warm up take as long, and there were so many of them so far */
        seconds *= 1 + (double)run->samples_warm / timed;
    if (of_launch > 0)
        seconds += ceil(most / of_launch) * 1e-9 * (double)crew_launch_ns(s->sweep->campaign->crew);
    return seconds;
}

/* Whether some entry rests on what the static plan is worth over all buckets. */
static bool takes_static(const struct settling *s)
{
    bool takes = false;

    for (int i = 0; i < s->seat_count; i++)
        takes |=
            s->left[i].as == LEFT_AS_STATIC || !strcmp(s->seats[i].bucket.entry.decision, "static");
    return takes;
}

/* ---- the whole */

static int settle(struct settling *s)
{
    const struct tune_options *o = s->sweep->request->options;
    int default_arm = space_of(s)->default_arm;
    bool lost, was_tuned = false, is_tuned = false;
    struct rounds_result v;

    TRY(find_candidates(s));
    TRY(find_settled(s));
    weigh(s);
    TRY(begin_series(s));
    TRY(open_rounds(s));
    TRY(play(s));
    lost = rounds_obey(s->rounds, o->margin, o->harm, s->left);
    for (int i = 0; i < s->seat_count; i++) {
        was_tuned = was_tuned || s->seats[i].published != default_arm;
        is_tuned = is_tuned || s->left[i].arm != default_arm;
    }
    s->row.given_up = lost && was_tuned && !is_tuned;
    for (int i = 0; i < s->seat_count; i++)
        TRY(write_entry(s, i));
    v = rounds_result(s->rounds);
    s->row.run = s->sweep->dictionary.run;
    s->row.gain = v.over_default;
    s->row.static_gain = v.over_static;
    if (v.static_arm >= 0)
        s->row.static_plan = space_of(s)->arms[v.static_arm];
    /* The default is a single plan, too, and may be better than those that the search named. */
    if (default_arm >= 0 && !takes_static(s) && v.over_default.value < v.over_static.value) {
        s->row.static_gain = v.over_default;
        s->row.static_plan = space_of(s)->arms[default_arm];
    }
    s->row.rounds = v.rounds;
    s->row.launches = (uint32_t)v.launches;
    s->row.more_s = s->sweep->misses ? 0 : seconds_to_decide(s); /* they alone are measured */
    s->row.decided_s = time(NULL);
    if (is_part(s)) {
        s->row.gain = s->row.static_gain = (struct gain)GAIN_UNKNOWN;
        s->row.static_plan = (struct moe_plan){ 0 };
        s->row.rounds = 0;
        s->row.more_s = 0;
    }
    return store_standing(s->sweep->campaign->store, &s->row);
}

/* *known: nothing has changed since an earlier run settled it, its claims are not found to be too
 * sure, and undecided buckets do not go on. */
static int find_standing(struct settling *s, bool *known)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->ranges.window, &s->row);

    *known = false;
    TRY(find_calibration(s));
    if (rc || s->sweep->result.measured)
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(d->store, &s->row, known));
    if (!s->seats)
        TRY(store_entries(d->store, d->cluster, d->shape, add_seat, s));
    *known = *known && (is_part(s) || standing_is_whole(&s->row)) &&
             !calibration_is_too_sure(&s->found, s->row.kappa);
    s->again = *known && goes_on(s);
    *known = *known && !s->again;
    return OK;
}

static const char too_early[] = "the time was up before the table met the default plan";

static void say_part(const struct settling *s, struct standing *standing)
{
    if (is_part(s) && !standing_is_whole(&s->row))
        snprintf(standing->why, sizeof(standing->why),
                 "the rounds met a part of the table; with --buckets %u:%u and the axes of its "
                 "plans they meet all of it",
                 s->first, s->last);
}

int standing_begun(struct sweep *sweep, bool *begun)
{
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };

    TRY(find_standing(&s, begun));
    *begun = *begun || s.again || is_cut_off(&s);
    return OK;
}

int standing_settle(struct sweep *sweep, struct standing *standing)
{
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };
    bool known = false;
    int rc = open_seats(&s);

    *standing = (struct standing){ .why = "no bucket of this layer is measured" };
    if (!rc && s.seat_count) {
        rc = find_standing(&s, &known);
        if (!rc && !known)
            rc = campaign_over(sweep->campaign) ? ERR_CUT : settle(&s);
        snprintf(standing->why, sizeof(standing->why), "%s", rc == ERR_CUT ? too_early : "");
        if (!rc)
            say_part(&s, standing);
    }
    standing->row = s.row;
    for (int i = 0; s.seats && i < s.seat_count; i++)
        bucket_forget(&s.seats[i].bucket);
    free(s.rounds);
    free(s.seats);
    return rc;
}

int standing_skip(struct sweep *sweep, struct standing *standing)
{
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };
    bool known;
    int rc = find_standing(&s, &known);

    *standing = (struct standing){ .row = s.row };
    if (known)
        say_part(&s, standing);
    else
        snprintf(standing->why, sizeof(standing->why), "%s", too_early);
    return rc;
}
