/* The launches of a table of a declared space.  Here a launch is a set of launch values, the values
 * of the axes that need a restart: what a step takes in each, over all buckets
 * together, and with which of them a job should be started.  Buckets are weighted by traffic. */
#ifndef LAUNCH_TABLE_H
#define LAUNCH_TABLE_H

#include "declaration.h"
#include "options.h"
#include "store.h"

/* Makes the weight of each bucket of a layer: look-ups in the files of --traffic or, without files,
 * the same for each doubling of the key.  The caller frees *out.  ERR_ARGUMENT after a message if
 * the traffic is of other layers. */
int launch_weights(const struct option_list *traffic, const struct moe_shape *shape,
                   uint32_t window, double **out, size_t *count);

/* One launch, summed over buckets.  `words` lies in the rows of its table. */
struct launch_total {
    const char *words; /* the values of its restart axes */
    double us, sd; /* weighted time of a step, 0: not seen in all buckets; sd of its logarithm */
    bool is_chosen, is_default; /* a job should start with it; it is the default launch */
};

/* All launches of one table; owns its rows and totals. */
struct launch_table {
    struct row_list rows; /* struct launch_row */
    struct launch_total *launches;
    size_t count;
    bool by_traffic;
    int chosen;        /* the number of the chosen launch; -1: none */
    struct gain price; /* what a job saves beside it that restarts for each range */
};

/* Reads the launches of a table.  Without traffic the chosen launch is the one that `tune` chose.
 * With traffic it is the fastest one whose chance of being more than 1 % slower than the default
 * launch is at most 1 %.  UNSUPPORTED, without a message: the table has no launches.
 * launch_table_free() also after an error. */
int launch_table_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                      const struct option_list *traffic, struct launch_table *out);
void launch_table_free(struct launch_table *table);

/* Writes the values of the launch that this traffic chooses, in the table of a layer on the cluster
 * with this hash, in the database at `path`.  ERR_ARGUMENT after a message: the table has no
 * launches. */
int launch_table_choose(const char *path, const struct moe_shape *shape, const uint8_t *cluster,
                        const struct option_list *traffic, char words[DECLARATION_PLAN_BYTES]);

/* Print lines for a person, and the members ", 'launch': ..., 'launches': [...]" of a JSON object.
 */
void launch_table_print(const struct launch_table *table, const char *key, FILE *out);
void launch_table_json(const struct launch_table *table, FILE *out);

#endif
