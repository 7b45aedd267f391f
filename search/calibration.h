/* Whether earlier claims held when they were measured again, and how much wider later ones have to
 * be.  Pure. */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include "stats.h"

#include <stdint.h>

struct calibration {
    uint32_t count;
    double squares; /* of z, how many deviations what was claimed lay from what was found */
};

/* Two intervals of 95 % about what a plan saves: claimed, and found later on.  `kappa`: the claim's
 * deviation had been multiplied by it.  What is no interval says nothing. */
void calibration_add(struct calibration *calibration, const struct gain *claim, double kappa,
                     const struct gain *found);

/* kappa, by which deviations of claims are to be multiplied: from 1 to 3.
 *
 * kappa^2 = (10 + sum z^2) / (10 + n): that deviations are right counts like ten claims.  Never
 * below 1: a verification is one launch of the ranks, whose luck all of its buckets share, so that
 * it can show that claims are too sure, and hardly that they are too modest. */
double calibration_kappa(const struct calibration *calibration);

#endif
