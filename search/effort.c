/* The table of efforts: how many buckets are measured, and how thoroughly. */
#include "effort.h"

const struct effort efforts[] = {
    { "quick", "two buckets per doubling of c", 2, 1.2e-4, 0, 20, 2, 3 },
    { "normal", "three buckets per doubling of c; doubtful ones between are measured", 3, 7e-5,
      0.02, 40, 4, 2 },
    { "thorough", "every bucket, and more steps for each", 0, 1e-5, 0, 80, 6, 2 },
};
