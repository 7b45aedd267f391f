"""Tables and views: what moelookup.h calls struct moelookup and struct moelookup_view."""

import atexit
import contextlib
import math
import operator
import os
import pathlib
import weakref
from ctypes import (
    byref,
    c_double,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
    sizeof,
)
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, overload

from ._declared import Source, moe_shape  # noqa: F401: plans that were pickled name Source here
from ._library import UINT32_MAX, UINT64_MAX, Owned, c_text, library, numbers, whole
from .plan import (
    Plan,
    Shape,
    SpacePlan,
    checked_shape,
    new_plan,
    read_plan,
    read_space_plan,
    shape_words,
)

_USUAL_LAYER = {"dtype": "f32", "train": True, "activation": "relu", "tokens": 0}
_PLANS_KEPT = 1 << 12  # different answers of a view; more only if it was never tuned

_views: "weakref.WeakSet[_AnyView]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """An interpreter that ends may leave views open, and the C library does not see its end."""
    for view in list(_views):
        with contextlib.suppress(Exception):  # closed, or its disk is full: too late to say
            view.flush()


class _AnyView(Owned):
    """What View and SpaceView share."""

    __slots__ = ()

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, library().functions.moelookup_view_free)
        _views.add(self)

    def flush(self) -> None:
        """Appends the look-ups since the last call to the file; see Table.record."""
        library().check(library().functions.moelookup_flush(self._live()), "flush")

    def _explained(self, what: str, explain: Any, *asked: Any) -> str:
        length = explain(self._live(), *asked, None, 0)
        library().check(min(length, 0), what)
        text = create_string_buffer(length + 1)
        library().check(min(explain(self._live(), *asked, text, length + 1), 0), what)
        return text.value.decode("utf-8", "replace")


class View(_AnyView):
    """The table of one layer.  Any number of threads may ask it."""

    __slots__ = ("shape", "_get", "_plans", "_rooms")

    def __init__(self, pointer: c_void_p, shape: Shape) -> None:
        super().__init__(pointer)
        self.shape = shape
        self._get = library().get
        self._plans: Dict[bytes, Plan] = {}
        self._rooms: List[Tuple[Any, Any]] = []

    def plan(self, capacity: int) -> Plan:
        """The plan for this step's capacity; its source says where it comes from.

        Equal answers are the same object.  No capacity that fits in 32 bits is an error."""
        # Every line here is paid at every step.
        if capacity.__class__ is not int:
            capacity = operator.index(capacity)
        if capacity >> 32:  # -1 where it is negative
            raise ValueError(f"capacity is {capacity}: it must be from 0 to {UINT32_MAX}")
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
        """The plan for experts with different capacities: see moelookup_get_uneven.

        key and key_r0 are those of moelookup.State.  A plan with r >= 1 takes as long as at the
        equal capacity key, a plan with r = 0 as long as at key_r0.  The faster one answers.  If the
        table cannot say which is faster, the default plan does (Source.UNCOMPARED)."""
        buffer = new_plan()
        status = library().functions.moelookup_get_uneven(
            self._live(), whole("key", key), whole("key_r0", key_r0), byref(buffer)
        )
        library().check(status, f"plan for capacities of key {key}, key_r0 {key_r0}")
        answer = buffer.raw
        return self._plans.get(answer) or self._remember(answer)

    def plan_counts(self, counts: Any) -> Plan:
        """The plan of a step that drops no token and runs only rows that hold one.

        counts: the rows that each rank sends to each expert, one row of E numbers per rank.  Or E
        numbers, for each expert the largest count of any rank: an upper limit.  A list, an array or
        a tensor; reading a tensor on a device waits for the device, and a warning says so.  Every
        rank must pass the same numbers:

            dist.all_gather_into_tensor(all_counts, counts)        # or
            dist.all_reduce(counts, dist.ReduceOp.MAX)

        moelookup.torch.plan_counts(view, counts) reduces two numbers instead.  A layer that pads
        every expert to the fullest one calls plan(fullest).  See moelookup_get_counts."""
        buffer, held = new_plan(), numbers("counts", counts)
        status = library().functions.moelookup_get_counts(
            self._live(), held, len(held), byref(buffer)
        )
        shape = self.shape
        wanted = f"{shape.experts} or {shape.ranks} times {shape.experts} are wanted"
        library().check(status, f"plan_counts: {len(held)} numbers, {wanted}" if status else "")
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
        """One line: which source answers, and why."""
        explain = library().functions.moelookup_explain
        return self._explained("explain", explain, whole("capacity", capacity))

    def explain_uneven(self, key: int, key_r0: int) -> str:
        """explain() for plan_uneven."""
        explain = library().functions.moelookup_explain_uneven
        return self._explained("explain", explain, whole("key", key), whole("key_r0", key_r0))


class SpaceView(_AnyView):
    """The table of a layer of a declared space."""

    __slots__ = ("layer",)

    def __init__(self, pointer: c_void_p, layer: Dict[str, Any]) -> None:
        super().__init__(pointer)
        self.layer = layer  # its words, as bind() takes them

    def plan(self, key: int, klass: float = math.nan) -> SpacePlan:
        """The plan for this step's key and class; the space declares the buckets.

        klass must be given if the space has a class, and is ignored otherwise."""
        key, plan = whole("key", key, UINT64_MAX), new_plan()
        status = library().functions.moelookup_get_key(self._live(), key, klass, byref(plan))
        library().check(status, f"plan({key}, {klass}): the class, from 0 on, is the second number")
        return read_space_plan(plan)

    def explain(self, key: int, klass: float = math.nan) -> str:
        """One line: which source answers, and why."""
        key, explain = whole("key", key, UINT64_MAX), library().functions.moelookup_explain_key
        return self._explained(f"explain({key}, {klass}): as plan()", explain, key, klass)


_SIZES = ("experts", "top_k", "tokens", "model_dim", "hidden_dim")
_LAYER_WORDS = {*_SIZES, "dtype", "train", "activation"}


class Table(Owned):
    """A set of tables; it never changes once it is open.  Views outlive it."""

    __slots__ = ()

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, library().functions.moelookup_close)

    @overload
    def bind(
        self,
        *,
        space: "Union[str, os.PathLike[str]]",
        device: Optional[str] = None,
        launch: Union[None, str, Mapping[str, Any]] = None,
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
        launch: Union[None, str, Mapping[str, Any]] = None,
        **words: Any,
    ) -> Union[View, SpaceView]:
        """A view of the layer's table.  If no table fits, the view answers the default plan.

        moelookup_bind says what must be equal, and what is printed on standard error.

        space: "torch-moe" or "torch-moe@3f2a91c0", declared by a program.  Words of the layer are
        needed only if several layers of the space fit; the error names the words in which they
        differ.  Without a table, and with $MOELOOKUP_DISABLE, a name is an Error.  Pass the text of
        the space, or its file as a pathlib.Path, to get its default plan then.

        launch: "backend=deepep ep=8", or {"backend": "deepep", "ep": 8}: this job's values of the
        axes that need a restart; axes that are left out have their defaults.  Then every plan has
        these values; see moelookup_bind_launch.  None: $MOELOOKUP_LAUNCH, if it is set; else
        plans may have any.
        """
        if isinstance(launch, Mapping):
            launch = " ".join(f"{axis}={value}" for axis, value in launch.items())
        if space is not None:
            if not isinstance(space, str):
                space = pathlib.Path(space).read_text(encoding="utf-8") + "\n"
            layer, values = self._find_layer(space, words)
            what = "bind the layer of a space" + (f" inside {launch}" if launch else "")
            return SpaceView(self._bind(values, device, launch, what), layer)
        shape, values = checked_shape(Shape(**{**_USUAL_LAYER, **words}))
        return View(self._bind(values, device, launch, f"bind {shape}"), shape)

    def _bind(
        self, values: moe_shape, device: Optional[str], launch: Optional[str], what: str
    ) -> c_void_p:
        name = None if device is None else c_text("device", device.encode())
        inside = None if launch is None else c_text("launch", launch.encode())
        pointer = c_void_p()
        status = library().functions.moelookup_bind_launch(
            self._live(), byref(values), name, inside, byref(pointer)
        )
        library().check(status, what)
        return pointer

    def _find_layer(self, space: str, words: Dict[str, Any]) -> Tuple[Dict[str, Any], moe_shape]:
        """The one layer of the space that has these words."""
        number, name = c_uint32(), c_text("space", space.encode())
        status = library().functions.moelookup_space(self._live(), name, byref(number))
        library().check(status, f"bind the space {space.partition(chr(10))[0]}")
        unknown = sorted(set(words) - set(Shape._fields))
        if unknown:
            raise TypeError(f"bind() has no {', '.join(unknown)}")
        layers = self._layers(number.value)
        if [layer["top_k"] for layer, _ in layers] == [0]:  # no table has it
            return layers[0]
        left = [layer for layer in layers if all(layer[0][n] == words[n] for n in words)]
        if len(left) > 1 and not _LAYER_WORDS & set(words):  # a program without one has a table, too
            left = [layer for layer in left if all(layer[0][n] == 1 for n in _SIZES)] or left
        if len(left) != 1:
            raise ValueError(_which(space, [w for w, _ in left or layers], words, bool(left)))
        return left[0]

    def _layers(self, space: int) -> List[Tuple[Dict[str, Any], moe_shape]]:
        found: List[Tuple[Dict[str, Any], moe_shape]] = []
        while True:
            shape = moe_shape(sizeof(moe_shape))
            layer = library().functions.moelookup_space_layer
            if layer(self._live(), space, len(found), byref(shape)):
                return found
            found.append((shape_words(shape), shape))

    def record(self, path: Union[None, str, bytes, "os.PathLike[str]"] = None) -> None:
        """Views that are bound from here on count their look-ups, for `moetune tune --from-misses`.

        A view appends its counts to the file in flush(), when it is closed, and when the interpreter
        ends.  None: the file that $MOELOOKUP_RECORD names; open() does this by itself.  Let one rank
        record: all ranks ask the same.
        """
        name = None if path is None else c_text("path", os.fsencode(path))
        status = library().functions.moelookup_record(self._live(), name)
        what = "record" if name is None else f"record {os.fsdecode(name)}"
        library().check(status, what)

    def digest(self) -> bytes:
        """32 bytes; ranks with equal digests answer alike."""
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


def _which(space: str, layers: List[Dict[str, Any]], words: Dict[str, Any], several: bool) -> str:
    """Why bind(space=...) does not know which layer is meant."""
    if not several:
        wrong = [n for n, v in words.items() if all(layer[n] != v for layer in layers)] or words
        has = ", ".join(f"{n} {sorted({layer[n] for layer in layers})}" for n in wrong)
        return f"no layer of {space} here has these words; the table has {has}"
    differ = [n for n in Shape._fields if len({layer[n] for layer in layers}) > 1]
    has = ", ".join(f"{n} {sorted({layer[n] for layer in layers})}" for n in differ)
    return f"{len(layers)} layers of {space} fit; say which: {has}"


def open(path: Union[None, str, bytes, "os.PathLike[str]"] = None) -> Table:
    """A database, its snapshot, or a file of packed bytes; None: the search path of moelookup.h."""
    name = None if path is None else c_text("path", os.fsencode(path))
    pointer = c_void_p()
    status = library().open(name, byref(pointer))
    library().check(status, "open" if path is None else f"open {os.fsdecode(name or b'')}")
    return Table(pointer)


def unpack(packed: Union[bytes, bytearray, memoryview]) -> Table:
    """The table that Table.pack() made the bytes of."""
    data = bytes(packed)
    pointer = c_void_p()
    library().check(library().functions.moelookup_unpack(data, len(data), byref(pointer)), "unpack")
    return Table(pointer)


def capacity(
    factor: float, top_k: int, experts: int, tokens: int, needed: Optional[int] = None
) -> int:
    """The capacity rule; see moe_capacity.  A factor of 0 or below requires needed."""
    if needed is None and not factor > 0:
        raise ValueError(f"factor is {factor}: then the rows that are needed must be given")
    rows: int = library().functions.moe_capacity(
        factor,
        whole("top_k", top_k),
        whole("experts", experts),
        whole("tokens", tokens, UINT64_MAX),
        whole("needed", 0 if needed is None else needed, UINT64_MAX),
    )
    return rows


def keys(counts: Any, experts: int, ranks: int) -> Tuple[int, int]:
    """The two equal capacities that View.plan_uneven takes, key and key_r0, from counts.

    counts: as View.plan_counts takes them.  Or each rank passes its own E numbers; then take the
    largest key and the largest key_r0 of all ranks."""
    key, key_r0, held = c_uint32(), c_uint32(), numbers("counts", counts)
    status = library().functions.moe_keys(
        held, len(held), whole("experts", experts), whole("ranks", ranks), byref(key), byref(key_r0)
    )
    library().check(status, f"keys: {len(held)} counts of {experts} experts on {ranks} ranks")
    return key.value, key_r0.value


def window(top_k: int, experts: int, tokens: int) -> int:
    """R, the default width of a bucket; see moe_window."""
    rows: int = library().functions.moe_window(
        whole("top_k", top_k), whole("experts", experts), whole("tokens", tokens, UINT64_MAX)
    )
    return rows


def shares(speeds: Sequence[float], total: int, grain: int = 1) -> List[int]:
    """Divides total among the ranks by their speeds; see moe_shares."""
    ranks = len(speeds)
    out = (c_uint64 * ranks)()
    status = library().functions.moe_shares(
        (c_double * ranks)(*speeds),
        ranks,
        whole("total", total, UINT64_MAX),
        whole("grain", grain, UINT64_MAX),
        out,
    )
    library().check(status, f"shares of {total} among {ranks} ranks")
    return list(out)
