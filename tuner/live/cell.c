/* Keeps the cells in an array that is sorted by bucket. */
#include "cell.h"

#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void level_add(struct level *level, double ns)
{
    level->ns[level->count++ % LEVEL_STEPS] = ns;
}

double level_ns(const struct level *level)
{
    double values[LEVEL_STEPS];
    size_t n = level->count < LEVEL_STEPS ? level->count : LEVEL_STEPS;

    memcpy(values, level->ns, sizeof(values));
    return n ? median_of(values, n) : NAN;
}

/* Steps are taken to have noise of 5 %, and slopes to be off by a half or so. */
static const double noise = 0.05, slope_prior = 0.05 * 0.05 / (0.5 * 0.5), outlier_log = 0.4;

void slope_add(struct slope *s, double log_c, double log_ns)
{
    double dx = log_c - s->x, dy = log_ns - s->y;

    if (s->count >= 5 && fabs(dy) > outlier_log)
        return;
    s->count++;
    s->x += dx / s->count;
    s->y += dy / s->count;
    s->xx += dx * (log_c - s->x);
    s->xy += dx * (log_ns - s->y);
}

double slope_of(const struct slope *s)
{
    return s->xy / (s->xx + slope_prior);
}

double slope_doubt(const struct slope *s)
{
    return 2 * noise / sqrt(s->xx + slope_prior);
}

/* ---- all of them */

static uint32_t place_of(const struct cells *cells, uint32_t bucket)
{
    uint32_t low = 0, high = cells->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (cells->items[middle]->bucket.key.bucket < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cell *cells_at(struct cells *cells, const struct dictionary *dictionary, uint32_t bucket,
                      bool *fresh)
{
    uint32_t place = place_of(cells, bucket);
    struct cell *cell;

    *fresh = false;
    if (place < cells->count && cells->items[place]->bucket.key.bucket == bucket)
        return cells->items[place];
    if (cells->count == cells->room) {
        uint32_t room = 2 * cells->room + 16;
        struct cell **more = realloc(cells->items, room * sizeof(struct cell *));

        if (!more)
            return NULL;
        cells->items = more;
        cells->room = room;
    }
    cell = calloc(1, sizeof(*cell));
    if (!cell)
        return NULL;
    memmove(cells->items + place + 1, cells->items + place,
            (cells->count - place) * sizeof(struct cell *));
    cells->items[place] = cell;
    cells->count++;
    bucket_init(&cell->bucket, dictionary, bucket);
    *fresh = true;
    return cell;
}

void cells_free(struct cells *cells)
{
    for (uint32_t i = 0; i < cells->count; i++) {
        bucket_forget(&cells->items[i]->bucket);
        free(cells->items[i]);
    }
    free(cells->items);
    *cells = (struct cells){ 0 };
}

static bool measured(const struct cell *cell, bool settled)
{
    if (cell->state == CELL_SETTLED)
        return cell->bucket.known && !cell->bucket.entry.inferred && cell->best >= 0;
    return !settled && cell->state == CELL_OPEN && cell->answer.source == MOE_TENTATIVE;
}

struct cell_pair cells_around(const struct cells *cells, uint32_t bucket, bool settled)
{
    uint32_t place = place_of(cells, bucket);
    struct cell_pair pair = { NULL, NULL };

    for (uint32_t i = place; i-- > 0 && !pair.below;)
        if (measured(cells->items[i], settled))
            pair.below = cells->items[i];
    for (uint32_t i = place; i < cells->count && !pair.above; i++)
        if (cells->items[i]->bucket.key.bucket != bucket && measured(cells->items[i], settled))
            pair.above = cells->items[i];
    return pair;
}
