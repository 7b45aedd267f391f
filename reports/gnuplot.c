/* Runs gnuplot in a few child processes, without a shell, and sends them the scripts' names. */
#include "gnuplot.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN_MAX = 4, SCRIPTS_PER_CHILD = 8 };

struct gnuplot_child {
    pid_t pid;
    FILE *errors;   /* its standard output and error */
    FILE *commands; /* its standard input: what to draw */
};

struct gnuplot {
    const char *folder;
    const char *format;
    size_t child_limit, child_count; /* processes that may run; that were started */
    size_t script_count;             /* so far */
    struct gnuplot_child children[CHILDREN_MAX];
    struct sigaction
        sigpipe_before; /* SIGPIPE is ignored: a process that died is found by its exit code */
};

/* Turns the child process into gnuplot; never returns. */
static void become_gnuplot(const struct gnuplot *g, int commands, FILE *errors)
{
    char format[32];
    /* -d: without the user's own settings */
    char *const arguments[] = { "gnuplot", "-d", "-e", format, "-", NULL };

    snprintf(format, sizeof(format), "format='%s'", g->format);
    sigaction(SIGPIPE, &g->sigpipe_before, NULL);
    if (dup2(commands, STDIN_FILENO) < 0 || dup2(fileno(errors), STDERR_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || chdir(g->folder))
        _exit(126);
    /* Numbers are written with points, whatever the user's language. */
    setenv("LC_ALL", "C.UTF-8", 1);
    execvp("gnuplot", arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

static int start_child(const struct gnuplot *g, struct gnuplot_child *out)
{
    struct gnuplot_child child = { .pid = -1, .errors = tmpfile() };
    int pipe_ends[2] = { -1, -1 };

    fflush(NULL);
    if (child.errors && !pipe2(pipe_ends, O_CLOEXEC) &&
        (child.commands = fdopen(pipe_ends[1], "w")) != NULL)
        child.pid = fork();
    if (child.pid == 0)
        become_gnuplot(g, pipe_ends[0], child.errors);
    if (pipe_ends[0] >= 0)
        close(pipe_ends[0]);
    if (child.pid > 0) {
        *out = child;
        return OK;
    }
    if (child.commands)
        fclose(child.commands);
    if (child.errors)
        fclose(child.errors);
    return fail(ERR_IO, "gnuplot cannot be started: %s", strerror(errno));
}

static int end_child(struct gnuplot_child *child, const char *folder)
{
    char line[400], last[400] = "it failed without a message";
    int status = 0;

    fclose(child->commands); /* nothing more to draw */
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    /* gnuplot's last line that is not empty is its error message. */
    rewind(child->errors);
    while (fgets(line, sizeof(line), child->errors)) {
        line[strcspn(line, "\n")] = 0;
        if (strspn(line, " \t^") != strlen(line))
            snprintf(last, sizeof(last), "%s", line);
    }
    fclose(child->errors);
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return fail(ERR_IO,
                    "gnuplot is not installed (Debian: apt-get install gnuplot-nox), so there are "
                    "no pictures; data and scripts of the plots are in %s",
                    folder);
    return fail(ERR_IO, "gnuplot: %s", last);
}

int gnuplot_open(const char *folder, const char *format, size_t expected, struct gnuplot **out)
{
    struct gnuplot *g = calloc(1, sizeof(*g));
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t core_limit = cores < 1 ? 1 : cores > CHILDREN_MAX ? CHILDREN_MAX : (size_t)cores;
    size_t useful = (expected + SCRIPTS_PER_CHILD - 1) / SCRIPTS_PER_CHILD;

    if (!g)
        return fail(ERR_NOMEM, "the processes of gnuplot");
    g->folder = folder;
    g->format = format;
    g->child_limit = useful < core_limit ? useful : core_limit;
    sigaction(SIGPIPE, &ignore, &g->sigpipe_before);
    *out = g;
    return OK;
}

int gnuplot_draw(struct gnuplot *g, const char *name)
{
    size_t child = g->script_count++ % g->child_limit;

    if (child == g->child_count) {
        TRY(start_child(g, &g->children[child]));
        g->child_count++;
    }
    fprintf(g->children[child].commands, "load '%s.gp'\n", name);
    fflush(g->children[child].commands);
    return OK;
}

int gnuplot_close(struct gnuplot *g)
{
    int rc = OK;

    for (size_t i = 0; i < g->child_count; i++) {
        int ended;

        log_enable(!rc); /* one message is enough: they are alike */
        ended = end_child(&g->children[i], g->folder);
        rc = rc ? rc : ended;
    }
    log_enable(true);
    sigaction(SIGPIPE, &g->sigpipe_before, NULL);
    free(g);
    return rc;
}
