#!/usr/bin/env python3
"""An MoE layer in PyTorch: dispatcher, experts, chunks, EP

    pip install moetune-*.whl torch    # of moetune: `make wheel`
    torchrun --nproc_per_node 4 torch-moe.py --check
    moetune tune --space torch-moe.space --exec "torchrun --nproc_per_node 4 torch-moe.py" \
        --ranks 4 --shape "E=8 k=2 T=512 D=64 H=128 dtype=f32 act=relu"

To tune your own layer, replace torch_moe_layer.py by it, and the axes of the space by its knobs.
This file stays as it is.

--check first compares each plan with a plain loop over the experts, on fresh numbers; it may stand
in --exec, too.  Without moetune the program runs one plan, and its last line is a verdict.  --plan
"dispatcher=alltoall experts=loop chunks=2 ep=2" chooses that plan.

The program computes the class of the space before it knows the plan: it counts the rows that each
expert gets, over all ranks.  A trainer that asks the table does the same.  --skew 1 3 makes inputs
of two classes.
"""

import argparse
import itertools

try:
    import moetune
    import moetune.torch
    import torch
    import torch.distributed as dist
    from torch_moe_check import check
    from torch_moe_layer import Layer, Unsupported
except ImportError as missing:
    raise SystemExit(f"torch-moe: {missing}: pip install what the head of torch-moe.py says")

USUAL = "E=8 k=2 T=512 D=64 H=128 dtype=f32 act=relu"  # where moetune names no layer


def main(options):
    device = moetune.torch.join_ranks()
    torch.seed()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    try:
        layer = Layer(shape, asker.launch["ep"], device)
    except Unsupported as why:
        raise SystemExit(f"torch-moe: {why}")  # no step can run with this ep
    right = wrong = 0
    inputs = itertools.product(options.skew, options.tokens or [shape["T"]])
    for skew, tokens in itertools.cycle(inputs):
        x, dy = layer.batch(tokens, skew)
        plan = asker.ask(tokens, layer.skew(x))
        if plan is None:
            break
        try:
            if options.check:
                check(layer, x, dy, plan)
                right += 1
            asker.tell(*asker.timed(layer.step, x, dy, plan))
        except Unsupported as why:
            asker.fail(str(why))
            wrong += 1
    asker.close()
    dist.destroy_process_group()
    if options.check and asker.by_hand:
        end_with_verdict(right, wrong, asker.rank)


def end_with_verdict(right, wrong, rank):
    verdict = f"right: all {right} steps gave"
    if wrong:
        verdict = f"WRONG: {wrong} of {right + wrong} steps did not give"
    if rank == 0:
        print(verdict, "what a plain loop over the experts gives", flush=True)
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="tokens of a rank, in turn (T)")
    parser.add_argument(
        "--skew", type=float, nargs="+", default=[1.0], help="rows of expert 0 / mean, in turn"
    )
    parser.add_argument("--check", action="store_true", help="compare every plan with a plain loop")
    parser.add_argument("--plan", default="dispatcher=allgather experts=padded chunks=1 ep=1")
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
