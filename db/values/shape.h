/* What follows from a layer's shape alone: the layout of experts over ranks, and the capacity. */
#ifndef SHAPE_H
#define SHAPE_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How ranks lie on machines: W, m and the ranks of a rack. */
struct rank_layout {
    uint32_t ranks, per_node, per_rack;
};

/* Several racks of several nodes, which are all alike. */
static inline bool rank_layout_has_racks(struct rank_layout l)
{
    return l.per_node && l.per_rack > l.per_node && l.per_rack % l.per_node == 0 &&
           l.per_rack < l.ranks && l.ranks % l.per_rack == 0;
}

/* s: ranks that share one expert: 1 when there are at least as many experts as ranks, and all W in
 * MOE_LAYOUT_HIDDEN, whose slices need not be equally large. */
uint32_t shape_slices(const struct moe_shape *shape);

/* Eg: experts of whose weights one rank holds some (1 when an expert is shared; in
 * MOE_LAYOUT_HIDDEN all E). */
uint32_t shape_local_experts(const struct moe_shape *shape);

/* Columns of what a token chooses by: one per expert, in MOE_ROUTER_BILEVEL one per group and then
 * one per place in a group. */
static inline uint32_t gate_columns(uint32_t router, uint32_t experts, uint32_t groups)
{
    return router == MOE_ROUTER_BILEVEL ? groups + experts / groups : experts;
}
uint32_t shape_gate_columns(const struct moe_shape *shape);

/* Rows of D of the matrix that multiplies tokens: the columns, in MOE_ROUTER_COSINE P. */
uint32_t shape_gate_rows(const struct moe_shape *shape);

/* A token's rows of y: 1, or one for each choice. */
uint32_t shape_result_rows(const struct moe_shape *shape);

/* Says what a word means that was left 0: P of MOE_ROUTER_COSINE; and one layer is what it is
 * anyway. */
void shape_complete(struct moe_shape *inout);

/* Nodes of m ranks each; 0 where nodes differ. */
uint32_t shape_nodes(const struct moe_shape *shape);

/* Some group of experts lies on several nodes in part. */
bool shape_groups_straddle(const struct moe_shape *shape);

/* b2 has no hidden dimension: it is cut along D, padded to a multiple of s. */
uint32_t shape_bias2_slice(const struct moe_shape *shape);

/* Trials the paper's search (section 3.3) takes per bucket: (ceil(log_{3/2} ceil(W/E)) + 2) * 4
 * * 2.
 */
uint32_t shape_paper_trials(const struct moe_shape *shape);

/* Which bucket of which layer on which machine. */
struct bucket_key {
    int64_t cluster, shape; /* ids in the store */
    uint32_t window, bucket;
};

/* The capacity that stands for a bucket: its upper edge. */
static inline uint64_t bucket_capacity(uint32_t window, uint32_t bucket)
{
    return ((uint64_t)bucket + 1) * window - 1;
}

/* moe_window() of the shape; 1 where a space declares the buckets. */
uint32_t shape_window(const struct moe_shape *shape);

/* No layer: a declared space whose program has none.  Its sizes are 1, and its text has only the
 * ranks and the space: "W=4 m=4 space=sort@245c7b09". */
bool shape_is_none(const struct moe_shape *shape);
void shape_set_none(struct moe_shape *inout);

enum { SHAPE_TEXT_BYTES = 344, SHAPE_FAULT_BYTES = 160 };

/* OK, ERR_ARGUMENT with a message that names the value and the legal ones, or UNSUPPORTED with one
 * that names what these ranks lack. */
int shape_check(const struct moe_shape *shape);
/* The same, with the message in `text` instead of said. */
int shape_fault(const struct moe_shape *shape, char *text, size_t size);

size_t dtype_bytes(uint32_t dtype);

/* The one list of a shape's words, as its text has them; everything walks it. */
struct shape_field {
    const char *name;
    size_t offset;            /* of its uint32_t in struct moe_shape */
    const char *const *words; /* names of the values, NULL-terminated; or NULL: plain numbers */
    bool quiet;    /* not written while it is 0: texts from before it mean the same as before */
    bool declared; /* the value is a declared space, which is written by name */
};
extern const struct shape_field shape_fields[];
extern const size_t shape_field_count;

uint32_t shape_value(const struct moe_shape *shape, size_t field);

/* The words of each enum, NULL-terminated, in the order of their values. */
extern const char *const dtype_words[];
extern const char *const pass_words[];
extern const char *const activation_words[];
extern const char *const layout_words[];
extern const char *const shares_words[];
extern const char *const router_words[];
extern const char *const order_words[];
extern const char *const combine_words[];

/* Writes "E=8 k=2 T=4096 D=1024 H=4096 dtype=bf16 pass=train act=swiglu W=32 m=8", the shape's one
 * text form.  Returns the length as snprintf does. */
int shape_format(const struct moe_shape *shape, char *text, size_t size);

/* The same; the result lasts as long as the block around it. */
#define SHAPE_TEXT(shape) shape_text(shape, (char[SHAPE_TEXT_BYTES]){ 0 })
const char *shape_text(const struct moe_shape *shape, char room[SHAPE_TEXT_BYTES]);

/* Reads the same text, in any order; what is left out keeps its value in *inout.  ERR_FORMAT after
 * a message that names the word; then *inout is untouched.  Checks no rules: see shape_check. */
int shape_parse(const char *text, struct moe_shape *inout);
/* The same, silent: NULL, or where the word begins that is not understood. */
const char *shape_scan(const char *text, struct moe_shape *inout);

/* Equal in everything the text says. */
bool shape_equal(const struct moe_shape *a, const struct moe_shape *b);

/* The text, which may leave things out, says nothing else than the shape does; NULL: true. */
bool shape_agrees(const struct moe_shape *shape, const char *text);

#endif
