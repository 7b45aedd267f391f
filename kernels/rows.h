/* A row of elements in a storage type, to and from f32.  `at` and `n` count elements. */
#ifndef ROWS_H
#define ROWS_H

#include <stdint.h>

/* Columns handled at a time by those who need f32 accumulators: they stay on the stack, in L1. */
enum { ROW_LINE = 1024 };

void row_load(uint32_t type, const void *from, uint64_t at, float *to, uint64_t n);
void row_store(uint32_t type, void *to, uint64_t at, const float *from, uint64_t n);
void row_add(uint32_t type, const void *from, uint64_t at, float scale, float *to, uint64_t n);

#endif
