"""Which plan is fastest for this step's expert capacity?  Measures it while training goes on.

    with moetune.Tuner("moetune.db", experts=16, top_k=2, model_dim=1024, hidden_dim=4096,
                       ranks=1, ranks_per_node=1) as tuner:
        plan = tuner.ask(capacity)                 # at every step
        ...                                        # the step, under this plan
        tuner.tell(microseconds)                   # after it

This package is a thin layer over libmoetune; moetune.h is the contract.  moetune.torch does the same
for the ranks of torch.distributed, and moetune.tutel tunes a Tutel layer.  attach() is a Tuner, or
speaks with the `moetune tune --exec` that started this program.  asker() is for programs that declare
a space of their own plans.  moelookup reads what was learnt.
"""

from moelookup import Error, Plan, Shape, Source, capacity
from moelookup.plan import words

from .lines import Asker, Attached, asker, attach
from .tuner import Status, Tuner, library_version

__version__ = "0.9.0"

__all__ = [
    "Asker",
    "Attached",
    "Error",
    "Plan",
    "Shape",
    "Source",
    "Status",
    "Tuner",
    "asker",
    "attach",
    "capacity",
    "library_version",
    "words",
]
