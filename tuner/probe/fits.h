/* The constants of a machine from times, in the terms of wire_sim.c, sim_model.c and sim.c.  Pure:
 * no ranks, no clock. */
#ifndef FITS_H
#define FITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- constants that may not be negative, from more equations than there are constants */

enum { UNKNOWNS_MAX = 4 };

/* One equation: sum of part[i] * x[i] should be 1.  Whoever divides each part by what was measured
 * so has relative deviations, each of which counts `weight` times. */
struct equation {
    double part[UNKNOWNS_MAX], weight;
};

/* The x >= 0 with (nearly) the least sum of absolute deviations: a few equations that are far
 * off do not matter.  False, and x is left alone, if they do not determine every unknown. */
bool least_deviations(const struct equation *equations, size_t count, int unknowns, double *x);

/* ---- a link: ns = latency + messages * max(message, (bytes + half) / bandwidth) */

/* One exchange in which a rank sends and receives `messages` of `bytes` each. */
struct link_sample {
    int messages;
    double bytes, ns;
};

/* All NAN where samples do not say: they need several sizes, and several numbers of messages. */
struct link_fit {
    double latency_us, message_us, bandwidth_gbs, half_kib;
    double error; /* median of |model / measured - 1| */
};

/* Samples that are no times (0, negative, not finite) are left out. */
struct link_fit link_fit(const struct link_sample *samples, size_t count);

double link_ns(const struct link_fit *fit, int messages, double bytes);

/* ---- a device and its noise */

/* A product: ns = max(floor, ops / rate * (smallest + half) / smallest). */
struct product_sample {
    double smallest; /* of its three sides: mostly the rows */
    double ops;
    double floor_ns; /* what its bytes take anyway; 0: not known */
    double ns;       /* without the launch */
    uint64_t rows;
};

/* NAN where samples do not say; a product near its floor says nothing. */
struct product_fit {
    double gflops, half_rows;
};

struct product_fit product_fit(const struct product_sample *samples, size_t count);

double product_fit_ns(const struct product_fit *fit, const struct product_sample *sample);

/* What a product takes of a rank's core, by the clock and by the processor, which leaves out when
 * the rank did not run.  Other programs add to the clock's time alone, or pass: of ns / ran_ns the
 * least counts, which is above 1 for a rank that is made to pause for ever.  quota_share:
 * quota_share() of probe.h; its pauses are in the clock's times as well.  NAN for no samples; at
 * most OWN_SAMPLES. */
enum { OWN_SAMPLES = 4096 };
struct own_sample {
    int64_t ns, ran_ns;
};
double own_fit_ns(const struct own_sample *samples, size_t count, double quota_share);

/* By how much work is slower beside another stream's, if communication that was queued first and
 * compute that was queued after it take these times alone and together.  0 where nothing is lost,
 * at most OVERLAP_MOST where nothing is gained; NAN for what is no time. */
enum { OVERLAP_MOST = 99 };
double overlap_fit(double comm_ns, double compute_ns, double both_ns);

/* The noise of steps, in percent: deviation of the logarithm from one step to the next; share of
 * steps that take three times as long; deviation of what changes slowly.  At most NOISE_MOST,
 * because a machine on which more goes on than steps varies without limit. */
enum { NOISE_MOST = 100 };
struct noise_fit {
    double noise, outliers, drift;
};

/* `ns` are rounds of `per_round` steps close together.  NAN for fewer than 3 rounds of 2. */
struct noise_fit noise_fit(const int64_t *ns, size_t rounds, size_t per_round);

#endif
