"""struct moetune of moetune.h: one layer's tuner, on one rank."""

import copy
import functools
import os
from ctypes import byref, c_uint32, c_void_p, create_string_buffer, sizeof
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from moelookup._declared import moetune_functions, moetune_options, moetune_status
from moelookup._library import UINT64_MAX, Error, Owned, c_text, declare, library, load, whole
from moelookup.plan import (
    Plan,
    Shape,
    SpacePlan,
    checked_shape,
    new_plan,
    plan_struct,
    read_plan,
    read_space_plan,
)
from moelookup.table import keys

NAME = "libmoetune.so.1"
ORDER_BYTES, ORDERS = 32, 9  # bytes of an order; orders of an exchange, at most
US_MOST = 1e12  # the longest time
NEVER = 2**32 - 1  # the steps that rest() returns for a decided bucket
_FAILED = 1e300  # MOETUNE_FAILED


class Status(NamedTuple):
    """How far the tuner has come; see struct moetune_status."""

    looking_up: bool = False  # another process writes the database, or writing it failed
    steps: int = 0  # steps whose time was told
    tried: int = 0  # steps whose plan was not the best known one
    time_us: float = 0.0  # of all steps told
    cost_us: float = 0.0  # what exploring cost
    own_us: float = 0.0  # the library's own part of cost_us
    decided: int = 0  # buckets that have an entry
    open: int = 0  # buckets that were asked for and have no entry yet
    alarms: int = 0  # entries that turned stale because their plan became slower
    replaced: int = 0  # entries whose plan changed after such an alarm


@functools.lru_cache(maxsize=None)
def _functions() -> Any:
    """Loads the library at its first use; calls release the interpreter's lock."""
    functions = load(NAME, "MOETUNE_LIBRARY")
    declare(functions, "libmoetune", moetune_functions)
    return functions


def library_version() -> str:
    """The version of the C library that was loaded."""
    return str(_functions().moetune_version().decode())


class Tuner(Owned):
    """Answers at every step, and learns from the times that it is told.

    The words of the layer are those of moelookup's Table.bind.  Rank 0 decides and writes; other
    ranks open no file, and can only follow().  moetune.torch.Tuner carries the orders between ranks.

    db: the database; it is made if it does not exist.  None: $MOETUNE_DB, else $MOELOOKUP_DB, else
        below $XDG_DATA_HOME or $HOME.
    layer: the code that runs the layer, with its version: "tutel 0.3, torch 2.3, nccl 2.20".  Each
        code has a table of its own.
    cluster: the machine, as `moetune fingerprint` prints it, or only the lines that you know:
        "device = NVIDIA H200".
    axes: the axes that may vary, "r,d"; None: all.
    space: instead of axes, the text of a space whose axes are all live (moetune-spaces(7)).  Then
        ask_key() answers with SpacePlans, and bucket() gives the capacities.
    share: of training time that exploring may cost.
    margin: a better plan replaces the plan in force if it is faster by this share.
    harm: the largest chance of a plan to be slower than the default plan.
    window: R, the width of a bucket; 0: moelookup.window() of the layer.

    Belongs to one thread at a time, and to the process that made it.
    """

    order_bytes = ORDER_BYTES

    def __init__(
        self,
        db: Union[None, str, bytes, "os.PathLike[str]"] = None,
        *,
        experts: int,
        top_k: int,
        model_dim: int,
        hidden_dim: int,
        ranks: int,
        ranks_per_node: int,
        dtype: str = "f32",
        train: bool = True,
        activation: str = "relu",
        tokens: int = 0,
        rank: int = 0,
        layer: Optional[str] = None,
        cluster: Optional[str] = None,
        axes: Optional[str] = None,
        share: float = 0.01,
        margin: float = 0.01,
        harm: float = 0.01,
        window: int = 0,
        seed: int = 0,
        layout: str = "experts",
        shares: str = "equal",
        layers: int = 0,
        groups: int = 0,
        group_limit: int = 0,
        router: str = "softmax",
        order: str = "token",
        projection: int = 0,
        combine: str = "sum",
        ranks_per_rack: int = 0,
        space: Optional[str] = None,
    ) -> None:
        sizes = (experts, top_k, model_dim, hidden_dim, ranks, ranks_per_node)
        later = (layout, shares, layers, groups, group_limit, router, order, projection, combine)
        self.shape, shape = checked_shape(
            Shape(*sizes, dtype, train, activation, tokens, *later, ranks_per_rack)
        )
        # The callbacks stay empty: Python carries orders itself, so that what goes wrong on the way
        # is an exception there.
        options = moetune_options(
            struct_size=sizeof(moetune_options),
            rank=whole("rank", rank),
            window=whole("window", window),
            seed=whole("seed", seed),
            share=_share("share", share),
            margin=_share("margin", margin),
            harm=_share("harm", harm),
            **{
                name: None if text is None else c_text(name, text.encode())
                for name, text in (
                    ("layer", layer),
                    ("cluster", cluster),
                    ("axes", axes),
                    ("space", space),
                )
            },
        )
        name = None if db is None else c_text("db", os.fsencode(db))
        pointer = c_void_p()
        status = _functions().moetune_open(name, byref(shape), byref(options), byref(pointer))
        library().check(status, f"open {os.fsdecode(name or b'')} for {self.shape}")
        super().__init__(pointer, _functions().moetune_close)
        self._declared: Optional[Dict[str, bytes]] = None if space is None else {}
        self._known: Dict[bytes, SpacePlan] = {}

    def _read(self, plan: Any) -> Any:
        if self._declared is None:
            return read_plan(plan.raw)
        raw = plan.raw
        if raw not in self._known:  # mostly the plan is that of the step before
            if len(self._known) > 64:
                self._known.clear()
            self._known[raw] = read_space_plan(plan, _functions().moetune_format)
        answer = copy.copy(self._known[raw])
        self._declared[str(answer)] = raw  # for passed(): no text says a choice as a number
        return answer

    def ask(self, capacity: int) -> Plan:
        """The plan for this step.  Its source is TENTATIVE where the bucket is being measured."""
        plan = new_plan()
        status = _functions().moetune_ask(self._live(), whole("capacity", capacity), plan)
        library().check(status, f"ask {capacity}")
        return self._read(plan)

    def ask_counts(self, counts: Any) -> Plan:
        """ask() for a step that drops no token; counts are those of moelookup's View.plan_counts."""
        return self.ask(keys(counts, self.shape.experts, self.shape.ranks)[0])

    def ask_key(self, key: int, klass: float = 0.0) -> SpacePlan:
        """ask() in a declared space: {"chunks": 2, ...}, as SpaceView.plan gives it."""
        plan = new_plan()
        key = whole("key", key, UINT64_MAX)
        status = _functions().moetune_ask_key(self._live(), key, klass, plan)
        library().check(status, f"ask_key({key}, {klass})")
        answer: SpacePlan = self._read(plan)
        return answer

    def bucket(self, key: int, klass: float = 0.0) -> int:
        """The number of the bucket of key and class; other functions take it as the capacity."""
        bucket = c_uint32()
        key = whole("key", key, UINT64_MAX)
        status = _functions().moetune_bucket(self._live(), key, klass, byref(bucket))
        library().check(status, f"bucket({key}, {klass})")
        return bucket.value

    def tell(self, time_us: float) -> None:
        """How long the step took; with several ranks, the longest time of all."""
        status = _functions().moetune_tell(self._live(), _time(time_us))
        library().check(status, "tell: nothing was asked")

    def fail(self, why: str = "") -> None:
        """Instead of tell(): the plan cannot run.  It is not tried again in this bucket."""
        status = _functions().moetune_tell(self._live(), _FAILED)
        library().check(status, "fail: nothing was asked")

    def order(self) -> bytes:
        """The last answer as 32 bytes for the other ranks."""
        order = create_string_buffer(ORDER_BYTES)
        library().check(_functions().moetune_order(self._live(), order), "order")
        return order.raw

    def follow(self, order: bytes, capacity: int) -> Plan:
        """The plan of rank 0's order; an Error if the order is for another capacity."""
        if len(order) != ORDER_BYTES:
            raise ValueError(f"an order has {ORDER_BYTES} bytes, not {len(order)}")
        plan, rows = new_plan(), whole("capacity", capacity)
        status = _functions().moetune_follow(self._live(), bytes(order), rows, plan)
        library().check(status, f"follow: an order for capacity {rows}")
        return self._read(plan)

    def until_due(self) -> int:
        """How many steps there are before the next exchange.  Until then known() does not change its
        answers; it may be called for those steps, in their order, just before the exchange."""
        steps = int(_functions().moetune_until_due(self._live()))
        library().check(min(steps, 0), "until_due")
        return steps

    def known(self, capacity: int) -> Plan:
        """The plan of a step that is no exchange."""
        plan, rows = new_plan(), whole("capacity", capacity)
        status = _functions().moetune_known(self._live(), rows, plan)
        library().check(status, f"known {rows}: an exchange is due")
        return self._read(plan)

    def orders(self) -> bytes:
        """The last answer, and what has changed in other buckets, for obey() on all ranks."""
        orders, count = create_string_buffer(ORDERS * ORDER_BYTES), c_uint32()
        status = _functions().moetune_orders(self._live(), orders, ORDERS, byref(count))
        library().check(status, "orders")
        return orders.raw[: count.value * ORDER_BYTES]

    def obey(self, orders: bytes, capacity: int) -> Plan:
        """This step's plan from rank 0's orders, on every rank; more bytes may follow them."""
        plan, rows, room = new_plan(), whole("capacity", capacity), len(orders) // ORDER_BYTES
        status = _functions().moetune_obey(self._live(), bytes(orders), room, rows, plan)
        library().check(status, f"obey: orders for capacity {rows}")
        return self._read(plan)

    def rest(self, capacity: int) -> Tuple[Plan, int]:
        """The best plan known in the capacity's bucket, and for how many steps it stays the answer
        (NEVER: until steps are slower than the entry says)."""
        plan, steps = new_plan(), c_uint32()
        rows = whole("capacity", capacity)
        status = _functions().moetune_rest(self._live(), rows, plan, byref(steps))
        library().check(status, f"rest {capacity}")
        return self._read(plan), steps.value

    def passed(self, capacity: int, plan: Plan, time_us: Optional[float]) -> None:
        """Tells a step that was not asked for, with the plan of known() or rest(); None: it could not
        run."""
        rows = whole("capacity", capacity)
        text = plan_struct(plan) if self._declared is None else self._declared[str(plan)]
        told = _FAILED if time_us is None else _time(time_us)
        status = _functions().moetune_passed(self._live(), rows, text, told)
        library().check(status, f"passed {capacity}")

    def spent(self, us: float) -> None:
        """The time of exchanges between ranks, which counts as the library's own time."""
        library().check(_functions().moetune_spent(self._live(), float(us)), "spent")

    def status(self) -> Status:
        status = moetune_status(struct_size=sizeof(moetune_status))
        library().check(_functions().moetune_status(self._live(), byref(status)), "status")
        values = {name: getattr(status, name) for name in Status._fields}
        return Status(**dict(values, looking_up=bool(status.looking_up)))


def _share(name: str, value: float) -> float:
    """For the library, 0 means its default and a number below 0 means none."""
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} is {value}: it must be from 0 to 1")
    return number or -1.0


def _time(time_us: float) -> float:
    number = float(time_us)
    if not 0 < number < US_MOST:
        raise ValueError(f"a time is {time_us} us: it must be above 0 and below {US_MOST:g}")
    return number
