#!/usr/bin/env python3
"""What `moetune tune --space` finds for torch-moe.py, beside every legal plan, on 4 gloo ranks.

    PYTHONPATH=db/lookup/python python3 tests/bench/bench_torch_moe.py build/cpu/moetune [MINUTES]

For each size of layer moetune writes a table.  For every visit the ranks are started anew, and each
key gets the mean of some steps of each plan, in an order of its own; moetune knows nothing of them.
Tuning is cut into parts with visits between them, for the machine changes within minutes.  One half
of the visits says which plan is the best one, the other half how much slower the tuned plan is: by
the samples that chose it the best of so many looks faster than it is.
"""

import contextlib
import json
import logging
import math
import os
import random
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
INIT = os.path.join(HERE, "..", "..", "tuner", "program", "init", "torch-moe")
sys.path[:0] = [INIT, os.path.join(HERE, "..", "program", "python")]

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)
import moelookup
import moetune.torch
from space_case import Space
from torch_moe_layer import Layer, Unsupported

RANKS, STEPS = 4, 3  # steps: of a mean
SETTINGS = (  # layer, tokens, skews
    ("E=8 k=2 T=256 D=32 H=64", (32, 128, 512), (1.0, 3.0)),
    ("E=8 k=2 T=256 D=128 H=256", (128, 512), (1.0, 3.0)),
)
TUNING, PARTS, VISITS = 0.5, 3, 8  # of the time, in so many parts; at least so many visits
CUT_OFF = 75  # exit code of moetune when its time was up
INSIDE = {True: "inside", False: "OUTSIDE", None: ""}
REGRET, KEYS = 0.03, 0.9  # so much is no loss, in so many of the keys


def read_space():
    with open(os.path.join(INIT, "torch-moe.space")) as file:
        return Space(file.read())


def join(values):
    return " ".join(f"{name}={value}" for name, value in values.items())


# ---- ranks: this process has loaded torch once, and they are forks of it

logging.disable(logging.WARNING)  # torch tells of each rank that it ends
ranks_said = tempfile.TemporaryFile("w+")

LAUNCH = """import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect(sys.argv[1])
    door.sendall(json.dumps([dict(os.environ), sys.argv[2:]]).encode() + b"\\n")
    sys.exit(int(door.makefile().readline() or 1))
"""


def run_ranks(call, *arguments, variables=None):
    """The exit code of call(*arguments) on each of the ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    work = torch.multiprocessing
    try:
        what = dict(variables or {}, **common), call, arguments
        work.start_processes(run_rank, what, RANKS, start_method="fork")
    except (work.ProcessExitedException, work.ProcessRaisedException):
        return 1
    return 0


def run_rank(rank, variables, call, arguments):
    os.environ.update(variables, RANK=str(rank), LOCAL_RANK=str(rank))
    for stream in (1, 2):
        os.dup2(ranks_said.fileno(), stream)
    torch.set_num_threads(1)
    call(*arguments)


def run_program(program, *arguments):
    sys.argv[:] = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


def serve(door, process):
    """Ranks for each launch that the process starts, until it has ended."""
    while process.poll() is None:
        try:
            asked, _ = door.accept()
        except socket.timeout:
            continue
        # Who asks may be ended meanwhile.
        with asked, contextlib.suppress(ConnectionError, json.JSONDecodeError):
            variables, command = json.loads(asked.makefile().readline())
            code = run_ranks(run_program, *command, variables=variables)
            asked.sendall(f"{code}\n".encode())


# ---- a visit


def visit(number, seed, path):
    """On each rank.  Writes {key: {plan: microseconds of the slowest rank}}."""
    size, *keys = SETTINGS[number]
    device, plans = moetune.torch.join_ranks(), read_space().plans()
    torch.seed()  # what is forked draws the same numbers
    shape = dict(moetune.words(f"{size} dtype=f32 act=relu"))
    layers = {ep: Layer(shape, ep, device) for ep in (1, 2, 4)}
    asker, found = moetune.torch.Asker(""), {}
    every = list(product(product(*keys), (p for p in plans if int(p["ep"]) in layers)))
    random.Random(seed).shuffle(every)
    for (tokens, skew), values in every:
        plan = moetune.words(join(values))
        with contextlib.suppress(Unsupported):
            us = mean_us(asker, layers[plan["ep"]], tokens, skew, plan)
            found.setdefault(f"{tokens} {skew}", {})[join(values)] = us
    if dist.get_rank() == 0:
        with open(path, "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


def mean_us(asker, layer, tokens, skew, plan):
    took = []
    for _ in range(1 + STEPS):  # the first one warms up
        x, dy = layer.batch(tokens, skew)
        took.append(asker.timed(layer.step, x, dy, plan)[0])
    slowest = torch.tensor(took[1:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    most = 2 * statistics.median(slowest.tolist())
    return statistics.mean(min(us, most) for us in slowest.tolist())


# ---- verdicts


def student(freedom):
    """Beyond it lie 2.5 %.  A series, 1 % too small at 3 degrees of freedom, better at more."""
    z, n = 1.959964, freedom
    t = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    return t + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def interval(ratios):
    """The mean ratio of pairs, and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, n = statistics.mean(logs), len(logs)
    reach = student(n - 1) * statistics.stdev(logs) / math.sqrt(n)
    return [math.exp(mean + by) for by in (0, -reach, reach)]


def percent(ratio):
    return 100 * (ratio - 1)


def judge(key, visits, usual, answer):
    """A line; whether the loss is small, whether it may be none, whether the claim, if any, holds."""
    tuned = join(answer)
    claimed = answer.time_us / answer.default_us if answer.default_us else 1.0
    times = {plan: [one[key][plan] for one in visits] for plan in visits[0][key]}
    best = min(times, key=lambda plan: sum(map(math.log, times[plan][::2])))
    loss, low, high = interval([a / b for a, b in zip(times[tuned][1::2], times[best][1::2])])
    gain = interval([a / b for a, b in zip(times[tuned], times[usual])])
    inside = gain[1] <= claimed <= gain[2] if claimed != 1 else None
    print(
        f"  {key:>9}  {percent(loss):5.1f} ({percent(low):5.1f} to {percent(high):5.1f})"
        f"  {-percent(gain[0]):5.1f} ({-percent(gain[2]):5.1f} to {-percent(gain[1]):5.1f})"
        f"  {-percent(claimed):5.1f} {INSIDE[inside]:7}  {tuned}"
        + ("" if tuned == best else f" (best: {best})")
        + ("" if answer.source == moelookup.Source.EXACT else f", {answer.source.name}")
    )
    return loss <= 1 + REGRET, loss > 1 + REGRET and low <= 1, inside


def visit_until(end, number, folder, visits):
    """A share of the least number of visits, or more of them until then."""
    least = len(visits) + VISITS // (PARTS + 1)
    path = os.path.join(folder, "visit.json")
    while len(visits) < least or time.monotonic() < end:
        if run_ranks(visit, number, len(visits), path):
            ranks_said.seek(0)
            raise SystemExit("a visit failed:\n" + ranks_said.read()[-3000:])
        with open(path) as file:
            visits.append(json.load(file))


def judge_setting(program, number, seconds, folder):
    """Of every key what `judge` says."""
    size, *keys = SETTINGS[number]
    end, space, visits = time.monotonic() + seconds, read_space(), []
    database = os.path.join(folder, f"{number}.db")
    print(f"\n{size}", flush=True)
    for _ in range(PARTS):
        between = (1 - TUNING) * seconds / (PARTS + 1)
        visit_until(time.monotonic() + between, number, folder, visits)
        tune(program, number, TUNING * seconds / PARTS, folder, database)
    visit_until(end, number, folder, visits)
    try:
        view = moelookup.open(database).bind(space=space.name)
    except moelookup.Error as why:
        raise SystemExit(f"  no key was decided: give it more minutes ({why})")
    answers = {f"{t} {s}": view.plan(t, s) for t, s in product(*keys)}
    print(
        f"  {len(visits)} visits.  tokens, skew: % slower than the best plan; % saved against the"
        " default; as the table says"
    )
    return [judge(key, visits, join(space.usual), plan) for key, plan in answers.items()]


def tune(program, number, seconds, folder, database):
    size, tokens, skews = SETTINGS[number]
    launch, door_path = (os.path.join(folder, name) for name in ("launch.py", f"door{number}"))
    with open(launch, "w") as file:
        file.write(LAUNCH)
    started = [sys.executable, launch, door_path, os.path.join(INIT, "torch-moe.py"), "--tokens"]
    started += [*map(str, tokens), "--skew", *map(str, skews)]
    command = [program, "tune", "--quiet", "--ranks", str(RANKS), "--shape", size, "--dtype", "f32"]
    command += ["--space", os.path.join(INIT, "torch-moe.space")]
    command += ["--db", database, "--budget", f"{seconds:.0f}s", "--exec", " ".join(started)]
    with socket.socket(socket.AF_UNIX) as door, open(f"{database}.said", "w+") as said:
        door.bind(door_path)
        door.listen()
        door.settimeout(0.2)
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        try:
            serve(door, process)
        finally:
            process.terminate()  # it has ended, unless this was interrupted
            process.wait()
            os.unlink(door_path)
        said.seek(0)
        lines = said.read().splitlines()
    if process.returncode not in (0, CUT_OFF):
        raise SystemExit("\n".join([f"moetune tune: exit code {process.returncode}", *lines]))
    cut = "; its time was up" if process.returncode == CUT_OFF else ""
    print("".join(f"  {line}{cut}\n" for line in lines if line.startswith("launches")), end="")


def main(program, minutes="11"):
    print(f"torch {torch.__version__}, {RANKS} gloo ranks on {os.cpu_count()} cores")
    seconds, verdicts = 60 * float(minutes) / len(SETTINGS), []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(len(SETTINGS)):
            verdicts += judge_setting(program, number, seconds, folder)
    small, open_, claims = zip(*verdicts)
    small, open_ = sum(small), sum(open_)
    inside, outside = claims.count(True), claims.count(False)
    print(
        f"\n{len(verdicts)} keys.  At most {100 * REGRET:.0f} % slower than the best plan: {small};"
        f" more, but it may be none: {open_}; wanted of both: {math.ceil(KEYS * len(verdicts))}."
        f"  Claims inside the measured interval: {inside} of {inside + outside}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
