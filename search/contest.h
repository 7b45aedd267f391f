/* Tests whether one plan, the challenger, is faster than another, the holder.  `verify` uses it.
 * It runs no steps itself: the caller asks what to sample and hands the time over.
 *
 *     contest_open(&c, &settings, 2, 1, false);
 *     while ((i = contest_next(&c)) != CONTEST_DONE)
 *         contest_tell(&c, i, measured_ns);            or contest_drop(&c, i) if it failed
 *     verdict = contest_verdict(&c);
 *
 * A round samples each plan once, in shuffled order.  The n-th samples of both plans form a pair,
 * whatever ran between them.  To resume, hand the recorded samples over before the first
 * contest_next(); only the order within each plan matters.
 *
 * A plan beats another when the median of their paired ratios is below 1 - margin.  The test is a
 * sign test: it counts the rounds with a ratio below 1 - margin, and it may end after any round.
 * When the true median is exactly 1 - margin, the chance of ever reaching the needed number of wins
 * is at most 1 - confidence.  The test assumes no distribution.  Student's test of the same pairs
 * needs as many rounds, but disturbed steps mislead it.  Example: 35 of 100 steps take 10 % longer,
 * noise 0.5 %.  Then Student's test is wrong in 2.0 % of contests, even at a 40 times smaller
 * nominal chance; this one in 1.0 %.
 *
 * The stated gain is the one that `tune` states: the mean of log ratios, with 95 % (pairs.h). */
#ifndef CONTEST_H
#define CONTEST_H

#include "stats.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONTEST_DONE = -1, CONTEST_PLANS_MAX = 2, CONTEST_ROUNDS_MAX = 256 };

/* The rules of one contest; a plain value. */
struct contest_settings {
    double margin;     /* the winner must save more than this share of the other plan's time */
    double confidence; /* one-sided; 0 = 0.99 */
    uint32_t rounds_min, rounds_max; /* 0 = 5 and 60; at most CONTEST_ROUNDS_MAX */
    bool launched;                   /* each sample comes from a launch of its own */
    uint64_t seed;
};

enum contest_decision {
    CONTEST_ADOPTED,  /* the challenger beats the holder, or there is no holder */
    CONTEST_DEFAULT,  /* the holder stays: it beats a challenger in force, or no other challenger
                       * beats it */
    CONTEST_TIE,      /* the rounds ended before the test showed anything */
    CONTEST_INCUMBENT /* neither beats the other by the margin: the challenger in force stays */
};

/* The state of one contest; a plain value that contest_open() fills. */
struct contest {
    struct contest_settings settings;
    int count, holder; /* count: of plans; holder: an index, -1: none */
    bool in_force;     /* the challenger is the plan in force */
    bool dropped[CONTEST_PLANS_MAX];
    uint16_t taken[CONTEST_PLANS_MAX];            /* samples of each plan */
    uint16_t wins_needed[CONTEST_ROUNDS_MAX + 1]; /* [n]: of n rounds; n + 1: n are too few */
    int64_t ns[CONTEST_PLANS_MAX][CONTEST_ROUNDS_MAX];
};

/* The result of a contest; a plain value. */
struct contest_verdict {
    int adopted; /* the index of the plan to use; -1: every plan was dropped */
    enum contest_decision decision;
    uint32_t rounds;                   /* rounds that every remaining plan completed */
    double median_ns, low_ns, high_ns; /* of the adopted plan; a distribution-free interval of at
                                        * least 95 % */
    double default_ns;                 /* the holder's median; NAN: not sampled */
    /* 1 - adopted / holder with its 95 % interval, for this launch of the ranks; for a further
     * launch if samples are `launched`.  0 for the holder itself; NAN without a holder or with
     * fewer than PAIRS_LEAST pairs. */
    struct gain gain;
    struct gain challenge; /* 1 - challenger / holder, whether it was adopted or not */
    /* The challenger's median gain by the test.  Each end of the interval holds with `confidence`
     * at any stopping time.  This decides; it is not what moetune states. */
    struct gain tested;
};

/* Begins a contest.  Plan 0 is the challenger; `holder` is 0 (the challenger itself), 1 or -1.  If
 * nothing is shown the holder stays; if the challenger is `in_force`, the challenger stays. */
void contest_open(struct contest *contest, const struct contest_settings *settings, int count,
                  int holder, bool in_force);

/* The index of the plan to sample next, or CONTEST_DONE. */
int contest_next(const struct contest *contest);

/* Hands over a sample; a plan's samples beyond rounds_max are ignored. */
void contest_tell(struct contest *contest, int index, int64_t ns);
/* Takes a plan that failed out of the contest. */
void contest_drop(struct contest *contest, int index);

/* The verdict so far, at any time. */
struct contest_verdict contest_verdict(const struct contest *contest);

#endif
