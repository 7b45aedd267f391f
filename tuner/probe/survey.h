/* What a probe times, prepared on all ranks: who exchanges with whom, kernels, messages of every
 * size, both beside each other, and the steps of a small layer. */
#ifndef SURVEY_H
#define SURVEY_H

#include "probe.h"
#include "timetable.h"

enum { SURVEY_STEPS = 4 }; /* SUBJECT_STEPs: steps of the layer in one round */

struct survey {
    struct probe *probe; /* borrowed; hosts, nodes and the layer are written there */
    struct world *world; /* borrowed, as is the engine */
    struct engine *engine;
    struct workbench bench;
    struct timetable table;
    struct rig *rig;
    struct runner runner;
    int partners[LINK_LEVELS][PARTNERS_MAX], partner_count[LINK_LEVELS];
    int most_partners[LINK_LEVELS]; /* over the ranks; 0: no rank has this kind of link */
};

/* Collective.  Prepares everything in `survey`, which holds probe, world and engine already and
 * must be closed even after a failure. */
int survey_open(struct survey *survey, uint64_t seed);
void survey_close(struct survey *survey);

#endif
