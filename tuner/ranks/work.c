/* Formats orders and replies as lines of text, and parses them. */
#include "work.h"

#include "cluster.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Words of ORDER_LAYER: each stands for a value, other than 0, of a member. */
static const struct {
    const char *word;
    size_t offset;
    uint32_t value;
} flags[] = { { "graphs", offsetof(struct order, steps_are), STEPS_GRAPHS },
              { "ahead", offsetof(struct order, steps_are), STEPS_AHEAD },
              { "phases", offsetof(struct order, phases), true } };
enum { FLAGS = sizeof(flags) / sizeof(flags[0]), FLAG_WORDS_BYTES = 32 };

/* The member of an order that word i sets. */
static uint32_t *flag_member(struct order *order, int i)
{
    return (uint32_t *)((char *)order + flags[i].offset);
}

/* Unknown words are ignored; an order of an older moetune has no words. */
static void parse_flags(const char *words, size_t length, struct order *out)
{
    while (length) {
        size_t word_length = strcspn(words, " |\n"),
               step_length = word_length + (words[word_length] == ' ');

        for (int i = 0; i < FLAGS; i++)
            if (word_length == strlen(flags[i].word) && !strncmp(words, flags[i].word, word_length))
                *flag_member(out, i) = flags[i].value;
        words += step_length;
        length -= step_length < length ? step_length : length;
    }
}

/* Writes "moetune-order KIND SEED MEMORY_LIMIT_BYTES CAPACITY|SHAPE|PLAN|WORDS", and "|LOAD" where
 * there is one.  WORDS are those of `flags`. */
void order_format(const struct order *order, char line[WORK_LINE_BYTES])
{
    char shape[SHAPE_TEXT_BYTES], plan[PLAN_TEXT_BYTES], words[FLAG_WORDS_BYTES] = "";
    struct order copy = *order;
    size_t used = 0;

    for (int i = 0; i < FLAGS; i++)
        if (*flag_member(&copy, i) == flags[i].value)
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used ? " " : "",
                                     flags[i].word);
    shape_format(&order->shape, shape, sizeof(shape));
    if (moe_plan_format(&order->plan, plan, sizeof(plan)) < 0)
        plan[0] = 0;
    text_put(line, WORK_LINE_BYTES,
             "moetune-order %d %" PRIu64 " %" PRId64 " %" PRIu64 "|%s|%s|%s%s%s", (int)order->kind,
             order->seed, order->memory_limit_bytes, order->capacity, shape, plan, words,
             *order->load ? "|" : "", order->load);
}

int order_parse(const char *line, struct order *out)
{
    struct order order = { .shape = { .struct_size = sizeof(order.shape) } };
    char shape[SHAPE_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES] = "";
    const char *rest = line, *load;
    size_t flags_length, load_length;
    int kind, fields;

    _Static_assert(sizeof(shape) == 344 && sizeof(plan) == 312, "sscanf() below has these widths");

    fields = sscanf(line, "moetune-order %d %" SCNu64 " %" SCNd64 " %" SCNu64 "|%343[^|]|%311[^|]|",
                    &kind, &order.seed, &order.memory_limit_bytes, &order.capacity, shape, plan);
    if (fields < 4 || !strchr(line, '|') || kind < 0 || kind >= ORDER_KINDS ||
        (fields > 4 && shape_parse(shape, &order.shape)))
        return ERR_FORMAT;
    if (fields > 5 && plan_parse(plan, &order.plan))
        return ERR_FORMAT;
    /* After the third bar, which ends the plan: flags, and the load, which most orders lack. */
    for (int bars = 3; bars && *rest; rest++)
        bars -= *rest == '|';
    flags_length = strcspn(rest, "|\n");
    load = rest + flags_length + (rest[flags_length] == '|');
    load_length = strcspn(load, "\n");
    if (load_length >= sizeof(order.load))
        return ERR_FORMAT;
    parse_flags(rest, flags_length, &order);
    memcpy(order.load, load, load_length);
    order.kind = (enum order_kind)kind;
    *out = order;
    return OK;
}

/* Writes "moetune-reply", the numbers of the reply in the order below, and "|MESSAGE".  Where
 * phases were timed, each adds "|MEDIAN LOW HIGH" in ns. */
void reply_format(const struct reply *r, char line[WORK_LINE_BYTES])
{
    size_t used;

    snprintf(line, WORK_LINE_BYTES,
             "moetune-reply %d %u %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             " %" PRId64 " %" PRId64 " %" PRId64 " %u %u %u|%s",
             (int)r->state, r->broken, r->ns, r->memory_bytes, r->sent_bytes, r->messages,
             r->node_rows, r->compute_ns, r->comm_ns, r->lost_ns, r->warm_steps, r->gpu.clock_mhz,
             r->gpu.throttled, r->message);
    used = strlen(line);
    for (int i = 0; i < PHASE_COUNT && r->phases[PHASE_TOTAL].ns; i++)
        used += (size_t)snprintf(line + used, WORK_LINE_BYTES - used,
                                 "|%" PRId64 " %" PRId64 " %" PRId64, r->phases[i].ns,
                                 r->phases[i].low_ns, r->phases[i].high_ns);
}

int reply_parse(const char *line, struct reply *out)
{
    enum { NUMBERS = 13 }; /* before the message */
    struct reply r = { 0 };
    int state, used = 0;
    const char *rest;

    if (sscanf(line,
               "moetune-reply %d %" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu32
               "|%n",
               &state, &r.broken, &r.ns, &r.memory_bytes, &r.sent_bytes, &r.messages, &r.node_rows,
               &r.compute_ns, &r.comm_ns, &r.lost_ns, &r.warm_steps, &r.gpu.clock_mhz,
               &r.gpu.throttled, &used) != NUMBERS ||
        !used)
        return ERR_FORMAT;
    r.state = (enum trial_state)state;
    /* A message may have any characters, also bars; a reply with TRIAL_OK has no message. */
    rest = line + used + strcspn(line + used, r.state == TRIAL_OK ? "|\n" : "\n");
    text_put(r.message, sizeof(r.message), "%.*s", (int)(rest - (line + used)), line + used);
    for (int i = 0; i < PHASE_COUNT && (i || *rest == '|'); i++) { /* all phases, or none */
        struct phase_time *phase = &r.phases[i];

        used = 0;
        if (sscanf(rest, "|%" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &phase->ns, &phase->low_ns,
                   &phase->high_ns, &used) != 3 ||
            !used)
            return ERR_FORMAT;
        rest += used;
    }
    *out = r;
    return OK;
}
