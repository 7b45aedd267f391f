/* Rows of options that several verbs share, so that an option has one text and one meaning.  `at`
 * is the offset of the option's member in the verb's struct; the comment above a row names the
 * member's type, and what reads it. */
#ifndef COMMON_ROWS_H
#define COMMON_ROWS_H

#include "options.h"
#include "screen.h"

/* The words of --graphs.  Without a table auto means off: most trainers issue kernel by kernel. */
enum graphs_way { GRAPHS_AUTO, GRAPHS_ON, GRAPHS_OFF, GRAPHS_AHEAD };
extern const char *const graphs_words[];
/* The enum steps_are of a word of --graphs; of auto it is STEPS_EAGER. */
uint32_t graphs_steps_are(uint32_t graphs_way);

/* The offset of a member in a verb's `struct options`. */
#define OPTION(member) offsetof(struct options, member)

/* clang-format off */
/* const char *, for store_path() */
#define DB_ROW(at) \
    { "db", "FILE", OPTION_TEXT, at, \
      "the database [$MOETUNE_DB, else $MOELOOKUP_DB, else moetune/moetune.db under " \
      "$XDG_DATA_HOME]" }
/* bool */
#define JSON_ROW(at) { "json", NULL, OPTION_FLAG, at, "print JSON" }
/* uint32_t: enum screen_color */
#define COLOR_ROW(at) \
    { "color", "WHEN", OPTION_WORD, at, \
      "use colours: auto (on a terminal, unless NO_COLOR is set), always, never", \
      screen_color_words }
#define QUIET_ROW(at) { "quiet", NULL, OPTION_FLAG, at, "print no progress" }
#define DRY_RUN_ROW(at) \
    { "dry-run", NULL, OPTION_FLAG, at, "print what would happen, write nothing" }
/* uint64_t */
#define SEED_ROW(at) { "seed", "N", OPTION_SEED, at, "seed of random data and of the random order" }
/* double: a share of the default plan's time */
#define MARGIN_ROW(at, help) { "margin", "SHARE", OPTION_NUMBER, at, help, .least = 0, .most = 1 }
/* const char *, for layer_plans_buckets() */
#define BUCKETS_ROW(at, help) { "buckets", "LO:HI", OPTION_TEXT, at, help }
/* const char *, for cluster_hex_agrees() */
#define FINGERPRINT_ROW(at) \
    { "fingerprint", "HASH", OPTION_TEXT, at, "only clusters whose hash begins with HASH" }
/* const char *, or a struct option_list, for shape_agrees() */
#define SHAPE_FILTER_ROW(kind, at, more) \
    { "shape", "TEXT", kind, at, "only layers with these values, as \"E=8 H=4096\"" more }
/* struct option_list of files for traffic_read() */
#define TRAFFIC_ROW(name, at, help) \
    { name, "FILE", OPTION_LIST, at, help " (a MOELOOKUP_RECORD file; may be repeated)" }
/* uint32_t; 0: not given */
#define WINDOW_ROW(at, else_) \
    { "window", "R", OPTION_COUNT, at, "width of a bucket: so many capacities [" else_ "]", \
      .least = 1, .most = 1 << 20 }
/* uint32_t: enum graphs_way */
#define GRAPHS_ROW(at) \
    { "graphs", "WORD", OPTION_WORD, at, \
      "how the host issues a GPU step: on (one CUDA graph), off (kernel by kernel), ahead " \
      "(kernel by kernel, and the GPU starts when all are queued), auto (as for the table, " \
      "else off)", \
      graphs_words }
/* clang-format on */

#endif
