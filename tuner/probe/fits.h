/* Computes the constants of a machine from measured times, for `moetune probe`.  They are the
 * constants of the models in wire_sim.c, sim_model.c and sim.c.  Pure functions: no ranks, no
 * clock. */
#ifndef FITS_H
#define FITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a solver: unknowns that may not be negative, from more equations than unknowns */

enum { UNKNOWNS_MAX = 4 };

/* One equation: the sum of part[i] * x[i] should be 1.  The caller divides each part by the
 * measured value, so deviations are relative.  Each deviation counts `weight` times.  A plain
 * value. */
struct equation {
    double part[UNKNOWNS_MAX], weight;
};

/* Finds the x >= 0 with (nearly) the least sum of absolute deviations, so that a few equations that
 * are far off do not matter.  False, and x unchanged, if the equations do not determine every
 * unknown.
 */
bool least_deviations(const struct equation *equations, size_t count, int unknowns, double *x);

/* ---- a link: ns = latency + messages * max(message, (bytes + half) / bandwidth) */

/* The time of one exchange in which a rank sends and receives `messages` of `bytes` each.  A plain
 * value. */
struct link_sample {
    int messages;
    double bytes, ns;
};

/* The constants of a link.  All are NAN where samples do not determine them: they need several
 * sizes, and several numbers of messages.  A plain value. */
struct link_fit {
    double latency_us, message_us, bandwidth_gbs, half_kib;
    double error; /* median of |model / measured - 1| */
};

/* Fits a link to samples.  It ignores samples that are no times (0, negative, not finite). */
struct link_fit link_fit(const struct link_sample *samples, size_t count);

/* The time that the fitted link takes for such an exchange. */
double link_ns(const struct link_fit *fit, int messages, double bytes);

/* ---- a device and its noise */

/* One timed product of matrices; the model is ns = max(floor, ops / rate * (smallest + half) /
 * smallest).  A plain value. */
struct product_sample {
    double smallest; /* the smallest of its three sides, mostly the rows */
    double ops;
    double floor_ns; /* time to move its bytes, the least it can take; 0: not known */
    double ns;       /* without the launch */
    uint64_t rows;
};

/* The rate of products, and the rows at which half of it is reached.  NAN where samples do not
 * determine them; a product near its floor does not count.  A plain value. */
struct product_fit {
    double gflops, half_rows;
};

/* Fits the rate of products to samples. */
struct product_fit product_fit(const struct product_sample *samples, size_t count);

/* The time that the fit gives to such a product, of which only `ns` is not read. */
double product_fit_ns(const struct product_fit *fit, const struct product_sample *sample);

enum { OWN_SAMPLES = 4096 };

/* What one product took on a rank's core: by the clock (ns), and the time in which the rank ran
 * (ran_ns).  A plain value. */
struct own_sample {
    int64_t ns, ran_ns;
};

/* The time of a product on a rank's own core: the median of ran_ns, times the least ns / ran_ns.
 * Other programs lengthen ns alone, and only sometimes, so the least ratio is free of them; it is
 * above 1 only for a rank that is paused all the time.  quota_share: see quota_share() in probe.h;
 * pauses of the quota are in ns, too.  NAN for no samples.  At most OWN_SAMPLES. */
double own_product_ns(const struct own_sample *samples, size_t count, double quota_share);

/* Computes by which share work is slower while the other stream works, too.  comm_ns and
 * compute_ns: each alone; both_ns: together, with communication queued first.  0 where overlap
 * costs nothing, at most OVERLAP_MOST where it gains nothing; NAN where an argument is no time. */
enum { OVERLAP_MOST = 99 };
double overlap_fit(double comm_ns, double compute_ns, double both_ns);

/* The noise of steps, in percent: `noise`, the deviation of the logarithm from step to step;
 * `outliers`, the share of steps that take about three times as long; `drift`, the deviation of
 * slow changes.  Each is at most NOISE_MOST, because noise of a busy machine has no limit.  A plain
 * value. */
enum { NOISE_MOST = 100 };
struct noise_fit {
    double noise, outliers, drift;
};

/* Fits the noise to `ns`: `rounds` rounds, each of `per_round` steps close together.  All NAN for
 * fewer than 3 rounds, or fewer than 2 steps per round. */
struct noise_fit noise_fit(const int64_t *ns, size_t rounds, size_t per_round);

#endif
