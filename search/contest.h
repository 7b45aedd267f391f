/* Whether the search's winner replaces the default plan, or the one an earlier table holds.  Pure:
 * ask what to sample, tell what it took, as with a search.
 *
 *     contest_open(&c, &settings, plans, count, default_index, incumbent_index);
 *     while ((i = contest_next(&c)) != CONTEST_DONE)
 *         contest_tell(&c, i, measured_ns);            or contest_drop(&c, i) if it failed
 *     verdict = contest_verdict(&c);
 *
 * A round samples each contestant once, in shuffled order.  The n-th samples of two contestants
 * form a pair, whatever came between, so recorded samples may be told again in any order that
 * keeps each contestant's own; to resume, do so before the first contest_next.
 *
 * One plan beats another when the median of their paired ratios is below 1 - margin.  The test
 * counts the rounds in which it is, and may end after any round: the number it takes is chosen so
 * that the chance of ever being reached is at most 1 - confidence when the true median is exactly
 * 1 - margin.  No distribution is assumed. */
#ifndef CONTEST_H
#define CONTEST_H

#include "moelookup.h"
#include "stats.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONTEST_DONE = -1, CONTEST_PLANS_MAX = 3, CONTEST_ROUNDS_MAX = 256 };

struct contest_settings {
    double margin;     /* what the winner must be better by, as a share of the time it replaces */
    double confidence; /* one-sided; 0 = 0.99 */
    uint32_t rounds_min, rounds_max; /* 0 = 5 and 60; at most CONTEST_ROUNDS_MAX */
    uint64_t seed;
};

enum contest_decision {
    CONTEST_ADOPTED,  /* the winner beats the default, and the incumbent if there is one */
    CONTEST_DEFAULT,  /* the default won, or the winner does not beat it */
    CONTEST_TIE,      /* nothing was shown in time: the incumbent stays, or else the default */
    CONTEST_INCUMBENT /* the winner does not beat the incumbent */
};

struct contest {
    struct contest_settings settings;
    struct moe_plan plans[CONTEST_PLANS_MAX];
    int count, default_index, incumbent; /* default_index: -1 = none */
    bool dropped[CONTEST_PLANS_MAX];
    uint16_t told[CONTEST_PLANS_MAX];
    uint16_t wins_needed[CONTEST_ROUNDS_MAX + 1]; /* [n]: of n rounds; n + 1 = cannot be shown */
    int64_t ns[CONTEST_PLANS_MAX][CONTEST_ROUNDS_MAX];
};

struct contest_verdict {
    int adopted; /* an index; -1 = every contestant was dropped */
    enum contest_decision decision;
    uint32_t rounds;                   /* that every remaining contestant completed */
    double median_ns, low_ns, high_ns; /* of the adopted plan; >= 95 % distribution-free */
    double default_ns;                 /* the default's median; NAN = not sampled */
    /* 1 - adopted / default, paired, with an interval each of whose ends holds with `confidence`
     * at any stopping time; 0 for the default itself, NAN without it. */
    struct gain gain;
    struct gain challenge; /* likewise of plans[0], whether it was adopted or not */
};

/* plans[0] is the search's winner; it may also be the default or the incumbent.  Neither need be
 * there: -1.  At most CONTEST_PLANS_MAX plans, all different; copied. */
void contest_open(struct contest *contest, const struct contest_settings *settings,
                  const struct moe_plan *plans, int count, int default_index, int incumbent_index);

/* The index of the plan to sample next, or CONTEST_DONE. */
int contest_next(const struct contest *contest);

void contest_tell(struct contest *contest, int index, int64_t ns); /* more than fit are ignored */
void contest_drop(struct contest *contest, int index);             /* failed: out of the contest */

struct contest_verdict contest_verdict(const struct contest *contest);

/* The samples of two contestants, pair by pair: the first one's over the second one's. */
struct pairs;
void contest_pairs(const struct contest *contest, int a, int b, struct pairs *out);

#endif
