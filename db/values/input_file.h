/* Reading files whole, without waiting for ever and without more memory than they may need. */
#ifndef INPUT_FILE_H
#define INPUT_FILE_H

#include <stddef.h>

/* The text of a file or a pipe, with a zero byte behind it; the caller frees it.  ERR_IO or
 * ERR_FORMAT, said once: for what is no file or holds more than `most` bytes (told before anything
 * is read where the file's size is known), and for a pipe into which nobody writes for long. */
int input_read(const char *path, size_t most, char **text, size_t *length);

#endif
