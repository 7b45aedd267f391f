"""Counts of a step, recorded for `moetune tune --routing FILE`: see moelookup.h for the rules."""

import array
import os
from ctypes import byref, c_uint32, c_void_p, sizeof
from typing import Any, Union

from ._library import CountsOptions, library
from .table import _Owned, _text, _whole

_UINT64_MAX = 2**64 - 1


class Counts(_Owned):
    """Records how many tokens chose each expert; record_counts() opens one."""

    __slots__ = ()

    def step(self, step: int, counts: Any, capacity: int = 0) -> None:
        """counts[e]: choices of expert e in this step, dropped or not, over all ranks.

        A list, an array or a tensor on the CPU.  capacity: c of this step; 0: not known.
        """
        try:
            values = array.array("I", counts)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"counts of step {step}: {error}") from None
        buffer = (c_uint32 * len(values)).from_buffer(values) if values else (c_uint32 * 1)()
        status = library().functions.moe_counts_step(
            self._live(),
            _whole("step", step, _UINT64_MAX),
            _whole("capacity", capacity),
            buffer,
            len(values),
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

    None: the file that $MOELOOKUP_COUNTS names; where it names none, nothing is recorded.  With
    tokens, T of each rank, all counts of a step are to add up to ranks * tokens * top_k.
    """
    given = dict(experts=experts, top_k=top_k, ranks=ranks, tokens=tokens, every=every, room=room)
    whole = {name: _whole(name, value) for name, value in given.items()}
    options = CountsOptions(struct_size=sizeof(CountsOptions), **whole)
    name = None if path is None else _text("path", os.fsencode(path))
    pointer = c_void_p()
    status = library().functions.moe_counts_open(byref(options), name, byref(pointer))
    what = "record counts" if name is None else f"record counts in {os.fsdecode(name)}"
    library().check(status, what)
    return Counts(pointer, library().functions.moe_counts_close)
