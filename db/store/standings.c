/* Puts what a table is worth into words, says whether it is still current, and which values no
 * rounds can have given. */
#include "standings.h"

#include "plan.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>

/* Without a sign where nothing but zeros would follow it. */
static double percent(double share)
{
    return round(share * 1000) / 10 + 0.0;
}

static void gain_text(const struct gain *gain, const char *against, char *text, size_t size)
{
    *text = 0;
    if (!isnan(gain->value))
        text_put(text, size, "%.1f %%%s against %s", percent(gain->value),
                 INTERVAL_TEXT("%.1f", percent(gain->low), percent(gain->high)), against);
}

bool standing_is_one_plan(const struct standing_row *row)
{
    const struct gain *g = &row->static_gain;

    return g->value == 0 && g->low == 0 && g->high == 0;
}

const char *standing_text(const struct standing_row *row, char room[STANDING_TEXT_BYTES])
{
    const struct gain *first = isnan(row->gain.value) ? &row->static_gain : &row->gain;
    char over_default[64], over_static[64 + PLAN_TEXT_BYTES], always[16 + PLAN_TEXT_BYTES];

    snprintf(always, sizeof(always), "always %s",
             row->static_plan.struct_size ? PLAN_TEXT(&row->static_plan) : "one plan");
    gain_text(&row->gain, "the default", over_default, sizeof(over_default));
    gain_text(&row->static_gain, always, over_static, sizeof(over_static));
    if (standing_is_one_plan(row))
        snprintf(over_static, sizeof(over_static), "the same as %s", always);
    if (row->given_up || (row->gain.low == 0 && row->gain.high == 0)) {
        snprintf(room, STANDING_TEXT_BYTES, "%s: the default plan stands everywhere",
                 row->given_up ? "Given up as slower over the whole table"
                               : "Nothing is proven to be faster");
        return room;
    }
    if (!*over_default && !*over_static) {
        snprintf(room, STANDING_TEXT_BYTES, "No gain is known");
        return room;
    }
    snprintf(room, STANDING_TEXT_BYTES, "%s%s %s%s%s",
             row->launches == 1 ? "In this launch of the ranks: " : "",
             first->low > 0    ? "Saves"
             : first->high < 0 ? "Loses time:"
                               : "No gain is certain:",
             over_default, *over_default && *over_static ? ", " : "", over_static);
    return room;
}

struct search_for_later {
    const struct standing_row *row;
    bool found;
};

static int note_later(void *self, const struct entry_row *e)
{
    struct search_for_later *s = self;

    s->found |= e->window == s->row->window && !e->inferred && e->decided_s > s->row->decided_s;
    return OK;
}

int standing_is_current(struct store *store, const struct standing_row *row, bool *current)
{
    struct search_for_later later = { row, false };

    TRY(store_entries(store, row->cluster, row->shape, note_later, &later));
    *current = row->decided_s && !later.found;
    return OK;
}

int standing_current(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                     struct standing_row *out)
{
    bool current;

    TRY(store_standing_get(store, cluster, shape, window, out));
    TRY(standing_is_current(store, out, &current));
    return current ? OK : UNSUPPORTED;
}

/* A table that takes a million times the default's time is none that anybody measured. */
static const double gain_least = -1e6;

static bool is_interval(const struct gain *g)
{
    if (isnan(g->value))
        return isnan(g->low) && isnan(g->high);
    return g->low >= gain_least && g->low <= g->value && g->value <= g->high && g->high <= 1;
}

static bool over_default_is_interval(const struct standing_row *row)
{
    return is_interval(&row->gain);
}

static bool over_static_is_interval(const struct standing_row *row)
{
    return is_interval(&row->static_gain);
}

static bool plan_goes_with_gain(const struct standing_row *row)
{
    return !row->static_plan.struct_size == isnan(row->static_gain.value);
}

static bool says_something(const struct standing_row *row)
{
    return !isnan(row->gain.value) || !isnan(row->static_gain.value);
}

static bool has_rounds(const struct standing_row *row)
{
    return row->rounds > 0;
}

static bool is_decided(const struct standing_row *row)
{
    return row->decided_s > 0;
}

struct standing_fault standing_fault(const struct standing_row *row)
{
    static const struct {
        bool (*holds)(const struct standing_row *row);
        struct standing_fault fault;
    } rules[] = {
        { over_default_is_interval, { "gain", "is above 1, or not between its low and high" } },
        { over_static_is_interval,
          { "static_gain", "is above 1, or not between its low and high" } },
        { plan_goes_with_gain,
          { "static_plan", "is known without static_gain, or unknown with it" } },
        { says_something, { "gain", "is not known, nor is static_gain" } },
        { has_rounds, { "rounds", "is 0" } },
        { is_decided, { "decided_s", "is 0" } },
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (!rules[i].holds(row))
            return rules[i].fault;
    return (struct standing_fault){ NULL, NULL };
}
