/* The one account of what a rank allocates for a layer and its plans: asked before anything is.
 * What wires and libraries take is not in it; who opens them counts what is free afterwards. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include "capacities.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the account depends on besides layer and plan. */
struct account_machine {
    bool on_host;         /* it computes on cores, whose memory holds the reference, too */
    bool checks;          /* results are compared with the reference */
    uint32_t baseline;    /* enum baseline, of plans */
    double between;       /* GFLOP that stand for attention, before each layer */
    size_t cache_bytes;   /* of struct device; 0 also where it is not known */
    const double *speeds; /* of the ranks, unless MOE_SHARES_EQUAL; borrowed; NULL: alike */
};

/* All in bytes of one rank, the most that any rank needs; INT64_MAX: more than any machine has. */

/* Parameters, gradients, tokens: what is there before a plan is opened. */
int64_t account_layer(const struct moe_shape *shape, const struct account_machine *machine);

/* A plan that is open at this capacity, beside the layer. */
int64_t account_plan(const struct moe_shape *shape, const struct account_machine *machine,
                     const struct moe_plan *plan, uint64_t capacity);

/* The same where experts have capacities of their own, on the rank whose experts take most. */
int64_t account_capacities(const struct moe_shape *shape, const struct account_machine *machine,
                           const struct moe_plan *plan, const struct capacities *capacities);

/* While it is checked, beside both; 0 where it never is. */
int64_t account_check(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan);

/* The three together: what a rank must have for this plan alone. */
int64_t account_alone(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan, uint64_t capacity);

int64_t account_sum(int64_t a, int64_t b); /* INT64_MAX where that does not fit */

/* "31.2 MiB", "6.04 GiB"; "unlimited memory" for INT64_MAX.  The result lasts as long as the block
 * around it. */
enum { ACCOUNT_TEXT_BYTES = 24 };
#define ACCOUNT_TEXT(bytes) account_text(bytes, (char[ACCOUNT_TEXT_BYTES]){ 0 })
const char *account_text(int64_t bytes, char room[ACCOUNT_TEXT_BYTES]);

#endif
