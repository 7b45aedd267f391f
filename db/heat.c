/* Counting throttled steps. */
#include "heat.h"

#include <inttypes.h>
#include <stdio.h>

static void widen(struct heat *h, uint32_t low_mhz, uint32_t high_mhz)
{
    if (!h->clock_low_mhz || (low_mhz && low_mhz < h->clock_low_mhz))
        h->clock_low_mhz = low_mhz;
    if (high_mhz > h->clock_high_mhz)
        h->clock_high_mhz = high_mhz;
}

void heat_add(struct heat *h, const struct sample_gpu *gpu)
{
    h->steps++;
    h->throttled += gpu->throttled != GPU_FREE;
    h->set_aside += gpu->throttled == GPU_SET_ASIDE;
    widen(h, gpu->clock_mhz, gpu->clock_mhz);
}

void heat_join(struct heat *h, const struct heat *more)
{
    h->steps += more->steps;
    h->throttled += more->throttled;
    h->set_aside += more->set_aside;
    widen(h, more->clock_low_mhz, more->clock_high_mhz);
}

void heat_text(const struct heat *h, char text[HEAT_TEXT_BYTES])
{
    int used = 0;

    *text = 0;
    if (h->throttled)
        used = snprintf(text, HEAT_TEXT_BYTES, "%" PRIu64 " of %" PRIu64 " steps throttled",
                        h->throttled, h->steps);
    if (h->set_aside)
        used += snprintf(text + used, (size_t)(HEAT_TEXT_BYTES - used),
                         ", %" PRIu64 " of them taken again", h->set_aside);
    if (h->clock_low_mhz)
        snprintf(text + used, (size_t)(HEAT_TEXT_BYTES - used), "%sSM clock %u to %u MHz",
                 used ? "; " : "", h->clock_low_mhz, h->clock_high_mhz);
}

bool heat_is_worrying(const struct heat *h)
{
    return 100 * h->throttled > 3 * h->steps;
}
