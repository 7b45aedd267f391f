/* The story of an entry: what was tried, what it took, why this plan. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "store.h"

#include <stdio.h>

/* Of every layer that has this bucket.  UNSUPPORTED, silently, if none has. */
int explain_bucket(struct store *store, uint32_t bucket, FILE *to);

#endif
