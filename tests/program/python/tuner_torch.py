"""A stand-in for torch with the parts that tuners need, and a test that compares it with torch itself.

Ranks are threads; a tensor is a list of numbers, or a shape that gradients hang on.  What torch
leaves open, as a reduce does the tensors of other ranks than its own, is wrong here."""

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import types
from unittest import mock

from surroundings import outcome, silent
from stand_ins import fake_torch as plain_torch, FakeGroup, rank_here
from tuner_case import Case

HAVE_TORCH = importlib.util.find_spec("torch") is not None


# ---- torch.distributed


class Group(FakeGroup):
    """And counts exchanges, each of which begins with a reduce."""

    def __init__(self, ranks):
        super().__init__(ranks)
        self.count = 0

    def reduce(self, tensor, dst, op, group=None):
        self.count += rank_here.rank == 0
        mine = list(tensor)
        self.all_reduce(mine, op)
        tensor[:] = mine if rank_here.rank == dst else [0.0] * len(mine)


# ---- torch.autograd


class Gradients:
    """A test says whether they are enabled and a backward pass is under way, and calls hooks."""

    enabled, inside = True, False

    @staticmethod
    def register_multi_grad_hook(tensors, hook):
        (tensor,) = tensors  # of several torch calls it once, when all have a gradient
        return tensor.register_hook(hook)


class Tensor:
    def __init__(self, *shape, requires_grad=False, dtype="float32"):
        self.shape, self.requires_grad, self.hooks = shape, requires_grad, []
        self.dtype, self.device = dtype, types.SimpleNamespace(type="cpu")

    def register_hook(self, hook):
        self.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: self.hooks.remove(hook))


# ---- all of it


def fake_torch(group):
    modules = plain_torch(group)
    torch, dist = modules["torch"], modules["torch.distributed"]
    torch.__version__ = "0"
    torch.float64 = torch.int64
    torch.float32, torch.float16, torch.bfloat16 = "float32", "float16", "bfloat16"
    torch.cuda = types.SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
    torch.zeros = lambda *sizes, dtype, device: Tensor(*sizes)
    torch.no_grad = lambda: mock.patch.object(Gradients, "enabled", False)
    torch.is_grad_enabled = lambda: Gradients.enabled
    torch.autograd = types.SimpleNamespace(graph=Gradients)
    torch._C = types.SimpleNamespace(_current_graph_task_id=lambda: 0 if Gradients.inside else -1)
    if group:
        dist.reduce = group.reduce
        dist.get_global_rank = lambda group, rank: rank
    return modules


class Modules(Case):
    """With that torch in place of what may be installed."""

    ranks = None

    def setUp(self):
        super().setUp()
        self.group = Group(self.ranks) if self.ranks else None
        ours = [name for name in sys.modules if name.split(".")[-1] in ("torch", "tutel", "marks")]
        patch = mock.patch.dict(sys.modules, fake_torch(self.group))
        patch.start()
        self.addCleanup(patch.stop)
        for name in ours:
            sys.modules.pop(name, None)

    def on_all_ranks(self, call):
        seen = [None] * self.ranks

        def one(rank):
            rank_here.rank = rank
            seen[rank] = outcome(lambda: call(rank))

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.ranks)]
        with silent():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return seen

    def on_ranks_of_torch(self, module, function):
        """What function(rank, database, ranks) gives in a process for each rank."""
        if not HAVE_TORCH:
            self.skipTest("ranks: torch is not installed; a stub of it took its place")
        command = [sys.executable, os.path.abspath(__file__), module, function, self.folder]
        ranks = [
            subprocess.Popen(
                [*command, str(rank), str(self.ranks)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for rank in range(self.ranks)
        ]
        try:
            said = [rank.communicate(timeout=800)[0].decode() for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        self.assertEqual([rank.returncode for rank in ranks], [0] * self.ranks, said)
        seen = []
        for rank in range(self.ranks):
            with open(os.path.join(self.folder, f"rank{rank}"), "rb") as file:
                seen.append(pickle.load(file))
        return seen


def be_rank(module, function, folder, rank, ranks):
    """One of those processes."""
    import torch.distributed as dist

    place = "file://" + os.path.join(folder, "meeting")
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)
    call = getattr(importlib.import_module(module), function)
    seen = call(rank, os.path.join(folder, "test.db"), ranks)
    with open(os.path.join(folder, f"rank{rank}"), "wb") as file:
        pickle.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


# ---- beside torch itself


def collectives(rank, _, ranks):
    """What tuners call on each rank, as they call it, and what they get."""
    import torch
    import torch.distributed as dist

    host = torch.device("cpu")
    numbers = [1.5 * rank, -2.0 * rank, float("inf") if rank == 1 else 1e300, 2.0**32 - 1]
    reduced = torch.tensor(numbers, dtype=torch.float64, device=host)
    dist.reduce(reduced, 0, dist.ReduceOp.MAX, group=None)
    largest = torch.tensor([rank, -rank], dtype=torch.int64, device=host)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=None)
    text = torch.tensor([rank, 255], dtype=torch.uint8, device=host)
    texts = [torch.tensor([9, 9], dtype=torch.uint8, device=host) for _ in range(ranks)]
    dist.all_gather(texts, text, group=None)
    dist.broadcast(text, 1, group=None)
    with torch.no_grad():
        without = torch.is_grad_enabled()
    return {
        "group": (dist.is_available(), dist.is_initialized(), dist.get_backend(None)),
        "ranks": (dist.get_rank(), dist.get_rank(None), dist.get_world_size(None)),
        "reduce": reduced.tolist() if rank == 0 else "anything",
        "all_reduce": largest.tolist(),
        "all_gather": [one.tolist() for one in texts],
        "broadcast": bytes(text.tolist()),
        "gradients": (torch.is_grad_enabled(), without, torch.cuda.is_initialized()),
    }


def hooks(rank, *_):
    """Of a result and of the weights that it is made of, as a backward pass calls them."""
    import torch

    weight = torch.ones(2, requires_grad=True)
    called, passes = [], []
    for _ in range(2):
        result = weight * 3
        result.register_hook(lambda grad: called.append("result"))
        handle = weight.register_hook(lambda grad: called.append("weight"))
        result.sum().backward()
        handle.remove()
        passes.append(list(called))
    return passes


class Alike(Modules):
    ranks = 3

    def test_collectives_give_what_those_of_torch_give(self):
        here = self.on_all_ranks(lambda rank: collectives(rank, self.database, self.ranks))
        self.assertEqual(here, self.on_ranks_of_torch("tuner_torch", "collectives"))

    def test_hooks_are_called_result_first_and_not_when_they_are_removed(self):
        """So does the layer that stands in for Tutel's (tuner_tutel)."""
        once = ["result", "weight"]
        self.assertEqual(self.on_ranks_of_torch("tuner_torch", "hooks"), 3 * [[once, 2 * once]])


if __name__ == "__main__":
    be_rank(*sys.argv[1:4], *map(int, sys.argv[4:]))
