/* Reads the recorded steps of --routing, line by line, and chooses those that are replayed.
 *
 * It stores at most SAMPLED_STEPS steps of each bucket of capacities, a random sample in which all
 * steps are equally likely.  So a file may have any length. */
#include "load.h"

#include "counts_file.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLED_STEPS = 256 };

/* One recorded step in the sample of its bucket. */
struct recorded_step {
    double skew;
    uint64_t capacity, number; /* number: of the step in its bucket */
    double *count;             /* (E), owned */
};

/* The steps of one bucket of capacities. */
struct routing_bucket {
    uint64_t key, seen;          /* seen: steps so far */
    struct recorded_step *steps; /* (SAMPLED_STEPS), owned */
    uint32_t count, wanted;      /* stored steps; steps to replay */
};

/* All files of --routing; load_open_routing() frees it. */
struct routing_file {
    const struct moe_shape *shape;
    uint32_t window;
    struct routing_bucket *buckets; /* sorted by key; at the end by number of steps */
    size_t count, room;
    struct load_file file;
};

/* ---- lines */

const char *load_fault(double sum, double most, uint32_t top_k)
{
    return most * top_k > sum ? "has an expert with more than a k-th of the choices, so a token "
                                "chose it twice"
                              : NULL;
}

static int refuse_line(const struct counts_line *l, const struct moe_shape *s, const char *fault)
{
    return fail(ERR_FORMAT, "%s:%u %s (%u counts; E=%u, k=%u)", l->path, l->number, fault,
                l->experts, s->experts, s->top_k);
}

/* Checks a line that states its ranks and tokens: its counts must agree with them. */
static int check_choices(const struct counts_line *l, const struct moe_shape *s)
{
    double choices = l->ranks * l->tokens * s->top_k;

    if (!l->ranks || !l->tokens || (l->sum == choices && l->tokens == s->tokens))
        return OK;
    if (l->tokens != s->tokens)
        return fail(ERR_FORMAT, "%s:%u was recorded with T=%.0f, but the layer has T=%u (--tokens)",
                    l->path, l->number, l->tokens, s->tokens);
    return fail(ERR_FORMAT, "%s:%u counts %.0f choices; W T k = %.0f x %.0f x %u = %.0f", l->path,
                l->number, l->sum, l->ranks, l->tokens, s->top_k, choices);
}

/* The trainer's c, or the c that drops nothing, scaled to the layer's number of choices. */
static uint64_t capacity_of(const struct counts_line *l, const struct moe_shape *s)
{
    double ranks = l->ranks ? l->ranks : s->ranks;
    double largest_count = l->largest ? 0 : l->most / ranks;

    for (uint32_t e = 0; e < l->experts && l->largest; e++)
        largest_count = fmax(largest_count, l->largest[e]);
    if (l->capacity)
        largest_count = l->capacity;
    return (uint64_t)ceil(largest_count * ((double)s->top_k * s->tokens * ranks / l->sum) - 1e-9);
}

/* ---- buckets */

/* Finds the bucket of this key, or adds it. */
static int find_bucket(struct routing_file *f, uint64_t key, struct routing_bucket **out)
{
    size_t low = 0, high = f->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (f->buckets[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == f->count || f->buckets[low].key != key) {
        struct routing_bucket fresh = { .key = key }, *buckets = f->buckets;

        if (f->count == f->room) {
            f->room = 2 * f->room + 16;
            buckets = realloc(f->buckets, f->room * sizeof(*buckets));
        }
        if (buckets)
            f->buckets = buckets;
        fresh.steps = buckets ? calloc(SAMPLED_STEPS, sizeof(*fresh.steps)) : NULL;
        if (!fresh.steps)
            return fail(ERR_NOMEM, "%zu buckets of recorded steps", f->count + 1);
        memmove(buckets + low + 1, buckets + low, (f->count++ - low) * sizeof(*buckets));
        buckets[low] = fresh;
    }
    *out = &f->buckets[low];
    return OK;
}

/* Reservoir sampling: stores a step, in place of another one if the sample is full, or skips it. */
static int sample_step(struct routing_bucket *b, const struct counts_line *l,
                       struct recorded_step step)
{
    uint64_t place =
        b->seen < SAMPLED_STEPS ? b->seen : random_bits(b->key, b->seen) % (b->seen + 1);
    struct recorded_step *stored;

    step.number = b->seen++;
    if (place >= SAMPLED_STEPS)
        return OK;
    stored = &b->steps[place];
    step.count = stored->count ? stored->count : calloc(l->experts, sizeof(*step.count));
    if (!step.count)
        return fail(ERR_NOMEM, "%u counts", l->experts);
    memcpy(step.count, l->counts, l->experts * sizeof(*step.count));
    if (place == b->count) /* else it replaces a stored step */
        b->count++;
    *stored = step;
    return OK;
}

static int on_step(void *self, const struct counts_line *l)
{
    struct routing_file *f = self;
    const struct moe_shape *s = f->shape;
    struct recorded_step step = { 0 };
    struct routing_bucket *bucket = NULL;

    if (!l->counts)
        return refuse_line(l, s, "has no \"counts\"");
    if (l->experts != s->experts)
        return refuse_line(l, s, "has not one count for each expert");
    if (!(l->sum > 0))
        return refuse_line(l, s, "counts nothing");
    if (load_fault(l->sum, l->most, s->top_k))
        return refuse_line(l, s, load_fault(l->sum, l->most, s->top_k));
    TRY(check_choices(l, s));
    step.skew = l->most * l->experts / l->sum;
    step.capacity = capacity_of(l, s);
    f->file.steps[replay_class(step.skew)]++;
    TRY(find_bucket(f, step.capacity / f->window, &bucket));
    return sample_step(bucket, l, step);
}

/* ---- choosing */

static int by_seen(const void *a, const void *b)
{
    const struct routing_bucket *x = a, *y = b;

    if (x->seen != y->seen)
        return x->seen > y->seen ? -1 : 1;
    return x->key < y->key ? -1 : 1;
}

static int by_skew(const void *a, const void *b)
{
    const struct recorded_step *x = a, *y = b;

    if (x->skew != y->skew)
        return x->skew < y->skew ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int by_capacity(const void *a, const void *b)
{
    const struct recorded_step *x = *(struct recorded_step *const *)a,
                               *y = *(struct recorded_step *const *)b;

    return x->capacity != y->capacity ? (x->capacity < y->capacity ? -1 : 1) : by_skew(x, y);
}

/* Decides how many steps of each bucket are replayed: buckets take turns until `limit` steps are
 * assigned.  Returns the sum. */
static uint32_t assign_steps(struct routing_file *f, uint32_t limit)
{
    uint32_t assigned = 0;

    for (size_t i = 0; i < f->count; i++)
        f->buckets[i].wanted = 0;
    for (uint32_t turn = 0; turn < REPLAY_BUCKET_MOST; turn++)
        for (size_t i = 0; i < f->count && assigned < limit; i++) {
            bool gets_step = f->buckets[i].wanted < f->buckets[i].count;

            f->buckets[i].wanted += gets_step;
            assigned += gets_step;
        }
    return assigned;
}

static int make_replay(struct routing_file *f, uint32_t limit, struct replayed **out)
{
    const struct moe_shape *s = f->shape;
    struct recorded_step *chosen[REPLAY_STEPS_MOST] = { NULL };
    uint32_t count = assign_steps(f, limit), n = 0;
    struct replayed *r;

    /* Of each bucket's sorted steps, take the middles of equal parts. */
    for (size_t i = 0; i < f->count; i++) {
        struct routing_bucket *b = &f->buckets[i];

        for (uint32_t j = 0; j < b->wanted; j++)
            chosen[n++] = &b->steps[(2 * j + 1) * b->count / (2 * b->wanted)];
    }
    qsort(chosen, n, sizeof(*chosen), by_capacity);
    TRY(replay_open(s, f->window, count, &r));
    for (uint32_t i = 0; i < count; i++) {
        r->capacity[i] = chosen[i]->capacity;
        load_fill(r->ends + (size_t)i * (s->experts + 1), s->experts,
                  (uint64_t)s->ranks * s->tokens, s->top_k, chosen[i]->count);
    }
    *out = r;
    return OK;
}

/* Makes a load of as many steps as fit into its text, which ranks receive; 64 bytes are left for
 * "between". */
static int make_load(struct routing_file *f, uint32_t limit, uint64_t seed, struct load **out)
{
    static const size_t bytes_most = LOAD_TEXT_BYTES - 64;
    struct replayed *replay = NULL;
    char text[LOAD_TEXT_BYTES];
    int rc;

    for (; limit > 1 && assign_steps(f, limit) > 1; limit--) {
        TRY(make_replay(f, limit, &replay));
        if (replay_text(replay, text, bytes_most) < bytes_most)
            return load_new_replay(f->shape, seed, replay, out);
        replay_close(replay);
    }
    rc = load_new(f->shape, seed, out);
    if (!rc)
        load_fill((*out)->first, f->shape->experts, f->shape->tokens, f->shape->top_k,
                  f->buckets[0].steps[f->buckets[0].count / 2].count);
    return rc;
}

int load_open_routing(const struct moe_shape *shape, uint32_t window, uint64_t seed,
                      const struct option_list *paths, struct load **out)
{
    uint32_t steps_that_fit = shape->model_dim / shape->experts;
    uint32_t limit = steps_that_fit < REPLAY_STEPS_MOST ? steps_that_fit : REPLAY_STEPS_MOST;
    struct routing_file f = { .shape = shape, .window = limit > 1 ? window : UINT32_MAX };
    int rc = load_check_width(shape);

    for (int i = 0; i < paths->count && !rc; i++)
        rc = counts_file_read(paths->items[i], on_step, &f);
    if (!rc) {
        for (size_t i = 0; i < f.count; i++)
            qsort(f.buckets[i].steps, f.buckets[i].count, sizeof(*f.buckets[i].steps), by_skew);
        qsort(f.buckets, f.count, sizeof(*f.buckets), by_seen);
        rc = make_load(&f, limit, seed, out);
    }
    if (!rc)
        (*out)->file = f.file;
    for (size_t i = 0; i < f.count; i++) {
        for (uint32_t j = 0; j < f.buckets[i].count; j++)
            free(f.buckets[i].steps[j].count);
        free(f.buckets[i].steps);
    }
    free(f.buckets);
    return rc;
}
