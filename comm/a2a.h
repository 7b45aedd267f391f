/* All-to-all of W equal blocks: block q of send goes to rank q; block q of recv is what rank q sent
 * here.  Algorithms are written over exchanges and moves, and know no transport. */
#ifndef A2A_H
#define A2A_H

#include "moelookup.h"
#include "wire.h"

/* One call, prepared.  send and recv may not overlap; scratch is a2a_scratch() elements. */
struct a2a_call {
    struct wire *wire; /* borrowed */
    uint32_t dtype;
    uint64_t block; /* elements */
    const void *send;
    void *recv, *scratch;
    uint32_t ctas; /* as struct batch has it */
};

struct a2a;

struct a2a_ops {
    uint64_t (*scratch)(const struct topology *topology, uint64_t block); /* NULL: none */
    int (*build)(struct a2a *a2a);                                        /* fills the batches */
    int (*run)(struct a2a *a2a, struct stream *stream); /* NULL: exchanges the first batch */
};

enum { A2A_PHASES = 2 };

struct a2a {
    const struct a2a_ops *ops;
    struct a2a_call call;
    struct batch phases[A2A_PHASES];
};

extern const struct a2a_ops a2a_2dh;

/* Elements of scratch that algorithm `a` (enum moe_a2a) needs; one scratch may serve all calls of
 * one stream. */
uint64_t a2a_scratch(uint32_t a, const struct topology *topology, uint64_t block);

/* UNSUPPORTED where the algorithm does not apply. */
int a2a_open(uint32_t a, const struct a2a_call *call, struct a2a **out);

/* One whose transfers the caller has listed, each from where its block lies to where it is wanted.
 * The batch is moved from. */
int a2a_open_listed(struct wire *wire, struct batch *batch, struct a2a **out);
int a2a_run(struct a2a *a2a, struct stream *stream);
void a2a_close(struct a2a *a2a);

#endif
