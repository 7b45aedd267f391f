/* What test_ptx does for the tests that it loads. */
#ifndef LAUNCHES_H
#define LAUNCHES_H

#include <stdbool.h>
#include <stddef.h>

struct runner {
    int (*launch)(const char *kernel, unsigned blocks, unsigned threads, void **arguments);
    void *(*take)(size_t bytes); /* memory of the GPU, aligned to 256 bytes; NULL: no more */
    void (*give)(void *memory);
    bool (*begins)(const char *test); /* whether it is to run */
    void (*ended)(const char *test, int failures);
};

void runner_is(const struct runner *runner);

bool test_begins(const char *name);
void test_ended(const char *name, int failures);

#endif
