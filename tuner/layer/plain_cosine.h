/* The cosine router of one token in double precision: what plain.h's struct plain_cosine holds. */
#ifndef PLAIN_COSINE_H
#define PLAIN_COSINE_H

#include "plain.h"

/* Of another router nothing.  ERR_NOMEM without a message; plain_cosine_close() copes with a half.
 */
int plain_cosine_open(struct plain *p);
void plain_cosine_close(struct plain *p);

/* Logits of the token at hand. */
void plain_cosine_logits(struct plain *p);

/* From gradients and sizes of logits (E) to those of the projection, and what plain_route_back()
 * adds. */
void plain_cosine_back(struct plain *p, const double *grad, const double *size);

#endif
