/* Verdicts as a person reads them, and as JSON. */
#ifndef VERIFY_PRINT_H
#define VERIFY_PRINT_H

#include "verdicts.h"
#include "verify_entries.h"

#include <stdio.h>

extern const char *const verify_words[]; /* by enum verify_kind */

/* Entries of each kind; refuted ones of an earlier run count as such. */
struct verify_count {
    uint32_t of[VERIFY_REFUTED + 1];
    uint32_t refuted_earlier;
};
struct verify_count verify_count(const struct verify_entries *claims);

/* A table per layer of what this run has found, and of what an earlier one has refuted; then the
 * totals of all.  Sorted by layer. */
int verify_table(struct store *store, const struct verify_entries *claims, FILE *to);

/* What this run has found, for other programs. */
int verify_files(const struct verify_entries *claims, const struct verdict_files *files);

/* An array of objects. */
void verify_json(const struct verify_entries *claims, FILE *to);

#endif
