"""Tests what moetune init lists, writes and refuses."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from space_case import Space
from surroundings import HERE, PACKAGE, environment

PROGRAMS = os.path.join(HERE, "..", "..", "tuner", "program", "init")


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def files_of(name):
    return sorted(f for f in os.listdir(os.path.join(PROGRAMS, name)) if not f.startswith("__"))


class Init(unittest.TestCase):
    names = sorted(os.listdir(PROGRAMS))

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def init(self, *arguments, code=0):
        done = subprocess.run(
            [os.environ["MOETUNE"], "init", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            cwd=self.folder,
            timeout=240,
        )
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_it_lists_what_there_is(self):
        listed = [line.split()[0] for line in self.init().splitlines() if line.startswith("  ")]
        self.assertEqual(listed, self.names)
        self.assertIn("torch-moe", listed)

    def test_what_it_writes_is_what_lies_in_the_source(self):
        for name in self.names:
            said = self.init(name, os.path.join(self.folder, name))
            self.assertEqual(sorted(os.listdir(os.path.join(self.folder, name))), files_of(name))
            for file in files_of(name):
                self.assertEqual(read(self.folder, name, file), read(PROGRAMS, name, file))
                self.assertIn(f"wrote {self.folder}/{name}/{file}\n", said)

    def test_it_says_what_to_type_next(self):
        for name in self.names:
            how = self.init(name, "there").partition("\nnext:\n")[2].splitlines()
            self.assertEqual(how[0], "    cd there")
            command = tune_command(how)
            for word in " ".join(command).split():
                if word.endswith((".py", ".space")):
                    self.assertIn(word, files_of(name))
            self.assertNotIn("cd ", self.init(name).partition("next:")[2])

    def test_the_manual_says_the_same_commands(self):
        manual = read(PROGRAMS, "..", "..", "cli", "moetune-frameworks.7.md").decode()
        printed = [part.partition("```")[0] for part in manual.split("```sh\n")[1:]]
        for name in self.names:
            (commands,) = (part for part in printed if f"moetune init {name}\n" in part)
            self.assertEqual(
                tune_command(commands.splitlines()),
                tune_command(self.init(name, "--force").splitlines()),
            )
            for file in files_of(name):
                os.remove(os.path.join(self.folder, file))

    def test_what_is_not_installed_is_said_in_one_line(self):
        for name, lacking in itertools.product(self.names, ("moetune", "torch")):
            (space,) = (f for f in files_of(name) if f.endswith(".space"))
            program = os.path.join(PROGRAMS, name, space.replace(".space", ".py"))
            with environment(PYTHONPATH=PACKAGE):
                done = subprocess.run(
                    [sys.executable, "-c", WITHOUT, lacking, program],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    universal_newlines=True,
                    timeout=240,
                )
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            found = "moetune" if lacking == "moetune" else "(torch|deep_ep|deepspeed)"
            self.assertRegex(done.stderr, f"^{space[:-6]}: .*{found}.*: (pip install|it needs) ")

    def test_what_it_says_tunes_the_layer_of_the_program(self):
        """Under the very flags; in place of the program one that says which layer it was told."""
        for name in self.names:
            command = tune_command(self.init(name).splitlines())
            program = os.path.join(self.folder, "program.py")
            with open(program, "w") as file:
                file.write(TOLD)
            command[0] = os.environ["MOETUNE"]
            at = command.index("--exec") + 1
            launcher = re.search("--nproc_per_node ([0-9]+)", command[at])
            per_node = launcher.group(1) if launcher else "1"
            self.assertEqual(command[command.index("--ranks") + 1], per_node)
            command[at] = f"{sys.executable} {program}"
            command += ["--db", os.path.join(self.folder, "a.db"), "--quiet"]
            with environment(PYTHONPATH=PACKAGE):
                done = subprocess.run(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    universal_newlines=True,
                    cwd=self.folder,
                    timeout=240,
                )
            self.assertEqual(done.returncode, 1, done.stdout)  # it asks nothing
            told = set(read(self.folder, "told").decode().split())
            self.assertLessEqual(set(usual_layer(name).split()), told)
            self.assertIn(f"W={per_node}", told)

    def test_nothing_is_overwritten_unless_forced(self):
        self.init("torch-moe")
        mine = os.path.join(self.folder, "torch-moe.space")
        with open(mine, "w") as file:
            file.write("space mine\n")
        os.remove(os.path.join(self.folder, "torch-moe.py"))
        said = self.init("torch-moe", code=2)
        self.assertIn("./torch-moe.space exists: --force overwrites it", said)
        self.assertEqual(read(mine), b"space mine\n")
        # Where one file is in the way none is written.
        self.assertFalse(os.path.exists(os.path.join(self.folder, "torch-moe.py")))
        self.init("torch-moe", "--force")
        self.assertEqual(read(mine), read(PROGRAMS, "torch-moe", "torch-moe.space"))

    def test_what_cannot_be_is_refused(self):
        said = self.init("torchmoe", code=2)
        self.assertIn('init: no program "torchmoe" (did you mean torch-moe?)', said)
        self.assertIn("moetune init lists them", self.init("xylophone", code=2))
        self.assertIn('takes no argument "b"', self.init("tutel", "a", "b", code=2))
        self.assertIn("no/where", self.init("tutel", "no/where", code=1))
        self.assertEqual(os.listdir(self.folder), [])

    def test_spaces_and_programs_can_be_read(self):
        for name in self.names:
            for file in files_of(name):
                text = read(PROGRAMS, name, file).decode()
                if file.endswith(".py"):
                    compile(text, file, "exec")
                    continue
                space = Space(text)
                self.assertTrue(space.is_legal(space.usual), name)
                self.assertLessEqual(len(space.plans()), 2000, name)
                self.assertLessEqual(1, len(space.edges), name)
                # By hand a program runs the default.
                by_hand = " ".join(f"{axis}={value}" for axis, value in space.usual.items())
                self.assertIn(
                    sorted(by_hand.split()),
                    [sorted(line.split()) for line in quoted(name)],
                )


WITHOUT = """
import runpy, sys
sys.modules.update(dict.fromkeys((sys.argv[1], "torch", "deepspeed", "deep_ep", "transformers")))
sys.path.insert(0, sys.argv[2].rpartition("/")[0])
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# Says what layer it was told, and ends.
TOLD = """
import os
with open("told", "w") as file:
    file.write(os.environ["MOETUNE_LAYER"])
"""


def tune_command(lines):
    """What init says last to type, in words."""
    text = "\n".join(lines).replace("\\\n", "")
    return shlex.split(text[text.index("moetune tune --space ") :])


def usual_layer(name):
    """What the program runs where no command names a layer."""
    (usual,) = re.findall(
        '^USUAL = "(.*)"', "\n".join(read(PROGRAMS, name, f).decode() for f in files_of(name)), re.M
    )
    return usual


def quoted(name):
    texts = (read(PROGRAMS, name, file).decode() for file in files_of(name) if file.endswith(".py"))
    return [part for text in texts for part in text.split('"')]
