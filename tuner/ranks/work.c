/* Writes orders and replies as text, and reads them. */
#include "work.h"

#include "plan.h"
#include "shape.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char graphs_word[] = "graphs";

void order_format(const struct order *order, char line[WORK_LINE_BYTES])
{
    char shape[SHAPE_TEXT_BYTES], plan[PLAN_TEXT_BYTES];

    shape_format(&order->shape, shape, sizeof(shape));
    if (moe_plan_format(&order->plan, plan, sizeof(plan)) < 0)
        plan[0] = 0;
    snprintf(line, WORK_LINE_BYTES, "moetune-order %d %" PRIu64 " %" PRId64 " %" PRIu64 "|%s|%s|%s",
             (int)order->kind, order->seed, order->memory_limit_bytes, order->capacity, shape, plan,
             order->graphs ? graphs_word : "");
}

int order_parse(const char *line, struct order *out)
{
    struct order order = { .shape = { .struct_size = sizeof(order.shape) } };
    char shape[SHAPE_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES] = "";
    int kind, n;

    n = sscanf(line, "moetune-order %d %" SCNu64 " %" SCNd64 " %" SCNu64 "|%159[^|]|%63[^|]|",
               &kind, &order.seed, &order.memory_limit_bytes, &order.capacity, shape, plan);
    if (n < 4 || !strchr(line, '|') || kind < 0 || kind >= ORDER_KINDS ||
        (n > 4 && shape_parse(shape, &order.shape)))
        return ERR_FORMAT;
    if (n > 5 && plan_parse(plan, &order.plan))
        return ERR_FORMAT;
    order.graphs = strncmp(strrchr(line, '|') + 1, graphs_word, strlen(graphs_word)) == 0;
    order.kind = (enum order_kind)kind;
    *out = order;
    return OK;
}

void reply_format(const struct reply *r, char line[WORK_LINE_BYTES])
{
    snprintf(line, WORK_LINE_BYTES,
             "moetune-reply %d %u %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             " %" PRId64 " %" PRId64 " %u %u %u|%s",
             (int)r->state, r->broken, r->ns, r->memory_bytes, r->sent_bytes, r->messages,
             r->compute_ns, r->comm_ns, r->lost_ns, r->warm_steps, r->gpu.clock_mhz,
             r->gpu.throttled, r->message);
}

int reply_parse(const char *line, struct reply *out)
{
    struct reply r = { 0 };
    int state, used = 0;

    if (sscanf(line,
               "moetune-reply %d %" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu32 "|%n",
               &state, &r.broken, &r.ns, &r.memory_bytes, &r.sent_bytes, &r.messages, &r.compute_ns,
               &r.comm_ns, &r.lost_ns, &r.warm_steps, &r.gpu.clock_mhz, &r.gpu.throttled,
               &used) != 12 ||
        !used)
        return ERR_FORMAT;
    r.state = (enum trial_state)state;
    snprintf(r.message, sizeof(r.message), "%.*s", (int)strcspn(line + used, "\n"), line + used);
    *out = r;
    return OK;
}
