/* The lease: a file that its owner locks with flock() and that holds a line of text about the
 * owner. */
#include "store_inside.h"

#include "output_file.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A file system whose locks do not reach other hosts lets two owners in. So an owner that touched
 * its file within this time counts as alive. */
enum { ALIVE_S = 60, OWNER_BYTES = 400 };

static void read_owner(int fd, char *text, size_t size)
{
    ssize_t bytes = pread(fd, text, size - 1, 0);

    text[bytes > 0 ? bytes : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

static bool is_on_this_host(const char *owner)
{
    char host[256] = "", here[256] = "";

    gethostname(here, sizeof(here) - 1);
    return sscanf(owner, "host %255s", host) == 1 && !strcmp(host, here);
}

static bool lives_on_other_host(int fd, const char *owner)
{
    struct stat file;

    return *owner && !is_on_this_host(owner) && fstat(fd, &file) == 0 &&
           time(NULL) - file.st_mtime < ALIVE_S;
}

/* Does not try the lock, because that would keep out a writer that comes at the same moment. */
bool lease_is_held(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char owner[OWNER_BYTES];
    long process = 0;
    bool held;

    if (fd < 0)
        return false;
    read_owner(fd, owner, sizeof(owner));
    if (is_on_this_host(owner) && sscanf(owner, "host %*s process %ld", &process) == 1 &&
        process > 0)
        held = !kill((pid_t)process, 0) || errno == EPERM;
    else
        held = lives_on_other_host(fd, owner);
    close(fd);
    return held;
}

static int write_owner(int fd, const char *path)
{
    char host[256] = "?", text[OWNER_BYTES];
    int length;

    gethostname(host, sizeof(host) - 1);
    length = snprintf(text, sizeof(text), "host %s process %ld since %s UTC\n", host,
                      (long)getpid(), DATE_TEXT(time(NULL), DATE_SECOND));
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length)
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    return OK;
}

/* Says who holds the lock. A second tuner in one program gets another message: looking at other
 * processes would not help. */
static int fail_busy(const char *path, const char *owner)
{
    char mine[OWNER_BYTES], host[256] = "";

    gethostname(host, sizeof(host) - 1);
    snprintf(mine, sizeof(mine), "host %s process %ld ", host, (long)getpid());
    if (!strncmp(owner, mine, strlen(mine)))
        return fail(ERR_BUSY,
                    "this process has the database open already (process %ld, %s): only one tuner "
                    "may write it, so a layer of another shape needs a database of its own",
                    (long)getpid(), path);
    return fail(ERR_BUSY, "another moetune writes this database: %s (%s)", owner, path);
}

int lease_acquire(const char *path, const char *database, bool steal, struct lease *out)
{
    char owner[OWNER_BYTES];
    int fd, rc;

    TRY(output_open(path, O_RDWR | O_NOFOLLOW, database, &fd));
    read_owner(fd, owner, sizeof(owner));
    if (flock(fd, LOCK_EX | LOCK_NB))
        rc = errno == EWOULDBLOCK ? fail_busy(path, owner)
                                  : fail(ERR_IO, "%s: %s", path, strerror(errno));
    else if (!steal && lives_on_other_host(fd, owner))
        rc = fail(ERR_BUSY,
                  "another moetune writes this database: %s (%s); --steal takes it if that one is "
                  "gone",
                  owner, path);
    else
        rc = write_owner(fd, path);
    if (rc) {
        close(fd);
        return rc;
    }
    out->fd = fd;
    return OK;
}

void lease_refresh(struct lease *lease)
{
    if (lease->fd >= 0)
        futimens(lease->fd, NULL);
}

void lease_release(struct lease *lease)
{
    /* The file stays. Removing it would let a third process in, between a second one's open and its
     * lock. */
    if (lease->fd >= 0) {
        if (ftruncate(lease->fd, 0))
            note("a lease could not be cleared: %s", strerror(errno));
        close(lease->fd);
    }
    lease->fd = -1;
}
