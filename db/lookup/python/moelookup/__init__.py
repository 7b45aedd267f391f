"""Which plan is fastest for this step's expert capacity?

    table = moelookup.open()                       # once; see moelookup.torch for many ranks
    view = table.bind(experts=16, top_k=2, model_dim=1024, hidden_dim=4096,
                      ranks=8, ranks_per_node=8, dtype="bf16")
    plan = view.plan(capacity)                     # at every step
    plan.r, plan.d, plan.a                         # (1, 4, "linear")

This package is a thin layer over libmoelookup; moelookup.h is the contract.  moelookup.torch shares a
table between the ranks of torch.distributed.  moelookup.tutel runs a Tutel layer with its plans.
"""

from ._declared import Source
from ._library import Error, library_version
from .following import Beside, Capacities, Counts, Routes, State, record_counts
from .plan import Plan, Shape, SpacePlan
from .table import (
    SpaceView,
    Table,
    View,
    capacity,
    keys,
    open,
    shares,
    unpack,
    window,
)

__version__ = "0.9.0"

__all__ = [
    "Beside",
    "Capacities",
    "Counts",
    "Error",
    "Plan",
    "Routes",
    "Shape",
    "Source",
    "SpacePlan",
    "SpaceView",
    "State",
    "Table",
    "View",
    "capacity",
    "keys",
    "library_version",
    "open",
    "record_counts",
    "shares",
    "unpack",
    "window",
]
