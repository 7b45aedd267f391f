/* Keeps the counts of what is asked, and writes them to a file.
 *
 * A line is written by one write() to a file that is opened for appending, so lines of several
 * views, processes and jobs stay whole beside each other; whoever reads adds them up.  Only the
 * process that opened a table records, not those that unpacked it: all ranks ask the same. */
#include "lookup_record.h"

#include "json.h"
#include "lookup.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEAR_LEAST = 1 << 10, NEAR_MOST = 1 << 14, FAR = 1 << 12, PROBES = 8 };

/* A bucket far away: any thread may come first. */
struct far {
    _Atomic uint64_t key; /* bucket + 1; 0: free */
    _Atomic uint64_t count;
};

struct counter_more {
    struct recorder *recorder;
    const struct moelookup_view *view;
    struct counter *previous, *next; /* in the recorder's list */
    _Atomic uint64_t *counts;        /* of all shards, `near` each; the last one is everybody's */
    uint64_t *written;               /* near + FAR of them: what lines say already */
    struct far *far;
    _Atomic uint64_t lost; /* asked for in more far buckets than there is room for */
    uint64_t lost_written;
    char head[1024]; /* of every line; of a device every byte may need six */
};

struct recorder {
    pthread_mutex_t lock; /* of everything here; counting never takes it */
    uint64_t users;       /* the table, and counters */
    struct counter *first;
    pid_t process; /* a child after fork() has its parent's counts, which are not its own */
    char path[PATH_MAX];
};

/* ---- the file */

static int open_file(const char *path, int *fd)
{
    struct stat is;

    *fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0)
        return ERR_IO;
    if (!fstat(*fd, &is) && S_ISREG(is.st_mode))
        return OK;
    close(*fd);
    errno = EINVAL;
    return ERR_IO;
}

/* Of somebody who died in the middle of it, or whose disk was full: it must not spoil ours.  (Of
 * somebody who is just writing it: an empty line does no harm.) */
static bool ends_in_half_a_line(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char last;

    return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

/* `line` has a line feed before it and one at its end. */
static int append_line(const char *path, const char *line, size_t length)
{
    ssize_t wrote;
    int fd;

    TRY(open_file(path, &fd));
    if (!ends_in_half_a_line(fd)) {
        line++;
        length--;
    }
    do
        wrote = write(fd, line, length);
    while (wrote < 0 && errno == EINTR);
    return close(fd) || wrote != (ssize_t)length ? ERR_IO : OK;
}

/* ---- recorders */

/* The whole path as it is now: the trainer may change its folder later. */
static int whole_path(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX] = "";

    if (*path != '/' && !getcwd(folder, sizeof(folder)))
        return ERR_IO;
    if (snprintf(out, PATH_MAX, "%s%s%s", folder, *path == '/' ? "" : "/", path) < PATH_MAX)
        return OK;
    errno = ENAMETOOLONG;
    return ERR_IO;
}

int recorder_open(const char *path, struct recorder **out)
{
    struct recorder *r = calloc(1, sizeof(*r));
    int fd = -1, rc = r ? whole_path(path, r->path) : ERR_NOMEM;

    if (!rc)
        rc = open_file(r->path, &fd);
    if (!rc && pthread_mutex_init(&r->lock, NULL))
        rc = ERR_NOMEM;
    if (fd >= 0)
        close(fd);
    if (rc) {
        free(r);
        return rc;
    }
    r->users = 1;
    r->process = getpid();
    *out = r;
    return OK;
}

static bool is_ours(const struct recorder *r)
{
    return r->process == getpid();
}

/* Leaves the recorder, which the last user frees, and unlocks it. */
static void leave(struct recorder *r)
{
    bool last = --r->users == 0;

    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- counting */

static uint32_t far_home(uint32_t bucket)
{
    return bucket * 0x9e3779b9u >> 20; /* FAR places */
}

/* The bucket's place, taken if it is free; false: it is another's. */
static bool take_place(struct far *far, uint64_t key)
{
    uint64_t there = atomic_load_explicit(&far->key, memory_order_relaxed);

    if (!there)
        atomic_compare_exchange_strong(&far->key, &there, key);
    return !there || there == key;
}

static void count_far(struct counter_more *more, uint32_t bucket)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        struct far *far = &more->far[(far_home(bucket) + i) % FAR];

        if (take_place(far, (uint64_t)bucket + 1)) {
            atomic_fetch_add_explicit(&far->count, 1, memory_order_relaxed);
            return;
        }
    }
    atomic_fetch_add_explicit(&more->lost, 1, memory_order_relaxed);
}

/* A view is const to whoever asks it, but who owns its shards is not. */
static bool take_slot(const struct counter_slot *slot, uintptr_t self)
{
    uintptr_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);

    if (!owner)
        atomic_compare_exchange_strong((_Atomic uintptr_t *)&slot->owner, &owner, self);
    return !owner || owner == self;
}

/* The thread's own shard, taken if need be; NULL: none is left.  Stacks of threads lie some pages
 * apart, always as many. */
static const struct counter_slot *own_slot(const struct counter *counter, uintptr_t self)
{
    uint32_t home = (uint32_t)(self >> 12) * 0x9e3779b9u >> 26;

    if (take_slot(&counter->slots[0], self))
        return &counter->slots[0];
    for (uint32_t i = 0; i < COUNTER_SHARDS; i++)
        if (take_slot(&counter->slots[(home + i) % COUNTER_SHARDS], self))
            return &counter->slots[(home + i) % COUNTER_SHARDS];
    return NULL;
}

int counter_count_elsewhere(const struct counter *counter, uintptr_t self, uint32_t bucket)
{
    const struct counter_slot *slot = bucket < counter->near ? own_slot(counter, self) : NULL;
    _Atomic uint64_t *shared = counter->more->counts + (size_t)COUNTER_SHARDS * counter->near;

    if (bucket >= counter->near)
        count_far(counter->more, bucket);
    else if (!slot)
        atomic_fetch_add_explicit(&shared[bucket], 1, memory_order_relaxed);
    else
        counter_add(&slot->counts[bucket]);
    return MOE_OK;
}

/* ---- lines */

static uint64_t near_count(const struct counter *t, uint32_t bucket)
{
    uint64_t sum = 0;

    for (uint32_t shard = 0; shard <= COUNTER_SHARDS; shard++)
        if (shard == COUNTER_SHARDS || atomic_load(&t->slots[shard].owner))
            sum += atomic_load_explicit(&t->more->counts[(size_t)shard * t->near + bucket],
                                        memory_order_relaxed);
    return sum;
}

/* What was counted of one bucket, and where it is kept what of it is written. */
struct asked {
    uint32_t bucket;
    uint64_t now, *written;
};

static int by_bucket(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;

    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* Everything that is not written yet, by bucket; there is room for near + FAR. */
static size_t collect(const struct counter *t, struct asked *out)
{
    struct counter_more *more = t->more;
    size_t count = 0;

    for (uint32_t b = 0; b < t->near; b++) {
        out[count] = (struct asked){ b, near_count(t, b), &more->written[b] };
        count += out[count].now != *out[count].written;
    }
    for (uint32_t i = 0; i < FAR; i++) {
        uint64_t key = atomic_load(&more->far[i].key);

        out[count] =
            (struct asked){ (uint32_t)(key - 1),
                            atomic_load_explicit(&more->far[i].count, memory_order_relaxed),
                            &more->written[t->near + i] };
        count += key && out[count].now != *out[count].written;
    }
    qsort(out, count, sizeof(*out), by_bucket);
    return count;
}

static int format_line(const struct counter *t, const struct asked *asked, size_t count,
                       uint64_t lost, char **line, size_t *length)
{
    FILE *to = open_memstream(line, length);

    if (!to)
        return ERR_NOMEM;
    fprintf(to, "\n%s,\"lost\":%" PRIu64 ",\"asked\":[", t->more->head, lost);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s[%" PRIu32 ",\"%s\",%" PRIu64 "]", i ? "," : "", asked[i].bucket,
                plan_source_words[lookup_view_source(t->more->view, asked[i].bucket)],
                asked[i].now - *asked[i].written);
    fprintf(to, "]}\n");
    return fclose(to) ? ERR_NOMEM : OK;
}

/* Writes a counter's line; the caller holds the recorder's lock. */
static int write_counter(const struct counter *t)
{
    struct counter_more *more = t->more;
    struct asked *asked = malloc(sizeof(*asked) * (t->near + (size_t)FAR + 1));
    uint64_t lost = atomic_load(&more->lost);
    char *line = NULL;
    size_t length, count;
    int rc = OK;

    if (!asked)
        return ERR_NOMEM;
    count = collect(t, asked);
    if (count || lost != more->lost_written) {
        rc = format_line(t, asked, count, lost - more->lost_written, &line, &length);
        if (!rc)
            rc = append_line(more->recorder->path, line, length);
        for (size_t i = 0; i < count && !rc; i++)
            *asked[i].written = asked[i].now;
        if (!rc)
            more->lost_written = lost;
    }
    free(line);
    free(asked);
    return rc;
}

int counter_flush(const struct counter *t)
{
    struct recorder *r = t->more->recorder;
    int rc;

    if (!is_ours(r))
        return OK;
    pthread_mutex_lock(&r->lock);
    rc = write_counter(t);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void recorder_close(struct recorder *r)
{
    if (!r || !is_ours(r))
        return;
    pthread_mutex_lock(&r->lock);
    for (struct counter *t = r->first; t; t = t->more->next)
        write_counter(t);
    leave(r);
}

/* ---- counters */

static int format_head(const struct counter_of *of, char *head, size_t size)
{
    FILE *to = fmemopen(head, size, "w");
    bool fits;

    if (!to)
        return ERR_NOMEM;
    fprintf(to,
            "{\"format\":\"moetune-traffic\",\"version\":%d,\"layer\":\"%s\",\"window\":%" PRIu32,
            TRAFFIC_VERSION, SHAPE_TEXT(of->shape), of->window);
    fputs(",\"cluster\":", to);
    of->cluster ? json_quote(of->cluster, to) : (void)fputs("null", to);
    fputs(",\"device\":", to);
    of->device ? json_quote(of->device, to) : (void)fputs("null", to);
    fits = !fflush(to) && ftell(to) < (long)size;
    return fclose(to) || !fits ? ERR_NOMEM : OK;
}

static void free_more(struct counter_more *more)
{
    if (!more)
        return;
    free(more->counts);
    free(more->written);
    free(more->far);
    free(more);
}

static uint32_t near_for(uint32_t last)
{
    uint32_t near = NEAR_LEAST;

    while (near < NEAR_MOST && near / 2 <= last)
        near *= 2;
    return near;
}

/* Pages that nobody counts in are never touched: most of this is only reserved. */
static struct counter_more *new_more(uint32_t near)
{
    struct counter_more *more = calloc(1, sizeof(*more));

    if (!more)
        return NULL;
    more->counts = calloc((size_t)(COUNTER_SHARDS + 1) * near, sizeof(*more->counts));
    more->written = calloc(near + (size_t)FAR, sizeof(*more->written));
    more->far = calloc(FAR, sizeof(*more->far));
    if (more->counts && more->written && more->far)
        return more;
    free_more(more);
    return NULL;
}

int counter_open(struct recorder *r, const struct counter_of *of, struct counter *out)
{
    uint32_t near = near_for(of->last);
    struct counter_more *more = new_more(near);
    int rc = more ? format_head(of, more->head, sizeof(more->head)) : ERR_NOMEM;

    if (rc) {
        free_more(more);
        return rc;
    }
    more->view = of->view;
    more->recorder = r;
    for (uint32_t i = 0; i < COUNTER_SHARDS; i++)
        out->slots[i].counts = more->counts + (size_t)i * near;
    out->more = more;
    out->near = near;
    pthread_mutex_lock(&r->lock);
    more->next = r->first;
    if (r->first)
        r->first->more->previous = out;
    r->first = out;
    r->users++;
    pthread_mutex_unlock(&r->lock);
    return OK;
}

void counter_close(struct counter *t)
{
    struct recorder *r;

    if (!t->near)
        return;
    r = t->more->recorder;
    if (is_ours(r)) {
        pthread_mutex_lock(&r->lock);
        write_counter(t);
        if (t->more->previous)
            t->more->previous->more->next = t->more->next;
        else
            r->first = t->more->next;
        if (t->more->next)
            t->more->next->more->previous = t->more->previous;
        leave(r);
    }
    free_more(t->more);
    t->near = 0;
}
