/* The rows of Tutel's study; each file explains its own. */
#ifndef TUTEL_ROWS_H
#define TUTEL_ROWS_H

#include "modelled_step.h"
#include "study.h"

/* A layer as the paper gives them: training, f32, ReLU; c as the capacity factor has it. */
struct tutel_layer {
    uint32_t ranks, experts, top_k, model_dim, hidden_dim, tokens;
    double factor;
};

int tutel_step(const struct cluster *machine, const struct tutel_layer *layer,
               const struct moe_plan *plan, struct modelled_step *out);
int tutel_baseline(const struct cluster *machine, const struct tutel_layer *layer,
                   const struct moe_plan *plan, uint32_t baseline, struct modelled_step *out);

/* The eight static ways to move tokens: linear with d = 1, 2, 4, 8, then 2dh; r = 1. */
enum { TUTEL_DEGREES = 4, TUTEL_WAYS = 8 };
struct moe_plan tutel_way(int i);
const char *tutel_way_name(int i, char room[24]);

/* Times of all of them; the fastest, or -1 where none fits into the memory. */
int tutel_ways(const struct cluster *machine, const struct tutel_layer *layer,
               double ns[TUTEL_WAYS], int *best);

/* Short for study_put(). */
int tutel_put(struct study_table *table, const char *row, const char *column, double value,
              double published, enum study_mark mark);

int tutel_table2(const struct cluster *machine, struct study_table *table);
int tutel_table4(const struct cluster *machine, struct study_table *table);
int tutel_table5(const struct cluster *machine, struct study_table *table);
int tutel_table6(const struct cluster *machine, struct study_table *table);
int tutel_table6b(const struct cluster *machine, struct study_table *table);
int tutel_figure1(const struct cluster *machine, struct study_table *table);
int tutel_figure3(const struct cluster *machine, struct study_table *table);
int tutel_figure5(const struct cluster *machine, struct study_table *table);
int tutel_figure11(const struct cluster *machine, struct study_table *table);
int tutel_figure12(const struct cluster *machine, struct study_table *table);
int tutel_figure13(const struct cluster *machine, struct study_table *table);
int tutel_figure14(const struct cluster *machine, struct study_table *table);
int tutel_figure15(const struct cluster *machine, struct study_table *table);
int tutel_figure16(const struct cluster *machine, struct study_table *table);
int tutel_appendix_a2(const struct cluster *machine, struct study_table *table);
int tutel_figure18(const struct cluster *machine, struct study_table *table);

const char *tutel_machine(void);

#endif
