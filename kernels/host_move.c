/* The kernel move on the host: strided blocks, type conversion, and sums of blocks. */
#include "host.h"
#include "rows.h"
#include "shape.h"

#include <string.h>

static void move_block(const struct move *m, uint64_t from, uint64_t to)
{
    float line[ROW_LINE];

    if (m->terms == 1 && m->from_type == m->to_type) {
        size_t w = dtype_bytes(m->to_type);

        memcpy((char *)m->to + to * w, (const char *)m->from + from * w, m->block * w);
        return;
    }
    for (uint64_t at = 0; at < m->block; at += ROW_LINE) {
        uint64_t n = m->block - at < ROW_LINE ? m->block - at : ROW_LINE;

        row_load(m->from_type, m->from, from + at, line, n);
        for (uint64_t t = 1; t < m->terms; t++)
            row_add(m->from_type, m->from, from + t * m->term_stride * m->block + at, 1.0f, line,
                    n);
        row_store(m->to_type, m->to, to + at, line, n);
    }
}

void host_move(const struct move *m)
{
    for (uint64_t i = 0; i < m->dims[0]; i++)
        for (uint64_t j = 0; j < m->dims[1]; j++)
            for (uint64_t k = 0; k < m->dims[2]; k++)
                move_block(
                    m,
                    m->block *
                        (i * m->from_stride[0] + j * m->from_stride[1] + k * m->from_stride[2]),
                    m->block * (i * m->to_stride[0] + j * m->to_stride[1] + k * m->to_stride[2]));
}

void host_fill(const struct fill *f)
{
    if (f->bytes)
        memset(f->to, 0, f->bytes);
}
