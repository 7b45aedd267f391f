"""Tests moelookup on many ranks: processes with torch, or threads with a stand-in for torch."""

import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import types
from unittest import mock

from surroundings import HERE, outcome, python, silent
from lookup_case import BIND, Case, write_database
from stand_ins import FakeGroup, fake_torch, rank_here

import moelookup

RANKS = 3  # of the tests with many ranks


def scenarios(rank, database):
    """What one rank of RANKS does; a list of texts."""
    import moelookup.torch as ours

    def described(table):
        return f"{table.digest().hex()} {table.bind(**BIND).plan(640)}"

    forced = os.path.join(os.path.dirname(database), "forced")
    missing = os.path.join(os.path.dirname(database), "missing.db")
    mine = moelookup.open(database) if rank == 0 else None
    other = moelookup.open(database)
    if rank == 2:
        with open(forced, "rb") as file:
            other = moelookup.unpack(file.read())
    closed = moelookup.open(database)
    if rank == 1:
        closed.close()
    seen = [
        outcome(lambda: described(ours.broadcast(mine))),
        outcome(
            lambda: described(
                ours.broadcast(moelookup.open(database) if rank == 2 else None, src=2)
            )
        ),
        outcome(lambda: described(ours.open(database if rank == 0 else missing))),
        outcome(lambda: described(ours.open(missing if rank == 0 else database))),
        outcome(lambda: described(ours.broadcast(None))),
        outcome(lambda: ours.check(moelookup.open(database))),
        outcome(lambda: ours.check(other)),
        outcome(lambda: ours.check(closed)),
    ]
    if rank == 1:  # as if its library were too old for the table
        with mock.patch("moelookup.table.unpack", side_effect=refuse_here(moelookup.unpack)):
            seen.append(outcome(lambda: ours.broadcast(None)))
    else:
        seen.append(outcome(lambda: ours.broadcast(mine)))
    counts = ([100, 600], [690, 20], [30, 40])[rank]  # together the question is 690, with r = 0 355
    seen.append(outcome(lambda: ours.plan_counts(moelookup.open(database).bind(**BIND), counts)))
    return [str(one) for one in seen]


def refuse_here(unpack):
    """Ranks may be threads: the others go on."""
    here = threading.get_ident()

    def refuse(packed):
        if threading.get_ident() == here:
            raise moelookup.Error("too new", -3)
        return unpack(packed)

    return refuse


def worker(rank, folder):
    """A process of the tests with torch."""
    import torch.distributed as dist

    place = "file://" + os.path.join(folder, "meeting")
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=RANKS)
    seen = scenarios(rank, os.path.join(folder, "test.db"))
    with open(os.path.join(folder, f"rank{rank}"), "wb") as file:
        pickle.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


class Ranks(Case):
    def check_scenarios(self, seen):
        digest = self.table.digest().hex()
        good = f"{digest} r=2 d=4 a=2dh"
        for i in (0, 1, 2):
            self.assertEqual([one[i] for one in seen], [good] * RANKS)
        self.assertTrue(seen[0][3].startswith("Error -2: open "), seen[0][3])
        self.assertTrue(seen[0][4].startswith("TypeError : broadcast: rank 0"), seen[0][4])
        for rank in range(1, RANKS):
            self.assertTrue(seen[rank][3].startswith("Error -2: rank 0: Error: open "), seen[rank])
            self.assertTrue(seen[rank][4].startswith("Error None: rank 0: TypeError"), seen[rank])
        for rank in range(RANKS):
            self.assertEqual(seen[rank][5], "None")
            self.assertTrue(seen[rank][6].startswith("Error None: rank 2 of the group and rank 0"))
            if rank != 1:
                for i in (7, 8):
                    self.assertIn("no table on rank 1 of the group", seen[rank][i])
            self.assertEqual(seen[rank][9], str(self.view.plan_uneven(690, 355)))
        self.assertIn("closed", seen[1][7])
        self.assertEqual(seen[1][8], "Error -3: too new")

    def test_ranks_share_a_table_or_all_raise(self):
        seen = [None] * RANKS
        silence = silent()

        def run(rank):
            rank_here.rank = rank
            seen[rank] = scenarios(rank, self.database)

        with mock.patch.dict(sys.modules, fake_torch(FakeGroup(RANKS))), silence:
            importlib.import_module("moelookup.torch")  # once, before the threads

            threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            del sys.modules["moelookup.torch"]
        self.assertNotIn(None, seen, "a rank ended early")
        self.check_scenarios(seen)

    def test_one_process_without_a_group_is_alone(self):
        with mock.patch.dict(sys.modules, fake_torch(None)):
            sys.modules.pop("moelookup.torch", None)
            import moelookup.torch as ours

            self.assertIs(ours.broadcast(self.table), self.table)
            self.assertEqual(ours.open(self.database).digest(), self.table.digest())
            ours.check(self.table)
            self.assertEqual(ours.plan_counts(self.view, [700, 690]), self.view.plan(700))
            del sys.modules["moelookup.torch"]

    def test_tensors_are_where_the_backend_wants_them(self):
        modules = fake_torch(FakeGroup(1))
        modules["torch"].cuda = types.SimpleNamespace(current_device=lambda: 3)
        sys.modules.pop("moelookup.torch", None)
        with mock.patch.dict(sys.modules, modules):
            import moelookup.torch as ours

            self.assertEqual(ours._device(None, None), ("cpu",))
            modules["torch.distributed"].get_backend = lambda group=None: "nccl"
            self.assertEqual(ours._device(None, None), ("cuda", 3))
            self.assertEqual(ours._device(None, "xpu:1"), ("xpu:1",))
            del sys.modules["moelookup.torch"]

    def test_ranks_of_torch_share_a_table_or_all_raise(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("torch is not installed; a stub of it took its place")
        command = [sys.executable, os.path.abspath(__file__)]
        ranks = [
            subprocess.Popen(
                command + [str(rank), self.folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            for rank in range(RANKS)
        ]
        try:
            said = [rank.communicate(timeout=480)[0].decode() for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        self.assertEqual([rank.returncode for rank in ranks], [0] * RANKS, said)
        seen = []
        for rank in range(RANKS):
            with open(os.path.join(self.folder, f"rank{rank}"), "rb") as file:
                seen.append(pickle.load(file))
        self.check_scenarios(seen)

    def test_the_example_trainer_switches_plans_and_learns_the_same(self):
        path = os.path.join(self.folder, "example.db")
        plans = ["r=1 d=1 a=linear", "r=1 d=4 a=2dh", "r=0 d=1 a=linear", "r=1 d=2 a=linear"]
        write_database(
            path,
            layer="E=4 k=1 T=64 D=16 H=32 dtype=f32 pass=train act=relu W=4 m=2",
            window=16,
            entries=[(i, plans[i % 4], 10.0, 20.0, 0, 0) for i in range(26)],
            pins=[],
        )
        done = python(os.path.join(HERE, "example_trainer.py"), path)
        if done.stdout.startswith("skipped: "):
            self.assertEqual(done.returncode, 0)
            self.skipTest(done.stdout.strip()[9:])
        self.assertEqual(done.returncode, 0, done.stderr)
        for plan in ("r=1 d=1 a=linear", "r=0 d=1 a=linear", "r=1 d=4 a=2dh"):
            self.assertIn(plan, done.stdout)
        self.assertIn("the weights equal those of the default plan", done.stdout)


if __name__ == "__main__":
    worker(int(sys.argv[1]), sys.argv[2])
