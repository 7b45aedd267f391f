/* Plans of a space that a program declares: a choice instead of moetune's own axes.  plan.c asks
 * here for what a plan or a shape with a space is made of. */
#ifndef DECLARED_PLAN_H
#define DECLARED_PLAN_H

#include "declaration.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>

/* That of the space, with everything else as MOE_PLAN_INIT has it. */
struct moe_plan declared_plan(uint32_t space, uint32_t choice);

/* The default; the choice 0 where this process does not know the space. */
struct moe_plan declared_plan_default(uint32_t space);

/* As plan_list(). */
size_t declared_plan_list(uint32_t space, struct moe_plan *plans, size_t room);

bool declared_plan_legal(const struct moe_plan *plan, uint32_t space);

/* As plan_check(). */
int declared_plan_check(const struct moe_plan *plan, uint32_t space);

/* "num_sms=20 backend=deepep space=deepep-v1@3f2a91c0": length as snprintf has it, or
 * MOE_ERR_ARGUMENT for what this process does not know. */
int declared_plan_format(const struct moe_plan *plan, char *text, size_t size);

/* The same without its space: what the program itself is told. */
int declared_plan_words(const struct moe_plan *plan, char *text, size_t size);

/* Whether a text names a space, so that it is for the next function. */
bool declared_plan_claims(const char *text);
int declared_plan_parse(const char *text, struct moe_plan *out); /* MOE_ERR_FORMAT */

#endif
