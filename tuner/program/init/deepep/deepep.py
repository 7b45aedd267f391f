#!/usr/bin/env python3
"""DeepEP's dispatch and combine beside products of experts: SMs, chunks (not run)

    pip install moetune-*.whl torch    # and DeepEP v1.2.1, https://github.com/deepseek-ai/DeepEP
    torchrun --nproc_per_node 8 deepep.py
    moetune tune --space deepep.space --exec "torchrun --nproc_per_node 8 deepep.py" \
        --ranks 8 --shape "E=64 k=8 T=4096 D=7168 H=2048 dtype=bf16"

NOT RUN.  Written after the sources of DeepEP v1.2.1 (deep_ep/buffer.py, tests/test_intranode.py,
tests/test_internode.py); in its newer V2 the same class is deep_ep.Buffer of buffers/legacy.py.

Two halves of a batch take turns: while rows of one travel, the other's are multiplied, so that SMs
given to DeepEP are taken from the products, as in training.
"""

import argparse
import itertools
import os

import deep_ep
import moetune
import moetune.torch
import torch
import torch.distributed as dist

USUAL = "E=64 k=8 T=4096 D=7168 H=2048 dtype=bf16"  # where moetune names no layer
NVL_BUFFER, RDMA_BUFFER = 512, 128  # rows that a channel has room for, as in DeepEP's tests
MOST_SMS = 32  # of the space
RDMA = {"rdma_dispatch": 20, "rdma_combine": 12}  # where the space has no such axes


class Half:
    """Half of a batch on its way through the layer; each stage begins when the last one is over."""

    def __init__(self, buffer, experts, shape, plan, x):
        self.buffer, self.experts, self.x = buffer, experts, x
        self.plan, self.shape = dict(RDMA, **plan), shape
        scores = torch.rand(len(x), shape["E"], device=x.device)
        self.weight, self.expert = scores.softmax(-1).topk(shape["k"])

    def config(self, which):
        chunks = self.plan[f"nvl_{which}"], NVL_BUFFER, self.plan[f"rdma_{which}"], RDMA_BUFFER
        return deep_ep.Config(self.plan["num_sms"], *chunks)

    def dispatch(self):
        per_rank, per_node, per_expert, to_rank, _ = self.buffer.get_dispatch_layout(
            self.expert, self.shape["E"]
        )
        self.rows, _, _, self.counts, self.handle, self.event = self.buffer.dispatch(
            self.x,
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=to_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=self.expert,
            topk_weights=self.weight,
            config=self.config("dispatch"),
            async_finish=True,
        )

    def multiply(self):
        """As many rows as each expert has; which ones they are changes no time."""
        self.event.current_stream_wait()
        for count, up, down in zip(self.counts, *self.experts):
            torch.relu(self.rows[:count] @ up) @ down

    def combine(self):
        self.y, _, self.event = self.buffer.combine(
            self.rows, self.handle, config=self.config("combine"), async_finish=True
        )


def step(halves):
    a, b = halves
    a.dispatch()
    b.dispatch()
    a.multiply()  # while b's rows arrive
    a.combine()
    b.multiply()  # while a's rows go back
    b.combine()
    for half in halves:
        half.event.current_stream_wait()


def new_buffer(row_bytes):
    """Room for every plan of the space: with the most SMs; chunks round an RDMA channel up."""
    ranks = dist.get_world_size()
    most = deep_ep.Config(MOST_SMS, 1, NVL_BUFFER, 1, RDMA_BUFFER + 32)
    several_nodes = int(os.environ.get("LOCAL_WORLD_SIZE", ranks)) < ranks
    rdma = most.get_rdma_buffer_size_hint(row_bytes, ranks) if several_nodes else 0
    return deep_ep.Buffer(dist.group.WORLD, most.get_nvl_buffer_size_hint(row_bytes, ranks), rdma)


def main(options):
    device = moetune.torch.join_ranks()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    per_rank, D, H = shape["E"] // dist.get_world_size(), shape["D"], shape["H"]
    if shape["dtype"] != "bf16" or shape["E"] % dist.get_world_size():
        raise SystemExit("DeepEP sends bf16 here, and has as many experts on each rank")
    experts = [
        torch.randn(per_rank, *sizes, device=device).bfloat16() for sizes in ((D, H), (H, D))
    ]
    buffer = new_buffer(2 * D)
    for tokens in itertools.cycle(options.tokens or [shape["T"]]):
        plan = asker.ask(tokens)
        if plan is None:
            break
        x = torch.randn(tokens, D, device=device).bfloat16().chunk(2)
        halves = [Half(buffer, experts, shape, plan, part) for part in x]
        asker.tell(*asker.timed(step, halves))
    asker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="of a rank, in turn (T of the layer)")
    parser.add_argument("--plan", default="num_sms=20 nvl_dispatch=6 nvl_combine=4")
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
