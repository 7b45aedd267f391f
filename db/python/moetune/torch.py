"""One tuner for all ranks of a torch.distributed group.

Rank 0 of the group decides and writes the database; what it decides goes to the others as 32 bytes.
"""

import hashlib
import os
import re
from typing import Any, Optional

import torch
import torch.distributed as dist
from moelookup import Plan, Shape
from moelookup.table import checked_shape, window
from moelookup.torch import _agree, _alone, _bytes_tensor, _device

from .lines import Attached, attached_window, is_attached
from .tuner import US_MOST, Status
from .tuner import Tuner as _Tuner

# What a rank says in place of a time; the largest counts.
_NO_TIME, _FAILED, _WRONG = 1e200, 1e300, float("inf")


class Tuner:
    """moetune.Tuner, on every rank of the group: each function but status() and close() is a
    collective, and gives the same plan on all ranks.

    group: by default the whole world.  Its collectives carry 32 bytes and one number each step; over
    nccl that waits for the device, over a gloo group of the same ranks it does not.  device is where
    tensors must be for the group's backend, by default the current CUDA device for nccl and else the
    CPU.  ranks, ranks_per_node, cluster: by default the group's size, torchrun's LOCAL_WORLD_SIZE
    (else all ranks are on one node), and what torch knows of the machine.

    Under `moetune tune --exec` rank 0 speaks with that, and its database and layer count.
    """

    def __init__(
        self,
        db: Any = None,
        *,
        group: Any = None,
        device: Any = None,
        ranks: Optional[int] = None,
        ranks_per_node: Optional[int] = None,
        cluster: Optional[str] = None,
        **layer: Any,
    ) -> None:
        alone = _alone()
        self._group, self._alone = group, alone
        self._where = None if alone else _device(group, device)
        self.rank = 0 if alone else dist.get_rank(group)
        self._first = 0 if alone or group is None else dist.get_global_rank(group, 0)
        self._asked = False
        layer["ranks"] = ranks or (1 if alone else dist.get_world_size(group))
        layer["ranks_per_node"] = ranks_per_node or _ranks_per_node(layer["ranks"])
        layer["cluster"] = describe_machine(group) if cluster is None else cluster
        self._tuner: Any = None

        def digest() -> bytes:
            """Also what all ranks must have said alike."""
            self._tuner, self.shape = _open(db, self.rank, layer)
            # A bucket's width.
            self.window = attached_window() or layer.get("window") or _window(self.shape)
            said = (type(self._tuner).__name__, self.shape, self.window)
            return hashlib.sha256(repr(said).encode()).digest()

        if alone:
            digest()
            return
        try:
            _agree("tuner", digest, group, self._where)
        except Exception:
            self.close()
            raise

    def ask(self, capacity: int) -> Plan:
        """The same plan on every rank; all ask for the same capacity."""
        plan: Optional[Plan] = None
        error: Optional[Exception] = None
        order = bytes(self._tuner.order_bytes)
        if self.rank == 0:
            try:
                plan = self._tuner.ask(capacity)
                order = self._tuner.order()
            except Exception as caught:
                error = caught  # the others wait for an order: this one they refuse
        if not self._alone:
            tensor = _bytes_tensor(order, self._where)
            dist.broadcast(tensor, self._first, group=self._group)
            order = bytes(tensor.tolist())
        if error is not None:
            raise error
        if plan is None:
            plan = self._tuner.follow(order, capacity)
        self._asked = True
        return plan

    def tell(self, time_us: Optional[float]) -> bool:
        """How long the step took on this rank; what counts is the longest.

        None: there is no time of it here.  Then nothing is learnt on any rank, and False is returned
        on all; a number that is no time is a ValueError on all."""
        if time_us is None:
            mine = _NO_TIME
        else:
            mine = float(time_us) if 0 < time_us < US_MOST else _WRONG
        return self._learn(mine, "another rank could not run it")

    def fail(self, why: str = "") -> None:
        """Instead of tell(), on one rank or on more: the plan cannot be run."""
        self._learn(_FAILED, why)

    def status(self) -> Status:
        """Rank 0's; other ranks know nothing."""
        return self._tuner.status() if self.rank == 0 else Status()

    def close(self) -> None:
        """On rank 0 what is known is published."""
        if self._tuner is not None:
            self._tuner.close()

    def __enter__(self) -> "Tuner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _learn(self, mine: float, why: str) -> bool:
        largest = self._largest(mine if self._asked else _WRONG)
        self._asked = False
        if largest == _NO_TIME:
            return False
        if largest > _FAILED:
            raise ValueError("tell: a time above 0 on every rank, once after each ask")
        if self.rank == 0 and largest == _FAILED:
            self._tuner.fail(why)
        elif self.rank == 0:
            self._tuner.tell(largest)
        return True

    def _largest(self, value: float) -> float:
        if self._alone:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self._where)
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._group)
        return float(tensor.tolist()[0])


def _open(db: Any, rank: int, layer: Any) -> Any:
    if not is_attached():
        tuner = _Tuner(db, rank=rank, **layer)
        return tuner, tuner.shape
    defaults = {"dtype": "f32", "train": True, "activation": "relu", "tokens": 0}
    given = dict(defaults, **{name: layer[name] for name in Shape._fields if name in layer})
    return Attached(speaks=rank == 0), checked_shape(Shape(**given))[0]


def _window(shape: Shape) -> int:
    return window(shape.top_k, shape.experts, shape.tokens)


def _ranks_per_node(ranks: int) -> int:
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 0))
    return here if here and here < ranks and ranks % here == 0 else ranks


def describe_machine(group: Any = None) -> str:
    """The lines of `moetune fingerprint` that torch knows; another machine has another table."""
    lines = []
    if torch.cuda.is_available():
        lines.append(f"device = {torch.cuda.get_device_name()}")
    else:
        lines.extend(f"device = {name}" for name in _processor())
    backend = "none" if _alone() else str(dist.get_backend(group)).lower()
    if backend == "nccl":
        backend = "nccl " + ".".join(map(str, torch.cuda.nccl.version()[:2]))
    lines.append(f"comm_library = {backend}")
    return "".join(f"{line}\n" for line in lines)


def _processor() -> Any:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return re.findall(r"^model name\s*:\s*(.+?)\s*$", file.read(), re.M)[:1]
    except OSError:
        return []
