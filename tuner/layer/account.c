/* Adds up what layer, tokens, executors and reference say of themselves. */
#include "account.h"

#include "exec.h"
#include "reference.h"
#include "rig.h"

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

int64_t account_layer(const struct moe_shape *shape, const struct account_machine *machine)
{
    int64_t tokens = bytes_of(rig_bytes(shape, shape->tokens));

    return account_sum(bytes_of(layer_bytes(shape)),
                       account_sum(tokens, bytes_of(machine->cache_bytes)));
}

int64_t account_plan(const struct moe_shape *shape, const struct account_machine *machine,
                     const struct moe_plan *plan, uint64_t capacity)
{
    struct topology topology = { 0, (int)shape->ranks, (int)shape->ranks_per_node };

    return bytes_of(exec_bytes(shape, plan, &topology, shape->tokens, capacity,
                               machine->on_host ? (uint32_t)MOE_F32 : shape->dtype));
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

const char *account_text(int64_t bytes, char room[ACCOUNT_TEXT_BYTES])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1000 && unit < 6; unit++)
        value /= 1024;
    if (bytes == INT64_MAX)
        snprintf(room, ACCOUNT_TEXT_BYTES, "unlimited memory");
    else
        snprintf(room, ACCOUNT_TEXT_BYTES, "%.3g %s", value, units[unit]);
    return room;
}
