/* The launcher of a moetune that was built without an MPI: it starts ranks on this host alone.  It
 * runs this program again, which forks its ranks when it opens its world (comm/forked). */
#include "launcher.h"

#include "forked.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool launch_is_rank(void)
{
    return getenv(FORKED_RANKS);
}

bool launch_is_later_rank(void)
{
    const char *rank = getenv(FORKED_RANK);

    return rank && atoi(rank) > 0;
}

static bool is_this_host(const char *name)
{
    char this_host[256] = "";
    size_t length;

    gethostname(this_host, sizeof(this_host) - 1);
    length = strcspn(this_host, ".");
    return !strcmp(name, "localhost") || !strcmp(name, this_host) ||
           (strlen(name) == length && !strncmp(name, this_host, length));
}

/* Did another launcher, as mpirun, start several of these?  Then each would fork ranks of its own.
 */
static bool is_rank_of_other_launcher(void)
{
    static const char *const rank_variables[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    bool several = ranks && atoi(ranks) > 1;

    for (size_t i = 0; i < sizeof(rank_variables) / sizeof(rank_variables[0]); i++)
        several |= getenv(rank_variables[i]) && atoi(getenv(rank_variables[i])) > 0;
    return several;
}

int launcher_check(struct launch_where *where)
{
    static const char no_mpi[] =
        "but this moetune was built without one: build it from source where an MPI is";

    if (is_rank_of_other_launcher())
        return fail(ERR_ARGUMENT,
                    "ranks that a launcher starts need an MPI, %s.  Without a launcher, moetune "
                    "forks its ranks itself",
                    no_mpi);
    if (where->arguments)
        return fail(ERR_ARGUMENT, "--launcher-args are words for mpirun, which needs an MPI, %s",
                    no_mpi);
    if (where->hosts && (where->hosts->count > 1 || !is_this_host(where->hosts->list[0].name)))
        return fail(ERR_ARGUMENT, "ranks on other hosts than this one need an MPI, %s", no_mpi);
    if (where->ranks_per_node != where->ranks)
        return fail(ERR_ARGUMENT, "ranks on several nodes need an MPI, %s", no_mpi);
    if (where->hosts) {
        where->hosts = NULL;
        where->elsewhere = false;
    }
    return OK;
}

int launcher_add_words(const struct launch_where *where, struct command *c)
{
    (void)where, (void)c;
    return OK;
}

void launcher_exec(const struct command *c)
{
    setenv(FORKED_RANKS, c->ranks, true);
    unsetenv(FORKED_RANK);
    execv(c->self, (char *const *)c->words);
    fprintf(stderr, "moetune: cannot start %s: %s\n", c->self, strerror(errno));
    _exit(127);
}
