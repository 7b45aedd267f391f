"""Tests moetune init deepspeed and autoep with stand-ins for DeepSpeed and transformers, and with
DeepSpeed itself where it is installed (test_clients has both)."""

import os
import re
import unittest

from init_case import declared, numbers, Programs, UPSTREAM
from surroundings import can_import

# ---- DeepSpeed's layer

EP_OFF = """
import deepspeed.moe.layer as moe
moe.MoE.off = lambda self: 1.01 if self.ep_size > 1 and moe.dist.get_rank() else 1
"""
UNREDUCED = """
import deepspeed
deepspeed.Engine.ranks = lambda self: self.layer.ep_size
"""
ANOTHER_C = """
import deepspeed.moe.layer as moe
right = moe._capacity
moe._capacity = lambda gates, factor, least: right(gates, factor, least) + 1
"""
NO_SPLIT = """
import deepspeed.moe.utils as utils
del utils.split_params_into_different_moe_groups_for_optimizer
"""


class DeepSpeed(Programs):
    program = "deepspeed/ds-moe"
    space = declared(program)
    layer = "E=4 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=relu W=2 m=2"

    def walk(self, ep, *more, repeat=4, **options):
        options.setdefault("upstream", os.path.join(UPSTREAM, "deepspeed"))
        plans = repeat * self.space.launches()[f"ep={ep}"]
        return self.launch(2, f"ep={ep}", plans, *more, **options)

    def is_right_everywhere(self, **more):
        for ep in (1, 2):
            launch = self.walk(ep, "--check", "--factors", "0.25", "1", **more)
            self.ended_well(launch)
            self.assertEqual([word for word, _ in launch.heard], 4 * ["tell"], launch.heard)
            self.assertEqual(numbers(launch.keys[:4]), [(4, 0), (4, 1), (16, 0), (16, 1)])

    def test_every_plan_is_compared_with_a_loop_over_capacities_forward_and_backward(self):
        self.is_right_everywhere()

    @unittest.skipUnless(can_import("deepspeed.moe.layer"), "DeepSpeed itself is not installed")
    def test_so_it_is_with_deepspeed_itself(self):
        self.is_right_everywhere(upstream=None)

    def outcomes(self, ep, change):
        """Of a forward pass alone, and with a backward pass."""
        launch = self.walk(ep, "--check", "--factors", "1", change=change, repeat=2)
        self.ended_well(launch)
        self.assertEqual(len(launch.heard), 2, launch.heard)
        return launch.heard

    def test_results_that_are_something_else_fail(self):
        for word, why in self.outcomes(2, EP_OFF):
            self.assertEqual(word, "failed")
            self.assertIn("wrong: y is off by", why)

    def test_gradients_that_are_something_else_fail(self):
        (forward, _), (both, why) = self.outcomes(1, UNREDUCED)
        self.assertEqual((forward, both), ("tell", "failed"))
        self.assertIn("wrong: gradient of", why)

    def test_a_capacity_that_is_another_one_fails(self):
        for word, why in self.outcomes(1, ANOTHER_C):
            self.assertEqual(word, "failed")
            self.assertIn("wrong: a capacity of 16 is 17 in the gate", why)

    def test_what_cannot_run_is_one_sentence(self):
        swiglu = self.layer.replace("relu", "swiglu")
        for ep, options, said in (
            (4, {}, "ep=4 does not divide both 2 ranks and 4 experts"),
            (1, {"layer": swiglu}, "act=swiglu: this program has relu and gelu"),
            (1, {"change": NO_SPLIT}, "cannot import name 'split_params_into_different_moe"),
        ):
            self.refused(self.walk(ep, **options), said)


# ---- AutoEP, on a model of transformers

FUSED_OFF = """
import deepspeed.module_inject.auto_ep_layer as auto
auto.Experts.off = lambda self: 1.01 if self.gate_up_impl == "fused" and auto.dist.get_rank() else 1
"""
UNSUMMED = """
import deepspeed
was = deepspeed.Engine.backward
def backward(self, loss):
    for one in self.parameters() if self.last else ():
        one.grad = None  # of the chunks before
    was(self, loss)
deepspeed.Engine.backward = backward
"""
MOVED = """
import deepspeed, transformers
def initialize(**_):
    raise TypeError("get() takes 2 positional arguments but 3 were given")
deepspeed.initialize = initialize
transformers.__version__ = "5.24.0"
"""
NO_ACTIVATION = """
import deepspeed.moe.ep_experts as experts
del experts.register_expert_activation
"""


class AutoEP(Programs):
    program = "autoep/ds-autoep"
    space = declared(program)
    layer = "E=4 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=swiglu W=2 m=2"

    def walk(self, ep, *more, **options):
        """Each plan twice."""
        options.setdefault("upstream", os.path.join(UPSTREAM, "autoep"))
        plans = 2 * self.space.launches()[f"ep={ep}"]
        return self.launch(2, f"ep={ep}", plans, *more, **options)

    def test_every_plan_is_compared_with_transformers_logits_and_gradients(self):
        said = set()
        for ep in (1, 2):
            launch = self.walk(ep, "--check", "--tokens", "256", "--words", "512", "1")
            self.assertEqual(len(self.words(launch)), 9)
            self.assertEqual([word for word, _ in launch.heard], 18 * ["tell"], launch.heard)
            asked = numbers(launch.keys)
            self.assertEqual({key for key, _ in asked}, {256})
            self.assertTrue(all(1 <= skew < 2 for _, skew in asked[::2]), asked)
            self.assertEqual({skew for _, skew in asked[1::2]}, {2})  # E / k: two experts have all
            said |= set(re.findall("EXPERTS (.*)|CHUNKS (.*)", launch.said))
        ways = {("False separate", ""), ("True separate", ""), ("True fused", "")}
        self.assertEqual(said, ways | {("", "1"), ("", "2"), ("", "4")})

    def fail_alone(self, launch, pattern):
        for plan, word in self.words(launch).items():
            wanted = "failed" if re.search(pattern, plan) else "tell"
            self.assertEqual(word, wanted, launch.outcomes)

    def test_what_gives_something_else_fails(self):
        for change, plans in ((FUSED_OFF, "experts=fused"), (UNSUMMED, "chunks=[24]")):
            launch = self.walk(1, "--check", "--tokens", "256", change=change)
            self.fail_alone(launch, plans)
            self.assertIn("wrong: ", launch.outcomes["ep=1 experts=fused chunks=4"][1])

    def test_chunks_are_no_more_than_texts(self):
        launch = self.walk(1, "--tokens", "64")
        self.fail_alone(launch, "chunks=[24]")
        why = launch.outcomes["ep=1 experts=loop chunks=2"][1]
        self.assertEqual(why, "1 texts are fewer than 2 chunks")

    def test_what_cannot_run_is_one_sentence(self):
        relu, f16 = (self.layer.replace(*one) for one in (("swiglu", "relu"), ("f32", "f16")))
        moved = "deepspeed 0.99 does not take this model of transformers 5.24.0: get() takes"
        for ep, options, said in (
            (4, {}, "ep=4 does not divide both 2 ranks and 4 experts"),
            (1, {"layer": relu}, "act=relu: the experts of Mixtral are swiglu"),
            (1, {"layer": f16}, "dtype=f16: this program has f32 and bf16"),
            (1, {"change": NO_ACTIVATION}, "cannot import name 'register_expert_activation'"),
            (1, {"change": MOVED}, f"AutoEP of {moved}"),
        ):
            self.refused(self.walk(ep, **options), said)
