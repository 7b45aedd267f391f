/* What this machine is: the fields of a fingerprint that can be read without measuring. */
#ifndef MACHINE_H
#define MACHINE_H

#include "cluster.h"

/* Memory that is free on this machine now; INT64_MAX if it cannot be told. */
int64_t machine_free_bytes(void);

/* This host as a cluster of CPU ranks. */
struct cluster machine_cluster(uint32_t ranks, uint32_t ranks_per_node);

#endif
