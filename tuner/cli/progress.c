/* Shows progress as one line, which is rewritten on a terminal and repeated elsewhere. */
#include "progress.h"

#include "host.h"
#include "utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t terminal_every_ns = 200000000, plain_every_ns = 5000000000;

void progress_open(struct progress *progress, bool quiet)
{
    const char *kind = getenv("TERM");

    *progress =
        (struct progress){ .quiet = quiet,
                           .terminal = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb"),
                           .begun_ns = host_clock_ns(),
                           .shown_ns = host_clock_ns() };
}

const char *progress_duration(double seconds, char room[DURATION_BYTES])
{
    const size_t size = DURATION_BYTES;

    if (!isfinite(seconds) || seconds > 1e9)
        snprintf(room, size, "?");
    else if (seconds < 99.5)
        snprintf(room, size, "%.0f s", seconds);
    else if (seconds < 5940)
        snprintf(room, size, "%d m %02d s", (int)(seconds / 60), (int)fmod(seconds, 60));
    else if (seconds < 360000)
        snprintf(room, size, "%d h %02d m", (int)(seconds / 3600), (int)fmod(seconds / 60, 60));
    else
        snprintf(room, size, "%d days", (int)(seconds / 86400));
    return room;
}

static void print(struct progress *p, int64_t now_ns)
{
    double spent = (double)(now_ns - p->begun_ns) * 1e-9;
    /* From the buckets measured in this run: known ones cost nothing. */
    double to_come = p->fresh ? spent / p->fresh * (p->buckets - p->done) : NAN;
    char line[512];
    int length;

    length = snprintf(line, sizeof(line), "%s%u/%u buckets, %s, %s left: %s", p->layer, p->done,
                      p->buckets, DURATION_TEXT(spent), DURATION_TEXT(to_come), p->now);
    if (length > 118 && p->terminal)
        line[length = 118] = 0;
    utf8_clean(line, strlen(line), false);
    if (p->terminal)
        fprintf(stderr, "\r%s%*s", line, p->width > length ? p->width - length : 0, "");
    else
        fprintf(stderr, "moetune: %s\n", line);
    p->width = length;
    p->shown_ns = now_ns;
    fflush(stderr);
}

void progress_tick(struct progress *p)
{
    int64_t now_ns = host_clock_ns();

    if (!p->quiet && now_ns - p->shown_ns >= (p->terminal ? terminal_every_ns : plain_every_ns))
        print(p, now_ns);
}

void progress_show(struct progress *p, const char *now, ...)
{
    va_list args;

    va_start(args, now);
    vsnprintf(p->now, sizeof(p->now), now, args);
    va_end(args);
    progress_tick(p);
}

void progress_clear(struct progress *p)
{
    if (p->terminal && p->width)
        fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
}
