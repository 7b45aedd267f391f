/* Records how many tokens chose each expert, a line for a step, in a file that stays short.
 *
 * Steps are taken from blocks of `stride` steps, one of each, at a place that is drawn.  Where
 * `room` lines are there, of each two that follow each other one is drawn and stays, and blocks
 * become twice as long.  So in a block every step is as likely as any other, whatever has a period.
 *
 * A line is one write() at the end of the file, and what could not be written as a whole is cut off
 * again.  The shorter file is written beside the old one and takes its name. */
#include "moelookup.h"

#include "random.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXPERTS_MOST = 1 << 16, ROOM_MOST = 1 << 20, PIECE = 1 << 16, HEAD_BYTES = 160 };

struct kept_step {
    uint64_t step;
    uint32_t capacity;
};

struct moe_counts {
    struct moe_counts_options o;
    pid_t process; /* a child after fork() records nothing */
    int file;      /* -1: nobody wants to know */
    mode_t mode;
    char path[PATH_MAX], beside[PATH_MAX + 8];
    off_t before, end;      /* bytes that were there; bytes with our lines */
    uint64_t calls, next;   /* steps that were handed in; the one that is recorded next */
    uint64_t stride;        /* of one block */
    struct kept_step *kept; /* (room) */
    uint32_t *counts;       /* (room, E) */
    uint32_t count;
    char *text; /* of lines on their way out */
    size_t used, text_room;
    bool said;
};

/* ---- opening */

static int check(const struct moe_counts_options *o)
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

/* Of a file that is there: where it lies, whatever the folder is later, and behind links. */
static int take_path(const char *path, struct moe_counts *c)
{
    if (!realpath(path, c->path))
        return ERR_IO;
    snprintf(c->beside, sizeof(c->beside), "%s.short", c->path);
    return OK;
}

static int write_all(int file, const char *bytes, size_t length)
{
    while (length) {
        ssize_t wrote = write(file, bytes, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return ERR_IO;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return OK;
}

/* Of somebody who died in the middle of a line: it must not spoil ours. */
static int end_line(struct moe_counts *c)
{
    char last = '\n';

    if (c->before && pread(c->file, &last, 1, c->before - 1) != 1)
        return ERR_IO;
    if (last != '\n')
        TRY(write_all(c->file, "\n", 1));
    c->before += last != '\n';
    c->end = c->before;
    return OK;
}

static int open_file(const char *path, struct moe_counts *c)
{
    struct stat is;

    c->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (c->file < 0 || fstat(c->file, &is))
        return ERR_IO;
    if (!S_ISREG(is.st_mode)) {
        errno = EINVAL;
        return ERR_IO;
    }
    TRY(take_path(path, c));
    c->before = is.st_size;
    c->mode = is.st_mode & 0777;
    return end_line(c);
}

static bool make_room(struct moe_counts *c)
{
    size_t line = HEAD_BYTES + 11 * (size_t)c->o.experts;

    c->text_room = line > PIECE ? line : PIECE;
    c->kept = calloc(c->o.room, sizeof(*c->kept));
    c->counts = calloc((size_t)c->o.room * c->o.experts, sizeof(*c->counts));
    c->text = malloc(c->text_room);
    return c->kept && c->counts && c->text;
}

static uint64_t place_in(uint64_t stride, uint64_t block)
{
    return block * stride + random_bits(stride, block) % stride;
}

int moe_counts_open(const struct moe_counts_options *options, const char *path_or_null,
                    struct moe_counts **out)
{
    struct moe_counts_options o = MOE_COUNTS_OPTIONS_INIT;
    const char *path = path_or_null ? path_or_null : getenv("MOELOOKUP_COUNTS");
    struct moe_counts *c;
    int rc;

    if (!options || !out)
        return MOE_ERR_ARGUMENT;
    memcpy(&o, options,
           options->struct_size && options->struct_size < sizeof(o) ? options->struct_size
                                                                    : sizeof(o));
    TRY(check(&o));
    c = calloc(1, sizeof(*c));
    if (!c)
        return MOE_ERR_NOMEM;
    c->o = o;
    c->file = -1;
    c->process = getpid();
    c->stride = o.every;
    c->next = place_in(c->stride, 0);
    rc = path && *path ? open_file(path, c) : OK;
    if (!rc && c->file >= 0 && !make_room(c))
        rc = ERR_NOMEM;
    if (rc) {
        moe_counts_close(c);
        return rc;
    }
    *out = c;
    return MOE_OK;
}

void moe_counts_close(struct moe_counts *c)
{
    if (!c)
        return;
    if (c->file >= 0)
        close(c->file);
    free(c->kept);
    free(c->counts);
    free(c->text);
    free(c);
}

/* ---- lines */

static void add(struct moe_counts *c, const char *text)
{
    size_t length = strlen(text);

    memcpy(c->text + c->used, text, length);
    c->used += length;
}

static void add_number(struct moe_counts *c, uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        c->text[c->used++] = digits[--n];
}

static void add_member(struct moe_counts *c, const char *key, uint64_t value)
{
    add(c, key);
    add_number(c, value);
}

static void add_line(struct moe_counts *c, const struct kept_step *s, const uint32_t *counts)
{
    add_member(c, "{\"step\":", s->step);
    add_member(c, ",\"ranks\":", c->o.ranks);
    if (c->o.tokens)
        add_member(c, ",\"tokens\":", c->o.tokens);
    if (s->capacity)
        add_member(c, ",\"capacity\":", s->capacity);
    for (uint32_t e = 0; e < c->o.experts; e++)
        add_member(c, e ? "," : ",\"counts\":[", counts[e]);
    add(c, "]}\n");
}

/* ---- fewer lines */

static uint32_t *counts_of(const struct moe_counts *c, uint32_t i)
{
    return c->counts + (size_t)i * c->o.experts;
}

/* Which of lines 2 i and 2 i + 1 stays. */
static uint32_t stays(const struct moe_counts *c, uint32_t i)
{
    return 2 * i + (uint32_t)(random_bits(c->stride, i) >> 63);
}

/* What was in the file before it was opened. */
static int copy_before(struct moe_counts *c, int to)
{
    for (off_t at = 0; at < c->before;) {
        size_t left = (size_t)(c->before - at);
        ssize_t got = pread(c->file, c->text, left < c->text_room ? left : c->text_room, at);

        if (got <= 0)
            return ERR_IO;
        TRY(write_all(to, c->text, (size_t)got));
        at += got;
    }
    return OK;
}

static int write_half(struct moe_counts *c, int to, off_t *end)
{
    size_t line = HEAD_BYTES + 11 * (size_t)c->o.experts;

    TRY(copy_before(c, to));
    *end = c->before;
    c->used = 0;
    for (uint32_t i = 0; i < c->count / 2; i++) {
        if (c->used + line > c->text_room) {
            TRY(write_all(to, c->text, c->used));
            *end += (off_t)c->used;
            c->used = 0;
        }
        add_line(c, &c->kept[stays(c, i)], counts_of(c, stays(c, i)));
    }
    *end += (off_t)c->used;
    return write_all(to, c->text, c->used);
}

static void forget_half(struct moe_counts *c)
{
    for (uint32_t i = 0; i < c->count / 2; i++) {
        c->kept[i] = c->kept[stays(c, i)];
        memmove(counts_of(c, i), counts_of(c, stays(c, i)), c->o.experts * sizeof(*c->counts));
    }
    c->count /= 2;
    c->stride *= 2;
}

static int halve(struct moe_counts *c)
{
    int to = open(c->beside, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, c->mode);
    off_t end;

    if (to < 0)
        return ERR_IO;
    if (write_half(c, to, &end) || rename(c->beside, c->path)) {
        close(to);
        unlink(c->beside);
        return ERR_IO;
    }
    close(c->file);
    c->file = to;
    c->end = end;
    forget_half(c);
    return OK;
}

/* ---- steps */

static const char *fault_of(const struct moe_counts *c, const uint32_t *counts)
{
    uint64_t sum = 0, all = (uint64_t)c->o.ranks * c->o.tokens;
    bool twice = false;

    for (uint32_t e = 0; e < c->o.experts; e++) {
        if (counts[e] == UINT32_MAX)
            return "a count of 4294967295, as -1 looks: 0 and up is wanted";
        sum += counts[e];
        twice |= all && counts[e] > all;
    }
    if (!sum)
        return "all counts are 0: choices of one step are wanted";
    if (all && sum != all * c->o.top_k)
        return "counts add up to another number than ranks tokens top_k";
    return twice ? "an expert was chosen more often than there are tokens" : NULL;
}

static int append(struct moe_counts *c, const struct kept_step *s, const uint32_t *counts)
{
    c->used = 0;
    add_line(c, s, counts);
    if (write_all(c->file, c->text, c->used)) {
        int kept = errno;

        if (ftruncate(c->file, c->end)) /* a reader is told which line is cut */
            errno = kept;
        return ERR_IO;
    }
    c->end += (off_t)c->used;
    c->kept[c->count] = *s;
    memcpy(counts_of(c, c->count++), counts, c->o.experts * sizeof(*counts));
    return OK;
}

static int record(struct moe_counts *c, const struct kept_step *s, const uint32_t *counts)
{
    const char *fault = fault_of(c, counts);

    if (fault && !c->said)
        fail(ERR_ARGUMENT, "counts of step %llu: %s", (unsigned long long)s->step, fault);
    c->said |= fault != NULL;
    if (fault)
        return MOE_ERR_ARGUMENT;
    if (c->count == c->o.room) /* an earlier attempt failed */
        TRY(halve(c));
    TRY(append(c, s, counts));
    if (c->count == c->o.room)
        (void)halve(c); /* the step is in the file: the next one tries again, and says so */
    return OK;
}

int moe_counts_step(struct moe_counts *c, uint64_t step, uint32_t capacity, const uint32_t *counts,
                    uint32_t experts)
{
    uint64_t call;
    int rc;

    if (!c || !counts || experts != c->o.experts)
        return MOE_ERR_ARGUMENT;
    call = c->calls++;
    if (call != c->next || c->file < 0)
        return MOE_OK;
    rc = c->process == getpid()
             ? record(c, &(struct kept_step){ .step = step, .capacity = capacity }, counts)
             : OK;
    c->next = place_in(c->stride, call / c->stride + 1);
    return rc;
}
