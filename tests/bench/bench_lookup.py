#!/usr/bin/env python3
"""Measures what a look-up costs a trainer in Python: the binding, a bare ctypes call, a dict.

    MOELOOKUP_LIBRARY=build/cpu/libmoelookup.so.1 PYTHONPATH=db/lookup/python tests/bench/bench_lookup.py TABLE

TABLE is what `bench_lookup table FILE` writes.  Rivals take turns; ratios are medians of rounds.
"""

import ctypes
import os
import random
import statistics
import sys
import time

import moelookup

CALLS, ROUNDS = 20000, 25


def timed(ask, capacities):
    begin = time.perf_counter()
    for capacity in capacities:
        ask(capacity)
    return time.perf_counter() - begin


def bare_call(view, library):
    """moelookup_get on a struct that is there already: the least that ctypes can do."""
    class Plan(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in ("size", "r", "d", "a", "source", "bucket")]
        _fields_ += [("time_us", ctypes.c_float), ("default_us", ctypes.c_float)]

    plan = Plan(ctypes.sizeof(Plan))
    here, out = ctypes.c_void_p(view), ctypes.byref(plan)
    get = library.moelookup_get
    get.argtypes, get.restype = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p], ctypes.c_int
    return lambda capacity: get(here, capacity, out)


def main():
    table = moelookup.open(sys.argv[1])
    layer = dict(experts=8, top_k=2, model_dim=1024, hidden_dim=512, ranks=32, ranks_per_node=8,
                 dtype="bf16", tokens=4096)
    view = table.bind(**layer)
    plans = {bucket: view.plan(bucket * 128) for bucket in range(256)}
    capacities = [random.randrange(256 * 128) for _ in range(CALLS)]
    rivals = {
        "binding": view.plan,
        "bare ctypes call": bare_call(view._pointer.value, ctypes.CDLL(os.environ["MOELOOKUP_LIBRARY"])),
        "dict": lambda capacity: plans[capacity // 128],
    }
    times = {name: [] for name in rivals}
    for turn in range(ROUNDS):
        order = list(rivals) if turn % 2 else list(rivals)[::-1]
        for name in order:
            times[name].append(timed(rivals[name], capacities))
    for rival in ("bare ctypes call", "dict"):
        ratio = statistics.median(a / b for a, b in zip(times["binding"], times[rival]))
        each = statistics.median(times["binding"]) / CALLS * 1e9
        print(f"Python: view.plan                   {ratio:.2f} of a {rival} ({each:.0f} ns)")


if __name__ == "__main__":
    main()
