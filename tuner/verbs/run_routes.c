/* Fresh and known steps by turns, and what is gained. */
#include "run_routes.h"

#include "judge.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const run_routes_words[] = { "fresh", "known", "both", NULL };
const char *const run_changed_words[] = { "keep", "zero", NULL };

enum routes run_routes_of(uint32_t changed)
{
    return changed ? ROUTES_ZERO : ROUTES_KEEP;
}

/* Known from here on is what `fresh`, which has run, has chosen. */
static int open_known(struct runner *fresh, enum routes routes, struct runner *out)
{
    struct rig *rig = fresh->rig;
    struct runner known = { 0 };
    int rc;

    rig->routes = routes;
    rc = runner_open(rig, &fresh->plan, &known);
    rig->routes = ROUTES_FRESH;
    if (!rc)
        rc = rig_know(rig, fresh->exec, known.exec);
    if (rc)
        runner_close(&known);
    else
        *out = known;
    return rc;
}

int run_routes_open(struct rig *rig, const struct moe_plan *plan, enum routes routes,
                    struct runner *out)
{
    struct runner fresh = { 0 };
    int rc = runner_open(rig, plan, &fresh);

    if (!rc)
        rc = runner_warm(&fresh, 1);
    if (!rc)
        rc = open_known(&fresh, routes, out);
    runner_close(&fresh);
    return rc;
}

static int route(void *self)
{
    struct runner *fresh = self;

    return rig_route(fresh->rig, fresh->exec);
}

/* What is timed of a plan, by turns. */
enum turn { FRESH, KNOWN, GATE, TURNS };

static int take_turn(struct subject *s, struct runner *known, enum turn turn, int64_t *ns)
{
    struct measured measured;

    if (turn != GATE)
        return runner_step(turn == KNOWN ? known : &s->runner, STEP_BOTH, ns);
    TRY(measure_once(s->runner.rig->world, s->runner.rig->engine, NULL, route, &s->runner,
                     &measured));
    *ns = measured.ns;
    return OK;
}

/* Less time than the fresh step of the same round took, in millionths of it. */
static int64_t gain_ppm(int64_t fresh_ns, int64_t ns)
{
    return fresh_ns ? (fresh_ns - ns) * 1000000 / fresh_ns : 0;
}

static int time_rounds(struct subject *s, struct runner *known, uint32_t reps, uint64_t seed,
                       int64_t *samples)
{
    int64_t *of[TURNS] = { samples, samples + reps, samples + 2 * (size_t)reps };
    int64_t *gain = samples + 3 * (size_t)reps;
    int order[TURNS];

    for (uint32_t round = 0; round < reps; round++) {
        measure_order(seed, round, TURNS, order);
        for (int i = 0; i < TURNS; i++)
            TRY(take_turn(s, known, (enum turn)order[i], &of[order[i]][round]));
        gain[round] = gain_ppm(of[FRESH][round], of[KNOWN][round]);
    }
    s->known.gain_ppm = spread_of(gain, reps);
    s->known.fresh = spread_of(of[FRESH], reps);
    s->known.step = spread_of(of[KNOWN], reps);
    s->known.gate = spread_of(of[GATE], reps);
    return OK;
}

static int run_one(struct subject *s, enum routes routes, bool check, uint32_t reps, uint64_t seed)
{
    enum { WARMUP = 2 };
    struct world *world = s->runner.rig->world;
    int64_t *samples = calloc(4 * (size_t)reps, sizeof(*samples));
    struct runner known = { 0 };
    struct rig *rig = s->runner.rig;
    bool whole = check && reference_is_bearable(&rig->data.shape);
    int rc = samples ? OK : fail(ERR_NOMEM, "%u samples", reps);

    TRY_OUT(world_settle(world, rc));
    TRY_OUT(open_known(&s->runner, routes, &known));
    if (whole)
        TRY_OUT(rig_check(rig, known.exec, &s->known.error));
    if (check && !whole)
        TRY_OUT(rig_spoil(rig));
    TRY_OUT(runner_warm(&known, WARMUP));
    if (check && !whole)
        TRY_OUT(rig_check_some(rig, known.exec, &s->known.error));
    s->error = fmax(s->error, s->known.error);
    rc = time_rounds(s, &known, reps, seed, samples);
out:
    runner_close(&known);
    free(samples);
    return rc;
}

int run_routes(struct subject *subjects, size_t count, enum routes routes, bool check,
               uint32_t reps, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        TRY(run_one(&subjects[i], routes, check, reps, seed + i));
    return OK;
}

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

static double ceiling_percent(const struct subject *s)
{
    return s->known.fresh.median_ns
               ? 100 * (double)s->known.gate.median_ns / (double)s->known.fresh.median_ns
               : 0;
}

void run_routes_text(const struct subject *subjects, size_t count, int wide)
{
    printf(
        "\nknown routes: slots from choices that are there, the gate behind the first send; gain "
        "%% of\nthe fresh step of the same round; no more can be gained than the gate takes "
        "alone\n\n%-*s %9s %9s %7s %18s %9s %8s\n",
        wide, "plan", "fresh", "known", "gain %", "95 % interval", "gate", "gate %");
    for (size_t i = 0; i < count; i++) {
        const struct subject *s = &subjects[i];

        printf("%-*s %9.3f %9.3f %7.2f %7.2f to %7.2f %9.3f %8.2f\n", wide,
               PLAN_TEXT(&s->runner.plan), ms(s->known.fresh.median_ns),
               ms(s->known.step.median_ns), (double)s->known.gain_ppm.median_ns * 1e-4,
               (double)s->known.gain_ppm.low_ns * 1e-4, (double)s->known.gain_ppm.high_ns * 1e-4,
               ms(s->known.gate.median_ns), ceiling_percent(s));
    }
}

void run_routes_json(const struct subject *s)
{
    printf(", \"known\": {\"fresh_ns\": %lld, \"known_ns\": %lld, \"gate_ns\": %lld, "
           "\"gain\": %.6f, \"gain_low\": %.6f, \"gain_high\": %.6f, \"ceiling\": %.6f}",
           (long long)s->known.fresh.median_ns, (long long)s->known.step.median_ns,
           (long long)s->known.gate.median_ns, (double)s->known.gain_ppm.median_ns * 1e-6,
           (double)s->known.gain_ppm.low_ns * 1e-6, (double)s->known.gain_ppm.high_ns * 1e-6,
           ceiling_percent(s) / 100);
}
