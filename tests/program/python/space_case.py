"""For tests of programs with a space: reads the space by a few lines of its own, and plays a moetune that asks
programs to run its plans."""

import contextlib
import itertools
import multiprocessing
import os
import re
import runpy
import socket
import sys
import tempfile
import threading

from surroundings import PACKAGE, environment

PATIENCE_S = 960


class Space:
    def __init__(self, text):
        lines = [line.partition("#")[0].split() for line in text.splitlines()]
        said = [words for words in lines if words]
        self.text, self.name = text, said[0][1]
        self.axes, self.usual, self.restart, self.needs, self.edges = {}, {}, set(), [], []
        for word, *rest in said[1:]:
            if word == "axis":
                self.add_axis(*rest)
            elif word == "need":
                self.needs.append(" ".join(rest))
            elif word == "key":
                self.edges = [int(edge) for edge in rest[2:]]
            elif word != "class":
                raise ValueError(f"{word}: no statement")

    def add_axis(self, name, *rest):
        at = rest.index("default")
        self.axes[name], self.usual[name] = list(rest[:at]), rest[at + 1]
        if rest[at + 2 :] == ("restart",):
            self.restart.add(name)
        else:
            assert rest[at + 2 :] in ((), ("live",)), rest

    def is_legal(self, plan):
        def holds(comparison):
            left, sign, right = re.fullmatch(
                r"([\w*]+)(!=|<=|>=|=|<|>| divides )([\w*]+)", comparison
            ).groups()
            if "ranks" in (left, right):
                return True  # on some number of them
            values = [[plan.get(word, word) for word in side.split("*")] for side in (left, right)]
            if sign in ("=", "!="):
                return (values[0] == values[1]) == (sign == "=")
            a, b = (eval("*".join(side)) for side in values)
            return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[sign]

        return all(
            any(all(holds(c.strip()) for c in part.split("&")) for part in need.split("|"))
            for need in self.needs
        )

    def plans(self):
        every = (dict(zip(self.axes, values)) for values in itertools.product(*self.axes.values()))
        return [plan for plan in every if self.is_legal(plan)]

    def launches(self):
        """What restart axes may be together, and the plans of each."""
        found = {}
        for plan in self.plans():
            key = " ".join(f"{name}={plan[name]}" for name in self.axes if name in self.restart)
            found.setdefault(key, []).append(" ".join(f"{n}={v}" for n, v in plan.items()))
        return found


def be_rank(command, said, others):
    """In a process of its own: what `python3 COMMAND...` would be there, but that torch is loaded."""
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    for fd in others:
        os.close(fd)
    ours = os.path.realpath(PACKAGE), os.path.dirname(os.path.realpath(__file__))
    for name, module in list(sys.modules.items()):
        where = os.path.realpath(getattr(module, "__file__", None) or "/")
        if name != "__main__" and where.startswith(ours):
            del sys.modules[name]
    paths = [os.path.dirname(command[0]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = paths + [path for path in sys.path if os.path.realpath(path) not in ours]
    sys.argv[:] = command
    runpy.run_path(command[0], run_name="__main__")


class Launch:
    """All ranks of a program; it is asked for the plans, told `end`, and has ended."""

    def __init__(self, space, ranks, command, plan, plans, layer, gone_after=None, **variables):
        self.outcomes, self.keys, self.gone_after = {}, [], gone_after
        self.heard = []  # outcomes one by one
        there, here = os.pipe(), os.pipe()
        self.mine, self.pipes = (open(there[0]), open(here[1], "w", buffering=1)), (*there, *here)
        names = {
            "MOETUNE_TO": f"/proc/{os.getpid()}/fd/{there[1]}",
            "MOETUNE_FROM": f"/proc/{os.getpid()}/fd/{here[0]}",
            "MOETUNE_SPACE": space.text,
            "MOETUNE_PLAN": plan,
            "MOETUNE_LAYER": layer,
        }
        started = self.start(ranks, command, dict(names, **variables))
        thread = threading.Thread(target=self.speak, args=(list(plans),), daemon=True)
        thread.start()
        self.wait_for(started)
        os.close(there[1])
        thread.join()
        os.close(here[0])
        self.close_mine()

    def start(self, ranks, command, variables):
        """Before a thread speaks with it: a process that is forked has no others."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        # To load torch takes longer than all that a rank does here: it is loaded once.
        with environment(**common), contextlib.suppress(ImportError):
            import torch.distributed  # noqa: F401
        started = []
        for rank in range(ranks):
            said = tempfile.TemporaryFile("w+")
            process = multiprocessing.get_context("fork").Process(
                target=be_rank, args=(command, said, self.pipes), daemon=True
            )
            with environment(**dict(common, **variables), RANK=str(rank), LOCAL_RANK=str(rank)):
                process.start()
            started.append((process, said))
        return started

    def wait_for(self, started):
        self.said, self.codes = "", []
        for process, said in started:
            process.join(PATIENCE_S)
            hung = process.exitcode is None
            if hung:
                process.kill()
                process.join()
            with said:
                said.seek(0)
                self.said += said.read() + ("\nit hung\n" if hung else "")
            self.codes.append(process.exitcode)

    def speak(self, plans):
        """Each plan once under each key that comes, then `end`."""
        plan = None
        for heard in self.mine[0]:
            word, _, rest = heard.rstrip("\n").partition(" ")
            if self.gone_after == len(self.outcomes):
                return self.close_mine()
            if word == "ask":
                self.keys.append(rest)
                plan = plans.pop(0) if plans else None
                answer = "end" if plan is None else f"plan {plan}"
            elif word in ("tell", "failed"):
                self.outcomes[plan] = (word, rest)
                self.heard.append((word, rest))
                answer = "ok"
            else:
                answer = f"error {word}"
            self.mine[1].write(answer + "\n")

    def close_mine(self):
        for file in self.mine:
            file.close()
