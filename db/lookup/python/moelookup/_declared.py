"""What moelookup.h and moetune.h declare: declare.py has written it, from these headers."""

import enum
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, List, Tuple

# Words of texts, by the value of an enum.
moe_a2a = ("linear", "2dh", "nccl", "rail", "3dh")
moe_experts = ("padded", "sparse")
moe_weights = ("keep", "cache")
moe_proto = ("auto", "ll", "ll128", "simple")
moe_dtype = ("f32", "f16", "bf16")
moe_pass = ("forward", "train")
moe_act = ("relu", "gelu", "swiglu")
moe_layout = ("experts", "hidden")
moe_shares_by = ("equal", "speed", "tokens", "hidden")
moe_router = ("softmax", "sigmoid", "bilevel", "cosine")
moe_order = ("token", "priority")
moe_combine = ("sum", "choices")


class Source(enum.IntEnum):
    """Why a plan is the answer."""

    __module__ = "moelookup"

    # measured in this bucket
    EXACT = 0
    # this bucket has no entry; another one in the tuned range answers
    NEIGHBOUR = 1
    # before the first bucket or after the last: that bucket answers
    CLAMPED = 2
    # out of date: the software changed, or steps became slower
    STALE = 3
    # pinned by `moetune override` or MOELOOKUP_FORCE
    OVERRIDE = 4
    # nothing is known, or MOELOOKUP_DISABLE is set
    DEFAULT = 5
    # not measured: this bucket lies between measured ones that agree
    INFERRED = 6
    # measured at another site, on an equal cluster
    IMPORTED = 7
    # being measured: only libmoetune (moetune.h) answers this
    TENTATIVE = 8
    # the default plan: experts have different capacities, and the table cannot compare the best
    # plan with r=0 to the best with r >= 1; see moelookup_get_uneven
    UNCOMPARED = 9
    # the default plan: by its own numbers the entry's plan is not faster than the default, or the
    # numbers cannot be true
    UNSOUND = 10
    # the table knows nothing of this launch; see moelookup_bind_launch
    UNKNOWN_LAUNCH = 11


class moe_shape(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("experts", c_uint32), ("top_k", c_uint32),
        ("model_dim", c_uint32), ("hidden_dim", c_uint32), ("ranks", c_uint32),
        ("ranks_per_node", c_uint32), ("dtype", c_uint32), ("pass", c_uint32),
        ("activation", c_uint32), ("tokens", c_uint32), ("layout", c_uint32), ("shares", c_uint32),
        ("layers", c_uint32), ("groups", c_uint32), ("group_limit", c_uint32), ("router", c_uint32),
        ("order", c_uint32), ("projection", c_uint32), ("combine", c_uint32),
        ("ranks_per_rack", c_uint32), ("space", c_uint32),
    ]


class moe_plan(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("r", c_uint32), ("d", c_uint32), ("a", c_uint32),
        ("source", c_uint32), ("bucket", c_uint32), ("time_us", c_float), ("default_us", c_float),
        ("ctas", c_uint32), ("e", c_uint32), ("w", c_uint32), ("proto", c_uint32),
        ("space", c_uint32), ("choice", c_uint32),
    ]


class moe_capacities_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("experts", c_uint32), ("ranks", c_uint32), ("start", c_uint32),
        ("grid", c_uint32), ("hold", c_uint32), ("gap", c_uint32), ("low", c_uint32),
        ("slack", c_uint32), ("drops", c_uint32), ("most", c_uint32), ("delta", c_uint32),
    ]


class moe_capacities_state(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("key", c_uint32), ("rows", c_uint64), ("fullest", c_uint64),
        ("balanced", c_uint64), ("first", c_uint64), ("pending", c_uint64), ("replans", c_uint64),
        ("digest", c_uint64), ("dropped_ppm", c_uint32), ("key_r0", c_uint32),
    ]


class moe_counts_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("experts", c_uint32), ("top_k", c_uint32), ("ranks", c_uint32),
        ("tokens", c_uint32), ("every", c_uint32), ("room", c_uint32),
    ]


class moe_routes_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("experts", c_uint32), ("top_k", c_uint32), ("rooms", c_uint32),
        ("rows", c_uint32), ("on", c_uint32), ("off", c_uint32), ("first_pass", c_uint32),
    ]


class moetune_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("rank", c_uint32), ("window", c_uint32), ("seed", c_uint32),
        ("share", c_double), ("margin", c_double), ("layer", c_char_p), ("cluster", c_char_p),
        ("axes", c_char_p), ("broadcast", c_void_p), ("largest", c_void_p), ("now_us", c_void_p),
        ("self", c_void_p), ("harm", c_double), ("space", c_char_p),
    ]


class moetune_status(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("looking_up", c_uint32), ("steps", c_uint64),
        ("tried", c_uint64), ("time_us", c_double), ("cost_us", c_double), ("own_us", c_double),
        ("decided", c_uint32), ("open", c_uint32), ("alarms", c_uint32), ("replaced", c_uint32),
    ]


moelookup_functions: Dict[str, Tuple[Any, List[Any]]] = {
    "moelookup_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "moelookup_bind": (c_int, [c_void_p, c_void_p, c_char_p, POINTER(c_void_p)]),
    "moelookup_bind_launch": (c_int, [c_void_p, c_void_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "moelookup_get": (c_int, [c_void_p, c_uint32, c_void_p]),
    "moelookup_get_counts": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, c_void_p]),
    "moe_keys": (c_int, [POINTER(c_uint32), c_size_t, c_uint32, c_uint32, POINTER(c_uint32), POINTER(c_uint32)]),
    "moelookup_get_uneven": (c_int, [c_void_p, c_uint32, c_uint32, c_void_p]),
    "moelookup_space": (c_int, [c_void_p, c_char_p, POINTER(c_uint32)]),
    "moelookup_space_layer": (c_int, [c_void_p, c_uint32, c_uint32, c_void_p]),
    "moelookup_get_key": (c_int, [c_void_p, c_uint64, c_double, c_void_p]),
    "moelookup_explain_key": (c_int, [c_void_p, c_uint64, c_double, c_char_p, c_size_t]),
    "moelookup_value": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "moelookup_number": (c_int, [c_void_p, c_char_p, POINTER(c_int64)]),
    "moelookup_digest": (c_int, [c_void_p, c_char_p]),
    "moelookup_pack": (c_int, [c_void_p, c_void_p, POINTER(c_size_t)]),
    "moelookup_unpack": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "moelookup_view_free": (None, [c_void_p]),
    "moelookup_close": (None, [c_void_p]),
    "moelookup_record": (c_int, [c_void_p, c_char_p]),
    "moelookup_flush": (c_int, [c_void_p]),
    "moelookup_strerror": (c_char_p, [c_int]),
    "moelookup_version": (c_char_p, []),
    "moe_plan_format": (c_int, [c_void_p, c_char_p, c_size_t]),
    "moe_plan_parse": (c_int, [c_char_p, c_void_p]),
    "moelookup_explain": (c_int, [c_void_p, c_uint32, c_char_p, c_size_t]),
    "moelookup_explain_uneven": (c_int, [c_void_p, c_uint32, c_uint32, c_char_p, c_size_t]),
    "moe_capacity": (c_uint64, [c_double, c_uint32, c_uint32, c_uint64, c_uint64]),
    "moe_window": (c_uint32, [c_uint32, c_uint32, c_uint64]),
    "moe_shares": (c_int, [POINTER(c_double), c_uint32, c_uint64, c_uint64, POINTER(c_uint64)]),
    "moe_capacities_open": (c_int, [c_void_p, POINTER(c_void_p)]),
    "moe_capacities_feed": (c_int, [c_void_p, c_uint64, POINTER(c_uint32), c_uint32]),
    "moe_capacities_at": (c_int, [c_void_p, c_uint64, POINTER(POINTER(c_uint32)), c_void_p]),
    "moe_capacities_save": (c_int, [c_void_p, c_void_p, POINTER(c_size_t)]),
    "moe_capacities_load": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "moe_capacities_close": (None, [c_void_p]),
    "moe_counts_open": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "moe_counts_step": (c_int, [c_void_p, c_uint64, c_uint32, POINTER(c_uint32), c_uint32]),
    "moe_counts_close": (None, [c_void_p]),
    "moe_routes_open": (c_int, [c_void_p, POINTER(c_void_p)]),
    "moe_routes_put": (c_int, [c_void_p, c_uint64, POINTER(c_int32), c_uint32, c_uint32, POINTER(c_uint64), POINTER(c_uint64)]),
    "moe_routes_get": (c_int, [c_void_p, c_uint64, POINTER(c_int32), c_size_t, POINTER(c_uint32)]),
    "moe_routes_decide": (c_int, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(c_uint32)]),
    "moe_routes_close": (None, [c_void_p]),
}


moetune_functions: Dict[str, Tuple[Any, List[Any]]] = {
    "moetune_open": (c_int, [c_char_p, c_void_p, c_void_p, POINTER(c_void_p)]),
    "moetune_ask": (c_int, [c_void_p, c_uint32, c_void_p]),
    "moetune_ask_key": (c_int, [c_void_p, c_uint64, c_double, c_void_p]),
    "moetune_bucket": (c_int, [c_void_p, c_uint64, c_double, POINTER(c_uint32)]),
    "moetune_value": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "moetune_format": (c_int, [c_void_p, c_char_p, c_size_t]),
    "moetune_tell": (c_int, [c_void_p, c_double]),
    "moetune_order": (c_int, [c_void_p, c_void_p]),
    "moetune_follow": (c_int, [c_void_p, c_void_p, c_uint32, c_void_p]),
    "moetune_due": (c_int, [c_void_p]),
    "moetune_until_due": (c_int, [c_void_p]),
    "moetune_known": (c_int, [c_void_p, c_uint32, c_void_p]),
    "moetune_orders": (c_int, [c_void_p, c_void_p, c_uint32, POINTER(c_uint32)]),
    "moetune_obey": (c_int, [c_void_p, c_void_p, c_uint32, c_uint32, c_void_p]),
    "moetune_rest": (c_int, [c_void_p, c_uint32, c_void_p, POINTER(c_uint32)]),
    "moetune_passed": (c_int, [c_void_p, c_uint32, c_void_p, c_double]),
    "moetune_spent": (c_int, [c_void_p, c_double]),
    "moetune_status": (c_int, [c_void_p, c_void_p]),
    "moetune_close": (None, [c_void_p]),
    "moetune_version": (c_char_p, []),
}
