/* Shared by standing.c and launch_values.c: the last rounds of one layer's table, with its measured
 * buckets. */
#ifndef FINAL_ROUNDS_H
#define FINAL_ROUNDS_H

#include "bucket.h"
#include "pairs.h"
#include "rounds.h"
#include "standings.h"
#include "sweep.h"

/* A measured bucket in the rounds. */
struct standing_bucket {
    struct bucket bucket; /* with its entry */
    int published;        /* the arm of its entry before the rounds */
    int arm;              /* the candidate, which the rounds have to prove */
    struct pairs first;   /* of the candidate and the default, since the candidate was chosen */
    struct normal belief; /* of their log ratio, when the candidate was chosen */
    double weight;
    double rounds_weight; /* for the rounds, which average logarithms of times */
    bool confirmed;       /* by earlier rounds or a verification */
    bool usable[SEARCH_ARMS_MAX];
};

/* What this run finds of earlier rounds of the table, and what follows.  find_start() sets it.
 * launch_values_read() sets only START_OTHER_AXES, START_OTHER_WEIGHTS or START_NEW. */
enum rounds_start {
    START_NEW,           /* no earlier rounds count, e.g. a bucket was measured since: new rounds */
    START_OTHER_AXES,    /* this request fixes other axes than the table: new rounds */
    START_OTHER_WEIGHTS, /* it weights buckets by other traffic than the table: new rounds */
    START_CUT_OFF,       /* earlier rounds were cut off: they continue, or new ones begin if the
                          * layer lacks one of their plans */
    START_UNDECIDED,     /* earlier rounds have ended: their undecided buckets continue */
    START_KNOWN          /* earlier rounds have ended and still hold: no rounds */
};

/* The rounds of one layer's table; standing_run_rounds() fills and frees it. */
struct final_rounds {
    struct sweep *sweep;
    struct standing_bucket *buckets;
    int bucket_count;
    uint32_t first, last;    /* the first and the last measured bucket of the table */
    bool leaves_out_buckets; /* the sweep was not asked for some measured buckets */
    bool has_other_efforts;  /* some buckets were measured with another effort */
    enum rounds_start start;
    int rivals[ROUNDS_STATICS_MAX], rival_count; /* static plans */
    struct standing_row row;
    int64_t confirmed_until;        /* entries of runs up to this one are confirmed; 0: none */
    struct calibration calibration; /* of this cluster's claims */
    struct rounds *rounds;
    struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]; /* by bucket, after the rounds */
    int launch; /* the present launch of the ranks, as the rounds number them; 0: any */

    /* For trainers that cannot switch some axes, the fixed axes.  Launch values are one set of
     * values of these axes; launch_values.c numbers the sets. */
    struct fixed_row fixed;                                    /* as the store has it */
    char weights_hash[sizeof(((struct fixed_row *)0)->asked)]; /* of this request's weights */
    uint32_t values_of[SEARCH_ARMS_MAX]; /* by arm: the number of its launch values */
    uint32_t values_count;
    int chosen_values, default_values; /* numbers; default_values -1: no default plan */
};

static inline const struct layer_plans *plans_of(const struct final_rounds *s)
{
    return s->sweep->plans;
}

/* After the candidate of a bucket has changed: the pairs before the rounds were another plan's. */
static inline void forget_pairs(struct standing_bucket *measured)
{
    measured->first.count = 0;
}

/* The index of the measured bucket that is nearest to a bucket; in standing.c. */
int final_rounds_nearest(const struct final_rounds *s, uint32_t bucket);

/* ---- launch_values.c */

/* Reads which axes the table fixes, and whether this request fixes or weights differently.  Numbers
 * the launch values.  Until others are chosen, the default's are the chosen ones. */
int launch_values_read(struct final_rounds *s);

/* Whether the chosen launch values are not the default's.  Then the rounds decide the table as a
 * whole: all entries get the chosen values, or all get the default's. */
bool launch_values_differ(const struct final_rounds *s);

/* If this request fixes other axes than the table, all entries get the default plan and the rounds
 * begin again. */
int launch_values_reset(struct final_rounds *s);

/* Reads the candidates of rounds that were cut off.  False: this layer lacks one of these plans. */
bool launch_values_read_candidates(struct final_rounds *s);

/* With fixed axes, for rounds that begin: chooses launch values, gives every bucket a candidate
 * with them, and stores the choice. */
int launch_values_begin(struct final_rounds *s);

/* With fixed axes, for rounds that begin or continue: no bucket counts as confirmed.  If the chosen
 * values are the default's, only plans with them take part, and they may differ between buckets. */
void launch_values_restrict(struct final_rounds *s);

/* With fixed axes, after the verdicts: changes the entries that are not in the rounds, so that the
 * whole table has the same launch values, and stores the fixed axes. */
int launch_values_publish(struct final_rounds *s);

#endif
