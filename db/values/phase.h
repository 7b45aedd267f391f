/* The parts of a step's time. */
#ifndef PHASE_H
#define PHASE_H

enum phase {
    PHASE_TOTAL,   /* sum of the others */
    PHASE_BETWEEN, /* exchanges that reach another node */
    PHASE_INSIDE,  /* exchanges inside a node */
    PHASE_GATE,    /* the gate's products and the choice of experts, forward and back */
    PHASE_ENCODE,  /* rows moved to where they are computed or sent, and back */
    PHASE_EXPERTS, /* the experts' products, biases and activations */
    PHASE_OTHER,   /* conversions, sums of weights, the stand-in for attention */
    PHASE_COUNT
};

extern const char *const phase_titles[PHASE_COUNT];    /* for people */
extern const char *const phase_words[PHASE_COUNT + 1]; /* for programs; ends with NULL */

#endif
