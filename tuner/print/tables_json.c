/* Prints tables as JSON. */
#include "tables.h"

#include "declaration.h"
#include "json.h"
#include "plan.h"
#include "row.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "told.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct printer {
    struct store *store;
    FILE *to;
    const struct told *told;
    int64_t cluster, shape; /* of the object that is open; 0: none */
    struct moe_shape layer; /* its shape */
    uint32_t window, entries;
};

void tables_json_standing(const struct standing_row *row, FILE *to)
{
    static const struct standing_row unknown = { .gain = GAIN_UNKNOWN,
                                                 .static_gain = GAIN_UNKNOWN };

    row_json_view(&standing_table, standing_in_show, row ? row : &unknown, to);
}

void tables_json_range(const struct moe_shape *shape, uint32_t first, uint32_t last, FILE *to)
{
    const struct declaration *d = declaration_find(shape->space);
    char class[DECLARATION_CLASS_BYTES];

    if (!d)
        return;
    fprintf(to, ", \"key_from\": %" PRIu64 ", \"key_to\": ", shape_bucket_from(shape, 1, first));
    if (last / declaration_classes(d) < d->key_edges)
        fprintf(to, "%" PRIu64, declaration_key(d, last));
    else
        fprintf(to, "null");
    fprintf(to, ", \"class\": ");
    if (d->class_edges && first == last)
        json_quote(declaration_class_range(d, first, class), to);
    else
        fprintf(to, "null");
}

static void json_pins(const struct printer *p, const struct entry_row *e)
{
    bool any = false;

    fprintf(p->to, ", \"pins\": [");
    for (size_t i = 0; i < p->told->pin_count; i++) {
        const struct override_row *pin = &p->told->pins[i];

        if (!SAME_TABLE(pin, e))
            continue;
        fprintf(p->to, "%s{\"first\": %u", any ? ", " : "", pin->first);
        tables_json_range(&p->layer, pin->first, pin->last, p->to);
        row_json_view(&override_table, "last_bucket=last plan since_s=since why", pin, p->to);
        fprintf(p->to, "}");
        any = true;
    }
    fprintf(p->to, "]");
}

static int json_block(struct printer *p, const struct entry_row *e)
{
    char why[WHY_SILENT_BYTES];
    struct cluster cluster;
    char hex[2 * HASH_BYTES + 1];
    struct standing_row row;
    int rc;

    TRY(store_cluster_get(p->store, e->cluster, &cluster));
    TRY(store_shape_get(p->store, e->shape, &p->layer));
    cluster_hex(&cluster, hex);
    fprintf(p->to, "%s{\"cluster\": \"%s\", \"device\": ", p->cluster ? "\n]},\n" : "", hex);
    json_quote(cluster.device, p->to);
    fprintf(p->to, ", \"modelled\": %s, \"shape\": \"%s\", \"window\": %u",
            backend_is_real(cluster.backend) ? "false" : "true", SHAPE_TEXT(&p->layer), e->window);
    if (cluster_has_graphs(&cluster))
        fprintf(p->to, ", \"graphs\": true");
    rc = standing_current(p->store, e->cluster, e->shape, e->window, &row);
    if (rc < 0)
        return rc;
    tables_json_standing(rc ? NULL : &row, p->to);
    TRY(told_why_silent(p->told, p->store, e, why));
    fprintf(p->to, ", \"answers\": %s", *why ? "false" : "true");
    json_pins(p, e);
    fprintf(p->to, ", \"entries\": [\n");
    p->cluster = e->cluster;
    p->shape = e->shape;
    p->window = e->window;
    p->entries = 0;
    return OK;
}

static int json_entry(void *self, const struct entry_row *e)
{
    struct printer *p = self;
    static const struct override_row none;
    const struct override_row *pin = told_pin(p->told, e);

    if (!SAME_TABLE(e, p))
        TRY(json_block(p, e));
    fprintf(p->to, "%s  {\"bucket\": %u", p->entries++ ? ",\n" : "", e->bucket);
    tables_json_range(&p->layer, e->bucket, e->bucket, p->to);
    row_json_view(&entry_table, entry_in_show, e, p->to);
    row_json_view(&override_table, "plan=pinned", pin ? pin : &none, p->to);
    fprintf(p->to, "}");
    return OK;
}

/* Whole, or not at all: half of it is no JSON. */
int tables_json(struct store *store, int64_t cluster, int64_t shape, FILE *to)
{
    char *text = NULL;
    size_t length = 0;
    struct told told;
    struct printer p = { .store = store, .to = open_memstream(&text, &length), .told = &told };
    int rc;

    if (!p.to)
        return fail(ERR_NOMEM, "a table as JSON");
    rc = told_read(store, &told);
    fprintf(p.to, "[");
    if (!rc)
        rc = store_entries(store, cluster, shape, json_entry, &p);
    fprintf(p.to, p.cluster ? "\n]}]\n" : "]\n");
    if (fclose(p.to) && !rc)
        rc = fail(ERR_NOMEM, "a table as JSON");
    if (!rc)
        fwrite(text, 1, length, to);
    free(text);
    told_free(&told);
    return rc ? rc : p.cluster ? OK : UNSUPPORTED;
}
