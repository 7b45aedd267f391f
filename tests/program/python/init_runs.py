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
    """With a stand-in for Tutel, which heeds what Tutel would not check, and with Tutel itself."""

    layer = "E=2 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=relu W=4 m=4"

    def walk(self, *more, **options):
        space = Space(read(PROGRAMS, "tutel", "tutel-moe.space").decode())
        ((plan, plans),) = space.launches().items()
        program = "tutel/tutel-moe.py"
        options.update(layer=self.layer, LOCAL_SIZE=None)
        return plans, self.launch(space, 4, plan, plans, program, *more, **options)

    def check_plans(self, **options):
        plans, launch = self.walk("--factors", "0.5", "2", **options)
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

    def test_plans_that_tutel_has_are_told_and_the_others_fail(self):
        os.mkdir(os.path.join(self.folder, "tutel"))
        for name, text in (("__init__.py", ""), ("moe.py", TUTEL)):
            with open(os.path.join(self.folder, "tutel", name), "w") as file:
                file.write(text)
        stand_in = os.pathsep.join((PACKAGE, self.folder))
        self.check_plans(PYTHONPATH=stand_in)
        _, launch = self.walk("--factors", "1", "0", PYTHONPATH=stand_in)
        self.assertNotIn(0, launch.codes)
        self.assertIn("of 0 or less Tutel counts the capacity as it routes", launch.said)

    @unittest.skipUnless(
        can_import("tutel.moe"), "Tutel itself is not installed; a stub of it took its place"
    )
    def test_so_does_tutel_itself(self):
        self.check_plans()


TRANSFORMERS = """
import torch

__version__ = "5.99"

class MixtralConfig:
    def __init__(self, **said):
        self.__dict__.update(said)

class Model(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        draw = lambda *sizes: torch.nn.Parameter(torch.randn(sizes) / sizes[-1] ** 0.5)
        self.words, self.gate = draw(c.vocab_size, c.hidden_size), draw(8, c.hidden_size)
        self.up = draw(c.num_local_experts, c.intermediate_size, c.hidden_size)
        self.down = draw(c.num_local_experts, c.hidden_size, c.intermediate_size)
        self.experts, self.k = "eager", c.num_experts_per_tok

    def set_experts_implementation(self, name):
        if name not in ("eager", "batched_mm", "grouped_mm"):
            raise ValueError(f"no such experts: {name}")
        self.experts = name

    def forward(self, texts, use_cache):
        assert not use_cache
        x = self.words[texts.flatten()]
        weight, expert = (x @ self.gate.T).softmax(-1).topk(self.k)
        if self.experts == "eager":
            y = torch.zeros_like(x)
            for e in range(len(self.up)):
                part = (weight * (expert == e)).sum(1, keepdim=True)
                y = y + part * (torch.nn.functional.silu(x @ self.up[e].T) @ self.down[e].T)
        else:
            h = torch.nn.functional.silu(torch.einsum("td,tkhd->tkh", x, self.up[expert]))
            y = (torch.einsum("tkh,tkdh->tkd", h, self.down[expert]) * weight[..., None]).sum(1)
        out = type("Out", (), {})()
        out.logits = (x + y * self.off()) @ self.words.T
        return out

    def off(self):
        return 1

class AutoModelForCausalLM:
    @staticmethod
    def from_config(config):
        return Model(config)
"""
OFF = """
import transformers
transformers.Model.off = lambda self: 1.01 if self.experts == "batched_mm" else 1
"""
OLD = """
import transformers
del transformers.Model.set_experts_implementation
transformers.__version__ = "4.57"
"""
REFUSED = """
import transformers
was = transformers.Model.set_experts_implementation
def refuse(self, name):
    if name == "grouped_mm":
        raise ImportError("grouped_mm wants another torch\\nand more")
    was(self, name)
transformers.Model.set_experts_implementation = refuse
"""


class HfMoe(Programs):
    """With a stand-in for transformers, and with transformers where it is new enough."""

    layer = "E=8 k=2 T=23 D=32 H=48 dtype=f32 pass=train act=swiglu W=1 m=1"
    space = Space(read(PROGRAMS, "hf-moe", "hf-moe.space").decode())

    def walk(self, *more, stand_in=TRANSFORMERS, change="", layer=layer, repeat=1):
        path = PACKAGE
        if stand_in:
            with open(os.path.join(self.folder, "transformers.py"), "w") as file:
                file.write(stand_in)
            path = os.pathsep.join((PACKAGE, self.folder))
        ((plan, plans),) = self.space.launches().items()
        plans = repeat * plans
        program = "hf-moe/hf-moe.py"
        return self.launch(
            self.space, 1, plan, plans, program, *more, change=change, layer=layer, PYTHONPATH=path
        )

    def words(self, launch):
        self.assertEqual(launch.codes, [0], launch.said)
        return {plan.partition("=")[2]: word for plan, (word, _) in launch.outcomes.items()}

    def all_told(self, launch):
        told = {"eager": "tell", "batched_mm": "tell", "grouped_mm": "tell"}
        self.assertEqual(self.words(launch), told, launch.outcomes)

    def test_every_plan_is_compared_with_eager_over_tokens_forward_and_backward(self):
        launch = self.walk("--check", "--tokens", "1", "6", repeat=4)
        self.all_told(launch)
        self.assertEqual([word for word, _ in launch.heard], 12 * ["tell"], launch.heard)
        # key and class
        asked = [tuple(map(float, key.split())) for key in launch.keys[:4]]
        self.assertEqual(asked, [(1, 0), (1, 1), (6, 0), (6, 1)])

    def test_what_gives_something_else_is_wrong_and_fails(self):
        launch = self.walk("--check", "--tokens", "6", change=OFF)
        told = {"eager": "tell", "batched_mm": "failed", "grouped_mm": "tell"}
        self.assertEqual(self.words(launch), told)
        self.assertIn("wrong: logits is off by", launch.outcomes["experts=batched_mm"][1])

    def test_what_is_refused_fails_in_one_line(self):
        launch = self.walk("--tokens", "6", change=REFUSED)
        told = {"eager": "tell", "batched_mm": "tell", "grouped_mm": "failed"}
        self.assertEqual(self.words(launch), told)
        self.assertEqual(launch.outcomes["experts=grouped_mm"][1], "grouped_mm wants another torch")

    def test_what_is_not_there_is_named_in_one_sentence(self):
        for change, stand_in, said in (
            (OLD, TRANSFORMERS, "transformers 4.57 has no set_experts_implementation"),
            ("", "raise ImportError('No module named nothing')", "nothing: pip install what the head of hf-moe.py says"),
            ("", "__version__ = '5.99'", "transformers 5.99 has no MixtralConfig, which"),
        ):
            launch = self.walk(change=change, stand_in=stand_in)
            self.assertEqual(launch.codes, [1])
            self.assertIn(said, launch.said)
            self.assertEqual(launch.said.count("\n"), 1, launch.said)
        launch = self.walk(layer=self.layer.replace("swiglu", "relu"))
        self.assertIn("act=relu: the experts of mixtral are swiglu", launch.said)

    @unittest.skipUnless(
        can_import("transformers.models.qwen3_moe"), "transformers itself is not installed"
    )
    def test_transformers_itself(self):
        for family in ("mixtral", "qwen3_moe"):
            more = "--check", "--tokens", "1", "24", "--family", family
            launch = self.walk(*more, stand_in=None, repeat=4)
            self.all_told(launch)


DEEPSPEED = {
    "__init__": """
import logging, types
import torch, torch.distributed as dist

__version__ = "0.99"
utils = types.SimpleNamespace(logger=logging.getLogger("deepspeed"))

class Engine:
    def __init__(self, layer):
        self.layer, self.stepped = layer, True

    def train(self, mode):
        self.layer.train(mode)

    def __call__(self, x):
        return self.layer(x)

    def backward(self, loss):
        assert self.stepped
        loss.backward()
        for one in self.layer.parameters():
            if getattr(one, "group_name", "ep_size_1") == "ep_size_1":
                dist.all_reduce(one.grad)
            one.grad /= self.ranks()
        self.stepped = False

    def ranks(self):
        return dist.get_world_size()

    def step(self):
        self.stepped = True
        for one in self.layer.parameters():
            one.grad = None

def initialize(model, model_parameters, config, dist_init_required):
    assert config["optimizer"]["params"]["lr"] == 0 and dist_init_required is False
    assert {one.group_name for one in model.parameters() if hasattr(one, "group_name")}
    return Engine(model), None, None, None
""",
    "moe/__init__": "",
    "moe/utils": """
def split_params_into_different_moe_groups_for_optimizer(groups):
    assert groups["name"] and groups["params"]
    return [groups]
""",
    "moe/sharded_moe": """
import torch

def _capacity(gates, factor, least):
    return torch.maximum(torch.ceil(len(gates) / gates.shape[1] * factor).long(), least)
""",
    "moe/layer": """
import copy
import torch, torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce
from .sharded_moe import _capacity

class Gate(torch.nn.Module):
    def __init__(self, width, experts, k, least):
        super().__init__()
        self.wg, self.k, self.least = torch.nn.Linear(width, experts, bias=False), k, least
        self.capacity_factor = self.eval_capacity_factor = 1.0

    def forward(self, x, used, sparse):
        assert used is None and sparse
        gates = self.wg(x.float()).softmax(-1)
        factor = self.capacity_factor if self.training else self.eval_capacity_factor
        capacity = _capacity(gates, torch.tensor(factor * self.k), torch.tensor(self.least))
        weight, chosen = gates.topk(self.k)
        mask = torch.zeros_like(gates).scatter(1, chosen, 1.0)
        place = (mask.cumsum(0) - 1).gather(1, chosen)
        chosen = torch.where(place < capacity, chosen, torch.full_like(chosen, -1))
        return None, capacity, gates.shape[1], chosen.T, place.T, weight.T, None

class Part(torch.nn.Module):
    pass

class MoE(torch.nn.Module):
    def __init__(self, width, expert, num_experts, ep_size, k, min_capacity, use_rts,
                 top2_2nd_expert_sampling):
        super().__init__()
        assert (use_rts, top2_2nd_expert_sampling) == (False, False)
        assert num_experts % ep_size == 0
        self.ep_size, self.deepspeed_moe, here = ep_size, Part(), num_experts // ep_size
        self.deepspeed_moe.gate = Gate(width, num_experts, k, min_capacity)
        self.deepspeed_moe.experts = Part()
        experts = torch.nn.ModuleList(copy.deepcopy(expert) for _ in range(here))
        self.deepspeed_moe.experts.deepspeed_experts = experts
        for one in experts.parameters():
            one.allreduce, one.group_name = False, f"ep_size_{ep_size}"

    def forward(self, x):
        _, _, _, chosen, _, weight, _ = self.deepspeed_moe.gate(x, None, True)
        experts, first, mine = self.deepspeed_moe.experts.deepspeed_experts, 0, slice(None)
        rows, weight = x, torch.where(chosen < 0, torch.zeros_like(weight), weight).T.contiguous()
        chosen = chosen.T.contiguous()
        if self.ep_size > 1:
            assert self.ep_size == dist.get_world_size()
            first = dist.get_rank() * len(experts)
            mine = slice(dist.get_rank() * len(x), (dist.get_rank() + 1) * len(x))
            rows, weight = torch.cat(all_gather(rows)), torch.cat(all_gather(weight))
            others = [torch.empty_like(chosen) for _ in range(dist.get_world_size())]
            dist.all_gather(others, chosen)
            chosen = torch.cat(others)
        y = torch.zeros_like(rows)
        for e, expert in enumerate(experts, first):
            y = y + (weight * (chosen == e)).sum(1, keepdim=True) * expert(rows)
        return (all_reduce(y) if self.ep_size > 1 else y)[mine] * self.off(), None, None

    def off(self):
        return 1
""",
}
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
    """With a stand-in for DeepSpeed, and with DeepSpeed where it is installed."""

    layer = "E=4 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=relu W=2 m=2"
    space = Space(read(PROGRAMS, "deepspeed", "ds-moe.space").decode())

    def walk(self, ep, *more, stand_in=True, change="", layer=layer, repeat=4):
        path = PACKAGE
        if stand_in:
            os.makedirs(os.path.join(self.folder, "deepspeed", "moe"), exist_ok=True)
            for name, text in DEEPSPEED.items():
                with open(os.path.join(self.folder, "deepspeed", f"{name}.py"), "w") as file:
                    file.write(text)
            path = os.pathsep.join((PACKAGE, self.folder))
        plans, program = repeat * self.space.launches()[f"ep={ep}"], "deepspeed/ds-moe.py"
        options = {"change": change, "layer": layer, "PYTHONPATH": path}
        return self.launch(self.space, 2, f"ep={ep}", plans, program, *more, **options)

    def told(self, launch):
        self.assertEqual(launch.codes, [0, 0], launch.said)
        return [word for word, _ in launch.heard]

    def check_both(self, **more):
        for ep in (1, 2):
            launch = self.walk(ep, "--check", "--factors", "0.25", "1", **more)
            self.assertEqual(self.told(launch), 4 * ["tell"], launch.heard)
            asked = [tuple(map(float, key.split())) for key in launch.keys[:4]]
            self.assertEqual(asked, [(4, 0), (4, 1), (16, 0), (16, 1)])

    def test_every_plan_is_compared_with_a_loop_over_capacities_forward_and_backward(self):
        self.check_both()

    def test_what_gives_something_else_fails(self):
        for change, said in (
            (EP_OFF, ["wrong: y is off by", "wrong: y is off by"]),
            (UNREDUCED, [None, "wrong: gradient of"]),
            (ANOTHER_C, 2 * ["wrong: a capacity of 16 is 17 in the gate"]),
        ):
            ep = 2 if change == EP_OFF else 1
            launch = self.walk(ep, "--check", "--factors", "1", change=change, repeat=2)
            self.assertEqual(launch.codes, [0, 0], launch.said)
            self.assertEqual(len(launch.heard), len(said))
            for (word, rest), wanted in zip(launch.heard, said):
                self.assertEqual(word, "failed" if wanted else "tell", launch.heard)
                self.assertIn(wanted or "", rest)

    def test_what_cannot_run_is_one_sentence(self):
        for ep, change, layer, said in (
            (4, "", self.layer, "ep=4 does not divide both 2 ranks and 4 experts"),
            (1, "", self.layer.replace("relu", "swiglu"), "act=swiglu: here are relu and gelu"),
            (1, NO_SPLIT, self.layer, "cannot import name 'split_params_into_different_moe"),
        ):
            launch = self.walk(ep, change=change, layer=layer)
            self.assertEqual(launch.codes, [1, 1], launch.said)
            self.assertEqual(launch.said.count(said), 1, launch.said)

    @unittest.skipUnless(can_import("deepspeed.moe.layer"), "DeepSpeed itself is not installed")
    def test_deepspeed_itself(self):
        self.check_both(stand_in=False)


MIXTRAL = """
import torch

__version__ = "5.99"

class MixtralConfig:
    def __init__(self, **said):
        self.__dict__.update(said)

def draw(*sizes):
    return torch.nn.Parameter(torch.randn(sizes) / sizes[-1] ** 0.5)

class Experts(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        sizes = c.num_local_experts, c.intermediate_size, c.hidden_size
        self.gate_up_proj = draw(sizes[0], 2 * sizes[1], sizes[2])
        self.down_proj = draw(sizes[0], sizes[2], sizes[1])

class Mlp(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = torch.nn.Linear(c.hidden_size, c.num_local_experts, bias=False)
        self.experts, self.k = Experts(c), c.num_experts_per_tok

    def forward(self, x):
        weight, expert = self.gate(x).softmax(-1).topk(self.k)
        y = torch.zeros_like(x)
        for e, (both, down) in enumerate(zip(self.experts.gate_up_proj, self.experts.down_proj)):
            gate, up = (x @ both.T).chunk(2, dim=-1)
            part = (weight * (expert == e)).sum(1, keepdim=True)
            y = y + part * ((torch.nn.functional.silu(gate) * up) @ down.T)
        return y

class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mlp = Mlp(c)

class Model(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.words, self.block = draw(c.vocab_size, c.hidden_size), Block(c)

    def forward(self, texts, use_cache):
        assert not use_cache
        x = self.words[texts.flatten()]
        out = type("Out", (), {})()
        y = x + self.block.mlp(x)
        out.logits = (y @ self.words.T).reshape(*texts.shape, -1)
        return out

class AutoModelForCausalLM:
    @staticmethod
    def from_config(config):
        return Model(config)
"""
AUTOEP = {
    "deepspeed/__init__": """
import logging, types
import torch, torch.distributed as dist
from .module_inject.auto_ep_layer import AutoEPMoELayer
from .moe.ep_experts import ACTIVATIONS

__version__ = "0.99"
utils = types.SimpleNamespace(logger=logging.getLogger("deepspeed"))

class Engine(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.last, self.chunks = module, True, []

    def forward(self, texts, use_cache):
        return self.module(texts, use_cache)

    def set_gradient_accumulation_boundary(self, last):
        self.last = last

    def backward(self, loss):
        loss.backward()
        self.chunks.append(self.last)
        for one in self.parameters() if self.last else ():
            if getattr(one, "everywhere", True):
                dist.all_reduce(one.grad)
            one.grad /= dist.get_world_size()

    def step(self):
        assert self.chunks == [False] * (len(self.chunks) - 1) + [True], self.chunks
        if dist.get_rank() == 0:
            print("CHUNKS", len(self.chunks), flush=True)
        self.chunks = []
        for one in self.parameters():
            one.grad = None

def initialize(model, config, dist_init_required):
    parallel = config["expert_parallel"]
    assert parallel["enabled"] and config["optimizer"]["params"]["lr"] == 0
    assert parallel["expert_activation"] in ACTIVATIONS and dist_init_required is False
    act = ACTIVATIONS[parallel["expert_activation"]]
    model.block.mlp = AutoEPMoELayer(model.block.mlp, parallel["autoep_size"], act)
    return Engine(model), None, None, None
""",
    "deepspeed/accelerator": """
class Cores:
    def prefer_triton_grouped_mm(self):
        return False

def get_accelerator():
    return Cores()
""",
    "deepspeed/moe/__init__": "",
    "deepspeed/moe/ep_experts": """
ACTIVATIONS = {}

def register_expert_activation(name, fn):
    ACTIVATIONS[name] = fn
""",
    "deepspeed/module_inject/__init__": "",
    "deepspeed/module_inject/auto_ep_layer": """
import torch, torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce

class Experts(torch.nn.Module):
    def __init__(self, gate_up, down, everywhere, act):
        super().__init__()
        self.act, self.use_grouped_mm, self.gate_up_impl = act, True, "separate"
        self.use_triton_grouped_mm = False
        w1, w3 = gate_up.chunk(2, dim=1)
        for name, one in ("w1", w1), ("w2", down), ("w3", w3):
            setattr(self, name, torch.nn.Parameter(one.detach().clone()))
            getattr(self, name).everywhere = everywhere

    def forward(self, e, x):
        assert not self.use_triton_grouped_mm
        assert self.use_grouped_mm or self.gate_up_impl == "separate"
        if dist.get_rank() == 0:
            print("EXPERTS", self.use_grouped_mm, self.gate_up_impl, flush=True)
        h = self.act(x @ self.w1[e].T, x @ self.w3[e].T, 1.0, 1.0)
        return h @ self.w2[e].T * self.off()

    def off(self):
        return 1

class AutoEPMoELayer(torch.nn.Module):
    def __init__(self, mlp, ep, act):
        super().__init__()
        experts = mlp.gate.out_features
        assert experts % ep == 0 and ep in (1, dist.get_world_size())
        self.num_local_experts, self.ep_rank, self.k = experts // ep, dist.get_rank() % ep, mlp.k
        self.router = torch.nn.Module()
        self.router.gate = mlp.gate
        first = self.first = self.ep_rank * self.num_local_experts
        mine = slice(first, first + self.num_local_experts)
        whole = mlp.experts
        self.experts = Experts(whole.gate_up_proj[mine], whole.down_proj[mine], ep == 1, act)
        self.ep, self.tokens_per_expert = ep, torch.zeros(experts)

    def forward(self, x):
        weight, expert = self.router.gate(x).softmax(-1).topk(self.k)
        self.tokens_per_expert += torch.bincount(expert.flatten(), minlength=len(self.tokens_per_expert))
        rows, own = x, slice(None)
        if self.ep > 1:
            own = slice(dist.get_rank() * len(x), (dist.get_rank() + 1) * len(x))
            rows, weight = torch.cat(all_gather(x)), torch.cat(all_gather(weight))
            others = [torch.empty_like(expert) for _ in range(self.ep)]
            dist.all_gather(others, expert)
            expert = torch.cat(others)
        y = torch.zeros_like(rows)
        for e in range(self.num_local_experts):
            part = (weight * (expert == self.first + e)).sum(1, keepdim=True)
            y = y + part * self.experts(e, rows)
        return (all_reduce(y) if self.ep > 1 else y)[own]
""",
}
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
    """With stand-ins for DeepSpeed and transformers; test_clients has both."""

    layer = "E=4 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=swiglu W=2 m=2"
    space = Space(read(PROGRAMS, "autoep", "ds-autoep.space").decode())

    def walk(self, ep, *more, change="", layer=layer, repeat=2):
        for name, text in {"transformers": MIXTRAL, **AUTOEP}.items():
            file = os.path.join(self.folder, f"{name}.py")
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "w") as to:
                to.write(text)
        path = os.pathsep.join((PACKAGE, self.folder))
        plans = repeat * self.space.launches()[f"ep={ep}"]
        options = {"change": change, "layer": layer, "PYTHONPATH": path}
        program = "autoep/ds-autoep.py"
        return self.launch(self.space, 2, f"ep={ep}", plans, program, *more, **options)

    def told(self, launch):
        self.assertEqual(launch.codes, [0, 0], launch.said)
        return {plan.partition(" ")[2]: word for plan, (word, _) in launch.outcomes.items()}

    def test_every_plan_is_compared_with_transformers_logits_and_gradients(self):
        said = set()
        for ep in (1, 2):
            launch = self.walk(ep, "--check", "--tokens", "256", "--words", "512", "1")
            self.assertEqual(len(self.told(launch)), 9)
            self.assertEqual([word for word, _ in launch.heard], 18 * ["tell"], launch.heard)
            keys = [tuple(map(float, key.split())) for key in launch.keys]
            self.assertEqual({key for key, _ in keys}, {256})
            self.assertTrue(all(1 <= skew < 2 for _, skew in keys[::2]), keys)
            self.assertEqual({skew for _, skew in keys[1::2]}, {2})  # E / k: two experts have all
            said |= set(re.findall("EXPERTS (.*)|CHUNKS (.*)", launch.said))
        ways = {("False separate", ""), ("True separate", ""), ("True fused", "")}
        self.assertEqual(said, ways | {("", "1"), ("", "2"), ("", "4")})

    def test_what_gives_something_else_fails(self):
        for change, what in ((FUSED_OFF, "experts=fused"), (UNSUMMED, "chunks=[24]")):
            launch = self.walk(1, "--check", "--tokens", "256", change=change)
            for plan, word in self.told(launch).items():
                wrong = re.search(what, plan) is not None
                self.assertEqual(word, "failed" if wrong else "tell", launch.outcomes)
            self.assertIn("wrong: ", launch.outcomes["ep=1 experts=fused chunks=4"][1])

    def test_chunks_are_no_more_than_texts(self):
        launch = self.walk(1, "--tokens", "64")
        for plan, word in self.told(launch).items():
            self.assertEqual(word, "tell" if "chunks=1" in plan else "failed", launch.outcomes)
        why = launch.outcomes["ep=1 experts=loop chunks=2"][1]
        self.assertEqual(why, "1 texts are less than 2 chunks")

    def test_what_cannot_run_is_one_sentence(self):
        for ep, change, layer, said in (
            (4, "", self.layer, "ep=4 does not divide both 2 ranks and 4 experts"),
            (1, "", self.layer.replace("swiglu", "relu"), "act=relu: Mixtral's experts are swiglu"),
            (1, "", self.layer.replace("f32", "f16"), "dtype=f16: here are f32 and bf16"),
            (1, NO_ACTIVATION, self.layer, "cannot import name 'register_expert_activation'"),
            (1, MOVED, self.layer, "AutoEP of deepspeed 0.99 does not take this model of transformers 5.24.0: get() takes"),
        ):
            launch = self.walk(ep, change=change, layer=layer)
            self.assertEqual(launch.codes, [1, 1], launch.said)
            self.assertEqual(launch.said.count(said), 1, launch.said)


DEEPEP = """
import torch

topk_idx_t = torch.int64

class Event:
    def current_stream_wait(self):
        self.waited = True

class Config:
    def __init__(self, num_sms, nvl_send, nvl_recv, rdma_send, rdma_recv):
        assert num_sms > 0 and num_sms % 2 == 0 and 0 < nvl_send < nvl_recv
        rdma_recv = -(-rdma_recv // rdma_send) * rdma_send
        assert 0 < rdma_send <= rdma_recv // 2
        self.size = num_sms * nvl_recv

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        return self.size * hidden_bytes

class Handle:
    pass

class Both:
    def send(self, x, topk_idx, topk_weights):
        assert topk_idx.dtype == topk_idx_t and topk_weights.dtype == torch.float32
        assert x.dtype == torch.bfloat16 and len(x) == len(topk_idx)
        return [len(x) // self.local] * self.local

class Buffer(Both):
    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0):
        assert num_nvl_bytes > 0 and num_rdma_bytes == 0
        self.room = num_nvl_bytes

    def get_dispatch_layout(self, topk_idx, num_experts):
        self.local = num_experts // 2
        return "per rank", None, "per expert", "in rank", None

    def dispatch(self, x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None,
                 is_token_in_rank=None, num_tokens_per_expert=None, topk_idx=None, topk_weights=None,
                 expert_alignment=1, num_worst_tokens=0, config=None, previous_event=None,
                 async_finish=False, allocate_on_comm_stream=False):
        assert (num_tokens_per_rank, num_tokens_per_expert) == ("per rank", "per expert")
        assert is_token_in_rank == "in rank" and config.size * x.shape[1] * 2 <= self.room
        return x, None, None, self.send(x, topk_idx, topk_weights), Handle(), Event()

    def combine(self, x, handle, topk_weights=None, bias=None, config=None, previous_event=None,
                async_finish=False, allocate_on_comm_stream=False):
        assert isinstance(handle, Handle) and isinstance(config, Config)
        return x, None, Event()

class ElasticBuffer(Both):
    def __init__(self, group, num_bytes=None, num_cpu_bytes=0, num_max_tokens_per_rank=0, hidden=0,
                 num_topk=0, use_fp8_dispatch=False, deterministic=False, allow_hybrid_mode=True,
                 allow_multiple_reduction=True, prefer_overlap_with_compute=True, sl_idx=3,
                 num_allocated_qps=0, num_cpu_timeout_secs=300, num_gpu_timeout_secs=100,
                 explicitly_destroy=False):
        self.most, self.k, self.D = num_max_tokens_per_rank, num_topk, hidden
        assert allow_hybrid_mode is True

    def dispatch(self, x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None,
                 num_experts=None, num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0,
                 num_qps=0, previous_event=None, previous_event_before_epilogue=None,
                 async_with_compute_stream=False, allocate_on_comm_stream=False, handle=None,
                 do_handle_copy=True, do_cpu_sync=None, do_expand=False, do_zero_padding=False,
                 use_tma_aligned_col_major_sf=False):
        assert 0 <= num_sms <= 160 and len(x) <= self.most and tuple(x.shape[1:]) == (self.D,)
        assert topk_idx.shape[1] == self.k
        self.local, handle = num_experts // 2, Handle()
        handle.num_recv_tokens_per_expert_list = self.send(x, topk_idx, topk_weights)
        return x, None, None, handle, Event()

    def combine(self, x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0,
                previous_event=None, previous_event_before_epilogue=None,
                async_with_compute_stream=False, allocate_on_comm_stream=False):
        assert isinstance(handle, Handle)
        return x, None, Event()
"""


class DeepEP(Programs):
    """With a stand-in that has the arguments of DeepEP 2.1.0, and asserts what its sources assert."""

    def test_every_plan_is_called_as_deepep_wants(self):
        space = Space(read(PROGRAMS, "deepep", "deepep.space").decode())
        with open(os.path.join(self.folder, "deep_ep.py"), "w") as file:
            file.write(DEEPEP)
        launches = space.launches()
        self.assertEqual(sorted(launches), ["kernels=v1", "kernels=v2"])
        for plan, plans in launches.items():
            launch = self.launch(
                space,
                2,
                plan,
                plans,
                "deepep/deepep.py",
                layer="E=8 k=2 T=33 D=16 H=24 dtype=bf16 W=2 m=2",
                PYTHONPATH=os.pathsep.join((PACKAGE, self.folder)),
            )
            self.assertEqual(launch.codes, [0, 0], launch.said)
            self.assertEqual(sorted(launch.outcomes), sorted(plans))
            self.assertEqual({word for word, _ in launch.outcomes.values()}, {"tell"}, launch.said)
