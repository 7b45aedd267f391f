/* Recorded steps of a trainer, and the rule under which of them a capacity is measured.
 *
 * A step's counts are those of all W ranks, W k T choices.  They lie one after the other on a line.
 * Of each stretch [a,b), rank q has the part floor((a+q)/W) to floor((b+q)/W).  So each rank has k
 * T choices, and all ranks together have exactly the recorded counts.
 *
 * A bucket of R capacities is measured under the steps whose capacity lies in it.  A bucket without
 * steps uses those of the nearest bucket that has some; of two, the lower one. */
#ifndef REPLAYED_H
#define REPLAYED_H

#include "moelookup.h"

#include <stddef.h>
#include <stdint.h>

/* The most steps that are replayed, of all buckets and of one bucket of capacities. */
enum { REPLAY_STEPS_MOST = 16, REPLAY_BUCKET_MOST = 4 };

/* The replayed steps, sorted by capacity; replay_close() frees them. */
struct replayed {
    uint32_t window, experts, ranks, count; /* window: R; count: steps */
    uint32_t on_rank;                       /* experts that a rank has, wholly or in part */
    uint64_t capacity[REPLAY_STEPS_MOST];
    uint64_t *ends; /* (count, E + 1) where experts begin and end on the line of W k T choices */
};

/* Some consecutive steps. */
struct replay_steps {
    uint32_t first, count;
};

/* The steps under which this capacity is measured. */
struct replay_steps replay_at(const struct replayed *replay, uint64_t capacity);

/* Where expert e begins on rank q's line of k T choices; it ends where expert e + 1 begins. */
uint64_t replay_first(const struct replayed *replay, uint32_t step, uint32_t rank, uint32_t expert);

/* Number of choices of an expert on all ranks. */
uint64_t replay_count(const struct replayed *replay, uint32_t step, uint32_t expert);

/* The largest count of an expert over the mean. */
double replay_skew(const struct replayed *replay, uint32_t step);

/* The median of replay_skew() over all steps. */
double replay_median_skew(const struct replayed *replay);

/* The largest count of a rank (for all its experts) over the mean. */
double replay_rank_skew(const struct replayed *replay, uint32_t step);

/* Rows of one rank's choices that a group of `experts` experts keeps at capacity c: the largest of
 * all groups, and the mean over steps and ranks. */
uint64_t replay_kept(const struct replayed *replay, struct replay_steps steps, uint64_t capacity,
                     uint32_t experts);

/* Classes of skew: "up to 1.25", "up to 2", "above 2". */
enum { REPLAY_CLASSES = 3 };
extern const char *const replay_class_words[REPLAY_CLASSES];
int replay_class(double skew);

/* Allocates memory for so many steps. */
int replay_open(const struct moe_shape *shape, uint32_t window, uint32_t count,
                struct replayed **out);
void replay_close(struct replayed *replay); /* NULL is fine */

/* Writes "replay 64: 640 310 95 64 43, 700 ...": R, and for each step its capacity and E counts.
 * Returns the length, or `size` if the text does not fit. */
size_t replay_text(const struct replayed *replay, char *text, size_t size);

/* Reads such a text.  UNSUPPORTED, without a message: it is no such text for this layer. */
int replay_read(const struct moe_shape *shape, const char *text, struct replayed **out);

#endif
