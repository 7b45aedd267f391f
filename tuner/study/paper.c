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

enum { NAMES_MAX = 64, NAME_BYTES = 64 };

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
    struct binding names[NAMES_MAX]; /* in force; the last one of equal names holds */
    int name_count;
    struct binding dropped_name; /* takes the meaning of a name for which there was no room */
    size_t *uses;                /* for each line, how many cells it has filled */
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
static void add_note(const char *const *lines, const char *note, struct study_row *table)
{
    size_t bytes = strlen(table->assumptions);
    char begin[NAME_BYTES];

    if (*note != '@') {
        const char *space = " "; /* between words; two after a sentence */

        if (!bytes)
            space = "";
        else if (table->assumptions[bytes - 1] == '.')
            space = "  ";
        text_add(table->assumptions, sizeof(table->assumptions), "%s%s", space, note);
        return;
    }
    snprintf(begin, sizeof(begin), "text %s ", note + 1);
    for (; *lines; lines++)
        if (text_after(*lines, begin))
            add_note(lines, text_after(*lines, begin), table);
}

int paper_tables(const struct study *study, struct study_row **out)
{
    struct study_row *tables = NULL, *table = NULL;
    size_t count = 0;

    for (const char *const *line = study->lines; *line; line++)
        count += text_after(*line, "table ") != NULL;
    tables = calloc(count + 1, sizeof(*tables));
    if (!tables)
        return fail(ERR_NOMEM, "tables of %s", study->name);
    for (const char *const *line = study->lines; *line; line++) {
        const char *text;

        if ((text = text_after(*line, "table "))) {
            table = table ? table + 1 : tables;
            snprintf(table->name, sizeof(table->name), "%s", text);
        } else if ((text = text_after(*line, "title "))) {
            snprintf(table->title, sizeof(table->title), "%s", text);
        } else if ((text = text_after(*line, "unit "))) {
            snprintf(table->unit, sizeof(table->unit), "%s", text);
        } else if ((text = text_after(*line, "plot "))) {
            if (!text_put(table->plot, sizeof(table->plot), "%s", text)) {
                free(tables);
                return fail(ERR_ARGUMENT, "%s.study: the plot line of %s is too long", study->name,
                            table->name);
            }
        } else if ((text = text_after(*line, "not yet "))) {
            snprintf(table->not_yet, sizeof(table->not_yet), "%s", text);
        } else if ((text = text_after(*line, "note "))) {
            add_note(study->lines, text, table);
        }
    }
    *out = tables;
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

static struct binding *find_name(struct paper *p, const char *name, int bytes)
{
    for (int i = p->name_count - 1; i >= 0; i--)
        if (p->names[i].name_bytes == bytes && !memcmp(p->names[i].name, name, (size_t)bytes))
            return &p->names[i];
    return NULL;
}

/* Puts a name in force.  The caller sets its meaning, and ends it by restoring p->name_count. */
static struct binding *name_begin(struct paper *p, const char *name)
{
    struct binding *b = &p->dropped_name;

    if (p->name_count < NAMES_MAX)
        b = &p->names[p->name_count++];
    else
        fail_at(p, "too many names are in force", name);
    *b = (struct binding){ .name = name, .name_bytes = name_bytes(name) };
    return b;
}

/* ---- steps */

static double value_of(struct paper *p, const char *expression);

static double setting_value(struct paper *p, const char *name, double default_value)
{
    const struct binding *b = find_name(p, name, (int)strlen(name));

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
static void describe_step(struct paper *p, struct cached_step *step)
{
    struct modelled_ask *ask = &step->ask;

    memset(step, 0, sizeof(*step)); /* find_step() compares bytes */
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
    step->seconds[0] = setting_value(p, "seconds", 0);
    step->seconds[1] = setting_value(p, "other_seconds", 0);
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
        size_t larger = p->cached_room ? 2 * p->cached_room : 64;
        void *cached = realloc(p->cached, larger * sizeof(*p->cached));

        if (cached) {
            p->cached = cached;
            p->cached_room = larger;
        } else {
            p->rc = fail(ERR_NOMEM, "%zu steps", larger);
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
    const struct binding *b = find_name(p, name, bytes);
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

static double read_sum(struct paper *p, const char **text);

static double value_of(struct paper *p, const char *expression)
{
    return read_sum(p, &expression);
}

/* Moves to the next character that is no space, and returns it. */
static char skip_spaces(const char **text)
{
    *text += strspn(*text, " ");
    return **text;
}

/* Returns the first of these characters that lies outside all brackets, or the text's end. */
static const char *find_outside(const char *text, const char *stops)
{
    for (int depth = 0; *text && (depth || !strchr(stops, *text)); text++)
        depth += (*text == '(' || *text == '[') - (*text == ')' || *text == ']');
    return text;
}

/* Returns the text after the wanted character, which must stand here.  If another one does, fails
 * and returns the text's end. */
static const char *skip_char(struct paper *p, const char *text, char wanted)
{
    if (*text == wanted)
        return text + 1;
    fail_at(p, (char[]){ 'n', 'o', ' ', wanted, '\0' }, text);
    return text + strlen(text);
}

/* The value at a place of a range: "4", "linear", "Base:512", "[100 W]:0" or "1..8". */
struct range_value {
    const char *word; /* what titles show; NULL: the numbers themselves */
    int word_bytes;
    double first, last; /* equal, except for "1..8" */
};

/* Reads the value that begins here, and returns the text after it. */
static const char *parse_value(struct paper *p, const char *text, struct range_value *out)
{
    bool quoted = *text == '[';
    const char *word = quoted ? text + 1 : text;
    const char *word_end = word + strcspn(word, quoted ? "]" : ": ;)");
    const char *value = quoted ? skip_char(p, word_end, ']') : word_end;
    const char *value_end = value + strcspn(value, " ;)");
    const char *dots = strstr(text, "..");

    out->word = word;
    out->word_bytes = (int)(word_end - word);
    out->first = value_of(p, *value == ':' ? value + 1 : text);
    out->last = out->first;
    if (dots && dots < value_end) {
        out->word = NULL;
        out->last = value_of(p, dots + 2);
    }
    return value_end;
}

/* A function that for_each() calls, and its two arguments. */
struct visitor {
    void (*visit)(struct paper *p, const void *arg, double *result);
    const void *arg;
    double *result; /* NULL: the function has none */
};

/* Calls the visitor for each combination of values in "a = linear 2dh; d = 1 2 4".  "1..8" stands
 * for the numbers 1 to 8.  "Base:512" is 512 and "[100 W]:0" is 0, and titles show the word. */
static void for_each(struct paper *p, const char *ranges, const struct visitor *visitor)
{
    int names_before = p->name_count;
    const char *range_end = find_outside(ranges, ";)");
    const char *text = skip_char(p, find_outside(ranges, "="), '=');
    struct binding *b;

    skip_spaces(&ranges);
    b = name_begin(p, ranges);
    while (skip_spaces(&text) && text < range_end && !p->rc) {
        struct range_value value;

        text = parse_value(p, text, &value);
        b->word = value.word;
        b->word_bytes = value.word_bytes;
        for (b->value = value.first; b->value <= value.last && !p->rc; b->value++)
            if (*range_end == ';')
                for_each(p, range_end + 1, visitor);
            else
                visitor->visit(p, visitor->arg, visitor->result);
    }
    p->name_count = names_before;
}

static void add_to_sum(struct paper *p, const void *expression, double *result)
{
    *result += value_of(p, expression);
}

/* Lowers *result to the least of the expressions.  fmin() passes over NAN, the time of a plan that
 * does not fit into the memory. */
static void lower_to_least(struct paper *p, const void *expression, double *result)
{
    const char *text = expression;

    *result = fmin(*result, read_sum(p, &text));
    while (skip_spaces(&text) == ',') {
        text++;
        *result = fmin(*result, read_sum(p, &text));
    }
}

static void raise_to_most(struct paper *p, const void *expression, double *result)
{
    const char *text = expression;

    *result = fmax(*result, read_sum(p, &text));
    while (skip_spaces(&text) == ',') {
        text++;
        *result = fmax(*result, read_sum(p, &text));
    }
}

/* Functions over several values, "min(ns; d = 1 2 4)". */
static const struct {
    const char *name;
    void (*visit)(struct paper *p, const void *expression, double *result);
    double first; /* the result so far before the first value */
} folds[] = { { "sum", add_to_sum, 0 },
              { "min", lower_to_least, NAN },
              { "max", raise_to_most, NAN } };

/* Evaluates "pick(i, first, second ...)"; `text` is behind the opening bracket. */
static double pick_value(struct paper *p, const char *text)
{
    int index = (int)read_sum(p, &text);

    for (; index >= 0 && *text == ','; index--) {
        text++;
        if (index > 0) /* skips a value */
            text = find_outside(text, ",)");
    }
    return value_of(p, text);
}

/* Evaluates "if(condition, then, else)", where a condition above 0 holds. */
static double if_value(struct paper *p, const char *text)
{
    bool holds = read_sum(p, &text) > 0;

    text = skip_char(p, text, ',');
    return value_of(p, holds ? text : skip_char(p, find_outside(text, ",)"), ','));
}

/* Evaluates "NAME(first, second ...)" for a formula of formulas.c. */
static double formula_value(struct paper *p, const struct formula *formula, const char *text)
{
    struct formula_call formula_call = { .formulas = &p->formulas, .output = formula->output };
    double value = NAN;

    for (int i = 0; i < formula->arguments && !p->rc; i++) {
        if (i)
            text = skip_char(p, text, ',');
        formula_call.arguments[i] = read_sum(p, &text);
        skip_spaces(&text);
    }
    if (!p->rc)
        p->rc = formula->compute(&formula_call, &value);
    return value;
}

/* Evaluates a call, "min(ns; d = 1 2)"; `text` is behind its opening bracket. */
static double call_value(struct paper *p, const char *name, int bytes, const char *text)
{
    if (is_name(name, bytes, "pick"))
        return pick_value(p, text);
    if (is_name(name, bytes, "if"))
        return if_value(p, text);
    for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
        if (is_name(name, bytes, folds[i].name)) {
            const char *ranges = find_outside(text, ";)");
            double value = folds[i].first;
            struct visitor fold = { folds[i].visit, text, &value };

            if (*ranges == ';')
                for_each(p, ranges + 1, &fold);
            else
                fold.visit(p, fold.arg, fold.result);
            return value;
        }
    for (const struct formula *formula = formula_list; formula->name; formula++)
        if (is_name(name, bytes, formula->name))
            return formula_value(p, formula, text);
    return fail_at(p, "an unknown formula", name);
}

/* Puts the names of "[r=4, d=1]" in force.  Their values are computed first, without these names.
 */
static void begin_names_in_brackets(struct paper *p, const char *text)
{
    enum { BRACKET_NAMES_MAX = 8 };
    double values[BRACKET_NAMES_MAX];
    const char *names[BRACKET_NAMES_MAX];
    int count = 0;

    do {
        text++;
        skip_spaces(&text);
        names[count] = text;
        text = skip_char(p, find_outside(text, "="), '=');
        values[count++] = read_sum(p, &text);
    } while (skip_spaces(&text) == ',' && count < BRACKET_NAMES_MAX);
    for (int i = 0; i < count; i++)
        name_begin(p, names[i])->value = values[i];
}

/* Evaluates a number, a name, a call, or a sum in brackets.  "ns[r=4, d=1]" is ns with r=4 and d=1
 * in force. */
static double read_operand(struct paper *p, const char **text)
{
    const char *name = *text;
    char *end;
    int names_before = p->name_count, bytes;
    double value;

    if (skip_spaces(&name) == '(') {
        *text = name + 1;
        value = read_sum(p, text);
        *text = skip_char(p, find_outside(*text, ")"), ')');
        return value;
    }
    value = strtod(name, &end);
    if (end > name && !name_bytes(end)) {
        *text = end;
        return value;
    }
    bytes = name_bytes(name);
    if (!bytes) {
        *text = name + strlen(name);
        return fail_at(p, "no expression", name);
    }
    *text = name + bytes;
    if (**text == '(') {
        value = call_value(p, name, bytes, *text + 1);
        *text = skip_char(p, find_outside(*text + 1, ")"), ')');
        return value;
    }
    if (**text == '[') {
        begin_names_in_brackets(p, *text);
        *text = skip_char(p, find_outside(*text + 1, "]"), ']');
    }
    value = named_value(p, name, bytes);
    p->name_count = names_before;
    return value;
}

/* Evaluates "a * b / c"; moves *text behind it. */
static double read_product(struct paper *p, const char **text)
{
    double value = read_operand(p, text);

    while (skip_spaces(text) == '*' || **text == '/') {
        bool times = *(*text)++ == '*';
        double other = read_operand(p, text);

        value = times ? value * other : value / other;
    }
    return value;
}

/* Evaluates "a + b - c"; moves *text behind it. */
static double read_sum(struct paper *p, const char **text)
{
    double value = read_product(p, text);

    while (skip_spaces(text) == '+' || **text == '-') {
        bool plus = *(*text)++ == '+';
        double other = read_product(p, text);

        value = plus ? value + other : value - other;
    }
    return value;
}

/* ---- cells */

/* Writes the text from `text` to `end` without outer spaces, and with "{W}" replaced by the word or
 * the value of W. */
static void expand_names(struct paper *p, const char *text, const char *end, char *out, size_t size)
{
    text += strspn(text, " ");
    while (end > text && end[-1] == ' ')
        end--;
    for (*out = '\0'; text < end; text++) {
        const struct binding *b = find_name(p, text + 1, name_bytes(text + 1));

        if (*text != '{') {
            text_add(out, size, "%c", *text);
            continue;
        }
        if (!b)
            fail_at(p, "an unknown name", text);
        else if (b->word)
            text_add(out, size, "%.*s", b->word_bytes, b->word);
        else
            text_add(out, size, "%g", b->expression ? value_of(p, b->expression) : b->value);
        text = skip_char(p, find_outside(text, "}"), '}') - 1;
    }
}

/* Returns the published number of the cell that this line fills now; NAN: none was published.
 * `list` is "= EXPRESSION", or one number for each cell that the line fills, "-" for none; such a
 * list goes on in lines that begin with "|".  "12*" or "=*": the cluster was fitted to it. */
static double published_value(struct paper *p, size_t line, const char *list, bool *fitted)
{
    size_t numbers_before = p->uses[line]++;
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
        } else if (numbers_before--) {
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
static void define_names(struct paper *p, const char *line)
{
    while (skip_spaces(&line)) {
        name_begin(p, line)->expression = skip_char(p, find_outside(line, "="), '=');
        line = find_outside(line, ";");
        line += *line == ';';
    }
}

/* Lines of a study from `first` up to, not including, `end`. */
struct paper_block {
    size_t first, end;
};

/* Returns whether paper_tables() or published_value() read this line. */
static bool was_read_elsewhere(const char *line)
{
    static const char *const begins[] = { "title ", "unit ", "plot ", "note ", "not yet ", "|" };

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (text_after(line, begins[i]))
            return true;
    return false;
}

/* Runs the lines of a block: loops, definitions and cells.  for_each() calls it for the body of a
 * loop, hence the arguments; it has no result. */
static void run_block(struct paper *p, const void *block_arg, double *no_result)
{
    const struct paper_block *block = block_arg;
    int names_before = p->name_count;

    (void)no_result;
    for (size_t i = block->first; i < block->end && !p->rc; i++) {
        const char *line = p->study->lines[i] + indent_of(p->study->lines[i]);

        if (was_read_elsewhere(line))
            continue;
        if (text_after(line, "for ")) {
            struct paper_block body = { i + 1, i + 1 };

            while (body.end < block->end &&
                   indent_of(p->study->lines[body.end]) > indent_of(p->study->lines[i]))
                body.end++;
            for_each(p, text_after(line, "for "), &(struct visitor){ run_block, &body, NULL });
            i = body.end - 1;
        } else if (strchr(line, '|')) {
            fill_cell(p, i);
        } else if (strchr(line, '=')) {
            define_names(p, line);
        } else {
            fail_at(p, "an unknown line", line);
        }
    }
    p->name_count = names_before;
}

int paper_fill(const struct study *study, const struct cluster *machine, const char *only,
               struct study_table *tables)
{
    struct paper p = { .study = study, .formulas = { .machine = machine } };
    size_t first_table = table_end(study->lines, 0), end = first_table;

    while (study->lines[end])
        end++;
    p.uses = calloc(end + 1, sizeof(*p.uses));
    if (!p.uses)
        return fail(ERR_NOMEM, "%zu lines", end);
    for (size_t i = 0; i < first_table; i++)
        if (strchr(study->lines[i], '=') && !text_after(study->lines[i], "text "))
            define_names(&p, study->lines[i]);
    for (size_t i = first_table; study->lines[i] && !p.rc; i = end, tables++) {
        end = table_end(study->lines, i + 1);
        p.table = tables;
        if (!only || !strcmp(text_after(study->lines[i], "table "), only))
            run_block(&p, &(struct paper_block){ i + 1, end }, NULL);
        p.cached_count = 0;
    }
    free(p.uses);
    free(p.cached);
    formulas_close(&p.formulas);
    return p.rc;
}
