/* Compares the plans of one layer: step times at each bucket, measured or interpolated, gains over
 * static plans, and what each axis is worth. */
#ifndef CONTRAST_H
#define CONTRAST_H

#include "facts.h"

/* The step times of every plan at every bucket.  contrast_prepare() computes them once for the
 * functions below and stores them in the layer; contrast_free() frees them.  ERR_NOMEM. */
struct contrasts;
int contrast_prepare(struct layer_facts *layer);
void contrast_free(struct layer_facts *layer);

/* The step time of a plan in a bucket: a plain value. */
struct step_time {
    double us;              /* NAN: not known */
    double low_us, high_us; /* interval; NAN: none */
    uint32_t samples;
    bool measured;      /* false: interpolated */
    uint32_t throttled; /* of the samples, those of disturbed steps */
};

/* Returns a plan's step time in the bucket of an entry.  The table's plan and the default have the
 * times of the entry.  Other plans have the median of their timed steps in the bucket.  In other
 * measured buckets it is interpolated over log c between buckets where the plan was timed, as its
 * ratio to the default plan, which is timed everywhere. */
struct step_time contrast_step(const struct layer_facts *layer, const struct entry_row *entry,
                               const struct moe_plan *plan);

/* Returns the median of a trial's timed steps with its interval. */
struct step_time contrast_trial(const struct trial_facts *trial);

/* Returns the time that an entry has of its own plan. */
struct step_time contrast_entry(const struct layer_facts *layer, const struct entry_row *entry);

/* Returns the default plan's time in the bucket of an entry. */
struct step_time contrast_default(const struct layer_facts *layer, const struct entry_row *entry);

/* How much more time one plan takes than the table if it is used in all measured buckets: a plain
 * value.  A ratio is time of the plan / time of the table's plan. */
struct improvement {
    uint32_t buckets;   /* that were compared */
    uint32_t measured;  /* those of them in which the plan was timed; others are interpolated */
    double mean, worst; /* of ratio - 1; NAN: no bucket */
    double log_mean;    /* mean of log(ratio); NAN: no bucket */
};
struct improvement contrast_static(const struct layer_facts *layer, const struct moe_plan *plan);

/* What one axis is worth: how much more time a step takes if the table's plan gets the default's
 * value of this axis.  Only measured buckets count whose plan has another value.  A plain value. */
struct axis_worth {
    const char *name;
    uint32_t buckets; /* that count */
    uint32_t timed;   /* those of them in which the plan with the default's value was timed */
    double without;   /* mean of its time / time of the table's plan - 1; NAN: never timed */
};
size_t contrast_axes(const struct layer_facts *layer); /* number of axes */
struct axis_worth contrast_axis(const struct layer_facts *layer, size_t axis);

/* Returns the static plan at a place, the best first, or NULL.  Plans are sorted by log_mean; the
 * plan that the rounds of the table found the best comes first.  Plans whose time is unknown in a
 * measured bucket, or that were timed in less than half of them, are left out.  Borrowed. */
const struct moe_plan *contrast_ranked(const struct layer_facts *layer, size_t place);

/* The share of all step time that the table saves by the recorded traffic: a plain value.  A
 * look-up counts as long as a step of the default plan in its bucket.  Pinned look-ups do not
 * count, because they did not get the table's plan. */
struct traffic_gain {
    uint64_t lookups;
    uint64_t measured, inferred; /* those of them in buckets with such an entry and its times */
    double gain; /* sum(look-ups * default's time * gain) / sum(look-ups * default's time); NAN:
                    no such look-up */
};
struct traffic_gain contrast_traffic(const struct layer_facts *layer);

/* Returns the number of entries that are not inferred. */
uint32_t contrast_measured_buckets(const struct layer_facts *layer);

/* Returns how far a single step may lie from the median of these steps, as a share of the median.
 * Halves of a step need it, because each was timed once. */
double contrast_single_step(const struct spread *steps);

/* The hidden share of a step: (compute + comm - step) / min(compute, comm), cut to the range from 0
 * to 1 - 1/d that d chunks can hide.  low and high: interval from that of the step and the noise of
 * single steps.  All NAN: a time is not measured, or the interval misses the range, so the halves
 * are not known well enough. */
struct hidden {
    double share, low, high;
};
struct hidden contrast_hidden(const struct trial_facts *trial, const struct step_time *step);

#endif
