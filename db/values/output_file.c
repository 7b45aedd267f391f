/* Writes a temporary file with the mode of the one it replaces, and renames it into place. */
#include "output_file.h"

#include "status.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_KEPT = 200 }; /* letters: the rest of a file's name is for what is added */

static int refuse_irregular(const char *path)
{
    return fail(ERR_IO, "%s is no regular file: it is left as it is", path);
}

/* Where the file really is, or will be. */
static int find_place(const char *path, char place[PATH_MAX])
{
    struct stat is;

    if (lstat(path, &is)) {
        if (errno != ENOENT)
            return fail(ERR_IO, "%s cannot be written: %s", path, strerror(errno));
        return snprintf(place, PATH_MAX, "%s", path) < PATH_MAX
                   ? OK
                   : fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    }
    if (!realpath(path, place) || stat(place, &is))
        return fail(ERR_IO, "%s cannot be written: %s", path, strerror(errno));
    return S_ISREG(is.st_mode) ? OK : refuse_irregular(path);
}

/* "FOLDER/NAME.": what all temporary files of one place begin with; its length. */
static int find_prefix(const char *place, char prefix[PATH_MAX])
{
    const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
    int folder = (int)(name - place);
    bool whole = text_put(prefix, PATH_MAX - 64, "%.*s%.*s.", slash ? folder : 2,
                          slash ? place : "./", NAME_KEPT, name);

    return whole ? (int)strlen(prefix)
                 : fail(ERR_ARGUMENT, "%s: the name is too long", TEXT_SHORT(place, 60));
}

int output_begin(const char *path, struct output_file *out)
{
    uint64_t chance;
    int fd = -1, length;

    TRY(find_place(path, out->path));
    length = find_prefix(out->path, out->temporary);
    if (length < 0)
        return length;
    for (int attempt = 0; fd < 0 && attempt < 100; attempt++) {
        if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
            break;
        snprintf(out->temporary + length, PATH_MAX - (size_t)length, "%ld-%016" PRIx64 ".tmp",
                 (long)getpid(), chance);
        fd = open(out->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    out->to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out->to)
        return OK;
    if (fd >= 0)
        close(fd);
    return fail(ERR_IO, "%s cannot be written: %s", path, strerror(errno));
}

/* Best effort: whoever may not give a file away keeps it. */
static void copy_mode(int fd, const struct stat *like)
{
    struct stat is;

    if (fstat(fd, &is) ||
        (is.st_mode == like->st_mode && is.st_uid == like->st_uid && is.st_gid == like->st_gid))
        return;
    if (fchown(fd, like->st_uid, like->st_gid))
        errno = 0;
    if (fchmod(fd, like->st_mode & 0777))
        errno = 0;
}

/* Writes the names of a file's folder onto the disk. */
static int sync_folder(const char *file)
{
    char path[PATH_MAX];
    int fd, rc = OK;

    snprintf(path, sizeof(path), "%s", file);
    fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) && errno != EINVAL))
        rc = fail(ERR_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

int output_end(struct output_file *file, int rc, const char *like, bool lasting)
{
    struct stat is;
    bool bad;

    if (!rc && (!lstat(file->path, &is) || (like && !stat(like, &is)))) {
        if (S_ISREG(is.st_mode))
            copy_mode(fileno(file->to), &is);
        else
            rc = refuse_irregular(file->path);
    }
    bad = fflush(file->to) || ferror(file->to) || (!rc && lasting && fsync(fileno(file->to)));
    if ((fclose(file->to) || bad || (!rc && rename(file->temporary, file->path))) && !rc)
        rc = fail(ERR_IO, "%s cannot be written: %s", file->path, strerror(errno));
    if (rc) {
        unlink(file->temporary);
        return rc;
    }
    return lasting ? sync_folder(file->path) : OK;
}

/* Whether a temporary file belongs to nobody who still writes it, by what stands behind the prefix
 * of its name: to a process that is gone, or to this one, which writes one at a time. */
static bool is_left_over(const char *rest)
{
    long owner = atol(rest);
    size_t length = strlen(rest);

    return owner > 0 && length > 4 && !strcmp(rest + length - 4, ".tmp") &&
           (owner == getpid() || (kill((pid_t)owner, 0) && errno == ESRCH));
}

void output_remove_leftovers(const char *path)
{
    char place[PATH_MAX], prefix[PATH_MAX], whole[PATH_MAX + 256];
    struct dirent *file;
    char *name;
    DIR *list;

    if (find_place(path, place) || find_prefix(place, prefix) < 0)
        return;
    name = strrchr(prefix, '/') + 1;
    name[-1] = 0;
    list = opendir(name - prefix > 1 ? prefix : "/");
    while (list && (file = readdir(list)))
        if (!strncmp(file->d_name, name, strlen(name)) &&
            is_left_over(file->d_name + strlen(name))) {
            snprintf(whole, sizeof(whole), "%s/%s", prefix, file->d_name);
            output_remove(whole);
        }
    if (list)
        closedir(list);
}

int output_open(const char *path, int flags, const char *like, int *fd)
{
    struct stat is, other;

    /* Without O_NONBLOCK a pipe of that name would wait for a reader. */
    *fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0 && errno != ENXIO)
        return fail(ERR_IO, "%s: %s%s", path, strerror(errno),
                    errno == EACCES ? " (it and its folder must be writable)" : "");
    if (*fd < 0)
        return refuse_irregular(path);
    if (fstat(*fd, &is) || !S_ISREG(is.st_mode)) {
        close(*fd);
        return refuse_irregular(path);
    }
    if (like && !stat(like, &other))
        copy_mode(*fd, &other);
    return OK;
}

int output_check(const char *path)
{
    char place[PATH_MAX];

    return find_place(path, place);
}

void output_remove(const char *path)
{
    struct stat is;

    if (!lstat(path, &is) && S_ISREG(is.st_mode))
        unlink(path);
}
