/* Tests recorded steps on real ranks, with random files, dtypes and routers.  In each step the gate
 * chooses what the file counts, for each expert and over all ranks, and a plan gives what the plain
 * reference gives.  Started by mpirun, or alone. */
#include "load.h"
#include "option.h"
#include "random.h"
#include "rig.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 5, EXPERTS_MOST = 16, WINDOW = 8 };

static struct {
    struct world *world;
    struct engine engine;
    uint64_t seed;
    int passed, failed;
} all;

static void count(const char *what, bool right)
{
    int64_t wrong = !right;

    if (world_max(all.world, &wrong, 1))
        wrong = 1;
    all.passed += !wrong;
    all.failed += wrong != 0;
    if (wrong && world_topology(all.world)->rank == 0)
        printf("  FAILED seed %llu: %s\n", (unsigned long long)all.seed, what);
}

/* W k T choices, token by token: none chooses an expert twice. */
static void choose(const struct moe_shape *s, uint64_t key, uint64_t *counts)
{
    uint32_t hot = random_below(key, 1, s->experts);

    memset(counts, 0, EXPERTS_MOST * sizeof(*counts));
    for (uint64_t t = 0; t < (uint64_t)s->ranks * s->tokens; t++) {
        uint32_t first =
            random_below(key, 10 + t, 2) ? hot : random_below(key, 1000000 + t, s->experts);

        for (uint32_t j = 0; j < s->top_k; j++)
            counts[(first + j) % s->experts]++;
    }
}

/* On every rank, as every host reads the file. */
static int write_file(const struct moe_shape *s, uint64_t counts[STEPS][EXPERTS_MOST], char *path)
{
    int fd = mkstemp(path);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");

    if (!to)
        return fail(ERR_IO, "%s", path);
    for (int i = 0; i < STEPS; i++) {
        choose(s, all.seed * 100 + (uint64_t)i, counts[i]);
        fprintf(to, "{\"ranks\": %u, \"tokens\": %u, \"counts\": [", s->ranks, s->tokens);
        for (uint32_t e = 0; e < s->experts; e++)
            fprintf(to, "%s%llu", e ? ", " : "", (unsigned long long)counts[i][e]);
        fprintf(to, "]}\n");
    }
    return fclose(to) ? ERR_IO : OK;
}

/* Which of the file's steps the load's step is; STEPS: none. */
static int file_step(const struct load *load, uint32_t step, uint32_t experts,
                     uint64_t counts[STEPS][EXPERTS_MOST])
{
    int i = 0;

    for (bool same = false; i < STEPS; i++) {
        same = true;
        for (uint32_t e = 0; e < experts; e++)
            same &= replay_count(load->replay, step, e) == counts[i][e];
        if (same)
            break;
    }
    return i;
}

/* What the router of a step really chose, over all ranks. */
static bool arrives(struct rig *rig, struct exec *exec, const uint64_t *counts)
{
    uint32_t experts = rig->data.shape.experts;
    size_t n = (size_t)rig->layer->tokens * rig->data.shape.top_k;
    int32_t *chosen = calloc(n + 1, sizeof(*chosen));
    int64_t got[EXPERTS_MOST] = { 0 };
    bool right =
        chosen && !rig_step(rig, exec) &&
        !device_download(rig->engine->device, chosen, exec->router.expert, n * sizeof(*chosen));

    for (size_t i = 0; i < n && right; i++)
        got[chosen[i]]++;
    free(chosen);
    if (world_sum(all.world, got, experts))
        return false;
    for (uint32_t e = 0; e < experts; e++)
        right &= (uint64_t)got[e] == counts[e];
    return right;
}

static void run_steps(struct rig *rig, const struct load *load,
                      uint64_t counts[STEPS][EXPERTS_MOST])
{
    struct moe_plan plan = plan_default(&rig->data.shape);
    struct exec *exec = NULL;
    double error;

    count("no executor", !rig_exec(rig, &plan, &exec));
    for (uint32_t step = 0; step < load_step_count(load); step++) {
        int from = file_step(load, step, rig->data.shape.experts, counts);

        count("a step that the file does not have", from < STEPS);
        count("no step", !rig_replay(rig, step));
        count("other counts than the file's", from < STEPS && arrives(rig, exec, counts[from]));
        count("other results than the reference's", !rig_check(rig, exec, &error));
    }
    for (int i = 0; i < 2; i++) { /* after another step, too */
        count("no nonsense", !rig_overwrite_results(rig) && rig->data.replayed == 0 && !rig_step(rig, exec));
        count("other results of some tokens", !rig_check_some(rig, exec, &error));
        count("no step", !rig_replay(rig, load_step_count(load) - 1));
    }
    exec_close(exec);
}

static struct moe_shape draw_shape(uint32_t ranks)
{
    uint32_t k = 1 + random_below(all.seed, 1, 2);
    struct moe_shape s = { .struct_size = sizeof(s),
                           .experts = 4 << random_below(all.seed, 2, 2),
                           .top_k = k,
                           .hidden_dim = 8,
                           .tokens = 5 + random_below(all.seed, 3, 30),
                           .ranks = ranks,
                           .ranks_per_node = ranks,
                           .dtype = random_below(all.seed, 4, 3),
                           .pass = MOE_TRAIN };

    s.model_dim = s.experts * (2 + random_below(all.seed, 5, 5));
    if (random_below(all.seed, 6, 3) == 0) {
        s.router = MOE_ROUTER_COSINE;
        s.projection = s.experts + random_below(all.seed, 7, s.experts);
    }
    return s;
}

static void run_file(uint32_t ranks)
{
    struct moe_shape shape = draw_shape(ranks);
    struct data data = { .shape = shape, .seed = all.seed };
    uint64_t counts[STEPS][EXPERTS_MOST];
    char path[] = "/tmp/moetune-replayed-XXXXXX";
    struct option_list files = { .items = { path }, .count = 1 };
    struct load *load = NULL, *again = NULL;
    char text[LOAD_TEXT_BYTES] = "", name[LOAD_NAME_BYTES], its[LOAD_NAME_BYTES];
    struct rig *rig = NULL;

    count("no file", !write_file(&shape, counts, path));
    count("no load", !load_open_routing(&shape, WINDOW, all.seed, &files, &load));
    unlink(path);
    count("no several steps", load && load->replay && load_step_count(load) > 1);
    if (!load || !load->replay)
        return;
    load_name(load, name);
    count("no text", !load_text(load, text) && !load_open_text(&shape, all.seed, text, &again));
    load_name(again, its);
    count("another name", !strcmp(name, its));
    data.load = again; /* as ranks make it */
    if (!rig_open(all.world, &all.engine, &data, NULL, 0, &rig))
        run_steps(rig, load, counts);
    else
        count("no rig", false);
    rig_close(rig);
    load_close(load);
    load_close(again);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("MOETUNE_TEST_SEED");
    uint64_t first;

    if (world_open(0, 0, &all.world) ||
        engine_open(all.world, option(argc, argv, "--device", "host"),
                    option(argc, argv, "--wire", NULL), &all.engine))
        return 1;
    first = seed ? strtoull(seed, NULL, 10) : 1;
    for (all.seed = first; all.seed < first + 12; all.seed++)
        run_file((uint32_t)world_topology(all.world)->ranks);
    if (world_topology(all.world)->rank == 0)
        printf("%d passed, %d failed\n", all.passed, all.failed);
    engine_close(&all.engine);
    world_close(all.world);
    return all.failed ? 1 : 0;
}
