/* Rows of options that several verbs have: one text and one meaning each.  `at` is where the value
 * lies in the verb's options. */
#ifndef COMMON_ROWS_H
#define COMMON_ROWS_H

#include "options.h"
#include "screen.h"

/* auto without a table is off: most trainers launch. */
enum graphs_way { GRAPHS_AUTO, GRAPHS_ON, GRAPHS_OFF, GRAPHS_AHEAD };
extern const char *const graphs_words[];
uint32_t graphs_steps_are(uint32_t graphs_way); /* enum steps_are; auto: eager */

/* Where a value lies in the `struct options` of a verb. */
#define OPTION(member) offsetof(struct options, member)

/* clang-format off */
/* const char *, for store_path() */
#define DB_ROW(at) \
    { "db", "FILE", OPTION_TEXT, at, \
      "the database (else $MOETUNE_DB, $MOELOOKUP_DB, or moetune/moetune.db under $XDG_DATA_HOME)" }
/* bool */
#define JSON_ROW(at) { "json", NULL, OPTION_FLAG, at, "print JSON" }
/* uint32_t: enum screen_color */
#define COLOR_ROW(at) \
    { "color", "WHEN", OPTION_WORD, at, \
      "auto: on a terminal, unless NO_COLOR is set", screen_color_words }
#define QUIET_ROW(at) { "quiet", NULL, OPTION_FLAG, at, "no progress" }
#define DRY_RUN_ROW(at) { "dry-run", NULL, OPTION_FLAG, at, "say what would happen, write nothing" }
/* uint64_t */
#define SEED_ROW(at) { "seed", "N", OPTION_SEED, at, "of random data and of the order" }
/* double: a share of the default plan's time */
#define MARGIN_ROW(at, help) { "margin", "SHARE", OPTION_NUMBER, at, help, .least = 0, .most = 1 }
/* const char *, for layer_plans_buckets() */
#define BUCKETS_ROW(at, help) { "buckets", "LO:HI", OPTION_TEXT, at, help }
/* const char *, for cluster_hex_agrees() */
#define FINGERPRINT_ROW(at) \
    { "fingerprint", "HASH", OPTION_TEXT, at, "only clusters whose hash begins so" }
/* const char *, or a struct option_list, for shape_agrees() */
#define SHAPE_FILTER_ROW(kind, at, more) \
    { "shape", "TEXT", kind, at, "only layers of which this is true: \"E=8 H=4096\"" more }
/* struct option_list of files for traffic_read() */
#define TRAFFIC_ROW(name, at, help) \
    { name, "FILE", OPTION_LIST, at, help " (files of MOELOOKUP_RECORD; again for more)" }
/* uint32_t; 0: not given */
#define WINDOW_ROW(at, else_) \
    { "window", "R", OPTION_COUNT, at, "width of a bucket in rows (" else_ ")", \
      .least = 1, .most = 1 << 20 }
/* uint32_t: enum graphs_way */
#define GRAPHS_ROW(at) \
    { "graphs", "WORD", OPTION_WORD, at, \
      "on: steps are CUDA graphs, as in a trainer that replays them; off: launch by launch; ahead: " \
      "so, but the GPU begins when all is queued, as behind a host that is ahead; auto: as the " \
      "table's were, else off", \
      graphs_words }
/* clang-format on */

#endif
