/* What is said while log_to(listen, NULL) holds: so many lines, and the last of them. */
#ifndef HEARD_H
#define HEARD_H

#include <stdio.h>

static int said;
static char last[512];

static inline void listen(void *self, const char *line)
{
    (void)self;
    said++;
    snprintf(last, sizeof(last), "%s", line);
}

#endif
