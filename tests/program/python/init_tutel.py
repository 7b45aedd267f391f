"""Tests moetune init tutel with a stand-in that checks what Tutel does not check, and with Tutel."""

import os
import unittest

from init_case import declared, Programs, UPSTREAM
from surroundings import can_import


class Tutel(Programs):
    program = "tutel/tutel-moe"
    space = declared(program)
    layer = "E=2 k=2 T=32 D=16 H=24 dtype=f32 pass=train act=relu W=4 m=4"
    stand_in = os.path.join(UPSTREAM, "tutel")

    def walk(self, *factors, upstream):
        ((way, plans),) = self.space.launches().items()
        more = dict(upstream=upstream, LOCAL_SIZE=None)
        return plans, self.launch(4, way, plans, "--factors", *factors, **more)

    def has_some_plans_and_fails_at_the_others(self, upstream):
        plans, launch = self.walk("0.5", "2", upstream=upstream)
        self.assertEqual(launch.keys[:2], ["16", "64"])
        words = self.words(launch)
        told = [plan for plan in plans if words[plan] == "tell"]
        self.assertEqual(told, [f"r={r} d=1 a=linear" for r in (0, 1, 2)])
        for plan, reason in (
            ("r=4 d=1 a=linear", "r=4: this layer has [0, 1, 2]"),
            ("r=1 d=2 a=linear", "d: Tutel overlaps chunks on GPUs alone"),
            ("r=1 d=1 a=2dh", "a=2dh: it is for several nodes, and wants LOCAL_SIZE"),
        ):
            self.assertIn(reason, launch.outcomes[plan][1])

    def test_plans_that_tutel_has_are_told_and_the_others_fail(self):
        self.has_some_plans_and_fails_at_the_others(self.stand_in)

    @unittest.skipUnless(
        can_import("tutel.moe"), "Tutel itself is not installed; a stub of it took its place"
    )
    def test_so_it_is_with_tutel_itself(self):
        self.has_some_plans_and_fails_at_the_others(None)

    def test_a_factor_by_which_tutel_finds_the_capacity_as_it_routes_is_refused(self):
        _, launch = self.walk("1", "0", upstream=self.stand_in)
        self.assertNotIn(0, launch.codes)
        self.assertIn("of 0 or less Tutel counts the capacity as it routes", launch.said)
