/* The list of studies; finds one, reads the cluster it runs on, and fills its tables. */
#include "study.h"

#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const study_mark_words[] = { "fitted", "predicted", "not published" };

/* The build makes these .inc files: a cluster of tests/data/clusters as one string, the lines of a
 * NAME.study as strings. */
static const char ndm_a100[] =
#include <ndm-a100.inc>
    ;
static const char workstation_4x4090[] =
#include <workstation-4x4090.inc>
    ;
static const char p4d_16_nccl210[] =
#include <p4d-16-nccl210.inc>
    ;
static const char p100_4[] =
#include <p100-4.inc>
    ;
static const char *const tutel_lines[] = {
#include <tutel.inc>
    NULL
};
static const char *const hexa_lines[] = {
#include <hexa.inc>
    NULL
};
static const char *const smile_lines[] = {
#include <smile.inc>
    NULL
};
static const char *const dynamoe_lines[] = {
#include <dynamoe.inc>
    NULL
};

const struct study study_tutel = {
    .name = "tutel",
    .paper = "Tutel: Adaptive Mixture-of-Experts at Scale (arXiv 2206.03382)",
    .assumptions =
        "k=2, f=1 and f32 where the paper does not say.  A step is forward and backward.  "
        "Our executor takes the times on a virtual clock.",
    .most_ranks = 2048,
    .machine = ndm_a100,
    .lines = tutel_lines,
};

static const struct study study_hexa = {
    .name = "hexa",
    .paper = "HEXA-MoE: Efficient and Heterogeneous-aware MoE Acceleration with ZERO Computation "
             "Redundancy (arXiv 2411.01288)",
    .assumptions = "The cluster was invented from data sheets: nothing in it is fitted to the "
                   "paper.  Our executor takes the times on a virtual clock; bytes are what its "
                   "layer allocates.  f=1 where the paper does not say.",
    .most_ranks = 4,
    .machine = workstation_4x4090,
    .lines = hexa_lines,
};

static const struct study study_smile = {
    .name = "smile",
    .paper = "SMILE: Scaling Mixture-of-Experts with Efficient Bi-level Routing (arXiv 2212.05191)",
    .assumptions = "GELU and f32.  Our executor takes the times on a virtual clock.  The cluster "
                   "is fitted to Table 3's exchanges and to the scaling by nodes.",
    .most_ranks = 128,
    .machine = p4d_16_nccl210,
    .lines = smile_lines,
};

static const struct study study_dynamoe = {
    .name = "dynamoe",
    .paper = "DynaMoE: Optimizing Mixture of Experts using Dynamic Recompilations (arXiv "
             "2205.01848)",
    .assumptions = "The cluster was invented from data sheets: nothing in it is fitted to the "
                   "paper.  The paper's layers are CNNs and MLPs, and it does not give their "
                   "sizes.  Our layer is E=8 k=1 D=1024 H=4096, 1024 tokens per GPU, f32, "
                   "training, r=1 d=1 a=linear.  Our executor takes the times on a virtual clock.",
    .most_ranks = 4,
    .machine = p100_4,
    .lines = dynamoe_lines,
};

const struct study *const studies[] = { &study_tutel,   &study_hexa,  &study_smile,
                                        &study_dynamoe, &study_trace, NULL };

enum { NAMES_BYTES = 600 };

/* Adds a name to a list, "a, b, c". */
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
    return fail(ERR_ARGUMENT, "no study is named \"%s\"; the studies are %s", name, names);
}

static int check_only(const struct study_result *result)
{
    char names[NAMES_BYTES] = "";

    for (size_t i = 0; *result->rows[i].name; i++) {
        if (study_shows(result, i))
            return OK;
        add_name(names, result->rows[i].name);
    }
    return fail(ERR_ARGUMENT, "--only %s: the study %s has no such table; its tables are %s",
                result->only, result->study->name, names);
}

/* Reads the cluster of the file `sim`, or the study's own if `sim` is NULL, and checks that it can
 * model the study. */
static int find_machine(const struct study *study, const char *sim, struct cluster *out)
{
    const char *origin = sim ? sim : "the study's own cluster";
    char names[NAMES_BYTES] = "";
    struct cluster largest;

    TRY(sim ? cluster_read(sim, out) : cluster_parse(study->machine, origin, out));
    if (!out->ranks_per_node)
        return fail(ERR_ARGUMENT, "%s: a study needs ranks_per_node, and nodes that are alike",
                    origin);
    if (study->most_ranks > out->ranks_per_node && study->most_ranks % out->ranks_per_node)
        return fail(ERR_ARGUMENT,
                    "%s: the study %s models %u ranks, which is no whole number of nodes of %u",
                    origin, study->name, study->most_ranks, out->ranks_per_node);
    largest = *out;
    TRY(cluster_resize(&largest, study->most_ranks));
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_lacks(&largest, &cluster_fields[i]))
            add_name(names, cluster_fields[i].name);
    if (*names)
        return fail(ERR_ARGUMENT, "%s: the study %s needs %s", origin, study->name, names);
    cluster_remove_noise(out); /* the published numbers are compared with times without noise */
    snprintf(out->backend, sizeof(out->backend), "sim");
    return OK;
}

/* Marks "fitted" numbers as predicted, with a remark, if the machine is not the study's own: nobody
 * fitted another cluster to the paper. */
static int mark_other_machine(struct study_result *result)
{
    char text[CLUSTER_TEXT_BYTES], own_text[CLUSTER_TEXT_BYTES];
    struct cluster own;

    TRY(find_machine(result->study, NULL, &own));
    cluster_format(&own, own_text, sizeof(own_text));
    cluster_format(&result->machine, text, sizeof(text));
    if (!strcmp(text, own_text))
        return OK;
    snprintf(result->remark, sizeof(result->remark),
             "The study's own cluster is %s.  This is another one, and nothing in it was fitted to "
             "the paper.  The notes below are about the study's own cluster.",
             own.name);
    for (size_t i = 0; *result->rows[i].name; i++)
        for (size_t k = 0; k < result->tables[i].count; k++)
            if (result->tables[i].cells[k].mark == STUDY_FITTED)
                result->tables[i].cells[k].mark = STUDY_PREDICTED;
    return OK;
}

bool study_shows(const struct study_result *result, size_t i)
{
    return !result->only || !strcmp(result->rows[i].name, result->only);
}

/* Lists the study's rows in the result, each with an empty table. */
static int open_tables(const struct study *study, struct study_result *result)
{
    size_t count = 0;

    if (study->lines) {
        TRY(paper_tables(study, &result->rows));
    } else {
        while (*study->rows[count].name)
            count++;
        result->rows = malloc((count + 1) * sizeof(*result->rows));
        if (result->rows)
            memcpy(result->rows, study->rows, (count + 1) * sizeof(*result->rows));
    }
    for (count = 0; result->rows && *result->rows[count].name; count++)
        continue;
    result->tables = calloc(count + 1, sizeof(*result->tables));
    return result->rows && result->tables ? OK : fail(ERR_NOMEM, "the tables of a study");
}

int study_run(const struct study *study, const struct study_ask *ask, struct study_result *out)
{
    struct study_result result = { .study = study, .only = ask->only };
    int rc;

    TRY_OUT(open_tables(study, &result));
    if (study->run) {
        TRY_OUT(study->run(ask, &result));
    } else {
        TRY_OUT(check_only(&result));
        TRY_OUT(find_machine(study, ask->sim, &result.machine));
        TRY_OUT(paper_fill(study, &result.machine, ask->only, result.tables));
        if (ask->sim)
            TRY_OUT(mark_other_machine(&result));
    }
    *out = result;
    return OK;
out:
    study_free(&result);
    return rc;
}

void study_free(struct study_result *result)
{
    for (size_t i = 0; result->tables && *result->rows[i].name; i++)
        free(result->tables[i].cells);
    free(result->tables);
    free(result->rows);
    free(result->details);
    *result = (struct study_result){ 0 };
}

int study_put(struct study_table *t, const struct study_cell *cell)
{
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        void *cells = realloc(t->cells, room * sizeof(*t->cells));

        if (!cells)
            return fail(ERR_NOMEM, "%zu cells of a table", room);
        t->cells = cells;
        t->room = room;
    }
    t->cells[t->count++] = *cell;
    return OK;
}

int study_put_value(struct study_table *t, const char *row, const char *column, double value)
{
    struct study_cell cell = { .value = value, .published = NAN, .mark = STUDY_UNPUBLISHED };

    snprintf(cell.row, sizeof(cell.row), "%s", row);
    snprintf(cell.column, sizeof(cell.column), "%s", column);
    return study_put(t, &cell);
}
