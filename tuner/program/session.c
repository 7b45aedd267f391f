/* Reads the lines of a program and sends an answer to each.  Notices when the program ends or falls
 * silent.
 *
 * UNSUPPORTED is no failure in this file: parse_line() and answer_error() return it if the line
 * needs nothing from the caller, session_next() if the launch has ended. */
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

/* Two bad lines are printed, and the hundredth ends the run. */
enum { BAD_LINES_MAX = 100, BAD_LINES_PRINTED = 2, LATE_LINES_MAX = 100 };
/* Between steps a program may be silent for so many times as long as in a step. */
static const double patience_between_steps = 10;

static volatile sig_atomic_t stop_requested;

static void on_signal(int number)
{
    (void)number;
    stop_requested = 1;
}

void session_catch_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    launch_on_stop(on_signal);
}

const char *session_key_name(const struct session *s)
{
    return s->buckets.declared ? buckets_key_name(s->buckets) : "c";
}

const char *session_bucket_text(const struct session *s, uint32_t bucket,
                                char text[BUCKETS_TEXT_BYTES])
{
    const char *keys = BUCKETS_TEXT(s->buckets, bucket, bucket);

    if (s->buckets.declared)
        text_put(text, BUCKETS_TEXT_BYTES, "%s %s", buckets_key_name(s->buckets), keys);
    else if (s->buckets.window == 1)
        text_put(text, BUCKETS_TEXT_BYTES, "c=%u", bucket);
    else
        text_put(text, BUCKETS_TEXT_BYTES, "c=%s", keys);
    return text;
}

/* ---- answers: one line each */

/* Answers a line that could not be read.  Returns UNSUPPORTED, or an error after too many of them.
 */
static int answer_error(struct session *s, const char *why)
{
    static const char message[] = "the program writes \"%s\", which is not understood: %s";
    char line[100];

    text_put(s->answer, sizeof(s->answer), "error %s", why);
    utf8_line(s->line, line, sizeof(line));
    if (++s->bad_lines == BAD_LINES_MAX)
        return fail(ERR_ARGUMENT, message, line, why);
    if (s->bad_lines <= BAD_LINES_PRINTED) /* because many programs do not look at the answer */
        note(message, line, why);
    return UNSUPPORTED;
}

void session_answer(struct session *s, const struct moe_plan *plan)
{
    s->asks++;
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

/* Ends the step under way.  A "tell" that breaks a limit becomes a "failed". */
static void end_step(struct session *s, struct program_line *line)
{
    size_t guards_kept = 0;

    s->running = false;
    snprintf(s->answer, sizeof(s->answer), "ok");
    s->failed_as = TRIAL_FAILED;
    if (line->word == LINE_FAILED)
        return;
    if (s->memory_bytes && line->memory_bytes > s->memory_bytes) {
        s->failed_as = TRIAL_NO_MEMORY;
        text_put(s->why, sizeof(s->why), "needs %.2f MiB, %.2f are allowed",
                 (double)line->memory_bytes * 0x1p-20, (double)s->memory_bytes * 0x1p-20);
    } else {
        while (guards_kept < s->guard_count && !guard_broken(&s->guards[guards_kept], line, s->why))
            guards_kept++;
        if (guards_kept == s->guard_count)
            return;
    }
    note("%s=%" PRIu64 " %s: %s", session_key_name(s), s->key, PLAN_WORDS(&s->plan), s->why);
    /* A limit that the default plan breaks ends the run.  It is no failure of the plan, because the
     * next run may have other limits. */
    s->default_unfit = plan_is_default(&s->plan, &s->shape);
    if (!s->default_unfit) {
        line->word = LINE_FAILED;
        line->reason = s->why;
    }
}

/* ---- one launch */

static double patience_s(const struct session *s)
{
    return s->silence_s * (s->running ? 1 : patience_between_steps);
}

/* Copies to our standard error what the program has written to its held one since the last call. */
static void copy_errors(struct session *s)
{
    char bytes[4096];
    ssize_t count;

    while (s->standard_error &&
           (count = pread(fileno(s->standard_error), bytes, sizeof(bytes), s->copied_bytes)) > 0) {
        log_progress_clear();
        fwrite(bytes, 1, (size_t)count, stderr);
        s->copied_bytes += count;
    }
}

/* Writes the last lines of the program's standard error as "A | B".  It leaves out the long report
 * that torchrun writes when a rank ended, and prints only once what each rank writes. */
static void copy_last_lines(const struct session *s, char *text, size_t size)
{
    static const char torchrun[] = "torch/distributed/elastic/multiprocessing/api.py:";
    enum { SHOWN_BYTES = 300 };
    char tail[16384], *next_line = tail, *line, *summary;
    off_t file_end = lseek(fileno(s->standard_error), 0, SEEK_END), tail_bytes = sizeof(tail) - 1;
    off_t begin = file_end > tail_bytes ? file_end - tail_bytes : 0;
    ssize_t count = pread(fileno(s->standard_error), tail, sizeof(tail) - 1, begin);
    size_t length;

    tail[count > 0 ? count : 0] = 0;
    summary = strstr(tail, torchrun);
    while (summary && summary > tail && summary[-1] != '\n')
        summary--;
    if (summary && summary > tail)
        *summary = 0;
    length = strlen(tail);
    if (length >= SHOWN_BYTES) {
        next_line = tail + length - (SHOWN_BYTES - 1);
        if (strchr(next_line, '\n')) /* the first line is cut: drop it */
            strsep(&next_line, "\n");
    }
    while ((line = strsep(&next_line, "\n"))) {
        line += strspn(line, " \t\r");
        if (*line && !strstr(text, line))
            text_add(text, size, "%s%s", *text ? " | " : "", line);
    }
}

static int send_answer(struct session *s)
{
    int rc = child_write(&s->child, s->answer);

    *s->answer = 0;
    s->last_active_ns = host_clock_ns(); /* writing the answer is no silence of the program */
    if (rc == OK || s->dismissed || child_ended(&s->child))
        return OK;
    return fail(ERR_LAUNCH, "the program does not read the answers");
}

/* Reads s->line into *out.  UNSUPPORTED: the line needs nothing from the caller, and has an answer.
 */
static int parse_line(struct session *s, struct program_line *out)
{
    static const char *const too_early[] = { [LINE_ASK] = "ask: the last plan's time was not told",
                                             [LINE_TELL] = "tell: nothing was asked",
                                             [LINE_FAILED] = "failed: nothing was asked" };
    char why[LINE_WHY_BYTES];

    s->last_active_ns = host_clock_ns();
    s->any_line = true;
    copy_errors(s);
    if (s->dismissed) { /* the program goes on after "end": its lines do not count */
        s->late_lines++;
        snprintf(s->answer, sizeof(s->answer), "end");
        return UNSUPPORTED;
    }
    if (!program_line_read(s->line, s->buckets.declared, out, why))
        return answer_error(s, why);
    if (out->word == LINE_STATUS)
        return OK;
    if (out->word == LINE_ASK ? s->running && !s->may_repeat_ask : !s->running)
        return answer_error(s, too_early[out->word]);
    if (out->word == LINE_ASK)
        s->key = out->key;
    else
        end_step(s, out);
    return OK;
}

static bool time_is_up(const struct session *s)
{
    return stop_requested || (s->deadline_ns && host_clock_ns() >= s->deadline_ns - s->ending_ns);
}

int session_start(struct session *s, const char *command, const char *plan, bool hold_errors)
{
    struct child_job job = { .command = command,
                             .layer = s->shape.experts ? SHAPE_TEXT(&s->shape) : "",
                             .window = s->buckets.window,
                             .space = s->buckets.declared ? s->buckets.declared->text : NULL,
                             .plan = plan,
                             .standard_error = hold_errors ? tmpfile() : NULL };

    s->hung = s->default_unfit = s->running = s->dismissed = false;
    s->asks = 0;
    s->late_lines = 0;
    *s->answer = 0;
    s->standard_error = job.standard_error;
    s->copied_bytes = 0;
    if (s->ending_ns && time_is_up(s)) /* the first launch always starts */
        return ERR_CUT;
    TRY(child_start(&job, &s->child));
    s->last_active_ns = host_clock_ns();
    return OK;
}

int session_next(struct session *s, struct program_line *out)
{
    for (;;) {
        bool ended;
        int rc;

        if (s->default_unfit)
            return fail(ERR_LAUNCH, "the default plan itself %s: %s",
                        s->failed_as == TRIAL_NO_MEMORY ? "needs too much memory"
                                                        : "breaks a guard",
                        s->why);
        if (s->dismissed && !s->buckets.declared)
            return UNSUPPORTED;
        if (*s->answer)
            TRY(send_answer(s));
        if (s->late_lines > LATE_LINES_MAX)
            return UNSUPPORTED;
        ended =
            child_ended(&s->child); /* checked before the read, which still gets its last lines */
        rc = child_read(&s->child, s->dismissed, s->line, sizeof(s->line));
        if (time_is_up(s))
            return ERR_CUT;
        if (rc == OK) {
            rc = parse_line(s, out);
            if (rc == UNSUPPORTED)
                continue;
            return rc;
        }
        s->hung = !ended && rc == UNSUPPORTED &&
                  (double)(host_clock_ns() - s->last_active_ns) * 1e-9 > patience_s(s);
        if (ended || s->hung || rc != UNSUPPORTED)
            return UNSUPPORTED;
        if (s->asks)
            copy_errors(s);
        progress_tick(&s->progress);
        *out = (struct program_line){ .word = LINE_NONE };
        return OK;
    }
}

int session_end(struct session *s, int rc, struct launch_end *out)
{
    int64_t ending_begun_ns = host_clock_ns(), took_ns;
    bool by_itself; /* the program ended before child_stop() */

    *out = (struct launch_end){ .hung = s->hung };
    rc = rc == UNSUPPORTED ? OK : rc;
    child_stop(&s->child);
    by_itself = s->child.keeper.pid && !s->child.stopped;
    child_end(&s->child, &out->exit_code, out->how, sizeof(out->how));
    took_ns = host_clock_ns() - ending_begun_ns;
    if (!by_itself && took_ns > s->ending_ns)
        s->ending_ns = took_ns;
    if (s->standard_error && !s->any_line && !rc && !out->hung)
        copy_last_lines(s, out->last_lines, sizeof(out->last_lines));
    else
        copy_errors(s);
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
