/* Divides tokens and hidden units among ranks, equally or by their speeds, and adds the transfers
 * of exchanges of such parts. */
#include "parts.h"

#include "shape.h"
#include "status.h"
#include "wire.h"

#include <stdlib.h>

/* Divides `total` among ranks by their speeds; NULL: equally. */
static int cut_shares(const double *speeds, uint32_t ranks, uint64_t total, uint32_t *out)
{
    uint64_t *shares = calloc(ranks, sizeof(*shares));
    int rc = shares ? OK : fail(ERR_NOMEM, "shares of %u ranks", ranks);

    if (!rc && speeds)
        rc = moe_shares(speeds, ranks, total, 1, shares) ? fail(ERR_ARGUMENT, "speeds of ranks")
                                                         : OK;
    for (uint32_t q = 0; q < ranks && !rc; q++)
        out[q] = (uint32_t)(speeds ? shares[q] : total / ranks + (q < total % ranks));
    free(shares);
    return rc;
}

int parts_open(const struct moe_shape *shape, const double *speeds, struct parts *out)
{
    struct parts p = { .ranks = shape->ranks };
    bool both = shape->shares == MOE_SHARES_SPEED;
    const double *of_tokens = both || shape->shares == MOE_SHARES_TOKENS ? speeds : NULL;
    const double *of_hidden = both || shape->shares == MOE_SHARES_HIDDEN ? speeds : NULL;
    uint32_t slices = shape_slices(shape), before = 0;
    int rc;

    p.tokens = calloc((size_t)3 * p.ranks, sizeof(*p.tokens));
    if (!p.tokens)
        return fail(ERR_NOMEM, "parts of %u ranks", p.ranks);
    p.first_unit = p.tokens + p.ranks;
    p.hidden = p.first_unit + p.ranks;
    TRY_OUT(cut_shares(of_tokens, p.ranks, (uint64_t)p.ranks * shape->tokens, p.tokens));
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        TRY_OUT(cut_shares(of_hidden, p.ranks, shape->hidden_dim, p.hidden));
    for (uint32_t q = 0; q < p.ranks; q++) {
        if (shape->layout != MOE_LAYOUT_HIDDEN)
            p.hidden[q] = shape->hidden_dim / slices;
        p.first_unit[q] = q % slices ? before : 0;
        before = p.first_unit[q] + p.hidden[q];
    }
    *out = p;
    return OK;
out:
    parts_close(&p);
    return rc;
}

void parts_close(struct parts *parts)
{
    free(parts->tokens);
    *parts = (struct parts){ 0 };
}

bool parts_hidden_equal(const struct parts *parts)
{
    for (uint32_t q = 1; q < parts->ranks; q++)
        if (parts->hidden[q] != parts->hidden[0])
            return false;
    return true;
}

uint64_t parts_sum(const uint32_t *of_ranks, uint32_t ranks, uint32_t i, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t q = 0; q < ranks; q++)
        sum += part_piece(of_ranks[q], i, n);
    return sum;
}

/* ---- exchanges */

static uint32_t units_of_rank(const struct parts_exchange *x, uint32_t rank)
{
    return part_piece(x->of_ranks[rank], x->piece, x->pieces);
}

uint64_t parts_before(const struct parts_exchange *x)
{
    uint64_t before = 0;

    for (uint32_t q = 0; q < x->self; q++)
        before += units_of_rank(x, q);
    return before;
}

enum direction { GATHER, SCATTER };

/* Begins with this rank and its right neighbour, because in one common order all ranks would begin
 * with rank 0. */
static int add_transfers(const struct parts_exchange *x, enum direction direction,
                         struct batch *batch)
{
    uint64_t own_begin = parts_before(x), before = own_begin;
    size_t own_bytes = units_of_rank(x, x->self) * x->unit;
    bool in_place = !x->own;

    for (uint32_t n = 0; n < x->ranks; n++) {
        uint32_t q = (x->self + n) % x->ranks;
        char *own = in_place ? x->whole + own_begin * x->unit : x->own + q * x->own_step, *theirs;
        size_t their_bytes = units_of_rank(x, q) * x->unit;

        before = q ? before : 0;
        theirs = x->whole + before * x->unit;
        if (q != x->self || !in_place)
            TRY(batch_add_transfer(
                batch, direction == GATHER
                           ? &(struct transfer){ (int)q, own, theirs, own_bytes, their_bytes }
                           : &(struct transfer){ (int)q, theirs, own, their_bytes, own_bytes }));
        before += units_of_rank(x, q);
    }
    return OK;
}

int parts_gather(const struct parts_exchange *x, struct batch *batch)
{
    return add_transfers(x, GATHER, batch);
}

int parts_scatter(const struct parts_exchange *x, struct batch *batch)
{
    return add_transfers(x, SCATTER, batch);
}
