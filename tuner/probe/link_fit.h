/* The constants of a link from the times of exchanges, in the terms of wire_sim.c:
 *
 *     ns = latency + messages * max(message, (bytes + half) / bandwidth)
 *
 * Pure: no ranks, no clock. */
#ifndef LINK_FIT_H
#define LINK_FIT_H

#include <stddef.h>

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

#endif
