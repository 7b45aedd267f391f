/* Waits that end: who waits, or a thread beside it, looks at the alarm and at the clock. */
#include "watch.h"

#include "host.h"
#include "status.h"
#include "world.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
    LOOK_EVERY = 256, /* polls between looks at the alarm and the clock */
    SPINS = 64,       /* polls at first without giving way: most waits are over by then */
    LIMIT_S = 60,     /* longer than any step worth tuning, shorter than --trial-timeout */
    GUARD_MS = 50,    /* between looks of a guard */
};

/* ERR_WIRE when what began then need not be waited for any longer. */
static int hopeless(const struct watch *watch, int64_t begun_ns, const char *what)
{
    if (watch->alarmed && watch->alarmed(watch->self))
        return ERR_WIRE;
    if (host_clock_ns() - begun_ns > watch->limit_ns)
        return fail(ERR_WIRE, "%s: not within %g s: a rank is gone, or hangs", what,
                    (double)watch->limit_ns * 1e-9);
    return OK;
}

int watch_until(const struct watch *watch, int (*look)(void *self), void *self, const char *what)
{
    int64_t begun_ns = 0;
    int rc;

    for (unsigned polls = 1; (rc = look(self)) == UNSUPPORTED; polls++) {
        if (polls > SPINS && watch->gives_way)
            sched_yield();
        if (polls % LOOK_EVERY)
            continue;
        begun_ns = begun_ns ? begun_ns : host_clock_ns();
        TRY(hopeless(watch, begun_ns, what));
    }
    return rc;
}

/* ---- guards */

struct guard {
    struct watch watch;
    void (*cut)(void *self);
    void *self;
    pthread_t thread;
    /* Guards all below; the thread holds it while it looks, so who ends a call waits for that. */
    pthread_mutex_t lock;
    pthread_cond_t closed, rested;
    const char *what; /* NULL: nobody is in a call */
    int64_t begun_ns;
    int status; /* of the latest call */
    bool closing, cutting;
};

static void *stand_guard(void *self)
{
    struct guard *guard = self;
    struct timespec until;

    pthread_mutex_lock(&guard->lock);
    while (!guard->closing) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += GUARD_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&guard->closed, &guard->lock, &until);
        if (!guard->what || !hopeless(&guard->watch, guard->begun_ns, guard->what))
            continue;
        guard->what = NULL;
        guard->status = ERR_WIRE;
        guard->cutting = true;
        pthread_mutex_unlock(&guard->lock); /* the cut may wait for what its owner does next */
        guard->cut(guard->self);
        pthread_mutex_lock(&guard->lock);
        guard->cutting = false;
        pthread_cond_signal(&guard->rested);
    }
    pthread_mutex_unlock(&guard->lock);
    return NULL;
}

int guard_open(const struct watch *watch, void (*cut)(void *self), void *self, struct guard **out)
{
    struct guard *guard = calloc(1, sizeof(*guard));
    pthread_condattr_t clock;

    if (!guard)
        return fail(ERR_NOMEM, "a guard");
    guard->watch = *watch;
    guard->cut = cut;
    guard->self = self;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->closed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_cond_init(&guard->rested, NULL);
    if (pthread_create(&guard->thread, NULL, stand_guard, guard)) {
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
    guard->closing = true;
    pthread_cond_signal(&guard->closed);
    pthread_mutex_unlock(&guard->lock);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->closed);
    pthread_cond_destroy(&guard->rested);
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

void guard_rest(struct guard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&guard->lock);
    while (guard->cutting)
        pthread_cond_wait(&guard->rested, &guard->lock);
    pthread_mutex_unlock(&guard->lock);
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
