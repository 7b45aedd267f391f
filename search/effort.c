/* The table of efforts. */
#include "effort.h"

#include <stddef.h>

const struct effort efforts[] = {
    { "quick", "two buckets per doubling of c", 2, 0.006, 0, 0.95, 10 },
    { "normal", "four buckets per doubling of c; doubtful ones between are measured", 4, 0.003,
      0.02, 0.99, 20 },
    { "thorough", "every bucket, and twice as sure", 0, 0.0015, 0, 0.99, 60 },
};
const char *const effort_words[] = { "quick", "normal", "thorough", NULL };
