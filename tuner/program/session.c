/* Reads the lines of a program and answers each, and notices when it ends or falls silent. */
#include "session.h"

#include "host.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAD_LINES_MAX = 100, BAD_LINES_SAID = 2, LATE_LINES_MAX = 100 };
/* Between steps a program may do other things, for so many times as long as a step may take. */
static const double patience_between = 10;

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

void session_catch_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    launch_on_stop(on_signal);
}

const char *session_key(const struct session *s)
{
    return s->space ? s->space->key : "c";
}

/* ---- answers: one line each */

static int answer_error(struct session *s, const char *why)
{
    static const char said[] = "the program writes \"%s\", which is not understood: %s";
    char line[100];

    text_put(s->answer, sizeof(s->answer), "error %s", why);
    utf8_line(s->line, line, sizeof(line));
    if (++s->bad_lines == BAD_LINES_MAX)
        return fail(ERR_ARGUMENT, said, line, why);
    if (s->bad_lines <= BAD_LINES_SAID) /* many programs do not look at the answer */
        note(said, line, why);
    return OK;
}

static int answer_ask(struct session *s, const struct said *ask)
{
    int rc;

    if (s->running && s->space)
        return answer_error(s, "ask: the last plan's time was not told");
    s->key = ask->key;
    rc = s->ops->ask(s->self, ask, &s->plan);
    s->asked++;
    s->running = !rc;
    if (rc == UNSUPPORTED) {
        s->dismissed = true;
        snprintf(s->answer, sizeof(s->answer), "end");
        return OK;
    }
    snprintf(s->answer, sizeof(s->answer), "plan %s", PLAN_WORDS(&s->plan));
    return rc;
}

/* The step broke a limit that it was held to. */
static int give_up(struct session *s, enum trial_state state, const char *why)
{
    note("%s=%" PRIu64 " %s: %s", session_key(s), s->key, PLAN_WORDS(&s->plan), why);
    /* That ends the run, and the next one may have other limits. */
    if (plan_is_default(&s->plan, &s->shape))
        return fail(ERR_LAUNCH, "the default plan itself %s: %s",
                    state == TRIAL_NO_MEMORY ? "needs too much memory" : "does not hold a guard",
                    why);
    return s->ops->failed(s->self, state, why);
}

/* The step under way has ended: "tell", or "failed". */
static int answer_end_of_step(struct session *s, const struct said *said)
{
    char why[SAID_WHY_BYTES];
    int rc;

    if (!s->running)
        return answer_error(s, said->word == SAID_TELL ? "tell: nothing was asked"
                                                       : "failed: nothing was asked");
    s->running = false;
    s->told++;
    snprintf(s->answer, sizeof(s->answer), "ok");
    if (said->word == SAID_FAILED) {
        rc = s->ops->failed(s->self, TRIAL_FAILED, said->reason);
        return rc == UNSUPPORTED ? OK : rc;
    }
    if (said->memory_bytes && s->ops->memory)
        TRY(s->ops->memory(s->self, said->memory_bytes));
    if (s->memory_bytes && said->memory_bytes > s->memory_bytes) {
        text_put(why, sizeof(why), "needs %.2f MiB, %.2f are allowed",
                 (double)said->memory_bytes * 0x1p-20, (double)s->memory_bytes * 0x1p-20);
        return give_up(s, TRIAL_NO_MEMORY, why);
    }
    for (size_t i = 0; i < s->guard_count; i++)
        if (guard_broken(&s->guards[i], said, why))
            return give_up(s, TRIAL_FAILED, why);
    return s->ops->tell(s->self, said);
}

/* ---- one launch */

static double patience_s(const struct session *s)
{
    return s->silence_s * (s->running ? 1 : patience_between);
}

/* Passes on what the program wrote to its standard error, once it is no longer in doubt. */
static void pass_errors(struct session *s)
{
    char bytes[4096];
    ssize_t n;

    while (s->standard_error &&
           (n = pread(fileno(s->standard_error), bytes, sizeof(bytes), s->passed)) > 0) {
        log_line_clear();
        fwrite(bytes, 1, (size_t)n, stderr);
        s->passed += n;
    }
}

/* Writes the last lines of its standard error as "A | B", as many as there is room for: those that
 * came before torchrun says at length that a rank ended, and once what each rank says. */
static void keep_last_lines(const struct session *s, char *room, size_t size)
{
    static const char torchrun[] = "torch/distributed/elastic/multiprocessing/api.py:";
    enum { SHOWN = 300 };
    char tail[16384], *rest = tail, *line, *summary;
    off_t end = lseek(fileno(s->standard_error), 0, SEEK_END), most = sizeof(tail) - 1;
    off_t from = end > most ? end - most : 0;
    ssize_t n = pread(fileno(s->standard_error), tail, sizeof(tail) - 1, from);
    size_t length;

    tail[n > 0 ? n : 0] = 0;
    summary = strstr(tail, torchrun);
    while (summary && summary > tail && summary[-1] != '\n')
        summary--;
    if (summary && summary > tail)
        *summary = 0;
    length = strlen(tail);
    if (length >= SHOWN) {
        rest = tail + length - (SHOWN - 1);
        if (strchr(rest, '\n')) /* the end of a line is none */
            strsep(&rest, "\n");
    }
    while ((line = strsep(&rest, "\n"))) {
        line += strspn(line, " \t\r");
        if (*line && !strstr(room, line))
            text_add(room, size, "%s%s", *room ? " | " : "", line);
    }
}

static int send_answer(struct session *s)
{
    s->heard_ns = host_clock_ns(); /* what the answer took is not the program's silence */
    if (child_write(&s->child, s->answer) == OK || s->dismissed || child_ended(&s->child))
        return OK;
    return fail(ERR_LAUNCH, "the program does not read what it is answered");
}

static int answer_line(struct session *s, const char *line)
{
    char why[SAID_WHY_BYTES];
    struct moetune_status now;
    struct said said;

    s->line = line;
    s->heard_ns = host_clock_ns();
    s->spoken = true;
    pass_errors(s);
    if (s->dismissed) { /* who was told to end and goes on is not heard */
        s->late_lines++;
        snprintf(s->answer, sizeof(s->answer), "end");
    } else if (!said_read(line, s->space, &said, why)) {
        TRY(answer_error(s, why));
    } else if (said.word == SAID_STATUS) {
        now = s->ops->status(s->self);
        snprintf(s->answer, sizeof(s->answer),
                 "status decided %u open %u steps %" PRIu64 " tried %" PRIu64, now.decided,
                 now.open, now.steps, now.tried);
    } else {
        TRY(said.word == SAID_ASK ? answer_ask(s, &said) : answer_end_of_step(s, &said));
    }
    return send_answer(s);
}

static int start(struct session *s, const char *command, const char *plan, bool in_doubt)
{
    struct child_job job = { .command = command,
                             .layer = s->shape.experts ? SHAPE_TEXT(&s->shape) : "",
                             .window = s->window,
                             .space = s->space ? s->space->text : NULL,
                             .plan = plan,
                             .errors = in_doubt ? tmpfile() : NULL };

    s->running = s->dismissed = false;
    s->asked = s->told = 0;
    s->late_lines = 0;
    s->standard_error = job.errors;
    s->passed = 0;
    return child_start(&job, &s->child);
}

static bool time_is_up(const struct session *s)
{
    return stop || (s->deadline_ns && host_clock_ns() >= s->deadline_ns - s->ending_ns);
}

/* Answers lines until the program has ended, hangs, or goes on after it was dismissed. */
static int listen_to(struct session *s, bool *hung)
{
    char line[SAID_LINE_BYTES];

    s->heard_ns = host_clock_ns();
    for (;;) {
        bool ended = child_ended(&s->child); /* asked first: its last lines are still there */
        int rc = child_read(&s->child, s->dismissed, line, sizeof(line));

        if (time_is_up(s))
            return ERR_CUT;
        if (rc == OK) {
            TRY(answer_line(s, line));
            if (s->late_lines > LATE_LINES_MAX)
                return OK;
            continue;
        }
        *hung = !ended && rc == UNSUPPORTED &&
                (double)(host_clock_ns() - s->heard_ns) * 1e-9 > patience_s(s);
        if (ended || *hung || rc != UNSUPPORTED)
            return OK;
        if (s->asked)
            pass_errors(s);
        progress_tick(&s->progress);
        if (s->ops->idle)
            s->ops->idle(s->self);
    }
}

/* *out keeps `hung` and gets the rest. */
static void end(struct session *s, int rc, struct launch_end *out)
{
    int64_t begun_ns = host_clock_ns(), took_ns;

    child_stop(&s->child);
    out->by_itself = s->child.talk.pid && !s->child.stopped;
    child_end(&s->child, &out->exit_code, out->how, sizeof(out->how));
    took_ns = host_clock_ns() - begun_ns;
    if (!out->by_itself && took_ns > s->ending_ns)
        s->ending_ns = took_ns;
    if (s->standard_error && !s->spoken && !rc && !out->hung)
        keep_last_lines(s, out->last_lines, sizeof(out->last_lines));
    else
        pass_errors(s);
    if (s->standard_error)
        fclose(s->standard_error);
    s->standard_error = NULL;
}

int session_launch(struct session *s, const char *command, const char *plan, bool in_doubt,
                   struct launch_end *out)
{
    int rc;

    *out = (struct launch_end){ .hung = false };
    if (s->ending_ns && time_is_up(s)) /* the first launch may always say something */
        return ERR_CUT;
    rc = start(s, command, plan, in_doubt);
    rc = rc ? rc : listen_to(s, &out->hung);
    end(s, rc, out);
    return rc;
}

char *launch_why(const struct session *s, const struct launch_end *end, char why[LAUNCH_WHY_BYTES])
{
    if (end->hung)
        snprintf(why, LAUNCH_WHY_BYTES, "silent for %g s", patience_s(s));
    else
        text_put(why, LAUNCH_WHY_BYTES, "%s", end->how);
    return why;
}
