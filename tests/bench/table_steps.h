/* What a table cost: the steps of all runs that are in its database. */
#ifndef TABLE_STEPS_H
#define TABLE_STEPS_H

#include "store.h"

struct table_steps {
    double timed, warm;
};
int table_steps(struct store *store, struct table_steps *out);

#endif
