/* Of a run under recorded steps: those of its capacity, one after the other. */
#ifndef RUN_STEPS_H
#define RUN_STEPS_H

#include "runner.h"

/* Compares the results in each of them with the reference; *worst as rig_check() has it. */
int run_steps_check(struct rig *rig, struct runner *runner, double *worst);

/* Choices dropped over all ranks, on average; of one step in the last one. */
int run_steps_dropped(struct rig *rig, struct runner *runner, int64_t *dropped);

/* ERR_ARGUMENT after a message where tokens choose other experts from step to step. */
int run_steps_check_known(const struct load *load);

#endif
