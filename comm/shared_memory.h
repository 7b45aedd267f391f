/* Memory that all ranks of one host see. */
#ifndef SHARED_MEMORY_H
#define SHARED_MEMORY_H

#include "world.h"

/* Zeroed; the same bytes on every rank.  Collective, the same status on every rank: ERR_WIRE where
 * ranks do not share /dev/shm. */
int shared_memory_open(struct world *world, size_t bytes, void **out);
void shared_memory_close(void *memory, size_t bytes); /* NULL is fine */

#endif
