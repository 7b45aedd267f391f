/* What all formats share: the answers of one layer, checks of the options, and reading back what
 * was written. */
#include "format.h"

#include "array.h"
#include "cluster.h"
#include "input_file.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- Answers. */

static bool matches_choice(const struct lookup_layer *layer, const struct answers_choice *choice,
                           uint32_t space)
{
    char hash[SHA256_HEX_BYTES];

    sha256_hex(layer->cluster, hash);
    return (!choice->space || layer->shape.space == space) &&
           shape_agrees(&layer->shape, choice->shape) && cluster_hex_agrees(hash, choice->cluster);
}

static int find_layer(const struct moelookup *table, const struct answers_choice *choice,
                      struct lookup_layer *out)
{
    uint32_t space = 0, fits = 0;

    if (choice->space)
        TRY(moelookup_space(table, choice->space, &space)); /* has printed the error */
    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);

        /* Tables of one layer with several widths of buckets count as one; the user does not see
         * the difference. */
        if (!matches_choice(&layer, choice, space) ||
            (fits && shape_equal(&layer.shape, &out->shape) &&
             !memcmp(layer.cluster, out->cluster, SHA256_BYTES)))
            continue;
        *out = layer;
        fits++;
    }
    if (fits == 1)
        return OK;
    if (!fits)
        return fail(ERR_ARGUMENT, "the table has no such layer of a cluster that answers here");
    note("several layers are here; --space, --shape or --fingerprint must say which:");
    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);

        if (matches_choice(&layer, choice, space))
            note("  --fingerprint %.12s --shape \"%s\"", SHA256_HEX(layer.cluster),
                 SHAPE_TEXT(&layer.shape));
    }
    return ERR_ARGUMENT;
}

/* Adds an answer for each bucket of a declared space, or one answer for the capacity that was asked
 * for. */
static int add_answers(struct answers *a, const struct answers_choice *choice)
{
    struct buckets layer_buckets = a->buckets;
    uint32_t count = layer_buckets.declared ? (uint32_t)buckets_end(layer_buckets) : 1;
    uint32_t classes = buckets_classes(layer_buckets), wanted = 0;

    a->list = calloc(count, sizeof(*a->list));
    if (!a->list)
        return fail(ERR_NOMEM, "the answers of a table");
    if (layer_buckets.declared)
        buckets_find(layer_buckets, choice->key, choice->class < 0 ? 0 : choice->class, &wanted);
    for (uint32_t bucket = 0; bucket < count; bucket++) {
        struct answer answer = {
            .bucket = bucket, .from = choice->key, .to = choice->key, .plan = MOE_PLAN_INIT
        };

        if ((choice->keyed && bucket / classes != wanted / classes) ||
            (choice->class >= 0 && bucket % classes != wanted % classes))
            continue;
        if (layer_buckets.declared) {
            answer.from = buckets_lowest(layer_buckets, bucket);
            answer.to = buckets_highest(layer_buckets, bucket);
        }
        TRY(moelookup_get_key(a->view, answer.from, buckets_class_of(layer_buckets, bucket),
                              &answer.plan));
        a->list[a->count++] = answer;
    }
    return OK;
}

/* The buckets of one layer's table, and which axes are fixed in it. */
struct layer_table {
    const struct lookup_layer *layer;
    struct store *store;
    struct fixed_row fixed;
    uint32_t *buckets;
    size_t count;
};

static int add_bucket_of_layer(void *self, const struct entry_row *e)
{
    struct layer_table *t = self;
    struct moe_shape shape;
    struct cluster cluster;
    uint8_t hash[HASH_BYTES];
    int rc;

    TRY(store_shape_get(t->store, e->shape, &shape));
    TRY(store_cluster_get(t->store, e->cluster, &cluster));
    cluster_hash(&cluster, hash);
    if (e->window != t->layer->window || !shape_equal(&shape, &t->layer->shape) ||
        memcmp(hash, t->layer->cluster, HASH_BYTES) != 0)
        return OK;
    rc = t->count ? OK : store_fixed_get(t->store, e->cluster, e->shape, e->window, &t->fixed);
    if (rc == UNSUPPORTED)
        *t->fixed.axes = 0;
    ARRAY_APPEND(t->buckets, t->count, e->bucket);
    return rc < 0 ? rc : OK;
}

/* Sets the one answer. ERR_ARGUMENT where the buckets have several. */
static int set_common_answer(struct answers *a, const struct layer_table *t)
{
    text_put(a->axes, sizeof(a->axes), "%s", t->fixed.axes);
    a->list = calloc(1, sizeof(*a->list));
    if (!a->list)
        return fail(ERR_NOMEM, "the answer of a table");
    for (size_t i = 0; i < t->count; i++) {
        uint64_t from = buckets_lowest(a->buckets, t->buckets[i]);
        struct answer answer = { .bucket = t->buckets[i],
                                 .from = from,
                                 .to = buckets_highest(a->buckets, t->buckets[i]),
                                 .plan = MOE_PLAN_INIT };
        struct plan_words first_words, words;

        TRY(moelookup_get_key(a->view, answer.to, 0, &answer.plan));
        if (!i)
            a->list[0] = answer;
        first_words = answer_words(a, &a->list[0].plan);
        words = answer_words(a, &answer.plan);
        if (memcmp(&first_words, &words, sizeof(words)) != 0)
            return fail(ERR_ARGUMENT, "--key C is wanted: the capacity, in rows of an expert and "
                                      "rank, for this table has several plans");
        a->list[0].to = answer.to;
    }
    a->count = t->count > 0;
    return a->count ? OK : fail(ERR_ARGUMENT, "--key C is wanted: this table has no entries");
}

/* Adds the one answer for all capacities of a layer of moetune's own. That needs entries with one
 * plan, or of one launch; then the answer has only the launch's words. */
static int add_only_answer(struct answers *a, const struct answers_choice *choice,
                           const struct lookup_layer *layer)
{
    struct layer_table t = { .layer = layer };
    int rc = store_read(choice->path, &t.store);

    if (!rc)
        rc = store_entries(t.store, 0, 0, add_bucket_of_layer, &t);
    if (!rc)
        rc = set_common_answer(a, &t);
    store_close(t.store);
    free(t.buckets);
    return rc;
}

int answers_open(const struct moelookup *table, const struct answers_choice *choice,
                 struct answers *out)
{
    struct answers a = { .list = NULL };
    struct lookup_layer layer;
    int rc;

    TRY(find_layer(table, choice, &layer));
    a.shape = layer.shape;
    a.buckets = buckets_of(&layer.shape, layer.window);
    snprintf(a.device, sizeof(a.device), "%s", layer.device);
    if (!a.buckets.declared && (choice->keyed && choice->key > UINT32_MAX))
        return fail(ERR_ARGUMENT, "--key C is wanted: the capacity, in rows of an expert and rank");
    if (choice->class >= 0 && !(a.buckets.declared && a.buckets.declared->class_edges))
        return fail(ERR_ARGUMENT, "--class: this layer has no class beside its key");
    TRY(moelookup_bind_launch(table, &a.shape, SHA256_HEX(layer.cluster), choice->launch, &a.view));
    if (a.buckets.declared || choice->keyed)
        TRY_OUT(add_answers(&a, choice));
    else
        TRY_OUT(add_only_answer(&a, choice, &layer));
    *out = a;
    return OK;
out:
    answers_close(&a);
    return rc;
}

void answers_keep_launch(struct answers *a)
{
    const struct declaration *d = a->buckets.declared;
    bool differ = false;

    for (size_t i = 1; i < a->count && d; i++) {
        differ |= !plan_equal(&a->list[i].plan, &a->list[0].plan);
        if (!declaration_same_launch(d, a->list[i].plan.choice, a->list[0].plan.choice))
            return;
    }
    for (size_t i = 0; differ && i < d->axes; i++)
        if (d->axis[i].restart)
            text_add(a->axes, sizeof(a->axes), "%s%s", *a->axes ? "," : "", d->axis[i].name);
}

void answers_close(struct answers *answers)
{
    moelookup_view_free(answers->view);
    free(answers->list);
    *answers = (struct answers){ .list = NULL };
}

const char *answer_text(const struct answers *answers, const struct answer *answer,
                        char room[BUCKETS_TEXT_BYTES])
{
    if (answers->buckets.declared)
        return buckets_text(answers->buckets, answer->bucket, answer->bucket, room);
    snprintf(room, BUCKETS_TEXT_BYTES, "%" PRIu64, answer->from);
    return room;
}

/* Returns whether a list as "r,d" has this word. */
static bool has_word(const char *list, const char *word, size_t length)
{
    for (;; list++) {
        size_t word_length = strcspn(list, ",");

        if (word_length == length && !memcmp(list, word, length))
            return true;
        list += word_length;
        if (!*list)
            return false;
    }
}

struct plan_words answer_words(const struct answers *answers, const struct moe_plan *plan)
{
    struct plan_words words = { 0 };
    char room[PLAN_TEXT_BYTES], *rest = room, *text;

    plan_words(plan, room);
    while ((text = strsep(&rest, " ")) != NULL) {
        struct plan_word *word = &words.list[words.count];
        const char *value = strchr(text, '=');
        size_t axis;

        if (*answers->axes && !has_word(answers->axes, text, (size_t)(value - text)))
            continue;
        words.count++;
        text_put(word->axis, sizeof(word->axis), "%.*s", (int)(value - text), text);
        text_put(word->value, sizeof(word->value), "%s", value + 1);
        word->number = word->value[strspn(word->value, "0123456789")] == 0; /* not a=2dh */
        if (answers->buckets.declared) {
            axis = declaration_axis(answers->buckets.declared, word->axis, strlen(word->axis));
            word->number = axis < answers->buckets.declared->axes &&
                           !answers->buckets.declared->axis[axis].words;
        }
    }
    return words;
}

const struct plan_word *plan_words_find(const struct plan_words *words, const char *axis)
{
    for (size_t i = 0; i < words->count; i++)
        if (!strcmp(words->list[i].axis, axis))
            return &words->list[i];
    return NULL;
}

/* ---- For the formats. */

struct plan_words format_axes(const struct format_job *job)
{
    return answer_words(job->answers, &job->answers->list[0].plan);
}

const char *format_set_value(const struct format_job *job, const char *name)
{
    for (size_t i = 0; i < job->set_count; i++)
        if (!strcmp(job->sets[i].name, name))
            return job->sets[i].value;
    return NULL;
}

const struct plan_word *format_word(const struct format_job *job, const struct plan_words *words,
                                    const char *axis)
{
    const char *set = format_set_value(job, axis);

    return set && !*set ? NULL : plan_words_find(words, axis);
}

int format_set_number(const struct format_job *job, const char *name, int64_t least,
                      int64_t fallback, int64_t *out)
{
    const char *text = format_set_value(job, name);
    char *end;

    *out = fallback;
    if (!text)
        return OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *out < least || *out > INT_MAX)
        return fail(ERR_ARGUMENT, "--set %s=%s: a whole number from %" PRId64 " to %d is wanted",
                    name, text, least, INT_MAX);
    return OK;
}

/* ---- Checks before anything is written. */

static int check_sets(const struct format *format, const struct format_job *job)
{
    struct plan_words words = format_axes(job);

    for (size_t i = 0; i < job->set_count; i++) {
        const char *name = job->sets[i].name;
        char known_names[1024] = "";
        size_t known_bytes = 0;

        if (!(format->facts && word_find(format->facts, name) >= 0) &&
            !plan_words_find(&words, name)) {
            for (size_t w = 0; w < words.count; w++)
                known_bytes +=
                    (size_t)snprintf(known_names + known_bytes, sizeof(known_names) - known_bytes,
                                     "%s%s", w ? ", " : "", words.list[w].axis);
            for (const char *const *f = format->facts; f && *f; f++)
                known_bytes += (size_t)snprintf(known_names + known_bytes,
                                                sizeof(known_names) - known_bytes, ", %s", *f);
            return fail(ERR_ARGUMENT, "--set %s: there is no such name; %s has %s", name,
                        format->name, known_names);
        }
        for (size_t k = 0; k < i; k++)
            if (!strcmp(job->sets[k].name, name))
                return fail(ERR_ARGUMENT, "--set %s is given twice", name);
    }
    return OK;
}

int format_check(const struct format *format, const struct format_job *job)
{
    const struct answers *a = job->answers;
    size_t alike = 1;

    TRY(check_sets(format, job));
    while (alike < a->count && plan_equal(&a->list[alike].plan, &a->list[0].plan))
        alike++;
    if (format->one && alike < a->count && !*a->axes) {
        note("--format %s holds one plan, and the table has several: --key N%s must say which:",
             format->name, a->buckets.declared->class_edges ? " and --class X" : "");
        for (size_t i = 0; i < a->count; i++)
            note("  %s %s: %s", a->buckets.declared->key, ANSWER_TEXT(a, &a->list[i]),
                 PLAN_WORDS(&a->list[i].plan));
        return ERR_ARGUMENT;
    }
    /* A range comes twice where there are two classes. */
    if (!format->one && !format->classes && a->count > 1 && a->list[0].from == a->list[1].from)
        return fail(ERR_ARGUMENT, "--format %s knows no class: --class X must say which %s",
                    format->name, a->buckets.declared->class_name);
    return format->check(job);
}

/* ---- Reading back. */

/* Asks the table and the file for the same key. Both must agree on every axis that --set does not
 * leave out. */
static int read_key(const struct format *format, const struct format_job *job, const char *path,
                    const char *text, size_t length, uint64_t key, double class_value)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    struct plan_words wanted, read = { 0 };

    TRY(moelookup_get_key(job->answers->view, key, class_value, &plan));
    wanted = answer_words(job->answers, &plan);
    TRY(format->read(job, text, length, key, class_value, &read));
    for (size_t i = 0; i < wanted.count; i++) {
        const struct plan_word *wanted_word = &wanted.list[i],
                               *read_word = plan_words_find(&read, wanted_word->axis);

        if (format_word(job, &wanted, wanted_word->axis) &&
            (!read_word || strcmp(read_word->value, wanted_word->value) != 0))
            return fail(
                ERR_FORMAT, "%s: for %s %" PRIu64 " its reader takes %s=%s, the table says %s=%s",
                path, buckets_key_name(job->answers->buckets), key, wanted_word->axis,
                read_word ? read_word->value : "nothing", wanted_word->axis, wanted_word->value);
    }
    return OK;
}

int format_check_name(const struct format *format, const struct format_job *job, const char *path)
{
    size_t length = strlen(path), wanted;
    char name[FORMAT_NAME_BYTES];
    bool ends_with_name;

    if (!format->file_name)
        return OK;
    TRY(format->file_name(job, name));
    wanted = strlen(name);
    ends_with_name = length >= wanted && !strcmp(path + length - wanted, name) &&
                     (length == wanted || path[length - wanted - 1] == '/');
    return ends_with_name
               ? OK
               : fail(ERR_ARGUMENT, "%s: its program looks for a file called %s", path, name);
}

int format_read_back(const struct format *format, const struct format_job *job, const char *path)
{
    size_t length;
    char *text;
    int rc = OK;

    TRY(input_read(path, FORMAT_FILE_MOST, &text, &length));
    for (size_t i = 0; i < job->answers->count && !rc; i++) {
        const struct answer *a = &job->answers->list[i];
        /* In a range without an end any key far above its beginning will do. */
        uint64_t last = a->to == UINT64_MAX ? 4 * a->from + 3 : a->to;
        const uint64_t keys[] = { a->from, a->from + (last - a->from) / 2, last };

        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]) && !rc; k++)
            rc = read_key(format, job, path, text, length, keys[k],
                          buckets_class_of(job->answers->buckets, a->bucket));
    }
    free(text);
    for (size_t i = 0; i < job->answers->count && !rc; i++) {
        const struct answer *a = &job->answers->list[i];
        double gain = a->plan.default_us > 0 && a->plan.time_us > 0
                          ? 100 * (1 - (double)a->plan.time_us / (double)a->plan.default_us)
                          : 0;

        printf("%-9s  %5.1f %%  %s %s: %s\n", plan_source_words[a->plan.source], gain,
               buckets_key_name(job->answers->buckets), ANSWER_TEXT(job->answers, a),
               PLAN_WORDS(&a->plan));
    }
    return rc;
}
