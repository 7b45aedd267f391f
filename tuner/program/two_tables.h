/* `moetune verify --exec`: compares a program under one table with itself under another, launch by
 * launch.  The program writes the same lines as for `tune --exec`. */
#ifndef TWO_TABLES_H
#define TWO_TABLES_H

#include "options.h"

#include <stdint.h>

/* The options of a comparison.  All pointers are borrowed. */
struct two_tables {
    const char *exec;                 /* the command */
    const char *db, *against_table;   /* the two tables; against_table NULL: the default plan */
    const char *space;                /* file of the program's declared space; NULL: it has none */
    const struct option_list *shapes; /* which layer of each table; empty: its only one */
    struct option_list traffic; /* records that weigh buckets, if a table has one set of launch
                                 * values */
    uint32_t warmup;            /* steps of each launch at each bucket that do not count */
    uint32_t launch_steps;      /* of a sample */
    double margin, budget_s, silence_s;
    uint64_t seed;
    bool json, quiet, steal;
    const char *command; /* the user's command line, for the run's row */
};

/* The options that fill exec, against_table, space, launch_steps and warmup. */
extern const struct option_row two_tables_rows[];

/* Compares the tables, and prints the verdicts.
 *
 * If the other side is the default plan, and the table is one that programs were measured for, the
 * verdicts change its database.  An entry that is not slower stays, with a new gain; an entry that
 * is slower, or fails, gives way to the default plan.
 *
 * ERR_WRONG: the first table is slower in some bucket, or fails.  ERR_CUT: time is up. */
int two_tables(const struct two_tables *options);

#endif
