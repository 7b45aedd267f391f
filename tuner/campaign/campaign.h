/* A stretch of measuring, whichever verb asks for it: its ranks, its database, its time.  What it
 * learns becomes durable so often that little can be lost, and so seldom that it costs nothing. */
#ifndef CAMPAIGN_H
#define CAMPAIGN_H

#include "cluster.h"
#include "crew.h"
#include "heat.h"
#include "ledger.h"
#include "load.h"
#include "measuring_run.h"
#include "place.h"
#include "progress.h"
#include "store.h"

#include <limits.h>
#include <stdio.h>

/* What the command line says, and as it says it. */
struct campaign_setup {
    struct place_setup where;
    const char *db, *sim;
    double timeout_s;           /* for one trial */
    double budget_s;            /* 0: none */
    int64_t memory_limit_bytes; /* of a rank; 0: see campaign_memory_limit() */
    uint64_t seed;
    uint32_t graphs; /* enum graphs_way */
    bool steal, repair, quiet;
    bool phases;   /* of each plan that is measured */
    bool existing; /* UNSUPPORTED where there is no database, instead of a new one */
};
#define CAMPAIGN_DEFAULTS .where = PLACE_DEFAULTS, .timeout_s = 120

/* Options that fill struct campaign_setup: where it is measured, for how long, and which table it
 * goes to. */
extern const struct option_row campaign_where_rows[], campaign_limit_rows[], campaign_table_rows[];

struct campaign {
    const struct campaign_setup *setup; /* borrowed */
    char path[PATH_MAX], command[1024]; /* the database; what to type to go on */
    struct cluster cluster;             /* set by `prepare` */
    int64_t cluster_id;                 /* since campaign_recognise() */
    uint32_t steps_are;                 /* enum steps_are; since then too */
    struct store *store;
    struct crew *crew;
    struct world *world; /* under a launcher; NULL: ranks are started, at `where` */
    struct launch_where where;
    struct hosts hosts;
    struct run run;
    struct progress progress;
    struct heat heat;              /* of this run's steps */
    char load[LOAD_NAME_BYTES];    /* of the steps that are under way */
    uint32_t held_back;            /* disturbed steps in a row, whatever plan they were of */
    int64_t begun_ns, deadline_ns; /* on the host clock; deadline 0: none */
};

/* What a verb does with it. */
struct campaign_verb {
    /* On every rank, before anything is opened: options against the cluster there is (unknown where
     * one is modelled). */
    int (*prepare)(void *self, const struct cluster *here);
    /* Where the database is open and the ranks obey. */
    int (*run)(void *self);
    void *self;
};

/* What to type to go on: argv, with words quoted that a shell would take apart, and as many of them
 * as fit.  `once`: a flag that has done its work, `anew`: an option, with its value, that the
 * caller says anew; they are left out.  NULL: none. */
enum { CAMPAIGN_COMMAND_BYTES = 1024 };
void campaign_command(char **argv, const char *once, const char *anew,
                      char command[CAMPAIGN_COMMAND_BYTES]);

/* ERR_ARGUMENT after a message for options that contradict each other. */
int campaign_check(const struct campaign_setup *setup);

/* What one rank may use on this cluster. */
int64_t campaign_memory_limit(const struct campaign_setup *setup, const struct cluster *cluster);

/* Finds or starts ranks, opens the database, runs the verb on one of them, closes everything.
 * Interrupts are caught: see campaign_over(). */
int campaign_lead(struct campaign *campaign, const struct campaign_verb *verb);

/* Finds this machine in the database, or adds it; entries become stale if it has changed.  Whether
 * steps are graphs is part of its environment: what was measured in the other way is stale. */
int campaign_recognise(struct campaign *campaign);

/* A row for this run, durable. */
int campaign_begin(struct campaign *campaign, const char *search, const char *effort,
                   uint32_t buckets);

/* The first run that this one goes on with: of the same command on the same machine, and none of
 * those since came to an end.  Without one it is this run itself, or INT64_MAX before it has begun.
 */
int campaign_first_run(const struct campaign *campaign, int64_t *run);

/* The run's row gets its end, the table is published, `print` speaks if it is usable, and what is
 * to be typed is said if rc is ERR_CUT.  Returns rc, or what went wrong here. */
int campaign_finish(struct campaign *campaign, int rc, int (*print)(void *self), void *self);

/* A line of what heat and power did to this run's steps, and one of what other processes did, if
 * anything is known. */
void campaign_print_heat(const struct campaign *campaign, FILE *to);

/* The layer that orders are about.  What is sampled from now on was taken under that load, whose
 * name has a meaning in this database from then on. */
int campaign_layer(struct campaign *campaign, const struct moe_shape *shape,
                   const struct load *load, int64_t memory_limit_bytes);

/* An interrupt came, or the budget is spent: nothing new may begin. */
bool campaign_over(const struct campaign *campaign);

int campaign_publish(struct campaign *campaign, bool now);

/* ---- one plan at one bucket on its way through the ranks */

/* Needs `bytes` per rank where `memory_limit_bytes` are allowed: never runs. */
int attempt_rule_out(struct campaign *campaign, struct attempt *attempt, int64_t bytes,
                     int64_t memory_limit_bytes);

struct campaign_step {
    int64_t ns;  /* 0: it failed; the row says how, and that is no error */
    bool counts; /* false: something held it back, and it is to be taken again */
};

/* One timed step, kept as a sample, and said on the progress line and to `moetune status`. */
int attempt_step(struct campaign *campaign, struct attempt *attempt, enum sample_kind kind,
                 uint32_t round, struct campaign_step *out);

#endif
