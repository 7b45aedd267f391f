"""Tests moelookup's tables, the capacity rule, how the library is found, and the wheel."""

import array
import copy
import ctypes.util
import gc
import glob
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import warnings
from unittest import mock

from surroundings import HERE, PACKAGE, can_import, environment, python, silent
from lookup_case import BIND, Case, LAYER, WINDOW, write_database

import moelookup


def frozen(name):
    with open(os.path.join(HERE, "..", "data", "corpus", "lookup", name), "rb") as file:
        return file.read()


class Tables(Case):
    def test_pack_and_unpack_keep_digest_and_plans(self):
        packed = self.table.pack()
        for form in (packed, bytearray(packed), memoryview(packed)):
            again = moelookup.unpack(form)
            self.assertEqual(again.digest(), self.table.digest())
            self.assertEqual(again.pack(), packed)
        self.assertEqual(len(again.digest()), 32)
        view = again.bind(**BIND)
        for capacity in range(0, 20 * WINDOW, 31):
            self.assertEqual(view.plan(capacity), self.view.plan(capacity))

    def test_capacities_that_differ_are_two_equal_ones(self):
        for capacity in (0, 300, 900):
            self.assertEqual(self.view.plan_uneven(capacity, capacity), self.view.plan(capacity))
            explained = self.view.explain(capacity)
            self.assertEqual(self.view.explain_uneven(capacity, capacity), explained)
        plan = self.view.plan_uneven(5 * WINDOW, 3 * WINDOW)  # this table knows one kind of plans
        self.assertEqual((str(plan), plan.source.name), ("r=1 d=1 a=linear", "UNCOMPARED"))
        self.assertIn("uncompared", self.view.explain_uneven(5 * WINDOW, 3 * WINDOW))
        with self.assertRaises(moelookup.Error):
            self.view.plan_uneven(3, 4)
        with self.assertRaises(ValueError):
            self.view.plan_uneven(-1, 0)

    def test_counts_are_two_capacities(self):
        self.assertEqual(moelookup.keys([512, 64, 64, 0], 4, 2), (288, 160))
        self.assertEqual(moelookup.keys([512, 64, 64, 0], 4, 4), (512, 160))
        self.assertEqual(moelookup.keys([[100, 0, 0, 0], [0, 40, 0, 1]], 4, 2), (35, 25))
        for counts, ranks in (([1, 2, 3], 2), ([1] * 12, 2), ([], 2), ([2**32 - 1] * 4, 2)):
            with self.assertRaises(moelookup.Error, msg=counts):
                moelookup.keys(counts, 4, ranks)
        for counts in ([1, -2, 3, 4], [1, 2, 3, 2**32], [1, 2, 3, 0.5], [[1, 2], [3]], ["a"] * 4):
            with self.assertRaises(ValueError, msg=counts):
                moelookup.keys(counts, 4, 2)

    def test_a_step_that_drops_nothing_is_asked_by_its_counts(self):
        draw = random.Random(1)
        rows = [[draw.randrange(700), draw.randrange(700)] for _ in range(4)]
        expected = self.view.plan_uneven(*moelookup.keys(rows, 2, 4))
        flat = [count for row in rows for count in row]
        for counts in (rows, flat, tuple(flat), array.array("q", flat), map(tuple, rows)):
            self.assertEqual(self.view.plan_counts(counts), expected)
        for count in (0, 5, 600, 2000):
            self.assertEqual(self.view.plan_counts([count, count]), self.view.plan(count))
        with self.assertRaisesRegex(moelookup.Error, "3 numbers, 2 or 4 times 2 are wanted"):
            self.view.plan_counts([1, 2, 3])
        if can_import("numpy"):
            import numpy

            for kind in (numpy.int64, numpy.uint32, numpy.int16):
                counts = numpy.array(rows, kind)
                self.assertEqual(self.view.plan_counts(counts), expected)
                self.assertEqual(self.view.plan_counts(list(counts)), expected)

    def test_counts_that_lie_on_a_device_are_taken_with_a_warning(self):
        class Tensor(list):
            def __init__(self, values, kind):
                super().__init__(values)
                self.device = types.SimpleNamespace(type=kind)

            def tolist(self):
                return list(self)

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(self.view.plan_counts(Tensor([5, 5], "cpu")), self.view.plan(5))
            self.assertEqual(said, [])
            self.assertEqual(self.view.plan_counts(Tensor([5, 5], "cuda")), self.view.plan(5))
        self.assertIn("waits for the device", str(said[0].message))
        self.assertEqual(os.path.basename(said[0].filename), os.path.basename(__file__))

    def test_a_layer_cut_by_hidden_units_has_its_own_table_and_default(self):
        table = moelookup.unpack(frozen("packed-later"))
        layer = dict(experts=2, top_k=1, model_dim=16, hidden_dim=96, ranks=8, ranks_per_node=4)
        cut = dict(layer, train=False, layout="hidden")
        view = table.bind(**cut, shares="speed", layers=4)
        self.assertEqual(str(view.plan(0)), "r=0 d=1 a=linear e=sparse")
        self.assertEqual(str(view.plan(2 * WINDOW)), "r=0 d=4 a=linear e=sparse w=cache")
        self.assertEqual(view.shape.layers, 4)
        limited = dict(layer, hidden_dim=192, train=False, groups=2, group_limit=1)
        self.assertEqual(table.bind(**limited, router="sigmoid").plan(0).source.name, "OVERRIDE")
        with silent():
            self.assertEqual(str(table.bind(**cut).plan(0)), "r=0 d=1 a=linear e=sparse")
            self.assertEqual(str(table.bind(**layer).plan(0)), "r=1 d=1 a=linear")
        for wrong in (dict(layout="rows"), dict(shares="fair"), dict(layers=-1), dict(groups=-1), dict(router="best")):
            with self.assertRaises(ValueError):
                table.bind(**layer, **wrong)

    def test_a_protocol_is_part_of_a_plan(self):
        table = moelookup.unpack(frozen("packed-proto"))
        layer = dict(experts=2, top_k=1, model_dim=16, hidden_dim=96, ranks=8, ranks_per_node=4, train=False)
        plan = table.bind(**layer).plan(15 * WINDOW)
        self.assertEqual(plan.proto, "ll128")
        self.assertEqual(str(plan), "r=4 d=2 a=2dh proto=ll128")
        self.assertEqual(table.bind(**layer).plan(12 * WINDOW).proto, "auto")

    def test_order_projection_and_combine_are_parts_of_the_layer(self):
        table = moelookup.unpack(frozen("packed-latest"))
        layer = dict(experts=2, top_k=1, model_dim=16, ranks=8, ranks_per_node=4, train=False)
        ordered = table.bind(**layer, hidden_dim=96, order="priority")
        self.assertEqual(ordered.plan(0).source.name, "OVERRIDE")
        cosine = dict(layer, hidden_dim=192, router="cosine", combine="choices")
        cosine.update(ranks_per_node=2, ranks_per_rack=4)
        for projection in (0, 16):  # as many as tokens have, where nobody says it
            view = table.bind(**cosine, projection=projection)
            self.assertEqual(view.plan(0).source.name, "EXACT")
        with silent():
            for other in (dict(cosine, projection=8), dict(cosine, combine="sum"), dict(cosine, ranks_per_rack=0), dict(layer, hidden_dim=96)):
                self.assertEqual(table.bind(**other).plan(0).source.name, "DEFAULT")
        for wrong in (dict(order="best"), dict(combine="all"), dict(projection=-1)):
            with self.assertRaises(ValueError):
                table.bind(**dict(layer, hidden_dim=96), **wrong)

    def test_damaged_bytes_are_refused(self):
        packed = self.table.pack()
        for damaged in (b"", packed[:-1], packed + b"\0", packed[:50] + b"\xff" + packed[51:]):
            self.refused(-3, moelookup.unpack, damaged)

    def test_a_path_may_be_text_bytes_or_a_path(self):
        import pathlib

        packed = os.path.join(self.folder, "packed-\u00e9")
        with open(packed, "wb") as file:
            file.write(self.table.pack())
        for path in (packed, os.fsencode(packed), pathlib.Path(packed)):
            self.assertEqual(moelookup.open(path).digest(), self.table.digest())
        with self.assertRaises(ValueError):
            moelookup.open(self.database + "\0x")
        with self.assertRaises(TypeError):
            moelookup.open(3.5)

    def test_a_file_that_is_not_there_is_an_error_that_names_it(self):
        with silent():
            text = self.refused(-2, moelookup.open, os.path.join(self.folder, "none.db"))
        self.assertIn("none.db", text)

    def test_the_environment_counts_when_a_table_is_opened(self):
        with environment(MOELOOKUP_DB=self.database):
            self.assertEqual(moelookup.open().bind(**BIND).plan(640).d, 4)
            with environment(MOELOOKUP_FORCE="r=1 d=2 a=2dh"):
                forced = moelookup.open()
            with environment(MOELOOKUP_DISABLE="1"):
                disabled = moelookup.open()
        plan = forced.bind(**BIND).plan(640)
        self.assertEqual((str(plan), plan.source.name), ("r=1 d=2 a=2dh", "OVERRIDE"))
        self.assertEqual(disabled.bind(**BIND).plan(640).source.name, "DEFAULT")
        self.assertEqual(len({t.digest() for t in (self.table, forced, disabled)}), 3)

    def test_a_view_outlives_its_table(self):
        plan = self.view.plan(640)
        self.table.close()
        fresh = self.view
        self.assertIs(fresh.plan(640), plan)
        self.assertEqual(fresh.plan(9 * WINDOW).bucket, 9)

    def test_close_may_be_called_again_and_what_is_closed_says_so(self):
        self.view.plan(640)
        for thing in (self.view, self.table):
            thing.close()
            thing.close()
            with self.assertRaises(ValueError), thing:
                pass
        for call in (
            lambda: self.view.plan(640),
            lambda: self.view.plan(641),
            lambda: self.view.explain(640),
            lambda: self.table.bind(**BIND),
            self.table.digest,
            self.table.pack,
        ):
            with self.assertRaises(ValueError) as caught:
                call()
            self.assertIn("closed", str(caught.exception))

    def test_with_closes(self):
        with moelookup.open(self.database) as table, table.bind(**BIND) as view:
            self.assertEqual(view.plan(640).d, 4)
        with self.assertRaises(ValueError):
            view.plan(640)
        with self.assertRaises(ValueError):
            table.digest()

    def test_many_threads_closing_free_once(self):
        for _ in range(200):
            table = moelookup.unpack(self.table.pack())
            threads = [threading.Thread(target=table.close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def test_nothing_is_kept_once_nobody_holds_it(self):
        path = os.path.join(self.folder, "large.db")
        write_database(path, entries=[(i, "r=1 d=2 a=2dh", 1.0, 2.0, 0, 0) for i in range(500)])
        packed = moelookup.open(path).pack()  # 10 kB: what leaks shows

        def resident_kib():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4

        def churn():
            for _ in range(2000):
                moelookup.unpack(packed).bind(**BIND).plan(640)
            gc.collect()

        churn()
        before = resident_kib()
        churn()
        self.assertLess(resident_kib() - before, 4096)

    def test_a_copy_is_the_thing_itself_and_tables_travel_in_pickles(self):
        self.assertIs(copy.copy(self.view), self.view)
        self.assertIs(copy.deepcopy({"v": [self.view]})["v"][0], self.view)
        self.assertIs(copy.deepcopy(self.table), self.table)
        again = pickle.loads(pickle.dumps(self.table))
        self.assertEqual(again.digest(), self.table.digest())
        plan = self.view.plan(640)
        self.assertEqual(pickle.loads(pickle.dumps(plan)), plan)
        error = pickle.loads(pickle.dumps(moelookup.Error("x", -2)))
        self.assertEqual((str(error), error.status), ("x", -2))
        with self.assertRaises(TypeError):
            pickle.dumps(self.view)

    def test_a_forked_child_goes_on_asking(self):
        self.view.plan(640)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that fork is risky with threads; none runs here
            child = os.fork()
        if child == 0:
            right = self.view.plan(640).d == 4 and self.view.plan(9 * WINDOW).bucket == 9
            os._exit(0 if right and self.table.digest() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_an_interpreter_that_ends_with_open_tables_ends_quietly(self):
        done = python(
            "-c",
            f"import moelookup\nt = moelookup.open({self.database!r})\nv = t.bind(**{BIND!r})\n"
            "v.plan(640)\nclass Loop: pass\nloop = Loop(); loop.me, loop.v, loop.t = loop, v, t\n"
            "import sys; sys.keep = [t, v]",
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_what_is_asked_is_recorded_once_whoever_ends_it(self):
        record = os.path.join(self.folder, "traffic.jsonl")
        ask = (
            f"import moelookup\nt = moelookup.open({self.database!r}); RECORD\n"
            f"v = t.bind(**{BIND!r})\nfor c in (640, 640, 99 * 128): v.plan(c)\n"
        )
        endings = ["v.flush(); v.plan(512)", "v.close(); v = None", "t.close()", ""]
        for ending in endings:  # by a call, and by the environment
            done = python("-c", ask.replace("RECORD", f"t.record({record!r})") + ending)
            self.assertEqual((done.returncode, done.stderr), (0, ""), ending)
            with environment(MOELOOKUP_RECORD=record):
                kept = ask.replace("RECORD", "import sys") + "sys.keep = [t, v]\n"
                done = python("-c", kept + ending)
            self.assertEqual((done.returncode, done.stderr), (0, ""), ending)
        sums = {}
        for line in open(record):
            said = json.loads(line)
            self.assertEqual((said["format"], said["layer"]), ("moetune-traffic", LAYER))
            for bucket, source, count in said["asked"]:
                sums[bucket, source] = sums.get((bucket, source), 0) + count
        runs = 2 * len(endings)
        wanted = {(5, "inferred"): 2 * runs, (99, "clamped"): runs, (4, "exact"): 2}
        self.assertEqual(sums, wanted)

    def test_a_record_that_cannot_be_is_an_error_or_a_remark(self):
        with environment(MOELOOKUP_LOG="never"):
            table = moelookup.open(self.database)
        self.refused(-2, table.record, "/proc/no/such")
        with self.assertRaises(ValueError):
            self.table.record("a\0b")
        self.view.flush()  # records nothing
        self.view.close()
        with self.assertRaises(ValueError):
            self.view.flush()

    def test_objects_that_never_came_to_be_are_dropped_quietly(self):
        with mock.patch("sys.unraisablehook") as hook:
            for kind in (moelookup.Table, moelookup.View):
                kind.__new__(kind).__del__()
        hook.assert_not_called()


class Capacity(unittest.TestCase):
    def test_the_rule_is_that_of_the_frameworks(self):
        chance = random.Random(3)
        for _ in range(500):
            factor = chance.choice([0.5, 1, 1.1, 1.25, 2.3, 7.9, chance.random() * 8])
            k, experts, tokens = (
                chance.randint(1, 4),
                chance.randint(4, 64),
                chance.randint(0, 99999),
            )
            needed = chance.randint(0, 9999)
            rule = k * int(factor * -(-tokens // experts))
            self.assertEqual(moelookup.capacity(factor, k, experts, tokens), rule)
            self.assertEqual(moelookup.capacity(factor, k, experts, tokens, needed), rule)
            self.assertEqual(moelookup.capacity(0, k, experts, tokens, needed), needed)
            bounded = moelookup.capacity(-factor, k, experts, tokens, needed)
            self.assertEqual(bounded, min(needed, rule))

    def test_what_is_missing_or_out_of_range_is_refused(self):
        for arguments in ((0, 1, 4, 8), (-1.0, 1, 4, 8), (float("nan"), 1, 4, 8), (1, -1, 4, 8)):
            with self.assertRaises(ValueError):
                moelookup.capacity(*arguments)
        for arguments in ((1, 2**32, 4, 8), (1, 1, 4, 2**64), (0, 1, 4, 8, -1)):
            with self.assertRaises(ValueError):
                moelookup.capacity(*arguments)
        self.assertEqual(moelookup.capacity(1.0, 2, 0, 100), 0)


class Shares(unittest.TestCase):
    def test_shares_are_those_of_the_library(self):
        self.assertEqual(moelookup.shares([1, 1.5, 2], 9), [2, 3, 4])
        self.assertEqual(moelookup.shares((1.0, 1.5, 2.0), 1024, grain=8), [224, 344, 456])

    def test_what_cannot_be_divided_by_is_refused(self):
        for arguments in (([], 9), ([1, 0], 9), ([1, float("nan")], 9), ([1], 9, 0), ([1], 2**63)):
            with self.assertRaises(moelookup.Error) as caught:
                moelookup.shares(*arguments)
            self.assertEqual(caught.exception.status, -1)
        for arguments in (([1], -1), ([1], 2**64), ([1], 9, -1)):
            with self.assertRaises(ValueError):
                moelookup.shares(*arguments)


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(
            os.path.join(PACKAGE, "moelookup"),
            os.path.join(self.folder, "moelookup"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )

    def version(self, *more, **values):
        program = "import moelookup; print(moelookup.library_version())"
        return python(
            "-c", ";".join([program, *more]), **dict({"PYTHONPATH": self.folder}, **values)
        )

    def test_a_library_that_was_named_is_the_one_that_counts(self):
        done = self.version(MOELOOKUP_LIBRARY="/nowhere/x.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("moelookup._library.Error", done.stderr)
        self.assertIn("/nowhere/x.so", done.stderr)
        self.assertNotIn("/usr/local", done.stderr)

    def test_the_library_beside_the_package_is_found(self):
        shutil.copy(os.environ["MOELOOKUP_LIBRARY"], os.path.join(self.folder, "moelookup", "libmoelookup.so.1"))
        done = self.version("print(open('/proc/self/maps').read())", MOELOOKUP_LIBRARY=None)
        self.assertEqual(done.stdout.split()[0], moelookup.library_version())
        self.assertIn(os.path.join(self.folder, "moelookup", "libmoelookup.so.1"), done.stdout)

    def test_the_dynamic_linker_is_asked(self):
        shutil.copy(os.environ["MOELOOKUP_LIBRARY"], os.path.join(self.folder, "libmoelookup.so.1"))
        done = self.version(MOELOOKUP_LIBRARY=None, LD_LIBRARY_PATH=self.folder)
        self.assertEqual(done.stdout.strip(), moelookup.library_version(), done.stderr)

    def test_without_a_library_the_package_can_be_imported_and_says_what_it_tried(self):
        probe = "print(moelookup.Plan()); moelookup.open()"
        places = "moelookup._library._places = lambda *_: ['/nowhere/a.so.1', 'b-none.so.1']"
        done = python("-c", f"import moelookup, moelookup._library; {places}; {probe}")
        self.assertEqual(done.stdout, "r=1 d=1 a=linear\n")
        for text in ("libmoelookup.so.1 was not found", "/nowhere/a.so.1: ", "b-none.so.1: "):
            self.assertIn(text, done.stderr)

    def test_a_library_of_something_else_is_refused(self):
        other = ctypes.util.find_library("m")
        done = self.version(MOELOOKUP_LIBRARY=other)
        self.assertIn("is not a whole libmoelookup", done.stderr)

    def test_importing_the_package_imports_nothing_big(self):
        done = python("-c", "import moelookup, moelookup.tutel, sys; print('torch' in sys.modules)")
        self.assertEqual(done.stdout.strip(), "False", done.stderr)

    def test_the_packages_alone_can_be_installed_where_nothing_but_pip_is(self):
        if not can_import("pip"):
            self.skipTest("wheel: pip is not installed")
        source = os.path.join(self.folder, "source")
        target = os.path.join(self.folder, "target")
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        build = ["wheel", "--no-deps", "--no-index", "-w", self.folder, source]
        done = subprocess.run(pip + build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        wheel = glob.glob(os.path.join(self.folder, "moetune-*-py3-none-any.whl"))[0]
        install = ["install", "--no-deps", "--no-index", "--target", target, wheel]
        subprocess.run(
            pip + install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name in ("py.typed", "torch.py", "tutel.py"):
            self.assertTrue(os.path.exists(os.path.join(target, "moelookup", name)), name)
        for name in ("py.typed", "torch.py", "tutel.py", "lines.py"):
            self.assertTrue(os.path.exists(os.path.join(target, "moetune", name)), name)
        for call in ("moelookup; print(moelookup.open().digest())", "moetune; moetune.Plan()"):
            done = python("-c", f"import {call}", PYTHONPATH=target)
            self.assertEqual(done.returncode, 0, done.stderr)
