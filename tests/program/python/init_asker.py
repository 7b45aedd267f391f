"""Tests moetune.torch.Asker, by which programs of moetune init ask for plans and report times, on torch's ranks."""

from init_case import Programs
from space_case import Launch, Space
from surroundings import PACKAGE

TELLS = """
import moetune.torch, torch.distributed as dist
moetune.torch.join_ranks()
rank = dist.get_rank()
with_nan = dict(loss=float("nan") if rank == 1 else 2.0)
with_names = dict(tokens_per_s=[900.0, 700.0][rank], rows=3.0 + rank, loss=[2.5, 2.0][rank])
asker = moetune.torch.Asker("")
ran = []
for told in (dict(with_names, reduce={"tokens_per_s": min, "rows": sum}), with_names, with_nan):
    plan = asker.ask(7)
    us, memory = asker.timed(ran.append, plan)
    assert us > 0 and memory is None
    asker.tell(10.0 + rank, 100 - rank, **told)
assert len(ran) == 5, ran  # one step more for each of two plans, at its first time
asker.ask(7)
try:
    asker.tell(1.0, loss=1.0, reduce={"los": min})
    raise SystemExit("not refused")
except ValueError as error:
    assert "reduce names los, which is not told" in str(error)
asker.fail("done")
dist.destroy_process_group()
"""


class Asker(Programs):
    def test_the_worst_rank_counts_unless_the_program_says_which_does(self):
        space = Space("space mine\naxis chunks 1 2 4 default 1\nkey tokens edges 4\n")
        plans = ["chunks=1", "chunks=2", "chunks=1", "chunks=1"]
        command = [self.write("tells.py", TELLS)]
        launch = Launch(space, 2, command, "", plans, "W=2", PYTHONPATH=PACKAGE)
        self.ended_well(launch)
        told = [
            "11.0 memory=100 tokens_per_s=700.0 rows=7.0 loss=2.5",
            "11.0 memory=100 tokens_per_s=900.0 rows=4.0 loss=2.5",
            "11.0 memory=100 loss=nan",
        ]
        self.assertEqual(launch.heard, [("tell", one) for one in told] + [("failed", "done")])
