/* Compares two sweeps of the same layers, one of them exhaustive: in which buckets does the other
 * agree? bench_agree EXHAUSTIVE.db OTHER.db They agree in a bucket if the winner is the same, or if
 * the winner's median lies inside the 95 % interval of the exhaustive winner's median (both from
 * the exhaustive rounds). */
#include "plan.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 128, ROUNDS = 256 };

/* One bucket's samples in the exhaustive sweep. */
struct bucket {
    struct moe_plan plans[PLANS];
    int64_t ns[PLANS][ROUNDS];
    size_t rounds[PLANS];
    int count;
};

static int collect(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct bucket *b = self;
    int i = 0;

    if (sample->kind != SAMPLE_SEARCH)
        return OK;
    while (i < b->count && !plan_equal(&b->plans[i], &trial->key.plan))
        i++;
    if (i == PLANS)
        return OK;
    if (i == b->count)
        b->plans[b->count++] = trial->key.plan;
    if (b->rounds[i] < ROUNDS)
        b->ns[i][b->rounds[i]++] = sample->ns;
    return OK;
}

struct comparison {
    struct store *judge, *other;
    int buckets, same, inside;
    double excess; /* sum of median / best median - 1 of the other's winners */
};

static int compare(void *self, const struct entry_row *theirs)
{
    struct comparison *c = self;
    struct bucket *b = calloc(1, sizeof(*b));
    struct spread best = { 0 }, got = { 0 };
    struct moe_plan winner = { 0 };
    int rc = b ? OK : ERR_NOMEM;

    if (theirs->inferred) {
        free(b);
        return OK;
    }
    if (!rc)
        rc = store_samples(c->judge, theirs->cluster, theirs->shape, theirs->window, theirs->bucket,
                           collect, b);
    for (int i = 0; i < b->count && !rc; i++) {
        struct spread s = spread_of(b->ns[i], b->rounds[i]);

        if (plan_equal(&b->plans[i], &theirs->search_winner))
            got = s;
        if (!best.count || s.median_ns < best.median_ns) {
            best = s;
            winner = b->plans[i];
        }
    }
    if (!rc && best.count && got.count) {
        bool same = plan_equal(&winner, &theirs->search_winner);

        c->buckets++;
        c->same += same;
        c->inside += !same && got.median_ns <= best.high_ns;
        c->excess += (double)got.median_ns / (double)best.median_ns - 1;
    }
    free(b);
    return rc;
}

int main(int argc, char **argv)
{
    struct comparison c = { 0 };
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: bench_agree EXHAUSTIVE.db OTHER.db\n");
        return 2;
    }
    rc = store_read(argv[1], &c.judge);
    if (!rc)
        rc = store_read(argv[2], &c.other);
    if (!rc)
        rc = store_entries(c.other, 0, 0, compare, &c);
    if (!rc && c.buckets)
        printf("%d buckets: same winner in %d, inside the winner's interval in %d more: %.1f %%; "
               "mean excess of the winners %.2f %%\n",
               c.buckets, c.same, c.inside, 100.0 * (c.same + c.inside) / c.buckets,
               100 * c.excess / c.buckets);
    store_close(c.other);
    store_close(c.judge);
    return rc ? 1 : 0;
}
