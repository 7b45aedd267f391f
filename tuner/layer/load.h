/* What a step is given besides layer, plan and capacity.
 *
 * First how many choices each expert gets, where it is not left to random numbers: what real
 * routing does to experts that compute only the rows there are.
 *
 * A load and a capacity c are two things.  The load says what the gate chooses: every rank's T
 * tokens choose k T experts, shared out in the same way on each rank.  c says how many rows an
 * expert takes from one rank, as without a load; what is chosen beyond it is dropped.  With the
 * mean m = k T/E and the skew X the hottest expert is chosen X m times, so c >= X m drops nothing
 * (factor 0 gives this c), and a padded plan then computes X times the rows that are filled.
 *
 * Of several steps that were recorded each capacity is measured under some, see replayed.h: column
 * i E + e of a token says whether it chooses expert e in step i, and the gate is told to look at
 * those of one step.  So going from one step to the next changes the gate alone.
 *
 * What is tuned under a load keeps its name, "skew 2" or, of counts that were recorded, their skew
 * and a digest: "max/mean 1.83 1a2b3c4d", and of 12 steps their median, "max/mean 1.83 of 12
 * 1a2b3c4d".  Ranks, and a verification later on, make it again from its text: "skew 2", or
 * "counts" and k T choices shared out to the experts, or "replay" and those of all ranks and steps.
 *
 * Of a layer whose ranks have shares by their speed the load is those speeds, "speeds 1x100 1x50":
 * what a rank is given.  Its tokens choose at random.
 *
 * Either goes with products that stand for attention, "between 0.6"; of both: "speeds 1x100 1x50;
 * between 0.6".
 *
 * The real gate makes the choices: tokens point at the experts that they are to choose, each along
 * a column of its own (see data.c), so D has to be at least E. */
#ifndef LOAD_H
#define LOAD_H

#include "layer_options.h"
#include "moelookup.h"
#include "replayed.h"
#include "store.h"

#include <stdbool.h>
#include <stddef.h>

/* How many recorded steps a file has, by how uneven experts are. */
struct load_file {
    uint64_t steps[REPLAY_CLASSES];
};

struct load {
    uint32_t experts, tokens, ranks; /* tokens of a rank; ranks of speeds only */
    uint64_t seed, step;             /* in which order a rank's tokens take their choices */
    double skew;                     /* that was asked for; 0: counts are given */
    uint64_t *first; /* (E + 1): an expert's choices are first[e] to first[e + 1] of the k T */
    struct replayed *replay; /* several steps: then `first` is NULL */
    struct load_file file;   /* of what was read now; zeros: from a text */
    double *speeds;          /* of the ranks: then both are NULL, and so is this where one is not */
    double between;          /* GFLOP before each layer; all of the others may be NULL then */
};

/* `skew` is the largest over the mean of the counts, which fall as powers do; which expert is the
 * hottest depends on the seed.  ERR_ARGUMENT, which names the range, for one that cannot be: no
 * expert is chosen twice by one token, so skew <= E/k. */
int load_open_skew(const struct moe_shape *shape, uint64_t seed, double skew, struct load **out);

/* From files of counts that trainers recorded (counts_file.h); equal capacities of a bucket of
 * `window` are one.  Of several steps are taken: of each bucket of capacities, those with most
 * steps first, 4 at most, in the middle of as many equal parts of its steps by skew; 16 in all, and
 * no more than D/E.  Where one is left it is the median of the skew, and each rank has the same
 * choices. What is not W T k choices is scaled to that, unless its line says of how many ranks and
 * tokens it is.  ERR_FORMAT or ERR_IO after a message, with the line where one is wrong. */
int load_open_routing(const struct moe_shape *shape, uint32_t window, uint64_t seed,
                      const struct option_list *paths, struct load **out);

/* What the options of a verb ask for; *out is NULL where they ask for none. */
int load_open(const struct moe_shape *shape, uint32_t window, uint64_t seed,
              const struct load_options *options, struct load **out);

/* Of ranks that are as fast as the text of a cluster says (rank_speeds.h).  ERR_ARGUMENT after a
 * message where that is not of all of them. */
int load_open_speeds(const struct moe_shape *shape, const char *text, struct load **out);

/* Its parts, of NULL none: what experts get, what ranks are given (NULL where nothing is said of
 * it), and what is computed besides. */
const struct load *load_counts(const struct load *load);
const double *load_speeds(const struct load *load);
double load_between(const struct load *load);

/* All that another process has to know of it, beside layer and seed; "" for NULL.  ERR_ARGUMENT
 * after a message for counts of more experts than such a text holds. */
enum { LOAD_TEXT_BYTES = 32768 };
int load_text(const struct load *load, char text[LOAD_TEXT_BYTES]);
/* ERR_FORMAT after a message for what is no such text of this layer. */
int load_open_text(const struct moe_shape *shape, uint64_t seed, const char *text,
                   struct load **out);
/* The name by which entries keep it; "" for NULL. */
void load_name(const struct load *load, char name[LOAD_NAME_BYTES]);
void load_close(struct load *load);

/* The steps that a layer is measured under at capacity c, and how many there are in all; one where
 * they are not several, also of NULL. */
struct replay_steps load_steps(const struct load *load, uint64_t capacity);
uint32_t load_step_count(const struct load *load);

/* Choices of an expert on one rank. */
uint64_t load_count(const struct load *load, uint32_t step, uint32_t rank, uint32_t expert);
double load_skew(const struct load *load); /* of several steps the median; 0 without tokens */
/* Rows that are left of one rank's choices where experts take c of each: sum of min(count, c), of
 * several steps the mean; of so many neighbouring experts those that keep most: of E all, of E/W
 * what the fullest rank gets.  The load is a pointer of any type, for those who are told only this
 * function. */
uint64_t load_kept(const void *load, uint64_t capacity, uint32_t experts);

/* The most choices that an expert has on one rank: at this capacity nothing is dropped. */
uint64_t load_most(const struct load *load);
/* Of what is kept the rows of one rank's choices for one expert, rounded. */
uint64_t load_kept_of(const struct load *load, uint64_t capacity, uint32_t rank, uint32_t expert);

/* Token t of a rank chooses this expert; where there is one step, the same on every rank but for
 * the order of the tokens. */
bool load_chooses(const struct load *load, uint32_t step, uint32_t rank, uint64_t token,
                  uint32_t expert);

/* What recorded steps are like, in words: how uneven experts are, and ranks. */
enum { LOAD_WORDS_BYTES = 200 };

/* Under what capacity c is measured: "3 recorded steps of max/mean 1.62 to 1.81 (up to 2), of ranks
 * 1.1 to 1.3 (up to 1.25)".  The class is that of the median.  "" where no step was recorded. */
void load_words_at(const struct load *load, uint64_t capacity, char text[LOAD_WORDS_BYTES]);

/* How many steps a file had of each class, and how many are replayed; "" where none was read. */
void load_words_file(const struct load *load, char text[LOAD_WORDS_BYTES]);

/* ---- between load.c and load_routing.c */

/* ERR_ARGUMENT after a message for a layer whose gate cannot be told what to choose. */
int load_check_width(const struct moe_shape *shape);
int load_new(const struct moe_shape *shape, uint64_t seed, struct load **out);
/* Takes the replay, also where it fails. */
int load_new_replay(const struct moe_shape *shape, uint64_t seed, struct replayed *replay,
                    struct load **out);
/* k T choices in proportion to E shares, from first[0] = 0 to first[E]; none above T. */
void load_fill(uint64_t *first, uint32_t experts, uint64_t tokens, uint32_t top_k,
               const double *share);
/* Why no gate chooses like this, where there are so many choices and one expert has `most`; NULL:
 * one may. */
const char *load_fault(double sum, double most, uint32_t top_k);

#endif
