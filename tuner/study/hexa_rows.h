/* The rows of HEXA-MoE's study; each file explains its own. */
#ifndef HEXA_ROWS_H
#define HEXA_ROWS_H

#include "modelled_step.h"
#include "study.h"

/* Swin-MoE has nine MoE layers of one size and one of twice the width for a quarter of the tokens.
 */
enum hexa_scale { HEXA_BASE, HEXA_SMALL, HEXA_SCALES };
enum { HEXA_SIZES = 2 };
extern const char *const hexa_scale_names[HEXA_SCALES];

/* Ways to run them: padded experts, the paper's two, and the first of these without its cache. */
enum hexa_way { HEXA_PADDED, HEXA_DATA, HEXA_MODEL, HEXA_DATA_KEPT, HEXA_WAYS };
extern const char *const hexa_way_names[HEXA_WAYS];

struct hexa_model {
    enum hexa_scale scale;
    uint32_t ranks, experts, top_k, images, dtype, shares;
};

struct modelled_ask hexa_ask(const struct hexa_model *model, int size, enum hexa_way way);

/* Of all MoE layers of the model. */
int hexa_bytes(const struct cluster *machine, const struct hexa_model *model, enum hexa_way way,
               double *out);
int hexa_ns(const struct cluster *machine, const struct hexa_model *model, enum hexa_way way,
            double *out);

int hexa_table3(const struct cluster *machine, struct study_table *table);
int hexa_table7(const struct cluster *machine, struct study_table *table);
int hexa_table8(const struct cluster *machine, struct study_table *table);
int hexa_figure13(const struct cluster *machine, struct study_table *table);
int hexa_figure20(const struct cluster *machine, struct study_table *table);
int hexa_figure22(const struct cluster *machine, struct study_table *table);
int hexa_figure24(const struct cluster *machine, struct study_table *table);
int hexa_traffic(const struct cluster *machine, struct study_table *table);

const char *hexa_machine(void);

#endif
