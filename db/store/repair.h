/* What of a damaged database makes sense, and another one made of it. */
#ifndef REPAIR_H
#define REPAIR_H

#include "records.h"

/* Every page, every row and what the rows say; negative, said once, if anything is wrong. */
int repair_check(struct records *records);

/* Renames the file, so that it can still be looked at; `to` is its new name. */
int repair_set_aside(const char *path, char *to, size_t size);

/* Fills an empty database from the journal; where that has gaps from the snapshot and from
 * `aside`, the damaged file.  Rows that make no sense are left out.  Then the journal is written
 * anew, and the old one set aside if not all of it could be used. */
int repair_fill(struct records *records, const char *aside);

/* Writes the journal of a database that has lost it. */
int repair_journal(struct records *records);

#endif
