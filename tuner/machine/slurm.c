/* Reads how many tasks Slurm gives to each node, as mpirun does (SLURM_TASKS_PER_NODE). */
#include "slurm.h"

#include "status.h"
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* Ranks laid on nodes, one node after the other. */
struct spread {
    uint32_t wanted; /* 0: no limit */
    uint32_t room, ranks, nodes;
    uint32_t each; /* on the first node */
    bool differ;   /* on another node */
};

enum { NUMBER_MAX = 1000000 };

static bool take_number(const char **text, uint32_t *out)
{
    char *end;
    unsigned long value;

    if (!isdigit((unsigned char)**text))
        return false;
    value = strtoul(*text, &end, 10);
    *text = end;
    *out = (uint32_t)value;
    return value > 0 && value <= NUMBER_MAX;
}

static void add_node(struct spread *s, uint32_t room)
{
    uint32_t left = s->wanted - s->ranks, here = s->wanted && left < room ? left : room;

    s->room += room;
    if (!here)
        return;
    if (!s->nodes++)
        s->each = here;
    s->differ |= here != s->each;
    s->ranks += here;
}

/* "4(x2),3": two nodes with room for four, one with room for three. */
static bool spread_parse(const char *text, struct spread *out)
{
    struct spread s = *out;
    uint32_t room, times, nodes = 0;

    do {
        times = 1;
        if (!take_number(&text, &room))
            return false;
        if (text[0] == '(' && text[1] == 'x') {
            text += 2;
            if (!take_number(&text, &times) || *text++ != ')')
                return false;
        }
        if ((nodes += times) > NUMBER_MAX || (uint64_t)nodes * room > NUMBER_MAX)
            return false;
        while (times--)
            add_node(&s, room);
    } while (*text++ == ',');
    *out = s;
    return text[-1] == 0;
}

/* Tasks of one step that MPI knows nothing of would each start ranks, on the same cores.  The first
 * may: it is also what a shell in an allocation is, however many tasks that was asked for with. */
static int check_task(void)
{
    const char *task = getenv("SLURM_PROCID");

    if (!task || atoi(task) <= 0)
        return OK;
    return fail(ERR_ARGUMENT,
                "srun started this several times (task %d), and MPI does not know: srun "
                "--mpi=pmix, or no srun at all",
                atoi(task));
}

bool slurm_job(void)
{
    return getenv("SLURM_JOB_ID") && getenv("SLURM_TASKS_PER_NODE");
}

int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node)
{
    const char *text = getenv("SLURM_TASKS_PER_NODE");
    struct spread s = { .wanted = wanted };

    if (!slurm_job())
        return OK;
    TRY(check_task());
    if (!spread_parse(text, &s))
        return fail(ERR_ARGUMENT,
                    "SLURM_TASKS_PER_NODE is \"%s\": numbers such as 4(x2),3 are wanted",
                    TEXT_SHORT(text, 80));
    if (s.nodes > 1 && wanted > s.ranks)
        return fail(ERR_ARGUMENT, "--ranks %u, but this job has room for %u (%s)", wanted, s.room,
                    TEXT_SHORT(text, 80));
    *ranks = wanted ? wanted : s.ranks;
    *ranks_per_node = s.nodes == 1 ? *ranks : (s.differ ? 0 : s.each);
    return OK;
}
