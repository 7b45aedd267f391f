"""Tests moetune init deepep with a stand-in that has the arguments of DeepEP 2.1.0, and asserts what its
sources assert."""

import os

from init_case import declared, Programs, UPSTREAM


class DeepEP(Programs):
    program = "deepep/deepep"
    space = declared(program)
    layer = "E=8 k=2 T=33 D=16 H=24 dtype=bf16 W=2 m=2"

    def test_there_are_kernels_of_both_kinds(self):
        self.assertEqual(sorted(self.space.launches()), ["kernels=v1", "kernels=v2"])

    def test_every_plan_is_called_as_deepep_wants(self):
        for way, plans in self.space.launches().items():
            launch = self.launch(2, way, plans, upstream=os.path.join(UPSTREAM, "deepep"))
            self.all_told(launch, plans)
