/* The load of a layer: how many choices each expert gets, where they are not random; and the other
 * conditions of a step besides layer, plan and capacity.
 *
 * The load and the capacity c are two things.  The load determines what the gate chooses: the T
 * tokens of every rank choose k T experts, with the same counts on each rank.  c limits the rows
 * that an expert gets from one rank; further choices are dropped.  With the mean m = k T/E and the
 * skew X, the hottest expert is chosen X m times.  So c >= X m drops nothing (factor 0 gives this
 * c), and a padded plan then computes X times the rows that are filled.
 *
 * A load may have several recorded steps; replayed.h says under which of them a capacity is
 * measured.  Column i E + e of a token determines whether it chooses expert e in step i, and the
 * gate reads the columns of one step.  So another step changes only the gate.
 *
 * A table stores the load's name: "skew 2", or for recorded counts their skew and a digest,
 * "max/mean 1.83 1a2b3c4d", or for 12 steps the median, "max/mean 1.83 of 12 1a2b3c4d".  Ranks, and
 * later `verify`, make the load again from its text: "skew 2", or "counts" and the counts of the
 * experts, or "replay" and the counts of all steps.
 *
 * Where ranks have shares by their speed, the load is these speeds, "speeds 1x100 1x50"; tokens
 * choose at random.  Any load may also have products in place of attention, "between 0.6": "speeds
 * 1x100 1x50; between 0.6".
 *
 * The real gate makes the choices: each expert has a column of its own, in which tokens have a
 * large number if they shall choose it (data.c).  So D must be at least E. */
#ifndef LOAD_H
#define LOAD_H

#include "layer_options.h"
#include "moelookup.h"
#include "replayed.h"
#include "store.h"

#include <stdbool.h>
#include <stddef.h>

/* How many recorded steps a file has in each class of skew. */
struct load_file {
    uint64_t steps[REPLAY_CLASSES];
};

/* A load; load_close() frees it.  At most one of `first`, `replay` and `speeds` is not NULL. */
struct load {
    uint32_t experts, tokens, ranks; /* tokens of a rank; ranks: number of speeds */
    uint64_t seed, step;             /* determine the order of a rank's tokens on the line */
    double skew;                     /* from --skew; 0: counts are given */
    uint64_t *first;         /* (E + 1): expert e has choices first[e] to first[e + 1] - 1 of k T */
    struct replayed *replay; /* several recorded steps */
    struct load_file file;   /* of files that were read now; zeros: the load is from a text */
    double *speeds;          /* (ranks) */
    double between;          /* GFLOP of products before each layer, in place of attention */
};

/* Makes a load of counts that fall by a power law.  `skew` is the largest count over the mean; the
 * seed determines which expert is the hottest.  ERR_ARGUMENT, after a message: skew is not from 1
 * to E/k (a token does not choose an expert twice). */
int load_open_skew(const struct moe_shape *shape, uint64_t seed, double skew, struct load **out);

/* Makes a load from files of counts that trainers recorded (counts_file.h).  It uses at most 16
 * steps, and at most D/E: of each bucket of `window` capacities at most 4, beginning with the
 * buckets that have most steps.  Of a bucket's steps, sorted by skew, it takes the middles of equal
 * parts. Where only one step remains, it is the one with the median skew, and all ranks have the
 * same choices.  Counts are scaled to W T k choices, unless their line states ranks and tokens.
 * ERR_FORMAT or ERR_IO, after a message that names the wrong line. */
int load_open_routing(const struct moe_shape *shape, uint32_t window, uint64_t seed,
                      const struct option_list *paths, struct load **out);

/* Makes the load that the options of a verb ask for; *out is NULL where they ask for none. */
int load_open(const struct moe_shape *shape, uint32_t window, uint64_t seed,
              const struct load_options *options, struct load **out);

/* Makes a load of the ranks' speeds, from a cluster's text (rank_speeds.h).  ERR_ARGUMENT, after a
 * message: the text does not have the speeds of all ranks. */
int load_open_speeds(const struct moe_shape *shape, const char *text, struct load **out);

/* The part of a load (or NULL) that determines counts: the load itself, or NULL. */
const struct load *load_counts(const struct load *load);

/* The speeds of ranks, or NULL. */
const double *load_speeds(const struct load *load);

/* The GFLOP of products in place of attention; 0: none. */
double load_between(const struct load *load);

/* Writes the text from which another process makes the same load, with layer and seed; "" for NULL.
 * ERR_ARGUMENT, after a message: the counts need a longer text. */
enum { LOAD_TEXT_BYTES = 32768 };
int load_text(const struct load *load, char text[LOAD_TEXT_BYTES]);

/* Makes a load from its text.  ERR_FORMAT, after a message: it is no load of this layer. */
int load_open_text(const struct moe_shape *shape, uint64_t seed, const char *text,
                   struct load **out);

/* Writes the name under which entries store the load; "" for NULL. */
void load_name(const struct load *load, char name[LOAD_NAME_BYTES]);
void load_close(struct load *load);

/* The recorded steps under which capacity c is measured; one step for a load without recorded
 * steps, and for NULL. */
struct replay_steps load_steps(const struct load *load, uint64_t capacity);

/* Number of all recorded steps; 1 for a load without recorded steps, and for NULL. */
uint32_t load_step_count(const struct load *load);

/* Number of choices of an expert on one rank. */
uint64_t load_count(const struct load *load, uint32_t step, uint32_t rank, uint32_t expert);

/* The largest count over the mean; for several steps the median; 0 without tokens. */
double load_skew(const struct load *load);

/* Rows of one rank's choices that a group of `experts` neighbouring experts keeps at capacity c:
 * the largest sum of min(count, c) of any group; for several steps the mean.  With experts = E it
 * is the sum of all, with E/W that of the fullest rank.  The load is a void pointer, for code that
 * knows only this function. */
uint64_t load_kept(const void *load, uint64_t capacity, uint32_t experts);

/* The most choices of any expert on one rank: at this capacity nothing is dropped. */
uint64_t load_most(const struct load *load);

/* Rows of one rank's choices that one expert keeps at capacity c; for several steps the mean. */
uint64_t load_kept_of(const struct load *load, uint64_t capacity, uint32_t rank, uint32_t expert);

/* True where token t of a rank chooses this expert.  With one step, all ranks have the same
 * choices, for tokens in another order. */
bool load_chooses(const struct load *load, uint32_t step, uint32_t rank, uint64_t token,
                  uint32_t expert);

enum { LOAD_WORDS_BYTES = 200 };

/* Describes the steps under which capacity c is measured: "3 recorded steps of max/mean 1.62
 * to 1.81 (up to 2), of ranks 1.1 to 1.3 (up to 1.25)".  The class is that of the median.  ""
 * without recorded steps. */
void load_words_at(const struct load *load, uint64_t capacity, char text[LOAD_WORDS_BYTES]);

/* Describes how many steps of each class a file had, and how many are replayed; "" where no file
 * was read. */
void load_words_file(const struct load *load, char text[LOAD_WORDS_BYTES]);

/* ---- between load.c and load_routing.c */

/* ERR_ARGUMENT, after a message: a load cannot determine what this layer's gate chooses. */
int load_check_width(const struct moe_shape *shape);

/* Allocates a load with zeroed `first`. */
int load_new(const struct moe_shape *shape, uint64_t seed, struct load **out);

/* Allocates a load that owns the replay; frees the replay on failure. */
int load_new_replay(const struct moe_shape *shape, uint64_t seed, struct replayed *replay,
                    struct load **out);

/* Divides k T choices in proportion to the shares of E experts, and writes first[1] to first[E]. No
 * expert gets more than T. */
void load_fill(uint64_t *first, uint32_t experts, uint64_t tokens, uint32_t top_k,
               const double *share);

/* The reason why no gate chooses like this, with `sum` choices of which one expert has `most`;
 * NULL: a gate may. */
const char *load_fault(double sum, double most, uint32_t top_k);

#endif
