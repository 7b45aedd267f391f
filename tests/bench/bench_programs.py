#!/usr/bin/env python3
"""Compares tables of declared spaces with every legal plan of them, for programs of `moetune init`.

    PYTHONPATH=db/lookup/python python3 tests/bench/bench_programs.py build/cpu/moetune hf-moe ...

For each size of a program `moetune tune --exec` writes a table, as its README says.  A visit starts
the same command anew, once for each value of axes that need a restart, and talks to it in place of
moetune.  All plans take turns, in a new order each time, for some steps in every range.  All ranges
have the same plan at a time, as in a program that knows one plan: caches and the allocator keep
what one range left, which may be 10 % of a short step of the next.  A visit counts as one sample,
because launches differ: each favours other plans.  The number of visits is fixed beforehand:
PROGRAMS_VISITS (12).  Half of them come before the tuning and half after it, because the machine
changes within minutes.  For each visit, all other visits choose the best plan: on the samples that
chose it, the best of several plans looks faster than it is.  At last `moetune verify --exec` runs.
"""

import bisect
import contextlib
import importlib.metadata
import importlib.util
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
INIT = os.path.join(HERE, "..", "..", "tuner", "program", "init")
sys.path.append(os.path.join(HERE, "..", "program", "python"))

import moelookup
from space_case import Launch, Space

VISITS = int(os.environ.get("PROGRAMS_VISITS", "12"))
OUT = os.environ.get("PROGRAMS_OUT", "")
OUT = OUT and os.path.abspath(OUT)  # a file that keeps what visits measured
MINUTES = float(os.environ.get("PROGRAMS_MINUTES", "5"))  # of tuning one size, at most
PATIENCE_S = 900  # of a launch
# Of a plan in a visit: turns, and in each of them what does not count, and what does.  What slows
# the machine for seconds hits all plans of a range.
TURNS, WARM, STEPS = 2, 1, 7  # eight in all, as hf-moe has in a row
SLOWER, CUT_OFF = 3, 75  # exit codes of moetune: verify found a plan that is; its time was up
REGRET, KEYS, HALF, SQUARES = 0.03, 0.9, 0.05, 1.3  # what is wanted
TORCHRUN = f"{sys.executable} -m torch.distributed.run --nproc_per_node 4 "


class Program(NamedTuple):
    needs: str  # what it imports
    files: str  # the name of its space and of its source
    ranks: int
    command: str
    sizes: tuple  # the layer's words, and arguments


PROGRAMS = {
    "torch-moe": Program(
        "torch",
        "torch-moe",
        4,
        TORCHRUN + "torch-moe.py",
        (
            ("E=8 k=2 T=256 D=32 H=64 dtype=f32 act=relu", "--tokens 32 128 512 --skew 1 3"),
            ("E=8 k=2 T=256 D=128 H=256 dtype=f32 act=relu", "--tokens 128 512 --skew 1 3"),
        ),
    ),
    "hf-moe": Program(
        "transformers",
        "hf-moe",
        1,
        f"{sys.executable} hf-moe.py",
        (
            ("E=8 k=2 T=512 D=128 H=256 dtype=f32 act=swiglu", "--tokens 1 8 64 512"),
            ("E=16 k=4 T=256 D=256 H=512 dtype=f32 act=swiglu", "--tokens 1 8 64 256"),
        ),
    ),
    "deepspeed": Program(
        "deepspeed",
        "ds-moe",
        4,
        TORCHRUN + "ds-moe.py",
        (
            ("E=8 k=2 T=512 D=128 H=256 dtype=f32 act=relu", "--factors 0.25 1 4"),
            ("E=4 k=2 T=256 D=64 H=256 dtype=f32 act=relu", "--factors 0.25 1 4"),
        ),
    ),
}


class Key(NamedTuple):
    key: int
    klass: float

    def __str__(self):
        return f"{self.key}, {self.klass:g}"


# ---- a visit


class Visit(Launch):
    """One launch of it, by the command that tune starts."""

    def __init__(self, setting, launch, plans, draw):
        self.range_of, self.draw = setting.space.range_of, draw
        self.first, self.took = {}, {}  # by range: its first key; and by plan: microseconds
        super().__init__(setting.space, 1, setting.command, launch, plans, setting.layer)

    def start(self, _, command, variables):
        return subprocess.Popen(
            command,
            shell=True,
            env=dict(os.environ, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, process):
        try:
            self.said = process.communicate(timeout=PATIENCE_S)[0]
        except BaseException as why:  # also where somebody interrupts it
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)  # torchrun hands it on to its ranks
                process.wait(30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise SystemExit(f"a visit did not end: {why!r}")
        self.codes = [process.returncode]

    def speak(self, plans):
        """Under each key all plans, several steps each; `end` when all keys have had them, or one
        came twice as often: a class that is measured, as a skew, may at times be another one."""
        order, left, asked, at, plan, counts = self.order(plans), {}, {}, None, None, False
        for heard in self.mine[0]:
            word, *rest = heard.split()
            answer = "ok"
            if word == "ask":
                key = Key(int(rest[0]), float(rest[1]) if rest[1:] else 0.0)
                at = self.range_of(key)
                self.first.setdefault(at, key)
                mine, asked[at] = left.setdefault(at, list(order)), asked.get(at, 0) + 1
                ended = not any(left.values()) or asked[at] > 2 * len(order)
                plan, counts = mine.pop() if mine else (plans[0], False)
                answer = "end" if ended else f"plan {plan}"
            elif word == "tell" and counts:
                self.took.setdefault((at, plan), []).append(float(rest[0]))
            elif word == "failed":
                self.took[at, plan] = []
                counts = False
            self.mine[1].write(answer + "\n")

    def order(self, plans):
        """Plans and whether the step counts; the last one comes first."""
        turns = [self.draw.sample(plans, len(plans)) for _ in range(TURNS)]
        return [
            (plan, step < STEPS) for turn in turns for plan in turn for step in range(STEPS + WARM)
        ]


def mean_us(took):
    most = 2 * statistics.median(took)
    return statistics.mean(min(us, most) for us in took)


class Ranges(Space):
    """With the class's edges, which the tests' reader leaves out."""

    def __init__(self, text):
        super().__init__(text)
        self.class_edges = []
        for line in text.splitlines():
            word, *rest = line.partition("#")[0].split() or [""]
            if word == "class":
                self.class_edges = [float(edge) for edge in rest[2:]]

    def range_of(self, key):
        """An edge is the last number of its range."""
        edges = (self.edges, key.key), (self.class_edges, key.klass)
        return tuple(bisect.bisect_left(*one) for one in edges)

    def runs_on(self, ranks):
        """launches() without those that `need X divides ranks` leaves out."""
        divide = [need.split()[0] for need in self.needs if need.endswith(" divides ranks")]
        found = {}
        for launch, plans in self.launches().items():
            values = dict(pair.split("=") for pair in launch.split())
            if all(ranks % int(values[name]) == 0 for name in divide):
                found[launch] = plans
        return found


class Setting(NamedTuple):
    """One size of a program."""

    ranks: int
    layer: str
    command: str
    space: Ranges
    options: list  # of moetune


def visit(setting, seed):
    """{range: {plan: microseconds}}, and the first key of each range."""
    found, keys, draw = {}, {}, random.Random(seed)
    launches = setting.space.runs_on(setting.ranks)
    for launch in draw.sample(list(launches), len(launches)):
        one = Visit(setting, launch, launches[launch], draw)
        if one.codes != [0] and one.first:
            raise SystemExit(f"a visit failed under {launch}:\n{one.said[-3000:]}")
        keys.update(one.first)
        for (at, plan), took in one.took.items():
            if len(took) == TURNS * STEPS:
                found.setdefault(at, {})[plan] = mean_us(took)
    if not found:
        raise SystemExit(f"nothing ran:\n{one.said[-3000:]}")
    return found, keys


# ---- verdicts


def student(freedom):
    """Beyond it lie 2.5 %.  A series, 1 % too small at 3 degrees of freedom, better at more."""
    z, n = 1.959964, freedom
    t = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    return t + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def interval(logs, deviation=None, freedom=None):
    """The mean ratio of pairs, and its 95 % interval."""
    mean, n = statistics.mean(logs), len(logs)
    if deviation is None:
        deviation, freedom = statistics.stdev(logs), n - 1
    reach = student(freedom) * deviation / math.sqrt(n)
    return [math.exp(mean + by) for by in (0, -reach, reach)]


def loss_of(times, tuned):
    """Logarithms of tuned / best, visit by visit; the best by all other visits."""
    logs = []
    for v in range(len(times[tuned])):
        others = {plan: of[:v] + of[v + 1 :] for plan, of in times.items()}
        best = min(others, key=lambda plan: sum(map(math.log, others[plan])))
        logs.append(math.log(times[tuned][v] / times[best][v]))
    return logs


def z_of(claim, measured):
    """Of gains (value, low, high), as bench_truth has it."""
    off = claim[0] - measured[0]
    own = claim[0] - claim[1] if off > 0 else claim[2] - claim[0]
    half = math.hypot(own if math.isfinite(own) else 0, (measured[2] - measured[1]) / 2)
    return 1.96 * off / half if off else 0.0


def gain_of(ratio):
    return 1 - ratio[0], 1 - ratio[2], 1 - ratio[1]


def percent(gain):
    return "{:5.1f} [{:5.1f}, {:5.1f}]".format(*(100 * one for one in gain))


class Verdict(NamedTuple):
    small: bool  # the loss is
    perhaps: bool  # it is not, but may be
    z: object = None  # of the claim; None: there is none
    held: int = 0  # visits whose gain the claim's interval holds
    visits: int = 0  # that a claim was held against


def judge(setting, visits, keys, view, claims):
    """A line for each key.  What claims are compared with has one variance in all of a table."""
    usual = join(setting.space.usual)
    rows, judged, squares, freedom = [], [], 0.0, 0
    for at, key in sorted(keys.items()):
        answer = view.plan(*key)
        if not all(at in found for found in visits):
            print(f"  {key}: it did not come up in each visit, and does not count")
            continue
        plans = set.intersection(*(set(found[at]) for found in visits))
        # A job has one launch: the best plan is the best one that it can run.
        launch = next(iter(setting.space.runs_on(setting.ranks)))
        mine = launch_of(join(answer), launch)
        runs = {plan for plan in plans if launch_of(plan, launch) == mine}
        times = {plan: [found[at][plan] for found in visits] for plan in plans}
        if not {join(answer), usual} <= plans:
            print(f"  {key}: {join(answer)}, or the default, failed in a visit: that is too slow")
            judged.append(Verdict(False, False))
            continue
        gained = [math.log(a / b) for a, b in zip(times[join(answer)], times[usual])]
        rows.append((key, answer, {plan: times[plan] for plan in runs}, gained))
        if join(answer) != usual:
            squares += statistics.variance(gained) * (len(gained) - 1)
            freedom += len(gained) - 1
    deviation = math.sqrt(squares / max(freedom, 1))
    return judged + [judge_key(*row, usual, claims, deviation, max(freedom, 1)) for row in rows]


def weights_of(edges, ranges):
    """Each doubling of the key counts alike, as tune counts where nobody says how often."""
    ends = {at: (edges[at - 1] if at else 0, edges[at] if at < len(edges) else 0) for at in ranges}
    return {at: math.log2(high / low) if low and high else 1 for at, (low, high) in ends.items()}


def live_total(launch, visits, v, weights, told=None):
    """A visit's weighted time of a launch, each range under its best live plan by all others, or
    under what is told."""
    total = 0
    for at, weight in weights.items():
        plans = told[at] if told else {
            plan for plan in set.intersection(*(set(found[at]) for found in visits))
            if launch_of(plan, launch) == launch
        }
        if not plans:
            return math.inf
        others = visits[:v] + visits[v + 1 :]
        best = min(plans, key=lambda plan: sum(math.log(found[at][plan]) for found in others))
        total += weight * visits[v][at][best]
    return total


def launch_of(plan, like):
    """The plan's words of the axes that a launch has."""
    names = {pair.split("=")[0] for pair in like.split()}
    return " ".join(pair for pair in plan.split() if pair.split("=")[0] in names)


def judge_launch(setting, visits, keys, view, claim):
    """The launch of the table beside the best one, of all ranges together, and beside the default
    one; both by visits, each of which has a process of each launch.  None: there is one launch."""
    launches = [launch for launch in setting.space.runs_on(setting.ranks) if launch]
    common = [at for at in keys if all(at in found for found in visits)]
    if len(launches) < 2 or not common:
        return None
    weights = {at: 0.0 for at in common}
    for at, weight in weights_of(setting.space.edges, {at[0] for at in common}).items():
        of_range = [one for one in common if one[0] == at]
        weights.update({one: weight for one in of_range})
    told = {at: {join(view.plan(*keys[at]))} for at in common}
    (launch,) = {launch_of(plan, launches[0]) for plans in told.values() for plan in plans}
    usual = launch_of(join(setting.space.usual), launches[0])
    ours = [live_total(launch, visits, v, weights, told) for v in range(len(visits))]
    theirs = {
        one: [live_total(one, visits, v, weights) for v in range(len(visits))] for one in launches
    }
    losses = []
    for v, mine in enumerate(ours):
        others = {one: of[:v] + of[v + 1 :] for one, of in theirs.items()}
        best = min(others, key=lambda one: sum(map(math.log, others[one])))
        losses.append(math.log(mine / theirs[best][v]))
    loss = interval(losses)
    best = min(theirs, key=lambda one: sum(map(math.log, theirs[one])))
    gained = gain_of(interval([math.log(a / b) for a, b in zip(ours, theirs[usual])]))
    z = z_of(claim, gained) if claim and launch != usual else None
    print(
        f"  launch {launch}: {percent([one - 1 for one in loss])} % slower than the best launch"
        + ("" if launch == best else f" ({best})")
        + ("" if launch == usual else f"; {percent(gained)} % saved against the default launch")
        + ("" if z is None else f", as the table says {percent(claim)}, z {z:.1f}"),
        flush=True,
    )
    small = loss[0] <= 1 + REGRET
    return Verdict(
        small, not small and loss[1] <= 1 + REGRET and (loss[2] - loss[1]) / 2 <= HALF, z
    )


def judge_key(key, answer, times, gained, usual, claims, deviation, freedom):
    tuned, z, held = join(answer), None, 0
    loss = interval(loss_of(times, tuned))
    measured = gain_of(interval(gained, deviation, freedom))
    exact = answer.source == moelookup.Source.EXACT
    claim = claims.get(answer.bucket) if exact and tuned != usual else None
    if claim:
        z = z_of(claim, measured)
        held = sum(claim[1] <= 1 - math.exp(one) <= claim[2] for one in gained)
    best = min(times, key=lambda plan: sum(map(math.log, times[plan])))
    small = loss[0] <= 1 + REGRET
    print(
        f"  {key.key:>6} {key.klass:<4.1f}  {percent([one - 1 for one in loss])}"
        f"  {percent(measured) if tuned != usual else '':21}  {percent(claim) if claim else '':21}"
        f"  {'' if z is None else f'{z:.1f}':>4}  {tuned}"
        + ("" if tuned == best else f" (best: {best})")
        + ("" if exact else f", {answer.source.name}"),
        flush=True,
    )
    reaches = loss[1] <= 1 + REGRET and (loss[2] - loss[1]) / 2 <= HALF
    return Verdict(small, not small and reaches, z, held, len(gained) if claim else 0)


# ---- a size of a program


def join(values):
    return " ".join(f"{name}={value}" for name, value in values.items())


def run_moetune(moetune, verb, setting, *more):
    """How long it took, and what it says.  Without a table there is nothing to judge."""
    command = [moetune, verb, "--quiet", "--exec", setting.command, *setting.options, *more]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, SLOWER, CUT_OFF):
        failure = f"moetune {verb}: exit code {done.returncode}\n{done.stdout}"
        if verb == "tune":
            raise SystemExit(failure)
        print(failure)
    cut = ", its time was up" if done.returncode == CUT_OFF else ""
    return f"  {verb}: {time.monotonic() - began:.0f} s{cut}", done.stdout.splitlines()


def claims_of(moetune, database):
    """{bucket: (gain, its low, its high)}"""
    command = [moetune, "show", "--json", "--db", database]
    (table,) = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    gain = [table[name] for name in ("gain", "gain_low", "gain_high")]
    claims = {} if gain[0] is None else {"launch": gain}
    for entry in table["entries"]:
        gain = [entry[name] for name in ("gain", "gain_low", "gain_high")]
        if gain[0]:
            claims[entry["bucket"]] = [math.nan if one is None else one for one in gain]
    return claims


def keep(setting, number, found, keys):
    """A line for each visit."""
    if OUT:
        times = {str(keys[at].key) + f" {keys[at].klass:g}": found[at] for at in sorted(found)}
        line = {"program": setting.command, "layer": setting.layer, "visit": number, "us": times}
        with open(OUT, "a") as file:
            print(json.dumps(dict(line, at_s=round(time.time()))), file=file)


def judge_size(moetune, program, layer, arguments):
    database = os.path.join(os.getcwd(), f"{len(os.listdir('.'))}.db")
    space_file = program.files + ".space"
    with open(space_file) as file:
        space = Ranges(file.read())
    options = ["--space", space_file, "--db", database, "--budget", f"{60 * MINUTES:.0f}s"]
    setting = Setting(program.ranks, layer, f"{program.command} {arguments}", space, options)
    of_layer = ["--ranks", str(program.ranks), "--shape", layer]
    print(f"\n{program.files} {arguments}, {layer}", flush=True)
    visits, keys = [], {}
    for number in range(VISITS):
        if number == VISITS // 2:
            print(run_moetune(moetune, "tune", setting, *of_layer)[0], flush=True)
            try:
                view = moelookup.open(database).bind(space=space.name)
            except moelookup.Error as why:
                raise SystemExit(f"  no range was decided in {MINUTES:g} minutes: {why}")
        found, first = visit(setting, number)
        visits.append(found)
        keys.update(first)
        keep(setting, number, found, keys)
    print(
        f"  {VISITS} visits.  key and class; % slower than the best plan; % saved against the"
        " default; as the table says; z"
    )
    claims = claims_of(moetune, database)
    verdicts = judge(setting, visits, keys, view, claims)
    whole = judge_launch(setting, visits, keys, view, claims.get("launch"))
    verdicts += [whole] if whole else []
    took, lines = run_moetune(moetune, "verify", setting)
    while lines and not lines[0].startswith("key "):
        del lines[0]  # of the program, and of its being cut off
    judged = [line for line in lines if not line.endswith("same plan")]
    print(took, *judged, sep="\n    ", flush=True)
    return verdicts


def main(moetune, *names):
    moetune = os.path.abspath(moetune)
    if not os.access(moetune, os.X_OK):
        raise SystemExit(f"{moetune} is no program: make builds one")
    for name in names:
        if name not in PROGRAMS:
            raise SystemExit(f"no program {name}: there are {', '.join(PROGRAMS)}")
    if VISITS < 4:
        raise SystemExit("PROGRAMS_VISITS: at least 4, for intervals are wanted")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
    print(f"{os.cpu_count()} cores", flush=True)
    verdicts = []
    for name in names:
        program = PROGRAMS[name]
        if not importlib.util.find_spec(program.needs):
            print(f"skipped: {name}: {sys.executable} has no {program.needs}")
            continue
        print(f"{program.needs} {importlib.metadata.version(program.needs)}")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(INIT, name), folder, dirs_exist_ok=True)
            os.chdir(folder)
            for layer, arguments in program.sizes:
                verdicts += judge_size(moetune, program, layer, arguments)
            os.chdir("/")
    if not verdicts:
        return
    small, perhaps = sum(v.small for v in verdicts), sum(v.perhaps for v in verdicts)
    z = [v.z for v in verdicts if v.z is not None]
    held, held_of = sum(v.held for v in verdicts), sum(v.visits for v in verdicts)
    rms = math.sqrt(sum(one * one for one in z) / len(z)) if z else math.nan
    print(
        f"\n{len(verdicts)} keys.  At most {100 * REGRET:.0f} % slower than the best plan: {small};"
        f" more, but within the interval: {perhaps};"
        f" wanted of both: {math.ceil(KEYS * len(verdicts))}."
        f"  {len(z)} claims: rms z {rms:.2f}, wanted: at most {SQUARES};"
        f" of {held_of} visits they hold {held}: {100 * held / max(held_of, 1):.0f} %"
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(f"usage: {sys.argv[0]} BUILD/moetune PROGRAM...")
    main(*sys.argv[1:])
