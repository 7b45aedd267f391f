/* Phases of the plans of one call of run. */
#include "run_phases.h"

#include "baseline.h"
#include "plan.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *subject_text(const struct subject *subject, char room[SUBJECT_TEXT_BYTES])
{
    const char *word = "";

    for (int i = 0; baseline_words[i]; i++)
        if (subject->baseline == 1u << i)
            word = baseline_words[i];
    snprintf(room, SUBJECT_TEXT_BYTES, "%s%s%s", PLAN_TEXT(&subject->runner.plan), *word ? " " : "",
             word);
    return room;
}

static int measure(struct subject *subjects, size_t count, uint32_t reps, uint64_t seed, int *order,
                   struct phase_times *samples)
{
    struct phase_times unused;

    for (size_t i = 0; i < count; i++) /* makes the events */
        TRY(runner_phases(&subjects[i].runner, &unused));
    for (uint32_t round = 0; round < reps; round++) {
        measure_order(seed, round, (int)count, order);
        for (size_t i = 0; i < count; i++)
            TRY(runner_phases(&subjects[order[i]].runner,
                              &samples[(size_t)order[i] * reps + round]));
    }
    return OK;
}

int run_phases(struct subject *subjects, size_t count, uint32_t reps, uint64_t seed)
{
    uint32_t n = reps < PHASE_SAMPLES_LEAST ? PHASE_SAMPLES_LEAST : reps;
    struct phase_times *samples = calloc(count * n, sizeof(*samples));
    int *order = calloc(count, sizeof(*order));
    int rc = samples && order ? OK : fail(ERR_NOMEM, "%u samples of phases", n);

    rc = world_settle(subjects[0].runner.rig->world, rc);
    if (!rc)
        rc = measure(subjects, count, n, seed, order, samples);
    for (size_t i = 0; i < count && !rc; i++)
        rc = phases_spread(&samples[i * n], n, &subjects[i].phases);
    free(order);
    free(samples);
    return rc;
}

static void print_plan(const struct subject *subject, int plan_width)
{
    const struct spread *share = &subject->phases.exchanges_ppm, *of = subject->phases.of;

    for (int i = 0; i < PHASE_COUNT; i++)
        if (of[i].high_ns) /* the plan has such work */
            printf("%-*s %-23s %9.3f %9.3f-%9.3f %6.3f\n", plan_width,
                   i ? "" : SUBJECT_TEXT(subject), phase_titles[i], (double)of[i].median_ns * 1e-6,
                   (double)of[i].low_ns * 1e-6, (double)of[i].high_ns * 1e-6,
                   (double)of[i].median_ns / (double)of[PHASE_TOTAL].median_ns);
    printf("%-*s %-23s %9s %9.3f-%9.3f %6.3f\n", plan_width, "", "share of exchanges", "",
           (double)share->low_ns * 1e-6, (double)share->high_ns * 1e-6,
           (double)share->median_ns * 1e-6);
}

void run_phases_text(const struct subject *subjects, size_t count, int plan_width)
{
    printf("\nphases one after the other, each while the other stream is muted\n\n"
           "%-*s %-23s %9s %19s %6s\n",
           plan_width, "plan", "phase", "ms", "95 % interval", "share");
    for (size_t i = 0; i < count; i++)
        print_plan(&subjects[i], plan_width);
    printf("\nissued by the host in one step, before it waits\n\n%-*s %9s %9s %9s %9s\n",
           plan_width, "plan", "kernels", "events", "exchanges", "host");
    for (size_t i = 0; i < count; i++) {
        const struct issued *x = &subjects[i].runner.issued;

        printf("%-*s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9.3f\n", plan_width,
               SUBJECT_TEXT(&subjects[i]), x->kernels, x->events, x->exchanges,
               (double)x->host_ns * 1e-6);
    }
}

void run_phases_json(const struct subject *subject)
{
    const struct spread *share = &subject->phases.exchanges_ppm, *of = subject->phases.of;
    const struct issued *x = &subject->runner.issued;

    printf(", \"phases\": {");
    for (int i = 0; i < PHASE_COUNT; i++)
        printf("\"%s\": {\"median_ns\": %" PRId64 ", \"low_ns\": %" PRId64 ", \"high_ns\": %" PRId64
               "}, ",
               phase_words[i], of[i].median_ns, of[i].low_ns, of[i].high_ns);
    printf("\"share_of_exchanges\": {\"median\": %.6f, \"low\": %.6f, \"high\": %.6f}}",
           (double)share->median_ns * 1e-6, (double)share->low_ns * 1e-6,
           (double)share->high_ns * 1e-6);
    printf(", \"kernels\": %" PRId64 ", \"events\": %" PRId64 ", \"exchanges\": %" PRId64
           ", \"host_ns\": %" PRId64,
           x->kernels, x->events, x->exchanges, x->host_ns);
}
