/* Reads lists of hosts, host files and the tasks of a Slurm job.  No word of them ever reaches a
 * shell. */
#include "hosts.h"

#include "input_file.h"
#include "status.h"
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SLOTS_MAX = 4096, LINE_BYTES = 1024 };

static int read_slots(const char *text, size_t length, const char *origin, uint32_t *slots)
{
    uint32_t value = 0;

    for (size_t i = 0; i < length && value <= SLOTS_MAX; i++) {
        if (text[i] < '0' || text[i] > '9')
            return fail(ERR_ARGUMENT,
                        "%s: \"%.*s\" is no number of ranks (write HOST:RANKS, as a:8)", origin,
                        (int)length, text);
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    if (!value || value > SLOTS_MAX)
        return fail(ERR_ARGUMENT, "%s: \"%.*s\" ranks on one host: 1 to %d are possible", origin,
                    (int)length, text, SLOTS_MAX);
    *slots = value;
    return OK;
}

static int add_host(struct hosts *hosts, const char *name, size_t length, uint32_t slots,
                    const char *origin)
{
    /* The letters of DNS names and IPv4 addresses.  A name with a leading dash would be an option.
     */
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    if (!length)
        return fail(ERR_ARGUMENT, "%s: a host has no name (write HOST, or HOST:RANKS)", origin);
    if (length >= HOST_NAME_BYTES)
        return fail(ERR_ARGUMENT, "%s: a host name has %zu bytes; at most %d are possible", origin,
                    length, HOST_NAME_BYTES - 1);
    if (*name == '-' || *name == '.' || strspn(name, allowed) < length)
        return fail(ERR_ARGUMENT, "%s: \"%.*s\" is no host name", origin, (int)length, name);
    hosts->slots += slots;
    for (size_t i = 0; i < hosts->count; i++)
        if (strlen(hosts->list[i].name) == length && !memcmp(hosts->list[i].name, name, length)) {
            hosts->list[i].slots += slots;
            return OK;
        }
    if (hosts->count == HOSTS_MAX)
        return fail(ERR_ARGUMENT, "%s: more than %d hosts", origin, HOSTS_MAX);
    memcpy(hosts->list[hosts->count].name, name, length);
    hosts->list[hosts->count++].slots = slots;
    return OK;
}

/* Adds "name" or "name:8". */
static int add_word(struct hosts *hosts, const char *word, size_t length, const char *origin)
{
    const char *colon = memchr(word, ':', length);
    size_t name_length = colon ? (size_t)(colon - word) : length;
    uint32_t slots = 1;

    if (colon)
        TRY(read_slots(colon + 1, length - name_length - 1, origin, &slots));
    return add_host(hosts, word, name_length, slots, origin);
}

static int read_list(const char *text, struct hosts *hosts)
{
    for (;;) {
        size_t length = strcspn(text, ",");

        TRY(add_word(hosts, text, length, "HOSTS (no such file)"));
        if (!text[length])
            return OK;
        text += length + 1;
    }
}

/* What read_line() needs while input_lines() reads a host file. */
struct host_file {
    const char *path;
    struct hosts *hosts;
};

/* Adds the host of one line, which Open MPI and Slurm write alike: a name, then perhaps "slots=8".
 */
static int read_line(void *self, const char *line, size_t length, uint32_t number)
{
    static const char blank[] = " \t\r\n";
    const struct host_file *file = self;
    char copy[LINE_BYTES], origin[512], *name, *after_name;
    uint32_t slots;

    (void)length;
    text_put(origin, sizeof(origin), "%s, line %u", TEXT_SHORT(file->path, 400), number);
    if (!text_put(copy, sizeof(copy), "%s", line))
        return fail(ERR_FORMAT, "%s: the line is longer than %d bytes", origin, LINE_BYTES - 1);
    copy[strcspn(copy, "#")] = 0;
    name = copy + strspn(copy, blank);
    if (!*name)
        return OK;
    after_name = name + strcspn(name, blank);
    if (*after_name)
        *after_name++ = 0;
    after_name += strspn(after_name, blank);
    after_name[strcspn(after_name, blank)] = 0;
    if (!*after_name)
        return add_word(file->hosts, name, strlen(name), origin);
    if (strncmp(after_name, "slots=", 6) != 0)
        return fail(ERR_FORMAT, "%s: \"%s\" is not understood; write the line as \"name slots=8\"",
                    origin, after_name);
    TRY(read_slots(after_name + 6, strlen(after_name + 6), origin, &slots));
    return add_host(file->hosts, name, strlen(name), slots, origin);
}

int hosts_read(const char *list_or_file, struct hosts *out)
{
    struct hosts hosts = { .list = calloc(HOSTS_MAX, sizeof(*hosts.list)) };
    struct host_file file = { .path = list_or_file, .hosts = &hosts };
    struct stat file_info;
    int rc;

    if (!hosts.list)
        return fail(ERR_NOMEM, "the list of hosts");
    if (stat(list_or_file, &file_info) || !S_ISREG(file_info.st_mode)) {
        rc = read_list(list_or_file, &hosts);
    } else {
        rc = input_lines(list_or_file, read_line, &file);
        if (!rc && !hosts.count)
            rc = fail(ERR_FORMAT, "%s: the file names no host", list_or_file);
    }
    if (rc)
        hosts_free(&hosts);
    else
        *out = hosts;
    return rc;
}

void hosts_free(struct hosts *hosts)
{
    free(hosts->list);
    *hosts = (struct hosts){ .count = 0 };
}

char *hosts_format(const struct hosts *hosts)
{
    size_t size = hosts->count * (HOST_NAME_BYTES + 8) + 1, used = 0;
    char *text = malloc(size);

    for (size_t i = 0; i < hosts->count && text; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s:%u", i ? "," : "",
                                 hosts->list[i].name, hosts->list[i].slots);
    return text;
}

/* ---- Slurm: how many tasks it gives to each node; mpirun reads the same variable */

/* The state while ranks are put on nodes, one node after the other. */
struct node_filling {
    uint32_t wanted;             /* ranks to start; 0: as many as have room */
    uint32_t room, ranks, nodes; /* room on all nodes; ranks put so far, and nodes that have some */
    uint32_t first_ranks;        /* ranks on the first node */
    bool differ;                 /* another node got another number */
};

enum { NUMBER_MAX = 1000000 };

static bool parse_number(const char **text, uint32_t *out)
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

static void add_node(struct node_filling *filling, uint32_t room)
{
    uint32_t ranks_left = filling->wanted - filling->ranks,
             ranks_here = filling->wanted && ranks_left < room ? ranks_left : room;

    filling->room += room;
    if (!ranks_here)
        return;
    if (!filling->nodes++)
        filling->first_ranks = ranks_here;
    filling->differ |= ranks_here != filling->first_ranks;
    filling->ranks += ranks_here;
}

/* Reads SLURM_TASKS_PER_NODE: "4(x2),3" is two nodes with room for four, one with room for three.
 */
static bool parse_tasks_per_node(const char *text, struct node_filling *out)
{
    struct node_filling filling = *out;
    uint32_t room, times, nodes = 0;

    do {
        times = 1;
        if (!parse_number(&text, &room))
            return false;
        if (text[0] == '(' && text[1] == 'x') {
            text += 2;
            if (!parse_number(&text, &times) || *text++ != ')')
                return false;
        }
        if ((nodes += times) > NUMBER_MAX || (uint64_t)nodes * room > NUMBER_MAX)
            return false;
        while (times--)
            add_node(&filling, room);
    } while (*text++ == ',');
    *out = filling;
    return text[-1] == 0;
}

bool slurm_job(void)
{
    return getenv("SLURM_JOB_ID") && getenv("SLURM_TASKS_PER_NODE");
}

int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node)
{
    const char *text = getenv("SLURM_TASKS_PER_NODE");
    const char *task = getenv("SLURM_PROCID");
    struct node_filling filling = { .wanted = wanted };

    if (!slurm_job())
        return OK;
    /* If MPI does not know the tasks of srun, each task would start ranks, on the same cores.  Task
     * 0 may: a shell inside an allocation is also task 0, however many tasks the allocation has. */
    if (task && atoi(task) > 0)
        return fail(ERR_ARGUMENT,
                    "srun started moetune several times (this is task %d), but MPI does not know "
                    "of it: use srun --mpi=pmix, or start moetune without srun",
                    atoi(task));
    if (!parse_tasks_per_node(text, &filling))
        return fail(ERR_ARGUMENT,
                    "SLURM_TASKS_PER_NODE=\"%s\" is not understood; Slurm writes it as 4(x2),3",
                    TEXT_SHORT(text, 80));
    if (filling.nodes > 1 && wanted > filling.ranks)
        return fail(ERR_ARGUMENT,
                    "--ranks %u, but this job has room for %u (SLURM_TASKS_PER_NODE=%s)", wanted,
                    filling.room, TEXT_SHORT(text, 80));
    *ranks = wanted ? wanted : filling.ranks;
    *ranks_per_node = filling.nodes == 1 ? *ranks : (filling.differ ? 0 : filling.first_ranks);
    return OK;
}
