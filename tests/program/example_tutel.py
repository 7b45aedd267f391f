#!/usr/bin/env python3
"""A Tutel layer that is tuned while it trains, then run from the table that this made.

    torchrun --nproc_per_node 4 tests/program/example_tutel.py DB
    python3 tests/program/example_tutel.py DB                    # starts its own 4 ranks, on gloo
    moetune tune --ranks 4 --experts 1 --top-k 1 --tokens 512 --model-dim 256 --hidden-dim 256 --axes r \\
        --db DB --exec "python3 tests/program/example_tutel.py --steps 100"

First every r that the layer accepts is run under both adapters, and must give what the plain layer
gives.  --steps N, --compare N: how long to train, and how many pairs of steps to compare.
"""

import argparse
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)
try:
    from tutel import moe
except ImportError:
    print("skipped: tutel is not installed")
    sys.exit(0)
import moelookup.torch
import moelookup.tutel
import moetune.lines
import moetune.tutel

RANKS, EXPERTS, TOKENS, DIM, HIDDEN = 4, 1, 512, 256, 256
FACTORS = (0.25, 0.5, 1.0, 4.0)  # the capacity wanders
kinds = {"ffn": {"activation_fn": torch.relu}, "llama_ffn": {}}


def new_layer(experts, kind="ffn", group=None):
    """experts below the number of ranks: several ranks share one."""
    ranks = dist.get_world_size(group)
    per_rank = experts // ranks if experts >= ranks else -(ranks // experts)
    return moe.moe_layer(
        gate_type={"type": "top", "k": 2, "capacity_factor": 1.0},
        experts=dict(
            kinds[kind], type=kind, num_experts_per_device=per_rank, hidden_size_per_expert=HIDDEN
        ),
        model_dim=DIM,
        group=group,
        seeds=(1, dist.get_rank() + 1, 1),
        scan_expert_func=lambda name, param: setattr(param, "skip_allreduce", True),
    )


def new_input(step):
    torch.manual_seed(1000 * step + dist.get_rank())
    return torch.randn(TOKENS, DIM, requires_grad=True)


def train_step(run, x, layer, factor):
    """As a trainer would; returns what may be compared."""
    layer.zero_grad()
    y = run(x, capacity_factor=factor)
    (y.square().mean() + 0.01 * layer.l_aux).backward()
    return [y.detach(), x.grad] + [p.grad.clone() for p in layer.parameters()]


def check_plans(experts, kind, factor):
    """Each r under both adapters against the plain layer; how many there are."""
    layer = new_layer(experts, kind)
    expected = train_step(layer, new_input(0), layer, factor)
    told = Told(moetune.tutel.layer_shape(layer))
    # Tutel's default is r=1; the adapters' layer must not depend on what ran before.
    tuned = moetune.tutel.Tuned(layer, tuner=told)
    planned = moelookup.tutel.Adapter(layer, told)
    assert tuned.runnable_r == planned.runnable_r
    for r in sorted(tuned.runnable_r):
        for adapter in (tuned, planned):
            told.r, told.capacity = r, None
            got = train_step(adapter, new_input(0), layer, factor)
            assert adapter.plan.r == r and told.capacity > 0, (adapter.plan, r, told.capacity)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
    return len(tuned.runnable_r)


def what_becomes_of_0(layer):
    """A call's capacity factor of 0, where the gate drops most tokens."""
    told = Told(moetune.tutel.layer_shape(layer))
    planned = moelookup.tutel.Adapter(layer, told)
    layer.gates[0].capacity_factor = 0.25
    planned(new_input(0), capacity_factor=0)
    needed = told.capacity
    planned(new_input(0), capacity_factor=0.25)
    return "the gate's own" if told.capacity == needed else "no token is dropped"


class Told:
    """In place of a tuner, and of a table: says what it was told to say."""

    def __init__(self, shape):
        ranks = dist.get_world_size()
        defaults = {"ranks": ranks, "ranks_per_node": ranks, "train": True, "tokens": 0}
        self.shape, self.window, self.r, self.times = moetune.Shape(**shape, **defaults), 128, 1, []

    def ask(self, capacity):
        self.capacity = capacity
        return moetune.Plan(self.r)

    plan = ask

    def tell(self, time_us):
        self.times.append(time_us)

    def fail(self, why):
        raise AssertionError(why)


def tune(db, steps):
    layer = new_layer(EXPERTS)
    with moetune.tutel.Tuned(layer, db, share=1.0) as tuned:
        for step in range(steps):
            train_step(tuned, new_input(step), layer, FACTORS[step % len(FACTORS)])
        tuned.tuner.flush()
        return tuned.status()


def timed(run, x, layer, factor):
    dist.barrier()
    begin = time.perf_counter()
    train_step(run, x, layer, factor)
    took = torch.tensor(time.perf_counter() - begin)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def compare(db, pairs):
    """The table's plans against the default one, in turn: a line for each factor."""
    layer = new_layer(EXPERTS)
    table = moelookup.torch.open(db)
    view = table.bind(ranks=RANKS, ranks_per_node=RANKS, **moetune.tutel.layer_shape(layer))
    planned = moelookup.tutel.Adapter(layer, view)
    both = planned, lambda x, **options: layer(x, adaptive_r=1, **options)
    for factor in FACTORS:
        took = [[], []]
        for i in range(pairs + 2):
            for which in (i % 2, 1 - i % 2):
                took[which].append(timed(both[which], new_input(i), layer, factor))
        ratios = sorted(a / b for a, b in zip(*(one[2:] for one in took)))
        yield factor, planned.plan, ratios


def main(rank, ranks, meeting, options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    say = print if dist.get_rank() == 0 else lambda *_: None
    if not moetune.lines.is_attached():
        layer = new_layer(2)
        say(moetune.tutel.implementation(layer))
        say(f"a call's capacity factor of 0: {what_becomes_of_0(layer)}")
        for experts, kind in ((1, "ffn"), (2, "ffn"), (4, "ffn"), (8, "ffn"), (2, "llama_ffn")):
            for factor in (1.0, 0.0):
                count = check_plans(experts, kind, factor)
                say(
                    f"{kind}, {experts} experts, factor {factor}: {count} r under both adapters,"
                    " each like the plain layer"
                )
    if options.steps:
        say(tune(options.db, options.steps))
    if options.compare:
        for factor, plan, ratios in compare(options.db, options.compare):
            middle, most = ratios[len(ratios) // 2], len(ratios) - 1
            low, high = ratios[most // 4], ratios[most - most // 4]
            say(
                f"factor {factor}: {plan} ({plan.source.name}) takes {middle:.3f} ({low:.3f} to {high:.3f})"
                " of the default plan's step"
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("db", nargs="?")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--compare", type=int, default=0)
    options = parser.parse_args()
    if "RANK" in os.environ:  # torchrun
        main(-1, -1, "env://", options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            meeting = f"file://{folder}/meeting"
            torch.multiprocessing.spawn(main, (RANKS, meeting, options), nprocs=RANKS)
