#!/usr/bin/env python3
"""A layer of Tutel: r, chunks that overlap, the all-to-all

    pip install moetune-*.whl torch git+https://github.com/microsoft/tutel
    torchrun --nproc_per_node 4 tutel-moe.py --plan "r=0 d=1 a=linear"
    moetune tune --space tutel-moe.space --exec "torchrun --nproc_per_node 4 tutel-moe.py" \
        --ranks 4 --shape "E=2 k=2 T=512 D=64 H=128 dtype=f32 act=relu"

It ran with Tutel 0.4 of 2025-03 and of 2026-07 (ac0e51b), on cores, where d and a have one value
each.  On several nodes a=2dh needs LOCAL_SIZE, the ranks per node.  To tune a trainer while it
trains, use moetune.tutel.Tuned instead.
"""

import argparse
import itertools
import os

try:
    import moetune
    import moetune.torch
    import torch
    import torch.distributed as dist
    from tutel import moe
except ImportError as missing:
    raise SystemExit(f"tutel-moe: {missing}: pip install what the head of tutel-moe.py says")

USUAL = "E=2 k=2 T=512 D=64 H=128 dtype=f32 act=relu"  # where moetune names no layer
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ACTIVATIONS = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}


def new_layer(shape, device):
    experts, ranks = shape["E"], dist.get_world_size()
    if shape["act"] not in ACTIVATIONS:
        raise SystemExit(f"act={shape['act']}: Tutel's ffn has {' and '.join(ACTIVATIONS)}")
    layer = moe.moe_layer(
        gate_type={"type": "top", "k": shape["k"]},
        model_dim=shape["D"],
        experts={
            "type": "ffn",
            "num_experts_per_device": experts // ranks if experts >= ranks else -(ranks // experts),
            "hidden_size_per_expert": shape["H"],
            "activation_fn": ACTIVATIONS[shape["act"]],
        },
        seeds=(1, dist.get_rank() + 1, 1),
        scan_expert_func=lambda _, parameter: setattr(parameter, "skip_allreduce", True),
    )
    return layer.to(device, DTYPES[shape["dtype"]])


def why_not(plan, layer, device):
    """Returns why Tutel would compute a wrong result, or the same as another plan."""
    per_node = int(os.environ.get("LOCAL_SIZE", 0))
    if plan["r"] not in layer.valid_rs:
        return f"r={plan['r']}: this layer has {sorted(layer.valid_rs)}"
    if plan["d"] > 1 and device.type != "cuda":
        return "d: Tutel overlaps chunks on GPUs alone"
    if plan["a"] == "2dh" and not 1 < per_node < dist.get_world_size():
        return "a=2dh: it is for several nodes, and wants LOCAL_SIZE, the ranks of one"


def step(layer, x, factor, plan):
    layer.zero_grad()
    layer.use_2dh = plan["a"] == "2dh"  # Tutel has no argument for it
    options = {"adaptive_r": plan["r"], "a2a_ffn_overlap_degree": plan["d"]}
    y = layer(x, capacity_factor=factor, **options)
    (y.square().mean() + 0.01 * layer.l_aux).backward()


def main(options):
    device = moetune.torch.join_ranks()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    layer = new_layer(shape, device)
    if min(options.factors) <= 0:
        raise SystemExit("--factors: of 0 or less Tutel counts the capacity as it routes, after d")
    for factor in itertools.cycle(options.factors):
        capacity = shape["k"] * int(factor * -(-shape["T"] // shape["E"]))  # as Tutel computes it
        plan = asker.ask(capacity)
        if plan is None:
            break
        wrong = why_not(plan, layer, device)
        if wrong:
            asker.fail(wrong)
            continue
        x = torch.randn(shape["T"], shape["D"], device=device).to(DTYPES[shape["dtype"]])
        asker.tell(*asker.timed(step, layer, x, factor, plan))
    asker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--factors", type=float, nargs="*", default=[1.0], help="of capacity")
    parser.add_argument("--plan", default="r=1 d=1 a=linear")
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
