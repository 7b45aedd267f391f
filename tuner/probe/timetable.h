/* The timetable of a probe: a list of subjects, which rounds measure in shuffled order, and their
 * times.
 */
#ifndef TIMETABLE_H
#define TIMETABLE_H

#include "probe.h"
#include "runner.h"
#include "workbench.h"

enum subject_kind {
    SUBJECT_EMPTY, /* a step without work */
    SUBJECT_LAUNCH,
    SUBJECT_COPY,
    SUBJECT_PRODUCT,
    SUBJECT_SPEED, /* half a product, for the speed of each rank */
    SUBJECT_EXCHANGE,
    SUBJECT_COMM,    /* for the overlap: exchanges alone */
    SUBJECT_COMPUTE, /* for the overlap: products alone */
    SUBJECT_BOTH,    /* for the overlap: both at the same time */
    SUBJECT_STEP,    /* a step of a layer */
};

enum { TIMETABLE_SUBJECTS = 64, TIMETABLE_ROUNDS = 64 };

/* One thing that each round measures once, with its times; timetable_free() frees its batch. */
struct subject {
    enum subject_kind kind;
    enum link_level level; /* of exchanges and overlaps */
    int messages;          /* of an exchange: the most of any rank */
    double bytes;          /* of each message */
    int repeats;           /* how often one time repeats the work */
    struct chore chore;
    int64_t ns[TIMETABLE_ROUNDS];            /* times: the largest over the ranks */
    struct own_sample own[TIMETABLE_ROUNDS]; /* this rank's own times */
};

/* All subjects, and how many rounds measured them.  The caller sets world, bench and runner in a
 * zeroed one; timetable_free() frees the rest. */
struct timetable {
    struct world *world;
    struct workbench *bench; /* borrowed */
    struct runner *runner;   /* of the layer of SUBJECT_STEP; borrowed */
    struct subject subjects[TIMETABLE_SUBJECTS];
    int count;
    uint32_t rounds;
    double seconds; /* how long the rounds took */
};

/* Adds a subject with an empty chore.  ERR_NOMEM, on all ranks alike, if the table is full. */
int timetable_add(struct timetable *table, enum subject_kind kind, struct subject **out);

/* Times a subject twice after a warm-up, and gives the shorter time.  Collective. */
int timetable_time_twice(struct timetable *table, struct subject *subject, int64_t *ns);

/* Makes the subject repeat its chore so often that one time is long enough to measure; sets
 * `repeats`. Collective. */
int timetable_choose_repeats(struct timetable *table, struct subject *subject);

/* Measures all subjects in rounds, for about `seconds` and at least `rounds_least` rounds; calls
 * tick() (NULL: nothing) after each round.  Collective. */
int timetable_run(struct timetable *table, double seconds, uint32_t rounds_least, uint64_t seed,
                  void (*tick)(void *self, uint32_t rounds, double seconds), void *self);

/* Frees the subjects; a zeroed table is fine. */
void timetable_free(struct timetable *table);

/* Finds the next subject of this kind and level after `after` (NULL: from the start); NULL: none.
 */
const struct subject *timetable_find(const struct timetable *table, enum subject_kind kind,
                                     enum link_level level, const struct subject *after);

/* The time of a subject, per repeat: the median over the rounds minus the median of an empty step.
 * NAN if that is not above 0. */
double timetable_ns(const struct timetable *table, const struct subject *subject);

/* Copies this rank's own times of all SUBJECT_SPEED; returns how many. */
size_t timetable_own(const struct timetable *table, struct own_sample out[OWN_SAMPLES]);

#endif
