/* What two programs, or one under two tables, are compared in: at each key which plan each side is
 * told, how long its steps take, and what comes of it. */
#ifndef TWO_SIDES_H
#define TWO_SIDES_H

#include "contest.h"
#include "launch_watch.h"
#include "lines.h"
#include "lookup.h"
#include "two_programs.h"

enum { SIDES = 2 };

struct side {
    const char *name, *command;
    struct moelookup *table; /* NULL: it is told the default plan */
    struct moelookup_view *view;
};

/* Steps of one bucket. */
struct key {
    uint32_t bucket, seen[SIDES];
    struct moe_plan plan[SIDES];
    struct contest *contest;
    char why[200]; /* the first side failed */
    bool same;     /* one program and one plan: there is nothing to compare */
    bool settled;  /* nothing more is wanted here */

    /* Of two_launches.c. */
    struct watched watched;
    size_t way[SIDES];    /* by which each side shows its plan */
    uint32_t warm;        /* steps of this launch that did not count */
    uint32_t shown;       /* the last launch that gave a sample; 0: none */
    uint32_t dead[SIDES]; /* launches that died in a step */
};

struct two_sides {
    const struct two_programs *options;
    struct side side[SIDES];
    struct moe_shape shape;
    const struct declaration *space; /* NULL: moetune's own plans */
    uint32_t window;
    uint32_t pairs_max; /* at a key */
    struct key *keys;
    size_t key_count;
    int64_t deadline_ns;
};

/* Reads the space and the tables. */
int two_sides_open(const struct two_programs *options, struct two_sides *out);
void two_sides_close(struct two_sides *t);

/* What a trainer would be told by the side's table. */
struct moe_plan two_sides_plan(const struct two_sides *t, int side, uint32_t bucket, uint64_t key);

/* The index of the key in whose bucket a question lies; `fresh`: it is a new one. */
int two_sides_key(struct two_sides *t, uint32_t bucket, size_t *at, bool *fresh);
uint32_t two_sides_bucket(const struct two_sides *t, const struct said *ask);
uint32_t two_sides_settled(const struct two_sides *t); /* keys */

void two_sides_tell(const struct two_sides *t, struct key *key, int side, int64_t ns);
/* A side cannot run its plan there.  ERR_LAUNCH if it is the second one: the first has nothing to
 * be compared with. */
int two_sides_lose(const struct two_sides *t, struct key *key, int side, const char *why);

/* Prints and writes verdicts; ERR_WRONG if the first side is slower at some key, or fails;
 * ERR_LAUNCH if there is no verdict at any. */
int two_sides_report(struct two_sides *t);

/* ---- the two ways to compare */

/* Both run, and steps take turns.  What differs between two starts of one program is not seen. */
int two_programs_meet(struct two_sides *t);

/* One launch after the other, of either side, so that their luck is a part of what is compared: of
 * programs with a space. */
int two_launches(struct two_sides *t);

#endif
