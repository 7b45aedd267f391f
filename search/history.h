/* The samples that `guided` remembers: all of the present bucket, and each arm's mean of earlier
 * buckets.  When the memory is full, it drops the bucket that has others nearest to it. */
#ifndef HISTORY_H
#define HISTORY_H

#include "belief.h"

enum { HISTORY_RECORDS_MAX = 2048, HISTORY_BUCKETS_MAX = 512, HISTORY_SAMPLES_MAX = 1024 };

/* A step compared with its prediction: how far log(ns) lies above it, and the prediction's
 * variance, noise included.  `first`: the arm had no sample yet, so the prediction rests on the
 * model alone. */
struct surprise {
    double above, variance;
    bool first;
};

/* The first step after a jump of the shared noise, among successive steps of one stretch; -1: there
 * was no jump. */
int find_change_point(const struct surprise *steps, size_t count);

/* The mean of an arm's samples in one bucket. */
struct record {
    int arm;
    double log_ns;
    double weight; /* samples that agree; outliers are not counted */
};

/* A bucket before the present one. */
struct past_bucket {
    uint32_t id; /* its number, as `group` of struct observation */
    double log_c;
    bool screened;       /* every family of plans has a sample in it */
    size_t first, count; /* its records */
};

/* A plain value that history_reset() fills. */
struct history {
    size_t arm_count;
    struct past_bucket past[HISTORY_BUCKETS_MAX];
    size_t past_count;
    struct record records[HISTORY_RECORDS_MAX];
    size_t record_count;
    uint32_t groups;         /* buckets begun so far */
    double squares, freedom; /* of the noise: sum of squares and degrees of freedom, past buckets */

    double log_c; /* of the present bucket */
    struct sample {
        int arm;
        double log_ns;
        struct belief_reading reading; /* by all samples so far */
        bool outlier;
        struct moment when;
        struct surprise surprise;
    } samples[HISTORY_SAMPLES_MAX];
    size_t sample_count;
    int stretch;                            /* of the last sample */
    struct record present[SEARCH_ARMS_MAX]; /* by arm; weight 0: no sample yet */
};

/* Removes everything. */
void history_reset(struct history *history, size_t arm_count);

/* Begins a bucket.  An earlier bucket with the same capacity is forgotten, except for its noise. */
void history_begin(struct history *history, double log_c);
/* Adds a sample.  `expected`: its prediction, and the prediction's variance, noise included.
 * Samples that do not fit are ignored. */
void history_add(struct history *history, int arm, double log_ns, struct normal expected);
/* Removes an arm's samples from the present bucket. */
void history_forget(struct history *history, int arm);
/* Ends the present bucket; it becomes a past one. */
void history_end(struct history *history, bool screened);

/* The variance of one sample's log(ns), from the present bucket and all earlier ones. */
double history_noise(const struct history *history);
/* A factor, at least 1, for standard deviations: few samples do not tell the noise well. */
double history_doubt(const struct history *history);

/* Lists past buckets' means, nearest in capacity first, and for HISTORY_ALL the present bucket's,
 * too.  Returns how many, at most `room`. */
enum history_part { HISTORY_PAST, HISTORY_ALL };
size_t history_observations(const struct history *history, enum history_part part, double log_c,
                            struct observation *out, size_t room);

/* Lists the present bucket's samples, at most BELIEF_SAMPLES_MAX, without outliers and without the
 * arm `except` (-1: none).  Returns how many. */
size_t history_samples(const struct history *history, int except, struct belief_sample *out);
/* The moment of the next sample. */
struct moment history_now(const struct history *history);
/* Stores the readings of the samples that history_samples() lists for -1, in that order. */
void history_read(struct history *history, const struct belief_reading *readings);
/* Arm a compared with arm b in past buckets: the mean difference of log times, its standard error,
 * and how many samples of a it rests on. */
struct contrast {
    double mean, error, samples;
};
/* Compares two arms over the past buckets in which both ran, whose log capacity lies within
 * `reach` of the present one. */
struct contrast history_contrast(const struct history *history, int a, int b, double reach);

/* Whether a past bucket within `reach` of log_c has a sample of every family. */
bool history_screened_near(const struct history *history, double log_c, double reach);

#endif
