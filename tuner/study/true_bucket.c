/* Asks the decision what to run next, and tells it the true time with noise; means and quantiles of
 * what came of that. */
#include "true_bucket.h"

#include "store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double regret_of(const struct true_bucket *b, int arm)
{
    return b->ns[arm] / b->best_ns - 1;
}

struct bucket_outcome true_bucket_outcome(const struct true_bucket *b, int arm)
{
    return (struct bucket_outcome){ .arm = arm,
                                    .regret = regret_of(b, arm),
                                    .harm = b->usable[b->default_arm]
                                                ? b->ns[arm] / b->ns[b->default_arm] - 1
                                                : 0 };
}

struct bucket_outcome true_bucket_tune(const struct true_bucket *b, struct search *search,
                                       struct noise *noise, const struct effort *effort)
{
    const double *seen_ns = b->seen_ns ? b->seen_ns : b->ns;
    struct bucket_outcome out;
    double lost = 0;
    uint32_t samples = 0, searched = 0;
    struct decision_setup setup = { .search = search,
                                    .capacity = b->capacity,
                                    .usable = b->usable,
                                    .default_arm = b->default_arm,
                                    .incumbent = -1,
                                    .patience = effort ? effort->patience : b->patience };
    struct decision_result result;
    struct entry_row entry;
    enum decision_purpose purpose;
    struct decision decision;
    int arm;

    decision_open(&decision, &setup);
    while ((arm = decision_next(&decision, &purpose)) != DECISION_DONE) {
        decision_tell(&decision, purpose, arm, noise_sample(noise, seen_ns[arm]));
        lost += regret_of(b, arm);
        samples++;
        searched += purpose == DECISION_SEARCH;
    }
    if (!decision_result(&decision, &result))
        abort();
    if (b->trial)
        *b->trial =
            decision_trial(&decision) ? *decision_trial(&decision) : (struct trial_of){ .arm = -1 };
    out = true_bucket_outcome(b, result.arm);
    out.lost = lost;
    out.samples = samples;
    out.searched = searched;
    out.bounded = !isnan(result.bound);
    out.bound = result.bound;
    out.gain = result.gain;
    entry = (struct entry_row){ .gain = result.gain, .bound = result.bound };
    snprintf(entry.decision, sizeof(entry.decision), "%s", decision_words[result.word]);
    out.undecided = entry_is_undecided(&entry);
    return out;
}

/* ---- means and quantiles */

void column_add(struct value_column *c, double value)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->values = realloc(c->values, c->room * sizeof(*c->values));
        if (!c->values)
            abort();
    }
    c->values[c->count++] = value;
}

double column_mean(const struct value_column *c)
{
    double sum = 0;

    for (size_t i = 0; i < c->count; i++)
        sum += c->values[i];
    return c->count ? sum / (double)c->count : NAN;
}

double column_at(const struct value_column *c, double q)
{
    double *sorted = malloc((c->count + 1) * sizeof(*sorted)), value = NAN;

    if (!sorted)
        abort();
    if (c->count) {
        memcpy(sorted, c->values, c->count * sizeof(*sorted));
        sort_doubles(sorted, c->count);
        value = sorted[(size_t)(q * (double)(c->count - 1) + 0.5)];
    }
    free(sorted);
    return value;
}

void summary_add(struct summary *s, const struct bucket_outcome *o)
{
    column_add(&s->regret, 100 * o->regret);
    column_add(&s->harm, 100 * o->harm);
    column_add(&s->samples, o->samples);
    column_add(&s->searched, o->searched);
    column_add(&s->lost, o->lost);
    if (o->first)
        column_add(&s->first_samples, o->samples);
    if (o->bounded) {
        column_add(&s->bound, 100 * o->bound);
        s->covered += o->regret <= o->bound + 1e-12;
    }
    s->best += o->regret <= 0;
    s->undecided += o->undecided;
    if (o->undecided && !(o->regret <= s->hidden))
        s->hidden = o->regret;
    s->harmed += o->harm > 0.01;
    s->hurt += o->harm > 0.05;
}

void summary_free(struct summary *s)
{
    free(s->regret.values);
    free(s->harm.values);
    free(s->samples.values);
    free(s->searched.values);
    free(s->first_samples.values);
    free(s->lost.values);
    free(s->bound.values);
}
