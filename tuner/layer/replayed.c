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
    uint64_t bucket = capacity / r->window, least_distance = UINT64_MAX;

    /* Find the first step of the nearest bucket. */
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t step_bucket = bucket_of(r, i),
                 distance = step_bucket > bucket ? step_bucket - bucket : bucket - step_bucket;

        if (distance < least_distance) {
            least_distance = distance;
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
static double skew_of(const struct replayed *r, uint32_t step, uint32_t group)
{
    const uint64_t *ends = ends_of(r, step);
    uint64_t largest = 0;

    for (uint32_t e = 0; e + group <= r->experts; e += group)
        largest = ends[e + group] - ends[e] > largest ? ends[e + group] - ends[e] : largest;
    return (double)largest * r->experts / group / (double)ends[r->experts];
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
    uint64_t sum = 0, rank_steps = (uint64_t)steps.count * r->ranks;

    for (uint32_t i = steps.first; i < steps.first + steps.count; i++) {
        uint64_t kept = 0, largest = 0;

        for (uint32_t e = 0; e < r->experts; e++) {
            uint64_t count = replay_count(r, i, e);

            kept = e % experts ? kept : 0;
            kept += count / r->ranks < capacity ? count : r->ranks * capacity;
            largest = kept > largest ? kept : largest;
        }
        sum += largest;
    }
    return (sum + rank_steps / 2) / rank_steps;
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
    FILE *file = fmemopen(text, size, "w");
    long used;

    if (!file)
        return size;
    fprintf(file, "replay %" PRIu32 ":", r->window);
    for (uint32_t i = 0; i < r->count; i++) {
        fprintf(file, "%s %" PRIu64, i ? "," : "", r->capacity[i]);
        for (uint32_t e = 0; e < r->experts; e++)
            fprintf(file, " %" PRIu64, replay_count(r, i, e));
    }
    used = fflush(file) ? -1 : ftell(file);
    fclose(file);
    return used < 0 || (size_t)used >= size ? size : (size_t)used;
}

/* Reads a space and a number. */
static bool read_number(const char **rest, uint64_t *out)
{
    char *end;

    if (**rest != ' ' || (*rest)[1] < '0' || (*rest)[1] > '9')
        return false;
    *out = strtoull(*rest, &end, 10);
    *rest = end;
    return *out <= UINT32_MAX * (uint64_t)UINT32_MAX;
}

static bool read_step(const struct moe_shape *shape, const char **rest, struct replayed *r,
                      uint32_t i)
{
    uint64_t *ends = r->ends + (size_t)i * (r->experts + 1), count;
    uint64_t choices_most = (uint64_t)shape->ranks * shape->tokens;

    if (!read_number(rest, &r->capacity[i]) || (i && r->capacity[i] < r->capacity[i - 1]))
        return false;
    for (uint32_t e = 0; e < r->experts; e++) {
        if (!read_number(rest, &count) || count > choices_most)
            return false;
        ends[e + 1] = ends[e] + count;
    }
    return ends[r->experts] == choices_most * shape->top_k && choices_most;
}

int replay_read(const struct moe_shape *shape, const char *text, struct replayed **out)
{
    static const char word[] = "replay";
    uint32_t count = 1;
    struct replayed *r;
    uint64_t window;
    bool is_legal;

    for (const char *c = text; *c; c++)
        count += *c == ',';
    if (count > REPLAY_STEPS_MOST || strncmp(text, word, strlen(word)) != 0)
        return UNSUPPORTED;
    text += strlen(word);
    if (!read_number(&text, &window) || window < 1 || window > UINT32_MAX || *text++ != ':')
        return UNSUPPORTED;
    TRY(replay_open(shape, (uint32_t)window, count, &r));
    is_legal = read_step(shape, &text, r, 0);
    for (uint32_t i = 1; i < count && is_legal; i++)
        is_legal = *text++ == ',' && read_step(shape, &text, r, i);
    if (!is_legal || *text) {
        replay_close(r);
        return UNSUPPORTED;
    }
    *out = r;
    return OK;
}
