/* What other processes take of this one's time, as the kernel tells it: threads that could run wait
 * in line (/proc/self/task/N/schedstat), and cores of a virtual machine are given to another one
 * ("steal" in /proc/stat).
 *
 * Threads of one process wait for each other, too: on a core of its own a rank that polls for
 * messages while it computes has one thread in line nearly always.  What was lost to others is
 * therefore at most what the process did not get of its cores.
 *
 * Involuntary switches (ru_nivcsw) are not asked for: a thread that gives way is one as well. */
#ifndef DISTURBANCE_H
#define DISTURBANCE_H

#include <stdbool.h>
#include <stdint.h>

/* ---- texts; pure */

/* /proc/PID/task/TID/schedstat, "RUN WAITED SLICES"; false, and *ns is left alone, for another. */
bool schedstat_waited(const char *text, int64_t *ns);

/* The ticks stolen from cores in /proc/stat, of those that `counts` says yes to (NULL: all); false
 * where it has no such column. */
bool stat_stolen(const char *text, bool (*counts)(const void *self, int core), const void *self,
                 int64_t *ticks);

/* ---- arithmetic; pure */

/* What the process has used since it began. */
struct use {
    int64_t at_ns, ran_ns, waited_ns;
};

/* What others took between the two, of `cores` that are the process's own.  Less than one: it waits
 * for those that it shares it with, and nothing is known of others. */
int64_t use_lost_ns(const struct use *before, const struct use *after, double cores);

/* Ticks are 10 ms: a share of them is known after half a second, and then for the next half. */
struct steal {
    int64_t since_ns, ticks; /* where the window began; 0: never */
    double share;            /* of the last whole window */
};
bool steal_is_due(const struct steal *steal, int64_t now_ns);
void steal_look(struct steal *steal, int64_t now_ns, int64_t ticks, int64_t tick_ns, int cores);

/* ---- this process */

struct disturbance;

/* `cores`: see above.  Where the kernel does not tell, nothing is ever lost. */
int disturbance_open(double cores, struct disturbance **out);
void disturbance_close(struct disturbance *d); /* NULL is fine */

/* Around a stretch of work; neither belongs into the time that is taken. */
void disturbance_begin(struct disturbance *d);
int64_t disturbance_end(struct disturbance *d); /* what was lost in between, ns */

/* What this kernel, or this container, does not tell. */
bool disturbance_waits_are_known(void);
bool disturbance_steal_is_known(void);

#endif
