/* Finds a study, gives it a machine and fills its tables. */
#include "study.h"

#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const study_mark_words[] = { "fitted", "predicted", "not published" };

const struct study *const studies[] = { &study_tutel,  &study_hexa,  &study_smile, &study_dynamoe,
                                        &study_search, &study_trace, NULL };

static const char own_name[] = "the study's own cluster";

enum { NAMES_BYTES = 600 };

/* "a, b, c". */
static void add_name(char names[NAMES_BYTES], const char *name)
{
    text_add(names, NAMES_BYTES, "%s%s", *names ? ", " : "", name);
}

int study_find(const char *name, const struct study **out)
{
    char names[NAMES_BYTES] = "";

    for (size_t i = 0; studies[i]; i++) {
        add_name(names, studies[i]->name);
        if (!strcmp(studies[i]->name, name)) {
            *out = studies[i];
            return OK;
        }
    }
    return fail(ERR_ARGUMENT, "no study \"%s\"; there is %s", name, names);
}

static int check_only(const struct study *study, const char *only)
{
    char names[NAMES_BYTES] = "";

    for (const struct study_row *row = study->rows; row->name; row++) {
        if (!only || !strcmp(row->name, only))
            return OK;
        add_name(names, row->name);
    }
    return fail(ERR_ARGUMENT, "--only %s: %s has %s", only, study->name, names);
}

/* All that is missing at once, for as many ranks as any row has. */
static int check_machine(const struct study *study, const struct cluster *machine,
                         const char *origin)
{
    struct cluster large = *machine;
    char names[NAMES_BYTES] = "";

    if (!machine->ranks_per_node)
        return fail(ERR_ARGUMENT, "%s: ranks_per_node is wanted, of nodes that are alike", origin);
    if (study->most_ranks > machine->ranks_per_node && study->most_ranks % machine->ranks_per_node)
        return fail(ERR_ARGUMENT, "%s: the study %s has %u ranks, no whole number of nodes of %u",
                    origin, study->name, study->most_ranks, machine->ranks_per_node);
    TRY(cluster_resize(&large, study->most_ranks));
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_lacks(&large, &cluster_fields[i]))
            add_name(names, cluster_fields[i].name);
    return *names ? fail(ERR_ARGUMENT, "%s: the study %s needs %s", origin, study->name, names)
                  : OK;
}

/* Noise would be compared with what was published. */
static void silence(struct cluster *machine)
{
    cluster_silence(machine);
    snprintf(machine->backend, sizeof(machine->backend), "sim");
}

static int find_machine(const struct study *study, const char *sim, struct cluster *out)
{
    TRY(sim ? cluster_read(sim, out) : cluster_parse(study->machine(), own_name, out));
    TRY(check_machine(study, out, sim ? sim : own_name));
    silence(out);
    return OK;
}

static size_t count_rows(const struct study *study)
{
    size_t count = 0;

    while (study->rows[count].name)
        count++;
    return count;
}

/* No number of another cluster was chosen by what the paper says. */
static int judge_machine(struct study_result *result)
{
    char text[CLUSTER_TEXT_BYTES], own_text[CLUSTER_TEXT_BYTES];
    struct cluster own;

    TRY(find_machine(result->study, NULL, &own));
    cluster_format(&own, own_text, sizeof(own_text));
    cluster_format(&result->machine, text, sizeof(text));
    if (!strcmp(text, own_text))
        return OK;
    snprintf(result->remark, sizeof(result->remark),
             "This is not the cluster of the study, %s: nothing was fitted to it, and what is said "
             "of the study's cluster is not said of this one.",
             own.name);
    for (size_t i = 0; i < count_rows(result->study); i++)
        for (size_t k = 0; k < result->tables[i].count; k++)
            if (result->tables[i].cells[k].mark == STUDY_FITTED)
                result->tables[i].cells[k].mark = STUDY_PREDICTED;
    return OK;
}

bool study_shows(const struct study_result *result, size_t i)
{
    return !result->only || !strcmp(result->study->rows[i].name, result->only);
}

static int fill_rows(const struct study_ask *ask, struct study_result *result)
{
    const struct study *study = result->study;
    int rc = OK;

    TRY(check_only(study, ask->only));
    TRY(find_machine(study, ask->sim, &result->machine));
    for (size_t i = 0; study->rows[i].name && !rc; i++)
        if (study->rows[i].fill && study_shows(result, i))
            rc = study->rows[i].fill(&result->machine, &result->tables[i]);
    return !rc && ask->sim ? judge_machine(result) : rc;
}

int study_run(const struct study *study, const struct study_ask *ask, struct study_result *out)
{
    struct study_result result = { .study = study, .only = ask->only };
    int rc;

    result.tables = calloc(count_rows(study), sizeof(*result.tables));
    rc = result.tables ? OK : fail(ERR_NOMEM, "a study");
    if (!rc)
        rc = study->run ? study->run(ask, &result) : fill_rows(ask, &result);
    if (rc)
        study_free(&result);
    else
        *out = result;
    return rc;
}

void study_free(struct study_result *result)
{
    for (size_t i = 0; result->tables && i < count_rows(result->study); i++)
        free(result->tables[i].cells);
    free(result->tables);
    free(result->details);
    result->tables = NULL;
    result->details = NULL;
}

int study_put(struct study_table *t, const char *row, const char *column, struct study_cell value)
{
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        void *cells = realloc(t->cells, room * sizeof(*t->cells));

        if (!cells)
            return fail(ERR_NOMEM, "%zu cells", room);
        t->cells = cells;
        t->room = room;
    }
    snprintf(value.row, sizeof(value.row), "%s", row);
    snprintf(value.column, sizeof(value.column), "%s", column);
    t->cells[t->count++] = value;
    return OK;
}
