/* The layer as it is defined, in double precision, for one token at a time: what all judges of a
 * plan share. */
#ifndef PLAIN_H
#define PLAIN_H

#include "data.h"

#include <stdbool.h>

/* Where a token goes. */
struct choice {
    uint32_t expert;
    bool kept; /* the caller's to say */
    double gate;
};

struct plain {
    const struct data *data; /* borrowed */
    uint32_t E, k, D, H;
    float *gate;                  /* (E,D) */
    double *x, *grad;             /* the token's row and the gradient of its y */
    double *logits, *probability; /* (E) */
    struct choice *choices;       /* (k) */
};

int plain_open(const struct data *data, struct plain *out);
void plain_close(struct plain *p); /* a zeroed one is fine */

/* The token at hand from here on. */
void plain_load(struct plain *p, int rank, uint64_t token);

/* Its gates, for the k experts that the step chose; rank and token are only said.  ERR_WRONG if
 * they are not the best ones (within the rounding of what multiplied), or not experts at all. */
int plain_route(struct plain *p, int rank, uint64_t token, const int32_t *expert);

/* The gradient of its logit for an expert, from those of its k gates. */
double plain_logit_grad(const struct plain *p, uint32_t expert, const double *gate_grad);

double plain_act(uint32_t activation, double x);
double plain_act_slope(uint32_t activation, double x);
double plain_dot(const float *a, const double *b, uint32_t n);
void plain_axpy(double scale, const float *from, double *to, uint32_t n); /* to += scale * from */

#endif
