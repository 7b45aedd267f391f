/* Breaks the beliefs of the search strategies at their source: the costs from which guided starts,
 * and the posterior of blind.  A program gets it when it is linked with --wrap for the functions
 * that broken_model.c names. */
#ifndef BROKEN_MODEL_H
#define BROKEN_MODEL_H

#include "moelookup.h"

enum defect_scope { NOBODY, ONE_ARM, FAMILY, ALL_BUT_ONE, ALL };
enum defect_kind { ADDED, REVERSED };

/* What is broken from now on; nothing at first. */
struct model_defect {
    enum defect_scope scope;
    enum defect_kind kind;
    double added; /* to the log time that is believed: may be NaN or infinite */
    struct moe_plan arm;
    const struct moe_plan *arms; /* of the search that runs; for blind alone */
};
extern struct model_defect model_defect;

#endif
