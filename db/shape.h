/* What follows from a layer's shape alone: the layout of experts over ranks, and the capacity. */
#ifndef SHAPE_H
#define SHAPE_H

#include "moelookup.h"

#include <stdint.h>

/* s: ranks that share one expert (1 when there are at least as many experts as ranks). */
uint32_t shape_slices(const struct moe_shape *shape);

/* Eg: experts whose weights one rank holds (1 when an expert is shared). */
uint32_t shape_local_experts(const struct moe_shape *shape);

/* b2 has no hidden dimension: it is cut along D, padded to a multiple of s. */
uint32_t shape_bias2_slice(const struct moe_shape *shape);

/* OK, or ERR_ARGUMENT with a message that names the value and the legal ones. */
int shape_check(const struct moe_shape *shape);

size_t dtype_bytes(uint32_t dtype);

/* The words of each enum, NULL-terminated, in the order of their values. */
extern const char *const dtype_words[];
extern const char *const pass_words[];
extern const char *const activation_words[];

/* Rows that one expert gets from one source rank.  `tokens` is the largest T over the ranks;
 * `needed` is the largest count any rank sends to any expert, used only for factor <= 0. */
uint64_t capacity_rows(double factor, uint32_t top_k, uint32_t experts, uint64_t tokens,
                       uint64_t needed);

#endif
