/* moetune fingerprint: what this cluster is, as the text that tables belong to. */
#include "discover.h"
#include "json.h"
#include "launch.h"
#include "options.h"
#include "sha256.h"
#include "status.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

struct fingerprint_options {
    uint32_t ranks, ranks_per_node;
    const char *diff, *launcher_arguments;
    bool json;
};

#define AT(field) offsetof(struct fingerprint_options, field)
static const struct option_row rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks to start (4, or what HOSTS have room for)",
      NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "pretend that nodes hold M ranks",
      NULL },
    { "launcher-args", "ARGS", OPTION_TEXT, AT(launcher_arguments),
      "more words for mpirun, blanks between", NULL },
    { "diff", "FILE", OPTION_TEXT, AT(diff), "compare with a text that was saved before", NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "one JSON object", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
    static const struct fingerprint_options defaults = { 0 };

    printf(
        "usage: moetune fingerprint [HOSTS] [options]\n\n"
        "Asks every rank what its host is.  HOSTS: a file, or \"a:8,b:8\".  Tables belong to the "
        "hash: hard\nfields make another one, soft fields make entries stale.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexit code 3: --diff found a hard or soft field that differs\n"
           "example: moetune fingerprint > cluster.txt; moetune fingerprint --diff cluster.txt\n");
}

static void hash_text(const struct cluster *cluster, char hex[SHA256_HEX_BYTES])
{
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
}

static void print_text(const struct discovery *d)
{
    char text[CLUSTER_TEXT_BYTES], hash[SHA256_HEX_BYTES];

    hash_text(&d->cluster, hash);
    cluster_format(&d->cluster, text, sizeof(text));
    printf("# fingerprint %s\n", hash);
    discovery_print_hosts(d, stdout);
    printf("%s", text);
}

static void print_json(const struct discovery *d)
{
    char value[1100], hash[SHA256_HEX_BYTES];

    hash_text(&d->cluster, hash);
    printf("{\"fingerprint\": \"%s\"", hash);
    for (size_t i = 0; i < cluster_field_count; i++) {
        cluster_value(&d->cluster, &cluster_fields[i], value, sizeof(value));
        printf(",\n \"%s\": ", cluster_fields[i].name);
        json_quote(value, stdout);
    }
    printf("}\n");
}

/* Model numbers are measured anew by every probe, host names change: neither counts. */
static int print_difference(const struct discovery *d, const char *path)
{
    struct cluster saved;
    char was[1100], is[1100];
    int differences = 0;

    TRY(cluster_read(path, &saved));
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];

        cluster_value(&saved, f, was, sizeof(was));
        cluster_value(&d->cluster, f, is, sizeof(is));
        if (f->class == CLUSTER_MODEL || !strcmp(was, is))
            continue;
        printf("%-5s %-16s was \"%s\", is \"%s\"\n", cluster_class_words[f->class], f->name, was,
               is);
        differences += f->class != CLUSTER_INFO;
    }
    if (!differences)
        printf("the same cluster\n");
    return differences ? ERR_WRONG : OK;
}

static int on_rank(struct world *world, const struct fingerprint_options *o)
{
    struct discovery d;
    int rc = OK;

    TRY(discover(world, o->ranks_per_node, &d));
    if (world_topology(world)->rank == 0) {
        rc = discovery_check(&d);
        if (!rc && o->diff)
            rc = print_difference(&d, o->diff);
        else if (!rc)
            o->json ? print_json(&d) : print_text(&d);
    }
    fflush(stdout);
    discovery_free(&d);
    return world_settle(world, rc);
}

int fingerprint_main(int argc, char **argv)
{
    struct fingerprint_options o = { 0 };
    struct world *world;
    bool help = false;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc - 1)
        return fail(ERR_ARGUMENT, "fingerprint takes no argument \"%s\"", argv[first + 1]);
    if (!launch_is_rank())
        return launch_verb(first < argc ? argv[first] : NULL, o.ranks, o.launcher_arguments,
                           argv - 1);
    TRY(world_open((int)o.ranks_per_node, &world));
    rc = on_rank(world, &o);
    world_close(world);
    return rc;
}
