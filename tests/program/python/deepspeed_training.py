#!/usr/bin/env python3
"""Runs moetune.torch.Tuner around DeepSpeed's MoE layer, in a training of four gloo ranks:

    torchrun --nproc_per_node 4 deepspeed_training.py FOLDER [STEPS]
    torchrun --nproc_per_node 4 deepspeed_training.py FOLDER --blocks PAIRS

It is trained without a tuner, then with one, from the same weights on the same batches.  How tokens
are exchanged changes no sum, so losses are the same to the last bit; how experts multiply changes
what rounding makes of them.  The tuner is told what a fake clock says, so what it tries does not
depend on the machine; what trying costs by its account is at most the share that it may.  Each line
says what was found; exit code 1: something is not what it should be.

--blocks: real time instead: blocks of 50 steps with the tuner as it is by default, and blocks
without one, take turns in pairs; the last line is the mean ratio of theirs and its 95 % interval.
"""

import argparse
import logging
import math
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
import deepspeed
from deepspeed.moe import sharded_moe
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split

import moelookup
import moetune.torch

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOICES = 64, 32, 64, 8, 2
FACTORS = (0.5, 2.0)  # of capacity, in turn
EXCHANGES = "axis exchange whole pairs default whole\n"
PRODUCTS = "axis experts loop together default loop\n"
SPACE = "space training\n{}key capacity edges 16\n"
PLAIN = {"exchange": "whole", "experts": "loop"}
STEPS = 50  # of a block
OFF_BY = 1e-3  # of one of the first losses: what rounding may make of it
OFF_BY_LATER = 0.1  # of the mean of the last ones: other choices of a token change later steps

plan = dict(PLAIN)  # of this step
calls = {"pairs": 0, "together": 0}  # that came where DeepSpeed's own were replaced


class Exchange(torch.autograd.Function):
    """DeepSpeed's, or the same by messages between each two ranks."""

    @staticmethod
    def forward(ctx, group, given):
        ctx.group, given = group, given.contiguous()
        taken = torch.empty_like(given)
        if plan["exchange"] == "whole":
            dist.all_to_all_single(taken, given, group=group)
            return taken
        calls["pairs"] += 1
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        mine, theirs = given.chunk(ranks), taken.chunk(ranks)
        theirs[rank].copy_(mine[rank])
        under_way = []
        for away in range(1, ranks):
            to, of = (rank + away) % ranks, (rank - away) % ranks
            under_way.append(dist.isend(mine[to], dist.get_global_rank(group, to), group=group))
            under_way.append(dist.irecv(theirs[of], dist.get_global_rank(group, of), group=group))
        for one in under_way:
            one.wait()
        return taken

    @staticmethod
    def backward(ctx, grad):
        return None, Exchange.apply(ctx.group, grad)


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, rows):
        return self.down(F.gelu(self.up(rows)))


class Experts(torch.nn.Module):
    """DeepSpeed's loop over experts, or one product of all of them."""

    def __init__(self, theirs):
        super().__init__()
        self.theirs = theirs

    def forward(self, rows):
        if plan["experts"] == "loop":
            return self.theirs(rows)
        calls["together"] += 1
        ranks, experts, capacity, width = rows.shape
        ups, downs = (
            torch.stack([getattr(expert, name).weight for expert in self.theirs.deepspeed_experts])
            for name in ("up", "down")
        )
        rows = rows.transpose(0, 1).reshape(experts, ranks * capacity, width)
        rows = torch.bmm(F.gelu(torch.bmm(rows, ups.transpose(1, 2))), downs.transpose(1, 2))
        return rows.reshape(experts, ranks, capacity, width).transpose(0, 1)


def draw(number, *sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(number))


class Training:
    def __init__(self):
        layer = MoE(
            WIDTH,
            Expert(),
            num_experts=EXPERTS,
            ep_size=dist.get_world_size(),
            k=CHOICES,
            use_rts=False,
            top2_2nd_expert_sampling=False,
        )
        inner = layer.deepspeed_moe
        own = list(inner.experts.deepspeed_experts)
        with torch.no_grad():
            inner.gate.wg.weight.copy_(draw(1, EXPERTS, WIDTH))
            for at, expert in enumerate(own, dist.get_rank() * len(own)):
                expert.up.weight.copy_(draw(100 + at, HIDDEN, WIDTH) / WIDTH**0.5)
                expert.down.weight.copy_(draw(200 + at, WIDTH, HIDDEN) / HIDDEN**0.5)
        groups = {"params": list(layer.parameters()), "name": "all"}
        inner.experts = Experts(inner.experts)
        self.gate = inner.gate
        self.engine = deepspeed.initialize(
            model=layer,
            model_parameters=split(groups),
            config={
                "train_micro_batch_size_per_gpu": 1,
                "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
            },
            dist_init_required=False,
        )[0]
        self.wanted = draw(2, WIDTH, WIDTH) / WIDTH**0.5

    def capacity(self, step):
        return int(FACTORS[step % 2] * CHOICES * TOKENS / EXPERTS)

    def step(self, number):
        """Its loss."""
        self.gate.capacity_factor = FACTORS[number % 2]
        x = draw(1000 + number * dist.get_world_size() + dist.get_rank(), TOKENS, WIDTH)
        loss = F.mse_loss(self.engine(x)[0], torch.tanh(x @ self.wanted))
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()


def fake_us(plan):
    return 1e6 * (1 + 0.5 * (plan["experts"] == "loop") + 0.2 * (plan["exchange"] == "pairs"))


def train(steps, tuner=None):
    """The losses of this rank, and how often each plan ran."""
    training, losses, ran = Training(), [], {}
    plan.update(PLAIN)
    for number in range(steps):
        if tuner is not None:
            plan.update(tuner.ask_key(training.capacity(number)))
        losses.append(training.step(number))
        if tuner is not None:
            tuner.tell(fake_us(plan) + number % 7)
        text = f"{plan['exchange']}/{plan['experts']}"
        ran[text] = ran.get(text, 0) + 1
    return losses, ran


def tuned(steps, database, axes, share):
    sizes = {"experts": EXPERTS, "top_k": CHOICES, "model_dim": WIDTH, "hidden_dim": HIDDEN}
    space = SPACE.format(axes)
    with moetune.torch.Tuner(
        database, space=space, tokens=TOKENS, layer="DeepSpeed", share=share, **sizes
    ) as tuner:
        losses, ran = train(steps, tuner)
        tuner.flush()
        return losses, ran, tuner.status()


def blocks(folder, pairs):
    training, number, ratios = Training(), -1, []

    def block(tuner):
        nonlocal number
        dist.barrier()
        began = time.perf_counter()
        for number in range(number + 1, number + 1 + STEPS):
            begun = time.perf_counter()
            if tuner is not None:
                plan.update(tuner.ask_key(training.capacity(number)))
            training.step(number)
            if tuner is not None:
                tuner.tell(1e6 * (time.perf_counter() - begun))
        plan.update(PLAIN)
        dist.barrier()
        return time.perf_counter() - began

    sizes = {"experts": EXPERTS, "top_k": CHOICES, "model_dim": WIDTH, "hidden_dim": HIDDEN}
    space = SPACE.format(EXCHANGES + PRODUCTS)
    database = os.path.join(folder, "blocks.db")
    with moetune.torch.Tuner(database, space=space, tokens=TOKENS, **sizes) as tuner:
        block(None)
        for pair in range(pairs):
            order = (tuner, None) if pair % 2 else (None, tuner)
            took = {one: block(one) for one in order}
            ratios.append(math.log(took[tuner] / took[None]))
        status = tuner.status()
    mean, off = statistics.mean(ratios), 2.05 * statistics.stdev(ratios) / math.sqrt(pairs)
    if dist.get_rank() == 0:
        low, at, high = (math.exp(mean + by) for by in (-off, 0, off))
        part = 100 * status.cost_us / status.time_us
        told = f"{status.steps} steps with the tuner, {status.tried} of them tried a plan"
        print(f"{told}: {part:.2f} % by its account")
        print(f"with the tuner / without: {at:.3f} [{low:.3f}, {high:.3f}] of {pairs} pairs")


def main(folder, steps, pairs):
    torch.set_num_threads(1)
    deepspeed.utils.logger.setLevel(logging.ERROR)
    moetune.torch.join_ranks()
    sharded_moe._AllToAll = Exchange
    first, wrong = dist.get_rank() == 0, []
    if pairs:
        blocks(folder, pairs)
        sys.stdout.flush()
        dist.barrier()
        os._exit(0)

    def judge(name, figure, right):
        worst = torch.tensor([0.0 if right else 1.0])
        dist.all_reduce(worst)
        if worst.item():
            wrong.append(name)
        if first:
            print(f"{name}: {figure}", flush=True)

    plain, _ = train(steps)
    judge("it learns", f"{plain[0]:.3g} to {plain[-1]:.3g}", plain[-1] < plain[0])

    database = os.path.join(folder, "same.db")
    losses, ran, _ = tuned(steps, database, EXCHANGES, 0.3)
    same = sum(a == b for a, b in zip(plain, losses))
    judge("the same sums", f"{same} of {steps} losses to the last bit; {ran}", same == steps)
    # Two exchanges forward, and those backward.
    both = calls["pairs"] >= 2 * ran.get("pairs/loop", 0) > 0
    judge("exchanges by pairs", f"{calls['pairs']}, of {ran.get('pairs/loop')} steps", both)

    database = os.path.join(folder, "near.db")
    losses, ran, _ = tuned(steps, database, EXCHANGES + PRODUCTS, 0.3)
    off = max(abs(a - b) / a for a, b in zip(plain[:50], losses))
    later = abs(sum(losses[-100:]) / sum(plain[-100:]) - 1)
    figure = f"losses off by {off:.2g} in 50 steps, the last by {later:.2g} in the mean; {ran}"
    judge("other sums", figure, off < OFF_BY and later < OFF_BY_LATER)
    together = sum(times for text, times in ran.items() if text.endswith("together"))
    met = calls["together"] == together > 0
    judge("one product", f"{calls['together']} of {together} steps", met)

    database = os.path.join(folder, "fake.db")
    _, _, status = tuned(steps, database, EXCHANGES + PRODUCTS, 0.01)
    part = status.cost_us / status.time_us if first else 0.0
    judge("what trying costs", f"{100 * part:.2f} % of the time", part <= 0.01)
    view = moelookup.open(database).bind(space="training", ranks=dist.get_world_size())
    best = [dict(view.plan(key)) for key in (8, 32)]
    fastest = {"exchange": "whole", "experts": "together"}
    judge("the table", best, best == [fastest] * 2)
    dist.barrier()
    dist.destroy_process_group()
    if first and wrong:
        print(f"WRONG: {', '.join(wrong)}")
    sys.stdout.flush()
    os._exit(bool(wrong))  # on cores a rank at times aborts while Python ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="for databases")
    parser.add_argument("steps", type=int, nargs="?", default=2000)
    parser.add_argument("--blocks", type=int, default=0, metavar="PAIRS", help="real time instead")
    given = parser.parse_args()
    main(given.folder, given.steps, given.blocks)
