/* Transfers with every rank, beginning with this one: in the same order all would begin with one
 * rank. */
#include "meeting.h"

#include "status.h"

static uint32_t units(const struct meeting *m, uint32_t rank)
{
    return part_piece(m->of_ranks[rank], m->piece, m->pieces);
}

uint64_t meeting_before(const struct meeting *m)
{
    uint64_t before = 0;

    for (uint32_t q = 0; q < m->self; q++)
        before += units(m, q);
    return before;
}

uint32_t meeting_own(const struct meeting *m)
{
    return units(m, m->self);
}

/* `own` and `theirs`: what is of this rank's part, and what is of rank q's. */
static int add(const struct meeting *m, uint32_t q, bool gather, char *own, char *theirs,
               struct batch *batch)
{
    size_t mine = units(m, m->self) * m->unit, other = units(m, q) * m->unit;
    struct transfer t = { (int)q, own, theirs, mine, other };

    if (!gather)
        t = (struct transfer){ (int)q, theirs, own, other, mine };
    return batch_add_transfer(batch, &t);
}

static int meet(const struct meeting *m, bool gather, struct batch *batch)
{
    uint64_t first = meeting_before(m), before = first;
    bool in_place = !m->own;

    for (uint32_t n = 0; n < m->ranks; n++) {
        uint32_t q = (m->self + n) % m->ranks;
        char *own = in_place ? m->whole + first * m->unit : m->own + q * m->own_step;

        before = q ? before : 0;
        if (q != m->self || !in_place)
            TRY(add(m, q, gather, own, m->whole + before * m->unit, batch));
        before += units(m, q);
    }
    return OK;
}

int meeting_gather(const struct meeting *m, struct batch *batch)
{
    return meet(m, true, batch);
}

int meeting_scatter(const struct meeting *m, struct batch *batch)
{
    return meet(m, false, batch);
}
