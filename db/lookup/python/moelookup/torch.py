"""One table on all ranks of a torch.distributed group.

Every function is a collective: all ranks of the group call it.  It returns on all of them, or raises
on all of them, whichever rank met the error.
"""

from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist

from . import table as _table
from ._library import Error
from .plan import Plan
from .table import Table, View, keys

_GOOD, _BAD = 1, 0  # a rank's own state


def open(path: Any = None, group: Any = None, src: int = 0, device: Any = None) -> Table:
    """moelookup.open() on rank src; every rank gets that table."""
    return _share(lambda: _table.open(path), group, src, device)


def broadcast(table: Optional[Table], group: Any = None, src: int = 0, device: Any = None) -> Table:
    """Gives rank src's table to every rank; other ranks may pass None.

    src is a rank of the whole world, as in torch.distributed.  device is where the group's backend
    wants its tensors: by default the current CUDA device for nccl, else the CPU.
    """

    def given() -> Table:
        if not isinstance(table, Table):
            raise TypeError(f"broadcast: rank {src} must have a Table, not {table!r}")
        return table

    return _share(given, group, src, device)


def check(table: Table, group: Any = None, device: Any = None) -> None:
    """Raises Error on every rank, unless all ranks hold the same table."""
    if _alone():
        table.digest()
        return
    _agree("table", table.digest, group, _device(group, device))


def plan_counts(view: View, counts: Any, group: Any = None, device: Any = None) -> Plan:
    """View.plan_counts() for the whole group, when each rank knows its own counts only.

    counts: the rows that this rank sends to each expert, E numbers.  The ranks reduce two numbers,
    the largest keys, and get the same plan for them: an upper limit of all counts together.  Over
    nccl the reduction waits for the device."""
    mine = keys(counts, view.shape.experts, view.shape.ranks)
    if not _alone():
        both = torch.tensor(mine, dtype=torch.int64, device=_device(group, device))
        dist.all_reduce(both, dist.ReduceOp.MAX, group=group)
        mine = both.tolist()
    return view.plan_uneven(*mine)


def _share(make: Callable[[], Table], group: Any, src: int, device: Any) -> Table:
    if _alone():
        return make()
    where = _device(group, device)
    if dist.get_rank() == src:
        table = _send(make, group, src, where)
    else:
        packed = _receive(group, src, where)
        table = None
    # A rank that cannot unpack (no library there, an older one) must not leave the others to wait
    # in their next collective.
    held: List[Table] = [] if table is None else [table]

    def digest() -> bytes:
        if not held:
            held.append(_table.unpack(packed))
        return held[0].digest()

    _agree("table", digest, group, where)
    return held[0]


def _send(make: Callable[[], Table], group: Any, src: int, where: Any) -> Table:
    """Sends the table, or the error that it then raises."""
    error: Optional[Exception] = None
    try:
        table = make()
        payload = table.pack()
    except Exception as caught:
        error, payload = caught, f"{type(caught).__name__}: {caught}".encode()
    status = getattr(error, "status", None) or 0
    header = [_GOOD if error is None else _BAD, status, len(payload)]
    dist.broadcast(torch.tensor(header, dtype=torch.int64, device=where), src, group=group)
    dist.broadcast(_bytes_tensor(payload, where), src, group=group)
    if error is not None:
        raise error
    return table


def _receive(group: Any, src: int, where: Any) -> bytes:
    header = torch.zeros(3, dtype=torch.int64, device=where)
    dist.broadcast(header, src, group=group)
    state, status, size = header.tolist()
    payload = _bytes_tensor(bytes(size), where)
    dist.broadcast(payload, src, group=group)
    packed = bytes(payload.tolist())
    if state != _GOOD:
        raise Error(f"rank {src}: {packed.decode('utf-8', 'replace')}", status or None)
    return packed


def _agree(noun: str, digest: Callable[[], bytes], group: Any, where: Any) -> None:
    """Raises on all ranks if a rank has no digest, or another one than the group's first rank."""
    error: Optional[Exception] = None
    try:
        mine = bytes([_GOOD]) + digest()
    except Exception as caught:
        error, mine = caught, bytes(33)
    heard = [_bytes_tensor(bytes(33), where) for _ in range(dist.get_world_size(group))]
    dist.all_gather(heard, _bytes_tensor(mine, where), group=group)
    if error is not None:
        raise error
    _compare(noun, [bytes(one.tolist()) for one in heard])


def _compare(noun: str, heard: List[bytes]) -> None:
    failed = [rank for rank, one in enumerate(heard) if one[0] != _GOOD]
    others = [rank for rank, one in enumerate(heard) if one != heard[0]]
    if failed:
        raise Error(f"no {noun} on {_ranks(failed)} of the group; their own errors say why")
    if others:
        raise Error(
            f"{_ranks(others)} of the group and rank 0 hold different {noun}s"
            f" ({heard[others[0]][1:5].hex()}... and {heard[0][1:5].hex()}...)"
        )


def _ranks(ranks: List[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _alone() -> bool:
    return not dist.is_available() or not dist.is_initialized()


def _device(group: Any, device: Any) -> Any:
    if device is not None:
        return torch.device(device)
    if str(dist.get_backend(group)).lower() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _bytes_tensor(data: bytes, where: Any) -> Any:
    return torch.tensor(list(data), dtype=torch.uint8, device=where)
