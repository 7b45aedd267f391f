/* Barrier, run, agree. */
#include "measure.h"

#include "host.h"
#include "random.h"
#include "status.h"

int measure_once(struct world *world, struct engine *engine, int (*once)(void *self), void *self,
                 int64_t *ns)
{
    int64_t begun_ns, agreed[2];
    int rc = world_barrier(world);

    begun_ns = host_clock_ns();
    if (!rc && engine)
        rc = engine_begin(engine);
    if (!rc)
        rc = once(self);
    agreed[0] = engine ? engine_took_ns(engine) : host_clock_ns() - begun_ns;
    agreed[1] = -(int64_t)rc;
    TRY(world_max(world, agreed, 2));
    if (agreed[1] > 0)
        return -(int)agreed[1];
    *ns = agreed[0];
    return OK;
}

void measure_order(uint64_t seed, uint64_t round, int n, int *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)random_below(seed ^ round << 20, (uint64_t)i, (uint32_t)i + 1);
        int t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
}
