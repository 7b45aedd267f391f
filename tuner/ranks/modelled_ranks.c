/* Executes orders on modelled ranks: one worker for each class of ranks; the slowest one's time
 * counts.
 */
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
    struct rank_classes classes = { .count = 0 };
    double slowest;

    if (shape->shares == MOE_SHARES_EQUAL || !speeds)
        return (struct rank_classes){ .at = { { .rank = 0, .pace = 1 } }, .count = 1 };
    slowest = speeds[0];
    for (uint32_t q = 1; q < ranks; q++)
        slowest = fmin(slowest, speeds[q]);
    for (uint32_t q = 0; q < ranks; q++) {
        double pace = speeds[q] / slowest;
        int i = 0;

        while (i < classes.count && classes.at[i].pace != pace)
            i++;
        if (i == classes.count)
            classes.at[classes.count++] = (struct rank_class){ (int)q, pace };
    }
    return classes;
}

struct cluster cluster_at_pace(struct cluster c, double pace)
{
    c.gemm_gflops *= pace;
    c.memory_gbs *= pace;
    c.launch_us /= pace;
    return c;
}

/* One worker runs for each class of the present layer; they have begun launch `launch`. */
struct modelled_ranks {
    struct cluster cluster;
    uint64_t seed;
    double *speeds; /* of all ranks, owned; NULL: not known */
    struct rank_classes classes;
    uint32_t launch;
    struct worker *workers[RANK_CLASSES_MOST];
};

/* ---- the workers of the classes */

static void close_workers(struct modelled_ranks *m)
{
    while (m->classes.count)
        worker_close(m->workers[--m->classes.count]);
}

/* Opens a worker for each class of the layer: all of them or none. */
static int set_classes(struct modelled_ranks *m, const struct moe_shape *shape)
{
    struct rank_classes classes = rank_classes_of(shape, m->speeds, m->cluster.ranks);
    bool is_unchanged = m->classes.count == classes.count;
    int rc;

    for (int i = 0; i < classes.count && is_unchanged; i++)
        is_unchanged = m->classes.at[i].rank == classes.at[i].rank &&
                       m->classes.at[i].pace == classes.at[i].pace;
    if (is_unchanged)
        return OK;
    close_workers(m);
    for (int i = 0; i < classes.count; i++) {
        struct cluster class_cluster = cluster_at_pace(m->cluster, classes.at[i].pace);

        TRY_OUT(worker_open_model(&class_cluster, classes.at[i].rank, m->speeds, m->seed,
                                  &m->workers[i]));
        worker_relaunch(m->workers[i], m->launch);
        m->classes.at[m->classes.count++] = classes.at[i];
    }
    return OK;
out:
    close_workers(m);
    return rc;
}

int modelled_ranks_open(const struct cluster *cluster, uint64_t seed, struct modelled_ranks **out)
{
    struct modelled_ranks *m = calloc(1, sizeof(*m));
    int rc = m ? OK : fail(ERR_NOMEM, "modelled ranks");

    TRY(rc);
    m->cluster = *cluster;
    m->seed = seed;
    if (rank_speeds_known(cluster)) {
        m->speeds = calloc(cluster->ranks, sizeof(*m->speeds));
        TRY_OUT(m->speeds ? OK : fail(ERR_NOMEM, "speeds of %u ranks", cluster->ranks));
        rank_speeds_list(cluster->rank_speeds_percent, m->speeds);
    }
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

/* Raises *most to `value` if that is larger. */
static void raise_to(int64_t *most, int64_t value)
{
    if (value > *most)
        *most = value;
}

/* Each number of the reply is the largest over the ranks, as on real ranks. */
void modelled_ranks_do(struct modelled_ranks *m, const struct order *order, struct reply *reply)
{
    if (order->kind == ORDER_LAYER)
        set_classes(m, &order->shape);
    *reply = (struct reply){ .state = m->classes.count ? TRIAL_OK : TRIAL_FAILED,
                             .message = "out of memory for the modelled ranks" };
    if (m->classes.count)
        worker_do(m->workers[0], order, reply);
    for (int i = 1; i < m->classes.count && reply->state == TRIAL_OK; i++) {
        struct reply class_reply;

        worker_do(m->workers[i], order, &class_reply);
        if (class_reply.state != TRIAL_OK) {
            *reply = class_reply;
            return;
        }
        raise_to(&reply->ns, class_reply.ns);
        raise_to(&reply->memory_bytes, class_reply.memory_bytes);
        raise_to(&reply->sent_bytes, class_reply.sent_bytes);
        raise_to(&reply->messages, class_reply.messages);
        raise_to(&reply->node_rows, class_reply.node_rows);
        raise_to(&reply->compute_ns, class_reply.compute_ns);
        raise_to(&reply->comm_ns, class_reply.comm_ns);
        raise_to(&reply->lost_ns, class_reply.lost_ns);
        for (int k = 0; k < PHASE_COUNT; k++) {
            raise_to(&reply->phases[k].ns, class_reply.phases[k].ns);
            raise_to(&reply->phases[k].low_ns, class_reply.phases[k].low_ns);
            raise_to(&reply->phases[k].high_ns, class_reply.phases[k].high_ns);
        }
    }
}
