/* How many rows a=rail needs for a node, because it sends a token's row to each node only once. */
#ifndef NODE_ROWS_H
#define NODE_ROWS_H

#include "moelookup.h"

/* Returns the share of tokens that have a choice on a given one of `nodes` nodes, where routing is
 * random. At least one of the k experts must be there; with groups, also one of the token's
 * groups. */
double shape_node_share(const struct moe_shape *shape, uint32_t nodes);

/* Returns c1 of a=rail: the rows that a source has room for, per node. `need` is the highest number
 * of tokens that one source sends to a node; 0: not known. Where the capacity has more room than
 * balanced routing of `tokens` fills, c1 grows in proportion. It never exceeds the tokens or the
 * slots. */
uint64_t shape_node_rows(const struct moe_shape *shape, uint64_t tokens, uint64_t need,
                         uint64_t capacity);

/* Returns the average need under random routing. */
uint64_t shape_node_need(const struct moe_shape *shape, uint64_t tokens);

#endif
