/* Prints tables and their proof, for a person and as JSON. */
#ifndef TABLES_H
#define TABLES_H

#include "moelookup.h"
#include "options.h"
#include "store.h"

#include <stdio.h>

/* Prints the tables of a layer on a cluster, and what each saves as a whole.  Neighbouring buckets
 * with the same plan share a line.  Ids and a width of 0 mean any.  Adds to *words what
 * tables_legend() has to explain.  UNSUPPORTED, without a message, if there is no table. */
int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 const struct option_list *traffic, unsigned *words, FILE *to);
/* Explains the words that tables_print() used. */
void tables_legend(unsigned words, FILE *to);

/* Prints the tables of all layers, then the legend.  If there are several layers, a list of them
 * comes first.  `every`: each bucket has its own line.  Below each table stand its age, its pins,
 * and why it does not answer trainers, if it does not.  `wanted`: only layers that shape_agrees()
 * with it; NULL: all.  `traffic`: see launch_table_read(). */
int tables_print_all(struct store *store, const char *wanted, bool every,
                     const struct option_list *traffic, FILE *to);

/* Prints the lines above a table: the layer and its cluster. */
int tables_heading(struct store *store, int64_t cluster, int64_t shape, FILE *to);

/* Prints an array of JSON objects, one for each layer and width: {"cluster": ..., "shape": ...,
 * "pins":
 * [...], "answers": whether it answers trainers, "entries": [...]}. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, const char *wanted,
                const struct option_list *traffic, FILE *to);

/* Prints members of an object: the keys and the class of buckets of a declared space, as ,
 * "key_from": 65, "key_to": 256, "class": "<=1.25".  key_to of the open last range is null. "class"
 * is null if the space has none, or the buckets have several.  Prints nothing for moetune's own
 * layer. */
void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *to);

/* Prints members of an object: , "gain": ..., "rounds": ...  row NULL: nothing is known. */
void tables_json_standing(const struct standing_row *row, FILE *to);

#endif
