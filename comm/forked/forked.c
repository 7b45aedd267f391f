/* Forks the ranks of a host, and waits until all have ended or one has failed. */
#include "forked.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* After the first failure, the other ranks get this time to end.  When all ranks find the same
 * error, rank 0 prints it, and may come last. */
enum { GRACE_S = 2 };

static void become_rank(int rank, pid_t watcher)
{
    char text[16];
    int nowhere;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != watcher)
        _exit(128 + SIGKILL);
    snprintf(text, sizeof(text), "%d", rank);
    setenv(FORKED_RANK, text, true);
    /* Sets the local rank as launchers of trainers do.  A launcher that started this process may
     * have set these for one rank. */
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("MPI_LOCALRANKID");
    unsetenv("SLURM_LOCALID");
    setenv("LOCAL_RANK", text, true);
    if (!rank)
        return;
    nowhere = open("/dev/null", O_RDONLY);
    dup2(nowhere, STDIN_FILENO);
    close(nowhere);
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Handles SIGALRM, and sets the alarm again: a signal between two calls of waitpid() would
 * interrupt neither. */
static void rearm_alarm(int number)
{
    (void)number;
    alarm(1);
}

/* Waits until all ranks have ended, or one has failed and GRACE_S have passed; gives the exit code.
 * Sets the ranks that have ended to 0 in `started`. */
static int wait_for(pid_t *started, int ranks)
{
    struct sigaction action = { .sa_handler = rearm_alarm };
    pid_t first = started[0], pid;
    int status, code = 0;

    sigaction(SIGALRM, &action, NULL);
    for (;;) {
        pid = waitpid(-1, &status, 0);
        if (pid < 0 && (errno != EINTR || code))
            return code;
        if (pid < 0)
            continue;
        for (int q = 0; q < ranks; q++)
            if (started[q] == pid)
                started[q] = 0;
        code = code ? code : exit_code_of(status);
        if (exit_code_of(status) && (WIFSIGNALED(status) || pid == first))
            return code;
        if (exit_code_of(status))
            alarm(GRACE_S);
    }
}

static void kill_all(const pid_t *started, int ranks)
{
    alarm(0);
    for (int q = 0; q < ranks; q++)
        if (started[q] > 0)
            kill(started[q], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

int forked_start(int ranks)
{
    pid_t watcher = getpid(), *started = calloc((size_t)ranks, sizeof(*started));
    int code;

    fflush(NULL);
    for (int q = 0; started && q < ranks; q++) {
        started[q] = fork();
        if (!started[q]) {
            free(started);
            become_rank(q, watcher);
            return q;
        }
        if (started[q] < 0) {
            kill_all(started, q);
            free(started);
            started = NULL;
        }
    }
    if (!started)
        return -1;
    code = wait_for(started, ranks);
    kill_all(started, ranks);
    _exit(code);
}
