#!/usr/bin/env python3
"""A Mixture-of-Experts layer in PyTorch: dispatcher, experts, chunks, EP

    pip install moetune-*.whl torch    # of moetune: `make wheel`
    torchrun --nproc_per_node 4 torch-moe.py --check
    moetune tune --space torch-moe.space --exec "torchrun --nproc_per_node 4 torch-moe.py" --ranks 4

To make it yours: put your layer in place of torch_moe_layer.py, its choices in place of the space's
axes, and leave this as it is.  --check compares each plan with a plain loop over the experts first,
on fresh numbers.  --plan "dispatcher=alltoall experts=loop chunks=2 ep=2" is for trying one by hand.
"""

import argparse
import itertools
import os
import time

import moetune
import moetune.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch_moe_layer import Layer, Unsupported

USUAL = "E=8 k=2 T=512 D=64 H=128 dtype=f32 act=relu"  # where the command's flags say nothing
OFF_BY = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}  # what rounding may change, of a result's norm


def step(layer, x, dy, plan):
    """Forward, backward, and the sums of gradients that belong to this plan."""
    weights = layer.gate, layer.up, layer.down
    for one in (x, *weights):
        one.grad = None
    y = layer(x, plan)
    y.backward(dy)
    for one, group in zip(weights, (None, layer.copies, layer.copies)):
        dist.all_reduce(one.grad, group=group)
    return [y.detach(), x.grad, *(one.grad for one in weights)]


def plain_step(layer, x, dy):
    """The same by a loop over all experts, each of which sees every token."""
    mine = slice(layer.first, layer.first + layer.per_rank)
    up, down = layer.weights(range(layer.shape["E"]))
    x, layer.gate.grad = x.detach().requires_grad_(), None
    weight, expert = layer.route(x)
    y = torch.zeros_like(x)
    for e in range(layer.shape["E"]):
        part = (weight * (expert == e)).sum(1, keepdim=True)
        y = y + part * (layer.act(x @ up[e].T) @ down[e].T)
    y.backward(dy)
    for one in (layer.gate, up, down):
        dist.all_reduce(one.grad)
    return [y.detach(), x.grad, layer.gate.grad, up.grad[mine], down.grad[mine]]


def check(layer, x, dy, plan):
    """Unsupported on all ranks if any of them finds another result."""
    act = layer.act
    if act is F.relu:
        layer.act = F.gelu  # at ReLU's bend rounding alone would make another gradient
    expected = plain_step(layer, x, dy)
    got = step(layer, x, dy, plan)
    layer.act = act
    off = torch.stack([(a - b).norm() / b.norm().clamp(min=1e-9) for a, b in zip(got, expected)])
    off = off.float().nan_to_num(float("inf"))
    dist.all_reduce(off, dist.ReduceOp.MAX)
    names = "y", "gradient of x", "gradient of gate", "gradient of up", "gradient of down"
    for name, by in zip(names, off.tolist()):
        if by > OFF_BY[layer.shape["dtype"]]:
            raise Unsupported(f"wrong: {name} is off by {by:.2g} (seed {torch.initial_seed()})")


def timed(layer, x, dy, plan):
    """Microseconds, and bytes on a GPU."""
    cuda = layer.device.type == "cuda"
    synchronize = torch.cuda.synchronize if cuda else int
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    synchronize()
    dist.barrier()
    begin = time.perf_counter()
    step(layer, x, dy, plan)
    synchronize()
    us = 1e6 * (time.perf_counter() - begin)
    return us, torch.cuda.max_memory_allocated() if cuda else None


def main(options):
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if device.type == "cpu" else "nccl")
    torch.seed()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape, layer, last = dict(moetune.words(USUAL), **asker.layer), None, None
    for tokens in itertools.cycle(options.tokens or [shape["T"]]):
        plan = asker.ask(tokens)
        if plan is None:
            break
        try:
            layer = layer or Layer(shape, plan["ep"], device)
            x = torch.randn(tokens, shape["D"], device=device).to(layer.dtype).requires_grad_()
            dy = torch.randn_like(x)
            if options.check:
                check(layer, x, dy, plan)
            if (plan, tokens) != last:
                timed(layer, x, dy, plan)  # warms up
            last = plan, tokens
            us, memory = timed(layer, x, dy, plan)
        except Unsupported as why:
            asker.fail(str(why))
        else:
            asker.tell(us, memory)
    asker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="of a rank, in turn (T of the layer)")
    parser.add_argument("--check", action="store_true", help="compare every plan with a plain loop")
    parser.add_argument("--plan", default="dispatcher=allgather experts=padded chunks=1 ep=1")
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
