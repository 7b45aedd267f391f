/* The wire of modelled ranks: an exchange sends nothing and lets virtual time pass. */
#include "wire_sim.h"

#include "cluster.h"
#include "fault.h"
#include "sim.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

struct wire_sim {
    struct wire base;
    const struct sim_link *link;
};

static int simulated_exchange(struct wire *base, struct stream *stream, const struct batch *batch)
{
    const struct sim_link *link = ((struct wire_sim *)base)->link;

    if (fault_hit("exchange"))
        return fail(ERR_WIRE, "an exchange of %d transfers (injected)", batch->count);
    sim_pass(stream, link->exchange_ns(link, batch), link->weight ? link->weight(link, batch) : 1);
    return OK;
}

static void simulated_close(struct wire *base)
{
    const struct sim_link *link = ((struct wire_sim *)base)->link;

    if (link->close)
        link->close(link);
    free(base);
}

static const struct wire_ops sim_wire_ops = {
    .name = "sim",
    .close = simulated_close,
    .exchange = simulated_exchange,
};

int wire_sim_open(const struct sim_link *link, const struct topology *topology, struct wire **out)
{
    struct wire_sim *wire = calloc(1, sizeof(*wire));

    if (!wire)
        return fail(ERR_NOMEM, "a wire");
    wire->base.ops = &sim_wire_ops;
    wire->base.topology = *topology;
    wire->link = link;
    *out = &wire->base;
    return OK;
}

enum level { LEVEL_SELF, LEVEL_INSIDE, LEVEL_BETWEEN, LEVELS };

struct port {
    double latency_ns, message_ns, bytes_per_ns, half_bytes;
};

struct model_link {
    struct sim_link base;
    int per_node; /* ranks 0 to per_node - 1 are this node's */
    struct port ports[LEVELS];
    double cta_bytes_per_ns, library_ctas; /* INFINITY and 1: their number changes nothing */
};

struct traffic {
    uint64_t messages, bytes;
};

static void count_traffic(const struct model_link *link, const struct batch *batch, bool sent,
                          struct traffic traffic[LEVELS])
{
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];
        size_t bytes = sent ? t->send_bytes : t->recv_bytes;
        enum level level = t->peer == 0               ? LEVEL_SELF
                           : t->peer < link->per_node ? LEVEL_INSIDE
                                                      : LEVEL_BETWEEN;

        traffic[level].messages += bytes > 0;
        traffic[level].bytes += bytes;
    }
}

static double ctas_of(const struct model_link *link, const struct batch *batch)
{
    return batch->ctas ? batch->ctas : link->library_ctas;
}

/* A message of n bytes takes (n + half) / bandwidth, so that a sum needs no single sizes. */
static double port_ns(const struct port *port, const struct traffic *traffic,
                      double most_bytes_per_ns)
{
    return ((double)traffic->bytes + (double)traffic->messages * port->half_bytes) /
           fmin(port->bytes_per_ns, most_bytes_per_ns);
}

/* Issuing runs beside the ports: the first messages travel while the last are still being issued.
 * A sum instead would have the network idle until the last is out. */
static double one_way_ns(const struct model_link *link, const struct batch *batch, bool sent)
{
    struct traffic traffic[LEVELS] = { { 0, 0 } };
    double latency_ns = 0, issue_ns = 0, longest_ns = 0;
    double most_bytes_per_ns = ctas_of(link, batch) * link->cta_bytes_per_ns;

    count_traffic(link, batch, sent, traffic);
    for (int i = 0; i < LEVELS; i++) {
        const struct port *port = &link->ports[i];

        if (!traffic[i].messages)
            continue;
        latency_ns = fmax(latency_ns, port->latency_ns);
        issue_ns += (double)traffic[i].messages * port->message_ns;
        longest_ns = fmax(longest_ns, port_ns(port, &traffic[i], most_bytes_per_ns));
    }
    return latency_ns + fmax(issue_ns, longest_ns);
}

/* Links carry both ways at a time. */
static int64_t model_exchange_ns(const struct sim_link *base, const struct batch *batch)
{
    const struct model_link *link = (const struct model_link *)base;

    return llround(fmax(one_way_ns(link, batch, true), one_way_ns(link, batch, false)));
}

static double model_weight(const struct sim_link *base, const struct batch *batch)
{
    const struct model_link *link = (const struct model_link *)base;

    return isfinite(link->cta_bytes_per_ns) ? ctas_of(link, batch) / link->library_ctas : 1;
}

static void model_link_close(const struct sim_link *link)
{
    free((void *)link);
}

int wire_sim_model_open(const struct cluster *c, struct wire **out)
{
    struct topology topology = { 0, (int)c->ranks, (int)c->ranks_per_node };
    struct model_link *link = malloc(sizeof(*link));
    int rc;

    if (!link)
        return fail(ERR_NOMEM, "a model of the links");
    *link = (struct model_link){
        .base = { model_exchange_ns, model_link_close, model_weight },
        /* Where nodes differ, rank 0's is taken for an average one, rounded up. */
        .per_node =
            (int)(c->ranks_per_node ? c->ranks_per_node : (c->ranks + c->nodes - 1) / c->nodes),
        .ports = { [LEVEL_SELF] = { .bytes_per_ns = c->memory_gbs / 2 }, /* read and written */
                   [LEVEL_INSIDE] = { c->latency_inside_us * 1e3, c->message_inside_us * 1e3,
                                      c->bandwidth_inside_gbs, c->half_inside_kib * 1024 },
                   [LEVEL_BETWEEN] = { c->latency_between_us * 1e3, c->message_between_us * 1e3,
                                       c->bandwidth_between_gbs, c->half_between_kib * 1024 } },
        .cta_bytes_per_ns = isfinite(c->cta_gbs) ? c->cta_gbs : INFINITY,
        .library_ctas = isfinite(c->library_ctas) ? c->library_ctas : 1,
    };
    rc = wire_sim_open(&link->base, &topology, out);
    if (rc)
        free(link);
    return rc;
}
