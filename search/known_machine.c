/* Takes the constants of a machine from the model numbers of its cluster. */
#include "known_machine.h"

#include <math.h>

static double known_or(double value, double factor, double guess)
{
    return isnan(value) ? guess : value * factor;
}

/* One message among so many: what it costs to send, or what its size falls short of a large one's
 * rate, and its part of the exchange's latency. */
static double message_s(double latency_us, double message_us, double half_kib, double gbs,
                        uint32_t messages, double guess_s)
{
    double us = fmax(message_us, half_kib * 1.024 / gbs) + latency_us / messages;

    return isnan(us) ? known_or(message_us, 1e-6, guess_s) : us * 1e-6;
}

struct search_machine known_machine(const struct cluster *c, const struct search_machine *guess)
{
    uint32_t others = c->ranks > 1 ? c->ranks - 1 : 1;
    struct search_machine m = *guess;

    m.message_s = c->nodes != 1
                      ? message_s(c->latency_between_us, c->message_between_us, c->half_between_kib,
                                  c->bandwidth_between_gbs, others, m.message_s)
                      : message_s(c->latency_inside_us, c->message_inside_us, c->half_inside_kib,
                                  c->bandwidth_inside_gbs, others, m.message_s);
    m.bytes_per_s_between = known_or(c->bandwidth_between_gbs, 1e9, m.bytes_per_s_between);
    m.bytes_per_s_inside = known_or(c->bandwidth_inside_gbs, 1e9, m.bytes_per_s_inside);
    m.copy_bytes_per_s = known_or(c->memory_gbs, 1e9, m.copy_bytes_per_s);
    m.flops = known_or(c->gemm_gflops, 1e9, m.flops);
    m.launch_s = known_or(c->launch_us, 1e-6, m.launch_s);
    return m;
}
