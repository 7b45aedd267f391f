/* Reads lists of hosts and host files; nothing of them ever reaches a shell. */
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
            return fail(ERR_ARGUMENT, "%s: \"%.*s\" is no number of ranks", origin, (int)length,
                        text);
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    if (!value || value > SLOTS_MAX)
        return fail(ERR_ARGUMENT, "%s: \"%.*s\" ranks on a host: 1 to %d", origin, (int)length,
                    text, SLOTS_MAX);
    *slots = value;
    return OK;
}

static int add(struct hosts *hosts, const char *name, size_t length, uint32_t slots,
               const char *origin)
{
    /* What DNS and IPv4 need.  A leading dash would be an option. */
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    if (!length)
        return fail(ERR_ARGUMENT, "%s: a host without a name", origin);
    if (length >= HOST_NAME_BYTES)
        return fail(ERR_ARGUMENT, "%s: a host name of %zu bytes: at most %d", origin, length,
                    HOST_NAME_BYTES - 1);
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
    size_t name = colon ? (size_t)(colon - word) : length;
    uint32_t slots = 1;

    if (colon)
        TRY(read_slots(colon + 1, length - name - 1, origin, &slots));
    return add(hosts, word, name, slots, origin);
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

struct host_file {
    const char *path;
    struct hosts *hosts;
};

/* Reads a line of Open MPI's form and Slurm's: a name, then perhaps "slots=8". */
static int on_line(void *self, const char *line, size_t length, uint32_t number)
{
    static const char blank[] = " \t\r\n";
    const struct host_file *file = self;
    char copy[LINE_BYTES], origin[512], *name, *more;
    uint32_t slots;

    (void)length;
    text_put(origin, sizeof(origin), "%s, line %u", TEXT_SHORT(file->path, 400), number);
    if (!text_put(copy, sizeof(copy), "%s", line))
        return fail(ERR_FORMAT, "%s: too long", origin);
    copy[strcspn(copy, "#")] = 0;
    name = copy + strspn(copy, blank);
    if (!*name)
        return OK;
    more = name + strcspn(name, blank);
    if (*more)
        *more++ = 0;
    more += strspn(more, blank);
    more[strcspn(more, blank)] = 0;
    if (!*more)
        return add_word(file->hosts, name, strlen(name), origin);
    if (strncmp(more, "slots=", 6) != 0)
        return fail(ERR_FORMAT, "%s: \"%s\" is not understood; a line reads \"name slots=8\"",
                    origin, more);
    TRY(read_slots(more + 6, strlen(more + 6), origin, &slots));
    return add(file->hosts, name, strlen(name), slots, origin);
}

int hosts_read(const char *given, struct hosts *out)
{
    struct hosts hosts = { .list = calloc(HOSTS_MAX, sizeof(*hosts.list)) };
    struct host_file file = { given, &hosts };
    struct stat info;
    int rc;

    if (!hosts.list)
        return fail(ERR_NOMEM, "the list of hosts");
    if (stat(given, &info) || !S_ISREG(info.st_mode)) {
        rc = read_list(given, &hosts);
    } else {
        rc = input_lines(given, on_line, &file);
        if (!rc && !hosts.count)
            rc = fail(ERR_FORMAT, "%s names no host", given);
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
    size_t room = hosts->count * (HOST_NAME_BYTES + 8) + 1, used = 0;
    char *text = malloc(room);

    for (size_t i = 0; i < hosts->count && text; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s:%u", i ? "," : "",
                                 hosts->list[i].name, hosts->list[i].slots);
    return text;
}

/* ---- Slurm: how many tasks it gives to each node, as mpirun reads it */

/* Ranks laid on nodes, one node after the other. */
struct node_filling {
    uint32_t wanted; /* 0: no limit */
    uint32_t room, ranks, nodes;
    uint32_t each; /* on the first node */
    bool differ;   /* on another node */
};

enum { NUMBER_MAX = 1000000 };

static bool number_at(const char **text, uint32_t *out)
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

static void add_node(struct node_filling *s, uint32_t room)
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
static bool spread_parse(const char *text, struct node_filling *out)
{
    struct node_filling s = *out;
    uint32_t room, times, nodes = 0;

    do {
        times = 1;
        if (!number_at(&text, &room))
            return false;
        if (text[0] == '(' && text[1] == 'x') {
            text += 2;
            if (!number_at(&text, &times) || *text++ != ')')
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

bool slurm_job(void)
{
    return getenv("SLURM_JOB_ID") && getenv("SLURM_TASKS_PER_NODE");
}

int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node)
{
    const char *text = getenv("SLURM_TASKS_PER_NODE");
    const char *task = getenv("SLURM_PROCID");
    struct node_filling s = { .wanted = wanted };

    if (!slurm_job())
        return OK;
    /* Tasks of one step that MPI knows nothing of would each start ranks, on the same cores.  The
     * first may: it is also what a shell in an allocation is, however many tasks that was asked for
     * with. */
    if (task && atoi(task) > 0)
        return fail(ERR_ARGUMENT,
                    "srun started this several times (task %d), and MPI does not know: srun "
                    "--mpi=pmix, or no srun at all",
                    atoi(task));
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
