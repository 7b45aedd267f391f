/* Writes files so that readers see the old file or the whole new one. Never overwrites anything but
 * a regular file. */
#ifndef OUTPUT_FILE_H
#define OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* A file that is being written beside the one that it will replace. output_begin() fills it, and
 * output_end() ends it. */
struct output_file {
    char path[PATH_MAX], temporary[PATH_MAX]; /* path: without symbolic links */
    FILE *to;                                 /* write here, or to `temporary` by its name */
};

/* Makes an empty file beside `path`, with a name that nobody can guess. Follows a symbolic link.
 * ERR_IO after one message, if `path` is something other than a regular file. */
int output_begin(const char *path, struct output_file *out);

/* Ends the writing. With `rc` OK it renames the file into its place in one moment; `lasting` also
 * forces it to disk. With any other `rc` it removes the file. A replaced file keeps its mode; a new
 * one gets the mode of the file `like`, or the usual mode where `like` is NULL. Returns rc, or the
 * error of the rename. */
int output_end(struct output_file *file, int rc, const char *like, bool lasting);

/* Removes files that output_begin(path) left when its process was killed. */
void output_remove_leftovers(const char *path);

/* Opens the file at `path` to go on writing in it, or makes it. `flags` are those of open(). Where
 * the file `like` exists, the file gets its mode. ERR_IO after one message, if it is no regular
 * file. */
int output_open(const char *path, int flags, const char *like, int *fd);

/* OK if `path` is a regular file or nothing. For files that another program writes. */
int output_check(const char *path);

/* Removes the file at `path` if it is a regular one. */
void output_remove(const char *path);

#endif
