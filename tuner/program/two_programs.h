/* moetune verify --exec: a program against another one, or against itself under another table, step
 * by step in turn or, where they have a space of their own, launch by launch.  They speak as
 * programs do that tune --exec starts. */
#ifndef TWO_PROGRAMS_H
#define TWO_PROGRAMS_H

#include "options.h"

#include <stdint.h>

struct two_programs {
    const char *exec, *against;     /* commands; against NULL: the same */
    const char *db, *against_table; /* whose plans they are told; against_table NULL: the default
                                     * plan's, where the command is the same, else db's */
    const char *space;              /* file of the space that the programs have; NULL: none */
    const struct option_list
        *shapes;           /* of tables with several layers, which; empty: the only one */
    uint32_t warmup;       /* steps of each at each key that do not count */
    uint32_t launch_steps; /* of a launch, which are a sample */
    double margin, budget_s, silence_s;
    uint64_t seed;
    bool json, quiet, steal;
    const char *command; /* of the user's, for the run's row */
};

/* Options that fill exec, against, against_table, space, launch_steps and warmup. */
extern const struct option_row two_programs_rows[];

/* Where one program met the default plan under a table that programs were measured for, its
 * database learns what came of it, as from any verification: what is not slower is kept with fresh
 * gains, what is slower, or fails, gives way to the default plan. ERR_WRONG: the first is slower at
 * some key, or fails.  ERR_CUT: time was up. */
int two_programs(const struct two_programs *options);

#endif
