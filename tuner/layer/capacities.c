/* Capacities of experts: parses them, adds them up over ranks, and finds the key that replaces
 * them. */
#include "capacities.h"

#include "shape.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct capacities capacities_of(const uint64_t *rows, uint32_t experts)
{
    struct capacities c = { experts ? rows[0] : 0, NULL };

    for (uint32_t e = 1; e < experts; e++) {
        if (rows[e] != rows[0])
            c.rows = rows;
        c.most = rows[e] > c.most ? rows[e] : c.most;
    }
    return c;
}

/* Parses a number of digits only. */
static bool parse_number(const char **text, uint64_t *out)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return !errno;
}

/* Parses "64" or "64*3"; without "*", *times is 1. */
static bool parse_item(const char **text, uint64_t *rows, uint64_t *times)
{
    *times = 1;
    if (!parse_number(text, rows))
        return false;
    if (**text == '*') {
        ++*text;
        if (!parse_number(text, times) || !*times)
            return false;
    }
    return !**text || **text == ',';
}

static int parse_capacities(const char *text, uint32_t experts, uint64_t tokens,
                            uint64_t *capacities)
{
    const char *rest = text;
    uint64_t rows, times, count = 0;

    do {
        rest += count && *rest == ',';
        if (!parse_item(&rest, &rows, &times))
            return fail(ERR_ARGUMENT, "--capacities \"%s\": write numbers, as in \"512,64*3\"",
                        text);
        if (rows > tokens)
            return fail(ERR_ARGUMENT,
                        "--capacities: %llu rows for expert %llu; write 0 to %llu, the tokens of a "
                        "rank",
                        (unsigned long long)rows, (unsigned long long)count,
                        (unsigned long long)tokens);
        if (times > experts - count)
            return fail(ERR_ARGUMENT,
                        "--capacities: more than %u numbers; write %u, one for each expert",
                        experts, experts);
        while (times--)
            capacities[count++] = rows;
    } while (*rest);
    return count == experts
               ? OK
               : fail(ERR_ARGUMENT, "--capacities: %llu numbers; write %u, one for each expert",
                      (unsigned long long)count, experts);
}

int capacities_parse(const char *text, uint32_t experts, uint64_t tokens, uint64_t **out)
{
    uint64_t *rows = calloc((size_t)experts + 1, sizeof(*rows));
    int rc = rows ? parse_capacities(text, experts, tokens, rows)
                  : fail(ERR_NOMEM, "%u numbers", experts);

    if (rc)
        free(rows);
    else
        *out = rows;
    return rc;
}

static uint64_t sum_rows(const struct capacities *c, uint32_t first, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t e = first; e < first + count; e++)
        sum += capacity_of(c, e);
    return sum;
}

uint64_t capacities_sum(const struct capacities *c, uint32_t experts)
{
    return sum_rows(c, 0, experts);
}

uint64_t capacities_of_rank(const struct capacities *c, const struct moe_shape *shape, int rank)
{
    uint32_t local = shape_local_experts(shape);

    return sum_rows(c, (uint32_t)rank / shape_slices(shape) * local, local);
}

int capacities_fullest(const struct capacities *c, const struct moe_shape *shape)
{
    uint64_t most_rows = 0;
    int fullest = 0;

    for (int q = 0; q < (int)shape->ranks; q++) {
        uint64_t rows = capacities_of_rank(c, shape, q);

        if (rows > most_rows) {
            most_rows = rows;
            fullest = q;
        }
    }
    return fullest;
}

uint64_t capacities_mean(const struct capacities *c, uint32_t experts, uint32_t groups)
{
    uint32_t group_experts = experts / groups;
    uint64_t most_rows = 0;

    for (uint32_t i = 0; i < groups; i++) {
        uint64_t rows = sum_rows(c, i * group_experts, group_experts);

        most_rows = rows > most_rows ? rows : most_rows;
    }
    return (most_rows + group_experts - 1) / group_experts;
}

uint64_t capacities_key(const struct capacities *c, const struct moe_shape *shape)
{
    uint32_t local = shape_local_experts(shape);

    return capacities_mean(c, shape->experts, shape->experts / local);
}

uint64_t capacities_key_r0(const struct capacities *c, const struct moe_shape *shape)
{
    return capacities_mean(c, shape->experts, 1);
}
