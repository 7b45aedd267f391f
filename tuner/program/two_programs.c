/* Lets two programs that run our own plans run a step each, in turn and in shuffled order, until it
 * is known at every capacity which of them is faster. */
#include "child.h"
#include "host.h"
#include "lines.h"
#include "plan.h"
#include "progress.h"
#include "random.h"
#include "session.h"
#include "shape.h"
#include "status.h"
#include "text.h"
#include "two_sides.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct two_programs, field)
const struct option_row two_programs_rows[] = {
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "instead: this program, which asks and tells, against ..." },
    { "against", "COMMAND", OPTION_TEXT, AT(against),
      "... another one, with the same plans [itself, with other plans]" },
    { "against-table", "FILE", OPTION_TEXT, AT(against_table),
      "... told the plans of this table [--exec alone: the default plan]" },
    { "space", "FILE", OPTION_TEXT, AT(space),
      "plans of its own that the programs have, see moetune-spaces(7)" },
    { "launch-steps", "N", OPTION_COUNT, AT(launch_steps),
      "--space: steps of a launch that are one sample", .least = 1, .most = TUNE_LAUNCH_STEPS_MAX },
    { "warmup", "N", OPTION_COUNT, AT(warmup),
      "steps of each (launch) at each key that do not count", .least = 0, .most = 1000 },
    { NULL },
};
#undef AT

enum { PAIRS_LEAST = 8 };

/* One of the two. */
struct speaker {
    int side;
    struct child child;
    struct said asked; /* it waits for an answer */
    struct moe_plan plan;
    int64_t heard_ns;
};

struct meeting {
    struct two_sides *t;
    struct speaker speakers[SIDES];
    uint64_t rounds, newest; /* steps of each; when the newest key came */
    struct progress progress;
};

static const char *name_of(const struct meeting *m, const struct speaker *s)
{
    return m->t->side[s->side].name;
}

/* All keys are settled, and for as long as it took to see them no other one came. */
static bool is_enough(const struct meeting *m)
{
    const struct two_sides *t = m->t;

    return t->key_count && two_sides_settled(t) == t->key_count &&
           m->rounds >= 2 * m->newest + PAIRS_LEAST;
}

/* ---- what a program says */

static bool time_is_up(const struct meeting *m)
{
    return session_stopped() || (m->t->deadline_ns && host_clock_ns() >= m->t->deadline_ns);
}

/* UNSUPPORTED: it has ended. */
static int hear(struct meeting *m, struct speaker *s, double patience, char *line)
{
    s->heard_ns = host_clock_ns();
    for (;;) {
        bool ended = child_ended(&s->child); /* asked first: its last lines are still there */
        int rc = child_read(&s->child, false, line, SAID_LINE_BYTES);

        if (rc == OK)
            return OK;
        if (time_is_up(m))
            return ERR_CUT;
        if (ended || rc != UNSUPPORTED)
            return UNSUPPORTED;
        if ((double)(host_clock_ns() - s->heard_ns) * 1e-9 > patience)
            return fail(ERR_LAUNCH, "%s: silent for %g s", name_of(m, s), patience);
        progress_tick(&m->progress);
    }
}

static int say(struct meeting *m, struct speaker *s, const char *line)
{
    return child_write(&s->child, line) == OK
               ? OK
               : fail(ERR_LAUNCH, "%s does not read what it is answered", name_of(m, s));
}

static int answer_status(struct meeting *m, struct speaker *s)
{
    char line[SAID_LINE_BYTES];
    uint32_t known = two_sides_settled(m->t);

    snprintf(line, sizeof(line), "status decided %u open %zu steps %" PRIu64 " tried 0", known,
             m->t->key_count - known, m->rounds);
    return say(m, s, line);
}

/* A line that is understood and is no question for the status. */
static int hear_said(struct meeting *m, struct speaker *s, double patience, const char *wanted,
                     struct said *said, char *line)
{
    char why[SAID_WHY_BYTES];

    for (;;) {
        TRY(hear(m, s, patience, line));
        if (!said_read(line, NULL, said, why))
            return fail(ERR_ARGUMENT, "%s says \"%s\": \"%s\" is wanted (%s)", name_of(m, s),
                        TEXT_SHORT(line, 80), wanted, why);
        if (said->word != SAID_STATUS)
            return OK;
        TRY(answer_status(m, s));
    }
}

static int out_of_turn(const struct meeting *m, const struct speaker *s, const char *line,
                       const char *wanted)
{
    return fail(ERR_ARGUMENT, "%s says \"%s\": \"%s\" is wanted", name_of(m, s),
                TEXT_SHORT(line, 80), wanted);
}

/* Until it asks; UNSUPPORTED: it has ended. */
static int await_question(struct meeting *m, struct speaker *s)
{
    static const char wanted[] = "ask CAPACITY";
    char line[SAID_LINE_BYTES];

    TRY(hear_said(m, s, session_patience_between * m->t->options->silence_s, wanted, &s->asked,
                  line));
    return s->asked.word == SAID_ASK ? OK : out_of_turn(m, s, line, wanted);
}

/* What came of a step: *ns, or 0 and why. */
static int await_time(struct meeting *m, struct speaker *s, int64_t *ns, char *why, size_t size)
{
    static const char wanted[] = "tell MICROSECONDS";
    char line[SAID_LINE_BYTES];
    struct said said;
    int rc = hear_said(m, s, m->t->options->silence_s, wanted, &said, line);

    *ns = 0;
    if (rc == UNSUPPORTED) {
        snprintf(why, size, "the program ended in a step");
        return OK;
    }
    TRY(rc);
    if (said.word == SAID_FAILED) {
        text_put(why, size, "failed: %s", TEXT_SHORT(said.reason, 150));
        return OK;
    }
    *ns = said.ns;
    return said.word == SAID_TELL ? OK : out_of_turn(m, s, line, wanted);
}

/* ---- rounds */

static int note_step(struct meeting *m, struct speaker *s, int64_t ns, const char *why)
{
    uint32_t bucket = two_sides_bucket(m->t, &s->asked);
    struct key *key;
    size_t at;
    bool fresh;

    TRY(two_sides_key(m->t, bucket, &at, &fresh));
    if (fresh)
        m->newest = m->rounds;
    key = &m->t->keys[at];
    key->plan[s->side] = s->plan;
    if (!ns)
        return two_sides_lose(m->t, key, s->side, why);
    if (key->seen[s->side]++ >= m->t->options->warmup)
        two_sides_tell(m->t, key, s->side, ns);
    return OK;
}

/* The other one waits for its answer meanwhile. */
static int run_step(struct meeting *m, struct speaker *s)
{
    char line[SAID_LINE_BYTES], why[200] = "";
    int64_t ns;

    s->plan = two_sides_plan(m->t, s->side, two_sides_bucket(m->t, &s->asked), s->asked.key);
    snprintf(line, sizeof(line), "plan %s", PLAN_WORDS(&s->plan));
    TRY(say(m, s, line));
    TRY(await_time(m, s, &ns, why, sizeof(why)));
    return note_step(m, s, ns, why);
}

static int run_round(struct meeting *m)
{
    int first = random_bits(m->t->options->seed, m->rounds) & 1;

    for (int i = 0; i < SIDES; i++)
        TRY(await_question(m, &m->speakers[i]));
    TRY(run_step(m, &m->speakers[first]));
    TRY(run_step(m, &m->speakers[!first]));
    for (int i = 0; i < SIDES; i++)
        TRY(child_ended(&m->speakers[i].child) ? UNSUPPORTED : say(m, &m->speakers[i], "ok"));
    m->rounds++;
    m->progress.done = two_sides_settled(m->t);
    m->progress.buckets = (uint32_t)m->t->key_count;
    m->progress.steps = 2 * m->rounds;
    progress_show(&m->progress, "pair %" PRIu64, m->rounds);
    return OK;
}

static int start(struct meeting *m, struct speaker *s)
{
    const struct two_sides *t = m->t;
    struct child_job job = { .command = t->side[s->side].command,
                             .layer = t->shape.experts ? SHAPE_TEXT(&t->shape) : "",
                             .window = t->window };

    return child_start(&job, &s->child);
}

/* It ended by itself: well, or by a fault of its own. */
static int judge_end(struct meeting *m, struct speaker *s)
{
    bool ended = s->child.talk.pid && child_ended(&s->child);
    int exit_code = 0;
    char how[128] = "";

    child_end(&s->child, &exit_code, how, sizeof(how));
    if (!ended || !exit_code)
        return OK;
    note("%s: %s", name_of(m, s), how);
    return s->side == 0 && m->t->key_count ? ERR_WRONG : ERR_LAUNCH;
}

static int meet(struct meeting *m)
{
    int rc = OK, ends = OK;

    for (int i = 0; i < SIDES && !rc; i++)
        rc = start(m, &m->speakers[i]);
    while (!rc && !is_enough(m))
        rc = run_round(m);
    log_line_clear();
    for (int i = 0; i < SIDES; i++) {
        int end = judge_end(m, &m->speakers[i]);

        ends = ends ? ends : end;
    }
    if (rc && rc != UNSUPPORTED)
        return rc;
    return !ends && !m->t->key_count ? fail(ERR_LAUNCH, "a program ended without asking anything")
                                     : ends;
}

int two_programs_meet(struct two_sides *t)
{
    struct meeting *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return fail(ERR_NOMEM, "two programs");
    m->t = t;
    m->speakers[1].side = 1;
    progress_open(&m->progress, t->options->quiet, "the programs start");
    m->progress.deadline_ns = t->deadline_ns;
    rc = meet(m);
    free(m);
    return rc;
}

/* ---- the whole of it */

int two_programs(const struct two_programs *options)
{
    struct two_sides t;
    int rc = two_sides_open(options, &t), said;

    session_catch_signals();
    if (!rc)
        rc = t.space ? two_launches(&t) : two_programs_meet(&t);
    if (rc == ERR_CUT)
        note("cut off: nothing of this is kept, and the same command begins again");
    if (!rc || ((rc == ERR_WRONG || rc == ERR_CUT || rc == ERR_LAUNCH) && t.key_count)) {
        said = two_sides_report(&t);
        rc = rc && said != ERR_WRONG ? rc : said;
    }
    two_sides_close(&t);
    return rc;
}
