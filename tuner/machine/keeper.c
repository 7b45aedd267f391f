/* The keeper: starts a launcher, waits for it, adopts the processes that it leaves behind, and
 * kills them. */
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
/* How long left-over daemons may take to end by themselves, and killed processes to disappear. */
enum { GRACE_MS = 2000, GONE_MS = 5000 };

static volatile sig_atomic_t launcher, is_asked_to_end;

static void on_signal(int number)
{
    if (number == SIGALRM) {
        kill(launcher, SIGKILL);
        return;
    }
    kill(launcher, number);
    if (number == SIGTERM) {
        is_asked_to_end = true;
        alarm(FORCE_S);
    }
}

static pid_t parent_of(const char *process)
{
    char path[300], line[512] = "";
    const char *after_name;
    FILE *file;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%s/stat", process);
    file = fopen(path, "r");
    if (!file)
        return 0;
    /* "12 (a name) S 11 ..." */
    after_name = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    if (after_name && sscanf(after_name, ") %*c %d", &parent) != 1)
        parent = 0;
    fclose(file);
    return parent;
}

static void kill_children(void)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;

    while (processes && (entry = readdir(processes)))
        if (atoi(entry->d_name) > 0 && parent_of(entry->d_name) == getpid())
            kill(atoi(entry->d_name), SIGKILL);
    if (processes)
        closedir(processes);
}

/* Ends the processes that the launcher left behind: they have become children of this process. */
static void kill_leftovers(void)
{
    int grace_ms = is_asked_to_end ? 0 : GRACE_MS;

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

/* A batch system may send these signals to every process of a job.  The supervisor acts on them, so
 * the keeper ignores them; the launcher has the actions that it would have without a keeper. */
static const int ignored_signals[] = { SIGHUP, SIGUSR1 };
enum { IGNORED_SIGNALS = sizeof(ignored_signals) / sizeof(ignored_signals[0]) };

static const int caught_signals[] = { SIGINT, SIGTERM, SIGALRM };
enum { CAUGHT_SIGNALS = sizeof(caught_signals) / sizeof(caught_signals[0]) };

void keeper_become(pid_t supervisor, void (*become)(const void *self), const void *self)
{
    struct sigaction action = { .sa_handler = on_signal };
    void (*old_actions[IGNORED_SIGNALS])(int);
    sigset_t every_signal, old_mask;
    int status = 0, dev_null;

    sigfillset(&every_signal);
    sigprocmask(SIG_BLOCK, &every_signal,
                &old_mask); /* until `launcher` is known, to which handlers forward them */
    prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0UL, 0UL, 0UL);
    for (int i = 0; i < IGNORED_SIGNALS; i++)
        old_actions[i] = signal(ignored_signals[i], SIG_IGN);
    for (int i = 0; i < CAUGHT_SIGNALS; i++)
        sigaction(caught_signals[i], &action, NULL);
    if (getppid() != supervisor)
        _exit(128 + SIGTERM);
    launcher = fork();
    if (launcher == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0UL, 0UL, 0UL);
        for (int i = 0; i < IGNORED_SIGNALS; i++)
            signal(ignored_signals[i], old_actions[i] == SIG_IGN ? SIG_IGN : SIG_DFL);
        /* Until it has become the launcher it would forward signals to process 0: to its whole
         * group, this keeper included, for ever. */
        for (int i = 0; i < CAUGHT_SIGNALS; i++)
            signal(caught_signals[i], SIG_DFL);
        sigprocmask(SIG_SETMASK, &old_mask, NULL);
        become(self);
    }
    if (launcher < 0)
        _exit(127);
    /* Close what the supervisor has open: its pipes and its lock must not stay open because of this
     * process. */
    dev_null = open("/dev/null", O_RDWR);
    dup2(dev_null, STDIN_FILENO);
    dup2(dev_null, STDOUT_FILENO);
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        close(fd);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    while (waitpid((pid_t)launcher, &status, 0) < 0 && errno == EINTR)
        ;
    kill_leftovers();
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
