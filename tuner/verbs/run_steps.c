/* Goes through the steps that are replayed at a capacity. */
#include "run_steps.h"

#include "status.h"

#include <math.h>

static struct replay_steps steps_of(const struct rig *rig)
{
    return load_steps(rig->data.load, rig->capacity);
}

int run_steps_check(struct rig *rig, struct runner *runner, double *worst)
{
    struct replay_steps steps = steps_of(rig);
    double error;

    *worst = 0;
    for (uint32_t i = 0; i < steps.count; i++) {
        TRY(rig_replay(rig, steps.first + i));
        TRY(rig_check(rig, runner->exec, &error));
        *worst = fmax(*worst, error);
    }
    return OK;
}

int run_steps_dropped(struct rig *rig, struct runner *runner, int64_t *dropped)
{
    struct replay_steps steps = steps_of(rig);
    int64_t sum = 0, one;

    if (steps.count == 1)
        return rig_dropped(rig, runner->exec, dropped);
    for (uint32_t i = 0; i < steps.count; i++) {
        TRY(rig_replay(rig, steps.first + i));
        TRY(runner_warm(runner, 1));
        TRY(rig_dropped(rig, runner->exec, &one));
        sum += one;
    }
    *dropped = (sum + steps.count / 2) / steps.count;
    return OK;
}

int run_steps_check_known(const struct load *load)
{
    return load_step_count(load) > 1
               ? fail(ERR_ARGUMENT,
                      "--routes known or both: in the steps of --routing tokens choose "
                      "other experts each; known routes go with a file of one step")
               : OK;
}
