/* Chooses the next launch, says how long it goes on, and answers its program. */
#include "launches.h"

#include "array.h"
#include "buckets.h"
#include "host.h"
#include "plan.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- launch values */

int launch_values_list(const struct declaration *d, const struct moe_plan *plans, size_t count,
                       uint32_t *values_of, struct launch_values **values, size_t *values_count)
{
    for (size_t plan = 0; plan < count; plan++) {
        const struct launch_values added = { .arm = (int)plan, .nearest_arm = (int)plan };
        size_t index = 0;

        while (d && index < *values_count &&
               !declaration_same_launch(d, plans[plan].choice, plans[(*values)[index].arm].choice))
            index++;
        if (index == *values_count)
            ARRAY_APPEND(*values, *values_count, added);
        else if (d && declaration_likeness(d, plans[plan].choice) >
                          declaration_likeness(d, plans[(*values)[index].nearest_arm].choice))
            (*values)[index].nearest_arm = (int)plan;
        values_of[plan] = (uint32_t)index;
    }
    return OK;
}

int launch_values_next(const struct launch_values *values, size_t count, uint32_t launches)
{
    double highest_urgency = 0;
    int next = -1;

    for (size_t i = 0; i < count; i++) {
        double urgency = values[i].votes * (launches + 1 - values[i].last);
        bool was_last = launches && values[i].last == launches;
        bool next_was_last = launches && next >= 0 && values[next].last == launches;

        if (urgency > 0 &&
            (next < 0 || next_was_last || (urgency > highest_urgency && !was_last))) {
            highest_urgency = urgency;
            next = (int)i;
        }
    }
    return next;
}

/* ---- command lines */

static const char *value_of(const struct declaration *d, uint32_t choice, size_t axis)
{
    return d->axis[axis].text[declaration_value(d, choice, axis)];
}

/* Returns the length of the "{word}" that begins here; 0: none does. */
static size_t braced_length(const char *at)
{
    size_t length = 1;

    if (*at != '{' || !(isalpha((unsigned char)at[1]) || at[1] == '_'))
        return 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_')
        length++;
    return at[length] == '}' ? length + 1 : 0;
}

int launch_command(const char *command, const struct declaration *d, uint32_t choice, char **out)
{
    char *text = NULL;
    size_t size, length;
    FILE *stream = open_memstream(&text, &size);
    int rc = stream ? OK : fail(ERR_NOMEM, "a command line");

    if (stream && !d) {
        fputs(command, stream);
        command = "";
    }
    while (!rc && *command) {
        if (command[0] == '{' && (length = braced_length(command + 1)) &&
            command[length + 1] == '}') {
            fprintf(stream, "%.*s", (int)length, command + 1);
            command += length + 2;
        } else if (command[0] == '$' && (length = braced_length(command + 1))) {
            fprintf(stream, "%.*s", (int)length + 1, command);
            command += length + 1;
        } else if ((length = braced_length(command))) {
            size_t axis = declaration_axis(d, command + 1, length - 2);
            int word_length = (int)length - 2;

            if (axis == d->axes)
                rc = fail(ERR_ARGUMENT,
                          "--exec: {%.*s} is no axis of %s; {{%.*s}} stands for the word in braces",
                          word_length, command + 1, d->name, word_length, command + 1);
            else if (!d->axis[axis].restart)
                rc = fail(ERR_ARGUMENT,
                          "--exec: {%s} varies while the program runs: the answer \"plan\" names "
                          "it; declare it \"restart\", or take it out of the command line",
                          d->axis[axis].name);
            else
                fputs(value_of(d, choice, axis), stream);
            command += length;
        } else {
            fputc(*command++, stream);
        }
    }
    if (stream && fclose(stream) && !rc)
        rc = fail(ERR_NOMEM, "a command line");
    if (rc)
        free(text);
    else
        *out = text;
    return rc;
}

/* ---- buckets */

/* How many asks a launch waits, in multiples of the least steps of a sample: for buckets that
 * nobody knows, for a bucket that it must show, and for one that it may show. */
enum { EXPLORE_SAMPLES = 8, WAIT_SAMPLES = 32, OCCASION_SAMPLES = 2 };

void watched_begin(struct watched_bucket *watched)
{
    watched->last_ask = 0;
    watched->steps = 0;
    watched->learnt = false;
}

bool watched_add_step(struct watched_bucket *watched, int64_t ns, uint32_t steps, int64_t *sample)
{
    watched->ns[watched->steps++] = ns;
    if (watched->steps < steps)
        return false;
    *sample = watched_finish_sample(watched);
    return true;
}

int64_t watched_finish_sample(struct watched_bucket *watched)
{
    double values[TUNE_LAUNCH_STEPS_MAX], ns_max, mean = 0, log_mean = 0;

    for (uint32_t i = 0; i < watched->steps; i++)
        values[i] = (double)watched->ns[i];
    ns_max = 2 * median_of(values, watched->steps);
    for (uint32_t i = 0; i < watched->steps; i++) {
        values[i] = fmax(1, fmin(values[i], ns_max));
        mean += values[i] / watched->steps;
        log_mean += log(values[i]) / watched->steps;
    }
    for (uint32_t i = 0; i < watched->steps; i++)
        watched->squares += pow(log(values[i]) - log_mean, 2);
    watched->spare += watched->steps - 1;
    watched->samples++;
    watched->steps = 0;
    watched->learnt = true;
    watched->missed = 0;
    return llround(mean);
}

bool watched_count_miss(struct watched_bucket *watched)
{
    return !watched->learnt && ++watched->missed >= LAUNCH_PATIENCE;
}

bool watch_awaits(const struct launch_watch *w, const struct watched_bucket *watched,
                  size_t buckets, bool on_occasion, uint64_t ask)
{
    uint64_t asks_max = (uint64_t)(on_occasion ? OCCASION_SAMPLES : WAIT_SAMPLES) * w->least;

    return ask - watched->last_ask < (watched->seen ? asks_max * buckets : asks_max);
}

bool watch_explores(const struct launch_watch *w, uint64_t ask)
{
    return (w->exploring || w->newest) &&
           ask <= 2 * w->newest + (uint64_t)EXPLORE_SAMPLES * w->least;
}

void watched_pool(struct watched_bucket *all, const struct watched_bucket *watched)
{
    all->samples += watched->samples;
    all->spare += watched->spare;
    all->squares += watched->squares;
}

/* ---- cost */

void launch_cost_started(struct launch_cost *c, int64_t now_ns)
{
    c->started_ns = now_ns;
    c->first_ask_ns = c->last_step_ns = 0;
}

void launch_cost_question(struct launch_cost *c, int64_t now_ns)
{
    if (!c->first_ask_ns)
        c->first_ask_ns = now_ns;
}

void launch_cost_step(struct launch_cost *c, int64_t now_ns)
{
    c->last_step_ns = now_ns;
}

void launch_cost_ended(struct launch_cost *c, int64_t now_ns)
{
    int64_t inside_ns = c->last_step_ns - c->first_ask_ns;

    if (!c->last_step_ns || now_ns < 0)
        return;
    c->inside_ns += (double)inside_ns;
    c->outside_ns += (double)(now_ns - c->started_ns - inside_ns);
}

/* A sample of n steps costs o + n c, and its variance is l^2 + v / n: o is the cost of a launch, c
 * that of a step, l the difference between launches, v the variance of steps.  The product of the
 * two is least at n = sqrt(o v / c) / l, and nearly flat around it.  The function takes the least n
 * whose product is at most `dearer` times that: small samples can be spent where they matter.  In
 * the code n, o, c and v are `steps`, `launch_ns`, `step_ns` and `step_variance`. */
uint32_t launch_pace(const struct launch_cost *cost, const struct watched_bucket *buckets)
{
    static const double launch_sd = 0.02; /* l: of log(ns) between launches */
    /* A prior for v: as if so many steps had this standard deviation of log(ns). */
    static const double prior_steps = 4, prior_sd = 0.05;
    static const double dearer = 1.25;
    double step_variance =
        (buckets->squares + prior_steps * prior_sd * prior_sd) / (prior_steps + buckets->spare);
    double launch_ns, step_ns, least_product, best_steps;
    uint32_t steps = LAUNCH_STEPS_LEAST;

    if (!buckets->samples || !(cost->inside_ns > 0))
        return steps;
    launch_ns = cost->outside_ns / buckets->samples;
    step_ns = cost->inside_ns / (double)(buckets->samples + buckets->spare);
    least_product = pow(launch_sd * sqrt(launch_ns) + sqrt(step_ns * step_variance), 2);
    best_steps = sqrt(launch_ns * step_variance / step_ns) / launch_sd;
    while (steps < fmin(best_steps, TUNE_LAUNCH_STEPS_MAX) &&
           (launch_ns + steps * step_ns) * (launch_sd * launch_sd + step_variance / steps) >
               dearer * least_product)
        steps++;
    return steps;
}

/* ---- answers to the program */

size_t launches_side(const struct launches *l)
{
    return l->now.values / (l->values_count / l->sides);
}

/* Returns whether the launch may still show something: a bucket that the client wants, or one that
 * nobody knows. */
static bool may_show_more(const struct launches *l, uint64_t ask)
{
    for (size_t i = 0; i < l->bucket_count; i++) {
        enum launch_wish wish = l->client->wish(l->self, l->buckets[i]);

        if (wish &&
            watch_awaits(&l->watch, l->buckets[i], l->bucket_count, wish == WISH_OCCASION, ask))
            return true;
    }
    return watch_explores(&l->watch, ask);
}

static int answer_ask(struct launches *l, const struct program_line *line)
{
    struct session *s = l->session;
    uint64_t ask = s->asks + 1;
    struct moe_plan plan;
    int rc = UNSUPPORTED;
    uint32_t bucket = 0;
    size_t index = 0;

    buckets_find(s->buckets, line->key, line->class_thousandths / 1e3, &bucket);
    l->any_ask = true;
    launch_cost_question(&l->cost, host_clock_ns());
    while (index < l->bucket_count && l->buckets[index]->bucket != bucket)
        index++;
    if (index == l->bucket_count) {
        TRY(l->client->add_bucket(l->self, bucket));
        l->watch.newest = ask;
    }
    l->buckets[index]->last_ask = ask;
    l->buckets[index]->seen = true;
    if (may_show_more(l, ask)) {
        l->asked = l->buckets[index];
        rc = l->client->choose_plan(l->self, l->asked, &plan); /* UNSUPPORTED: end the launch */
    }
    if (rc && rc != UNSUPPORTED)
        return rc;
    session_answer(s, rc ? NULL : &plan);
    return OK;
}

static int learn_time(struct launches *l, const struct program_line *tell)
{
    struct progress *p = &l->session->progress;

    l->steps++;
    l->sampled_steps += l->sampled;
    launch_cost_step(&l->cost, host_clock_ns());
    p->done = launches_count(l, BUCKET_DECIDED);
    p->buckets = launches_wanted(l);
    p->steps = l->steps;
    progress_show(p, "launch %" PRIu32 ": %s=%" PRIu64 " %s", l->now.number,
                  session_key_name(l->session), l->session->key, PLAN_WORDS(&l->session->plan));
    return l->client->learn_time(l->self, l->asked, tell);
}

/* Runs one launch, from its start to its end. */
static int run_launch(struct launches *l, const char *command, const char *words,
                      struct launch_end *end)
{
    struct session *s = l->session;
    struct program_line line;
    int rc = session_start(s, command, words, l->hold_errors);

    while (!rc && !(rc = session_next(s, &line))) {
        switch (line.word) {
        case LINE_ASK: rc = answer_ask(l, &line); break;
        case LINE_TELL:
            l->values[l->now.values].runs = true;
            rc = learn_time(l, &line);
            break;
        case LINE_FAILED:
            l->values[l->now.values].runs = true; /* it has started, and says what it cannot do */
            rc = l->client->learn_failure(l->self, l->asked, &line);
            break;
        case LINE_STATUS:
            session_status(s, (struct moetune_status){ .decided = launches_count(l, BUCKET_DECIDED),
                                                       .open = launches_count(l, BUCKET_OPEN),
                                                       .steps = l->steps,
                                                       .tried = l->sampled_steps });
            break;
        case LINE_NONE:
            if (l->run)
                run_stay_alive(l->run, (double)host_clock_ns() * 1e-3);
        }
    }
    return session_end(s, rc, end);
}

/* ---- launches */

bool launches_learnt(const struct launches *l)
{
    for (size_t i = 0; i < l->bucket_count; i++)
        if (l->buckets[i]->learnt)
            return true;
    return false;
}

int launches_add(struct launches *l, struct watched_bucket *watched)
{
    ARRAY_APPEND(l->buckets, l->bucket_count, watched);
    return OK;
}

uint32_t launches_count(const struct launches *l, enum bucket_state state)
{
    uint32_t count = 0;

    for (size_t i = 0; i < l->bucket_count; i++)
        count += l->buckets[i]->state == state;
    return count;
}

uint32_t launches_wanted(const struct launches *l)
{
    return (uint32_t)l->bucket_count - launches_count(l, BUCKET_LEFT_OUT) -
           launches_count(l, BUCKET_PINNED);
}

/* Has the client learn how the launch ended, and gives up buckets that launches do not show.  An
 * error ends launches_run(). */
static int judge_launch_end(struct launches *l, const struct launch_end *end)
{
    const struct session *s = l->session;

    if (!s->dismissed && (end->hung || end->exit_code)) {
        l->silent_launches = 0;
        return l->client->end_launch(l->self, end);
    }
    l->silent_launches = s->asks ? 0 : l->silent_launches + 1;
    if (l->silent_launches >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program ended %d times in a row without asking anything",
                    LAUNCH_PATIENCE);
    /* The launch ended well.  It missed each bucket that it was started for and did not show. */
    for (size_t i = 0; i < l->bucket_count; i++) {
        struct watched_bucket *watched = l->buckets[i];
        const char *bucket_text = SESSION_BUCKET(s, watched->bucket);

        if (l->client->wish(l->self, watched) != WISH_SAMPLE || !watched_count_miss(watched))
            continue;
        if (watched->seen)
            note("%s is given up: %d launches in a row did not run %" PRIu32
                 " steps of one plan there",
                 bucket_text, LAUNCH_PATIENCE, l->watch.least);
        else
            note("%s is given up: the program did not ask for it in %d launches", bucket_text,
                 LAUNCH_PATIENCE);
        watched->state = BUCKET_GIVEN_UP;
    }
    return l->client->end_launch(l->self, NULL);
}

int launches_run(struct launches *l)
{
    const struct declaration *space = l->session->buckets.declared;

    for (;;) {
        char words[DECLARATION_PLAN_BYTES], *command;
        struct launch_values *next_values;
        struct launch_end end;
        uint32_t choice;
        int next, rc;

        for (size_t i = 0; i < l->values_count; i++)
            l->values[i].votes = 0;
        TRY(l->client->vote(l->self));
        next = launch_values_next(l->values, l->values_count, l->now.number);
        if (next < 0)
            return OK;
        next_values = &l->values[next];
        choice = l->plans[next_values->arm].choice;
        l->now.values = (uint32_t)next;
        next_values->last = ++l->now.number;
        next_values->launches++;
        l->watch.newest = 0;
        l->asked = NULL;
        TRY(l->client->begin_launch(l->self, declaration_launch_words(space, choice, words)));
        TRY(launch_command(l->command, space, choice, &command));
        launch_cost_started(&l->cost, host_clock_ns());
        rc = run_launch(l, command, space ? words : NULL, &end);
        free(command);
        launch_cost_ended(&l->cost, end.hung ? -1 : host_clock_ns());
        if (l->client->finish_samples && (!rc || rc == ERR_CUT))
            rc = l->client->finish_samples(l->self, rc == ERR_CUT) ? ERR_IO : rc;
        TRY(rc);
        TRY(judge_launch_end(l, &end));
    }
}

int launches_open(struct launches *l)
{
    const struct declaration *space = l->session->buckets.declared;
    struct launch_values *every_side;
    size_t count;
    char *command;

    TRY(launch_command(l->command, space, space ? space->default_choice : 0, &command));
    free(command);
    TRY(launch_values_list(space, l->plans, l->plan_count, l->values_of, &l->values,
                           &l->values_count));
    count = l->values_count;
    every_side = realloc(l->values, l->sides * count * sizeof(*every_side));
    if (!every_side)
        return fail(ERR_NOMEM, "launch values");
    for (size_t i = 1; i < l->sides; i++)
        memcpy(every_side + i * count, every_side, count * sizeof(*every_side));
    l->values = every_side;
    l->values_count = l->sides * count;
    l->now.values_of = l->values_of;
    return OK;
}

void launches_close(struct launches *l)
{
    free(l->values);
    free(l->buckets);
}
