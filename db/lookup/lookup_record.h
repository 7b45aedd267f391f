/* What a view is asked for, counted by bucket.  Counting costs a trainer half a nanosecond: no
 * lock, no allocation, and no line of memory that two threads write to. */
#ifndef LOOKUP_RECORD_H
#define LOOKUP_RECORD_H

#include "moelookup.h"

#include <stdatomic.h>
#include <stdint.h>

/* Where the counts of a table's views go; shared by the table and its views. */
struct recorder;

/* Each thread has a shard of its own, the one that came first the first; further threads share one
 * more. */
enum { COUNTER_SHARDS = 64 };

struct counter_slot {
    _Atomic uintptr_t owner; /* a thread, see counter_self(); 0: nobody's yet */
    _Atomic uint64_t *counts;
};

/* The counts of one view, which holds it in place, so that a look-up need not follow a pointer.
 * Buckets below `near` are counted in arrays, those beyond in a hash table. */
struct counter {
    uint32_t near;             /* 0: nobody wants to know */
    struct counter_more *more; /* what is rarely needed */
    struct counter_slot slots[COUNTER_SHARDS];
};

/* The version of the lines that are written; db/exchange/traffic.h says what is in them. */
enum { TRAFFIC_VERSION = 1 };

/* MOE_ERR_IO, with errno, if nothing can be appended to that file. */
int recorder_open(const char *path, struct recorder **out);
/* Writes what the table's views have counted; they may outlive it. */
void recorder_close(struct recorder *recorder); /* NULL is fine */

/* What a new view's counter counts; `last` is the last bucket its table knows.  The recorder lives
 * as long as its counters.  `cluster` (hexadecimal) and `device` are NULL where no table answers.
 */
struct counter_of {
    const struct moelookup_view *view;
    const struct moe_shape *shape;
    const char *cluster, *device;
    uint32_t window, last;
};
int counter_open(struct recorder *recorder, const struct counter_of *of, struct counter *out);

/* Appends a line with what was counted since the last one.  MOE_ERR_IO: nothing is forgotten, and
 * the next call tries again. */
int counter_flush(const struct counter *counter);
void counter_close(struct counter *counter); /* flushes; fine if it was never opened */

/* Counts for another thread than the one that came first, or in a bucket that is far away. */
int counter_count_elsewhere(const struct counter *counter, uintptr_t self, uint32_t bucket);

/* A number no other living thread has: reading the thread pointer takes one instruction, where an
 * address of thread-local memory takes a shared library a call. */
static inline uintptr_t counter_self(void)
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define COUNTER_HAS_THREAD_POINTER 1
#endif
#endif
#ifdef COUNTER_HAS_THREAD_POINTER
    return (uintptr_t)__builtin_thread_pointer();
#else
    static _Thread_local char here;
    return (uintptr_t)&here;
#endif
}

/* Adds one to a count that no other thread writes: an atomic addition would cost five times as
 * much.
 */
static inline void counter_add(_Atomic uint64_t *count)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Returns MOE_OK, so that a look-up can end with this call and need not keep anything for it. */
static inline int counter_count(const struct counter *counter, uint32_t bucket)
{
    const struct counter_slot *first = &counter->slots[0];
    uintptr_t self;

    if (bucket >= counter->near)
        return counter->near ? counter_count_elsewhere(counter, counter_self(), bucket) : MOE_OK;
    self = counter_self();
    if (__builtin_expect(atomic_load_explicit(&first->owner, memory_order_relaxed) != self, 0))
        return counter_count_elsewhere(counter, self, bucket);
    counter_add(&first->counts[bucket]);
    return MOE_OK;
}

#endif
