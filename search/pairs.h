/* What pairs of samples say: two plans run one after the other, and the log of the ratio of their
 * times counts, so that what slows the machine for longer slows both.  A few pairs may be far off.
 * Every launch of the ranks adds luck of its own, the same for all pairs of a bucket in it.  Pure.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include "distribution.h"

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PAIRS_LEAST: fewer prove nothing. */
enum { PAIRS_MAX = 144, PAIRS_LEAST = 4, LAUNCHES_MAX = 48 };

/* One bucket's pairs, launch by launch; launches are numbered from 0. */
struct pairs {
    uint32_t count;
    double log_ratio[PAIRS_MAX];
    uint8_t launch[PAIRS_MAX];
};

void pairs_add(struct pairs *pairs, double log_ratio, int launch); /* more than fit are ignored */

/* What is common to the pairs of all buckets: how far they scatter. */
struct scatter {
    double scale;           /* robust standard deviation of one pair */
    double within, between; /* variances: of pairs of one launch; of a launch's luck */
    double within_freedom, between_freedom;
    bool launches; /* there were several.  Else all that follows is about the one launch alone. */
};
void scatter_of(const struct pairs *buckets, size_t count, struct scatter *out);
/* What else is known of pairs within a launch, and counts like so many more of them. */
void scatter_know_within(struct scatter *scatter, double variance, double freedom);

/* The same with what is far off nearer to the rest: what plain means may be taken of. */
struct pairs pairs_winsorized(const struct pairs *pairs, const struct scatter *scatter);

/* A bucket's mean log ratio, and where its uncertainty comes from. */
struct mean {
    uint32_t count, half_count[2]; /* halves: of even and odd pairs */
    double mean, half[2];
    double steps, launches;             /* parts of the mean's variance: of steps, of launches */
    double further;                     /* variance of the luck of one more launch */
    double freedom;                     /* of the whole variance */
    double own_freedom, launch_freedom; /* of the steps' part by its own pairs; of the luck's */
};
struct mean pairs_mean(const struct pairs *pairs, const struct scatter *scatter);

/* The chance that the true mean lies above a log ratio; 1 where nothing is known. */
double mean_chance_above(const struct mean *mean, double log_ratio);

/* Together with what is believed for other reasons; where the two are more than three standard
 * deviations apart the belief is wrong, and pairs alone count. */
struct mean mean_with_belief(const struct mean *mean, double belief, double variance);

/* What a bucket's pairs prove of the first plan against the second. */
enum proof {
    PROOF_NONE,
    PROOF_HARMLESS, /* it was faster, and is not slower by more than `harmless` */
    PROOF_FASTER
};
/* `chance`: the greatest that this is wrong.  That it is faster the pairs alone have to prove; that
 * it is harmless they may prove together with a belief (of an infinite variance: there is none). */
enum proof mean_proof(const struct mean *mean, double belief, double variance, double chance);

/* A plan that is slower than the default by more than this does harm. */
extern const double pairs_harmless;
/* What a plan gains at the least: tables say six digits. */
extern const double pairs_least;

/* What is to be expected of a plan that its pairs do not prove. */
struct prospect {
    struct normal log_ratio; /* by its own pairs and by what it saves elsewhere */
    double lost;             /* a share of a step: on average, if the second plan stands */
    double pairs;            /* further ones that a proof takes; infinite: more than `most` */
};
/* `usual`: what the plan saves elsewhere, of an infinite deviation where nobody knows; `of_launch`:
 * further pairs of one launch, each of which makes less of their luck; 0: there is no such luck. */
struct prospect mean_prospect(const struct mean *mean, struct normal usual, double of_launch,
                              double most);
/* Where pairs go on that did not decide: so many times as many as there are anyway, and so many
 * times those may be expected to be needed, for they may be lucky.  Who looks again and again sees
 * luck more often than who looks once: so much surer has to be what is proven on the way. */
enum { PAIRS_LONGER = 6, PAIRS_RESERVE = 2, PAIRS_LOOKS = 5 };
/* What is lost without further pairs, less what they cost, each step so much; below 0 where they
 * are not to be had. */
double prospect_worth(const struct prospect *prospect, double step);

/* Where the second plan stands for want of a proof: the one that is likely to be better.  Nothing
 * is published because of it. */
struct doubt {
    int arm;       /* -1: none is expected to save what is worth a word */
    double gain;   /* that it is expected to save */
    double chance; /* that it is faster at all */
    double pairs;  /* as in struct prospect */
};
struct doubt prospect_doubt(const struct prospect *prospect, int arm);
extern const double prospect_least; /* what saves less is not worth a word */

struct pair_range {
    double mean, low, high;
};
/* Of the ratio to expect in a further launch of the ranks; in this one if there was no other. */
struct pair_range mean_range(const struct mean *mean, enum certainty certainty);
/* What a plan saves whose time over the other's has a logarithm in that range. */
struct gain range_gain(struct pair_range range);

/* The weighted mean over buckets. */
struct total {
    double mean, steps, launches, further;
    double spent;          /* sum of variance^2 / freedom of the steps' parts: Satterthwaite's */
    double launch_freedom; /* buckets share what is known of the launches' luck */
};
void total_add(struct total *total, double share, const struct mean *mean);
struct pair_range total_range(const struct total *total, enum certainty certainty);
/* As mean_chance_above(). */
double total_chance_above(const struct total *total, double log_ratio);

/* ---- claims that were measured again: whether they held, and how much wider later ones have to be
 */

struct calibration {
    uint32_t count;
    double squares; /* of z, how many deviations what was claimed lay from what was found */
};

/* Two intervals of 95 % about what a plan saves: claimed, and found later on.  `kappa`: the claim's
 * deviation had been multiplied by it.  What is no interval says nothing. */
void calibration_add(struct calibration *calibration, const struct gain *claim, double kappa,
                     const struct gain *found);

/* kappa, by which deviations of claims are to be multiplied: from 1 to 3.
 *
 * kappa^2 = (10 + sum z^2) / (10 + n): that deviations are right counts like ten claims.  Never
 * below 1: a verification is one launch of the ranks, whose luck all of its buckets share, so that
 * it can show that claims are too sure, and hardly that they are too modest. */
double calibration_kappa(const struct calibration *calibration);

/* Claims that were made with kappa `then` are too sure: it is larger by a fifth.  Less is often
 * chance: with 20 to 57 sound claims it grows by a tenth in 10 to 16 of 100 cases, by a fifth in 1
 * to 3. */
bool calibration_is_too_sure(const struct calibration *calibration, double then);

#endif
