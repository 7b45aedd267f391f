/* Times something on all ranks: a barrier, the work, and the largest time over the ranks. */
#include "measure.h"

#include "host.h"
#include "random.h"
#include "status.h"

int measure_once(struct world *world, struct engine *engine, struct disturbance *watch,
                 int (*once)(void *self), void *self, struct measured *out)
{
    int64_t begun_ns;
    enum { TIME, ERROR, DISTURBED, VALUES };
    int64_t largest[VALUES]; /* over the ranks */
    int rc = world_barrier(world);

    /* Ranks read their counters at different speeds, and wait in the barrier for ranks that the
     * kernel has delayed.  Neither belongs to a step, so counting begins between two barriers. */
    if (!rc && watch) {
        disturbance_begin(watch);
        rc = world_barrier(world);
    }
    begun_ns = host_clock_ns();
    if (!rc && engine)
        rc = engine_begin(engine);
    if (!rc)
        rc = once(self);
    largest[TIME] = engine ? engine_elapsed_ns(engine) : host_clock_ns() - begun_ns;
    largest[ERROR] = -(int64_t)rc;
    largest[DISTURBED] = watch ? disturbance_end(watch) : 0;
    TRY(world_max(world, largest, VALUES));
    if (largest[ERROR] > 0)
        return -(int)largest[ERROR];
    *out = (struct measured){ largest[TIME], largest[DISTURBED] };
    return OK;
}

void measure_order(uint64_t seed, uint64_t round, int n, int *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)random_below(seed ^ round << 20, (uint64_t)i, (uint32_t)i + 1);
        int swapped = order[i];

        order[i] = order[j];
        order[j] = swapped;
    }
}
