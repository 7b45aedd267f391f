/* Orders of the tuner to the ranks, and their replies: plain values that travel as bytes between
 * ranks, and as lines of text between processes. */
#ifndef WORK_H
#define WORK_H

#include "runner.h"
#include "store.h"

enum order_kind {
    ORDER_LAYER, /* set up this layer; close the layer and plans that are open */
    ORDER_STEP,  /* time one step of a plan at a capacity.  Unless the plan is still open: first
                  * allocate, check it against the reference (once per layer), and warm up */
    ORDER_QUIT,  /* end the ranks */
    ORDER_KINDS
};

/* One order.  A plain value; the comments name the kind that reads a member. */
struct order {
    enum order_kind kind;
    struct moe_shape shape; /* LAYER */
    uint64_t seed;          /* LAYER: of its data */
    int64_t
        memory_limit_bytes; /* LAYER: what a rank may allocate for the layer and all open plans */
    uint32_t steps_are;     /* LAYER: enum steps_are */
    uint32_t phases;        /* LAYER: 1: time the phases of each plan that is prepared */
    uint64_t capacity;      /* STEP */
    struct moe_plan plan;   /* STEP */
    uint64_t sample; /* STEP: number of its sample in the database; a modelled machine draws noise
                      * by it; 0: none */
    char load[LOAD_TEXT_BYTES]; /* LAYER: load_text(); last, because only LAYER sends it */
};

/* The reply to one order.  A plain value, the same on every rank. */
struct reply {
    enum trial_state state;
    uint32_t broken;                            /* 1: the ranks cannot go on; start new ones */
    int64_t ns;                                 /* time of the step */
    int64_t memory_bytes, sent_bytes, messages; /* of one rank, the most over the ranks */
    int64_t node_rows;           /* a=rail: rows that a rank sends to a node; else 0 */
    int64_t compute_ns, comm_ns; /* each alone, if this order prepared the plan; else 0 */
    struct phase_time
        phases[PHASE_COUNT]; /* if the layer wants them and this order prepared the plan */
    int64_t lost_ns;       /* time of the step that other processes took: the most over the ranks */
    struct sample_gpu gpu; /* after the step: the slowest clock over the ranks */
    uint32_t warm_steps;   /* untimed and partial steps of this order */
    char message[200];     /* why the state is not TRIAL_OK */
};

enum { WORK_LINE_BYTES = 1024 + LOAD_TEXT_BYTES };

/* Format and parse an order or a reply as one line without its line end.  Parsers return
 * ERR_FORMAT, silently, for any other line. */
void order_format(const struct order *order, char line[WORK_LINE_BYTES]);
int order_parse(const char *line, struct order *out);
void reply_format(const struct reply *reply, char line[WORK_LINE_BYTES]);
int reply_parse(const char *line, struct reply *out);

#endif
