/* Steps that a trainer recorded, and which of them a capacity is measured under.
 *
 * A step's counts are those of all W ranks, W k T choices.  They lie end to end on a line, and rank
 * q has of each stretch [a,b) the part floor((a+q)/W) to floor((b+q)/W): k T choices for each rank,
 * and of all ranks together exactly what was counted.
 *
 * A bucket of R capacities is measured under the steps whose capacity lies in it; where there is
 * none, under those of the nearest bucket that has some, in doubt the lower one. */
#ifndef REPLAYED_H
#define REPLAYED_H

#include "moelookup.h"

#include <stddef.h>
#include <stdint.h>

/* Most steps that are replayed, and most of one bucket of capacities. */
enum { REPLAY_STEPS_MOST = 16, REPLAY_BUCKET_MOST = 4 };

struct replayed {
    uint32_t window, experts, ranks, count;
    uint32_t on_rank;                     /* experts that a rank has, wholly or in part */
    uint64_t capacity[REPLAY_STEPS_MOST]; /* rising */
    uint64_t *ends;                       /* (count, E + 1) on the line of W k T choices */
};

/* Of a part of all steps, from `first` on. */
struct replay_steps {
    uint32_t first, count;
};
struct replay_steps replay_at(const struct replayed *replay, uint64_t capacity);

/* On its line of k T choices rank q gives expert e those from here to where expert e + 1 begins. */
uint64_t replay_first(const struct replayed *replay, uint32_t step, uint32_t rank, uint32_t expert);
/* Choices of an expert on all ranks. */
uint64_t replay_count(const struct replayed *replay, uint32_t step, uint32_t expert);
/* The largest over the mean of what experts get, and of what ranks receive for theirs. */
double replay_skew(const struct replayed *replay, uint32_t step);
double replay_median_skew(const struct replayed *replay);
double replay_rank_skew(const struct replayed *replay, uint32_t step);
/* How many of a rank's choices are left where experts take c of each: the mean over steps and
 * ranks. */
uint64_t replay_kept(const struct replayed *replay, struct replay_steps steps, uint64_t capacity,
                     uint32_t experts);

/* How uneven experts are, in words: "up to 1.25", "up to 2", "above 2". */
enum { REPLAY_CLASSES = 3 };
extern const char *const replay_class_words[REPLAY_CLASSES];
int replay_class(double skew);

/* Room for so many steps; replay_close() of NULL is fine. */
int replay_open(const struct moe_shape *shape, uint32_t window, uint32_t count,
                struct replayed **out);
void replay_close(struct replayed *replay);

/* "replay 64: 640 310 95 64 43, 700 ...": R, and of each step its capacity and E counts.  Returns
 * its length, or `size` where it has no room. */
size_t replay_text(const struct replayed *replay, char *text, size_t size);
/* UNSUPPORTED, silently: it is no such text of the layer. */
int replay_read(const struct moe_shape *shape, const char *text, struct replayed **out);

#endif
