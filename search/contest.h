/* Whether one plan, the challenger, is faster than another, the holder.  Pure: ask what to sample,
 * tell what it took, as with a search.
 *
 *     contest_open(&c, &settings, 2, 1, false);
 *     while ((i = contest_next(&c)) != CONTEST_DONE)
 *         contest_tell(&c, i, measured_ns);            or contest_drop(&c, i) if it failed
 *     verdict = contest_verdict(&c);
 *
 * A round samples each contestant once, in shuffled order.  The n-th samples of both form a pair,
 * whatever came between, so recorded samples may be told again in any order that keeps each
 * contestant's own; to resume, do so before the first contest_next.
 *
 * One plan beats another when the median of their paired ratios is below 1 - margin.  The test
 * counts the rounds in which it is, and may end after any round: the number it takes is chosen so
 * that the chance of ever being reached is at most 1 - confidence when the true median is exactly
 * 1 - margin.  No distribution is assumed.  Student's test of the same pairs ends as soon.  But
 * where 35 of 100 steps take 10 % longer (noise 0.5 %) it is wrong in 2.0 % of contests, though it
 * is asked 40 times as sharply; this one in 1.0 %.
 *
 * What is gained is stated as `tune` states it: by the mean of log ratios, with 95 % (pairs.h). */
#ifndef CONTEST_H
#define CONTEST_H

#include "stats.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONTEST_DONE = -1, CONTEST_PLANS_MAX = 2, CONTEST_ROUNDS_MAX = 256 };

struct contest_settings {
    double margin;     /* what the winner must be better by, as a share of the time it replaces */
    double confidence; /* one-sided; 0 = 0.99 */
    uint32_t rounds_min, rounds_max; /* 0 = 5 and 60; at most CONTEST_ROUNDS_MAX */
    bool launched;                   /* each sample is of a launch of its own */
    uint64_t seed;
};

enum contest_decision {
    CONTEST_ADOPTED,  /* the challenger beats the holder, or there is none */
    CONTEST_DEFAULT,  /* the holder beats a challenger in force, or is not beaten by another one */
    CONTEST_TIE,      /* nothing was shown in time */
    CONTEST_INCUMBENT /* neither beats the other by the margin: the challenger in force stays */
};

struct contest {
    struct contest_settings settings;
    int count, holder; /* holder: -1 = there is none */
    bool in_force;
    bool dropped[CONTEST_PLANS_MAX];
    uint16_t taken[CONTEST_PLANS_MAX];
    uint16_t wins_needed[CONTEST_ROUNDS_MAX + 1]; /* [n]: of n rounds; n + 1 = cannot be shown */
    int64_t ns[CONTEST_PLANS_MAX][CONTEST_ROUNDS_MAX];
};

struct contest_verdict {
    int adopted; /* an index; -1 = every contestant was dropped */
    enum contest_decision decision;
    uint32_t rounds;                   /* that every remaining contestant completed */
    double median_ns, low_ns, high_ns; /* of the adopted plan; >= 95 % distribution-free */
    double default_ns;                 /* the holder's median; NAN = not sampled */
    /* 1 - adopted / holder with its interval of 95 %, in this launch of the ranks, or in a further
     * one if samples are `launched`; 0 for the holder itself, NAN without it and of fewer than
     * PAIRS_LEAST pairs. */
    struct gain gain;
    struct gain challenge; /* likewise of the challenger, whether it was adopted or not */
    /* What the test says of the challenger: the median, and an interval each of whose ends holds
     * with `confidence` at any stopping time.  It decides and is not stated. */
    struct gain tested;
};

/* Contestant 0 is the challenger, and may itself be the holder; `holder` is 0, 1 or -1.  In doubt
 * the holder stays, or where the challenger is `in_force` that. */
void contest_open(struct contest *contest, const struct contest_settings *settings, int count,
                  int holder, bool in_force);

/* The index of the plan to sample next, or CONTEST_DONE. */
int contest_next(const struct contest *contest);

void contest_tell(struct contest *contest, int index, int64_t ns); /* more than fit are ignored */
void contest_drop(struct contest *contest, int index);             /* failed: out of the contest */

struct contest_verdict contest_verdict(const struct contest *contest);

#endif
