#!/usr/bin/env python3
"""DeepSpeed's MoE layer: ep_size over the capacity of its experts

    pip install moetune-*.whl torch deepspeed    # of moetune: `make wheel`
    torchrun --nproc_per_node 4 ds-moe.py --check
    moetune tune --space ds-moe.space --exec "torchrun --nproc_per_node 4 ds-moe.py" \
        --ranks 4 --shape "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=relu" --budget 5m

deepspeed.moe.layer.MoE drops rows for which an expert has no room.  So its capacity is the c of
moetune's own layer; --factors lists the values of capacity_factor that take turns.  A training step
is the engine's backward and step, with Adam.  The learning rate is 0, so that the weights do not
change.

ep_size needs a restart, so the table has one value for all capacities, and your trainer asks once:

    ep_size = view.plan(capacity, 1)["ep"]    # of moelookup: bind(space="ds-moe")

--check compares the result and every gradient of each plan with a plain loop over all experts, on
fresh numbers; it may stand in --exec, too.  Without moetune the program runs one plan, and its last
line is a verdict.  --plan "ep=2" chooses that plan.

It ran with DeepSpeed 0.19.8 and torch 2.15, on four gloo ranks on cores, in f32 and bf16.  It has
not run on a GPU.  On cores a launch takes about ten seconds, and a tuning takes many launches; the
same command goes on.
"""

import argparse
import itertools
import logging
import os
import sys

FIRST = os.environ.get("RANK", "0") == "0"  # rank 0 of torchrun prints for all ranks


def end(failure):
    """Ends at once: on cores ranks abort at times while Python ends (2 of 28 launches)."""
    if failure and FIRST:
        print(failure, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failure is not None)


try:
    import moetune
    import moetune.torch
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    import deepspeed
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.sharded_moe import _capacity as capacity_of
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split
except ImportError as missing:
    end(f"ds-moe: {missing}: it needs torch and deepspeed, of which 0.19.8 has all that it calls")

USUAL = "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=relu"  # where moetune names no layer
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
OFF_BY = {"f32": 1e-4, "bf16": 5e-2}  # what rounding may change, as a share of the norm
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}
LEAST = 4  # DeepSpeed's min_capacity


class Wrong(Exception):
    """A plan that gives a wrong result."""


class Expert(torch.nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.act = ACTIVATIONS[shape["act"]]
        where = {"device": device, "dtype": DTYPES[shape["dtype"]]}
        self.up = torch.nn.Linear(shape["D"], shape["H"], bias=False, **where)
        self.down = torch.nn.Linear(shape["H"], shape["D"], bias=False, **where)

    def forward(self, rows):
        return self.down(self.act(self.up(rows)))

    def draw(self, number):
        """Draws the weights of expert `number`, the same on every rank."""
        coins = torch.Generator().manual_seed(number)
        for one in self.parameters():
            drawn = torch.randn(one.shape, generator=coins) / one.shape[1] ** 0.5
            one.data.copy_(drawn)
        return self


class Model:
    """The layer in DeepSpeed's engine."""

    def __init__(self, shape, ep, device):
        self.shape, self.device, self.dtype = shape, device, DTYPES[shape["dtype"]]
        # Sampled second choices and random drops would give two calls with one input two results.
        self.layer = MoE(
            shape["D"],
            Expert(shape, device),
            num_experts=shape["E"],
            ep_size=ep,
            k=shape["k"],
            min_capacity=LEAST,
            use_rts=False,
            top2_2nd_expert_sampling=False,
        )
        self.gate = self.layer.deepspeed_moe.gate
        self.experts = self.layer.deepspeed_moe.experts.deepspeed_experts
        self.gate.to(device).wg.weight.data.copy_(
            torch.randn(shape["E"], shape["D"], generator=torch.Generator().manual_seed(-1))
        )
        self.own = {}
        for number, expert in enumerate(self.experts, dist.get_rank() % ep * len(self.experts)):
            self.own.update(named(number, expert.draw(number)))
        groups = {"params": list(self.layer.parameters()), "name": "all"}
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "Adam", "params": {"lr": 0.0, "torch_adam": True}},
            "bf16": {"enabled": shape["dtype"] == "bf16"},
        }
        self.engine = deepspeed.initialize(
            model=self.layer,
            model_parameters=split(groups),
            config=config,
            dist_init_required=False,
        )[0]

    def capacity(self, factor):
        """Returns the capacity that the gate computes."""
        k, tokens = self.shape["k"], torch.empty(self.shape["T"], self.shape["E"])
        return int(capacity_of(tokens, torch.tensor(factor * k), torch.tensor(LEAST)))

    def batch(self):
        sizes = self.shape["T"], self.shape["D"]
        return [torch.randn(sizes, device=self.device).to(self.dtype) for _ in range(2)]

    def set(self, factor, training):
        self.gate.capacity_factor = self.gate.eval_capacity_factor = factor
        self.engine.train(bool(training))

    def step(self, x, dy, training, look=None):
        """Runs a step.  It calls look() when the engine has averaged the gradients over ranks."""
        with torch.set_grad_enabled(training):
            y = self.engine(x)[0]
        if training:
            self.engine.backward((y * dy).sum())
            if look:
                look()
            self.engine.step()
        return y.detach()

    def results(self, x, dy, training):
        """Returns the results of one step, by name."""
        x, kept = x.detach().requires_grad_(training), {}

        def look():
            kept["gradient of x"] = x.grad
            kept["gradient of the gate"] = self.grad_of(self.gate.wg.weight)
            for name, one in self.own.items():
                kept[name] = self.grad_of(one)

        return {"y": self.step(x, dy, training, look), **kept}

    @staticmethod
    def grad_of(weight):
        if weight.grad is not None:
            return weight.grad.clone()
        return deepspeed.utils.safe_get_full_grad(weight).clone()

    def plain(self, x, dy, training):
        """Returns the results by a loop over all experts, and the gate's capacity.

        Every rank has all experts here.  The gate says what a token chose, and whether it had room.
        """
        x = x.detach().requires_grad_(training)
        experts = [Expert(self.shape, self.device).draw(e) for e in range(self.shape["E"])]
        y = torch.zeros_like(x, dtype=torch.float32)
        with torch.set_grad_enabled(training):
            _, capacity, _, chosen, _, weight, _ = self.gate(x, None, True)
            for e, expert in enumerate(experts):
                expert.act = self.experts[0].act
                y = y + (weight * (chosen == e)).sum(0)[:, None] * expert(x).float()
            y = y.to(x.dtype)
        kept = {"y": y.detach()}
        if training:
            own = dict(itertools.chain(*(named(n, one) for n, one in enumerate(experts))))
            wanted = {"gradient of x": x, "gradient of the gate": self.gate.wg.weight, **own}
            got = torch.autograd.grad((y * dy).sum(), list(wanted.values()))
            for name, one in zip(wanted, got):
                if one is not got[0]:
                    dist.all_reduce(one)
                    one /= dist.get_world_size()
                if name not in own or name in self.own:
                    kept[name] = one
        return kept, int(capacity)


def named(number, expert):
    for name, one in expert.named_parameters():
        yield f"gradient of expert {number}'s {name}", one


def check(model, x, dy, training, capacity):
    """Raises Wrong on all ranks if one of them finds another result."""
    acts = [(expert, expert.act) for expert in model.experts]
    for expert, act in acts:
        expert.act = F.gelu if act is F.relu else act  # at ReLU's bend rounding changes gradients
    try:
        expected, counted = model.plain(x, dy, training)
        got = model.results(x, dy, training)
    finally:
        for expert, expert.act in acts:
            pass
    if counted != capacity:
        raise Wrong(f"wrong: a capacity of {capacity} is {counted} in the gate")
    off = [(got[n] - e).norm() / e.norm().clamp(min=1e-9) for n, e in expected.items()]
    off = torch.stack(off).float().nan_to_num(float("inf"))
    dist.all_reduce(off, dist.ReduceOp.MAX)
    for name, by in zip(expected, off.tolist()):
        if by > OFF_BY[model.shape["dtype"]]:
            raise Wrong(f"wrong: {name} is off by {by:.2g} (seed {torch.initial_seed()})")


def why_not(shape, ep):
    """Returns why no step can run; None: steps can run."""
    for name, ones in (("dtype", DTYPES), ("act", ACTIVATIONS)):
        if shape[name] not in ones:
            return f"{name}={shape[name]}: this program has {' and '.join(ones)}"
    ranks, experts = dist.get_world_size(), shape["E"]
    if ranks % ep or experts % ep:
        return f"ep={ep} does not divide both {ranks} ranks and {experts} experts"


def main(options):
    device = moetune.torch.join_ranks()
    deepspeed.utils.logger.setLevel(logging.WARNING)
    torch.seed()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape, ep = dict(moetune.words(USUAL), **asker.layer), asker.launch["ep"]
    why = why_not(shape, ep)
    if why:
        return f"ds-moe: {why}"
    model = Model(shape, ep, device)
    right = wrong = 0
    for factor, training in itertools.cycle(itertools.product(options.factors, (False, True))):
        capacity = model.capacity(factor)
        if asker.ask(capacity, int(training)) is None:
            break
        x, dy = model.batch()
        model.set(factor, training)
        try:
            if options.check:
                check(model, x, dy, training, capacity)
                right += 1
            asker.tell(*asker.timed(model.step, x, dy, training))
        except Wrong as why:
            asker.fail(str(why))
            wrong += 1
    asker.close()
    dist.destroy_process_group()
    if options.check and asker.by_hand:
        what = "what a plain loop over the experts gives"
        if wrong:
            return f"WRONG: {wrong} of {right + wrong} steps did not give {what}"
        if FIRST:
            print(f"right: all {right} steps gave {what}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--factors", type=float, nargs="+", default=[0.25, 1.0, 4.0], help="of capacity, in turn"
    )
    parser.add_argument("--check", action="store_true", help="compare every plan with a plain loop")
    parser.add_argument("--plan", default="ep=1")
    parser.add_argument("--steps", type=int, default=6, help="without moetune, under --plan")
    end(main(parser.parse_args()))
