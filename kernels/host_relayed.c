/* The kernels of tokens that go to each node once (relayed.h), on the host. */
#include "host.h"

#include <string.h>

static uint32_t node_of(const struct listed_choices *c, int32_t expert)
{
    return (uint32_t)expert / (c->experts / c->nodes);
}

void host_list_nodes(const struct list_nodes *l)
{
    const struct listed_choices *c = &l->choices;
    uint32_t most_nodes = most_nodes_per_token(c);

    for (uint64_t t = 0; t < c->tokens; t++) {
        struct sent_choice *listed = l->to + t * most_nodes;
        uint32_t count = 0;

        for (uint64_t choice = t * c->top_k; choice < (t + 1) * c->top_k; choice++) {
            uint32_t place = 0, node;

            if (c->slot[choice] < 0)
                continue;
            node = node_of(c, c->expert[choice]);
            while (place < count && (uint32_t)listed[place].expert != node)
                place++;
            if (place == count) /* it is not listed yet */
                listed[count++] = (struct sent_choice){ (int32_t)node, 1 };
        }
        while (count < most_nodes)
            listed[count++] = (struct sent_choice){ -1, 0 };
    }
}

/* Writes the choices of a token's row on one node; a choice on another node becomes -1. */
static void label_row(const struct label_rows *l, uint64_t token, uint32_t node, uint64_t slot)
{
    const struct listed_choices *c = &l->choices;
    struct sent_choice *to =
        (struct sent_choice *)((char *)l->to + node * l->pitch) + slot * c->top_k;

    for (uint32_t j = 0; j < c->top_k; j++) {
        uint64_t choice = token * c->top_k + j;
        bool is_here = c->slot[choice] >= 0 && node_of(c, c->expert[choice]) == node;

        to[j].expert = is_here ? c->expert[choice] - (int32_t)(node * (c->experts / c->nodes)) : -1;
        to[j].gate = is_here ? l->gate[choice] : 0;
    }
}

void host_label_rows(const struct label_rows *l)
{
    uint64_t listed = (uint64_t)l->choices.tokens * most_nodes_per_token(&l->choices);
    uint64_t k = l->choices.top_k;

    for (uint64_t i = 0; i < listed; i++)
        if (l->at.slot[i] >= 0)
            label_row(l, i / most_nodes_per_token(&l->choices), (uint32_t)l->at.node[i],
                      (uint64_t)l->at.slot[i]);
    /* Rows without a token have no choices. */
    for (uint32_t node = 0; node < l->choices.nodes; node++) {
        struct sent_choice *to = (struct sent_choice *)((char *)l->to + node * l->pitch);

        for (uint64_t i = (uint64_t)l->at.needed[node] * k; i < l->at.rows * k; i++)
            to[i] = (struct sent_choice){ -1, 0 };
    }
}

void host_collect_gates(const struct collect_gates *g)
{
    const struct listed_choices *c = &g->choices;
    uint64_t k = c->top_k;

    for (uint64_t choice = 0; choice < c->tokens * k; choice++) {
        uint64_t token_node = choice / k * most_nodes_per_token(c);
        const float *from;
        uint32_t node;

        if (c->slot[choice] < 0) {
            g->grad_gate[choice] = 0;
            continue;
        }
        node = node_of(c, c->expert[choice]);
        while ((uint32_t)g->at.node[token_node] != node)
            token_node++;
        from = (const float *)((const char *)g->from + node * g->pitch);
        g->grad_gate[choice] = from[(uint64_t)g->at.slot[token_node] * k + choice % k];
    }
}
