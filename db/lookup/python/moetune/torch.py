"""One tuner for all ranks of a torch.distributed group.

Rank 0 of the group decides and writes the database.  At an exchange it sends orders to the other
ranks; they also say when the next exchange is.  Until then all ranks run the plans that they know and
keep their times.  At the next exchange rank 0 gets the largest time of each step.  The orders and the
number of steps fix when an exchange is, never a capacity, so all ranks come.

No step waits for a device: tensors of an exchange lie on the host, and Marks only ask whether the
device has passed them.
"""

import contextlib
import copy
import functools
import hashlib
import math
import operator
import os
import pickle
import re
import time
import zlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import torch
import torch.distributed as dist
from moelookup import Error, Plan, Shape, Source
from moelookup.plan import SpacePlan, checked_shape
from moelookup.table import keys, window
from moelookup.torch import _agree, _alone, _bytes_tensor, _device

from .lines import Attached, OnePlan, Words, asker, attached_window, check_attached, is_attached
from .marks import HostMarks, Marks, is_captured, waited_us
from .tuner import ORDER_BYTES, ORDERS, US_MOST, Status
from .tuner import Tuner as _Tuner

# A rank may tell one of these in place of a time; the largest counts.
_NO_TIME, _FAILED, _WRONG = 1e200, 1e300, float("inf")
_ORDERS_BYTES = 2 + ORDERS * ORDER_BYTES  # first their kind, then Tuner._lag
_ORDERS, _ERROR = b"o", b"e"
_WATCHED = 64  # for so many steps all ranks compare their inputs, once inputs have changed
_LAG_MOST = 7
_KEPT = 1024  # buckets of keys


class _Step:
    """A step since the last exchange."""

    __slots__ = ("capacity", "value", "plan", "asked", "alike", "time")

    def __init__(
        self, capacity: int, value: Optional[int], plan: Any, asked: bool, alike: bool
    ) -> None:
        self.capacity, self.value, self.plan, self.asked = capacity, value, plan, asked
        self.alike = alike  # this rank's input is as large as all had agreed
        self.time: Union[None, float, Marks] = None


class Tuner:
    """moetune.Tuner for a group of ranks: it gives the same plan on all of them.

    All ranks call ask() and tell() alike, for the same capacities.  Few calls of ask() are
    collectives (exchanges): those that may try a plan, and one in 64 to 1,024 steps, where drift is
    noticed.  The last exchange fixes the step of the next one, so ranks meet there even if they ask
    for different capacities.  All ranks then raise, also if one told a number that is no time.
    tell() and fail() are no collectives.  flush() is an exchange without a plan.

    group: by default the whole world.  An exchange, a reduce and a broadcast, would wait for the
        device over nccl.  So a gloo group of the same ranks carries it.  $GLOO_SOCKET_IFNAME chooses
        its network; for a part of the world it needs torch 2.1.
    device: where the group's backend wants its tensors; then the group itself carries exchanges.
    ranks, ranks_per_node, cluster: by default the group's size, torchrun's LOCAL_WORLD_SIZE (else all
        ranks are on one node), and what torch knows of the machine.

    The host may run ahead of its GPU by some steps.  So many steps run known plans between a tried
    plan and the exchange that learns its time.

    While a CUDA graph is captured, ask() gives the best plan known, without an exchange, and the step
    teaches nothing.  All ranks must capture the same steps: another rank would wait for the others.

    Under `moetune tune --exec`, rank 0 speaks with that command, which says the database and layer.
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
        alone = self._alone = _alone()
        beside = None if alone or device is not None else _gloo_beside(group)
        self._group = talk = group if beside is None else beside
        self._where = None if alone else _device(talk, device)
        self.rank = 0 if alone else dist.get_rank(talk)
        self._first = 0 if alone or talk is None else dist.get_global_rank(talk, 0)
        self._quiet = 0  # steps before the next exchange
        self._known: Dict[int, Any] = {}  # by capacity, answers of known() since the last exchange
        self._later: List[int] = []  # capacities for which known() is still to be called
        self._buckets: Dict[Tuple[int, float], int] = {}
        self._steps: List[_Step] = []
        # How many steps the host is ahead of the device.  So many steps run known plans between a
        # tried plan and the exchange that learns its time.
        self._lag = self._held = 0
        self._resolved = 0  # steps whose times are numbers
        self._captured = False  # whether the last step was captured
        self._point: Optional[Tuple[int, float]] = None  # key and class of a space, during ask_key()
        self._plans: Dict[int, Any] = {}  # by bucket, the last plan that was no trial
        self._usual: Any = None if layer.get("space") else Plan()
        self._took_s, self._why, self._wrong = 0.0, "", 0.0
        self.value: Optional[int] = None  # the last one of agreed() on all ranks; None: one process
        self._asked_with: Optional[int] = None
        self._watched = 0  # steps in which each value is compared
        layer["ranks"] = ranks or (1 if alone else dist.get_world_size(group))
        layer["ranks_per_node"] = ranks_per_node or _ranks_per_node(layer["ranks"])
        layer["cluster"] = describe_machine(group) if cluster is None else cluster
        self._tuner: Any = None

        def digest() -> bytes:
            """Covers the arguments that must be the same on all ranks."""
            self._tuner, self.shape = _open(db, self.rank, layer)
            # A bucket's width.  Buckets of a space are asked for by their numbers.
            self.window = attached_window() or layer.get("window") or _window(self.shape)
            if layer.get("space") and isinstance(self._tuner, _Tuner):
                self.window = 1
            said = (type(self._tuner).__name__, self.shape, self.window, layer.get("space"))
            return hashlib.sha256(repr(said).encode()).digest()

        if alone:
            digest()
            return
        try:
            _agree("tuner", digest, talk, self._where)
        except Exception:
            self.close()
            raise

    def ask(self, capacity: int) -> Plan:
        """The plan for this step, the same on every rank.  All ranks ask for the same capacity."""
        self._captured = is_captured()
        if self._captured:
            return self._standing(capacity)
        if self._alone:
            return self._ask_alone(capacity)
        asked = self._is_due()
        alike = asked or self._asked_with == self.value
        if asked:
            plan = self._exchange(capacity)
        elif self._held:
            self._held -= 1
            plan = self._standing(capacity)
        else:
            plan = self._quietly(capacity)
        return self._begin(_Step(capacity, self._asked_with, plan, asked, alike))

    def ask_counts(self, counts: Any) -> Plan:
        """ask() for a step that drops no token; counts are those of moelookup's View.plan_counts, the
        same on every rank."""
        return self.ask(keys(counts, self.shape.experts, self.shape.ranks)[0])

    def ask_key(self, key: int, klass: float = 0.0) -> SpacePlan:
        """ask() in a declared space: {"chunks": 2, ...}.  All ranks ask for the same key and class.

        Between exchanges, all steps of a bucket are learnt as if they had one key.  So declare
        buckets so narrow that their times are alike."""
        if not isinstance(self._tuner, _Tuner):
            raise Error("ask_key: under `moetune tune --exec` an Asker asks for a space's plans", -1)
        try:
            key, klass = operator.index(key), float(klass)
            bucket = self._buckets.get((key, klass))
            if bucket is None:
                bucket = self._tuner.bucket(key, klass)
        except (Error, TypeError, ValueError):
            if not self._alone and self._is_due():  # the others wait, and hear of it
                with contextlib.suppress(Error, ValueError):
                    self.ask(-1)
            raise
        if (key, klass) not in self._buckets:
            if len(self._buckets) > _KEPT:
                self._buckets.clear()
            self._buckets[key, klass] = bucket
        self._point = (key, klass)
        try:
            plan: Any = self.ask(bucket)
        finally:
            self._point = None
        return plan

    def agreed(self, value: int) -> int:
        """A value that may differ between ranks, such as an input's rows, made the same on all.

        At an exchange it is the value itself, and all ranks raise if values differ.  Between
        exchanges it is the last value that all ranks had, so all ask for the same capacity."""
        self._asked_with = value
        return value if self.value is None or self._is_due() else self.value

    def tell(self, time_us: Union[None, float, Marks]) -> bool:
        """How long the step took on this rank; the longest time of all ranks counts.  Marks give their
        time once the device has passed them.

        None: this rank has no time; then the step teaches nothing.  Returns whether a time counts."""
        if time_us is None:
            self._note(_NO_TIME)
        elif isinstance(time_us, Marks):
            self._note(time_us)
        else:
            self._note(float(time_us) if 0 < time_us < US_MOST else _WRONG)
        return time_us is not None and not self._captured

    def fail(self, why: str = "") -> None:
        """Instead of tell(), on one rank or more: the plan cannot run."""
        self._why = why
        self._note(_FAILED)

    def refuse(self, why: str) -> None:
        """fail() that all ranks call: the next ask() already knows of it."""
        self.fail(why)
        self._quiet = self._held = 0

    def flush(self) -> None:
        """A collective: rank 0 learns all times that were told."""
        if self._alone:
            for step in self._steps:
                if isinstance(step.time, Marks):
                    step.time = _time_of(step.time)
            self._learn_alone()
            return
        under_way = [step for step in self._steps[-1:] if step.time is None]
        self._exchange(None)
        for step in under_way:
            step.time = None
        self._steps = under_way

    def status(self) -> Status:
        """The status at the last exchange, on rank 0; on other ranks it is empty."""
        return self._tuner.status() if self.rank == 0 else Status()

    def close(self) -> None:
        """Rank 0 publishes what is known.  Call flush() first, if all ranks are well."""
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

    def _begin(self, step: _Step) -> Plan:
        self._steps.append(step)
        if self._usual is None:
            self._usual = step.plan
        if step.plan.source != Source.TENTATIVE:
            self._plans[step.capacity // self.window] = step.plan
        return step.plan

    def _quietly(self, capacity: int) -> Any:
        """The library's answer for a capacity holds until the next exchange, so it is asked once, and
        for the other steps just before the exchange.  After a trainer's step its data is in no cache,
        and a call costs ten times as much as right after another call."""
        plan = self._known.get(capacity)
        if plan is None:
            self._catch_up()
            plan = self._known[capacity] = self._tuner.known(capacity)
        else:
            self._later.append(capacity)
        self._quiet -= 1
        return _own(plan)

    def _catch_up(self) -> None:
        later, self._later = self._later, []
        for capacity in later:
            self._tuner.known(capacity)

    def _standing(self, capacity: int) -> Any:
        """The plan that every rank knows without an exchange."""
        plan = self._plans.get(capacity // self.window, self._usual)
        if plan is None:
            raise Error("ask: of this space no plan is known yet: run a step before a graph is captured")
        return _own(plan)

    def _note(self, mine: Union[float, Marks]) -> None:
        """Notes a time, or what is told in its place."""
        if self._captured:
            return
        step = self._steps[-1] if self._steps else None
        wrong = step is None or step.time is not None or mine == _WRONG
        if step is not None and (self._alone or not wrong):
            step.time = mine if step.alike or mine == _FAILED else _NO_TIME
        if wrong and self._alone:
            raise ValueError(_NO_SUCH_TIME)
        if wrong:
            self._wrong = 1.0  # all ranks hear of it
        elif self._alone:
            self._learn_alone()
        else:
            self._resolve()

    def _resolve(self) -> None:
        """Turns passed Marks into numbers: there may be a thousand steps between exchanges."""
        while self._resolved < len(self._steps):
            step = self._steps[self._resolved]
            if isinstance(step.time, Marks):
                if not step.time.is_passed():
                    return
                step.time = _time_of(step.time)
            self._resolved += 1

    # ---- one process

    def _ask_alone(self, capacity: int) -> Plan:
        """Runs known plans until the device has passed the last step that was asked for."""
        self._learn_alone()
        asked = not any(step.asked and step.time is not None for step in self._steps)
        if not asked and not isinstance(self._tuner, _Tuner):  # an attached command wants each step
            self.flush()
            asked = True
        if asked:
            plan, self._steps = self._ask_tuner(capacity), []
        else:
            plan = self._tuner.rest(capacity)[0]
        return self._begin(_Step(capacity, None, plan, asked, alike=True))

    def _learn_alone(self) -> None:
        """Learns steps in their order, up to the first that the device has not passed."""
        while self._steps and self._steps[0].time is not None:
            step = self._steps[0]
            if isinstance(step.time, Marks) and not step.time.is_passed():
                return
            del self._steps[0]
            self._learn(step, _time_of(step.time))

    # ---- exchanges

    def _is_due(self) -> bool:
        """Whether the next step is an exchange; the capacity does not matter."""
        return self._alone or not self._held and (not self._quiet or self._watched > 0)

    def _exchange(self, capacity: Optional[int]) -> Any:
        """Sends times to rank 0, and gets its orders."""
        steps, self._steps, self._resolved = self._steps, [], 0
        begin = time.perf_counter()
        self._catch_up()
        late = _settle(steps)
        asked = [(step.capacity, step.value) for step in steps]
        if capacity is not None:
            asked.append((capacity, self._asked_with))
        sum_ = zlib.crc32(repr(asked).encode())
        mine = [-self._took_s, sum_, -sum_, self._wrong, late]
        mine += [_time_of(step.time) for step in steps]
        self._wrong = 0.0
        said = torch.tensor(mine, dtype=torch.float64, device=self._where)
        dist.reduce(said, self._first, dist.ReduceOp.MAX, group=self._group)
        heard = said.tolist()
        took_s = time.perf_counter() - begin
        orders, error = b"", None
        if self.rank == 0:
            try:
                orders = self._decide(capacity, steps, heard)
                orders = _ORDERS + bytes([self._lag]) + orders
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
        self._lag = orders[1]
        return None if capacity is None else self._obey(orders[2:], capacity, steps)

    def _decide(self, capacity: Optional[int], steps: List[_Step], said: List[float]) -> bytes:
        least_s, times = -said[0], said[5:]  # the rank that came last did not wait
        if said[1] != -said[2]:
            raise ValueError(
                "ask: another capacity on another rank: each must have as many tokens, or Tutel's"
                " inequivalent_tokens=True"
            )
        if said[3]:
            raise ValueError(_NO_SUCH_TIME)
        if said[4] and isinstance(self._tuner, _Tuner):  # an attached command wants each step
            self._lag = min(2 * self._lag + 1, _LAG_MOST)
        for step, us in zip(steps, times):
            self._learn(step, us)
        if capacity is not None:
            self._ask_tuner(capacity)
        # Only now: earlier, the exchange would spend what was saved up for the plan that it tries.
        self._tuner.spent(1e6 * least_s)
        return b"" if capacity is None else bytes(self._tuner.orders())

    def _ask_tuner(self, capacity: int) -> Any:
        """Asks by the key, if there is one: the library also learns how times follow it."""
        return self._tuner.ask_key(*self._point) if self._point else self._tuner.ask(capacity)

    def _learn(self, step: _Step, us: float) -> None:
        if us == _FAILED and step.asked:
            self._tuner.fail(self._why or ("" if self._alone else "another rank could not run it"))
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
        self._quiet = self._tuner.until_due()
        self._known.clear()
        self._held = self._lag if not self._quiet and not self._watched else 0
        return plan


def _own(plan: Any) -> Any:
    """A copy: the plan is kept for later steps, and the caller may change what it gets."""
    return plan if isinstance(plan, Plan) else copy.copy(plan)


def _settle(steps: List[_Step]) -> float:
    """Turns Marks into numbers at an exchange.  Waits for the step that was asked for, and returns 1
    if it had to; other steps that the device has not passed teach nothing."""
    late = 0.0
    for step in steps:
        if isinstance(step.time, Marks) and not step.time.is_passed():
            if step.asked:
                late = 1.0
            else:
                step.time = _NO_TIME
        step.time = _time_of(step.time)
    return late


def _time_of(said: Union[None, float, Marks]) -> float:
    if isinstance(said, Marks):
        said = waited_us(said)
        return said if said is not None and said < US_MOST else _NO_TIME
    return _NO_TIME if said is None else said


def _gloo_beside(group: Any) -> Any:
    """For an nccl group, a gloo group of the same ranks, whose tensors lie on the host; else None."""
    if str(dist.get_backend(group)).lower() != "nccl":
        return None
    if dist.get_world_size(group) == dist.get_world_size():
        return dist.new_group(backend="gloo")
    try:  # by its own ranks alone: others do not know of it
        ranks = dist.get_process_group_ranks(group)
        return dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    except (AttributeError, TypeError):  # an older torch
        return None


class Asker:
    """moetune.asker() for a group of ranks: rank 0 speaks, and all ranks get its plans or raise.

    Every method is a collective, which all ranks call alike.  So all ranks must find out that a plan
    cannot run (fail()) before one of them waits for another.  Let a later error end the program:
    moetune records it as a failed trial.  Let the program also end if values of `launch` cannot work
    at all.  After four such launches moetune tries no plan with them; fail() rejects one plan in one
    bucket only.

    plan, steps: the plan to run, and how often, if moetune did not start the program.  Then by_hand
        is True.
    clock: what timed() measures.
        "host": from an idle device to an idle device; includes launching kernels, and caches are as
        the last step left them.
        "events": between two CUDA events, with a cold cache.
        "graph": as "events", for a CUDA graph of the step, for trainers that replay graphs.
    """

    def __init__(
        self,
        plan: str,
        steps: int = 5,
        group: Any = None,
        device: Any = None,
        clock: str = "host",
    ) -> None:
        if clock not in _CLOCKS:
            raise ValueError(f"clock is {clock!r}: one of {', '.join(_CLOCKS)} is wanted")
        if clock != "host" and not torch.cuda.is_available():
            raise ValueError(f"clock is {clock!r}: only a GPU has it, and torch sees none")
        self._clock = clock
        self._other, self._others_bytes = None, 0  # fills the device's cache
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
        """The value of every axis for this step, the same on all ranks; None: end the program.

        skew: the class, if the space has one: a number that all ranks agree on before the plan is
        known.  In torch-moe it is the largest over the mean rows of an expert; a trainer sums one
        count per expert over its ranks for it, too."""
        # Rank 0's key as well: all ranks must agree whether a step warms up.
        self._asked = self._on_first(lambda: (key, self._asker.ask(key, skew)))
        plan: Optional[Words] = self._asked[1]
        return plan

    def timed(self, step: Callable[..., Any], *arguments: Any) -> Tuple[float, Optional[int]]:
        """What tell() takes: microseconds of step(*arguments) on this rank, and on a GPU peak bytes.

        All ranks begin together.  When a plan runs under a key for the first time, the step runs once
        before, to warm up."""
        run: Callable[[], Any] = functools.partial(step, *arguments)
        if self._asked not in self._warm:
            self._time(run, HostMarks)
            self._warm.append(self._asked)
        if self._clock == "host":
            return self._time(run, HostMarks)
        most = 0
        self._cool()  # its buffer exists whenever bytes are counted
        if self._clock == "graph":
            run, most = _graph_of(run)
            self._time(run, HostMarks)  # the first replay also uploads the graph
        self._cool()
        us, memory = self._time(run, Marks)
        return us, max(most, memory or 0) - self._others_bytes

    def tell(
        self,
        time_us: float,
        memory: Optional[int] = None,
        reduce: Optional[Mapping[str, Callable[[List[float]], float]]] = None,
        **measured: float,
    ) -> None:
        """Tells the longest time, the most memory and the largest of each other number of all ranks.

        reduce: another reduction, by name, if the largest is not the worst.  `--guard
        "tokens_per_s>=900"` wants reduce={"tokens_per_s": min}; sum and other functions of a list work,
        too.  nan on one rank gives nan, which every guard refuses."""
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

    def _time(self, run: Callable[[], Any], kind: Any) -> Tuple[float, Optional[int]]:
        cuda = torch.cuda.is_available()
        synchronize: Any = torch.cuda.synchronize if cuda else int
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        synchronize()
        if not self._alone:
            dist.barrier(self._group)
        marks = kind()
        run()
        if kind is HostMarks:
            synchronize()
        marks.add()
        synchronize()
        return marks.us() or 0.0, torch.cuda.max_memory_allocated() if cuda else None

    def _cool(self) -> None:
        """Overwrites the device's second-level cache."""
        if self._other is None:
            properties = torch.cuda.get_device_properties(torch.cuda.current_device())
            # Older versions of torch do not say.
            self._others_bytes = getattr(properties, "L2_cache_size", 0)
            self._other = torch.empty(self._others_bytes, dtype=torch.uint8, device="cuda")
        self._other.zero_()

    def _of_ranks(self, mine: List[float]) -> List[List[float]]:
        """For each number, the values of all ranks."""
        tensor = torch.tensor(mine, dtype=torch.float64, device=self._where)
        said = [tensor]
        if not self._alone:
            said = [torch.empty_like(tensor) for _ in range(self.ranks)]
            dist.all_gather(said, tensor, group=self._group)
        return [list(values) for values in zip(*(one.tolist() for one in said))]

    def _on_first(self, call: Callable[[], Any]) -> Any:
        """Calls on rank 0; gives the result, or raises the error, on all ranks."""
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
    """Rank first's value on all ranks.  torch's broadcast_object_list needs numpy, which may be
    missing."""
    packed = pickle.dumps(value) if dist.get_rank() == first else b""
    size = torch.tensor([len(packed)], dtype=torch.int64, device=where)
    dist.broadcast(size, first, group=group)
    data = _bytes_tensor(packed or bytes(int(size)), where)
    dist.broadcast(data, first, group=group)
    return pickle.loads(bytes(data.tolist()))


def join_ranks() -> Any:
    """Joins the ranks that torchrun or a similar launcher started, and returns this rank's device.

    With GPUs each rank has one of its own, and nccl is used; without GPUs gloo."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    return device


def _graph_of(run: Callable[[], Any]) -> Tuple[Callable[[], Any], int]:
    """A function that replays the graph, and its bytes during capture: a replay shows none."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.graph(graph):
        run()
    return graph.replay, torch.cuda.max_memory_allocated()


def _reduced(values: List[float], way: Optional[Callable[[List[float]], float]] = None) -> float:
    """nan, if a value is: min and max would lose it."""
    return math.nan if any(map(math.isnan, values)) else (way or max)(values)


_CLOCKS = ("host", "events", "graph")
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
    """The lines of `moetune fingerprint` that torch knows.  Each machine has a table of its own."""
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
