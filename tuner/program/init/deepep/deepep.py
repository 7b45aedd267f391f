#!/usr/bin/env python3
"""DeepEP's dispatch and combine: kernels, SMs, chunks (not run)

    pip install moetune-*.whl torch    # and DeepEP 2.1.0, https://github.com/deepseek-ai/DeepEP
    torchrun --nproc_per_node 8 deepep.py
    moetune tune --space deepep.space --exec "torchrun --nproc_per_node 8 deepep.py" \
        --ranks 8 --shape "E=64 k=8 T=4096 D=7168 H=2048 dtype=bf16"

NOT RUN: this program has never run.  It follows the sources of DeepEP 2.1.0 (dd758ca:
deep_ep/buffers, csrc/elastic, csrc/legacy/config.hpp, tests/elastic/test_ep.py).  DeepEP has two
generations of kernels.  kernels=v2 is ElasticBuffer; there num_sms=0 is DeepEP's own formula.
kernels=v1 is Buffer, which has chunks.  SGLang's --deepep-config and Megatron-Core's backend deepep
use v1.

Two halves of a batch take turns: while rows of one half travel, those of the other are multiplied.
So DeepEP takes its SMs from the products, as in training.
"""

import argparse
import itertools
import os

try:
    import moetune
    import deep_ep
    import moetune.torch
    import torch
    import torch.distributed as dist
except ImportError as missing:
    raise SystemExit(f"deepep: {missing}: pip install what the head of deepep.py says")

USUAL = "E=64 k=8 T=4096 D=7168 H=2048 dtype=bf16"  # where moetune names no layer
USUAL_PLAN = "kernels=v2 num_sms=0 nvl_dispatch=6 nvl_combine=4"
NVL_BUFFER, RDMA_BUFFER = 512, 128  # rows that a channel has room for, as in DeepEP's tests
MOST_SMS = 32  # in the space
# For axes that the space does not have.
REST = {"rdma_dispatch": 20, "rdma_combine": 12, "hybrid": "on", "num_qps": 0}


class Half:
    """Half of a batch.  Each stage of the layer begins when the one before is over."""

    def __init__(self, buffer, experts, shape, plan, x):
        self.buffer, self.experts, self.x = buffer, experts, x
        self.plan, self.shape = dict(REST, **plan), shape
        scores = torch.rand(len(x), shape["E"], device=x.device)
        self.weight, expert = scores.softmax(-1).topk(shape["k"])
        self.expert = expert.to(deep_ep.topk_idx_t)

    def multiply(self):
        """Multiplies as many rows as each expert has; which rows these are does not matter."""
        self.event.current_stream_wait()
        for count, up, down in zip(self.counts, *self.experts):
            torch.relu(self.rows[:count] @ up) @ down


class HalfV1(Half):
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

    def combine(self):
        self.y, _, self.event = self.buffer.combine(
            self.rows, self.handle, config=self.config("combine"), async_finish=True
        )


class HalfV2(Half):
    def dispatch(self):
        self.rows, _, _, self.handle, self.event = self.buffer.dispatch(
            self.x,
            topk_idx=self.expert,
            topk_weights=self.weight,
            num_experts=self.shape["E"],
            num_sms=self.plan["num_sms"],
            num_qps=self.plan["num_qps"],
            async_with_compute_stream=True,
        )
        self.counts = self.handle.num_recv_tokens_per_expert_list

    def combine(self):
        self.y, _, self.event = self.buffer.combine(
            self.rows,
            handle=self.handle,
            num_sms=self.plan["num_sms"],  # 0: as many as the dispatch
            num_qps=self.plan["num_qps"],
            async_with_compute_stream=True,
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


def new_buffer_v1(row_bytes):
    """Returns a buffer for all plans: with the most SMs, rounded up to whole chunks."""
    ranks = dist.get_world_size()
    most = deep_ep.Config(MOST_SMS, 1, NVL_BUFFER, 1, RDMA_BUFFER + 32)
    several_nodes = int(os.environ.get("LOCAL_WORLD_SIZE", ranks)) < ranks
    rdma = most.get_rdma_buffer_size_hint(row_bytes, ranks) if several_nodes else 0
    return deep_ep.Buffer(dist.group.WORLD, most.get_nvl_buffer_size_hint(row_bytes, ranks), rdma)


def new_buffer_v2(shape, tokens, plan):
    return deep_ep.ElasticBuffer(
        dist.group.WORLD,
        num_max_tokens_per_rank=tokens,
        hidden=shape["D"],
        num_topk=shape["k"],
        allow_hybrid_mode=plan["hybrid"] == "on",
    )


def main(options):
    device = moetune.torch.join_ranks()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    per_rank, D, H = shape["E"] // dist.get_world_size(), shape["D"], shape["H"]
    if shape["dtype"] != "bf16" or shape["E"] % dist.get_world_size():
        raise SystemExit("deepep: dtype must be bf16, and the number of ranks must divide E")
    experts = [
        torch.randn(per_rank, *sizes, device=device).bfloat16() for sizes in ((D, H), (H, D))
    ]
    sizes = options.tokens or [shape["T"]]
    launch = dict(REST, **asker.launch)
    if launch["kernels"] == "v1":
        half, buffer = HalfV1, new_buffer_v1(2 * D)
    else:
        half, buffer = HalfV2, new_buffer_v2(shape, (max(sizes) + 1) // 2, launch)
    for tokens in itertools.cycle(sizes):
        plan = asker.ask(tokens)
        if plan is None:
            break
        x = torch.randn(tokens, D, device=device).bfloat16().chunk(2)
        halves = [half(buffer, experts, shape, plan, part) for part in x]
        asker.tell(*asker.timed(step, halves))
    asker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="tokens of a rank, in turn (T)")
    parser.add_argument("--plan", default=USUAL_PLAN)
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
