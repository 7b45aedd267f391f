/* Runs somebody else's program in a process group of its own, and talks to it through two pipes. */
#include "child.h"

#include "keeper.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_MS = 200, LAST_READ_MS = 10 };

/* A shell reads and writes descriptors of one digit only. */
enum { ITS_INPUT = 8, ITS_OUTPUT = 9, ABOVE_BOTH = 10 };

/* Names a descriptor in the environment: VARIABLE is the path by which whatever the program starts
 * can open it, VARIABLE_FD the number that it has in the program. */
static void name(const char *variable, pid_t owner, int fd, int its_fd)
{
    char value[64], number[96];

    snprintf(value, sizeof(value), "/proc/%ld/fd/%d", (long)owner, fd);
    setenv(variable, value, 1);
    snprintf(number, sizeof(number), "%s_FD", variable);
    snprintf(value, sizeof(value), "%d", its_fd);
    setenv(number, value, 1);
}

/* Unsets a variable that has no value: what this process was started with says nothing of the
 * launch. */
static void pass(const char *variable, const char *value)
{
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

/* What a process needs to become the program. */
struct birth {
    const struct child_job *job;
    pid_t owner;
    int input, output;
};

/* Called by the keeper in its child; never returns. */
static void become(const void *self)
{
    const struct birth *b = self;
    const struct child_job *job = b->job;
    int input = b->input, output = b->output;
    char width[16];

    snprintf(width, sizeof(width), "%" PRIu32, job->window);
    signal(SIGPIPE, SIG_DFL);
    name("MOETUNE_FROM", b->owner, input, ITS_INPUT);
    name("MOETUNE_TO", b->owner, output, ITS_OUTPUT);
    input = fcntl(input, F_DUPFD_CLOEXEC, ABOVE_BOTH);
    output = fcntl(output, F_DUPFD_CLOEXEC, ABOVE_BOTH);
    if (dup2(input, ITS_INPUT) < 0 || dup2(output, ITS_OUTPUT) < 0)
        _exit(126);
    if (job->errors)
        dup2(fileno(job->errors), STDERR_FILENO);
    setenv("MOETUNE_WINDOW", width, 1);
    setenv("MOETUNE_LAYER", job->layer, 1);
    pass("MOETUNE_SPACE", job->space);
    pass("MOETUNE_PLAN", job->plan);
    execl("/bin/sh", "sh", "-c", job->command, (char *)NULL);
    _exit(127);
}

static void close_pipes(struct child *g)
{
    close(g->talk.to);
    close(g->talk.from);
    close(g->its_input);
    close(g->its_output);
}

int child_start(const struct child_job *job, struct child *out)
{
    struct birth birth = { .job = job, .owner = getpid() };
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC))
        return fail(ERR_LAUNCH, "no pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        int rc = fail(ERR_LAUNCH, "no pipe: %s", strerror(errno));

        close(to[0]);
        close(to[1]);
        return rc;
    }
    fcntl(to[1], F_SETFL, O_NONBLOCK); /* who does not read is not waited for */
    birth.input = to[0];
    birth.output = from[1];
    *out = (struct child){ .talk = { .to = to[1], .from = from[0] },
                           .its_input = to[0],
                           .its_output = from[1] };
    fflush(NULL);
    out->talk.pid = fork();
    if (out->talk.pid == 0) {
        setpgid(0, 0);
        keeper_become(birth.owner, become, &birth);
    }
    if (out->talk.pid < 0) {
        close_pipes(out);
        *out = (struct child){ .its_input = -1 };
        return fail(ERR_LAUNCH, "cannot start a process: %s", strerror(errno));
    }
    setpgid(out->talk.pid, out->talk.pid); /* whoever of the two comes first */
    return OK;
}

int child_read(struct child *child, bool about_to_end, char *line, size_t size)
{
    return launch_read(&child->talk, about_to_end ? LAST_READ_MS : READ_MS, line, size);
}

int child_write(struct child *child, const char *line)
{
    return launch_write(&child->talk, line);
}

bool child_ended(const struct child *child)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)child->talk.pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

void child_stop(struct child *g)
{
    if (!g->talk.pid || g->stopped || child_ended(g))
        return;
    g->stopped = true;
    kill(-g->talk.pid, SIGTERM);
}

void child_end(struct child *g, int *exit_code, char *how, size_t size)
{
    int status = 0;

    if (!g->talk.pid)
        return;
    child_stop(g);
    for (int ms = 0; g->stopped && ms < KEEPER_ENDS_MS && !child_ended(g); ms += 10)
        usleep(10000);
    kill(-g->talk.pid, SIGKILL); /* also what it left behind */
    waitpid(g->talk.pid, &status, 0);
    close_pipes(g);
    *exit_code = !g->stopped && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    launch_describe_end(status, "the program", "the program", how, size);
    *g = (struct child){ .its_input = -1 };
}
