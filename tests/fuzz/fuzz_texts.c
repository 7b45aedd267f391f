/* Feeds hostile texts to every small reader.  An input is the name of a reader, a blank, and the
 * reader's text; with FUZZ_ONLY, which names the reader, it is only the text.  An accepted text
 * must come back the same when it is written and read again. */
#include "capacity_trace.h"
#include "cluster.h"
#include "counts_replay.h"
#include "declaration.h"
#include "fuzzer.h"
#include "launches.h"
#include "layer_options.h"
#include "layer_plans.h"
#include "lines.h"
#include "load.h"
#include "model_file.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"
#include "traffic.h"
#include "tune_options.h"
#include "work.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void be_silent(void *self, const char *line)
{
    (void)self, (void)line;
}

static void want(bool holds, const char *what)
{
    if (!holds)
        fuzz_wrong(what);
}

/* ---- values with a text form */

static bool take_plan(const char *text)
{
    char once[PLAN_TEXT_BYTES];
    struct moe_plan plan, again;

    if (plan_parse(text, &plan))
        return false;
    moe_plan_format(&plan, once, sizeof(once));
    want(!plan_parse(once, &again) && plan_equal(&plan, &again), "a plan that reads differently");
    return true;
}

static const struct moe_shape empty_shape = { .struct_size = sizeof(struct moe_shape) };

static bool take_shape(const char *text)
{
    char once[SHAPE_TEXT_BYTES], why[SHAPE_FAULT_BYTES];
    struct moe_shape shape = empty_shape, again = empty_shape;

    if (shape_parse(text, &shape))
        return false;
    shape_fault(&shape, why, sizeof(why));
    want(shape_format(&shape, once, sizeof(once)) < SHAPE_TEXT_BYTES, "a shape that is cut off");
    want(!shape_parse(once, &again) && shape_equal(&shape, &again),
         "a shape that reads differently");
    return true;
}

static bool take_cluster(const char *text)
{
    static char once[CLUSTER_TEXT_BYTES], twice[CLUSTER_TEXT_BYTES];
    struct cluster cluster, again;

    if (cluster_parse(text, "fuzz", &cluster))
        return false;
    cluster_check_model(&cluster, "fuzz");
    want(cluster_format(&cluster, once, sizeof(once)) < CLUSTER_TEXT_BYTES,
         "a cluster that is cut off");
    want(!cluster_parse(once, "fuzz", &again), "a cluster that cannot be read again");
    cluster_format(&again, twice, sizeof(twice));
    want(!strcmp(once, twice), "a cluster that reads differently");
    return true;
}

static bool take_order(const char *text)
{
    char once[WORK_LINE_BYTES], twice[WORK_LINE_BYTES];
    struct order order, again;

    if (order_parse(text, &order))
        return false;
    order_format(&order, once);
    want(!order_parse(once, &again), "an order that cannot be read again");
    order_format(&again, twice);
    want(!strcmp(once, twice), "an order that reads differently");
    return true;
}

static bool take_reply(const char *text)
{
    char once[WORK_LINE_BYTES], twice[WORK_LINE_BYTES];
    struct reply reply, again;

    if (reply_parse(text, &reply))
        return false;
    reply_format(&reply, once);
    want(!reply_parse(once, &again), "a reply that cannot be read again");
    reply_format(&again, twice);
    want(!strcmp(once, twice), "a reply that reads differently");
    return true;
}

static bool take_declared(const char *text)
{
    char why[DECLARATION_FAULT_BYTES], plan[DECLARATION_PLAN_BYTES], range[128];
    struct declaration *d, *again;
    size_t length;
    uint32_t read;

    if (declaration_read(text, &d, why, sizeof(why)))
        return false;
    want(!declaration_read(d->text, &again, why, sizeof(why)),
         "a declared space that cannot be read again");
    want(!strcmp(d->text, again->text) && d->id == again->id && d->plans == again->plans &&
             !memcmp(d->plan, again->plan, d->plans * sizeof(*d->plan)),
         "a declared space that reads differently");
    want(declaration_legal(d, d->default_choice), "a default plan that is not legal");
    for (uint32_t i = 0; i < d->plans; i++) {
        want(!declaration_broken_need(d, d->plan[i], 0, &length),
             "a legal plan that a need excludes");
        want(declaration_format(d, d->plan[i], plan, sizeof(plan)) < DECLARATION_PLAN_BYTES,
             "a plan that is cut off");
        want(declaration_scan(d, plan, &read) && read == d->plan[i],
             "a plan that reads differently");
    }
    for (uint32_t b = 0; b < declaration_buckets(d); b++)
        want(declaration_range(d, b, range, sizeof(range)) < (int)sizeof(range) &&
                 declaration_bucket(d, declaration_key(d, b), UINT32_MAX) >= b,
             "a bucket without its key");
    declaration_free(again);
    declaration_free(d);
    return true;
}

/* ---- the command line */

enum { WORDS_MAX = 64 };

static int split(char *text, char *words[WORDS_MAX + 2])
{
    int count = 1;

    words[0] = "moetune";
    for (char *word; count <= WORDS_MAX && (word = strsep(&text, " "));)
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static bool take_options(const char *text)
{
    struct tune_options options = tune_defaults;
    char *copy = strdup(text), *words[WORDS_MAX + 2];
    int first, rc;
    bool help = false;

    rc = options_parse(tune_rows, split(copy, words), words, &options, &first, &help);
    if (!rc && !help)
        rc = tune_options_check(&options, NULL);
    free(copy);
    return !rc;
}

/* "BUCKETS AXES WINDOW"; "-" leaves the first two out. */
static bool take_space(const char *text)
{
    const struct moe_shape shape = { .struct_size = sizeof(shape),
                                     .experts = 4,
                                     .top_k = 2,
                                     .model_dim = 16,
                                     .hidden_dim = 64,
                                     .ranks = 8,
                                     .ranks_per_node = 4,
                                     .tokens = 64 };
    char *copy = strdup(text), *rest = copy, *buckets = strsep(&rest, " "),
         *axes = strsep(&rest, " ");
    struct layer_plans_setup setup = { .window = rest ? (uint32_t)strtoul(rest, NULL, 10) | 1 : 128,
                                       .buckets = strcmp(buckets, "-") != 0 ? buckets : NULL,
                                       .max_factor = 2,
                                       .arms.axes = axes && strcmp(axes, "-") != 0 ? axes : "r,d,a",
                                       .memory_limit_bytes = INT64_MAX,
                                       .effort = &efforts[0] };
    struct layer_plans space;
    int rc = layer_plans_open(&shape, &setup, &space);

    if (!rc) {
        want(space.default_arm >= 0 && space.arm_count && space.anchor_count, "an empty space");
        for (size_t i = 0; i < space.anchor_count; i++)
            want(space.anchors[i] >= space.first && space.anchors[i] <= space.last,
                 "an anchor outside of the range");
        layer_plans_close(&space);
    }
    free(copy);
    return !rc;
}

/* ---- programs that talk */

static const struct declaration *spoken_space(void)
{
    static const struct declaration *space;

    if (!space)
        declaration_register("space fuzz\naxis chunks 1 2 default 1 live\n"
                             "axis way a b default a restart\nkey tokens edges 64 256\n"
                             "class skew edges 1.25 2\n",
                             &space);
    return space;
}

/* A line of a program, with a space and without one; what it tells is held against a guard. */
static bool take_said(const char *text)
{
    const struct measured_guard guard = { "loss", false, 1 };
    char why[LINE_WHY_BYTES];
    bool understood = false;
    struct program_line said;

    for (int spaced = 0; spaced < 2; spaced++) {
        const struct declaration *d = spaced ? spoken_space() : NULL;

        *why = 0;
        if (!program_line_read(text, d, &said, why)) {
            want(*why, "a line that is refused without a word");
            continue;
        }
        understood = true;
        want(said.word != LINE_TELL || (said.ns > 0 && said.memory_bytes >= 0), "no time");
        want(said.word != LINE_FAILED || *said.reason, "a failure without a reason");
        want(said.numbers <= LINE_NUMBERS_MAX, "too many numbers");
        guard_broken(&guard, &said, why);
    }
    return understood;
}

static bool take_guard(const char *text)
{
    struct measured_guard guard;

    if (guard_parse(text, &guard))
        return false;
    want(*guard.name && guard.limit == guard.limit, "a guard of nothing");
    return true;
}

/* A command line whose words in braces are axes. */
static bool take_command(const char *text)
{
    char *command;

    if (launch_command(text, spoken_space(), spoken_space()->default_choice, &command))
        return false;
    want(strchr(text, '{') || !strcmp(text, command), "a command that is changed for nothing");
    free(command);
    return true;
}

/* ---- files */

static const char *in_a_file(const char *name, const char *text)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
    fuzz_write_file(path, (const uint8_t *)text, strlen(text));
    return path;
}

static bool take_model(const char *text)
{
    struct layer_options layer = LAYER_DEFAULTS;
    const char *path = in_a_file("config.json", text);
    int rc = model_file_read(path, &layer);

    unlink(path);
    return !rc;
}

static bool take_traffic(const char *text)
{
    struct traffic traffic = { 0 };
    int rc = traffic_parse(text, strlen(text), "fuzz", &traffic);

    for (size_t i = 0; i < traffic.count; i++)
        traffic_total(&traffic.layers[i]);
    traffic_free(&traffic);
    return !rc;
}

/* Steps of counts: what is read can be replayed in every way. */
static bool take_counts(const char *text)
{
    const struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct counts_trace trace;
    struct counts_sum sum;

    if (counts_read(in_a_file("counts.jsonl", text), 2, &trace))
        return false;
    for (int way = 0; way < COUNTS_WAYS; way++)
        if (!counts_replay(&trace, &options, way, NULL, NULL, NULL, &sum))
            want(sum.steps == trace.steps && sum.dropped_share >= 0 && sum.dropped_share <= 1,
                 "steps that come to nothing");
    counts_free(&trace);
    return true;
}

/* Steps of a layer: what is taken is exactly W T k choices, and comes back from its text. */
static bool take_routing(const char *text)
{
    const struct moe_shape shape = { .struct_size = sizeof(shape),
                                     .experts = 4,
                                     .top_k = 2,
                                     .tokens = 8,
                                     .model_dim = 64,
                                     .hidden_dim = 4,
                                     .ranks = 2,
                                     .ranks_per_node = 2 };
    struct option_list files = { .items = { in_a_file("routing.jsonl", text) }, .count = 1 };
    char one[LOAD_TEXT_BYTES], other[LOAD_TEXT_BYTES];
    struct load *load = NULL, *again = NULL;

    if (load_open_routing(&shape, 4, 1, &files, &load))
        return false;
    for (uint32_t i = 0; i < load_step_count(load); i++)
        for (uint32_t q = 0; q < shape.ranks; q++) {
            uint64_t sum = 0;

            for (uint32_t e = 0; e < shape.experts; e++)
                sum += load_count(load, i, q, e);
            want(sum == 16, "a rank with other than k T choices");
        }
    want(!load_text(load, one) && !load_open_text(&shape, 1, one, &again), "no text");
    want(again && !load_text(again, other) && !strcmp(one, other), "another text");
    load_close(load);
    load_close(again);
    return true;
}

/* The text of a load, as ranks and databases have it. */
static bool take_load(const char *text)
{
    const struct moe_shape shape = { .struct_size = sizeof(shape),
                                     .experts = 4,
                                     .top_k = 2,
                                     .tokens = 8,
                                     .model_dim = 64,
                                     .hidden_dim = 4,
                                     .ranks = 2,
                                     .ranks_per_node = 2 };
    char name[LOAD_NAME_BYTES];
    struct load *load = NULL;

    if (load_open_text(&shape, 1, text, &load))
        return false;
    load_name(load, name);
    if (load_counts(load))
        want(load_kept(load, 8, 1) <= 16, "more rows than choices");
    load_close(load);
    return true;
}

/* Capacities of steps, in either form. */
static bool take_trace(const char *text)
{
    const struct moe_shape shape = { .experts = 4, .ranks = 2 };
    struct capacity_trace trace;

    if (capacity_trace_read(in_a_file("trace.txt", text), &shape, &trace))
        return false;
    want(trace.steps > 0, "a trace without steps");
    for (size_t i = 0; i < trace.steps; i++)
        want(trace.capacities[i] >= 1 && trace.capacities[i] <= TRACE_CAPACITY_MOST,
             "a capacity that is none");
    capacity_trace_free(&trace);
    return true;
}

static int count_entry(void *self, const struct entry_row *entry)
{
    (void)entry;
    ++*(int *)self;
    return OK;
}

/* A database is built from the journal: it must be sound, whatever the journal was. */
static bool take_journal(const char *text)
{
    static const char *const beside[] = { "",           ".journal", ".lease",
                                          ".published", ".damaged", ".journal.damaged" };
    char path[PATH_MAX + 32];
    struct store *store;
    int entries = 0, rc;

    in_a_file("journal.db", "no database");
    in_a_file("journal.db.journal", text);
    snprintf(path, sizeof(path), "%s/journal.db", fuzz_folder());
    rc = store_open(path, STORE_REPAIR | STORE_RELAXED, &store);
    if (!rc) {
        want(store_entries(store, 0, 0, count_entry, &entries) >= 0, "entries that cannot be read");
        store_close(store);
    }
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        snprintf(path, sizeof(path), "%s/journal.db%s", fuzz_folder(), beside[i]);
        unlink(path);
    }
    return entries > 0;
}

/* ---- all */

static const struct reader {
    const char *name;
    bool (*take)(const char *text); /* true: accepted */
} readers[] = {
    { "plan", take_plan },         { "shape", take_shape },     { "cluster", take_cluster },
    { "order", take_order },       { "reply", take_reply },     { "options", take_options },
    { "space", take_space },       { "model", take_model },     { "traffic", take_traffic },
    { "journal", take_journal },   { "counts", take_counts },   { "trace", take_trace },
    { "declared", take_declared }, { "routing", take_routing }, { "load", take_load },
    { "said", take_said },         { "guard", take_guard },     { "command", take_command },
};
enum { READERS = sizeof(readers) / sizeof(readers[0]) };

static const struct reader *reader_of(const char *text)
{
    for (int i = 0; i < READERS; i++) {
        size_t length = strlen(readers[i].name);

        if (!strncmp(text, readers[i].name, length) && text[length] == ' ')
            return &readers[i];
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *only = getenv("FUZZ_ONLY");
    char *text = NULL;
    const struct reader *reader;

    if (asprintf(&text, "%s%s%.*s", only ? only : "", only ? " " : "", (int)size,
                 (const char *)data) < 0) /* a zero byte ends it */
        abort();
    reader = reader_of(text);
    log_to(be_silent, NULL);
    if (reader && reader->take(text + strlen(reader->name) + 1))
        fuzz_accepted();
    log_to(NULL, NULL);
    free(text);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

/* The name in front stays one of a reader. */
static void mend_name(struct fuzz_input *in)
{
    char text[16];
    size_t n = in->size < sizeof(text) - 1 ? in->size : sizeof(text) - 1;
    const char *name = readers[fuzz_draw(READERS)].name;

    memcpy(text, in->bytes, n);
    text[n] = 0;
    if (reader_of(text) || in->size + 16 > FUZZ_INPUT_MAX)
        return;
    memmove(in->bytes + strlen(name) + 1, in->bytes, in->size);
    memcpy(in->bytes, name, strlen(name));
    in->bytes[strlen(name)] = ' ';
    in->size += strlen(name) + 1;
}

/* A digit more or less, a word twice: what a text is damaged by. */
static void change_digit(struct fuzz_input *in)
{
    for (size_t i = fuzz_draw((uint32_t)in->size); i < in->size; i++)
        if (in->bytes[i] >= '0' && in->bytes[i] <= '9') {
            in->bytes[i] = "0123456789-+.eEx"[fuzz_draw(16)];
            return;
        }
}

/* A database for every journal takes its time. */
static bool is_worth_keeping(const struct fuzz_input *in)
{
    return in->bytes[0] != 'j' && !fuzz_draw(4);
}

static void try_one(const uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    static fuzz_way *const ways[] = { change_digit };
    const struct fuzz_target target = { .name = "fuzz_texts",
                                        .one = try_one,
                                        .ways = ways,
                                        .way_count = 1,
                                        .mend = mend_name,
                                        .is_worth_keeping = is_worth_keeping };

    return fuzz_main(argc, argv, &target);
}

#endif
