/* moetune status: prints how far a sweep is, as its database says. */
#include "common_rows.h"
#include "json.h"
#include "screen.h"
#include "status.h"
#include "store.h"
#include "text.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The values of the options in `rows`. */
struct options {
    const char *db;
    bool watch, json;
    double every_s;
};

static const struct option_row rows[] = {
    { "watch", NULL, OPTION_FLAG, OPTION(watch),
      "repeat until the sweep ends; on a terminal the same lines are rewritten" },
    { "every", "S", OPTION_NUMBER, OPTION(every_s), "seconds between two reports", .least = 0.1,
      .most = 86400 },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

static const struct options defaults = { .every_s = 2 };

/* A running sweep writes every few seconds; after this time it counts as silent. */
enum { SILENT_S = 60 };

static bool is_silent(const struct run_row *run)
{
    return run->state == RUN_RUNNING && difftime(time(NULL), (time_t)run->updated_s) > SILENT_S;
}

/* Prints a line, cut to the screen: a wrapped line would not be rewritten. */
static void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print_line(const char *format, ...)
{
    char line[1400];
    va_list args;

    va_start(args, format);
    text_put_list(line, sizeof(line), format, args);
    va_end(args);
    if (screen_is_terminal(stdout))
        screen_cut(line, screen_columns(stdout) - 1);
    puts(line);
}

/* Returns the seconds until the budget of the run's command ends; infinite without one. */
static double budget_left(const struct run_row *run)
{
    static const struct option_row budget_row = { "budget", "TIME", OPTION_TIME, 0, "" };
    const char *in_command = strstr(run->command, " --budget ");
    double budget_s;
    char text[32];

    if (!in_command || sscanf(in_command, " --budget %31s", text) != 1 ||
        option_set(&budget_row, text, &budget_s))
        return INFINITY;
    return fmax(0, budget_s - difftime(run->updated_s, run->started_s));
}

enum { TEXT_LINES = 3 };

static void print_text(const struct run_row *run)
{
    static const char exec_prefix[] = "tune --exec";
    double spent = difftime(run->updated_s, run->started_s);
    uint32_t done = run->buckets_done;
    char now_text[256] = "";

    if (run->state == RUN_RUNNING && done) {
        double work_s = spent / done * (run->buckets_planned - done), budget_s = budget_left(run);
        bool budget_is_first = budget_s < work_s; /* the budget ends before the work */

        snprintf(now_text, sizeof(now_text), ", %s %s left%s; %s",
                 budget_is_first ? "at most" : "about",
                 DURATION_TEXT(budget_is_first ? budget_s : work_s),
                 budget_is_first ? " (--budget)" : "", UTF8_LINE(run->now));
    } else if (run->state == RUN_RUNNING || run->state == RUN_INTERRUPTED)
        snprintf(now_text, sizeof(now_text), "; %s", UTF8_LINE(run->now));
    print_line("run %" PRId64 " %s%s: %u of %u buckets after %s%s", run->id,
               run_state_words[run->state],
               is_silent(run) ? ", but silent (was it killed? run it again)" : "", done,
               run->buckets_planned, DURATION_TEXT(spent), now_text);
    print_line("    %s %s, %" PRIu64 " steps to search, %" PRIu64 " to compare, %" PRIu64
               " to warm up",
               UTF8_LINE(run->search), UTF8_LINE(run->effort), run->samples_search,
               run->samples_default, run->samples_warm);
    /* The run of a program stores only the limits of its plans (--guard ...), not the command. */
    if (!strncmp(run->command, exec_prefix, strlen(exec_prefix)))
        print_line("    of a program's own knobs;%s",
                   UTF8_LINE(run->command) + strlen(exec_prefix));
    else
        print_line("    %s", UTF8_LINE(run->command));
}

static void print_json(const struct run_row *run)
{
    json_write(stdout, "{'run': %" PRId64 ", 'state': '%s', 'silent': %s", run->id,
               run_state_words[run->state], is_silent(run) ? "true" : "false");
    row_json_view(&run_table,
                  "started_s=started updated_s=updated buckets_done buckets_planned"
                  " samples_search=search_steps samples_default=contest_steps"
                  " samples_warm=warm_steps search effort now command",
                  run, stdout);
    printf("}\n");
}

static int print_once(const char *path, const struct options *o, bool *running)
{
    const struct run_row *newest;
    struct row_list runs;
    struct store *store;
    int rc;

    TRY(store_read(path, &store));
    rc = store_runs(store, &runs);
    store_close(store);
    if (rc)
        return rc;
    newest = runs.rows;
    if (!newest) {
        note("%s: no sweep has run", path);
        return UNSUPPORTED;
    }
    (o->json ? print_json : print_text)(newest);
    fflush(stdout);
    *running = newest->state == RUN_RUNNING && !is_silent(newest);
    free(runs.rows);
    return OK;
}

static int verb_status(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    bool running = false;
    char path[PATH_MAX];

    (void)call;
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    do {
        TRY(print_once(path, o, &running));
        if (!o->watch || !running)
            break;
        usleep((useconds_t)(o->every_s * 1e6));
        if (!o->json && screen_is_terminal(stdout))
            screen_back(TEXT_LINES, stdout);
    } while (true);
    return OK;
}

const struct verb status_verb = {
    .name = "status",
    .summary = "print how far a running sweep is, from another terminal",
    .about = "Prints how far the last sweep of a database is. Changes nothing.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "status --watch",
    .run = verb_status,
};
