/* What follows from the capacities of experts; of a controller (moelookup.h has the rule) nobody
 * outside needs more. */
#ifndef CAPACITY_SETTING_H
#define CAPACITY_SETTING_H

#include "moelookup.h"
#include "sha256.h"

/* The capacities of all experts, and what follows from them. */
struct capacity_setting {
    uint32_t *rows; /* (E) */
    uint64_t first; /* step from which they are in force */
    uint64_t replans;
    uint32_t key, key_r0;
    uint64_t sum, fullest, balanced;
    uint8_t chain[SHA256_BYTES]; /* of options, and of all settings up to this one */
};

/* Makes key, key_r0, sum, fullest and balanced of the rows; the controller knows where experts lie,
 * and has room to place them. */
void capacities_derive(struct moe_capacities *c, struct capacity_setting *setting);

#endif
