/* The end of the page: letters of moetune's own plans, and the texts of declared spaces. */
#include "legend.h"

#include "declaration.h"
#include "quote.h"
#include "series.h"

/* What a space declares, as its program wrote it. */
static void print_spaces(const struct facts *facts, FILE *to)
{
    for (size_t i = 0; i < facts->layer_count; i++) {
        const struct declaration *d = facts->layers[i].declared;
        size_t first = 0;

        while (facts->layers[first].declared != d)
            first++;
        if (!d || first != i)
            continue;
        fputs("<details><summary>What may vary: ", to);
        quote_html(d->name, to);
        fputs("</summary><pre>", to);
        quote_html(d->text, to);
        fputs("</pre></details>\n", to);
    }
}

static void print_letters(FILE *to)
{
    static const char *const letters[][2] = {
        { "E, k", "experts in all; experts per token" },
        { "T", "tokens per rank and step" },
        { "D, H", "model dimension; hidden dimension of an expert" },
        { "W, m", "ranks; ranks on each node (0: nodes differ)" },
        { "c, R", "rows that one expert gets from one rank; capacities that share one answer" },
        { "r", "0: weights move and tokens stay; above 0: each token goes to r ranks" },
        { "d", "chunks: one is computed while the next one travels" },
        { "a", "which all-to-all moves the tokens: linear, 2dh, nccl, rail, 3dh" },
        { "default", "r=1 d=1 a=linear, what a trainer gets without a table" },
    };

    fputs("<h3>What the letters mean</h3>\n<dl class=\"key\">\n", to);
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
        fprintf(to, "<dt>%s</dt><dd>%s</dd>\n", letters[i][0], letters[i][1]);
    fputs("</dl>\n", to);
}

void legend_write(const struct facts *facts, FILE *to)
{
    print_spaces(facts, to);
    if (scope_has_own(&(struct scope){ facts->layers, facts->layer_count }))
        print_letters(to);
}
