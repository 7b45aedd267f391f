/* Names of the parts of a step. */
#include "phase.h"

#include <stddef.h>

const char *const phase_titles[PHASE_COUNT] = {
    [PHASE_TOTAL] = "total",
    [PHASE_BETWEEN] = "exchanges between nodes",
    [PHASE_INSIDE] = "exchanges inside nodes",
    [PHASE_GATE] = "gate and route",
    [PHASE_ENCODE] = "encode and decode",
    [PHASE_EXPERTS] = "experts",
    [PHASE_OTHER] = "other",
};
const char *const phase_words[PHASE_COUNT + 1] = {
    [PHASE_TOTAL] = "total",
    [PHASE_BETWEEN] = "exchanges_between",
    [PHASE_INSIDE] = "exchanges_inside",
    [PHASE_GATE] = "gate_and_route",
    [PHASE_ENCODE] = "encode_and_decode",
    [PHASE_EXPERTS] = "experts",
    [PHASE_OTHER] = "other",
};
