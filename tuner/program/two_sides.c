/* Opens the tables of two sides, gathers what their steps take, and says which is faster. */
#include "two_sides.h"

#include "array.h"
#include "host.h"
#include "plan.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 4096 };

/* ---- tables */

/* The one layer of the table that has these plans. */
static int find_layer(const struct two_sides *t, const char *path, const struct moelookup *table,
                      struct lookup_layer *out)
{
    uint32_t space = t->space ? t->space->id : 0, count = 0;

    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);

        /* Of a space, that of several clusters is one layer: which of them, bind says. */
        if (layer.shape.space != space ||
            (space && count && shape_equal(&layer.shape, &out->shape)))
            continue;
        *out = layer;
        count++;
    }
    if (count == 1)
        return OK;
    if (!count)
        return fail(ERR_ARGUMENT, "%s: no table %s%s that answers on this machine",
                    path ? path : "the database", space ? "of " : "of a layer",
                    space ? t->space->name : "");
    return fail(ERR_ARGUMENT, "%s: a table of one layer%s%s is wanted, it has %u",
                path ? path : "the table", space ? " of " : "", space ? t->space->name : "", count);
}

static int open_table(struct two_sides *t, const char *path, struct side *s)
{
    struct lookup_layer layer;

    TRY(moelookup_open(path, &s->table));
    recorder_close(s->table->recorder); /* these are no questions of a trainer */
    s->table->recorder = NULL;
    TRY(find_layer(t, path, s->table, &layer));
    if (t->shape.experts && !shape_equal(&t->shape, &layer.shape))
        return fail(ERR_ARGUMENT, "%s is a table of another layer: %s", path,
                    SHAPE_TEXT(&layer.shape));
    t->shape = layer.shape;
    t->window = layer.window;
    return moelookup_bind(s->table, &layer.shape, NULL, &s->view);
}

static int open_tables(struct two_sides *t)
{
    const struct two_programs *o = t->options;

    if (o->db || !o->against)
        TRY(open_table(t, o->db, &t->side[0]));
    if (o->against_table)
        return open_table(t, o->against_table, &t->side[1]);
    return o->against && o->db ? open_table(t, o->db, &t->side[1]) : OK;
}

int two_sides_open(const struct two_programs *o, struct two_sides *t)
{
    *t = (struct two_sides){ .options = o,
                             .side = { { .name = "--exec", .command = o->exec },
                                       { .name = o->against ? "--against" : "the second program",
                                         .command = o->against ? o->against : o->exec } },
                             .window = 1,
                             .pairs_max = CONTEST_ROUNDS_MAX,
                             .deadline_ns = o->budget_s > 0
                                                ? host_clock_ns() + (int64_t)(o->budget_s * 1e9)
                                                : 0 };
    if (o->space)
        TRY(space_file_read(o->space, &t->space));
    return open_tables(t);
}

void two_sides_close(struct two_sides *t)
{
    for (size_t i = 0; i < t->key_count; i++)
        free(t->keys[i].contest);
    free(t->keys);
    for (int i = 0; i < SIDES; i++) {
        moelookup_view_free(t->side[i].view);
        moelookup_close(t->side[i].table);
    }
}

struct moe_plan two_sides_plan(const struct two_sides *t, int side, uint32_t bucket, uint64_t key)
{
    const struct moelookup_view *view = t->side[side].view;
    struct moe_plan plan = t->space ? declared_plan_default(t->space->id)
                                    : plan_default(t->shape.experts ? &t->shape : NULL);

    if (view && t->space)
        moelookup_get_key(view, declaration_key(t->space, bucket),
                          declaration_class(t->space, bucket), &plan);
    else if (view)
        moelookup_get(view, (uint32_t)key, &plan);
    return plan;
}

/* ---- keys */

static int open_contest(const struct two_sides *t, uint32_t bucket, struct contest **out)
{
    struct contest_settings settings = { .margin = t->options->margin,
                                         .rounds_max = t->pairs_max,
                                         .seed = t->options->seed ^ bucket };
    /* Contestants are told apart by their plans; here they stand for programs. */
    struct moe_plan stand_for[SIDES] = { plan_default(NULL), plan_default(NULL) };

    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fail(ERR_NOMEM, "a contest");
    stand_for[0].d = 2;
    contest_open(*out, &settings, stand_for, SIDES, 1, -1);
    return OK;
}

uint32_t two_sides_bucket(const struct two_sides *t, const struct said *ask)
{
    return t->space ? declaration_bucket(t->space, ask->key, ask->class_thousandths)
                    : (uint32_t)ask->key / t->window;
}

int two_sides_key(struct two_sides *t, uint32_t bucket, size_t *at, bool *fresh)
{
    struct key key = { .bucket = bucket };

    for (*at = 0; *at < t->key_count && t->keys[*at].bucket != bucket;)
        ++*at;
    *fresh = *at == t->key_count;
    if (!*fresh)
        return OK;
    if (t->key_count == KEYS_MAX)
        return fail(ERR_ARGUMENT, "the programs ask for more than %d buckets", KEYS_MAX);
    TRY(open_contest(t, bucket, &key.contest));
    ARRAY_APPEND(t->keys, t->key_count, key);
    return OK;
}

uint32_t two_sides_settled(const struct two_sides *t)
{
    uint32_t count = 0;

    for (size_t i = 0; i < t->key_count; i++)
        count += t->keys[i].settled;
    return count;
}

/* So many pairs that a difference in all of them could have been shown. */
static bool is_telling(const struct key *key, uint32_t pairs)
{
    return pairs && key->contest->wins_needed[pairs] <= pairs;
}

/* What seems slower goes on until that is known: the contest asks only who is faster. */
static bool is_settled(const struct two_sides *t, const struct key *key)
{
    struct contest_verdict v;

    if (contest_next(key->contest) != CONTEST_DONE)
        return false;
    v = contest_verdict(key->contest);
    return v.rounds >= key->contest->settings.rounds_max ||
           !(v.challenge.value < -t->options->margin && v.challenge.high >= -t->options->margin);
}

void two_sides_tell(const struct two_sides *t, struct key *key, int side, int64_t ns)
{
    contest_tell(key->contest, side, ns);
    key->settled = is_settled(t, key);
}

int two_sides_lose(const struct two_sides *t, struct key *key, int side, const char *why)
{
    char range[80];

    if (side == 0) {
        text_put(key->why, sizeof(key->why), "%s", why);
        key->settled = true;
        return OK;
    }
    if (t->space)
        declaration_range(t->space, key->bucket, range, sizeof(range));
    else
        snprintf(range, sizeof(range), "%" PRIu64, (uint64_t)key->bucket * t->window);
    return fail(ERR_LAUNCH, "%s: %s, at %s %s under %s: there is nothing to compare with",
                t->side[side].name, why, t->space ? t->space->key : "capacity", range,
                PLAN_WORDS(&key->plan[side]));
}

/* ---- verdicts */

static void name_key(const struct two_sides *t, const struct key *key, struct verdict *v)
{
    if (t->space)
        declaration_range(t->space, key->bucket, v->key, sizeof(v->key));
    else if (t->window == 1)
        snprintf(v->key, sizeof(v->key), "c=%u", key->bucket);
    else
        snprintf(v->key, sizeof(v->key), "c=%" PRIu64 "-%" PRIu64,
                 (uint64_t)key->bucket * t->window, (uint64_t)(key->bucket + 1) * t->window - 1);
}

static struct verdict verdict_of(const struct two_sides *t, const struct key *key)
{
    struct contest_verdict c = contest_verdict(key->contest);
    struct verdict v = { .group = t->options->exec,
                         .before_us = c.default_ns * 1e-3,
                         .now_us = c.default_ns * (1 - c.challenge.value) * 1e-3,
                         .gain = c.challenge,
                         .pairs = c.rounds,
                         .word = "not slower" };
    double margin = t->options->margin;

    if (!is_telling(key, v.pairs))
        v.gain = (struct gain)GAIN_UNKNOWN;
    name_key(t, key, &v);
    snprintf(v.plan, sizeof(v.plan), "%s", PLAN_WORDS(&key->plan[0]));
    snprintf(v.why, sizeof(v.why), "%s", key->why);
    v.failed = *key->why || v.gain.high < -margin;
    if (v.failed)
        v.word = *key->why ? "fails" : "slower";
    else if (v.gain.low > margin)
        v.word = "faster";
    else if (key->same)
        v.word = "same plan";
    else if (isnan(v.gain.value))
        v.word = "too few steps";
    return v;
}

static int by_bucket(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static void heading_of(const struct two_programs *o, char *text, size_t size)
{
    const char *against = o->against ? o->against : o->against_table;

    text_put(text, size, "%s against %s", TEXT_SHORT(o->exec, 200),
             TEXT_SHORT(against ? against : "the default plan", 200));
}

int two_sides_report(struct two_sides *t)
{
    const struct two_programs *o = t->options;
    struct verdict *verdicts = calloc(t->key_count + 1, sizeof(*verdicts));
    char heading[512];
    bool failed = false, told = false;
    int rc = verdicts ? OK : fail(ERR_NOMEM, "%zu verdicts", t->key_count);

    if (!rc)
        qsort(t->keys, t->key_count, sizeof(*t->keys), by_bucket);
    for (size_t i = 0; i < t->key_count && !rc; i++) {
        verdicts[i] = verdict_of(t, &t->keys[i]);
        failed |= verdicts[i].failed;
        told |= failed || t->keys[i].same || !isnan(verdicts[i].gain.value);
    }
    heading_of(o, heading, sizeof(heading));
    if (!rc && o->json)
        verdicts_json(verdicts, t->key_count, stdout);
    else if (!rc)
        rc = verdicts_table(verdicts, t->key_count, stdout);
    if (!rc)
        rc = verdicts_write(&o->files, heading, verdicts, t->key_count);
    free(verdicts);
    if (rc || failed)
        return rc ? rc : ERR_WRONG;
    return told ? OK : fail(ERR_LAUNCH, "nothing is known at any key: more steps are wanted");
}
