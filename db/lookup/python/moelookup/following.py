"""Capacities that follow the experts, and routes that are known: see moelookup.h for the rules."""

import array
import queue
import struct
import threading
from ctypes import POINTER, byref, c_char, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from ctypes import cast, create_string_buffer
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from ._library import CapacitiesOptions, RoutesOptions, library
from .table import Plan, View, _Owned, _whole

_STATE = struct.Struct("=2I7Q2I")  # struct moe_capacities_state
_NEVER = 2**64 - 1
_UINT64_MAX = 2**64 - 1


class State(NamedTuple):
    """What is in force at a step.  All of it is the same on every rank."""

    rows: Tuple[int, ...]  # of each expert, from one source rank
    key: int  # what to ask a view for: view.plan_uneven(state.key, state.key_r0)
    total: int  # rows of all experts
    fullest: int  # of the fullest rank; where a rank has one expert or less, the largest capacity
    balanced: int  # the same if experts were dealt out by size
    first: int  # step from which this is in force
    pending: Optional[int]  # step from which other capacities are decided to be
    replans: int
    digest: int
    dropped_ppm: int  # of all choices that were fed
    key_r0: int = 0  # as key, of plans with r = 0: every rank computes the rows of all experts


class Capacities(_Owned):
    """A capacity for each expert: its peak of the last steps, changed seldom and at the same step
    on every rank.

    most: no expert gets more rows; start: before counts act (0: most); the others are those of
    struct moe_capacities_options.  Calls of several threads follow each other.
    """

    __slots__ = ("experts", "delta")

    def __init__(
        self,
        *,
        experts: int,
        ranks: int,
        most: int,
        start: int = 0,
        grid: int = 1,
        hold: int = 300,
        gap: int = 100,
        low: int = 800,
        slack: int = 0,
        drops: int = 500,
        delta: int = 1,
    ) -> None:
        given = dict(experts=experts, ranks=ranks, start=start, grid=grid, hold=hold, gap=gap)
        given.update(low=low, slack=slack, drops=drops, most=most, delta=delta)
        whole = {name: _whole(name, value) for name, value in given.items()}
        options = CapacitiesOptions(struct_size=sizeof(CapacitiesOptions), **whole)
        pointer = c_void_p()
        status = library().functions.moe_capacities_open(byref(options), byref(pointer))
        library().check(status, "capacities")
        self._take(pointer, whole["experts"], whole["delta"])

    def _take(self, pointer: c_void_p, experts: int, delta: int) -> None:
        super().__init__(pointer, library().functions.moe_capacities_close)
        self.experts, self.delta = experts, delta

    def feed(self, step: int, counts: Any) -> None:
        """counts[e]: choices of expert e in this step, dropped or not, the largest over ranks.

        They act at step + delta.  A list, an array or a tensor on the CPU.
        """
        try:
            values = array.array("I", counts)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"counts of step {step}: {error}") from None
        buffer = (c_uint32 * len(values)).from_buffer(values) if values else (c_uint32 * 1)()
        status = library().functions.moe_capacities_feed(
            self._live(), _whole("step", step, _UINT64_MAX), buffer, len(values)
        )
        library().check(status, f"feed step {step}, {len(values)} counts")

    def at(self, step: int) -> State:
        """What is in force at a step.  Its counts must have been fed up to step - delta."""
        rows = POINTER(c_uint32)()
        state = (c_char * _STATE.size).from_buffer_copy(_STATE.pack(_STATE.size, *[0] * 10))
        status = library().functions.moe_capacities_at(
            self._live(), _whole("step", step, _UINT64_MAX), byref(rows), byref(state)
        )
        library().check(status, f"capacities at step {step}")
        _, key, total, fullest, balanced, first, pending, *rest = _STATE.unpack(state.raw)
        replans, digest, dropped_ppm, key_r0 = rest
        told = tuple(rows[: self.experts])
        later = None if pending == _NEVER else pending
        sizes = total, fullest, balanced
        return State(told, key, *sizes, first, later, replans, digest, dropped_ppm, key_r0)

    def save(self) -> bytes:
        """All that it knows, for a checkpoint."""
        save, size = library().functions.moe_capacities_save, c_size_t()
        library().check(save(self._live(), None, byref(size)), "save")
        saved = create_string_buffer(size.value)
        library().check(save(self._live(), saved, byref(size)), "save")
        return saved.raw[: size.value]

    @classmethod
    def load(cls, saved: Union[bytes, bytearray, memoryview]) -> "Capacities":
        """Goes on where save() was called, with the options of then."""
        data, pointer = bytes(saved), c_void_p()
        status = library().functions.moe_capacities_load(data, len(data), byref(pointer))
        library().check(status, "load capacities")
        self = cls.__new__(cls)
        words = struct.unpack_from("<11Q", data, 8)  # the options, in their order
        self._take(pointer, words[0], words[10])
        return self


class Beside:
    """Capacities and plans on a thread beside the steps.

        beside = moelookup.Beside(capacities, view, first=0)
        for step in itertools.count():
            state, plan = beside.answer(step)      # waits only for counts of step - delta
            ...                                    # route
            beside.counts(step, largest_counts)    # as soon as they are known; returns at once
            ...                                    # the rest of the step

    Which answer a step gets does not depend on how the threads run.  The capacities are the
    thread's until close().
    """

    def __init__(
        self, capacities: Capacities, view: Optional[View] = None, *, first: int = 0
    ) -> None:
        self._capacities, self._view, self._delta = capacities, view, capacities.delta
        self._handed: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._answers: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        for step in range(first, first + self._delta):  # before any counts act
            self._answers.put((step, self._at(step), None))
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _at(self, step: int) -> Tuple[State, Optional[Plan]]:
        state = self._capacities.at(step)
        view = self._view
        return state, None if view is None else view.plan_uneven(state.key, state.key_r0)

    def _work(self) -> None:
        for step, counts in iter(self._handed.get, None):
            try:
                self._capacities.feed(step, counts)
                self._answers.put((step + self._delta, self._at(step + self._delta), None))
            except Exception as error:  # the trainer is to see it
                self._answers.put((step + self._delta, None, error))

    def counts(self, step: int, counts: Any) -> None:
        """Of each step in turn, after its answer; see Capacities.feed."""
        self._handed.put((step, list(counts)))

    def answer(self, step: int) -> Tuple[State, Optional[Plan]]:
        """Each step is asked for once, in order."""
        ready, answer, error = self._answers.get()
        if error is not None:
            raise error
        if ready != step:
            raise ValueError(f"step {step} is asked for, but {ready} is the next one")
        told: Tuple[State, Optional[Plan]] = answer
        return told

    def close(self) -> None:
        self._handed.put(None)
        self._thread.join()


class Routes(_Owned):
    """Which experts the tokens of batches chose when they were last seen.

    rooms batches of at most `rows` tokens are kept; on, off (thousandths) and first_pass say when
    they are worth using.
    """

    __slots__ = ("top_k", "rows")

    def __init__(
        self,
        *,
        experts: int,
        top_k: int,
        rooms: int,
        rows: int,
        on: int = 960,
        off: int = 900,
        first_pass: int = 10,
    ) -> None:
        given = dict(experts=experts, top_k=top_k, rooms=rooms, rows=rows, on=on, off=off)
        whole = {name: _whole(name, value) for name, value in given.items()}
        whole["first_pass"] = _whole("first_pass", first_pass)
        options = RoutesOptions(struct_size=sizeof(RoutesOptions), **whole)
        pointer = c_void_p()
        status = library().functions.moe_routes_open(byref(options), byref(pointer))
        library().check(status, "routes")
        super().__init__(pointer, library().functions.moe_routes_close)
        self.top_k, self.rows = whole["top_k"], whole["rows"]

    def put(self, key: int, ids: Any) -> Tuple[int, int]:
        """Stores a batch's ids: rows of top_k experts, as lists or a tensor on the CPU.

        Returns how many tokens chose the same experts as when they were put last, and of how many.
        """
        rows = ids.tolist() if hasattr(ids, "tolist") else ids
        flat: List[int] = []
        for row in rows:
            if len(row) != self.top_k:
                raise ValueError(f"a token has {len(row)} experts: top_k is {self.top_k}")
            flat.extend(row)
        try:
            values = array.array("i", flat)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"ids of batch {key}: {error}") from None
        same, compared = c_uint64(), c_uint64()
        address = cast(values.buffer_info()[0], c_void_p) if values else None
        status = library().functions.moe_routes_put(
            self._live(),
            _whole("key", key, _UINT64_MAX),
            address,
            len(values) // self.top_k,
            self.top_k,
            byref(same),
            byref(compared),
        )
        library().check(status, f"put batch {key}")
        return same.value, compared.value

    def get(self, key: int) -> Optional[List[List[int]]]:
        """What was put last under this key; None: nothing, or it had to go."""
        room = (c_uint32 * (self.rows * self.top_k))()
        rows = c_uint32()
        status = library().functions.moe_routes_get(
            self._live(), _whole("key", key, _UINT64_MAX), room, len(room), byref(rows)
        )
        library().check(status, f"get batch {key}")
        k = self.top_k
        return [list(room[t * k : (t + 1) * k]) for t in range(rows.value)] or None

    def decide(self, number: int, same: int, total: int) -> bool:
        """Whether to use known routes from here on; totals of pass `number`, summed over ranks."""
        on = c_uint32()
        whole = [_whole(name, value, _UINT64_MAX) for name, value in
                 (("pass", number), ("same", same), ("total", total))]
        status = library().functions.moe_routes_decide(self._live(), *whole, byref(on))
        library().check(status, f"decide at pass {number}: {same} of {total}")
        return bool(on.value)
