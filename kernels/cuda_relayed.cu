/* The kernels of tokens that go to each node once (relayed.h), on a GPU. */
#include "cuda_rows.cuh"

DEVICE uint32_t node_of(const struct listed_choices &c, int32_t expert)
{
    return (uint32_t)expert / (c.experts / c.nodes);
}

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
    uint32_t fan = most_nodes_per_token(&c);

    for (uint64_t t = (uint64_t)blockIdx.x * THREADS + threadIdx.x; t < c.tokens;
         t += (uint64_t)gridDim.x * THREADS) {
        struct sent_choice *to = l.to + t * fan;
        uint32_t count = 0;

        for (uint64_t i = t * c.top_k; i < (t + 1) * c.top_k; i++) {
            uint32_t node = c.slot[i] < 0 ? 0 : node_of(c, c.expert[i]);

            if (c.slot[i] >= 0 && find_node(to, count, node) == count)
                to[count++] = { (int32_t)node, 1 };
        }
        while (count < fan)
            to[count++] = { -1, 0 };
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

    for (uint64_t n = (uint64_t)blockIdx.x * THREADS + threadIdx.x; n < labels;
         n += (uint64_t)gridDim.x * THREADS) {
        uint64_t listed = n / c.top_k, j = n % c.top_k;
        uint64_t i = listed / most_nodes_per_token(&c) * c.top_k + j;
        int64_t slot = l.at.slot[listed];
        uint32_t node = (uint32_t)l.at.node[listed], local = c.experts / c.nodes;
        bool here;

        if (slot < 0)
            continue;
        here = c.slot[i] >= 0 && node_of(c, c.expert[i]) == node;
        ((struct sent_choice *)((char *)l.to + node * l.pitch))[slot * c.top_k + j] = {
            here ? c.expert[i] - (int32_t)(node * local) : -1, here ? l.gate[i] : 0
        };
    }
}

static __global__ void __launch_bounds__(THREADS) clear_labels_kernel(struct label_rows l)
{
    uint64_t each = l.at.rows * l.choices.top_k, labels = l.choices.nodes * each;

    for (uint64_t n = (uint64_t)blockIdx.x * THREADS + threadIdx.x; n < labels;
         n += (uint64_t)gridDim.x * THREADS) {
        uint64_t node = n / each, i = n % each;

        if (i >= (uint64_t)l.at.needed[node] * l.choices.top_k)
            ((struct sent_choice *)((char *)l.to + node * l.pitch))[i] = { -1, 0 };
    }
}

extern "C" int cuda_label_rows(const struct label_rows *l, const struct cuda_queue *queue)
{
    const struct listed_choices *c = &l->choices;
    uint64_t labels = (uint64_t)c->tokens * most_nodes_per_token(c) * c->top_k;
    uint64_t room = c->nodes * l->at.rows * c->top_k;
    cudaError_t code = cudaSuccess;

    if (labels)
        code = launch(label_rows_kernel, blocks_for(labels), THREADS, queue->stream, *l);
    if (!code && room)
        code = launch(clear_labels_kernel, blocks_for(room), THREADS, queue->stream, *l);
    return cuda_check(code, "label_rows");
}

static __global__ void __launch_bounds__(THREADS) collect_gates_kernel(struct collect_gates g)
{
    const struct listed_choices &c = g.choices;
    uint64_t choices = (uint64_t)c.tokens * c.top_k;

    for (uint64_t n = (uint64_t)blockIdx.x * THREADS + threadIdx.x; n < choices;
         n += (uint64_t)gridDim.x * THREADS) {
        uint64_t i = n / c.top_k * most_nodes_per_token(&c);
        uint32_t node;

        if (c.slot[n] < 0) {
            g.grad_gate[n] = 0;
            continue;
        }
        node = node_of(c, c.expert[n]);
        while ((uint32_t)g.at.node[i] != node)
            i++;
        g.grad_gate[n] =
            ((const float *)((const char *)g.from +
                             node * g.pitch))[(uint64_t)g.at.slot[i] * c.top_k + n % c.top_k];
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
