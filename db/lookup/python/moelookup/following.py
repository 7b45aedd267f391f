"""What follows the choices of a gate: recorded counts, a capacity for each expert, known routes.

moelookup.h has the rules."""

import os
import queue
import struct
import threading
from ctypes import POINTER, byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from ctypes import create_string_buffer, sizeof
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from ._declared import (
    moe_capacities_options,
    moe_capacities_state,
    moe_counts_options,
    moe_routes_options,
)
from ._library import UINT64_MAX, Owned, c_text, fill, library, numbers, whole
from .plan import Plan
from .table import View


class Counts(Owned):
    """Records how many tokens chose each expert; record_counts() opens one."""

    __slots__ = ()

    def step(self, step: int, counts: Any, capacity: int = 0) -> None:
        """counts[e]: choices of expert e in this step, dropped or not, over all ranks.

        A list, an array or a tensor on the CPU.  capacity: c of this step; 0: not known.
        """
        buffer = numbers(f"counts of step {step}", counts)
        status = library().functions.moe_counts_step(
            self._live(),
            whole("step", step, UINT64_MAX),
            whole("capacity", capacity),
            buffer,
            len(buffer),
        )
        library().check(status, f"counts of step {step}")


def record_counts(
    path: Union[None, str, bytes, "os.PathLike[str]"] = None,
    *,
    experts: int,
    top_k: int = 0,
    ranks: int = 1,
    tokens: int = 0,
    every: int = 1,
    room: int = 1024,
) -> Counts:
    """Opens a recorder: with moelookup.record_counts(...) as counts: counts.step(i, n).

    None: the file that $MOELOOKUP_COUNTS names; if it is not set, nothing is recorded.  If tokens (T
    of each rank) is given, the counts of a step must add up to ranks * tokens * top_k.
    """
    options = fill(
        moe_counts_options,
        experts=experts,
        top_k=top_k,
        ranks=ranks,
        tokens=tokens,
        every=every,
        room=room,
    )
    name = None if path is None else c_text("path", os.fsencode(path))
    pointer = c_void_p()
    status = library().functions.moe_counts_open(byref(options), name, byref(pointer))
    what = "record counts" if name is None else f"record counts in {os.fsdecode(name)}"
    library().check(status, what)
    return Counts(pointer, library().functions.moe_counts_close)


# ---- capacities


class State(NamedTuple):
    """What is in force at a step; all fields are the same on every rank."""

    rows: Tuple[int, ...]  # of each expert, from one source rank
    key: int  # key and key_r0: what keys() makes of the rows
    total: int  # rows of all experts
    fullest: int  # rows of the fullest rank; if a rank has one expert or less, the largest capacity
    balanced: int  # what fullest would be if experts were placed by size
    first: int  # step from which this is in force
    pending: Optional[int]  # step from which other capacities hold; None: none are decided
    replans: int
    digest: int
    dropped_ppm: int  # dropped per million of all choices that were fed
    key_r0: int = 0  # for plans with r = 0: every rank computes the rows of all experts


class Capacities(Owned):
    """Gives each expert a capacity of its own: its peak of the last steps.

    Capacities change seldom, and at the same step on every rank.  most: no expert gets more rows.
    start: rows before counts act (0: most).  The other arguments are those of struct
    moe_capacities_options.  Several threads may call it, one at a time.
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
        options = fill(
            moe_capacities_options,
            experts=experts,
            ranks=ranks,
            start=start,
            grid=grid,
            hold=hold,
            gap=gap,
            low=low,
            slack=slack,
            drops=drops,
            most=most,
            delta=delta,
        )
        pointer = c_void_p()
        status = library().functions.moe_capacities_open(byref(options), byref(pointer))
        library().check(status, "capacities")
        self._own(pointer, options.experts, options.delta)

    def _own(self, pointer: c_void_p, experts: int, delta: int) -> None:
        super().__init__(pointer, library().functions.moe_capacities_close)
        self.experts, self.delta = experts, delta

    def feed(self, step: int, counts: Any) -> None:
        """counts[e]: choices of expert e in this step, dropped or not, the largest over ranks.

        They act at step + delta.  A list, an array or a tensor on the CPU.
        """
        buffer = numbers(f"counts of step {step}", counts)
        status = library().functions.moe_capacities_feed(
            self._live(), whole("step", step, UINT64_MAX), buffer, len(buffer)
        )
        library().check(status, f"feed step {step}, {len(buffer)} counts")

    def at(self, step: int) -> State:
        """What is in force at a step.  Counts must have been fed up to step - delta."""
        rows, now = POINTER(c_uint32)(), moe_capacities_state(sizeof(moe_capacities_state))
        status = library().functions.moe_capacities_at(
            self._live(), whole("step", step, UINT64_MAX), byref(rows), byref(now)
        )
        library().check(status, f"capacities at step {step}")
        told = {name: getattr(now, name) for name in State._fields if name != "total"}
        told.update(rows=tuple(rows[: self.experts]), total=now.rows)
        if now.pending == UINT64_MAX:
            told["pending"] = None
        return State(**told)

    def save(self) -> bytes:
        """The whole state as bytes, for a checkpoint."""
        save, size = library().functions.moe_capacities_save, c_size_t()
        library().check(save(self._live(), None, byref(size)), "save")
        saved = create_string_buffer(size.value)
        library().check(save(self._live(), saved, byref(size)), "save")
        return saved.raw[: size.value]

    @classmethod
    def load(cls, saved: Union[bytes, bytearray, memoryview]) -> "Capacities":
        """Continues where save() was called, with the options of that time."""
        data, pointer = bytes(saved), c_void_p()
        status = library().functions.moe_capacities_load(data, len(data), byref(pointer))
        library().check(status, "load capacities")
        self = cls.__new__(cls)
        words = struct.unpack_from("<11Q", data, 8)  # the options, in their order
        self._own(pointer, words[0], words[10])
        return self


class Beside:
    """Capacities and plans on a thread beside the steps.

        beside = moelookup.Beside(capacities, view, first=0)
        for step in itertools.count():
            state, plan = beside.answer(step)      # waits only for counts of step - delta
            ...                                    # route
            beside.counts(step, largest_counts)    # as soon as they are known; returns at once
            ...                                    # the rest of the step

    The answer of a step does not depend on how the threads run.  Until close(), only the thread may
    use the capacities.
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
        """The counts of a step; for each step in turn, after its answer.  See Capacities.feed."""
        self._handed.put((step, list(counts)))

    def answer(self, step: int) -> Tuple[State, Optional[Plan]]:
        """State and plan of a step; ask for each step once, in order."""
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


# ---- routes


class Routes(Owned):
    """Stores which experts the tokens of a batch chose when they were last seen.

    It has room for `rooms` batches of at most `rows` tokens.  on and off (thousandths) and first_pass
    are the thresholds of decide().
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
        options = fill(
            moe_routes_options,
            experts=experts,
            top_k=top_k,
            rooms=rooms,
            rows=rows,
            on=on,
            off=off,
            first_pass=first_pass,
        )
        pointer = c_void_p()
        status = library().functions.moe_routes_open(byref(options), byref(pointer))
        library().check(status, "routes")
        super().__init__(pointer, library().functions.moe_routes_close)
        self.top_k, self.rows = options.top_k, options.rows

    def put(self, key: int, ids: Any) -> Tuple[int, int]:
        """Stores a batch's ids: rows of top_k experts, as lists or a tensor on the CPU.

        Returns how many tokens chose the same experts as last time, and how many were compared.
        """
        rows = ids.tolist() if hasattr(ids, "tolist") else ids
        flat: List[int] = []
        for row in rows:
            if len(row) != self.top_k:
                raise ValueError(f"a token has {len(row)} experts: top_k is {self.top_k}")
            flat.extend(row)
        buffer = numbers(f"ids of batch {key}", flat, c_int32, "i")
        same, compared = c_uint64(), c_uint64()
        status = library().functions.moe_routes_put(
            self._live(),
            whole("key", key, UINT64_MAX),
            buffer,
            len(buffer) // self.top_k,
            self.top_k,
            byref(same),
            byref(compared),
        )
        library().check(status, f"put batch {key}")
        return same.value, compared.value

    def get(self, key: int) -> Optional[List[List[int]]]:
        """What was put last under this key; None: nothing, or it was forgotten to make room."""
        room = (c_int32 * (self.rows * self.top_k))()
        rows = c_uint32()
        status = library().functions.moe_routes_get(
            self._live(), whole("key", key, UINT64_MAX), room, len(room), byref(rows)
        )
        library().check(status, f"get batch {key}")
        k = self.top_k
        return [list(room[t * k : (t + 1) * k]) for t in range(rows.value)] or None

    def decide(self, number: int, same: int, total: int) -> bool:
        """Whether to use known routes from here on; same and total are sums over ranks."""
        on = c_uint32()
        said = (("pass", number), ("same", same), ("total", total))
        totals = [whole(name, value, UINT64_MAX) for name, value in said]
        status = library().functions.moe_routes_decide(self._live(), *totals, byref(on))
        library().check(status, f"decide at pass {number}: {same} of {total}")
        return bool(on.value)
