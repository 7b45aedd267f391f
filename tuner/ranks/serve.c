/* `moetune serve`, which a tuner starts on its ranks: rank 0 reads orders as lines of its standard
 * input, and prints the replies of all ranks to its standard output. */
#include "launch.h"
#include "status.h"
#include "text.h"
#include "verbs.h"
#include "worker.h"

#include <signal.h>
#include <stdio.h>

/* The options of `moetune serve`, as the tuner gives them.  A plain value. */
struct serve_options {
    uint32_t ranks_per_node, ranks_per_rack;
    const char *device;
    struct virtual_options virtual;
};

#define AT(field) offsetof(struct serve_options, field)
static const struct option_row rows[] = {
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node),
      "pretend that each node holds M ranks" },
    { "ranks-per-rack", "P", OPTION_COUNT, AT(ranks_per_rack), "racks of P ranks" },
    { "device", "NAME", OPTION_TEXT, AT(device), "back end" },
    { .kind = OPTION_GROUP, .offset = AT(virtual), .rows = virtual_rows },
    { NULL },
};
#undef AT

static const struct serve_options defaults = { .device = "auto" };

/* Reads and executes orders until QUIT, the end of input, or ranks that are broken. */
static int serve_orders(struct worker *worker)
{
    struct order order = { .kind = ORDER_QUIT };
    char line[WORK_LINE_BYTES];
    struct reply reply;

    do {
        if (!fgets(line, sizeof(line), stdin))
            order = (struct order){ .kind = ORDER_QUIT };
        else if (order_parse(line, &order))
            return fail(ERR_FORMAT, "standard input: this line is no order: %s",
                        TEXT_SHORT(line, 80));
        TRY(worker_lead(worker, &order, &reply));
        reply_format(&reply, line);
        printf("%s\n", line);
        fflush(stdout);
    } while (order.kind != ORDER_QUIT && !reply.broken);
    return OK;
}

static int serve(const struct verb_call *call, void *options)
{
    const struct serve_options *serve_options = options;
    struct worker *worker = NULL;
    struct world *world;
    int rc;

    (void)call;
    launch_on_stop(SIG_IGN);
    signal(SIGTERM, SIG_DFL); /* mpirun ends ranks that hang with it */
    TRY(serve_options->virtual.ranks ? world_open(0, 0, &world)
                                     : world_open((int)serve_options->ranks_per_node,
                                                  (int)serve_options->ranks_per_rack, &world));
    rc = serve_options->virtual.ranks
             ? worker_open_virtual(&serve_options->virtual, serve_options->ranks_per_node,
                                   serve_options->ranks_per_rack, serve_options->device, &worker)
             : worker_open(world, serve_options->device, &worker);
    if (!rc)
        rc = world_topology(world)->rank == 0 ? serve_orders(worker) : worker_follow(worker);
    worker_close(worker);
    world_close(world);
    return rc;
}

const struct verb serve_verb = {
    .name = "serve",
    .about =
        "A tuner starts this on its ranks: it reads orders from standard input and prints replies "
        "to standard output.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "serve --device host",
    .run = serve,
};
