/* The kernels of tokens that go to each node once (relayed.h), on a GPU. */
#include "cuda_rows.cuh"

DEVICE uint32_t node_of(const struct listed_choices &c, int32_t expert)
{
    return (uint32_t)expert / (c.experts / c.nodes);
}

/* The place of a node among those listed for a token; `count` if it is not listed. */
DEVICE uint32_t find_node(const struct sent_choice *listed, uint32_t count, uint32_t node)
{
    uint32_t i = 0;

    while (i < count && (uint32_t)listed[i].expert != node)
        i++;
    return i;
}

/* One thread handles one token, because the token's few choices depend on each other. */
static __global__ void __launch_bounds__(THREADS) list_nodes_kernel(struct list_nodes l)
{
    const struct listed_choices &c = l.choices;
    uint32_t most_nodes = most_nodes_per_token(&c);

    for (uint64_t t = (uint64_t)blockIdx.x * THREADS + threadIdx.x; t < c.tokens;
         t += (uint64_t)gridDim.x * THREADS) {
        struct sent_choice *listed = l.to + t * most_nodes;
        uint32_t count = 0;

        for (uint64_t choice = t * c.top_k; choice < (t + 1) * c.top_k; choice++) {
            uint32_t node = c.slot[choice] < 0 ? 0 : node_of(c, c.expert[choice]);

            if (c.slot[choice] >= 0 && find_node(listed, count, node) == count)
                listed[count++] = { (int32_t)node, 1 };
        }
        while (count < most_nodes)
            listed[count++] = { -1, 0 };
    }
}

extern "C" int cuda_list_nodes(const struct list_nodes *l, const struct cuda_queue *queue)
{
    if (!l->choices.tokens)
        return 0;
    return cuda_check(
        launch(list_nodes_kernel, blocks_for(l->choices.tokens), THREADS, queue->stream, *l),
        "list_nodes");
}

/* One thread writes one label, of one listed node and choice. */
static __global__ void __launch_bounds__(THREADS) label_rows_kernel(struct label_rows l)
{
    const struct listed_choices &c = l.choices;
    uint64_t labels = (uint64_t)c.tokens * most_nodes_per_token(&c) * c.top_k;

    for (uint64_t label = (uint64_t)blockIdx.x * THREADS + threadIdx.x; label < labels;
         label += (uint64_t)gridDim.x * THREADS) {
        uint64_t token_node = label / c.top_k, j = label % c.top_k;
        uint64_t choice = token_node / most_nodes_per_token(&c) * c.top_k + j;
        int64_t slot = l.at.slot[token_node];
        uint32_t node = (uint32_t)l.at.node[token_node], node_experts = c.experts / c.nodes;
        bool is_here;

        if (slot < 0)
            continue;
        is_here = c.slot[choice] >= 0 && node_of(c, c.expert[choice]) == node;
        ((struct sent_choice *)((char *)l.to + node * l.pitch))[slot * c.top_k + j] = {
            is_here ? c.expert[choice] - (int32_t)(node * node_experts) : -1,
            is_here ? l.gate[choice] : 0
        };
    }
}

static __global__ void __launch_bounds__(THREADS) clear_labels_kernel(struct label_rows l)
{
    uint64_t node_labels = l.at.rows * l.choices.top_k, labels = l.choices.nodes * node_labels;

    for (uint64_t label = (uint64_t)blockIdx.x * THREADS + threadIdx.x; label < labels;
         label += (uint64_t)gridDim.x * THREADS) {
        uint64_t node = label / node_labels, place = label % node_labels;

        if (place >= (uint64_t)l.at.needed[node] * l.choices.top_k)
            ((struct sent_choice *)((char *)l.to + node * l.pitch))[place] = { -1, 0 };
    }
}

extern "C" int cuda_label_rows(const struct label_rows *l, const struct cuda_queue *queue)
{
    const struct listed_choices *c = &l->choices;
    uint64_t labels = (uint64_t)c->tokens * most_nodes_per_token(c) * c->top_k;
    uint64_t places = c->nodes * l->at.rows * c->top_k;
    cudaError_t code = cudaSuccess;

    if (labels)
        code = launch(label_rows_kernel, blocks_for(labels), THREADS, queue->stream, *l);
    if (!code && places)
        code = launch(clear_labels_kernel, blocks_for(places), THREADS, queue->stream, *l);
    return cuda_check(code, "label_rows");
}

static __global__ void __launch_bounds__(THREADS) collect_gates_kernel(struct collect_gates g)
{
    const struct listed_choices &c = g.choices;
    uint64_t choices = (uint64_t)c.tokens * c.top_k;

    for (uint64_t choice = (uint64_t)blockIdx.x * THREADS + threadIdx.x; choice < choices;
         choice += (uint64_t)gridDim.x * THREADS) {
        uint64_t token_node = choice / c.top_k * most_nodes_per_token(&c);
        uint32_t node;

        if (c.slot[choice] < 0) {
            g.grad_gate[choice] = 0;
            continue;
        }
        node = node_of(c, c.expert[choice]);
        while ((uint32_t)g.at.node[token_node] != node)
            token_node++;
        g.grad_gate[choice] =
            ((const float *)((const char *)g.from +
                             node * g.pitch))[(uint64_t)g.at.slot[token_node] * c.top_k +
                                              choice % c.top_k];
    }
}

extern "C" int cuda_collect_gates(const struct collect_gates *g, const struct cuda_queue *queue)
{
    uint64_t choices = (uint64_t)g->choices.tokens * g->choices.top_k;

    if (!choices)
        return 0;
    return cuda_check(launch(collect_gates_kernel, blocks_for(choices), THREADS, queue->stream, *g),
                      "collect_gates");
}
