/* The launches of a table of a declared space: what each takes for all buckets together, by how
 * often these are asked for, and which of them a job is to be started with. */
#ifndef LAUNCH_TABLE_H
#define LAUNCH_TABLE_H

#include "declaration.h"
#include "options.h"
#include "store.h"

/* How often each bucket of a layer is asked for, by the files of --traffic, or each doubling of the
 * key alike where there are none.  The caller frees *out.  ERR_ARGUMENT after a sentence for
 * traffic of other layers. */
int launch_weights(const struct option_list *traffic, const struct moe_shape *shape,
                   uint32_t window, double **out, size_t *count);

struct launch_total {
    const char *words; /* of its restart axes */
    double us, sd;     /* weighted over buckets; of its logarithm.  0: it was not seen in all */
    bool told, usual;  /* a job is to start with it; it is the default launch */
};

struct launch_table {
    struct row_list rows; /* struct launch_row */
    struct launch_total *launches;
    size_t count;
    bool by_traffic;
    int told;          /* its number; -1: no entry says */
    struct gain price; /* what a job saves beside it that starts anew for each range */
};

/* UNSUPPORTED, silently: the table is none of several launches.  With files of traffic the launch
 * that is told is chosen by these: the fastest of those that are slower than the default launch by
 * more than 1 % with a chance of at most 1 %; without, it is the one that `tune` has chosen.  To be
 * freed in any case. */
int launch_table_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                      const struct option_list *traffic, struct launch_table *out);
void launch_table_free(struct launch_table *table);

/* The words of the launch that is told by this traffic, of the table of a layer on the cluster of
 * that hash in the database at `path`.  ERR_ARGUMENT after a sentence: it has no launches. */
int launch_table_choose(const char *path, const struct moe_shape *shape, const uint8_t *cluster,
                        const struct option_list *traffic, char words[DECLARATION_PLAN_BYTES]);

/* Lines of a person's table; a member ", 'launches': [...]" of JSON. */
void launch_table_print(const struct launch_table *table, const char *key, FILE *to);
void launch_table_json(const struct launch_table *table, FILE *to);

#endif
