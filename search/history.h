/* What guided remembers: every sample of the present visit, and of earlier ones each arm's average.
 * Bounded: when it is full, the visit goes that has others nearest to it. */
#ifndef HISTORY_H
#define HISTORY_H

#include "belief.h"

enum { HISTORY_RECORDS_MAX = 2048, HISTORY_BUCKETS_MAX = 512, HISTORY_SAMPLES_MAX = 1024 };

/* A step against what was expected of it: log time above, and that expectation's variance, noise
 * included.  `first`: of its plan, so that it rests on a model alone. */
struct surprise {
    double above, variance;
    bool first;
};

/* Which of these successive steps of one stretch was the first after a turn; -1: none was. */
int find_change_point(const struct surprise *steps, size_t count);

/* An arm's samples of one visit. */
struct record {
    int arm;
    double log_ns;
    double weight; /* samples that agree; outliers are not counted */
};

struct past_bucket {
    uint32_t id;
    double log_c;
    bool screened;       /* every family of plans was looked at */
    size_t first, count; /* its records */
};

struct history {
    size_t arm_count;
    struct past_bucket past[HISTORY_BUCKETS_MAX];
    size_t past_count;
    struct record records[HISTORY_RECORDS_MAX];
    size_t record_count;
    uint32_t groups;
    double squares, freedom; /* of noise, closed past only */

    double log_c; /* of the present visit */
    struct sample {
        int arm;
        double log_ns;
        struct belief_reading reading; /* as it looks present */
        bool outlier;
        struct moment when;
        struct surprise surprise;
    } samples[HISTORY_SAMPLES_MAX];
    size_t sample_count;
    int stretch;                            /* the last sample's */
    struct record present[SEARCH_ARMS_MAX]; /* by arm; weight 0: no sample yet */
};

void history_reset(struct history *history, size_t arm_count);

/* An earlier visit to the very same capacity is forgotten, its spread aside. */
void history_begin(struct history *history, double log_c);
/* `expected`: before it was taken, and the variance of that, noise included.  More than fit are
 * ignored. */
void history_add(struct history *history, int arm, double log_ns, struct normal expected);
void history_forget(struct history *history, int arm); /* in the present visit */
void history_end(struct history *history, bool screened);

/* The variance of one sample's log(ns), from the present visit and everything seen before. */
double history_noise(const struct history *history);
/* The factor by which a standard deviation has to be widened as long as that variance rests on few
 * samples. */
double history_doubt(const struct history *history);

/* Earlier past' records, nearest in capacity first, then the present visit's if wanted. */
enum history_part { HISTORY_PAST, HISTORY_ALL };
size_t history_observations(const struct history *history, enum history_part part, double log_c,
                            struct observation *out, size_t room);

/* The present visit's samples, outliers and one arm (or -1) left out; at most BELIEF_SAMPLES_MAX.
 */
size_t history_samples(const struct history *history, int except, struct belief_sample *out);
struct moment history_now(const struct history *history);
/* What the samples that history_samples() gives for -1 turn out to be made of. */
void history_read(struct history *history, const struct belief_reading *readings);
/* What other past say of arm a against arm b: the mean difference of their log times where both
 * were sampled within `reach`, its standard error, and how many samples of a that is. */
struct contrast {
    double mean, error, samples;
};
struct contrast history_contrast(const struct history *history, int a, int b, double reach);

bool history_screened_near(const struct history *history, double log_c, double reach);

#endif
