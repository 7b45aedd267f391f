/* Writes records for moetune: what trainers ask (from the answers of views), and what their gates
 * choose.
 *
 * Both kinds append lines to a file. A line of look-ups is one write(), so that lines of several
 * processes and jobs stay whole beside each other. The file of counts has one writer. The child of
 * a fork() records nothing, because its counts are its parent's. */
#include "lookup_record.h"

#include "json.h"
#include "lookup.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files of lines. */

/* Opens a file for appending. ERR_IO, with errno: it cannot be opened, or is no regular file. */
static int open_lines(const char *path, int *fd)
{
    struct stat info;

    *fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0)
        return ERR_IO;
    if (!fstat(*fd, &info) && S_ISREG(info.st_mode))
        return OK;
    close(*fd);
    *fd = -1;
    errno = EINVAL;
    return ERR_IO;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t wrote = write(fd, bytes, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return ERR_IO;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return OK;
}

/* Ends a half line at the end of the file, which would spoil ours: its writer died, or its disk was
 * full. (If a process is just writing it, an empty line does no harm.) *end: the length of the file
 * then. */
static int end_half_line(int fd, off_t *end)
{
    char last = '\n';

    *end = lseek(fd, 0, SEEK_END);
    if (*end < 0 || (*end && pread(fd, &last, 1, *end - 1) < 0)) /* 0: the file has just been cut */
        return ERR_IO;
    if (last == '\n')
        return OK;
    ++*end;
    return write_all(fd, "\n", 1);
}

/* ---- Recorders of look-ups. Only the process that opened a table records, not those that unpacked
 * it, because all ranks ask the same. A reader of the lines adds them up. */

enum { NEAR_LEAST = 1 << 10, NEAR_MOST = 1 << 14, FAR = 1 << 12, PROBES = 8 };

/* The count of a bucket far away. Any thread may be the first to count there. */
struct far {
    _Atomic uint64_t key; /* bucket + 1; 0: free */
    _Atomic uint64_t count;
};

/* The rarely needed part of a counter; counter_close() frees it. */
struct counter_details {
    struct recorder *recorder;
    const struct moelookup_view *view;
    struct counter *previous, *next; /* in the recorder's list */
    _Atomic uint64_t *counts;        /* of all shards, `near` each; the last shard is shared */
    uint64_t *written;               /* near + FAR counts that lines contain already */
    struct far *far;
    _Atomic uint64_t lost; /* look-ups in more far buckets than there is room for */
    uint64_t lost_written;
    char head[1024]; /* of every line; a byte of the device's name may need six */
};

/* Where lines of look-ups go; its last user frees it. */
struct recorder {
    pthread_mutex_t lock; /* of everything here; counting never takes it */
    uint64_t users;       /* the table and its counters */
    struct counter *first;
    pid_t process; /* the one that may write */
    char path[PATH_MAX];
};

int recorder_open(const char *path, struct recorder **out)
{
    struct recorder *r = calloc(1, sizeof(*r));
    char folder[PATH_MAX] = "";
    int fd, rc = ERR_IO;

    if (!r)
        return ERR_NOMEM;
    /* Takes the whole path as it is now, because the trainer may change its folder later. */
    if (*path != '/' && !getcwd(folder, sizeof(folder)))
        goto out;
    if (snprintf(r->path, PATH_MAX, "%s%s%s", folder, *path == '/' ? "" : "/", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        goto out;
    }
    TRY_OUT(open_lines(r->path, &fd)); /* to report now that it cannot be opened */
    close(fd);
    rc = ERR_NOMEM;
    if (pthread_mutex_init(&r->lock, NULL))
        goto out;
    r->users = 1;
    r->process = getpid();
    *out = r;
    return OK;
out:
    free(r);
    return rc;
}

static bool is_this_process(const struct recorder *r)
{
    return r->process == getpid();
}

/* Ends one use of the recorder and unlocks it. The last user frees it. */
static void recorder_release(struct recorder *r)
{
    bool last = --r->users == 0;

    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- Counting look-ups. */

static void count_far(struct counter_details *details, uint32_t bucket)
{
    uint64_t key = (uint64_t)bucket + 1;
    uint32_t first_place = bucket * 0x9e3779b9u >> 20; /* one of FAR places */

    for (uint32_t i = 0; i < PROBES; i++) {
        struct far *far = &details->far[(first_place + i) % FAR];
        uint64_t owner = atomic_load_explicit(&far->key, memory_order_relaxed);

        if (!owner)
            atomic_compare_exchange_strong(&far->key, &owner, key);
        if (owner && owner != key)
            continue;
        atomic_fetch_add_explicit(&far->count, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&details->lost, 1, memory_order_relaxed);
}

int counter_count_elsewhere(const struct counter *counter, uintptr_t self, uint32_t bucket)
{
    _Atomic uint64_t *shared = counter->details->counts + (size_t)COUNTER_SHARDS * counter->near;
    /* Stacks of threads lie some pages apart, all equally far, so a hash spreads them. */
    uint32_t first_slot = (uint32_t)(self >> 12) * 0x9e3779b9u >> 26; /* one of COUNTER_SHARDS */

    if (bucket >= counter->near) {
        count_far(counter->details, bucket);
        return MOE_OK;
    }
    for (uint32_t i = 0; i <= COUNTER_SHARDS; i++) {
        const struct counter_slot *slot =
            &counter->slots[i ? (first_slot + i - 1) % COUNTER_SHARDS : 0]; /* slot 0 first */
        uintptr_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);

        /* A view is const for its callers, but the owner of a slot is not. */
        if (!owner)
            atomic_compare_exchange_strong((_Atomic uintptr_t *)&slot->owner, &owner, self);
        if (!owner || owner == self) {
            counter_add(&slot->counts[bucket]);
            return MOE_OK;
        }
    }
    atomic_fetch_add_explicit(&shared[bucket], 1, memory_order_relaxed); /* no slot is free */
    return MOE_OK;
}

/* ---- Lines of look-ups. */

/* How often a bucket was asked for, and where the count is that lines contain already. */
struct bucket_count {
    uint32_t bucket;
    uint64_t now, *written;
};

static int by_bucket(const void *a, const void *b)
{
    const struct bucket_count *x = a, *y = b;

    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* Lists the counts that are not written yet, sorted by bucket. `out` has room for near + FAR. */
static size_t collect_unwritten(const struct counter *counter, struct bucket_count *out)
{
    struct counter_details *details = counter->details;
    size_t count = 0;

    for (uint32_t b = 0; b < counter->near; b++) {
        uint64_t now = 0;

        for (uint32_t shard = 0; shard <= COUNTER_SHARDS; shard++)
            if (shard == COUNTER_SHARDS || atomic_load(&counter->slots[shard].owner))
                now += atomic_load_explicit(&details->counts[(size_t)shard * counter->near + b],
                                            memory_order_relaxed);
        out[count] = (struct bucket_count){ b, now, &details->written[b] };
        count += now != details->written[b];
    }
    for (uint32_t i = 0; i < FAR; i++) {
        uint64_t key = atomic_load(&details->far[i].key);

        out[count] = (struct bucket_count){
            (uint32_t)(key - 1), atomic_load_explicit(&details->far[i].count, memory_order_relaxed),
            &details->written[counter->near + i]
        };
        count += key && out[count].now != *out[count].written;
    }
    qsort(out, count, sizeof(*out), by_bucket);
    return count;
}

static int append_line(const char *path, const char *line, size_t length)
{
    ssize_t wrote = -1;
    off_t end;
    int fd;

    TRY(open_lines(path, &fd));
    if (!end_half_line(fd, &end))
        do
            wrote = write(fd, line, length);
        while (wrote < 0 && errno == EINTR);
    /* After a short write the rest would land behind other processes' lines, so the next call
     * writes the whole line again. */
    return close(fd) || wrote != (ssize_t)length ? ERR_IO : OK;
}

/* Appends a line with what a counter has not written yet. The caller holds the recorder's lock. */
static int counter_write(const struct counter *counter)
{
    struct counter_details *details = counter->details;
    struct bucket_count *counts = malloc(sizeof(*counts) * (counter->near + (size_t)FAR + 1));
    uint64_t lost = atomic_load(&details->lost);
    char *line = NULL;
    size_t length, count;
    FILE *to;
    int rc = OK;

    if (!counts)
        return ERR_NOMEM;
    count = collect_unwritten(counter, counts);
    if (!count && lost == details->lost_written)
        goto out;
    rc = ERR_NOMEM;
    to = open_memstream(&line, &length);
    if (!to)
        goto out;
    fprintf(to, "%s,\"lost\":%" PRIu64 ",\"asked\":[", details->head, lost - details->lost_written);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s[%" PRIu32 ",\"%s\",%" PRIu64 "]", i ? "," : "", counts[i].bucket,
                plan_source_words[lookup_view_source(details->view, counts[i].bucket)],
                counts[i].now - *counts[i].written);
    fprintf(to, "]}\n");
    if (fclose(to))
        goto out;
    TRY_OUT(append_line(details->recorder->path, line, length));
    for (size_t i = 0; i < count; i++)
        *counts[i].written = counts[i].now;
    details->lost_written = lost;
out:
    free(line);
    free(counts);
    return rc;
}

int counter_flush(const struct counter *counter)
{
    struct recorder *r = counter->details->recorder;
    int rc;

    if (!is_this_process(r))
        return OK;
    pthread_mutex_lock(&r->lock);
    rc = counter_write(counter);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void recorder_close(struct recorder *r)
{
    if (!r || !is_this_process(r))
        return;
    pthread_mutex_lock(&r->lock);
    for (struct counter *counter = r->first; counter; counter = counter->details->next)
        counter_write(counter);
    recorder_release(r);
}

/* ---- Counters. */

static void write_text_or_null(const char *text, FILE *to)
{
    if (text)
        json_quote(text, to);
    else
        fputs("null", to);
}

static int format_head(const struct counter_of *counted, char *head, size_t size)
{
    FILE *to = fmemopen(head, size, "w");
    bool fits;

    if (!to)
        return ERR_NOMEM;
    fprintf(to,
            "{\"format\":\"moetune-traffic\",\"version\":%d,\"layer\":\"%s\",\"window\":%" PRIu32,
            TRAFFIC_VERSION, SHAPE_TEXT(counted->shape), counted->window);
    fputs(",\"cluster\":", to);
    write_text_or_null(counted->cluster, to);
    fputs(",\"device\":", to);
    write_text_or_null(counted->device, to);
    fits = !fflush(to) && ftell(to) < (long)size;
    return fclose(to) || !fits ? ERR_NOMEM : OK;
}

static void free_details(struct counter_details *details)
{
    if (!details)
        return;
    free(details->counts);
    free(details->written);
    free(details->far);
    free(details);
}

int counter_open(struct recorder *r, const struct counter_of *counted, struct counter *out)
{
    struct counter_details *details = calloc(1, sizeof(*details));
    uint32_t near = NEAR_LEAST;
    int rc = ERR_NOMEM;

    if (!details)
        return ERR_NOMEM;
    while (near < NEAR_MOST && near / 2 <= counted->last)
        near *= 2;
    /* Pages that nobody counts in are never touched, so most of this memory is only reserved. */
    details->counts = calloc((size_t)(COUNTER_SHARDS + 1) * near, sizeof(*details->counts));
    details->written = calloc(near + (size_t)FAR, sizeof(*details->written));
    details->far = calloc(FAR, sizeof(*details->far));
    if (details->counts && details->written && details->far)
        rc = format_head(counted, details->head, sizeof(details->head));
    if (rc) {
        free_details(details);
        return rc;
    }
    details->view = counted->view;
    details->recorder = r;
    for (uint32_t i = 0; i < COUNTER_SHARDS; i++)
        out->slots[i].counts = details->counts + (size_t)i * near;
    out->details = details;
    out->near = near;
    pthread_mutex_lock(&r->lock);
    details->next = r->first;
    if (r->first)
        r->first->details->previous = out;
    r->first = out;
    r->users++;
    pthread_mutex_unlock(&r->lock);
    return OK;
}

void counter_close(struct counter *counter)
{
    struct recorder *r;

    if (!counter->near)
        return;
    r = counter->details->recorder;
    if (is_this_process(r)) {
        pthread_mutex_lock(&r->lock);
        counter_write(counter);
        if (counter->details->previous)
            counter->details->previous->details->next = counter->details->next;
        else
            r->first = counter->details->next;
        if (counter->details->next)
            counter->details->next->details->previous = counter->details->previous;
        recorder_release(r);
    }
    free_details(counter->details);
    counter->near = 0;
}

/* ---- A record of steps: how many tokens chose each expert, one line per step, in a file that
 * stays short.
 *
 * Steps come in blocks of `stride` steps, and one step of each block is recorded, at a random
 * place. When `room` lines are there, one of each two consecutive lines stays, chosen at random,
 * and blocks become twice as long. So every step of a block is equally likely, whatever period the
 * run has.
 *
 * A line that could not be written as a whole is cut off again. The shorter file is written beside
 * the old one and renamed to it. */

enum { EXPERTS_MOST = 1 << 16, ROOM_MOST = 1 << 20, PIECE_BYTES = 1 << 16, HEAD_BYTES = 160 };

struct recorded_step {
    uint64_t step;
    uint32_t capacity;
};

/* A record of steps; moe_counts_close() frees it. */
struct moe_counts {
    struct moe_counts_options o;
    pid_t process; /* the one that may write */
    int file;      /* -1: nothing is recorded */
    mode_t mode;
    char path[PATH_MAX], shorter_path[PATH_MAX + 8];
    off_t bytes_before, end;     /* bytes that were there; bytes with our lines */
    uint64_t calls, next;        /* steps passed so far; the one to record next */
    uint64_t stride;             /* steps in a block */
    struct recorded_step *steps; /* (room) */
    uint32_t *counts;            /* (room, E) */
    uint32_t count;
    char *text; /* lines that are to be written */
    size_t used, text_room;
    size_t line_bytes; /* of the longest line */
    bool fault_said;
};

static int check_counts_options(const struct moe_counts_options *o)
{
    if (o->experts < 1 || o->experts > EXPERTS_MOST)
        return fail(ERR_ARGUMENT, "counts: experts is %u: it must be from 1 to %d", o->experts,
                    EXPERTS_MOST);
    if (o->ranks < 1 || o->ranks > EXPERTS_MOST)
        return fail(ERR_ARGUMENT, "counts: ranks is %u: it must be from 1 to %d", o->ranks,
                    EXPERTS_MOST);
    if (o->tokens && (o->top_k < 1 || o->top_k > o->experts))
        return fail(ERR_ARGUMENT, "counts: top_k is %u: with tokens it must be from 1 to %u",
                    o->top_k, o->experts);
    if (o->every < 1)
        return fail(ERR_ARGUMENT, "counts: every is 0: it must be from 1 to %u", UINT32_MAX);
    if (o->room < 2 || o->room > ROOM_MOST || o->room % 2)
        return fail(ERR_ARGUMENT, "counts: room is %u: it must be an even number from 2 to %d",
                    o->room, ROOM_MOST);
    return OK;
}

/* Returns the step of a block that is recorded. */
static uint64_t step_in_block(uint64_t stride, uint64_t block)
{
    return block * stride + random_bits(stride, block) % stride;
}

int moe_counts_open(const struct moe_counts_options *options, const char *path_or_null,
                    struct moe_counts **out)
{
    struct moe_counts_options o = MOE_COUNTS_OPTIONS_INIT;
    const char *path = path_or_null ? path_or_null : getenv("MOELOOKUP_COUNTS");
    struct moe_counts *c;
    struct stat info;
    int rc;

    if (!options || !out)
        return MOE_ERR_ARGUMENT;
    memcpy(&o, options,
           options->struct_size && options->struct_size < sizeof(o) ? options->struct_size
                                                                    : sizeof(o));
    TRY(check_counts_options(&o));
    c = calloc(1, sizeof(*c));
    if (!c)
        return MOE_ERR_NOMEM;
    c->o = o;
    c->file = -1;
    c->process = getpid();
    c->stride = o.every;
    c->next = step_in_block(c->stride, 0);
    if (path && *path) {
        TRY_OUT(open_lines(path, &c->file));
        rc = ERR_IO;
        /* Takes the place of the file behind links, whatever the folder is later. */
        if (fstat(c->file, &info) || !realpath(path, c->path))
            goto out;
        snprintf(c->shorter_path, sizeof(c->shorter_path), "%s.short", c->path);
        c->mode = info.st_mode & 0777;
        TRY_OUT(end_half_line(c->file, &c->bytes_before));
        c->end = c->bytes_before;
        c->line_bytes = HEAD_BYTES + 11 * (size_t)o.experts;
        c->text_room = c->line_bytes > PIECE_BYTES ? c->line_bytes : PIECE_BYTES;
        c->steps = calloc(o.room, sizeof(*c->steps));
        c->counts = calloc((size_t)o.room * o.experts, sizeof(*c->counts));
        c->text = malloc(c->text_room);
        rc = ERR_NOMEM;
        if (!c->steps || !c->counts || !c->text)
            goto out;
    }
    *out = c;
    return MOE_OK;
out:
    moe_counts_close(c);
    return rc;
}

void moe_counts_close(struct moe_counts *c)
{
    if (!c)
        return;
    if (c->file >= 0)
        close(c->file);
    free(c->steps);
    free(c->counts);
    free(c->text);
    free(c);
}

static uint32_t *counts_of(const struct moe_counts *c, uint32_t i)
{
    return c->counts + (size_t)i * c->o.experts;
}

static void add_member(struct moe_counts *c, const char *key, uint64_t value)
{
    size_t digit_count = 0, length = strlen(key);
    char digits[20];

    memcpy(c->text + c->used, key, length);
    c->used += length;
    do
        digits[digit_count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (digit_count)
        c->text[c->used++] = digits[--digit_count];
}

static void add_line(struct moe_counts *c, const struct recorded_step *s, const uint32_t *counts)
{
    static const char end[] = { ']', '}', '\n' };

    add_member(c, "{\"step\":", s->step);
    add_member(c, ",\"ranks\":", c->o.ranks);
    if (c->o.tokens)
        add_member(c, ",\"tokens\":", c->o.tokens);
    if (s->capacity)
        add_member(c, ",\"capacity\":", s->capacity);
    for (uint32_t e = 0; e < c->o.experts; e++)
        add_member(c, e ? "," : ",\"counts\":[", counts[e]);
    memcpy(c->text + c->used, end, sizeof(end));
    c->used += sizeof(end);
}

/* Returns which of the lines 2 i and 2 i + 1 stays. */
static uint32_t kept_line(const struct moe_counts *c, uint32_t i)
{
    return 2 * i + (uint32_t)(random_bits(c->stride, i) >> 63);
}

/* Copies what was in the file before it was opened, and writes the lines that stay. */
static int write_shorter(struct moe_counts *c, int shorter_fd, off_t *end)
{
    for (off_t offset = 0; offset < c->bytes_before;) {
        size_t left = (size_t)(c->bytes_before - offset);
        ssize_t got = pread(c->file, c->text, left < c->text_room ? left : c->text_room, offset);

        if (got <= 0)
            return ERR_IO;
        TRY(write_all(shorter_fd, c->text, (size_t)got));
        offset += got;
    }
    *end = c->bytes_before;
    c->used = 0;
    for (uint32_t i = 0; i < c->count / 2; i++) {
        if (c->used + c->line_bytes > c->text_room) {
            TRY(write_all(shorter_fd, c->text, c->used));
            *end += (off_t)c->used;
            c->used = 0;
        }
        add_line(c, &c->steps[kept_line(c, i)], counts_of(c, kept_line(c, i)));
    }
    *end += (off_t)c->used;
    return write_all(shorter_fd, c->text, c->used);
}

static int halve_record(struct moe_counts *c)
{
    int shorter_fd =
        open(c->shorter_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, c->mode);
    off_t end;

    if (shorter_fd < 0)
        return ERR_IO;
    if (write_shorter(c, shorter_fd, &end) || rename(c->shorter_path, c->path)) {
        close(shorter_fd);
        unlink(c->shorter_path);
        return ERR_IO;
    }
    close(c->file);
    c->file = shorter_fd;
    c->end = end;
    for (uint32_t i = 0; i < c->count / 2; i++) {
        c->steps[i] = c->steps[kept_line(c, i)];
        memmove(counts_of(c, i), counts_of(c, kept_line(c, i)), c->o.experts * sizeof(*c->counts));
    }
    c->count /= 2;
    c->stride *= 2;
    return OK;
}

static const char *fault_of(const struct moe_counts *c, const uint32_t *counts)
{
    uint64_t sum = 0, all = (uint64_t)c->o.ranks * c->o.tokens;
    bool twice = false;

    for (uint32_t e = 0; e < c->o.experts; e++) {
        if (counts[e] == UINT32_MAX)
            return "a count is 4294967295, which -1 becomes: counts must be 0 or more";
        sum += counts[e];
        twice |= all && counts[e] > all;
    }
    if (!sum)
        return "all counts are 0: pass the choices of one step";
    if (all && sum != all * c->o.top_k)
        return "the counts do not add up to ranks * tokens * top_k";
    return twice ? "an expert was chosen more often than there are tokens" : NULL;
}

static int record_step(struct moe_counts *c, const struct recorded_step *s, const uint32_t *counts)
{
    const char *fault = fault_of(c, counts);

    if (fault && !c->fault_said)
        fail(ERR_ARGUMENT, "counts of step %llu: %s", (unsigned long long)s->step, fault);
    c->fault_said |= fault != NULL;
    if (fault)
        return MOE_ERR_ARGUMENT;
    if (c->count == c->o.room) /* an earlier attempt failed */
        TRY(halve_record(c));
    c->used = 0;
    add_line(c, s, counts);
    if (write_all(c->file, c->text, c->used)) {
        int error = errno;

        if (ftruncate(c->file, c->end)) /* the reader's message will name the cut line */
            errno = error;
        return ERR_IO;
    }
    c->end += (off_t)c->used;
    c->steps[c->count] = *s;
    memcpy(counts_of(c, c->count++), counts, c->o.experts * sizeof(*counts));
    if (c->count == c->o.room)
        (void)halve_record(
            c); /* the step is in the file; the next one tries again and reports the error */
    return OK;
}

int moe_counts_step(struct moe_counts *c, uint64_t step, uint32_t capacity, const uint32_t *counts,
                    uint32_t experts)
{
    uint64_t call;
    int rc = MOE_OK;

    if (!c || !counts || experts != c->o.experts)
        return MOE_ERR_ARGUMENT;
    call = c->calls++;
    if (call != c->next || c->file < 0)
        return MOE_OK;
    if (c->process == getpid())
        rc = record_step(c, &(struct recorded_step){ step, capacity }, counts);
    c->next = step_in_block(c->stride, call / c->stride + 1);
    return rc;
}
