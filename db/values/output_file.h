/* Writing files: what is there and is no regular file stays as it is. */
#ifndef OUTPUT_FILE_H
#define OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* A file in the making, beside the one whose place it takes. */
struct output_file {
    char path[PATH_MAX], temporary[PATH_MAX]; /* the first without symbolic links */
    FILE *to;                                 /* write here, or to `temporary` by its name */
};

/* Makes an empty file beside `path`, with a name nobody can guess.  A symbolic link is followed;
 * ERR_IO, said once, if what is there is no regular file. */
int output_begin(const char *path, struct output_file *out);

/* `rc` is what became of the writing: OK puts the file in its place, whole in one moment (and if
 * `lasting` on the disk), anything else removes it.  The mode stays as it was; a new file has that
 * of `like`, or of a new file where `like` is NULL.  Returns rc, or why it could not be done. */
int output_end(struct output_file *file, int rc, const char *like, bool lasting);

/* Removes files that output_begin(path) made in a process that was killed. */
void output_remove_leftovers(const char *path);

/* Opens the file at `path` to go on writing in it, or makes it; `flags` as open() has them.  The
 * owner's file gets the mode of `like`, if that is there.  ERR_IO, said once, as above. */
int output_open(const char *path, int flags, const char *like, int *fd);

/* OK if a regular file is at `path`, or nothing: for files that another program writes. */
int output_check(const char *path);

/* Removes the file at `path`, if it is a regular one. */
void output_remove(const char *path);

#endif
