/* Shows progress as one line, which is rewritten on a terminal and repeated elsewhere. */
#include "progress.h"

#include "host.h"
#include "screen.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t terminal_every_ns = 200000000, plain_every_ns = 5000000000;

void progress_open(struct progress *progress, bool quiet, const char *now)
{
    *progress = (struct progress){ .quiet = quiet,
                                   .terminal = screen_is_terminal(stderr),
                                   .begun_ns = host_clock_ns(),
                                   .shown_ns = host_clock_ns() };
    snprintf(progress->now, sizeof(progress->now), "%s", now);
}

/* Estimates the time that is left by the buckets that this run measured; known buckets cost
 * nothing. NAN before the first one is done. */
static double seconds_left(const struct progress *p, double spent_s)
{
    double to_measure = p->buckets > p->done ? p->buckets - p->done : 0;
    double to_compare = p->compares ? p->done + to_measure - p->compared : 0;

    return p->fresh ? spent_s / (p->fresh + p->compared) * (to_measure + to_compare) : NAN;
}

/* Writes the time spent, and the time left for the work, or for the budget if that is less. */
static void write_time(const struct progress *p, int64_t now_ns, char *text, size_t size)
{
    double spent_s = (double)(now_ns - p->begun_ns) * 1e-9, work_s = seconds_left(p, spent_s);
    double budget_s = p->deadline_ns ? (double)(p->deadline_ns - now_ns) * 1e-9 : INFINITY;
    bool only_compares = p->compares && p->done >= p->buckets;

    *text = 0;
    if (!p->terminal || isnan(work_s))
        text_put(text, size, "%s, ", DURATION_TEXT(spent_s));
    if (isnan(work_s))
        text_add(text, size, "%" PRIu64 " steps so far%s", p->steps, p->deadline_ns ? ", " : "");
    if (budget_s < -1)
        text_add(text, size, "past the budget, for the step that runs");
    else if (p->deadline_ns && !(work_s <= budget_s))
        text_add(text, size, "at most %s left (--budget)", DURATION_TEXT(fmax(0, budget_s)));
    else if (work_s < 1)
        text_add(text, size, only_compares ? "last comparisons" : "nearly done");
    else if (work_s >= 1)
        text_add(text, size, "about %s left%s", DURATION_TEXT(work_s),
                 only_compares ? " to compare" : "");
}

enum { BAR_COLUMNS = 16 };

static void print_progress(struct progress *p, int64_t now_ns)
{
    char line[640], bar[BAR_COLUMNS + 4] = "", count_text[40] = "", time_text[128];
    int length;

    if (p->terminal && p->buckets && screen_columns(stderr) > 4 * BAR_COLUMNS) {
        int filled = (int)((uint64_t)p->done * BAR_COLUMNS / p->buckets);

        strcpy(bar, "[................] ");
        memset(bar + 1, '#', (size_t)(filled < BAR_COLUMNS ? filled : BAR_COLUMNS));
    }
    write_time(p, now_ns, time_text, sizeof(time_text));
    if (p->buckets)
        snprintf(count_text, sizeof(count_text), "%u/%u buckets, ", p->done, p->buckets);
    /* What matters most comes first, because a narrow screen cuts the line. */
    text_put(line, sizeof(line), "%s%s%s%s%s%s; now %s", bar, p->layer, count_text, time_text,
             *p->leader ? "; " : "", p->leader, p->now);
    if (p->terminal)
        screen_cut(line, screen_columns(stderr) - 1);
    length = (int)strlen(line);
    utf8_clean(line, strlen(line), false);
    if (p->terminal) {
        int old_length = log_progress_columns(length);

        fprintf(stderr, "\r%s%*s", line, old_length > length ? old_length - length : 0, "");
    } else {
        fprintf(stderr, "moetune: %s\n", line);
    }
    p->shown_ns = now_ns;
    fflush(stderr);
}

static bool line_is_due(const struct progress *p, int64_t last_ns)
{
    int64_t every_ns = p->terminal ? terminal_every_ns : plain_every_ns;

    return !p->quiet && host_clock_ns() - last_ns >= every_ns;
}

void progress_tick(struct progress *p)
{
    if (line_is_due(p, p->shown_ns))
        print_progress(p, host_clock_ns());
}

bool progress_wants_leader(struct progress *p)
{
    bool due = line_is_due(p, p->leader_ns);

    if (due)
        p->leader_ns = host_clock_ns();
    return due;
}

void progress_show(struct progress *p, const char *now, ...)
{
    va_list args;

    va_start(args, now);
    text_put_list(p->now, sizeof(p->now), now, args);
    va_end(args);
    progress_tick(p);
}

void progress_left(size_t left, size_t total, const char *what, size_t done, double took_s,
                   FILE *out)
{
    if (!left)
        return;
    fprintf(out, "left      %zu of %zu %s", left, total, what);
    if (done)
        fprintf(out, ", about %s more", DURATION_TEXT(took_s / (double)done * (double)left));
    fprintf(out, "\n");
}
