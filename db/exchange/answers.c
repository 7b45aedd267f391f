/* Finds the one layer that is meant and asks its view for every range. */
#include "answers.h"

#include "cluster.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_meant(const struct lookup_layer *layer, const struct answers_choice *choice,
                     uint32_t space)
{
    char hash[SHA256_HEX_BYTES];

    sha256_hex(layer->cluster, hash);
    return (!choice->space || layer->shape.space == space) &&
           shape_agrees(&layer->shape, choice->shape) && cluster_hex_agrees(hash, choice->cluster);
}

/* Tables of one layer that differ in their width are one for who asks. */
static bool same_layer(const struct lookup_layer *a, const struct lookup_layer *b)
{
    return shape_equal(&a->shape, &b->shape) && !memcmp(a->cluster, b->cluster, SHA256_BYTES);
}

static void note_layers(const struct moelookup *table, const struct answers_choice *choice,
                        uint32_t space)
{
    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);

        if (is_meant(&layer, choice, space))
            note("  --fingerprint %.12s --shape \"%s\"", SHA256_HEX(layer.cluster),
                 SHAPE_TEXT(&layer.shape));
    }
}

static int find_layer(const struct moelookup *table, const struct answers_choice *choice,
                      struct lookup_layer *out)
{
    uint32_t space = 0, fits = 0;

    if (choice->space)
        TRY(moelookup_space(table, choice->space, &space)); /* which has said it */
    for (uint32_t i = 0; i < pack_layer_count(table->bytes); i++) {
        struct lookup_layer layer = pack_layer(table->bytes, i);

        if (!is_meant(&layer, choice, space) || (fits && same_layer(&layer, out)))
            continue;
        *out = layer;
        fits++;
    }
    if (fits == 1)
        return OK;
    if (!fits)
        return fail(ERR_ARGUMENT, "the table has no such layer of a cluster that answers here");
    note("several layers are here; --space, --shape or --fingerprint must say which:");
    note_layers(table, choice, space);
    return ERR_ARGUMENT;
}

/* The answer for a bucket of a declared space, or for the capacity that is asked for. */
static int ask(struct answers *a, const struct answers_choice *choice, uint32_t bucket)
{
    struct answer answer = { bucket, choice->key, choice->key, MOE_PLAN_INIT };

    if (a->space) {
        answer.from = shape_bucket_from(&a->shape, 1, bucket);
        answer.to = bucket / declaration_classes(a->space) < a->space->key_edges
                        ? declaration_key(a->space, bucket)
                        : UINT64_MAX;
    }
    TRY(moelookup_get_key(a->view, answer.from, a->space ? declaration_class(a->space, bucket) : 0,
                          &answer.plan));
    a->list[a->count++] = answer;
    return OK;
}

static int ask_all(struct answers *a, const struct answers_choice *choice)
{
    uint32_t buckets = a->space ? declaration_buckets(a->space) : 1;
    uint32_t classes = a->space ? declaration_classes(a->space) : 1, meant = 0;

    a->list = calloc(buckets, sizeof(*a->list));
    if (!a->list)
        return fail(ERR_NOMEM, "the answers of a table");
    if (a->space)
        lookup_space_bucket(a->space, choice->key, choice->class < 0 ? 0 : choice->class, &meant);
    for (uint32_t b = 0; b < buckets; b++)
        if ((!choice->keyed || b / classes == meant / classes) &&
            (choice->class < 0 || b % classes == meant % classes))
            TRY(ask(a, choice, b));
    return OK;
}

int answers_open(const struct moelookup *table, const struct answers_choice *choice,
                 struct answers *out)
{
    struct answers a = { .list = NULL };
    struct lookup_layer layer;
    int rc;

    TRY(find_layer(table, choice, &layer));
    a.shape = layer.shape;
    a.space = declaration_find(layer.shape.space);
    snprintf(a.device, sizeof(a.device), "%s", layer.device);
    if (!a.space && (!choice->keyed || choice->key > UINT32_MAX))
        return fail(ERR_ARGUMENT, "--key C is wanted: the capacity, in rows of an expert and rank");
    if (choice->class >= 0 && !(a.space && a.space->class_edges))
        return fail(ERR_ARGUMENT, "--class: this layer has no class beside its key");
    TRY(moelookup_bind(table, &a.shape, SHA256_HEX(layer.cluster), &a.view));
    TRY_OUT(ask_all(&a, choice));
    *out = a;
    return OK;
out:
    answers_close(&a);
    return rc;
}

void answers_close(struct answers *answers)
{
    moelookup_view_free(answers->view);
    free(answers->list);
    *answers = (struct answers){ .list = NULL };
}

const char *answer_text(const struct answers *answers, const struct answer *answer,
                        char room[RANGE_TEXT_BYTES])
{
    if (answers->space)
        return shape_range(&answers->shape, 1, answer->bucket, answer->bucket, room);
    snprintf(room, RANGE_TEXT_BYTES, "%" PRIu64, answer->from);
    return room;
}

bool answers_agree(const struct answers *answers)
{
    for (size_t i = 1; i < answers->count; i++)
        if (!plan_equal(&answers->list[i].plan, &answers->list[0].plan))
            return false;
    return true;
}

static bool has_integers(const struct answers *answers, const struct plan_word *word)
{
    size_t axis;

    if (!answers->space)
        return word->value[strspn(word->value, "0123456789")] == 0; /* not a=2dh */
    axis = declaration_axis(answers->space, word->axis, strlen(word->axis));
    return axis < answers->space->axes && !answers->space->axis[axis].words;
}

struct plan_words answer_words(const struct answers *answers, const struct moe_plan *plan)
{
    struct plan_words words = { 0 };
    char room[PLAN_TEXT_BYTES], *rest = room, *text;

    plan_words(plan, room);
    while ((text = strsep(&rest, " ")) != NULL) {
        struct plan_word *word = &words.list[words.count++];
        const char *value = strchr(text, '=');

        text_put(word->axis, sizeof(word->axis), "%.*s", (int)(value - text), text);
        text_put(word->value, sizeof(word->value), "%s", value + 1);
        word->number = has_integers(answers, word);
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
