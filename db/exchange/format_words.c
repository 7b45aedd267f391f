/* Formats that name each axis: variables of an environment, flags of a command, members of a
 * configuration, JSON. */
#include "format.h"

#include "json.h"
#include "plan.h"
#include "status.h"
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CALLED_BYTES = 128 };

/* ---- env: "TORCH_MOE_CHUNKS=2", for a shell, docker --env-file or systemd. */

/* Makes TORCH_MOE_CHUNKS of the axis chunks. The name of the axis alone might be another program's
 * variable. */
static void default_variable(const struct format_job *job, const char *axis,
                             char name[CALLED_BYTES])
{
    const struct declaration *d = job->answers->buckets.declared;

    snprintf(name, CALLED_BYTES, "%s_%s", d ? d->name : "moetune", axis);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static bool is_variable(const char *name)
{
    static const char letters[] = "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    return *name && !isdigit((unsigned char)*name) && !name[strspn(name, letters)];
}

/* ---- flags: "--chunks 2". */

static void default_flag(const struct format_job *job, const char *axis, char name[CALLED_BYTES])
{
    (void)job;
    snprintf(name, CALLED_BYTES, "--%s", axis);
    for (char *c = name + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static bool is_flag(const char *name)
{
    return name[0] == '-' && name[strspn(name, "-")] &&
           !name[strcspn(name, " \t\n=\"'\\$`;&|<>()*?[]#~!{}")];
}

/* Returns whether an axis has only the values on and off. Its flag is a switch: there or not. */
static bool is_switch(const struct format_job *job, const char *axis)
{
    const struct declaration *d = job->answers->buckets.declared;
    size_t index = d ? declaration_axis(d, axis, strlen(axis)) : 0;

    if (!d || index == d->axes)
        return false;
    for (uint32_t i = 0; i < d->axis[index].values; i++)
        if (strcmp(d->axis[index].text[i], "on") != 0 && strcmp(d->axis[index].text[i], "off") != 0)
            return false;
    return true;
}

/* ---- json: the axis's own name. */

static void default_member(const struct format_job *job, const char *axis, char name[CALLED_BYTES])
{
    (void)job;
    snprintf(name, CALLED_BYTES, "%s", axis);
}

static bool is_member(const char *name)
{
    return *name != 0;
}

/* ---- dotted, toml, nested: "model.ep", a member of a member of a configuration. */

static bool is_path(const char *name)
{
    static const char letters[] =
        "_-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    while (name[strspn(name, letters)] == '.' && strspn(name, letters))
        name += strspn(name, letters) + 1;
    return *name && !name[strspn(name, letters)];
}

/* ---- Names in all of these formats. */

/* How a format names axes: what a name is, the default name of an axis, and which names are
 * legal. */
struct naming {
    const char *what;
    void (*default_name)(const struct format_job *job, const char *axis, char name[CALLED_BYTES]);
    bool (*legal)(const char *name);
};

static const struct naming variables = { "a name of a variable", default_variable, is_variable };
static const struct naming flags = { "a flag, as --name,", default_flag, is_flag };
static const struct naming members = { "a name", default_member, is_member };
static const struct naming paths = { "a name, as model.ep,", default_member, is_path };

/* Writes the reader's name for an axis. Returns false where --set leaves the axis out. */
static bool reader_name(const struct naming *naming, const struct format_job *job, const char *axis,
                        char name[CALLED_BYTES])
{
    const char *set = format_set_value(job, axis);

    if (set)
        text_put(name, CALLED_BYTES, "%s", set);
    else
        naming->default_name(job, axis, name);
    return *name != 0;
}

static int check_names(const struct naming *naming, const struct format_job *job)
{
    struct plan_words words = format_axes(job);
    char name[CALLED_BYTES], other[CALLED_BYTES];

    for (size_t i = 0; i < words.count; i++) {
        if (!reader_name(naming, job, words.list[i].axis, name))
            continue;
        if (!naming->legal(name) || strlen(name) == CALLED_BYTES - 1)
            return fail(ERR_ARGUMENT, "--set %s=%s: %s is wanted", words.list[i].axis, name,
                        naming->what);
        for (size_t k = 0; k < i; k++)
            if (reader_name(naming, job, words.list[k].axis, other) && !strcmp(name, other))
                return fail(ERR_ARGUMENT, "%s and %s would both be called %s", words.list[k].axis,
                            words.list[i].axis, name);
    }
    return OK;
}

/* Returns the word of the plan whose axis has this name for the reader; NULL: none. */
static const struct plan_word *word_called(const struct naming *naming,
                                           const struct format_job *job,
                                           const struct plan_words *words, const char *name)
{
    char axis_name[CALLED_BYTES];

    for (size_t i = 0; i < words->count; i++)
        if (reader_name(naming, job, words->list[i].axis, axis_name) && !strcmp(axis_name, name))
            return &words->list[i];
    return NULL;
}

/* Notes a value that was read. Where a name comes twice, the last one counts. */
static void set_word(struct plan_words *out, const struct plan_word *word, const char *value)
{
    size_t index = 0;

    while (index < out->count && strcmp(out->list[index].axis, word->axis) != 0)
        index++;
    out->count += index == out->count;
    out->list[index] = *word;
    snprintf(out->list[index].value, sizeof(out->list[index].value), "%s", value);
}

/* ---- Names and values, one after the other: for a shell, a command, TOML. */

/* TYPED: an axis of on and off is true or false. QUOTED: words are quoted. */
enum value_style { TYPED = 1, QUOTED = 2 };

/* How such a format writes its names and values. */
struct assignments {
    const struct naming *naming;
    const char *equals, *between; /* between a name and its value; between two assignments */
    unsigned style;               /* of values: TYPED, QUOTED, both or 0 */
};
static const struct assignments shell = { .naming = &variables, .equals = "=", .between = "\n" };
static const struct assignments command = {
    .naming = &paths, .equals = "=", .between = " ", .style = TYPED
};
static const struct assignments toml = {
    .naming = &paths, .equals = " = ", .between = "\n", .style = TYPED | QUOTED
};

static void write_value(const struct format_job *job, const struct plan_word *word, unsigned style,
                        FILE *to)
{
    if ((style & TYPED) && is_switch(job, word->axis))
        fputs(!strcmp(word->value, "on") ? "true" : "false", to);
    else
        fprintf(to, (style & QUOTED) && !word->number ? "\"%s\"" : "%s", word->value);
}

/* Notes a value as write_value() wrote it. Changes `value`. */
static void set_written_word(const struct format_job *job, const struct plan_word *word,
                             unsigned style, char *value, struct plan_words *out)
{
    size_t length = strlen(value);

    if ((style & TYPED) && is_switch(job, word->axis)) {
        set_word(out, word, !strcmp(value, "true") ? "on" : "off");
        return;
    }
    if (length > 1 && *value == '"' && value[length - 1] == '"') {
        value[length - 1] = 0;
        value++;
    }
    set_word(out, word, value);
}

static int write_assignments(const struct assignments *form, const struct format_job *job, FILE *to)
{
    struct plan_words words = format_axes(job);
    char name[CALLED_BYTES];
    bool has_word = false;

    for (size_t i = 0; i < words.count; i++) {
        if (!reader_name(form->naming, job, words.list[i].axis, name))
            continue;
        fprintf(to, "%s%s%s", has_word ? form->between : "", name, form->equals);
        write_value(job, &words.list[i], form->style, to);
        has_word = true;
    }
    fputs(has_word ? "\n" : "", to);
    return OK;
}

static int read_assignments(const struct assignments *form, const struct format_job *job,
                            const char *text, size_t length, struct plan_words *out)
{
    struct plan_words words = format_axes(job);
    const char *ends = *form->between == ' ' ? " \n" : "\n";
    char line[CALLED_BYTES + DECLARATION_NAME_BYTES];

    for (const char *begin = text; begin < text + length; begin += strcspn(begin, ends) + 1) {
        const struct plan_word *word;
        char *value;

        if (!text_put(line, sizeof(line), "%.*s", (int)strcspn(begin, ends), begin))
            return fail(ERR_FORMAT, "\"%s\" is longer than any NAME=VALUE of a plan", line);
        if (!*line || *line == '#')
            continue;
        value = strstr(line, form->equals);
        if (!value)
            return fail(ERR_FORMAT, "\"%s\" is no NAME%sVALUE", line, form->equals);
        *value = 0;
        value += strlen(form->equals);
        word = word_called(form->naming, job, &words, line);
        if (word)
            set_written_word(job, word, form->style, value, out);
    }
    return OK;
}

/* Checks names. A member cannot have a value and members of its own. */
static int check_paths(const struct format_job *job)
{
    struct plan_words words = format_axes(job);
    char name[CALLED_BYTES], other[CALLED_BYTES];

    TRY(check_names(&paths, job));
    for (size_t i = 0; i < words.count; i++)
        for (size_t k = 0; k < words.count; k++)
            if (reader_name(&paths, job, words.list[i].axis, name) &&
                reader_name(&paths, job, words.list[k].axis, other) &&
                !strncmp(name, other, strlen(name)) && other[strlen(name)] == '.')
                return fail(ERR_ARGUMENT, "%s would be a value, and %s a member of it", name,
                            other);
    return OK;
}

/* Defines the functions of a format with one plan, which answers every key. */
#define ASSIGNMENTS(name, form)                                                                    \
    static int write_##name(const struct format_job *job, FILE *to)                                \
    {                                                                                              \
        return write_assignments(&(form), job, to);                                                \
    }                                                                                              \
    static int read_##name(const struct format_job *job, const char *text, size_t length,          \
                           uint64_t key, double class_value, struct plan_words *out)               \
    {                                                                                              \
        (void)key;                                                                                 \
        (void)class_value;                                                                         \
        return read_assignments(&(form), job, text, length, out);                                  \
    }
ASSIGNMENTS(env, shell)
ASSIGNMENTS(dotted, command)
ASSIGNMENTS(toml, toml)

static int check_env(const struct format_job *job)
{
    return check_names(&variables, job);
}

const struct format format_env = {
    .name = "env", .one = true, .check = check_env, .write = write_env, .read = read_env
};
const struct format format_dotted = {
    .name = "dotted", .one = true, .check = check_paths, .write = write_dotted, .read = read_dotted
};
const struct format format_toml = {
    .name = "toml", .one = true, .check = check_paths, .write = write_toml, .read = read_toml
};

/* ---- nested: objects in objects. */

/* Writes the members whose names begin with the prefix, which is empty or ends with a dot. */
static void write_object(const struct format_job *job, const struct plan_words *words,
                         const char *prefix, FILE *to)
{
    size_t prefix_length = strlen(prefix);
    char name[CALLED_BYTES], earlier[CALLED_BYTES], inner_prefix[CALLED_BYTES];
    bool has_member = false;

    fputc('{', to);
    for (size_t i = 0; i < words->count; i++) {
        size_t name_end, k = 0;

        if (!reader_name(&paths, job, words->list[i].axis, name) ||
            strncmp(name, prefix, prefix_length) != 0)
            continue;
        name_end = prefix_length + strcspn(name + prefix_length, ".");
        name_end += name[name_end] == '.';
        while (k < i && (!reader_name(&paths, job, words->list[k].axis, earlier) ||
                         strncmp(name, earlier, name_end) != 0))
            k++;
        if (k < i) /* its object was written with an earlier axis */
            continue;
        fprintf(to, "%s\"%.*s\": ", has_member ? ", " : "",
                (int)(name_end - prefix_length - (name[name_end - 1] == '.')),
                name + prefix_length);
        has_member = true;
        if (name[name_end - 1] == '.') {
            snprintf(inner_prefix, sizeof(inner_prefix), "%.*s", (int)name_end, name);
            write_object(job, words, inner_prefix, to);
        } else {
            write_value(job, &words->list[i], TYPED | QUOTED, to);
        }
    }
    fputc('}', to);
}

static int write_nested(const struct format_job *job, FILE *to)
{
    struct plan_words words = format_axes(job);

    write_object(job, &words, "", to);
    fputc('\n', to);
    return OK;
}

/* A configuration that is being read, and the names on the way to the present member. */
struct path_reader {
    const struct format_job *job;
    struct plan_words words, *out;
    char path[CALLED_BYTES];
    size_t length[JSON_DEPTH_MAX + 1]; /* length of the path to the object of each depth */
};

static int read_path_member(void *self, const struct json_value *v)
{
    struct path_reader *r = self;
    const struct plan_word *word;
    char value[DECLARATION_NAME_BYTES + 2];
    size_t begin = v->depth ? r->length[v->depth - 1] : 0;

    if (v->kind == JSON_END || !v->key)
        return OK;
    if (!text_put(r->path + begin, sizeof(r->path) - begin, "%s%s", begin ? "." : "", v->key))
        r->path[begin] = 0; /* longer than any name of an axis */
    r->length[v->depth] = strlen(r->path);
    word = word_called(&paths, r->job, &r->words, r->path);
    if (word && v->kind != JSON_OBJECT && v->kind != JSON_ARRAY &&
        word->number == (v->kind == JSON_NUMBER) &&
        text_put(value, sizeof(value), "%s",
                 v->value               ? v->value
                 : v->kind == JSON_TRUE ? "true"
                                        : "false"))
        set_written_word(r->job, word, TYPED, value, r->out);
    return OK;
}

static int read_nested(const struct format_job *job, const char *text, size_t length, uint64_t key,
                       double class_value, struct plan_words *out)
{
    struct path_reader r = { .job = job, .words = format_axes(job), .out = out };

    (void)key;
    (void)class_value;
    return json_read(text, length, "the configuration", read_path_member, &r);
}

const struct format format_nested = {
    .name = "nested", .one = true, .check = check_paths, .write = write_nested, .read = read_nested
};

/* ---- flags. */

static int check_flags(const struct format_job *job)
{
    return check_names(&flags, job);
}

static int write_flags(const struct format_job *job, FILE *to)
{
    struct plan_words words = format_axes(job);
    char name[CALLED_BYTES];
    bool is_first = true;

    for (size_t i = 0; i < words.count; i++) {
        const struct plan_word *word = &words.list[i];
        bool is_alone = is_switch(job, word->axis);

        if (!reader_name(&flags, job, word->axis, name) ||
            (is_alone && !strcmp(word->value, "off")))
            continue;
        fprintf(to, "%s%s", is_first ? "" : " ", name);
        /* After a blank, a value that begins with a minus would look like the next flag. */
        if (!is_alone)
            fprintf(to, "%s%s", *word->value == '-' ? "=" : " ", word->value);
        is_first = false;
    }
    fprintf(to, "\n");
    return OK;
}

static int read_flags(const struct format_job *job, const char *text, size_t length, uint64_t key,
                      double class_value, struct plan_words *out)
{
    struct plan_words words = format_axes(job);
    char line[DECLARATION_AXES_MAX * (CALLED_BYTES + DECLARATION_NAME_BYTES)], *rest = line, *flag;

    (void)key;
    (void)class_value;
    if (length >= sizeof(line) ||
        !text_put(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text))
        return fail(ERR_FORMAT, "more flags than there are axes");
    for (size_t i = 0; i < words.count; i++)
        if (is_switch(job, words.list[i].axis)) /* off, unless the flag is there */
            set_word(out, &words.list[i], "off");
    while ((flag = strsep(&rest, " ")) != NULL) {
        const struct plan_word *word;
        const char *value;
        char *equals = strchr(flag, '=');

        if (!*flag)
            continue;
        value = equals ? equals + 1 : NULL;
        if (equals)
            *equals = 0;
        word = word_called(&flags, job, &words, flag);
        if (!word)
            return fail(ERR_FORMAT, "%s is the flag of no axis", flag);
        if (is_switch(job, word->axis))
            value = "on";
        else if (!value)
            value = strsep(&rest, " ");
        if (!value)
            return fail(ERR_FORMAT, "%s has no value", flag);
        set_word(out, word, value);
    }
    return OK;
}

const struct format format_flags = {
    .name = "flags", .one = true, .check = check_flags, .write = write_flags, .read = read_flags
};

/* ---- json: the plan of each range. */

static int check_json(const struct format_job *job)
{
    return check_names(&members, job);
}

static void write_answer(const struct format_job *job, const struct answer *a, FILE *to)
{
    const struct declaration *d = job->answers->buckets.declared;
    struct plan_words words = answer_words(job->answers, &a->plan);
    uint32_t class = d ? a->bucket % declaration_classes(d) : 0;
    char name[CALLED_BYTES];
    const char *comma = "";

    json_write(to, "{'key_from': %" PRIu64, a->from);
    if (a->to == UINT64_MAX)
        json_write(to, ", 'key_to': null");
    else
        json_write(to, ", 'key_to': %" PRIu64, a->to);
    if (d && d->class_edges) /* above the first edge, up to the second; null: no edge */
        json_write(to, ", 'class_above': %g, 'class_to': %g",
                   class ? d->class_edge[class - 1] / 1e3 : 0,
                   class < d->class_edges ? d->class_edge[class] / 1e3 : NAN);
    json_write(to, ", 'plan': {");
    for (size_t i = 0; i < words.count; i++) {
        const struct plan_word *word = &words.list[i];

        if (!reader_name(&members, job, word->axis, name))
            continue;
        json_write(to, word->number ? "%s'%s': %s" : "%s'%s': '%s'", comma, name, word->value);
        comma = ", ";
    }
    json_write(to, "}, 'source': '%s', 'time_us': %.3f, 'default_us': %.3f}",
               plan_source_words[a->plan.source], (double)a->plan.time_us,
               (double)a->plan.default_us);
}

static int write_json(const struct format_job *job, FILE *to)
{
    const struct answers *a = job->answers;
    char tag[DECLARATION_TAG_BYTES];

    json_write(to, "{'layer': '%s', 'device': '%s'", SHAPE_TEXT(&a->shape), a->device);
    if (a->buckets.declared)
        json_write(to, ", 'space': '%s'", declaration_tag(a->buckets.declared, tag));
    json_write(to, ", 'key': '%s'", a->buckets.declared ? a->buckets.declared->key : "capacity");
    if (a->buckets.declared && a->buckets.declared->class_edges)
        json_write(to, ", 'class': '%s'", a->buckets.declared->class_name);
    json_write(to, ",\n 'answers': [");
    for (size_t i = 0; i < a->count; i++) {
        fprintf(to, "%s\n  ", i ? "," : "");
        write_answer(job, &a->list[i], to);
    }
    fprintf(to, "\n ]}\n");
    return OK;
}

/* An edge that a range does not have. */
static const double no_edge = 1e300;

/* Answers that are being read. */
struct json_reader {
    const struct format_job *job;
    struct plan_words words, present, *out; /* present: the plan of the answer that is being read */
    double key, class, from, to, above, class_to;
    bool in_answers, found; /* found: *out is the answer of the key */
};

/* The document has depth 0, "answers" 1, each answer 2, its members 3, the members of its plan
 * 4. */
static int read_answer_value(void *self, const struct json_value *v)
{
    struct json_reader *r = self;
    const struct {
        const char *name;
        double *value;
    } edges[] = { { "key_from", &r->from },
                  { "key_to", &r->to },
                  { "class_above", &r->above },
                  { "class_to", &r->class_to } };
    const struct plan_word *word;

    if (v->depth == 1 && v->key)
        r->in_answers = v->kind == JSON_ARRAY && !strcmp(v->key, "answers");
    if (!r->in_answers)
        return OK;
    if (v->depth == 2 && v->kind == JSON_OBJECT) {
        r->from = r->above = 0;
        r->to = r->class_to = no_edge;
        r->present.count = 0;
    } else if (v->depth == 2 && v->kind == JSON_END) {
        bool is_wanted = r->key >= r->from && r->key <= r->to && r->class <= r->class_to &&
                         (r->above <= 0 || r->class > r->above);

        if (is_wanted && !r->found)
            *r->out = r->present;
        r->found |= is_wanted;
    } else if (v->depth == 3 && v->key && v->kind == JSON_NUMBER) {
        for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
            if (!strcmp(v->key, edges[i].name))
                *edges[i].value = json_number(v);
    } else if (v->depth == 4 && v->key && v->value) {
        word = word_called(&members, r->job, &r->words, v->key);
        if (word && word->number == (v->kind == JSON_NUMBER))
            set_word(&r->present, word, v->value);
    }
    return OK;
}

static int read_json(const struct format_job *job, const char *text, size_t length, uint64_t key,
                     double class_value, struct plan_words *out)
{
    struct json_reader r = {
        .job = job, .words = format_axes(job), .out = out, .key = (double)key, .class = class_value
    };

    return json_read(text, length, "the answers", read_answer_value, &r);
}

const struct format format_json = {
    .name = "json", .classes = true, .check = check_json, .write = write_json, .read = read_json
};
