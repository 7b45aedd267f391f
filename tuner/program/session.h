/* Talks to one launch of a program after the other.  It reads and checks the program's lines; the
 * caller decides which plan to answer, and what follows from the times:
 *
 *     rc = session_start(s, command, plan, hold_errors);
 *     while (!rc && !(rc = session_next(s, &line)))
 *         switch (line.word) {
 *         case LINE_ASK:    session_answer(s, &plan); or NULL
 *         case LINE_TELL:   the step took line.ns
 *         case LINE_FAILED: the plan did not run, or broke a limit: s->failed_as, line.reason
 *         case LINE_STATUS: session_status(s, now);
 *         case LINE_NONE:   comes a few times a second
 *         }
 *     rc = session_end(s, rc, &end);
 *
 * session_next() sends the answer to the line before.  So the caller's work before that call does
 * not disturb a step. */
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

/* The launches of one program.  The caller owns it and fills in the first members; the others
 * begin as 0. */
struct session {
    /* Set by the caller. */
    struct moe_shape shape;
    struct buckets buckets;
    double silence_s;     /* a step may take so long; between steps ten times as long */
    int64_t memory_bytes; /* a step that needs more has failed; 0: no limit */
    bool may_repeat_ask;  /* an ask may follow an ask; the first one's step then has no time */
    struct measured_guard *guards; /* borrowed */
    size_t guard_count;
    int64_t deadline_ns; /* of host_clock_ns(); 0: none */
    struct progress progress;

    /* Of all launches. */
    bool any_line;      /* some launch has written a line */
    uint32_t bad_lines; /* lines that could not be read */
    int64_t ending_ns;  /* the longest time that it took to end a launch; the deadline is earlier by
                         * this */

    /* Of the launch under way.  `running` and `dismissed` are never both true.  If both are false,
     * the program is between two steps. */
    FILE *standard_error; /* holds the program's standard error; NULL: it goes to ours */
    off_t copied_bytes;   /* of standard_error to ours */
    struct child child;
    char line[PROGRAM_LINE_BYTES];   /* the last line; program_line.reason points into it */
    char answer[PROGRAM_LINE_BYTES]; /* to send next; "": none */
    enum trial_state failed_as;      /* why the last step failed: as a failure, or for memory */
    char why[LINE_WHY_BYTES];        /* which limit the last step broke */
    bool hung;                       /* the program fell silent */
    bool default_unfit;              /* the default plan broke a limit: the run ends with `why` */
    bool running;                    /* a step runs under `plan` */
    bool dismissed;                  /* the last answer was that no more steps are wanted */
    struct moe_plan plan;
    uint64_t key;           /* of the last ask */
    uint64_t asks;          /* answered */
    uint32_t late_lines;    /* lines after the program was dismissed */
    int64_t last_active_ns; /* when the last line came, or the last answer was sent */
};

/* How a launch ended, as a plain value. */
struct launch_end {
    bool hung;     /* the program fell silent, and was killed */
    int exit_code; /* -1: it did not end by itself */
    char how[128]; /* for people: "the program ended with exit code 3" */
    char
        last_lines[400]; /* of its standard error, if that was held and the program wrote no line */
};

/* Installs handlers: from now on a signal that ends a job makes session_next() return ERR_CUT. */
void session_catch_signals(void);

/* Returns the name of the key in messages: that of the space, or "c". */
const char *session_key_name(const struct session *session);
/* Writes a bucket as messages name it: "tokens 65-256 skew <=1.25", "c=128-255" or "c=5".  Returns
 * `text`. */
const char *session_bucket_text(const struct session *session, uint32_t bucket,
                                char text[BUCKETS_TEXT_BYTES]);
#define SESSION_BUCKET(session, bucket)                                                            \
    session_bucket_text(session, bucket, (char[BUCKETS_TEXT_BYTES]){ 0 })

/* Starts the command.  `plan` is the value of MOETUNE_PLAN; NULL: none.  With `hold_errors` the
 * program's standard error is held until its first line; session_end() returns the last lines of a
 * program that wrote no line.  ERR_CUT: time is up. */
int session_start(struct session *session, const char *command, const char *plan, bool hold_errors);
/* Sends the answer, and reads the next line.  UNSUPPORTED: the program has ended, or hangs.
 * ERR_CUT: time is up.  Any other error ends the tuning. */
int session_next(struct session *session, struct program_line *out);
/* Answers LINE_ASK.  NULL: no more steps are wanted from this launch.  The lines without a space
 * have no "end"; there a NULL ends the program without an answer. */
void session_answer(struct session *session, const struct moe_plan *plan);
/* Answers LINE_STATUS. */
void session_status(struct session *session, struct moetune_status status);
/* Ends the launch, also one that never started.  Returns `rc`, but OK for UNSUPPORTED. */
int session_end(struct session *session, int rc, struct launch_end *out);

/* Writes why the step that was under way failed when the launch ended.  Returns `why`. */
enum { LAUNCH_WHY_BYTES = 200 };
char *launch_why(const struct session *session, const struct launch_end *end,
                 char why[LAUNCH_WHY_BYTES]);

#endif
