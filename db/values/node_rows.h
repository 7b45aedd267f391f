/* Rows of tokens that go to a node once (a=rail). */
#ifndef NODE_ROWS_H
#define NODE_ROWS_H

#include "moelookup.h"

/* The share of tokens that have a choice on one of so many nodes, where routing is random: of k
 * experts that differ one at least is there, and so is one of the token's groups, if it has some.
 */
double shape_node_share(const struct moe_shape *shape, uint32_t nodes);

/* c1 of a=rail, the rows that a source has for a node: `need`, which is the most tokens that one
 * sends there, more where the capacity has room for more than balanced routing of `tokens` fills,
 * never more than tokens or slots.  need 0: not known. */
uint64_t shape_node_rows(const struct moe_shape *shape, uint64_t tokens, uint64_t need,
                         uint64_t capacity);

/* That need as random routing has it on average. */
uint64_t shape_node_need(const struct moe_shape *shape, uint64_t tokens);

#endif
