/* tests/unit/check.h for tests that test_ptx loads: it says which of them run, and counts. */
#ifndef PTX_CHECK_H
#define PTX_CHECK_H

#include "launches.h"

#define check_all check_all_alone
#include "../../unit/check.h"
#undef check_all

static int check_all(const struct test *tests, size_t count)
{
    (void)check_all_alone;
    for (size_t i = 0; i < count; i++) {
        if (!test_begins(tests[i].name))
            continue;
        check_failures = 0;
        tests[i].run();
        test_ended(tests[i].name, check_failures);
    }
    return 0;
}

#endif
