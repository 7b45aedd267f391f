/* A run that measures and writes to a database: its row from beginning to end, and how often what
 * it learns becomes durable.  The same for sweeps, trainers and launches of programs. */
#ifndef MEASURING_RUN_H
#define MEASURING_RUN_H

#include "cluster.h"
#include "store.h"

#include <stdbool.h>

/* Is this the machine that the database knows?  Finds it, or adds it.  If its soft fields have
 * changed its entries become stale, which is said.  Of a real cluster the model fields are filled
 * with what was measured before. */
int recognise(struct store *store, struct cluster *cluster, int64_t *id);

/* How often at most; shares are of the time that passes. */
struct run_pace {
    double commit_every_us;
    double commit_share, commit_at_last_us; /* unless the last one was so long ago; 0: no share */
    double publish_share;
    double alive_every_us;
};

struct run {
    struct store *store; /* borrowed */
    struct run_row row;  /* id 0: it has not begun */
    struct run_pace pace;
    double (*now_us)(void *self);
    void *self;
    bool unpublished; /* set by whoever has written what look-ups should find */

    double alive_us, committed_us, commit_took_us, published_us, publish_took_us;
};

/* Writes a row that says this, and what row.now and row.buckets_planned say already; durable. */
int run_begin(struct run *run, int64_t cluster, uint64_t seed, const char *search,
              const char *effort, const char *command);

/* The first run that this one goes on with: those of one command on this cluster since one of
 * another; `unfinished`: or since one that came to an end.  INT64_MAX: there is none. */
int run_first(struct store *store, int64_t cluster, const char *command, bool unfinished,
              int64_t *first);

/* The row as it is, for whoever looks while it runs (`moetune status`); durable. */
int run_write(struct run *run);

/* All three do nothing before it is time, `now_us` being what the run's clock says.  The first
 * tells other hosts that the owner of the database is alive; UNSUPPORTED: it was not time. */
int run_stay_alive(struct run *run, double now_us);
int run_commit(struct run *run, double now_us);
int run_publish(struct run *run, double now_us, bool at_once);

/* `rc`: how it ended; `now`: in words, NULL: as the state has it. */
int run_end(struct run *run, int rc, const char *now, bool publish);

#endif
