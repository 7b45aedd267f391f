/* What layers allocate: Table 7, Figures 13 and 24. */
#include "hexa_rows.h"
#include "status.h"
#include "study_cells.h"

enum { MOST_K = 8 };

/* Tutel, data- and model-centric. */
static const double published[HEXA_SCALES][3][MOST_K] = {
    { { 12.7, 13.9, 15.3, 16.0, 17.4, 19.0, 20.3, 21.8 },
      { 10.9, 11.2, 11.3, 11.7, 12.0, 12.0, 12.3, 12.4 },
      { 10.0, 10.2, 10.3, 10.6, 10.5, 10.7, 10.9, 11.4 } },
    { { 9.0, 10.0, 11.0, 11.6, 12.7, 13.8, 15.0, 16.0 },
      { 8.1, 8.3, 8.2, 8.5, 8.6, 8.7, 9.0, 9.2 },
      { 7.7, 7.8, 7.8, 8.0, 7.9, 8.2, 8.3, 8.5 } },
};

static int put_scale(const struct cluster *machine, enum hexa_scale scale,
                     struct study_table *table)
{
    struct hexa_model model = { scale, 2, 8, 1, 40, MOE_F16, MOE_SHARES_EQUAL };
    double first[3] = { 0 };
    char row[48], column[24];

    for (uint32_t k = 1; k <= MOST_K; k++) {
        double bytes[3];

        model.top_k = k;
        snprintf(column, sizeof(column), "top-%u", k);
        for (int w = HEXA_PADDED; w <= HEXA_MODEL; w++) {
            const double *of = published[scale][w];

            TRY(hexa_bytes(machine, &model, (enum hexa_way)w, &bytes[w]));
            first[w] = k == 1 ? bytes[w] : first[w];
            snprintf(row, sizeof(row), "%s %s, more", hexa_scale_names[scale], hexa_way_names[w]);
            TRY(put_predicted(table, row, column, (bytes[w] - first[w]) * 1e-9, of[k - 1] - of[0]));
        }
        for (int w = HEXA_DATA; w <= HEXA_MODEL; w++) {
            snprintf(row, sizeof(row), "%s %s, saved", hexa_scale_names[scale], hexa_way_names[w]);
            TRY(put_predicted(table, row, column, (bytes[HEXA_PADDED] - bytes[w]) * 1e-9,
                              published[scale][HEXA_PADDED][k - 1] - published[scale][w][k - 1]));
        }
    }
    return OK;
}

int hexa_table7(const struct cluster *machine, struct study_table *table)
{
    for (int scale = 0; scale < HEXA_SCALES; scale++)
        TRY(put_scale(machine, (enum hexa_scale)scale, table));
    return OK;
}

int hexa_figure13(const struct cluster *machine, struct study_table *table)
{
    static const double paper[] = { [HEXA_PADDED] = NAN, [HEXA_DATA] = 4 };
    struct hexa_model model = { HEXA_BASE, 1, 8, 1, 40, MOE_F32, MOE_SHARES_EQUAL };

    for (int w = HEXA_PADDED; w <= HEXA_DATA; w++) {
        double before = NAN;

        for (model.top_k = 1; model.top_k <= 4; model.top_k++) {
            struct modelled_ask ask = hexa_ask(&model, 0, (enum hexa_way)w);
            double bytes, all;
            char column[24];

            ask.shape.layers = 1;
            ask.shape.pass = MOE_FORWARD;
            ask.shape.activation = MOE_RELU;
            ask.plan.w = MOE_KEEP;
            all = (double)ask.shape.tokens * ask.shape.model_dim * sizeof(float);
            TRY(modelled_bytes(machine, &ask, &bytes));
            snprintf(column, sizeof(column), "k=%u", model.top_k);
            if (model.top_k > 1)
                TRY(put_predicted(table, w == HEXA_PADDED ? "padded" : "sparse", column,
                                  (bytes - before) / all, paper[w]));
            before = bytes;
        }
    }
    return OK;
}

int hexa_figure24(const struct cluster *machine, struct study_table *table)
{
    const struct hexa_model model = { HEXA_BASE, 2, 8, 4, 40, MOE_F16, MOE_SHARES_EQUAL };

    for (int w = 0; w < HEXA_WAYS; w++) {
        double bytes;

        TRY(hexa_bytes(machine, &model, (enum hexa_way)w, &bytes));
        TRY(put_value(table, hexa_way_names[w], "MoE layers", bytes * 1e-9));
    }
    return OK;
}
