/* The wire of modelled ranks: an exchange sends nothing and lets virtual time pass. */
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

/* Where the library gathers and sums by itself. */
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

enum level { LEVEL_SELF, LEVEL_INSIDE, LEVEL_BETWEEN, LEVEL_RACKS, LEVELS };

struct port {
    double latency_ns, message_ns, bytes_per_ns, half_bytes;
};

/* A share of the port's rate (0: nothing is known of it) for a share of its latency; whether short
 * messages cost it more. */
struct protocol {
    double rate, latency;
    bool halves;
};

enum { PROTOCOLS = MOE_PROTO_SIMPLE + 1 };

struct model_link {
    struct sim_link base;
    int rank, per_node; /* ranks 0 to per_node - 1 are the first node's */
    int per_rack;       /* likewise; INT_MAX: all nodes are as near */
    struct port ports[LEVELS];
    double cta_bytes_per_ns, library_ctas; /* INFINITY and 1: their number changes nothing */
    double chunk_ns, message_peer_ns;      /* 0: nothing */
    double peer_bytes_per_ns, crowd_peers; /* between nodes; INFINITY: no limit */
    double staged_weight;                  /* of 2dh's exchanges beside those of others */
    double ring_step_ns, ring_beyond_ns;   /* NAN: the library has no rings */
    struct protocol protocols[PROTOCOLS];  /* by enum moe_proto */
    uint32_t *seen, search; /* of each rank: in which count of peers it was found last */
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

/* What a message costs its sender, and n bytes of it their port: (n + half) / rate. */
struct pace {
    double issue_ns, half_bytes, bytes_per_ns;
};

/* With so many peers outside of the node. */
static struct pace pace_of(const struct model_link *link, enum level level, double outside,
                           const struct protocol *protocol, double most_bytes_per_ns)
{
    const struct port *port = &link->ports[level];
    double rate = port->bytes_per_ns;
    /* Who issues a message looks after those that are under way to other peers beyond the node. */
    double looks = level >= LEVEL_BETWEEN ? outside * link->message_peer_ns : 0;

    /* Between nodes each peer takes what one connection carries, and many get in each other's way.
     */
    if (level == LEVEL_BETWEEN)
        rate = fmin(rate, outside * link->peer_bytes_per_ns) / (1 + outside / link->crowd_peers);
    return (struct pace){ port->message_ns + looks, protocol->halves ? port->half_bytes : 0,
                          fmin(protocol->rate * rate, most_bytes_per_ns) };
}

/* A port works whenever it has something to send, so it is done at the same time in whatever order
 * messages leave it; but it has nothing before the first of its messages is issued. */
static void pass(double *busy_until_ns, double issued_ns, const struct pace *pace, size_t bytes)
{
    *busy_until_ns =
        fmax(*busy_until_ns, issued_ns) + ((double)bytes + pace->half_bytes) / pace->bytes_per_ns;
}

static double traffic_ns(const struct model_link *link, const struct batch *batch, bool sent,
                         const struct protocol *protocol, double outside)
{
    double most = ctas_of(link, batch) * link->cta_bytes_per_ns;
    double busy[LEVELS] = { 0 }, issued = 0, latency = 0;
    struct pace paces[LEVELS];

    for (enum level i = 0; i < LEVELS; i++)
        paces[i] = pace_of(link, i, outside, protocol, most);
    for (int i = 0; i < batch->count; i++) {
        enum level level = level_of(link, batch->transfers[i].peer);
        enum level port = level == LEVEL_RACKS ? LEVEL_BETWEEN : level;
        size_t bytes = bytes_of(&batch->transfers[i], sent);

        if (!bytes)
            continue;
        pass(&busy[port], issued, &paces[port], bytes);
        if (level != port)
            pass(&busy[level], issued, &paces[level], bytes);
        issued += paces[level].issue_ns;
        latency = fmax(latency, link->ports[level].latency_ns * protocol->latency);
    }
    for (enum level i = 0; i < LEVELS; i++)
        issued = fmax(issued, busy[i]);
    return latency + issued;
}

/* The library takes the protocol that suits the sizes. */
static double one_way_ns(struct model_link *link, const struct batch *batch, bool sent)
{
    double outside = 0, least = INFINITY;

    /* A peer outside of the node counts once, however many messages it gets. */
    link->search++;
    for (int i = 0; i < batch->count; i++) {
        const struct transfer *t = &batch->transfers[i];

        if (!bytes_of(t, sent))
            continue;
        outside += level_of(link, t->peer) >= LEVEL_BETWEEN && link->seen[t->peer] != link->search;
        link->seen[t->peer] = link->search;
    }
    for (int i = 0; i < PROTOCOLS; i++)
        if (link->protocols[i].rate > 0)
            least = fmin(least, traffic_ns(link, batch, sent, &link->protocols[i], outside));
    return least;
}

/* ---- the library's gathers and sums */

/* Of all that a batch has: bytes that a rank's port passes on inside its node and beyond. */
struct volume {
    double inside_bytes, between_bytes, ring_bytes; /* ring: beyond it, by a ring */
    int ranks, nodes, per_node;                     /* of the largest group */
};

/* What comes from other nodes comes once to a node, an equal part of it through each port there,
 * and every rank hands on all.  A ring does not end where the node does: what a rank there has
 * comes back to those before it from outside. */
static struct volume volume_of(const struct model_link *link, const struct batch *batch)
{
    struct volume v = { .ranks = 1, .nodes = 1, .per_node = 1 };

    for (int i = 0; i < batch->collective_count; i++) {
        const struct collective *c = &batch->collectives[i];
        int near = c->group.count < link->per_node ? c->group.count : link->per_node;
        double slice = (double)c->bytes;

        if (near > 1)
            v.inside_bytes += (c->group.count - 1) * slice;
        v.between_bytes += (c->group.count - near) * slice / near;
        if (c->group.count > near)
            v.ring_bytes += (c->group.count - 1) * slice / near;
        if (c->group.count > v.ranks) {
            v.ranks = c->group.count;
            v.nodes = c->group.count / near;
            v.per_node = near;
        }
    }
    return v;
}

/* What a gather of so many ranks sees of the network: of several racks the links between these. */
static struct port beyond_node(const struct model_link *link, int ranks)
{
    struct port port = link->ports[ranks > link->per_rack ? LEVEL_RACKS : LEVEL_BETWEEN];

    port.bytes_per_ns = fmin(port.bytes_per_ns, link->ports[LEVEL_BETWEEN].bytes_per_ns);
    return port;
}

/* Both kinds of links work at the same time, slice by slice. */
static double ring_ns(const struct model_link *link, const struct volume *v,
                      const struct protocol *p)
{
    int beyond = v->nodes - 1;

    return ((v->ranks - 1 - beyond) * link->ring_step_ns + beyond * link->ring_beyond_ns) *
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

/* Ranks of the same place, one on each node, exchange first, then those of a node. */
static double two_levels_ns(const struct model_link *link, const struct volume *v,
                            const struct protocol *p)
{
    struct port beyond = beyond_node(link, v->ranks);

    return level_ns(&beyond, v->nodes - 1, v->between_bytes, p) +
           level_ns(&link->ports[LEVEL_INSIDE], v->per_node - 1, v->inside_bytes - v->between_bytes,
                    p);
}

/* By the protocol that is asked for; the fastest where none is, or nothing is known of it. */
static double collectives_ns(const struct model_link *link, const struct batch *batch)
{
    bool told = link->protocols[batch->proto].rate > 0;
    double least = INFINITY;
    struct volume v;

    if (!batch->collective_count)
        return 0;
    v = volume_of(link, batch);
    for (uint32_t i = 0; i < PROTOCOLS; i++) {
        const struct protocol *p = &link->protocols[i];

        if (told ? i == batch->proto : p->rate > 0)
            least = fmin(least, fmin(ring_ns(link, &v, p), two_levels_ns(link, &v, p)));
    }
    return least;
}

/* ---- a rank's link */

/* Links carry both ways at a time. */
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

    free(link->seen);
    free(link);
}

static double known_or(double value, double otherwise)
{
    return isfinite(value) ? value : otherwise;
}

static struct protocol protocol_of(double rate_percent, double latency_percent)
{
    return (struct protocol){ known_or(rate_percent, 0) / 100, latency_percent / 100, false };
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
        /* Where nodes differ, each is taken for an average one, rounded up. */
        .per_node =
            (int)(c->ranks_per_node ? c->ranks_per_node : (c->ranks + c->nodes - 1) / c->nodes),
        .per_rack = c->ranks_per_rack ? (int)c->ranks_per_rack : INT_MAX,
        .ports = { [LEVEL_SELF] = { .bytes_per_ns = c->memory_gbs / 2 }, /* read and written */
                   [LEVEL_INSIDE] = { c->latency_inside_us * 1e3, c->message_inside_us * 1e3,
                                      c->bandwidth_inside_gbs, c->half_inside_kib * 1024 },
                   [LEVEL_BETWEEN] = { c->latency_between_us * 1e3, c->message_between_us * 1e3,
                                       c->bandwidth_between_gbs, c->half_between_kib * 1024 },
                   [LEVEL_RACKS] = { known_or(c->latency_racks_us, c->latency_between_us) * 1e3,
                                     known_or(c->message_racks_us, c->message_between_us) * 1e3,
                                     known_or(c->bandwidth_racks_gbs, INFINITY), 0 } },
        .cta_bytes_per_ns = known_or(c->cta_gbs, INFINITY),
        .library_ctas = known_or(c->library_ctas, 1),
        .chunk_ns = known_or(c->chunk_us, 0) * 1e3,
        .message_peer_ns = known_or(c->message_peer_us, 0) * 1e3,
        .peer_bytes_per_ns = known_or(c->peer_between_gbs, INFINITY),
        .crowd_peers = known_or(c->crowd_between_peers, INFINITY),
        /* It multiplies overlap_slowdown, which all exchanges have. */
        .staged_weight = isfinite(c->overlap_slowdown_2dh) && c->overlap_slowdown > 0
                             ? c->overlap_slowdown_2dh / c->overlap_slowdown
                             : 1,
        .ring_step_ns = c->ring_step_us * 1e3,
        .ring_beyond_ns = known_or(c->ring_step_between_us, c->ring_step_us) * 1e3,
        .protocols = { [MOE_PROTO_SIMPLE] = { 1, 1, true },
                       [MOE_PROTO_LL] = protocol_of(c->ll_rate_percent, c->ll_latency_percent),
                       [MOE_PROTO_LL128] =
                           protocol_of(c->ll128_rate_percent, c->ll128_latency_percent) },
    };
    link->seen = calloc(c->ranks, sizeof(*link->seen));
    rc = link->seen ? wire_sim_open(&link->base, &topology, out)
                    : fail(ERR_NOMEM, "a model of %u links", c->ranks);
    if (rc)
        model_link_close(&link->base);
    else if (isfinite(c->ring_step_us))
        (*out)->ops = &sim_library_ops;
    return rc;
}
