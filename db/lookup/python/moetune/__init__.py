"""Which plan is fastest for this step's expert capacity?  A trainer finds out while it trains.

    with moetune.Tuner("moetune.db", experts=16, top_k=2, model_dim=1024, hidden_dim=4096,
                       ranks=1, ranks_per_node=1) as tuner:
        plan = tuner.ask(capacity)                 # at every step
        ...                                        # the step, under this plan
        tuner.tell(microseconds)                   # after it

The contract is that of moetune.h, of which this is a thin layer.  moetune.torch is the same for the
ranks of torch.distributed, moetune.tutel tunes a Tutel layer; attach() is a Tuner, or whoever
started this program by `moetune tune --exec`; asker() is for programs whose plans moetune knows by a
declared space.  What is learnt, moelookup looks up.
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
