/* moetune fingerprint: prints the description of this cluster, and the hash that tables belong to.
 */
#include "common_rows.h"
#include "discover.h"
#include "json.h"
#include "known.h"
#include "place.h"
#include "sha256.h"
#include "status.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

/* The values of the options in `rows`. */
struct options {
    struct place_setup where;
    const char *diff, *file, *db;
    bool json;
};

static const struct option_row rows[] = {
    { .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    { "diff", "FILE", OPTION_TEXT, OPTION(diff), "compare with a saved output of this verb" },
    { "file", "FILE", OPTION_TEXT, OPTION(file), "use a saved output instead of this machine" },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

static const struct options defaults = { .where = PLACE_DEFAULTS };

static const char *value_in_words(const struct cluster *cluster, const struct cluster_field *field,
                                  char buffer[CLUSTER_VALUE_BYTES])
{
    if (field->offset == offsetof(struct cluster, ranks_per_node) && !cluster->ranks_per_node)
        return "different ones";
    if (field->offset == offsetof(struct cluster, ranks_per_rack) && !cluster->ranks_per_rack)
        return "none";
    return cluster_value(cluster, field, buffer, CLUSTER_VALUE_BYTES);
}

/* Prints the fields that differ.  Two kinds do not count: every probe measures the model's numbers
 * anew, and host names change. */
static int print_difference(const struct cluster *old_cluster, const struct cluster *new_cluster)
{
    int differing[] = { [CLUSTER_HARD] = 0, [CLUSTER_SOFT] = 0, [CLUSTER_INFO] = 0 };

    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *field = &cluster_fields[i];
        const char *class_word = cluster_class_words[field->class];
        char old_buffer[CLUSTER_VALUE_BYTES], new_buffer[CLUSTER_VALUE_BYTES];
        const char *old_value, *new_value;

        if (field->class == CLUSTER_MODEL)
            continue;
        old_value = value_in_words(old_cluster, field, old_buffer);
        new_value = value_in_words(new_cluster, field, new_buffer);
        if (strcmp(old_value, new_value) != 0)
            printf("%-5s %-16s was \"%s\", is \"%s\"\n", class_word, field->name, old_value,
                   new_value);
        /* An unknown hard field may have any value, so two unknown ones are not equal. */
        else if (field->class == CLUSTER_HARD && !strcmp(new_value, "unknown"))
            printf("%-5s %-16s is unknown, as it was: that is not the same\n", class_word,
                   field->name);
        else
            continue;
        differing[field->class]++;
    }
    if (differing[CLUSTER_HARD])
        printf("another cluster: a table of one does not answer for the other\n");
    else if (differing[CLUSTER_SOFT])
        printf("the same machine, changed: entries are stale until they are measured again\n");
    else
        printf("the same cluster\n");
    return differing[CLUSTER_HARD] + differing[CLUSTER_SOFT] ? ERR_WRONG : OK;
}

static int print_cluster(const struct options *o, const struct cluster *cluster,
                         const struct discovery *discovery)
{
    char text[CLUSTER_TEXT_BYTES], hash[SHA256_HEX_BYTES];
    struct cluster saved;

    if (o->diff) {
        TRY(cluster_read(o->diff, &saved));
        return print_difference(&saved, cluster);
    }
    cluster_hex(cluster, hash);
    if (o->json) {
        json_write(stdout, "{'fingerprint': '%s'", hash);
        for (size_t i = 0; i < cluster_field_count; i++)
            json_write(stdout, ",\n '%s': '%s'", cluster_fields[i].name,
                       CLUSTER_VALUE(cluster, &cluster_fields[i]));
        printf("}\n");
        return OK;
    }
    cluster_format(cluster, text, sizeof(text));
    printf("# fingerprint %s\n", hash);
    if (discovery)
        discovery_print_hosts(discovery, stdout);
    printf("%s", text);
    return OK;
}

/* Adds what a probe stored of this cluster, except the free memory, which is known better now. */
static void add_measured(const char *db, struct cluster *cluster)
{
    struct store *store = known_open(db, 0);
    struct cluster stored;

    if (known_cluster_read(store, cluster, &stored)) {
        stored.memory_gib = cluster->memory_gib;
        cluster_take_model(cluster, &stored);
    }
    store_close(store);
}

static int on_rank(struct world *world, const void *options)
{
    const struct options *o = options;
    struct discovery discovery;
    int rc = OK;

    TRY(discover(world, o->where.device, o->where.ranks_per_node, &discovery));
    if (world_topology(world)->rank == 0) {
        rc = discovery_check(&discovery);
        add_measured(o->db, &discovery.cluster);
        if (!rc)
            rc = print_cluster(o, &discovery.cluster, &discovery);
    }
    fflush(stdout);
    discovery_free(&discovery);
    return world_settle(world, rc);
}

static int verb_fingerprint(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct cluster saved;

    if (o->file && call->count)
        return fail(ERR_ARGUMENT, "hosts and --file: give one of the two");
    if (o->file) {
        TRY(cluster_read(o->file, &saved));
        return print_cluster(o, &saved, NULL);
    }
    return place_run(&o->where, call, &(struct place_verb){ .on_rank = on_rank, .options = o });
}

const struct verb fingerprint_verb = {
    .name = "fingerprint",
    .summary = "describe this cluster: hosts, links, libraries",
    .arguments = "[HOSTS]",
    .most = 1,
    .about = "Asks every rank what its host is, and prints the cluster and its hash. HOSTS is a "
             "file, or a list as \"a:8,b:8\". Each table belongs to one hash. If a hard field "
             "differs, the hash differs. If a soft field differs, entries become stale. The output "
             "also has what `moetune probe` stored in the database.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 3: --diff found a hard or soft field that differs.",
    .example = "fingerprint >a.txt; moetune fingerprint --diff a.txt",
    .run = verb_fingerprint,
};
