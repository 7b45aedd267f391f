/* A campaign is one run of a verb that measures: its ranks, its database and its time.  `tune` and
 * `verify` use it. */
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

/* The options of a campaign, as the command line has them. */
struct campaign_setup {
    struct place_setup where;
    const char *db, *sim;
    double timeout_s;           /* for one trial */
    double budget_s;            /* 0: no limit */
    int64_t memory_limit_bytes; /* per rank; 0: see campaign_memory_limit() */
    uint64_t seed;
    uint32_t graphs; /* enum graphs_way */
    bool steal, repair, quiet;
    bool phases;   /* also time the phases of each plan */
    bool existing; /* UNSUPPORTED if there is no database; false: create it */
};
#define CAMPAIGN_DEFAULTS .where = PLACE_DEFAULTS, .timeout_s = 120

/* Options that fill struct campaign_setup: where to measure, for how long, and which database. */
extern const struct option_row campaign_where_rows[], campaign_limit_rows[], campaign_table_rows[];

/* A campaign in progress.  The caller sets `setup` and `command`; campaign_lead() opens and closes
 * the rest. */
struct campaign {
    const struct campaign_setup *setup; /* borrowed */
    char path[PATH_MAX], command[1024]; /* the database; the command that continues the run */
    struct cluster cluster;             /* set by the verb's prepare() */
    int64_t cluster_id;                 /* set by campaign_recognise() */
    uint32_t steps_are;                 /* enum steps_are; set by campaign_recognise() */
    struct store *store;
    struct crew *crew;
    struct world *world; /* under a launcher; NULL: this process starts ranks, at `where` */
    struct launch_where where;
    struct hosts hosts;
    struct run run;
    struct progress progress;
    struct heat heat;              /* of this run's steps */
    char load[LOAD_NAME_BYTES];    /* expert load of the present layer's steps */
    uint32_t held_back;            /* disturbed steps in a row, of any plans */
    int64_t begun_ns, deadline_ns; /* on the host clock; deadline 0: none */
};

/* A verb that runs as a campaign. */
struct campaign_verb {
    /* Runs on every rank before anything is opened: checks options against the cluster that is here
     * (unknown with --sim). */
    int (*prepare)(void *self, const struct cluster *here);
    /* Runs on one rank, with an open database and ranks that take orders. */
    int (*run)(void *self);
    void *self;
};

/* Writes the command that continues a run: argv, quoted for a shell, as many words as fit.  It
 * leaves out `once`, a flag that has done its work, and `anew`, an option with a value that the
 * caller replaces.  NULL: neither. */
enum { CAMPAIGN_COMMAND_BYTES = 1024 };
void campaign_command(char **argv, const char *once, const char *anew,
                      char command[CAMPAIGN_COMMAND_BYTES]);

/* ERR_ARGUMENT after a message for options that contradict each other. */
int campaign_check(const struct campaign_setup *setup);

/* The most memory that a rank may use on this cluster, in bytes. */
int64_t campaign_memory_limit(const struct campaign_setup *setup, const struct cluster *cluster);

/* Finds or starts ranks, opens the database, runs the verb on one rank, and closes everything.  It
 * catches interrupts: see campaign_over(). */
int campaign_lead(struct campaign *campaign, const struct campaign_verb *verb);

/* Finds this machine in the database, or adds it.  If it has changed, its entries become stale.
 * Whether steps are CUDA graphs is part of its environment. */
int campaign_recognise(struct campaign *campaign);

/* Writes a row for this run.  Durable. */
int campaign_begin(struct campaign *campaign, const char *search, const char *effort,
                   uint32_t buckets);

/* The first run that this one continues: the same command on the same machine, with no complete run
 * since.  Without one it is this run itself, or INT64_MAX before campaign_begin(). */
int campaign_first_run(const struct campaign *campaign, int64_t *run);

/* Ends the run: writes its row and publishes the table.  It calls `print` if the table is usable,
 * and prints the command that continues if rc is ERR_CUT.  Returns rc, or an error of its own. */
int campaign_finish(struct campaign *campaign, int rc, int (*print)(void *self), void *self);

/* Prints how heat and power, and other processes, disturbed this run's steps, if it is known. */
void campaign_print_heat(const struct campaign *campaign, FILE *to);

/* Sets up a layer on all ranks.  Later samples are of this layer under this expert load, whose name
 * the database stores. */
int campaign_layer(struct campaign *campaign, const struct moe_shape *shape,
                   const struct load *load, int64_t memory_limit_bytes);

/* Whether an interrupt came or the budget is spent, so that nothing new may begin. */
bool campaign_over(const struct campaign *campaign);

/* Publishes the table; without `now` only if the last time was long enough ago. */
int campaign_publish(struct campaign *campaign, bool now);

/* ---- one trial on the ranks */

/* Writes that a plan is ruled out: it needs `bytes` per rank, and `memory_limit_bytes` are allowed.
 */
int attempt_rule_out(struct campaign *campaign, struct attempt *attempt, int64_t bytes,
                     int64_t memory_limit_bytes);

/* The result of a step. */
struct campaign_step {
    int64_t ns;  /* 0: it failed, and the trial's row says how; this is no error */
    bool counts; /* false: it was disturbed and has to be repeated */
};

/* Times one step on the ranks, stores it as a sample, and shows it on the progress line and to
 * `moetune status`. */
int attempt_step(struct campaign *campaign, struct attempt *attempt, enum sample_kind kind,
                 uint32_t round, struct campaign_step *out);

#endif
