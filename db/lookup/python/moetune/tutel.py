"""Tunes a Tutel moe_layer while it trains.

    self.moe = tutel.moe.moe_layer(...)                       # stays where it is
    self.tuned = moetune.tutel.Tuned(self.moe, "moetune.db")  # once, on every rank
    y = self.tuned(x)                                         # instead of self.moe(x)
    self.tuned.close()                                        # at the end

It measures this layer's forward and backward only, wherever the layer lies in the model.  On a GPU it
uses CUDA events, which no step waits for; on a CPU a clock.  The longest time of all ranks counts.  As
in moelookup.tutel, all ranks call the same layers in the same order with the same capacity.

It needs torch 2.0: older versions do not say when the last gradient of a layer is ready.
moelookup.tutel runs with any version.
"""

import contextlib
import importlib.metadata
import json
import weakref
from typing import Any, Collection, Dict, Iterator, List, Optional

import torch
from moelookup import Plan, Shape, Source
from moelookup.tutel import Adapter, experts_heed_r, say_once

from .marks import HostMarks, Marks, is_captured, waited_us
from .torch import Tuner
from .tuner import Status

if not hasattr(torch.autograd.graph, "register_multi_grad_hook"):
    raise ImportError(f"moetune.tutel needs torch 2.0 or newer, and this is torch {torch.__version__}")

_DEFAULT = Plan()
_ALL_TO_ALLS = ("linear", "2dh")  # Tutel's
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_WARM_CHUNKS = 2  # Tutel runs other code for 1 chunk than for more


class Tuned:
    """Called like the layer; asks before the layer runs, and tells at the next call.

    Calls that compute no gradients (evaluation, unless train=False) run the best plan known and teach
    nothing.  So do both forwards of a reentrant checkpoint: use use_reentrant=False.  Then the second
    forward runs the plan of the first and counts as a part of its backward.  A call teaches nothing
    either if its backward is not over by the next call, as with several micro-batches at once.

    Of several equal layers, one is tuned and the others run what it found.  Equal are layers with the
    same database and arguments while the first is open, and adapters made by also(layer).  Layers of
    another shape need a database of their own.

    A table holds for any number of tokens; tokens= only sets the default width of buckets.  All ranks
    must have the same number, or pass inequivalent_tokens=True.  If numbers differ all the same,
    ranks run the plan of the last number that all had, and all raise at the next exchange.  After a
    change on all ranks, the next 64 steps are exchanges.

    axes: the axes to tune.  By default r; d on a GPU (Tutel's CPU path has no chunks); a if there are
        several nodes: pass ranks_per_node, and export LOCAL_SIZE.
    dropless: whether calls use capacity factors of 0 or below, or inequivalent_tokens.  Then d is
        fixed before the capacity is known, and stays 1.
    runnable_r: the r that the experts support, [0, 1, 2].  By default all for Tutel's ffn, and 1 for
        other experts, which ignore r and would compute something wrong.
    tuner: an open tuner, instead of all other arguments.
    Other arguments are those of moetune.torch.Tuner.  The layer gives the shape, except for the
    activation, which Tutel does not tell.
    """

    def __init__(
        self,
        layer: Any,
        db: Any = None,
        *,
        tuner: Any = None,
        runnable_r: Optional[Collection[int]] = None,
        dropless: Optional[bool] = None,
        axes: Optional[str] = None,
        train: bool = True,
        warm: bool = True,
        **options: Any,
    ) -> None:
        _check_kind(layer)
        self.layer, self._name = layer, ""
        self._first: Optional[Tuned] = None  # one that was opened alike
        self._train = train
        self._dropless = _is_dropless(layer) if dropless is None else dropless
        self._axes = _axes(layer, self._dropless, options) if axes is None else axes
        if self._dropless and "d" in _names(self._axes):
            raise ValueError("d cannot be tuned where the capacity is counted while routing")
        if tuner is None:
            shape = dict(layer_shape(layer, **options), train=train)
            options.setdefault("layer", implementation(layer))
            options.setdefault("group", layer.group)
            options = dict(shape, **dict(options, axes=self._axes))
            self._name = repr((db, id(options["group"]), sorted(options.items(), key=str)))
            self._first = _tuned.get(self._name)
            tuner = self._first.tuner if self._first else Tuner(db, **options)
            _tuned.setdefault(self._name, self)
        self.tuner = tuner
        self._known = self._first._known if self._first else _Known(tuner)
        self._asking = _Asking(tuner, self._known)
        self._adapter = Adapter(layer, self._asking, runnable_r=runnable_r)  # type: ignore[arg-type]
        self._asking.runnable_r = self._adapter.runnable_r
        self._clock: Any = Marks if _device_of(layer).type == "cuda" else HostMarks
        self._watch: Optional[_Watch] = None
        if warm:
            self._warm()

    @property
    def plan(self) -> Plan:
        """Of the last call."""
        return self._adapter.plan

    @property
    def runnable_r(self) -> Collection[int]:
        """The r that are tuned; other answers are refused."""
        return self._adapter.runnable_r

    def also(self, layer: Any, **options: Any) -> Adapter:
        """For a layer like this one: runs what is known here."""
        return Adapter(layer, self._known, **options)  # type: ignore[arg-type]

    def __call__(self, input: Any, **options: Any) -> Any:
        if is_captured():  # no time, no exchange
            return self._run(input, self._known, options)
        if _inside_backward() and self._watch is not None and self._watch.is_under_way():
            return self._run(input, self._asking.last, options)
        if self._first or (self._train and (_inside_backward() or not torch.is_grad_enabled())):
            return self._run(input, self._known, options)
        several = self._watch is not None and self._watch.is_under_way()
        self._tell()
        self._watch = _Watch(self._clock, self._train and several)
        self._asking.d_is_settled = self._counts_while_routing(options)
        result = self._run(input, self._asking, options)
        self._watch.follow(result, self._inputs(input) if self._train else None)
        return result

    def status(self) -> Status:
        status: Status = self.tuner.status()
        return status

    def close(self) -> None:
        """Tells the last call's time and publishes what is known.  Call it on every rank."""
        if self._first:
            return
        _tuned.pop(self._name, None)
        self._tell()
        getattr(self.tuner, "flush", int)()
        self.tuner.close()

    def __enter__(self) -> "Tuned":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        elif not self._first:  # other ranks may be elsewhere: no collective more
            _tuned.pop(self._name, None)
            self.tuner.close()

    def _run(self, input: Any, view: Any, options: Dict[str, Any]) -> Any:
        self._adapter.view = view
        return self._adapter(input, **options)

    def _tell(self) -> None:
        """Tells the last call's time; if one rank does, all do."""
        watch, self._watch = self._watch, None
        if watch is None or not self._asking.pending:
            return
        self._asking.pending = False
        marks = watch.marks()
        if isinstance(marks, HostMarks) or not isinstance(self.tuner, Tuner):
            self.tuner.tell(marks and waited_us(marks))
        else:
            self.tuner.tell(marks)

    def _counts_while_routing(self, options: Dict[str, Any]) -> bool:
        factor = options.get("capacity_factor")
        if factor is None:
            factor = self.layer.gates[options.get("gate_index", 0)].capacity_factor
        return factor <= 0 or bool(options.get("inequivalent_tokens"))

    def _inputs(self, input: Any) -> List[Any]:
        wanted = [p for p in self.layer.parameters() if p.requires_grad]
        return wanted + ([input] if input.requires_grad else [])

    def _warm(self) -> None:
        """Tutel makes a process group at the first use of an r, and NCCL a connection."""
        where = next(self.layer.parameters())
        experts = int(self.layer.num_global_experts)
        x = torch.zeros(experts, self.layer.model_dim, dtype=where.dtype, device=where.device)
        axes = _names(self._axes)
        several = range(1, _WARM_CHUNKS + 1) if "d" in axes else (1,)
        words = _ALL_TO_ALLS if "a" in axes else ("linear",)
        plans = [
            Plan(r, d, a) for r in sorted(self._adapter.runnable_r) for d in several for a in words
        ]
        with _untouched(self.layer), torch.no_grad():
            for plan in plans:
                self._run(x, _Fixed(self.tuner.shape, plan), {"capacity_factor": 1.0})


# The open Tuned of this process, by database and arguments.
_tuned: "weakref.WeakValueDictionary[str, Tuned]" = weakref.WeakValueDictionary()


# ---- what an Adapter takes in place of a view


class _Fixed:
    def __init__(self, shape: Shape, plan: Plan) -> None:
        self.shape, self._plan = shape, plan

    def plan(self, _: int) -> Plan:
        return self._plan


class _Known:
    """The tuner's answers that were no trials, by bucket; the same on all ranks."""

    def __init__(self, tuner: Any) -> None:
        self._tuner, self.shape, self._window = tuner, tuner.shape, tuner.window
        self._plans: Dict[int, Plan] = {}

    def plan(self, capacity: int) -> Plan:
        return self._plans.get(capacity // self._window, _DEFAULT)

    def tokens(self, count: int) -> int:
        """The tokens of the last training step that ranks agreed on: here they may differ."""
        return getattr(self._tuner, "value", None) or count

    def learn(self, capacity: int, plan: Plan) -> None:
        if plan.source != Source.TENTATIVE:
            self._plans[capacity // self._window] = plan


class _Asking:
    """Asks the tuner until it names a plan that the layer can run."""

    def __init__(self, tuner: Any, known: _Known) -> None:
        self.shape, self.tuner, self.known = tuner.shape, tuner, known
        self.runnable_r: Collection[int] = ()
        self.d_is_settled = False  # when the capacity is known
        self.pending = False
        self.last = _Fixed(self.shape, _DEFAULT)

    def tokens(self, count: int) -> int:
        """Ranks with different plans would wait for ever, so no rank decides by a number of its own."""
        return int(getattr(self.tuner, "agreed", int)(count))

    def plan(self, capacity: int) -> Plan:
        plan = self._ask(capacity)
        self.known.learn(capacity, plan)
        self.last = _Fixed(self.shape, plan)
        return plan

    def _ask(self, capacity: int) -> Plan:
        refused: Optional[Plan] = None
        while True:
            plan: Plan = self.tuner.ask(capacity)
            self.pending = self._runs(plan)
            if self.pending:
                return plan
            if plan == refused:  # pinned, perhaps: it will not be talked out of it
                if plan.source == Source.OVERRIDE:
                    say_once(f"moetune: the layer cannot run {plan}, which was pinned: {_DEFAULT} runs instead")
                return _DEFAULT
            getattr(self.tuner, "refuse", self.tuner.fail)(f"the layer cannot run {plan}")
            refused = plan

    def _runs(self, plan: Plan) -> bool:
        if str(plan) != f"r={plan.r} d={plan.d} a={plan.a}" or plan.a not in _ALL_TO_ALLS:
            return False  # an axis that Tutel has not
        chunks = plan.d if plan.r else 1
        return plan.r in self.runnable_r and (chunks == 1 or not self.d_is_settled)


# ---- measuring


class _Watch:
    """Times forward and backward of one call, without what happens between them."""

    def __init__(self, clock: Any, spoilt: bool) -> None:
        self._spoilt = spoilt  # its backward pass may be part of a larger one
        self._marks = clock()
        self._hooks: List[Any] = []
        self._wanted = 2

    def follow(self, result: Any, inputs: Optional[List[Any]]) -> None:
        """The forward pass is over.  inputs: the tensors whose gradients backward computes."""
        self._mark()
        if inputs is None:
            return
        self._wanted = 4
        if not result.requires_grad or not inputs:
            return
        grads = torch.autograd.graph.register_multi_grad_hook
        self._hooks = [result.register_hook(self._mark), grads(inputs, self._mark)]

    def is_under_way(self) -> bool:
        return len(self._marks) < self._wanted

    def marks(self) -> Any:
        """The marks; None: the call did not come to its end."""
        for hook in self._hooks:
            hook.remove()
        return self._marks if len(self._marks) == self._wanted and not self._spoilt else None

    def _mark(self, *_: Any) -> None:
        self._marks.add()


def _inside_backward() -> bool:
    """Whether backward runs: a forward inside it repeats an earlier one."""
    return bool(torch._C._current_graph_task_id() != -1)


# ---- what a layer is


def _check_kind(layer: Any) -> None:
    wanted = ("gates", "experts", "num_global_experts", "model_dim", "valid_rs")
    lacks = [name for name in wanted if not hasattr(layer, name)]
    if lacks:
        raise TypeError(
            f"{type(layer).__name__} is no layer of tutel.moe.moe_layer: it has no {', '.join(lacks)};"
            " moetune.torch.Tuner is ask and tell for any layer"
        )


def layer_shape(layer: Any, **given: Any) -> Dict[str, Any]:
    """The layer's shape in moetune's words.  `given` adds what the layer does not say, and its
    activation, which is a guess.  It must not contradict the layer."""
    shape = _said_shape(layer, given.get("hidden_dim"))
    for name in shape.keys() & given.keys() - {"activation"}:
        if shape[name] != given[name]:
            raise ValueError(f"{name}={given[name]}: the layer has {shape[name]}")
    return dict(shape, activation=given.get("activation", shape["activation"]))


def _said_shape(layer: Any, hidden_given: Optional[int]) -> Dict[str, Any]:
    experts = layer.experts
    gated = not experts_heed_r(layer) and hasattr(experts, "W_fc3_full_shape")
    hidden = (
        experts.W_fc3_full_shape[1] if gated else getattr(experts, "hidden_size_per_expert", None)
    )
    hidden = hidden_given if hidden is None else hidden
    dtype = _DTYPES.get(next(experts.parameters()).dtype)
    if hidden is None:
        raise ValueError(f"{type(experts).__name__} does not say its hidden size: pass hidden_dim=")
    if dtype is None:
        raise ValueError(
            f"{next(experts.parameters()).dtype} cannot be tuned: {', '.join(_DTYPES.values())} can"
        )
    return {
        "experts": int(layer.num_global_experts),
        "top_k": min(int(layer.gates[0].top_k), int(layer.num_global_experts)),
        "model_dim": int(layer.model_dim),
        "hidden_dim": int(hidden),
        "dtype": dtype,
        "activation": "swiglu" if gated else "relu",
        **_said_router(layer),
    }


def _said_router(layer: Any) -> Dict[str, Any]:
    """The words of the shape for an unusual gate; other gates add none."""
    said: Dict[str, Any] = {}
    projector = getattr(layer.gates[0], "cosine_projector", None)
    if getattr(layer, "batch_prioritized_routing", False):
        said["order"] = "priority"
    if projector is not None:
        said.update(router="cosine", projection=int(projector.out_features))
    return said


def implementation(layer: Any) -> str:
    """The code that runs the layer, with its version: a part of the table's name."""
    return f"tutel {_tutel_version()}, torch {torch.__version__}, {type(layer.experts).__name__}"


def _tutel_version() -> str:
    """The version and, if pip installed it from git, the commit: Tutel has been 0.4 since 2025."""
    try:
        tutel = importlib.metadata.distribution("tutel")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
    came_from = json.loads(tutel.read_text("direct_url.json") or "{}")
    commit = came_from.get("vcs_info", {}).get("commit_id", "")
    return f"{tutel.version} ({commit[:7]})" if commit else str(tutel.version)


def _axes(layer: Any, dropless: bool, options: Dict[str, Any]) -> str:
    ranks = int(layer.world_size)
    per_node = int(options.get("ranks_per_node") or ranks)
    may_vary = {
        "r": experts_heed_r(layer),
        "d": _device_of(layer).type == "cuda" and not dropless,
        "a": 1 < per_node < ranks,
    }
    return ",".join(name for name, may in may_vary.items() if may)


def _names(axes: str) -> List[str]:
    """ "r,a=linear:2dh" gives r and a."""
    return [word.partition("=")[0] for word in axes.split(",")]


def _is_dropless(layer: Any) -> bool:
    return any(gate.capacity_factor <= 0 for gate in layer.gates)


def _device_of(layer: Any) -> Any:
    return next(layer.parameters()).device


@contextlib.contextmanager
def _untouched(layer: Any) -> Iterator[None]:
    """Runs without the gate's noise, which would use up random numbers, and restores the layer."""
    names = ("adaptive_degree", "a2a_ffn_overlap_degree", "use_2dh", "training")
    before = {name: getattr(layer, name) for name in names}
    layer.eval()
    try:
        yield
    finally:
        layer.train(before.pop("training"))
        for name, value in before.items():
            setattr(layer, name, value)
