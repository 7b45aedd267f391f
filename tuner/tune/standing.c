/* The standing of a layer says what its whole table is worth against the default plan and the best
 * static plans (struct standing_row).  This file runs the rounds that find it: it prepares the
 * measured buckets, runs the rounds over several launches of the ranks, and writes entries by their
 * verdicts.  A launch is one start of the ranks here; see launch_values.c for launch values. */
#include "standing.h"

#include "final_rounds.h"
#include "host.h"
#include "plan.h"
#include "status.h"
#include "traffic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The rounds of one table number their samples from a multiple of this on; none has so many. */
enum { SERIES_STRIDE = 1024 };
/* A smaller widening of intervals is not reported, because two digits do not show it. */
static const double kappa_noticed = 1.005;
_Static_assert((int)ROUNDS_STATICS_MAX <= (int)STANDING_RIVALS_MAX,
               "plans that have no room in a row");
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

/* Whether the rounds have the whole table, so that their gain is the table's.  With recorded
 * traffic the buckets that trainers asked for are the whole table. */
static bool covers_table(const struct final_rounds *s)
{
    return !s->leaves_out_buckets || s->sweep->asked;
}

/* Reads the rivals of earlier rounds.  False: this layer lacks one of these plans. */
static bool read_rivals(struct final_rounds *s)
{
    char text[sizeof(s->row.rivals)], *rest = text, *word;
    struct moe_plan plan;

    memcpy(text, s->row.rivals, sizeof(text));
    for (s->rival_count = 0; (word = strsep(&rest, ";")) && *word; s->rival_count++) {
        if (s->rival_count == ROUNDS_STATICS_MAX || plan_parse(word, &plan) ||
            (s->rivals[s->rival_count] = layer_plans_arm(plans_of(s), &plan)) < 0)
            return false;
    }
    return s->rival_count > 0;
}

/* Whether the undecided buckets of earlier rounds continue.  They do if this run has the same table
 * and plans, and launches its ranks in the same way. */
static bool undecided_continue(struct final_rounds *s)
{
    bool had_relaunches = s->row.launches > 1, can_relaunch = !s->sweep->campaign->world;

    return s->row.more_s > 0 && !s->sweep->from_misses && !s->leaves_out_buckets &&
           !s->has_other_efforts && had_relaunches == can_relaunch && read_rivals(s);
}

/* ---- buckets */

/* Takes an entry of a measured bucket into the rounds.  While s->buckets is not allocated yet, it
 * only counts the bucket. */
static int take_bucket(void *self, const struct entry_row *e)
{
    struct final_rounds *s = self;
    const struct layer_plans *plans = plans_of(s);
    int arm = layer_plans_arm(plans, &e->plan);
    bool asked_for = arm >= 0 && e->bucket >= plans->first && e->bucket <= plans->last;

    if (e->window != plans->window || e->inferred ||
        dictionary_pin(&s->sweep->dictionary, e->bucket))
        return OK;
    s->leaves_out_buckets |= !asked_for;
    s->has_other_efforts |= strcmp(e->effort, s->sweep->request->effort->name) != 0;
    s->first = e->bucket < s->first ? e->bucket : s->first;
    s->last = e->bucket > s->last ? e->bucket : s->last;
    if (!asked_for || entry_is(e, ENTRY_STALE | ENTRY_REFUTED | ENTRY_IMPORTED | ENTRY_UNSOUND))
        return OK;
    if (s->buckets) {
        struct standing_bucket *measured = &s->buckets[s->bucket_count];

        bucket_init(&measured->bucket, &s->sweep->dictionary, e->bucket);
        measured->bucket.capacity = e->capacity;
        measured->published = measured->arm = arm;
    }
    s->bucket_count++;
    return OK;
}

static int open_buckets(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int count;

    TRY(store_entries(d->store, d->cluster, d->shape, take_bucket, s));
    s->buckets = calloc((size_t)s->bucket_count + 1, sizeof(*s->buckets));
    if (!s->buckets)
        return fail(ERR_NOMEM, "%d buckets", s->bucket_count);
    s->bucket_count = 0;
    TRY(store_entries(d->store, d->cluster, d->shape, take_bucket, s));
    count = s->bucket_count;
    if (count <= ROUNDS_BUCKETS_MAX)
        return OK;
    /* With too many buckets a round would take too long, so only every n-th takes part. */
    for (int i = 0; i < ROUNDS_BUCKETS_MAX; i++)
        s->buckets[i] = s->buckets[(size_t)i * (size_t)count / ROUNDS_BUCKETS_MAX];
    s->bucket_count = ROUNDS_BUCKETS_MAX;
    return OK;
}

/* The border between bucket i - 1 and bucket i, as log c: the middle, or an edge of the table. */
static double border_below(const struct final_rounds *s, int i)
{
    const struct layer_plans *plans = plans_of(s);

    if (i == s->bucket_count)
        return log((double)(plans->last + 1) * plans->window);
    if (i == 0)
        return log(fmax(plans->first, 0.5) * plans->window);
    return (log((double)s->buckets[i - 1].bucket.capacity) +
            log((double)s->buckets[i].bucket.capacity)) /
           2;
}

int final_rounds_nearest(const struct final_rounds *s, uint32_t bucket)
{
    double log_capacity = log((double)layer_plans_capacity(plans_of(s), bucket));
    int nearest = 0;

    while (nearest + 1 < s->bucket_count && border_below(s, nearest + 1) <= log_capacity)
        nearest++;
    return nearest;
}

/* The median of the default's samples in a bucket, or of all samples, without those of rounds. */
static double default_median_ns(const struct final_rounds *s,
                                const struct standing_bucket *measured)
{
    enum { MEDIAN_OF = 256 };
    double default_times[MEDIAN_OF], all_times[MEDIAN_OF];
    size_t default_count = 0, all_count = 0;

    for (uint32_t k = 0; k < measured->bucket.sample_count; k++) {
        const struct counted_sample *sample = &measured->bucket.samples[k];

        if (sample->kind == SAMPLE_ROUNDS)
            continue;
        if (sample->arm == plans_of(s)->default_arm && default_count < MEDIAN_OF)
            default_times[default_count++] = (double)sample->ns;
        if (all_count < MEDIAN_OF)
            all_times[all_count++] = (double)sample->ns;
    }
    if (default_count)
        return median_of(default_times, default_count);
    return all_count ? median_of(all_times, all_count) : 1;
}

/* Sets the weights of buckets.  Each look-up of trainers counts for the nearest measured bucket.
 * Without recorded look-ups every factor of c has the same weight. */
static int set_weights(struct final_rounds *s)
{
    const struct tune_request *request = s->sweep->request;
    const struct traffic_layer *traffic = s->sweep->asked;
    size_t buckets = (size_t)plans_of(s)->last + 1;
    double lookups = 0, *weights;
    int rc = OK;

    for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
        double count = (double)traffic_unpinned(&traffic->buckets[i]);

        s->buckets[final_rounds_nearest(s, traffic->buckets[i].bucket)].weight += count;
        lookups += count;
    }
    if (request->weights.count) {
        weights = calloc(buckets, sizeof(*weights));
        if (!weights)
            return fail(ERR_NOMEM, "%zu buckets", buckets);
        lookups = 1; /* the weights are known */
        rc = traffic_weights(&request->weights, &plans_of(s)->shape, plans_of(s)->window, weights,
                             buckets);
        for (uint32_t b = 0; b < buckets && !rc; b++)
            s->buckets[final_rounds_nearest(s, b)].weight += weights[b];
        free(weights);
    }
    for (int i = 0; i < s->bucket_count && !(lookups > 0); i++)
        s->buckets[i].weight = border_below(s, i + 1) - border_below(s, i);
    /* With fixed axes the total time of all steps counts, so weights are times. */
    for (int i = 0; i < s->bucket_count; i++) {
        s->buckets[i].rounds_weight = s->buckets[i].weight;
        if (request->fixed)
            s->buckets[i].rounds_weight *= default_median_ns(s, &s->buckets[i]);
    }
    return rc;
}

/* Reads what `moetune verify` found of this cluster's claimed gains, of all layers. */
static int read_calibration(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct row_list rows;

    TRY(store_verifications(d->store, d->cluster, &rows));
    EACH_ROW (verification_row, row, rows)
        calibration_add(&s->calibration, &row->claim, row->kappa, &row->found);
    free(rows.rows);
    return OK;
}

/* The last run before this command whose rounds ended; 0: none.  If rounds were cut off, the
 * standing's row names the last run before them whose rounds ended.  If no rounds had ended before,
 * the row names the run that was cut off, which is not complete. */
static int64_t last_run_with_verdicts(const struct final_rounds *s, const struct row_list *runs)
{
    if (s->row.run >= s->sweep->dictionary.pairs_since)
        return 0;
    EACH_ROW (run_row, run, *runs)
        if (run->id == s->row.run)
            return s->row.decided_s || run->state == RUN_COMPLETE ? run->id : 0;
    return 0;
}

/* Marks the buckets whose entries earlier rounds have proven or `moetune verify` has confirmed.
 * Nothing is confirmed if verifications have found that the table's claims are too sure. */
static int mark_confirmed(struct final_rounds *s)
{
    struct row_list runs;

    for (int i = 0; i < s->bucket_count && s->start == START_UNDECIDED; i++)
        s->buckets[i].confirmed = s->buckets[i].arm == s->buckets[i].published;
    if (s->start == START_UNDECIDED ||
        (s->start != START_CUT_OFF && calibration_is_too_sure(&s->calibration, s->row.kappa)))
        return OK;
    TRY(store_runs(s->sweep->campaign->store, &runs));
    s->confirmed_until = last_run_with_verdicts(s, &runs);
    for (int i = 0; i < s->bucket_count && s->confirmed_until; i++) {
        struct standing_bucket *measured = &s->buckets[i];
        int64_t deciding_run = measured->bucket.entry.run;

        measured->confirmed = deciding_run <= s->confirmed_until;
        EACH_ROW (run_row, run, runs)
            measured->confirmed =
                measured->confirmed || (run->id == deciding_run && !strcmp(run->search, "verify"));
    }
    free(runs.rows);
    return OK;
}

/* Finds the candidate of each bucket: the plan that the search chose.  Its entry may still have the
 * default plan, because the candidate was not proven; the rounds may prove it. */
static int find_candidates(struct final_rounds *s)
{
    const struct layer_plans *plans = plans_of(s);

    for (int i = 0; i < s->bucket_count; i++) {
        struct standing_bucket *measured = &s->buckets[i];
        struct bucket *b = &measured->bucket;
        int arm, favoured = -1;

        TRY(bucket_load(b));
        for (int k = 0; k < (int)plans->arm_count; k++)
            measured->usable[k] =
                b->attempts[k].usable && layer_plans_fits(plans, k, b->key.bucket);
        if (s->start == START_UNDECIDED) { /* its pairs are among the rounds' samples */
            arm = b->entry.likely.struct_size ? layer_plans_arm(plans, &b->entry.likely) : -1;
            measured->arm = arm >= 0 && measured->usable[arm] ? arm : measured->published;
            continue;
        }
        TRY(sweep_candidate(s->sweep, b->key.bucket, &arm, &measured->first, &measured->belief));
        if (b->entry.search_winner.struct_size)
            favoured = layer_plans_arm(plans, &b->entry.search_winner);
        /* An entry of an earlier command keeps the default.  Otherwise the plan that the search
         * favoured is the candidate, even if further samples have changed the search's choice. */
        if (measured->published == plans->default_arm &&
            b->entry.run >= s->sweep->dictionary.pairs_since) {
            if (arm < 0)
                arm = favoured;
            if (arm >= 0 && measured->usable[arm])
                measured->arm = arm;
        }
        if (arm != measured->arm)
            forget_pairs(measured);
    }
    return OK;
}

/* ---- the rounds */

static void describe_buckets(const struct final_rounds *s, struct rounds_bucket *out)
{
    for (int i = 0; i < s->bucket_count; i++) {
        const struct standing_bucket *measured = &s->buckets[i];

        out[i] = (struct rounds_bucket){
            .weight = measured->rounds_weight,
            .capacity = measured->bucket.capacity,
            .table = measured->arm,
            .usable = measured->usable,
            .first = measured->first.count ? &measured->first : NULL,
            .belief = measured->belief,
            .confirmed = measured->confirmed,
        };
    }
}

/* Reads the plans of rounds that were cut off.  False: this layer lacks one of them, so that the
 * rounds cannot continue. */
static bool read_cut_off_rounds(struct final_rounds *s)
{
    return read_rivals(s) && (!s->sweep->request->fixed || launch_values_read_candidates(s));
}

/* Begins new rounds, or prepares earlier rounds to continue.  Continued rounds keep their rivals:
 * their samples would now suggest other ones. */
static int begin_rounds(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    uint32_t first_round = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;
    double kappa = calibration_kappa(&s->calibration);
    size_t bytes = 0;

    if (s->start == START_UNDECIDED)
        s->row.goes++;
    if (s->start == START_UNDECIDED || (s->start == START_CUT_OFF && read_cut_off_rounds(s))) {
        launch_values_restrict(s);
        return OK;
    }
    TRY(launch_values_begin(s));
    launch_values_restrict(s);
    if (kappa >= kappa_noticed)
        note("moetune verify measured %u claimed gains again, and their intervals were too narrow: "
             "those of this table are %.2f times as wide as its own samples make them",
             s->calibration.count, kappa);
    s->row = (struct standing_row){ .cluster = d->cluster,
                                    .shape = d->shape,
                                    .run = s->confirmed_until ? s->confirmed_until : d->run,
                                    .window = plans_of(s)->window,
                                    .gain = GAIN_UNKNOWN,
                                    .static_gain = GAIN_UNKNOWN,
                                    .first_round = first_round,
                                    .kappa = kappa };
    describe_buckets(s, buckets);
    s->rival_count =
        rounds_statics(d->search, buckets, s->bucket_count, plans_of(s)->default_arm, s->rivals);
    if (s->sweep->request->fixed && !launch_values_differ(s)) { /* rivals with the same values */
        int count = 0;

        for (int i = 0; i < s->rival_count; i++)
            if ((int)s->values_of[s->rivals[i]] == s->default_values)
                s->rivals[count++] = s->rivals[i];
        s->rival_count = count;
    }
    for (int i = 0; i < s->rival_count; i++)
        bytes += (size_t)snprintf(s->row.rivals + bytes, sizeof(s->row.rivals) - bytes, "%s%s",
                                  i ? ";" : "", PLAN_TEXT(&plans_of(s)->arms[s->rivals[i]]));
    return store_standing(d->store, &s->row);
}

/* Opens the rounds and hands over the samples that they already have. */
static int open_rounds(struct final_rounds *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    const struct effort *effort = s->sweep->request->effort;
    uint32_t first_round = s->row.first_round;
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->bucket_count,
                                  .default_arm = plans_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = 1, /* plus the number of the search's samples */
                                  .worth = effort->worth,
                                  .whole_harm = launch_values_differ(s)
                                                    ? s->sweep->request->options->harm
                                                    : 0,
                                  .reruns = s->row.goes,
                                  .seed = s->sweep->campaign->setup->seed ^ first_round,
                                  .kappa = s->row.kappa };

    for (int i = 0; i < s->bucket_count; i++)
        for (uint32_t k = 0; k < s->buckets[i].bucket.sample_count; k++)
            setup.steps_max += s->buckets[i].bucket.samples[k].kind == SAMPLE_SEARCH;
    /* Ranks under a launcher cannot be launched again, so the gains are for this launch. */
    if (!s->sweep->campaign->world) {
        setup.launch_cycles = effort->launch_cycles;
        setup.launches = effort->launches - 1;
    }
    describe_buckets(s, buckets);
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    /* The samples are stored by bucket, but the rounds need them round by round.  Earlier rounds
     * have other numbers. */
    for (uint32_t round = 0; round < SERIES_STRIDE; round++)
        for (int i = 0; i < s->bucket_count; i++) {
            const struct bucket *b = &s->buckets[i].bucket;

            for (uint32_t k = 0; k < b->sample_count; k++) {
                const struct counted_sample *sample = &b->samples[k];

                if (sample->kind != SAMPLE_ROUNDS || sample->round != first_round + round)
                    continue;
                if (s->start == START_UNDECIDED)
                    rounds_recall(s->rounds, i, sample->arm, round, sample->ns);
                else
                    rounds_tell(s->rounds, i, sample->arm, sample->ns);
            }
        }
    if (s->start == START_UNDECIDED)
        rounds_continue(s->rounds);
    return OK;
}

/* Whether launching the ranks again takes so long that the rounds should end instead.  Then they
 * end after two launches, or before launches for undecided buckets alone. */
static bool launch_is_too_slow(const struct final_rounds *s)
{
    static const int64_t unnoticed_ns = 500000000;
    const struct campaign *c = s->sweep->campaign;
    int64_t launch_ns = crew_launch_ns(c->crew), so_far_ns = host_clock_ns() - c->begun_ns;
    bool may_end = s->launch == 1 || (s->launch && s->rounds->extended);

    if (s->start == START_UNDECIDED || !may_end || launch_ns <= unnoticed_ns ||
        launch_ns * 10 <= so_far_ns)
        return false;
    if (s->launch == 1)
        note("starting the ranks takes %.1f s, more than a tenth of the time so far: "
             "gains rest on two launches only",
             (double)launch_ns * 1e-9);
    return true;
}

static int run_rounds(struct final_rounds *s)
{
    struct campaign *c = s->sweep->campaign;
    double compared_before = c->progress.compared;
    uint32_t recalled_steps = s->start == START_UNDECIDED ? s->rounds->steps : 0;
    struct campaign_step step;
    int i, arm, rc;

    while (rounds_next(s->rounds, &i, &arm)) {
        int launch = rounds_launch(s->rounds);
        double done;

        if (launch && launch != s->launch) {
            if (launch_is_too_slow(s))
                break;
            TRY(crew_relaunch(c->crew, s->row.first_round + (uint32_t)launch));
            s->launch = launch;
        }
        rc = sweep_step(s->sweep, &s->buckets[i].bucket.attempts[arm], SAMPLE_ROUNDS,
                        s->row.first_round + s->rounds->round, &step);
        /* All plans have been compared by now, so a budget that ends is no reason to lose it. */
        if (rc == ERR_CUT && s->rounds->extended && c->deadline_ns &&
            host_clock_ns() >= c->deadline_ns)
            break;
        TRY(rc);
        if (!step.ns)
            rounds_drop(s->rounds, i, arm);
        else if (step.counts)
            rounds_tell(s->rounds, i, arm, step.ns);
        done = (double)(s->rounds->steps - recalled_steps) / s->rounds->setup.steps_max;
        c->progress.compared =
            compared_before + (c->progress.done - compared_before) * fmin(1, done);
    }
    return OK;
}

/* ---- the entries */

/* The word that an entry gets for its decision. */
static const char *word_of_decision(const struct final_rounds *s, int i, bool alone)
{
    const struct standing_bucket *measured = &s->buckets[i];
    const struct rounds_verdict *verdict = &s->verdicts[i];

    if (alone)
        return "alone";
    if (verdict->arm == plans_of(s)->default_arm)
        return "default";
    if (verdict->as == VERDICT_STATIC)
        return "static";
    if (verdict->arm == measured->published &&
        !strcmp(measured->bucket.entry.decision, "incumbent"))
        return "incumbent";
    return verdict->finding.proof == PROOF_FASTER ? "adopted" : "likely";
}

/* Why an entry got another plan. */
static const char *reason_of_change(const struct final_rounds *s,
                                    const struct rounds_verdict *verdict)
{
    if (s->fixed.whole)
        return "one launch for all";
    if (verdict->as == VERDICT_SHARED)
        return "rounds: the plan on both sides is as good";
    return "rounds";
}

/* Writes the entry of a bucket by its verdict.  Times come from all samples, the gain from fresh
 * pairs alone.  The entry keeps the effort and the search of the run that searched it. */
static int write_entry(struct final_rounds *s, int i)
{
    struct standing_bucket *measured = &s->buckets[i];
    const struct rounds_verdict *verdict = &s->verdicts[i];
    struct entry_row *e = &measured->bucket.entry, decided;
    const char *why = NULL; /* the plan stays */
    int default_arm = plans_of(s)->default_arm;
    bool alone = default_arm < 0 || !measured->usable[default_arm] ||
                 !measured->bucket.attempts[default_arm].usable;
    int rc;

    if (verdict->as == VERDICT_CONFIRMED)
        return OK;
    rc = sweep_redecide(s->sweep, e->bucket, verdict->arm, &decided);
    if (rc)
        return rc < 0 ? rc : OK;
    snprintf(decided.decision, sizeof(decided.decision), "%s", word_of_decision(s, i, alone));
    memcpy(decided.effort, e->effort, sizeof(decided.effort));
    memcpy(decided.search, e->search, sizeof(decided.search));
    if (!alone && verdict->arm != default_arm && isfinite(verdict->finding.gain.value)) {
        double ratio = decided.default_us * (1 - verdict->finding.gain.value) / decided.time_us;

        decided.gain = verdict->finding.gain; /* the times follow it */
        decided.time_us = decided.default_us * (1 - decided.gain.value);
        decided.low_us *= ratio;
        decided.high_us *= ratio;
        decided.other_us *= ratio;
    }
    dictionary_doubt(&s->sweep->dictionary, &verdict->doubt, &decided);
    if (s->fixed.whole)
        sweep_claim_nothing(s->sweep, &decided);
    *e = decided;
    if (verdict->arm != measured->published)
        why = reason_of_change(s, verdict);
    return store_entry_put(s->sweep->campaign->store, e, why);
}

/* Estimates how long it would take to decide the undecided buckets. */
static double seconds_to_decide(const struct final_rounds *s)
{
    double cycles_left = rounds_cycles_left(s->rounds);
    double cycles_per_launch = rounds_launch_cycles(s->rounds);
    const struct run_row *run = &s->sweep->campaign->run.row;
    double timed_steps = (double)(run->samples_search + run->samples_default);
    double seconds = 0, most_cycles = 0;

    for (int i = 0; i < s->bucket_count; i++) {
        const struct doubt *doubt = &s->verdicts[i].doubt;
        double cycles =
            doubt->arm >= 0 && isfinite(doubt->pairs) ? fmin(doubt->pairs, cycles_left) : 0;

        seconds += cycles * s->buckets[i].bucket.entry.default_us * (2 - doubt->gain) * 1e-6;
        most_cycles = fmax(most_cycles, cycles);
    }
    if (timed_steps > 0) /* warm-up steps take as long as timed ones */
        seconds *= 1 + (double)run->samples_warm / timed_steps;
    if (cycles_per_launch > 0)
        seconds += ceil(most_cycles / cycles_per_launch) * 1e-9 *
                   (double)crew_launch_ns(s->sweep->campaign->crew);
    return seconds;
}

/* Whether some bucket has the static plan. */
static bool takes_static(const struct final_rounds *s)
{
    bool takes = false;

    for (int i = 0; i < s->bucket_count; i++)
        takes |= s->verdicts[i].as == VERDICT_STATIC ||
                 !strcmp(s->buckets[i].bucket.entry.decision, "static");
    return takes;
}

/* ---- the whole */

/* Sets the verdicts of all buckets, and whether the default plan replaces a slower table. */
static void decide_entries(struct final_rounds *s)
{
    const struct tune_options *o = s->sweep->request->options;
    int default_arm = plans_of(s)->default_arm;
    bool is_slower, was_tuned = false, is_tuned = false;

    if (launch_values_differ(s)) {
        is_slower = rounds_result(s->rounds).over_default.high < 0;
        s->fixed.whole = rounds_decide_whole(s->rounds, s->verdicts);
    } else {
        is_slower = rounds_decide(s->rounds, o->margin, o->harm, s->verdicts);
        s->fixed.whole = false;
    }
    for (int i = 0; i < s->bucket_count; i++) {
        was_tuned = was_tuned || s->buckets[i].published != default_arm;
        is_tuned = is_tuned || s->verdicts[i].arm != default_arm;
    }
    s->row.given_up = is_slower && was_tuned && !is_tuned;
}

/* Fills the standing's row after the rounds, and stores it. */
static int store_result(struct final_rounds *s)
{
    struct rounds_result result = rounds_result(s->rounds);
    int default_arm = plans_of(s)->default_arm;

    s->row.run = s->sweep->dictionary.run;
    s->row.gain = result.over_default;
    s->row.static_gain = result.over_static;
    if (result.static_arm >= 0)
        s->row.static_plan = plans_of(s)->arms[result.static_arm];
    /* The default is a static plan, too, and may be better than the rivals. */
    if (default_arm >= 0 && !takes_static(s) &&
        result.over_default.value < result.over_static.value) {
        s->row.static_gain = result.over_default;
        s->row.static_plan = plans_of(s)->arms[default_arm];
    }
    s->row.rounds = result.rounds;
    s->row.launches = (uint32_t)result.launches;
    /* With --from-misses, or one set of launch values for the whole table, no undecided buckets
     * continue. */
    s->row.more_s = s->sweep->from_misses || launch_values_differ(s) ? 0 : seconds_to_decide(s);
    s->row.decided_s = time(NULL);
    if (!covers_table(s)) {
        s->row.gain = s->row.static_gain = (struct gain)GAIN_UNKNOWN;
        s->row.static_plan = (struct moe_plan){ 0 };
        s->row.rounds = 0;
        s->row.more_s = 0;
    }
    return store_standing(s->sweep->campaign->store, &s->row);
}

static int run_and_publish(struct final_rounds *s)
{
    TRY(find_candidates(s));
    TRY(mark_confirmed(s));
    TRY(set_weights(s));
    TRY(begin_rounds(s));
    TRY(open_rounds(s));
    TRY(run_rounds(s));
    decide_entries(s);
    for (int i = 0; i < s->bucket_count; i++)
        TRY(write_entry(s, i));
    TRY(launch_values_publish(s));
    return store_result(s);
}

int standing_has_chosen_values(struct sweep *sweep, bool *chosen)
{
    struct final_rounds s = { .sweep = sweep };

    TRY(launch_values_read(&s));
    *chosen = s.start != START_OTHER_AXES && s.fixed.whole;
    return OK;
}

/* Reads the layer's standing and finds out how this run starts.  The standing still holds if
 * nothing has changed since and its claims are not too sure. */
static int find_start(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &s->row);
    bool holds;

    TRY(read_calibration(s));
    TRY(launch_values_read(s));
    if (rc < 0)
        return rc;
    if (rc == UNSUPPORTED || s->sweep->result.measured || s->start != START_NEW)
        return OK;
    if (!s->row.decided_s)
        s->start = START_CUT_OFF;
    TRY(standing_is_current(d->store, &s->row, &holds));
    if (!s->buckets)
        TRY(store_entries(d->store, d->cluster, d->shape, take_bucket, s));
    /* standing_is_whole(): the rounds of the standing compared the whole table. */
    if (holds && (!covers_table(s) || standing_is_whole(&s->row)) &&
        !calibration_is_too_sure(&s->calibration, s->row.kappa))
        s->start = undecided_continue(s) ? START_UNDECIDED : START_KNOWN;
    return OK;
}

static const char too_early[] =
    "the time was up before the table was compared with the default plan";

/* If the rounds compared only a part of the table, says so in standing->why. */
static void explain_part(const struct final_rounds *s, struct standing *standing)
{
    if (!covers_table(s) && !standing_is_whole(&s->row))
        snprintf(
            standing->why, sizeof(standing->why),
            "the rounds compared a part of the table; with --buckets %u:%u and the axes of its "
            "plans they compare all of it",
            s->first, s->last);
}

int standing_begun(struct sweep *sweep, bool *begun)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };

    TRY(find_start(&s));
    if (s.start == START_OTHER_AXES || s.start == START_OTHER_WEIGHTS)
        *begun = s.row.cluster && !sweep->result.measured;
    else
        *begun = s.start != START_NEW;
    return OK;
}

/* Changes entries if this request fixes other axes than the table, then lists the measured buckets
 * with their present entries. */
static int prepare_buckets(struct final_rounds *s)
{
    TRY(launch_values_read(s));
    TRY(launch_values_reset(s));
    return open_buckets(s);
}

int standing_run_rounds(struct sweep *sweep, struct standing *standing)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };
    int rc = prepare_buckets(&s);

    *standing = (struct standing){ .why = "no bucket of this layer is measured" };
    if (!rc && s.bucket_count) {
        /* launch_values_reset() may have changed the stored rows of the standing and of the fixed
         * axes, so find_start() reads both again. */
        rc = find_start(&s);
        if (!rc && s.start != START_KNOWN)
            rc = campaign_over(sweep->campaign) ? ERR_CUT : run_and_publish(&s);
        snprintf(standing->why, sizeof(standing->why), "%s", rc == ERR_CUT ? too_early : "");
        if (!rc)
            explain_part(&s, standing);
    }
    standing->row = s.row;
    for (int i = 0; s.buckets && i < s.bucket_count; i++)
        bucket_forget(&s.buckets[i].bucket);
    free(s.rounds);
    free(s.buckets);
    return rc;
}

int standing_skip(struct sweep *sweep, struct standing *standing)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };
    int rc = find_start(&s);

    *standing = (struct standing){ .row = s.row };
    if (!rc && s.start == START_KNOWN)
        explain_part(&s, standing);
    else
        snprintf(standing->why, sizeof(standing->why), "%s", too_early);
    return rc;
}
