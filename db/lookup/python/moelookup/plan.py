"""Plans and shapes, as structs of the C libraries and as text."""

import re
from ctypes import byref, c_char, create_string_buffer, sizeof
from typing import Any, Dict, NamedTuple, NoReturn, Tuple, Union

from . import _declared as c
from ._declared import Source
from ._library import Error, library, whole

Words = Dict[str, Union[int, str]]


def words(text: str) -> Words:
    """ "E=8 dtype=f32" becomes {"E": 8, "dtype": "f32"}: the text form of layers and plans."""
    pairs = (word.partition("=") for word in text.split())
    return {name: int(v) if re.fullmatch("-?[0-9]+", v) else v for name, _, v in pairs}


# ---- plans


class Axes(Words):
    """A plan's values by axis.  For another name the KeyError lists the axes."""

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"{name} is no axis of this plan: {', '.join(self) or 'it has none'}")


class Plan(NamedTuple):
    """One way to run the layer.  Times are microseconds of a step, 0 = unknown."""

    r: int = 1  # parallelism degree; 0 = pure data parallel
    d: int = 1  # pipelining degree
    a: str = "linear"  # all-to-all: "linear", "2dh", "nccl", "rail" or "3dh"
    source: Source = Source.DEFAULT
    bucket: int = 0  # the bucket for which it was measured
    time_us: float = 0.0
    default_us: float = 0.0
    ctas: int = 0  # blocks of GPU threads for the all-to-alls; 0 = the library's choice
    e: str = "padded"  # which rows of experts are computed: "padded" or "sparse"
    w: str = "keep"  # gathered weights: "keep" until backward; "cache": backward gathers them again
    proto: str = "auto"  # NCCL_PROTO of weights' communicators: "ll", "ll128", "simple"

    def __str__(self) -> str:
        """The text form: r, d and a; then the other axes that do not have their defaults."""
        usual = self._field_defaults
        later = [name for name in _AXES[3:] if getattr(self, name) != usual[name]]
        return " ".join(f"{name}={getattr(self, name)}" for name in (*_AXES[:3], *later))


_AXES = ("r", "d", "a", "ctas", "e", "w", "proto")  # in the order of the text
_PLAN_WORDS = {"a": c.moe_a2a, "e": c.moe_experts, "w": c.moe_weights, "proto": c.moe_proto}


def parse_plan(text: str, source: Source) -> Plan:
    """The plan of a text that str(plan) wrote."""
    said: Dict[str, Any] = dict(words(text))
    unknown = said.keys() - set(_AXES)
    if not {"r", "d", "a"} <= said.keys():
        raise Error(f"{text!r} is no plan", -3)
    if unknown:
        raise Error(f"{text!r} has what this version does not know: {', '.join(unknown)}", -3)
    if any(type(value) is not type(Plan._field_defaults[name]) for name, value in said.items()):
        raise Error(f"{text!r} is no plan", -3)
    return Plan(source=source, **said)


_EMPTY = bytes(c.moe_plan(sizeof(c.moe_plan), r=1, d=1, source=Source.DEFAULT))


def new_plan() -> Any:
    """A struct moe_plan for the library to fill; read_plan reads its bytes."""
    return (c_char * len(_EMPTY)).from_buffer_copy(_EMPTY)


def read_plan(answer: bytes) -> Plan:
    plan = c.moe_plan.from_buffer_copy(answer)
    values = {name: getattr(plan, name) for name in Plan._fields}
    values.update({name: said[values[name]] for name, said in _PLAN_WORDS.items()})
    return Plan(**dict(values, source=Source(plan.source)))


def plan_struct(plan: Plan) -> bytes:
    """The bytes of a struct moe_plan: what read_plan reads."""
    values = {name: said.index(getattr(plan, name)) for name, said in _PLAN_WORDS.items()}
    return bytes(c.moe_plan(sizeof(c.moe_plan), **dict(plan._asdict(), **values)))


class SpacePlan(Axes):
    """A plan of a declared space: values by axis, in the order of the declaration.

    Times are microseconds of a step, 0 = unknown."""

    def __init__(self, values: Words, text: str, *rest: Any) -> None:
        super().__init__(values)
        self._text = text
        self.source, self.bucket, self.time_us, self.default_us = rest

    def __str__(self) -> str:
        return self._text

    def __copy__(self) -> "SpacePlan":
        rest = self.source, self.bucket, self.time_us, self.default_us
        return SpacePlan(self, self._text, *rest)

    def __reduce__(self) -> Any:
        rest = self.source, self.bucket, self.time_us, self.default_us
        return type(self), (dict(self), self._text, *rest)


def read_space_plan(plan: Any, plan_format: Any = None) -> SpacePlan:
    """The plan of a struct moe_plan of a declared space; integers are int, as in moetune.Asker.

    plan_format: the function of the library that knows the space; None: moelookup's."""
    room = create_string_buffer(512)
    plan_format = plan_format or library().functions.moe_plan_format
    library().check(min(plan_format(byref(plan), room, len(room)), 0), "plan")
    text = room.value.decode()
    values = words(text.rpartition(" ")[0])  # the last word names the space
    told = c.moe_plan.from_buffer_copy(plan.raw)
    return SpacePlan(
        values, text, Source(told.source), told.bucket, told.time_us, told.default_us
    )


# ---- shapes


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
    layers: int = 0  # equal MoE layers in a step; 0 = any
    groups: int = 0  # of experts; 0 = none
    group_limit: int = 0  # a token's experts come from so many groups
    router: str = "softmax"  # or "sigmoid", "cosine", "bilevel": a group, then an expert in it
    order: str = "token"  # who gets slots first; "priority": tokens with the largest gate probability
    projection: int = 0  # dimensions of a cosine router; 0 = 256, at most model_dim
    combine: str = "sum"  # what a token gets; "choices": one row per choice
    ranks_per_rack: int = 0  # a rack holds several nearby nodes; 0 = all are equally near


# Fields of a Shape that are words: the words, by their number in the struct.
_SHAPE_WORDS: Dict[str, Tuple[Any, ...]] = {
    "dtype": c.moe_dtype,
    "train": (False, True),
    "activation": c.moe_act,
    "layout": c.moe_layout,
    "shares": c.moe_shares_by,
    "router": c.moe_router,
    "order": c.moe_order,
    "combine": c.moe_combine,
}
_C_NAMES = {"train": "pass"}  # where the struct has another name


def checked_shape(given: Shape) -> Tuple[Shape, c.moe_shape]:
    """Checks that numbers are whole and words known; the library checks the rest."""
    numbers = [name for name in Shape._fields if name not in _SHAPE_WORDS]
    values: Dict[str, Any] = {name: whole(name, getattr(given, name)) for name in numbers}
    shape = given._replace(train=bool(given.train), **values)
    for name, known in _SHAPE_WORDS.items():
        word = getattr(shape, name)
        if word not in known:
            raise ValueError(f"{name} is {word!r}: it must be one of {', '.join(known)}")
        values[_C_NAMES.get(name, name)] = known.index(word)
    return shape, c.moe_shape(sizeof(c.moe_shape), **values)


def shape_words(shape: c.moe_shape) -> Dict[str, Any]:
    """The arguments of bind() for a struct moe_shape."""
    said = {name: getattr(shape, _C_NAMES.get(name, name)) for name in Shape._fields}
    return dict(said, **{name: known[said[name]] for name, known in _SHAPE_WORDS.items()})
