#!/usr/bin/env python3
"""Measures what the tuner costs a Tutel layer once its bucket is decided: Tuned against the plain layer
under the same plan, in interleaved blocks of steps on 4 gloo ranks.

    python3 tests/bench/bench_tutel.py [PAIRS]

Without Tutel, a stand-in layer exchanges by torch's all_to_all and multiplies by the same matrices.
The number of tokens makes a step of about 25 ms.
"""

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
import moetune.tutel

try:
    from example_tutel import new_layer
except SystemExit:
    new_layer = None

RANKS, BLOCK, STEP_S = 4, 10, 0.025
EXPERTS, DIM, HIDDEN = 4, 256, 256


class Gate:
    capacity_factor, top_k = 1.0, 2


class StandIn(torch.nn.Module):
    """What the adapter knows of Tutel's layer; one expert per rank, every token to each of two."""

    valid_rs, group, model_dim, a2a_ffn_overlap_degree = (0, 1), None, DIM, 1
    adaptive_degree, use_2dh = 1, False

    def __init__(self):
        super().__init__()
        self.gates, self.num_global_experts, self.world_size = [Gate()], RANKS, RANKS
        self.experts = FusedExpertsNetwork()

    def forward(self, x, adaptive_r=1, **_):
        rows = 2 * (x.shape[0] // RANKS) * RANKS
        y = Exchange.apply(x.repeat(2, 1)[:rows])
        return Exchange.apply(self.experts(y))[: x.shape[0]]


class FusedExpertsNetwork(torch.nn.Module):
    hidden_size_per_expert = HIDDEN

    def __init__(self):
        super().__init__()
        self.up, self.down = (torch.nn.Linear(DIM, HIDDEN), torch.nn.Linear(HIDDEN, DIM))

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(context, grad):
        return Exchange.forward(context, grad)


def largest(seconds):
    value = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return float(value)


def block(run, layer, x):
    """Seconds for a step."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(BLOCK):
        layer.zero_grad()
        run(x).square().mean().backward()
    return largest((time.perf_counter() - begin) / BLOCK)


def input_for(layer):
    tokens = 64
    while True:
        torch.manual_seed(dist.get_rank())
        x = torch.randn(tokens, DIM, requires_grad=True)
        block(layer, layer, x)
        if block(layer, layer, x) > 0.7 * STEP_S:
            return x
        tokens *= 2


def until_decided(tuned, layer, x):
    for steps in range(0, 3000, BLOCK):
        block(tuned, layer, x)
        if largest(float(tuned.status().decided)):
            return steps + BLOCK
    raise SystemExit("the bucket was not decided")


def main(rank, meeting, db, pairs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    layer = StandIn() if new_layer is None else new_layer(EXPERTS)
    x = input_for(layer)
    with moetune.tutel.Tuned(layer, db, share=1.0) as tuned:
        steps = until_decided(tuned, layer, x)
        block(tuned, layer, x)
        plan = tuned.plan
        plain = lambda x: layer(x, adaptive_r=plan.r, a2a_ffn_overlap_degree=plan.d)
        took = [[], []]
        for i in range(pairs):
            for which in (i % 2, 1 - i % 2):
                took[which].append(block((tuned, plain)[which], layer, x))
        if rank == 0:
            report(took, plan, steps, tuned.status())
    dist.destroy_process_group()


def report(took, plan, steps, status):
    ratios = sorted(a / b for a, b in zip(*took))
    n = len(ratios)
    reach = int(0.98 * n**0.5 + 1)  # 95 % for the median, by ranks
    low, high = ratios[max(0, n // 2 - reach)], ratios[min(n - 1, n // 2 + reach)]
    name = "a stand-in for Tutel" if new_layer is None else "Tutel"
    print(
        f"{name}, {RANKS} gloo ranks on {os.cpu_count()} cores, {plan} ({plan.source.name}, after"
        f" {steps} steps of {1e3 * sorted(took[1])[n // 2]:.1f} ms):\nTuned over plain, decided:"
        f" {ratios[n // 2]:.4f} ({low:.4f} to {high:.4f}), {n} pairs of blocks of {BLOCK} steps,"
        f" {status.alarms} alarms; in all {100 * status.cost_us / status.time_us:.2f} % of the time"
        f" went into exploring, {100 * status.own_us / status.time_us:.2f} % into the library and its"
        " exchanges"
    )


if __name__ == "__main__":
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as folder:
        arguments = (f"file://{folder}/meeting", os.path.join(folder, "t.db"), pairs)
        torch.multiprocessing.spawn(main, arguments, nprocs=RANKS)
