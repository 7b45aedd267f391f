/* What a rank lends to others of its host and may only end when all have given it back: memory and
 * events that their processes have open.  CUDA leaves undefined what becomes of a mapping whose
 * owner frees the memory first. */
#ifndef LOANS_H
#define LOANS_H

#include "watch.h"

#include <stddef.h>

enum { LOANS_MAX = 256 }; /* of one rank at a time */

struct loan_board; /* shared by all ranks; zeroed memory is a board on which nothing is lent */
size_t loan_board_bytes(int ranks);

struct loans {
    struct loan_board *board; /* borrowed */
    int rank;
    const struct watch *watch;
    bool lent[LOANS_MAX]; /* by this rank */
};

/* The lender's: a number, for borrowers to say.  ERR_NOMEM when there are too many. */
int loan_open(struct loans *loans, uint32_t *number);

/* The borrowers', any number of times; take before opening, give back after closing. */
void loan_take(const struct loans *loans, int lender, uint32_t number);
void loan_give_back(const struct loans *loans, int lender, uint32_t number);

/* The lender's: waits until all have given it back.  ERR_WIRE: they may never; then what was lent
 * must be left as it is, and so is the loan. */
int loan_end(struct loans *loans, uint32_t number);

#endif
