/* Prints tables and their proof, for a person and as JSON. */
#ifndef TABLES_H
#define TABLES_H

#include "moelookup.h"
#include "options.h"
#include "store.h"

#include <stdio.h>

/* Prints the tables of a layer on a cluster, and what each saves as a whole.  Neighbouring buckets
 * with the same plan share a line.  Ids and a width of 0 mean any.  Adds to *legend_words what
 * tables_legend() has to explain.  UNSUPPORTED, without a message, if there is no table. */
int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 const struct option_list *traffic, unsigned *legend_words, FILE *out);
/* Explains the words that tables_print() used. */
void tables_legend(unsigned legend_words, FILE *out);

/* Prints the tables of all layers, then the legend.  If there are several layers, a list of them
 * comes first.  `line_per_bucket`: each bucket has its own line.  Below each table stand its age,
 * its pins, and why it does not answer trainers, if it does not.  `shape_filter`: only layers that
 * shape_agrees() with it; NULL: all.  `traffic`: see launch_table_read(). */
int tables_print_all(struct store *store, const char *shape_filter, bool line_per_bucket,
                     const struct option_list *traffic, FILE *out);

/* Prints the lines above a table: the layer and its cluster. */
int tables_heading(struct store *store, int64_t cluster, int64_t shape, FILE *out);

/* Prints an array of JSON objects, one for each layer and width: {"cluster": ..., "shape": ...,
 * "pins":
 * [...], "answers": whether it answers trainers, "entries": [...]}. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, const char *shape_filter,
                const struct option_list *traffic, FILE *out);

/* Prints members of an object: the keys and the class of buckets of a declared space, as ,
 * "key_from": 65, "key_to": 256, "class": "<=1.25".  key_to of the open last range is null. "class"
 * is null if the space has none, or the buckets have several.  Prints nothing for moetune's own
 * layer. */
void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *out);

/* Prints members of an object: , "gain": ..., "rounds": ...  row NULL: nothing is known. */
void tables_json_standing(const struct standing_row *row, FILE *out);

#endif
