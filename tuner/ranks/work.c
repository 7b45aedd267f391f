/* Writes orders and replies as text, and reads them. */
#include "work.h"

#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What an order of a layer may say: a word for each flag. */
static const struct {
    const char *word;
    size_t offset;
} flags[] = { { "graphs", offsetof(struct order, graphs) },
              { "phases", offsetof(struct order, phases) } };
enum { FLAGS = sizeof(flags) / sizeof(flags[0]), FLAG_WORDS_BYTES = 32 };

static bool *flag_of(struct order *order, int i)
{
    return (bool *)((char *)order + flags[i].offset);
}

static void format_flags(const struct order *order, char words[FLAG_WORDS_BYTES])
{
    struct order copy = *order;
    int used = 0;

    *words = 0;
    for (int i = 0; i < FLAGS; i++)
        if (*flag_of(&copy, i))
            used += snprintf(words + used, (size_t)(FLAG_WORDS_BYTES - used), "%s%s",
                             used ? " " : "", flags[i].word);
}

/* Words of others are left alone: an order of an older moetune says none. */
static void parse_flags(const char *words, size_t length, struct order *out)
{
    while (length) {
        size_t word = strcspn(words, " |\n"), step = word + (words[word] == ' ');

        for (int i = 0; i < FLAGS; i++)
            if (word == strlen(flags[i].word) && !strncmp(words, flags[i].word, word))
                *flag_of(out, i) = true;
        words += step;
        length -= step < length ? step : length;
    }
}

void order_format(const struct order *order, char line[WORK_LINE_BYTES])
{
    char shape[SHAPE_TEXT_BYTES], plan[PLAN_TEXT_BYTES], words[FLAG_WORDS_BYTES];

    format_flags(order, words);
    shape_format(&order->shape, shape, sizeof(shape));
    if (moe_plan_format(&order->plan, plan, sizeof(plan)) < 0)
        plan[0] = 0;
    text_put(line, WORK_LINE_BYTES,
             "moetune-order %d %" PRIu64 " %" PRId64 " %" PRIu64 "|%s|%s|%s%s%s", (int)order->kind,
             order->seed, order->memory_limit_bytes, order->capacity, shape, plan, words,
             *order->load ? "|" : "", order->load);
}

/* "" where there are fewer. */
static const char *after_bars(const char *line, int bars)
{
    for (; bars && *line; line++)
        bars -= *line == '|';
    return line;
}

/* What follows the plan: how steps are launched, and the load, which is mostly none. */
static int parse_rest(const char *rest, struct order *out)
{
    size_t word = strcspn(rest, "|\n");
    const char *load = rest + word + (rest[word] == '|');
    size_t length = strcspn(load, "\n");

    if (length >= sizeof(out->load))
        return ERR_FORMAT;
    parse_flags(rest, word, out);
    memcpy(out->load, load, length);
    return OK;
}

int order_parse(const char *line, struct order *out)
{
    struct order order = { .shape = { .struct_size = sizeof(order.shape) } };
    char shape[SHAPE_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES] = "";
    int kind, n;

    _Static_assert(sizeof(shape) == 344 && sizeof(plan) == 312, "as many as sscanf is told");

    n = sscanf(line, "moetune-order %d %" SCNu64 " %" SCNd64 " %" SCNu64 "|%343[^|]|%311[^|]|",
               &kind, &order.seed, &order.memory_limit_bytes, &order.capacity, shape, plan);
    if (n < 4 || !strchr(line, '|') || kind < 0 || kind >= ORDER_KINDS ||
        (n > 4 && shape_parse(shape, &order.shape)))
        return ERR_FORMAT;
    if (n > 5 && plan_parse(plan, &order.plan))
        return ERR_FORMAT;
    if (parse_rest(after_bars(line, 3), &order))
        return ERR_FORMAT;
    order.kind = (enum order_kind)kind;
    *out = order;
    return OK;
}

static void format_phases(const struct phase_time phases[PHASE_COUNT], char *to, size_t room)
{
    for (int i = 0; i < PHASE_COUNT; i++) {
        int used = snprintf(to, room, "|%" PRId64 " %" PRId64 " %" PRId64, phases[i].ns,
                            phases[i].low_ns, phases[i].high_ns);

        to += used;
        room -= (size_t)used;
    }
}

/* All of them, or none. */
static int parse_phases(const char *text, struct phase_time phases[PHASE_COUNT])
{
    for (int i = 0; i < PHASE_COUNT; i++) {
        int used = 0;

        if (sscanf(text, "|%" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &phases[i].ns, &phases[i].low_ns,
                   &phases[i].high_ns, &used) != 3 ||
            !used)
            return ERR_FORMAT;
        text += used;
    }
    return OK;
}

void reply_format(const struct reply *r, char line[WORK_LINE_BYTES])
{
    snprintf(line, WORK_LINE_BYTES,
             "moetune-reply %d %u %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             " %" PRId64 " %" PRId64 " %" PRId64 " %u %u %u|%s",
             (int)r->state, r->broken, r->ns, r->memory_bytes, r->sent_bytes, r->messages,
             r->node_rows, r->compute_ns, r->comm_ns, r->lost_ns, r->warm_steps, r->gpu.clock_mhz,
             r->gpu.throttled, r->message);
    if (r->phases[PHASE_TOTAL].ns)
        format_phases(r->phases, line + strlen(line), WORK_LINE_BYTES - strlen(line));
}

int reply_parse(const char *line, struct reply *out)
{
    struct reply r = { 0 };
    int state, used = 0;
    const char *rest;

    if (sscanf(line,
               "moetune-reply %d %" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu32
               "|%n",
               &state, &r.broken, &r.ns, &r.memory_bytes, &r.sent_bytes, &r.messages, &r.node_rows,
               &r.compute_ns, &r.comm_ns, &r.lost_ns, &r.warm_steps, &r.gpu.clock_mhz,
               &r.gpu.throttled, &used) != 13 ||
        !used)
        return ERR_FORMAT;
    r.state = (enum trial_state)state;
    /* A message may have any characters; what went well has none. */
    rest = line + used + strcspn(line + used, r.state == TRIAL_OK ? "|\n" : "\n");
    text_put(r.message, sizeof(r.message), "%.*s", (int)(rest - (line + used)), line + used);
    if (*rest == '|')
        TRY(parse_phases(rest, r.phases));
    *out = r;
    return OK;
}
