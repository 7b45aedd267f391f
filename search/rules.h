/* Which arm guided samples next: the first rule that wants one. */
#ifndef RULES_H
#define RULES_H

#include "search.h"

enum rule { FIRST, AGAIN, SCREEN, UNTRIED, RACE, COVER, CONSIST, NONE };

struct pick {
    int arm; /* SEARCH_DONE: enough */
    enum rule rule;
    bool limited; /* the race was not over */
};

struct guided;
struct pick rules_pick(const struct search *search, struct guided *g);

#endif
