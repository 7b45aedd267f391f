/* moetune verify: measures again what the table's entries claim. */
#include "common_rows.h"
#include "host.h"
#include "json.h"
#include "layer_plans.h"
#include "plan.h"
#include "status.h"
#include "text.h"
#include "tune_options.h"
#include "two_tables.h"
#include "verbs.h"
#include "verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values of the options in `rows`. */
struct options {
    struct campaign_setup setup;
    struct verify_wanted wanted;
    struct load_options load;
    const char *buckets;
    struct two_tables programs; /* with --exec */
    double margin;
    bool json;
    uint32_t color;
};

static const struct option_row rows[] = {
    { "what to verify", .kind = OPTION_GROUP },
    { "only", "WORD", OPTION_WORD, OPTION(wanted.kind),
      "entries to verify: all, stale, imported, measured, inferred", verify_only_words },
    BUCKETS_ROW(OPTION(buckets), "only the buckets from LO to HI"),
    SHAPE_FILTER_ROW(OPTION_LIST, OPTION(wanted.shapes), "; may be repeated"),
    { .kind = OPTION_GROUP, .offset = OPTION(load), .rows = load_rows },
    MARGIN_ROW(OPTION(margin), "ignore smaller differences"),
    { "restart", NULL, OPTION_FLAG, OPTION(wanted.restart),
      "begin anew, not where the last verification was cut off" },
    SEED_ROW(OPTION(setup.seed)),

    { "programs", .kind = OPTION_GROUP, .offset = OPTION(programs), .rows = two_tables_rows },
    { "how long", .kind = OPTION_GROUP, .offset = OPTION(setup), .rows = campaign_limit_rows },
    { "where", .kind = OPTION_GROUP, .offset = OPTION(setup), .rows = campaign_where_rows },
    { .kind = OPTION_GROUP, .offset = OPTION(setup.where.virtual), .rows = virtual_rows },
    { "table", .kind = OPTION_GROUP, .offset = OPTION(setup), .rows = campaign_table_rows },

    { "output", .kind = OPTION_GROUP },
    JSON_ROW(OPTION(json)),
    COLOR_ROW(OPTION(color)),
    QUIET_ROW(OPTION(setup.quiet)),
    { NULL },
};

/* Not tune's seed: a verification with the same random data and order would prove nothing new. */
static const struct options defaults = {
    .setup = { CAMPAIGN_DEFAULTS, .seed = 2, .existing = true },
    .wanted = { .last = UINT32_MAX },
    .programs = { .warmup = 2, .launch_steps = 5 },
};

/* One verification; start() allocates and frees it. */
struct verifying {
    struct options *options;
    struct campaign campaign;
    struct verify_terms terms;
    struct verify_entries claims;
    int64_t known_shape; /* the shape and the load that the ranks have */
    char known_load[LOAD_NAME_BYTES], unknown_load[LOAD_NAME_BYTES]; /* unknown: noted last */
    int64_t verified_ns; /* the time for verified entries, with the set-up of layers */
    uint32_t verified;
};

/* ---- measuring */

/* Opens the load that options name, else the load that the entry was tuned under.  UNSUPPORTED
 * after a note if the database does not know that load. */
static int open_load(struct verifying *v, struct verify_result *result, struct load **out)
{
    const struct options *o = v->options;
    uint64_t seed = o->setup.seed;
    const char *name = result->entry_before.load;
    char text[LOAD_TEXT_BYTES];
    int rc;

    if (o->load.skew != 0 || o->load.routing.count || o->load.between > 0)
        return load_open(&result->shape, result->entry_before.window, seed, &o->load, out);
    rc = *name ? store_load_get(v->campaign.store, name, text, sizeof(text)) : UNSUPPORTED;
    if (rc < 0)
        return rc;
    rc = load_open_text(&result->shape, seed, rc == OK ? text : name, out);
    if (!rc)
        return OK;
    if (strcmp(v->unknown_load, name) != 0) /* once for the buckets of one load */
        note("entries tuned under the load \"%s\" are skipped: this database does not have its "
             "counts; name a load by --routing or --skew",
             UTF8_LINE(result->entry_before.load));
    memcpy(v->unknown_load, name, sizeof(v->unknown_load));
    result->load_unknown = true;
    return UNSUPPORTED;
}

/* Measures an entry and stores the result. */
static int measure_claim(struct verifying *v, struct verify_result *result)
{
    struct campaign *c = &v->campaign;
    char claim[48] = "not compared";

    TRY(verify_entry(c, &v->terms, result));
    TRY(store_commit(c->store));
    if (!isnan(result->entry_before.gain.value))
        text_put(claim, sizeof(claim), "%.1f %% faster", 100 * result->entry_before.gain.value);
    if (result->kind == VERIFY_REFUTED)
        note("refuted: bucket %u (c=%" PRIu64 ", E=%u H=%u) %s, %s by the table: %s",
             result->entry_before.bucket, result->entry_before.capacity, result->shape.experts,
             result->shape.hidden_dim, PLAN_TEXT(&result->entry_before.plan), claim, result->why);
    c->progress.done++;
    c->progress.fresh++;
    c->run.row.buckets_done++;
    return campaign_publish(c, result->kind == VERIFY_REFUTED);
}

/* Measures an entry under its load. */
static int measure_under_load(struct verifying *v, struct verify_result *result)
{
    struct verify_terms *terms = &v->terms;
    int64_t began_ns = host_clock_ns();
    struct load *load;
    int rc = open_load(v, result, &load);

    if (rc)
        return rc == UNSUPPORTED ? OK : rc;
    terms->machine.speeds = load_speeds(load);
    terms->machine.between = load_between(load);
    load_name(load, result->load);
    /* The ranks get a layer or a load only if it is another one.  If not even the layer fits in
     * memory, all plans are ruled out without a step. */
    if ((result->entry_before.shape != v->known_shape || strcmp(result->load, v->known_load) != 0) &&
        account_layer(&result->shape, &terms->machine) <= terms->memory_limit_bytes)
        rc = campaign_layer(&v->campaign, &result->shape, load, terms->memory_limit_bytes);
    if (!rc) {
        v->known_shape = result->entry_before.shape;
        memcpy(v->known_load, result->load, sizeof(v->known_load));
        rc = measure_claim(v, result);
    }
    if (!rc) {
        v->verified++;
        v->verified_ns += host_clock_ns() - began_ns;
    }
    terms->machine.speeds = NULL;
    terms->machine.between = 0;
    load_close(load);
    return rc;
}

/* ---- what is printed at the end */

static int print_json(const struct verifying *v)
{
    const struct campaign *c = &v->campaign;
    struct verify_count counts = verify_count(&v->claims);

    json_write(stdout,
               "{'state': '%s', 'db': '%s', 'seconds': %.3f, 'contest_steps': %" PRIu64
               ", 'warm_steps': %" PRIu64 ", 'waiting': %u, 'refuted_earlier': %u",
               run_state_words[c->run.row.state], c->path,
               (double)(host_clock_ns() - c->begun_ns) * 1e-9, c->run.row.samples_default,
               c->run.row.samples_warm, v->claims.waiting, counts.refuted_earlier);
    json_write(stdout, ", 'default_over_table': %g",
               verify_default_over_table(&v->claims, &(uint32_t){ 0 }));
    for (int kind = 0; kind <= VERIFY_REFUTED; kind++)
        json_write(stdout, ", '%s': %u", verify_words[kind].json, counts.of[kind]);
    json_write(stdout, ",\n'entries': ");
    verify_json(&v->claims, stdout);
    printf("}\n");
    return OK;
}

static bool is_waiting(const struct verify_result *result)
{
    return result->kind == VERIFY_PENDING && !result->load_unknown;
}

static int print_text(const struct verifying *v)
{
    const struct campaign *c = &v->campaign;
    struct verify_count counts = verify_count(&v->claims);
    uint32_t refuted = counts.of[VERIFY_REFUTED] + counts.refuted_earlier + v->claims.waiting,
             waiting = 0;
    double took_s = (double)(host_clock_ns() - c->begun_ns) * 1e-9;

    TRY(verify_table(c->store, &v->claims, stdout));
    for (size_t i = 0; i < v->claims.count; i++)
        waiting += is_waiting(&v->claims.results[i]);
    progress_left(waiting, v->claims.count, "entries", v->verified, (double)v->verified_ns * 1e-9,
                  stdout);
    printf("steps     %" PRIu64 ", %" PRIu64 " to warm up, in %s\n", c->run.row.samples_default,
           c->run.row.samples_warm, DURATION_TEXT(took_s));
    campaign_print_heat(c, stdout);
    printf("table     %s\n", c->path);
    if (refuted)
        printf("          moetune tune measures again what is refuted (%u)\n", refuted);
    if (!backend_is_real(c->cluster.backend))
        printf("          %s: these rows never answer for a real cluster\n",
               v->options->setup.sim ? "MODELLED" : "VIRTUAL RANKS");
    return OK;
}

static int print_results(void *self)
{
    struct verifying *v = self;

    return (v->options->json ? print_json : print_text)(v);
}

/* ---- a machine that the database does not know */

/* The machine of the database that is most like this one; differs: in which hard fields it is not.
 */
struct machine_likeness {
    struct store *store;
    const struct cluster *here;
    int64_t last_cluster; /* of the entry before */
    int fewest;           /* fields that differ; 0: no machine yet */
    char differs[512];
};

static int compare_machine(void *self, const struct entry_row *e)
{
    struct machine_likeness *likeness = self;
    char differs[sizeof(likeness->differs)] = "";
    struct cluster there;
    int count = 0;

    if (e->cluster == likeness->last_cluster)
        return OK;
    likeness->last_cluster = e->cluster;
    TRY(store_cluster_get(likeness->store, e->cluster, &there));
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *field = &cluster_fields[i];
        const char *value_here = CLUSTER_VALUE(likeness->here, field),
                   *value_there = CLUSTER_VALUE(&there, field);

        if (field->class == CLUSTER_HARD && strcmp(value_here, value_there) != 0)
            text_add(differs, sizeof(differs), "%s%s is %s, not %s", count++ ? "; " : "",
                     field->name, TEXT_SHORT(value_here, 60), TEXT_SHORT(value_there, 60));
    }
    if (!strcmp(there.backend, likeness->here->backend) &&
        (!likeness->fewest || count < likeness->fewest)) {
        likeness->fewest = count;
        memcpy(likeness->differs, differs, sizeof(differs));
    }
    return OK;
}

/* ---- the verb */

static int find_entries(struct verifying *v)
{
    struct campaign *c = &v->campaign;
    struct machine_likeness likeness = { .store = c->store, .here = &c->cluster };
    bool has_own_layers; /* layers other than those of declared spaces */
    int rc;

    TRY(verify_entries_declared(c->store, &v->options->wanted, &has_own_layers));
    if (!has_own_layers)
        return UNSUPPORTED;
    rc = store_cluster_find(c->store, &c->cluster, &c->cluster_id);
    if (rc == UNSUPPORTED) {
        TRY(store_entries(c->store, 0, 0, compare_machine, &likeness));
        note("%s: nothing to verify: it has no entry for this machine%s%s", c->path,
             likeness.fewest ? "; nearest to those it has: " : "", likeness.differs);
    }
    TRY(rc);
    TRY(campaign_recognise(c));
    return verify_entries_find(c, &v->options->wanted, &v->claims);
}

/* Returns the end of the entries that have the layer and the doubt of entry `first`; *waiting: how
 * many of them are not measured yet. */
static size_t stretch_end(const struct verify_entries *claims, size_t first, size_t *waiting)
{
    const struct verify_result *results = claims->results;
    size_t end = first;

    *waiting = 0;
    while (end < claims->count && results[end].entry_before.shape == results[first].entry_before.shape &&
           verify_doubt(&results[end].entry_before) == verify_doubt(&results[first].entry_before)) {
        *waiting += is_waiting(&results[end]);
        end++;
    }
    return end;
}

/* Verifies the waiting entries from first to end - 1, at least one of them, until that time. */
static int verify_stretch(struct verifying *v, size_t first, size_t end, int64_t until_ns)
{
    bool measured_one = false;

    for (size_t i = first; i < end; i++) {
        struct verify_result *result = &v->claims.results[i];

        if (!is_waiting(result))
            continue;
        if (campaign_over(&v->campaign))
            return ERR_CUT;
        if (measured_one && host_clock_ns() >= until_ns)
            break;
        TRY(measure_under_load(v, result));
        measured_one = true;
    }
    return OK;
}

/* Verifies entries first to end - 1, which are equally doubtful.  Each layer gets an equal part of
 * the time that is left, and at least one entry, so that a small budget reaches all layers.  Time
 * that a layer does not need goes to the others. */
static int verify_doubtful(struct verifying *v, size_t first, size_t end)
{
    const struct campaign *c = &v->campaign;
    size_t layers, waiting, next;

    do {
        layers = 0;
        for (size_t i = first; i < end; i = next) {
            next = stretch_end(&v->claims, i, &waiting);
            layers += waiting > 0;
        }
        for (size_t i = first, left = layers; i < end; i = next) {
            int64_t now_ns = host_clock_ns(), until_ns = INT64_MAX;

            next = stretch_end(&v->claims, i, &waiting);
            if (!waiting)
                continue;
            if (c->deadline_ns)
                until_ns = now_ns + (c->deadline_ns - now_ns) / (int64_t)left;
            left--;
            TRY(verify_stretch(v, i, next, until_ns));
        }
    } while (layers);
    return OK;
}

static int verify_all(struct verifying *v)
{
    const struct verify_entries *claims = &v->claims;

    for (size_t first = 0, end; first < claims->count; first = end) {
        end = first + 1;
        while (end < claims->count && verify_doubt(&claims->results[end].entry_before) ==
                                          verify_doubt(&claims->results[first].entry_before))
            end++;
        TRY(verify_doubtful(v, first, end));
    }
    return OK;
}

static int verify_tables(void *self)
{
    struct verifying *v = self;
    struct campaign *c = &v->campaign;
    struct verify_count counts;
    int rc;

    TRY(find_entries(v));
    counts = verify_count(&v->claims);
    if (counts.of[VERIFY_EARLIER])
        note("continues a verification that was cut off: %u of %zu entries are done "
             "(--restart begins anew)",
             counts.of[VERIFY_EARLIER], v->claims.count);
    TRY(campaign_begin(c, "verify", verify_only_words[v->options->wanted.kind],
                       counts.of[VERIFY_PENDING]));
    v->terms.first_run = v->claims.first_run < c->run.row.id ? v->claims.first_run : c->run.row.id;
    rc = verify_all(v);
    verify_entries_sort(&v->claims);
    if (!rc || rc == ERR_CUT) {
        int claims_rc = verify_withdraw_gains(c->store, &v->claims, c->run.row.started_s);

        rc = claims_rc ? claims_rc : rc;
    }
    rc = campaign_finish(c, rc, print_results, v);
    counts = verify_count(&v->claims);
    /* The exit code alone must report a refuted entry, even if others were not measured. */
    return (!rc || rc == ERR_CUT) && counts.of[VERIFY_REFUTED] + counts.refuted_earlier ? ERR_WRONG
                                                                                        : rc;
}

static int prepare_claims(void *self, const struct cluster *here)
{
    struct verifying *v = self;
    struct options *o = v->options;

    for (int i = 0; i < o->wanted.shapes.count; i++) {
        struct moe_shape parsed = { .struct_size = sizeof(parsed) };

        if (shape_parse(o->wanted.shapes.items[i], &parsed))
            return ERR_ARGUMENT;
    }
    TRY(load_options_check(&o->load));
    if (o->buckets)
        TRY(layer_plans_buckets(o->buckets, &o->wanted.first, &o->wanted.last));
    TRY(tune_cluster(&o->setup, here, &v->campaign.cluster));
    v->terms.margin = o->margin;
    v->terms.machine = tune_machine(&v->campaign.cluster);
    v->terms.memory_limit_bytes = campaign_memory_limit(&o->setup, &v->campaign.cluster);
    return OK;
}

/* ---- programs */

/* The options that go with --exec.  The program itself takes care of everything else. */
static const char *const with_programs[] = { "exec",         "against-table", "warmup", "space",
                                             "launch-steps", "margin",        "seed",   "shape",
                                             "budget",       "trial-timeout", "db",     "json",
                                             "color",        "quiet",         NULL };

static int check_programs(const struct options *o)
{
    struct option_row flat[OPTION_ROWS_MAX];
    size_t count = options_flatten(rows, flat);

    for (size_t i = 0; i < count && o->programs.exec; i++) {
        size_t j = 0;

        while (with_programs[j] && flat[i].name && strcmp(flat[i].name, with_programs[j]) != 0)
            j++;
        if (flat[i].name && !with_programs[j] && option_is_given(&flat[i], o, &defaults))
            return fail(ERR_ARGUMENT,
                        "--exec does not go with --%s: the programs run steps of "
                        "their own",
                        flat[i].name);
    }
    count = options_flatten(two_tables_rows, flat);
    for (size_t i = 0; i < count && !o->programs.exec; i++)
        if (flat[i].name && option_is_given(&flat[i], &o->programs, &defaults.programs))
            return fail(ERR_ARGUMENT, "--%s goes with --exec", flat[i].name);
    return OK;
}

static int verb_verify(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct verifying *v;
    struct campaign_verb verb = { .prepare = prepare_claims, .run = verify_tables };
    char command[CAMPAIGN_COMMAND_BYTES] = "";
    int rc;

    screen_color(o->color);
    TRY(check_programs(o));
    if (o->programs.exec) {
        o->programs.shapes = &o->wanted.shapes;
        o->programs.db = o->setup.db;
        o->programs.margin = o->margin;
        o->programs.budget_s = o->setup.budget_s;
        o->programs.silence_s = o->setup.timeout_s;
        o->programs.seed = o->setup.seed;
        o->programs.json = o->json;
        o->programs.quiet = o->setup.quiet;
        o->programs.steal = o->setup.steal;
        campaign_command(call->argv + 1, NULL, NULL, command);
        o->programs.command = command;
        return two_tables(&o->programs);
    }
    v = calloc(1, sizeof(*v));
    if (!v)
        return fail(ERR_NOMEM, "the verification");
    verb.self = v;
    v->options = options;
    v->options->setup.where.hosts = call->arguments[0];
    v->campaign.setup = &v->options->setup;
    campaign_command(call->argv + 1, "--restart", NULL, v->campaign.command);
    rc = campaign_lead(&v->campaign, &verb);
    verify_entries_free(&v->claims);
    free(v);
    return rc;
}

const struct verb verify_verb = {
    .name = "verify",
    .summary = "measure the table's plans against the default once more",
    .arguments = "[HOSTS]",
    .most = 1,
    .about =
        "Measures the plans of this machine's entries against the default plan again. The most "
        "doubtful entries come first. In each layer those come first that most steps depend on. In "
        "an undecided entry the plan that came nearest takes part, too. A plan that is not slower "
        "stays: it gets fresh gains, and is no longer stale. A plan that is slower than the "
        "default, or fails, is refuted: the default replaces it until `moetune tune` has measured "
        "the bucket again. If another plan outruns the entry's, `tune` measures the bucket again.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes =
        "Exit code 3: a plan was refuted, even if time ran out afterwards, or it is slower in the "
        "program of --exec.\nExit code 1: --exec came to no verdict at any key.\nExit code 75: cut "
        "off. The same command continues; with --exec it begins again.\n\nWith --exec verify "
        "compares two tables (--db, --against-table), or a table and the default plan. The program "
        "asks and tells as for `tune --exec`. It is launched under the plans of one side, then of "
        "the other: A B B A. In each range that ends when one side is faster with 99 % confidence. "
        "A launch is one sample of each range that wants one, so samples include the differences "
        "between launches. A range with one plan on both sides is not measured. The 95 % interval "
        "is about what one more launch saves, as `tune --exec` prints it. Against the default "
        "plan, and under a table that programs were measured for, the database learns the result "
        "as above. A table of moetune's own layer, or a snapshot, does not change.",
    .example = "verify --only stale --budget 5m",
    .run = verb_verify,
};
