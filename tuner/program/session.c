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
    return s->buckets.declared ? buckets_key_name(s->buckets) : "c";
}

const char *session_range(const struct session *s, uint32_t bucket, char room[BUCKETS_TEXT_BYTES])
{
    const char *range = BUCKETS_TEXT(s->buckets, bucket, bucket);

    if (s->buckets.declared)
        text_put(room, BUCKETS_TEXT_BYTES, "%s %s", buckets_key_name(s->buckets), range);
    else if (s->buckets.window == 1)
        text_put(room, BUCKETS_TEXT_BYTES, "c=%u", bucket);
    else
        text_put(room, BUCKETS_TEXT_BYTES, "c=%s", range);
    return room;
}

/* ---- answers: one line each */

/* UNSUPPORTED: answered. */
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
    return UNSUPPORTED;
}

void session_answer(struct session *s, const struct moe_plan *plan)
{
    s->asked++;
    s->running = plan != NULL;
    s->dismissed = !plan;
    if (plan) {
        s->plan = *plan;
        snprintf(s->answer, sizeof(s->answer), "plan %s", PLAN_WORDS(plan));
    } else if (s->buckets.declared) {
        snprintf(s->answer, sizeof(s->answer), "end");
    }
}

void session_status(struct session *s, struct moetune_status now)
{
    snprintf(s->answer, sizeof(s->answer),
             "status decided %u open %u steps %" PRIu64 " tried %" PRIu64, now.decided, now.open,
             now.steps, now.tried);
}

/* The step under way has ended: "tell", or "failed". */
static void end_step(struct session *s, struct said *said)
{
    size_t held = 0;

    s->running = false;
    s->told++;
    snprintf(s->answer, sizeof(s->answer), "ok");
    s->failed_as = TRIAL_FAILED;
    if (said->word == SAID_FAILED)
        return;
    if (s->memory_bytes && said->memory_bytes > s->memory_bytes) {
        s->failed_as = TRIAL_NO_MEMORY;
        text_put(s->why, sizeof(s->why), "needs %.2f MiB, %.2f are allowed",
                 (double)said->memory_bytes * 0x1p-20, (double)s->memory_bytes * 0x1p-20);
    } else {
        while (held < s->guard_count && !guard_broken(&s->guards[held], said, s->why))
            held++;
        if (held == s->guard_count)
            return;
    }
    note("%s=%" PRIu64 " %s: %s", session_key(s), s->key, PLAN_WORDS(&s->plan), s->why);
    /* That ends the run, and the next one may have other limits: it is no failure of the plan's. */
    s->unfit = plan_is_default(&s->plan, &s->shape);
    if (!s->unfit) {
        said->word = SAID_FAILED;
        said->reason = s->why;
    }
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
    int rc = child_write(&s->child, s->answer);

    *s->answer = 0;
    s->heard_ns = host_clock_ns(); /* what the answer took is not the program's silence */
    if (rc == OK || s->dismissed || child_ended(&s->child))
        return OK;
    return fail(ERR_LAUNCH, "the program does not read what it is answered");
}

/* Reads a line; UNSUPPORTED: it is nobody else's, and is answered. */
static int take_line(struct session *s, struct said *out)
{
    static const char *const too_early[] = { [SAID_ASK] = "ask: the last plan's time was not told",
                                             [SAID_TELL] = "tell: nothing was asked",
                                             [SAID_FAILED] = "failed: nothing was asked" };
    char why[SAID_WHY_BYTES];

    s->heard_ns = host_clock_ns();
    s->spoken = true;
    pass_errors(s);
    if (s->dismissed) { /* who was told to end and goes on is not heard */
        s->late_lines++;
        snprintf(s->answer, sizeof(s->answer), "end");
        return UNSUPPORTED;
    }
    if (!said_read(s->line, s->buckets.declared, out, why))
        return answer_error(s, why);
    if (out->word == SAID_STATUS)
        return OK;
    if (out->word == SAID_ASK ? s->running && !s->voids : !s->running)
        return answer_error(s, too_early[out->word]);
    if (out->word == SAID_ASK)
        s->key = out->key;
    else
        end_step(s, out);
    return OK;
}

static bool time_is_up(const struct session *s)
{
    return stop || (s->deadline_ns && host_clock_ns() >= s->deadline_ns - s->ending_ns);
}

int session_start(struct session *s, const char *command, const char *plan, bool in_doubt)
{
    struct child_job job = { .command = command,
                             .layer = s->shape.experts ? SHAPE_TEXT(&s->shape) : "",
                             .window = s->buckets.window,
                             .space = s->buckets.declared ? s->buckets.declared->text : NULL,
                             .plan = plan,
                             .errors = in_doubt ? tmpfile() : NULL };

    s->hung = s->unfit = s->running = s->dismissed = false;
    s->asked = s->told = 0;
    s->late_lines = 0;
    *s->answer = 0;
    s->standard_error = job.errors;
    s->passed = 0;
    if (s->ending_ns && time_is_up(s)) /* the first launch may always say something */
        return ERR_CUT;
    TRY(child_start(&job, &s->child));
    s->heard_ns = host_clock_ns();
    return OK;
}

int session_next(struct session *s, struct said *out)
{
    for (;;) {
        bool ended;
        int rc;

        if (s->unfit)
            return fail(ERR_LAUNCH, "the default plan itself %s: %s",
                        s->failed_as == TRIAL_NO_MEMORY ? "needs too much memory"
                                                        : "does not hold a guard",
                        s->why);
        if (s->dismissed && !s->buckets.declared)
            return UNSUPPORTED;
        if (*s->answer)
            TRY(send_answer(s));
        if (s->late_lines > LATE_LINES_MAX)
            return UNSUPPORTED;
        ended = child_ended(&s->child); /* asked first: its last lines are still there */
        rc = child_read(&s->child, s->dismissed, s->line, sizeof(s->line));
        if (time_is_up(s))
            return ERR_CUT;
        if (rc == OK) {
            rc = take_line(s, out);
            if (rc == UNSUPPORTED)
                continue;
            return rc;
        }
        s->hung = !ended && rc == UNSUPPORTED &&
                  (double)(host_clock_ns() - s->heard_ns) * 1e-9 > patience_s(s);
        if (ended || s->hung || rc != UNSUPPORTED)
            return UNSUPPORTED;
        if (s->asked)
            pass_errors(s);
        progress_tick(&s->progress);
        *out = (struct said){ .word = SAID_NOTHING };
        return OK;
    }
}

int session_end(struct session *s, int rc, struct launch_end *out)
{
    int64_t begun_ns = host_clock_ns(), took_ns;
    bool by_itself; /* it was not we who ended it */

    *out = (struct launch_end){ .hung = s->hung };
    rc = rc == UNSUPPORTED ? OK : rc;
    child_stop(&s->child);
    by_itself = s->child.talk.pid && !s->child.stopped;
    child_end(&s->child, &out->exit_code, out->how, sizeof(out->how));
    took_ns = host_clock_ns() - begun_ns;
    if (!by_itself && took_ns > s->ending_ns)
        s->ending_ns = took_ns;
    if (s->standard_error && !s->spoken && !rc && !out->hung)
        keep_last_lines(s, out->last_lines, sizeof(out->last_lines));
    else
        pass_errors(s);
    if (s->standard_error)
        fclose(s->standard_error);
    s->standard_error = NULL;
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
