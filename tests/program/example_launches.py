#!/usr/bin/env python3
"""Plays a program of the space that test_space writes, with made-up costs.  Some axes vary while it runs, others need a
restart, and launches differ by chance.  $LOG gets a line for each launch, step and answer; $STEP is code that
runs before a step and may set `slower`, `why` it fails, and which `extra` numbers it reports; $START is run before the first one."""
import hashlib
import itertools
import os
import random
import sys
import time  # noqa: F401 (for $STEP)

KEYS = [int(key) for key in os.environ.get("KEYS", "32 128 512 2048 8192").split()]
NOISE = float(os.environ.get("NOISE", "0.02"))
AXES = {"dispatcher": ["allgather", "alltoall", "flex"], "experts": ["padded", "loop", "grouped"],
        "chunks": ["1", "2", "4"], "ep": ["1", "2", "4"]}


def chance(*words):
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:4], "big") / 2**32


def cost_us(key, plan):
    """Each value has a level of its own that bends with the key; $COSTS draws them."""
    us = 1000.0
    for axis, value in plan.items():
        seed = os.environ.get("COSTS", "1"), axis, value
        us *= 1 + 0.5 * chance(*seed) + 0.3 * chance("bend", *seed) * (KEYS.index(key) / len(KEYS))
    return us


def legal_plans():
    for values in itertools.product(*AXES.values()):
        plan = dict(zip(AXES, values))
        if plan["dispatcher"] == "alltoall" or plan["chunks"] == "1":
            yield plan


def main():
    log = open(os.environ["LOG"], "a+", buffering=1)
    log.seek(0)
    launch = sum(line.startswith("launch") for line in log)
    fixed = dict(word.split("=") for word in os.environ["MOETUNE_PLAN"].split())
    log.write(f"launch {launch} {os.environ['MOETUNE_PLAN']} {' '.join(sys.argv[1:])}\n")
    luck = random.Random(f"{os.environ.get('COSTS', '1')} {launch}")
    factor = max(0.5, 1 + NOISE * luck.gauss(0, 1))
    write = os.fdopen(int(os.environ["MOETUNE_TO_FD"]), "w", buffering=1)
    read = os.fdopen(int(os.environ["MOETUNE_FROM_FD"]))

    def say(line):
        write.write(line + "\n")
        return read.readline().split()

    scope = {**globals(), **locals()}
    exec(os.environ.get("START", ""), scope)
    for step in range(int(os.environ.get("STEPS", "100000"))):
        key = KEYS[step % len(KEYS)]
        answer = say(f"ask {key}")
        if answer == ["end"]:
            log.write(f"end {launch}\n")
            return 0
        if not answer or answer[0] != "plan":
            return 8
        plan = dict(word.split("=") for word in answer[1:])
        if any(plan[axis] != value for axis, value in fixed.items()):
            log.write(f"wrong {launch} {answer}\n")
            return 7
        scope.update(plan=plan, step=step, key=key, extra="", slower=1, why="")
        exec(os.environ.get("STEP", ""), scope)
        if scope["why"]:
            log.write(f"failed {launch} {key} {' '.join(answer[1:])}\n")
            say(f"failed {scope['why']}")
            continue
        us = cost_us(key, plan) * scope["slower"] * factor * (1 + 0.003 * abs(luck.gauss(0, 1)))
        log.write(f"step {launch} {key} {' '.join(answer[1:])}\n")
        if say(f"tell {us:.3f}{scope['extra']}") != ["ok"]:
            return 6
    return 0


if __name__ == "__main__":
    sys.exit(main())
