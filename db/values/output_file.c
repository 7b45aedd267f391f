/* Writes a temporary file with the mode of the file that it replaces, and renames it into place. */
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

enum { NAME_BYTES_KEPT = 200 }; /* letters of a file's name in the temporary one, which adds more */

static int refuse_irregular(const char *path)
{
    return fail(ERR_IO, "%s is no regular file: it is left as it is", path);
}

/* Finds the place of a file behind symbolic links, even if the file does not exist yet. */
static int resolve_links(const char *path, char place[PATH_MAX])
{
    struct stat info;

    if (lstat(path, &info)) {
        if (errno != ENOENT)
            return fail(ERR_IO, "%s cannot be written: %s", path, strerror(errno));
        return snprintf(place, PATH_MAX, "%s", path) < PATH_MAX
                   ? OK
                   : fail(ERR_ARGUMENT, "%.60s...: the name is too long", path);
    }
    if (!realpath(path, place) || stat(place, &info))
        return fail(ERR_IO, "%s cannot be written: %s", path, strerror(errno));
    return S_ISREG(info.st_mode) ? OK : refuse_irregular(path);
}

/* Writes "FOLDER/NAME.", the beginning of the names of all temporary files of one place. Returns
 * its length, or an error. */
static int find_prefix(const char *place, char prefix[PATH_MAX])
{
    const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
    int folder_length = (int)(name - place);
    bool fits = text_put(prefix, PATH_MAX - 64, "%.*s%.*s.", slash ? folder_length : 2,
                         slash ? place : "./", NAME_BYTES_KEPT, name);

    return fits ? (int)strlen(prefix)
                : fail(ERR_ARGUMENT, "%s: the name is too long", TEXT_SHORT(place, 60));
}

enum { ATTEMPTS_MAX = 100 }; /* to find a name that no file has */

int output_begin(const char *path, struct output_file *out)
{
    uint64_t random_number;
    int fd = -1, length;

    TRY(resolve_links(path, out->path));
    length = find_prefix(out->path, out->temporary);
    if (length < 0)
        return length;
    for (int attempt = 0; fd < 0 && attempt < ATTEMPTS_MAX; attempt++) {
        if (getrandom(&random_number, sizeof(random_number), 0) != sizeof(random_number))
            break;
        snprintf(out->temporary + length, PATH_MAX - (size_t)length, "%ld-%016" PRIx64 ".tmp",
                 (long)getpid(), random_number);
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

/* Copies mode and owner as far as this is allowed: a process that may not give a file away keeps
 * it. */
static void copy_mode(int fd, const struct stat *like)
{
    struct stat info;

    if (fstat(fd, &info) || (info.st_mode == like->st_mode && info.st_uid == like->st_uid &&
                             info.st_gid == like->st_gid))
        return;
    if (fchown(fd, like->st_uid, like->st_gid))
        errno = 0;
    if (fchmod(fd, like->st_mode & 0777))
        errno = 0;
}

/* Forces the names in a file's folder to disk. */
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
    struct stat info;
    bool write_failed;

    if (!rc && (!lstat(file->path, &info) || (like && !stat(like, &info)))) {
        if (S_ISREG(info.st_mode))
            copy_mode(fileno(file->to), &info);
        else
            rc = refuse_irregular(file->path);
    }
    write_failed =
        fflush(file->to) || ferror(file->to) || (!rc && lasting && fsync(fileno(file->to)));
    if ((fclose(file->to) || write_failed || (!rc && rename(file->temporary, file->path))) && !rc)
        rc = fail(ERR_IO, "%s cannot be written: %s", file->path, strerror(errno));
    if (rc) {
        unlink(file->temporary);
        return rc;
    }
    return lasting ? sync_folder(file->path) : OK;
}

/* Returns whether nobody writes a temporary file any more. `rest` is the part of its name behind
 * the prefix, and begins with its process. That process is gone, or it is this one, which writes
 * one file at a time. */
static bool is_left_over(const char *rest)
{
    long owner = atol(rest);
    size_t length = strlen(rest);

    return owner > 0 && length > 4 && !strcmp(rest + length - 4, ".tmp") &&
           (owner == getpid() || (kill((pid_t)owner, 0) && errno == ESRCH));
}

void output_remove_leftovers(const char *path)
{
    char place[PATH_MAX], prefix[PATH_MAX], leftover[PATH_MAX + 256];
    struct dirent *file;
    char *name;
    DIR *folder_list;

    if (resolve_links(path, place) || find_prefix(place, prefix) < 0)
        return;
    name = strrchr(prefix, '/') + 1;
    name[-1] = 0; /* `prefix` is now the folder alone */
    folder_list = opendir(name - prefix > 1 ? prefix : "/");
    while (folder_list && (file = readdir(folder_list)))
        if (!strncmp(file->d_name, name, strlen(name)) &&
            is_left_over(file->d_name + strlen(name))) {
            snprintf(leftover, sizeof(leftover), "%s/%s", prefix, file->d_name);
            output_remove(leftover);
        }
    if (folder_list)
        closedir(folder_list);
}

int output_open(const char *path, int flags, const char *like, int *fd)
{
    struct stat info, other;

    /* Without O_NONBLOCK open() would wait for a reader if the path is a pipe. */
    *fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0 && errno != ENXIO)
        return fail(ERR_IO, "%s: %s%s", path, strerror(errno),
                    errno == EACCES ? " (it and its folder must be writable)" : "");
    if (*fd < 0)
        return refuse_irregular(path);
    if (fstat(*fd, &info) || !S_ISREG(info.st_mode)) {
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

    return resolve_links(path, place);
}

void output_remove(const char *path)
{
    struct stat info;

    if (!lstat(path, &info) && S_ISREG(info.st_mode))
        unlink(path);
}
