/* Reads whole files or lines, with limits on memory and on the time to wait for a pipe. */
#ifndef INPUT_FILE_H
#define INPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a file or a pipe whole. *text ends with a zero byte, and the caller frees it. ERR_IO or
 * ERR_FORMAT, after one message: the path is no file, it holds more than `most` bytes, or nobody
 * writes into the pipe for a long time. A regular file that is too long is refused before it is
 * read. */
int input_read(const char *path, size_t most_bytes, char **text, size_t *length);

/* Does what input_read() does, but first asks `worth`, once, when `head` bytes are there. If it
 * returns false, reading ends with OK, and the caller reports what is wrong with the text. */
int input_read_if(const char *path, size_t most_bytes, size_t head_bytes,
                  bool (*worth_reading)(const char *text, size_t length), char **text,
                  size_t *length);

/* Reads a file of any length line by line. `on` gets each line, which ends with a zero byte, and
 * its number from 1 on. Reading ends when `on` returns anything but OK. ERR_FORMAT also for a line
 * of more than 4 MiB, and for a zero byte in a line. */
int input_lines(const char *path,
                int (*on_line)(void *self, const char *line, size_t length, uint32_t number),
                void *self);

#endif
