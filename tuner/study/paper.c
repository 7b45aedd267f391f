/* A paper's study: reads the lines of NAME.study and computes each cell of its tables.  README.md
 * explains the language. */
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

enum { MOST_BOUND = 64, NAME_BYTES = 64 };

/* A name and what it stands for: an expression, evaluated wherever the name is used, or a value
 * with the word that stood for it. */
struct binding {
    const char *name, *expression, *word;
    int name_bytes, word_bytes;
    double value;
};

/* A step that was computed: cells ask for the same steps again and again. */
struct known_step {
    struct modelled_ask ask;
    double seconds[2];
    struct modelled_step step;
};

struct paper {
    const struct study *study;
    struct formulas formulas;
    struct study_table *table;        /* that is filled */
    struct binding bound[MOST_BOUND]; /* the last one of a name holds */
    int bound_count;
    size_t *uses; /* of each line: cells that it has filled */
    struct known_step *known;
    size_t known_count, known_room;
    int rc;
};

/* ---- lines */

static int indent_of(const char *line)
{
    return (int)strspn(line, " ");
}

/* Returns what follows the word on this line; NULL: another word begins it. */
static const char *after(const char *line, const char *word)
{
    size_t bytes = strlen(word);

    return strncmp(line, word, bytes) ? NULL : line + bytes;
}

/* Returns the line at which the next table begins: those from the i-th on belong to one before it.
 */
static size_t table_end(const char *const *lines, size_t i)
{
    while (lines[i] && !after(lines[i], "table "))
        i++;
    return i;
}

/* "note @NAME" is the text that stands in "text NAME ..." lines. */
static void add_note(const char *const *lines, const char *note, struct study_row *row)
{
    size_t bytes = strlen(row->assumptions);
    char begin[NAME_BYTES];

    if (*note != '@') { /* two spaces behind a sentence, one behind a word */
        text_add(row->assumptions, sizeof(row->assumptions), "%s%s",
                 !bytes                               ? ""
                 : row->assumptions[bytes - 1] == '.' ? "  "
                                                      : " ",
                 note);
        return;
    }
    snprintf(begin, sizeof(begin), "text %s ", note + 1);
    for (; *lines; lines++)
        if (after(*lines, begin))
            add_note(lines, after(*lines, begin), row);
}

int paper_tables(const struct study *study, struct study_row **out)
{
    struct study_row *rows = NULL, *row = NULL;
    size_t count = 0;

    for (const char *const *line = study->lines; *line; line++)
        count += after(*line, "table ") != NULL;
    rows = calloc(count + 1, sizeof(*rows));
    if (!rows)
        return fail(ERR_NOMEM, "tables of %s", study->name);
    for (const char *const *line = study->lines; *line; line++) {
        const char *text;

        if ((text = after(*line, "table "))) {
            row = row ? row + 1 : rows;
            snprintf(row->name, sizeof(row->name), "%s", text);
        } else if ((text = after(*line, "title "))) {
            snprintf(row->title, sizeof(row->title), "%s", text);
        } else if ((text = after(*line, "unit "))) {
            snprintf(row->unit, sizeof(row->unit), "%s", text);
        } else if ((text = after(*line, "plot "))) {
            if (!text_put(row->plot, sizeof(row->plot), "%s", text)) {
                free(rows);
                return fail(ERR_ARGUMENT, "%s.study: a plot's line is too long", study->name);
            }
        } else if ((text = after(*line, "not yet "))) {
            snprintf(row->not_yet, sizeof(row->not_yet), "%s", text);
        } else if ((text = after(*line, "note "))) {
            add_note(study->lines, text, row);
        }
    }
    *out = rows;
    return OK;
}

/* ---- names */

static double wrong(struct paper *p, const char *what, const char *at)
{
    if (!p->rc)
        p->rc = fail(ERR_ARGUMENT, "%s.study: %s at \"%.40s\"", p->study->name, what, at);
    return NAN;
}

static bool is_name(const char *name, int bytes, const char *word)
{
    return (size_t)bytes == strlen(word) && !memcmp(name, word, (size_t)bytes);
}

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

static struct binding *bind(struct paper *p, const char *name)
{
    if (p->bound_count == MOST_BOUND) {
        wrong(p, "too many names in force", name);
        p->bound_count--;
    }
    p->bound[p->bound_count] = (struct binding){ .name = name, .name_bytes = name_bytes(name) };
    return &p->bound[p->bound_count++];
}

/* ---- steps */

static double value_of(struct paper *p, const char *expression);

static double setting(struct paper *p, const char *name, double usual)
{
    const struct binding *b = find_bound(p, name, (int)strlen(name));

    return !b ? usual : b->expression ? value_of(p, b->expression) : b->value;
}

#define SHAPE(member) offsetof(struct modelled_ask, shape.member)
#define PLAN(member) offsetof(struct modelled_ask, plan.member)

/* Letters are those of a shape's and a plan's text. */
static const struct {
    const char *name;
    size_t offset; /* of a uint32_t */
    double usual;
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

/* Asks for the step that the names in force describe.  f is the capacity factor; dense and rigid:
 * baselines; known: with known routes, too; seconds, other_seconds: of two unequal devices. */
static void ask_step(struct paper *p, struct known_step *out)
{
    struct modelled_ask *ask = &out->ask;

    memset(out, 0, sizeof(*out)); /* it is compared byte by byte */
    ask->shape.struct_size = sizeof(ask->shape);
    ask->plan.struct_size = sizeof(ask->plan);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        *(uint32_t *)((char *)ask + settings[i].offset) =
            (uint32_t)setting(p, settings[i].name, settings[i].usual);
    ask->capacities.most = moe_capacity(setting(p, "f", 1), ask->shape.top_k, ask->shape.experts,
                                        ask->shape.tokens, 0);
    ask->baseline = (setting(p, "dense", 0) > 0 ? BASELINE_DENSE : 0) |
                    (setting(p, "rigid", 0) > 0 ? BASELINE_RIGID : 0);
    ask->known = setting(p, "known", 0) > 0;
    out->seconds[0] = setting(p, "seconds", 0);
    out->seconds[1] = setting(p, "other_seconds", 0);
}

static const struct modelled_step *find_step(struct paper *p)
{
    static const struct modelled_step none;
    struct known_step asked;
    struct cluster unequal;
    const struct cluster *machine = p->formulas.machine;

    ask_step(p, &asked);
    for (size_t i = 0; i < p->known_count; i++)
        if (!memcmp(&p->known[i].ask, &asked.ask, sizeof(asked.ask)) &&
            p->known[i].seconds[0] == asked.seconds[0] &&
            p->known[i].seconds[1] == asked.seconds[1])
            return &p->known[i].step;
    if (!p->rc && asked.seconds[0] > 0) {
        p->rc = formula_unequal(machine, asked.seconds, &unequal);
        machine = &unequal;
    }
    if (!p->rc)
        p->rc = modelled_step_of(machine, &asked.ask, &asked.step);
    if (!p->rc && p->known_count == p->known_room) {
        size_t room = p->known_room ? 2 * p->known_room : 64;
        void *known = realloc(p->known, room * sizeof(*p->known));

        if (known) {
            p->known = known;
            p->known_room = room;
        } else {
            p->rc = fail(ERR_NOMEM, "%zu steps", room);
        }
    }
    if (p->rc)
        return &none;
    p->known[p->known_count] = asked;
    return &p->known[p->known_count++].step;
}

#define STEP(member) offsetof(struct modelled_step, member)

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

static double named_value(struct paper *p, const char *name, int bytes)
{
    const struct binding *b = find_bound(p, name, bytes);
    struct known_step asked;
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
    ask_step(p, &asked);
    if (is_name(name, bytes, "router_rows"))
        return shape_gate_columns(&asked.ask.shape);
    if (!is_name(name, bytes, "bytes"))
        return wrong(p, "an unknown name", name);
    if (!p->rc)
        p->rc = modelled_bytes(p->formulas.machine, &asked.ask, &value);
    return value;
}

/* ---- expressions */

static double sum_at(struct paper *p, const char **at);

static double value_of(struct paper *p, const char *expression)
{
    return sum_at(p, &expression);
}

static char next(const char **at)
{
    *at += strspn(*at, " ");
    return **at;
}

/* Passes what stands before one of these characters, outside of all brackets. */
static const char *skip_to(const char *at, const char *stops)
{
    for (int depth = 0; *at && (depth || !strchr(stops, *at)); at++)
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    return at;
}

/* Returns what is behind the character that must stand here; the line's end is never passed. */
static const char *behind(struct paper *p, const char *at, char wanted)
{
    if (*at == wanted)
        return at + 1;
    wrong(p, (char[]){ 'n', 'o', ' ', wanted, '\0' }, at);
    return at + strlen(at);
}

/* Calls visit for each combination of values in "a = linear 2dh; d = 1 2 4"; "1..8" are all numbers
 * from 1 to 8, "Base:512" and "[100 W]:0" are 512 and 0 by other names. */
static void for_each(struct paper *p, const char *buckets,
                     void (*visit)(struct paper *p, const void *arg, double *out), const void *arg,
                     double *out)
{
    int mark = p->bound_count;
    struct binding *b;
    const char *end = skip_to(buckets, ";)"), *at = behind(p, skip_to(buckets, "="), '=');

    next(&buckets);
    b = bind(p, buckets);
    while (next(&at) && at < end && !p->rc) {
        bool quoted = *at == '[';
        const char *word_end = at + quoted + strcspn(at + quoted, quoted ? "]" : ": ;)");
        const char *value = quoted ? behind(p, word_end, ']') : word_end, *dots = strstr(at, "..");
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
            *end == ';' ? for_each(p, end + 1, visit, arg, out) : visit(p, arg, out);
    }
    p->bound_count = mark;
}

static void add_up(struct paper *p, const void *expression, double *out)
{
    *out += value_of(p, expression);
}

/* Takes the least of the numbers that there are: a plan that does not fit into the memory has none.
 */
static void find_least(struct paper *p, const void *expression, double *out)
{
    const char *at = expression;

    do
        *out = fmin(*out, sum_at(p, &at));
    while (next(&at) == ',' && at++);
}

static void find_most(struct paper *p, const void *expression, double *out)
{
    const char *at = expression;

    do
        *out = fmax(*out, sum_at(p, &at));
    while (next(&at) == ',' && at++);
}

static const struct {
    const char *name;
    void (*visit)(struct paper *p, const void *expression, double *out);
    double first;
} folds[] = { { "sum", add_up, 0 }, { "min", find_least, NAN }, { "max", find_most, NAN } };

/* `at` is behind the opening bracket. */
static double call(struct paper *p, const char *name, int bytes, const char *at)
{
    double value = NAN, arguments[FORMULA_ARGUMENTS] = { 0 };

    if (is_name(name, bytes, "pick")) { /* pick(i, first, second ...) */
        for (int i = (int)sum_at(p, &at); i >= 0 && *at == ','; i--)
            at = i ? skip_to(at + 1, ",)") : at + 1;
        return value_of(p, at);
    }
    if (is_name(name, bytes, "if")) { /* if(above 0, then, else) */
        bool is_above = sum_at(p, &at) > 0;

        at = behind(p, at, ',');
        return value_of(p, is_above ? at : behind(p, skip_to(at, ",)"), ','));
    }
    for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
        if (is_name(name, bytes, folds[i].name)) {
            const char *buckets = skip_to(at, ";)");

            value = folds[i].first;
            if (*buckets == ';')
                for_each(p, buckets + 1, folds[i].visit, at, &value);
            else
                folds[i].visit(p, at, &value);
            return value;
        }
    for (const struct formula *f = formula_list; f->name; f++)
        if (is_name(name, bytes, f->name)) {
            for (int i = 0; i < f->arguments && !p->rc; i++) {
                at = i ? behind(p, at, ',') : at;
                arguments[i] = sum_at(p, &at);
                next(&at);
            }
            if (!p->rc)
                p->rc = f->of(&p->formulas, f->part, arguments, &value);
            return value;
        }
    return wrong(p, "an unknown formula", name);
}

/* Reads a number, a name, a call, or a sum in brackets; "ns[r=4, d=1]": as if r was 4 and d 1. */
static double operand_at(struct paper *p, const char **at)
{
    const char *name = *at;
    char *end;
    int mark = p->bound_count, bytes;
    double value;

    if (next(&name) == '(') {
        *at = name + 1;
        value = sum_at(p, at);
        *at = behind(p, skip_to(*at, ")"), ')');
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
        return wrong(p, "no expression", name);
    }
    *at = name + bytes;
    if (**at == '(') {
        value = call(p, name, bytes, *at + 1);
        *at = behind(p, skip_to(*at + 1, ")"), ')');
        return value;
    }
    if (**at == '[') {
        const char *inner = *at;
        double values[8];
        const char *names[8];
        int count = 0;

        do {
            inner++;
            next(&inner);
            names[count] = inner;
            inner = behind(p, skip_to(inner, "="), '=');
            values[count++] = sum_at(p, &inner);
        } while (next(&inner) == ',' && count < 8);
        for (int i = 0; i < count; i++)
            bind(p, names[i])->value = values[i];
        *at = behind(p, skip_to(*at + 1, "]"), ']');
    }
    value = named_value(p, name, bytes);
    p->bound_count = mark;
    return value;
}

static double product_at(struct paper *p, const char **at)
{
    double value = operand_at(p, at);

    while (next(at) == '*' || **at == '/') {
        bool times = *(*at)++ == '*';
        double other = operand_at(p, at);

        value = times ? value * other : value / other;
    }
    return value;
}

static double sum_at(struct paper *p, const char **at)
{
    double value = product_at(p, at);

    while (next(at) == '+' || **at == '-') {
        bool plus = *(*at)++ == '+';
        double other = product_at(p, at);

        value = plus ? value + other : value - other;
    }
    return value;
}

/* ---- cells */

/* Writes "{W} GPUs" as the names in force have it. */
static void fill_in(struct paper *p, const char *text, const char *end, char *out, size_t room)
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
            wrong(p, "an unknown name", text);
        else if (b->word)
            text_add(out, room, "%.*s", b->word_bytes, b->word);
        else
            text_add(out, room, "%g", b->expression ? value_of(p, b->expression) : b->value);
        text = behind(p, skip_to(text, "}"), '}') - 1;
    }
}

/* Returns the value of the expression behind "=", else the number of this cell in a list with one
 * for each that the line fills, which goes on in lines that begin with "|".  "-": none; "12*",
 * "=*": the cluster was fitted to it. */
static double published_at(struct paper *p, size_t line, const char *list, bool *fitted)
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
    const char *row = p->study->lines[line], *column = behind(p, skip_to(row, "|"), '|');
    const char *expression = behind(p, skip_to(column, "|"), '|'), *list = strchr(expression, '|');
    struct study_cell cell;
    bool fitted;

    if (p->rc)
        return;
    fill_in(p, row, column - 1, cell.row, sizeof(cell.row));
    fill_in(p, column, expression - 1, cell.column, sizeof(cell.column));
    cell.value = value_of(p, expression);
    list = list ? list + 1 : "";
    list += strspn(list, " ");
    cell.published = published_at(p, line, list, &fitted);
    cell.mark = isnan(cell.published) ? STUDY_UNPUBLISHED : fitted ? STUDY_FITTED : STUDY_PREDICTED;
    if (!p->rc)
        p->rc = study_put(p->table, &cell);
}

/* Binds the names of "E = 2 * W; D = 4096" to their expressions. */
static void define(struct paper *p, const char *line)
{
    while (next(&line)) {
        bind(p, line)->expression = behind(p, skip_to(line, "="), '=');
        line = skip_to(line, ";");
        line += *line == ';';
    }
}

struct paper_block {
    size_t first, end;
};

static void run_block(struct paper *p, const void *lines_of, double *unused)
{
    static const char *const head[] = { "title ", "unit ", "plot ", "note ", "not yet ", "|" };
    const struct paper_block *block = lines_of;
    int mark = p->bound_count;

    for (size_t i = block->first; i < block->end && !p->rc; i++) {
        const char *line = p->study->lines[i] + indent_of(p->study->lines[i]);
        size_t k = 0;

        while (k < sizeof(head) / sizeof(head[0]) && !after(line, head[k]))
            k++;
        if (k < sizeof(head) / sizeof(head[0]))
            continue;
        if (after(line, "for ")) {
            struct paper_block body = { i + 1, i + 1 };

            while (body.end < block->end &&
                   indent_of(p->study->lines[body.end]) > indent_of(p->study->lines[i]))
                body.end++;
            for_each(p, after(line, "for "), run_block, &body, unused);
            i = body.end - 1;
        } else if (strchr(line, '|')) {
            fill_cell(p, i);
        } else if (strchr(line, '=')) {
            define(p, line);
        } else {
            wrong(p, "an unknown line", line);
        }
    }
    p->bound_count = mark;
}

int paper_fill(const struct study *study, const struct cluster *machine, const char *only,
               struct study_table *tables)
{
    struct paper p = { .study = study, .formulas = { .machine = machine } };
    size_t head = table_end(study->lines, 0), end = head;
    double unused = 0;

    while (study->lines[end])
        end++;
    p.uses = calloc(end + 1, sizeof(*p.uses));
    if (!p.uses)
        return fail(ERR_NOMEM, "%zu lines", end);
    for (size_t i = 0; i < head; i++)
        if (strchr(study->lines[i], '=') && !after(study->lines[i], "text "))
            define(&p, study->lines[i]);
    for (size_t i = head; study->lines[i] && !p.rc; i = end, tables++) {
        end = table_end(study->lines, i + 1);
        p.table = tables;
        if (!only || !strcmp(after(study->lines[i], "table "), only))
            run_block(&p, &(struct paper_block){ i + 1, end }, &unused);
        p.known_count = 0;
    }
    free(p.uses);
    free(p.known);
    formulas_close(&p.formulas);
    return p.rc;
}
