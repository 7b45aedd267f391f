/* Starts ranks through the launcher of launcher.h, forwards their output, waits for them, and names
 * hosts that cannot be reached. */
#include "launch.h"

#include "allowance.h"
#include "keeper.h"
#include "launcher.h"
#include "own_cores.h"
#include "status.h"
#include "verb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 4096 };
/* launch_reach(): hosts that are visited at once, the time of one visit, and failed second visits.
 */
enum { VISITS = 32, VISIT_MS = 30000, SECOND_VISITS = 3 };

void launch_on_stop(void (*handler)(int number))
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = handler };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

static volatile sig_atomic_t running_keeper;

static void forward_signal(int number)
{
    if (running_keeper > 0)
        kill((pid_t)running_keeper, number);
}

static void command_free(struct command *c)
{
    free(c->hosts);
    free(c->more);
    free(c);
}

/* Does the user choose the cores of ranks?  Then moetune binds none. */
static bool user_chooses_cores(const char *arguments)
{
    static const char *const words[] = { "bind", "map-by", "cpu", "rankfile", "-rf" };

    for (size_t i = 0; arguments && i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(arguments, words[i]))
            return true;
    return false;
}

/* Makes the command line.  The launcher never binds ranks: on other hosts and in an allocation
 * their owners decide that, and on this machine ranks bind themselves, once they know that they
 * compute on cores. */
static int command_make(const struct launch_where *where, char **argv, struct command **out)
{
    struct command *c = calloc(1, sizeof(*c));
    ssize_t length;
    int argument = 1, rc;

    if (!c)
        return fail(ERR_NOMEM, "the launcher's arguments");
    snprintf(c->ranks, sizeof(c->ranks), "%u", where->ranks);
    c->bind = !where->elsewhere && !user_chooses_cores(where->arguments);
    TRY_OUT(launcher_add_words(where, c));
    length = readlink("/proc/self/exe", c->self, sizeof(c->self) - 1);
    if (length <= 0) {
        rc = fail(ERR_LAUNCH, "cannot read the path of this program (/proc/self/exe): %s",
                  strerror(errno));
        goto out;
    }
    c->words[c->count++] = c->self;
    for (; argument < ARGUMENTS_MAX && argv[argument]; argument++)
        c->words[c->count++] = argv[argument];
    if (argv[argument]) {
        rc =
            fail(ERR_ARGUMENT, "the command line has more than %d arguments; ranks cannot get more",
                 ARGUMENTS_MAX);
        goto out;
    }
    *out = c;
    return OK;
out:
    command_free(c);
    return rc;
}

/* OpenBLAS starts a thread for each core before main() begins, and each spins for a tenth of a
 * second.  Ranks use none of them (blas_stay_in_thread()).  So ranks on this machine get the
 * variable BLAS_THREADS with 1, unless the user has set it.  BLAS_THREADS_ARE_OURS marks that
 * moetune set it. */
#define BLAS_THREADS "OPENBLAS_NUM_THREADS"
#define BLAS_THREADS_ARE_OURS "MOETUNE_ONE_THREAD"

static void start_without_blas_threads(const struct command *c)
{
    bool is_set = getenv(BLAS_THREADS) != NULL;

    for (int i = 0; i < c->count; i++) /* mpirun -x sets variables, too */
        is_set |= strstr(c->words[i], BLAS_THREADS) != NULL;
    if (is_set)
        return;
    setenv(BLAS_THREADS, "1", true);
    setenv(BLAS_THREADS_ARE_OURS, "1", true);
}

void launch_restore_environment(void)
{
    if (!getenv(BLAS_THREADS_ARE_OURS))
        return;
    unsetenv(BLAS_THREADS);
    unsetenv(BLAS_THREADS_ARE_OURS);
}

static void become_launcher(const void *self)
{
    const struct command *c = self;

    start_without_blas_threads(c);
    if (c->bind)
        setenv(OWN_CORES_VARIABLE, "1", true);
    else
        unsetenv(OWN_CORES_VARIABLE);
    launcher_exec(c);
}

/* A launcher passes on a rank's exit code, or 128 + the signal that killed one. */
void launch_describe_end(int status, const char *one, const char *all, char *how, size_t size)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    if (code > 128 && code < 128 + NSIG)
        snprintf(how, size, "%s was killed by signal %d (%s)", one, code - 128,
                 strsignal(code - 128));
    else
        snprintf(how, size, "%s ended with exit code %d", all, code);
}

/* Starts the keeper, which starts the launcher.  `streams`: its input, output and errors; it then
 * has a process group of its own, which no interrupt from the terminal reaches.  streams NULL: it
 * shares the caller's terminal; only its output goes to `output`, unless that is -1. */
static int start_keeper(const struct launch_where *where, char **argv, const int streams[3],
                        int output, pid_t *out)
{
    pid_t supervisor = getpid(), pid;
    struct command *command = NULL;

    TRY(command_make(where, argv, &command));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (streams) {
            setpgid(0, 0);
            for (int i = 0; i < 3; i++)
                dup2(streams[i], i);
            signal(SIGPIPE, SIG_DFL);
        } else if (output >= 0) {
            dup2(output, STDOUT_FILENO);
        }
        keeper_become(supervisor, become_launcher, command);
    }
    command_free(command);
    *out = pid;
    return pid < 0 ? fail(ERR_LAUNCH, "cannot start a process: %s", strerror(errno)) : OK;
}

static void describe_ranks(int status, char *how, size_t size)
{
    launch_describe_end(status, "a rank", "the ranks", how, size);
}

/* Copies what is ready in the pipe `from` to standard output: > 0 if that was something, 0 at the
 * end. If a write fails, *write_error is its errno, and the bytes are dropped: ranks would wait on
 * a full pipe. */
static ssize_t forward_output(int from, int *write_error)
{
    char bytes[16384];
    ssize_t count = read(from, bytes, sizeof(bytes)), written = 0;

    while (written < count && !*write_error) {
        ssize_t wrote = write(STDOUT_FILENO, bytes + written, (size_t)(count - written));

        if (wrote < 0 && errno != EINTR)
            *write_error = errno;
        written += wrote > 0 ? wrote : 0;
    }
    return count < 0 && errno == EINTR ? 1 : count;
}

/* Forwards output until the ranks have ended, not until the pipe's end: processes that they left
 * behind may hold the pipe open for longer. */
static int forward_all_output(pid_t pid, int from, int *write_error, int *status)
{
    struct pollfd wait = { .fd = from, .events = POLLIN };
    bool has_ended = false, is_open = from >= 0;

    while (is_open && !has_ended) {
        if (poll(&wait, 1, 100) > 0)
            is_open = forward_output(from, write_error) > 0;
        has_ended = waitpid(pid, status, WNOHANG) == pid;
    }
    while (is_open && poll(&wait, 1, 0) > 0)
        is_open = forward_output(from, write_error) > 0;
    while (!has_ended && waitpid(pid, status, 0) < 0)
        if (errno != EINTR)
            return fail(ERR_LAUNCH, "cannot wait for the ranks: %s", strerror(errno));
    return OK;
}

/* Runs ranks to their end.  Output that does not go to a terminal passes through this process,
 * because a launcher does not report that it could not write it. */
static int run_ranks(const struct launch_where *where, char **argv, int *exit_code)
{
    struct sigaction action = { .sa_handler = forward_signal };
    int output[2] = { -1, -1 }, status, write_error = 0, rc;
    char how[128];
    pid_t pid;

    if (!isatty(STDOUT_FILENO) && pipe2(output, O_CLOEXEC))
        return fail(ERR_LAUNCH, "cannot open a pipe to the ranks: %s", strerror(errno));
    rc = start_keeper(where, argv, NULL, output[1], &pid);
    if (output[1] >= 0)
        close(output[1]);
    if (!rc) {
        running_keeper = pid;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        rc = forward_all_output(pid, output[0], &write_error, &status);
    }
    if (output[0] >= 0)
        close(output[0]);
    TRY(rc);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return ERR_LAUNCH;
    if (WIFEXITED(status) && WEXITSTATUS(status) < 128) {
        *exit_code = WEXITSTATUS(status);
        return *exit_code || !write_error
                   ? OK
                   : fail(ERR_IO, "cannot write to standard output: %s", strerror(write_error));
    }
    describe_ranks(status, how, sizeof(how));
    return fail(ERR_LAUNCH, "%s", how);
}

int launch_start(const struct launch_where *where, char **arguments, struct launched *out)
{
    int input[2], output[2], rc;
    pid_t pid;

    if (pipe2(input, O_CLOEXEC))
        return fail(ERR_LAUNCH, "cannot open a pipe to the ranks: %s", strerror(errno));
    if (pipe2(output, O_CLOEXEC)) {
        rc = fail(ERR_LAUNCH, "cannot open a pipe to the ranks: %s", strerror(errno));
        close(input[0]);
        close(input[1]);
        return rc;
    }
    rc = start_keeper(where, arguments, (const int[]){ input[0], output[1], STDERR_FILENO }, -1,
                      &pid);
    close(input[0]);
    close(output[1]);
    if (rc) {
        close(input[1]);
        close(output[0]);
        return rc;
    }
    signal(SIGPIPE, SIG_IGN);
    *out = (struct launched){ .pid = pid, .to = input[1], .from = output[0] };
    return OK;
}

int launch_write(struct launched *ranks, const char *line)
{
    size_t length = strlen(line), done = 0;

    while (done <= length) { /* the line's end is the last byte */
        struct iovec parts[] = { { (void *)(line + done), length - done }, { (void *)"\n", 1 } };
        ssize_t n = writev(ranks->to, parts, 2);

        if (n < 0 && errno != EINTR)
            return ERR_LAUNCH;
        done += n > 0 ? (size_t)n : 0;
    }
    return OK;
}

/* Moves the first whole line out of the buffer, if there is one; a full buffer counts as a line. */
static bool pop_line(struct launched *ranks, char *line, size_t size)
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
    ssize_t count;

    if (pop_line(ranks, line, size))
        return OK;
    if (poll(&wait, 1, timeout_ms) <= 0) /* nothing yet, or a signal, which the caller checks */
        return UNSUPPORTED;
    count =
        read(ranks->from, ranks->buffer + ranks->buffered, sizeof(ranks->buffer) - ranks->buffered);
    if (count <= 0)
        return count < 0 && errno == EINTR ? UNSUPPORTED : ERR_LAUNCH;
    ranks->buffered += (size_t)count;
    return pop_line(ranks, line, size) ? OK : UNSUPPORTED;
}

static bool process_ends_within(pid_t pid, int ms, int *status)
{
    for (int waited = 0; waited < ms; waited += 10) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        usleep(10000);
    }
    return false;
}

enum { GENTLE_MS = 10000 };

static void end_keeper(pid_t pid, int *status)
{
    kill(pid, SIGTERM);
    if (!process_ends_within(pid, KEEPER_ENDS_MS, status)) {
        kill(-pid, SIGKILL);
        waitpid(pid, status, 0);
    }
}

void launch_end(struct launched *ranks, bool gently, char *how, size_t size)
{
    int status = 0;

    if (!ranks->pid)
        return;
    close(ranks->to);
    close(ranks->from);
    if (!gently || !process_ends_within(ranks->pid, GENTLE_MS, &status))
        end_keeper(ranks->pid, &status);
    if (how)
        describe_ranks(status, how, size);
    *ranks = (struct launched){ 0 };
}

/* ---- where ranks run */

/* How many ranks each host gets when hosts are filled one after the other; 0: they differ. */
static uint32_t ranks_per_host(const struct hosts *hosts, uint32_t ranks)
{
    uint32_t first_slots = hosts->list[0].slots;

    if (ranks <= first_slots)
        return ranks;
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->list[i].slots != first_slots)
            return 0;
    return ranks % first_slots ? 0 : first_slots;
}

uint32_t launch_ranks_on(uint32_t cores)
{
    uint32_t ranks = 2;

    while (2 * ranks <= cores && ranks < 8)
        ranks *= 2;
    return ranks;
}

int launch_place(const char *hosts_given, uint32_t ranks_given, const char *arguments,
                 uint32_t ranks_here, struct hosts *hosts, struct launch_where *out)
{
    uint32_t ranks = ranks_given ? ranks_given : ranks_here;
    int rc;

    if (!ranks)
        ranks = launch_ranks_on((uint32_t)allowance_cores());
    *hosts = (struct hosts){ .count = 0 };
    *out = (struct launch_where){ .ranks = ranks, .arguments = arguments };
    out->ranks_per_node = out->ranks;
    out->elsewhere = hosts_given || slurm_job();
    if (hosts_given) {
        TRY(hosts_read(hosts_given, hosts));
        rc = ranks_given <= hosts->slots
                 ? OK
                 : fail(ERR_ARGUMENT, "--ranks %u: the hosts have room for %u (HOST:RANKS)",
                        ranks_given, hosts->slots);
        out->ranks = ranks_given ? ranks_given : hosts->slots;
        out->ranks_per_node = ranks_per_host(hosts, out->ranks);
        out->hosts = hosts;
    } else {
        rc = slurm_ranks(ranks_given, &out->ranks, &out->ranks_per_node);
    }
    if (!rc)
        rc = launcher_check(out);
    if (!rc && out->ranks > RANKS_MAX)
        rc = fail(ERR_ARGUMENT, "--ranks %u: moetune starts at most %d", out->ranks, RANKS_MAX);
    if (rc)
        hosts_free(hosts);
    return rc;
}

/* Starts `moetune --version` on one host alone, without its output: launch_reach() prints a clearer
 * message.  0: it could not be started. */
static pid_t start_visit(const struct launch_where *where, size_t index)
{
    char *arguments[] = { "moetune", "--version", NULL };
    struct hosts host = { .list = &where->hosts->list[index], .count = 1, .slots = 1 };
    struct launch_where visit = { .ranks = 1, .hosts = &host, .arguments = where->arguments };
    int dev_null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = 0;

    if (start_keeper(&visit, arguments, (const int[]){ dev_null, dev_null, dev_null }, -1, &pid))
        pid = 0;
    close(dev_null);
    return pid;
}

enum { VISIT_OK, VISIT_FAILED, VISIT_TIMED_OUT };

static int finish_visit(pid_t pid)
{
    int status = 0;

    if (pid <= 0)
        return VISIT_FAILED;
    if (process_ends_within(pid, VISIT_MS, &status))
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? VISIT_OK : VISIT_FAILED;
    end_keeper(pid, &status);
    return VISIT_TIMED_OUT;
}

/* Visits hosts side by side.  Launchers that start and end at the same time on one machine may
 * fail: Open MPI's removes the folder in which the other one just makes its own.  7 of 450 failed
 * that ran three at a time.  So a host whose visit failed is visited once more, alone.  After
 * SECOND_VISITS such visits failed, too, a whole network may be down, and there are no more. */
int launch_reach(const struct launch_where *where)
{
    size_t count = where->hosts ? where->hosts->count : 0;
    int rc = OK, failed_again = 0;

    for (size_t begin = 0; begin < count; begin += VISITS) {
        size_t batch = count - begin < VISITS ? count - begin : VISITS;
        int outcomes[VISITS];
        pid_t pids[VISITS];

        for (size_t i = 0; i < batch; i++)
            pids[i] = start_visit(where, begin + i);
        for (size_t i = 0; i < batch; i++)
            outcomes[i] = finish_visit(pids[i]);
        for (size_t i = 0; i < batch; i++) {
            if (outcomes[i] == VISIT_FAILED && failed_again < SECOND_VISITS) {
                outcomes[i] = finish_visit(start_visit(where, begin + i));
                failed_again += outcomes[i] != VISIT_OK;
            }
            if (outcomes[i] != VISIT_OK)
                rc = fail(ERR_LAUNCH,
                          "host %s cannot be reached, or has no moetune at the same path: try "
                          "mpirun --host %s:1 -np 1 moetune --version",
                          where->hosts->list[begin + i].name, where->hosts->list[begin + i].name);
        }
    }
    return rc;
}

int launch_verb(const struct launch_where *where, char **argv)
{
    int code, rc = run_ranks(where, argv, &code);

    if (rc == ERR_IO) /* the ranks are not to blame */
        return rc;
    if (rc || code == 1)
        launch_reach(where);
    return rc ? rc : EXIT_CODE_OF_RANKS + code;
}
