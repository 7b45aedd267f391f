/* Runs a survey on the ranks and turns its times into the model fields of a cluster. */
#include "probe.h"

#include "quota.h"
#include "rank_speeds.h"
#include "replay.h"
#include "stats.h"
#include "status.h"
#include "survey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_kernels(const struct survey *s, struct probe *p)
{
    const struct timetable *t = &s->table;
    const struct subject *copy = timetable_find(t, SUBJECT_COPY, LINK_INSIDE, NULL), *x = NULL;
    double launch_ns = timetable_ns(t, timetable_find(t, SUBJECT_LAUNCH, LINK_INSIDE, NULL));

    launch_ns = isnan(launch_ns) ? 0 : launch_ns; /* too little to be seen */
    p->model.launch_us = launch_ns * 1e-3;
    p->model.memory_gbs = workbench_copy_bytes(&s->bench) / (timetable_ns(t, copy) - launch_ns);
    for (int i = 0; (x = timetable_find(t, SUBJECT_PRODUCT, LINK_INSIDE, x)); i++)
        p->products[i] = (struct product_sample){
            .smallest = (double)x->chore.rows,
            .ops = workbench_product_ops(x->chore.rows),
            .floor_ns = workbench_product_bytes(x->chore.rows) / p->model.memory_gbs,
            .ns = timetable_ns(t, x) - 2 * launch_ns,
        };
    p->product = product_fit(p->products, PROBE_PRODUCTS);
    p->model.gemm_gflops = p->product.gflops;
    p->model.gemm_half_rows = p->product.half_rows;
}

static void read_link(const struct survey *s, enum link_level level, struct probe_link *link)
{
    const struct timetable *t = &s->table;
    const struct subject *x = NULL, *comm = timetable_find(t, SUBJECT_COMM, level, NULL);

    while ((x = timetable_find(t, SUBJECT_EXCHANGE, level, x)))
        link->samples[link->count++] =
            (struct link_sample){ x->messages, x->bytes, timetable_ns(t, x) };
    link->fit = link_fit(link->samples, link->count);
    link->slower =
        comm ? overlap_fit(timetable_ns(t, comm),
                           timetable_ns(t, timetable_find(t, SUBJECT_COMPUTE, level, NULL)),
                           timetable_ns(t, timetable_find(t, SUBJECT_BOTH, level, NULL)))
             : NAN;
}

static void read_links(const struct survey *s, struct probe *p)
{
    const struct link_fit *inside = &p->links[LINK_INSIDE].fit;
    const struct link_fit *between = &p->links[LINK_BETWEEN].fit;

    for (int level = 0; level < LINK_LEVELS; level++)
        read_link(s, (enum link_level)level, &p->links[level]);
    p->model.latency_inside_us = inside->latency_us;
    p->model.message_inside_us = inside->message_us;
    p->model.bandwidth_inside_gbs = inside->bandwidth_gbs;
    p->model.half_inside_kib = inside->half_kib;
    p->model.latency_between_us = between->latency_us;
    p->model.message_between_us = between->message_us;
    p->model.bandwidth_between_gbs = between->bandwidth_gbs;
    p->model.half_between_kib = between->half_kib;
    /* Where there are nodes, most of a step's communication is between them. */
    p->model.overlap_slowdown =
        p->links[s->most_partners[LINK_BETWEEN] ? LINK_BETWEEN : LINK_INSIDE].slower;
}

static void read_steps(const struct survey *s, struct probe *p)
{
    int64_t ns[TIMETABLE_ROUNDS * SURVEY_STEPS];
    const struct subject *x = NULL;
    struct noise_fit noise;

    for (int i = 0; (x = timetable_find(&s->table, SUBJECT_STEP, LINK_INSIDE, x)); i++)
        for (uint32_t round = 0; round < s->table.rounds; round++)
            ns[round * SURVEY_STEPS + (uint32_t)i] = x->ns[round];
    noise = noise_fit(ns, s->table.rounds, SURVEY_STEPS);
    p->model.noise_percent = noise.noise;
    p->model.outlier_percent = noise.outliers;
    p->model.drift_percent = noise.drift;
    p->step_ns = (double)spread_of(ns, s->table.rounds * SURVEY_STEPS).median_ns;
}

/* All ranks at once: those of one group share its quota. */
static int find_quota_share(struct world *world, double *share)
{
    enum { PERIODS = 10, LEAST_NS = 300000000 };
    int64_t ns = PERIODS * quota_period_ns();

    TRY(world_max(world, &ns, 1));
    *share = ns ? quota_share(ns > LEAST_NS ? ns : LEAST_NS) : 1;
    return OK;
}

static double median_ns(const struct own_sample *samples, size_t count)
{
    int64_t ns[OWN_SAMPLES];

    for (size_t i = 0; i < count; i++)
        ns[i] = samples[i].ns;
    return count ? (double)spread_of(ns, count).median_ns : NAN;
}

/* A device of its own is not slowed by what else goes on. */
static int own_half_ns(const struct survey *s, double *ns)
{
    struct own_sample samples[OWN_SAMPLES];
    size_t count = timetable_own(&s->table, samples);
    double share;

    if (s->engine->device->asynchronous) {
        *ns = median_ns(samples, count);
        return OK;
    }
    TRY(find_quota_share(s->world, &share));
    *ns = own_fit_ns(samples, count, share);
    return OK;
}

static int read_speeds(const struct survey *s, struct probe *p)
{
    size_t ranks = (size_t)p->rank_count;
    double mine, fastest = NAN, *all = calloc(ranks, sizeof(*all));
    int rc = world_settle(s->world, all ? OK : fail(ERR_NOMEM, "%zu ranks", ranks));

    if (!rc)
        rc = own_half_ns(s, &mine);
    if (!rc)
        rc = world_gather(s->world, &mine, all, sizeof(mine));
    for (size_t q = 0; q < ranks && !rc; q++)
        fastest = fmin(fastest, all[q]);
    for (size_t q = 0; q < ranks && !rc; q++)
        p->ranks[q].speed = all[q] = fastest / all[q];
    if (!rc)
        rank_speeds_format(all, ranks, p->model.rank_speeds_percent,
                           sizeof(p->model.rank_speeds_percent));
    free(all);
    return rc;
}

/* Four digits say more than is known; what a cluster may not say stays unknown. */
static void tidy(struct cluster *model)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        double *value = (double *)(void *)((char *)model + f->offset);
        char text[32];

        if (f->class != CLUSTER_MODEL || f->kind != FIELD_NUMBER)
            continue;
        snprintf(text, sizeof(text), "%.4g", *value);
        *value = *value >= f->least && *value <= f->most ? strtod(text, NULL) : NAN;
    }
}

static int measure(const struct probe_setup *setup, struct survey *s)
{
    struct probe *p = s->probe;

    TRY(survey_open(s, setup->seed));
    TRY(timetable_run(&s->table, setup->seconds, PROBE_ROUNDS_LEAST, setup->seed, setup->tick,
                      setup->self));
    p->rounds = s->table.rounds;
    p->seconds = s->table.seconds;
    read_kernels(s, p);
    read_links(s, p);
    read_steps(s, p);
    TRY(read_speeds(s, p));
    tidy(&p->model);
    p->replay_ns = replay_ns(&p->model, &p->shape, &p->plan, p->capacity);
    return OK;
}

int probe_open(const struct probe_setup *setup, const struct cluster *known, struct probe **out)
{
    int ranks = world_topology(setup->world)->ranks;
    struct probe *probe = calloc(1, sizeof(*probe));
    struct survey *survey = calloc(1, sizeof(*survey));
    int rc;

    if (probe)
        probe->ranks = calloc((size_t)ranks, sizeof(*probe->ranks));
    rc = survey && probe && probe->ranks ? OK : fail(ERR_NOMEM, "what is known of %d ranks", ranks);
    rc = world_settle(setup->world, rc);
    if (!rc) {
        probe->model = *known;
        probe->rank_count = ranks;
        probe->copies_beside = -1;
        survey->probe = probe;
        survey->world = setup->world;
        survey->engine = setup->engine;
        rc = measure(setup, survey);
        survey_close(survey);
    }
    free(survey);
    if (rc) {
        probe_close(probe);
        return rc;
    }
    *out = probe;
    return OK;
}

void probe_close(struct probe *probe)
{
    if (probe)
        free(probe->ranks);
    free(probe);
}
