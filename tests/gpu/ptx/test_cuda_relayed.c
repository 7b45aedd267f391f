/* The CUDA kernels of tokens that go to a node once against their host twins, on random inputs. */
#include "check.h"

#include "cuda_cases.h"
#include "host.h"

struct relayed_case {
    struct listed_choices host, subject;
    struct sent_choice *listed;
    struct node_rows on_host, on_subject;
    float *gate;
    int32_t *expert, *node;
    int64_t *slot, *place, *needed;
    uint64_t choices, list; /* numbers, of choices and of listed nodes */
};

/* Some choices are dropped. */
static void route_some(struct relayed_case *c)
{
    const struct listed_choices *at = &c->host;
    float *logits = floats((uint64_t)at->tokens * at->experts);
    int64_t *needed = malloc(at->experts * sizeof(*needed));

    c->gate = malloc((c->choices + 1) * sizeof(*c->gate));
    c->expert = malloc((c->choices + 1) * sizeof(*c->expert));
    c->slot = malloc((c->choices + 1) * sizeof(*c->slot));
    host_route(&(struct route){ at->tokens, at->experts, at->top_k, below(2) ? below(20) : 1000,
                                logits, c->gate, c->expert, c->slot, needed });
    free(logits), free(needed);
}

static struct relayed_case some_choices(void)
{
    struct relayed_case c = { .host = { .tokens = below(4) ? below(40) : 300,
                                        .nodes = 1 + below(5) } };
    struct listed_choices *at = &c.host;

    at->experts = at->nodes * (1 + below(6));
    at->top_k = 1 + below(at->experts < 6 ? at->experts : 6);
    c.choices = (uint64_t)at->tokens * at->top_k;
    c.list = (uint64_t)at->tokens * most_nodes_per_token(at);
    route_some(&c);
    at->expert = c.expert;
    at->slot = c.slot;
    c.subject = *at;
    c.subject.expert = on_subject(c.expert, c.choices * sizeof(*c.expert), 4);
    c.subject.slot = on_subject(c.slot, c.choices * sizeof(*c.slot), 8);
    c.listed = malloc((c.list + 1) * sizeof(*c.listed));
    return c;
}

/* Where the rows of listed nodes lie. */
static void place_rows(struct relayed_case *c)
{
    const struct listed_choices *at = &c->host;
    float *ones = malloc((c->list + 1) * sizeof(*ones));
    uint64_t rows = 0;

    c->node = malloc((c->list + 1) * sizeof(*c->node));
    c->place = malloc((c->list + 1) * sizeof(*c->place));
    c->needed = malloc(at->nodes * sizeof(*c->needed));
    host_recount(&(struct recount){ at->tokens, at->nodes, most_nodes_per_token(at), c->listed, c->node, ones,
                                    c->place, c->needed });
    for (uint32_t n = 0; n < at->nodes; n++)
        rows = (uint64_t)c->needed[n] > rows ? (uint64_t)c->needed[n] : rows;
    c->on_host = (struct node_rows){ rows + below(3), c->node, c->place, c->needed };
    c->on_subject =
        (struct node_rows){ c->on_host.rows, on_subject(c->node, c->list * sizeof(*c->node), 4),
                            on_subject(c->place, c->list * sizeof(*c->place), 8),
                            on_subject(c->needed, at->nodes * sizeof(*c->needed), 8) };
    free(ones);
}

static void case_free(struct relayed_case *c)
{
    free_buffers();
    free(c->listed), free(c->gate), free(c->expert), free(c->node);
    free(c->slot), free(c->place), free(c->needed);
}

static void tokens_that_go_to_a_node_once_are_listed_labelled_and_collected(void)
{
    for (int round = 0; round < 40 * rounds; round++) {
        struct relayed_case c = some_choices();
        size_t listed = c.list * sizeof(*c.listed), gates = c.choices * sizeof(float), of_node;
        struct list_nodes list = { c.subject, on_subject(NULL, listed, 8) };
        struct label_rows label = { .choices = c.subject };
        struct collect_gates collect = { .choices = c.subject };
        uint64_t labels, pitch;
        char *want;
        float *from, *grad = malloc(gates + 4);

        host_list_nodes(&(struct list_nodes){ c.host, c.listed });
        RUN(list_nodes, &list);
        CHECK(!memcmp(after(list.to), c.listed, listed));

        place_rows(&c);
        labels = c.on_host.rows * c.host.top_k;
        pitch = labels * sizeof(struct sent_choice) + 8 * below(4);
        of_node = c.host.nodes * pitch;
        want = malloc(of_node + 1);
        memset(want, 0xff, of_node);
        label.at = c.on_subject, label.pitch = pitch;
        label.gate = on_subject(c.gate, gates, 4);
        label.to = on_subject(NULL, of_node, 8);
        host_label_rows(&(struct label_rows){ c.host, c.on_host, c.gate, pitch, want });
        RUN(label_rows, &label);
        CHECK(!memcmp(after(label.to), want, of_node));

        collect.at = c.on_subject, collect.pitch = pitch;
        collect.from = typed(MOE_F32, of_node / sizeof(*from), 1, &from);
        collect.grad_gate = room(MOE_F32, c.choices);
        host_collect_gates(&(struct collect_gates){ c.host, c.on_host, pitch, from, grad });
        RUN(collect_gates, &collect);
        check_values(MOE_F32, collect.grad_gate, grad, c.choices, 0, 0);
        free(want), free(from), free(grad);
        case_free(&c);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(tokens_that_go_to_a_node_once_are_listed_labelled_and_collected),
    };
    const char *more = getenv("MOETUNE_TEST_ROUNDS");
    int failed;

    seed = test_seed();
    rounds = more ? strtod(more, NULL) : 1;
    if (subject_open(&device) || stream_open(device, &stream))
        return 2;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    stream_close(stream);
    device_close(device);
    return failed;
}
