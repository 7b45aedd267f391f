/* The wire of modelled ranks: an exchange moves no bytes and lets virtual time pass.  The formulas
 * are in wire_sim.h. */
#include "wire_sim.h"

#include "cluster.h"
#include "fault.h"
#include "moelookup.h"
#include "sim.h"
#include "status.h"

#include <limits.h>
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

/* For clusters whose communication library has gathers and sums (ring_step_us). */
static const struct wire_ops sim_library_ops = {
    .name = "sim",
    .close = simulated_close,
    .exchange = simulated_exchange,
    .collectives = 1 << COLLECTIVE_GATHER | 1 << COLLECTIVE_SUM,
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

/* Where a peer is: this rank, its node, its rack, another rack. */
enum level { LEVEL_SELF, LEVEL_INSIDE, LEVEL_BETWEEN, LEVEL_RACKS, LEVELS };

/* What a rank sends through to all peers of a level. */
struct port {
    double latency_ns, message_ns, bytes_per_ns, half_bytes;
};

/* A protocol of the library: a share of the port's rate and of its latency. */
struct protocol {
    double rate, latency; /* rate 0: the cluster does not have this protocol */
    bool halves;          /* short messages pass at a lower rate */
};

enum { PROTOCOLS = MOE_PROTO_SIMPLE + 1 };

/* The model of one rank's links; model_link_close() frees it. */
struct model_link {
    struct sim_link base;
    int rank, per_node; /* ranks 0 to per_node - 1 are on the first node */
    int per_rack;       /* ranks 0 to per_rack - 1 are in the first rack; INT_MAX: no racks */
    struct port ports[LEVELS];
    double cta_bytes_per_ns, library_ctas; /* INFINITY and 1: CTAs change nothing */
    double chunk_ns, message_peer_ns;      /* 0: no such cost */
    double peer_bytes_per_ns, crowd_peers; /* between nodes; INFINITY: no limit */
    double staged_weight;                  /* of 2dh's exchanges, where others have 1 */
    double ring_step_ns, ring_beyond_ns;   /* inside and between nodes; NAN: no rings */
    struct protocol protocols[PROTOCOLS];  /* by enum moe_proto */
    uint32_t *seen_in_scan,
        scan; /* for each rank, the last scan of a batch that met it as a peer */
};

static enum level level_of(const struct model_link *link, int peer)
{
    if (peer == link->rank)
        return LEVEL_SELF;
    if (peer / link->per_node == link->rank / link->per_node)
        return LEVEL_INSIDE;
    return peer / link->per_rack == link->rank / link->per_rack ? LEVEL_BETWEEN : LEVEL_RACKS;
}

static size_t bytes_of(const struct transfer *t, bool sent)
{
    return sent ? t->send_bytes : t->recv_bytes;
}

static double ctas_of(const struct model_link *link, const struct batch *batch)
{
    return batch->ctas ? batch->ctas : link->library_ctas;
}

/* The cost of messages on one port: its sender needs issue_ns, and n bytes occupy the port for
 * (n + half_bytes) / bytes_per_ns. */
struct pace {
    double issue_ns, half_bytes, bytes_per_ns;
};

/* The pace of a batch with `outside_peers` peers on other nodes. */
static struct pace pace_of(const struct model_link *link, enum level level, double outside_peers,
                           const struct protocol *protocol, double most_bytes_per_ns)
{
    const struct port *port = &link->ports[level];
    double rate = port->bytes_per_ns;
    /* Before it issues a message, a rank polls its messages to all other peers outside the node. */
    double polling_ns = level >= LEVEL_BETWEEN ? outside_peers * link->message_peer_ns : 0;

    /* Between nodes, one connection per peer has a limit, and many peers slow each other down. */
    if (level == LEVEL_BETWEEN)
        rate = fmin(rate, outside_peers * link->peer_bytes_per_ns) /
               (1 + outside_peers / link->crowd_peers);
    return (struct pace){ port->message_ns + polling_ns, protocol->halves ? port->half_bytes : 0,
                          fmin(protocol->rate * rate, most_bytes_per_ns) };
}

/* A port sends whenever it has a message, so the order of messages does not change when it ends.
 * But it cannot begin before its first message is issued. */
static void occupy_port(double *busy_until_ns, double issued_ns, const struct pace *pace,
                        size_t bytes)
{
    *busy_until_ns =
        fmax(*busy_until_ns, issued_ns) + ((double)bytes + pace->half_bytes) / pace->bytes_per_ns;
}

static double traffic_ns(const struct model_link *link, const struct batch *batch, bool sent,
                         const struct protocol *protocol, double outside_peers)
{
    double ctas_bytes_per_ns = ctas_of(link, batch) * link->cta_bytes_per_ns;
    double busy_until[LEVELS] = { 0 }, issued_ns = 0, latency_ns = 0;
    struct pace paces[LEVELS];

    for (enum level i = 0; i < LEVELS; i++)
        paces[i] = pace_of(link, i, outside_peers, protocol, ctas_bytes_per_ns);
    for (int i = 0; i < batch->count; i++) {
        enum level level = level_of(link, batch->transfers[i].peer);
        enum level port = level == LEVEL_RACKS ? LEVEL_BETWEEN : level;
        size_t bytes = bytes_of(&batch->transfers[i], sent);

        if (!bytes)
            continue;
        occupy_port(&busy_until[port], issued_ns, &paces[port], bytes);
        if (level != port)
            occupy_port(&busy_until[level], issued_ns, &paces[level], bytes);
        issued_ns += paces[level].issue_ns;
        latency_ns = fmax(latency_ns, link->ports[level].latency_ns * protocol->latency);
    }
    for (enum level i = 0; i < LEVELS; i++)
        issued_ns = fmax(issued_ns, busy_until[i]);
    return latency_ns + issued_ns;
}

/* How long the sent (or the received) bytes take, by the fastest protocol. */
static double one_way_ns(struct model_link *link, const struct batch *batch, bool sent)
{
    double outside_peers = 0, fastest_ns = INFINITY;

    /* A peer outside the node counts once, however many messages it gets. */
    link->scan++;
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (!bytes_of(t, sent))
            continue;
        outside_peers +=
            level_of(link, t->peer) >= LEVEL_BETWEEN && link->seen_in_scan[t->peer] != link->scan;
        link->seen_in_scan[t->peer] = link->scan;
    }
    for (int i = 0; i < PROTOCOLS; i++)
        if (link->protocols[i].rate > 0)
            fastest_ns =
                fmin(fastest_ns, traffic_ns(link, batch, sent, &link->protocols[i], outside_peers));
    return fastest_ns;
}

/* ---- the library's gathers and sums */

/* The bytes that one rank's ports carry for all collectives of a batch: inside its node, between
 * nodes in two levels, and between nodes in a ring. */
struct volume {
    double inside_bytes, between_bytes, ring_bytes;
    int ranks, nodes, per_node; /* of the largest group */
};

/* Bytes from other nodes come once to a node, in equal parts through its ports; every rank forwards
 * all of them inside.  A ring carries more between nodes: slices of ranks on this node also come
 * back to earlier ranks of it from outside. */
static struct volume volume_of(const struct model_link *link, const struct batch *batch)
{
    struct volume v = { .ranks = 1, .nodes = 1, .per_node = 1 };

    for (int i = 0; i < batch->collective_count; i++) {
        const struct collective *c = &batch->collectives[i];
        int per_node = c->group.count < link->per_node ? c->group.count : link->per_node;
        double slice_bytes = (double)c->bytes;

        if (per_node > 1)
            v.inside_bytes += (c->group.count - 1) * slice_bytes;
        v.between_bytes += (c->group.count - per_node) * slice_bytes / per_node;
        if (c->group.count > per_node)
            v.ring_bytes += (c->group.count - 1) * slice_bytes / per_node;
        if (c->group.count > v.ranks) {
            v.ranks = c->group.count;
            v.nodes = c->group.count / per_node;
            v.per_node = per_node;
        }
    }
    return v;
}

/* The port that a gather of so many ranks uses outside its node; in several racks it is no faster
 * than the links between racks. */
static struct port beyond_node(const struct model_link *link, int ranks)
{
    struct port port = link->ports[ranks > link->per_rack ? LEVEL_RACKS : LEVEL_BETWEEN];

    port.bytes_per_ns = fmin(port.bytes_per_ns, link->ports[LEVEL_BETWEEN].bytes_per_ns);
    return port;
}

/* Links inside and between nodes work at the same time, slice by slice. */
static double ring_ns(const struct model_link *link, const struct volume *v,
                      const struct protocol *p)
{
    int outside_steps = v->nodes - 1;

    return ((v->ranks - 1 - outside_steps) * link->ring_step_ns +
            outside_steps * link->ring_beyond_ns) *
               p->latency +
           fmax(v->inside_bytes / link->ports[LEVEL_INSIDE].bytes_per_ns,
                v->ring_bytes / beyond_node(link, v->ranks).bytes_per_ns) /
               p->rate;
}

static double level_ns(const struct port *port, int peers, double bytes, const struct protocol *p)
{
    return peers ? port->latency_ns * p->latency +
                       fmax(peers * port->message_ns, bytes / (port->bytes_per_ns * p->rate))
                 : 0;
}

/* First ranks at the same place on all nodes exchange, then the ranks of each node. */
static double two_levels_ns(const struct model_link *link, const struct volume *v,
                            const struct protocol *p)
{
    struct port outside = beyond_node(link, v->ranks);

    return level_ns(&outside, v->nodes - 1, v->between_bytes, p) +
           level_ns(&link->ports[LEVEL_INSIDE], v->per_node - 1, v->inside_bytes - v->between_bytes,
                    p);
}

/* Uses the batch's protocol where the cluster has it, else the fastest. */
static double collectives_ns(const struct model_link *link, const struct batch *batch)
{
    bool has_protocol = link->protocols[batch->proto].rate > 0;
    double fastest_ns = INFINITY;
    struct volume v;

    if (!batch->collective_count)
        return 0;
    v = volume_of(link, batch);
    for (uint32_t i = 0; i < PROTOCOLS; i++) {
        const struct protocol *p = &link->protocols[i];

        if (has_protocol ? i == batch->proto : p->rate > 0)
            fastest_ns = fmin(fastest_ns, fmin(ring_ns(link, &v, p), two_levels_ns(link, &v, p)));
    }
    return fastest_ns;
}

/* ---- a rank's link */

/* Links carry both directions at the same time. */
static int64_t model_exchange_ns(const struct sim_link *base, const struct batch *batch)
{
    struct model_link *link = (struct model_link *)(void *)base;
    double ns = collectives_ns(link, batch);

    if (batch->count)
        ns += fmax(one_way_ns(link, batch, true), one_way_ns(link, batch, false));
    return llround(ns + (batch->of_tokens ? link->chunk_ns : 0));
}

static double model_weight(const struct sim_link *base, const struct batch *batch)
{
    const struct model_link *link = (const struct model_link *)base;
    double weight =
        isfinite(link->cta_bytes_per_ns) ? ctas_of(link, batch) / link->library_ctas : 1;

    return batch->staged ? weight * link->staged_weight : weight;
}

static void model_link_close(const struct sim_link *base)
{
    struct model_link *link = (struct model_link *)(void *)base;

    free(link->seen_in_scan);
    free(link);
}

static double value_or(double value, double otherwise)
{
    return isfinite(value) ? value : otherwise;
}

static struct protocol protocol_of(double rate_percent, double latency_percent)
{
    return (struct protocol){ value_or(rate_percent, 0) / 100, latency_percent / 100, false };
}

int wire_sim_model_open(const struct cluster *c, int rank, struct wire **out)
{
    struct topology topology = { rank, (int)c->ranks, (int)c->ranks_per_node,
                                 (int)c->ranks_per_rack };
    struct model_link *link = malloc(sizeof(*link));
    int rc;

    if (!link)
        return fail(ERR_NOMEM, "a model of the links");
    *link = (struct model_link){
        .base = { model_exchange_ns, model_link_close, model_weight },
        .rank = rank,
        /* Where nodes have different numbers of ranks, the model uses the mean, rounded up. */
        .per_node =
            (int)(c->ranks_per_node ? c->ranks_per_node : (c->ranks + c->nodes - 1) / c->nodes),
        .per_rack = c->ranks_per_rack ? (int)c->ranks_per_rack : INT_MAX,
        .ports = { [LEVEL_SELF] = { .bytes_per_ns = c->memory_gbs / 2 }, /* read and written */
                   [LEVEL_INSIDE] = { c->latency_inside_us * 1e3, c->message_inside_us * 1e3,
                                      c->bandwidth_inside_gbs, c->half_inside_kib * 1024 },
                   [LEVEL_BETWEEN] = { c->latency_between_us * 1e3, c->message_between_us * 1e3,
                                       c->bandwidth_between_gbs, c->half_between_kib * 1024 },
                   [LEVEL_RACKS] = { value_or(c->latency_racks_us, c->latency_between_us) * 1e3,
                                     value_or(c->message_racks_us, c->message_between_us) * 1e3,
                                     value_or(c->bandwidth_racks_gbs, INFINITY), 0 } },
        .cta_bytes_per_ns = value_or(c->cta_gbs, INFINITY),
        .library_ctas = value_or(c->library_ctas, 1),
        .chunk_ns = value_or(c->chunk_us, 0) * 1e3,
        .message_peer_ns = value_or(c->message_peer_us, 0) * 1e3,
        .peer_bytes_per_ns = value_or(c->peer_between_gbs, INFINITY),
        .crowd_peers = value_or(c->crowd_between_peers, INFINITY),
        /* The weight multiplies overlap_slowdown, which applies to all exchanges. */
        .staged_weight = isfinite(c->overlap_slowdown_2dh) && c->overlap_slowdown > 0
                             ? c->overlap_slowdown_2dh / c->overlap_slowdown
                             : 1,
        .ring_step_ns = c->ring_step_us * 1e3,
        .ring_beyond_ns = value_or(c->ring_step_between_us, c->ring_step_us) * 1e3,
        .protocols = { [MOE_PROTO_SIMPLE] = { 1, 1, true },
                       [MOE_PROTO_LL] = protocol_of(c->ll_rate_percent, c->ll_latency_percent),
                       [MOE_PROTO_LL128] =
                           protocol_of(c->ll128_rate_percent, c->ll128_latency_percent) },
    };
    link->seen_in_scan = calloc(c->ranks, sizeof(*link->seen_in_scan));
    rc = link->seen_in_scan ? wire_sim_open(&link->base, &topology, out)
                            : fail(ERR_NOMEM, "a model of %u links", c->ranks);
    if (rc)
        model_link_close(&link->base);
    else if (isfinite(c->ring_step_us))
        (*out)->ops = &sim_library_ops;
    return rc;
}
