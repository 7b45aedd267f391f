"""Tables and views: what moelookup.h calls struct moelookup and struct moelookup_view."""

import atexit
import contextlib
import enum
import math
import operator
import os
import pathlib
import re
import struct
import weakref
from ctypes import (
    byref,
    c_char,
    c_double,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
    sizeof,
)
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from ._library import ShapeStruct, library

_UINT32_MAX = 0xFFFFFFFF
_DTYPES = ("f32", "f16", "bf16")
_PASSES = ("forward", "train")
_ACTIVATIONS = ("relu", "gelu", "swiglu")
_ALL_TO_ALLS = ("linear", "2dh", "nccl", "rail", "3dh")
_EXPERTS = ("padded", "sparse")
_WEIGHTS = ("keep", "cache")
_PROTOCOLS = ("auto", "ll", "ll128", "simple")
_LAYOUTS = ("experts", "hidden")
_SHARES = ("equal", "speed", "tokens", "hidden")
_ROUTERS = ("softmax", "sigmoid", "bilevel", "cosine")
_ORDERS = ("token", "priority")
_COMBINES = ("sum", "choices")


class Source(enum.IntEnum):
    """Why a plan is the answer."""

    EXACT = 0  # measured in this bucket
    NEIGHBOUR = 1  # this bucket has no entry; another one inside the tuned range answers
    CLAMPED = 2  # before the first or beyond the last bucket: that one answers
    STALE = 3  # out of date: the software changed since, or steps became slower
    OVERRIDE = 4  # pinned by a person, or $MOELOOKUP_FORCE
    DEFAULT = 5  # nothing is known, or $MOELOOKUP_DISABLE
    INFERRED = 6  # this bucket lies between measured ones that agree
    IMPORTED = 7  # measured at another site, on a cluster that is equal
    TENTATIVE = 8  # being measured: moetune.Tuner's answer, never a view's
    UNCOMPARED = 9  # the table cannot compare plans where capacities differ: see View.plan_uneven


class Plan(NamedTuple):
    """One way to run the layer.  Times are microseconds of a step, 0 = unknown."""

    r: int = 1  # parallelism degree; 0 = pure data parallel
    d: int = 1  # pipelining degree
    a: str = "linear"  # all-to-all: "linear", "2dh", "nccl", "rail" or "3dh"
    source: Source = Source.DEFAULT
    bucket: int = 0  # the bucket it was measured for
    time_us: float = 0.0
    default_us: float = 0.0
    ctas: int = 0  # blocks of GPU threads for the all-to-alls; 0 = the library's choice
    e: str = "padded"  # which rows of experts are computed: "padded" or, with r=0, "sparse"
    w: str = "keep"  # gathered weights: "keep" until backward, or "cache": gathered again
    proto: str = "auto"  # NCCL_PROTO of weights' communicators: "ll", "ll128", "simple"

    def __str__(self) -> str:
        ctas = f" ctas={self.ctas}" if self.ctas else ""
        e = "" if self.e == "padded" else f" e={self.e}"
        w = "" if self.w == "keep" else f" w={self.w}"
        proto = "" if self.proto == "auto" else f" proto={self.proto}"
        return f"r={self.r} d={self.d} a={self.a}{ctas}{e}{w}{proto}"


class Shape(NamedTuple):
    """One MoE layer on its group of ranks; see struct moe_shape."""

    experts: int
    top_k: int
    model_dim: int
    hidden_dim: int
    ranks: int
    ranks_per_node: int
    dtype: str
    train: bool
    activation: str
    tokens: int
    layout: str = "experts"  # what a rank holds: "experts", or "hidden": units of every expert
    shares: str = "equal"  # or by the ranks' speed: "tokens", "hidden" (units), "speed": both
    layers: int = 0  # in a step; 0 = any
    groups: int = 0  # of experts; 0 = none
    group_limit: int = 0  # a token's experts are of so many groups
    router: str = "softmax"  # "sigmoid", "bilevel": a group, then a place in it, or "cosine"
    order: str = "token"  # whose choices get slots first: or of the surest tokens, "priority"
    projection: int = 0  # dimensions of a cosine router; 0 = 256, at most model_dim
    combine: str = "sum"  # what a token gets: or "choices", a row for each of them
    ranks_per_rack: int = 0  # of several nodes near each other; 0 = all are alike


_USUAL_LAYER = {"dtype": "f32", "train": True, "activation": "relu", "tokens": 0}


def _whole(name: str, value: Any, limit: int = _UINT32_MAX) -> int:
    number = operator.index(value)
    if not 0 <= number <= limit:
        raise ValueError(f"{name} is {number}: it must be from 0 to {limit}")
    return number


def _word(name: str, value: str, words: Sequence[str]) -> int:
    if value not in words:
        raise ValueError(f"{name} is {value!r}: it must be one of {', '.join(words)}")
    return words.index(value)


def checked_shape(given: Shape) -> Tuple[Shape, ShapeStruct]:
    """Whole numbers and known words; what else must hold the library says."""
    numbers = ("tokens", "layers", "groups", "group_limit", "projection", "ranks_per_rack")
    whole: Dict[str, Any] = {
        name: _whole(name, getattr(given, name)) for name in (*Shape._fields[:6], *numbers)
    }
    shape = given._replace(train=bool(given.train), **whole)
    return shape, ShapeStruct(
        sizeof(ShapeStruct),
        *shape[:6],
        _word("dtype", shape.dtype, _DTYPES),
        _PASSES.index("train" if shape.train else "forward"),
        _word("activation", shape.activation, _ACTIVATIONS),
        shape.tokens,
        _word("layout", shape.layout, _LAYOUTS),
        _word("shares", shape.shares, _SHARES),
        shape.layers,
        shape.groups,
        shape.group_limit,
        _word("router", shape.router, _ROUTERS),
        _word("order", shape.order, _ORDERS),
        shape.projection,
        _word("combine", shape.combine, _COMBINES),
        shape.ranks_per_rack,
        0,
    )


_Self = TypeVar("_Self", bound="_Owned")


class _Owned:
    """A pointer that the library gave out, given back once.

    Immutable otherwise, so threads share it and a copy is the thing itself.
    """

    __slots__ = ("_pointer", "_owned", "_free", "__weakref__")

    def __init__(self, pointer: c_void_p, free: Callable[[Optional[int]], None]) -> None:
        # Whoever empties the list frees: close() may be called by two threads at once.  The
        # function is kept here because at interpreter shutdown modules may be gone before objects.
        self._owned = [pointer.value]
        self._free = free
        self._pointer = pointer

    def close(self) -> None:
        """May be called again; happens by itself when nobody holds the object any more."""
        try:
            address = self._owned.pop()
        except (AttributeError, IndexError):  # never came to be; closed before
            return
        self._pointer.value = None  # which the library refuses from here on
        self._free(address)

    def _live(self) -> c_void_p:
        if not self._owned:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._pointer

    def __enter__(self: _Self) -> _Self:
        self._live()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __copy__(self: _Self) -> _Self:
        return self

    def __deepcopy__(self: _Self, _: Any) -> _Self:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its process")


_PLAN = struct.Struct("=6I2f6I")  # struct moe_plan
_EMPTY_PLAN = _PLAN.pack(_PLAN.size, 1, 1, 0, Source.DEFAULT, *[0] * 9)
_PLANS_KEPT = 1 << 12  # different answers of a view; more only if it was never tuned


_views: "weakref.WeakSet[Union[View, SpaceView]]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """An interpreter that ends does not always close what is open, and C has no such moment."""
    for view in list(_views):
        with contextlib.suppress(Exception):  # closed, or its disk is full: too late to say
            view.flush()


def new_plan() -> Any:
    """An empty struct moe_plan to be filled; its bytes are for read_plan."""
    return (c_char * _PLAN.size).from_buffer_copy(_EMPTY_PLAN)


def read_plan(answer: bytes) -> Plan:
    _, r, d, a, source, bucket, time_us, default_us, ctas, e, w, proto, _, _ = _PLAN.unpack(answer)
    times = bucket, time_us, default_us, ctas
    words = _EXPERTS[e], _WEIGHTS[w], _PROTOCOLS[proto]
    return Plan(r, d, _ALL_TO_ALLS[a], Source(source), *times, *words)


def plan_struct(plan: Plan) -> bytes:
    """A struct moe_plan, the other way."""
    a = _ALL_TO_ALLS.index(plan.a)
    words = _EXPERTS.index(plan.e), _WEIGHTS.index(plan.w), _PROTOCOLS.index(plan.proto)
    rest = plan.bucket, plan.time_us, plan.default_us, plan.ctas, *words, 0, 0
    return bytes(_PLAN.pack(_PLAN.size, plan.r, plan.d, a, int(plan.source), *rest))


class SpacePlan(Dict[str, Union[int, str]]):
    """A plan of a declared space: values by axis, in the order of the declaration.

    An axis that the space has not is a KeyError.  Times are microseconds of a step, 0 = unknown."""

    def __init__(self, values: Dict[str, Union[int, str]], text: str, *rest: Any) -> None:
        super().__init__(values)
        self._text = text
        self.source, self.bucket, self.time_us, self.default_us = rest

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> Any:
        rest = self.source, self.bucket, self.time_us, self.default_us
        return type(self), (dict(self), self._text, *rest)


def read_space_plan(plan: Any, plan_format: Any = None) -> SpacePlan:
    """Of a struct moe_plan; what looks like an integer is int, as moetune.Asker has it.

    plan_format: of the library that knows the space; None: moelookup's."""
    room = create_string_buffer(512)
    plan_format = plan_format or library().functions.moe_plan_format
    library().check(min(plan_format(byref(plan), room, len(room)), 0), "plan")
    text = room.value.decode()
    values: Dict[str, Union[int, str]] = {}
    for word in text.split()[:-1]:  # the last one names the space
        axis, _, value = word.partition("=")
        values[axis] = int(value) if re.fullmatch("-?[0-9]+", value) else value
    _, _, _, _, source, bucket, time_us, default_us, *_ = _PLAN.unpack(plan.raw)
    return SpacePlan(values, text, Source(source), bucket, time_us, default_us)


class View(_Owned):
    """One layer's dictionary.  Any number of threads may ask it."""

    __slots__ = ("shape", "_get", "_plans", "_rooms")

    def __init__(self, pointer: c_void_p, shape: Shape) -> None:
        super().__init__(pointer, library().functions.moelookup_view_free)
        _views.add(self)
        self.shape = shape
        self._get = library().get
        self._plans: Dict[bytes, Plan] = {}
        self._rooms: List[Tuple[Any, Any]] = []

    def plan(self, capacity: int) -> Plan:
        """The plan for this step's capacity, and why.

        The same object for the same answer.  Never fails for a capacity that fits in 32 bits."""
        # Every line here is paid at every step.
        if capacity.__class__ is not int:
            capacity = operator.index(capacity)
        if capacity >> 32:  # -1 where it is negative
            raise ValueError(f"capacity is {capacity}: it must be from 0 to {_UINT32_MAX}")
        # A struct of its own for each call under way, so threads do not see each other's answer.
        try:
            room = self._rooms.pop()
        except IndexError:
            room = self._room()
        buffer, reference = room
        if self._get(self._pointer, capacity, reference):
            raise ValueError("this View is closed")
        answer = buffer.raw
        self._rooms.append(room)
        try:
            return self._plans[answer]  # no object is made for an answer that was given before
        except KeyError:
            return self._remember(answer)

    def plan_uneven(self, key: int, key_r0: int) -> Plan:
        """The plan where experts have capacities of their own: see moelookup_get_uneven.

        key and key_r0 are those of moelookup.State: the equal capacities at which plans with
        r >= 1 and with r = 0 take as long.  The faster of the best plans of both kinds, or the
        default plan where the table cannot say which that is (Source.UNCOMPARED)."""
        buffer = new_plan()
        status = library().functions.moelookup_get_uneven(
            self._live(), _whole("key", key), _whole("key_r0", key_r0), byref(buffer)
        )
        library().check(status, f"plan for capacities of key {key}, key_r0 {key_r0}")
        answer = buffer.raw
        return self._plans.get(answer) or self._remember(answer)

    def _room(self) -> Tuple[Any, Any]:
        buffer = new_plan()
        return buffer, byref(buffer)

    def _remember(self, answer: bytes) -> Plan:
        plan = read_plan(answer)
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        return self._plans.setdefault(answer, plan)

    def explain(self, capacity: int) -> str:
        """One line that says which rung of the ladder answers and why."""
        return self._explained(library().functions.moelookup_explain, _whole("capacity", capacity))

    def explain_uneven(self, key: int, key_r0: int) -> str:
        """The same of plan_uneven."""
        keys = _whole("key", key), _whole("key_r0", key_r0)
        return self._explained(library().functions.moelookup_explain_uneven, *keys)

    def _explained(self, explain: Any, *asked: int) -> str:
        length = explain(self._live(), *asked, None, 0)
        library().check(min(length, 0), "explain")
        text = create_string_buffer(length + 1)
        library().check(min(explain(self._live(), *asked, text, length + 1), 0), "explain")
        return text.value.decode("utf-8", "replace")

    def flush(self) -> None:
        """Appends what was recorded since the last time; see Table.record."""
        library().check(library().functions.moelookup_flush(self._live()), "flush")


class SpaceView(_Owned):
    """The dictionary of a layer of a space that a program declares."""

    __slots__ = ("layer",)

    def __init__(self, pointer: c_void_p, layer: Dict[str, Any]) -> None:
        super().__init__(pointer, library().functions.moelookup_view_free)
        _views.add(self)
        self.layer = layer  # its words, as bind() takes them

    def plan(self, key: int, klass: float = math.nan) -> SpacePlan:
        """The plan for this step's key and class, by the edges that the space says.

        klass must be given where the space has one, and is not looked at elsewhere."""
        key, plan = _whole("key", key, 2**64 - 1), new_plan()
        status = library().functions.moelookup_get_key(self._live(), key, klass, byref(plan))
        library().check(status, f"plan({key}, {klass}): the class, from 0 on, is the second number")
        return read_space_plan(plan)

    def explain(self, key: int, klass: float = math.nan) -> str:
        """One line that says which rung of the ladder answers and why."""
        key = _whole("key", key, 2**64 - 1)
        explain = library().functions.moelookup_explain_key
        length = explain(self._live(), key, klass, None, 0)
        library().check(min(length, 0), f"explain({key}, {klass}): as plan()")
        text = create_string_buffer(length + 1)
        library().check(min(explain(self._live(), key, klass, text, length + 1), 0), "explain")
        return text.value.decode("utf-8", "replace")

    def flush(self) -> None:
        """Appends what was recorded since the last time; see Table.record."""
        library().check(library().functions.moelookup_flush(self._live()), "flush")


class Table(_Owned):
    """A set of tables, immutable once open.  Views outlive it."""

    __slots__ = ()

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, library().functions.moelookup_close)

    @overload
    def bind(
        self,
        *,
        space: "Union[str, os.PathLike[str]]",
        device: Optional[str] = None,
        **words: Any,
    ) -> SpaceView: ...

    @overload
    def bind(
        self,
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
        device: Optional[str] = None,
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
    ) -> View: ...

    def bind(
        self,
        *,
        space: "Union[None, str, os.PathLike[str]]" = None,
        device: Optional[str] = None,
        **words: Any,
    ) -> Union[View, SpaceView]:
        """The layer's dictionary; where there is none, a view that answers the default plan.

        See moelookup_bind for what must be equal, and for the lines it says on standard error.

        space: "torch-moe" or "torch-moe@3f2a91c0", declared by a program.  Then words may be left
        out as long as one layer of the space is left in the table; else the error names the words
        in which those that are left differ.  Without a table, and with $MOELOOKUP_DISABLE, a name is
        an Error; the text of the space, or its file as a pathlib.Path, is answered its default plan.
        """
        if space is not None:
            if not isinstance(space, str):
                space = pathlib.Path(space).read_text(encoding="utf-8") + "\n"
            layer, values = self._find_layer(space, words)
            return SpaceView(self._bind(values, device, "bind the layer of a space"), layer)
        shape, values = checked_shape(Shape(**{**_USUAL_LAYER, **words}))
        return View(self._bind(values, device, f"bind {shape}"), shape)

    def _bind(self, values: ShapeStruct, device: Optional[str], what: str) -> c_void_p:
        name = None if device is None else _text("device", device.encode())
        pointer = c_void_p()
        status = library().functions.moelookup_bind(
            self._live(), byref(values), name, byref(pointer)
        )
        library().check(status, what)
        return pointer

    def _find_layer(self, space: str, words: Dict[str, Any]) -> Tuple[Dict[str, Any], ShapeStruct]:
        """The one layer of the space that has these words."""
        number, name = c_uint32(), _text("space", space.encode())
        status = library().functions.moelookup_space(self._live(), name, byref(number))
        library().check(status, f"bind the space {space.partition(chr(10))[0]}")
        unknown = sorted(set(words) - set(Shape._fields))
        if unknown:
            raise TypeError(f"bind() has no {', '.join(unknown)}")
        layers = self._layers(number.value)
        if [layer["top_k"] for layer, _ in layers] == [0]:  # no table has it
            return layers[0]
        left = [layer for layer in layers if all(layer[0][n] == words[n] for n in words)]
        if len(left) != 1:
            raise ValueError(_which(space, [w for w, _ in left or layers], words, bool(left)))
        return left[0]

    def _layers(self, space: int) -> List[Tuple[Dict[str, Any], ShapeStruct]]:
        found: List[Tuple[Dict[str, Any], ShapeStruct]] = []
        while True:
            shape = ShapeStruct(sizeof(ShapeStruct))
            layer = library().functions.moelookup_space_layer
            if layer(self._live(), space, len(found), byref(shape)):
                return found
            found.append((_words(shape), shape))

    def record(self, path: Union[None, str, bytes, "os.PathLike[str]"] = None) -> None:
        """Views bound from here on count what they are asked, for `moetune tune --from-misses`.

        A view writes it with flush(), when it is closed, and when the interpreter ends.  None: the
        file that $MOELOOKUP_RECORD names, which open() looks at by itself.  Of several ranks one is
        enough: all ask the same.
        """
        name = None if path is None else _text("path", os.fsencode(path))
        status = library().functions.moelookup_record(self._live(), name)
        what = "record" if name is None else f"record {os.fsdecode(name)}"
        library().check(status, what)

    def digest(self) -> bytes:
        """32 bytes; ranks with the same ones answer alike."""
        digest = create_string_buffer(32)
        library().check(library().functions.moelookup_digest(self._live(), digest), "digest")
        return digest.raw

    def pack(self) -> bytes:
        """The table as bytes for unpack(), here or on any other machine."""
        pack, size = library().functions.moelookup_pack, c_size_t()
        library().check(pack(self._live(), None, byref(size)), "pack")
        packed = create_string_buffer(size.value)
        library().check(pack(self._live(), packed, byref(size)), "pack")
        return packed.raw[: size.value]

    def __reduce__(self) -> Any:
        return unpack, (self.pack(),)


_WORDS = {
    "dtype": _DTYPES,
    "train": (False, True),
    "activation": _ACTIVATIONS,
    "layout": _LAYOUTS,
    "shares": _SHARES,
    "router": _ROUTERS,
    "order": _ORDERS,
    "combine": _COMBINES,
}


def _words(shape: ShapeStruct) -> Dict[str, Any]:
    """A struct moe_shape as bind() takes it."""
    return {
        name: _WORDS[name][getattr(shape, name)] if name in _WORDS else getattr(shape, name)
        for name in Shape._fields
    }


def _which(space: str, layers: List[Dict[str, Any]], words: Dict[str, Any], several: bool) -> str:
    """Why bind(space=...) does not know which layer is meant."""
    if not several:
        wrong = [n for n, v in words.items() if all(layer[n] != v for layer in layers)] or words
        has = ", ".join(f"{n} {sorted({layer[n] for layer in layers})}" for n in wrong)
        return f"no layer of {space} here has these words; the table has {has}"
    differ = [n for n in Shape._fields if len({layer[n] for layer in layers}) > 1]
    has = ", ".join(f"{n} {sorted({layer[n] for layer in layers})}" for n in differ)
    return f"{len(layers)} layers of {space} fit; say which: {has}"


def _text(name: str, value: bytes) -> bytes:
    if b"\0" in value:  # where C would stop reading
        raise ValueError(f"{name} holds a zero byte")
    return value


def open(path: Union[None, str, bytes, "os.PathLike[str]"] = None) -> Table:
    """A database, its snapshot, or a file of packed bytes; None: the search path of moelookup.h."""
    name = None if path is None else _text("path", os.fsencode(path))
    pointer = c_void_p()
    status = library().open(name, byref(pointer))
    library().check(status, "open" if path is None else f"open {os.fsdecode(name or b'')}")
    return Table(pointer)


def unpack(packed: Union[bytes, bytearray, memoryview]) -> Table:
    """The reverse of Table.pack()."""
    data = bytes(packed)
    pointer = c_void_p()
    library().check(library().functions.moelookup_unpack(data, len(data), byref(pointer)), "unpack")
    return Table(pointer)


def capacity(
    factor: float, top_k: int, experts: int, tokens: int, needed: Optional[int] = None
) -> int:
    """The capacity rule; see moe_capacity.  needed is wanted where factor is 0 or negative."""
    if needed is None and not factor > 0:
        raise ValueError(f"factor is {factor}: then the rows that are needed must be given")
    limit = 2**64 - 1
    rows: int = library().functions.moe_capacity(
        factor,
        _whole("top_k", top_k),
        _whole("experts", experts),
        _whole("tokens", tokens, limit),
        _whole("needed", 0 if needed is None else needed, limit),
    )
    return rows


def window(top_k: int, experts: int, tokens: int) -> int:
    """R, the width of a bucket where nobody says another one; see moe_window."""
    rows: int = library().functions.moe_window(
        _whole("top_k", top_k), _whole("experts", experts), _whole("tokens", tokens, 2**64 - 1)
    )
    return rows


def shares(speeds: Sequence[float], total: int, grain: int = 1) -> List[int]:
    """What each rank gets of total, by its speed; see moe_shares."""
    ranks, limit = len(speeds), 2**64 - 1
    out = (c_uint64 * ranks)()
    status = library().functions.moe_shares(
        (c_double * ranks)(*speeds),
        ranks,
        _whole("total", total, limit),
        _whole("grain", grain, limit),
        out,
    )
    library().check(status, f"shares of {total} among {ranks} ranks")
    return list(out)
