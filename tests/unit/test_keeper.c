/* The process between a supervisor and its launcher. */
#include "keeper.h"

#include "check.h"

#include <signal.h>
#include <stddef.h>
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
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
