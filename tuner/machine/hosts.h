/* Hosts as a user gives them ("a:8,b:8", or a file with a line for each), or as Slurm says in the
 * environment of a program that runs inside one of its jobs. */
#ifndef HOSTS_H
#define HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOSTS_MAX = 1024, HOST_NAME_BYTES = 254 };

struct hosts {
    struct host {
        char name[HOST_NAME_BYTES];
        uint32_t slots; /* ranks that may run there */
    } * list;
    size_t count;
    uint32_t slots; /* of all */
};

/* A file of that name if there is one, else a list.  In a file: "name", "name:8" or "name slots=8"
 * on a line, '#' begins a comment.  A host that comes again adds its slots.  ERR_ARGUMENT or
 * ERR_FORMAT names the word that is no host name: names become arguments of other programs. */
int hosts_read(const char *given, struct hosts *out);
void hosts_free(struct hosts *hosts);

/* "a:8,b:8", for a launcher; the caller frees it.  NULL: out of memory. */
char *hosts_format(const struct hosts *hosts);

/* True inside a job that says how many tasks each of its nodes has room for.  Its nodes are those
 * that ranks run on: under salloc not the machine that this program runs on. */
bool slurm_job(void);

/* How many ranks to start in this job's allocation, and how many of them on a node: `wanted`, or
 * all that it has room for when 0.  Nodes are filled one after the other, as mpirun does;
 * *ranks_per_node is 0 where they get different numbers.  Outside a job both are left alone.
 * ERR_ARGUMENT if several nodes have no room for so many, or in any task of srun but the first. */
int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node);

#endif
