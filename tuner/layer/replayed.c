/* Stores recorded steps, divides each among the ranks, and reads and writes them as text. */
#include "replayed.h"

#include "shape.h"
#include "stats.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const replay_class_words[REPLAY_CLASSES] = { "up to 1.25", "up to 2", "above 2" };

int replay_class(double skew)
{
    return skew <= 1.25 ? 0 : skew <= 2 ? 1 : 2;
}

/* ---- which steps */

static uint64_t bucket_of(const struct replayed *r, uint32_t step)
{
    return r->capacity[step] / r->window;
}

struct replay_steps replay_at(const struct replayed *r, uint64_t capacity)
{
    struct replay_steps steps = { 0, 0 };
    uint64_t bucket = capacity / r->window, least = UINT64_MAX;

    /* Find the first step of the nearest bucket. */
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t is = bucket_of(r, i), far = is > bucket ? is - bucket : bucket - is;

        if (far < least) {
            least = far;
            steps.first = i;
        }
    }
    while (steps.first + steps.count < r->count &&
           bucket_of(r, steps.first + steps.count) == bucket_of(r, steps.first))
        steps.count++;
    return steps;
}

/* ---- counts and skews */

static const uint64_t *ends_of(const struct replayed *r, uint32_t step)
{
    return r->ends + (size_t)step * (r->experts + 1);
}

uint64_t replay_first(const struct replayed *r, uint32_t step, uint32_t rank, uint32_t expert)
{
    return (ends_of(r, step)[expert] + rank) / r->ranks;
}

uint64_t replay_count(const struct replayed *r, uint32_t step, uint32_t expert)
{
    return ends_of(r, step)[expert + 1] - ends_of(r, step)[expert];
}

/* The largest sum over the mean, for groups of `each` consecutive experts. */
static double skew_of(const struct replayed *r, uint32_t step, uint32_t each)
{
    const uint64_t *ends = ends_of(r, step);
    uint64_t most = 0;

    for (uint32_t e = 0; e + each <= r->experts; e += each)
        most = ends[e + each] - ends[e] > most ? ends[e + each] - ends[e] : most;
    return (double)most * r->experts / each / (double)ends[r->experts];
}

double replay_skew(const struct replayed *r, uint32_t step)
{
    return skew_of(r, step, 1);
}

double replay_median_skew(const struct replayed *r)
{
    double skews[REPLAY_STEPS_MOST];

    for (uint32_t i = 0; i < r->count; i++)
        skews[i] = replay_skew(r, i);
    sort_doubles(skews, r->count);
    return skews[r->count / 2];
}

double replay_rank_skew(const struct replayed *r, uint32_t step)
{
    return skew_of(r, step, r->on_rank);
}

/* Each rank has floor(n/W) of an expert's n choices, or one more. */
uint64_t replay_kept(const struct replayed *r, struct replay_steps steps, uint64_t capacity,
                     uint32_t experts)
{
    uint64_t sum = 0, of = (uint64_t)steps.count * r->ranks;

    for (uint32_t i = steps.first; i < steps.first + steps.count; i++) {
        uint64_t kept = 0, most = 0;

        for (uint32_t e = 0; e < r->experts; e++) {
            uint64_t n = replay_count(r, i, e);

            kept = e % experts ? kept : 0;
            kept += n / r->ranks < capacity ? n : r->ranks * capacity;
            most = kept > most ? kept : most;
        }
        sum += most;
    }
    return (sum + of / 2) / of;
}

/* ---- memory and text */

int replay_open(const struct moe_shape *shape, uint32_t window, uint32_t count,
                struct replayed **out)
{
    struct replayed *r = calloc(1, sizeof(*r));

    if (r)
        r->ends = calloc((size_t)count * (shape->experts + 1), sizeof(*r->ends));
    if (!r || !r->ends) {
        replay_close(r);
        return fail(ERR_NOMEM, "%u steps of %u experts", count, shape->experts);
    }
    r->window = window;
    r->experts = shape->experts;
    r->ranks = shape->ranks;
    r->on_rank = shape->layout == MOE_LAYOUT_HIDDEN ? shape->experts : shape_local_experts(shape);
    r->count = count;
    *out = r;
    return OK;
}

void replay_close(struct replayed *r)
{
    if (!r)
        return;
    free(r->ends);
    free(r);
}

size_t replay_text(const struct replayed *r, char *text, size_t size)
{
    FILE *to = fmemopen(text, size, "w");
    long used;

    if (!to)
        return size;
    fprintf(to, "replay %" PRIu32 ":", r->window);
    for (uint32_t i = 0; i < r->count; i++) {
        fprintf(to, "%s %" PRIu64, i ? "," : "", r->capacity[i]);
        for (uint32_t e = 0; e < r->experts; e++)
            fprintf(to, " %" PRIu64, replay_count(r, i, e));
    }
    used = fflush(to) ? -1 : ftell(to);
    fclose(to);
    return used < 0 || (size_t)used >= size ? size : (size_t)used;
}

/* Reads a space and a number. */
static bool read_number(const char **at, uint64_t *out)
{
    char *end;

    if (**at != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
        return false;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return *out <= UINT32_MAX * (uint64_t)UINT32_MAX;
}

static bool read_step(const struct moe_shape *shape, const char **at, struct replayed *r,
                      uint32_t i)
{
    uint64_t *ends = r->ends + (size_t)i * (r->experts + 1), n;
    uint64_t most = (uint64_t)shape->ranks * shape->tokens;

    if (!read_number(at, &r->capacity[i]) || (i && r->capacity[i] < r->capacity[i - 1]))
        return false;
    for (uint32_t e = 0; e < r->experts; e++) {
        if (!read_number(at, &n) || n > most)
            return false;
        ends[e + 1] = ends[e] + n;
    }
    return ends[r->experts] == most * shape->top_k && most;
}

int replay_read(const struct moe_shape *shape, const char *text, struct replayed **out)
{
    static const char word[] = "replay";
    uint32_t count = 1;
    struct replayed *r;
    uint64_t window;
    bool right;

    for (const char *c = text; *c; c++)
        count += *c == ',';
    if (count > REPLAY_STEPS_MOST || strncmp(text, word, strlen(word)) != 0)
        return UNSUPPORTED;
    text += strlen(word);
    if (!read_number(&text, &window) || window < 1 || window > UINT32_MAX || *text++ != ':')
        return UNSUPPORTED;
    TRY(replay_open(shape, (uint32_t)window, count, &r));
    right = read_step(shape, &text, r, 0);
    for (uint32_t i = 1; i < count && right; i++)
        right = *text++ == ',' && read_step(shape, &text, r, i);
    if (!right || *text) {
        replay_close(r);
        return UNSUPPORTED;
    }
    *out = r;
    return OK;
}
