"""Tests what moelookup's views answer, remember and refuse."""

import importlib.util
import os
import random
import sys
import threading
from unittest import mock

from surroundings import silent
from lookup_case import BIND, Case, LAYER, Number, WINDOW, write_database

import moelookup


class Views(Case):
    def test_a_plan_says_everything_the_c_struct_says(self):
        plan = self.view.plan(5 * WINDOW + 3)
        self.assertEqual(plan, (2, 4, "2dh", moelookup.Source.INFERRED, 5, 200.25, 300.75, 0, "padded", "keep", "auto"))
        self.assertIs(plan.source, moelookup.Source.INFERRED)
        self.assertEqual(str(plan), "r=2 d=4 a=2dh")

    def test_each_rung_of_the_ladder_has_its_source(self):
        expected = {
            0: ("r=1 d=1 a=linear", "CLAMPED", 4),
            4: ("r=1 d=1 a=linear", "EXACT", 4),
            5: ("r=2 d=4 a=2dh", "INFERRED", 5),
            6: ("r=2 d=4 a=2dh", "NEIGHBOUR", 5),
            7: ("r=0 d=1 a=linear", "STALE", 6),
            8: ("r=1 d=2 a=linear", "NEIGHBOUR", 9),
            9: ("r=1 d=2 a=linear", "EXACT", 9),
            12: ("r=1 d=8 a=2dh", "OVERRIDE", 12),
            13: ("r=1 d=8 a=2dh", "OVERRIDE", 13),
            14: ("r=1 d=2 a=linear", "CLAMPED", 9),
        }
        for bucket, (text, source, measured) in expected.items():
            for capacity in (bucket * WINDOW, bucket * WINDOW + WINDOW - 1):
                plan = self.view.plan(capacity)
                self.assertEqual(
                    (str(plan), plan.source.name, plan.bucket), (text, source, measured)
                )

    def test_the_whole_range_of_capacities_is_answered(self):
        for capacity in (0, 1, 2**31 - 1, 2**31, 2**32 - 1):
            self.assertEqual(self.view.plan(capacity).source, moelookup.Source.CLAMPED)
            self.assertIn(f"c={capacity},", self.view.explain(capacity))

    def test_capacities_out_of_range_are_refused_not_wrapped(self):
        for capacity in (-1, 2**32, 2**32 + 5 * WINDOW, 2**64 + 5 * WINDOW, -(2**40)):
            for call in (self.view.plan, self.view.explain):
                with self.assertRaises(ValueError):
                    call(capacity)
                with self.assertRaises(ValueError):
                    call(Number(capacity))

    def test_what_is_no_whole_number_is_refused_even_if_it_equals_one_that_was_asked(self):
        self.view.plan(640)
        for capacity in (640.0, "640", None, 640 + 0j):
            with self.assertRaises(TypeError):
                self.view.plan(capacity)

    def test_integers_of_other_kinds_are_fine(self):
        self.assertIs(self.view.plan(Number(640)), self.view.plan(640))
        self.assertIs(self.view.plan(True), self.view.plan(1))
        if importlib.util.find_spec("numpy"):
            import numpy

            for kind in (numpy.int64, numpy.uint32, numpy.int16):
                self.assertIs(self.view.plan(kind(640)), self.view.plan(640))

    def test_equal_answers_are_the_same_object(self):
        self.assertIs(self.view.plan(5 * WINDOW), self.view.plan(5 * WINDOW + 1))
        self.assertIsNot(self.view.plan(4 * WINDOW), self.view.plan(5 * WINDOW))
        with self.assertRaises(AttributeError):
            self.view.plan(0).r = 2

    def test_a_view_remembers_no_more_than_it_may_and_answers_all_the_same(self):
        fresh = self.table.bind(**BIND)
        expected = [self.view.plan(c) for c in range(2000)]
        with mock.patch("moelookup.table._PLANS_KEPT", 3):
            self.assertEqual([fresh.plan(c) for c in range(2000)], expected)
            self.assertLessEqual(len(fresh._plans), 3)
            empty = moelookup.open(self.other_layer()).bind(**BIND)  # every bucket another answer
            for c in range(0, 100 * WINDOW, WINDOW):
                self.assertEqual(empty.plan(c).source, moelookup.Source.DEFAULT)
            self.assertLessEqual(len(empty._plans), 3)

    def other_layer(self):
        path = os.path.join(self.folder, "other.db")
        if not os.path.exists(path):
            write_database(path, layer=LAYER.replace("D=128", "D=64"))
        return path

    def test_a_call_between_asking_and_reading_does_not_change_the_answer(self):
        expected, real = self.view.plan(640), self.view._get

        def interrupted(pointer, capacity, reference):
            status = real(pointer, capacity, reference)
            if capacity == 640:  # here another thread may have its turn, or a signal arrive
                self.view.plan(9 * WINDOW)
            return status

        self.view._get = interrupted
        self.assertIs(self.view.plan(640), expected)
        self.assertIs(self.view.plan(640), expected)

    def test_threads_share_a_view(self):
        capacities = [random.Random(1).randrange(20 * WINDOW) for _ in range(4000)]
        expected = [self.view.plan(c) for c in capacities]
        view, wrong = self.table.bind(**BIND), []

        def ask(first):
            for i in range(first, len(capacities)):
                if view.plan(capacities[i]) != expected[i]:
                    wrong.append(i)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=ask, args=(7 * i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(wrong, [])

    def test_a_layer_without_a_table_gets_the_default_plan(self):
        view = self.table.bind(**dict(BIND, model_dim=64))
        plan = view.plan(1000)
        self.assertEqual((str(plan), plan.source), ("r=1 d=1 a=linear", moelookup.Source.DEFAULT))
        self.assertEqual(str(moelookup.Plan()), str(plan))

    def test_the_shape_is_kept_as_it_was_given(self):
        self.assertEqual(self.view.shape[:8], (2, 2, 128, 256, 4, 2, "bf16", True))
        view = self.table.bind(**dict(BIND, train=False, tokens=Number(512)))
        self.assertEqual((view.shape.train, view.shape.tokens), (False, 512))

    def test_every_field_of_the_shape_reaches_the_library(self):
        for name, value in (
            ("experts", 4),
            ("top_k", 1),
            ("model_dim", 256),
            ("hidden_dim", 512),
            ("ranks", 2),
            ("ranks_per_node", 4),
            ("dtype", "f16"),
            ("train", False),
            ("activation", "relu"),
        ):
            plan = self.table.bind(**dict(BIND, **{name: value})).plan(640)
            self.assertEqual(plan.source, moelookup.Source.DEFAULT, name)
        self.assertEqual(self.table.bind(tokens=512, device="test-cpu", **BIND).plan(640).d, 4)
        other = self.table.bind(device="another", **BIND).plan(640)
        self.assertEqual(other.source, moelookup.Source.DEFAULT)

    def test_wrong_arguments_of_bind_are_refused(self):
        for name, value, error in (
            ("dtype", "float32", ValueError),
            ("activation", "silu", ValueError),
            ("experts", -1, ValueError),
            ("model_dim", 2**32, ValueError),
            ("top_k", 1.0, TypeError),
            ("ranks", "4", TypeError),
            ("device", "a\0b", ValueError),
        ):
            with self.assertRaises(error, msg=name):
                self.table.bind(**dict(BIND, **{name: value}))
        with silent():
            text = self.refused(-1, self.table.bind, **dict(BIND, experts=3))
        self.assertIn("experts=3", text)

    def test_explain_is_one_line(self):
        text = self.view.explain(Number(5 * WINDOW))
        self.assertIn("r=2 d=4 a=2dh", text)
        self.assertNotIn("\n", text)
