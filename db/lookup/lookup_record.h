/* Counts what a view is asked, by bucket. A count costs a trainer half a nanosecond: it takes no
 * lock, allocates nothing, and no two threads write to one line of memory. */
#ifndef LOOKUP_RECORD_H
#define LOOKUP_RECORD_H

#include "moelookup.h"

#include <stdatomic.h>
#include <stdint.h>

/* Where the counts of a table's views are written; the table and its views share it. */
struct recorder;

/* Each thread has a shard of its own; the first thread has the first. Threads beyond that number
 * share one more shard. */
enum { COUNTER_SHARDS = 64 };

/* The shard of one thread. */
struct counter_slot {
    _Atomic uintptr_t owner; /* a thread, see counter_self(); 0: free */
    _Atomic uint64_t *counts;
};

/* The counts of one view, stored inside the view so that a look-up follows no pointer. Arrays count
 * the buckets below `near`, a hash table all buckets beyond. */
struct counter {
    uint32_t near;                   /* 0: nothing is recorded */
    struct counter_details *details; /* what is rarely needed */
    struct counter_slot slots[COUNTER_SHARDS];
};

/* The version of the lines that are written; db/exchange/traffic.h describes them. */
enum { TRAFFIC_VERSION = 1 };

/* MOE_ERR_IO, with errno, if nothing can be appended to that file. */
int recorder_open(const char *path, struct recorder **out);
/* Writes what the table's views have counted. The views may live longer than the table. */
void recorder_close(struct recorder *recorder); /* NULL is fine */

/* Describes what a new counter counts. `last` is the last bucket that the view's table knows. The
 * recorder lives as long as its counters. `cluster` (hexadecimal) and `device` are NULL where no
 * table answers. */
struct counter_of {
    const struct moelookup_view *view;
    const struct moe_shape *shape;
    const char *cluster, *device;
    uint32_t window, last;
};
int counter_open(struct recorder *recorder, const struct counter_of *of, struct counter *out);

/* Appends a line with the counts since the last one. MOE_ERR_IO: the counts are kept, and the next
 * call tries again. */
int counter_flush(const struct counter *counter);
void counter_close(struct counter *counter); /* flushes; fine if it was never opened */

/* Counts for any thread but the first one, and in buckets that are far away. */
int counter_count_elsewhere(const struct counter *counter, uintptr_t self, uint32_t bucket);

/* Returns a number that no other living thread has. Reading the thread pointer takes one
 * instruction; in a shared library the address of thread-local memory takes a call. */
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

/* Adds one to a count that only this thread writes. An atomic addition would cost five times as
 * much. */
static inline void counter_add(_Atomic uint64_t *count)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Counts one look-up. Always returns MOE_OK, so that a look-up can end with this call and keep
 * nothing for afterwards. */
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
