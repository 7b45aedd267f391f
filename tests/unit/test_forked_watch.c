/* Tests that the process that watches forked ranks ends with them, even if its alarm goes off
 * between two waits. */
#include "check.h"

#include <sys/types.h>
#include <sys/wait.h>

static pid_t wait_late(pid_t pid, int *status, int flags);
#define waitpid wait_late
#define forked_start start_ranks /* a build without an MPI has the other one, too */
#include "../../comm/forked/forked.c"
#undef waitpid

/* What is due comes before the wait begins. */
static pid_t wait_late(pid_t pid, int *status, int flags)
{
    if (alarm(0))
        raise(SIGALRM);
    return waitpid(pid, status, flags);
}

/* The exit code of ranks of which the last one fails and the others hang. */
static int code_of_ranks_that_hang(void)
{
    pid_t watcher = fork();
    int status = 0;

    if (!watcher) {
        if (start_ranks(3) == 2)
            _exit(7);
        for (;;)
            pause();
    }
    for (int i = 0; i < 600; i++) {
        if (waitpid(watcher, &status, WNOHANG))
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        usleep(100000);
    }
    kill(watcher, SIGKILL);
    return -1;
}

static void an_alarm_that_comes_too_early_is_not_lost(void)
{
    CHECK(code_of_ranks_that_hang() == 7);
}

int main(void)
{
    static const struct test tests[] = { TEST(an_alarm_that_comes_too_early_is_not_lost) };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
