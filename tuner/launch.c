/* fork, exec mpirun, wait; nothing passes through a shell. */
#include "launch.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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

static int check_arguments(char **argv)
{
    int n = 0;

    while (argv[n])
        n++;
    return n < ARGUMENTS_MAX
               ? OK
               : fail(ERR_ARGUMENT, "%d arguments: fewer than %d can be passed to ranks", n,
                      ARGUMENTS_MAX);
}

int launch_ranks(int ranks, char **argv, int *exit_code)
{
    struct sigaction action = { .sa_handler = pass_on };
    int status;
    pid_t pid;

    TRY(check_arguments(argv));
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

static void become_spoken_to(int ranks, char **arguments, int input, int output)
{
    setpgid(0, 0);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    become_mpirun(ranks, arguments);
}

int launch_start(int ranks, char **arguments, struct launched *out)
{
    int to[2], from[2];
    pid_t pid;

    TRY(check_arguments(arguments));
    if (pipe2(to, O_CLOEXEC))
        return fail(ERR_LAUNCH, "no pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return fail(ERR_LAUNCH, "no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become_spoken_to(ranks, arguments, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    if (pid < 0) {
        close(to[1]);
        close(from[0]);
        return fail(ERR_LAUNCH, "cannot start a process: %s", strerror(errno));
    }
    signal(SIGPIPE, SIG_IGN);
    *out = (struct launched){ .pid = pid, .to = to[1], .from = from[0] };
    return OK;
}

int launch_write(struct launched *ranks, const char *line)
{
    char text[2048];
    int length = snprintf(text, sizeof(text), "%s\n", line), done = 0;

    while (done < length) {
        ssize_t n = write(ranks->to, text + done, (size_t)(length - done));

        if (n < 0 && errno != EINTR)
            return ERR_LAUNCH;
        done += n > 0 ? (int)n : 0;
    }
    return OK;
}

/* A whole line out of the buffer, if there is one. */
static bool take_line(struct launched *ranks, char *line, size_t size)
{
    char *end = memchr(ranks->buffer, '\n', ranks->buffered);
    size_t length, used;

    if (!end && ranks->buffered < sizeof(ranks->buffer))
        return false;
    length = end ? (size_t)(end - ranks->buffer) : ranks->buffered;
    used = end ? length + 1 : length;
    snprintf(line, size, "%.*s", (int)length, ranks->buffer);
    ranks->buffered -= used;
    memmove(ranks->buffer, ranks->buffer + used, ranks->buffered);
    return true;
}

int launch_read(struct launched *ranks, int timeout_ms, char *line, size_t size)
{
    struct pollfd wait = { .fd = ranks->from, .events = POLLIN };
    ssize_t n;

    if (take_line(ranks, line, size))
        return OK;
    if (poll(&wait, 1, timeout_ms) <= 0) /* nothing yet, or a signal: the caller looks around */
        return UNSUPPORTED;
    n = read(ranks->from, ranks->buffer + ranks->buffered, sizeof(ranks->buffer) - ranks->buffered);
    if (n <= 0)
        return n < 0 && errno == EINTR ? UNSUPPORTED : ERR_LAUNCH;
    ranks->buffered += (size_t)n;
    return take_line(ranks, line, size) ? OK : UNSUPPORTED;
}

static bool gone_within(pid_t pid, int ms, int *status)
{
    for (int waited = 0; waited < ms; waited += 10) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        usleep(10000);
    }
    return false;
}

/* mpirun needs a moment to end its ranks; killed outright it would leave them. */
enum { GENTLE_MS = 10000, TERM_MS = 15000 };

void launch_end(struct launched *ranks, bool gently, char *how, size_t size)
{
    int status = 0;

    if (!ranks->pid)
        return;
    close(ranks->to);
    close(ranks->from);
    if (!gently || !gone_within(ranks->pid, GENTLE_MS, &status)) {
        kill(ranks->pid, SIGTERM);
        if (!gone_within(ranks->pid, TERM_MS, &status)) {
            kill(-ranks->pid, SIGKILL);
            waitpid(ranks->pid, &status, 0);
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) < 128)
        snprintf(how, size, "the ranks ended with exit code %d", WEXITSTATUS(status));
    else
        snprintf(how, size, "a rank was killed by signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128);
    *ranks = (struct launched){ 0 };
}
