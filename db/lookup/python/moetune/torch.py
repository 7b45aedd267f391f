"""One tuner for all ranks of a torch.distributed group.

Rank 0 of the group decides and writes the database.  What it decides goes to the others in orders,
which also say when the next ones come: until then ranks run what they know, without a word to each
other, and keep their times, whose largest rank 0 learns at the next exchange.  When that is depends
on orders and on the number of steps alone, never on a capacity, so that all ranks come.
"""

import hashlib
import math
import os
import pickle
import re
import time
import zlib
from typing import Any, Callable, List, Mapping, Optional, Tuple

import torch
import torch.distributed as dist
from moelookup import Error, Plan, Shape
from moelookup.plan import checked_shape
from moelookup.table import window
from moelookup.torch import _agree, _alone, _bytes_tensor, _device

from .lines import Attached, OnePlan, Words, asker, attached_window, check_attached, is_attached
from .tuner import ORDER_BYTES, ORDERS, US_MOST, Status
from .tuner import Tuner as _Tuner

# What a rank says in place of a time; the largest counts.
_NO_TIME, _FAILED, _WRONG = 1e200, 1e300, float("inf")
_ORDERS_BYTES = 1 + ORDERS * ORDER_BYTES  # what they are comes first
_ORDERS, _ERROR = b"o", b"e"
_WATCHED = 64  # steps that all ranks compare their inputs in once these have changed


class _Step:
    """Since the last exchange."""

    def __init__(self, capacity: int, plan: Plan, asked: bool, alike: bool) -> None:
        self.capacity, self.plan, self.asked = capacity, plan, asked
        self.alike = alike  # this rank's input is as large as all had agreed
        self.time: Optional[float] = None


class Tuner:
    """moetune.Tuner, on every rank of the group: it gives the same plan on all ranks, which call
    ask() and tell() alike, for the same capacities.

    Few calls of ask() are collectives: those that may try a plan, and one in 64 steps or more, which
    is when drift is noticed.  There all ranks learn what is wrong on any of
    them, and all raise: another capacity, a number that is no time.  tell() and fail() are none; on
    every rank flush() gathers what was told so far.

    group: by default the whole world.  Its exchanges, a reduce and a broadcast, wait for the device
    over nccl; over a gloo group of the same ranks they do not.  device is where
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
        self._sum, self._due = 0, True  # a checksum of what was asked; an exchange comes next
        self._steps: List[_Step] = []
        self._took_s, self._why, self._wrong = 0.0, "", 0.0
        self.value: Optional[int] = None  # that agreed() was given last on all ranks; None: alone
        self._asked_with: Optional[int] = None
        self._watched = 0  # steps in which each value is compared
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
        self._sum = zlib.crc32(repr((capacity, self._asked_with)).encode(), self._sum)
        asked = self._is_due()
        alike = asked or self._asked_with == self.value
        if not asked:
            plan = self._tuner.known(capacity)
            self._due = self._tuner.due()
        elif self._alone:
            plan, self._steps = self._tuner.ask(capacity), []
        else:
            plan = self._exchange(capacity)
        self._steps.append(_Step(capacity, plan, asked, alike))
        return plan

    def agreed(self, value: int) -> int:
        """For an ask whose capacity follows from what may differ between ranks, as the rows of an
        input: what to take in its place.  That is the value itself where ranks exchange, and all
        raise if theirs differ; else the last one that all ranks had, so that all ask alike."""
        self._asked_with = value
        return value if self.value is None or self._is_due() else self.value

    def tell(self, time_us: Optional[float]) -> bool:
        """How long the step took on this rank; what counts is the longest.

        None: there is no time of it here (then False is returned), and nothing is learnt of it."""
        if time_us is None:
            self._note(_NO_TIME)
        else:
            self._note(float(time_us) if 0 < time_us < US_MOST else _WRONG)
        return time_us is not None

    def fail(self, why: str = "") -> None:
        """Instead of tell(), on one rank or on more: the plan cannot be run."""
        self._why = why
        self._note(_FAILED)

    def refuse(self, why: str) -> None:
        """fail(), where all ranks do so alike: the next ask() hears of it."""
        self.fail(why)
        self._due = True

    def flush(self) -> None:
        """A collective: rank 0 learns what was told."""
        if self._alone:
            return
        under_way = [step for step in self._steps[-1:] if step.time is None]
        self._exchange(None)
        self._steps = under_way

    def status(self) -> Status:
        """Rank 0's, as of the last exchange; other ranks know nothing."""
        return self._tuner.status() if self.rank == 0 else Status()

    def close(self) -> None:
        """On rank 0 what is known is published; flush() comes first if all ranks are well."""
        if self._tuner is not None:
            self._tuner.close()

    def __enter__(self) -> "Tuner":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:  # else other ranks may be elsewhere
                self.flush()
        finally:
            self.close()

    def _note(self, mine: float) -> None:
        """A time, or what is said in its place."""
        step = self._steps[-1] if self._steps else None
        wrong = step is None or step.time is not None or mine == _WRONG
        if self._alone:
            if step is not None:
                step.time = mine
            self._learn_alone(_WRONG if wrong else mine)
        elif wrong or step is None:
            self._wrong = 1.0  # all ranks hear of it
        else:
            step.time = mine if step.alike else max(mine, _NO_TIME)

    def _learn_alone(self, mine: float) -> None:
        if mine == _WRONG:
            raise ValueError(_NO_SUCH_TIME)
        if mine == _FAILED:
            self._tuner.fail(self._why)
        elif mine < _NO_TIME:
            self._tuner.tell(mine)

    # ---- exchanges

    def _is_due(self) -> bool:
        """Whether the next step is an exchange, whatever is asked for."""
        return self._alone or self._due or self._watched > 0

    def _exchange(self, capacity: Optional[int]) -> Any:
        """Times go to rank 0, and an order comes from there."""
        steps, self._steps = self._steps, []
        mine = [-self._took_s, self._sum, -self._sum, self._wrong]
        mine += [_NO_TIME if step.time is None else step.time for step in steps]
        self._sum, self._wrong = 0, 0.0
        begin = time.perf_counter()
        said = torch.tensor(mine, dtype=torch.float64, device=self._where)
        dist.reduce(said, self._first, dist.ReduceOp.MAX, group=self._group)
        took_s = time.perf_counter() - begin
        orders, error = b"", None
        if self.rank == 0:
            try:
                orders = _ORDERS + self._decide(capacity, steps, said.tolist())
            except Exception as caught:
                error, orders = caught, _ERROR + str(caught).encode()[: _ORDERS_BYTES - 1]
        begin = time.perf_counter()
        tensor = _bytes_tensor(orders.ljust(_ORDERS_BYTES, b"\0"), self._where)
        dist.broadcast(tensor, self._first, group=self._group)
        orders = bytes(tensor.tolist())
        self._took_s = took_s + time.perf_counter() - begin
        if error is not None:
            raise error
        if orders[:1] == _ERROR:
            raise Error(f"rank 0: {orders[1:].rstrip(bytes(1)).decode(errors='replace')}", -1)
        return None if capacity is None else self._obey(orders[1:], capacity, steps)

    def _decide(self, capacity: Optional[int], steps: List[_Step], said: List[float]) -> bytes:
        least_s, times = -said[0], said[4:]  # who came last did not wait: that is what it takes
        if said[1] != -said[2]:
            raise ValueError(
                "ask: another capacity on another rank: each must have as many tokens, or Tutel's"
                " inequivalent_tokens=True"
            )
        if said[3]:
            raise ValueError(_NO_SUCH_TIME)
        self._tuner.spent(1e6 * least_s)
        for step, us in zip(steps, times):
            self._learn(step, us)
        if capacity is None:
            return b""
        self._tuner.ask(capacity)
        return bytes(self._tuner.orders())

    def _learn(self, step: _Step, us: float) -> None:
        if us == _FAILED and step.asked:
            self._tuner.fail(self._why or "another rank could not run it")
        elif us < _NO_TIME and step.asked:
            self._tuner.tell(us)
        elif us == _FAILED or us < _NO_TIME:
            self._tuner.passed(step.capacity, step.plan, None if us == _FAILED else us)

    def _obey(self, orders: bytes, capacity: int, steps: List[_Step]) -> Plan:
        # The checksum was the same on all ranks, and so was every value.
        changed = self.value is not None and self._asked_with != self.value
        varied = changed or not all(step.alike for step in steps)
        self._watched = _WATCHED if varied else max(0, self._watched - 1)
        self.value = self._asked_with
        plan: Plan = self._tuner.obey(orders, capacity)
        self._due = self._tuner.due()
        return plan


class Asker:
    """moetune.asker() on every rank of the group: rank 0 speaks, all get its plans, and all raise
    if it cannot.  Every method is a collective, which all ranks call alike.

    plan, steps: what is run where moetune did not start the program; then by_hand is True.
    """

    def __init__(self, plan: str, steps: int = 5, group: Any = None, device: Any = None) -> None:
        self._alone, self._group = _alone(), group
        self._where = None if self._alone else _device(group, device)
        self.rank = 0 if self._alone else dist.get_rank(group)
        self.ranks = 1 if self._alone else dist.get_world_size(group)
        self._asker: Any = None
        self._asked: Any = None  # key and plan
        self._warm: List[Any] = []

        def begin() -> Any:
            self._asker = asker(plan, steps)
            layer = self._asker.layer
            if layer.get("W", self.ranks) != self.ranks:
                raise Error(
                    f"tune --space: its flags say {layer['W']} ranks, here are {self.ranks}"
                )
            return layer, self._asker.launch, isinstance(self._asker, OnePlan)

        self.layer, self.launch, self.by_hand = self._on_first(begin)

    def ask(self, key: int, skew: Optional[float] = None) -> Optional[Words]:
        # Rank 0's key as well: whether a step warms up must not differ between ranks.
        self._asked = self._on_first(lambda: (key, self._asker.ask(key, skew)))
        plan: Optional[Words] = self._asked[1]
        return plan

    def timed(self, step: Callable[..., Any], *arguments: Any) -> Tuple[float, Optional[int]]:
        """What tell() takes: microseconds of step(*arguments) here, and on a GPU the most bytes.

        All ranks begin together.  At the first time of a plan under a key the step runs once more
        before, to warm up."""
        if self._asked not in self._warm:
            self._time(step, arguments)
            self._warm.append(self._asked)
        return self._time(step, arguments)

    def tell(
        self,
        time_us: float,
        memory: Optional[int] = None,
        reduce: Optional[Mapping[str, Callable[[List[float]], float]]] = None,
        **measured: float,
    ) -> None:
        """The longest time and the most memory of all ranks, and of each other number the largest.

        reduce: where that is not the worst one, by name: reduce={"tokens_per_s": min} is what
        `--guard "tokens_per_s>=900"` wants; sum and others that take a list do, too.  nan on one
        rank is nan, which no guard lets pass."""
        ways = reduce or {}
        for name in ways.keys() - measured.keys():
            raise ValueError(f"tell: reduce names {name}, which is not told")
        mine = [float(time_us), float(memory or 0), *measured.values()]
        times, most, *others = self._of_ranks(mine)
        numbers = {n: _reduced(values, ways.get(n)) for n, values in zip(measured, others)}
        bytes_ = None if memory is None else int(max(most))
        self._on_first(lambda: self._asker.tell(_reduced(times), bytes_, **numbers))

    def fail(self, why: str = "") -> None:
        self._on_first(lambda: self._asker.fail(why))

    def close(self) -> None:
        if self._asker is not None:
            self._asker.close()

    def _time(self, step: Callable[..., Any], arguments: Any) -> Tuple[float, Optional[int]]:
        cuda = torch.cuda.is_available()
        synchronize: Any = torch.cuda.synchronize if cuda else int
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        synchronize()
        if not self._alone:
            dist.barrier(self._group)
        begin = time.perf_counter()
        step(*arguments)
        synchronize()
        us = 1e6 * (time.perf_counter() - begin)
        return us, torch.cuda.max_memory_allocated() if cuda else None

    def _of_ranks(self, mine: List[float]) -> List[List[float]]:
        """Of each number what every rank says."""
        tensor = torch.tensor(mine, dtype=torch.float64, device=self._where)
        said = [tensor]
        if not self._alone:
            said = [torch.empty_like(tensor) for _ in range(self.ranks)]
            dist.all_gather(said, tensor, group=self._group)
        return [list(values) for values in zip(*(one.tolist() for one in said))]

    def _on_first(self, call: Callable[[], Any]) -> Any:
        """What the call gives on rank 0, or its error, on all."""
        said: List[Any] = [None]
        if self.rank == 0:
            try:
                said = [(call(), None)]
            except (Error, ValueError) as error:
                said = [(None, error)]
        if not self._alone:
            first = 0 if self._group is None else dist.get_global_rank(self._group, 0)
            said = _from(first, said, self._group, self._where)
        value, error = said[0]
        if error is not None:
            raise error
        return value


def _from(first: int, value: Any, group: Any, where: Any) -> Any:
    """Rank first's value on all ranks.  torch's broadcast_object_list does it by way of numpy, which
    torch is installed without."""
    packed = pickle.dumps(value) if dist.get_rank() == first else b""
    size = torch.tensor([len(packed)], dtype=torch.int64, device=where)
    dist.broadcast(size, first, group=group)
    data = _bytes_tensor(packed or bytes(int(size)), where)
    dist.broadcast(data, first, group=group)
    return pickle.loads(bytes(data.tolist()))


def join_ranks() -> Any:
    """The ranks that torchrun or its like started: each on a GPU of its own, over nccl, or without
    GPUs over gloo.  The device."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    return device


def _reduced(values: List[float], way: Optional[Callable[[List[float]], float]] = None) -> float:
    """min and max would forget what is not a number."""
    return math.nan if any(map(math.isnan, values)) else (way or max)(values)


_NO_SUCH_TIME = "tell: a time above 0 on every rank, once after each ask"


def _open(db: Any, rank: int, layer: Any) -> Any:
    if not is_attached():
        tuner = _Tuner(db, rank=rank, **layer)
        return tuner, tuner.shape
    defaults = {"dtype": "f32", "train": True, "activation": "relu", "tokens": 0}
    given = dict(defaults, **{name: layer[name] for name in Shape._fields if name in layer})
    check_attached(given)
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
