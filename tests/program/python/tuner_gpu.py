"""Tests tuners whose host runs ahead of a GPU: nothing waits for the device, and over nccl no tensor is on it.

The GPU is a stand-in: enqueued work takes time on a clock that the host shares."""

import contextlib
import sys
import types
from unittest import mock

from stand_ins import rank_here
from tuner_case import FAST, LAYER, ME, OTHERS
from tuner_torch import Modules, Tensor
from tuner_tutel import Layer as HostLayer

import moetune

LAUNCH_US, LEAD_US = 20.0, 2.5e6
REST_US = 1e6  # of a step, outside the layer
RANKS = 3


class Device:
    """A host that enqueues and goes on, until its queue is full."""

    def __init__(self):
        self.now_us = self.idle_at_us = 0.0
        self.slept = 0

    def enqueue(self, us):
        self.now_us += LAUNCH_US
        self.idle_at_us = max(self.idle_at_us, self.now_us) + us
        self.now_us = max(self.now_us, self.idle_at_us - LEAD_US)

    def sleep(self, seconds):
        self.now_us += 1e6 * seconds
        self.slept += 1


def must_not(*_, **__):
    raise AssertionError("something waits for the device")


class Gpu(Modules):
    """torch.cuda is this device, one on each rank."""

    may_wait = False

    def setUp(self):
        super().setUp()
        self.devices = [Device() for _ in range(self.ranks or 1)]
        self.capturing = False
        test = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing and not test.capturing
                self.at_us = None

            def record(self):
                assert not test.capturing
                self.at_us = max(test.device().now_us, test.device().idle_at_us)

            def query(self):
                assert not test.capturing
                return test.device().now_us >= self.at_us

            def elapsed_time(self, end):
                assert self.query() and end.query()
                return (end.at_us - self.at_us) * 1e-3

            synchronize = wait = must_not

        self.torch = sys.modules["torch"]
        self.torch.cuda = types.SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            is_current_stream_capturing=lambda: self.capturing,
            current_device=lambda: 0,
            synchronize=self.synchronize if self.may_wait else must_not,
            Event=Event,
        )
        for name, stand_in in (
            ("time.perf_counter", lambda: self.device().now_us * 1e-6),
            ("time.sleep", lambda s: self.device().sleep(s)),
        ):
            patch = mock.patch(name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    def device(self):
        return self.devices[getattr(rank_here, "rank", 0) if self.ranks else 0]

    def synchronize(self):
        self.device().now_us = max(self.device().now_us, self.device().idle_at_us)

    def step(self, tuner, plans, capacity=100):
        """As a trainer has it; about a second, beside which the library's own time is nothing."""
        import moetune.torch

        plan = tuner.ask(capacity)
        marks = moetune.torch.Marks()
        self.device().enqueue(FAST.get(str(plan), OTHERS))
        marks.add()
        self.device().enqueue(REST_US)
        told = tuner.tell(marks)
        plans.append(str(plan))
        return told


class Alone(Gpu):
    def test_a_thousand_steps_wait_for_nothing_and_a_bucket_is_decided(self):
        import moetune.torch

        plans = []
        with moetune.torch.Tuner(self.database, share=1.0, **dict(LAYER, cluster=ME)) as tuner:
            for _ in range(1000):
                assert self.step(tuner, plans)
            ahead_us = self.device().idle_at_us - self.device().now_us
            self.assertGreater(ahead_us, LEAD_US / 2)  # the host kept its lead
            self.assertEqual(self.device().slept, 0)
            self.assertEqual(tuner.status().decided, 1)
            steps = tuner.status().steps
            tuner.flush()  # which waits for the last one
            self.assertGreater(tuner.status().steps, steps)
        self.assertEqual(plans[-1], "r=2 d=2 a=linear")
        self.assertGreater(len(set(plans)), 2)

    def test_a_tutel_layer_as_well(self):
        import moetune.tutel

        class Layer(HostLayer):
            """Its time is the device's."""

            def __init__(layer):
                super().__init__()
                layer.weight.device.type = "cuda"

            @property
            def now_us(layer):
                return self.device().idle_at_us

            @now_us.setter
            def now_us(layer, at_us):
                if at_us > self.device().idle_at_us:
                    self.device().enqueue(at_us - self.device().idle_at_us)

        layer = Layer()
        with moetune.tutel.Tuned(
            layer, self.database, ranks=4, cluster=ME, share=1.0, axes="r", warm=False
        ) as tuned:
            for _ in range(1000):
                layer.backward(tuned(Tensor(300, 16)))
            self.assertEqual(self.device().slept, 0)
            self.assertEqual(tuned.status().decided, 1)
            self.capturing = True
            ran = len(layer.ran)
            self.assertEqual(tuned(Tensor(300, 16)).text, "r=2 d=1 a=linear")
            self.assertEqual(len(layer.ran), ran + 1)
            self.capturing = False
        self.assertEqual(layer.ran[-1][0], "r=2 d=1 a=linear")

    def test_a_captured_step_runs_what_is_known_and_teaches_nothing(self):
        import moetune.torch

        plans = []
        with moetune.torch.Tuner(self.database, share=0.0, **dict(LAYER, cluster=ME)) as tuner:
            for _ in range(20):
                self.step(tuner, plans)
            tuner.flush()
            steps = tuner.status().steps
            self.capturing = True
            self.assertFalse(self.step(tuner, plans))
            self.assertFalse(tuner.tell(5.0))  # nor is that a second time
            self.assertFalse(self.step(tuner, plans, 100000))
            self.capturing = False
            marks = moetune.torch.Marks()
            self.capturing = True
            marks.add()
            self.capturing = False
            self.assertIsNone(marks.us())
            self.assertEqual(tuner.status().steps, steps)
            self.step(tuner, plans)
            tuner.flush()
            self.assertEqual(tuner.status().steps, steps + 1)
        self.assertEqual(set(plans), {"r=1 d=1 a=linear"})


class Ranks(Gpu):
    ranks, exchange_us = RANKS, 50.0

    def setUp(self):
        super().setUp()
        self.dist = sys.modules["torch.distributed"]
        self.gloo, self.made, self.on_device = object(), [], 0
        dist, tensor = self.dist, self.torch.tensor
        dist.get_backend = lambda group=None: "gloo" if group is self.gloo else "nccl"
        dist.get_process_group_ranks = lambda group: list(range(RANKS))
        dist.new_group = self.new_group

        def counted(values, dtype, device):
            self.on_device += device[0] == "cuda"
            return tensor(values, dtype, device)

        self.torch.tensor = counted
        for name in ("reduce", "broadcast", "all_gather"):
            setattr(dist, name, self.over_gloo(getattr(dist, name)))

    def new_group(self, ranks=None, backend=None, **more):
        self.group.exchange("new_group")
        if rank_here.rank == 0:
            self.made.append((ranks, backend, more))
        return self.gloo

    def over_gloo(self, call):
        def timed(*arguments, group=None):
            assert self.on_device or group is self.gloo
            self.device().now_us += self.exchange_us
            return call(*arguments, group=group)

        return timed

    def train(self, steps, **options):
        """Plans of each rank, rank 0's status, and how often each waited."""
        import moetune.torch

        def one(rank):
            layer = dict(LAYER, ranks=RANKS * 2, ranks_per_node=RANKS * 2, experts=RANKS)
            plans = []
            with moetune.torch.Tuner(self.database, cluster=ME, **dict(layer, **options)) as tuner:
                for _ in range(steps):
                    self.step(tuner, plans)
                slept = self.device().slept
                tuner.flush()
                return plans, tuner.status(), slept

        seen = self.on_all_ranks(one)
        for rank in range(RANKS):
            self.assertIsInstance(seen[rank], tuple, seen[rank])
            self.assertEqual(seen[rank][0], seen[0][0])
        return seen

    def test_a_thousand_steps_over_nccl_put_nothing_on_the_device_and_decide_a_bucket(self):
        seen = self.train(1000, share=1.0)
        self.assertEqual(self.made, [(None, "gloo", {})])
        self.assertEqual(self.on_device, 0)
        plans, status, _ = seen[0]
        self.assertEqual(status.decided, 1)
        self.assertEqual(plans[-1], "r=2 d=2 a=linear")
        self.assertGreater(status.own_us, self.group.count * 2 * self.exchange_us * 0.9)
        # The first plans that were tried said how far the host is ahead; none was waited for later.
        for _, _, slept in seen:
            self.assertLess(slept * 20.0, 3 * (REST_US + 1.2e6))
        self.assertGreater(self.devices[0].idle_at_us - self.devices[0].now_us, LEAD_US / 2)

    def test_exchanges_that_take_long_leave_something_for_plans(self):
        """What was saved up for a plan is not spent on the exchange that is to try it."""
        self.exchange_us = 0.1e6  # of a reduce, and of a broadcast; a step takes a second
        plans, status, _ = self.train(6000, share=0.03)[0]
        self.assertGreater(status.tried, 0)
        self.assertEqual(plans[-1], "r=2 d=2 a=linear")
        self.assertLess(status.cost_us, 0.03 * status.time_us + 2e6)

    def test_a_part_of_the_world_makes_a_group_by_itself(self):
        self.dist.get_world_size = lambda group=None: RANKS + (group is None)
        self.train(3, group="some", ranks=RANKS * 2)
        self.assertEqual(
            self.made, [([0, 1, 2], "gloo", {"use_local_synchronization": True})]
        )
        self.assertEqual(self.on_device, 0)

    def test_what_is_told_or_an_older_torch_leaves_exchanges_to_the_group(self):
        self.on_device = 1  # they may be
        self.train(3, device="cuda")
        self.assertEqual(self.made, [])
        self.dist.get_world_size = lambda group=None: RANKS + (group is None)

        def older(ranks=None, backend=None):
            must_not()

        self.dist.new_group = older
        self.train(3, group="some", ranks=RANKS * 2)
        self.assertGreater(self.on_device, 50)

    def test_a_captured_step_is_no_exchange(self):
        import moetune.torch

        def one(rank):
            layer = dict(LAYER, ranks=RANKS * 2, ranks_per_node=RANKS * 2, experts=RANKS)
            plans = []
            with moetune.torch.Tuner(self.database, cluster=ME, share=1.0, **layer) as tuner:
                for _ in range(30):
                    self.step(tuner, plans)
                self.group.exchange("before")
                self.capturing = True
                count = self.group.count
                for _ in range(100):
                    self.step(tuner, plans)
                count = self.group.count - count
                self.group.exchange("after")
                self.capturing = False
                self.group.exchange("goes on")
                for _ in range(30):
                    self.step(tuner, plans)
                return count, plans[30:130]

        seen = self.on_all_ranks(one)
        self.assertEqual(seen, [(0, ["r=1 d=1 a=linear"] * 100)] * RANKS)


class Clocks(Gpu):
    """What moetune.torch.Asker times by."""

    may_wait = True

    def timed(self, clock, steps=1):
        import moetune.torch

        cuda, peak, test = self.torch.cuda, [0], self

        class Graph:
            def replay(self):
                assert not test.capturing
                for us in self.held:
                    test.device().enqueue(us)

        @contextlib.contextmanager
        def capture(graph):
            graph.held = self.captured = []
            self.capturing = True
            yield
            self.capturing = False

        cuda.reset_peak_memory_stats = lambda: peak.__setitem__(0, 0)
        cuda.max_memory_allocated = lambda: peak[0] + self.others
        cuda.get_device_properties = lambda device: types.SimpleNamespace(L2_cache_size=4096)
        cuda.CUDAGraph, cuda.graph = Graph, capture
        self.others, self.cooled = 0, 0
        self.torch.empty = lambda size, dtype, device: self.written(size)

        def step(us):
            peak[0] = max(peak[0], 1000)
            if self.capturing:
                self.captured.append(us)
            else:
                self.device().enqueue(us)

        asker = moetune.torch.Asker("chunks=1", 9, clock=clock)
        said = []
        for _ in range(steps):
            asker.ask(1)
            said.append(asker.timed(step, 700.0))
        return said

    def written(self, size):
        self.others += size

        def zero():
            self.cooled += 1

        return types.SimpleNamespace(zero_=zero, numel=lambda: size)

    def test_the_host_counts_launches_and_a_warm_cache(self):
        self.assertEqual([(round(us), most) for us, most in self.timed("host")], [(720, 1000)])
        self.assertEqual(self.cooled, 0)

    def test_events_count_the_device_alone_with_a_cold_cache(self):
        said = self.timed("events", 2)
        self.assertEqual([(round(us), most) for us, most in said], [(720, 1000)] * 2)
        self.assertEqual(self.cooled, 4)

    def test_a_graph_is_captured_and_its_replay_timed(self):
        said = self.timed("graph", 2)
        self.assertEqual([(round(us), most) for us, most in said], [(720, 1000)] * 2)
        self.assertEqual(self.cooled, 4)

    def test_other_clocks_are_refused_and_so_are_these_without_a_gpu(self):
        import moetune.torch

        with self.assertRaisesRegex(ValueError, "^clock is 'sun': one of host, events, graph"):
            moetune.torch.Asker("chunks=1", clock="sun")
        self.torch.cuda.is_available = lambda: False
        with self.assertRaisesRegex(ValueError, "only a GPU has it"):
            moetune.torch.Asker("chunks=1", clock="events")
