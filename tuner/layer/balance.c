/* The weights of a loss of balance, as text and as factors. */
#include "balance.h"

#include "shape.h"
#include "status.h"

#include <stdlib.h>

int balance_parse(const char *text, const struct moe_shape *shape, double weight[2])
{
    static const double most = 1000;
    char *end;

    weight[1] = 0;
    weight[0] = strtod(text, &end);
    if (end != text && *end == ',' && shape->router == MOE_ROUTER_BILEVEL) {
        const char *second = end + 1;

        weight[1] = strtod(second, &end);
        end = end == second ? "?" : end;
    }
    if (end == text || *end || !(weight[0] >= 0 && weight[0] <= most) ||
        !(weight[1] >= 0 && weight[1] <= most))
        return fail(ERR_ARGUMENT, "--balance %s: %s from 0 to %g", text,
                    shape->router == MOE_ROUTER_BILEVEL ? "one or two weights are wanted, A,B, each"
                                                        : "one weight is wanted,",
                    most);
    return OK;
}

uint32_t balance_first_columns(const struct moe_shape *shape)
{
    return shape->router == MOE_ROUTER_BILEVEL ? shape->groups : shape->experts;
}

double balance_factor(const struct moe_shape *shape, const double weight[2], int level)
{
    uint32_t first = balance_first_columns(shape);

    return weight[level] * (level ? shape_gate_columns(shape) - first : first);
}
