/* Routes that are known: Figure 10. */
#include "dynamoe_rows.h"
#include "status.h"
#include "study_cells.h"

#include <math.h>

enum { EPOCHS = 140, TOKENS_OF_EPOCH = 50000 };

/* Made up: most tokens settle soon, and in one epoch many change. */
static double share_unchanged(int epoch)
{
    return epoch == 48 ? .88 : fmin(.985, 1 - .5 * exp(-epoch / 4.));
}

struct policy {
    int first, known; /* the first epoch with known routes, and how many have them */
};

static int run_policy(struct policy *out)
{
    struct moe_routes_options options = MOE_ROUTES_OPTIONS_INIT;
    struct policy p = { .first = -1 };
    struct moe_routes *routes;

    options.experts = DYNAMOE_EXPERTS;
    options.top_k = options.rooms = options.rows = 1; /* none is put */
    TRY(moe_routes_open(&options, &routes));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t same = (uint64_t)(share_unchanged(epoch) * TOKENS_OF_EPOCH);
        uint32_t on;
        int rc = moe_routes_decide(routes, (uint64_t)epoch, same, TOKENS_OF_EPOCH, &on);

        if (rc) {
            moe_routes_close(routes);
            return fail(ERR_ARGUMENT, "deciding on known routes");
        }
        p.known += (int)on;
        p.first = on && p.first < 0 ? epoch : p.first;
    }
    moe_routes_close(routes);
    *out = p;
    return OK;
}

static int put_layer(const struct cluster *machine, uint32_t tokens, uint32_t model_dim,
                     struct study_table *table)
{
    struct modelled_ask ask = dynamoe_ask();
    struct modelled_step step;
    char row[48];

    ask.known = true;
    ask.shape.tokens = tokens;
    ask.shape.model_dim = model_dim;
    ask.shape.hidden_dim = 4 * model_dim;
    ask.capacities.most = moe_capacity(1, 1, ask.shape.experts, tokens, 0);
    TRY(modelled_step_of(machine, &ask, &step));
    snprintf(row, sizeof(row), "T=%u D=%u", tokens, model_dim);
    TRY(put_value(table, row, "fresh, ms", step.ns * 1e-6));
    TRY(put_value(table, row, "known, ms", step.known_ns * 1e-6));
    TRY(put_value(table, row, "saved, %", 100 * (1 - step.known_ns / step.ns)));
    return put_value(table, row, "at most, %", 100 * step.gate_ns / step.ns);
}

/* Of the layer that the other rows have. */
static int put_training(const struct cluster *machine, struct study_table *table)
{
    struct modelled_ask ask = dynamoe_ask();
    struct modelled_step step;
    struct policy policy = { 0 };
    double share;

    ask.known = true;
    ask.capacities.most = moe_capacity(1, 1, ask.shape.experts, ask.shape.tokens, 0);
    TRY(modelled_step_of(machine, &ask, &step));
    TRY(run_policy(&policy));
    share = (double)policy.known / EPOCHS;
    TRY(put_value(table, "140 epochs", "first known", policy.first));
    TRY(put_value(table, "140 epochs", "known", policy.known));
    TRY(put_predicted(table, "140 epochs", "saved, %", 100 * share * (1 - step.known_ns / step.ns),
                      13));
    return put_value(table, "140 epochs", "at most, %", 100 * share * step.gate_ns / step.ns);
}

int dynamoe_figure10(const struct cluster *machine, struct study_table *table)
{
    static const uint32_t tokens[] = { 1024, 4096 }, widths[] = { 256, 1024, 4096 };

    for (int t = 0; t < 2; t++)
        for (int w = 0; w < 3; w++)
            TRY(put_layer(machine, tokens[t], widths[w], table));
    return put_training(machine, table);
}
