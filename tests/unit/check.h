/* The least a test program needs: CHECK, a list of named tests, a closing count, and a seed. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int check_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_failures++;                                                                      \
            printf("    %s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                   \
        }                                                                                          \
    } while (0)

struct test {
    const char *name;
    void (*run)(void);
};

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

/* What a test draws at random follows from this number, which is the same in every run: what fails
 * does so again, and never by chance.  MOETUNE_TEST_SEED is another one, which is said. */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("MOETUNE_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;

    if (given)
        printf("  seed %llu\n", (unsigned long long)seed);
    return seed;
}

/* Prints the names of those that fail, then "N passed, N failed". */
static int check_all(const struct test *tests, size_t count)
{
    bool each = getenv("MOETUNE_TEST_NAMES"); /* for who may be killed before the end */
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; i++) {
        check_failures = 0;
        tests[i].run();
        failed += check_failures > 0;
        if (check_failures || each)
            printf("  %s %s\n", check_failures ? "FAILED" : "ok", tests[i].name);
    }
    printf("%d passed, %d failed\n", (int)count - failed, failed);
    return failed ? 1 : 0;
}

#endif
