/* What follows from the capacities of all experts. moelookup.h explains the controller; other files
 * need only this part of it. */
#ifndef CAPACITY_SETTING_H
#define CAPACITY_SETTING_H

#include "moelookup.h"
#include "sha256.h"

/* The capacities of all experts, and the numbers that follow from them. The controller owns it. */
struct capacity_setting {
    uint32_t *rows; /* (E) */
    uint64_t first; /* step from which they are in force */
    uint64_t replans;
    uint32_t key, key_r0;
    uint64_t sum, fullest, balanced;
    uint8_t chain[SHA256_BYTES]; /* hash of the options and of all settings up to this one */
};

/* Computes key, key_r0, sum, fullest and balanced from the rows. The controller knows where experts
 * lie, and has room for placing them. */
void capacities_derive(struct moe_capacities *c, struct capacity_setting *setting);

#endif
