/* Estimates from pairs of samples how much faster one plan is than another, and proves it.
 *
 * A pair has a step of each plan, run one after the other, and its log ratio counts.  So what slows
 * the machine for longer slows both steps.  A few pairs may be outliers.  The same plan takes
 * different times in different launches of the ranks: a launch shifts all pairs that a bucket has
 * in it by the same amount. */
#ifndef PAIRS_H
#define PAIRS_H

#include "distribution.h"

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PAIRS_LEAST: fewer pairs prove nothing. */
enum { PAIRS_MAX = 144, PAIRS_LEAST = 4, LAUNCHES_MAX = 48 };

/* The pairs of one bucket, and the launch of each, from 0 on.  A plain value. */
struct pairs {
    uint32_t count;
    double log_ratio[PAIRS_MAX];
    uint8_t launch[PAIRS_MAX];
};

/* Adds a pair.  It is ignored if the pairs are full or the ratio is not a number. */
void pairs_add(struct pairs *pairs, double log_ratio, int launch);

/* How far pairs scatter, from all buckets together.  A plain value. */
struct scatter {
    double scale;           /* robust standard deviation of one pair */
    double within, between; /* variances: of pairs within a launch; between launches */
    double within_freedom, between_freedom;
    bool launches; /* there were several.  If not, all results are about the one launch. */
};
void scatter_of(const struct pairs *buckets, size_t count, struct scatter *out);
/* Adds knowledge of the variance within a launch; it counts like `freedom` further pairs. */
void scatter_know_within(struct scatter *scatter, double variance, double freedom);

/* The pairs with outliers moved towards the rest.  The plain mean of the result is Huber's mean,
 * and its plain variance is the variance of Huber's mean. */
struct pairs pairs_winsorized(const struct pairs *pairs, const struct scatter *scatter);

/* A bucket's mean log ratio, and the sources of its uncertainty.  A plain value. */
struct mean {
    uint32_t count, half_count[2]; /* of pairs; halves: the even and the odd pairs */
    double mean, half[2];
    double steps, launches;             /* the mean's variance: from steps, from launches */
    double further;                     /* the variance that one further launch adds */
    double freedom;                     /* of the whole variance */
    double own_freedom, launch_freedom; /* of `steps` by the bucket's own pairs; of `launches` */
};
struct mean pairs_mean(const struct pairs *pairs, const struct scatter *scatter);

/* The chance that the true mean lies above a log ratio; 1 if nothing is known. */
double mean_chance_above(const struct mean *mean, double log_ratio);

/* The mean combined with a normal belief that has other reasons.  If the two lie more than three
 * standard deviations apart, the belief is wrong and the pairs alone count. */
struct mean mean_with_belief(const struct mean *mean, double belief, double variance);

/* What a bucket's pairs prove of the first plan against the second. */
enum proof {
    PROOF_NONE,
    PROOF_HARMLESS, /* it was faster, and is not slower by more than pairs_harmless */
    PROOF_FASTER
};
/* `chance`: the greatest chance that the proof is wrong.  The pairs alone have to prove FASTER;
 * they may prove HARMLESS together with a belief.  An infinite variance: there is no belief. */
enum proof mean_proof(const struct mean *mean, double belief, double variance, double chance);

/* A plan does harm if it is slower than the default by more than this share. */
extern const double pairs_harmless;
/* A plan that gains less is not published: tables have six digits. */
extern const double pairs_least;

/* What further pairs may show of a plan that is not proven.  A plain value. */
struct prospect {
    struct normal log_ratio; /* by the plan's own pairs and by its gain elsewhere */
    double lost;             /* the expected loss, a share of a step, if it is not published */
    double pairs;            /* further pairs that a proof needs; infinite: more than `most` */
};
/* `usual`: the plan's log ratio elsewhere; an infinite deviation: not known.  `of_launch`: further
 * pairs per launch; each launch reduces the variance from launches.  0: no further launches. */
struct prospect mean_prospect(const struct mean *mean, struct normal usual, double of_launch,
                              double most);
/* An undecided plan gets up to PAIRS_LONGER times as many pairs as usual.  A proof may be expected
 * to need PAIRS_RESERVE times the pairs that are left, because noise may help.  A test that is
 * repeated errs more often than a single one, so its chance of error is divided by PAIRS_LOOKS. */
enum { PAIRS_LONGER = 6, PAIRS_RESERVE = 2, PAIRS_LOOKS = 5 };
/* The expected loss without a proof minus the cost of its pairs, at `step` per step; below 0: there
 * cannot be so many pairs. */
double prospect_worth(const struct prospect *prospect, double step);

/* A plan that is likely to be better than the published one but is not proven.  It changes nothing;
 * moetune only reports it. */
struct doubt {
    int arm;       /* -1: no plan is expected to save at least prospect_least */
    double gain;   /* its expected gain */
    double chance; /* the chance that it is faster at all */
    double pairs;  /* as in struct prospect */
};
struct doubt prospect_doubt(const struct prospect *prospect, int arm);
extern const double prospect_least;

/* A log ratio with its interval. */
struct pair_range {
    double mean, low, high;
};
/* The log ratio to expect in a further launch of the ranks; in this launch if there was only one.
 */
struct pair_range mean_range(const struct mean *mean, enum certainty certainty);
/* The gain 1 - ratio for a log ratio with its interval. */
struct gain range_gain(struct pair_range range);

/* The weighted mean over buckets; members as in struct mean.  A plain value, 0 at first. */
struct total {
    double mean, steps, launches, further;
    double spent;          /* sum of steps^2 / freedom over buckets, for Satterthwaite's formula */
    double launch_freedom; /* the most of any bucket, because buckets share the launches */
};
/* Adds a bucket's mean; `share`: the bucket's share of the weights. */
void total_add(struct total *total, double share, const struct mean *mean);
struct pair_range total_range(const struct total *total, enum certainty certainty);
/* The chance that the true weighted mean lies above a log ratio; 1 if nothing is known. */
double total_chance_above(const struct total *total, double log_ratio);

/* ---- calibration: do claimed gains hold when `verify` measures them again, and how much wider do
 * later intervals have to be? */

struct calibration {
    uint32_t count;
    double squares; /* sum of z^2; z: the distance of claim and finding in standard deviations */
};

/* Adds a claimed gain and the gain found later, both with 95 % intervals.  `kappa`: the factor by
 * which the claim's interval had been widened.  Intervals that are not numbers are ignored. */
void calibration_add(struct calibration *calibration, const struct gain *claim, double kappa,
                     const struct gain *found);

/* kappa, the factor for the standard deviations of claims: from 1 to 3.
 *
 * kappa^2 = (10 + sum z^2) / (10 + n): the prior, that deviations are right, counts like ten
 * claims. It is never below 1.  All buckets of a verification share one launch, so it can show that
 * claims are too sure, but hardly that they are too cautious. */
double calibration_kappa(const struct calibration *calibration);

/* Whether claims that were made with kappa `then` are too sure: kappa has grown by a fifth.  Less
 * growth is often chance: with 20 to 57 sound claims kappa grows by a tenth in 10 to 16 of 100
 * cases, and by a fifth in 1 to 3. */
bool calibration_is_too_sure(const struct calibration *calibration, double then);

#endif
