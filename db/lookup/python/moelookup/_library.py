"""Finds libmoelookup.so.1, or another library of ours, and declares its functions."""

import ctypes
import functools
import os
import sys
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, Iterator, List, Optional, Tuple

NAME = "libmoelookup.so.1"


class Error(Exception):
    """What the library refuses, or that there is no library.

    status is its negative enum moe_status, None where the library did not speak.
    """

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Any:  # with its status: worker processes send exceptions home
        return type(self), (str(self), self.status)


class ShapeStruct(ctypes.Structure):
    """struct moe_shape."""

    _fields_ = [
        (name, c_uint32)
        for name in (
            "struct_size experts top_k model_dim hidden_dim ranks ranks_per_node dtype train"
            " activation tokens layout shares layers groups group_limit router"
            " order projection combine ranks_per_rack space"
        ).split()
    ]


class CapacitiesOptions(ctypes.Structure):
    """struct moe_capacities_options."""

    _fields_ = [
        (name, c_uint32)
        for name in (
            "struct_size experts ranks start grid hold gap low slack drops most delta"
        ).split()
    ]


class RoutesOptions(ctypes.Structure):
    """struct moe_routes_options."""

    _fields_ = [
        (name, c_uint32)
        for name in "struct_size experts top_k rooms rows on off first_pass".split()
    ]


class CountsOptions(ctypes.Structure):
    """struct moe_counts_options."""

    _fields_ = [
        (name, c_uint32)
        for name in "struct_size experts top_k ranks tokens every room".split()
    ]


PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "moelookup_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "moelookup_bind": (c_int, [c_void_p, POINTER(ShapeStruct), c_char_p, POINTER(c_void_p)]),
    "moelookup_digest": (c_int, [c_void_p, c_char_p]),
    "moelookup_pack": (c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "moelookup_unpack": (c_int, [c_char_p, c_size_t, POINTER(c_void_p)]),
    "moelookup_explain": (c_int, [c_void_p, c_uint32, c_char_p, c_size_t]),
    "moelookup_get_uneven": (c_int, [c_void_p, c_uint32, c_uint32, c_void_p]),
    "moelookup_explain_uneven": (c_int, [c_void_p, c_uint32, c_uint32, c_char_p, c_size_t]),
    "moelookup_space": (c_int, [c_void_p, c_char_p, POINTER(c_uint32)]),
    "moelookup_space_layer": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(ShapeStruct)]),
    "moelookup_get_key": (c_int, [c_void_p, c_uint64, c_double, c_void_p]),
    "moelookup_explain_key": (c_int, [c_void_p, c_uint64, c_double, c_char_p, c_size_t]),
    "moelookup_number": (c_int, [c_void_p, c_char_p, POINTER(c_int64)]),
    "moe_plan_format": (c_int, [c_void_p, c_char_p, c_size_t]),
    "moelookup_record": (c_int, [c_void_p, c_char_p]),
    "moelookup_flush": (c_int, [c_void_p]),
    "moelookup_view_free": (None, [c_void_p]),
    "moelookup_close": (None, [c_void_p]),
    "moelookup_strerror": (c_char_p, [c_int]),
    "moelookup_version": (c_char_p, []),
    "moe_capacity": (c_uint64, [c_double, c_uint32, c_uint32, c_uint64, c_uint64]),
    "moe_window": (c_uint32, [c_uint32, c_uint32, c_uint64]),
    "moe_shares": (c_int, [POINTER(c_double), c_uint32, c_uint64, c_uint64, POINTER(c_uint64)]),
    "moe_capacities_open": (c_int, [POINTER(CapacitiesOptions), POINTER(c_void_p)]),
    "moe_capacities_feed": (c_int, [c_void_p, c_uint64, POINTER(c_uint32), c_uint32]),
    "moe_capacities_at": (c_int, [c_void_p, c_uint64, POINTER(POINTER(c_uint32)), c_void_p]),
    "moe_capacities_save": (c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "moe_capacities_load": (c_int, [c_char_p, c_size_t, POINTER(c_void_p)]),
    "moe_capacities_close": (None, [c_void_p]),
    "moe_counts_open": (c_int, [POINTER(CountsOptions), c_char_p, POINTER(c_void_p)]),
    "moe_counts_step": (c_int, [c_void_p, c_uint64, c_uint32, POINTER(c_uint32), c_uint32]),
    "moe_counts_close": (None, [c_void_p]),
    "moe_routes_open": (c_int, [POINTER(RoutesOptions), POINTER(c_void_p)]),
    "moe_routes_put": (
        c_int,
        [c_void_p, c_uint64, c_void_p, c_uint32, c_uint32, POINTER(c_uint64), POINTER(c_uint64)],
    ),
    "moe_routes_get": (c_int, [c_void_p, c_uint64, c_void_p, c_size_t, POINTER(c_uint32)]),
    "moe_routes_decide": (c_int, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(c_uint32)]),
    "moe_routes_close": (None, [c_void_p]),
}


def _places(name: str, variable: str) -> Iterator[str]:
    """Paths to try, in this order; a name without a folder is left to the dynamic linker."""
    chosen = os.environ.get(variable)
    if chosen:  # and nothing else: another library than the one asked for would be a surprise
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
    """variable: the environment's, that names a file."""
    tried: List[str] = []
    for place in _places(name, variable):
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(f"  {place}: {error}")
    raise Error(
        f"{name} was not found; install it (make install; `pip install --target` leaves it out) or"
        f" point ${variable} at it."
        "  Tried:\n" + "\n".join(tried)
    )


class Library:
    """The functions of the C library by name; get() is the one that is called at every step."""

    def __init__(self) -> None:
        releasing = load(NAME, "MOELOOKUP_LIBRARY")
        # Through PyDLL a call keeps the interpreter's lock: it takes far less time than to give the
        # lock back, and no other thread can close a table while it is in use.
        self.functions = ctypes.PyDLL(releasing._name)
        try:
            for name, (result, arguments) in PROTOTYPES.items():
                function = getattr(self.functions, name)
                function.restype, function.argtypes = result, arguments
            self.open = releasing.moelookup_open  # reads files, perhaps over a network
            self.open.restype, self.open.argtypes = PROTOTYPES["moelookup_open"]
            # Without argtypes the arguments must be of ctypes' own types, save an integer, whose
            # low 32 bits are passed; in return the call takes half the time.
            self.get = self.functions.moelookup_get
        except AttributeError as error:
            raise Error(f"{releasing._name} is not a whole libmoelookup: {error}") from None

    def check(self, status: int, what: str) -> None:
        if status:
            reason = self.functions.moelookup_strerror(status).decode()
            raise Error(f"{what}: {reason}", status)


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """Loaded at the first use, so that importing this package never fails; not kept if it fails."""
    return Library()


def library_version() -> str:
    """Of the C library that was loaded."""
    return str(library().functions.moelookup_version().decode())
