/* The dictionary and its proof as a person reads them, and as JSON. */
#ifndef TABLES_H
#define TABLES_H

#include "moelookup.h"
#include "options.h"
#include "store.h"

#include <stdio.h>

/* One layer's dictionary and what it is worth as a whole; buckets with the same plan share a line.
 * Ids and a width of 0 mean any.  Adds to *words what tables_legend() has to explain.  UNSUPPORTED,
 * silently, if there is none. */
int tables_print(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 const struct option_list *traffic, unsigned *words, FILE *to);
void tables_legend(unsigned words, FILE *to);

/* All layers, a line for each of the buckets if `every`, and under each table how old it is, which
 * plans are pinned in it, and why trainers are not told it, if they are not; then the legend. Where
 * layers are several a list of them comes first.  `wanted`: those alone that shape_agrees() with
 * it; NULL: all.  `traffic`: as launch_table_read() has it. */
int tables_print_all(struct store *store, const char *wanted, bool every,
                     const struct option_list *traffic, FILE *to);

/* The two lines above such a table: the layer and its cluster. */
int tables_heading(struct store *store, int64_t cluster, int64_t shape, FILE *to);

/* Of layers as above, an array of objects, one per layer and window: {"cluster": ..., "shape": ...,
 * "pins": [...], "answers": whether trainers are told it, "entries": [...]}. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, const char *wanted,
                const struct option_list *traffic, FILE *to);

/* Members of an object: , "key_from": 65, "key_to": 256, "class": "<=1.25", what buckets of a
 * declared space stand for.  key_to of the open last range and "class", where there is none or the
 * buckets are of several, are null.  Nothing for moetune's own plans. */
void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *to);

/* Members of an object: , "gain": ..., "rounds": ...; NULL: nothing is known. */
void tables_json_standing(const struct standing_row *row, FILE *to);

#endif
