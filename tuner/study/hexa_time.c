/* Data- against model-centric, on equal devices and on unequal ones: Tables 3 and 8, Figures 20
 * and 22. */
#include "hexa_rows.h"
#include "rank_speeds.h"
#include "status.h"
#include "study_cells.h"

/* ---- equal devices */

static int put_differences(const struct cluster *machine, enum hexa_scale scale, uint32_t k,
                           uint32_t images, const double published[3], struct study_table *table)
{
    const struct hexa_model model = { scale, 4, 4, k, images, MOE_F16, MOE_SHARES_EQUAL };
    double ns[3];
    char row[48], column[24];

    snprintf(column, sizeof(column), "top-%u, %u", k, images);
    for (int w = HEXA_PADDED; w <= HEXA_MODEL; w++) {
        TRY(hexa_ns(machine, &model, (enum hexa_way)w, &ns[w]));
        snprintf(row, sizeof(row), "%s %s, layers", hexa_scale_names[scale], hexa_way_names[w]);
        TRY(put_value(table, row, column, ns[w] * 1e-9));
    }
    for (int w = HEXA_PADDED; w <= HEXA_MODEL; w++) {
        if (w == HEXA_DATA)
            continue;
        snprintf(row, sizeof(row), "%s %s - data", hexa_scale_names[scale], hexa_way_names[w]);
        TRY(put_predicted(table, row, column, (ns[w] - ns[HEXA_DATA]) * 1e-9,
                          published[w] - published[HEXA_DATA]));
    }
    return OK;
}

int hexa_table8(const struct cluster *machine, struct study_table *table)
{
    /* Tutel, data- and model-centric. */
    static const double published[HEXA_SCALES][4][3] = {
        { { 2.40, .99, 1.51 }, { 2.66, 1.16, 1.60 }, { 2.54, 1.30, 1.69 }, { 2.18, 1.41, 1.82 } },
        { { 3.01, .68, 1.33 }, { 2.53, .85, 1.48 }, { 3.28, 1.05, 1.59 }, { 3.00, 1.07, 1.68 } },
    };

    for (int scale = 0; scale < HEXA_SCALES; scale++)
        for (uint32_t k = 1; k <= 4; k++)
            TRY(put_differences(machine, (enum hexa_scale)scale, k,
                                (scale == HEXA_BASE ? 120 : 150) - 10 * k, published[scale][k - 1],
                                table));
    return OK;
}

/* W1, W2, b1 and b2 of all experts. */
static double parameters(const struct moe_shape *s)
{
    return (double)s->experts * ((2.0 * s->model_dim + 1) * s->hidden_dim + s->model_dim);
}

/* Of all layers of the shape. */
static double sent_by_formula(const struct modelled_ask *ask)
{
    static const double element = 2;
    const struct moe_shape *s = &ask->shape;
    double layers = s->layers, others = s->ranks - 1, tokens = s->tokens;
    double gathered = others / s->ranks * element;

    if (!ask->plan.r)
        return (ask->plan.w == MOE_CACHE ? 3 * layers - 1 : 2 * layers) * parameters(s) * gathered;
    return layers * (4 * others * tokens * s->model_dim * element +
                     12 * others * tokens * s->top_k + 2 * gathered * s->experts * s->model_dim);
}

int hexa_traffic(const struct cluster *machine, struct study_table *table)
{
    for (int w = HEXA_DATA; w < HEXA_WAYS; w++)
        for (uint32_t k = 1; k <= 2; k++) {
            const struct hexa_model model = { HEXA_BASE, 4, 4, k, 80, MOE_F16, MOE_SHARES_EQUAL };
            struct modelled_ask ask = hexa_ask(&model, 0, (enum hexa_way)w);
            struct modelled_step step;
            char row[48];

            TRY(modelled_step_of(machine, &ask, &step));
            snprintf(row, sizeof(row), "%s, top-%u", hexa_way_names[w], k);
            TRY(put_value(table, row, "sent", step.sent_bytes * 1e-6));
            TRY(put_value(table, row, "formula", sent_by_formula(&ask) * 1e-6));
        }
    return OK;
}

static double all_sent(const struct hexa_model *model, enum hexa_way way)
{
    double sum = 0;

    for (int i = 0; i < HEXA_SIZES; i++) {
        struct modelled_ask ask = hexa_ask(model, i, way);

        sum += sent_by_formula(&ask);
    }
    return sum;
}

/* With so many images per GPU. */
struct contest {
    double data_ns, model_ns;
    bool sends_less; /* the data-centric way */
};

static int contest_of(const struct cluster *machine, uint32_t images, struct contest *out)
{
    const struct hexa_model model = { HEXA_BASE, 4, 4, 1, images, MOE_F16, MOE_SHARES_EQUAL };

    TRY(hexa_ns(machine, &model, HEXA_DATA, &out->data_ns));
    TRY(hexa_ns(machine, &model, HEXA_MODEL, &out->model_ns));
    out->sends_less = all_sent(&model, HEXA_DATA) < all_sent(&model, HEXA_MODEL);
    return OK;
}

int hexa_figure20(const struct cluster *machine, struct study_table *table)
{
    double sends_less = NAN, is_faster = NAN;

    for (uint32_t images = 1; images <= 128; images++) {
        struct contest c;
        char row[24];

        TRY(contest_of(machine, images, &c));
        if (isnan(sends_less) && c.sends_less)
            sends_less = images;
        if (isnan(is_faster) && c.data_ns < c.model_ns)
            is_faster = images;
        if (images < 4 || (images & (images - 1)))
            continue;
        snprintf(row, sizeof(row), "%u images", images);
        TRY(put_value(table, row, "data", c.data_ns * 1e-6));
        TRY(put_value(table, row, "model", c.model_ns * 1e-6));
    }
    TRY(put_value(table, "turn", "sends less", sends_less));
    return put_value(table, "turn", "is faster", is_faster);
}

/* ---- unequal devices */

enum { CASES = 3, DEVICES = 2 };

/* Table 3: watts and seconds of the proxy task. */
static const struct hetero_case {
    const char *name;
    double seconds[DEVICES], share[DEVICES];
    double data_saved, model_saved; /* Figure 22 */
} cases[CASES] = {
    { "100 W, 300 W", { 4.58, 3.06 }, { .40, .60 }, 13.2, 6.3 },
    { "300 W, 300 W", { 3.20, 3.18 }, { .50, .50 }, NAN, NAN },
    { "300 W, 100 W", { 3.28, 9.42 }, { .74, .26 }, 25.3, 11.9 },
};

int hexa_table3(const struct cluster *machine, struct study_table *table)
{
    static const char *const devices[DEVICES] = { "TITAN RTX", "RTX 2080 Ti" };
    enum { UNITS = 10000 };

    (void)machine;
    for (int i = 0; i < CASES; i++) {
        const struct hetero_case *c = &cases[i];
        double speeds[DEVICES] = { 1 / c->seconds[0], 1 / c->seconds[1] };
        uint64_t shares[DEVICES];

        TRY(moe_shares(speeds, DEVICES, UNITS, 1, shares));
        for (int q = 0; q < DEVICES; q++)
            TRY(put_predicted(table, c->name, devices[q], (double)shares[q] / UNITS, c->share[q]));
    }
    return OK;
}

/* Two ranks as fast as the case says; a cluster's numbers are those of the slower one. */
static int set_case(const struct cluster *machine, const struct hetero_case *c, struct cluster *out)
{
    static const double operations = 2. * 2048 * 2048 * 2048 * 1024;
    double speeds[DEVICES] = { 1 / c->seconds[0], 1 / c->seconds[1] };

    *out = *machine;
    snprintf(out->rank_speeds_percent, sizeof(out->rank_speeds_percent), "unknown");
    TRY(cluster_resize(out, DEVICES));
    out->gemm_gflops = operations / fmax(c->seconds[0], c->seconds[1]) * 1e-9;
    rank_speeds_format(speeds, DEVICES, out->rank_speeds_percent, sizeof(out->rank_speeds_percent));
    return OK;
}

static int put_saved(const struct cluster *machine, const char *row, enum hexa_way way,
                     double published, struct study_table *table)
{
    struct hexa_model even = { HEXA_SMALL, DEVICES, 4, 2, 40, MOE_F32, MOE_SHARES_EQUAL },
                      shares = even;
    double even_ns, shares_ns;
    char column[24];

    /* One of them moves: what the slower device computes less of. */
    shares.shares = way == HEXA_DATA ? MOE_SHARES_TOKENS : MOE_SHARES_HIDDEN;
    TRY(hexa_ns(machine, &even, way, &even_ns));
    TRY(hexa_ns(machine, &shares, way, &shares_ns));
    snprintf(column, sizeof(column), "%s, even ms", hexa_way_names[way]);
    TRY(put_value(table, row, column, even_ns * 1e-6));
    snprintf(column, sizeof(column), "%s, shares ms", hexa_way_names[way]);
    TRY(put_value(table, row, column, shares_ns * 1e-6));
    snprintf(column, sizeof(column), "%s, saved %%", hexa_way_names[way]);
    return put_predicted(table, row, column, 100 * (1 - shares_ns / even_ns), published);
}

int hexa_figure22(const struct cluster *machine, struct study_table *table)
{
    for (int i = 0; i < CASES; i++) {
        const struct hetero_case *c = &cases[i];
        struct cluster two;
        double slower =
            fmin(1 / c->seconds[0], 1 / c->seconds[1]) / (1 / c->seconds[0] + 1 / c->seconds[1]);

        TRY(set_case(machine, c, &two));
        TRY(put_saved(&two, c->name, HEXA_DATA, c->data_saved, table));
        TRY(put_saved(&two, c->name, HEXA_MODEL, c->model_saved, table));
        TRY(put_value(table, c->name, "bound, %", 100 * (1 - 2 * slower)));
    }
    return OK;
}
