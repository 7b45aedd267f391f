/* What a controller of capacities knows; see moelookup.h for the rule. */
#ifndef CAPACITIES_RULE_H
#define CAPACITIES_RULE_H

#include "moelookup.h"
#include "sha256.h"

#include <stdbool.h>

/* Capacities, and what follows from them. */
struct setting {
    uint32_t *rows; /* (E) */
    uint64_t first; /* step from which they are in force */
    uint64_t replans;
    uint32_t key, key_r0;
    uint64_t sum, fullest, balanced;
    uint8_t chain[SHA256_BYTES]; /* of options, and of all settings up to this one */
};

/* Choices of one step. */
struct dropped {
    uint64_t dropped, total;
};

struct moe_capacities {
    struct moe_capacities_options o;
    struct setting now, next;
    bool waiting;          /* `next` has been decided and comes into force at a later step */
    bool fed, asked;       /* there was a call */
    uint64_t last, latest; /* step that was fed last; latest step that was asked for */
    uint64_t feeds;
    uint64_t since;          /* steps that were fed since the last re-plan was decided */
    uint32_t *peak, *before; /* (E), of this window of `hold` steps and of the one before */
    uint32_t filled;         /* steps in this window */
    struct dropped *recent;  /* (gap), a ring */
    uint32_t recent_at, recent_count;
    struct dropped recent_sum, all;
    struct sha256 fresh;    /* to begin with: asking a processor what it has takes microseconds */
    uint64_t *order, *load; /* (E), (W): room for placements */
    uint32_t *held;         /* (W) */
};

/* ERR_ARGUMENT; where `speaks`, after a message. */
int capacities_check(const struct moe_capacities_options *options, bool speaks);

/* Makes all of a setting of its rows, its step and its number of re-plans; `before` is the chain
 * that it continues. */
void capacities_settle(struct moe_capacities *c, const uint8_t before[SHA256_BYTES],
                       struct setting *s);

#endif
