/* Cuts tokens and hidden units by the ranks' speeds. */
#include "parts.h"

#include "shape.h"
#include "status.h"

#include <stdlib.h>

/* `total` in shares; speeds NULL: all alike. */
static int cut(const double *speeds, uint32_t ranks, uint64_t total, uint32_t *out)
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

static int cut_hidden(const struct moe_shape *shape, const double *speeds, struct parts *p)
{
    uint32_t slices = shape_slices(shape), before = 0;

    if (shape->layout == MOE_LAYOUT_HIDDEN)
        TRY(cut(speeds, shape->ranks, shape->hidden_dim, p->hidden));
    for (uint32_t q = 0; q < shape->ranks; q++) {
        if (shape->layout != MOE_LAYOUT_HIDDEN)
            p->hidden[q] = shape->hidden_dim / slices;
        p->first_unit[q] = q % slices ? before : 0;
        before = p->first_unit[q] + p->hidden[q];
    }
    return OK;
}

int parts_open(const struct moe_shape *shape, const double *speeds, struct parts *out)
{
    struct parts p = { .ranks = shape->ranks };
    bool both = shape->shares == MOE_SHARES_SPEED;
    const double *of_tokens = both || shape->shares == MOE_SHARES_TOKENS ? speeds : NULL;
    const double *of_hidden = both || shape->shares == MOE_SHARES_HIDDEN ? speeds : NULL;
    int rc;

    p.tokens = calloc((size_t)3 * p.ranks, sizeof(*p.tokens));
    if (!p.tokens)
        return fail(ERR_NOMEM, "parts of %u ranks", p.ranks);
    p.first_unit = p.tokens + p.ranks;
    p.hidden = p.first_unit + p.ranks;
    TRY_OUT(cut(of_tokens, p.ranks, (uint64_t)p.ranks * shape->tokens, p.tokens));
    TRY_OUT(cut_hidden(shape, of_hidden, &p));
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
