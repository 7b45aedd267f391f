/* Interprets the lines of a NAME.study file: reads the paper's tables, and computes each cell from
 * steps on the modelled cluster.  README.md explains the language. */
#include "baseline.h"
#include "formulas.h"
#include "modelled_step.h"
#include "shape.h"
#include "status.h"
#include "study.h"
#include "text.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { BOUND_MAX = 64, NAME_BYTES = 64 };

/* A name that lines define, and its meaning: an expression, which is evaluated wherever the name is
 * used, or a number.  All text lies in the study's lines and is not terminated. */
struct binding {
    const char *name;
    const char *expression; /* NULL: `value` holds */
    const char *word;       /* that stood for the number, as "linear"; NULL: none did */
    int name_bytes, word_bytes;
    double value;
};

/* One step that was computed, with what was asked for: cells need the same steps again and again.
 */
struct cached_step {
    struct modelled_ask ask;
    double seconds[2]; /* of two unequal devices, as formula_unequal() takes them; 0: equal ranks */
    struct modelled_step step;
};

/* One evaluation of a study's lines.  paper_fill() opens it, and frees `uses`, `cached` and
 * `formulas`. */
struct paper {
    const struct study *study;
    struct formulas formulas;
    struct study_table *table;       /* that the lines fill now; the caller's */
    struct binding bound[BOUND_MAX]; /* names in force; the last one of a name holds */
    int bound_count;
    size_t *uses; /* for each line, how many cells it has filled */
    struct cached_step *cached;
    size_t cached_count, cached_room;
    int rc; /* of the first failure; evaluation goes on with NAN */
};

/* ---- lines */

static int indent_of(const char *line)
{
    return (int)strspn(line, " ");
}

/* Returns the text after the word that begins this line; NULL: the line begins otherwise. */
static const char *text_after(const char *line, const char *word)
{
    size_t bytes = strlen(word);

    return strncmp(line, word, bytes) ? NULL : line + bytes;
}

/* Returns the first line from the i-th on that begins a table, or the end of the lines. */
static size_t table_end(const char *const *lines, size_t i)
{
    while (lines[i] && !text_after(lines[i], "table "))
        i++;
    return i;
}

/* Adds a note to the table's assumptions.  "@NAME" stands for the lines "text NAME ...". */
static void add_note(const char *const *lines, const char *note, struct study_row *row)
{
    size_t bytes = strlen(row->assumptions);
    char begin[NAME_BYTES];

    if (*note != '@') {
        const char *space = " "; /* between words; two after a sentence */

        if (!bytes)
            space = "";
        else if (row->assumptions[bytes - 1] == '.')
            space = "  ";
        text_add(row->assumptions, sizeof(row->assumptions), "%s%s", space, note);
        return;
    }
    snprintf(begin, sizeof(begin), "text %s ", note + 1);
    for (; *lines; lines++)
        if (text_after(*lines, begin))
            add_note(lines, text_after(*lines, begin), row);
}

int paper_tables(const struct study *study, struct study_row **out)
{
    struct study_row *rows = NULL, *row = NULL;
    size_t count = 0;

    for (const char *const *line = study->lines; *line; line++)
        count += text_after(*line, "table ") != NULL;
    rows = calloc(count + 1, sizeof(*rows));
    if (!rows)
        return fail(ERR_NOMEM, "tables of %s", study->name);
    for (const char *const *line = study->lines; *line; line++) {
        const char *text;

        if ((text = text_after(*line, "table "))) {
            row = row ? row + 1 : rows;
            snprintf(row->name, sizeof(row->name), "%s", text);
        } else if ((text = text_after(*line, "title "))) {
            snprintf(row->title, sizeof(row->title), "%s", text);
        } else if ((text = text_after(*line, "unit "))) {
            snprintf(row->unit, sizeof(row->unit), "%s", text);
        } else if ((text = text_after(*line, "plot "))) {
            if (!text_put(row->plot, sizeof(row->plot), "%s", text)) {
                free(rows);
                return fail(ERR_ARGUMENT, "%s.study: the plot line of %s is too long", study->name,
                            row->name);
            }
        } else if ((text = text_after(*line, "not yet "))) {
            snprintf(row->not_yet, sizeof(row->not_yet), "%s", text);
        } else if ((text = text_after(*line, "note "))) {
            add_note(study->lines, text, row);
        }
    }
    *out = rows;
    return OK;
}

/* ---- names */

/* Reports the first failure only, with the text where it lies.  Returns NAN. */
static double fail_at(struct paper *p, const char *what, const char *at)
{
    if (!p->rc)
        p->rc = fail(ERR_ARGUMENT, "%s.study: %s at \"%.40s\"", p->study->name, what, at);
    return NAN;
}

static bool is_name(const char *name, int bytes, const char *word)
{
    return (size_t)bytes == strlen(word) && !memcmp(name, word, (size_t)bytes);
}

/* Returns how long the name is that begins here; 0: no name does. */
static int name_bytes(const char *text)
{
    int n = 0;

    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return n;
}

static struct binding *find_bound(struct paper *p, const char *name, int bytes)
{
    for (int i = p->bound_count - 1; i >= 0; i--)
        if (p->bound[i].name_bytes == bytes && !memcmp(p->bound[i].name, name, (size_t)bytes))
            return &p->bound[i];
    return NULL;
}

/* Puts a name in force.  The caller sets its meaning, and ends it by restoring p->bound_count. */
static struct binding *bind(struct paper *p, const char *name)
{
    if (p->bound_count == BOUND_MAX) {
        fail_at(p, "too many names are in force", name);
        p->bound_count--;
    }
    p->bound[p->bound_count] = (struct binding){ .name = name, .name_bytes = name_bytes(name) };
    return &p->bound[p->bound_count++];
}

/* ---- steps */

static double value_of(struct paper *p, const char *expression);

static double setting_value(struct paper *p, const char *name, double default_value)
{
    const struct binding *b = find_bound(p, name, (int)strlen(name));

    if (!b)
        return default_value;
    return b->expression ? value_of(p, b->expression) : b->value;
}

#define SHAPE(member) offsetof(struct modelled_ask, shape.member)
#define PLAN(member) offsetof(struct modelled_ask, plan.member)

/* Names that set a member of the step's shape or plan, with the letters of their texts ("E=8"). */
static const struct {
    const char *name;
    size_t offset; /* of a uint32_t */
    double default_value;
} settings[] = {
    { "E", SHAPE(experts), 1 },
    { "k", SHAPE(top_k), 2 },
    { "D", SHAPE(model_dim), 1 },
    { "H", SHAPE(hidden_dim), 1 },
    { "W", SHAPE(ranks), 1 },
    { "T", SHAPE(tokens), 1 },
    { "dtype", SHAPE(dtype), MOE_F32 },
    { "pass", SHAPE(pass), MOE_TRAIN },
    { "activation", SHAPE(activation), MOE_RELU },
    { "layout", SHAPE(layout), MOE_LAYOUT_EXPERTS },
    { "shares", SHAPE(shares), MOE_SHARES_EQUAL },
    { "layers", SHAPE(layers), 0 },
    { "router", SHAPE(router), MOE_ROUTER_SOFTMAX },
    { "groups", SHAPE(groups), 0 },
    { "group_limit", SHAPE(group_limit), 0 },
    { "r", PLAN(r), 1 },
    { "d", PLAN(d), 1 },
    { "a", PLAN(a), MOE_A2A_LINEAR },
    { "e", PLAN(e), MOE_PADDED },
    { "w", PLAN(w), MOE_KEEP },
};

/* Describes the step that the names in force ask for, but does not compute it.  Besides `settings`
 * there are f, the capacity factor; dense=1 and rigid=1, the baselines; known=1, which times known
 * routes, too; seconds and other_seconds, the times of two unequal devices. */
static void describe_step(struct paper *p, struct cached_step *out)
{
    struct modelled_ask *ask = &out->ask;

    memset(out, 0, sizeof(*out)); /* find_step() compares bytes */
    ask->shape.struct_size = sizeof(ask->shape);
    ask->plan.struct_size = sizeof(ask->plan);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        *(uint32_t *)((char *)ask + settings[i].offset) =
            (uint32_t)setting_value(p, settings[i].name, settings[i].default_value);
    ask->capacities.most = moe_capacity(setting_value(p, "f", 1), ask->shape.top_k,
                                        ask->shape.experts, ask->shape.tokens, 0);
    ask->baseline = (setting_value(p, "dense", 0) > 0 ? BASELINE_DENSE : 0) |
                    (setting_value(p, "rigid", 0) > 0 ? BASELINE_RIGID : 0);
    ask->known_routes = setting_value(p, "known", 0) > 0;
    out->seconds[0] = setting_value(p, "seconds", 0);
    out->seconds[1] = setting_value(p, "other_seconds", 0);
}

/* Returns the step that the names in force describe; computes it the first time. */
static const struct modelled_step *find_step(struct paper *p)
{
    static const struct modelled_step none;
    struct cached_step wanted;
    struct cluster unequal;
    const struct cluster *machine = p->formulas.machine;

    describe_step(p, &wanted);
    for (size_t i = 0; i < p->cached_count; i++)
        if (!memcmp(&p->cached[i].ask, &wanted.ask, sizeof(wanted.ask)) &&
            p->cached[i].seconds[0] == wanted.seconds[0] &&
            p->cached[i].seconds[1] == wanted.seconds[1])
            return &p->cached[i].step;
    if (!p->rc && wanted.seconds[0] > 0) {
        p->rc = formula_unequal(machine, wanted.seconds, &unequal);
        machine = &unequal;
    }
    if (!p->rc)
        p->rc = modelled_step_of(machine, &wanted.ask, &wanted.step);
    if (!p->rc && p->cached_count == p->cached_room) {
        size_t room = p->cached_room ? 2 * p->cached_room : 64;
        void *cached = realloc(p->cached, room * sizeof(*p->cached));

        if (cached) {
            p->cached = cached;
            p->cached_room = room;
        } else {
            p->rc = fail(ERR_NOMEM, "%zu steps", room);
        }
    }
    if (p->rc)
        return &none;
    p->cached[p->cached_count] = wanted;
    return &p->cached[p->cached_count++].step;
}

#define STEP(member) offsetof(struct modelled_step, member)

/* Names of what the described step takes. */
static const struct {
    const char *name;
    size_t offset; /* of a double */
} quantities[] = {
    { "ns", STEP(ns) },
    { "compute_ns", STEP(compute_ns) },
    { "comm_ns", STEP(comm_ns) },
    { "known_ns", STEP(known_ns) },
    { "gate_ns", STEP(gate_ns) },
    { "sent_bytes", STEP(sent_bytes) },
    { "messages", STEP(messages) },
    { "phases_ns", STEP(phase_ns[PHASE_TOTAL]) },
    { "between_phase_ns", STEP(phase_ns[PHASE_BETWEEN]) },
    { "inside_phase_ns", STEP(phase_ns[PHASE_INSIDE]) },
    { "gate_phase_ns", STEP(phase_ns[PHASE_GATE]) },
    { "encode_phase_ns", STEP(phase_ns[PHASE_ENCODE]) },
    { "experts_phase_ns", STEP(phase_ns[PHASE_EXPERTS]) },
};

/* Words that stand for a number: values of axes and of shapes, and rules for capacities. */
static const struct {
    const char *name;
    double value;
} words[] = {
    { "linear", MOE_A2A_LINEAR },
    { "2dh", MOE_A2A_2DH },
    { "rail", MOE_A2A_RAIL },
    { "padded", MOE_PADDED },
    { "sparse", MOE_SPARSE },
    { "keep", MOE_KEEP },
    { "cache", MOE_CACHE },
    { "f16", MOE_F16 },
    { "f32", MOE_F32 },
    { "forward", MOE_FORWARD },
    { "train", MOE_TRAIN },
    { "relu", MOE_RELU },
    { "gelu", MOE_GELU },
    { "experts", MOE_LAYOUT_EXPERTS },
    { "hidden", MOE_LAYOUT_HIDDEN },
    { "equal", MOE_SHARES_EQUAL },
    { "tokens_by_speed", MOE_SHARES_TOKENS },
    { "hidden_by_speed", MOE_SHARES_HIDDEN },
    { "softmax", MOE_ROUTER_SOFTMAX },
    { "bilevel", MOE_ROUTER_BILEVEL },
    { "followed", COUNTS_FOLLOWED },
    { "static", COUNTS_STATIC },
    { "ema", COUNTS_EMA },
    { "held", FORMULA_HELD },
};

/* Returns the value of a name: bound by a line, a quantity of the step, or a word. */
static double named_value(struct paper *p, const char *name, int bytes)
{
    const struct binding *b = find_bound(p, name, bytes);
    struct cached_step wanted;
    double value = NAN;

    if (b)
        return b->expression ? value_of(p, b->expression) : b->value;
    for (size_t i = 0; i < sizeof(quantities) / sizeof(quantities[0]); i++)
        if (is_name(name, bytes, quantities[i].name))
            return *(const double *)((const char *)find_step(p) + quantities[i].offset);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_name(name, bytes, words[i].name))
            return words[i].value;
    if (is_name(name, bytes, "ranks_per_node"))
        return p->formulas.machine->ranks_per_node;
    describe_step(p, &wanted);
    if (is_name(name, bytes, "router_rows"))
        return shape_gate_columns(&wanted.ask.shape);
    if (!is_name(name, bytes, "bytes"))
        return fail_at(p, "an unknown name", name);
    if (!p->rc)
        p->rc = modelled_bytes(p->formulas.machine, &wanted.ask, &value);
    return value;
}

/* ---- expressions */

static double sum_at(struct paper *p, const char **at);

static double value_of(struct paper *p, const char *expression)
{
    return sum_at(p, &expression);
}

/* Moves to the next character that is no space, and returns it. */
static char skip_spaces(const char **at)
{
    *at += strspn(*at, " ");
    return **at;
}

/* Returns the first of these characters that lies outside all brackets, or the text's end. */
static const char *find_outside(const char *at, const char *stops)
{
    for (int depth = 0; *at && (depth || !strchr(stops, *at)); at++)
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    return at;
}

/* Returns the text after the wanted character, which must stand here.  If another one does, fails
 * and returns the text's end. */
static const char *skip_char(struct paper *p, const char *at, char wanted)
{
    if (*at == wanted)
        return at + 1;
    fail_at(p, (char[]){ 'n', 'o', ' ', wanted, '\0' }, at);
    return at + strlen(at);
}

/* Calls visit for each combination of values in "a = linear 2dh; d = 1 2 4".  "1..8" stands for the
 * numbers 1 to 8.  "Base:512" is 512 and "[100 W]:0" is 0, and titles show the word. */
static void for_each(struct paper *p, const char *ranges,
                     void (*visit)(struct paper *p, const void *arg, double *out), const void *arg,
                     double *out)
{
    int bound_before = p->bound_count;
    struct binding *b;
    const char *end = find_outside(ranges, ";)");
    const char *at = skip_char(p, find_outside(ranges, "="), '=');

    skip_spaces(&ranges);
    b = bind(p, ranges);
    while (skip_spaces(&at) && at < end && !p->rc) {
        bool quoted = *at == '[';
        const char *word_end = at + quoted + strcspn(at + quoted, quoted ? "]" : ": ;)");
        const char *value = quoted ? skip_char(p, word_end, ']') : word_end,
                   *dots = strstr(at, "..");
        double last;

        b->word = at + quoted;
        b->word_bytes = (int)(word_end - b->word);
        b->value = value_of(p, *value == ':' ? value + 1 : at);
        at += strcspn(value, " ;)") + (size_t)(value - at);
        last = b->value;
        if (dots && dots < at) {
            b->word = NULL;
            last = value_of(p, dots + 2);
        }
        for (; b->value <= last && !p->rc; b->value++)
            if (*end == ';')
                for_each(p, end + 1, visit, arg, out);
            else
                visit(p, arg, out);
    }
    p->bound_count = bound_before;
}

static void add_up(struct paper *p, const void *expression, double *out)
{
    *out += value_of(p, expression);
}

/* Lowers *out to the least of the expressions.  fmin() passes over NAN, the time of a plan that
 * does not fit into the memory. */
static void find_least(struct paper *p, const void *expression, double *out)
{
    const char *at = expression;

    do
        *out = fmin(*out, sum_at(p, &at));
    while (skip_spaces(&at) == ',' && at++);
}

static void find_most(struct paper *p, const void *expression, double *out)
{
    const char *at = expression;

    do
        *out = fmax(*out, sum_at(p, &at));
    while (skip_spaces(&at) == ',' && at++);
}

/* Functions over several values, "min(ns; d = 1 2 4)". */
static const struct {
    const char *name;
    void (*visit)(struct paper *p, const void *expression, double *out);
    double first; /* the result so far before the first value */
} folds[] = { { "sum", add_up, 0 }, { "min", find_least, NAN }, { "max", find_most, NAN } };

/* Evaluates a call, "min(ns; d = 1 2)"; `at` is behind its opening bracket. */
static double call_value(struct paper *p, const char *name, int bytes, const char *at)
{
    struct formula_call formula_call = { .formulas = &p->formulas };
    double value = NAN;

    if (is_name(name, bytes, "pick")) { /* pick(i, first, second ...) */
        for (int i = (int)sum_at(p, &at); i >= 0 && *at == ','; i--)
            at = i ? find_outside(at + 1, ",)") : at + 1;
        return value_of(p, at);
    }
    if (is_name(name, bytes, "if")) { /* if(above 0, then, else) */
        bool is_above = sum_at(p, &at) > 0;

        at = skip_char(p, at, ',');
        return value_of(p, is_above ? at : skip_char(p, find_outside(at, ",)"), ','));
    }
    for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
        if (is_name(name, bytes, folds[i].name)) {
            const char *ranges = find_outside(at, ";)");

            value = folds[i].first;
            if (*ranges == ';')
                for_each(p, ranges + 1, folds[i].visit, at, &value);
            else
                folds[i].visit(p, at, &value);
            return value;
        }
    for (const struct formula *f = formula_list; f->name; f++)
        if (is_name(name, bytes, f->name)) {
            for (int i = 0; i < f->arguments && !p->rc; i++) {
                at = i ? skip_char(p, at, ',') : at;
                formula_call.arguments[i] = sum_at(p, &at);
                skip_spaces(&at);
            }
            formula_call.output = f->output;
            if (!p->rc)
                p->rc = f->compute(&formula_call, &value);
            return value;
        }
    return fail_at(p, "an unknown formula", name);
}

/* Evaluates a number, a name, a call, or a sum in brackets.  "ns[r=4, d=1]" is ns with r=4 and d=1
 * in force. */
static double operand_at(struct paper *p, const char **at)
{
    const char *name = *at;
    char *end;
    int bound_before = p->bound_count, bytes;
    double value;

    if (skip_spaces(&name) == '(') {
        *at = name + 1;
        value = sum_at(p, at);
        *at = skip_char(p, find_outside(*at, ")"), ')');
        return value;
    }
    value = strtod(name, &end);
    if (end > name && !name_bytes(end)) {
        *at = end;
        return value;
    }
    bytes = name_bytes(name);
    if (!bytes) {
        *at = name + strlen(name);
        return fail_at(p, "no expression", name);
    }
    *at = name + bytes;
    if (**at == '(') {
        value = call_value(p, name, bytes, *at + 1);
        *at = skip_char(p, find_outside(*at + 1, ")"), ')');
        return value;
    }
    if (**at == '[') {
        const char *inner = *at;
        double values[8];
        const char *names[8];
        int count = 0;

        do {
            inner++;
            skip_spaces(&inner);
            names[count] = inner;
            inner = skip_char(p, find_outside(inner, "="), '=');
            values[count++] = sum_at(p, &inner);
        } while (skip_spaces(&inner) == ',' && count < 8);
        for (int i = 0; i < count; i++)
            bind(p, names[i])->value = values[i];
        *at = skip_char(p, find_outside(*at + 1, "]"), ']');
    }
    value = named_value(p, name, bytes);
    p->bound_count = bound_before;
    return value;
}

/* Evaluates "a * b / c"; moves `at` behind it. */
static double product_at(struct paper *p, const char **at)
{
    double value = operand_at(p, at);

    while (skip_spaces(at) == '*' || **at == '/') {
        bool times = *(*at)++ == '*';
        double other = operand_at(p, at);

        value = times ? value * other : value / other;
    }
    return value;
}

/* Evaluates "a + b - c"; moves `at` behind it. */
static double sum_at(struct paper *p, const char **at)
{
    double value = product_at(p, at);

    while (skip_spaces(at) == '+' || **at == '-') {
        bool plus = *(*at)++ == '+';
        double other = product_at(p, at);

        value = plus ? value + other : value - other;
    }
    return value;
}

/* ---- cells */

/* Writes the text from `text` to `end` without outer spaces, and with "{W}" replaced by the word or
 * the value of W. */
static void expand_names(struct paper *p, const char *text, const char *end, char *out, size_t room)
{
    text += strspn(text, " ");
    while (end > text && end[-1] == ' ')
        end--;
    for (*out = '\0'; text < end; text++) {
        const struct binding *b = find_bound(p, text + 1, name_bytes(text + 1));

        if (*text != '{') {
            text_add(out, room, "%c", *text);
            continue;
        }
        if (!b)
            fail_at(p, "an unknown name", text);
        else if (b->word)
            text_add(out, room, "%.*s", b->word_bytes, b->word);
        else
            text_add(out, room, "%g", b->expression ? value_of(p, b->expression) : b->value);
        text = skip_char(p, find_outside(text, "}"), '}') - 1;
    }
}

/* Returns the published number of the cell that this line fills now; NAN: none was published.
 * `list` is "= EXPRESSION", or one number for each cell that the line fills, "-" for none; such a
 * list goes on in lines that begin with "|".  "12*" or "=*": the cluster was fitted to it. */
static double published_value(struct paper *p, size_t line, const char *list, bool *fitted)
{
    size_t skip = p->uses[line]++;
    double value;
    char *end;

    *fitted = list[0] == '=' && list[1] == '*';
    if (*list == '=')
        return value_of(p, list + 1 + *fitted);
    while (true) {
        list += strspn(list, " ");
        if (!*list) {
            list = p->study->lines[++line];
            if (!list || list[indent_of(list)] != '|')
                return NAN;
            list += indent_of(list) + 1;
        } else if (skip--) {
            list += strcspn(list, " ");
        } else {
            value = strtod(list, &end);
            *fitted = *end == '*';
            return end > list ? value : NAN;
        }
    }
}

/* Fills the cell of a line ROW | COLUMN | EXPRESSION | PUBLISHED. */
static void fill_cell(struct paper *p, size_t line)
{
    const char *row = p->study->lines[line], *column = skip_char(p, find_outside(row, "|"), '|');
    const char *expression = skip_char(p, find_outside(column, "|"), '|');
    const char *list = strchr(expression, '|');
    struct study_cell cell;
    bool fitted;

    if (p->rc)
        return;
    expand_names(p, row, column - 1, cell.row, sizeof(cell.row));
    expand_names(p, column, expression - 1, cell.column, sizeof(cell.column));
    cell.value = value_of(p, expression);
    list = list ? list + 1 : "";
    list += strspn(list, " ");
    cell.published = published_value(p, line, list, &fitted);
    cell.mark = fitted ? STUDY_FITTED : STUDY_PREDICTED;
    if (isnan(cell.published))
        cell.mark = STUDY_UNPUBLISHED;
    if (!p->rc)
        p->rc = study_put(p->table, &cell);
}

/* Binds the names of "E = 2 * W; D = 4096" to their expressions. */
static void define(struct paper *p, const char *line)
{
    while (skip_spaces(&line)) {
        bind(p, line)->expression = skip_char(p, find_outside(line, "="), '=');
        line = find_outside(line, ";");
        line += *line == ';';
    }
}

/* Lines of a study from `first` up to, not including, `end`. */
struct paper_block {
    size_t first, end;
};

/* Runs the lines of a block: loops, definitions and cells.  for_each() calls it for the body of a
 * loop, hence the arguments. */
static void run_block(struct paper *p, const void *block_arg, double *unused)
{
    /* paper_tables() and published_value() have read these. */
    static const char *const other_lines[] = {
        "title ", "unit ", "plot ", "note ", "not yet ", "|"
    };
    const struct paper_block *block = block_arg;
    int bound_before = p->bound_count;

    for (size_t i = block->first; i < block->end && !p->rc; i++) {
        const char *line = p->study->lines[i] + indent_of(p->study->lines[i]);
        size_t k = 0;

        while (k < sizeof(other_lines) / sizeof(other_lines[0]) &&
               !text_after(line, other_lines[k]))
            k++;
        if (k < sizeof(other_lines) / sizeof(other_lines[0]))
            continue;
        if (text_after(line, "for ")) {
            struct paper_block body = { i + 1, i + 1 };

            while (body.end < block->end &&
                   indent_of(p->study->lines[body.end]) > indent_of(p->study->lines[i]))
                body.end++;
            for_each(p, text_after(line, "for "), run_block, &body, unused);
            i = body.end - 1;
        } else if (strchr(line, '|')) {
            fill_cell(p, i);
        } else if (strchr(line, '=')) {
            define(p, line);
        } else {
            fail_at(p, "an unknown line", line);
        }
    }
    p->bound_count = bound_before;
}

int paper_fill(const struct study *study, const struct cluster *machine, const char *only,
               struct study_table *tables)
{
    struct paper p = { .study = study, .formulas = { .machine = machine } };
    size_t first_table = table_end(study->lines, 0), end = first_table;
    double unused = 0;

    while (study->lines[end])
        end++;
    p.uses = calloc(end + 1, sizeof(*p.uses));
    if (!p.uses)
        return fail(ERR_NOMEM, "%zu lines", end);
    for (size_t i = 0; i < first_table; i++)
        if (strchr(study->lines[i], '=') && !text_after(study->lines[i], "text "))
            define(&p, study->lines[i]);
    for (size_t i = first_table; study->lines[i] && !p.rc; i = end, tables++) {
        end = table_end(study->lines, i + 1);
        p.table = tables;
        if (!only || !strcmp(text_after(study->lines[i], "table "), only))
            run_block(&p, &(struct paper_block){ i + 1, end }, &unused);
        p.cached_count = 0;
    }
    free(p.uses);
    free(p.cached);
    formulas_close(&p.formulas);
    return p.rc;
}
