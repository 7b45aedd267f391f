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

/* The exit code of a process that a signal ended, as shells and mpirun give it. */
enum { SIGNAL_CODE = 128 };

static void become_rank(int rank, pid_t watcher)
{
    char number[16];
    int empty_input;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
    /* If the parent died before prctl(), no signal comes, and this process has another parent. */
    if (getppid() != watcher)
        _exit(SIGNAL_CODE + SIGKILL);
    snprintf(number, sizeof(number), "%d", rank);
    setenv(FORKED_RANK, number, true);
    /* Sets the local rank as launchers of trainers do.  A launcher that started this process may
     * have set these for one rank. */
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("MPI_LOCALRANKID");
    unsetenv("SLURM_LOCALID");
    setenv("LOCAL_RANK", number, true);
    if (rank == 0) /* rank 0 keeps the input of the program */
        return;
    empty_input = open("/dev/null", O_RDONLY);
    dup2(empty_input, STDIN_FILENO);
    close(empty_input);
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? SIGNAL_CODE + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Handles SIGALRM, and sets the alarm again: a signal between two calls of waitpid() would
 * interrupt neither. */
static void rearm_alarm(int number)
{
    (void)number;
    alarm(1);
}

/* Waits until all ranks have ended, or one has failed and GRACE_S have passed; gives the exit code.
 * Sets the ranks that have ended to 0 in `pids`. */
static int wait_for_ranks(pid_t *pids, int ranks)
{
    struct sigaction action = { .sa_handler = rearm_alarm };
    pid_t rank0 = pids[0], ended;
    int status, first_failure = 0;

    sigaction(SIGALRM, &action, NULL);
    for (;;) {
        ended = waitpid(-1, &status, 0);
        if (ended < 0) {
            /* The alarm interrupts a wait only after a failure: then GRACE_S have passed.  Any
             * other error means that no rank is left. */
            if (errno != EINTR || first_failure)
                return first_failure;
            continue; /* another signal */
        }
        for (int q = 0; q < ranks; q++)
            if (pids[q] == ended)
                pids[q] = 0;
        if (!exit_code_of(status))
            continue;
        if (!first_failure)
            first_failure = exit_code_of(status);
        /* A killed rank tells the others nothing, so they may wait for it; and once rank 0 has
         * ended, nobody is left who prints.  Otherwise rank 0 gets the time to print the error. */
        if (WIFSIGNALED(status) || ended == rank0)
            return first_failure;
        alarm(GRACE_S);
    }
}

/* Kills the ranks that have not ended, and waits for them. */
static void kill_ranks(const pid_t *pids, int ranks)
{
    alarm(0);
    for (int q = 0; q < ranks; q++)
        if (pids[q] > 0)
            kill(pids[q], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

int forked_start(int ranks)
{
    pid_t watcher = getpid(), *pids = calloc((size_t)ranks, sizeof(*pids));
    int code;

    fflush(NULL); /* else each rank would write what is buffered here */
    if (!pids)
        return -1;
    for (int q = 0; q < ranks; q++) {
        pids[q] = fork();
        if (pids[q] == 0) {
            free(pids);
            become_rank(q, watcher);
            return q;
        }
        if (pids[q] < 0) {
            kill_ranks(pids, q);
            free(pids);
            return -1;
        }
    }
    code = wait_for_ranks(pids, ranks);
    kill_ranks(pids, ranks);
    _exit(code);
}
