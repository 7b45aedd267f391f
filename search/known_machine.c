/* Takes the constants of a machine from the model numbers of its cluster. */
#include "known_machine.h"

#include <math.h>

static double known_or(double value, double factor, double guess)
{
    return isnan(value) ? guess : value * factor;
}

struct search_machine known_machine(const struct cluster *c, const struct search_machine *guess)
{
    struct search_machine m = *guess;

    m.message_s = known_or(c->message_inside_us, 1e-6, m.message_s);
    if (c->nodes != 1)
        m.message_s = known_or(c->message_between_us, 1e-6, m.message_s);
    m.bytes_per_s_between = known_or(c->bandwidth_between_gbs, 1e9, m.bytes_per_s_between);
    m.bytes_per_s_inside = known_or(c->bandwidth_inside_gbs, 1e9, m.bytes_per_s_inside);
    m.copy_bytes_per_s = known_or(c->memory_gbs, 1e9, m.copy_bytes_per_s);
    m.flops = known_or(c->gemm_gflops, 1e9, m.flops);
    m.launch_s = known_or(c->launch_us, 1e-6, m.launch_s);
    return m;
}
