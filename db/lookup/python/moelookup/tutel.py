"""Runs a Tutel moe_layer with the plan of each step's capacity.

    self.moe = tutel.moe.moe_layer(...)                  # stays where it is, with its parameters
    self.planned = moelookup.tutel.Adapter(self.moe, view)
    y = self.planned(x)                                  # instead of self.moe(x)

All ranks must run the same plan, or their collectives wait for each other for ever.  Three conditions:
- All ranks hold the same table (moelookup.torch.open or check) and bind the same shape.
- With a capacity factor above 0, x has the same number of tokens on every rank in every step.  Or
  pass inequivalent_tokens=True, which Tutel itself needs, too.
- All ranks call the same layers in the same order, with the same capacity_factor and top_k.

Run each r of the table once before you time a step: Tutel makes its process groups at an r's first
use.  For the hierarchical all-to-all export LOCAL_SIZE, the ranks per node.

A call's capacity_factor=0 drops no token.  A Tutel from before August 2025 (its pull request 303)
takes 0 for the gate's own factor; the adapter prints that once and continues.
"""

import functools
import os
import sys
import threading
from typing import Any, Callable, Collection, Dict, Optional, Set, Tuple

from .plan import Plan
from .table import View, capacity

_MOST_CHUNKS = 32  # what Tutel's overlap can hold
_ROUTING = "extract_critical"  # the function of Tutel that turns scores into a capacity
_OURS = frozenset(("adaptive_r", "a2a_ffn_overlap_degree"))
_DEFAULT = Plan()

_routing_now = threading.local()  # .adapter: whose layer this thread runs, if it wants to know


class Adapter:
    """Called like the layer.

    capacity factor > 0: the capacity is known before the step, and its plan runs.

    capacity factor <= 0, or inequivalent_tokens: Tutel finds the capacity while it routes, and d is
    fixed before that.  So d comes from the plan of the last step.  If this step's plan has the same d
    (or r=0, which has no chunks), it runs.  Otherwise the last step's plan runs as a whole, because
    r, d and a were measured together only.

    With activation recomputation the second forward must run the plan of the first.  For capacity
    factors <= 0, pass recompute=True and call next_step() after every optimizer step.  Then "the last
    step" is the one before the last next_step().

    runnable_r: the r that the experts can run.  By default layer.valid_rs for Tutel's ffn, and r=1
    for swiglu and for other experts: Tutel's gated experts ignore r, and yours may, too.  If the
    answer has another r, or an a that Tutel lacks (rail, 3dh), r=1 d=1 a=linear runs.
    """

    def __init__(
        self,
        layer: Any,
        view: View,
        *,
        runnable_r: Optional[Collection[int]] = None,
        recompute: bool = False,
    ) -> None:
        self.layer = layer
        self.view = view
        self.plan = _DEFAULT  # of the last call
        self._experts = int(layer.num_global_experts)  # a buffer: reading it waits for the device
        self._valid_r = frozenset(layer.valid_rs)
        if runnable_r is None:
            heeded = experts_heed_r(layer) and view.shape.activation != "swiglu"
            runnable_r = self._valid_r if heeded else (1,)
        self.runnable_r = frozenset(runnable_r)
        self._recompute = recompute
        self._before = self._next = _DEFAULT  # plans for the capacity before, and for the last one
        self._routed = False
        self._factor = 0.0  # of the call under way
        self._check()

    def __call__(
        self,
        input: Any,
        *,
        gate_index: int = 0,
        capacity_factor: Optional[float] = None,
        top_k: Optional[int] = None,
        reserve_dims: int = 1,
        inequivalent_tokens: bool = False,
        **more: Any,
    ) -> Any:
        for name in _OURS.intersection(more):
            raise TypeError(f"{name} is what the plan says: it is not an argument here")
        gate = self.layer.gates[gate_index]
        factor = gate.capacity_factor if capacity_factor is None else capacity_factor
        self._factor = factor
        run = functools.partial(
            self.layer,
            input,
            gate_index=gate_index,
            capacity_factor=factor,
            top_k=top_k,
            reserve_dims=reserve_dims,
            inequivalent_tokens=inequivalent_tokens,
            **more,
        )
        if factor > 0 and not inequivalent_tokens:
            tokens = getattr(self.view, "tokens", int)(_product(input.shape[:-reserve_dims]))
            k = min(top_k or gate.top_k, self._experts)
            return self._run(self._answer(capacity(factor, k, self._experts, tokens)), run)
        return self._run_routed(run)

    def next_step(self) -> None:
        """With recompute=True: the optimizer step is over; none of its forwards repeats."""
        self._before = self._next

    def _run(self, plan: Plan, run: Callable[..., Any]) -> Any:
        self.plan = plan
        self.layer.use_2dh = plan.a == "2dh"  # no argument exists for it
        return run(adaptive_r=plan.r, a2a_ffn_overlap_degree=_chunks(plan))

    def _run_routed(self, run: Callable[..., Any]) -> Any:
        _watch_routing(self.layer)
        self._routed = False
        outer = getattr(_routing_now, "adapter", None)
        _routing_now.adapter = self
        try:
            # No adaptive_r: it would be written over what _route sets.
            result = run(adaptive_r=None, a2a_ffn_overlap_degree=_chunks(self._before))
        finally:
            _routing_now.adapter = outer
        if not self._routed and not getattr(self.layer, "skip_moe", False):
            raise RuntimeError(f"the layer did not call {_ROUTING}: an unknown version of Tutel?")
        if not self._recompute:
            self.next_step()
        return result

    def _route(
        self, original: Callable[..., Any], *scores: Any, alignment: int = 1, **options: Any
    ) -> Tuple[Any, Any]:
        """Tutel's routing; it chooses the plan as soon as the capacity is known."""
        counts_with = options.get("capacity_factor", self._factor)
        if counts_with != self._factor:
            say_once(
                f"moelookup: this Tutel takes a call's capacity_factor={self._factor:g} for the gate's"
                f" own, {counts_with:g}, and drops tokens: make the gate with 0, or install a newer Tutel"
            )
        # Buckets count the rows before they are padded, so the padding is left for afterwards.
        critical, l_aux = original(*scores, alignment=1, **options)
        rows = int(critical[4])
        self._next = self._answer(rows)
        same_chunks = self._next.r == 0 or _chunks(self._next) == _chunks(self._before)
        self.plan = self._next if same_chunks else self._before
        self.layer.adaptive_degree = self.plan.r
        self.layer.use_2dh = self.plan.a == "2dh"
        self._routed = True
        padded = -(-rows // alignment) * alignment
        return (*critical[:4], padded, *critical[5:]), l_aux

    def _answer(self, rows: int) -> Plan:
        plan = self.view.plan(rows)
        # Tutel checks neither, and computes something wrong.
        if plan.r not in self._valid_r or not 1 <= plan.d <= _MOST_CHUNKS:
            raise RuntimeError(f"the layer cannot run {plan}: its r are {sorted(self._valid_r)}")
        runnable = plan.r in self.runnable_r and plan.a not in ("rail", "3dh")
        return plan if runnable else _DEFAULT

    def _check(self) -> None:
        shape = self.view.shape
        ranks = int(getattr(self.layer, "world_size", shape.ranks))
        if (self._experts, ranks) != (shape.experts, shape.ranks):
            raise ValueError(
                f"the layer has {self._experts} experts on {ranks} ranks,"
                f" the view {shape.experts} on {shape.ranks}"
            )
        if 1 not in self.runnable_r or not self.runnable_r <= self._valid_r:
            raise ValueError(
                f"runnable_r is {sorted(self.runnable_r)}: it must hold 1, and otherwise only"
                f" what the layer has, {sorted(self._valid_r)}"
            )
        several_nodes = 1 < shape.ranks_per_node < shape.ranks
        if several_nodes and os.environ.get("LOCAL_SIZE") != str(shape.ranks_per_node):
            raise ValueError(
                f"Tutel's hierarchical all-to-all reads LOCAL_SIZE: export"
                f" LOCAL_SIZE={shape.ranks_per_node}"
            )


def say_once(text: str, said: Set[str] = set()) -> None:
    if text not in said:
        said.add(text)
        print(text, file=sys.stderr)


def experts_heed_r(layer: Any) -> bool:
    """Whether the experts gather weights by r; others compute something wrong for r != 1."""
    experts = getattr(layer, "experts", None)
    return experts is None or type(experts).__name__ == "FusedExpertsNetwork"


def _chunks(plan: Plan) -> int:
    """r=0 has no all-to-all to overlap with, but Tutel would still pad the capacity for chunks."""
    return plan.d if plan.r else 1


def _product(sizes: Any) -> int:
    return functools.reduce(lambda product, size: product * int(size), sizes, 1)


def _watch_routing(layer: Any) -> None:
    """Wraps Tutel's routing function, once; the wrapper acts only inside an Adapter."""
    names = _names_of_forward(layer)
    original = names[_ROUTING]
    if hasattr(original, "moelookup_original"):
        return

    @functools.wraps(original)
    def routing(*args: Any, **options: Any) -> Any:
        adapter = getattr(_routing_now, "adapter", None)
        if adapter is None:
            return original(*args, **options)
        return adapter._route(original, *args, **options)

    routing.moelookup_original = original  # type: ignore[attr-defined]
    names[_ROUTING] = routing


def _names_of_forward(layer: Any) -> Dict[str, Any]:
    """The module globals where the layer's forward looks up its routing."""
    for kind in type(layer).__mro__:
        names = getattr(kind.__dict__.get("forward"), "__globals__", {})
        if _ROUTING in names:
            return names
    raise RuntimeError(f"{type(layer).__name__} has no {_ROUTING}: an unknown version of Tutel?")
