/* What follows from a layer's shape alone: how experts lie on ranks, the capacity, the text form,
 * and the rules. */
#ifndef SHAPE_H
#define SHAPE_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How ranks lie on machines: W, m and the ranks of a rack; a plain value. */
struct rank_layout {
    uint32_t ranks, per_node, per_rack;
};

/* Returns whether there are several racks of several nodes, all alike. */
static inline bool rank_layout_has_racks(struct rank_layout l)
{
    return l.per_node && l.per_rack > l.per_node && l.per_rack % l.per_node == 0 &&
           l.per_rack < l.ranks && l.ranks % l.per_rack == 0;
}

/* Returns s, the number of ranks that share one expert. It is 1 when there are at least as many
 * experts as ranks. It is W in MOE_LAYOUT_HIDDEN, whose slices may differ in size. */
uint32_t shape_slices(const struct moe_shape *shape);

/* Returns Eg, the number of experts of which one rank holds weights: 1 when an expert is shared;
 * all E in MOE_LAYOUT_HIDDEN. */
uint32_t shape_local_experts(const struct moe_shape *shape);

/* Returns the number of columns by which a token chooses: one per expert. In MOE_ROUTER_BILEVEL it
 * is one per group and then one per place in a group. */
static inline uint32_t gate_columns(uint32_t router, uint32_t experts, uint32_t groups)
{
    return router == MOE_ROUTER_BILEVEL ? groups + experts / groups : experts;
}
uint32_t shape_gate_columns(const struct moe_shape *shape);

/* Returns how many rows of D the matrix has that multiplies tokens: one per column; P in
 * MOE_ROUTER_COSINE. */
uint32_t shape_gate_rows(const struct moe_shape *shape);

/* Returns a token's rows of y: 1, or one for each choice. */
uint32_t shape_result_rows(const struct moe_shape *shape);

/* Fills in what 0 means: P of MOE_ROUTER_COSINE. Replaces layers = 1, which is the default, by
 * 0. */
void shape_complete(struct moe_shape *inout);

/* Returns the number of nodes of m ranks each; 0 where nodes differ. */
uint32_t shape_nodes(const struct moe_shape *shape);

/* Returns whether some group of experts is split over several nodes. */
bool shape_groups_straddle(const struct moe_shape *shape);

/* Returns one rank's part of b2, which has no hidden dimension: it is cut along D and padded to a
 * multiple of s. */
uint32_t shape_bias2_slice(const struct moe_shape *shape);

/* Returns how many trials the paper's search (section 3.3) needs per bucket: (ceil(log_{3/2}
 * ceil(W/E)) + 2) * 4 * 2. */
uint32_t shape_paper_trials(const struct moe_shape *shape);

/* The name of a bucket in the store: which bucket of which layer on which cluster; a plain
 * value. */
struct bucket_key {
    int64_t cluster, shape; /* ids in the store */
    uint32_t window, bucket;
};

/* Returns the capacity that stands for a bucket: its upper edge. */
static inline uint64_t bucket_capacity(uint32_t window, uint32_t bucket)
{
    return ((uint64_t)bucket + 1) * window - 1;
}

/* Returns moe_window() of the shape; 1 where a space declares the buckets. */
uint32_t shape_window(const struct moe_shape *shape);

/* shape_is_none: returns whether the shape is no layer, but a declared space whose program has
 * none. Such a shape has sizes of 1, and its text is only the ranks and the space: "W=4 m=4
 * space=sort@245c7b09". shape_set_none makes one. */
bool shape_is_none(const struct moe_shape *shape);
void shape_set_none(struct moe_shape *inout);

enum { SHAPE_TEXT_BYTES = 344, SHAPE_FAULT_BYTES = 160 };

/* Checks the rules. ERR_ARGUMENT after a message with the value and the legal ones; UNSUPPORTED
 * after a message that says what these ranks lack. */
int shape_check(const struct moe_shape *shape);
/* Does what shape_check() does, but writes the message into `text` instead of printing it. */
int shape_fault(const struct moe_shape *shape, char *text, size_t size);

/* Returns the size of one element. */
size_t dtype_bytes(uint32_t dtype);

/* One word of a shape's text. shape_fields[] is the only list of them, and all functions walk
 * it. */
struct shape_field {
    const char *name;
    size_t offset;            /* of its uint32_t in struct moe_shape */
    const char *const *words; /* names of the values, NULL-terminated; NULL: plain numbers */
    bool quiet;               /* not written while it is 0, so older texts keep their meaning */
    bool declared;            /* the value is a declared space, written by its tag */
};
extern const struct shape_field shape_fields[];
extern const size_t shape_field_count;

/* Returns the value of shape_fields[field]. */
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

/* Writes the shape's one text form: "E=8 k=2 T=4096 D=1024 H=4096 dtype=bf16 pass=train act=swiglu
 * W=32 m=8". Returns the length as snprintf does. */
int shape_format(const struct moe_shape *shape, char *text, size_t size);

/* Writes the same text. The macro's text lasts as long as the block around it. */
#define SHAPE_TEXT(shape) shape_text(shape, (char[SHAPE_TEXT_BYTES]){ 0 })
const char *shape_text(const struct moe_shape *shape, char room[SHAPE_TEXT_BYTES]);

/* Reads that text, its words in any order. A word that is missing keeps its value in *inout.
 * ERR_FORMAT after a message that quotes the word; *inout is then unchanged. Does not check the
 * rules: see shape_check(). */
int shape_parse(const char *text, struct moe_shape *inout);
/* Does what shape_parse() does without a message. Returns NULL, or where the word begins that it
 * does not understand. */
const char *shape_scan(const char *text, struct moe_shape *inout);

/* Returns whether two shapes are equal in every word of their text. */
bool shape_equal(const struct moe_shape *a, const struct moe_shape *b);

/* Returns whether no word of the text contradicts the shape; words may be missing. NULL: true. */
bool shape_agrees(const struct moe_shape *shape, const char *text);

#endif
