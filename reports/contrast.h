/* What plans cost against each other, from the facts of one layer. */
#ifndef CONTRAST_H
#define CONTRAST_H

#include "facts.h"

/* Every plan at every bucket, worked out once: what follows asks it again and again.  Belongs to
 * the layer. */
struct contrasts;
int contrast_prepare(struct layer_facts *layer);
void contrast_free(struct layer_facts *layer);

/* A step's time, and how it is known. */
struct step_time {
    double us, low_us, high_us; /* the ends NAN where there is no interval; us NAN: not known */
    uint32_t samples;
    bool measured;      /* else interpolated */
    uint32_t throttled; /* of the samples */
};

/* A plan's step at a bucket that was measured: of the table's plan and the default what the entry
 * says; else the median of its timed steps; else interpolated between the neighbouring buckets
 * where it was timed, as its ratio to the default plan (which is timed everywhere) over log c. */
struct step_time contrast_step(const struct layer_facts *layer, const struct entry_row *entry,
                               const struct moe_plan *plan);

/* The median of a trial's timed steps. */
struct step_time contrast_trial(const struct trial_facts *trial);

/* What the entry says of its own plan. */
struct step_time contrast_entry(const struct layer_facts *layer, const struct entry_row *entry);

/* The default plan's own, with its interval where its samples are there. */
struct step_time contrast_default(const struct layer_facts *layer, const struct entry_row *entry);

/* The table against one plan used everywhere, over the measured buckets. */
struct improvement {
    uint32_t buckets, measured; /* compared; of these, where the plan was timed itself */
    double mean, worst;         /* of time of the plan / time of the table's plan - 1; NAN: none */
    double log_mean;            /* mean of the logarithms of those ratios */
};
struct improvement contrast_static(const struct layer_facts *layer, const struct moe_plan *plan);

/* One axis of the table's plans, over the measured buckets whose plan has another value there than
 * the default plan: what a step takes if this axis alone stays as it is in the default. */
struct axis_worth {
    const char *name;
    uint32_t buckets, timed; /* such buckets; of these, where that other plan was timed */
    double without;          /* the mean of its time / time of the table's plan - 1; NAN: none */
};
size_t contrast_axes(const struct layer_facts *layer); /* how many there are */
struct axis_worth contrast_axis(const struct layer_facts *layer, size_t axis);

/* The plans by that mean, the best at place 0, before them the one that the rounds of the table
 * found the best; those that are not known in every measured bucket, or were timed in less than
 * half of them, are left out.  NULL: there are no more. Borrowed. */
const struct moe_plan *contrast_ranked(const struct layer_facts *layer, size_t place);

/* The entries' gains over what trainers asked: every look-up counts as the default's time of its
 * bucket, so that this is the share of all step time that is saved.  Pinned look-ups are left out:
 * they did not take the table's plan. */
struct traffic_gain {
    uint64_t asked, measured, inferred; /* look-ups: all; in buckets with such an entry and times */
    double gain; /* sum(look-ups * default's time * gain) / sum(look-ups * default's time); NAN:
                    none */
};
struct traffic_gain contrast_traffic(const struct layer_facts *layer);

uint32_t contrast_measured_buckets(const struct layer_facts *layer);

/* How far from its median a single step may lie, as a share of it: each half was timed but once. */
double contrast_single_step(const struct spread *steps);

/* (compute + comm - step) / min(compute, comm), between 0 and the 1 - 1/d that d chunks can hide,
 * with what the step's interval and the noise of single steps leave open.  NAN: not measured, or
 * the interval misses all that is possible, so that the halves are not known well enough. */
struct hidden {
    double share, low, high;
};
struct hidden contrast_hidden(const struct trial_facts *trial, const struct step_time *step);

#endif
