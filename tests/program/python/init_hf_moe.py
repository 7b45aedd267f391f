"""Tests moetune init hf-moe with a stand-in for transformers, and with transformers itself where it is
new enough."""

import os
import unittest

from init_case import declared, numbers, Programs, UPSTREAM
from surroundings import can_import

OFF = """
import transformers
transformers.Model.off = lambda self: 1.01 if self.experts == "batched_mm" else 1
"""
OLD = """
import transformers
del transformers.Model.set_experts_implementation
transformers.__version__ = "4.57"
"""
REFUSED = """
import transformers
was = transformers.Model.set_experts_implementation
def refuse(self, name):
    if name == "grouped_mm":
        raise ImportError("grouped_mm wants another torch\\nand more")
    was(self, name)
transformers.Model.set_experts_implementation = refuse
"""


class HfMoe(Programs):
    program = "hf-moe/hf-moe"
    space = declared(program)
    layer = "E=8 k=2 T=23 D=32 H=48 dtype=f32 pass=train act=swiglu W=1 m=1"
    ((way, plans),) = space.launches().items()
    stand_in = os.path.join(UPSTREAM, "hf-moe")

    def walk(self, *more, repeat=1, **options):
        options.setdefault("upstream", self.stand_in)
        return self.launch(1, self.way, repeat * self.plans, *more, **options)

    def one_fails(self, launch, experts):
        words = dict.fromkeys(self.plans, "tell")
        words[f"experts={experts}"] = "failed"
        self.assertEqual(self.words(launch), words)
        return launch.outcomes[f"experts={experts}"][1]

    def test_every_plan_is_compared_with_eager_over_tokens_forward_and_backward(self):
        launch = self.walk("--check", "--tokens", "1", "6", repeat=4)
        self.all_told(launch, [f"experts={e}" for e in ("eager", "batched_mm", "grouped_mm")])
        self.assertEqual([word for word, _ in launch.heard], 12 * ["tell"], launch.heard)
        self.assertEqual(numbers(launch.keys[:4]), [(1, 0), (1, 1), (6, 0), (6, 1)])

    def test_what_gives_something_else_is_wrong_and_fails(self):
        launch = self.walk("--check", "--tokens", "6", change=OFF)
        self.assertIn("wrong: logits is off by", self.one_fails(launch, "batched_mm"))

    def test_what_is_refused_fails_in_one_line(self):
        launch = self.walk("--tokens", "6", change=REFUSED)
        self.assertEqual(self.one_fails(launch, "grouped_mm"), "grouped_mm wants another torch")

    def one_sentence(self, launch, sentence):
        self.refused(launch, sentence)
        self.assertEqual(launch.said.count("\n"), 1, launch.said)

    def test_a_transformers_that_is_too_old_is_named_in_one_sentence(self):
        said = "transformers 4.57 has no set_experts_implementation"
        self.one_sentence(self.walk(change=OLD), said)

    def test_so_is_one_that_is_not_there_or_lacks_something(self):
        for text, said in (
            ("raise ImportError('No module named nothing')",
             "nothing: pip install what the head of hf-moe.py says"),
            ("__version__ = '5.99'", "transformers 5.99 has no MixtralConfig, which"),
        ):
            self.write("transformers.py", text)
            self.one_sentence(self.walk(upstream=self.folder), said)

    def test_experts_that_it_has_not_are_refused(self):
        launch = self.walk(layer=self.layer.replace("swiglu", "relu"))
        self.refused(launch, "act=relu: the experts of mixtral are swiglu")

    @unittest.skipUnless(
        can_import("transformers.models.qwen3_moe"), "transformers itself is not installed"
    )
    def test_so_it_is_with_transformers_itself(self):
        for family in ("mixtral", "qwen3_moe"):
            more = "--check", "--tokens", "1", "24", "--family", family
            self.all_told(self.walk(*more, upstream=None, repeat=4), self.plans)
