/* Shares and dates of standings. */
#include "standings.h"

#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>

/* Without a sign where nothing but zeros would follow it. */
static double percent(double share)
{
    return round(share * 1000) / 10 + 0.0;
}

static void share_text(double share, double low, double high, const char *plan, char *text,
                       size_t size)
{
    if (isnan(share))
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.1f %% (%.1f to %.1f%s%s)", percent(share), percent(low),
                 percent(high), *plan ? "; " : "", plan);
}

void standing_text(const struct standing_row *row, char text[STANDING_TEXT_BYTES])
{
    char plan[PLAN_TEXT_BYTES] = "", gain[48], static_gain[48 + PLAN_TEXT_BYTES];

    if (row->static_plan.struct_size)
        moe_plan_format(&row->static_plan, plan, sizeof(plan));
    share_text(row->gain, row->gain_low, row->gain_high, "", gain, sizeof(gain));
    share_text(row->static_gain, row->static_gain_low, row->static_gain_high, plan, static_gain,
               sizeof(static_gain));
    snprintf(text, STANDING_TEXT_BYTES,
             "over the default plan %s, over the best static plan %s, %u round%s", gain,
             static_gain, row->rounds, row->rounds == 1 ? "" : "s");
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
