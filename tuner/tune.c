/* The verb `tune`: sweeps the layers that the options name, and prints the result. */
#include "doctor.h"
#include "exec_protocol.h"
#include "host.h"
#include "json.h"
#include "launch.h"
#include "load.h"
#include "paste.h"
#include "screen.h"
#include "settings.h"
#include "status.h"
#include "sweep.h"
#include "tables.h"
#include "text.h"
#include "tune_options.h"
#include "unequal.h"
#include "verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One run of the verb, in the process that owns the database. */
struct tuning {
    struct tune_request request;
    struct campaign campaign;
    struct misses misses;                         /* of --from-misses */
    struct sweep_result results[TUNE_LAYERS_MAX]; /* by layer */
    size_t swept;                                 /* layers that have a result */
    int memory_status; /* ERR_NOMEM: some layer needs more memory than there is */
    char decide_command[CAMPAIGN_COMMAND_BYTES]; /* the same command without its effort */
};

/* What the table has of a layer in the buckets of this command. */
struct layer_outcome {
    const struct layer_plans *plans;
    uint32_t entries, undecided;
    bool wrong; /* a trial had wrong results */
};

static int count_entry(void *self, const struct entry_row *entry)
{
    struct layer_outcome *outcome = self;

    if (entry->window != outcome->plans->window || entry->bucket < outcome->plans->first ||
        entry->bucket > outcome->plans->last)
        return OK;
    outcome->entries++;
    outcome->undecided += entry_is_undecided(entry);
    return OK;
}

static int note_wrong(void *self, const struct trial_row *trial)
{
    ((struct layer_outcome *)self)->wrong |= trial->state == TRIAL_WRONG;
    return OK;
}

/* ---- what is printed at the end of a run */

static void print_layer_result(const struct tuning *t, size_t layer)
{
    const struct sweep_result *result = &t->results[layer];
    const struct layer_plans *plans = &t->request.spaces[layer];
    char words[LOAD_WORDS_BYTES], printed[LOAD_WORDS_BYTES] = "";

    printf("\nbuckets   %u measured now, %u known before, %u inferred", result->measured,
           result->known, result->inferred);
    if (result->pinned)
        printf(", %u pinned and left alone", result->pinned);
    if (result->failed_trials)
        printf("; %u trials failed", result->failed_trials);
    if (result->ruled_out)
        printf("; %u ruled out by memory", result->ruled_out);
    putchar('\n');

    /* The files of --routing, and the expert load of each bucket where it differs from the bucket
     * before. */
    load_words_file(plans->load, words);
    if (*words)
        printf("routing   %s\n", words);
    for (uint32_t bucket = plans->first; bucket <= plans->last; bucket++) {
        load_words_at(plans->load, layer_plans_capacity(plans, bucket), words);
        if (strcmp(words, printed) != 0)
            printf("          from bucket %u on %s\n", bucket, words);
        memcpy(printed, words, sizeof(printed));
    }
    if (*result->standing.why)
        printf("gain      not known: %s\n", result->standing.why);
    if (result->too_wide.buckets)
        printf("width     %u bucket%s too wide: at the lower end the plan is expected to lose more "
               "than %g %%; --window %u would help\n",
               result->too_wide.buckets, result->too_wide.buckets == 1 ? " is" : "s are",
               TOO_WIDE_LOSS * 100, result->too_wide.window);
}

static uint64_t paper_trials(const struct tuning *t)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < t->request.space_count; i++)
        sum += tune_paper_trials(&t->request, i);
    return sum;
}

static double seconds_taken(const struct tuning *t)
{
    return (double)(host_clock_ns() - t->campaign.begun_ns) * 1e-9;
}

/* Prints the best setting (layout, shares) of each layer that was tuned in several settings. */
static int print_settings(const struct tuning *t)
{
    struct setting_gain gains[TUNE_LAYERS_MAX];
    int count = settings_compare(&t->request, t->swept, t->campaign.store, t->campaign.cluster_id,
                                 gains, TUNE_LAYERS_MAX);

    for (int i = 0; i < count; i++) {
        const struct setting_gain *gain = &gains[i];
        const struct moe_shape *best = &t->request.spaces[gain->best].shape;
        const struct moe_shape *first = &t->request.spaces[gain->first].shape;

        if (!gain->buckets)
            printf("setting   not known: no bucket is measured in two of them\n");
        else if (gain->best == gain->first)
            printf("setting   %s: the others take no less time\n", SETTING_TEXT(first));
        else
            printf("setting   %s takes %.1f %% less time%s than\n"
                   "          %s, over %u bucket%s\n",
                   SETTING_TEXT(best), gain->gain * 100,
                   INTERVAL_TEXT("%.1f", gain->low * 100, gain->high * 100), SETTING_TEXT(first),
                   gain->buckets, gain->buckets == 1 ? "" : "s");
    }
    return count < 0 ? count : OK;
}

static int print_layers(const struct tuning *t, bool *has_table)
{
    const struct campaign *c = &t->campaign;
    unsigned legend_words = 0;

    for (size_t i = 0; i < t->swept; i++) {
        int64_t shape;
        int rc;

        TRY(store_shape_add(c->store, &t->request.spaces[i].shape, &shape));
        rc = tables_print(c->store, c->cluster_id, shape, t->request.spaces[i].window, NULL,
                          &legend_words, stdout);
        if (rc < 0)
            return rc;
        if (rc == OK)
            print_layer_result(t, i);
        *has_table |= rc == OK;
        printf("\n");
    }
    if (*has_table) {
        tables_legend(legend_words, stdout);
        printf("\n");
    }
    return OK;
}

/* Prints where the table is, and the commands that use it. */
static int print_table_use(const struct tuning *t)
{
    const struct campaign *c = &t->campaign;
    char digest[SHA256_HEX_BYTES];
    uint32_t undecided = 0;

    TRY(paste_digest(c->store, c->path, backend_is_real(c->cluster.backend), digest));
    /* Twelve digits are enough to compare by eye; --json has all of them. */
    printf("table     %s\ndigest    %.12s\n", c->path, digest);
    if (!backend_is_real(c->cluster.backend)) {
        printf("          %s: these rows never answer for a real cluster\nsee it    moetune report "
               "--db ",
               t->request.options->setup.sim ? "MODELLED" : "VIRTUAL RANKS");
        shell_word(c->path, stdout);
        printf(" -o report\n");
        return OK;
    }
    if (t->request.options->paste) {
        putchar('\n');
        paste_open(c->path);
        for (size_t i = 0; i < t->request.space_count; i++)
            paste_shape(&t->request.spaces[i].shape);
        return OK;
    }
    for (size_t i = 0; i < t->swept; i++) {
        struct layer_outcome outcome = { .plans = &t->request.spaces[i] };
        int64_t shape;

        TRY(store_shape_add(c->store, &outcome.plans->shape, &shape));
        TRY(store_entries(c->store, c->cluster_id, shape, count_entry, &outcome));
        undecided +=
            t->results[i].standing.row.more_s > 0 ? 0 : outcome.undecided; /* printed above */
    }
    putchar('\n');
    return paste_next(&(struct tuned_table){
        .store = c->store,
        .path = c->path,
        .undecided = undecided,
        .decide = effort_words[t->request.options->effort + 1] ? t->decide_command : NULL,
    });
}

static int print_text(void *self)
{
    const struct tuning *t = self;
    const struct campaign *c = &t->campaign;
    bool has_table = false;

    TRY(print_layers(t, &has_table));
    printf("steps     %" PRIu64 " to search, %" PRIu64 " to compare, %" PRIu64
           " to warm up, in %s;\n          the Tutel paper's search takes %" PRIu64
           " trials for these buckets\n",
           c->run.row.samples_search, c->run.row.samples_default, c->run.row.samples_warm,
           DURATION_TEXT(seconds_taken(t)), paper_trials(t));
    campaign_print_heat(c, stdout);
    TRY(print_settings(t));
    if (has_table)
        return print_table_use(t);
    printf("table     %s holds nothing of this yet\n", c->path);
    return OK;
}

static int print_json(void *self)
{
    const struct tuning *t = self;
    const struct campaign *c = &t->campaign;
    struct setting_gain gains[TUNE_LAYERS_MAX];
    char digest[SHA256_HEX_BYTES];
    int settings;

    TRY(paste_digest(c->store, c->path, backend_is_real(c->cluster.backend), digest));
    json_write(
        stdout,
        "{'state': '%s', 'digest': '%s', 'db': '%s', 'seconds': %.3f, 'search_steps': %" PRIu64
        ", 'contest_steps': %" PRIu64 ", 'warm_steps': %" PRIu64 ", 'paper_trials': %" PRIu64
        ",\n'layers': [",
        run_state_words[c->run.row.state], digest, c->path, seconds_taken(t),
        c->run.row.samples_search, c->run.row.samples_default, c->run.row.samples_warm,
        paper_trials(t));
    for (size_t i = 0; i < t->swept; i++) {
        const struct sweep_result *result = &t->results[i];

        json_write(stdout,
                   "%s\n {'measured': %u, 'known': %u, 'inferred': %u, 'failed': %u, "
                   "'ruled_out': %u",
                   i ? "," : "", result->measured, result->known, result->inferred,
                   result->failed_trials, result->ruled_out);
        tables_json_standing(*result->standing.why ? NULL : &result->standing.row, stdout);
        json_write(stdout, ", 'window': %u, 'too_wide': %u}", t->request.spaces[i].window,
                   result->too_wide.buckets);
    }
    json_write(stdout, "],\n'settings': [");
    settings =
        settings_compare(&t->request, t->swept, c->store, c->cluster_id, gains, TUNE_LAYERS_MAX);
    if (settings < 0)
        return settings;
    for (int i = 0; i < settings; i++) {
        const struct setting_gain *gain = &gains[i];

        json_write(stdout,
                   "%s\n {'best': '%s', 'against': '%s', 'gain': %g, 'gain_low': %g, "
                   "'gain_high': %g, 'buckets': %u}",
                   i ? "," : "", SHAPE_TEXT(&t->request.spaces[gain->best].shape),
                   SHAPE_TEXT(&t->request.spaces[gain->first].shape), gain->gain, gain->low,
                   gain->high, gain->buckets);
    }
    json_write(stdout, "],\n'tables': ");
    tables_json(c->store, c->cluster_id, 0, NULL, NULL, stdout);
    printf("}\n");
    return OK;
}

/* ---- the verb */

static int prepare_layers(void *self, const struct cluster *here)
{
    struct tuning *t = self;
    bool none_fits;

    TRY(tune_request_make(t->request.options, here, &t->request));
    if (t->request.declared)
        return fail(ERR_ARGUMENT, "--space %s: a program runs these plans: name it with --exec",
                    t->request.options->space);
    t->campaign.cluster = t->request.cluster;
    t->memory_status = tune_request_fits(&t->request, &none_fits);
    return none_fits ? t->memory_status : OK;
}

/* Reports each layer that got no table because no plan could be measured. */
static int check_tables(const struct tuning *t)
{
    const struct campaign *c = &t->campaign;
    int rc = OK;

    for (size_t i = 0; i < t->swept; i++) {
        struct layer_outcome outcome = { .plans = &t->request.spaces[i] };
        int64_t shape;

        TRY(store_shape_add(c->store, &outcome.plans->shape, &shape));
        TRY(store_entries(c->store, c->cluster_id, shape, count_entry, &outcome));
        if (outcome.entries)
            continue;
        TRY(store_trials(c->store, c->cluster_id, shape, outcome.plans->window, UINT32_MAX,
                         note_wrong, &outcome));
        rc = fail(outcome.wrong ? ERR_WRONG : UNSUPPORTED,
                  "%s: no plan could be measured%s, so it has no table; moetune show --trials --db "
                  "%s says why",
                  SHAPE_TEXT(&outcome.plans->shape),
                  outcome.wrong ? ", because results were wrong" : "", c->path);
    }
    return rc;
}

static int tune_layers(void *self)
{
    struct tuning *t = self;
    bool from_misses = t->request.options->misses.count > 0;
    uint32_t buckets = 0;
    int rc = OK;

    TRY(campaign_recognise(&t->campaign));
    tune_request_learn(&t->request, &t->campaign.cluster);
    for (size_t i = 0; i < t->request.space_count; i++) {
        struct layer_plans *plans = &t->request.spaces[i];

        if (plans->shape.shares != MOE_SHARES_EQUAL) /* ranks get work by their speeds */
            TRY(unequal_load(t->campaign.store, t->campaign.cluster_id, &t->campaign.cluster,
                             &plans->shape, &plans->load));
        plans->machine.speeds = load_speeds(plans->load);
    }
    if (from_misses) /* its buckets become the anchors */
        TRY(misses_list(&t->request, t->campaign.store, &t->request.cluster, &t->misses));
    for (size_t i = 0; i < t->request.space_count; i++)
        buckets += (uint32_t)t->request.spaces[i].anchor_count;
    TRY(campaign_begin(&t->campaign, t->request.strategy->name, t->request.effort->name, buckets));
    t->campaign.progress.compares = true;
    if (from_misses) {
        if (!t->misses.count)
            note("everything that was asked for is in the table");
        t->swept = t->request.space_count;
        rc = sweep_misses(&t->campaign, &t->request, &t->misses, t->results);
    }
    for (size_t i = 0; i < t->request.space_count && !from_misses && !rc; i++) {
        if (t->request.space_count > 1)
            snprintf(t->campaign.progress.layer, sizeof(t->campaign.progress.layer),
                     "layer %zu/%zu, ", i + 1, t->request.space_count);
        rc = sweep_layer(&t->campaign, &t->request, i, &t->results[i]);
        if (!rc || rc == ERR_CUT)
            t->swept = i + 1;
    }
    rc = campaign_finish(&t->campaign, rc, t->request.options->json ? print_json : print_text, t);
    /* That one layer has too little memory is printed already. */
    return rc || from_misses || t->memory_status ? rc : check_tables(t);
}

static int run_tune(const struct verb_call *call, void *options)
{
    struct tune_options *tune_options = options;
    struct campaign_verb verb = { .prepare = prepare_layers, .run = tune_layers };
    struct tuning *t;
    int rc;

    screen_color(tune_options->color);
    TRY(tune_options_check(tune_options, call->arguments[0]));
    if (!tune_options->setup.sim && !tune_options->setup.quiet && !call->count && !launch_is_rank())
        doctor_note_load();
    if (tune_options->exec)
        return exec_protocol(tune_options, call->argv + 1);
    t = calloc(1, sizeof(*t));
    if (!t)
        return fail(ERR_NOMEM, "the tuner");
    verb.self = t;
    t->request.options = tune_options;
    t->campaign.setup = &tune_options->setup;
    campaign_command(call->argv + 1, "--retune", NULL, t->campaign.command);
    campaign_command(call->argv + 1, "--retune", "--effort", t->decide_command);
    rc = campaign_lead(&t->campaign, &verb);
    rc = rc ? rc : t->memory_status;
    for (size_t i = 0; i < t->swept && !rc; i++)
        rc = t->results[i].standing.row.given_up ? ERR_WRONG : OK;
    misses_free(&t->misses);
    tune_request_free(&t->request);
    free(t);
    return rc;
}

static void print_tables(FILE *out)
{
    tune_tables(out);
    fprintf(out, "\n%s", exec_protocol_help);
}

const struct verb tune_verb = {
    .name = "tune",
    .summary = "measure plans, store the best ones (also: moetune --cluster)",
    .arguments = "[HOSTS]",
    .most = 1,
    .about =
        "Measures plans on this machine, and writes the best plan of every capacity bucket to the "
        "database. Continues a sweep that was cut off. `moetune --cluster` is the same. HOSTS is a "
        "file, or a list as \"a:8,b:8\". Without HOSTS the ranks are those of the launcher or "
        "allocation, or of this machine. If no layer is named, tune takes an example and names it.",
    .rows = tune_rows,
    .defaults = &tune_defaults,
    .options_size = sizeof(tune_defaults),
    .tables = print_tables,
    .notes = "Exit code 0: done, also if the default plan is best.\nExit code 3: the chosen plans "
             "turned out to be slower and the default took their place, or a layer has no table "
             "because all results were wrong.\nExit code 4: a layer has no table for another "
             "reason.\nExit code 75: cut off. tune prints the command that continues.",
    .example = "tune --experts 2 --model-dim 256 --hidden-dim 512 --budget 10m",
    .run = run_tune,
};
