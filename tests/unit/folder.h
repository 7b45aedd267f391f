/* For tests that write files or draw numbers: a folder that is removed afterwards, and a seed. */
#ifndef FOLDER_H
#define FOLDER_H

#include "check.h"

#include "random.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[64];
static uint64_t draw_seed, drawn;

static inline uint32_t draw(uint32_t below)
{
    return random_below(draw_seed, drawn++, below);
}

static inline void draw_from_seed(void)
{
    draw_seed = test_seed();
}

/* A path in the folder; the last eight stay valid. */
static inline const char *place(const char *name)
{
    static char path[8][512];
    static int turn;

    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

/* Runs the tests in a new folder, after `set_up`, which may be NULL. */
static inline int check_in_folder(const struct test *tests, size_t count, void (*set_up)(void))
{
    char command[100];
    int rc;

    snprintf(folder, sizeof(folder), "/tmp/moetune-test-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    if (set_up)
        set_up();
    rc = check_all(tests, count);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command))
        printf("  %s stays behind\n", folder);
    return rc;
}

#endif
