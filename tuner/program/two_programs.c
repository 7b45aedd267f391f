/* Lets two programs run a step each, in turn and in shuffled order, until it is known at every key
 * which of them is faster. */
#include "two_programs.h"

#include "array.h"
#include "child.h"
#include "contest.h"
#include "host.h"
#include "launch.h"
#include "lookup.h"
#include "progress.h"
#include "random.h"
#include "shape.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct two_programs, field)
const struct option_row two_programs_rows[] = {
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "instead: this program, which asks and tells, against ..." },
    { "against", "COMMAND", OPTION_TEXT, AT(against),
      "... another one, with the same plans [itself, with other plans]" },
    { "against-table", "FILE", OPTION_TEXT, AT(against_table),
      "... told the plans of this table [--exec alone: the default plan]" },
    { "warmup", "N", OPTION_COUNT, AT(warmup), "steps of each at each key that do not count",
      .least = 0, .most = 1000 },
    { NULL },
};
#undef AT

enum { LINE_BYTES = 256, SIDES = 2, KEYS_MAX = 4096, PAIRS_LEAST = 8 };
static const double patience_between = 10; /* times as long as a step may be silent */

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* One of the two. */
struct side {
    const char *command;
    struct moelookup *table; /* NULL: it is told the default plan */
    struct moelookup_view *view;
    struct child child;
    uint32_t capacity; /* that it asks for, and waits for an answer */
    struct moe_plan plan;
    int64_t heard_ns;
};

/* Steps of one bucket. */
struct key {
    uint32_t bucket, seen[SIDES];
    struct moe_plan plan; /* of the first side */
    struct contest *contest;
    char why[200]; /* the first one failed */
};

struct meeting {
    const struct two_programs *options;
    struct side sides[SIDES];
    struct moe_shape shape;
    uint32_t window;
    struct key *keys;
    size_t key_count;
    uint64_t rounds, newest; /* steps of each; when the newest key came */
    int64_t deadline_ns;
    struct progress progress;
};

static const char *name_of(const struct meeting *m, const struct side *s)
{
    return s == &m->sides[0] ? "--exec" : m->options->against ? "--against" : "the second program";
}

/* ---- keys */

static int open_contest(const struct meeting *m, uint32_t bucket, struct contest **out)
{
    struct contest_settings settings = { .margin = m->options->margin,
                                         .rounds_max = CONTEST_ROUNDS_MAX,
                                         .seed = m->options->seed ^ bucket };
    /* Contestants are told apart by their plans; here they stand for programs. */
    struct moe_plan stand_for[SIDES] = { plan_default(NULL), plan_default(NULL) };

    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fail(ERR_NOMEM, "a contest");
    stand_for[0].d = 2;
    contest_open(*out, &settings, stand_for, SIDES, 1, -1);
    return OK;
}

static int key_of(struct meeting *m, uint32_t capacity, struct key **out)
{
    struct key key = { .bucket = capacity / m->window };

    for (size_t i = 0; i < m->key_count; i++)
        if (m->keys[i].bucket == key.bucket) {
            *out = &m->keys[i];
            return OK;
        }
    if (m->key_count == KEYS_MAX)
        return fail(ERR_ARGUMENT, "the programs ask for more than %d buckets of capacities",
                    KEYS_MAX);
    TRY(open_contest(m, key.bucket, &key.contest));
    m->newest = m->rounds;
    ARRAY_APPEND(m->keys, m->key_count, key);
    *out = &m->keys[m->key_count - 1];
    return OK;
}

static bool is_settled(const struct key *key)
{
    return *key->why || contest_next(key->contest) == CONTEST_DONE;
}

static uint32_t settled(const struct meeting *m)
{
    uint32_t count = 0;

    for (size_t i = 0; i < m->key_count; i++)
        count += is_settled(&m->keys[i]);
    return count;
}

/* All keys are, and for as long as it took to see them no other one came. */
static bool is_enough(const struct meeting *m)
{
    return m->key_count && settled(m) == m->key_count && m->rounds >= 2 * m->newest + PAIRS_LEAST;
}

/* ---- what a program says */

static bool time_is_up(const struct meeting *m)
{
    return stop || (m->deadline_ns && host_clock_ns() >= m->deadline_ns);
}

/* UNSUPPORTED: it has ended. */
static int hear(struct meeting *m, struct side *s, double patience, char *line)
{
    s->heard_ns = host_clock_ns();
    for (;;) {
        bool ended = child_ended(&s->child); /* asked first: its last lines are still there */
        int rc = child_read(&s->child, line, LINE_BYTES);

        if (rc == OK)
            return OK;
        if (time_is_up(m))
            return ERR_CUT;
        if (ended || rc != UNSUPPORTED)
            return UNSUPPORTED;
        if ((double)(host_clock_ns() - s->heard_ns) * 1e-9 > patience)
            return fail(ERR_LAUNCH, "%s: silent for %g s", name_of(m, s), patience);
        progress_tick(&m->progress);
    }
}

static int say(struct meeting *m, struct side *s, const char *line)
{
    return child_write(&s->child, line) == OK
               ? OK
               : fail(ERR_LAUNCH, "%s does not read what it is answered", name_of(m, s));
}

/* "tell 12.5": the rest of it, or NULL. */
static const char *rest_of(const char *line, const char *word)
{
    size_t length = strlen(word);

    return !strncmp(line, word, length) && (line[length] == ' ' || !line[length])
               ? line + length + (line[length] == ' ')
               : NULL;
}

static int answer_status(struct meeting *m, struct side *s)
{
    char line[LINE_BYTES];
    uint32_t known = settled(m);

    snprintf(line, sizeof(line), "status decided %u open %zu steps %" PRIu64 " tried 0", known,
             m->key_count - known, m->rounds);
    return say(m, s, line);
}

/* Until it asks; UNSUPPORTED: it has ended. */
static int await_question(struct meeting *m, struct side *s)
{
    char line[LINE_BYTES], *end;
    const char *rest;
    unsigned long long capacity;

    for (;;) {
        TRY(hear(m, s, patience_between * m->options->silence_s, line));
        if (!rest_of(line, "status"))
            break;
        TRY(answer_status(m, s));
    }
    rest = rest_of(line, "ask");
    capacity = rest ? strtoull(rest, &end, 10) : 0;
    if (!rest || *rest < '0' || *rest > '9' || *end || capacity > UINT32_MAX)
        return fail(ERR_FORMAT, "%s says \"%.80s\": \"ask CAPACITY\" is wanted", name_of(m, s),
                    line);
    s->capacity = (uint32_t)capacity;
    return OK;
}

static void choose_plan(const struct meeting *m, struct side *s)
{
    s->plan = plan_default(m->shape.experts ? &m->shape : NULL);
    if (s->view)
        moelookup_get(s->view, s->capacity, &s->plan);
}

/* What came of a step: *ns, or 0 and why. */
static int await_time(struct meeting *m, struct side *s, int64_t *ns, char *why, size_t size)
{
    char line[LINE_BYTES], *end;
    const char *rest;
    double us;
    int rc = hear(m, s, m->options->silence_s, line);

    *ns = 0;
    if (rc == UNSUPPORTED) {
        snprintf(why, size, "the program ended in a step");
        return OK;
    }
    TRY(rc);
    rest = rest_of(line, "failed");
    if (rest) {
        snprintf(why, size, "failed: %.150s", *rest ? rest : "the program could not run it");
        return OK;
    }
    rest = rest_of(line, "tell");
    us = rest ? strtod(rest, &end) : 0;
    if (!rest || end == rest || *end || !(us > 0 && us < 1e12))
        return fail(ERR_FORMAT, "%s says \"%.80s\": \"tell MICROSECONDS\" is wanted", name_of(m, s),
                    line);
    *ns = (int64_t)fmax(1, us * 1e3);
    return OK;
}

/* ---- rounds */

static int note_step(struct meeting *m, struct side *s, int64_t ns, const char *why)
{
    int side = (int)(s - m->sides);
    struct key *key = NULL;

    TRY(key_of(m, s->capacity, &key));
    if (!ns && side == 1)
        return fail(ERR_LAUNCH, "%s: %s, at capacity %u under %s: there is nothing to compare with",
                    name_of(m, s), why, s->capacity, PLAN_TEXT(&s->plan));
    if (side == 0)
        key->plan = s->plan;
    if (!ns)
        snprintf(key->why, sizeof(key->why), "%s", why);
    else if (key->seen[side]++ >= m->options->warmup)
        contest_tell(key->contest, side, ns);
    return OK;
}

/* The other one waits for its answer meanwhile. */
static int run_step(struct meeting *m, struct side *s)
{
    char line[LINE_BYTES], why[200] = "";
    int64_t ns;

    choose_plan(m, s);
    snprintf(line, sizeof(line), "plan %s", PLAN_TEXT(&s->plan));
    TRY(say(m, s, line));
    TRY(await_time(m, s, &ns, why, sizeof(why)));
    return note_step(m, s, ns, why);
}

static int run_round(struct meeting *m)
{
    int first = random_bits(m->options->seed, m->rounds) & 1;

    for (int i = 0; i < SIDES; i++)
        TRY(await_question(m, &m->sides[i]));
    TRY(run_step(m, &m->sides[first]));
    TRY(run_step(m, &m->sides[!first]));
    for (int i = 0; i < SIDES; i++)
        TRY(child_ended(&m->sides[i].child) ? UNSUPPORTED : say(m, &m->sides[i], "ok"));
    m->rounds++;
    m->progress.done = settled(m);
    progress_show(&m->progress, "pair %" PRIu64 ", %u of %zu keys", m->rounds, settled(m),
                  m->key_count);
    return OK;
}

static int start(struct meeting *m, struct side *s)
{
    struct child_job job = { s->command, m->shape.experts ? SHAPE_TEXT(&m->shape) : "", m->window };

    return child_start(&job, &s->child);
}

/* It ended by itself: well, or by a fault of its own. */
static int judge_end(struct meeting *m, struct side *s)
{
    bool ended = s->child.talk.pid && child_ended(&s->child);
    int exit_code = 0;
    char how[128] = "";

    child_end(&s->child, &exit_code, how, sizeof(how));
    if (!ended || !exit_code)
        return OK;
    note("%s: %s", name_of(m, s), how);
    return s == &m->sides[0] && m->key_count ? ERR_WRONG : ERR_LAUNCH;
}

static int meet(struct meeting *m)
{
    int rc = OK, ends = OK;

    for (int i = 0; i < SIDES && !rc; i++)
        rc = start(m, &m->sides[i]);
    while (!rc && !is_enough(m))
        rc = run_round(m);
    progress_clear(&m->progress);
    for (int i = 0; i < SIDES; i++) {
        int end = judge_end(m, &m->sides[i]);

        ends = ends ? ends : end;
    }
    if (rc && rc != UNSUPPORTED)
        return rc;
    return !ends && !m->key_count ? fail(ERR_LAUNCH, "a program ended without asking anything")
                                  : ends;
}

/* ---- tables */

static int bind_table(struct meeting *m, const char *path, struct side *s)
{
    struct moe_shape shape;

    TRY(moelookup_open(path, &s->table));
    if (pack_layer_count(s->table->bytes) != 1)
        return fail(ERR_ARGUMENT, "%s: a table of one layer is wanted, it has %u",
                    path ? path : "the table", pack_layer_count(s->table->bytes));
    shape = pack_layer(s->table->bytes, 0).shape;
    m->window = pack_layer(s->table->bytes, 0).window;
    if (m->shape.experts && !shape_equal(&m->shape, &shape))
        return fail(ERR_ARGUMENT, "%s is a table of another layer: %s", path, SHAPE_TEXT(&shape));
    m->shape = shape;
    return moelookup_bind(s->table, &shape, NULL, &s->view);
}

static int open_tables(struct meeting *m)
{
    const struct two_programs *o = m->options;

    m->window = 1;
    if (o->db || !o->against)
        TRY(bind_table(m, o->db, &m->sides[0]));
    if (o->against_table)
        return bind_table(m, o->against_table, &m->sides[1]);
    return o->against && o->db ? bind_table(m, o->db, &m->sides[1]) : OK;
}

static void close_tables(struct meeting *m)
{
    for (int i = 0; i < SIDES; i++) {
        moelookup_view_free(m->sides[i].view);
        moelookup_close(m->sides[i].table);
    }
}

/* ---- verdicts */

static struct verdict verdict_of(const struct meeting *m, const struct key *key)
{
    struct contest_verdict c = contest_verdict(key->contest);
    struct verdict v = { .group = m->options->exec,
                         .before_us = c.default_ns * 1e-3,
                         .now_us = c.default_ns * (1 - c.challenge.value) * 1e-3,
                         .gain = c.challenge,
                         .pairs = c.rounds,
                         .word = "not slower" };
    double margin = m->options->margin;

    if (m->window == 1)
        snprintf(v.key, sizeof(v.key), "c=%u", key->bucket);
    else
        snprintf(v.key, sizeof(v.key), "c=%" PRIu64 "-%" PRIu64, (uint64_t)key->bucket * m->window,
                 (uint64_t)(key->bucket + 1) * m->window - 1);
    moe_plan_format(&key->plan, v.plan, sizeof(v.plan));
    snprintf(v.why, sizeof(v.why), "%s", key->why);
    v.failed = *key->why || v.gain.high < -margin;
    if (v.failed)
        v.word = *key->why ? "fails" : "slower";
    else if (v.gain.low > margin)
        v.word = "faster";
    else if (!v.pairs)
        v.word = "too few steps";
    return v;
}

static int by_bucket(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static void heading_of(const struct two_programs *o, char *text, size_t size)
{
    const char *against = o->against ? o->against : o->against_table;

    snprintf(text, size, "%.200s against %.200s", o->exec, against ? against : "the default plan");
}

static int report(struct meeting *m)
{
    const struct two_programs *o = m->options;
    struct verdict *verdicts = calloc(m->key_count + 1, sizeof(*verdicts));
    char heading[512];
    bool failed = false;
    int rc = verdicts ? OK : fail(ERR_NOMEM, "%zu verdicts", m->key_count);

    if (!rc)
        qsort(m->keys, m->key_count, sizeof(*m->keys), by_bucket);
    for (size_t i = 0; i < m->key_count && !rc; i++) {
        verdicts[i] = verdict_of(m, &m->keys[i]);
        failed |= verdicts[i].failed;
    }
    heading_of(o, heading, sizeof(heading));
    if (!rc && o->json)
        verdicts_json(verdicts, m->key_count, stdout);
    else if (!rc)
        rc = verdicts_table(verdicts, m->key_count, stdout);
    if (!rc)
        rc = verdicts_write(&o->files, heading, verdicts, m->key_count);
    free(verdicts);
    return rc ? rc : failed ? ERR_WRONG : OK;
}

static void close_meeting(struct meeting *m)
{
    for (size_t i = 0; i < m->key_count; i++)
        free(m->keys[i].contest);
    free(m->keys);
    close_tables(m);
    free(m);
}

int two_programs(const struct two_programs *options)
{
    struct meeting *m = calloc(1, sizeof(*m));
    int rc, said;

    if (!m)
        return fail(ERR_NOMEM, "two programs");
    m->options = options;
    m->sides[0].command = options->exec;
    m->sides[1].command = options->against ? options->against : options->exec;
    if (options->budget_s > 0)
        m->deadline_ns = host_clock_ns() + (int64_t)(options->budget_s * 1e9);
    progress_open(&m->progress, options->quiet);
    m->progress.deadline_ns = m->deadline_ns;
    signal(SIGPIPE, SIG_IGN);
    launch_on_stop(on_signal);
    rc = open_tables(m);
    if (!rc)
        rc = meet(m);
    if (!rc || ((rc == ERR_WRONG || rc == ERR_CUT) && m->key_count)) {
        said = report(m);
        rc = rc && said != ERR_WRONG ? rc : said;
    }
    close_meeting(m);
    return rc;
}
