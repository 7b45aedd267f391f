/* Sends one plan at one bucket through the ranks, step by step, and keeps what came of it. */
#include "attempt.h"

#include "account.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int attempt_rule_out(struct campaign *c, struct attempt *a, int64_t bytes,
                     int64_t memory_limit_bytes)
{
    struct trial_row *trial = &a->trial;

    a->usable = false;
    if (trial->id && trial->state == TRIAL_RULED_OUT)
        return OK;
    trial->run = c->run.row.id;
    TRY(store_trial_begin(c->store, trial));
    trial->state = TRIAL_RULED_OUT;
    trial->memory_bytes = bytes;
    snprintf(trial->message, sizeof(trial->message), "needs %s per rank, %s are allowed",
             ACCOUNT_TEXT(bytes), ACCOUNT_TEXT(memory_limit_bytes));
    return store_trial_update(c->store, trial);
}

static int conclude(struct campaign *c, struct attempt *a, const struct reply *reply)
{
    struct trial_row *trial = &a->trial;

    if (reply->state == TRIAL_OK && reply->compute_ns) {
        trial->memory_bytes = reply->memory_bytes;
        trial->sent_bytes = reply->sent_bytes;
        trial->messages = reply->messages;
        trial->node_rows = reply->node_rows;
        trial->compute_ns = reply->compute_ns;
        trial->comm_ns = reply->comm_ns;
        trial->state = TRIAL_OK;
        TRY(store_trial_update(c->store, trial));
        return reply->phases[PHASE_TOTAL].ns ? store_phases(c->store, trial->id, reply->phases)
                                             : OK;
    }
    return ledger_end(c->store, a, reply->state, reply->message);
}

/* In a row: of one plan, or of the machine.  What is disturbed for longer is how it runs. */
enum { PATIENCE = 4 };

static int keep_sample(struct campaign *c, struct attempt *a, struct sample_row *s,
                       struct step *out)
{
    bool disturbed = s->gpu.throttled != SAMPLE_FREE || heat_lost_much(s->ns, s->lost_ns);

    if (disturbed)
        s->gpu.throttled = a->held_back < PATIENCE && c->held_back < PATIENCE ? SAMPLE_SET_ASIDE
                                                                              : SAMPLE_DISTURBED;
    a->held_back = disturbed ? a->held_back + 1 : 0;
    c->held_back = disturbed ? c->held_back + 1 : 0;
    snprintf(s->load, sizeof(s->load), "%s", c->load);
    heat_add(&c->heat, s);
    TRY(ledger_sample(c->store, a, s, &out->counts));
    /* Ever longer, 50 ms to .4 s: a step that follows at once finds the same heat or rival. */
    if (!out->counts && !c->setup->sim)
        usleep(25000u << (a->held_back > c->held_back ? a->held_back : c->held_back));
    return OK;
}

/* Before it runs and after: the first time a plan is set up and checked, which takes longer. */
static void show(struct campaign *c, const struct attempt *a, const char *what)
{
    text_put(c->run.row.now, sizeof(c->run.row.now), "bucket %u (c=%" PRIu64 ") %s",
             a->trial.key.bucket, a->trial.capacity, PLAN_TEXT(&a->trial.key.plan));
    progress_show(&c->progress, "%s%s", c->run.row.now, what);
}

int attempt_step(struct campaign *c, struct attempt *a, enum sample_kind kind, uint32_t round,
                 struct step *out)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = a->trial.capacity,
                           .plan = a->trial.key.plan };
    struct reply reply;
    char took[32];
    int64_t number;
    int rc;

    TRY(ledger_begin(c->store, c->run.row.id, a, false));
    TRY(store_next_sample(c->store, &number));
    order.sample = (uint64_t)number;
    show(c, a, "");
    rc = crew_do(c->crew, &order, &reply);
    if (!rc && ledger_forgives(a, reply.state))
        rc = crew_do(c->crew, &order, &reply);
    if (rc == ERR_CUT)
        TRY(ledger_spare(c->store, a));
    TRY(rc);
    TRY(conclude(c, a, &reply));
    *out = (struct step){ .ns = reply.state == TRIAL_OK ? reply.ns : 0 };
    c->run.row.samples_warm += reply.warm_steps;
    if (out->ns) {
        *(kind == SAMPLE_SEARCH ? &c->run.row.samples_search : &c->run.row.samples_default) += 1;
        TRY(keep_sample(c, a,
                        &(struct sample_row){ .kind = kind,
                                              .round = round,
                                              .ns = out->ns,
                                              .gpu = reply.gpu,
                                              .lost_ns = reply.lost_ns,
                                              .run = c->run.row.id },
                        out));
    }
    TRY(campaign_commit(c));
    c->progress.steps++;
    text_put(took, sizeof(took), " %.3f ms", (double)out->ns * 1e-6);
    show(c, a, took);
    return OK;
}
