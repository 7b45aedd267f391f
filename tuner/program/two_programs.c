/* Lets two programs run a step each, in turn and in shuffled order, until it is known at every key
 * which of them is faster. */
#include "two_programs.h"

#include "array.h"
#include "child.h"
#include "contest.h"
#include "declared_plan.h"
#include "host.h"
#include "launch_words.h"
#include "lines.h"
#include "lookup.h"
#include "plan.h"
#include "progress.h"
#include "random.h"
#include "session.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "store.h"

#include <inttypes.h>
#include <limits.h>
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
    { "space", "FILE", OPTION_TEXT, AT(space),
      "plans of its own that the programs have, see moetune-spaces(7)" },
    { "warmup", "N", OPTION_COUNT, AT(warmup), "steps of each at each key that do not count",
      .least = 0, .most = 1000 },
    { NULL },
};
#undef AT

enum { SIDES = 2, KEYS_MAX = 4096, PAIRS_LEAST = 8 };
/* One of the two. */
struct side {
    const char *command;
    struct moelookup *table; /* NULL: it is told the default plan */
    struct moelookup_view *view;
    struct store *store; /* instead of both, where the programs have a space */
    int64_t cluster, layer;
    struct child child;
    struct said asked; /* it waits for an answer */
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
    const struct declaration *space; /* NULL: moetune's own plans */
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

static uint32_t bucket_of(const struct meeting *m, const struct said *asked)
{
    return m->space ? declaration_bucket(m->space, asked->key, asked->class_thousandths)
                    : (uint32_t)asked->key / m->window;
}

static int key_of(struct meeting *m, const struct said *asked, struct key **out)
{
    struct key key = { .bucket = bucket_of(m, asked) };

    for (size_t i = 0; i < m->key_count; i++)
        if (m->keys[i].bucket == key.bucket) {
            *out = &m->keys[i];
            return OK;
        }
    if (m->key_count == KEYS_MAX)
        return fail(ERR_ARGUMENT, "the programs ask for more than %d buckets", KEYS_MAX);
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
    return session_stopped() || (m->deadline_ns && host_clock_ns() >= m->deadline_ns);
}

/* UNSUPPORTED: it has ended. */
static int hear(struct meeting *m, struct side *s, double patience, char *line)
{
    s->heard_ns = host_clock_ns();
    for (;;) {
        bool ended = child_ended(&s->child); /* asked first: its last lines are still there */
        int rc = child_read(&s->child, false, line, SAID_LINE_BYTES);

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

static int answer_status(struct meeting *m, struct side *s)
{
    char line[SAID_LINE_BYTES];
    uint32_t known = settled(m);

    snprintf(line, sizeof(line), "status decided %u open %zu steps %" PRIu64 " tried 0", known,
             m->key_count - known, m->rounds);
    return say(m, s, line);
}

/* A line that is understood and is no question for the status. */
static int hear_said(struct meeting *m, struct side *s, double patience, const char *wanted,
                     struct said *said, char *line)
{
    char why[SAID_WHY_BYTES];

    for (;;) {
        TRY(hear(m, s, patience, line));
        if (!said_read(line, m->space, said, why))
            return fail(ERR_FORMAT, "%s says \"%.80s\": \"%s\" is wanted (%s)", name_of(m, s), line,
                        wanted, why);
        if (said->word != SAID_STATUS)
            return OK;
        TRY(answer_status(m, s));
    }
}

static int out_of_turn(const struct meeting *m, const struct side *s, const char *line,
                       const char *wanted)
{
    return fail(ERR_FORMAT, "%s says \"%.80s\": \"%s\" is wanted", name_of(m, s), line, wanted);
}

/* Until it asks; UNSUPPORTED: it has ended. */
static int await_question(struct meeting *m, struct side *s)
{
    const char *wanted = m->space ? "ask KEY" : "ask CAPACITY";
    char line[SAID_LINE_BYTES];

    TRY(hear_said(m, s, session_patience_between * m->options->silence_s, wanted, &s->asked, line));
    return s->asked.word == SAID_ASK ? OK : out_of_turn(m, s, line, wanted);
}

static int choose_plan(const struct meeting *m, struct side *s)
{
    struct entry_row entry;
    int rc;

    s->plan = plan_default(m->shape.experts ? &m->shape : NULL);
    if (m->space)
        s->plan = declared_plan_default(m->space->id);
    if (s->view)
        moelookup_get(s->view, (uint32_t)s->asked.key, &s->plan);
    if (!s->store)
        return OK;
    rc =
        store_entry_get(s->store, s->cluster, s->layer, m->window, bucket_of(m, &s->asked), &entry);
    if (!rc)
        s->plan = entry.plan;
    return rc == UNSUPPORTED ? OK : rc;
}

/* What came of a step: *ns, or 0 and why. */
static int await_time(struct meeting *m, struct side *s, int64_t *ns, char *why, size_t size)
{
    static const char wanted[] = "tell MICROSECONDS";
    char line[SAID_LINE_BYTES];
    struct said said;
    int rc = hear_said(m, s, m->options->silence_s, wanted, &said, line);

    *ns = 0;
    if (rc == UNSUPPORTED) {
        snprintf(why, size, "the program ended in a step");
        return OK;
    }
    TRY(rc);
    if (said.word == SAID_FAILED) {
        snprintf(why, size, "failed: %.150s", said.reason);
        return OK;
    }
    *ns = said.ns;
    return said.word == SAID_TELL ? OK : out_of_turn(m, s, line, wanted);
}

/* ---- rounds */

static int note_step(struct meeting *m, struct side *s, int64_t ns, const char *why)
{
    int side = (int)(s - m->sides);
    struct key *key = NULL;

    TRY(key_of(m, &s->asked, &key));
    if (!ns && side == 1)
        return fail(ERR_LAUNCH,
                    "%s: %s, at %s %" PRIu64 " under %s: there is nothing to compare with",
                    name_of(m, s), why, m->space ? m->space->key : "capacity", s->asked.key,
                    PLAN_WORDS(&s->plan));
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
    char line[SAID_LINE_BYTES], why[200] = "";
    int64_t ns;

    TRY(choose_plan(m, s));
    snprintf(line, sizeof(line), "plan %s", PLAN_WORDS(&s->plan));
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
    const struct declaration *d = m->space;
    char plan[DECLARATION_PLAN_BYTES], *command = NULL;
    struct child_job job = { .command = s->command,
                             .layer = m->shape.experts ? SHAPE_TEXT(&m->shape) : "",
                             .window = m->window };
    int rc;

    if (d) {
        TRY(launch_command(s->command, d, d->usual, &command));
        job.command = command;
        job.space = d->text;
        job.plan = launch_words(d, d->usual, plan);
    }
    rc = child_start(&job, &s->child);
    free(command);
    return rc;
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

/* Of a table of the space the one layer. */
struct found {
    const struct declaration *space;
    struct side *side;
    struct moe_shape shape;
    size_t layers;
};

static int find_layer(void *self, const struct entry_row *e)
{
    struct found *f = self;
    struct moe_shape shape;

    if (f->layers && f->side->cluster == e->cluster && f->side->layer == e->shape)
        return OK;
    TRY(store_shape_get(f->side->store, e->shape, &shape));
    if (shape.space != f->space->id)
        return OK;
    f->side->cluster = e->cluster;
    f->side->layer = e->shape;
    f->shape = shape;
    f->layers++;
    return OK;
}

/* Ranges with classes are the store's; it is read there. */
static int bind_store(struct meeting *m, const char *given, struct side *s)
{
    struct found f = { .space = m->space, .side = s };
    char path[PATH_MAX];

    TRY(store_path(given, false, path, sizeof(path)));
    TRY(store_read(path, &s->store));
    TRY(store_entries(s->store, 0, 0, find_layer, &f));
    if (f.layers != 1)
        return fail(ERR_ARGUMENT, "%s: a table of one layer of %s is wanted, it has %zu", path,
                    m->space->name, f.layers);
    if (m->shape.experts && !shape_equal(&m->shape, &f.shape))
        return fail(ERR_ARGUMENT, "%s: a table of another layer: %s", path, SHAPE_TEXT(&f.shape));
    m->shape = f.shape;
    m->window = 1;
    return OK;
}

static int open_table(struct meeting *m, const char *path, struct side *s)
{
    if (!m->space)
        return bind_table(m, path, s);
    /* One launch has one way to be started, and keys want different ones. */
    if (launch_matters(m->space))
        return fail(ERR_ARGUMENT,
                    "--space %s: plans of %s differ in what needs another start, so a table of it "
                    "cannot be verified step by step; without --db, --against compares two builds",
                    m->options->space, m->space->name);
    return bind_store(m, path, s);
}

static int open_tables(struct meeting *m)
{
    const struct two_programs *o = m->options;

    m->window = 1;
    if (o->db || !o->against)
        TRY(open_table(m, o->db, &m->sides[0]));
    if (o->against_table)
        return open_table(m, o->against_table, &m->sides[1]);
    return o->against && o->db ? open_table(m, o->db, &m->sides[1]) : OK;
}

static void close_tables(struct meeting *m)
{
    for (int i = 0; i < SIDES; i++) {
        moelookup_view_free(m->sides[i].view);
        moelookup_close(m->sides[i].table);
        store_close(m->sides[i].store);
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

    if (m->space)
        declaration_range(m->space, key->bucket, v.key, sizeof(v.key));
    else if (m->window == 1)
        snprintf(v.key, sizeof(v.key), "c=%u", key->bucket);
    else
        snprintf(v.key, sizeof(v.key), "c=%" PRIu64 "-%" PRIu64, (uint64_t)key->bucket * m->window,
                 (uint64_t)(key->bucket + 1) * m->window - 1);
    snprintf(v.plan, sizeof(v.plan), "%s", PLAN_WORDS(&key->plan));
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
    progress_open(&m->progress, options->quiet, "the programs start");
    m->progress.deadline_ns = m->deadline_ns;
    session_catch_signals();
    rc = options->space ? space_file_read(options->space, &m->space) : OK;
    if (!rc)
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
