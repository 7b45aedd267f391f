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
    struct moe_shape unlimited = limited->shape;

    unlimited.groups = flat->shape.groups;
    unlimited.group_limit = flat->shape.group_limit;
    unlimited.router = flat->shape.router;
    return flat->cluster_id == limited->cluster_id && shape_equal(&unlimited, &flat->shape);
}

/* Layers without a common capacity are no pair.  Tables of different width R are, because rows are
 * compared by capacity alone. */
bool whatif_pair(const struct scope *scope, size_t place, struct whatif_pair *out)
{
    struct whatif_row row;
    size_t first_limited = 0, limited_end = scope->count;

    /* A database may have thousands of layers.  Few of them have groups, and these mostly lie
     * together. */
    while (first_limited < limited_end && !scope->layers[first_limited].shape.groups)
        first_limited++;
    while (limited_end > first_limited && !scope->layers[limited_end - 1].shape.groups)
        limited_end--;
    for (size_t i = 0; i < scope->count && first_limited < limited_end; i++)
        for (size_t j = first_limited; j < limited_end && !scope->layers[i].shape.groups; j++) {
            *out = (struct whatif_pair){ &scope->layers[i], &scope->layers[j] };
            row.capacity = 0;
            if (!out->limited->shape.groups || !differ_in_router(out->flat, out->limited) ||
                !whatif_next(out, &row))
                continue;
            if (!place)
                return true;
            place--;
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
    const struct spread *slow_steps = &slow->steps, *fast_steps = &fast->steps;
    bool sure = whatif_sure(slow_steps) && whatif_sure(fast_steps);

    if (slow == fast)
        return (struct gain){ .value = 0 };
    return (struct gain){ 1 - (double)fast_steps->median_ns / (double)slow_steps->median_ns,
                          sure ? 1 - (double)fast_steps->high_ns / (double)slow_steps->low_ns : NAN,
                          sure ? 1 - (double)fast_steps->low_ns / (double)slow_steps->high_ns
                               : NAN };
}

/* Trials are sorted by bucket, and so by capacity: the first larger capacity is the next row. */
bool whatif_next(const struct whatif_pair *pair, struct whatif_row *row)
{
    for (size_t i = 0; i < pair->flat->trial_count; i++) {
        uint64_t capacity = pair->flat->trials[i].row.capacity;
        const struct trial_facts *best_flat;

        if (capacity <= row->capacity)
            continue;
        row->capacity = capacity;
        for (int way = 0; way < WHATIF_WAYS; way++)
            row->best[way] = best_trial(layer_of(pair, way), whatif_ways[way].a, capacity);
        if (!row->best[FLAT_LINEAR] || !row->best[LIMITED_RAIL])
            continue;
        best_flat = row->best[FLAT_LINEAR]; /* the best of all flat ways */
        for (int way = 0; way < LIMITED_RAIL; way++)
            if (row->best[way] && row->best[way]->steps.median_ns < best_flat->steps.median_ns)
                best_flat = row->best[way];
        row->gain = gain_over(row->best[FLAT_LINEAR], row->best[LIMITED_RAIL]);
        row->flat = gain_over(row->best[FLAT_LINEAR], best_flat);
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
    double row_bytes = (double)s->model_dim * (double)dtype_bytes(s->dtype), top_k = s->top_k;
    double forward = 2 * row_bytes + 8 * top_k,
           backward = s->pass == MOE_TRAIN ? 2 * row_bytes + 4 * top_k : 0;

    return (double)shape_node_rows(s, s->tokens, need, capacity) * (forward + backward);
}

/* Returns the bytes that linear, 2dh and 3dh send to one node: each all-to-all moves r E C D
 * elements for all nodes together. */
static double padded_rows_bytes(const struct moe_shape *s, const struct moe_plan *plan,
                                uint64_t capacity)
{
    uint64_t multiple = shape_slices(s) / plan->r * plan->d,
             rows = (capacity + multiple - 1) / multiple * multiple;
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
    double bytes_per_node = plan->a == MOE_A2A_RAIL
                                ? rail_bytes(shape, trial->row.capacity)
                                : padded_rows_bytes(shape, plan, trial->row.capacity);

    return bytes_per_node * nodes_sent_to(shape, plan->a) * (shape->layers ? shape->layers : 1);
}

/* ---- summed up */

/* Adds the logarithm of the time that remains, so that mean gains are geometric. */
static void add_log_gain(struct gain *sum, const struct gain *gain)
{
    sum->value += log1p(-gain->value);
    sum->low += log1p(-gain->low);
    sum->high += log1p(-gain->high);
}

/* Writes the geometric mean of summed gains, "40.1 % (38.0 to 42.3)". */
static void write_mean_gain(const struct gain *sum, double count, char *text, size_t size)
{
    text_put(
        text, size, "%.1f %%%s", -100 * expm1(sum->value / count),
        INTERVAL_TEXT("%.1f", -100 * expm1(sum->low / count), -100 * expm1(sum->high / count)));
}

static void pair_remark(const struct whatif_pair *pair, char text[REMARK_BYTES])
{
    struct whatif_row row = { .capacity = 0 };
    struct gain gain = { 0 }, flat = { 0 };
    uint64_t first_capacity = 0;
    unsigned count = 0;
    char gain_text[64], flat_text[64];
    int used;

    for (; whatif_next(pair, &row); count++) {
        first_capacity = count ? first_capacity : row.capacity;
        add_log_gain(&gain, &row.gain);
        add_log_gain(&flat, &row.flat);
    }
    write_mean_gain(&gain, count, gain_text, sizeof(gain_text));
    write_mean_gain(&flat, count, flat_text, sizeof(flat_text));
    used =
        snprintf(text, REMARK_BYTES,
                 "%s: limited x rail gains %s over flat x linear; %u capacities, c = %" PRIu64
                 " to %" PRIu64 ".  ",
                 SHAPE_TEXT(&pair->limited->shape), gain_text, count, first_capacity, row.capacity);
    if (flat.value <= gain.value)
        snprintf(text + used, REMARK_BYTES - (size_t)used,
                 "The best flat plans gain %s: no change of the model is needed.", flat_text);
    else
        snprintf(text + used, REMARK_BYTES - (size_t)used,
                 "The best flat plans already gain %s, without a change of the model.", flat_text);
}

void whatif_remarks(const struct scope *scope, struct remarks *out)
{
    struct whatif_pair pair;

    out->count = 0;
    while (out->count < REMARKS_MAX && whatif_pair(scope, (size_t)out->count, &pair))
        pair_remark(&pair, out->lines[out->count++]);
}

/* ---- the plot */

/* Columns: capacity; step, low end, high end in ms; MiB sent between nodes; samples; disturbed
 * ones; plan. */
static void write_trial(struct series *s, const struct moe_shape *shape,
                        const struct trial_facts *trial)
{
    struct step_time step = contrast_trial(trial);

    series_place(s, (double)trial->row.capacity);
    fprintf(s->to, "%" PRIu64 " %.6g", trial->row.capacity, step.us * 1e-3);
    if (whatif_sure(&trial->steps))
        fprintf(s->to, " %.6g %.6g", step.low_us * 1e-3, step.high_us * 1e-3);
    else
        fputs(" NaN NaN", s->to);
    fprintf(s->to, " %.6g %u %u \"%s\"\n", whatif_bytes(shape, trial) / 1048576, step.samples,
            step.throttled, PLAN_WORDS(&trial->row.key.plan));
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
                    write_trial(s, shape, row.best[way]);
        }
}
