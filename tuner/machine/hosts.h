/* A list of hosts as a user gives it: "a:8,b:8", or a file with a line for each. */
#ifndef HOSTS_H
#define HOSTS_H

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

#endif
