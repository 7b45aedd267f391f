/* Reads the argument HOSTS: "a:8,b:8", or a file with one host per line.  Inside a job of Slurm,
 * reads from the environment how many ranks the job has room for. */
#ifndef HOSTS_H
#define HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOSTS_MAX = 1024, HOST_NAME_BYTES = 254 };

/* Hosts in the order given, each named once.  hosts_read() makes it whole; hosts_free() frees it.
 */
struct hosts {
    struct host {
        char name[HOST_NAME_BYTES];
        uint32_t slots; /* ranks that may run there */
    } * list;
    size_t count;
    uint32_t slots; /* of all hosts together */
};

/* Reads the file of that name if there is one, else a list.  A line of a file is "name", "name:8"
 * or "name slots=8"; '#' begins a comment.  A host that comes again adds its slots.  ERR_ARGUMENT
 * or ERR_FORMAT after a message that quotes the wrong word.  Names are checked strictly, because
 * they become arguments of other programs. */
int hosts_read(const char *list_or_file, struct hosts *out);
/* Frees the list, and empties *hosts; an empty one is fine. */
void hosts_free(struct hosts *hosts);

/* Formats the hosts for a launcher, as "a:8,b:8".  The caller frees the text.  NULL: out of memory.
 */
char *hosts_format(const struct hosts *hosts);

/* True inside a job of Slurm that says how many tasks each of its nodes has room for.  Ranks run on
 * the job's nodes; under salloc this program runs on another machine. */
bool slurm_job(void);

/* Computes how many ranks to start in this job: `wanted`, or as many as it has room for when 0; and
 * how many of them run on each node.  Nodes are filled one after the other, as mpirun does;
 * *ranks_per_node is 0 where nodes get different numbers.  Outside a job both stay unchanged.
 * ERR_ARGUMENT if several nodes have no room for so many, or in any task of srun but the first. */
int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node);

#endif
