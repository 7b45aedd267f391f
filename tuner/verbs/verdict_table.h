/* Verdicts as a person reads them, and as JSON. */
#ifndef VERDICT_TABLE_H
#define VERDICT_TABLE_H

#include "verdict.h"

#include <stdio.h>

extern const char *const verdict_words[]; /* by enum verdict_kind */

/* Entries of each kind; refuted ones of an earlier run count as such. */
struct verdict_count {
    uint32_t of[VERDICT_REFUTED + 1];
    uint32_t refuted_earlier;
};
struct verdict_count verdict_count(const struct verdict *verdicts, size_t count);

/* A table per layer of what this run has found, and of what an earlier one has refuted; then the
 * totals of all.  Sorted by layer. */
int verdict_table(struct store *store, const struct verdict *verdicts, size_t count, FILE *to);

/* An array of objects. */
void verdict_json(const struct verdict *verdicts, size_t count, FILE *to);

#endif
