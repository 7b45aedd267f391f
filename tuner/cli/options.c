/* getopt_long driven by a table. */
#include "options.h"

#include "status.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64 };

static int bad_value(const struct option_row *row, const char *text, const char *wanted)
{
    return fail(ERR_ARGUMENT, "--%s %s: %s is wanted", row->name, text, wanted);
}

static int take_whole(const struct option_row *row, const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > most)
        return bad_value(row, text, "a whole number");
    *out = value;
    return OK;
}

static int take_number(const struct option_row *row, const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value))
        return bad_value(row, text, "a number");
    *out = value;
    return OK;
}

static int take_word(const struct option_row *row, const char *text, uint32_t *out)
{
    char wanted[128] = "one of";

    for (uint32_t i = 0; row->words[i]; i++) {
        if (!strcmp(row->words[i], text)) {
            *out = i;
            return OK;
        }
        snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), " %s", row->words[i]);
    }
    return bad_value(row, text, wanted);
}

static int take_item(const struct option_row *row, const char *text, struct option_list *list)
{
    if (list->count == OPTION_LIST_MAX)
        return fail(ERR_ARGUMENT, "--%s is given more than %d times", row->name, OPTION_LIST_MAX);
    list->items[list->count++] = text;
    return OK;
}

static int take(const struct option_row *row, const char *text, void *target)
{
    void *at = (char *)target + row->offset;
    uint64_t whole;

    switch (row->kind) {
    case OPTION_FLAG: *(bool *)at = true; return OK;
    case OPTION_SEED: return take_whole(row, text, UINT64_MAX, at);
    case OPTION_NUMBER: return take_number(row, text, at);
    case OPTION_WORD: return take_word(row, text, at);
    case OPTION_TEXT: *(const char **)at = text; return OK;
    case OPTION_LIST: return take_item(row, text, at);
    case OPTION_COUNT: break;
    }
    TRY(take_whole(row, text, UINT32_MAX, &whole));
    *(uint32_t *)at = (uint32_t)whole;
    return OK;
}

int options_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *target,
                  int *first, bool *help)
{
    struct option table[ROWS_MAX + 2] = { { 0 } };
    char letters[2 * ROWS_MAX + 8] = ":h"; /* options and arguments in any order */
    size_t used = strlen(letters);
    int index, found;

    for (size_t i = 0; i < count && i < ROWS_MAX; i++) {
        bool flag = rows[i].kind == OPTION_FLAG;

        table[i] = (struct option){ rows[i].name, flag ? no_argument : required_argument, NULL,
                                    (int)i + 256 };
        if (rows[i].letter)
            used += (size_t)snprintf(letters + used, sizeof(letters) - used, "%c%s", rows[i].letter,
                                     flag ? "" : ":");
    }
    table[count] = (struct option){ "help", no_argument, NULL, 'h' };
    optind = 0;
    opterr = 0;
    while ((found = getopt_long(argc, argv, letters, table, &index)) != -1) {
        if (found == 'h') {
            *help = true;
            return OK;
        }
        if (found == ':')
            return fail(ERR_ARGUMENT, "%s wants a value", argv[optind - 1]);
        for (size_t i = 0; i < count && found < 256; i++)
            if (rows[i].letter == found)
                found = (int)i + 256;
        if (found < 256)
            return fail(ERR_ARGUMENT, "no option %s (see --help)", argv[optind - 1]);
        TRY(take(&rows[found - 256], optarg, target));
    }
    *first = optind;
    return OK;
}

static void print_default(const struct option_row *row, const void *target)
{
    const void *at = (const char *)target + row->offset;

    switch (row->kind) {
    case OPTION_COUNT:
        if (*(const uint32_t *)at && *(const uint32_t *)at != UINT32_MAX)
            printf(" [%u]", *(const uint32_t *)at);
        break;
    case OPTION_SEED: printf(" [%llu]", (unsigned long long)*(const uint64_t *)at); break;
    case OPTION_NUMBER: printf(" [%g]", *(const double *)at); break;
    case OPTION_WORD: printf(" [%s]", row->words[*(const uint32_t *)at]); break;
    case OPTION_TEXT:
        if (*(const char *const *)at)
            printf(" [%s]", *(const char *const *)at);
        break;
    case OPTION_FLAG:
    case OPTION_LIST: break;
    }
}

void options_print(const struct option_row *rows, size_t count, const void *target)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];

        if (rows[i].letter)
            snprintf(left, sizeof(left), "-%c, --%s %s", rows[i].letter, rows[i].name,
                     rows[i].value ? rows[i].value : "");
        else
            snprintf(left, sizeof(left), "--%s %s", rows[i].name,
                     rows[i].value ? rows[i].value : "");
        printf("  %-26s %s", left, rows[i].help);
        print_default(&rows[i], target);
        printf("\n");
    }
    printf("  %-26s %s\n", "--help", "this text");
}
