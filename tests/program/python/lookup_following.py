"""Tests capacities that follow the experts, and known routes, from Python."""

import array
import ctypes
import json
import os
import random
import tempfile
import threading
import unittest

from surroundings import can_import, silent

import moelookup


def counts_of(step, experts=8):
    draw = random.Random(1000 * (step // 50))
    level = [400 + draw.randrange(300) for _ in range(experts)]
    draw = random.Random(step)
    return [n + draw.randrange(40) for n in level]


class Recorded(unittest.TestCase):
    """Counts of steps: a recorder in C and one in Python write the same bytes."""

    def counts(self, step):
        return [step % 7 + 1, 2**32 - 2, 0, 3]

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def in_c(self, path, steps):
        """Through the C calls alone."""
        from moelookup._declared import moe_counts_options
        from moelookup._library import library

        functions, pointer = library().functions, ctypes.c_void_p()
        options = moe_counts_options(ctypes.sizeof(moe_counts_options), 4, 0, 3, 0, 2, 6)
        self.assertEqual(functions.moe_counts_open(ctypes.byref(options), path.encode(), ctypes.byref(pointer)), 0)
        for step in range(steps):
            numbers = (ctypes.c_uint32 * 4)(*self.counts(step))
            self.assertEqual(functions.moe_counts_step(pointer, step, step % 5, numbers, 4), 0)
        functions.moe_counts_close(pointer)

    def test_the_file_is_that_of_the_library(self):
        folder = self.folder()
        c, python = os.path.join(folder, "c"), os.path.join(folder, "python")
        self.in_c(c, 500)
        with moelookup.record_counts(python, experts=4, ranks=3, every=2, room=6) as counts:
            for step in range(500):
                counts.step(step, self.counts(step), step % 5)
        with open(c, "rb") as one, open(python, "rb") as other:
            self.assertEqual(one.read(), other.read())
        with open(python) as lines:
            steps = [json.loads(line) for line in lines]
        self.assertTrue(3 <= len(steps) < 6)
        for step in steps:
            self.assertEqual(step["counts"], self.counts(step["step"]))

    @unittest.skipUnless(can_import("numpy"), "numpy")
    def test_arrays_are_taken(self):
        import numpy

        path = os.path.join(self.folder(), "arrays")
        with moelookup.record_counts(path, experts=2, top_k=1, tokens=9) as counts:
            counts.step(4, numpy.array([6, 3]), capacity=5)
        with open(path) as lines:
            text = lines.read()
        self.assertEqual(text, '{"step":4,"ranks":1,"tokens":9,"capacity":5,"counts":[6,3]}\n')

    def test_what_is_wrong_is_refused(self):
        path = os.path.join(self.folder(), "wrong")
        with silent(), self.assertRaises(moelookup.Error):
            moelookup.record_counts(path, experts=0)
        with self.assertRaises(moelookup.Error):
            moelookup.record_counts(os.path.join(path, "no", "folder"), experts=2)
        with silent(), moelookup.record_counts(path, experts=2, top_k=1, tokens=4) as counts:
            for wrong in ([1, 2], [4], [4, 0, 0], [5, 0]):
                with self.assertRaises(moelookup.Error):
                    counts.step(0, wrong)
            for wrong in ([-1, 5], ["a", 1], [1.5, 2.5]):
                with self.assertRaises(ValueError):
                    counts.step(0, wrong)
        with self.assertRaises(ValueError):
            counts.step(0, [4, 0])
        self.assertEqual(os.path.getsize(path), 0)

    def test_without_a_name_nothing_is_recorded(self):
        os.environ.pop("MOELOOKUP_COUNTS", None)
        with moelookup.record_counts(experts=2) as counts:
            counts.step(0, [1, 2])


class Following(unittest.TestCase):
    def test_capacities_follow_counts_after_delta_steps(self):
        with moelookup.Capacities(experts=4, ranks=2, most=1000, start=100, delta=2) as c:
            self.assertEqual(c.at(0).rows, (100,) * 4)
            c.feed(0, [90, 10, 20, 300])
            self.assertEqual(c.at(1).rows, (100,) * 4)
            self.assertEqual(c.at(1).pending, 2)
            state = c.at(2)
        self.assertEqual(state.rows, (100, 100, 100, 300))
        self.assertEqual((state.key, state.total, state.fullest, state.balanced), (200, 600, 400, 400))
        self.assertEqual(state.key_r0, 150)
        self.assertEqual((state.first, state.pending, state.replans), (2, None, 1))
        self.assertEqual(state.dropped_ppm, 200 * 10**6 // 420)

    def test_equal_counts_give_equal_answers_and_digests(self):
        ranks = [moelookup.Capacities(experts=8, ranks=4, most=4096, start=600, hold=20, gap=10) for _ in range(3)]
        for step in range(400):
            for c in ranks:
                c.feed(step, counts_of(step))
            states = {c.at(step + 1) for c in ranks}
            self.assertEqual(len(states), 1)
        self.assertGreater(states.pop().replans, 5)

    def test_a_checkpoint_goes_on_where_it_was_made(self):
        c = moelookup.Capacities(experts=8, ranks=4, most=4096, start=600, hold=20, gap=10)
        for step in range(100):
            c.feed(step, counts_of(step))
        saved = c.save()
        again = moelookup.Capacities.load(saved)
        self.assertEqual((again.save(), again.experts), (saved, 8))
        self.assertEqual((again.delta, moelookup.Capacities(experts=2, ranks=1, most=9, delta=7).delta), (1, 7))
        for step in range(100, 200):
            c.feed(step, counts_of(step))
            again.feed(step, counts_of(step))
            self.assertEqual(c.at(step + 1), again.at(step + 1))
        for damaged in (b"", saved[:-1], saved[:200] + b"\xff" + saved[201:]):
            with self.assertRaises(moelookup.Error) as caught:
                moelookup.Capacities.load(damaged)
            self.assertEqual(caught.exception.status, -3)

    def test_bad_counts_are_refused_and_change_nothing(self):
        c = moelookup.Capacities(experts=3, ranks=1, most=100)
        c.feed(5, [1, 2, 3])
        before = c.save()
        for step, counts in (
            (6, [1, 2]), (6, [1, 2, 3, 4]), (6, []), (6, [0, 0, 0]), (6, [1, 2, 2**32 - 1]), (5, [1, 2, 3]), (4, [1, 2, 3]),
        ):
            with self.assertRaises(moelookup.Error) as caught:
                c.feed(step, counts)
            self.assertEqual(caught.exception.status, -1)
        for step, counts in ((6, [1, 2, -3]), (6, [1, 2, 2**32]), (6, [1, 2, 3.5]), (-1, [1, 2, 3])):
            with self.assertRaises(ValueError):
                c.feed(step, counts)
        with self.assertRaises(moelookup.Error):
            c.at(7)  # counts are two steps late
        self.assertEqual(c.save(), before)
        c.close()
        for call in (lambda: c.at(6), lambda: c.feed(6, [1, 2, 3]), c.save):
            self.assertRaises(ValueError, call)

    def test_bad_options_are_refused(self):
        good = dict(experts=8, ranks=4, most=100)
        for bad in (dict(experts=0), dict(ranks=3), dict(most=0), dict(start=101), dict(low=1000), dict(delta=0)):
            with silent(), self.assertRaises(moelookup.Error) as caught:
                moelookup.Capacities(**dict(good, **bad))
            self.assertEqual(caught.exception.status, -1)
        for bad in (dict(most=-1), dict(hold=2**32)):
            with self.assertRaises(ValueError):
                moelookup.Capacities(**dict(good, **bad))

    def test_arrays_and_tensors_are_counts_and_ids_too(self):
        c = moelookup.Capacities(experts=2, ranks=1, most=100, start=1)
        c.feed(0, array.array("q", [5, 7]))
        self.assertEqual(c.at(1).rows, (5, 7))
        if can_import("torch"):
            import torch

            c.feed(1, torch.tensor([50, 7]))
            self.assertEqual(c.at(2).rows, (50, 7))
            routes = moelookup.Routes(experts=4, top_k=2, rooms=1, rows=2)
            self.assertEqual(routes.put(1, torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)), (0, 0))
            self.assertEqual(routes.put(1, torch.tensor([[1, 0], [2, 1]])), (1, 2))

    def test_a_thread_beside_the_steps_gives_the_same_answers(self):
        options = dict(experts=8, ranks=4, most=4096, start=600, hold=20, gap=10, delta=3)
        alone = moelookup.Capacities(**options)
        beside = moelookup.Beside(moelookup.Capacities(**options))
        for step in range(300):
            state, plan = beside.answer(step)
            self.assertEqual((state.rows, state.digest), (alone.at(step).rows, alone.at(step).digest))
            self.assertIsNone(plan)
            beside.counts(step, counts_of(step))
            alone.feed(step, counts_of(step))
        self.assertGreater(state.replans, 5)
        beside.counts(300, [1, 2])
        with self.assertRaises(moelookup.Error):
            for step in range(300, 304):
                beside.answer(step)
        with self.assertRaises(ValueError):
            moelookup.Beside(moelookup.Capacities(**options)).answer(1)
        beside.close()

    def test_a_policy_may_have_a_thread_of_its_own(self):
        c = moelookup.Capacities(experts=8, ranks=4, most=4096, start=600, hold=20, gap=10, delta=4)
        states = {}

        def policy():
            for step in range(200):
                c.feed(step, counts_of(step))
                states[step + 4] = c.at(step + 4)

        thread = threading.Thread(target=policy)
        thread.start()
        thread.join()
        alone = moelookup.Capacities(experts=8, ranks=4, most=4096, start=600, hold=20, gap=10, delta=4)
        for step in range(200):
            alone.feed(step, counts_of(step))
            self.assertEqual(alone.at(step + 4), states[step + 4])


class Known(unittest.TestCase):
    def test_tokens_are_compared_as_sets_and_the_oldest_batch_goes(self):
        with moelookup.Routes(experts=8, top_k=2, rooms=2, rows=3) as routes:
            self.assertIsNone(routes.get(1))
            self.assertEqual(routes.put(1, [[0, 1], [2, 3], [4, 5]]), (0, 0))
            self.assertEqual(routes.put(1, [(1, 0), (2, 4), (5, 4)]), (2, 3))
            self.assertEqual(routes.get(1), [[1, 0], [2, 4], [5, 4]])
            self.assertEqual(routes.put(2**64 - 1, [[6, 7]]), (0, 0))
            with silent():
                self.assertEqual(routes.put(3, [[6, 7]]), (0, 0))
            self.assertIsNone(routes.get(1))
            self.assertEqual(routes.get(2**64 - 1), [[6, 7]])
            self.assertEqual(routes.put(3, [[6, 7], [0, 1]]), (0, 0))  # another number of rows

    def test_known_routes_are_used_between_the_thresholds(self):
        routes = moelookup.Routes(experts=8, top_k=2, rooms=2, rows=3)
        self.assertFalse(routes.decide(9, 100, 100))
        self.assertFalse(routes.decide(10, 959, 1000))
        self.assertTrue(routes.decide(10, 960, 1000))
        self.assertTrue(routes.decide(11, 900, 1000))
        self.assertFalse(routes.decide(12, 899, 1000))
        self.assertRaises(moelookup.Error, routes.decide, 11, 1, 1)
        self.assertRaises(moelookup.Error, routes.decide, 13, 2, 1)

    def test_bad_ids_are_refused(self):
        routes = moelookup.Routes(experts=8, top_k=2, rooms=2, rows=3)
        routes.put(1, [[0, 1]])
        for ids in ([[0, 8]], [[0, -1]], [[3, 3]], [[0, 1]] * 4, []):
            self.assertRaises(moelookup.Error, routes.put, 1, ids)
        for ids in ([[0]], [[0, 1, 2]], [[0, 2**31]], [[0, 1.5]]):
            self.assertRaises(ValueError, routes.put, 1, ids)
        self.assertEqual(routes.get(1), [[0, 1]])
        for bad in (dict(top_k=0), dict(top_k=9), dict(rooms=0), dict(rows=0), dict(off=961)):
            with silent(), self.assertRaises(moelookup.Error):
                moelookup.Routes(**dict(dict(experts=8, top_k=2, rooms=2, rows=3), **bad))
