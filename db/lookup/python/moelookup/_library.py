"""Finds and loads libmoelookup.so.1, or libmoetune.so.1, and prepares calls into it."""

import array
import ctypes
import functools
import operator
import os
import sys
import warnings
from ctypes import c_void_p, sizeof
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

from ._declared import moelookup_functions

NAME = "libmoelookup.so.1"
UINT32_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1


class Error(Exception):
    """The library refused a call, or was not found.

    status is the library's negative enum moe_status; None if the error is not the library's.
    """

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Any:  # with its status: worker processes send exceptions home
        return type(self), (str(self), self.status)


# ---- libraries


def _places(name: str, variable: str) -> Iterator[str]:
    """Paths to try, in this order; the dynamic linker looks for a name without a folder."""
    chosen = os.environ.get(variable)
    if chosen:  # and nothing else: another library than the chosen one would be a surprise
        yield chosen
        return
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, name)
    # Of the same wheel: here is PREFIX/lib/python3.N/site-packages/moelookup.
    yield os.path.normpath(os.path.join(here, "..", "..", "..", name))
    yield name
    for folder in (os.path.join(sys.prefix, "lib"), "/usr/local/lib", "/usr/local/lib64"):
        yield os.path.join(folder, name)


def load(name: str, variable: str) -> ctypes.CDLL:
    """variable: the environment variable that may name the file."""
    tried: List[str] = []
    for place in _places(name, variable):
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(f"  {place}: {error}")
    raise Error(
        f"{name} was not found; install it (make install; `pip install --target` leaves it out),"
        f" set LD_LIBRARY_PATH to the folder where it lies, or point ${variable} at it."
        "  Tried:\n" + "\n".join(tried)
    )


def declare(library: Any, what: str, functions: Dict[str, Tuple[Any, List[Any]]]) -> None:
    """Declares what the functions take and return; the library `what` must have all of them."""
    try:
        for name, (result, arguments) in functions.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise Error(f"{library._name} is not a whole {what}: {error}") from None


class Library:
    """The functions of the C library by name; a trainer calls get() at every step."""

    def __init__(self) -> None:
        releasing = load(NAME, "MOELOOKUP_LIBRARY")
        # Through PyDLL a call keeps the interpreter's lock: it takes far less time than to give the
        # lock back, and no other thread can close a table while it is in use.
        self.functions = ctypes.PyDLL(releasing._name)
        declare(self.functions, "libmoelookup", moelookup_functions)
        self.open = releasing.moelookup_open  # reads files, perhaps over a network
        self.open.restype, self.open.argtypes = moelookup_functions["moelookup_open"]
        # A function object of its own, without argtypes: then arguments must be of ctypes' own
        # types, save an integer, whose low 32 bits are passed; in return the call takes half the
        # time.
        self.get = self.functions["moelookup_get"]

    def check(self, status: int, what: str) -> None:
        if status:
            reason = self.functions.moelookup_strerror(status).decode()
            raise Error(f"{what}: {reason}", status)


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """Loads the library at its first use, so importing this package never fails."""
    return Library()


def library_version() -> str:
    """The version of the C library that was loaded."""
    return str(library().functions.moelookup_version().decode())


# ---- arguments


def whole(name: str, value: Any, limit: int = UINT32_MAX) -> int:
    number = operator.index(value)
    if not 0 <= number <= limit:
        raise ValueError(f"{name} is {number}: it must be from 0 to {limit}")
    return number


def c_text(name: str, value: bytes) -> bytes:
    if b"\0" in value:  # where C would stop reading
        raise ValueError(f"{name} holds a zero byte")
    return value


def numbers(what: str, given: Any, kind: Any = ctypes.c_uint32, code: str = "I") -> Any:
    """An array of C of whole numbers from a list, an array or a tensor, row after row."""
    device = getattr(given, "device", None)
    if getattr(device, "type", "cpu") != "cpu":
        # Python's own filter shows it once for each line that calls.
        warnings.warn(f"{what} lie on {device}: reading them waits for the device", stacklevel=3)
    given = given.flatten() if hasattr(given, "flatten") else given
    values = given.tolist() if hasattr(given, "tolist") else list(given)
    if values and all(hasattr(row, "__len__") and not isinstance(row, str) for row in values):
        rows = [row.tolist() if hasattr(row, "tolist") else list(row) for row in values]
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{what}: rows of {sorted({len(row) for row in rows})} numbers")
        values = [number for row in rows for number in row]
    try:
        held = array.array(code, values)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{what}: {error}") from None
    return (kind * len(held)).from_buffer(held) if held else (kind * 0)()


def fill(kind: Any, **values: Any) -> Any:
    """A struct of whole numbers, with its struct_size."""
    return kind(sizeof(kind), **{name: whole(name, value) for name, value in values.items()})


_Self = TypeVar("_Self", bound="Owned")


class Owned:
    """A pointer from the library, which is freed once.

    It never changes otherwise: threads share it, and a copy is the object itself.
    """

    __slots__ = ("_pointer", "_owned", "_free", "__weakref__")

    def __init__(self, pointer: c_void_p, free: Callable[[Optional[int]], None]) -> None:
        # Whoever empties the list frees: close() may be called by two threads at once.  The
        # function is kept here because at interpreter shutdown modules may be gone before objects.
        self._owned = [pointer.value]
        self._free = free
        self._pointer = pointer

    def close(self) -> None:
        """Frees the pointer; may be called again.  An unused object closes itself."""
        try:
            address = self._owned.pop()
        except (AttributeError, IndexError):  # never came to be; closed before
            return
        self._pointer.value = None  # which the library refuses from here on
        self._free(address)

    def _live(self) -> c_void_p:
        if not self._owned:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._pointer

    def __enter__(self: _Self) -> _Self:
        self._live()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __copy__(self: _Self) -> _Self:
        return self

    def __deepcopy__(self: _Self, _: Any) -> _Self:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its process")
