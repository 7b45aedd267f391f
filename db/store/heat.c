/* Counts the steps that heat, power or other processes held back. */
#include "heat.h"

#include <inttypes.h>
#include <stdio.h>

/* Measured in 450 steps beside other work. Steps that lost less than 3 % took 1.01 to 1.02 of their
 * plan's undisturbed time (median); 5 to 7.5 %: 1.08; 20 to 30 %: 1.29. A rank alone on its core
 * seems to lose up to 4 %, where its threads wait for each other. */
bool heat_lost_much(int64_t ns, int64_t lost_ns)
{
    return lost_ns > ns / 20; /* 20 * lost_ns > ns, without the overflow */
}

enum heat_cause heat_cause(const struct sample_row *s)
{
    if (s->gpu.throttled == SAMPLE_FREE)
        return CAUSE_NONE;
    return heat_lost_much(s->ns, s->lost_ns) ? CAUSE_OTHERS : CAUSE_HEAT;
}

static void widen_clock_range(struct heat *h, uint32_t low_mhz, uint32_t high_mhz)
{
    if (!h->clock_low_mhz || (low_mhz && low_mhz < h->clock_low_mhz))
        h->clock_low_mhz = low_mhz;
    if (high_mhz > h->clock_high_mhz)
        h->clock_high_mhz = high_mhz;
}

void heat_add(struct heat *h, const struct sample_row *sample)
{
    enum heat_cause cause = heat_cause(sample);
    struct held_back *held_back = cause == CAUSE_OTHERS ? &h->disturbed : &h->throttled;

    h->steps++;
    held_back->steps += cause != CAUSE_NONE;
    held_back->set_aside += sample->gpu.throttled == SAMPLE_SET_ASIDE;
    widen_clock_range(h, sample->gpu.clock_mhz, sample->gpu.clock_mhz);
}

static void add_held_back(struct held_back *sum, const struct held_back *more)
{
    sum->steps += more->steps;
    sum->set_aside += more->set_aside;
}

void heat_join(struct heat *h, const struct heat *more)
{
    h->steps += more->steps;
    add_held_back(&h->throttled, &more->throttled);
    add_held_back(&h->disturbed, &more->disturbed);
    widen_clock_range(h, more->clock_low_mhz, more->clock_high_mhz);
}

uint64_t heat_counted(const struct heat *h)
{
    return h->throttled.steps - h->throttled.set_aside + h->disturbed.steps -
           h->disturbed.set_aside;
}

void heat_text(const struct heat *h, char text[HEAT_TEXT_BYTES])
{
    int used = 0;

    *text = 0;
    if (h->throttled.steps)
        used = snprintf(text, HEAT_TEXT_BYTES, "%" PRIu64 " of %" PRIu64 " steps throttled",
                        h->throttled.steps, h->steps);
    if (h->throttled.set_aside)
        used += snprintf(text + used, (size_t)(HEAT_TEXT_BYTES - used),
                         ", %" PRIu64 " of them taken again", h->throttled.set_aside);
    if (h->clock_low_mhz)
        snprintf(text + used, (size_t)(HEAT_TEXT_BYTES - used), "%sSM clock %u to %u MHz",
                 used ? "; " : "", h->clock_low_mhz, h->clock_high_mhz);
}

void heat_others_text(const struct heat *h, char text[HEAT_TEXT_BYTES])
{
    uint64_t counted = h->disturbed.steps - h->disturbed.set_aside;

    *text = 0;
    if (h->disturbed.steps && h->disturbed.steps == h->steps)
        snprintf(text, HEAT_TEXT_BYTES,
                 "every step was disturbed by other processes: %" PRIu64
                 " were taken again, %" PRIu64 " kept, for this is how the machine runs",
                 h->disturbed.set_aside, counted);
    else if (counted)
        snprintf(text, HEAT_TEXT_BYTES,
                 "%" PRIu64 " of %" PRIu64 " steps slowed by other processes: %" PRIu64
                 " taken again, %" PRIu64 " kept",
                 h->disturbed.steps, h->steps, h->disturbed.set_aside, counted);
    else if (h->disturbed.steps)
        snprintf(text, HEAT_TEXT_BYTES,
                 "%" PRIu64 " of %" PRIu64 " steps slowed by other processes, and taken again",
                 h->disturbed.set_aside, h->steps);
}

enum { WORRYING_PERCENT = 3 };

bool heat_is_worrying(const struct heat *h)
{
    return 100 * h->throttled.steps > WORRYING_PERCENT * h->steps;
}
