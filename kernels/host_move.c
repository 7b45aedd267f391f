/* The kernels move, move_rows and fill on the host: copies of blocks, type conversion, sums of
 * blocks, and zeros. */
#include "host.h"
#include "rows.h"
#include "shape.h"

#include <string.h>

/* A copy of elements that lie together on both sides; each result is the sum of `terms` elements.
 */
struct move_run {
    uint32_t from_type, to_type;
    const void *from;
    void *to;
    uint64_t terms;
};

static void move_run(const struct move_run *r, uint64_t from, uint64_t to, uint64_t elements,
                     uint64_t step)
{
    float line[ROW_LINE];

    if (r->terms == 1 && r->from_type == r->to_type) {
        size_t w = dtype_bytes(r->to_type);

        memcpy((char *)r->to + to * w, (const char *)r->from + from * w, elements * w);
        return;
    }
    for (uint64_t at = 0; at < elements; at += ROW_LINE) {
        uint64_t n = elements - at < ROW_LINE ? elements - at : ROW_LINE;

        row_load(r->from_type, r->from, from + at, line, n);
        for (uint64_t t = 1; t < r->terms; t++)
            row_add(r->from_type, r->from, from + t * step + at, 1.0f, line, n);
        row_store(r->to_type, r->to, to + at, line, n);
    }
}

void host_move(const struct move *m)
{
    const struct move_run run = { m->from_type, m->to_type, m->from, m->to, m->terms };
    uint64_t step = m->term_stride * m->block;

    for (uint64_t i = 0; i < m->dims[0]; i++)
        for (uint64_t j = 0; j < m->dims[1]; j++)
            for (uint64_t k = 0; k < m->dims[2]; k++)
                move_run(
                    &run,
                    m->block *
                        (i * m->from_stride[0] + j * m->from_stride[1] + k * m->from_stride[2]),
                    m->block * (i * m->to_stride[0] + j * m->to_stride[1] + k * m->to_stride[2]),
                    m->block, step);
}

void host_move_rows(const struct move_rows *m)
{
    const struct move_run run = { m->from_type, m->to_type, m->from, m->to, m->terms };

    for (uint64_t i = 0; i < m->count; i++) {
        const struct row_block *b = &m->blocks[i];
        uint64_t end = i + 1 < m->count ? b[1].first : m->rows;

        if (end > b->first)
            move_run(&run, b->from * m->width, b->to * m->width, (end - b->first) * m->width,
                     b->step * m->width);
    }
}

void host_fill(const struct fill *f)
{
    if (f->bytes)
        memset(f->to, 0, f->bytes);
}
