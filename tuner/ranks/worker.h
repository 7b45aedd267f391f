/* The worker: one rank's side of the tuner.  It holds a layer and its prepared plans, and executes
 * orders. */
#ifndef WORKER_H
#define WORKER_H

#include "virtual_ranks.h"
#include "work.h"

/* One rank with its layer and plans.  An open function makes it whole; worker_close() frees it. */
struct worker;

/* Opens the worker of a real rank.  Collective over the ranks of an open world, which is borrowed.
 * device: see gpus_agree_device(). */
int worker_open(struct world *world, const char *device, struct worker **out);

/* Opens the worker of one modelled rank; modelled_ranks.h runs all ranks.  `speeds` of all ranks
 * are borrowed until it is closed; NULL: not known. */
int worker_open_model(const struct cluster *cluster, int rank, const double *speeds, uint64_t seed,
                      struct worker **out);

/* Opens the worker of the one real rank of virtual ranks (virtual_ranks.h). */
int worker_open_virtual(const struct virtual_options *virtual, uint32_t ranks_per_node,
                        uint32_t ranks_per_rack, const char *device, struct worker **out);

/* Closes a worker with its layer; NULL is fine. */
void worker_close(struct worker *worker);

/* Begins another launch of a modelled rank (0: the first).  It then has no layer, and draws another
 * difference between launches (launch_noise_percent).  The noise of its steps continues. */
void worker_relaunch(struct worker *worker, uint32_t number);

/* Executes an order.  Collective: every rank calls it with the same order, and gets the same reply.
 * A failure is a state in the reply; it never ends the rank. */
void worker_do(struct worker *worker, const struct order *order, struct reply *reply);

/* Counts the kernels issued so far. */
uint64_t worker_kernels(const struct worker *worker);

/* For ranks other than 0: executes rank 0's orders until ORDER_QUIT, or until the ranks are broken.
 */
int worker_follow(struct worker *worker);

/* For rank 0: sends an order to all other ranks, and executes it with them. */
int worker_lead(struct worker *worker, const struct order *order, struct reply *reply);

#endif
