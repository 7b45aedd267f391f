"""Tests moetune's adapter for Tutel, with a stand-in for Tutel's layer, and with Tutel itself."""

import io
import os
import sys
import types
from unittest import mock

from surroundings import HERE, python
from stand_ins import FakeLayer
from tuner_case import LAYER, ME
from tuner_torch import Gradients, Modules, Tensor

import moelookup
import moetune


class FusedExpertsNetwork:
    hidden_size_per_expert = 32

    def __init__(self, weight):
        self.parameters = lambda: iter([weight])


class LlamaFFNNetwork(FusedExpertsNetwork):
    hidden_size_per_expert = None
    W_fc3_full_shape = (1, 32, 16)


class Layer(FakeLayer):
    """Time is what a plan takes: `clock` goes on by it, by a third of it in the forward pass."""

    model_dim, group, training = 16, None, True
    took = {0: 600e3, 1: 900e3, 2: 500e3}

    def __init__(self, kind=FusedExpertsNetwork, **changed):
        super().__init__(**changed)
        self.weight = Tensor(requires_grad=True)
        self.experts = kind(self.weight)
        self.now_us, self.ran = 0.0, []

    def parameters(self):
        return iter([self.weight])

    def eval(self):
        self.training = False

    def train(self, on):
        self.training = on

    def forward(self, input, **options):
        text, rows = super().forward(input, **options)
        self.ran.append((text, self.training))
        self.now_us += self.took[self.adaptive_degree] / 3
        result = Tensor(*input.shape, requires_grad=Gradients.enabled)
        result.text, result.rows, result.us = text, rows, self.took[self.adaptive_degree]
        return result

    def backward(self, result):
        self.now_us += 1e6  # the rest of the model
        for hook in list(result.hooks):
            hook(None)
        self.now_us += result.us * 2 / 3
        for hook in list(self.weight.hooks):
            hook([None])


class Teller:
    """In place of a tuner."""

    def __init__(self, *plans, shape=None):
        self.shape = shape or moetune.Shape(2, 2, 16, 32, 4, 4, "f32", True, "relu", 0)
        self.window, self.plans, self.said, self.asked = 128, list(plans), [], []

    def ask(self, capacity):
        self.asked.append(capacity)
        return self.plans.pop(0) if self.plans else moetune.Plan()

    def tell(self, time_us):
        self.said.append(time_us)

    def fail(self, why):
        self.said.append(why)

    def close(self):
        self.said.append("closed")


class Tutel(Modules):
    def tuned(self, layer, *plans, **options):
        import moetune.tutel

        self.teller = Teller(*plans)
        tuned = moetune.tutel.Tuned(layer, tuner=self.teller, **dict({"warm": False}, **options))
        patch = mock.patch("time.perf_counter", lambda: layer.now_us * 1e-6)
        patch.start()
        self.addCleanup(patch.stop)
        return tuned

    def said(self):
        """Milliseconds."""
        return [round(one / 1e3) if isinstance(one, float) else one for one in self.teller.said]

    def test_a_layers_order_and_gate_are_parts_of_its_shape(self):
        import moetune.tutel

        layer = Layer()
        usual = moetune.tutel.layer_shape(layer, ranks=4)
        self.assertFalse({"order", "router", "projection"} & set(usual))
        layer.batch_prioritized_routing = True
        layer.gates[0].cosine_projector = types.SimpleNamespace(out_features=8)
        said = dict(usual, order="priority", router="cosine", projection=8)
        self.assertEqual(moetune.tutel.layer_shape(layer, ranks=4), said)
        with moetune.tutel.Tuned(layer, self.database, ranks=4, cluster=ME, warm=False) as tuned:
            self.assertEqual((tuned.tuner.shape.order, tuned.tuner.shape.projection), ("priority", 8))

    def test_a_torch_that_is_too_old_is_refused_in_one_sentence(self):
        sys.modules["torch"].autograd.graph = types.SimpleNamespace()
        sys.modules["torch"].__version__ = "1.13.1"
        said = "^moetune.tutel needs torch 2.0 or newer, and this is torch 1.13.1$"
        with self.assertRaisesRegex(ImportError, said):
            import moetune.tutel  # noqa: F401
        import moelookup.tutel  # noqa: F401

    def test_a_tutel_of_git_is_named_by_its_commit(self):
        import moetune.tutel

        came_from = '{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "ac0e51b4f0"}}'
        for text, named in ((came_from, "0.4 (ac0e51b)"), ('{"dir_info": {}}', "0.4"), (None, "0.4")):
            tutel = types.SimpleNamespace(version="0.4", read_text=lambda name: text)
            with mock.patch("importlib.metadata.distribution", lambda name: tutel):
                said = moetune.tutel.implementation(Layer())
            self.assertEqual(said, f"tutel {named}, torch 0, FusedExpertsNetwork")

    def test_what_is_told_is_the_time_of_this_layers_two_passes_under_the_plan_asked_for(self):
        layer = Layer()
        plans = [moetune.Plan(r) for r in (1, 2, 0)]
        tuned = self.tuned(layer, *plans)
        for plan in plans:
            result = tuned(Tensor(300, 16))
            self.assertEqual((result.text, tuned.plan), (f"{plan}", plan))
            layer.backward(result)
        self.assertEqual(self.said(), [900, 500])
        tuned.close()
        self.assertEqual(self.said(), [900, 500, 600, "closed"])
        self.assertEqual(self.teller.asked, [300, 300, 300])

    def test_a_backward_pass_that_did_not_end_is_no_time(self):
        layer = Layer()
        tuned = self.tuned(layer)
        for _ in range(2):
            tuned(Tensor(300, 16))
        result = tuned(Tensor(300, 16))
        layer.backward(result)
        layer.backward(result)  # twice is no step either
        tuned.close()
        self.assertEqual(self.said(), [None, None, None, "closed"])

    def test_evaluation_runs_what_is_known_and_asks_nothing(self):
        layer = Layer()
        known = moetune.Plan(2, 1, "linear", moetune.Source.EXACT)
        tuned = self.tuned(layer, known, moetune.Plan(0, 1, "linear", moetune.Source.TENTATIVE))
        for _ in range(2):
            layer.backward(tuned(Tensor(300, 16)))
        with mock.patch.object(Gradients, "enabled", False):
            self.assertEqual(tuned(Tensor(300, 16)).text, str(known))
            self.assertEqual(tuned(Tensor(1000, 16)).text, "r=1 d=1 a=linear")
        also = tuned.also(Layer())
        self.assertEqual(also(Tensor(310, 16)).text, str(known))
        self.assertEqual(len(self.teller.asked), 2)
        self.assertEqual(self.said(), [500])  # the second waits for the next call that trains

    def test_inference_is_tuned_when_it_is_what_is_wanted(self):
        layer = Layer()
        tuned = self.tuned(layer, moetune.Plan(2), train=False)
        with mock.patch.object(Gradients, "enabled", False):
            tuned(Tensor(300, 16))
        tuned.close()
        self.assertEqual(self.said(), [round(500 / 3), "closed"])

    def test_a_recomputed_forward_runs_the_plan_of_the_first(self):
        layer = Layer()
        tuned = self.tuned(layer, moetune.Plan(2, source=moetune.Source.TENTATIVE))
        result = tuned(Tensor(300, 16))
        with mock.patch.object(Gradients, "inside", True):
            self.assertEqual(tuned(Tensor(300, 16)).text, result.text)
            layer.backward(result)
            # The first forward of this one was without gradients.
            self.assertEqual(tuned(Tensor(300, 16)).text, "r=1 d=1 a=linear")
        self.assertEqual((len(self.teller.asked), self.said()), (1, []))

    def test_an_r_that_the_experts_ignore_is_refused_and_another_plan_asked_for(self):
        layer = Layer(LlamaFFNNetwork)
        wanted = [
            moetune.Plan(2),
            moetune.Plan(0),
            moetune.Plan(1),
            moetune.Plan(2),
            moetune.Plan(2),
        ]
        tuned = self.tuned(layer, *wanted)
        self.assertEqual(set(tuned.runnable_r), {1})
        self.assertEqual(tuned(Tensor(300, 16)).text, "r=1 d=1 a=linear")
        self.assertEqual(self.said(), [f"the layer cannot run r={r} d=1 a=linear" for r in (2, 0)])
        tuned(Tensor(300, 16))  # who insists gets the default, and is told nothing of it
        tuned.close()
        self.assertEqual({text for text, _ in layer.ran}, {"r=1 d=1 a=linear"})
        self.assertEqual(self.said()[2:], [None, "the layer cannot run r=2 d=1 a=linear", "closed"])
        other = self.tuned(Layer(), moetune.Plan(1, 1, "nccl"), moetune.Plan(2))
        self.assertEqual(other(Tensor(300, 16)).text, "r=2 d=1 a=linear")
        own = self.tuned(Layer(LlamaFFNNetwork), moetune.Plan(2), runnable_r=[0, 1, 2])
        self.assertEqual(own(Tensor(300, 16)).text, "r=2 d=1 a=linear")

    def test_experts_of_another_kind_are_not_trusted_with_r_by_the_lookup_adapter_either(self):
        import moelookup.tutel

        known = types.SimpleNamespace(shape=Teller().shape, plan=lambda c: moetune.Plan(2))
        for kind, text in (
            (LlamaFFNNetwork, "r=1 d=1 a=linear"),
            (FusedExpertsNetwork, "r=2 d=1 a=linear"),
        ):
            self.assertEqual(
                moelookup.tutel.Adapter(Layer(kind), known)(Tensor(300, 16)).text, text
            )

    def test_every_plan_has_run_before_one_is_timed_and_the_layer_is_as_it_was(self):
        layer = Layer()
        layer.adaptive_degree, layer.a2a_ffn_overlap_degree = 2, 3
        self.tuned(layer, warm=True, axes="r,d", dropless=False)
        self.assertEqual(
            layer.ran,
            [(f"r={r} d={d if r else 1} a=linear", False) for r in (0, 1, 2) for d in (1, 2)],
        )
        self.assertEqual((layer.adaptive_degree, layer.a2a_ffn_overlap_degree), (2, 3))
        self.assertEqual((layer.training, layer.use_2dh), (True, False))
        self.assertEqual(self.said(), [])

    def test_dropless_layers_ask_while_they_route(self):
        layer = Layer(factor=0)
        with self.assertRaises(ValueError):
            self.tuned(layer, axes="r,d")
        # Of a plan with chunks the layer would run another one, and this one get its time.
        tuned = self.tuned(layer, moetune.Plan(2, 4), moetune.Plan(2), moetune.Plan(0, 4))
        for needed in (500, 77):
            layer.needed = needed
            layer.backward(tuned(Tensor(300, 16)))
        tuned.close()
        self.assertEqual([text for text, _ in layer.ran], ["r=2 d=1 a=linear", "r=0 d=1 a=linear"])
        said = ["the layer cannot run r=2 d=4 a=linear", 500, 600, "closed"]
        self.assertEqual((self.teller.asked, self.said()), ([500, 500, 77], said))

    def test_on_a_gpu_events_are_the_clock(self):
        import moetune.tutel

        layer, torch = Layer(), sys.modules["torch"]
        layer.weight.device.type = "cuda"

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.us, self.waited = layer.now_us, False

            def query(self):
                self.waited = True
                return True

            def elapsed_time(self, end):  # milliseconds
                assert self.waited and end.waited
                return (end.us - self.us) * 1e-3

        torch.cuda.Event = Event
        tuned = self.tuned(layer, moetune.Plan(2, 4))
        self.assertEqual(moetune.tutel._axes(layer, False, {}), "r,d")
        self.assertEqual(moetune.tutel._axes(layer, True, {"ranks_per_node": 2}), "r,a")
        layer.backward(tuned(Tensor(300, 16)))
        tuned.close()
        self.assertEqual((layer.ran[-1][0], self.said()), ("r=2 d=4 a=linear", [500, "closed"]))

    def test_the_capacity_follows_what_all_ranks_have(self):
        tuned = self.tuned(Layer())
        self.teller.value = 300
        self.teller.agreed = lambda count: self.teller.value
        tuned(Tensor(400, 16))
        tuned(Tensor(300, 16))
        self.assertEqual(self.teller.asked, [300, 300])

    def test_what_goes_wrong_elsewhere_is_not_waited_for(self):
        tuned = self.tuned(Layer())
        with self.assertRaises(KeyError), tuned:
            tuned(Tensor(300, 16))
            raise KeyError
        self.assertEqual(self.said(), ["closed"])

    def test_layer_and_library_make_a_table(self):
        import moetune.tutel

        layer = Layer()
        with mock.patch("time.perf_counter", lambda: layer.now_us * 1e-6):
            with moetune.tutel.Tuned(layer, self.database, ranks=4, cluster=ME, share=1.0) as tuned:
                for _ in range(300):
                    layer.backward(tuned(Tensor(300, 16)))
                self.assertEqual(tuned.status().decided, 1)
        self.assertEqual(layer.ran[-1][0], "r=2 d=1 a=linear")
        ran = {text for text, training in layer.ran if training}
        self.assertEqual(ran, {f"r={r} d=1 a=linear" for r in (0, 1, 2)})
        plan = moelookup.open(self.database).bind(**LAYER).plan(300)
        self.assertEqual((str(plan), plan.source.name), ("r=2 d=1 a=linear", "EXACT"))

    def test_a_layer_that_does_not_say_its_size_is_an_error(self):
        import moetune.tutel

        class Custom(FusedExpertsNetwork):
            hidden_size_per_expert = None

        with self.assertRaisesRegex(ValueError, "pass hidden_dim="):
            moetune.tutel.Tuned(Layer(Custom), self.database)
        with moetune.tutel.Tuned(Layer(Custom), self.database, ranks=4, hidden_dim=48) as tuned:
            self.assertEqual(tuned.tuner.shape.hidden_dim, 48)

    def test_what_contradicts_the_layer_is_refused(self):
        import moetune.tutel

        layer = Layer()
        for given, words in (
            (dict(hidden_dim=64), "hidden_dim=64: the layer has 32"),
            (dict(model_dim=8), "model_dim=8: the layer has 16"),
            (dict(top_k=1), "top_k=1: the layer has 2"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                moetune.tutel.Tuned(layer, self.database, ranks=4, **given)
        with self.assertRaisesRegex(TypeError, "no layer of tutel.moe.moe_layer"):
            moetune.tutel.Tuned(types.SimpleNamespace(), self.database)
        layer.weight.dtype = "float64"
        with self.assertRaisesRegex(ValueError, "^float64 cannot be tuned: f32, f16, bf16 can$"):
            moetune.tutel.Tuned(layer, self.database, ranks=4)
        self.assertFalse(os.path.exists(self.database))

    def test_what_another_one_forces_and_the_layer_cannot_run_is_said(self):
        forced = moetune.Plan(2, source=moetune.Source.OVERRIDE)
        tuned = self.tuned(Layer(LlamaFFNNetwork), forced, forced)
        with mock.patch("sys.stderr", io.StringIO()) as said:
            self.assertEqual(tuned(Tensor(300, 16)).text, "r=1 d=1 a=linear")
        self.assertIn("cannot run r=2 d=1 a=linear, which was pinned: r=1 d=1 a=linear", said.getvalue())

    def test_of_several_calls_in_a_step_nothing_is_learnt(self):
        layer = Layer()
        tuned = self.tuned(layer)
        first, second = tuned(Tensor(300, 16)), tuned(Tensor(300, 16))
        layer.backward(second)  # one backward pass of both ends as the second's alone would
        layer.backward(tuned(Tensor(300, 16)))
        tuned.close()
        self.assertEqual(self.said(), [None, None, 900, "closed"])

    def test_layers_alike_share_the_tuner_of_the_first(self):
        import moetune.tutel

        layer, other = Layer(), Layer()
        with mock.patch("time.perf_counter", lambda: layer.now_us * 1e-6):
            with moetune.tutel.Tuned(layer, self.database, ranks=4, cluster=ME, share=1.0) as tuned:
                second = moetune.tutel.Tuned(
                    other, self.database, ranks=4, cluster=ME, share=1.0
                )
                for _ in range(300):
                    layer.backward(tuned(Tensor(300, 16)))
                    other.backward(second(Tensor(300, 16)))
                self.assertFalse(tuned.status().looking_up)
                self.assertEqual(other.ran[-1][0], layer.ran[-1][0])
                second.close()
                self.assertEqual(tuned.status().steps, 299)

    def test_the_real_one_gives_the_plain_layers_results_and_a_table(self):
        done = python(
            os.path.join(HERE, "example_tutel.py"), self.database, "--steps", "40", "--compare", "1"
        )
        if done.stdout.startswith("skipped: "):
            self.assertEqual(done.returncode, 0)
            self.skipTest(f"Tutel itself: {done.stdout.strip()[9:]}; a stub of it took its place")
        self.assertEqual(done.returncode, 0, done.stderr)
        versions, of_0, *_ = done.stdout.splitlines()
        self.assertRegex(versions, "^tutel .*, torch .*, FusedExpertsNetwork$")
        print(f"  with {versions}; {of_0}")
        # An older Tutel takes it for the gate's own, and whoever calls is told so.
        older = "capacity_factor=0 for the gate's own" in done.stderr
        self.assertEqual(of_0.partition(": ")[2], "the gate's own" if older else "no token is dropped")
        like = "r under both adapters, each like the plain layer"
        for experts, count in ((1, 4), (2, 3), (4, 2), (8, 2)):
            for factor in (1.0, 0.0):
                self.assertIn(f"ffn, {experts} experts, factor {factor}: {count} {like}", done.stdout)
        self.assertIn(f"llama_ffn, 2 experts, factor 1.0: 1 {like}", done.stdout)
        self.assertRegex(done.stdout, r"steps=39, ")
        self.assertEqual(done.stdout.count("of the default plan's step"), 4)
