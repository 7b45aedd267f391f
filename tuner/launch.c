/* fork, exec mpirun, wait; nothing passes through a shell. */
#include "launch.h"

#include "status.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAUNCHER_ARGUMENTS = 16, ARGUMENTS_MAX = 256 };

bool launch_is_rank(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

static volatile sig_atomic_t child;

static void pass_on(int number)
{
    if (child > 0)
        kill((pid_t)child, number);
}

/* mpirun's own arguments.  Ranks are not bound: a stream is a thread, and on one core the
 * communication of a rank could never run beside its compute. */
static int launcher_arguments(int ranks, char *count, size_t count_bytes, const char **out)
{
    int n = 0;

    snprintf(count, count_bytes, "%d", ranks);
    out[n++] = "mpirun";
    if (geteuid() == 0)
        out[n++] = "--allow-run-as-root";
    out[n++] = "--bind-to";
    out[n++] = "none";
    out[n++] = "--oversubscribe";
    out[n++] = "-np";
    out[n++] = count;
    return n;
}

static void become_mpirun(int ranks, char **argv)
{
    static char self[PATH_MAX];
    const char *arguments[LAUNCHER_ARGUMENTS + ARGUMENTS_MAX];
    char count[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int n = launcher_arguments(ranks, count, sizeof(count), arguments);

    /* Should this program be killed outright, mpirun is told to end, and ends the ranks. */
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0UL, 0UL, 0UL);
    if (length > 0) {
        self[length] = 0;
        arguments[n++] = self;
        for (int i = 1; argv[i]; i++)
            arguments[n++] = argv[i];
        arguments[n] = NULL;
        execvp("mpirun", (char *const *)arguments);
    }
    fprintf(stderr, "moetune: cannot start mpirun: %s (is Open MPI installed? try: make deps)\n",
            strerror(errno));
    _exit(127);
}

int launch_ranks(int ranks, char **argv, int *exit_code)
{
    struct sigaction action = { .sa_handler = pass_on };
    int status;
    pid_t pid;
    int n = 0;

    while (argv[n])
        n++;
    if (n >= ARGUMENTS_MAX)
        return fail(ERR_ARGUMENT, "%d arguments: fewer than %d can be passed to ranks", n,
                    ARGUMENTS_MAX);
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return fail(ERR_LAUNCH, "cannot start a process: %s", strerror(errno));
    if (pid == 0)
        become_mpirun(ranks, argv);
    child = pid;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return fail(ERR_LAUNCH, "lost the ranks: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return ERR_LAUNCH;
    if (WIFEXITED(status) && WEXITSTATUS(status) < 128) {
        *exit_code = WEXITSTATUS(status);
        return OK;
    }
    status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    return fail(ERR_LAUNCH, "the ranks ended early: one was killed by signal %d (%s)", status,
                strsignal(status));
}
