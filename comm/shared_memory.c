/* Memory of a host as a POSIX shared memory object, which has a name only until every rank has
 * opened it. */
#include "shared_memory.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

static int create(const char *name, size_t bytes, int *file)
{
    *file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (*file < 0)
        return fail(ERR_WIRE, "shared memory %s: %s", name, strerror(errno));
    if (!ftruncate(*file, (off_t)bytes))
        return OK;
    close(*file);
    return fail(ERR_WIRE, "shared memory %s of %zu bytes: %s", name, bytes, strerror(errno));
}

static int find(const char *name, size_t bytes, int *file)
{
    struct stat there;

    *file = shm_open(name, O_RDWR, 0);
    if (*file >= 0 && !fstat(*file, &there) && there.st_size == (off_t)bytes)
        return OK;
    if (*file >= 0)
        close(*file);
    return fail(ERR_WIRE, "shared memory of rank 0 (%s) is not here: ranks must share /dev/shm",
                name);
}

static int map(int file, size_t bytes, void **out)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    close(file);
    if (memory == MAP_FAILED)
        return fail(ERR_NOMEM, "%zu bytes of shared memory: %s", bytes, strerror(errno));
    *out = memory;
    return OK;
}

int shared_memory_open(struct world *world, size_t bytes, void **out)
{
    bool first = world_topology(world)->rank == 0;
    void *memory = NULL;
    char name[NAME_BYTES];
    int file = -1, rc = OK;

    snprintf(name, sizeof(name), "/moetune-%ld-%lld", (long)getpid(), (long long)time(NULL));
    TRY(world_broadcast(world, name, sizeof(name)));
    if (first)
        rc = create(name, bytes, &file);
    rc = world_settle(world, rc);
    if (!rc) {
        if (!first)
            rc = find(name, bytes, &file);
        if (!rc)
            rc = map(file, bytes, &memory);
        rc = world_settle(world, rc);
    }
    if (first)
        shm_unlink(name);
    if (rc)
        shared_memory_close(memory, bytes);
    else
        *out = memory;
    return rc;
}

void shared_memory_close(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}
