"""Tests moetune's tuners on many ranks: threads, and processes where torch is installed."""

import importlib
import itertools
from unittest import mock

from surroundings import environment, outcome
from tuner_case import FAST, LAYER, ME, OTHERS, Pipes, run
from tuner_torch import Modules

import moetune
import moetune.lines

RANKS = 3
SPACE = """space own
axis path   a b default a
axis chunks 1 2 4 default 2
key  tokens edges 64
"""


def ranks_scenarios(rank, database, ranks):
    """What one rank of several does; a list of texts."""
    from moetune.torch import Tuner

    layer = dict(LAYER, ranks=ranks * 2, ranks_per_node=ranks * 2, experts=ranks, cluster=ME)

    def train():
        with Tuner(database, share=1.0, **layer) as tuner:
            plans = []
            for step in range(400):
                plan = tuner.ask(100 + step % 20)
                plans.append(str(plan))
                # Only the last rank knows which plan is fast: the longest time counts.
                told = FAST.get(str(plan), OTHERS)  # beside it exchanges take nothing
                assert tuner.tell(told + step % 7 if rank == ranks - 1 else 10.0 + rank)
            tuner.flush()
            status = tuner.status()
            return f"{' '.join(plans)} | {plan.source.name} {status.decided} {status.steps}"

    def times():
        said = []
        with Tuner(database, **layer) as tuner:
            for mine in (5.0, None if rank == 1 else 5.0, float("nan") if rank == 1 else 5.0, -1.0):
                tuner.ask(999)
                said.append(tuner.tell(mine))
                said.append(outcome(tuner.flush))
            tuner.ask(999)
            tuner.tell(5.0)
            tuner.tell(5.0)  # twice
            said.append(outcome(tuner.flush))
            tuner.ask(999)
            said.append(outcome(lambda: tuner.fail("no") if rank == 1 else tuner.tell(5.0)))
            tuner.flush()
            said.append(tuner.status().steps)
        return said

    def fails_and_goes_on():
        """What is tried fails on one rank; when ranks exchange next is as all had heard."""
        apart, seen = 0, []
        with Tuner(database + ".fails", share=0.05, **layer) as tuner:
            for _ in range(600):
                if tuner.ask(300).source.name != "TENTATIVE":
                    tuner.tell(1e6)
                    continue
                tuner.fail("no") if rank == 1 else tuner.tell(5e5)
                tuner.flush()
                apart += tuner._quiet > 0
                seen.append(tuner._tuner.until_due() == tuner._quiet)
            return f"{apart} of {sum(seen)}"

    def other_capacities():
        said = []
        with Tuner(database, **layer) as tuner:
            for step in range(3):
                said.append(outcome(lambda: str(tuner.ask(130 + (step == 1 and rank == 2)))))
                if step != 1:
                    tuner.tell(5.0)
        return said

    def other_bucket_between_exchanges():
        with Tuner(database, **dict(layer, share=0.0)) as tuner:
            for step in range(200):
                apart = step == 10 and rank == 2
                said = outcome(lambda: str(tuner.ask(9000 if apart else 999)))
                if "another capacity" in said:
                    return step
                tuner.tell(1e6)

    def failing_ask():
        with Tuner(database, **layer) as tuner:
            if rank == 0:
                tuner._tuner.close()
            tuner.ask(5)

    def own_space():
        """Its choices stand in the text of a plan, by which every rank runs its step."""
        seen = []
        with Tuner(database + ".space", space=SPACE, share=1.0, **layer) as tuner:
            for step in range(1200):
                key = (40 + step % 20, 200)[step % 2]
                plan = tuner.ask_key(key)
                best = {"path": "b" if key > 64 else "a", "chunks": 4}
                seen.append(f"{plan['path']}{plan['chunks']}")
                cost = 1e6 + 3e5 * sum(plan[axis] != best[axis] for axis in best)
                tuner.tell(cost + step % 7 if rank == ranks - 1 else 10.0)
            tuner.flush()
            decided = tuner.status().decided
        said = []
        with Tuner(database + ".space", space=SPACE, **layer) as tuner:
            said.append(outcome(lambda: tuner.ask_key(-1 if rank == 2 else 40)))
        return f"{' '.join(seen)} | {decided} {said}"

    missing = "/proc/no/such.db"
    return [
        str(outcome(one))
        for one in (
            train,
            times,
            failing_ask,
            lambda: Tuner(missing if rank == 0 else database, **layer),
            lambda: Tuner(database if rank == 0 else missing, **layer).close(),
            lambda: Tuner(database, **dict(layer, model_dim=16 + 16 * (rank == 2))),
            lambda: Tuner(database, **dict(layer, share=2 if rank == 1 else 0.5)),
            other_capacities,
            other_bucket_between_exchanges,
            own_space,
            fails_and_goes_on,
        )
    ]


class Ranks(Modules):
    ranks = RANKS

    def check(self, seen):
        plans, end = seen[0][0].split(" | ")
        self.assertEqual(end, "EXACT 1 400")
        self.assertTrue(plans.endswith("r=2 d=2 a=linear"))
        self.assertIn("r=1 d=1 a=linear", plans)
        for rank in range(1, RANKS):
            self.assertEqual(seen[rank][0].split(" | ")[0], plans)
        why = "tell: a time above 0 on every rank, once after each ask"
        for rank in range(RANKS):
            steps = 1 if rank == 0 else 0
            wrong = f"Error -1: rank 0: {why}" if rank else f"ValueError : {why}"
            expected = [True, None, rank != 1, None, True, wrong, True, wrong, wrong]
            expected += [None if rank == 1 else True, steps]
            self.assertEqual(seen[rank][1], str(expected))
            self.assertEqual(seen[rank][4], "None")
            self.assertRegex(
                seen[rank][7], r"\['r=2 d=2 a=linear', .*another capacity.*, 'r=2 d=2 a=linear'\]"
            )
            self.assertEqual(seen[rank][8], seen[0][8])
        self.assertIn(int(seen[0][8]), range(11, 11 + 64))
        tried, end = seen[0][9].split(" | ")
        self.assertRegex(end, "^2 .*another capacity on another rank")
        self.assertRegex(seen[1][9], "another capacity on another rank")
        self.assertRegex(seen[2][9], "key is -1")
        self.assertTrue(tried.endswith("a4 b4"), tried[-60:])
        self.assertEqual(set(tried.split()), {path + chunks for path in "ab" for chunks in "124"})
        for rank in range(1, RANKS):
            self.assertEqual(seen[rank][9].split(" | ")[0], tried)
        self.assertEqual([seen[rank][10] for rank in range(RANKS)], RANKS * ["6 of 6"])
        self.assertIn("closed", seen[0][2])
        self.assertTrue(seen[0][3].startswith("Error -2: open /proc/no/such.db"), seen[0][3])
        self.assertIn("share", seen[1][6])
        for rank in (1, 2):
            self.assertTrue(seen[rank][2].startswith("Error -1: rank 0: "), seen[rank][2])
            self.assertIn("no tuner on rank 0 of the group", seen[rank][3])
        for rank in range(RANKS):
            self.assertIn("rank 2 of the group and rank 0 hold different tuners", seen[rank][5])
            if rank != 1:
                self.assertIn("no tuner on rank 1 of the group", seen[rank][6])

    def test_all_ranks_take_the_plan_of_rank_0_and_the_longest_time_counts(self):
        importlib.import_module("moetune.torch")  # once, before the threads
        self.check(self.on_all_ranks(lambda r: ranks_scenarios(r, self.database, RANKS)))

    def test_the_same_on_ranks_of_torch(self):
        self.check(self.on_ranks_of_torch("tuner_ranks", "ranks_scenarios"))

    def trained(self, steps, share=1.0, slower=1.0):
        """Steps of about a second: beside them exchanges take nothing.  Exchanges, and rank 0's status,
        until a bucket is decided, and in so many steps after that."""
        import moetune.torch

        counts, seen = [], []

        def train(rank):
            layer = dict(LAYER, ranks=RANKS * 2, ranks_per_node=RANKS * 2, experts=RANKS)
            plans = []
            with moetune.torch.Tuner(self.database, share=share, cluster=ME, **layer) as tuner:

                def step(times=1.0):
                    plan = tuner.ask(100 + len(plans) % 20)
                    plans.append(str(plan))
                    tuner.tell(times * FAST.get(str(plan), OTHERS) + rank)
                    return plan

                while step().source != moetune.Source.EXACT:
                    pass
                step()  # to be sure that the plan can run
                status, count = tuner.status(), self.group.count
                for _ in range(steps):
                    step(slower)
                tuner.flush()
                if rank == 0:
                    seen.extend([(count, status), (self.group.count - count, tuner.status())])
            return plans

        plans = self.on_all_ranks(train)
        self.assertEqual(plans[1:], plans[:1] * (RANKS - 1))
        return seen

    def test_a_bucket_that_is_decided_costs_no_exchange_but_to_gather_times(self):
        (count, before), (after, status) = self.trained(640, share=0.02)
        self.assertLessEqual(after, 640 // 64 + 2)
        self.assertEqual(status.steps, before.steps + 641)
        # Until then: one for each step that tried a plan, and those that found too little saved up.
        self.assertLess(count, before.tried + before.steps // 64 + 30)
        self.assertLess(count, before.steps / 4)

    def test_steps_that_were_not_asked_for_are_watched(self):
        (_, before), (_, after) = self.trained(640, slower=1.5)
        self.assertEqual((before.alarms, after.alarms), (0, 1))

    def test_what_exchanges_take_is_paid_from_the_share(self):
        import moetune.torch

        took = mock.patch("time.perf_counter", side_effect=itertools.count(0, 0.5).__next__)
        with took:  # a second and a half: no step of a second can afford that
            status = self.on_all_ranks(lambda rank: self.pay(rank, moetune.torch.Tuner))[0]
        self.assertEqual((status.tried, status.decided), (0, 0))
        self.assertGreater(status.own_us, 1e6)

    def pay(self, rank, kind):
        layer = dict(LAYER, ranks=RANKS * 2, ranks_per_node=RANKS * 2, experts=RANKS)
        with kind(self.database, share=0.02, cluster=ME, **layer) as tuner:
            for _ in range(300):
                tuner.tell(FAST.get(str(tuner.ask(100)), OTHERS))
            tuner.flush()
            return tuner.status()

    def test_ranks_with_other_inputs_ask_alike_and_then_all_raise(self):
        import moetune.torch

        def train(rank, odd):
            layer = dict(LAYER, ranks=RANKS * 2, ranks_per_node=RANKS * 2, experts=RANKS)
            asked = []
            with moetune.torch.Tuner(self.database, share=0.0, cluster=ME, **layer) as tuner:
                for step in range(200):
                    rows = 300 if step < 20 else (400 if odd in (rank, None) else 300)
                    asked.append(tuner.agreed(rows))
                    try:
                        tuner.ask(asked[-1])
                    except Exception as error:
                        return asked[:-1], str(error)[-60:]
                    tuner.tell(1e6)
            return asked, ""

        everywhere = self.on_all_ranks(lambda rank: train(rank, None))
        self.assertEqual(everywhere[1:], everywhere[:1] * (RANKS - 1))
        asked = everywhere[0][0]
        self.assertEqual((asked[20], asked[-1]), (300, 400))
        one = self.on_all_ranks(lambda rank: train(rank, 2))
        for rank in range(RANKS):
            asked, error = one[rank]
            self.assertEqual(set(asked), {300})
            self.assertIn("inequivalent_tokens=True", error)
            self.assertLess(len(asked), 20 + 64)

    def test_attached_rank_0_speaks_and_the_others_follow(self):
        import moetune.torch

        def train(rank):
            with moetune.torch.Tuner(**dict(LAYER, ranks=RANKS)) as tuner:
                plan = tuner.ask(384)
                tuner.tell(10.0 + rank)
                self.assertEqual(tuner.window, 16)
                return str(plan)

        opened = mock.patch("moetune.lines._open", side_effect=moetune.lines._open)
        width = environment(MOETUNE_WINDOW="16")  # not what the layer here has by itself
        with width, Pipes("plan r=2 d=4 a=2dh", "ok") as other, opened as opening:
            seen = self.on_all_ranks(train)
        self.assertEqual(opening.call_count, 2)  # one to speak, one to listen
        self.assertEqual(seen, ["r=2 d=4 a=2dh"] * RANKS)
        self.assertEqual(other.heard, ["ask 384", "tell 12.0"])


class Alone(Modules):
    def test_one_process_without_a_group_needs_nothing_else(self):
        import moetune.torch

        with moetune.torch.Tuner(self.database, share=1.0, **dict(LAYER, cluster=ME)) as tuner:
            plan = run(tuner, 400)
        self.assertEqual((str(plan), plan.source.name), ("r=2 d=2 a=linear", "EXACT"))
        self.assertRegex(moetune.torch.describe_machine(), r"comm_library = none\n$")
