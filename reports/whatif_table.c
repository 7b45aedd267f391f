/* Writes a row for each capacity: times with their intervals, bytes between nodes, plans, gains. */
#include "whatif_table.h"

#include "quote.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>

static void print_cell(const struct moe_shape *shape, const struct trial_facts *t, FILE *to)
{
    const char *ends;

    if (!t) {
        fputs("<td class=\"n\">-</td>", to);
        return;
    }
    ends = whatif_sure(&t->steps) ? INTERVAL_BARE("%.4g", (double)t->steps.low_ns * 1e-6,
                                                  (double)t->steps.high_ns * 1e-6)
                                  : "";
    fprintf(to, "<td class=\"n\">%.4g ms<br>%s%s%.4g MiB<br>r=%u d=%u</td>",
            (double)t->steps.median_ns * 1e-6, ends, *ends ? "<br>" : "",
            whatif_bytes(shape, t) / 1048576, t->row.key.plan.r, t->row.key.plan.d);
}

static void print_gain(const struct gain *gain, FILE *to)
{
    const char *ends = INTERVAL_BARE("%.1f", 100 * gain->low, 100 * gain->high);

    fprintf(to, "<td class=\"n\">%.1f %%%s%s</td>", 100 * gain->value, *ends ? "<br>" : "", ends);
}

static void print_rows(const struct whatif_pair *pair, FILE *to)
{
    struct whatif_row row = { .capacity = 0 };

    while (whatif_next(pair, &row)) {
        fprintf(to, "<tr><td class=\"n\">%" PRIu64 "</td>", row.capacity);
        for (int i = 0; i < WHATIF_WAYS; i++)
            if (whatif_tried(pair, i))
                print_cell(whatif_shape(pair, i), row.best[i], to);
        print_gain(&row.gain, to);
        print_gain(&row.flat, to);
        fputs("</tr>\n", to);
    }
}

void whatif_table(const struct whatif_pair *pair, FILE *to)
{
    fputs("<details><summary>The best plans of ", to);
    quote_html(SHAPE_TEXT(&pair->limited->shape), to);
    fputs("</summary><div class=\"scroll\"><table>\n<tr><th class=\"n\">c</th>", to);
    for (int i = 0; i < WHATIF_WAYS; i++)
        if (whatif_tried(pair, i))
            fprintf(to, "<th class=\"n\">%s</th>", whatif_ways[i].name);
    fputs("<th class=\"n\">gain</th><th class=\"n\">of it flat</th></tr>\n", to);
    print_rows(pair, to);
    fputs("</table></div></details>\n", to);
}
