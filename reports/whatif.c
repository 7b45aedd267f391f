/* Finds pairs of layers that differ only in their router, compares their best plans at each
 * capacity, and sums up the gains. */
#include "whatif.h"

#include "contrast.h"
#include "node_rows.h"
#include "plan.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const struct whatif_way whatif_ways[WHATIF_WAYS] = {
    { "flat x linear", false, MOE_A2A_LINEAR }, { "flat x 2dh", false, MOE_A2A_2DH },
    { "flat x 3dh", false, MOE_A2A_3DH },       { "flat x rail", false, MOE_A2A_RAIL },
    { "limited x rail", true, MOE_A2A_RAIL },
};

/* The gain is that of the last way over the first. */
enum { FLAT_LINEAR = 0, LIMITED_RAIL = WHATIF_WAYS - 1 };

/* ---- pairs */

static bool differ_in_router(const struct layer_facts *flat, const struct layer_facts *limited)
{
    struct moe_shape without = limited->shape;

    without.groups = flat->shape.groups;
    without.group_limit = flat->shape.group_limit;
    without.router = flat->shape.router;
    return flat->cluster_id == limited->cluster_id && shape_equal(&without, &flat->shape);
}

/* Layers without a common capacity are no pair.  Tables of different width R are, because rows are
 * compared by capacity alone. */
bool whatif_pair(const struct scope *scope, size_t place, struct whatif_pair *out)
{
    struct whatif_row row;
    size_t first = 0, end = scope->count;

    /* A database may have thousands of layers.  Few of them have groups, and these mostly lie
     * together. */
    while (first < end && !scope->layers[first].shape.groups)
        first++;
    while (end > first && !scope->layers[end - 1].shape.groups)
        end--;
    for (size_t i = 0; i < scope->count && first < end; i++)
        for (size_t j = first; j < end && !scope->layers[i].shape.groups; j++) {
            *out = (struct whatif_pair){ &scope->layers[i], &scope->layers[j] };
            row.capacity = 0;
            if (out->limited->shape.groups && differ_in_router(out->flat, out->limited) &&
                whatif_next(out, &row) && !place--)
                return true;
        }
    return false;
}

static const struct layer_facts *layer_of(const struct whatif_pair *pair, int way)
{
    return whatif_ways[way].limited ? pair->limited : pair->flat;
}

const struct moe_shape *whatif_shape(const struct whatif_pair *pair, int way)
{
    return &layer_of(pair, way)->shape;
}

bool whatif_tried(const struct whatif_pair *pair, int way)
{
    const struct layer_facts *layer = layer_of(pair, way);

    for (size_t i = 0; i < layer->trial_count; i++)
        if (trial_usable(&layer->trials[i]) &&
            layer->trials[i].row.key.plan.a == whatif_ways[way].a)
            return true;
    return false;
}

/* ---- rows */

/* Returns the fastest usable trial with r above 0 and this all-to-all at a capacity, or NULL. */
static const struct trial_facts *best_trial(const struct layer_facts *layer, uint32_t a,
                                            uint64_t capacity)
{
    const struct trial_facts *best = NULL;

    for (size_t i = 0; i < layer->trial_count; i++) {
        const struct trial_facts *t = &layer->trials[i];

        if (t->row.capacity == capacity && trial_usable(t) && t->row.key.plan.r > 0 &&
            t->row.key.plan.a == a && (!best || t->steps.median_ns < best->steps.median_ns))
            best = t;
    }
    return best;
}

/* The range of 5 steps holds the median with only 94 %. */
bool whatif_sure(const struct spread *steps)
{
    return steps->count >= 6;
}

/* The interval combines the far ends of both medians' intervals. */
static struct gain gain_over(const struct trial_facts *slow, const struct trial_facts *fast)
{
    const struct spread *a = &slow->steps, *b = &fast->steps;
    bool sure = whatif_sure(a) && whatif_sure(b);

    if (slow == fast)
        return (struct gain){ 0, 0, 0 };
    return (struct gain){ 1 - (double)b->median_ns / (double)a->median_ns,
                          sure ? 1 - (double)b->high_ns / (double)a->low_ns : NAN,
                          sure ? 1 - (double)b->low_ns / (double)a->high_ns : NAN };
}

/* Trials are sorted by bucket, and so by capacity: the first larger capacity is the next row. */
bool whatif_next(const struct whatif_pair *pair, struct whatif_row *row)
{
    for (size_t i = 0; i < pair->flat->trial_count; i++) {
        uint64_t capacity = pair->flat->trials[i].row.capacity;
        const struct trial_facts *flat;

        if (capacity <= row->capacity)
            continue;
        row->capacity = capacity;
        for (int way = 0; way < WHATIF_WAYS; way++)
            row->best[way] = best_trial(layer_of(pair, way), whatif_ways[way].a, capacity);
        if (!row->best[FLAT_LINEAR] || !row->best[LIMITED_RAIL])
            continue;
        flat = row->best[FLAT_LINEAR]; /* the best of all flat ways */
        for (int way = 0; way < LIMITED_RAIL; way++)
            if (row->best[way] && row->best[way]->steps.median_ns < flat->steps.median_ns)
                flat = row->best[way];
        row->gain = gain_over(row->best[FLAT_LINEAR], row->best[LIMITED_RAIL]);
        row->flat = gain_over(row->best[FLAT_LINEAR], flat);
        return true;
    }
    return false;
}

/* ---- bytes between nodes */

/* Returns the bytes that rail sends to one node.  Forward: each row with the expert and gate of its
 * choices (8 bytes each), and its result.  Backward: gradients both ways, and the gradient of each
 * gate (4 bytes). */
static double rail_bytes(const struct moe_shape *s, uint64_t capacity)
{
    uint64_t need = s->layers > 1 ? 0 : shape_node_need(s, s->tokens);
    double row = (double)s->model_dim * (double)dtype_bytes(s->dtype), k = s->top_k;
    double forward = 2 * row + 8 * k, backward = s->pass == MOE_TRAIN ? 2 * row + 4 * k : 0;

    return (double)shape_node_rows(s, s->tokens, need, capacity) * (forward + backward);
}

/* Returns the bytes that linear, 2dh and 3dh send to one node: each all-to-all moves r E C D
 * elements for all nodes together. */
static double rows_bytes(const struct moe_shape *s, const struct moe_plan *plan, uint64_t capacity)
{
    uint64_t step = shape_slices(s) / plan->r * plan->d, rows = (capacity + step - 1) / step * step;
    double trips = s->pass == MOE_TRAIN ? 4 : 2;

    return trips * plan->r * s->experts * (double)rows * s->model_dim *
           (double)dtype_bytes(s->dtype) / shape_nodes(s);
}

/* Returns to how many nodes a rank sends a node's share of rows.  3dh sends rows first to the other
 * nodes of its rack, for these nodes' counterparts in all racks, and then to the other racks. */
static double nodes_sent_to(const struct moe_shape *s, uint32_t a)
{
    double nodes = shape_nodes(s), racks;

    if (a != MOE_A2A_3DH)
        return nodes - 1;
    racks = s->ranks / s->ranks_per_rack;
    return nodes - racks + nodes - nodes / racks;
}

double whatif_bytes(const struct moe_shape *shape, const struct trial_facts *trial)
{
    const struct moe_plan *plan = &trial->row.key.plan;
    double a_node = plan->a == MOE_A2A_RAIL ? rail_bytes(shape, trial->row.capacity)
                                            : rows_bytes(shape, plan, trial->row.capacity);

    return a_node * nodes_sent_to(shape, plan->a) * (shape->layers ? shape->layers : 1);
}

/* ---- summed up */

/* Adds the logarithm of the time that remains, so that mean gains are geometric. */
static void add_log(struct gain *sum, const struct gain *gain)
{
    sum->value += log1p(-gain->value);
    sum->low += log1p(-gain->low);
    sum->high += log1p(-gain->high);
}

/* Writes the geometric mean of summed gains, "40.1 % (38.0 to 42.3)". */
static void write_mean(const struct gain *sum, double count, char *text, size_t size)
{
    text_put(
        text, size, "%.1f %%%s", -100 * expm1(sum->value / count),
        INTERVAL_TEXT("%.1f", -100 * expm1(sum->low / count), -100 * expm1(sum->high / count)));
}

static void pair_remark(const struct whatif_pair *pair, char text[REMARK_BYTES])
{
    struct whatif_row row = { .capacity = 0 };
    struct gain gain = { 0 }, flat = { 0 };
    uint64_t first = 0;
    unsigned count = 0;
    char all[64], kept[64];
    int used;

    for (; whatif_next(pair, &row); count++) {
        first = count ? first : row.capacity;
        add_log(&gain, &row.gain);
        add_log(&flat, &row.flat);
    }
    write_mean(&gain, count, all, sizeof(all));
    write_mean(&flat, count, kept, sizeof(kept));
    used = snprintf(text, REMARK_BYTES,
                    "%s: limited x rail gains %s over flat x linear; %u capacities, c = %" PRIu64
                    " to %" PRIu64 ".  ",
                    SHAPE_TEXT(&pair->limited->shape), all, count, first, row.capacity);
    if (flat.value <= gain.value)
        snprintf(text + used, REMARK_BYTES - (size_t)used,
                 "The best flat plans gain %s: no change of the model is needed.", kept);
    else
        snprintf(text + used, REMARK_BYTES - (size_t)used,
                 "The best flat plans already gain %s, without a change of the model.", kept);
}

void whatif_remarks(const struct scope *scope, struct remarks *out)
{
    struct whatif_pair pair;

    out->count = 0;
    while (out->count < REMARKS_MAX && whatif_pair(scope, (size_t)out->count, &pair))
        pair_remark(&pair, out->lines[out->count++]);
}

/* ---- the plot */

static void way_row(struct series *s, const struct moe_shape *shape, const struct trial_facts *t)
{
    struct step_time step = contrast_trial(t);

    series_place(s, (double)t->row.capacity);
    fprintf(s->to, "%" PRIu64 " %.6g", t->row.capacity, step.us * 1e-3);
    if (whatif_sure(&t->steps))
        fprintf(s->to, " %.6g %.6g", step.low_us * 1e-3, step.high_us * 1e-3);
    else
        fputs(" NaN NaN", s->to);
    fprintf(s->to, " %.6g %u %u \"%s\"\n", whatif_bytes(shape, t) / 1048576, step.samples,
            step.throttled, PLAN_WORDS(&t->row.key.plan));
    s->extent.rows++;
    s->extent.samples += step.samples;
    s->extent.throttled += step.throttled;
}

void series_whatif(struct series *s)
{
    struct whatif_pair pair;

    for (size_t i = 0; whatif_pair(s->scope, i, &pair); i++)
        for (int way = 0; way < WHATIF_WAYS; way++) {
            const struct moe_shape *shape = whatif_shape(&pair, way);
            struct whatif_row row = { .capacity = 0 };

            series_block(s, whatif_ways[way].name);
            fprintf(s->to, "# %s\n", SHAPE_TEXT(shape));
            while (whatif_next(&pair, &row))
                if (row.best[way])
                    way_row(s, shape, row.best[way]);
        }
}
