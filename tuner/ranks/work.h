/* What the tuner tells the ranks to do, and what they answer: plain values that travel as bytes
 * between ranks, and as lines of text between processes. */
#ifndef WORK_H
#define WORK_H

#include "runner.h"
#include "store.h"

enum order_kind {
    ORDER_LAYER, /* set up this layer; what was open is closed */
    ORDER_STEP, /* one timed step of a plan at a capacity; first, unless it is still open: allocate,
                 * check it against the reference (once per layer), warm */
    ORDER_QUIT,
    ORDER_KINDS
};

struct order {
    enum order_kind kind;
    struct moe_shape shape; /* LAYER */
    uint64_t seed;
    int64_t memory_limit_bytes; /* LAYER: what a rank may allocate for it and all open plans */
    uint32_t steps_are;         /* LAYER: enum steps_are */
    uint32_t phases;            /* LAYER: 1: of each plan that is prepared */
    uint64_t capacity;          /* STEP */
    struct moe_plan plan;
    uint64_t sample; /* STEP: its number in the database, which a modelled machine draws its noise
                      * by; 0: none */
    char load[LOAD_TEXT_BYTES]; /* LAYER: load_text(); the last, for it is long and few need it */
};

struct reply {
    enum trial_state state;
    uint32_t broken;                            /* the ranks can do nothing more: start new ones */
    int64_t ns;                                 /* the step */
    int64_t memory_bytes, sent_bytes, messages; /* per rank, the most over the ranks */
    int64_t node_rows;           /* a=rail: rows that a rank has for a node; else 0 */
    int64_t compute_ns, comm_ns; /* each alone, if the plan was prepared for this order; else 0 */
    struct phase_time phases[PHASE_COUNT]; /* if they were asked for, likewise */
    int64_t lost_ns;       /* of the step, to other processes: the most over the ranks */
    struct sample_gpu gpu; /* after the step: the slowest clock over the ranks */
    uint32_t warm_steps;   /* untimed or partial steps this order took */
    char message[200];     /* why the state is not TRIAL_OK */
};

enum { WORK_LINE_BYTES = 1024 + LOAD_TEXT_BYTES };

/* One line without its end.  The readers return ERR_FORMAT, silently, for anything else. */
void order_format(const struct order *order, char line[WORK_LINE_BYTES]);
int order_parse(const char *line, struct order *out);
void reply_format(const struct reply *reply, char line[WORK_LINE_BYTES]);
int reply_parse(const char *line, struct reply *out);

#endif
