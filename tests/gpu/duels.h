/* Work on a GPU that takes turns with other work: its launches, its memory, and a line for each
 * result. */
#ifndef DUELS_H
#define DUELS_H

#include "cuda.h"
#include "rows.h"

#include <stdbool.h>

enum { DUEL_STEPS = 8 };

/* Launches that are timed as one, or a copy inside the GPU. */
struct work {
    struct {
        enum kernel kernel;
        size_t bytes;
        union {
            struct gemm gemm;
            struct route route;
            struct encode encode;
            struct encode_backward encode_backward;
            struct decode decode;
            struct decode_backward decode_backward;
            struct move move;
            struct activate activate;
            struct activate_backward activate_backward;
            struct add_bias add_bias;
            struct reindex reindex;
            struct esmm esmm;
        } args;
    } steps[DUEL_STEPS];
    int count;
    uint64_t copy_bytes;
    cudaGraphExec_t graph;
};

#define STEP(work, name, ...)                                                                      \
    do {                                                                                           \
        (work)->steps[(work)->count].kernel = KERNEL_##name;                                       \
        (work)->steps[(work)->count].bytes = sizeof(struct name);                                  \
        (work)->steps[(work)->count++].args.name = __VA_ARGS__;                                    \
    } while (0)

/* They do not change between duels. */
extern struct device *duel_device;
extern struct stream *duel_stream;

void must(int status); /* ends the program if it failed */

/* Opens the GPU, and the file of JSON if there is to be one, and times what others are compared
 * with against itself. */
void duels_begin(const char *json_path);
/* Returns what the program exits with: 3 if a share was below what is wanted. */
int duels_end(void);

void *take(uint64_t bytes); /* until give_all() */
/* Zeros would draw less power, and run faster, than what a layer computes with. */
void *taken_random(uint64_t elements);
void give_all(void);
/* A shape that does not fit is said, and is not measured. */
bool fits(const char *what, const char *shape, uint64_t bytes);

int64_t timed_work(const struct work *w);

/* Against a copy that reads and writes as many bytes together. */
void against_copy(const char *what, const char *shape, struct work *ours, uint64_t moved,
                  double wanted);
/* Against the product of two large matrices. */
void against_dense(const char *what, const char *shape, struct work *ours, double flops,
                   double wanted);
/* Against other launches that do the same. */
void against_others(const char *what, const char *shape, struct work *ours, struct work *theirs,
                    double flops);
/* A share of what is wanted, with its interval; wanted 0: no goal. */
void report(const char *what, const char *shape, double us, double rate, const char *unit,
            double share, double low, double high, double wanted);

#endif
