"""For tests of tuners: a layer, the times of its plans, and a moetune that answers."""

import os
import shutil
import tempfile
import threading
import unittest

from surroundings import environment, silent

import moetune

LAYER = dict(experts=2, top_k=2, model_dim=16, hidden_dim=32, ranks=4, ranks_per_node=4)
ME = "device = test\n"
# Microseconds of a step, beside which the library's own time is nothing, however busy the machine.
FAST = {"r=2 d=2 a=linear": 0.7e6, "r=1 d=1 a=linear": 1e6}
OTHERS = 1.2e6


def run(tuner, steps, capacity=100, times=FAST):
    for step in range(steps):
        plan = tuner.ask(capacity + step % 20)
        tuner.tell(times.get(str(plan), OTHERS) + 1e3 * (step % 7))
    return plan


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.database = os.path.join(self.folder, "test.db")

    def tuner(self, db=None, **changed):
        tuner = moetune.Tuner(
            db or self.database, **dict(dict(LAYER, cluster=ME, share=1.0), **changed)
        )
        self.addCleanup(tuner.close)
        return tuner

    def refused(self, status, call, *arguments, **named):
        with self.assertRaises(moetune.Error) as caught, silent():
            call(*arguments, **named)
        self.assertEqual(caught.exception.status, status)
        return str(caught.exception)


class Pipes:
    """A moetune that says what it is told to."""

    def __init__(self, *answers):
        self.heard = []
        there, here = os.pipe(), os.pipe()
        self.environment = environment(
            MOETUNE_TO=f"/proc/{os.getpid()}/fd/{there[1]}",
            MOETUNE_FROM=f"/proc/{os.getpid()}/fd/{here[0]}",
            MOETUNE_TO_FD=str(there[1]),
            MOETUNE_FROM_FD=str(here[0]),
        )
        self.mine = open(there[0]), open(here[1], "w", buffering=1)
        self.theirs = there[1], here[0]
        self.thread = threading.Thread(target=self.speak, args=(answers,))

    def speak(self, answers):
        for answer in answers:
            self.heard.append(self.mine[0].readline().rstrip("\n"))
            self.mine[1].write(answer + "\n")

    def __enter__(self):
        self.environment.__enter__()
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.environment.__exit__(*error)
        os.close(self.theirs[0])
        self.thread.join()
        for file in self.mine:
            file.close()
        os.close(self.theirs[1])
