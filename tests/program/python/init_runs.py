"""The programs of moetune init, on ranks that the test starts; it plays moetune, too."""

import os
import re
import shutil
import tempfile
import unittest

from init_verb import PROGRAMS, read
from space_case import Launch, Space
from surroundings import PACKAGE, can_import

# What wants to be otherwise for a test, and then the program.
WRAPPER = """
import os, runpy, sys
program, change = sys.argv[1:3]
sys.argv[:] = sys.argv[1:2] + sys.argv[3:]
sys.path.insert(0, os.path.dirname(program))
exec(change)
runpy.run_path(program, run_name="__main__")
"""
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


@unittest.skipUnless(can_import("torch.distributed"), "torch is not installed")
class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.wrapper = os.path.join(self.folder, "wrapper.py")
        with open(self.wrapper, "w") as file:
            file.write(WRAPPER)

    def launch(self, space, ranks, plan, plans, program, *arguments, change="", **more):
        command = [self.wrapper, os.path.join(PROGRAMS, program), change, *arguments]
        more.setdefault("PYTHONPATH", PACKAGE)
        return Launch(space, ranks, command, plan, plans, **more)


class TorchMoe(Programs):
    """Every plan is compared with a plain loop on fresh numbers before it is timed."""

    space = Space(read(PROGRAMS, "torch-moe", "torch-moe.space").decode())

    def layer(self, ranks, act="gelu", experts=8):
        return f"E={experts} k=2 T=23 D=16 H=24 dtype=f32 pass=train act={act} W={ranks} m={ranks}"

    def walk(self, ranks, plan, plans, change=GROUPED, act="gelu", more=("--check",), **others):
        others.setdefault("layer", self.layer(ranks, act))
        program = "torch-moe/torch-moe.py"
        return self.launch(self.space, ranks, plan, plans, program, *more, change=change, **others)

    def all_told(self, launch, plans, ranks):
        self.assertEqual(launch.codes, [0] * ranks, launch.said)
        self.assertEqual(sorted(launch.outcomes), sorted(plans), launch.said)
        for plan, (word, rest) in launch.outcomes.items():
            self.assertEqual(word, "tell", f"{plan}: {rest}")
            self.assertGreater(float(rest), 0)

    def every_plan(self, ranks, act):
        for plan, plans in self.space.launches().items():
            ep = int(plan.partition("=")[2])
            if ranks % ep == 0:
                self.all_told(self.walk(ranks, plan, plans, act=act), plans, ranks)

    def test_every_plan_is_right_on_4_ranks(self):
        self.every_plan(4, "gelu")

    def test_every_plan_is_right_on_2_ranks(self):
        self.every_plan(2, "swiglu")

    def test_every_plan_is_right_where_a_rank_gets_no_rows(self):
        plans = self.space.launches()["ep=2"]
        self.all_told(self.walk(2, "ep=2", plans, change=GROUPED + FIRST_TWO), plans, 2)

    def test_keys_are_asked_in_turn_and_experts_may_get_nothing(self):
        plans = [p for p in self.space.launches()["ep=2"] if "loop" in p or "padded" in p]
        more = "--check", "--tokens", "1", "40"
        launch = self.walk(2, "ep=2", plans, act="relu", more=more, layer=self.layer(2, "relu", 32))
        self.all_told(launch, plans, 2)
        self.assertEqual([key.split()[0] for key in launch.keys[:4]], ["1", "40", "1", "40"])

    def test_a_plan_that_cannot_be_run_fails_and_the_next_one_runs(self):
        plans = [
            "dispatcher=alltoall experts=grouped chunks=2 ep=2",
            "dispatcher=alltoall experts=loop chunks=2 ep=2",
        ]
        launch = self.walk(2, "ep=2", plans, change=UNGROUPED)
        self.assertEqual(launch.codes, [0, 0], launch.said)
        word, why = launch.outcomes[plans[0]]
        self.assertEqual(word, "failed")
        self.assertRegex(why, "^torch .* has no grouped_mm$")
        self.assertEqual(launch.outcomes[plans[1]][0], "tell")

    def test_the_class_is_the_skew_that_was_wanted(self):
        """Plans are right under it, too."""
        plans = [p for p in self.space.launches()["ep=2"] if "chunks=2" in p]
        more = "--check", "--tokens", "512", "--skew", "1", "3", "4"
        launch = self.walk(2, "ep=2", plans, more=more)
        self.all_told(launch, plans, 2)
        classes = [float(key.split()[1]) for key in launch.keys]
        # The gate alone makes 1.25 of the first.  Of 3,000 draws: 1.253 +- .049, 2.972 +- .054, 4 each time.
        # By chance: 1e-8 x 2: limits are six deviations or more away
        for found, wanted, apart in zip(classes, (1.25, 3, 4), (0.4, 0.36, 0.01)):
            self.assertLess(abs(found - wanted), apart, classes)
        self.assertLessEqual(max(classes), 4)

    def test_an_ep_that_cannot_be_ends_the_launch_at_once(self):
        launch = self.walk(2, "ep=4", self.space.launches()["ep=4"])
        self.assertEqual(launch.codes, [1, 1], launch.said)
        self.assertEqual((launch.keys, launch.outcomes), ([], {}))
        self.assertIn("torch-moe: ep=4 does not divide 2 ranks and 8 experts\n", launch.said)
        self.assertNotIn("Traceback", launch.said)

    def test_the_check_finds_what_is_wrong_on_one_rank(self):
        plan = "dispatcher=alltoall experts=loop chunks=1 ep=2"
        launch = self.walk(2, "ep=2", [plan], change=WRONG)
        self.assertEqual(launch.codes, [0, 0], launch.said)
        self.assertRegex(launch.outcomes[plan][1], r"^wrong: y is off by 0\.000\d+ \(seed \d+\)$")

    def test_chunks_travel_while_experts_compute(self):
        plan = "dispatcher=alltoall experts=padded chunks=2 ep=2"
        launch = self.walk(2, "ep=2", [plan], change=ORDER, more=())
        self.all_told(launch, [plan], 2)
        events = re.findall("^EVENT (.*)$", launch.said, re.M)
        there = ["start", "start", "wait", "experts", "start", "wait", "experts", "start"]
        # The backward pass: both gradients of results set out before one is waited for, and the
        # first one of inputs before the second.
        back = ["start", "start", "wait", "start", "wait", "start", "wait", "wait"]
        self.assertEqual(events, 2 * (there + ["wait", "wait"] + back))

    def test_a_moetune_that_is_gone_ends_all_ranks(self):
        plans = self.space.launches()["ep=1"]
        launch = self.walk(2, "ep=1", plans, more=(), gone_after=1)
        self.assertNotIn(0, launch.codes)
        self.assertEqual(launch.said.count("moetune is gone"), 2, launch.said)
        self.assertNotIn("it hung", launch.said)

    def test_another_number_of_ranks_is_refused(self):
        launch = self.walk(2, "ep=1", ["none"], layer=self.layer(4))
        self.assertNotIn(0, launch.codes)
        self.assertEqual(launch.said.count("its flags say 4 ranks, here are 2"), 2, launch.said)

    def test_the_check_by_hand_ends_with_a_verdict(self):
        plan = "dispatcher=alltoall experts=loop chunks=2 ep=2"
        for change, code, verdict in (
            ("", 0, "^right: all 3 steps gave what a plain loop over the experts gives$"),
            (WRONG, 1, "^WRONG: 3 of 3 steps did not give what a plain loop"),
        ):
            more = "--plan", plan, "--steps", "3", "--check"
            launch = self.walk(
                2, None, [], more=more, layer=None, MOETUNE_SPACE=None, change=change
            )
            self.assertEqual(launch.codes, [code, code], launch.said)
            self.assertEqual(len(re.findall(verdict, launch.said, re.M)), 1, launch.said)

    def test_nothing_needs_numpy(self):
        plans = self.space.launches()["ep=2"]
        launch = self.walk(2, "ep=2", plans, change=NO_NUMPY + GROUPED)
        self.all_told(launch, plans, 2)

    def test_without_moetune_one_plan_is_run(self):
        plan = "dispatcher=alltoall experts=loop chunks=2 ep=2"
        more = "--plan", plan, "--steps", "3", "--check"
        launch = self.walk(2, None, [], more=more, layer=None, MOETUNE_SPACE=None)
        self.assertEqual(launch.codes, [0, 0], launch.said)
        self.assertEqual(
            len(re.findall(f"^{plan}: [0-9.]+ us$", launch.said, re.M)), 3, launch.said
        )


TELLS = """
import moetune.torch, torch.distributed as dist
moetune.torch.join_ranks()
rank = dist.get_rank()
with_nan = dict(loss=float("nan") if rank == 1 else 2.0)
with_names = dict(tokens_per_s=[900.0, 700.0][rank], rows=3.0 + rank, loss=[2.5, 2.0][rank])
asker = moetune.torch.Asker("")
ran = []
for told in (dict(with_names, reduce={"tokens_per_s": min, "rows": sum}), with_names, with_nan):
    plan = asker.ask(7)
    us, memory = asker.timed(ran.append, plan)
    assert us > 0 and memory is None
    asker.tell(10.0 + rank, 100 - rank, **told)
assert len(ran) == 5, ran  # one step more for each of two plans, at its first time
asker.ask(7)
try:
    asker.tell(1.0, loss=1.0, reduce={"los": min})
    raise SystemExit("not refused")
except ValueError as error:
    assert "reduce names los, which is not told" in str(error)
asker.fail("done")
dist.destroy_process_group()
"""


class Asker(Programs):
    def test_the_worst_rank_counts_and_the_program_says_which_that_is(self):
        path = os.path.join(self.folder, "tells.py")
        with open(path, "w") as file:
            file.write(TELLS)
        space = Space("space mine\naxis chunks 1 2 default 1\nkey tokens edges 4\n")
        plans = ["chunks=1", "chunks=2", "chunks=1", "chunks=1"]
        launch = Launch(space, 2, [path], "", plans, "W=2", PYTHONPATH=PACKAGE)
        self.assertEqual(launch.codes, [0, 0], launch.said)
        told = [
            "11.0 memory=100 tokens_per_s=700.0 rows=7.0 loss=2.5",
            "11.0 memory=100 tokens_per_s=900.0 rows=4.0 loss=2.5",
            "11.0 memory=100 loss=nan",
        ]
        self.assertEqual(launch.heard, [("tell", one) for one in told] + [("failed", "done")])


TUTEL = """
import torch, torch.distributed as dist

class Layer(torch.nn.Module):
    def __init__(self, gate_type, model_dim, experts, seeds, scan_expert_func):
        super().__init__()
        ranks, per_rank = dist.get_world_size(), experts["num_experts_per_device"]
        shards = max(1, -per_rank)
        self.valid_rs = [0] + [r for r in range(1, shards + 1) if shards % r == 0]
        assert gate_type == {"type": "top", "k": 2} and experts["type"] == "ffn"
        self.experts = torch.nn.Linear(model_dim, model_dim)
        self.use_2dh = None

    def forward(self, x, capacity_factor, adaptive_r, a2a_ffn_overlap_degree):
        assert adaptive_r in self.valid_rs and a2a_ffn_overlap_degree == 1 and not self.use_2dh
        y = self.experts(x)
        self.l_aux = y.mean() * capacity_factor
        return y

moe_layer = Layer
"""


class Tutel(Programs):
    """With a stand-in for Tutel, which heeds what Tutel would not check."""

    def test_plans_that_tutel_has_are_told_and_the_others_fail(self):
        space = Space(read(PROGRAMS, "tutel", "tutel-moe.space").decode())
        os.mkdir(os.path.join(self.folder, "tutel"))
        for name, text in (("__init__.py", ""), ("moe.py", TUTEL)):
            with open(os.path.join(self.folder, "tutel", name), "w") as file:
                file.write(text)
        ((plan, plans),) = space.launches().items()
        layer = "E=2 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=relu W=4 m=4"
        launch = self.launch(
            space,
            4,
            plan,
            plans,
            "tutel/tutel-moe.py",
            "--factors",
            "0.5",
            "2",
            layer=layer,
            LOCAL_SIZE=None,
            PYTHONPATH=os.pathsep.join((PACKAGE, self.folder)),
        )
        self.assertEqual(launch.codes, [0] * 4, launch.said)
        self.assertEqual(launch.keys[:2], ["16", "64"])
        told = [plan for plan in plans if launch.outcomes[plan][0] == "tell"]
        self.assertEqual(told, [f"r={r} d=1 a=linear" for r in (0, 1, 2)])
        for plan, reason in (
            ("r=4 d=1 a=linear", "r=4: this layer has [0, 1, 2]"),
            ("r=1 d=2 a=linear", "d: Tutel overlaps chunks on GPUs alone"),
            ("r=1 d=1 a=2dh", "a=2dh: it is for several nodes, and wants LOCAL_SIZE"),
        ):
            self.assertIn(reason, launch.outcomes[plan][1])
