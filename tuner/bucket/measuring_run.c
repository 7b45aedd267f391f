/* Writes the row of a run, and decides when to commit and publish: often enough that little can be
 * lost, and seldom enough that it costs little time. */
#include "measuring_run.h"

#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the machine that it runs on */

static void note_changes(const struct cluster *known, const struct cluster *now)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const char *was = CLUSTER_VALUE(known, &cluster_fields[i]);
        const char *is = CLUSTER_VALUE(now, &cluster_fields[i]);

        if (cluster_fields[i].class == CLUSTER_SOFT && strcmp(was, is) != 0)
            note("%s was \"%s\" and is \"%s\": entries are stale until they are measured again",
                 cluster_fields[i].name, was, is);
    }
}

/* If the driver, a library or the environment has changed, all entries become stale.  Results of
 * `probe` stay: a search only starts from them. */
int recognise(struct store *store, struct cluster *cluster, int64_t *id)
{
    struct cluster known;

    TRY(store_cluster_add(store, cluster, id));
    TRY(store_cluster_get(store, *id, &known));
    if (strcmp(cluster->backend, "sim") != 0)
        cluster_take_model(cluster, &known);
    if (cluster_same_soft(&known, cluster))
        return OK;
    note_changes(&known, cluster);
    TRY(store_expire(store, *id, 0, 0, 0, UINT32_MAX, "the machine changed"));
    return store_cluster_renew(store, *id, cluster);
}

/* ---- its row */

int run_begin(struct run *run, int64_t cluster, uint64_t seed, const char *search,
              const char *effort, const char *command)
{
    struct run_row *row = &run->row;

    row->cluster = cluster;
    row->state = RUN_RUNNING;
    row->started_s = time(NULL);
    row->seed = seed;
    snprintf(row->search, sizeof(row->search), "%s", search);
    snprintf(row->effort, sizeof(row->effort), "%s", effort);
    snprintf(row->command, sizeof(row->command), "%s", command);
    snprintf(row->version, sizeof(row->version), "%s", MOETUNE_VERSION);
    TRY(store_run_begin(run->store, row));
    return store_commit(run->store);
}

int run_first(struct store *store, int64_t cluster, const char *command, bool unfinished,
              int64_t *first)
{
    struct row_list runs;

    *first = INT64_MAX;
    TRY(store_runs(store, &runs));
    EACH_ROW (run_row, r, runs) { /* the latest first */
        if (r->cluster != cluster)
            continue;
        if (strcmp(r->command, command) != 0 || (unfinished && r->state == RUN_COMPLETE))
            break;
        *first = r->id;
    }
    free(runs.rows);
    return OK;
}

int run_write(struct run *run)
{
    TRY(store_run_update(run->store, &run->row));
    return store_commit(run->store);
}

/* ---- durability */

int run_stay_alive(struct run *run, double now_us)
{
    if (now_us - run->alive_us < run->pace.alive_every_us)
        return UNSUPPORTED;
    run->alive_us = now_us;
    return store_heartbeat(run->store);
}

int run_commit(struct run *run, double now_us)
{
    const struct run_pace *pace = &run->pace;
    double since_us = now_us - run->committed_us;

    if (since_us < pace->commit_every_us ||
        (since_us < pace->commit_at_last_us && pace->commit_share * since_us < run->commit_took_us))
        return OK;
    TRY(store_commit(run->store));
    run->committed_us = run->now_us(run->self);
    run->commit_took_us = run->committed_us - now_us;
    return OK;
}

int run_publish(struct run *run, double now_us, bool at_once)
{
    bool too_soon = run->published_us > 0 &&
                    run->pace.publish_share * (now_us - run->published_us) < run->publish_took_us;

    if (!at_once && (!run->unpublished || too_soon))
        return OK;
    TRY(store_run_update(run->store, &run->row));
    TRY(store_publish(run->store));
    run->unpublished = false;
    run->committed_us = run->published_us = run->now_us(run->self);
    run->publish_took_us = run->published_us - now_us;
    return OK;
}

int run_end(struct run *run, int rc, const char *now, bool publish)
{
    struct run_row *row = &run->row;

    row->state = !rc ? RUN_COMPLETE : rc == ERR_CUT ? RUN_INTERRUPTED : RUN_FAILED;
    snprintf(row->now, sizeof(row->now), "%s", now ? now : run_state_words[row->state]);
    TRY(store_run_update(run->store, row));
    return publish ? store_publish(run->store) : OK;
}
