/* The kernels move, move_rows and fill on the host: copies of blocks, type conversion, sums of
 * blocks, and zeros. */
#include "host.h"
#include "rows.h"
#include "shape.h"

#include <string.h>

/* The arguments that all runs of a move share.  A run is elements that lie together on both sides;
 * each result is the sum of `terms` elements. */
struct move_run {
    uint32_t from_type, to_type;
    const void *from;
    void *to;
    uint64_t terms;
};

/* Copies one run.  Positions, and the step between terms, count elements. */
static void copy_run(const struct move_run *r, uint64_t from, uint64_t to, uint64_t elements,
                     uint64_t term_step)
{
    float line[ROW_LINE];

    if (r->terms == 1 && r->from_type == r->to_type) {
        size_t element_bytes = dtype_bytes(r->to_type);

        memcpy((char *)r->to + to * element_bytes, (const char *)r->from + from * element_bytes,
               elements * element_bytes);
        return;
    }
    for (uint64_t offset = 0; offset < elements; offset += ROW_LINE) {
        uint64_t n = elements - offset < ROW_LINE ? elements - offset : ROW_LINE;

        row_load(r->from_type, r->from, from + offset, line, n);
        for (uint64_t t = 1; t < r->terms; t++)
            row_add(r->from_type, r->from, from + t * term_step + offset, 1.0f, line, n);
        row_store(r->to_type, r->to, to + offset, line, n);
    }
}

void host_move(const struct move *m)
{
    const struct move_run run = { m->from_type, m->to_type, m->from, m->to, m->terms };
    uint64_t term_step = m->term_stride * m->block;

    for (uint64_t i = 0; i < m->dims[0]; i++)
        for (uint64_t j = 0; j < m->dims[1]; j++)
            for (uint64_t k = 0; k < m->dims[2]; k++)
                copy_run(
                    &run,
                    m->block *
                        (i * m->from_stride[0] + j * m->from_stride[1] + k * m->from_stride[2]),
                    m->block * (i * m->to_stride[0] + j * m->to_stride[1] + k * m->to_stride[2]),
                    m->block, term_step);
}

void host_move_rows(const struct move_rows *m)
{
    const struct move_run run = { m->from_type, m->to_type, m->from, m->to, m->terms };

    for (uint64_t i = 0; i < m->count; i++) {
        const struct row_block *b = &m->blocks[i];
        uint64_t end = i + 1 < m->count ? b[1].first : m->rows;

        if (end > b->first)
            copy_run(&run, b->from * m->width, b->to * m->width, (end - b->first) * m->width,
                     b->step * m->width);
    }
}

void host_fill(const struct fill *f)
{
    if (f->bytes)
        memset(f->to, 0, f->bytes);
}
