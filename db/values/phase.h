/* What a step's time is made of. */
#ifndef PHASE_H
#define PHASE_H

enum phase {
    PHASE_TOTAL,   /* the sum of the others */
    PHASE_BETWEEN, /* exchanges that reach another node */
    PHASE_INSIDE,  /* exchanges that do not */
    PHASE_GATE,    /* the gate's products, choosing experts; and back */
    PHASE_ENCODE,  /* rows to where they are computed or sent, and back */
    PHASE_EXPERTS, /* their products, biases and activations */
    PHASE_OTHER,   /* converting and adding up weights; what stands for attention */
    PHASE_COUNT
};

extern const char *const phase_titles[PHASE_COUNT];    /* for people */
extern const char *const phase_words[PHASE_COUNT + 1]; /* for programs; ends with NULL */

#endif
