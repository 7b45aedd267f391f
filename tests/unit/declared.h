/* Helper functions that tests of declared spaces share. */
#ifndef DECLARED_H
#define DECLARED_H

#include "check.h"
#include "declaration.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* Of a text that must be right. */
static struct declaration *read_space(const char *text)
{
    struct declaration *d = NULL;
    char why[DECLARATION_FAULT_BYTES] = "";

    CHECK(!declaration_read(text, &d, why, sizeof(why)));
    if (!d) {
        printf("    %s\n", why);
        exit(1);
    }
    return d;
}

static const char deepep[] = "# what deepep's dispatch can be told\n"
                             "\n"
                             "space deepep-v1\n"
                             "axis num_sms 8 16 20 24 32 default 20 live\n"
                             "axis nvl     4..44 step 4  default 8  live\n"
                             "axis backend alltoall deepep hybridep default alltoall restart\n"
                             "need backend=deepep | nvl=8          # canonical where meaningless\n"
                             "key  tokens edges 64 256 1024 4096\n"
                             "class skew edges 1.25 2\n";

/* A log_hook that keeps the line. */
static void take_line(void *self, const char *line)
{
    snprintf(self, DECLARATION_FAULT_BYTES, "%s", line);
}

#endif
