"""Tests moelookup's views of spaces that a program declares."""

import copy
import hashlib
import json
import os
import pathlib
import pickle
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from lookup_case import LAYER, write_database
from surroundings import environment, silent

import moelookup

TEXT = """space dispatch
axis r 0 1 default 1 live
axis chunks 1 2 4 default 1 live
axis dispatcher linear 2dh rail default linear restart
need r=1 | chunks=1
key tokens edges 64 256 1024 4096
class skew edges 1.25 2
"""
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()[:8]
# bucket, chunks
CHUNKS = [(1, 1), (3, 1), (4, 2), (8, 4)]


def entries():
    return [
        (b, f"r=1 chunks={c} dispatcher=rail space=dispatch@{DIGEST}", 100.5, 200.5, 0, 0)
        for b, c in CHUNKS
    ]


def write_spaces(path):
    """Two layers of one space: k=2 and k=1."""
    layer = f"{LAYER} space=dispatch@{DIGEST}"
    write_database(path, layer, 1, entries(), [])
    db = sqlite3.connect(path)
    db.execute("INSERT INTO space VALUES(?, ?)", (int(DIGEST, 16), TEXT))
    db.execute("INSERT INTO shape VALUES(2, ?)", (layer.replace("k=2", "k=1"),))
    columns = [row[1] for row in db.execute("PRAGMA table_info(entry)") if row[1] not in ("id", "shape")]
    names = ", ".join(columns)
    db.execute(f"INSERT INTO entry(shape, {names}) SELECT 2, {names} FROM entry")
    db.commit()
    db.close()


class Spaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.database = os.path.join(cls.folder, "space.db")
        write_spaces(cls.database)

    def setUp(self):
        self.table = moelookup.open(self.database)

    def test_a_plan_is_a_dict_with_numbers_as_numbers(self):
        view = self.table.bind(space="dispatch", top_k=2)
        plan = view.plan(200, 1.5)
        self.assertEqual(dict(plan), {"r": 1, "chunks": 2, "dispatcher": "rail"})
        self.assertEqual(list(plan), ["r", "chunks", "dispatcher"])
        self.assertIs(type(plan["chunks"]), int)
        self.assertRegex(str(plan), "^r=1 chunks=2 dispatcher=rail space=dispatch@[0-9a-f]{8}$")
        self.assertEqual(plan.bucket, 4)
        with self.assertRaisesRegex(KeyError, "chunk is no axis of this plan: r, chunks, dispatcher"):
            plan["chunk"]
        for same in (copy.copy(plan), pickle.loads(pickle.dumps(plan))):
            self.assertEqual((same, same.source, str(same)), (plan, plan.source, str(plan)))

    def test_a_key_and_a_class_follow_the_edges(self):
        view = self.table.bind(space="dispatch", top_k=2, ranks=4, dtype="bf16", activation="gelu")
        self.assertEqual(view.plan(64, 1.5).bucket, 1)
        self.assertEqual(view.plan(65, 1.25).bucket, 3)
        self.assertEqual(view.plan(1024, 99).bucket, 8)
        self.assertEqual(view.plan(2**40, 99).source, moelookup.Source.DEFAULT)
        self.assertIn("tokens=65, bucket 3 (tokens 65-256 skew <=1.25)", view.explain(65, 1.25))
        for wrong in (-1, 2**64):
            self.assertRaises(ValueError, view.plan, wrong)
        for wrong in ((1,), (1, -1), (1, float("nan"))):
            self.assertRaises(moelookup.Error, view.plan, *wrong)
            self.assertRaises(moelookup.Error, view.explain, *wrong)
        view.close()
        self.assertRaises(ValueError, view.plan, 1)

    def test_a_layer_that_is_not_the_only_one_is_named(self):
        with self.assertRaisesRegex(ValueError, r"2 layers .* top_k \[1, 2\]"):
            self.table.bind(space="dispatch", ranks=4)
        with self.assertRaisesRegex(ValueError, r"the table has top_k \[1, 2\]"):
            self.table.bind(space="dispatch", top_k=3)
        with self.assertRaisesRegex(TypeError, "topk"):
            self.table.bind(space="dispatch", topk=2)
        for wrong in ("dispatcher", "dispatch@00000000", ""):
            with silent():
                self.assertRaises(moelookup.Error, self.table.bind, space=wrong)
        self.assertEqual(self.table.bind(space="dispatch", top_k=1).layer["hidden_dim"], 256)

    def test_packed_bytes_answer_the_same(self):
        same = moelookup.unpack(self.table.pack())
        view, other = (t.bind(space="dispatch", top_k=2) for t in (self.table, same))
        for key in (0, 64, 65, 300, 5000):
            self.assertEqual(str(view.plan(key, 2)), str(other.plan(key, 2)))

    def test_the_same_layer_without_the_space_is_not_answered(self):
        words = dict(self.table.bind(space="dispatch", top_k=2).layer)
        self.assertEqual(self.table.bind(**words).plan(200).source, moelookup.Source.DEFAULT)

    def test_a_text_is_answered_its_default_plan_without_a_table(self):
        usual = {"r": 1, "chunks": 1, "dispatcher": "linear"}
        file = pathlib.Path(self.folder, "dispatch.space")
        file.write_text(TEXT)
        with environment(MOELOOKUP_DISABLE="1"):
            disabled = moelookup.open(self.database)
        with silent():
            self.assertRaises(moelookup.Error, disabled.bind, space="dispatch")
            self.assertRaises(moelookup.Error, disabled.bind, space="space x\naxis\n")
        for table in (disabled, moelookup.unpack(disabled.pack())):
            for given in (TEXT, file):
                for words in ({}, {"ranks": 4}):
                    plan = table.bind(space=given, **words).plan(200, 1.5)
                    self.assertEqual((dict(plan), plan.source), (usual, moelookup.Source.DEFAULT))
        self.assertEqual(self.table.bind(space=file, top_k=2).plan(200, 1.5)["chunks"], 2)

    def test_inside_a_launch_no_plan_is_of_another(self):
        path = os.path.join(self.folder, "launches.db")
        shutil.copy(self.database, path)
        db = sqlite3.connect(path)
        db.execute("DROP TABLE IF EXISTS launch")  # of the program that the table was tuned with
        db.execute(
            "CREATE TABLE launch(fingerprint INTEGER, shape INTEGER, window INTEGER, launch TEXT,"
            " bucket INTEGER, plan TEXT, time_us REAL, sd REAL, samples INTEGER)"
        )
        plan = f"r=0 chunks=1 dispatcher=2dh space=dispatch@{DIGEST}"
        db.execute("INSERT INTO launch VALUES(1, 1, 1, 'dispatcher=2dh', 4, ?, 7.5, 0.1, 3)", (plan,))
        db.commit()
        db.close()
        source, words = moelookup.Source, {"space": "dispatch", "top_k": 2}
        cases = [  # words, key, chunks, r, dispatcher, source
            ("dispatcher=rail", 200, 2, 1, "rail", source.EXACT),
            ("dispatcher=2dh", 200, 1, 0, "2dh", source.EXACT),
            ("dispatcher=2dh", 9999, 1, 1, "2dh", source.DEFAULT),
            ("dispatcher=linear", 200, 1, 1, "linear", source.UNKNOWN_LAUNCH),
        ]
        with moelookup.open(path) as table:
            packed = moelookup.unpack(table.pack())
            for launch, key, chunks, r, dispatcher, why in cases:
                wanted = {"r": r, "chunks": chunks, "dispatcher": dispatcher}
                by_name = dict(word.split("=") for word in launch.split())
                with environment(MOELOOKUP_LAUNCH=launch):
                    views = [table.bind(**words), packed.bind(**words)]
                views += [table.bind(**words, launch=one) for one in (launch, by_name)]
                for view in views:
                    told = view.plan(key, 1.5)
                    self.assertEqual((dict(told), told.source), (wanted, why))
                    self.assertIn(f", inside {launch}: ", view.explain(key, 1.5))
            self.assertEqual(table.bind(**words).plan(200, 1.5)["dispatcher"], "rail")
            for wrong in ("dispatcher=ring", "chunks=2", {"ep": 8}):
                with silent(), self.assertRaisesRegex(moelookup.Error, "inside .*argument"):
                    table.bind(**words, launch=wrong)
            layer = table.bind(**words).layer
            with silent():
                self.assertRaises(moelookup.Error, table.bind, **layer, launch="dispatcher=rail")
        command = [os.environ["MOETUNE"], "lookup", "--db", path, "--space", "dispatch", "--top-k", "2"]
        command += ["--ranks", "4", "--class", "1.5", "--key", "200", "--explain"]
        for launch, status, said in (
            ("dispatcher=2dh", 0, "exact: the best that launches with these values ran"),
            ("dispatcher=rail", 0, "exact: measured in this bucket"),
            ("dispatcher=linear", 4, "unknown launch: "),
            ("chunks=2", 2, "changes that axis while it runs"),
        ):
            done = subprocess.run(
                [*command, "--launch", launch], capture_output=True, text=True, timeout=240
            )
            self.assertEqual(done.returncode, status)
            self.assertIn(said, done.stdout + done.stderr)

    def lookup(self, *words):
        command = [os.environ["MOETUNE"], "lookup", "--db", self.database, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        return done.returncode, done.stdout, done.stderr

    def test_the_program_answers_the_same(self):
        view = self.table.bind(space="dispatch", top_k=2)
        words = "--space", "dispatch", "--ranks", "4", "--top-k", "2", "--class", "1.7"
        for key in (0, 64, 65, 600, 2**40):
            plan = view.plan(key, 1.7)
            self.assertEqual(self.lookup(*words, "-c", str(key)), self.lookup(*words, "--key", str(key)))
            code = 4 if plan.source == moelookup.Source.DEFAULT else 0
            self.assertEqual(self.lookup(*words, "--key", str(key))[:2], (code, f"{plan}\n"))
            said = self.lookup(*words, "--key", str(key), "--explain")[1]
            self.assertEqual(said, view.explain(key, 1.7) + "\n")
            told = json.loads(self.lookup(*words, "--key", str(key), "--json")[1])
            self.assertEqual((told[0]["key"], told[0]["class"]), (key, 1.7))
            self.assertEqual((told[0]["plan"], told[0]["source"]), (str(plan), plan.source))

    def test_the_program_says_what_it_cannot_answer(self):
        for words, said in (
            (("--space", "dispatch", "--key", "1"), "several layers of it"),
            (("--space", "dispatch", "--key", "1", "--top-k", "3"), "no layer of it agrees"),
            (("--space", "dispatcher", "--key", "1"), "no table here has a layer"),
            (("--space", "dispatch", "--key", "-1"), "a whole number is wanted"),
            (("--space", "dispatch",), "--key N or --digest is wanted"),
            (("--space", "dispatch", "-c", "1"), "several layers of it"),
            (("--space", "dispatch", "--ranks", "8", "--capacities", "1"), "no layer of it agrees"),
            (("--space", "dispatch", "--top-k", "1", "--key", "1"), "--class X is wanted"),
        ):
            code, out, error = self.lookup(*words)
            self.assertEqual((code, out), (4 if said.startswith("no table") else 2, ""), words)
            self.assertIn(said, error)

    def test_the_same_layers_leave_as_csv_and_not_as_c(self):
        command = [os.environ["MOETUNE"], "export", "--db", self.database, "--format"]
        path = self.database + ".csv"
        subprocess.run([*command, "csv", "-o", path], check=True, timeout=240)
        with open(path) as file:
            rows = [line.split(",") for line in file.read().splitlines()[1:5]]
        ends = [[*row[4:7], row[-1]] for row in rows]
        self.assertEqual(ends, [
            ["1", "0", "64", "1.251-2"],
            ["3", "65", "256", "<=1.25"],
            ["4", "65", "256", "1.251-2"],
            ["8", "257", "1024", ">2"],
        ])
        done = subprocess.run([*command, "header"], capture_output=True, text=True, timeout=240)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("plans of the space dispatch", done.stderr)
