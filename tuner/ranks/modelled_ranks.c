/* One modelled worker for each class of ranks, and the slowest one's answer. */
#include "modelled_ranks.h"

#include "rank_speeds.h"
#include "status.h"
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- classes of ranks */

struct rank_classes rank_classes_of(const struct moe_shape *shape, const double *speeds,
                                    uint32_t ranks)
{
    struct rank_classes list = { .count = 0 };
    double slowest;

    if (shape->shares == MOE_SHARES_EQUAL || !speeds)
        return (struct rank_classes){ .at = { { .rank = 0, .pace = 1 } }, .count = 1 };
    slowest = speeds[0];
    for (uint32_t q = 1; q < ranks; q++)
        slowest = fmin(slowest, speeds[q]);
    for (uint32_t q = 0; q < ranks; q++) {
        double pace = speeds[q] / slowest;
        int i = 0;

        while (i < list.count && list.at[i].pace != pace)
            i++;
        if (i == list.count)
            list.at[list.count++] = (struct rank_class){ (int)q, pace };
    }
    return list;
}

struct cluster cluster_at_pace(struct cluster c, double pace)
{
    c.gemm_gflops *= pace;
    c.memory_gbs *= pace;
    c.launch_us /= pace;
    return c;
}

struct modelled_ranks {
    struct cluster cluster;
    uint64_t seed;
    double *speeds; /* of all ranks; NULL: not known */
    struct rank_classes classes;
    uint32_t launch;
    struct worker *workers[RANK_CLASSES_MOST];
};

static bool same_classes(const struct rank_classes *a, const struct rank_classes *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->at[i].rank != b->at[i].rank || a->at[i].pace != b->at[i].pace)
            return false;
    return true;
}

/* ---- their workers */

static void close_workers(struct modelled_ranks *m)
{
    while (m->classes.count)
        worker_close(m->workers[--m->classes.count]);
}

static int open_workers(struct modelled_ranks *m, const struct rank_classes *list)
{
    for (int i = 0; i < list->count; i++) {
        const struct rank_class *one = &list->at[i];
        struct cluster c = cluster_at_pace(m->cluster, one->pace);

        TRY(worker_open_model(&c, one->rank, m->speeds, m->seed, &m->workers[i]));
        worker_relaunch(m->workers[i], m->launch);
        m->classes.at[m->classes.count++] = *one;
    }
    return OK;
}

/* All of them or none. */
static int set_classes(struct modelled_ranks *m, const struct moe_shape *shape)
{
    struct rank_classes list = rank_classes_of(shape, m->speeds, m->cluster.ranks);
    int rc;

    if (same_classes(&m->classes, &list))
        return OK;
    close_workers(m);
    rc = open_workers(m, &list);
    if (rc)
        close_workers(m);
    return rc;
}

static int find_speeds(struct modelled_ranks *m)
{
    if (!rank_speeds_known(&m->cluster))
        return OK;
    m->speeds = calloc(m->cluster.ranks, sizeof(*m->speeds));
    if (!m->speeds)
        return fail(ERR_NOMEM, "speeds of %u ranks", m->cluster.ranks);
    rank_speeds_list(m->cluster.rank_speeds_percent, m->speeds);
    return OK;
}

int modelled_ranks_open(const struct cluster *cluster, uint64_t seed, struct modelled_ranks **out)
{
    struct modelled_ranks *m = calloc(1, sizeof(*m));
    int rc = m ? OK : fail(ERR_NOMEM, "modelled ranks");

    TRY(rc);
    m->cluster = *cluster;
    m->seed = seed;
    TRY_OUT(find_speeds(m));
    TRY_OUT(set_classes(m, &(struct moe_shape){ .shares = MOE_SHARES_EQUAL }));
    *out = m;
    return OK;
out:
    modelled_ranks_close(m);
    return rc;
}

void modelled_ranks_close(struct modelled_ranks *m)
{
    if (!m)
        return;
    close_workers(m);
    free(m->speeds);
    free(m);
}

void modelled_ranks_relaunch(struct modelled_ranks *m, uint32_t number)
{
    m->launch = number;
    for (int i = 0; i < m->classes.count; i++)
        worker_relaunch(m->workers[i], number);
}

uint64_t modelled_ranks_kernels(const struct modelled_ranks *m)
{
    uint64_t sum = 0;

    for (int i = 0; i < m->classes.count; i++)
        sum += worker_kernels(m->workers[i]);
    return sum;
}

/* ---- orders */

static void take_most(int64_t *most, int64_t value)
{
    if (value > *most)
        *most = value;
}

/* Numbers are the most over the ranks, as on real ones. */
static void add_reply(struct reply *all, const struct reply *one)
{
    take_most(&all->ns, one->ns);
    take_most(&all->memory_bytes, one->memory_bytes);
    take_most(&all->sent_bytes, one->sent_bytes);
    take_most(&all->messages, one->messages);
    take_most(&all->node_rows, one->node_rows);
    take_most(&all->compute_ns, one->compute_ns);
    take_most(&all->comm_ns, one->comm_ns);
    take_most(&all->lost_ns, one->lost_ns);
    for (int i = 0; i < PHASE_COUNT; i++) {
        take_most(&all->phases[i].ns, one->phases[i].ns);
        take_most(&all->phases[i].low_ns, one->phases[i].low_ns);
        take_most(&all->phases[i].high_ns, one->phases[i].high_ns);
    }
}

static void do_one(struct worker *worker, const struct order *order, struct reply *all)
{
    struct reply one;

    worker_do(worker, order, &one);
    if (one.state == TRIAL_OK)
        add_reply(all, &one);
    else
        *all = one;
}

void modelled_ranks_do(struct modelled_ranks *m, const struct order *order, struct reply *reply)
{
    if (order->kind == ORDER_LAYER)
        set_classes(m, &order->shape);
    *reply = (struct reply){ .state = m->classes.count ? TRIAL_OK : TRIAL_FAILED,
                             .message = "there is no room for the model" };
    if (m->classes.count)
        worker_do(m->workers[0], order, reply);
    for (int i = 1; i < m->classes.count && reply->state == TRIAL_OK; i++)
        do_one(m->workers[i], order, reply);
}
