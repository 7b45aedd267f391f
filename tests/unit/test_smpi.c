/* Compares modelled exchanges with those of SimGrid's SMPI, which tests/program/test_smpi collects
 * in the file that is the one argument. */
#include "small_cluster.h"

#include "a2a.h"
#include "engine.h"
#include "gather.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

/* One line of tests/smpi/exchanges.c. */
struct cell {
    uint32_t ranks;
    double message_us;
    char kind[16];
    size_t bytes;
    double smpi_ns, ns;
};

enum { CELLS_MOST = 1000 };
static struct cell cells[CELLS_MOST];
static int count;

/* tests/smpi/platform has the same numbers.  Copies take no time there. */
static struct cluster platform(const struct cell *cell)
{
    struct cluster c = small();

    c.latency_inside_us = 15;
    c.latency_between_us = 25;
    c.message_inside_us = c.message_between_us = cell->message_us;
    c.bandwidth_inside_gbs = 200;
    c.bandwidth_between_gbs = 24;
    c.memory_gbs = 1e9;
    c.launch_us = 0;
    c.ranks = cell->ranks;
    c.ranks_per_node = 8;
    c.nodes = c.ranks / c.ranks_per_node;
    /* A step of eight rings waits for the longest way. */
    if (!strcmp(cell->kind, "gather"))
        c.ring_step_us = c.latency_between_us + 8 * cell->message_us;
    return c;
}

static void queue_gather(struct engine *engine, const struct cell *cell)
{
    static char slice[1], whole[1];
    struct batch batch = { 0 };

    CHECK(!gather_add(&batch, engine->wire, (struct group){ 0, (int)cell->ranks }, slice, whole,
                      cell->bytes / cell->ranks));
    CHECK(!wire_exchange(engine->wire, engine->comm, &batch));
    batch_free(&batch);
}

static void queue_a2a(struct engine *engine, const struct cell *cell)
{
    static char send[1], recv[1], scratch[1];
    struct a2a_call call = { .wire = engine->wire,
                             .dtype = MOE_F32,
                             .block = cell->bytes / cell->ranks / sizeof(float),
                             .send = send,
                             .recv = recv,
                             .scratch = scratch };
    struct a2a *a2a = NULL;

    CHECK(!a2a_open(strcmp(cell->kind, "2dh") ? MOE_A2A_LINEAR : MOE_A2A_2DH, &call, &a2a));
    CHECK(!a2a_run(a2a, engine->comm));
    a2a_close(a2a);
}

static bool is_gather(const struct cell *cell)
{
    return !strcmp(cell->kind, "gather");
}

static double modelled_ns(const struct cell *cell)
{
    struct cluster c = platform(cell);
    struct engine engine = { 0 };
    struct device *device = NULL;
    struct wire *wire = NULL;
    double ns;

    CHECK(!wire_sim_model_open(&c, 0, &wire));
    CHECK(!sim_model_open(&c, 0, &device));
    CHECK(!engine_open_on(device, wire, &engine));
    (is_gather(cell) ? queue_gather : queue_a2a)(&engine, cell);
    CHECK(!engine_sync(&engine));
    ns = (double)device_now_ns(engine.device);
    engine_close(&engine);
    return ns;
}

static bool verbose(void)
{
    return getenv("MOETUNE_TEST_VERBOSE") != NULL;
}

/* Says which cells are farther off than `limit`, and how many there are. */
static int count_off(bool gathers, double limit, int *all)
{
    int off = 0;

    *all = 0;
    for (int i = 0; i < count; i++) {
        const struct cell *c = &cells[i];
        bool far = fabs(c->ns / c->smpi_ns - 1) > limit;

        if (is_gather(c) != gathers)
            continue;
        (*all)++;
        off += far;
        if (far || verbose())
            printf("  %u ranks, %g us, %s of %zu bytes: %.0f us, SMPI %.0f (%.1f %%)\n", c->ranks,
                   c->message_us, c->kind, c->bytes, c->ns * 1e-3, c->smpi_ns * 1e-3,
                   100 * (c->ns / c->smpi_ns - 1));
    }
    return off;
}

static void gathers_take_as_long_as_smpi_says(void)
{
    int all;

    CHECK(count_off(true, 0.1, &all) == 0 && all >= 36);
}

/* Up to 11 % are missed, where a port idles more than we say: SMPI shares the ports of receivers
 * among all that send to them, and for a while many send to one. */
static void wires_take_as_long_as_smpi_says(void)
{
    int all;

    CHECK(count_off(false, 0.15, &all) == 0 && all >= 90);
}

/* Where one of the two is 2 % ahead. */
static void who_wins_is_the_same(void)
{
    int compared = 0, same = 0;

    for (int i = 0; i + 1 < count; i++) {
        const struct cell *linear = &cells[i], *staged = &cells[i + 1];

        if (strcmp(linear->kind, "linear") || strcmp(staged->kind, "2dh") ||
            !(linear->message_us > 0) || fabs(linear->smpi_ns / staged->smpi_ns - 1) < 0.02)
            continue;
        compared++;
        same += (linear->ns < staged->ns) == (linear->smpi_ns < staged->smpi_ns);
    }
    if (verbose())
        printf("  the same winner in %d of %d\n", same, compared);
    CHECK(compared >= 26 && same >= 0.98 * compared);
}

/* A library gathers by the faster of both ways. */
static void take_cell(struct cell *c)
{
    bool levels = !strcmp(c->kind, "levels"), rings = !strcmp(c->kind, "rings");

    if (rings && count && is_gather(&cells[count - 1])) {
        cells[count - 1].smpi_ns = fmin(cells[count - 1].smpi_ns, c->smpi_ns);
        return;
    }
    if (levels)
        snprintf(c->kind, sizeof(c->kind), "gather");
    c->ns = modelled_ns(c);
    cells[count++] = *c;
}

static int read_cells(const char *path)
{
    FILE *from = fopen(path, "r");
    struct cell c;

    while (from && count < CELLS_MOST &&
           fscanf(from, "%u %lf %15s %zu %lf", &c.ranks, &c.message_us, c.kind, &c.bytes,
                  &c.smpi_ns) == 5) {
        take_cell(&c);
    }
    if (from)
        fclose(from);
    return count;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(gathers_take_as_long_as_smpi_says),
        TEST(wires_take_as_long_as_smpi_says),
        TEST(who_wins_is_the_same),
    };

    if (argc < 2) {
        printf("  skipped: tests/program/test_smpi gives it what SMPI says\n0 passed, 0 failed\n");
        return 0;
    }
    if (!read_cells(argv[1])) {
        printf("  FAILED %s: no line of tests/smpi/exchanges.c\n0 passed, 1 failed\n", argv[1]);
        return 1;
    }
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
