/* Tunes one bucket with noisy step times, as `tune` does, and judges the published plan by the true
 * times. */
#ifndef TRUE_BUCKET_H
#define TRUE_BUCKET_H

#include "decision.h"
#include "noise.h"
#include "search.h"
#include "stats.h"

/* The result of tuning one bucket: a plain value.  Shares are of a step's time. */
struct bucket_outcome {
    int arm;           /* that tune would publish */
    double regret;     /* share of time that the arm takes more than the best arm; a true number */
    double harm;       /* share of time that the arm takes more than the default; a true number */
    double bound;      /* what the decision says that another plan may gain at most */
    double lost;       /* regret summed over all steps that tuning took, in steps */
    uint32_t samples;  /* steps that tuning took */
    uint32_t searched; /* those of them that the search asked for */
    bool first;        /* of its layer; set by the caller */
    bool bounded;      /* `bound` is known */
    bool undecided;    /* entry_is_undecided() of the entry */
    struct gain gain;  /* that the entry claims over the default */
};

/* One bucket and the true times of its plans: a plain value that the caller fills. */
struct true_bucket {
    uint64_t capacity;
    size_t arm_count;
    int default_arm;
    double best_ns;                  /* the smallest of the usable arms' times */
    double ns[SEARCH_ARMS_MAX];      /* true times */
    double seen_ns[SEARCH_ARMS_MAX]; /* what a step takes on average while tuning; noise is added */
    bool usable[SEARCH_ARMS_MAX];
};

/* Returns the share of time that an arm takes more than the best arm. */
double true_bucket_regret(const struct true_bucket *bucket, int arm);

/* Judges an arm by the true times.  Sets arm, regret and harm; the other members are 0. */
struct bucket_outcome true_bucket_outcome(const struct true_bucket *bucket, int arm);

/* Tunes the bucket by search and decision, and judges the arm that they publish.  At least one arm
 * must be usable.  `patience`: see struct decision_setup.  `decision` gets the decision as it
 * ended; it may be NULL. */
struct bucket_outcome true_bucket_tune(const struct true_bucket *bucket, struct search *search,
                                       struct noise *noise, uint32_t patience,
                                       struct decision *decision);

#endif
