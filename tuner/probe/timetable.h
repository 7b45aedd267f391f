/* Chores in shuffled rounds: what is measured, how often, and the times. */
#ifndef TIMETABLE_H
#define TIMETABLE_H

#include "probe.h"
#include "runner.h"
#include "workbench.h"

enum subject_kind {
    SUBJECT_EMPTY, /* a step in which nothing is done */
    SUBJECT_LAUNCH,
    SUBJECT_COPY,
    SUBJECT_PRODUCT,
    SUBJECT_SPEED, /* half a product, for each rank's own time */
    SUBJECT_EXCHANGE,
    SUBJECT_COMM, /* for the overlap: exchanges alone, products alone, both */
    SUBJECT_COMPUTE,
    SUBJECT_BOTH,
    SUBJECT_STEP, /* of a layer */
};

enum { TIMETABLE_SUBJECTS = 64, TIMETABLE_ROUNDS = 64 };

struct subject {
    enum subject_kind kind;
    enum link_level level; /* of exchanges, and of overlaps */
    int messages;          /* of an exchange, the most over the ranks */
    double bytes;          /* of each message */
    int repeats;           /* of what is measured, in one time */
    struct chore chore;
    int64_t ns[TIMETABLE_ROUNDS];            /* largest over the ranks */
    struct own_sample own[TIMETABLE_ROUNDS]; /* this rank's */
};

struct timetable {
    struct world *world;
    struct workbench *bench; /* borrowed, as is the layer's runner */
    struct runner *runner;
    struct subject subjects[TIMETABLE_SUBJECTS];
    int count;
    uint32_t rounds;
    double seconds; /* that the rounds took */
};

/* One more, zeroed; ERR_NOMEM, on all ranks or on none, if there is no room. */
int timetable_add(struct timetable *table, enum subject_kind kind, struct subject **out);

/* The time of one go after a first one that warms up: the least of two.  Collective. */
int timetable_try(struct timetable *table, struct subject *subject, int64_t *ns);

/* Repeats a chore until one time is worth taking; its `repeats` grows alike.  Collective. */
int timetable_lengthen(struct timetable *table, struct subject *subject);

/* Rounds of every subject for about `seconds`, at least `least` of them.  Collective. */
int timetable_run(struct timetable *table, double seconds, uint32_t least, uint64_t seed,
                  void (*tick)(void *self, uint32_t rounds, double seconds), void *self);

void timetable_free(struct timetable *table);

/* The first of this kind and level that comes after `after` (NULL: from the start); NULL: none. */
const struct subject *timetable_find(const struct timetable *table, enum subject_kind kind,
                                     enum link_level level, const struct subject *after);

/* Median over the rounds, less what an empty step takes, per repeat; NAN if nothing is left. */
double timetable_ns(const struct timetable *table, const struct subject *subject);

/* This rank's own times of SUBJECT_SPEED; returns how many. */
size_t timetable_own(const struct timetable *table, struct own_sample out[OWN_SAMPLES]);

#endif
