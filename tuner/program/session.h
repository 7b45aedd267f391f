/* One launch of a program after the other: its lines are read and checked; what a plan is answered,
 * and what follows from its times, is its caller's:
 *
 *     rc = session_start(s, command, plan, in_doubt);
 *     while (!rc && !(rc = session_next(s, &said)))
 *         switch (said.word) {
 *         case SAID_ASK:     session_answer(s, &plan); or NULL
 *         case SAID_TELL:    the step took said.ns
 *         case SAID_FAILED:  it did not run, or broke a limit: s->failed_as, said.reason
 *         case SAID_STATUS:  session_status(s, now);
 *         case SAID_NOTHING: a few times a second
 *         }
 *     rc = session_end(s, rc, &end);
 *
 * An answer is sent by the next session_next(): what is done before it does not disturb a step. */
#ifndef SESSION_H
#define SESSION_H

#include "buckets.h"
#include "child.h"
#include "lines.h"
#include "moelookup.h"
#include "moetune.h"
#include "progress.h"
#include "store.h"

#include <sys/types.h>

struct session {
    /* Set by whoever opens it. */
    struct moe_shape shape;
    struct buckets buckets;
    double silence_s;     /* a step may take so long; between steps ten times as long */
    int64_t memory_bytes; /* the most that a step may tell; 0: whatever */
    bool voids;           /* a question may follow a question: the first one's step has no time */
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
    char line[SAID_LINE_BYTES];   /* that came last; said.reason lies in it */
    char answer[SAID_LINE_BYTES]; /* that is to be sent; "": none */
    enum trial_state failed_as;   /* the step, of which it was said or which broke a limit, */
    char why[SAID_WHY_BYTES];     /* this one */
    bool hung;                    /* it fell silent */
    bool unfit;                   /* the default plan broke a limit, for this `why`: the run ends */
    bool running;                 /* a step, under `plan` */
    bool dismissed;               /* it was told that nothing more is wanted */
    struct moe_plan plan;
    uint64_t key;
    uint64_t asked, told; /* in this launch */
    uint32_t bad_lines;   /* that were not understood, in all launches */
    uint32_t late_lines;  /* after it was dismissed */
    int64_t heard_ns;
};

/* How a launch ended. */
struct launch_end {
    bool hung; /* and was ended */
    int exit_code;
    char how[128];
    char last_lines[400]; /* of its standard error, where that was kept and it said nothing else */
};

/* From here on signals that end a job end the launch under way, by ERR_CUT. */
void session_catch_signals(void);

/* What its questions ask for, as messages name it: the space's key, or "c"; and a range of it:
 * "tokens 65-256 skew <=1.25", "c=128-255", "c=5".  Returns `room`. */
const char *session_key(const struct session *session);
const char *session_range(const struct session *session, uint32_t bucket,
                          char room[BUCKETS_TEXT_BYTES]);
#define SESSION_RANGE(session, bucket)                                                             \
    session_range(session, bucket, (char[BUCKETS_TEXT_BYTES]){ 0 })

/* Starts the command.  `plan`: what MOETUNE_PLAN says; NULL: nothing.  `in_doubt`: if it never
 * speaks, what it writes to standard error is for *out of session_end() alone.  ERR_CUT: time is
 * up. */
int session_start(struct session *session, const char *command, const char *plan, bool in_doubt);
/* UNSUPPORTED: it has ended, or hangs.  ERR_CUT: time is up.  Any other error ends the tuning. */
int session_next(struct session *session, struct said *out);
/* To SAID_ASK; NULL: nothing more is wanted of this launch.  A program without a space was promised
 * a plan: then it is ended, unanswered. */
void session_answer(struct session *session, const struct moe_plan *plan);
void session_status(struct session *session, struct moetune_status status);
/* Ends it, whatever came before; `rc`, but OK after UNSUPPORTED. */
int session_end(struct session *session, int rc, struct launch_end *out);

/* Why what was under way when it ended failed; returns `why`. */
enum { LAUNCH_WHY_BYTES = 200 };
char *launch_why(const struct session *session, const struct launch_end *end,
                 char why[LAUNCH_WHY_BYTES]);

#endif
