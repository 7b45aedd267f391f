/* moetune verify --exec: a program under one table against itself under another, launch by launch.
 * It speaks as programs do that tune --exec starts. */
#ifndef TWO_TABLES_H
#define TWO_TABLES_H

#include "options.h"

#include <stdint.h>

struct two_tables {
    const char *exec;               /* a command */
    const char *db, *against_table; /* whose plans it is told; against_table NULL: the default */
    const char *space;              /* file of the space that the program has; NULL: none */
    const struct option_list
        *shapes;                /* of tables with several layers, which; empty: the only one */
    struct option_list traffic; /* by which buckets count, where the table has one launch for all */
    uint32_t warmup;            /* steps of a launch at each key that do not count */
    uint32_t launch_steps;      /* of a launch, which are a sample */
    double margin, budget_s, silence_s;
    uint64_t seed;
    bool json, quiet, steal;
    const char *command; /* of the user's, for the run's row */
};

/* Options that fill exec, against_table, space, launch_steps and warmup. */
extern const struct option_row two_tables_rows[];

/* Where one program met the default plan under a table that programs were measured for, its
 * database learns what came of it, as from any verification: what is not slower is kept with fresh
 * gains, what is slower, or fails, gives way to the default plan. ERR_WRONG: the first is slower at
 * some key, or fails.  ERR_CUT: time was up. */
int two_tables(const struct two_tables *options);

#endif
