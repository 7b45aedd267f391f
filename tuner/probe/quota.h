/* What a quota of processor time (cpu.max of a control group) leaves to a rank.  It strikes in
 * pauses, between which the rank is as fast as any, so the time of a product does not tell of it;
 * and others' programs make pauses that pass, which its account does. */
#ifndef QUOTA_H
#define QUOTA_H

#include <stddef.h>
#include <stdint.h>

/* Of this process's quotas, the longest period; 0: there is none. */
int64_t quota_period_ns(void);

/* The share of a core that quotas leave to this thread, which keeps it busy for `ns`: some ten
 * periods say it.  1 if they did not hold it back. */
double quota_share(int64_t ns);

/* ---- pure */

/* A quota's pause has ended: periods begin there, with all that the quota gives. */
struct quota_pause {
    int64_t end_ns, ran_ns; /* ran: the thread, until then */
};

/* The median over the spans between such ends; 1 where there are none.  A span in which others took
 * so much that the quota was not used up says too little, and has company. */
double quota_share_of(const struct quota_pause *pauses, size_t count);

#endif
