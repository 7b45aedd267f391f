/* Reading files whole, without waiting for ever and without more memory than they may need. */
#ifndef INPUT_FILE_H
#define INPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text of a file or a pipe, with a zero byte behind it; the caller frees it.  ERR_IO or
 * ERR_FORMAT, said once: for what is no file or holds more than `most` bytes (told before anything
 * is read where the file's size is known), and for a pipe into which nobody writes for long. */
int input_read(const char *path, size_t most, char **text, size_t *length);

/* The same for what may be long: `worth` is asked once, when `head` bytes are there; where it says
 * no, reading ends, and whoever asked says what is wrong with that text. */
int input_read_if(const char *path, size_t most, size_t head,
                  bool (*worth)(const char *text, size_t length), char **text, size_t *length);

/* The same line by line, of a file as long as it likes: `on` is told each line, which ends in a
 * zero byte, and which one it is, from 1 on; what it returns, where that is not OK, ends it.
 * ERR_FORMAT also for a line of more than 4 MiB, and for a zero byte. */
int input_lines(const char *path,
                int (*on)(void *self, const char *line, size_t length, uint32_t number),
                void *self);

#endif
