/* Tests the keeper, the process between a supervisor and its launcher, and the lines that pass
 * through it. */
#include "keeper.h"

#include "check.h"
#include "launch.h"
#include "status.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end_itself(const void *self)
{
    raise(*(const int *)self);
    pause();
}

/* In a group of its own, for signals that go to all of one. */
static int keep(void (*become)(const void *self), const void *self)
{
    int status = 0;
    pid_t supervisor = fork(), keeper, ended = 0;

    if (supervisor == 0) {
        setsid();
        keeper = fork();
        if (keeper == 0)
            keeper_become(getppid(), become, self);
        waitpid(keeper, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    }
    for (int ms = 0; ms < 20000 && !ended; ms += 10, usleep(10000))
        ended = waitpid(supervisor, &status, WNOHANG);
    kill(-supervisor, SIGKILL); /* whoever would not end */
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* It has not become the launcher yet, and a signal comes. */
static void a_signal_before_the_launcher_is_there(void)
{
    static const int signals[] = { SIGTERM, SIGINT };

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        CHECK(keep(end_itself, &signals[i]) == 128 + signals[i]);
}

static void leave(const void *self)
{
    _exit(*(const int *)self);
}

/* Reads `count` lines of n, n + 1, ... letters a to z; its exit code is how many were right. */
static pid_t read_lines(int from, int to, size_t n, int count)
{
    pid_t pid = fork();

    if (pid == 0) {
        FILE *lines = fdopen(from, "r");
        int right = 0;

        close(to);
        for (int i = 0; i < count; i++) {
            size_t at = 0;
            int c;

            while ((c = getc(lines)) == 'a' + (int)(at % 26))
                at++;
            right += c == '\n' && at == n + (size_t)i;
        }
        _exit(getc(lines) == EOF ? right : 255);
    }
    close(from);
    return pid;
}

/* Longer ones than a pipe takes at once, too. */
static void orders_of_any_length_reach_ranks(void)
{
    static const size_t lengths[] = { 0, 2045, 2047, 33792, 65534, 300000 };
    enum { LINES = 3 };
    static char line[300001 + LINES];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct launched ranks = { .pid = 0 };
        int ends[2], status = 0;
        bool good = !pipe(ends);
        pid_t pid = read_lines(ends[0], ends[1], lengths[i], LINES);

        ranks.to = ends[1];
        for (size_t more = 0; more < LINES; more++) {
            for (size_t at = 0; at < lengths[i] + more; at++)
                line[at] = (char)('a' + at % 26);
            line[lengths[i] + more] = 0;
            good &= launch_write(&ranks, line) == OK;
        }
        close(ranks.to);
        CHECK(good && waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == LINES);
    }
}

static void the_exit_code_is_the_launchers(void)
{
    const int code = 7;

    CHECK(keep(leave, &code) == code);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_signal_before_the_launcher_is_there),
        TEST(the_exit_code_is_the_launchers),
        TEST(orders_of_any_length_reach_ranks),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
