/* Some tokens of a step at the layer's real size, computed anew in double precision from the very
 * data: the judge where the whole reference would take hours.  What an expert makes of a token is
 * kept, so that the next plan and the next capacity cost next to nothing.
 *
 * It sees the slots of all tokens, y and the gradient of some; no gradient of a parameter, and no
 * replay of a graph. */
#ifndef SPOT_H
#define SPOT_H

#include "capacities.h"
#include "plain.h"

enum { SPOT_MOST = 16 };

struct spot {
    struct plain p;
    int rank;
    uint32_t tokens;           /* of this rank */
    uint32_t count;            /* of those that are looked at */
    uint32_t token[SPOT_MOST]; /* which */
    int32_t *expert;           /* (count,k) */
    uint32_t rows;             /* of y for each token */
    double *x, *grad;          /* (count,D) a token's row; (count,rows,D) gradients of its y */
    double *loss;              /* (count,k) */
    double *out, *back; /* (count,k,D): of an expert, forward, and backward for a gate of 1 */
    double *bent;       /* (count,k,D): of `back`, what units at ReLU's bend add, in size */
    double *want_y, *want_grad_x; /* (count,rows,D), (count,D) */
    double *slack;                /* (count,D): by how much more want_grad_x may be off */
    double grad_x_term;           /* no less than the largest of its terms */
    uint32_t *row;                /* (count,rows): which rows of y those are */
};

/* expert: the (T,k) choices of this rank's tokens; some are taken, the same for the same choices:
 * one that is dropped if any is, some of each part of the batch and for as many experts as can be.
 * Costs some 1e9 products, or what two tokens need, and half as many weights that are drawn:
 * seconds of a core for a large layer, which experts share among `threads`. */
int spot_open(const struct data *data, int rank, uint32_t tokens, const int32_t *expert,
              int threads, struct spot **out);
void spot_close(struct spot *spot); /* NULL is fine */

/* Whether these are still the choices of the tokens that are looked at. */
bool spot_fits(const struct spot *spot, const int32_t *expert);

/* Sets want_y, and want_grad_x for a layer that trains.  ERR_WRONG for choices that are not the
 * best, and for any slot, of all tokens, that is not the rule's: (T,k), < 0 for a choice that is
 * dropped.  turn: of MOE_ORDER_PRIORITY, in which order tokens got them, where that of those that
 * are looked at must be right, too; else NULL. */
int spot_expect(struct spot *spot, const int32_t *expert, const int64_t *slot, const uint32_t *turn,
                const struct capacities *capacities);

/* Bytes of the host's memory that all this takes at most. */
size_t spot_bytes(const struct moe_shape *shape);

#endif
