/* Writes and reads the speeds of ranks as runs of equally fast ranks. */
#include "rank_speeds.h"

#include "cluster.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const double rank_speeds_unequal = 0.1;

/* Rounds a speed to a multiple of `step` percent, but never to 0: a rank of speed 0 would do
 * nothing. */
static long percent_of(double speed, long step)
{
    long rounded = lround(speed * 100 / (double)step) * step;

    return rounded > 0 ? rounded : 1;
}

static bool format_runs(const double *speeds, size_t ranks, long step, char *text, size_t size)
{
    bool fits = ranks > 0;

    *text = 0;
    for (size_t i = 0, run; i < ranks && fits; i += run) {
        long percent = percent_of(speeds[i], step);

        for (run = 1; i + run < ranks && percent_of(speeds[i + run], step) == percent;)
            run++;
        fits = text_add(text, size, "%s%zux%ld", i ? " " : "", run, percent);
    }
    return fits;
}

void rank_speeds_format(const double *speeds, size_t ranks, char *text, size_t size)
{
    static const long steps[] = { 1, 2, 5, 10, 25 };
    bool all_usable = true;

    for (size_t i = 0; i < ranks && all_usable; i++)
        all_usable = speeds[i] > 0 && speeds[i] <= 1;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && all_usable; i++)
        if (format_runs(speeds, ranks, steps[i], text, size))
            return;
    snprintf(text, size, "unknown");
}

/* Reads the next "RUNxPERCENT" and the blank behind it. The text must not be at its end. */
static bool next_run(const char **text, unsigned *run, unsigned *percent)
{
    int length = 0;

    /* sscanf() would skip blanks and signs before a number, so the first letter must be a digit. */
    if (!strchr("0123456789", **text) || sscanf(*text, "%6ux%3u%n", run, percent, &length) != 2 ||
        !*run || !*percent || *percent > 100 || !strchr(" ", (*text)[length]))
        return false;
    *text += length;
    *text += **text == ' ';
    return true;
}

bool rank_speeds_parse(const char *text, size_t *ranks, double *slowest)
{
    unsigned run, percent, lowest_percent = 100;
    size_t count = 0;

    if (text[strspn(text, "0123456789x ")] || strstr(text, "x "))
        return false;
    while (*text) {
        if (!next_run(&text, &run, &percent))
            return false;
        count += run;
        lowest_percent = percent < lowest_percent ? percent : lowest_percent;
    }
    if (!count)
        return false;
    *ranks = count;
    *slowest = lowest_percent / 100.0;
    return true;
}

bool rank_speeds_known(const struct cluster *cluster)
{
    double slowest;
    size_t ranks;

    return rank_speeds_parse(cluster->rank_speeds_percent, &ranks, &slowest) &&
           ranks == cluster->ranks;
}

void rank_speeds_list(const char *text, double *speeds)
{
    unsigned run, percent;

    while (*text && next_run(&text, &run, &percent))
        while (run--)
            *speeds++ = percent / 100.0;
}
