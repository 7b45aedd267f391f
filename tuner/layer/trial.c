/* Prepares, warms and steps one plan. */
#include "trial.h"

#include "fault.h"
#include "status.h"

#include <signal.h>
#include <unistd.h>

int trial_open(struct rig *rig, const struct moe_plan *plan, struct trial *out)
{
    struct trial trial = { .rig = rig, .plan = *plan, .capacity = rig->capacity };
    int rc;

    TRY(rig_exec(rig, plan, &trial.exec));
    trial.memory_bytes = (int64_t)(trial.exec->memory_bytes + rig->memory_bytes);
    rc = world_max(rig->world, &trial.memory_bytes, 1);
    if (rc) {
        trial_close(&trial);
        return rc;
    }
    *out = trial;
    return OK;
}

void trial_close(struct trial *trial)
{
    exec_close(trial->exec);
    *trial = (struct trial){ 0 };
}

/* What a test may want to happen to one rank in the middle of a step. */
static void inject_fault(void)
{
    if (fault_hit("crash"))
        raise(SIGKILL);
    while (fault_hit("hang"))
        for (;;)
            pause();
}

struct one_step {
    struct trial *trial;
    enum step_mode mode;
};

static int step(void *self)
{
    struct one_step *s = self;
    struct rig *rig = s->trial->rig;
    int rc;

    inject_fault();
    rig->engine->comm->muted = s->mode == STEP_COMPUTE;
    rig->engine->compute->muted = s->mode == STEP_COMM;
    rc = rig_step(rig, s->trial->exec);
    rig->engine->comm->muted = rig->engine->compute->muted = false;
    return rc;
}

static int time_step(struct one_step one, struct disturbance *watch, struct measured *out)
{
    struct rig *rig = one.trial->rig;

    if (rig->cold) /* on every rank or on none */
        TRY(world_settle(rig->world, engine_cool(rig->engine, rig->cold)));
    return measure_once(rig->world, rig->engine, watch, step, &one, out);
}

int trial_step(struct trial *trial, enum step_mode mode, int64_t *ns)
{
    struct measured measured;

    TRY(time_step((struct one_step){ trial, mode }, NULL, &measured));
    *ns = measured.ns;
    return OK;
}

int trial_watch(struct trial *trial, struct disturbance *watch, struct measured *out)
{
    return time_step((struct one_step){ trial, STEP_BOTH }, watch, out);
}

int trial_warm(struct trial *trial, uint32_t steps)
{
    const struct wire *wire = trial->rig->engine->wire;
    int64_t ns, agreed[2];

    for (uint32_t i = 1; i < steps; i++)
        TRY(trial_step(trial, STEP_BOTH, &ns));
    agreed[0] = -(int64_t)wire->sent_bytes;
    agreed[1] = -(int64_t)wire->messages;
    TRY(trial_step(trial, STEP_BOTH, &ns));
    agreed[0] += (int64_t)wire->sent_bytes;
    agreed[1] += (int64_t)wire->messages;
    TRY(world_max(trial->rig->world, agreed, 2));
    trial->sent_bytes = agreed[0];
    trial->messages = agreed[1];
    return OK;
}
