"""A torch that knows what tuners need of it."""

import sys
import threading
import types
from unittest import mock

from surroundings import outcome, silent
from stand_ins import fake_torch as plain_torch, FakeGroup, rank_here
from tuner_case import Case


class Group(FakeGroup):
    def __init__(self, ranks):
        super().__init__(ranks)
        self.count = 0

    def all_reduce(self, tensor, op, group=None):
        assert op == "max"
        self.max_into(tensor)

    def reduce(self, tensor, dst, op, group=None):
        assert op == "max"
        self.max_into(tensor)
        if rank_here.rank != dst:
            tensor[:] = [0.0] * len(tensor)  # who looks at it elsewhere is wrong

    def max_into(self, tensor):
        said = self.exchange(list(tensor))
        assert len({len(one) for one in said.values()}) == 1, "ranks reduce different sizes"
        self.count += rank_here.rank == 0
        tensor[:] = [max(values) for values in zip(*said.values())]


class Gradients:
    """torch.autograd, as far as it is used: what hangs on tensors is called by backward()."""

    enabled, inside = True, False

    @staticmethod
    def register_multi_grad_hook(tensors, hook):
        for tensor in tensors:
            tensor.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: None)


def fake_torch(group):
    modules = plain_torch(group)
    torch, dist = modules["torch"], modules["torch.distributed"]
    torch.__version__ = "0"
    torch.float64 = "f64"
    torch.float32, torch.float16, torch.bfloat16 = "float32", "float16", "bfloat16"
    torch.cuda = types.SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
    torch.zeros = lambda *sizes, dtype, device: Tensor(*sizes)
    torch.no_grad = lambda: mock.patch.object(Gradients, "enabled", False)
    torch.is_grad_enabled = lambda: Gradients.enabled
    torch.autograd = types.SimpleNamespace(graph=Gradients)
    torch._C = types.SimpleNamespace(_current_graph_task_id=lambda: 0 if Gradients.inside else -1)
    dist.ReduceOp = types.SimpleNamespace(MAX="max")
    if group:
        dist.all_reduce, dist.reduce = group.all_reduce, group.reduce
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


class Tensor:
    def __init__(self, *shape, requires_grad=False, dtype="float32"):
        self.shape, self.requires_grad, self.hooks = shape, requires_grad, []
        self.dtype, self.device = dtype, types.SimpleNamespace(type="cpu")

    def register_hook(self, hook):
        self.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: None)
