/* Adds up the bytes that layer, tokens, executors and reference need. */
#include "account.h"

#include "exec.h"
#include "judge.h"
#include "parts.h"
#include "rig.h"
#include "shape.h"

#include <stdio.h>

int64_t account_sum(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t bytes_of(size_t size)
{
    return size < INT64_MAX ? (int64_t)size : INT64_MAX;
}

static uint32_t compute_type(const struct moe_shape *shape, const struct account_machine *machine)
{
    return machine->on_host ? (uint32_t)MOE_F32 : shape->dtype;
}

/* Opens the parts, and finds the rank that needs most memory.  Among unequal ranks it is the
 * fastest: that one has most tokens, or most hidden units. */
static bool open_parts(const struct moe_shape *shape, const struct account_machine *machine,
                       struct parts *parts, uint32_t *neediest_rank)
{
    if (parts_open(shape, machine->speeds, parts))
        return false;
    *neediest_rank = 0;
    for (uint32_t q = 1; q < parts->ranks; q++)
        if (parts->tokens[q] > parts->tokens[*neediest_rank] ||
            (parts->tokens[q] == parts->tokens[*neediest_rank] &&
             parts->hidden[q] > parts->hidden[*neediest_rank]))
            *neediest_rank = q;
    return true;
}

int64_t account_layer(const struct moe_shape *shape, const struct account_machine *machine)
{
    struct data data = { .shape = *shape, .between = machine->between };
    struct parts parts;
    uint32_t neediest_rank;
    int64_t layer, tokens;

    if (!open_parts(shape, machine, &parts, &neediest_rank))
        return INT64_MAX;
    layer = bytes_of(layer_bytes(shape, parts.hidden[neediest_rank]));
    tokens = bytes_of(rig_bytes(&data, parts.tokens[neediest_rank], compute_type(shape, machine)));
    parts_close(&parts);
    return account_sum(layer, account_sum(tokens, bytes_of(machine->cache_bytes)));
}

/* The most bytes that a rank needs with a=rail, on the node whose experts have most rows: each of
 * its ranks holds rows of all experts of the node. */
static size_t rail_bytes(const struct moe_shape *shape, const struct account_machine *machine,
                         const struct moe_plan *plan, const struct capacities *capacities,
                         const struct parts *parts)
{
    struct topology topology = { 0, (int)shape->ranks, (int)shape->ranks_per_node,
                                 (int)shape->ranks_per_rack };
    uint32_t on_node = shape->ranks_per_node;
    uint64_t most_rows = 0;
    size_t most_bytes = 0;

    for (uint32_t node = 0; node < shape_nodes(shape); node++) {
        uint64_t rows = 0;

        for (uint32_t i = 0; i < on_node; i++)
            rows += capacities_of_rank(capacities, shape, (int)(node * on_node + i));
        if (rows > most_rows) {
            most_rows = rows;
            topology.rank = (int)(node * on_node);
        }
    }
    for (uint32_t i = 0; i < on_node; i++, topology.rank++) {
        size_t bytes = exec_bytes(shape, parts, plan, &topology, capacities,
                                  compute_type(shape, machine), machine->baseline);

        most_bytes = bytes > most_bytes ? bytes : most_bytes;
    }
    return most_bytes;
}

/* With unequal ranks, assumes that the fastest one also has the fullest experts. */
int64_t account_capacities(const struct moe_shape *shape, const struct account_machine *machine,
                           const struct moe_plan *plan, const struct capacities *capacities)
{
    struct topology topology = { 0, (int)shape->ranks, (int)shape->ranks_per_node,
                                 (int)shape->ranks_per_rack };
    struct parts parts;
    uint32_t neediest_rank;
    int64_t bytes;

    if (!open_parts(shape, machine, &parts, &neediest_rank))
        return INT64_MAX;
    topology.rank = capacities->rows ? capacities_fullest(capacities, shape) : (int)neediest_rank;
    parts.tokens[topology.rank] = parts.tokens[neediest_rank];
    parts.hidden[topology.rank] = parts.hidden[neediest_rank];
    bytes = bytes_of(exec_bytes(shape, &parts, plan, &topology, capacities,
                                compute_type(shape, machine), machine->baseline));
    if (capacities->rows && plan->a == MOE_A2A_RAIL) {
        int64_t rail = bytes_of(rail_bytes(shape, machine, plan, capacities, &parts));

        bytes = rail > bytes ? rail : bytes;
    }
    parts_close(&parts);
    return bytes;
}

int64_t account_plan(const struct moe_shape *shape, const struct account_machine *machine,
                     const struct moe_plan *plan, uint64_t capacity)
{
    return account_capacities(shape, machine, plan, &(struct capacities){ capacity, NULL });
}

int64_t account_check(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan)
{
    struct moe_shape small = reference_shape(*shape);
    int64_t reference = machine->on_host ? bytes_of(reference_bytes(&small)) : 0;
    int64_t spot = machine->on_host ? bytes_of(spot_bytes(shape)) : 0;

    if (!machine->checks)
        return 0;
    return account_sum(
        account_sum(account_layer(&small, machine), spot),
        account_sum(account_plan(&small, machine, plan, reference_capacity(&small)), reference));
}

int64_t account_alone(const struct moe_shape *shape, const struct account_machine *machine,
                      const struct moe_plan *plan, uint64_t capacity)
{
    int64_t layer = account_layer(shape, machine), check = account_check(shape, machine, plan);

    return account_sum(account_sum(layer, check), account_plan(shape, machine, plan, capacity));
}

const char *account_text(int64_t bytes, char text[ACCOUNT_TEXT_BYTES])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1000 && unit < 6; unit++)
        value /= 1024;
    if (bytes == INT64_MAX)
        snprintf(text, ACCOUNT_TEXT_BYTES, "unlimited memory");
    else
        snprintf(text, ACCOUNT_TEXT_BYTES, "%.3g %s", value, units[unit]);
    return text;
}
