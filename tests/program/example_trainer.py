#!/usr/bin/env python3
"""A small MoE trainer that asks libmoelookup for each step's plan, and switches without stopping.

    torchrun --nproc_per_node 4 tests/program/example_trainer.py [TABLE]
    python3 tests/program/example_trainer.py [TABLE]             # starts its own 4 ranks

TABLE is a moetune.db or a packed table; without one the search path of moelookup.h counts.  Two
ranks play a node, so that both all-to-alls can run.  The same training is done twice, with the
table's plans and with the default plan, and must give the same weights.  Then once more with
capacities that follow the experts, decided and looked up on a thread beside the steps.
"""

import os
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)
import moelookup
import moelookup.torch

DIM, HIDDEN, STEPS, PER_NODE = 16, 32, 12, 2


def all_to_all(x, group):
    x = x.contiguous()
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x, group=group)
    return y


class Exchange(torch.autograd.Function):
    """x[i] goes to rank i.  Its own inverse, so the backward pass is the same again."""

    @staticmethod
    def forward(ctx, x, a, groups):
        ctx.a, ctx.groups = a, groups
        if a == "linear":
            return all_to_all(x, None)
        inside, across = groups  # "2dh": to the right place in the own node, then to the node
        x = all_to_all(x.view(-1, PER_NODE, *x.shape[1:]).transpose(0, 1), inside)
        return all_to_all(x.transpose(0, 1), across).flatten(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient, ctx.a, ctx.groups), None, None


class Gather(torch.autograd.Function):
    """Every rank's tensor, stacked."""

    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient[dist.get_rank()]


class Layer(torch.nn.Module):
    """One expert per rank, top-1.  advice says capacity and plan; tokens beyond it are dropped."""

    def __init__(self, advice, groups):
        super().__init__()
        self.advice, self.groups, self.plans = advice, groups, []
        torch.manual_seed(7)
        self.gate = torch.nn.Parameter(torch.randn(DIM, dist.get_world_size()) / 4)
        torch.manual_seed(100 + dist.get_rank())
        self.up = torch.nn.Parameter(torch.randn(DIM, HIDDEN) / 4)
        self.down = torch.nn.Parameter(torch.randn(HIDDEN, DIM) / 4)

    def forward(self, x):
        experts = self.gate.shape[1]
        weight, expert = (x @ self.gate).softmax(-1).max(-1)
        chosen = torch.nn.functional.one_hot(expert, experts)
        counts = chosen.sum(0)
        dist.all_reduce(counts, dist.ReduceOp.MAX)  # equal capacities, equal plans

        capacity, plan = self.advice(len(self.plans), counts)  # this is all that a trainer adds
        self.plans.append(plan)

        slots = -(-capacity // plan.d) * plan.d  # every chunk has the same size
        slot = (chosen.cumsum(0) * chosen).sum(1) - 1
        kept = (slot < capacity).nonzero()[:, 0]
        place = (slot + expert * slots)[kept]
        boxes = x.new_zeros(experts * slots, DIM).index_copy(0, place, x[kept])
        rows = self.run(boxes.view(experts, slots, DIM), plan).flatten(0, 1)[place]
        return x.new_zeros(len(x), DIM).index_copy(0, kept, rows) * weight[:, None]

    def run(self, boxes, plan):
        if plan.r == 0:  # data parallel: the experts come to the tokens
            return (boxes @ Gather.apply(self.up)).relu() @ Gather.apply(self.down)
        chunks = []
        for chunk in boxes.chunk(plan.d, dim=1):  # a real one overlaps these
            rows = Exchange.apply(chunk, plan.a, self.groups)
            rows = (rows @ self.up).relu() @ self.down
            chunks.append(Exchange.apply(rows, plan.a, self.groups))
        return torch.cat(chunks, dim=1)


def dropless(plan_of):
    """The capacity is what this step needs."""

    def advice(step, counts):
        capacity = moelookup.capacity(0.0, 1, len(counts), 0, int(counts.max()))
        return capacity, plan_of(capacity)

    return advice


def following(beside, said):
    """The capacity is what counts of earlier steps say; these counts act later."""

    def advice(step, counts):
        state, plan = beside.answer(step)
        beside.counts(step, counts.tolist())
        said.append((state.key, plan))
        return state.key, plan

    return advice


def train(advice, groups):
    layer = Layer(advice, groups)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    for step in range(STEPS):
        torch.manual_seed(1000 * step + dist.get_rank())
        x = torch.randn(64 * (1 + step % 6), DIM)
        loss = (layer(x) - x.roll(1, dims=-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        dist.all_reduce(layer.gate.grad)
        optimizer.step()
    return [p.detach() for p in layer.parameters()], layer.plans


def own_group(lists):
    groups = [dist.new_group(ranks) for ranks in lists]  # every rank takes part in making each
    return next(g for g, ranks in zip(groups, lists) if dist.get_rank() in ranks)


def main(rank, ranks, meeting, table_path):
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    ranks = dist.get_world_size()
    nodes = [list(range(n, n + PER_NODE)) for n in range(0, ranks, PER_NODE)]
    groups = own_group(nodes), own_group([list(ranks) for ranks in zip(*nodes)])

    table = moelookup.torch.open(table_path)  # read on rank 0, the same on all
    shape = {"experts": ranks, "top_k": 1, "model_dim": DIM, "hidden_dim": HIDDEN}
    view = table.bind(ranks=ranks, ranks_per_node=PER_NODE, **shape)
    weights, plans = train(dropless(view.plan), groups)
    expected, _ = train(dropless(lambda capacity: moelookup.Plan()), groups)
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)

    capacities = moelookup.Capacities(
        experts=ranks, ranks=ranks, most=6 * 64, start=64, hold=3, gap=2, delta=2
    )
    beside, said = moelookup.Beside(capacities, view), []
    weights, _ = train(following(beside, said), groups)
    beside.close()
    expected, _ = train(lambda step, counts: (said[step][0], moelookup.Plan()), groups)
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)
    assert len(set(said)) > 1, said
    if dist.get_rank() == 0:
        print(*plans, "the weights equal those of the default plan", sep="\n")
        print("capacities that follow:", *(capacity for capacity, _ in said))
    dist.destroy_process_group()


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else None
    torch.set_num_threads(1)
    if "RANK" in os.environ:  # torchrun
        main(-1, -1, "env://", given)
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(main, (4, f"file://{folder}/meeting", given), nprocs=4)
