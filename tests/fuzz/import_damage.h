/* Damages an exported table so that the importer checks more than its checksum. */
#ifndef IMPORT_DAMAGE_H
#define IMPORT_DAMAGE_H

#include "fuzzer.h"

extern fuzz_way *const import_ways[];
extern const size_t import_way_count;

/* Order, hashes, counts and checksum are right again, mostly. */
void import_mend(struct fuzz_input *in);

#endif
