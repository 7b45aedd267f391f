/* Prints a declared space: its axes, how many plans it has, and its buckets. */
#include "space_print.h"

#include "json.h"

enum { BUCKET_TEXT_BYTES = 96 };

void space_print(const struct declaration *d, FILE *to)
{
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_PLAN_BYTES], bucket[BUCKET_TEXT_BYTES];
    bool needs_name_ranks = false;
    uint32_t launch_values = 0; /* sets of launch values among the legal plans */

    fprintf(to, "space     %s\n", declaration_tag(d, tag));
    for (size_t i = 0; i < d->axes; i++) {
        const struct declared_axis *axis = &d->axis[i];

        fprintf(to, "axis      %s:", axis->name);
        for (uint32_t value = 0; value < axis->values; value++)
            fprintf(to, " %s", axis->text[value]);
        fprintf(to, "; default %s, %s\n", axis->text[axis->fallback],
                axis->restart ? "needs a restart" : "live");
    }
    for (uint32_t i = 0; i < d->plans; i++) {
        uint32_t earlier = 0;

        while (earlier < i && !declaration_same_launch(d, d->plan[earlier], d->plan[i]))
            earlier++;
        launch_values += earlier == i;
    }
    fprintf(to, "plans     %u legal, of %u combinations; %u sets of launch values\n", d->plans,
            d->combinations, launch_values);
    for (size_t i = 0; i < d->needs; i++)
        for (size_t j = 0; j < d->need[i].comparisons; j++)
            needs_name_ranks |= d->need[i].comparison[j].ranks;
    if (needs_name_ranks)
        fputs("          fewer on some numbers of ranks\n", to);
    declaration_format(d, d->default_choice, text, sizeof(text));
    fprintf(to, "default   %s\nbuckets   %u by %s:", text, declaration_buckets(d), d->key);
    for (uint32_t i = 0; i < declaration_buckets(d); i++) {
        declaration_range(d, i, bucket, sizeof(bucket));
        fprintf(to, "%s %s", i ? "," : "", bucket);
    }
    fputs("\n", to);
}

void space_print_json(const struct declaration *d, FILE *to)
{
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_PLAN_BYTES];

    declaration_format(d, d->default_choice, text, sizeof(text));
    json_write(to, "{'space': '%s', 'text': '%s', 'default': '%s', 'buckets': %u, 'plans': [",
               declaration_tag(d, tag), d->text, text, declaration_buckets(d));
    for (uint32_t i = 0; i < d->plans; i++) {
        declaration_format(d, d->plan[i], text, sizeof(text));
        json_write(to, "%s'%s'", i ? ", " : "", text);
    }
    fputs("]}\n", to);
}
