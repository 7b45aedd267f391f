"""The line protocol of `moetune tune --exec` and `verify --exec`, from the program's side."""

import contextlib
import os
import stat
from typing import IO, Any, Dict, Optional, Tuple, Union

from moelookup import Error, Plan, Shape, Source
from moelookup._library import UINT64_MAX, whole
from moelookup.plan import Axes, Words, parse_plan, words
from moelookup.table import keys

from .tuner import Status, Tuner, _time

_TO, _FROM, _WINDOW = "MOETUNE_TO", "MOETUNE_FROM", "MOETUNE_WINDOW"
_LAYER = "MOETUNE_LAYER"
_SPACE, _LAUNCH = "MOETUNE_SPACE", "MOETUNE_PLAN"


def is_attached() -> bool:
    """Whether this program was started by `moetune tune --exec` or `verify --exec`."""
    return all(os.environ.get(name) for name in (_TO, _FROM))


def attached_window() -> int:
    """The width of a bucket, as the command says it; 0: the command does not say."""
    said = os.environ.get(_WINDOW, "")
    return int(said) if is_attached() and said.isdigit() else 0


def check_attached(layer: Dict[str, Any]) -> None:
    """Raises Error if the command's flags name another layer than this one."""
    said = words(os.environ.get(_LAYER, ""))
    names = zip(("E", "k", "D", "H", "W", "dtype"), (*Shape._fields[:5], "dtype"))
    mine = {short: layer[name] for short, name in names if name in layer and short in said}
    other = [
        f"{short}={said[short]}, not {one}" for short, one in mine.items() if str(one) != str(said[short])
    ]
    if other:
        raise Error(
            f"tune --exec: its flags name another layer than this program's: {'; '.join(other)}"
        )


def attach(db: Any = None, **layer: Any) -> Any:
    """Attached(), if `moetune tune --exec` started this program; else Tuner(db, **layer).

    Both have the same ask and tell, so a program needs no change to run either way.  One process
    attaches for all ranks; moetune.torch.Tuner does that.
    """
    if is_attached():
        check_attached(layer)
        return Attached()
    if not layer:
        raise Error(
            f"attach: ${_TO} and ${_FROM} are not set (moetune tune --exec), nor is a layer given"
        )
    return Tuner(db, **layer)


class _Speaker:
    """One end of two pipes: a line out, a line back."""

    def __init__(self, speaks: bool = True) -> None:
        self._to: Optional[IO[str]] = None
        self._answers: Optional[IO[str]] = None
        self._asked = False
        if speaks:
            self._to = _open(_TO, "w")
            self._answers = _open(_FROM, "r")

    def fail(self, why: str = "") -> None:
        said = " ".join(why.split()).encode("ascii", "replace").decode()
        self._answer("failed", said[:150])

    def status(self) -> Status:
        said = self._say("status", "status")[1].split()
        pairs: Dict[str, Any] = {name: int(n) for name, n in zip(said[::2], said[1::2])}
        return Status(**{name: n for name, n in pairs.items() if name in Status._fields})

    def close(self) -> None:
        for file in (self._to, self._answers):
            if file is not None:
                with contextlib.suppress(OSError):  # every line was already flushed
                    file.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, word: str, rest: str) -> None:
        if not self._asked:
            raise Error(f"{word}: nothing was asked", -1)
        self._asked = False
        self._say(f"{word} {rest}".rstrip(), "ok")

    def _say(self, line: str, *wanted: str) -> Tuple[str, str]:
        """Which of the wanted words answers, and what follows it."""
        if self._to is None or self._answers is None:
            raise Error(f"{line}: this rank only follows", -1)
        try:
            print(line, file=self._to, flush=True)
            answer = self._answers.readline()
        except OSError as error:
            raise Error(f"{line}: moetune is gone: {error}") from None
        word, _, rest = answer.rstrip("\n").partition(" ")
        if word not in wanted:
            raise Error(
                f"{line}: moetune answers {answer!r}" if answer else f"{line}: moetune is gone"
            )
        return word, rest


class Attached(_Speaker):
    """A Tuner at the other end of two pipes; the command says the layer and the database.

    speaks=False is for ranks that only call follow().
    """

    order_bytes = 128

    def __init__(self, speaks: bool = True) -> None:
        super().__init__(speaks)
        self._last: Optional[str] = None

    def ask(self, capacity: int) -> Plan:
        rows = whole("capacity", capacity)
        plan = parse_plan(self._say(f"ask {rows}", "plan")[1], Source.TENTATIVE)
        self._last, self._asked = f"{rows} {plan}", True
        return plan

    def ask_counts(self, counts: Any) -> Plan:
        layer = words(os.environ.get(_LAYER, ""))
        return self.ask(keys(counts, layer["E"], layer["W"])[0])

    def tell(self, time_us: float) -> None:
        self._answer("tell", repr(_time(time_us)))

    def order(self) -> bytes:
        if self._last is None:
            raise Error("order: nothing was asked", -1)
        return self._last.encode().ljust(self.order_bytes, b"\0")

    def follow(self, order: bytes, capacity: int) -> Plan:
        rows, _, plan = bytes(order).rstrip(b"\0").decode("ascii", "replace").partition(" ")
        if rows != str(capacity):
            raise Error(f"follow: no order for capacity {capacity}", -3)
        return parse_plan(plan, Source.TENTATIVE)

    # The same methods as Tuner's.  Here every step is an exchange, and its time is not counted.

    def until_due(self) -> int:
        return 0

    def orders(self) -> bytes:
        return self.order()

    def obey(self, orders: bytes, capacity: int) -> Plan:
        return self.follow(orders, capacity)

    def spent(self, us: float) -> None:
        pass


class Asker(_Speaker):
    """Asks `moetune tune --space FILE --exec` for the plans that this program's space declares.

    layer: the layer of the table, as E, k, D, H, W, dtype; moetune's defaults where the command's
    flags name none.  launch: the values of the axes that need a restart; they do not change.  One
    process speaks for all ranks; moetune.torch.Asker does that.
    """

    def __init__(self) -> None:
        if not (is_attached() and os.environ.get(_SPACE)):
            raise Error(f"${_SPACE}, ${_TO} and ${_FROM} are wanted: moetune tune --space sets them")
        super().__init__()
        self.layer = words(os.environ.get(_LAYER, ""))
        self.launch = Axes(words(os.environ.get(_LAUNCH, "")))

    def ask(self, key: int, skew: Optional[float] = None) -> Optional[Words]:
        """The value of every axis for this step; None: moetune needs no more steps, end the program.

        key: this step's key of the space; skew: its class, if the space has one."""
        line = f"ask {whole('key', key, UINT64_MAX)}" + ("" if skew is None else f" {float(skew)!r}")
        word, plan = self._say(line, "plan", "end")
        self._asked = word == "plan"
        return Axes(words(plan)) if self._asked else None

    def tell(self, time_us: float, memory: Optional[int] = None, **measured: float) -> None:
        """The time of the step on the slowest rank; its bytes of memory; other numbers for guards."""
        said = repr(_time(time_us)) + (
            "" if memory is None else f" memory={whole('memory', memory, 2**63)}"
        )
        for name, value in measured.items():
            said += f" {name}={float(value)!r}"  # also nan; every guard refuses it
        self._answer("tell", said)


class OnePlan(_Speaker):
    """Replaces an Asker if a person starts the program: runs one plan some steps, and prints times."""

    def __init__(self, plan: str, steps: int) -> None:
        super().__init__(speaks=False)
        self.layer: Words = {}
        self.launch = Axes(words(plan))
        self._text, self._left = plan, steps

    def ask(self, key: int, skew: Optional[float] = None) -> Optional[Words]:
        self._left -= 1
        return Axes(self.launch) if self._left >= 0 else None

    def tell(self, time_us: float, memory: Optional[int] = None, **measured: float) -> None:
        pairs = dict({} if memory is None else {"memory": memory}, **measured)
        print(f"{self._text}: {time_us:.1f} us", *(f"{n}={v:g}" for n, v in pairs.items()))

    def fail(self, why: str = "") -> None:
        print(f"{self._text}: failed: {why}")


def asker(plan: str, steps: int = 5) -> Union[Asker, OnePlan]:
    """An Asker, if `moetune tune --space` started this program; else this one plan."""
    return Asker() if os.environ.get(_SPACE) else OnePlan(plan, steps)


def _open(name: str, mode: str) -> IO[str]:
    """Opens the pipe by its name.  The number of its descriptor may be reused: a launcher may have
    closed it.  The number serves where /proc does not show moetune's process."""
    try:
        return open(os.environ[name], mode, encoding="ascii")
    except OSError as error:
        number = os.environ.get(name + "_FD", "")
        if not number.isdigit() or not _is_pipe(int(number)):
            raise Error(f"${name}: {error}") from None
        return open(int(number), mode, encoding="ascii", closefd=False)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False
