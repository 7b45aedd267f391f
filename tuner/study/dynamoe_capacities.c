/* Capacities that follow the experts: Figures 6, 8 and 9. */
#include "counts_replay.h"
#include "dynamoe_rows.h"
#include "made_traces.h"
#include "status.h"
#include "study_cells.h"

#include <stdlib.h>

/* What a training under one rule for capacities comes to. */
struct outcome {
    double factor, fullest; /* rows over choices; of the fullest rank */
    double dropped;         /* share of choices */
    double replans;         /* per thousand steps */
    double bytes;           /* at the end */
    double ns, known_ns;    /* mean of all steps */
};

static int make_trace(struct counts_trace *out)
{
    return made_figure_8(1, 200, dynamoe_ask().shape.tokens, out);
}

static int price(const struct cluster *machine, const uint64_t *rows, struct modelled_step *step,
                 double *bytes)
{
    struct modelled_ask ask = dynamoe_ask();

    ask.capacities = capacities_of(rows, DYNAMOE_EXPERTS);
    ask.known = true;
    TRY(modelled_step_of(machine, &ask, step));
    return modelled_bytes(machine, &ask, bytes);
}

/* ---- capacities that change */

struct follower {
    const struct cluster *machine;
    struct modelled_step step; /* under the capacities in force */
    struct outcome sums;
    int rc;
};

static void on_step(void *self, const struct counts_step *s)
{
    struct follower *f = self;

    if (f->rc)
        return;
    if (!s->step || s->replanned) {
        uint64_t rows[DYNAMOE_EXPERTS];
        double bytes;

        for (int e = 0; e < DYNAMOE_EXPERTS; e++)
            rows[e] = s->rows[e];
        f->rc = price(f->machine, rows, &f->step, &bytes);
        if (f->rc)
            return;
        f->sums.bytes = bytes;
    }
    f->sums.ns += f->step.ns;
    f->sums.known_ns += f->step.known_ns;
}

static int replay(const struct cluster *machine, const struct counts_trace *trace,
                  enum counts_way way, struct outcome *out)
{
    struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct follower f = { .machine = machine };
    struct counts_sum sum;

    options.slack = 50;
    TRY(counts_replay(trace, &options, way, NULL, on_step, &f, &sum));
    TRY(f.rc);
    *out = (struct outcome){ .factor = sum.factor,
                             .fullest = sum.fullest_factor,
                             .dropped = sum.dropped_share,
                             .replans = 1000. * (double)sum.replans / (double)sum.steps,
                             .bytes = f.sums.bytes,
                             .ns = f.sums.ns / (double)sum.steps,
                             .known_ns = f.sums.known_ns / (double)sum.steps };
    return OK;
}

/* ---- one capacity for all */

static double dropped_beyond(const struct counts_trace *trace, uint64_t rows)
{
    double all = 0, dropped = 0;

    for (size_t i = 0; i < trace->steps * trace->experts; i++) {
        all += trace->counts[i];
        dropped += trace->counts[i] > rows ? (double)(trace->counts[i] - rows) : 0;
    }
    return dropped / all;
}

static int hold(const struct cluster *machine, const struct counts_trace *trace, double factor,
                struct outcome *out)
{
    uint64_t rows[DYNAMOE_EXPERTS];
    struct modelled_step step;
    double bytes;

    for (int e = 0; e < DYNAMOE_EXPERTS; e++)
        rows[e] = (uint64_t)ceil(factor * trace->choices / DYNAMOE_EXPERTS);
    TRY(price(machine, rows, &step, &bytes));
    *out = (struct outcome){ .factor = factor,
                             .fullest = factor,
                             .dropped = dropped_beyond(trace, rows[0]),
                             .bytes = bytes,
                             .ns = step.ns,
                             .known_ns = step.known_ns };
    return OK;
}

/* ---- rows */

static int put_outcome(const char *name, const struct outcome *o, struct study_table *table)
{
    TRY(put_value(table, name, "factor", o->factor));
    TRY(put_value(table, name, "fullest", o->fullest));
    TRY(put_value(table, name, "dropped, ppm", 1e6 * o->dropped));
    TRY(put_value(table, name, "replans per 1000", o->replans));
    TRY(put_value(table, name, "GiB", o->bytes * 0x1p-30));
    return put_value(table, name, "step, ms", o->ns * 1e-6);
}

static int fill8(const struct cluster *machine, const struct counts_trace *trace,
                 struct study_table *table)
{
    struct outcome o;

    TRY(hold(machine, trace, 7, &o));
    TRY(put_outcome("static 7", &o, table));
    TRY(replay(machine, trace, COUNTS_STATIC, &o));
    TRY(put_outcome("static 2.5", &o, table));
    TRY(replay(machine, trace, COUNTS_EMA, &o));
    TRY(put_outcome("EMA rule", &o, table));
    TRY(replay(machine, trace, COUNTS_FOLLOWED, &o));
    return put_outcome("followed", &o, table);
}

static int fill6(const struct cluster *machine, const struct counts_trace *trace,
                 struct study_table *table)
{
    struct outcome seven, one, ema, followed;

    TRY(hold(machine, trace, 7, &seven));
    TRY(hold(machine, trace, 1, &one));
    TRY(replay(machine, trace, COUNTS_EMA, &ema));
    TRY(replay(machine, trace, COUNTS_FOLLOWED, &followed));
    TRY(put_predicted(table, "dynamic, EMA rule", "gain", seven.ns / ema.ns, 1.4));
    TRY(put_predicted(table, "dynamic, followed", "gain", seven.ns / followed.ns, 1.4));
    TRY(put_predicted(table, "and caching, EMA rule", "gain", seven.ns / ema.known_ns, 1.7));
    TRY(put_predicted(table, "and caching, followed", "gain", seven.ns / followed.known_ns, 1.7));
    return put_predicted(table, "static 1", "gain", seven.ns / one.ns, 1.7);
}

static int put_share(const char *name, const struct outcome *o, const struct outcome *four,
                     struct study_table *table)
{
    TRY(put_value(table, name, "step, %", 100 * o->ns / four->ns));
    TRY(put_value(table, name, "dropped, %", 100 * o->dropped));
    return put_value(table, name, "factor", o->factor);
}

static int fill9(const struct cluster *machine, const struct counts_trace *trace,
                 struct study_table *table)
{
    struct outcome four, o;
    char name[24];

    TRY(hold(machine, trace, 4, &four));
    for (int factor = 1; factor <= 4; factor++) {
        TRY(hold(machine, trace, factor, &o));
        snprintf(name, sizeof(name), "static %d", factor);
        TRY(put_share(name, &o, &four, table));
    }
    TRY(replay(machine, trace, COUNTS_EMA, &o));
    TRY(put_share("EMA rule", &o, &four, table));
    TRY(replay(machine, trace, COUNTS_FOLLOWED, &o));
    return put_share("followed", &o, &four, table);
}

static int on_trace(const struct cluster *machine, struct study_table *table,
                    int (*fill)(const struct cluster *, const struct counts_trace *,
                                struct study_table *))
{
    struct counts_trace trace;
    int rc;

    TRY(make_trace(&trace));
    rc = fill(machine, &trace, table);
    counts_free(&trace);
    return rc;
}

int dynamoe_figure6(const struct cluster *machine, struct study_table *table)
{
    return on_trace(machine, table, fill6);
}

int dynamoe_figure8(const struct cluster *machine, struct study_table *table)
{
    return on_trace(machine, table, fill8);
}

int dynamoe_figure9(const struct cluster *machine, struct study_table *table)
{
    return on_trace(machine, table, fill9);
}
