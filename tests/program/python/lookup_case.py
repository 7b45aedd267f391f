"""Makes a table to ask, and the test case that has it open."""

import hashlib
import os
import re
import shutil
import sqlite3
import tempfile
import unittest

from surroundings import HERE, environment

import moelookup

FIELDS = {
    "semantics": "1",
    "backend": "host",
    "device": "test-cpu",
    "device_units": "8",
    "device_gib": "64",
    "nodes": "2",
    "ranks": "4",
    "ranks_per_node": "2",
    "link_inside": "shm",
    "link_between": "tcp",
    "comm_library": "mpi",
    "compute_library": "blas",
}
LAYER = "E=2 k=2 T=512 D=128 H=256 dtype=bf16 pass=train act=gelu W=4 m=2"
BIND = dict(
    experts=2,
    top_k=2,
    model_dim=128,
    hidden_dim=256,
    ranks=4,
    ranks_per_node=2,
    dtype="bf16",
    activation="gelu",
)
WINDOW = 128
# bucket, plan, time_us, default_us, inferred, stale
ENTRIES = [
    (4, "r=1 d=1 a=linear", 100.5, 100.5, 0, 0),
    (5, "r=2 d=4 a=2dh", 200.25, 300.75, 1, 0),
    (6, "r=0 d=1 a=linear", 250.0, 300.0, 0, 1),
    (9, "r=1 d=2 a=linear", 400.0, 410.0, 0, 0),
]
PINS = [(12, 13, "r=1 d=8 a=2dh")]


def schema_text():
    return open(os.path.join(HERE, "..", "..", "db", "store", "schema.c")).read()


def schema_version():
    """That of the tables that schema() makes."""
    return max(int(number) for number in re.findall(r"version_(\d+)\[\] =", schema_text()))


def schema():
    """The tables of db/store/schema.c."""
    text = schema_text()
    body = text[text.index("version_13") : text.index("#define DICTIONARY")]
    return "".join(re.findall(r'"([^"]*)"', body))


def write_database(path, layer=LAYER, window=WINDOW, entries=ENTRIES, pins=PINS, **changed):
    fields = dict(FIELDS, **changed)
    text = "".join(f"{name} = {value}\n" for name, value in fields.items())
    db = sqlite3.connect(path)
    db.executescript(schema() + f"PRAGMA application_id=0x6d6f6574; PRAGMA user_version={schema_version()}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    db.execute("INSERT INTO fingerprint(id, hash, text, created_s) VALUES(1, ?, ?, 0)", (digest, text))
    for name, value in fields.items():
        db.execute(
            "INSERT INTO fingerprint_field(fingerprint, name, class, value) VALUES(1, ?, 'hard', ?)",
            (name, value),
        )
    db.execute("INSERT INTO shape VALUES(1, ?)", (layer,))
    for bucket, plan, time_us, default_us, inferred, stale in entries:
        gain = 1 - time_us / default_us if default_us else None
        decision = "adopted" if gain and gain > 0 else "default"
        db.execute(
            "INSERT INTO entry(fingerprint, shape, run, window, bucket, capacity, plan, time_us,"
            " default_us, gain, samples, inferred, stale, effort, search, reason, decision, decided_s)"
            " VALUES(1, 1, 1, ?, ?, ?, ?, ?, ?, ?, 5, ?, ?, 'normal', 'guided', '', ?, 0)",
            (window, bucket, (bucket + 1) * window - 1, plan, time_us, default_us, gain, inferred, stale, decision),
        )
    for first, last, plan in pins:
        db.execute(
            "INSERT INTO override(fingerprint, shape, window, first_bucket, last_bucket, plan, why,"
            " since_s) VALUES(1, 1, ?, ?, ?, ?, 'test', 0)",
            (window, first, last, plan),
        )
    db.commit()
    db.close()


class Number:
    """An integer of another kind, as numpy's are."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.database = os.path.join(cls.folder, "test.db")
        write_database(cls.database)
        # The same file as a rank sees it whose environment is another one.
        with environment(MOELOOKUP_FORCE="r=1 d=2 a=linear"), open(
            os.path.join(cls.folder, "forced"), "wb"
        ) as file:
            file.write(moelookup.open(cls.database).pack())

    def setUp(self):
        self.table = moelookup.open(self.database)
        self.view = self.table.bind(**BIND)

    def refused(self, status, call, *arguments, **named):
        with self.assertRaises(moelookup.Error) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.status, status)
        return str(caught.exception)
