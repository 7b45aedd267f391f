/* That kernels run on a CPU as CUDA would run them, or are said to be wrong. */
#include "check.h"

#include <stdbool.h>

int broken_divergent_barrier(int *to);
int broken_absent_lane(int *to);
int broken_neighbours(int *to, int barrier);
int broken_copies(const void *from, int *to, int waits);

static int line[128];

static bool line_is_right(void)
{
    for (int i = 0; i < 128; i++)
        if (line[i] != (i ^ 1))
            return false;
    return true;
}

static void a_barrier_that_not_all_reach_is_an_error(void)
{
    CHECK(broken_divergent_barrier(line));
}

static void a_lane_that_has_left_is_an_error(void)
{
    CHECK(broken_absent_lane(line));
}

static void the_next_launch_is_not_disturbed_by_an_error(void)
{
    CHECK(broken_divergent_barrier(line));
    CHECK(!broken_neighbours(line, true));
    CHECK(line_is_right());
}

/* Whatever the order of threads, one of two neighbours reads too early. */
static void a_missing_barrier_shows_every_time(void)
{
    for (int i = 0; i < 200; i++) {
        CHECK(!broken_neighbours(line, false));
        CHECK(!line_is_right());
        CHECK(!broken_neighbours(line, true));
        CHECK(line_is_right());
    }
}

static void a_copy_that_is_not_waited_for_has_not_come(void)
{
    static _Alignas(16) int from[128][4];

    for (int i = 0; i < 128; i++)
        from[i][0] = i ^ 1;
    CHECK(!broken_copies(from, line, false));
    CHECK(!line_is_right());
    CHECK(!broken_copies(from, line, true));
    CHECK(line_is_right());
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_barrier_that_not_all_reach_is_an_error),
        TEST(a_lane_that_has_left_is_an_error),
        TEST(the_next_launch_is_not_disturbed_by_an_error),
        TEST(a_missing_barrier_shows_every_time),
        TEST(a_copy_that_is_not_waited_for_has_not_come),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
