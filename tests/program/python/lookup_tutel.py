"""Tests moelookup's adapter for Tutel, with a stand-in for Tutel's layer."""

import io
from unittest import mock

from surroundings import environment
from lookup_case import BIND, Case, WINDOW
from stand_ins import FakeLayer, Input

import moelookup


class Tutel(Case):
    def setUp(self):
        super().setUp()
        import moelookup.tutel

        self.adapter_of = moelookup.tutel.Adapter
        local_size = environment(LOCAL_SIZE="2")
        local_size.__enter__()
        self.addCleanup(local_size.__exit__, None, None, None)

    def test_with_a_factor_the_plan_is_that_of_the_steps_capacity(self):
        layer = FakeLayer()
        adapter = self.adapter_of(layer, self.view)
        for factor in (0.5, 1.0, 1.1, 1.7, 2.0, 4.0):
            for tokens in (64, 300, 641, 1000):
                c0 = 2 * int(factor * -(-tokens // 2))
                plan = self.view.plan(c0)
                ran, padded = adapter(Input(tokens, 128), capacity_factor=factor)
                d = plan.d if plan.r else 1
                self.assertEqual(ran, f"r={plan.r} d={d} a={plan.a}")
                self.assertEqual(padded, -(-c0 // (2 * d)) * 2 * d)
                self.assertIs(adapter.plan, plan)

    def test_tokens_gates_and_top_k_are_counted_as_the_layer_counts_them(self):
        with mock.patch.object(moelookup.View, "plan", side_effect=self.view.plan) as asked:
            adapter = self.adapter_of(FakeLayer(factor=1.25), self.view)
            adapter(Input(4, 100, 128))
            adapter(Input(400, 8, 16), reserve_dims=2)
            adapter(Input(400, 128), gate_index=1)
            adapter(Input(400, 128), top_k=1)
            adapter(Input(400, 128), top_k=5)  # there are only two experts
        asked = [call[0][0] for call in asked.call_args_list]
        self.assertEqual(asked, [500, 500, 400, 250, 500])

    def test_dropless_steps_take_r_and_a_at_once_and_d_one_step_later(self):
        layer = FakeLayer(factor=0)
        adapter = self.adapter_of(layer, self.view)
        seen = []
        for bucket in (9, 5, 5, 7, 4, 4, 12, 12):
            layer.needed = bucket * WINDOW + 1
            seen.append((adapter(Input(64, 128))[0], adapter.plan.bucket))
        self.assertEqual(
            seen,
            [
                ("r=1 d=1 a=linear", 0),  # 9 wants d=2, nothing came before
                ("r=1 d=2 a=linear", 9),  # 5 wants d=4: the plan before runs whole
                ("r=2 d=4 a=2dh", 5),
                ("r=0 d=4 a=linear", 6),  # no chunks: may run at once
                ("r=1 d=1 a=linear", 4),
                ("r=1 d=1 a=linear", 4),
                ("r=1 d=1 a=linear", 4),  # 12 wants d=8
                ("r=1 d=8 a=2dh", 12),
            ],
        )

    def test_buckets_count_rows_before_padding_and_the_layer_pads_as_ever(self):
        layer = FakeLayer(factor=0)
        adapter = self.adapter_of(layer, self.view)
        layer.needed = 5 * WINDOW + 127
        adapter(Input(64, 128))
        for needed in (5 * WINDOW + 127, 5 * WINDOW + 121):
            layer.needed = needed  # padded to 8 it would be bucket 6
            ran, padded = adapter(Input(64, 128))
            self.assertEqual((ran, padded), ("r=2 d=4 a=2dh", 6 * WINDOW))
            self.assertEqual(adapter.plan.source, moelookup.Source.INFERRED)

    def test_unequal_tokens_wait_for_tutels_own_count(self):
        layer = FakeLayer()
        adapter = self.adapter_of(layer, self.view)
        adapter(Input(5 * WINDOW - 64, 128), inequivalent_tokens=True)
        ran, _ = adapter(Input(5 * WINDOW - 64, 128), inequivalent_tokens=True)
        self.assertEqual(ran, "r=2 d=4 a=2dh")

    def test_a_tutel_that_takes_a_call_s_factor_of_0_for_the_gate_s_own_is_named_once(self):
        class Older(FakeLayer):
            def forward(self, input, capacity_factor=None, **options):
                return super().forward(input, capacity_factor=capacity_factor or None, **options)

        for kind, rows, said in (
            (FakeLayer, 77, ""),
            (Older, 64, "capacity_factor=0 for the gate's own, 0.5, and drops tokens: make the gate"),
        ):
            layer = kind(factor=0.5)
            layer.needed = 77
            adapter = self.adapter_of(layer, self.view)
            with mock.patch("sys.stderr", io.StringIO()) as heard:
                ran = [adapter(Input(64 * 2, 128), capacity_factor=0) for _ in range(2)]
                adapter(Input(64 * 2, 128), inequivalent_tokens=True)
            self.assertEqual([row for _, row in ran], 2 * [rows + rows % 2])
            self.assertEqual(heard.getvalue().count(said or "capacity_factor"), bool(said))

    def test_recomputation_runs_the_plan_of_the_first_forward(self):
        layer = FakeLayer(factor=0)
        adapter = self.adapter_of(layer, self.view, recompute=True)
        seen = []
        for bucket in (5, 5, 9, 9):
            layer.needed = bucket * WINDOW
            first = adapter(Input(64, 128))
            self.assertEqual(adapter(Input(64, 128)), first)
            seen.append(first[0])
            adapter.next_step()
        expected = ["r=1 d=1 a=linear", "r=2 d=4 a=2dh", "r=2 d=4 a=2dh", "r=1 d=2 a=linear"]
        self.assertEqual(seen, expected)

    def test_layers_without_an_adapter_are_left_alone(self):
        layer, plain = FakeLayer(factor=0), FakeLayer(factor=0)
        layer.needed = plain.needed = 5 * WINDOW + 1
        self.adapter_of(layer, self.view)(Input(64, 128))
        self.assertEqual(plain(Input(64, 128)), ("r=1 d=1 a=linear", 5 * WINDOW + 2))

    def test_several_layers_keep_apart(self):
        layers = [FakeLayer(factor=0) for _ in range(2)]
        adapters = [self.adapter_of(layer, self.view) for layer in layers]
        layers[0].needed, layers[1].needed = 5 * WINDOW, 9 * WINDOW
        for _ in range(2):
            ran = [adapter(Input(64, 128))[0] for adapter in adapters]
        self.assertEqual(ran, ["r=2 d=4 a=2dh", "r=1 d=2 a=linear"])

    def test_an_error_inside_the_layer_leaves_nothing_behind(self):
        class Failing(FakeLayer):
            def forward(self, *args, **options):
                super().forward(*args, **options)
                raise KeyError("inside")

        layer = Failing(factor=0)
        with self.assertRaises(KeyError):
            self.adapter_of(layer, self.view)(Input(64, 128))
        plain = FakeLayer(factor=0)
        plain.needed = 5 * WINDOW
        self.assertEqual(plain(Input(64, 128))[0], "r=1 d=1 a=linear")

    def test_experts_that_ignore_r_only_run_1(self):
        with environment(MOELOOKUP_FORCE="r=2 d=2 a=2dh"):
            forced = moelookup.open(self.database)
        gated = forced.bind(**dict(BIND, activation="swiglu"))
        layer = FakeLayer()
        self.assertEqual(self.adapter_of(layer, gated)(Input(64, 128))[0], "r=1 d=1 a=linear")
        every = self.adapter_of(layer, gated, runnable_r=[0, 1, 2])
        self.assertEqual(every(Input(64, 128))[0], "r=2 d=2 a=2dh")
        for wrong in ([2], [1, 3]):
            with self.assertRaises(ValueError):
                self.adapter_of(layer, gated, runnable_r=wrong)

    def test_a_layer_of_another_shape_is_refused(self):
        for layer in (FakeLayer(experts=4), FakeLayer(experts=1), FakeLayer(experts=2, ranks=2)):
            with self.assertRaises(ValueError):
                self.adapter_of(layer, self.view)
        with environment(LOCAL_SIZE=None), self.assertRaises(ValueError):
            self.adapter_of(FakeLayer(), self.view)

    def test_an_illegal_plan_is_never_passed_on(self):
        layer = FakeLayer()
        layer.valid_rs = [0, 1]
        with self.assertRaises(RuntimeError):
            self.adapter_of(layer, self.view)(Input(5 * WINDOW, 128))

    def test_data_parallel_steps_are_not_padded_for_chunks(self):
        with mock.patch.object(moelookup.View, "plan", return_value=moelookup.Plan(r=0, d=4)):
            ran, padded = self.adapter_of(FakeLayer(), self.view)(Input(641, 128))
        self.assertEqual((ran, padded), ("r=0 d=1 a=linear", 642))

    def test_what_the_plan_says_is_no_argument(self):
        adapter = self.adapter_of(FakeLayer(), self.view)
        for name in ("adaptive_r", "a2a_ffn_overlap_degree"):
            with self.assertRaises(TypeError):
                adapter(Input(64, 128), **{name: 1})

    def test_a_tutel_that_routes_otherwise_is_an_error(self):
        class Skipping(FakeLayer):
            def forward(self, input, **_):
                return None

        layer = Skipping(factor=0)
        with self.assertRaises(RuntimeError):
            self.adapter_of(layer, self.view)(Input(64, 128))
        layer.skip_moe = True
        self.assertIsNone(self.adapter_of(layer, self.view)(Input(64, 128)))
