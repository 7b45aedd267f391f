/* Adaptive pipelining: Table 6, Figures 5 and 13. */
#include "status.h"
#include "tutel_rows.h"

#include <math.h>

enum { SCALES = 5, LAYERS = 81 };

static const uint32_t scales[SCALES] = { 16, 32, 64, 128, 256 };

/* linear d = 1, 2, 4, 8, then 2dh. */
static const double published_mean[SCALES][TUTEL_WAYS] = {
    { 20, 2, 2, 11, 101, 98, 100, 106 }, { 16, 1, 2, 11, 45, 43, 44, 51 },
    { 13, 1, 5, 15, 28, 25, 27, 34 },    { 9, 2, 9, 29, 16, 16, 19, 26 },
    { 20, 27, 54, 107, 12, 20, 34, 11 },
};
static const double published_worst[SCALES][TUTEL_WAYS] = {
    { 60, 32, 50, 176, 149, 139, 142, 184 },   { 60, 31, 41, 135, 89, 75, 59, 148 },
    { 55, 23, 42, 161, 70, 54, 41, 109 },      { 45, 54, 87, 300, 52, 37, 35, 107 },
    { 100, 160, 317, 599, 73, 139, 193, 182 },
};

/* Of all layers of one scale that fit into the memory. */
struct behind {
    int layers;
    double mean[TUTEL_WAYS], worst[TUTEL_WAYS]; /* % more time than the best */
    int best[TUTEL_WAYS];                       /* layers of which each is it */
};

static struct tutel_layer typical_layer(uint32_t ranks, int i)
{
    static const uint32_t widths[] = { 1024, 2048, 4096 }, tokens[] = { 4096, 16384, 65536 };
    static const uint32_t halves[] = { 1, 2, 4 }; /* experts per two GPUs */

    return (struct tutel_layer){ .ranks = ranks,
                                 .experts = ranks * halves[i / 27] / 2,
                                 .top_k = 2,
                                 .model_dim = widths[i / 9 % 3],
                                 .hidden_dim = widths[i / 3 % 3],
                                 .tokens = tokens[i % 3],
                                 .factor = 1 };
}

static int compare_ways(const struct cluster *machine, uint32_t ranks, struct behind *out)
{
    struct behind b = { .best = { 0 } };

    for (int i = 0; i < LAYERS; i++) {
        struct tutel_layer layer = typical_layer(ranks, i);
        double ns[TUTEL_WAYS];
        int best;

        TRY(tutel_ways(machine, &layer, ns, &best));
        if (best < 0)
            continue;
        b.layers++;
        b.best[best]++;
        for (int w = 0; w < TUTEL_WAYS; w++) {
            double percent = 100 * (ns[w] / ns[best] - 1);

            b.mean[w] += percent;
            b.worst[w] = fmax(b.worst[w], percent);
        }
    }
    for (int w = 0; w < TUTEL_WAYS; w++)
        b.mean[w] /= b.layers;
    *out = b;
    return OK;
}

static const char *scale_name(uint32_t ranks, char room[24])
{
    snprintf(room, 24, "%u GPUs", ranks);
    return room;
}

/* The ends are fitted, but for what breaks the order of its own row. */
static enum study_mark mark_of(int scale, int way)
{
    return scale == 0 || (scale == SCALES - 1 && way != TUTEL_WAYS - 1) ? STUDY_FITTED
                                                                        : STUDY_PREDICTED;
}

static double mean_error(const struct behind *behind, int scale)
{
    double sum = 0;

    for (int w = 0; w < TUTEL_WAYS; w++)
        sum += fabs(behind->mean[w] - published_mean[scale][w]);
    return sum / TUTEL_WAYS;
}

int tutel_table6(const struct cluster *machine, struct study_table *table)
{
    double held_out = 0;
    char row[24], column[24];

    for (int i = 0; i < SCALES; i++) {
        struct behind behind;

        TRY(compare_ways(machine, scales[i], &behind));
        for (int w = 0; w < TUTEL_WAYS; w++)
            TRY(tutel_put(table, scale_name(scales[i], row), tutel_way_name(w, column),
                          behind.mean[w], published_mean[i][w], mark_of(i, w)));
        if (i && i < SCALES - 1)
            held_out += mean_error(&behind, i) / (SCALES - 2);
    }
    return tutel_put(table, "mean error, 32 to 128", "points", held_out, NAN, STUDY_UNPUBLISHED);
}

int tutel_table6b(const struct cluster *machine, struct study_table *table)
{
    char row[24], column[24];

    for (int i = 0; i < SCALES; i++) {
        struct behind behind;

        TRY(compare_ways(machine, scales[i], &behind));
        for (int w = 0; w < TUTEL_WAYS; w++)
            TRY(tutel_put(table, scale_name(scales[i], row), tutel_way_name(w, column),
                          behind.worst[w], published_worst[i][w], STUDY_PREDICTED));
    }
    return OK;
}

int tutel_figure5(const struct cluster *machine, struct study_table *table)
{
    char row[24], column[24];

    for (int i = 0; i < SCALES; i++) {
        struct behind behind;

        TRY(compare_ways(machine, scales[i], &behind));
        for (int w = 0; w < TUTEL_WAYS; w++)
            TRY(tutel_put(table, scale_name(scales[i], row), tutel_way_name(w, column),
                          behind.best[w], NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}

int tutel_figure13(const struct cluster *machine, struct study_table *table)
{
    static const double factors[] = { 1, 2, 4, 8 }, published[] = { NAN, NAN, 39, 57 };
    double most[4] = { NAN, NAN, NAN, NAN };
    char row[24], column[24];

    for (int i = 0; i < SCALES; i++)
        for (int f = 0; f < 4; f++) {
            struct tutel_layer layer = {
                scales[i], 2 * scales[i], 2, 4096, 4096, 4096, factors[f]
            };
            double ns[TUTEL_WAYS], percent;
            int best;

            TRY(tutel_ways(machine, &layer, ns, &best));
            percent = best < 0 ? NAN : 100 * (ns[0] / ns[best] - 1);
            most[f] = fmax(most[f], percent);
            snprintf(column, sizeof(column), "f=%g", factors[f]);
            TRY(tutel_put(table, scale_name(scales[i], row), column, percent, NAN,
                          STUDY_UNPUBLISHED));
        }
    for (int f = 0; f < 4; f++) {
        snprintf(column, sizeof(column), "f=%g", factors[f]);
        TRY(tutel_put(table, "most", column, most[f], published[f],
                      isnan(published[f]) ? STUDY_UNPUBLISHED : STUDY_PREDICTED));
    }
    return OK;
}
