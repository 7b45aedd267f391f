/* Tests how much of a step other processes take, read from texts of the kernel, and which cores
 * belong to a rank. */
#include "check.h"

#include "disturbance.h"
#include "doctor.h"
#include "launch.h"
#include "own_cores.h"
#include "status.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- texts */

static void waiting_is_the_second_number_of_schedstat(void)
{
    static const char *const bad[] = { "", "\n", "x", "12", "12 x", "x 12 3" };
    int64_t ns = 7;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!schedstat_waited(bad[i], &ns) && ns == 7);
    CHECK(schedstat_waited("83491 261639 12\n", &ns) && ns == 261639);
    CHECK(schedstat_waited("0 0 0", &ns) && ns == 0);
}

static bool is_odd(const void *self, int core)
{
    (void)self;
    return core % 2;
}

static const char four_cores[] = "cpu  26332 0 2886 114594 477 0 43 994 0 0\n"
                                 "cpu0 12978 0 1503 57310 355 0 11 100 0 0\n"
                                 "cpu1 13354 0 1382 57284 121 0 32 20 0 0\n"
                                 "cpu2 1 2 3 4 5 6 7 3 9 10\n"
                                 "cpu10 1 2 3 4 5 6 7 4000\n"
                                 "intr 51 0 0\nctxt 5\n";

static void stolen_ticks_are_those_of_the_cores_that_count(void)
{
    static const char *const bad[] = { "",
                                       "cpu",
                                       "cpu  1 2 3 4 5 6 7 8\n",
                                       "cpu0 1 2 3 4\n",
                                       "intr 1 2 3 4 5 6 7 8 9\n",
                                       "cpufreq 1 2 3 4 5 6 7 8\n" };
    int64_t ticks = 7;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!stat_stolen(bad[i], NULL, NULL, &ticks) && ticks == 7);
    CHECK(stat_stolen(four_cores, NULL, NULL, &ticks) && ticks == 4123);
    CHECK(stat_stolen(four_cores, is_odd, NULL, &ticks) && ticks == 20);
}

/* ---- arithmetic */

static int64_t lost(double cores, int64_t took, int64_t ran, int64_t waited)
{
    struct use before = { 1000, 500, 300 };
    struct use after = { 1000 + took, 500 + ran, 300 + waited };

    return use_lost_ns(&before, &after, cores);
}

static void what_the_process_itself_ran_is_not_lost_to_others(void)
{
    CHECK(lost(1, 100, 100, 0) == 0);
    CHECK(lost(1, 100, 100, 90) == 0);  /* its own threads waited for each other */
    CHECK(lost(1, 100, 60, 90) == 40);  /* no more than it did not get */
    CHECK(lost(1, 100, 60, 15) == 15);  /* the rest of the time it had nothing to do */
    CHECK(lost(2, 100, 100, 70) == 70); /* of two cores it got one */
    CHECK(lost(.5, 100, 10, 200) == 0); /* it shares its core with another rank */
    CHECK(lost(1, 100, 120, 50) == 0);
    CHECK(lost(1, 100, 10, -50) == 0); /* a thread has ended */
}

static void steal_is_judged_over_half_a_second(void)
{
    static const int64_t ms = 1000000, tick = 10000000;
    struct steal s = { 0 };

    CHECK(steal_is_due(&s, 5 * ms));
    steal_update(&s, 5 * ms, 1000, tick, 2);
    CHECK(s.share == 0 && !steal_is_due(&s, 504 * ms) && steal_is_due(&s, 505 * ms));
    steal_update(&s, 505 * ms, 1010, tick, 2); /* 100 ms of two cores' 500 */
    CHECK(s.share > .0999 && s.share < .1001);
    CHECK(!steal_is_due(&s, 600 * ms));
    steal_update(&s, 1505 * ms, 1010, tick, 2);
    CHECK(s.share == 0);
}

/* ---- this process */

static atomic_int stop;

static void *spin(void *self)
{
    while (!stop)
        ;
    return self;
}

/* Five threads on one core wait for each other sooner or later; threads come and go in between. */
static void waiting_threads_are_seen(void)
{
    struct disturbance *d = NULL;
    cpu_set_t before, one;
    pthread_t threads[4];
    int64_t waited = 0;

    CHECK(!sched_getaffinity(0, sizeof(before), &before));
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    CHECK(!disturbance_open(1000, &d)); /* so many that all waiting counts */
    for (int tries = 0; tries < 10000 && !waited && disturbance_waits_are_known(); tries++) {
        stop = 0;
        disturbance_begin(d);
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, spin, NULL);
        usleep(1000);
        waited = disturbance_end(d);
        stop = 1;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        CHECK(waited >= 0);
    }
    CHECK(waited > 0 || !disturbance_waits_are_known());
    disturbance_close(d);
    disturbance_close(NULL);
    sched_setaffinity(0, sizeof(before), &before);
}

/* ---- cores */

static void ranks_take_equal_shares_side_by_side(void)
{
    static const int order[] = { 2, 3, 5, 7, 11 };
    cpu_set_t own;

    CHECK(own_cores_share(order, 5, 0, 2, &own) && CPU_COUNT(&own) == 2);
    CHECK(CPU_ISSET(2, &own) && CPU_ISSET(3, &own));
    CHECK(own_cores_share(order, 5, 1, 2, &own) && CPU_COUNT(&own) == 2);
    CHECK(CPU_ISSET(5, &own) && CPU_ISSET(7, &own)); /* 11 is nobody's: shares are equal */
    CHECK(own_cores_share(order, 5, 4, 5, &own) && CPU_COUNT(&own) == 1 && CPU_ISSET(11, &own));
    CHECK(own_cores_share(order, 5, 0, 1, &own) && CPU_COUNT(&own) == 5);
}

static void more_ranks_than_cores_have_no_share(void)
{
    static const int order[] = { 0, 1 };
    cpu_set_t own;

    for (int rank = 0; rank < 3; rank++)
        CHECK(!own_cores_share(order, 2, rank, 3, &own));
}

static struct rank_cores seat(const char *machine, int first, int last)
{
    struct rank_cores s;

    memset(&s, 0, sizeof(s));
    snprintf(s.machine, sizeof(s.machine), "%s", machine);
    for (int i = first; i <= last; i++)
        CPU_SET(i, &s.cores);
    return s;
}

static void a_core_that_several_ranks_may_use_is_in_part_each_ones(void)
{
    struct rank_cores seats[] = { seat("a", 0, 1), seat("a", 0, 1), seat("a", 1, 4),
                                  seat("b", 0, 1) };

    CHECK(fabs(own_cores_count(seats, 4, 0) - (.5 + 1. / 3)) < 1e-9);
    CHECK(fabs(own_cores_count(seats, 4, 2) - (1. / 3 + 3)) < 1e-9);
    CHECK(own_cores_count(seats, 4, 3) == 2);
    CHECK(own_cores_count(seats, 1, 0) == 2);
}

static void without_the_launchers_word_nothing_is_bound(void)
{
    struct topology second_of_two = { 1, 2, 2 };
    cpu_set_t before, after;

    unsetenv(OWN_CORES_VARIABLE);
    CHECK(!sched_getaffinity(0, sizeof(before), &before));
    own_cores_bind(&second_of_two);
    CHECK(!sched_getaffinity(0, sizeof(after), &after) && CPU_EQUAL(&before, &after));
}

static void with_it_every_thread_is_bound_once(void)
{
    struct topology second_of_two = { 1, 2, 2 };
    cpu_set_t before, main_thread, other_thread;
    pthread_t thread;

    CHECK(!sched_getaffinity(0, sizeof(before), &before));
    stop = 0;
    pthread_create(&thread, NULL, spin, NULL);
    setenv(OWN_CORES_VARIABLE, "1", 1);
    own_cores_bind(&second_of_two);
    CHECK(!getenv(OWN_CORES_VARIABLE)); /* children and a second engine are not cut again */
    CHECK(!sched_getaffinity(0, sizeof(main_thread), &main_thread));
    CHECK(!pthread_getaffinity_np(thread, sizeof(other_thread), &other_thread));
    CHECK(CPU_EQUAL(&main_thread, &other_thread));
    CHECK(CPU_COUNT(&main_thread) == (CPU_COUNT(&before) > 1 ? CPU_COUNT(&before) / 2 : 1));
    own_cores_bind(&second_of_two);
    CHECK(!sched_getaffinity(0, sizeof(other_thread), &other_thread));
    CHECK(CPU_EQUAL(&main_thread, &other_thread));
    stop = 1;
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof(before), &before);
}

static void as_many_ranks_as_cores_hold_from_two_to_eight(void)
{
    static const uint32_t expected[][2] = { { 0, 2 }, { 1, 2 }, { 2, 2 }, { 3, 2 },  { 4, 4 },
                                            { 7, 4 }, { 8, 8 }, { 9, 8 }, { 256, 8 } };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK(launch_ranks_on(expected[i][0]) == expected[i][1]);
}

static bool says(const struct findings *found, int at, enum finding_level level, const char *word)
{
    return at < found->count && found->list[at].level == level &&
           strstr(found->list[at].what, word);
}

static void what_the_kernel_does_not_tell_is_said(void)
{
    struct findings found = { .count = 0 };

    doctor_disturbance(true, true, &found);
    CHECK(found.count == 1 && says(&found, 0, FINDING_FINE, "reports what"));
    found.count = 0;
    doctor_disturbance(false, true, &found);
    CHECK(found.count == 1 &&
          says(&found, 0, FINDING_NOTE, "does not report /proc/self/schedstat"));
    found.count = 0;
    doctor_disturbance(true, false, &found);
    CHECK(found.count == 1 && says(&found, 0, FINDING_NOTE, "does not report steal in /proc/stat"));
    found.count = 0;
    doctor_disturbance(false, false, &found);
    CHECK(found.count == 2);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(waiting_is_the_second_number_of_schedstat),
        TEST(stolen_ticks_are_those_of_the_cores_that_count),
        TEST(what_the_process_itself_ran_is_not_lost_to_others),
        TEST(steal_is_judged_over_half_a_second),
        TEST(waiting_threads_are_seen),
        TEST(ranks_take_equal_shares_side_by_side),
        TEST(more_ranks_than_cores_have_no_share),
        TEST(a_core_that_several_ranks_may_use_is_in_part_each_ones),
        TEST(without_the_launchers_word_nothing_is_bound),
        TEST(with_it_every_thread_is_bound_once),
        TEST(as_many_ranks_as_cores_hold_from_two_to_eight),
        TEST(what_the_kernel_does_not_tell_is_said),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
