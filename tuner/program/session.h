/* One launch of a program after the other: its lines are read, checked and answered; what a plan is
 * answered, and what follows from its times, is somebody else's. */
#ifndef SESSION_H
#define SESSION_H

#include "child.h"
#include "lines.h"
#include "moelookup.h"
#include "moetune.h"
#include "progress.h"
#include "store.h"

#include <sys/types.h>

/* Who decides what a program is answered. */
struct session_ops {
    /* UNSUPPORTED: nothing more is wanted of this launch. */
    int (*ask)(void *self, const struct said *ask, struct moe_plan *plan);
    /* The step of the last plan asked for: its time, or what became of the plan instead. */
    int (*tell)(void *self, const struct said *tell);
    /* Before either of the two, where it was told; NULL: nobody wants to know. */
    int (*memory)(void *self, int64_t bytes);
    int (*failed)(void *self, enum trial_state state, const char *why);
    struct moetune_status (*status)(void *self);
    void (*idle)(void *self); /* a few times a second; NULL: nothing is to be done */
};

struct session {
    /* Set by whoever opens it. */
    const struct session_ops *ops;
    void *self;
    struct moe_shape shape;
    const struct declaration *space; /* NULL: moetune's own plans */
    uint32_t window;
    double silence_s;     /* a step may take so long; between steps ten times as long */
    int64_t memory_bytes; /* the most that a step may tell; 0: whatever */
    struct measured_guard *guards;
    size_t guard_count;
    int64_t deadline_ns; /* 0: none */
    struct progress progress;

    bool spoken;       /* a line came, in whatever launch */
    int64_t ending_ns; /* so long it took at most to end a launch: kept from the time left */

    /* Of the launch under way. */
    FILE *standard_error; /* the program's, while it may never speak; NULL: it has ours */
    off_t passed;         /* bytes of that which were passed on to ours */
    struct child child;
    const char *line; /* that is being answered */
    char answer[SAID_LINE_BYTES];
    bool running;   /* a step, under `plan` */
    bool dismissed; /* it was told that nothing more is wanted */
    struct moe_plan plan;
    uint64_t key;
    uint64_t asked, told; /* in this launch */
    uint32_t bad_lines;   /* that were not understood, in all launches */
    uint32_t late_lines;  /* after it was dismissed */
    int64_t heard_ns;
};

/* How a launch ended. */
struct launch_end {
    bool hung;      /* and was ended */
    bool by_itself; /* it was not we who ended it */
    int exit_code;
    char how[128];
    char last_lines[400]; /* of its standard error, where that was kept and it said nothing else */
};

/* From here on signals that end a job end the launch under way, by ERR_CUT. */
void session_catch_signals(void);

/* What its questions ask for, as messages name it: the space's key, or "c". */
const char *session_key(const struct session *session);

/* Starts the command, unless time is up, and answers it until it ends or hangs.  `plan`: what
 * MOETUNE_PLAN says. `in_doubt`: if it never speaks, what it writes to standard error is for *out
 * alone. ERR_CUT: time is up.  Any other error ends the tuning. */
int session_launch(struct session *session, const char *command, const char *plan, bool in_doubt,
                   struct launch_end *out);

/* Why what was under way when it ended failed; returns `why`. */
enum { LAUNCH_WHY_BYTES = 200 };
char *launch_why(const struct session *session, const struct launch_end *end,
                 char why[LAUNCH_WHY_BYTES]);

#endif
