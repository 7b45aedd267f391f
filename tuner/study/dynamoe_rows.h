/* The rows of DynaMoE's study; each file explains its own. */
#ifndef DYNAMOE_ROWS_H
#define DYNAMOE_ROWS_H

#include "modelled_step.h"
#include "study.h"

enum { DYNAMOE_EXPERTS = 8, DYNAMOE_RANKS = 4 };

/* The layer of all rows; capacities are the caller's. */
struct modelled_ask dynamoe_ask(void);

int dynamoe_figure6(const struct cluster *machine, struct study_table *table);
int dynamoe_figure8(const struct cluster *machine, struct study_table *table);
int dynamoe_figure9(const struct cluster *machine, struct study_table *table);
int dynamoe_figure10(const struct cluster *machine, struct study_table *table);

const char *dynamoe_machine(void);

#endif
