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

/* The program finds its pipes at these descriptors.  A shell can only name those of one digit. */
enum { ITS_INPUT = 8, ITS_OUTPUT = 9, ABOVE_BOTH = 10 };

/* Names a descriptor in the environment.  VARIABLE is a path that the program's children can open,
 * and VARIABLE_FD is its number in the program. */
static void name_descriptor(const char *variable, pid_t owner, int fd, int its_fd)
{
    char value[64], number[96];

    snprintf(value, sizeof(value), "/proc/%ld/fd/%d", (long)owner, fd);
    setenv(variable, value, 1);
    snprintf(number, sizeof(number), "%s_FD", variable);
    snprintf(value, sizeof(value), "%d", its_fd);
    setenv(number, value, 1);
}

/* Sets a variable, or unsets it if there is no value: the program must not inherit this process's
 * own. */
static void set_or_unset(const char *variable, const char *value)
{
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

/* What a process needs to become the program.  Everything is borrowed. */
struct program_start {
    const struct child_job *job;
    pid_t owner;
    int input, output;
};

/* Turns the keeper's child into the program.  Never returns. */
static void become_program(const void *self)
{
    const struct program_start *start = self;
    const struct child_job *job = start->job;
    int input = start->input, output = start->output;
    char width[16];

    snprintf(width, sizeof(width), "%" PRIu32, job->window);
    signal(SIGPIPE, SIG_DFL);
    name_descriptor("MOETUNE_FROM", start->owner, input, ITS_INPUT);
    name_descriptor("MOETUNE_TO", start->owner, output, ITS_OUTPUT);
    input = fcntl(input, F_DUPFD_CLOEXEC, ABOVE_BOTH);
    output = fcntl(output, F_DUPFD_CLOEXEC, ABOVE_BOTH);
    if (dup2(input, ITS_INPUT) < 0 || dup2(output, ITS_OUTPUT) < 0)
        _exit(126);
    if (job->standard_error)
        dup2(fileno(job->standard_error), STDERR_FILENO);
    setenv("MOETUNE_WINDOW", width, 1);
    setenv("MOETUNE_LAYER", job->layer, 1);
    set_or_unset("MOETUNE_SPACE", job->space);
    set_or_unset("MOETUNE_PLAN", job->plan);
    execl("/bin/sh", "sh", "-c", job->command, (char *)NULL);
    _exit(127);
}

static void close_pipes(struct child *child)
{
    close(child->keeper.to);
    close(child->keeper.from);
    close(child->its_input);
    close(child->its_output);
}

int child_start(const struct child_job *job, struct child *out)
{
    struct program_start start = { .job = job, .owner = getpid() };
    int input[2], output[2];

    if (pipe2(input, O_CLOEXEC))
        return fail(ERR_LAUNCH, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(output, O_CLOEXEC)) {
        int rc = fail(ERR_LAUNCH, "cannot make a pipe: %s", strerror(errno));

        close(input[0]);
        close(input[1]);
        return rc;
    }
    fcntl(input[1], F_SETFL, O_NONBLOCK); /* do not wait for a program that does not read */
    start.input = input[0];
    start.output = output[1];
    *out = (struct child){ .keeper = { .to = input[1], .from = output[0] },
                           .its_input = input[0],
                           .its_output = output[1] };
    fflush(NULL);
    out->keeper.pid = fork();
    if (out->keeper.pid == 0) {
        setpgid(0, 0);
        keeper_become(start.owner, become_program, &start);
    }
    if (out->keeper.pid < 0) {
        close_pipes(out);
        *out = (struct child){ .its_input = -1 };
        return fail(ERR_LAUNCH, "cannot start a process: %s", strerror(errno));
    }
    setpgid(out->keeper.pid,
            out->keeper.pid); /* both processes set it, because either may come first */
    return OK;
}

int child_read(struct child *child, bool about_to_end, char *line, size_t size)
{
    return launch_read(&child->keeper, about_to_end ? LAST_READ_MS : READ_MS, line, size);
}

int child_write(struct child *child, const char *line)
{
    return launch_write(&child->keeper, line);
}

bool child_ended(const struct child *child)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)child->keeper.pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
           info.si_pid;
}

void child_stop(struct child *child)
{
    if (!child->keeper.pid || child->stopped || child_ended(child))
        return;
    child->stopped = true;
    kill(-child->keeper.pid, SIGTERM);
}

void child_end(struct child *child, int *exit_code, char *how, size_t size)
{
    int status = 0;

    if (!child->keeper.pid)
        return;
    child_stop(child);
    for (int ms = 0; child->stopped && ms < KEEPER_ENDS_MS && !child_ended(child); ms += 10)
        usleep(10000);
    kill(-child->keeper.pid, SIGKILL); /* also processes that it left behind */
    waitpid(child->keeper.pid, &status, 0);
    close_pipes(child);
    *exit_code = !child->stopped && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    launch_describe_end(status, "the program", "the program", how, size);
    *child = (struct child){ .its_input = -1 };
}
