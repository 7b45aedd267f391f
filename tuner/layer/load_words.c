/* Puts recorded steps into words. */
#include "load_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct range {
    double least, median, most;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct range range_of(const struct replayed *r, struct replay_steps steps,
                             double (*skew)(const struct replayed *, uint32_t))
{
    double all[REPLAY_STEPS_MOST] = { 0 };

    for (uint32_t i = 0; i < steps.count; i++)
        all[i] = skew(r, steps.first + i);
    qsort(all, steps.count, sizeof(*all), by_size);
    return (struct range){ all[0], all[steps.count / 2], all[steps.count - 1] };
}

void load_words_at(const struct load *load, uint64_t capacity, char text[LOAD_WORDS_BYTES])
{
    struct replay_steps steps;
    struct range experts, ranks;

    *text = 0;
    if (!load || !load->replay)
        return;
    steps = replay_at(load->replay, capacity);
    experts = range_of(load->replay, steps, replay_skew);
    ranks = range_of(load->replay, steps, replay_rank_skew);
    snprintf(text, LOAD_WORDS_BYTES,
             "%u recorded step%s of max/mean %.3g to %.3g (%s), of ranks %.3g to %.3g (%s)",
             steps.count, steps.count == 1 ? "" : "s", experts.least, experts.most,
             replay_class_words[replay_class(experts.median)], ranks.least, ranks.most,
             replay_class_words[replay_class(ranks.median)]);
}

void load_words_file(const struct load *load, char text[LOAD_WORDS_BYTES])
{
    size_t used = 0;
    uint64_t all = 0;

    *text = 0;
    for (int i = 0; load && i < REPLAY_CLASSES; i++)
        all += load->file.steps[i];
    if (!all)
        return;
    used = (size_t)snprintf(text, LOAD_WORDS_BYTES, "%" PRIu64 " recorded step%s, max/mean", all,
                            all == 1 ? "" : "s");
    for (int i = 0; i < REPLAY_CLASSES; i++)
        used += (size_t)snprintf(text + used, LOAD_WORDS_BYTES - used, "%s %s of %" PRIu64,
                                 i ? "," : "", replay_class_words[i], load->file.steps[i]);
    snprintf(text + used, LOAD_WORDS_BYTES - used, "; %u replayed", load_step_count(load));
}
