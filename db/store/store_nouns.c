/* Clusters, layers and loads in the database: the things to which entries and samples refer. Also
 * the log of imported tables. In SQL a cluster is called fingerprint. The functions that look for a
 * row return UNSUPPORTED if there is none, and a negative status after an error. */
#include "store_inside.h"

#include "declaration.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Clusters and layers. */

static int find_cluster(struct store *store, const struct cluster *cluster,
                        char hex[SHA256_HEX_BYTES], int64_t *id)
{
    cluster_hex(cluster, hex);
    return records_find_text(&store->records, "SELECT id FROM fingerprint WHERE hash=?1", hex, id);
}

/* The ids of a cluster's fields follow from its own id. */
enum { FIELD_NUMBERS = 64 };

static int put_cluster(struct store *store, const struct cluster *cluster, const char *hex,
                       int64_t id, bool here)
{
    char text[CLUSTER_TEXT_BYTES];

    assert(cluster_field_count <= FIELD_NUMBERS);
    if (id < 0 || id > INT64_MAX / FIELD_NUMBERS - 1)
        return fail(ERR_CORRUPT, "%s: too many clusters (%lld)", store->path, (long long)id);
    cluster_format(cluster, text, sizeof(text));
    TRY(PUT(store, "fingerprint", INTEGER("id", id), TEXT("hash", hex), TEXT("text", text),
            INTEGER("created_s", time(NULL)), INTEGER("here", here)));
    for (size_t i = 0; i < cluster_field_count; i++)
        TRY(PUT(store, "fingerprint_field", INTEGER("id", id * FIELD_NUMBERS + (int64_t)i),
                INTEGER("fingerprint", id), TEXT("name", cluster_fields[i].name),
                TEXT("class", cluster_class_words[cluster_fields[i].class]),
                TEXT("value", CLUSTER_VALUE(cluster, &cluster_fields[i]))));
    return OK;
}

int store_cluster_is_here(struct store *store, int64_t id, bool *here)
{
    sqlite3_stmt *statement;

    TRY(records_query(&store->records, "SELECT here FROM fingerprint WHERE id=?1", &id, 1,
                      &statement));
    TRY(records_step(&store->records, statement));
    *here = sqlite3_column_int(statement, 0) != 0;
    sqlite3_reset(statement);
    return OK;
}

int store_cluster_find(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES];

    return find_cluster(store, cluster, hex, id);
}

int store_cluster_add(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES];
    int rc = find_cluster(store, cluster, hex, id);
    bool here = true;

    if (rc == OK)
        TRY(store_cluster_is_here(store, *id, &here));
    if (rc < 0 || (rc == OK && here))
        return rc;
    if (rc == UNSUPPORTED)
        TRY(records_next_id(&store->records, "fingerprint", id));
    return put_cluster(store, cluster, hex, *id, true);
}

int store_cluster_elsewhere(struct store *store, const struct cluster *cluster, int64_t *id)
{
    char hex[SHA256_HEX_BYTES], known_text[CLUSTER_TEXT_BYTES], new_text[CLUSTER_TEXT_BYTES];
    int rc = find_cluster(store, cluster, hex, id);
    struct cluster known;
    bool here;

    if (rc < 0)
        return rc;
    if (rc == OK) {
        TRY(store_cluster_is_here(store, *id, &here));
        TRY(store_cluster_get(store, *id, &known));
        cluster_format(&known, known_text, sizeof(known_text));
        cluster_format(cluster, new_text, sizeof(new_text));
        /* Keeps the same text whatever the order of imports. */
        if (here || strcmp(new_text, known_text) <= 0)
            return OK;
    } else {
        TRY(records_next_id(&store->records, "fingerprint", id));
    }
    return put_cluster(store, cluster, hex, *id, false);
}

int store_cluster_renew(struct store *store, int64_t id, const struct cluster *cluster)
{
    char hex[SHA256_HEX_BYTES];

    cluster_hex(cluster, hex);
    return put_cluster(store, cluster, hex, id, true);
}

int store_cluster_model(struct store *store, const struct cluster *cluster, int64_t *id)
{
    struct cluster known;
    int rc;

    if (!backend_is_real(cluster->backend))
        return fail(ERR_ARGUMENT,
                    "%s: the backend is %s, and only real clusters have measured numbers",
                    cluster->name, cluster->backend);
    rc = store_cluster_find(store, cluster, id);
    if (rc == UNSUPPORTED)
        return store_cluster_add(store, cluster, id);
    TRY(rc);
    TRY(store_cluster_get(store, *id, &known));
    cluster_take_model(&known, cluster);
    return store_cluster_renew(store, *id, &known);
}

static int find_shape(struct store *store, const char *text, int64_t *id)
{
    return records_find_text(&store->records, "SELECT id FROM shape WHERE text=?1", text, id);
}

int store_shape_add(struct store *store, const struct moe_shape *shape, int64_t *id)
{
    const char *text = SHAPE_TEXT(shape);
    const struct declaration *d = declaration_find(shape->space);
    int rc = find_shape(store, text, id);

    if (rc != UNSUPPORTED)
        return rc;
    if (shape->space && !d)
        return fail(ERR_ARGUMENT, "a layer names the space %u, which is not declared here",
                    shape->space);
    if (d)
        TRY(PUT(store, "space", INTEGER("id", d->id), TEXT("text", d->text)));
    TRY(records_next_id(&store->records, "shape", id));
    return PUT(store, "shape", INTEGER("id", *id), TEXT("text", text));
}

int store_find(struct store *store, const struct cluster *cluster, const struct moe_shape *shape,
               int64_t *cluster_id, int64_t *shape_id)
{
    TRY(store_cluster_find(store, cluster, cluster_id));
    return find_shape(store, SHAPE_TEXT(shape), shape_id);
}

static int get_text(struct store *store, const char *sql, int64_t id, char *text, size_t size)
{
    sqlite3_stmt *statement;
    int rc;

    TRY(records_query(&store->records, sql, &id, 1, &statement));
    rc = records_step(&store->records, statement);
    if (rc)
        return rc == UNSUPPORTED
                   ? fail(ERR_FORMAT, "%s: a row refers to a row that does not exist", store->path)
                   : rc;
    if (!text_put(text, size, "%s", (const char *)sqlite3_column_text(statement, 0)))
        rc = fail(ERR_CORRUPT, "%s: a text of more than %zu letters", store->path, size - 1);
    sqlite3_reset(statement);
    return rc;
}

int store_cluster_get(struct store *store, int64_t id, struct cluster *out)
{
    char text[CLUSTER_TEXT_BYTES];

    TRY(get_text(store, "SELECT text FROM fingerprint WHERE id=?1", id, text, sizeof(text)));
    return cluster_parse(text, store->path, out);
}

int store_cluster_count(struct store *store, int64_t *count)
{
    sqlite3_stmt *statement;

    TRY(records_query(&store->records, "SELECT count(*) FROM fingerprint", NULL, 0, &statement));
    TRY(records_step(&store->records, statement));
    *count = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return OK;
}

int store_shape_get(struct store *store, int64_t id, struct moe_shape *out)
{
    struct moe_shape shape = { .struct_size = sizeof(shape) };
    char text[SHAPE_TEXT_BYTES];

    TRY(get_text(store, "SELECT text FROM shape WHERE id=?1", id, text, sizeof(text)));
    TRY(shape_parse(text, &shape));
    *out = shape;
    return OK;
}

enum { ELSEWHERE_MAX = 4096 };

int store_clusters_elsewhere(struct store *store,
                             int (*each)(void *self, const struct cluster *cluster), void *self)
{
    const int64_t limit = ELSEWHERE_MAX;
    int64_t *ids = malloc(ELSEWHERE_MAX * sizeof(*ids));
    struct cluster cluster;
    sqlite3_stmt *statement;
    int count = 0, rc = ids ? OK : fail(ERR_NOMEM, "%d clusters", ELSEWHERE_MAX);

    if (!rc)
        rc = records_query(&store->records,
                           "SELECT id FROM fingerprint WHERE here = 0 ORDER BY id LIMIT ?1", &limit,
                           1, &statement);
    while (!rc && !(rc = records_step(&store->records, statement)))
        ids[count++] = sqlite3_column_int64(statement, 0);
    rc = rc == UNSUPPORTED ? OK : rc;
    for (int i = 0; i < count && !rc; i++) {
        rc = store_cluster_get(store, ids[i], &cluster);
        if (!rc)
            rc = each(self, &cluster);
    }
    free(ids);
    return rc;
}

/* ---- Loads. */

int store_load(struct store *store, const char *name, const char *text)
{
    return PUT(store, "load", TEXT("name", name), TEXT("text", text));
}

int store_load_get(struct store *store, const char *name, char *text, size_t size)
{
    sqlite3_stmt *statement;
    int rc = OK;

    TRY(records_query(&store->records, "SELECT text FROM load WHERE name=?1", NULL, 0, &statement));
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT);
    TRY(records_step(&store->records, statement));
    if (!text_put(text, size, "%s", (const char *)sqlite3_column_text(statement, 0)))
        rc = fail(ERR_CORRUPT, "%s: the load %s has more than %zu letters", store->path, name,
                  size - 1);
    sqlite3_reset(statement);
    return rc;
}

/* ---- Imports. */

int store_import_add(struct store *store, const struct import_row *row)
{
    int64_t id;

    TRY(records_next_id(&store->records, "import_log", &id));
    return PUT(store, "import_log", INTEGER("id", id), TEXT("sha256", row->sha256),
               TEXT("file", row->file), INTEGER("imported_s", time(NULL)),
               INTEGER("added", row->added), INTEGER("same", row->same),
               INTEGER("conflicts", row->conflicts));
}

int store_import_known(struct store *store, const char *sha256, bool *known)
{
    int64_t id;
    int rc = records_find_text(&store->records, "SELECT id FROM import_log WHERE sha256=?1", sha256,
                               &id);

    *known = rc == OK;
    return rc < 0 ? rc : OK;
}
