/* A run that measures and writes to a database: its row, and how often its results become durable.
 * `tune`, `verify`, `tune --exec` and libmoetune use it. */
#ifndef MEASURING_RUN_H
#define MEASURING_RUN_H

#include "cluster.h"
#include "store.h"

#include <stdbool.h>

/* Finds this cluster in the database, or adds it.  If its soft fields have changed, its entries
 * become stale, with a message.  A real cluster gets the model numbers that were measured before.
 */
int recognise(struct store *store, struct cluster *cluster, int64_t *id);

/* How often a run commits, publishes and reports that it is alive.  A share is the most of the
 * passing time that the action may take. */
struct run_pace {
    double commit_every_us;
    double commit_share,
        commit_at_last_us; /* the share no longer holds after so long; 0: no share */
    double publish_share;
    double alive_every_us;
};

/* A run in progress.  The caller sets store, pace, now_us and self. */
struct run {
    struct store *store; /* borrowed */
    struct run_row row;  /* id 0: it has not begun */
    struct run_pace pace;
    double (*now_us)(void *self); /* the run's clock */
    void *self;
    bool unpublished; /* set by the caller after it wrote something that look-ups should find */

    double alive_us, committed_us, commit_took_us, published_us, publish_took_us;
};

/* Writes the run's row, with row.now and row.buckets_planned as the caller set them.  Durable. */
int run_begin(struct run *run, int64_t cluster, uint64_t seed, const char *search,
              const char *effort, const char *command);

/* The first run that this one continues.  A run continues the earlier runs of its command on this
 * cluster, back to a run of another command; with `unfinished` also back to a complete run.
 * INT64_MAX: there is none. */
int run_first(struct store *store, int64_t cluster, const char *command, bool unfinished,
              int64_t *first);

/* Writes the present row, so that `moetune status` can show it.  Durable. */
int run_write(struct run *run);

/* Reports to other hosts that the owner of the database is alive.  UNSUPPORTED: it is too soon. */
int run_stay_alive(struct run *run, double now_us);
/* Commits, or does nothing if it is too soon. */
int run_commit(struct run *run, double now_us);
/* Publishes the table.  Without `at_once` it does nothing if it is too soon or nothing is new. */
int run_publish(struct run *run, double now_us, bool at_once);

/* Writes the end of the run.  `rc`: its status; `now`: a reason in words, NULL: the state's word.
 */
int run_end(struct run *run, int rc, const char *now, bool publish);

#endif
