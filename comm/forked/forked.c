/* Forks ranks, and waits until they have ended or one of them has ended badly. */
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

/* For what all ranks find at once: the first of them is to say it. */
enum { LAST_WORDS_S = 2 };

static void become_rank(int rank, pid_t watcher)
{
    char text[16];
    int nowhere;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != watcher)
        _exit(128 + SIGKILL);
    snprintf(text, sizeof(text), "%d", rank);
    setenv(FORKED_RANK, text, true);
    /* The local rank, as launchers of trainers say it.  One that started us may have said something
     * of us alone. */
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

static int end_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Sets the alarm again each time: a signal that comes between two waits ends neither. */
static void wake(int number)
{
    (void)number;
    alarm(1);
}

/* The exit code of them all; those that have ended become 0 in the list. */
static int wait_for(pid_t *started, int ranks)
{
    struct sigaction action = { .sa_handler = wake };
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
        code = code ? code : end_of(status);
        if (end_of(status) && (WIFSIGNALED(status) || pid == first))
            return code;
        if (end_of(status))
            alarm(LAST_WORDS_S);
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
