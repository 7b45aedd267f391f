/* Polls until something is done, and looks at the alarm and at the clock between two polls. */
#include "watch.h"

#include "host.h"
#include "status.h"
#include "world.h"

#include <sched.h>

enum {
    LOOK_EVERY = 256, /* polls between looks at the alarm and the clock */
    SPINS = 64,       /* polls at first without giving way: most waits are over by then */
    LIMIT_S = 60,     /* longer than any step worth tuning, shorter than --trial-timeout */
};

int watch_until(const struct watch *watch, int (*look)(void *self), void *self, const char *what)
{
    int64_t begun_ns = 0;
    int rc;

    for (unsigned polls = 1; (rc = look(self)) == UNSUPPORTED; polls++) {
        if (polls > SPINS && watch->gives_way)
            sched_yield();
        if (polls % LOOK_EVERY)
            continue;
        if (watch->alarmed && watch->alarmed(watch->self))
            return ERR_WIRE;
        begun_ns = begun_ns ? begun_ns : host_clock_ns();
        if (host_clock_ns() - begun_ns > watch->limit_ns)
            return fail(ERR_WIRE, "%s: not within %g s: a rank is gone, or hangs", what,
                        (double)watch->limit_ns * 1e-9);
    }
    return rc;
}

static int alarmed(void *world)
{
    return world_alarmed(world);
}

struct watch watch_of(struct world *world)
{
    return (struct watch){ alarmed, world, (int64_t)LIMIT_S * 1000000000,
                           world_crowded(world) != 0 };
}
