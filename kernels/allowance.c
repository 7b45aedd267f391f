/* Finds the limits of this process: reads each of its control groups up to the root, and keeps the
 * smallest value of each limit. */
#include "allowance.h"
#include "text.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A kind of control groups, and the names of its files. */
struct hierarchy {
    const char *controller;     /* NULL: version 2, which has one hierarchy for all controllers */
    const char *quota, *period; /* files */
    const char *throttled;      /* a line of cpu.stat */
    int64_t throttled_unit_ns;
    const char *limit, *used; /* files */
    const char *droppable;    /* a line of memory.stat */
};
static const struct hierarchy hierarchies[] = {
    { .controller = NULL,
      .quota = "cpu.max",
      .throttled = "throttled_usec",
      .throttled_unit_ns = 1000,
      .limit = "memory.max",
      .used = "memory.current",
      .droppable = "inactive_file" },
    { .controller = "cpu",
      .quota = "cpu.cfs_quota_us",
      .period = "cpu.cfs_period_us",
      .throttled = "throttled_time",
      .throttled_unit_ns = 1 },
    { .controller = "memory",
      .limit = "memory.limit_in_bytes",
      .used = "memory.usage_in_bytes",
      .droppable = "total_inactive_file" },
};
enum { PERIOD_MOST_US = 1000000 }; /* the longest period that Linux accepts */
enum { HIERARCHIES = sizeof(hierarchies) / sizeof(hierarchies[0]), PATH_BYTES = 2048 };

/* ---- small files */

static FILE *open_in(const char *folder, const char *name)
{
    char path[PATH_BYTES];

    return text_put(path, sizeof(path), "%s/%s", folder, name) ? fopen(path, "r") : NULL;
}

/* Reads the one or two numbers at the beginning of a file, and stores at most `limit` of them.
 * Returns how many there are; "max" is not a number. */
static int read_numbers(const char *folder, const char *name, int64_t *out, int limit)
{
    FILE *file = open_in(folder, name);
    long long values[2];
    int found = file ? fscanf(file, "%lld %lld", &values[0], &values[1]) : 0;

    if (file)
        fclose(file);
    for (int i = 0; i < found && i < limit; i++)
        out[i] = values[i];
    return found;
}

/* Reads the value of the line "name value", or "name: value kB" in /proc/meminfo. */
static bool read_line(const char *folder, const char *file_name, const char *name, int64_t *out)
{
    FILE *file = open_in(folder, file_name);
    char line[256];
    size_t length = strlen(name);
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        long long value;

        found = !strncmp(line, name, length) && strchr(": ", line[length]) &&
                sscanf(line + length + 1, "%lld", &value) == 1;
        if (found)
            *out = value;
    }
    if (file)
        fclose(file);
    return found;
}

/* ---- one group */

/* Applies a group's CPU quota.  Version 2 has quota and period in one file ("150000 100000"),
 * version 1 in two; "max" or -1 means no quota. */
static void limit_cores(const struct hierarchy *h, const char *group, struct allowance *out)
{
    int64_t quota_period[2] = { 0, 0 };
    int64_t quota_us, period_us;

    if (!h->quota || read_numbers(group, h->quota, quota_period, 2) < 1)
        return;
    if (h->period)
        read_numbers(group, h->period, &quota_period[1], 1);
    quota_us = quota_period[0];
    period_us = quota_period[1];
    if (quota_us <= 0 || period_us <= 0)
        return;
    if (period_us <= PERIOD_MOST_US && period_us * 1000 > out->period_ns)
        out->period_ns = period_us * 1000;
    if (quota_us / period_us < out->cores)
        out->cores = quota_us < period_us ? 1 : (int)(quota_us / period_us);
}

/* Applies a group's memory limit.  Pages of files that were not used lately count as free, because
 * Linux drops them before an allocation fails. */
static void limit_memory(const struct hierarchy *h, const char *group, struct allowance *out)
{
    int64_t limit, used = 0, droppable = 0, left;

    if (!h->limit || read_numbers(group, h->limit, &limit, 1) < 1)
        return;
    read_numbers(group, h->used, &used, 1);
    read_line(group, "memory.stat", h->droppable, &droppable);
    left = limit - used + droppable;
    left = left < 0 ? 0 : left;
    if (left < out->free_bytes)
        out->free_bytes = left;
}

/* ---- which groups */

/* True if `word` is one of the words between commas. */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (;;) {
        size_t this_length = strcspn(words, ",");

        if (this_length == length && !strncmp(words, word, length))
            return true;
        if (!words[this_length])
            return false;
        words += this_length + 1;
    }
}

/* Finds the path of this process's group in /proc/self/cgroup: "4:cpu,cpuacct:/a/b", or "0::/a/b"
 * for version 2. */
static bool find_group(const char *root, const char *controller, char *group, size_t size)
{
    FILE *file = open_in(root, "proc/self/cgroup");
    char line[PATH_BYTES];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        char *words = strchr(line, ':'), *path = words ? strchr(words + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        found = controller ? has_word(words + 1, controller) : !words[1];
        if (found && !text_put(group, size, "%s", path)) {
            found = false;
            break;
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* Reads a line of /proc/self/mountinfo: "31 23 0:28 ROOT PLACE options - cgroup source rw,memory".
 * True if it mounts this hierarchy. */
static bool read_mount(const char *line, const char *controller, char *root, char *place)
{
    const char *kind = strstr(line, " - ");
    char type[16], options[256];

    if (!kind || sscanf(line, "%*s %*s %*s %1023s %1023s", root, place) != 2 ||
        sscanf(kind, " - %15s %*s %255s", type, options) != 2)
        return false;
    return controller ? !strcmp(type, "cgroup") && has_word(options, controller)
                      : !strcmp(type, "cgroup2");
}

/* Finds where the hierarchy is mounted, and the group's path below that place. */
static bool find_place(const char *root, const char *controller, const char *group, char *place,
                       char *below, size_t size)
{
    FILE *file = open_in(root, "proc/self/mountinfo");
    char line[2 * PATH_BYTES], mounted[1024];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file))
        found = read_mount(line, controller, mounted, place);
    if (file)
        fclose(file);
    if (!found)
        return false;
    /* A container may see its own group mounted as if it were the root, under its full name. */
    if (strcmp(mounted, "/") != 0)
        group = strncmp(group, mounted, strlen(mounted)) ? "" : group + strlen(mounted);
    /* "/../.." is a group that this process cannot see. */
    return text_put(below, size, "%s", strcmp(group, "/") && !strstr(group, "/..") ? group : "");
}

/* Applies the limits of this process's group in one hierarchy, and of all groups above it. */
static void apply_hierarchy(const char *root, const struct hierarchy *h, struct allowance *out)
{
    char group[1024], place[1024], path[PATH_BYTES], below[1024];
    char *slash;
    int64_t throttled;

    if (!find_group(root, h->controller, group, sizeof(group)) ||
        !find_place(root, h->controller, group, place, below, sizeof(below)))
        return;
    for (;;) {
        if (!text_put(path, sizeof(path), "%s%s%s", root, place, below))
            return;
        limit_cores(h, path, out);
        if (h->throttled && read_line(path, "cpu.stat", h->throttled, &throttled))
            out->throttled_ns += throttled * h->throttled_unit_ns;
        limit_memory(h, path, out);
        slash = strrchr(below, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

struct allowance allowance_under(const char *root)
{
    struct allowance limits = { INT_MAX, INT64_MAX, 0, 0 };

    for (int i = 0; i < HIERARCHIES; i++)
        apply_hierarchy(root, &hierarchies[i], &limits);
    return limits;
}

struct allowance allowance_here(void)
{
    return allowance_under("");
}

int allowance_cores(void)
{
    struct allowance limits = allowance_here();
    cpu_set_t mask;
    int allowed = sched_getaffinity(0, sizeof(mask), &mask) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                            : CPU_COUNT(&mask);

    return allowed < limits.cores ? allowed : limits.cores;
}

int64_t allowance_free_bytes(void)
{
    struct allowance limits = allowance_here();
    int64_t kib;

    if (read_line("/proc", "meminfo", "MemAvailable", &kib) && kib * 1024 < limits.free_bytes)
        limits.free_bytes = kib * 1024;
    return limits.free_bytes;
}
