/* Verdicts as a person reads them, and as JSON. */
#ifndef VERIFY_TABLE_H
#define VERIFY_TABLE_H

#include "verify_entry.h"

#include <stdio.h>

extern const char *const verify_words[]; /* by enum verify_kind */

/* Entries of each kind; refuted ones of an earlier run count as such. */
struct verify_count {
    uint32_t of[VERIFY_REFUTED + 1];
    uint32_t refuted_earlier;
};
struct verify_count verify_count(const struct verify_result *verdicts, size_t count);

/* A table per layer of what this run has found, and of what an earlier one has refuted; then the
 * totals of all.  Sorted by layer. */
int verify_table(struct store *store, const struct verify_result *verdicts, size_t count, FILE *to);

/* An array of objects. */
void verify_json(const struct verify_result *verdicts, size_t count, FILE *to);

#endif
