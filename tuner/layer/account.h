/* How much memory a rank needs for a layer and its plans, computed before it allocates anything.
 * The memory of wires and libraries is not included; the code that opens them measures it. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include "capacities.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the account depends on besides layer and plan.  A plain value. */
struct account_machine {
    bool on_host;         /* the device is host, so its memory holds the reference, too */
    bool checks;          /* results are compared with the reference */
    uint32_t baseline;    /* enum baseline of the plans */
    double between;       /* GFLOP of products before each layer, in place of attention */
    size_t cache_bytes;   /* as in struct device; 0: none, or unknown */
    const double *speeds; /* of the ranks, borrowed; NULL: all are equal (MOE_SHARES_EQUAL) */
};

/* Each function gives bytes of one rank, the most that any rank needs.  INT64_MAX: more than any
 * machine has. */

/* Bytes of the layer without a plan: parameters, gradients and tokens. */
int64_t account_layer(const struct moe_shape *shape, const struct account_machine *machine);

/* Bytes that an open plan needs at this capacity, in addition to the layer. */
int64_t account_plan(const struct moe_shape *shape, const struct account_machine *machine,
                     const struct moe_plan *plan, uint64_t capacity);

/* Bytes that an open plan needs where experts have different capacities, on the rank whose experts
 * get most rows. */
int64_t account_capacities(const struct moe_shape *shape, const struct account_machine *machine,
                           const struct moe_plan *plan, const struct capacities *capacities);

/* Bytes that a check of the plan needs, in addition to layer and plan; 0 without checks. */
int64_t account_check(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan);

/* The sum of layer, plan and check: what a rank needs to run this plan alone. */
int64_t account_alone(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan, uint64_t capacity);

/* a + b; INT64_MAX where the sum overflows. */
int64_t account_sum(int64_t a, int64_t b);

/* Bytes as text, "31.2 MiB" or "6.04 GiB"; "unlimited memory" for INT64_MAX.  ACCOUNT_TEXT() is
 * valid until the end of the enclosing block. */
enum { ACCOUNT_TEXT_BYTES = 24 };
#define ACCOUNT_TEXT(bytes) account_text(bytes, (char[ACCOUNT_TEXT_BYTES]){ 0 })
const char *account_text(int64_t bytes, char text[ACCOUNT_TEXT_BYTES]);

#endif
