/* Prints lines of C, Python and shell with which a trainer looks a table up. */
#include "paste.h"

#include "declaration.h"
#include "export.h"
#include "moelookup.h"
#include "shape.h"
#include "status.h"
#include "text.h"
#include "trainer_view.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int paste_digest(struct store *store, const char *path, bool real, char hex[SHA256_HEX_BYTES])
{
    struct export_options everything = { .undated = true };
    uint8_t digest[SHA256_BYTES];
    struct moelookup *table;
    char *text = NULL;
    size_t size = 0;
    FILE *memory;
    int rc;

    if (real) {
        TRY(moelookup_open(path, &table));
        moelookup_digest(table, digest);
        moelookup_close(table);
        sha256_hex(digest, hex);
        return OK;
    }
    memory = open_memstream(&text, &size);
    rc = memory ? export_lines(store, &everything, memory) : fail(ERR_NOMEM, "the table");
    if (memory)
        fclose(memory);
    if (rc >= 0) /* without an entry there is no line */
        sha256_text(text, size, hex);
    free(text);
    return rc < 0 ? rc : OK;
}

/* Prints an enumerator of moelookup.h: its name is the word in capitals after a prefix. */
static void print_constant(const char *member, const char *prefix, const char *word)
{
    printf(" shape.%s = MOE_%s", member, prefix);
    for (; *word; word++)
        putchar(toupper((unsigned char)*word));
    putchar(';');
}

enum paste_language { PASTE_C, PASTE_PYTHON };

/* Prints the members that most layers do not need.  Members that belong together share a line. */
static void print_rare_members(const struct moe_shape *shape, enum paste_language language)
{
    bool python = language == PASTE_PYTHON;
    const struct {
        int line;
        uint32_t value; /* 0: the member is left out */
        const char *name;
        const char *prefix, *const *words; /* NULL: a number */
    } members[] = {
        { 1, shape->layout, "layout", "LAYOUT_", layout_words },
        { 1, shape->shares, "shares", "SHARES_", shares_words },
        { 1, shape->layers, "layers" },
        { 2, shape->groups, "groups" },
        { 2, shape->group_limit, "group_limit" },
        { 2, shape->router, "router", "ROUTER_", router_words },
        { 2, shape->projection, "projection" },
        { 3, shape->order, "order", "ORDER_", order_words },
        { 4, shape->combine, "combine", "COMBINE_", combine_words },
        { 5, shape->ranks_per_rack, "ranks_per_rack" },
    };
    int line = 0;

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const char *name = members[i].name;
        const char *word = members[i].words ? members[i].words[members[i].value] : NULL;

        if (!members[i].value)
            continue;
        fputs(python ? "," : "", stdout);
        if (members[i].line != line)
            fputs(python ? "\n             " : "\n         ", stdout);
        line = members[i].line;
        if (!python && word)
            print_constant(name, members[i].prefix, word);
        else if (!python)
            printf(" shape.%s = %u;", name, members[i].value);
        else if (word)
            printf(" %s=\"%s\"", name, word);
        else
            printf(" %s=%u", name, members[i].value);
    }
}

/* Prints the lines for a declared space, with the program's axes and key. */
static void print_space(const struct declaration *d)
{
    const char *class = *d->class_name ? d->class_name : "0";
    char tag[DECLARATION_TAG_BYTES];

    declaration_tag(d, tag);
    printf("C         moelookup_open(NULL, &table); moelookup_space(table, \"%s\", &space);\n"
           "          moelookup_space_layer(table, space, 0, &shape);\n"
           "          moelookup_bind(table, &shape, NULL, &view);\n"
           "          moelookup_get_key(view, %s, %s, &plan); /* at every step */\n"
           "          moelookup_value(&plan, \"%s\", text, sizeof(text));\n",
           tag, d->key, class, d->axis[0].name);
    printf("Python    view = moelookup.open().bind(space=\"%s\")\n"
           "          plan = view.plan(%s%s%s)  # at every step: plan[\"%s\"]\n",
           tag, d->key, *d->class_name ? ", " : "", d->class_name, d->axis[0].name);
}

void paste_shape(const struct moe_shape *shape)
{
    if (shape->space) {
        print_space(declaration_find(shape->space));
        return;
    }
    printf("C         struct moe_shape shape = MOE_SHAPE_INIT;\n"
           "          shape.experts = %u; shape.top_k = %u; shape.model_dim = %u; "
           "shape.hidden_dim = %u;\n"
           "          shape.ranks = %u; shape.ranks_per_node = %u; shape.tokens = %u;\n"
           "         ",
           shape->experts, shape->top_k, shape->model_dim, shape->hidden_dim, shape->ranks,
           shape->ranks_per_node, shape->tokens);
    print_constant("dtype", "", dtype_words[shape->dtype]);
    print_constant("pass", "", pass_words[shape->pass]);
    print_constant("activation", "", activation_words[shape->activation]);
    print_rare_members(shape, PASTE_C);
    printf("\n"
           "          moelookup_open(NULL, &table); moelookup_bind(table, &shape, NULL, "
           "&view);\n"
           "          moelookup_get(view, capacity, &plan); /* at every step */\n");
    printf("Python    view = moelookup.open().bind(experts=%u, top_k=%u, model_dim=%u, "
           "hidden_dim=%u,\n"
           "              ranks=%u, ranks_per_node=%u, tokens=%u, dtype=\"%s\", train=%s, "
           "activation=\"%s\"",
           shape->experts, shape->top_k, shape->model_dim, shape->hidden_dim, shape->ranks,
           shape->ranks_per_node, shape->tokens, dtype_words[shape->dtype],
           shape->pass == MOE_TRAIN ? "True" : "False", activation_words[shape->activation]);
    print_rare_members(shape, PASTE_PYTHON);
    printf(")\n          plan = view.plan(capacity)  # at every step\n");
}

void paste_open(const char *path)
{
    printf("For a trainer (one rank opens, the others unpack what it broadcasts: see "
           "moelookup.h):\nshell     ");
    paste_export(path);
    putchar('\n');
}

void paste_export(const char *path)
{
    char full_path[PATH_MAX];

    printf("export MOELOOKUP_DB=");
    shell_word(realpath(path, full_path) ? full_path : path, stdout);
}

/* Whether the database has other layers of a layer's space, or other versions of it. */
struct space_relatives {
    struct store *store;
    const struct moe_shape *shape;
    int64_t last_shape; /* the shape of the entry before */
    bool has_layers, has_versions;
};

static int find_relatives(void *self, const struct entry_row *e)
{
    struct space_relatives *relatives = self;
    struct moe_shape other_shape;
    const struct declaration *other_space, *own_space = declaration_find(relatives->shape->space);

    if (e->shape == relatives->last_shape)
        return OK;
    relatives->last_shape = e->shape;
    TRY(store_shape_get(relatives->store, e->shape, &other_shape));
    other_space = declaration_find(other_shape.space);
    if (other_shape.space == relatives->shape->space)
        relatives->has_layers |= !shape_equal(&other_shape, relatives->shape);
    else
        relatives->has_versions |=
            other_space && own_space && !strcmp(other_space->name, own_space->name);
    return OK;
}

/* Prints the options that name a program's layer in this database: " --space" with a name or the
 * file, and --shape if the space has other layers there. */
static int print_layer_options(struct store *store, const struct moe_shape *shape, const char *file)
{
    struct space_relatives relatives = { .store = store, .shape = shape };
    const struct declaration *space = declaration_find(shape->space);
    char tag[DECLARATION_TAG_BYTES];

    TRY(store_entries(store, 0, 0, find_relatives, &relatives));
    if (space) {
        printf(" --space ");
        shell_word(file                     ? file
                   : relatives.has_versions ? declaration_tag(space, tag)
                                            : space->name,
                   stdout);
    }
    if (relatives.has_layers) {
        printf(" --shape ");
        shell_word(SHAPE_TEXT(shape), stdout);
    }
    return OK;
}

int paste_next(const struct tuned_table *t)
{
    const struct declaration *space = t->exec ? declaration_find(t->shape->space) : NULL;

    if (t->undecided && t->decide)
        printf("decide    %u undecided %s%s: %s --effort thorough\n", t->undecided,
               space ? "range" : "bucket", t->undecided == 1 ? "" : "s", t->decide);
    printf("use it    ");
    paste_export(t->path);
    printf("\n          lines of C and Python: moetune show --paste --db ");
    shell_word(t->path, stdout);
    if (space) {
        printf("\n          moetune lookup");
        TRY(print_layer_options(t->store, t->shape, NULL));
        printf(" --key %" PRIu64 "%s --db ", space->key_edge[0],
               space->class_edges ? " --class 1" : "");
        shell_word(t->path, stdout);
    }
    printf("\ntest it   moetune verify");
    if (t->exec) {
        TRY(print_layer_options(t->store, t->shape, t->space));
        printf(" --exec ");
        shell_word(t->exec, stdout);
    }
    printf(" --db ");
    shell_word(t->path, stdout);
    printf("\nsee it    moetune report --db ");
    shell_word(t->path, stdout);
    printf(" -o report\n");
    return OK;
}

/* What paste_entry() needs while it goes through the entries. */
struct pasting {
    struct store *store;
    const struct trainer_view *trainers;
    const char *path, *shape_filter;
    int64_t cluster, shape; /* of the entry before */
    uint32_t count;
};

/* Prints the lines for each new layer.  Entries come sorted by cluster and shape. */
static int paste_entry(void *self, const struct entry_row *e)
{
    struct pasting *p = self;
    char why[WHY_SILENT_BYTES];
    struct moe_shape shape;

    TRY(trainer_view_why_silent(p->trainers, p->store, e, why));
    if (*why || (e->cluster == p->cluster && e->shape == p->shape))
        return OK;
    p->cluster = e->cluster;
    p->shape = e->shape;
    TRY(store_shape_get(p->store, e->shape, &shape));
    if (!shape_agrees(&shape, p->shape_filter))
        return OK;
    if (!p->count++)
        paste_open(p->path);
    paste_shape(&shape);
    return OK;
}

int paste_all(struct store *store, const char *path, const char *shape_filter)
{
    struct trainer_view trainers;
    struct pasting p = {
        .store = store, .trainers = &trainers, .path = path, .shape_filter = shape_filter
    };
    int rc = trainer_view_read(store, &trainers);

    if (!rc)
        rc = store_entries(store, 0, 0, paste_entry, &p);
    trainer_view_free(&trainers);
    return rc ? rc : p.count ? OK : UNSUPPORTED;
}
