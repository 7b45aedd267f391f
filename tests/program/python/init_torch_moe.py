"""Tests moetune init torch-moe: every plan is compared with a plain loop on fresh numbers before it is
timed."""

import re

from init_case import declared, Programs

GROUPED = """
import torch
def grouped_mm(rows, weights, offs):
    assert offs.dtype == torch.int32 and int(offs[-1]) == len(rows) and len(offs) == len(weights)
    ends = [0] + offs.tolist()
    parts = [rows[a:b] @ w for a, b, w in zip(ends, ends[1:], weights)]
    return torch.cat(parts)
torch._grouped_mm = grouped_mm
torch.nn.functional.grouped_mm = grouped_mm
"""
UNGROUPED = """
import torch
for where in (torch, torch.nn.functional):
    for name in ("_grouped_mm", "grouped_mm"):
        if hasattr(where, name):
            delattr(where, name)
"""
# What torch does that is installed without it, as newer versions are.
NO_NUMPY = """
import torch
def numpy(*_, **__):
    raise RuntimeError("Numpy is not available")
torch.Tensor.numpy = torch.Tensor.__array__ = torch.from_numpy = numpy
"""
WRONG = """
import torch_moe_layer
right = torch_moe_layer.Layer.loop
def loop(self, rows, counts):
    y = right(self, rows, counts)
    return y if torch_moe_layer.dist.get_rank() else y * 1.001  # on one rank alone
torch_moe_layer.Layer.loop = loop
"""
FIRST_TWO = """
import torch_moe_layer
right = torch_moe_layer.Layer.route
def route(self, x):
    weight, expert = right(self, x)
    return weight, expert.new_tensor([0, 1]).expand_as(expert)
torch_moe_layer.Layer.route = route
"""
ORDER = """
import torch_moe_layer
def tell(cls, name, word):
    was = getattr(cls, name)
    def told(self, *rest):
        if torch_moe_layer.dist.get_rank() == 0:
            print("EVENT", word, flush=True)
        return was(self, *rest)
    setattr(cls, name, told)
tell(torch_moe_layer.Trip, "start", "start")
tell(torch_moe_layer.Trip, "wait", "wait")
tell(torch_moe_layer.Layer, "padded", "experts")
"""


def layer_on(ranks, act="gelu", experts=8):
    return f"E={experts} k=2 T=23 D=16 H=24 dtype=f32 pass=train act={act} W={ranks} m={ranks}"


def alltoall(experts, chunks):
    return f"dispatcher=alltoall experts={experts} chunks={chunks} ep=2"


class Plans(Programs):
    program = "torch-moe/torch-moe"
    space = declared(program)

    def walk(self, ranks, way, plans, more=("--check",), change=GROUPED, **others):
        others.setdefault("layer", layer_on(ranks))
        return self.launch(ranks, way, plans, *more, change=change, **others)

    def two_ranks(self, plans=None, **others):
        """The usual launch: every expert on one of two ranks."""
        plans = self.space.launches()["ep=2"] if plans is None else plans
        return plans, self.walk(2, "ep=2", plans, **others)


class WhatIsRight(Plans):
    def every_plan(self, ranks, act):
        for way, plans in self.space.launches().items():
            if ranks % int(way.partition("=")[2]) == 0:
                launch = self.walk(ranks, way, plans, layer=layer_on(ranks, act))
                self.all_told(launch, plans)

    def test_every_plan_is_on_4_ranks(self):
        self.every_plan(4, "gelu")

    def test_every_plan_is_on_2_ranks(self):
        self.every_plan(2, "swiglu")

    def test_every_plan_is_where_a_rank_gets_no_rows(self):
        plans, launch = self.two_ranks(change=GROUPED + FIRST_TWO)
        self.all_told(launch, plans)

    def test_every_plan_is_without_numpy(self):
        plans, launch = self.two_ranks(change=NO_NUMPY + GROUPED)
        self.all_told(launch, plans)

    def test_plans_are_where_experts_get_nothing_and_keys_are_asked_in_turn(self):
        plans = [p for p in self.space.launches()["ep=2"] if "loop" in p or "padded" in p]
        more = "--check", "--tokens", "1", "40"
        _, launch = self.two_ranks(plans, more=more, layer=layer_on(2, "relu", 32))
        self.all_told(launch, plans)
        self.assertEqual([key.split()[0] for key in launch.keys[:4]], ["1", "40", "1", "40"])

    def test_plans_are_under_a_skew_and_the_class_is_the_skew_that_was_wanted(self):
        plans = [p for p in self.space.launches()["ep=2"] if "chunks=2" in p]
        more = "--check", "--tokens", "512", "--skew", "1", "3", "4"
        _, launch = self.two_ranks(plans, more=more)
        self.all_told(launch, plans)
        classes = [float(key.split()[1]) for key in launch.keys]
        # The gate alone makes 1.25 of the first.
        # Of 3,000 draws: 1.253 +- .049, 2.972 +- .054, 4 each time.
        # By chance: 1e-8 x 2: limits are six deviations or more away
        for found, wanted, apart in zip(classes, (1.25, 3, 4), (0.4, 0.36, 0.01)):
            self.assertLess(abs(found - wanted), apart, classes)
        self.assertLessEqual(max(classes), 4)


class WhatIsWrong(Plans):
    def test_a_plan_that_cannot_be_run_fails_and_the_next_one_runs(self):
        grouped, loop = alltoall("grouped", 2), alltoall("loop", 2)
        _, launch = self.two_ranks([grouped, loop], change=UNGROUPED)
        self.assertEqual(self.words(launch), {grouped: "failed", loop: "tell"})
        self.assertRegex(launch.outcomes[grouped][1], "^torch .* has no grouped_mm$")

    def test_a_plan_that_is_wrong_on_one_rank_fails(self):
        (plan,), launch = self.two_ranks([alltoall("loop", 1)], change=WRONG)
        self.ended_well(launch)
        why = r"^wrong: y is off by 0\.000\d+ \(seed \d+\)$"
        self.assertRegex(launch.outcomes[plan][1], why)

    def test_an_ep_that_cannot_be_ends_the_launch_at_once(self):
        launch = self.walk(2, "ep=4", self.space.launches()["ep=4"])
        self.refused(launch, "torch-moe: ep=4 does not divide 2 ranks and 8 experts\n", times=2)
        self.assertEqual((launch.keys, launch.outcomes), ([], {}))
        self.assertNotIn("Traceback", launch.said)

    def test_another_number_of_ranks_is_refused_by_each(self):
        launch = self.walk(2, "ep=1", ["none"], layer=layer_on(4))
        self.assertNotIn(0, launch.codes)
        self.assertEqual(launch.said.count("its flags say 4 ranks, here are 2"), 2, launch.said)

    def test_a_moetune_that_is_gone_ends_all_ranks(self):
        launch = self.walk(2, "ep=1", self.space.launches()["ep=1"], more=(), gone_after=1)
        self.assertNotIn(0, launch.codes)
        self.assertEqual(launch.said.count("moetune is gone"), 2, launch.said)
        self.assertNotIn("it hung", launch.said)


class Chunks(Plans):
    def test_they_travel_while_experts_compute(self):
        plans, launch = self.two_ranks([alltoall("padded", 2)], change=ORDER, more=())
        self.all_told(launch, plans)
        events = re.findall("^EVENT (.*)$", launch.said, re.M)
        there = ["start", "start", "wait", "experts", "start", "wait", "experts", "start"]
        # The backward pass: both gradients of results set out before one is waited for, and the
        # first one of inputs before the second.
        back = ["start", "start", "wait", "start", "wait", "start", "wait", "wait"]
        self.assertEqual(events, 2 * (there + ["wait", "wait"] + back))


class ByHand(Plans):
    """Without a moetune."""

    plan = alltoall("loop", 2)

    def by_hand(self, change=""):
        more = "--plan", self.plan, "--steps", "3", "--check"
        nobody = dict(layer=None, MOETUNE_SPACE=None)
        return self.walk(2, None, [], more=more, change=change, **nobody)

    def lines(self, launch, pattern):
        return len(re.findall(pattern, launch.said, re.M))

    def test_one_plan_is_run_and_right(self):
        launch = self.by_hand()
        self.ended_well(launch)
        self.assertEqual(self.lines(launch, f"^{self.plan}: [0-9.]+ us$"), 3, launch.said)
        verdict = "^right: all 3 steps gave what a plain loop over the experts gives$"
        self.assertEqual(self.lines(launch, verdict), 1, launch.said)

    def test_or_wrong(self):
        launch = self.by_hand(WRONG)
        self.assertEqual(launch.codes, [1, 1], launch.said)
        verdict = "^WRONG: 3 of 3 steps did not give what a plain loop"
        self.assertEqual(self.lines(launch, verdict), 1, launch.said)
