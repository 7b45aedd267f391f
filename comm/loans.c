/* Counts, for everything that is lent, which ranks have it open. */
#include "loans.h"

#include "status.h"

#include <stdatomic.h>

struct loan_board {
    _Atomic uint32_t holders[1][LOANS_MAX]; /* (lender, number) */
};

size_t loan_board_bytes(int ranks)
{
    return (size_t)ranks * sizeof(((struct loan_board *)0)->holders[0]);
}

static _Atomic uint32_t *holders_of(const struct loans *loans, int lender, uint32_t number)
{
    return &loans->board->holders[lender][number];
}

int loan_open(struct loans *loans, uint32_t *number)
{
    for (uint32_t i = 0; i < LOANS_MAX; i++)
        if (!loans->lent[i]) {
            loans->lent[i] = true;
            *number = i;
            return OK;
        }
    return fail(ERR_NOMEM, "more than %d allocations that others write to", LOANS_MAX);
}

void loan_take(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_add(holders_of(loans, lender, number), 1);
}

void loan_give_back(const struct loans *loans, int lender, uint32_t number)
{
    atomic_fetch_sub(holders_of(loans, lender, number), 1);
}

static int look(void *holders)
{
    return atomic_load((_Atomic uint32_t *)holders) ? UNSUPPORTED : OK;
}

int loan_end(struct loans *loans, uint32_t number)
{
    TRY(watch_until(loans->watch, look, holders_of(loans, loans->rank, number),
                    "other ranks to close what is to be freed"));
    loans->lent[number] = false;
    return OK;
}
