/* Binds the threads of a rank to its cores, and counts the ranks that may use the same cores. */
#include "own_cores.h"

#include "allowance.h"
#include "status.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- binding */

/* The number of the first processor (hardware thread) of this processor's core; its own number
 * where Linux does not say.  Two threads of one core often have numbers far apart: ranks that used
 * consecutive numbers would share every core. */
static int core_of(int processor)
{
    char path[96];
    FILE *file;
    int first = processor;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             processor);
    file = fopen(path, "r");
    if (file && fscanf(file, "%d", &first) != 1)
        first = processor;
    if (file)
        fclose(file);
    return first;
}

/* Lists the processors that this process may use, with those of one core side by side. */
static int list_processors(const cpu_set_t *allowed, int order[CPU_SETSIZE])
{
    int cores[CPU_SETSIZE], count = 0;

    for (int i = 0; i < CPU_SETSIZE; i++) {
        int core = CPU_ISSET(i, allowed) ? core_of(i) : -1, place = count;

        if (core < 0)
            continue;
        for (; place && cores[place - 1] > core; place--) {
            cores[place] = cores[place - 1];
            order[place] = order[place - 1];
        }
        cores[place] = core;
        order[place] = i;
        count++;
    }
    return count;
}

bool own_cores_share(const int *order, int count, int rank, int ranks, cpu_set_t *out)
{
    int per_rank = count / ranks;

    CPU_ZERO(out);
    for (int i = 0; i < per_rank; i++)
        CPU_SET(order[rank * per_rank + i], out);
    return per_rank > 0;
}

void own_cores_bind(const struct topology *t)
{
    int order[CPU_SETSIZE], count;
    cpu_set_t allowed, own;
    DIR *tasks;

    if (!getenv(OWN_CORES_VARIABLE))
        return;
    unsetenv(OWN_CORES_VARIABLE);
    if (t->ranks > allowance_cores() || sched_getaffinity(0, sizeof(allowed), &allowed))
        return;
    count = list_processors(&allowed, order);
    if (!own_cores_share(order, count, t->rank, t->ranks, &own))
        return;
    /* MPI has started threads already; threads that start later inherit this one's cores. */
    tasks = opendir("/proc/self/task");
    for (const struct dirent *e; tasks && (e = readdir(tasks));)
        if (e->d_name[0] != '.')
            sched_setaffinity(atoi(e->d_name), sizeof(own), &own);
    if (tasks)
        closedir(tasks);
}

/* ---- counting */

double own_cores_count(const struct rank_cores *all_ranks, int ranks, int rank)
{
    const struct rank_cores *mine = &all_ranks[rank];
    double own = 0;

    for (int i = 0; i < CPU_SETSIZE; i++) {
        int users = 0;

        if (!CPU_ISSET(i, &mine->cores))
            continue;
        for (int q = 0; q < ranks; q++)
            users +=
                CPU_ISSET(i, &all_ranks[q].cores) && !strcmp(all_ranks[q].machine, mine->machine);
        own += 1.0 / users;
    }
    return own;
}

int own_cores(struct world *world, double *out)
{
    const struct topology *t = world_topology(world);
    struct rank_cores mine, *all = calloc((size_t)t->ranks, sizeof(*all));
    int allowed, rc = world_settle(world, all ? OK : fail(ERR_NOMEM, "%d ranks", t->ranks));

    memset(&mine, 0, sizeof(mine));
    world_machine(mine.machine, sizeof(mine.machine));
    if (sched_getaffinity(0, sizeof(mine.cores), &mine.cores))
        CPU_SET(0, &mine.cores);
    allowed = CPU_COUNT(&mine.cores);
    if (!rc)
        rc = world_gather(world, &mine, all, sizeof(mine));
    if (!rc) /* a CPU quota may allow less than the mask */
        *out = own_cores_count(all, t->ranks, t->rank) * allowance_cores() / allowed;
    free(all);
    return rc;
}
