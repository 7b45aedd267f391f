/* Waits that always end: the waiting thread, or a second thread beside it, checks the alarm and the
 * clock. */
#include "watch.h"

#include "host.h"
#include "status.h"
#include "world.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
    CHECK_EVERY = 256,   /* polls between two checks of the alarm and the clock */
    SPINS = 64,          /* first polls without a yield: most waits are over by then */
    WAIT_LIMIT_S = 60,   /* longer than any step worth tuning, shorter than --trial-timeout */
    GUARD_CHECK_MS = 50, /* between two checks of a guard */
};

/* ERR_WIRE where a wait that began at begun_ns must end. */
static int must_end(const struct watch *watch, int64_t begun_ns, const char *what)
{
    if (watch->alarmed && watch->alarmed(watch->self))
        return ERR_WIRE;
    if (host_clock_ns() - begun_ns > watch->limit_ns)
        return fail(ERR_WIRE, "%s: waited %g s; a rank has ended, or hangs", what,
                    (double)watch->limit_ns * 1e-9);
    return OK;
}

int watch_until(const struct watch *watch, int (*poll)(void *self), void *self, const char *what)
{
    int64_t begun_ns = 0;
    int rc;

    for (unsigned polls = 1; (rc = poll(self)) == POLL_AGAIN; polls++) {
        if (polls > SPINS && watch->yields)
            sched_yield();
        if (polls % CHECK_EVERY)
            continue;
        begun_ns = begun_ns ? begun_ns : host_clock_ns();
        TRY(must_end(watch, begun_ns, what));
    }
    return rc;
}

/* ---- guards */

struct guard {
    struct watch watch;
    void (*interrupt)(void *self);
    void *self;
    pthread_t thread;
    /* Protects all members below.  The guard's thread holds it while it checks, so guard_end()
     * waits for the check to end. */
    pthread_mutex_t lock;
    pthread_cond_t closed, interrupted;
    const char *what; /* NULL: no call is watched */
    int64_t begun_ns;
    int status; /* of the latest call: ERR_WIRE where it was interrupted */
    bool is_closing;
    bool is_interrupting; /* the thread calls `interrupt`, without the lock */
};

static void *guard_main(void *self)
{
    struct guard *guard = self;
    struct timespec next_check;

    pthread_mutex_lock(&guard->lock);
    while (!guard->is_closing) {
        clock_gettime(CLOCK_MONOTONIC, &next_check);
        next_check.tv_nsec += GUARD_CHECK_MS * 1000000;
        next_check.tv_sec += next_check.tv_nsec / 1000000000;
        next_check.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&guard->closed, &guard->lock, &next_check);
        if (!guard->what || !must_end(&guard->watch, guard->begun_ns, guard->what))
            continue;
        guard->what = NULL;
        guard->status = ERR_WIRE;
        guard->is_interrupting = true;
        pthread_mutex_unlock(&guard->lock); /* `interrupt` may wait for the owner's next call */
        guard->interrupt(guard->self);
        pthread_mutex_lock(&guard->lock);
        guard->is_interrupting = false;
        pthread_cond_signal(&guard->interrupted);
    }
    pthread_mutex_unlock(&guard->lock);
    return NULL;
}

int guard_open(const struct watch *watch, void (*interrupt)(void *self), void *self,
               struct guard **out)
{
    struct guard *guard = calloc(1, sizeof(*guard));
    pthread_condattr_t attributes;

    if (!guard)
        return fail(ERR_NOMEM, "a guard");
    guard->watch = *watch;
    guard->interrupt = interrupt;
    guard->self = self;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->closed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_cond_init(&guard->interrupted, NULL);
    if (pthread_create(&guard->thread, NULL, guard_main, guard)) {
        free(guard);
        return fail(ERR_NOMEM, "a guard's thread");
    }
    *out = guard;
    return OK;
}

void guard_close(struct guard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&guard->lock);
    guard->is_closing = true;
    pthread_cond_signal(&guard->closed);
    pthread_mutex_unlock(&guard->lock);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->closed);
    pthread_cond_destroy(&guard->interrupted);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}

void guard_begin(struct guard *guard, const char *what)
{
    pthread_mutex_lock(&guard->lock);
    guard->what = what;
    guard->begun_ns = host_clock_ns();
    guard->status = OK;
    pthread_mutex_unlock(&guard->lock);
}

int guard_end(struct guard *guard)
{
    int status;

    pthread_mutex_lock(&guard->lock);
    guard->what = NULL;
    status = guard->status;
    pthread_mutex_unlock(&guard->lock);
    return status;
}

void guard_wait_interrupt(struct guard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&guard->lock);
    while (guard->is_interrupting)
        pthread_cond_wait(&guard->interrupted, &guard->lock);
    pthread_mutex_unlock(&guard->lock);
}

static int world_has_alarm(void *world)
{
    return world_alarmed(world);
}

struct watch watch_of(struct world *world)
{
    return (struct watch){ world_has_alarm, world, (int64_t)WAIT_LIMIT_S * 1000000000,
                           world_crowded(world) != 0 };
}
