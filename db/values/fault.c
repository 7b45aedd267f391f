/* Makes the n-th passage of a named point fail, for tests. */
#include "fault.h"

#include "status.h"
#include "text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT_MAX = 4 };

/* One item of the list. rank -1: every rank. `passed` counts the passages on this rank. */
static struct fault {
    char point[16];
    int passage, rank; /* which passage fails */
    bool lasting;
    atomic_int passed;
} faults[FAULT_MAX];
static int fault_count, my_rank;

static const char *const known_points[] = { "alloc", "exchange", "wrong",    "large",
                                            "hang",  "crash",    "throttle", "disturb",
                                            "pace",  "late",     NULL };

int fault_setup(int rank)
{
    const char *text = getenv("MOETUNE_FAULT");

    my_rank = rank;
    fault_count = 0;
    while (text && *text && *text != ';') {
        struct fault *f = &faults[fault_count];
        int used = 0;

        f->rank = -1;
        atomic_store(&f->passed, 0);
        if (fault_count == FAULT_MAX ||
            sscanf(text, "%15[a-z]:%d%n", f->point, &f->passage, &used) != 2 ||
            word_find(known_points, f->point) < 0)
            return fail(ERR_ARGUMENT, "MOETUNE_FAULT: \"%s\" is not point:n[+][@rank]", text);
        text += used;
        f->lasting = *text == '+';
        text += f->lasting;
        if (*text == '@')
            f->rank = (int)strtol(text + 1, (char **)&text, 10);
        if (*text == ',')
            text++;
        else if (*text && *text != ';')
            return fail(ERR_ARGUMENT, "MOETUNE_FAULT: \"%s\" follows a fault", text);
        fault_count++;
    }
    return OK;
}

void fault_next_ranks(void)
{
    const char *text = getenv("MOETUNE_FAULT"), *rest = text ? strchr(text, ';') : NULL;

    if (rest)
        setenv("MOETUNE_FAULT", rest + 1, true);
    else
        unsetenv("MOETUNE_FAULT");
}

static bool is_mine(const struct fault *f, const char *point)
{
    return !strcmp(f->point, point) && (f->rank < 0 || f->rank == my_rank);
}

int fault_pace(void)
{
    for (const struct fault *f = faults; f < faults + fault_count; f++)
        if (is_mine(f, "pace"))
            return f->passage;
    return 100;
}

bool fault_hit(const char *point)
{
    bool hit = false;

    for (struct fault *f = faults; f < faults + fault_count; f++) {
        int passage =
            is_mine(f, point) ? atomic_fetch_add(&f->passed, 1) + 1 : 0; /* 0: not this fault */

        hit |= passage && (passage == f->passage || (f->lasting && passage > f->passage));
    }
    return hit;
}

bool fault_expected(const char *point)
{
    for (int i = 0; i < fault_count; i++)
        if (!strcmp(faults[i].point, point))
            return true;
    return false;
}
