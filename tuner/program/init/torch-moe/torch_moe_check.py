"""Checks that a plan of torch_moe_layer.py computes the same as a plain loop over the experts."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch_moe_layer import Unsupported

OFF_BY = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}  # rounding may change such a share of the norm
RESULTS = "y", "gradient of x", "gradient of gate", "gradient of up", "gradient of down"


def plain_step(layer, x, dy):
    """Computes Layer.step by a loop over all experts.  Each expert gets every token."""
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
    """Raises Unsupported on all ranks if one of them finds another result."""
    act = layer.act
    if act is F.relu:
        layer.act = F.gelu  # at ReLU's bend rounding alone changes the gradient
    try:
        got, expected = layer.step(x, dy, plan), plain_step(layer, x, dy)
    finally:
        layer.act = act
    off = torch.stack([(a - b).norm() / b.norm().clamp(min=1e-9) for a, b in zip(got, expected)])
    off = off.float().nan_to_num(float("inf"))
    dist.all_reduce(off, dist.ReduceOp.MAX)
    for name, by in zip(RESULTS, off.tolist()):
        if by > OFF_BY[layer.shape["dtype"]]:
            raise Unsupported(f"wrong: {name} is off by {by:.2g} (seed {torch.initial_seed()})")
