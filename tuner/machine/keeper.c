/* Starts a launcher from a process in between, which waits for it, adopts what it leaves behind,
 * and kills that. */
#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Open MPI 4.1 may wait for its own threads for ever when it is ended while ranks start. */
enum { FORCE_S = 8 };
/* What a launcher that ended by itself leaves (daemons on their way out), and what was killed. */
enum { GRACE_MS = 2000, GONE_MS = 5000 };

static volatile sig_atomic_t launcher, told;

static void on_signal(int number)
{
    if (number == SIGALRM) {
        kill(launcher, SIGKILL);
        return;
    }
    kill(launcher, number);
    if (number == SIGTERM) {
        told = true;
        alarm(FORCE_S);
    }
}

static pid_t parent_of(const char *process)
{
    char path[300], line[512] = "";
    const char *after;
    FILE *file;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%s/stat", process);
    file = fopen(path, "r");
    if (!file)
        return 0;
    /* "12 (a name) S 11 ..." */
    after = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    if (after && sscanf(after, ") %*c %d", &parent) != 1)
        parent = 0;
    fclose(file);
    return parent;
}

static void kill_children(void)
{
    DIR *all = opendir("/proc");
    const struct dirent *entry;

    while (all && (entry = readdir(all)))
        if (atoi(entry->d_name) > 0 && parent_of(entry->d_name) == getpid())
            kill(atoi(entry->d_name), SIGKILL);
    if (all)
        closedir(all);
}

/* Orphans below this process become its children. */
static void end_the_rest(void)
{
    int grace_ms = told ? 0 : GRACE_MS;

    for (int ms = 0; ms < grace_ms + GONE_MS; ms += 10) {
        pid_t ended;

        if (ms >= grace_ms)
            kill_children();
        do
            ended = waitpid(-1, NULL, WNOHANG);
        while (ended > 0);
        if (ended < 0)
            return;
        usleep(10000);
    }
}

/* A batch system may send these to every process of a job: they are for the supervisor.  The
 * launcher gets them as it would without this process. */
static const int others[] = { SIGHUP, SIGUSR1 };
enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static const int caught[] = { SIGINT, SIGTERM, SIGALRM };
enum { CAUGHT = sizeof(caught) / sizeof(caught[0]) };

void keeper_become(pid_t supervisor, void (*become)(const void *self), const void *self)
{
    struct sigaction action = { .sa_handler = on_signal };
    void (*before[OTHERS])(int);
    sigset_t all, old;
    int status = 0, nowhere;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old); /* until it is known who is to hear of them */
    prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0UL, 0UL, 0UL);
    for (int i = 0; i < OTHERS; i++)
        before[i] = signal(others[i], SIG_IGN);
    for (int i = 0; i < CAUGHT; i++)
        sigaction(caught[i], &action, NULL);
    if (getppid() != supervisor)
        _exit(128 + SIGTERM);
    launcher = fork();
    if (launcher == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0UL, 0UL, 0UL);
        for (int i = 0; i < OTHERS; i++)
            signal(others[i], before[i] == SIG_IGN ? SIG_IGN : SIG_DFL);
        /* Until it has become the launcher it would pass signals on, to nobody's process 0: to its
         * whole group, this keeper included, for ever. */
        for (int i = 0; i < CAUGHT; i++)
            signal(caught[i], SIG_DFL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        become(self);
    }
    if (launcher < 0)
        _exit(127);
    /* What the supervisor has open is not to stay open because of this process: pipes, and a lock.
     */
    nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
    while (waitpid((pid_t)launcher, &status, 0) < 0 && errno == EINTR)
        ;
    end_the_rest();
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
