/* Which launch comes next, how long it goes on, and what its program is answered. */
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

/* ---- values */

int launch_values_list(const struct declaration *d, const struct moe_plan *plans, size_t count,
                       uint32_t *values_of, struct launch_values **values, size_t *values_count)
{
    for (size_t i = 0; i < count; i++) {
        const struct launch_values fresh = { .arm = (int)i, .safe = (int)i };
        size_t w = 0;

        while (d && w < *values_count &&
               !declaration_same_launch(d, plans[i].choice, plans[(*values)[w].arm].choice))
            w++;
        if (w == *values_count)
            ARRAY_APPEND(*values, *values_count, fresh);
        else if (d && declaration_likeness(d, plans[i].choice) >
                          declaration_likeness(d, plans[(*values)[w].safe].choice))
            (*values)[w].safe = (int)i;
        values_of[i] = (uint32_t)w;
    }
    return OK;
}

int launch_values_next(const struct launch_values *values, size_t count, uint32_t launches)
{
    double most = 0;
    int next = -1;

    for (size_t w = 0; w < count; w++) {
        double urgent = values[w].votes * (launches + 1 - values[w].last);
        bool again = launches && values[w].last == launches;

        if (urgent > 0 && (next < 0 || (urgent > most && !again) ||
                           (launches && values[next].last == launches))) {
            most = urgent;
            next = (int)w;
        }
    }
    return next;
}

/* ---- command lines */

static const char *value_of(const struct declaration *d, uint32_t choice, size_t axis)
{
    return d->axis[axis].text[declaration_value(d, choice, axis)];
}

/* The length of "{word}"; 0: that is not what stands there. */
static size_t braced(const char *at)
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
    FILE *to = open_memstream(&text, &size);
    int rc = to ? OK : fail(ERR_NOMEM, "a command line");

    if (to && !d) {
        fputs(command, to);
        command = "";
    }
    while (!rc && *command) {
        if (command[0] == '{' && (length = braced(command + 1)) && command[length + 1] == '}') {
            fprintf(to, "%.*s", (int)length, command + 1);
            command += length + 2;
        } else if (command[0] == '$' && (length = braced(command + 1))) {
            fprintf(to, "%.*s", (int)length + 1, command);
            command += length + 1;
        } else if ((length = braced(command))) {
            size_t axis = declaration_axis(d, command + 1, length - 2);
            int word = (int)length - 2;

            if (axis == d->axes)
                rc = fail(ERR_ARGUMENT,
                          "--exec: {%.*s} is no axis of %s; {{%.*s}} stands for the word in braces",
                          word, command + 1, d->name, word, command + 1);
            else if (!d->axis[axis].restart)
                rc = fail(ERR_ARGUMENT,
                          "--exec: {%s} varies while the program runs, so it is told by \"plan\", "
                          "not by the command line; declare it \"restart\" or leave it out",
                          d->axis[axis].name);
            else
                fputs(value_of(d, choice, axis), to);
            command += length;
        } else {
            fputc(*command++, to);
        }
    }
    if (to && fclose(to) && !rc)
        rc = fail(ERR_NOMEM, "a command line");
    if (rc)
        free(text);
    else
        *out = text;
    return rc;
}

/* ---- buckets */

/* How long a launch goes on, in times of the least steps of a sample: while it looks which buckets
 * there are, while it waits for a range to be asked for, and where it would only like to see one.
 */
enum { LOOK = 8, WAIT = 32, PASS_BY = 2 };

void watched_reset(struct watched *r)
{
    r->asked = 0;
    r->steps = 0;
    r->learnt = false;
}

bool watched_step(struct watched *r, int64_t ns, uint32_t steps, int64_t *sample)
{
    r->ns[r->steps++] = ns;
    if (r->steps < steps)
        return false;
    *sample = watched_sample(r);
    return true;
}

int64_t watched_sample(struct watched *r)
{
    double values[TUNE_LAUNCH_STEPS_MAX], most, mean = 0, log_mean = 0;

    for (uint32_t i = 0; i < r->steps; i++)
        values[i] = (double)r->ns[i];
    most = 2 * median_of(values, r->steps);
    for (uint32_t i = 0; i < r->steps; i++) {
        values[i] = fmax(1, fmin(values[i], most));
        mean += values[i] / r->steps;
        log_mean += log(values[i]) / r->steps;
    }
    for (uint32_t i = 0; i < r->steps; i++)
        r->squares += pow(log(values[i]) - log_mean, 2);
    r->spare += r->steps - 1;
    r->samples++;
    r->steps = 0;
    r->learnt = true;
    r->missed = 0;
    return llround(mean);
}

bool watched_in_vain(struct watched *r)
{
    return !r->learnt && ++r->missed >= LAUNCH_PATIENCE;
}

bool watch_awaits(const struct launch_watch *w, const struct watched *r, size_t buckets,
                  bool on_occasion, uint64_t question)
{
    uint64_t rounds = (uint64_t)(on_occasion ? PASS_BY : WAIT) * w->least;

    return question - r->asked < (r->seen ? rounds * buckets : rounds);
}

bool watch_looks(const struct launch_watch *w, uint64_t question)
{
    return (w->looking || w->newest) && question <= 2 * w->newest + (uint64_t)LOOK * w->least;
}

void watched_add(struct watched *all, const struct watched *r)
{
    all->samples += r->samples;
    all->spare += r->spare;
    all->squares += r->squares;
}

/* ---- cost */

void launch_cost_started(struct launch_cost *c, int64_t now_ns)
{
    c->started_ns = now_ns;
    c->asked_ns = c->told_ns = 0;
}

void launch_cost_asked(struct launch_cost *c, int64_t now_ns)
{
    if (!c->asked_ns)
        c->asked_ns = now_ns;
}

void launch_cost_told(struct launch_cost *c, int64_t now_ns)
{
    c->told_ns = now_ns;
}

void launch_cost_ended(struct launch_cost *c, int64_t now_ns)
{
    int64_t inside_ns = c->told_ns - c->asked_ns;

    if (!c->told_ns || now_ns < 0)
        return;
    c->inside_ns += (double)inside_ns;
    c->outside_ns += (double)(now_ns - c->started_ns - inside_ns);
}

/* Samples of n steps cost o + n c each and have the variance l^2 + v / n.  Those say most for their
 * cost that make (o + n c) (l^2 + v / n) least, with n = sqrt(o v / c) / l; around that it is
 * nearly flat, and small samples can be spent where they matter. */
uint32_t launch_pace(const struct launch_cost *c, const struct watched *buckets)
{
    static const double luck = 0.02; /* l: of log(ns) between launches */
    /* Before steps are known, as if so many had scattered by so much. */
    static const double guessed = 4, guess = 0.05;
    static const double dearer = 1.25; /* than the least */
    double v = (buckets->squares + guessed * guess * guess) / (guessed + buckets->spare);
    double of_launch, of_step, least, best;
    uint32_t n = LAUNCH_STEPS_LEAST;

    if (!buckets->samples || !(c->inside_ns > 0))
        return n;
    of_launch = c->outside_ns / buckets->samples;
    of_step = c->inside_ns / (double)(buckets->samples + buckets->spare);
    least = pow(luck * sqrt(of_launch) + sqrt(of_step * v), 2);
    best = sqrt(of_launch * v / of_step) / luck;
    while (n < fmin(best, TUNE_LAUNCH_STEPS_MAX) &&
           (of_launch + n * of_step) * (luck * luck + v / n) > dearer * least)
        n++;
    return n;
}

/* ---- what the program of a launch is answered */

size_t launches_side(const struct launches *l)
{
    return l->now.values / (l->values_count / l->sides);
}

/* Whether the launch can show more that is wanted, or buckets that nobody knows. */
static bool goes_on(const struct launches *l, uint64_t question)
{
    for (size_t i = 0; i < l->bucket_count; i++) {
        enum launch_wish wish = l->client->wish(l->self, l->buckets[i]);

        if (wish && watch_awaits(&l->watch, l->buckets[i], l->bucket_count, wish == WISH_OCCASION,
                                 question))
            return true;
    }
    return watch_looks(&l->watch, question);
}

static int program_asks(struct launches *l, const struct said *ask)
{
    struct session *s = l->session;
    uint64_t question = s->asked + 1;
    struct moe_plan plan;
    int rc = UNSUPPORTED;
    uint32_t bucket = 0;
    size_t i = 0;

    buckets_find(s->buckets, ask->key, ask->class_thousandths / 1e3, &bucket);
    l->heard = true;
    launch_cost_asked(&l->cost, host_clock_ns());
    while (i < l->bucket_count && l->buckets[i]->bucket != bucket)
        i++;
    if (i == l->bucket_count) {
        TRY(l->client->add(l->self, bucket));
        l->watch.newest = question;
    }
    l->buckets[i]->asked = question;
    l->buckets[i]->seen = true;
    if (goes_on(l, question)) {
        l->range = l->buckets[i];
        rc = l->client->choose(l->self, l->range, &plan);
    }
    if (rc && rc != UNSUPPORTED)
        return rc;
    session_answer(s, rc ? NULL : &plan);
    return OK;
}

static int program_tells(struct launches *l, const struct said *told)
{
    struct progress *p = &l->session->progress;

    l->told++;
    l->tried += l->sampled;
    launch_cost_told(&l->cost, host_clock_ns());
    p->done = launches_count(l, BUCKET_DECIDED);
    p->buckets = launches_wanted(l);
    p->steps = l->told;
    progress_show(p, "launch %" PRIu32 ": %s=%" PRIu64 " %s", l->now.number,
                  session_key(l->session), l->session->key, PLAN_WORDS(&l->session->plan));
    return l->client->step(l->self, l->range, told);
}

/* One launch, from its start to its end. */
static int converse(struct launches *l, const char *command, const char *words,
                    struct launch_end *end)
{
    struct session *s = l->session;
    struct said said;
    int rc = session_start(s, command, words, l->in_doubt);

    while (!rc && !(rc = session_next(s, &said))) {
        switch (said.word) {
        case SAID_ASK: rc = program_asks(l, &said); break;
        case SAID_TELL:
            l->values[l->now.values].runs = true;
            rc = program_tells(l, &said);
            break;
        case SAID_FAILED:
            l->values[l->now.values].runs = true; /* it came up, and says what it cannot do */
            rc = l->client->failed(l->self, l->range, &said);
            break;
        case SAID_STATUS:
            session_status(s, (struct moetune_status){ .decided = launches_count(l, BUCKET_DECIDED),
                                                       .open = launches_count(l, BUCKET_OPEN),
                                                       .steps = l->told,
                                                       .tried = l->tried });
            break;
        case SAID_NOTHING:
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

int launches_add(struct launches *l, struct watched *range)
{
    ARRAY_APPEND(l->buckets, l->bucket_count, range);
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

/* The program has ended; whether launches go on. */
static int judge_end(struct launches *l, const struct launch_end *end)
{
    const struct session *s = l->session;
    const char *text;

    if (!s->dismissed && (end->hung || end->exit_code)) {
        l->silent = 0;
        return l->client->ended(l->self, end);
    }
    l->silent = s->asked ? 0 : l->silent + 1;
    if (l->silent >= LAUNCH_PATIENCE)
        return fail(ERR_LAUNCH, "the program ended %d times in a row without asking anything",
                    LAUNCH_PATIENCE);
    /* It ended well: a range that it was started for and did not show is missed. */
    for (size_t i = 0; i < l->bucket_count; i++) {
        struct watched *range = l->buckets[i];

        if (l->client->wish(l->self, range) != WISH_SAMPLE || !watched_in_vain(range))
            continue;
        text = SESSION_RANGE(s, range->bucket);
        if (range->seen)
            note("%s is left: %d launches in a row did not run %" PRIu32 " steps of one plan there",
                 text, LAUNCH_PATIENCE, l->watch.least);
        else
            note("%s is left: the program did not ask for it in %d launches", text,
                 LAUNCH_PATIENCE);
        range->state = BUCKET_GIVEN_UP;
    }
    return l->client->ended(l->self, NULL);
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

        for (size_t w = 0; w < l->values_count; w++)
            l->values[w].votes = 0;
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
        l->range = NULL;
        TRY(l->client->begin(l->self, declaration_launch_words(space, choice, words)));
        TRY(launch_command(l->command, space, choice, &command));
        launch_cost_started(&l->cost, host_clock_ns());
        rc = converse(l, command, space ? words : NULL, &end);
        free(command);
        launch_cost_ended(&l->cost, end.hung ? -1 : host_clock_ns());
        if (l->client->gather && (!rc || rc == ERR_CUT))
            rc = l->client->gather(l->self, rc == ERR_CUT) ? ERR_IO : rc;
        TRY(rc);
        TRY(judge_end(l, &end));
    }
}

int launches_open(struct launches *l)
{
    const struct declaration *space = l->session->buckets.declared;
    struct launch_values *all;
    size_t count;
    char *command;

    TRY(launch_command(l->command, space, space ? space->default_choice : 0, &command));
    free(command);
    TRY(launch_values_list(space, l->plans, l->plan_count, l->values_of, &l->values,
                           &l->values_count));
    count = l->values_count;
    all = realloc(l->values, l->sides * count * sizeof(*all));
    if (!all)
        return fail(ERR_NOMEM, "ways to start programs");
    for (size_t i = 1; i < l->sides; i++)
        memcpy(all + i * count, all, count * sizeof(*all));
    l->values = all;
    l->values_count = l->sides * count;
    l->now.values_of = l->values_of;
    return OK;
}

void launches_close(struct launches *l)
{
    free(l->values);
    free(l->buckets);
}
