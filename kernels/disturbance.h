/* How much time other processes took from a step, from Linux's counters.  Threads that could run
 * wait for a core (/proc/self/task/N/schedstat), and a virtual machine's cores run another machine
 * ("steal" in /proc/stat).
 *
 * Threads of one process wait for each other, too: a rank that polls for messages while it computes
 * on one core nearly always has a waiting thread.  So the time lost to others is at most the core
 * time that the process did not get.
 *
 * Involuntary switches (ru_nivcsw) are of no use: a thread that yields counts as one, too. */
#ifndef DISTURBANCE_H
#define DISTURBANCE_H

#include <stdbool.h>
#include <stdint.h>

/* ---- reading texts: pure functions */

/* Reads the waiting time in /proc/PID/task/TID/schedstat, "RUN WAITED SLICES".  False: another
 * text; *ns stays. */
bool schedstat_waited(const char *text, int64_t *ns);

/* Adds up the stolen ticks in /proc/stat, of the cores for which `counts` is true (NULL: all
 * cores). False: the text has no such column; *ticks stays. */
bool stat_stolen(const char *text, bool (*counts)(const void *self, int core), const void *self,
                 int64_t *ticks);

/* ---- arithmetic: pure functions */

/* Core time that a process has used and waited for, up to time at_ns.  A plain value. */
struct use {
    int64_t at_ns, ran_ns, waited_ns;
};

/* The time that others took between the two, from a process with `cores` cores of its own.  0 for
 * less than one core: such a process waits for the ranks that share its core, and nobody can tell
 * these waits from others. */
int64_t use_lost_ns(const struct use *before, const struct use *after, double cores);

/* The share of stolen time.  A tick is 10 ms, so the share is measured over half a second and used
 * in the next half second.  A value; zeroed at first. */
struct steal {
    int64_t since_ns, ticks; /* beginning of the window, and its ticks; 0: none yet */
    double share;            /* in the last whole window, 0 to 1 */
};

/* True when the window has lasted half a second. */
bool steal_is_due(const struct steal *steal, int64_t now_ns);

/* Ends the window with this number of ticks, stores its share, and begins the next one. */
void steal_update(struct steal *steal, int64_t now_ns, int64_t ticks, int64_t tick_ns, int cores);

/* ---- this process */

/* Counts the time that this process loses. */
struct disturbance;

/* `cores`: the cores that the process has to itself (own_cores.h).  Where Linux has no counters, no
 * time counts as lost. */
int disturbance_open(double cores, struct disturbance **out);
void disturbance_close(struct disturbance *d); /* NULL is fine */

/* Begins a stretch of work; must be called outside the time that is measured. */
void disturbance_begin(struct disturbance *d);

/* Ends it, and returns the ns that were lost; must be called outside the time that is measured. */
int64_t disturbance_end(struct disturbance *d);

/* True where this kernel, or this container, has the counters. */
bool disturbance_waits_are_known(void);
bool disturbance_steal_is_known(void);

#endif
