/* Keeps a thread busy, and finds the pauses that its control groups account for. */
#include "quota.h"

#include "allowance.h"
#include "host.h"
#include "stats.h"

#include <stdbool.h>
#include <time.h>

enum {
    PAUSES_MAX = 512,
    PAUSE_NS = 100000, /* what is shorter is not looked at */
};

int64_t quota_period_ns(void)
{
    return allowance_here().period_ns;
}

static int64_t held_ns(void)
{
    return allowance_here().held_ns;
}

static int64_t thread_ran_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double quota_share_of(const struct quota_pause *pauses, size_t count)
{
    double shares[PAUSES_MAX];

    for (size_t i = 0; i + 1 < count; i++)
        shares[i] = (double)(pauses[i + 1].ran_ns - pauses[i].ran_ns) /
                    (double)(pauses[i + 1].end_ns - pauses[i].end_ns);
    return count > 1 ? median_of(shares, count - 1) : 1;
}

double quota_share(int64_t ns)
{
    struct quota_pause pauses[PAUSES_MAX];
    size_t count = 0;
    int64_t begin = host_clock_ns(), last = begin, now, held = held_ns();

    while ((now = host_clock_ns()) - begin < ns && count < PAUSES_MAX) {
        bool paused = now - last > PAUSE_NS;
        int64_t held_now = paused ? held_ns() : held;

        if (held_now > held)
            pauses[count++] = (struct quota_pause){ now, thread_ran_ns() };
        held = held_now;
        last = paused ? host_clock_ns() : now;
    }
    return quota_share_of(pauses, count);
}
