/* Ranks of this host alone, by fork, for a moetune that was built without an MPI: this very program
 * again, which forks when it opens its world (comm/forked). */
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
    char here[256] = "";
    size_t length;

    gethostname(here, sizeof(here) - 1);
    length = strcspn(here, ".");
    return !strcmp(name, "localhost") || !strcmp(name, here) ||
           (strlen(name) == length && !strncmp(name, here, length));
}

/* Every rank that another launcher started would start ranks of its own. */
static bool started_by_another(void)
{
    static const char *const later[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    bool more = size && atoi(size) > 1;

    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
        more |= getenv(later[i]) && atoi(getenv(later[i])) > 0;
    return more;
}

int launcher_check(struct launch_where *where)
{
    static const char none[] =
        "and this moetune was built without one: build it from source where an MPI is";

    if (started_by_another())
        return fail(ERR_ARGUMENT,
                    "ranks that a launcher starts need an MPI to meet, %s: without "
                    "the launcher it forks its ranks itself",
                    none);
    if (where->arguments)
        return fail(ERR_ARGUMENT, "--launcher-args are for mpirun, which belongs to an MPI, %s",
                    none);
    if (where->hosts && (where->hosts->count > 1 || !is_this_host(where->hosts->list[0].name)))
        return fail(ERR_ARGUMENT, "ranks beyond this host need an MPI, %s", none);
    if (where->ranks_per_node != where->ranks)
        return fail(ERR_ARGUMENT, "ranks on several nodes need an MPI, %s", none);
    if (where->hosts) {
        where->hosts = NULL;
        where->elsewhere = false;
    }
    return OK;
}

int launcher_words(const struct launch_where *where, struct command *c)
{
    (void)where, (void)c;
    return OK;
}

void launcher_become(const struct command *c)
{
    setenv(FORKED_RANKS, c->ranks, true);
    unsetenv(FORKED_RANK);
    execv(c->self, (char *const *)c->words);
    fprintf(stderr, "moetune: cannot start %s: %s\n", c->self, strerror(errno));
    _exit(127);
}
