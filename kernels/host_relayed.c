/* Tokens that go to a node once, on the host. */
#include "host.h"

#include <string.h>

static uint32_t node_of(const struct listed_choices *c, int32_t expert)
{
    return (uint32_t)expert / (c->experts / c->nodes);
}

/* Its place among the nodes that are listed so far, which is their number where it is new. */
static uint32_t find_node(const struct sent_choice *listed, uint32_t count, uint32_t node)
{
    uint32_t i = 0;

    while (i < count && (uint32_t)listed[i].expert != node)
        i++;
    return i;
}

void host_list_nodes(const struct list_nodes *l)
{
    const struct listed_choices *c = &l->choices;
    uint32_t fan = listed_fan(c);

    for (uint64_t t = 0; t < c->tokens; t++) {
        struct sent_choice *to = l->to + t * fan;
        uint32_t count = 0;

        for (uint64_t i = t * c->top_k; i < (t + 1) * c->top_k; i++) {
            if (c->slot[i] < 0 || find_node(to, count, node_of(c, c->expert[i])) < count)
                continue;
            to[count++] = (struct sent_choice){ (int32_t)node_of(c, c->expert[i]), 1 };
        }
        while (count < fan)
            to[count++] = (struct sent_choice){ -1, 0 };
    }
}

static void label_row(const struct label_rows *l, uint64_t token, uint32_t node, uint64_t slot)
{
    const struct listed_choices *c = &l->choices;
    struct sent_choice *to =
        (struct sent_choice *)((char *)l->to + node * l->pitch) + slot * c->top_k;

    for (uint32_t j = 0; j < c->top_k; j++) {
        uint64_t i = token * c->top_k + j;
        bool here = c->slot[i] >= 0 && node_of(c, c->expert[i]) == node;

        to[j].expert = here ? c->expert[i] - (int32_t)(node * (c->experts / c->nodes)) : -1;
        to[j].gate = here ? l->gate[i] : 0;
    }
}

static void clear_labels(const struct label_rows *l, uint32_t node)
{
    struct sent_choice *to = (struct sent_choice *)((char *)l->to + node * l->pitch);
    uint64_t k = l->choices.top_k;

    for (uint64_t i = (uint64_t)l->at.needed[node] * k; i < l->at.rows * k; i++)
        to[i] = (struct sent_choice){ -1, 0 };
}

void host_label_rows(const struct label_rows *l)
{
    uint64_t listed = (uint64_t)l->choices.tokens * listed_fan(&l->choices);

    for (uint64_t i = 0; i < listed; i++)
        if (l->at.slot[i] >= 0)
            label_row(l, i / listed_fan(&l->choices), (uint32_t)l->at.node[i],
                      (uint64_t)l->at.slot[i]);
    for (uint32_t node = 0; node < l->choices.nodes; node++)
        clear_labels(l, node);
}

static float gate_grad(const struct collect_gates *g, uint64_t choice)
{
    const struct listed_choices *c = &g->choices;
    uint64_t token = choice / c->top_k, i = token * listed_fan(c);
    uint32_t node;

    if (c->slot[choice] < 0)
        return 0;
    node = node_of(c, c->expert[choice]);
    while ((uint32_t)g->at.node[i] != node)
        i++;
    return (
        (const float *)((const char *)g->from +
                        node * g->pitch))[(uint64_t)g->at.slot[i] * c->top_k + choice % c->top_k];
}

void host_collect_gates(const struct collect_gates *g)
{
    for (uint64_t i = 0; i < (uint64_t)g->choices.tokens * g->choices.top_k; i++)
        g->grad_gate[i] = gate_grad(g, i);
}
