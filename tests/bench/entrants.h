/* Strategies that are compared on made-up clusters, one bucket at a time. */
#ifndef ENTRANTS_H
#define ENTRANTS_H

#include "decision.h"
#include "surface.h"
#include "tally.h"

struct bucket {
    const struct surface *surface;
    double capacity, best_ns;
    double ns[SEARCH_ARMS_MAX];
    double seen_ns[SEARCH_ARMS_MAX]; /* what this launch of the ranks makes of them */
    bool usable[SEARCH_ARMS_MAX];
    bool first;
    struct trial_of *trial; /* where its candidate and its pairs go; NULL: nowhere */
    uint32_t patience;      /* as decision_setup has it */
};

/* How lucky a plan is in one launch, a logarithm of standard deviation 1: where its ranks' memory
 * and threads came to lie. */
double luck_of(const struct surface *surface, double capacity, int arm, uint64_t launch);

/* As launch 0 sees it, with luck of this deviation.  False: nothing fits. */
bool bucket_at(const struct surface *surface, double capacity, double luck, bool first,
               struct bucket *out);
double regret_of(const struct bucket *b, int arm);
int default_arm(const struct bucket *b);

/* What a trainer gets, and what it costs to find out. */
struct bucket_outcome tune_bucket(struct search *search, struct noise *noise,
                                  const struct bucket *b);

struct entrant {
    const char *name, *strategy;
    uint32_t repeats;
    struct bucket_outcome (*run)(struct search *search, struct noise *noise,
                                 const struct bucket *b);
};

enum { ENTRANTS = 10, GUIDED = ENTRANTS - 2, ORACLE = ENTRANTS - 1 }; /* the last two */
extern const struct entrant entrants[ENTRANTS];

#endif
