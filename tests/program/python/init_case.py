"""The base of tests of moetune init: runs a program that it wrote on ranks, and plays moetune."""

import os
import shutil
import tempfile
import unittest

from init_verb import PROGRAMS, read
from space_case import Launch, Space
from surroundings import PACKAGE, can_import

# In the place of what others made: as much as programs call of it. It asserts what they rely on.
UPSTREAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upstream")

# Changes what a test wants to be otherwise, and then is the program.
WRAPPER = """
import os, runpy, sys
program, change = sys.argv[1:3]
sys.argv[:] = sys.argv[1:2] + sys.argv[3:]
sys.path.insert(0, os.path.dirname(program))
exec(change)
runpy.run_path(program, run_name="__main__")
"""


def declared(program):
    return Space(read(PROGRAMS, f"{program}.space").decode())


@unittest.skipUnless(can_import("torch.distributed"), "torch is not installed")
class Programs(unittest.TestCase):
    program = None  # its folder and its name
    space = None
    layer = None

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def launch(self, ranks, plan, plans, *arguments, change="", upstream=None, **more):
        """The program has ended. upstream: a folder in which Python finds what others made."""
        program = os.path.join(PROGRAMS, f"{self.program}.py")
        command = [self.write("wrapper.py", WRAPPER), program, change, *arguments]
        more.setdefault("layer", self.layer)
        more["PYTHONPATH"] = os.pathsep.join([PACKAGE] + ([upstream] if upstream else []))
        return Launch(self.space, ranks, command, plan, plans, **more)

    def ended_well(self, launch):
        self.assertEqual(set(launch.codes), {0}, launch.said)

    def words(self, launch):
        """Of each plan: `tell` or `failed`."""
        self.ended_well(launch)
        return {plan: word for plan, (word, _) in launch.outcomes.items()}

    def all_told(self, launch, plans):
        self.assertEqual(self.words(launch), dict.fromkeys(plans, "tell"), launch.outcomes)
        for _, said in launch.outcomes.values():
            self.assertGreater(float(said.split()[0]), 0)

    def refused(self, launch, sentence, times=1):
        """Every rank ended at once, and one of them, or so many, says why, once."""
        self.assertEqual(set(launch.codes), {1}, launch.said)
        self.assertEqual(launch.said.count(sentence), times, launch.said)


def numbers(keys):
    """Keys and classes, as they were asked."""
    return [tuple(map(float, key.split())) for key in keys]
