/* The ranks' side of the tuner: keeps a layer and its prepared plans, and does what it is told. */
#ifndef WORKER_H
#define WORKER_H

#include "virtual_ranks.h"
#include "work.h"

struct worker;

/* On the ranks of an open world; device: see gpus_agree_device(). */
int worker_open(struct world *world, const char *device, struct worker **out);

/* One process that is one rank of a modelled cluster; modelled_ranks.h has all of them.  `speeds`
 * of all ranks are borrowed; NULL: not known. */
int worker_open_model(const struct cluster *cluster, int rank, const double *speeds, uint64_t seed,
                      struct worker **out);

/* One process beside ranks that are not there. */
int worker_open_virtual(const struct virtual_options *virtual, uint32_t ranks_per_node,
                        uint32_t ranks_per_rack, const char *device, struct worker **out);
void worker_close(struct worker *worker);

/* A modelled rank is started anew, as this launch (0: the first): it has no layer, and its luck is
 * another (launch_noise_percent).  The noise of its steps goes on. */
void worker_relaunch(struct worker *worker, uint32_t number);

/* Collective: every rank with the same order.  The reply is the same on every rank.  A failure is a
 * state in it, never the end. */
void worker_do(struct worker *worker, const struct order *order, struct reply *reply);

uint64_t worker_kernels(const struct worker *worker); /* issued so far */

/* Ranks other than 0 take orders from rank 0 until ORDER_QUIT. */
int worker_follow(struct worker *worker);

/* Rank 0's side of that: hands the order to the others, then takes part. */
int worker_lead(struct worker *worker, const struct order *order, struct reply *reply);

#endif
