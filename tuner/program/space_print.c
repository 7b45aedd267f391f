#include "space_print.h"

#include "json.h"

enum { RANGE_BYTES = 96 };

static void print_axis(const struct declared_axis *axis, FILE *to)
{
    fprintf(to, "axis      %s:", axis->name);
    for (uint32_t i = 0; i < axis->values; i++)
        fprintf(to, " %s", axis->text[i]);
    fprintf(to, "; default %s, %s\n", axis->text[axis->fallback],
            axis->restart ? "needs a restart" : "live");
}

/* Different values of the axes that need a restart, among legal plans. */
static uint32_t launches(const struct declaration *d)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < d->plans; i++) {
        uint32_t before = 0;

        while (before < i && !declaration_same_launch(d, d->plan[before], d->plan[i]))
            before++;
        count += before == i;
    }
    return count;
}

void space_print(const struct declaration *d, FILE *to)
{
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_PLAN_BYTES], range[RANGE_BYTES];

    declaration_format(d, d->usual, text, sizeof(text));
    fprintf(to, "space     %s\n", declaration_tag(d, tag));
    for (size_t i = 0; i < d->axes; i++)
        print_axis(&d->axis[i], to);
    fprintf(to, "plans     %u legal, of %u combinations; %u to be started apart\n", d->plans,
            d->combinations, launches(d));
    fprintf(to, "default   %s\nbuckets   %u by %s:", text, declaration_buckets(d), d->key);
    for (uint32_t i = 0; i < declaration_buckets(d); i++) {
        declaration_range(d, i, range, sizeof(range));
        fprintf(to, "%s %s", i ? "," : "", range);
    }
    fputs("\n", to);
}

void space_print_json(const struct declaration *d, FILE *to)
{
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_PLAN_BYTES];

    declaration_format(d, d->usual, text, sizeof(text));
    json_write(to, "{'space': '%s', 'text': '%s', 'default': '%s', 'buckets': %u, 'plans': [",
               declaration_tag(d, tag), d->text, text, declaration_buckets(d));
    for (uint32_t i = 0; i < d->plans; i++) {
        declaration_format(d, d->plan[i], text, sizeof(text));
        json_write(to, "%s'%s'", i ? ", " : "", text);
    }
    fputs("]}\n", to);
}
