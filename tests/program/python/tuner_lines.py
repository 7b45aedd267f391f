"""Tests the lines that moetune tune --exec and a program write to each other."""

import contextlib
import io
import os
import subprocess
import sys

from surroundings import PACKAGE, environment, outcome, python
from tuner_case import Case, FAST, LAYER, OTHERS, Pipes

import moetune
import moetune.lines

PROGRAM = f"""
import sys, moetune
steps, db = int(sys.argv[1]), sys.argv[2]
with moetune.attach(db, **{LAYER!r}, share=1.0, window=0) as tuner:
    for step in range(steps):
        plan = tuner.ask(100 + step % 20)
        if str(plan) == "r=4 d=1 a=linear":
            tuner.fail("not today")
            continue
        tuner.tell({FAST!r}.get(str(plan), {OTHERS!r}) + 1e3 * (step % 7))
    status = tuner.status()
    print(type(tuner).__name__, "ends with", plan, "decided", status.decided, "steps", status.steps,
          "window", moetune.lines.attached_window())
"""
# As torchrun: descriptors are closed, and others come to lie at their numbers.
LAUNCHER = """
import os, subprocess, sys
def take():
    for name in ("MOETUNE_TO_FD", "MOETUNE_FROM_FD"):
        os.dup2(os.open(os.devnull, os.O_RDWR), int(os.environ[name]))
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], preexec_fn=take).returncode)
"""


class Lines(Case):
    def program(self, text):
        path = os.path.join(self.folder, f"{len(os.listdir(self.folder))}.py")
        with open(path, "w") as file:
            file.write(text)
        return path

    def interview(self, command, more="", verb="tune"):
        flags = "--ranks 4 --experts 2 --tokens 64 --model-dim 16 --hidden-dim 32 " if verb == "tune" else ""
        flags += "--quiet " + more
        with environment(PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1"):
            return subprocess.run(
                [
                    os.environ["MOETUNE"],
                    verb,
                    *flags.split(),
                    "--db",
                    self.database,
                    "--exec",
                    command,
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                universal_newlines=True,
                timeout=480,
            )

    def test_one_program_is_run_either_way(self):
        program = self.program(PROGRAM)
        done = self.interview(f"{sys.executable} {program} 300 /nowhere/none.db")
        self.assertEqual(done.returncode, 0, done.stdout)
        said = "ends with r=2 d=2 a=linear decided "
        # Buckets are those of the layer that the command names: 96 to 103, to 111 and to 119.
        self.assertIn("Attached " + said + "3 steps 300 window 8", done.stdout)
        alone = python(program, "600", os.path.join(self.folder, "alone.db"))
        self.assertIn("Tuner " + said + "1 steps 600 ", alone.stdout, alone.stderr)

    def test_buckets_are_as_wide_as_the_command_says(self):
        program = self.program(PROGRAM)
        done = self.interview(f"{sys.executable} {program} 300 /nowhere/none.db", "--window 128")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("decided 1 steps 300 window 128", done.stdout)

    def test_a_table_is_tested_by_the_program_that_it_is_of(self):
        command = f"{sys.executable} {self.program(PROGRAM)} 300 /nowhere/none.db"
        self.interview(command, "--window 128")
        done = self.interview(command, verb="verify")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^0-127 +r=2 d=2 a=linear .* faster$")
        self.assertNotIn("Traceback", done.stdout)  # it is ended in the middle of its questions

    def test_flags_of_another_layer_are_refused(self):
        program = self.program(PROGRAM.replace("model_dim': 16", "model_dim': 24"))
        done = self.interview(f"{sys.executable} {program} 300 /nowhere/none.db")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("its flags name another layer than this program's: D=16, not 24", done.stdout)

    def test_behind_a_launcher_the_pipes_are_found_by_name(self):
        launcher, program = self.program(LAUNCHER), self.program(PROGRAM)
        done = self.interview(f"{sys.executable} {launcher} {program} 300 /nowhere/none.db")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("decided 3 steps 300 window 8", done.stdout)

    def test_the_words_are_those_of_the_protocol(self):
        answers = (
            "plan r=2 d=4 a=2dh",
            "ok",
            "plan r=0 d=1 a=linear e=sparse",
            "ok",
            "status decided 3 open 1 steps 208 tried 61",
        )
        with Pipes(*answers) as other, moetune.attach() as tuner:
            plan = tuner.ask(384)
            self.assertEqual(plan[:4], (2, 4, "2dh", moetune.Source.TENTATIVE))
            follower = moetune.Attached(speaks=False)
            self.assertEqual(follower.follow(tuner.order(), 384), plan)
            self.refused(-3, follower.follow, tuner.order(), 385)
            self.refused(-1, follower.ask, 384)
            tuner.tell(10250.5)
            self.refused(-1, tuner.tell, 1.0)
            self.assertEqual(tuner.ask(5).e, "sparse")
            tuner.fail("no\nmemory ")
            self.assertEqual(tuner.status(), moetune.Status(steps=208, tried=61, decided=3, open=1))
        expected = ["ask 384", "tell 10250.5", "ask 5", "failed no memory", "status"]
        self.assertEqual(other.heard, expected)

    def test_counts_are_asked_for_as_their_capacity(self):
        with environment(MOETUNE_LAYER="E=4 k=2 W=2"):
            with Pipes("plan r=1 d=1 a=linear") as other, moetune.attach() as tuner:
                tuner.ask_counts([[100, 0, 0, 0], [0, 40, 0, 1]])
        self.assertEqual(other.heard, ["ask 35"])

    def test_other_answers_are_refused(self):
        for answer, text in (
            ("error why", "error why"),
            ("", "moetune answers"),
            ("plan", "is no plan"),
            ("plan r=1 d=2", "is no plan"),
            ("plan r=1 d=x a=linear", "is no plan"),
            ("plan r=1 d=2 a=linear q=3", "does not know: q"),
            ("plan r=1 d=2 a=linear bucket=3", "does not know: bucket"),
        ):
            with Pipes(answer), moetune.attach() as tuner:
                self.assertIn(text, str(outcome(lambda: tuner.ask(5))), answer)

    def test_a_moetune_that_is_gone_is_an_error(self):
        with Pipes() as other, moetune.attach() as tuner:
            other.mine[1].close()
            self.assertIn("moetune is gone", str(outcome(lambda: tuner.ask(5))))
            other.mine[0].close()
            self.assertIn("Broken pipe", str(outcome(lambda: tuner.ask(5))))

    def test_the_words_of_a_program_with_a_space(self):
        plan = "plan dispatcher=alltoall experts=2dh chunks=2 ep=4"
        variables = {
            "MOETUNE_SPACE": "space mine\n",
            "MOETUNE_PLAN": "dispatcher=alltoall ep=4",
            "MOETUNE_LAYER": "E=8 W=4 dtype=f32",
        }
        with Pipes(plan, "ok", plan, "ok", plan, "ok", "end") as other, environment(**variables):
            with moetune.asker("not this one") as asker:
                self.assertEqual(asker.launch, {"dispatcher": "alltoall", "ep": 4})
                self.assertEqual(asker.layer, {"E": 8, "W": 4, "dtype": "f32"})
                values = asker.ask(512)
                self.assertEqual(
                    values, {"dispatcher": "alltoall", "experts": "2dh", "chunks": 2, "ep": 4}
                )
                for named, said in ((values, "dispatcher, experts, "), (asker.launch, "dispatcher, ep")):
                    with self.assertRaisesRegex(KeyError, f"chunk is no axis of this plan: {said}"):
                        named["chunk"]
                for wrong in (-1.0, 0.0, float("nan"), float("inf")):
                    self.assertRaises(ValueError, asker.tell, wrong)
                self.assertRaises(ValueError, asker.tell, 1.0, memory=-1)
                asker.tell(10.5, memory=2**40, loss=0.25, tokens=3)
                self.refused(-1, asker.tell, 1.0)
                asker.ask(0, 1.25)
                asker.fail("caf\u00e9\nclosed" + 200 * "!")
                asker.ask(2**64 - 1, 2)
                asker.tell(3, loss=float("nan"))
                self.assertIsNone(asker.ask(9))
                self.refused(-1, asker.fail, "after the end")
        expected = [
            "ask 512",
            f"tell 10.5 memory={2**40} loss=0.25 tokens=3.0",
            "ask 0 1.25",
            "failed caf? closed" + 139 * "!",
            f"ask {2**64 - 1} 2.0",
            "tell 3.0 loss=nan",
            "ask 9",
        ]
        self.assertEqual(other.heard, expected)

    def test_a_program_with_a_space_runs_one_plan_by_hand(self):
        with environment(MOETUNE_SPACE=None), contextlib.redirect_stdout(io.StringIO()) as said:
            asker = moetune.asker("experts=loop ep=2", steps=2)
            self.assertEqual(asker.launch, {"experts": "loop", "ep": 2})
            self.assertEqual(asker.ask(7), {"experts": "loop", "ep": 2})
            asker.tell(12.25, memory=5)
            self.assertEqual(asker.ask(7), {"experts": "loop", "ep": 2})
            asker.fail("no")
            self.assertIsNone(asker.ask(7))
        lines = ["experts=loop ep=2: 12.2 us memory=5", "experts=loop ep=2: failed: no", ""]
        self.assertEqual(said.getvalue().split("\n"), lines)
        with environment(MOETUNE_SPACE="space mine\n", MOETUNE_TO=None):
            self.assertIn("$MOETUNE_TO and $MOETUNE_FROM are wanted", str(outcome(lambda: moetune.asker(""))))

    def test_without_moetune_a_layer_must_be_given(self):
        with self.assertRaises(moetune.Error):
            moetune.attach()
        with environment(
            MOETUNE_TO="/nowhere/a",
            MOETUNE_FROM="/nowhere/b",
            MOETUNE_TO_FD="",
            MOETUNE_FROM_FD="0",
        ):
            with self.assertRaises(moetune.Error):
                moetune.attach(self.database, **LAYER)
