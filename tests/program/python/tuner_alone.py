"""Tests moetune's tuners in one process."""

import itertools
import os
import pickle

from surroundings import outcome, python, silent
from tuner_case import Case, FAST, LAYER, ME, OTHERS, run

import moelookup
import moetune


SPACE = "space knobs\naxis path a b c default a\naxis chunks 1 2 4 default 2\nkey tokens edges 64\nclass skew edges 1.25\n"


class Tuners(Case):
    def test_the_faster_plan_is_found_and_looked_up_by_moelookup(self):
        with self.tuner() as tuner:
            self.assertEqual(str(tuner.ask(100)), "r=1 d=1 a=linear")
            run(tuner, 400)
            before = tuner.status().steps
            plan = run(tuner, 100)
            self.assertEqual((str(plan), plan.source), ("r=2 d=2 a=linear", moetune.Source.EXACT))
            status = tuner.status()
            self.assertEqual((status.decided, status.open, status.looking_up), (1, 0, False))
            self.assertEqual(status.steps, before + 100)
            self.assertTrue(0 < status.tried <= before, status)
        with self.assertRaises(ValueError):
            tuner.ask(100)
        view = moelookup.open(self.database).bind(**LAYER)
        plan = view.plan(110)
        self.assertEqual((str(plan), plan.source), ("r=2 d=2 a=linear", moelookup.Source.EXACT))
        # As if at the upper edge, 127; one step of a plan that the model calls slow is not all.
        self.assertTrue(0.65e6 < plan.time_us < 0.85e6, plan.time_us)
        self.assertTrue(0.95e6 < plan.default_us < 1.05e6, plan.default_us)

    def test_counts_are_asked_for_as_their_capacity(self):
        with self.tuner() as tuner:
            shape = tuner.shape
            counts = [90 + 20 * (e % 2) for e in range(shape.experts)]
            key = moelookup.keys(counts, shape.experts, shape.ranks)[0]
            for _ in range(300):
                self.assertEqual(tuner.ask_counts(counts).bucket, key // moelookup.window(
                    shape.top_k, shape.experts, shape.tokens))
                tuner.tell(1e6)
            self.assertEqual(tuner.status().decided + tuner.status().open, 1)

    def test_all_words_of_the_shape_are_taken(self):
        words = dict(layout="hidden", shares="equal", layers=2, groups=0, group_limit=0, router="cosine", order="priority", projection=8)
        with self.tuner(os.path.join(self.folder, "hidden.db"), **words) as tuner:
            self.assertEqual(str(tuner.ask(100)), "r=0 d=1 a=linear e=sparse")
            self.assertEqual((tuner.shape.layout, tuner.shape.order), ("hidden", "priority"))
            tuner.tell(1000.0)
        with self.tuner(os.path.join(self.folder, "choices.db"), combine="choices", router="sigmoid") as tuner:
            self.assertEqual(str(tuner.ask(100)), "r=1 d=1 a=linear")
            tuner.tell(1000.0)
        for wrong in (dict(layout="rows"), dict(router="best"), dict(order="best"), dict(combine="all"), dict(projection=-1)):
            with self.assertRaises(ValueError):
                self.tuner(os.path.join(self.folder, "wrong.db"), **wrong)

    def test_a_space_that_the_program_declares_is_tuned_like_every_plan_tried(self):
        def cost(path, chunks, key, skew):
            wrong = abs(chunks - (1 if key > 64 else 4))
            return 1e6 + {"a": 3e5, "b": 1e5 * skew, "c": 2.5e5}[path] + 1e5 * wrong

        def steps(tuner, count):
            for step in range(count):
                key, skew = points[step % len(points)]
                plan = tuner.ask_key(key, skew)
                tuner.tell(cost(plan["path"], plan["chunks"], key, skew) + 1e3 * (step % 7))

        points = list(itertools.product((40, 200), (1.0, 4.0)))
        with self.tuner(space=SPACE) as tuner:
            first = tuner.ask_key(40)
            self.assertEqual((dict(first), first.bucket), ({"path": "a", "chunks": 2}, 0))
            self.assertTrue(str(first).startswith("path=a chunks=2 space=knobs@"), first)
            tuner.tell(1.5e6)
            steps(tuner, 1600)
            self.assertEqual((tuner.status().decided, tuner.status().open), (4, 0))
            self.assertEqual([tuner.bucket(*point) for point in points], [0, 1, 2, 3])
            for key, skew in points:  # orders and steps that were not asked for name buckets
                plan, bucket = tuner.ask_key(key, skew), tuner.bucket(key, skew)
                self.assertEqual(tuner.follow(tuner.order(), bucket), plan)
                tuner.passed(bucket, plan, cost(plan["path"], plan["chunks"], key, skew))
                self.assertEqual(tuner.rest(bucket)[0], plan)
        view = moelookup.open(self.database).bind(space="knobs")
        for key, skew in points:
            plan = view.plan(key, skew)
            best = min(cost(path, chunks, key, skew) for path in "abc" for chunks in (1, 2, 4))
            self.assertLess(cost(plan["path"], plan["chunks"], key, skew), 1.03 * best)
        wrong = dict(space=SPACE.replace("default a", "default a restart")), dict(space=SPACE + "axis"), dict(space=SPACE, axes="r,d")
        for words in wrong:
            self.refused(-1, self.tuner, **words)
        self.refused(-1, self.tuner(os.path.join(self.folder, "own.db")).ask_key, 40)

    def test_being_tried_is_a_source_of_its_own(self):
        seen = set()
        tuner = self.tuner()
        for _ in range(300):
            plan = tuner.ask(100)
            seen.add((str(plan), plan.source))
            tuner.tell(FAST.get(str(plan), OTHERS))
        self.assertIn(("r=2 d=2 a=linear", moetune.Source.TENTATIVE), seen)
        self.assertIn(("r=1 d=1 a=linear", moetune.Source.DEFAULT), seen)

    def test_what_cannot_be_run_is_not_adopted(self):
        tuner = self.tuner()
        for _ in range(400):
            plan = tuner.ask(100)
            if str(plan) == "r=2 d=2 a=linear":
                tuner.fail("no memory")
            else:
                tuner.tell(FAST.get(str(plan), OTHERS))
        self.assertEqual(str(plan), "r=1 d=1 a=linear")
        self.assertEqual(tuner.status().decided, 1)

    def test_every_option_reaches_the_library(self):
        def plans(steps=300, **changed):
            db = os.path.join(self.folder, f"{len(os.listdir(self.folder))}.db")
            tuner, seen = self.tuner(db, **changed), set()
            for step in range(steps):
                plan = tuner.ask(100)
                seen.add(plan[:3])
                tuner.tell(FAST.get(str(plan), OTHERS) + 1e3 * (step % 5))
            return seen, plan, tuner.status()

        seen, _, _ = plans(axes="r")
        self.assertEqual({(d, a) for _, d, a in seen}, {(1, "linear")})
        self.assertIn(2, {r for r, _, _ in seen})
        seen, _, _ = plans(axes="d")
        self.assertEqual({r for r, _, _ in seen}, {1})
        sparse = "r=0 d=1 a=linear e=sparse"
        tuner_db = os.path.join(self.folder, "e.db")
        with self.tuner(tuner_db, axes="r,d,a,e") as tuner:
            for _ in range(3000):
                plan = tuner.ask(100)
                tuner.tell(0.6e6 if str(plan) == sparse else FAST.get(str(plan), OTHERS))
        self.assertEqual((str(plan), plan.e), (sparse, "sparse"))
        self.assertEqual(str(moelookup.open(tuner_db).bind(**LAYER).plan(100)), sparse)
        # What nothing is known of may take several times as long: it is saved up for.
        status = plans(steps=1000, share=0.01)[2]
        self.assertGreater(status.tried, 0)
        self.assertLessEqual(status.cost_us, 0.01 * status.time_us)
        self.assertEqual(plans(steps=1000, share=0.0)[2].tried, 0)
        self.assertEqual(plans(window=16)[1].bucket, 100 // 16)
        self.assertEqual(plans(train=False, dtype="bf16", activation="gelu")[2].decided, 1)

    def test_another_layer_or_machine_is_another_table(self):
        with self.tuner(layer="mine 1.0") as tuner:
            run(tuner, 300)
        for changed in (
            dict(layer="mine 2.0"),
            dict(layer="mine 1.0", cluster="device = another\n"),
            dict(layer="mine 1.0", hidden_dim=64),
            dict(layer="mine 1.0", experts=4),
        ):
            arguments = dict(dict(LAYER, cluster=ME), **changed)
            with moetune.Tuner(self.database, **arguments) as tuner:
                self.assertNotEqual(tuner.ask(100).source, moetune.Source.EXACT, changed)
        with self.tuner(layer="mine 1.0") as tuner:
            self.assertEqual(tuner.ask(100).source, moetune.Source.EXACT)

    def test_a_table_of_another_implementation_is_refused_where_one_is_named(self):
        def bound(**named):
            with silent():
                view = moelookup.open(self.database).bind(**LAYER, **named)
            return view.plan(100).source.name

        with self.tuner(layer="mine 1.0") as tuner:
            run(tuner, 400)
        self.assertEqual(bound(), "EXACT")
        self.assertEqual(bound(device="test"), "EXACT")
        self.assertEqual(bound(device="implementation mine"), "EXACT")
        for other in ("implementation moetune", "implementation yours", "tes", "mine"):
            self.assertEqual(bound(device=other), "DEFAULT", other)
        with self.tuner(layer="yours 2.0") as tuner:
            run(tuner, 400)
        path = os.path.join(self.folder, "said")
        kept = os.dup(2)
        with open(path, "wb") as file:
            os.dup2(file.fileno(), 2)
        try:
            error = outcome(lambda: moelookup.open(self.database).bind(**LAYER))
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        self.assertTrue(str(error).startswith("Error -4"), error)
        with open(path) as file:
            said = file.read()
        self.assertIn("test; live: mine 1.0  E=2", said)
        self.assertIn("test; live: yours 2.0  E=2", said)
        self.assertEqual(bound(device="implementation yours 2.0"), "EXACT")

    def test_orders_carry_the_answer_to_other_ranks(self):
        tuner, other = self.tuner(), moetune.Tuner(rank=3, **LAYER)
        self.refused(-1, tuner.order)
        for step in range(100):
            plan = tuner.ask(100 + step)
            order = tuner.order()
            self.assertEqual(len(order), 32)
            self.assertEqual(other.follow(order, 100 + step)[:5], plan[:5])
            tuner.tell(FAST.get(str(plan), OTHERS))
        self.refused(-3, other.follow, order, 100)
        for place in range(32):
            damaged = order[:place] + bytes([order[place] ^ 64]) + order[place + 1 :]
            self.refused(-3, other.follow, damaged, 199)
        for length in (0, 31, 33):
            with self.assertRaises(ValueError):
                other.follow(bytes(length), 199)
        self.refused(-1, other.ask, 100)

    def test_what_is_wrong_is_an_exception(self):
        for name, value, error in (
            ("share", 2, ValueError),
            ("share", -0.1, ValueError),
            ("share", float("nan"), ValueError),
            ("margin", float("nan"), ValueError),
            ("margin", None, TypeError),
            ("harm", 2, ValueError),
            ("harm", None, TypeError),
            ("window", -1, ValueError),
            ("seed", 2**32, ValueError),
            ("rank", 0.5, TypeError),
            ("dtype", "float32", ValueError),
            ("activation", "silu", ValueError),
            ("layer", "a\0b", ValueError),
            ("axes", "r\0", ValueError),
            ("top_k", -1, ValueError),
        ):
            arguments = dict(dict(LAYER, **{name: value}))
            with self.assertRaises(error, msg=(name, value)):
                moetune.Tuner(self.database, **arguments)
        with self.assertRaises(ValueError):
            moetune.Tuner(self.database + "\0", **LAYER)
        self.refused(-1, moetune.Tuner, self.database, **dict(LAYER, experts=3))
        self.refused(-1, moetune.Tuner, self.database, **dict(LAYER, axes="x"))
        for option in (dict(margin=1.0), dict(harm=0.5), dict(harm=0.0)):
            self.refused(-1, moetune.Tuner, self.database, **dict(LAYER, **option))
        self.refused(-2, moetune.Tuner, "/proc/no/such.db", **LAYER)
        with open(self.database, "w") as file:
            file.write("no database" * 100)
        self.assertIn(self.database, self.refused(-3, moetune.Tuner, self.database, **LAYER))

    def test_times_are_checked_and_told_once(self):
        tuner = self.tuner()
        self.refused(-1, tuner.tell, 1000.0)
        self.refused(-1, tuner.fail)
        for time_us in (0, -1, float("nan"), float("inf"), 1e12):
            tuner.ask(100)
            with self.assertRaises(ValueError):
                tuner.tell(time_us)
        tuner.tell(1000)
        self.refused(-1, tuner.tell, 1000.0)
        self.assertEqual(tuner.status().steps, 1)
        for capacity in (-1, 2**32):
            with self.assertRaises(ValueError):
                tuner.ask(capacity)
        with self.assertRaises(TypeError):
            tuner.ask(100.0)

    def test_a_second_one_only_looks_up(self):
        first = self.tuner()
        run(first, 400)
        with silent():
            second = self.tuner()
        self.assertTrue(second.status().looking_up)
        self.assertEqual(str(second.ask(100)), "r=2 d=2 a=linear")
        second.tell(1000.0)

    def test_a_second_one_of_this_process_is_told_so(self):
        self.tuner()
        path = os.path.join(self.folder, "said")
        kept = os.dup(2)
        with open(path, "wb") as file:
            os.dup2(file.fileno(), 2)
        try:
            self.assertTrue(self.tuner(hidden_dim=64).status().looking_up)
            self.tuner(os.path.join(self.folder, "new", "a.db")).close()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        with open(path) as file:
            said = file.read()
        self.assertIn("this process has the database open already", said)
        self.assertIn("new: this folder is new", said)

    def test_it_belongs_to_its_process(self):
        with self.assertRaises(TypeError):
            pickle.dumps(self.tuner())

    def test_a_library_that_is_missing_or_another_is_named(self):
        probe = f"import moetune; print(moetune.Plan()); moetune.Tuner('x', **{LAYER})"
        done = python("-c", probe, MOETUNE_LIBRARY="/nowhere/x.so")
        self.assertEqual(done.stdout, "r=1 d=1 a=linear\n")
        for text in ("libmoetune.so.1 was not found", "$MOETUNE_LIBRARY", "/nowhere/x.so: "):
            self.assertIn(text, done.stderr)
        done = python("-c", probe, MOETUNE_LIBRARY=os.environ["MOELOOKUP_LIBRARY"])
        self.assertIn("is not a whole libmoetune", done.stderr)
        self.assertEqual(moetune.library_version(), moetune.__version__)

    def test_importing_it_imports_nothing_big(self):
        done = python("-c", "import moetune, sys; print('torch' in sys.modules)")
        self.assertEqual(done.stdout.strip(), "False", done.stderr)
