/* The launcher of a moetune with an MPI: mpirun, on this host and on others. */
#include "launcher.h"

#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool launch_is_rank(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

bool launch_is_later_rank(void)
{
    static const char *const rank_variables[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };

    for (size_t i = 0; i < sizeof(rank_variables) / sizeof(rank_variables[0]); i++)
        if (getenv(rank_variables[i]))
            return atoi(getenv(rank_variables[i])) > 0;
    return false;
}

int launcher_check(struct launch_where *where)
{
    (void)where;
    return OK;
}

int launcher_add_words(const struct launch_where *where, struct command *c)
{
    char *rest;

    c->words[c->count++] = "mpirun";
    if (geteuid() == 0)
        c->words[c->count++] = "--allow-run-as-root";
    c->words[c->count++] = "--bind-to";
    c->words[c->count++] = "none";
    c->words[c->count++] = "--oversubscribe";
    /* Our ranks print what went wrong, so mpirun need not.  Open MPI 4 obeys this; Open MPI 5
     * ignores it, but refuses --quiet. */
    c->words[c->count++] = "--mca";
    c->words[c->count++] = "orte_execute_quiet";
    c->words[c->count++] = "1";
    c->words[c->count++] = "-np";
    c->words[c->count++] = c->ranks;
    if (where->hosts) {
        c->hosts = hosts_format(where->hosts);
        if (!c->hosts)
            return fail(ERR_NOMEM, "the list of hosts");
        c->words[c->count++] = "--host";
        c->words[c->count++] = c->hosts;
    }
    if (!where->arguments)
        return OK;
    /* Blanks separate words.  Quotes have no meaning, because there is no shell. */
    c->more = strdup(where->arguments);
    if (!c->more)
        return fail(ERR_NOMEM, "the launcher's arguments");
    for (char *word = strtok_r(c->more, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (c->count >= LAUNCHER_ARGUMENTS - 1)
            return fail(ERR_ARGUMENT,
                        "--launcher-args has too many words: mpirun gets at most %d in all",
                        LAUNCHER_ARGUMENTS - 1);
        c->words[c->count++] = word;
    }
    return OK;
}

void launcher_exec(const struct command *c)
{
    execvp("mpirun", (char *const *)c->words);
    fprintf(stderr, "moetune: cannot start mpirun: %s (is Open MPI installed? try: make deps)\n",
            strerror(errno));
    _exit(127);
}
