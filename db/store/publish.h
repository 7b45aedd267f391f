/* The snapshot that readers get. */
#ifndef PUBLISH_H
#define PUBLISH_H

#include <stdbool.h>

/* Makes PATH.published from the database at PATH, which must not be in a transaction: whole in one
 * moment, or not at all. */
int publish(const char *path, bool relaxed);

/* Makes the same and throws it away: OK if it would come out whole. */
int publish_dry_run(const char *path);

#endif
