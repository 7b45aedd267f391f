/* What all fuzzers of this folder share: the loop that feeds hostile bytes to a reader of foreign
 * bytes.
 *
 *     fuzz_NAME FILE...                  gives it these inputs, and starts from them, too
 *     fuzz_NAME --seconds N [--seed S]   makes inputs from its seeds and those FILEs, for that long
 *     fuzz_NAME --write FOLDER           writes the seeds: tests/data/corpus/NAME
 *
 * Compiled with -DFUZZ_LIBFUZZER a fuzzer is only the function that libFuzzer and AFL call. */
#ifndef FUZZER_H
#define FUZZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MAX = 1 << 16 };

struct fuzz_input {
    uint8_t bytes[FUZZ_INPUT_MAX];
    size_t size;
};
typedef void fuzz_way(struct fuzz_input *in); /* one change */

struct fuzz_target {
    const char *name;
    void (*one)(const uint8_t *data, size_t size);
    void (*make_seeds)(void); /* NULL: tests/data/corpus/NAME holds them, and is given */
    fuzz_way *const *ways;    /* beside flipped bits, numbers and moved blocks */
    size_t way_count;
    fuzz_way *mend; /* what must be right before anything else is looked at; mostly called */
    bool (*is_worth_keeping)(const struct fuzz_input *in); /* it was accepted */
};

int fuzz_main(int argc, char **argv, const struct fuzz_target *target);

void fuzz_seed(const char *name, const void *bytes, size_t size);
uint32_t fuzz_draw(uint32_t below); /* 0 for 0 */
void fuzz_accepted(void);           /* the input of now */
void fuzz_wrong(const char *what);  /* it is written to NAME.failed */

const char *fuzz_folder(void); /* a temporary one; empty at the end */
void fuzz_write_file(const char *path, const uint8_t *data, size_t size);

#endif
