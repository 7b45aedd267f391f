/* Reads Linux's counters before and after a stretch of work, and computes the time that other
 * processes took from it. */
#include "disturbance.h"

#include "status.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEAL_WINDOW_NS = 500000000, STAT_BYTES = 1 << 18 };

/* ---- texts */

bool schedstat_waited(const char *text, int64_t *ns)
{
    unsigned long long ran, waited;

    if (sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return false;
    *ns = (int64_t)waited;
    return true;
}

/* Lines are "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..."; "cpu" without a number is
 * the sum of all cores. */
bool stat_stolen(const char *text, bool (*counts)(const void *self, int core), const void *self,
                 int64_t *ticks)
{
    int64_t sum = 0;
    bool found = false;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        unsigned long long stolen;
        int core;

        line += *line == '\n';
        if (strncmp(line, "cpu", 3) != 0 || !(line[3] >= '0' && line[3] <= '9') ||
            sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %*u %llu", &core, &stolen) != 2)
            continue;
        found = true;
        sum += !counts || counts(self, core) ? (int64_t)stolen : 0;
    }
    if (found)
        *ticks = sum;
    return found;
}

/* ---- arithmetic */

int64_t use_lost_ns(const struct use *before, const struct use *after, double cores)
{
    int64_t waited = after->waited_ns - before->waited_ns;
    int64_t missing = (int64_t)(cores * (double)(after->at_ns - before->at_ns)) -
                      (after->ran_ns - before->ran_ns);
    int64_t lost = waited < missing ? waited : missing;

    /* It may be negative: the counters of a thread that has ended are gone. */
    return lost > 0 && cores >= 1 ? lost : 0;
}

bool steal_is_due(const struct steal *s, int64_t now_ns)
{
    return !s->since_ns || now_ns - s->since_ns >= STEAL_WINDOW_NS;
}

void steal_update(struct steal *s, int64_t now_ns, int64_t ticks, int64_t tick_ns, int cores)
{
    double span_ns = (double)(now_ns - s->since_ns) * cores;

    if (s->since_ns && span_ns > 0)
        s->share = (double)((ticks - s->ticks) * tick_ns) / span_ns;
    s->since_ns = now_ns;
    s->ticks = ticks;
}

/* ---- this process */

/* See disturbance_open(); disturbance_close() frees it. */
struct disturbance {
    double cores;
    DIR *tasks; /* NULL: Linux does not count waits */
    int stat;   /* open /proc/stat; -1: it cannot be read */
    int64_t tick_ns;
    struct use before;
    struct steal steal;
    char text[STAT_BYTES]; /* of /proc/stat, whose first lines are the cores */
};

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Reads a whole small file from its start; "" if it cannot be read. */
static void read_text(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = 0;
}

static void read_file(int folder, const char *path, char *text, size_t size)
{
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);

    read_text(fd, text, size);
    if (fd >= 0)
        close(fd);
}

/* Lists the threads again each time, because threads begin and end. */
static struct use use_now(struct disturbance *d)
{
    struct use use = { .at_ns = clock_ns(CLOCK_MONOTONIC),
                       .ran_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) };
    char path[300], text[96];
    int64_t waited_ns;

    if (!d->tasks)
        return use;
    rewinddir(d->tasks);
    for (const struct dirent *e; (e = readdir(d->tasks));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/schedstat", e->d_name);
        read_file(dirfd(d->tasks), path, text, sizeof(text));
        if (schedstat_waited(text, &waited_ns)) /* else the thread has just ended */
            use.waited_ns += waited_ns;
    }
    return use;
}

static bool is_allowed(const void *set, int core)
{
    return core < CPU_SETSIZE && CPU_ISSET(core, (const cpu_set_t *)set);
}

int disturbance_open(double cores, struct disturbance **out)
{
    struct disturbance *d = calloc(1, sizeof(*d));

    if (!d)
        return fail(ERR_NOMEM, "the counters of disturbances");
    d->cores = cores;
    d->tasks = disturbance_waits_are_known() ? opendir("/proc/self/task") : NULL;
    d->stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    d->tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    *out = d;
    return OK;
}

void disturbance_close(struct disturbance *d)
{
    if (!d)
        return;
    if (d->tasks)
        closedir(d->tasks);
    if (d->stat >= 0)
        close(d->stat);
    free(d);
}

void disturbance_begin(struct disturbance *d)
{
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC), ticks;
    cpu_set_t allowed;

    if (d->stat >= 0 && steal_is_due(&d->steal, now_ns) &&
        !sched_getaffinity(0, sizeof(allowed), &allowed)) {
        read_text(d->stat, d->text, sizeof(d->text));
        if (stat_stolen(d->text, is_allowed, &allowed, &ticks))
            steal_update(&d->steal, now_ns, ticks, d->tick_ns, CPU_COUNT(&allowed));
    }
    d->before = use_now(d);
}

int64_t disturbance_end(struct disturbance *d)
{
    struct use after = use_now(d);
    double stolen = d->steal.share * (double)(after.at_ns - d->before.at_ns);

    return use_lost_ns(&d->before, &after, d->cores) + (int64_t)stolen;
}

bool disturbance_waits_are_known(void)
{
    char text[96];
    int64_t ns;

    read_file(AT_FDCWD, "/proc/self/schedstat", text, sizeof(text));
    return schedstat_waited(text, &ns);
}

bool disturbance_steal_is_known(void)
{
    char first_lines[4096];
    int64_t ticks;

    read_file(AT_FDCWD, "/proc/stat", first_lines, sizeof(first_lines));
    return stat_stolen(first_lines, NULL, NULL, &ticks);
}
