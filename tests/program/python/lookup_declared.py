"""Tests that Python's declarations agree with the C headers, and its texts with those of the library."""

import contextlib
import importlib.util
import io
import itertools
import os
import unittest

from ctypes import create_string_buffer

from surroundings import PACKAGE

import moelookup
from moelookup import _declared, plan
from moelookup._library import library


class Declared(unittest.TestCase):
    def test_structs_words_and_functions_are_those_of_the_headers(self):
        spec = importlib.util.spec_from_file_location("declare", os.path.join(PACKAGE, "declare.py"))
        declare, said = importlib.util.module_from_spec(spec), io.StringIO()
        spec.loader.exec_module(declare)
        with contextlib.redirect_stdout(said):
            declare.main()
        with open(_declared.__file__, encoding="utf-8") as file:
            self.assertEqual(said.getvalue(), file.read(), "db/lookup/python/declare.py says how")

    def test_texts_of_plans_are_those_of_the_library(self):
        kinds = itertools.product(
            _declared.moe_a2a, (0, 8), _declared.moe_experts, _declared.moe_weights, _declared.moe_proto
        )
        for a, ctas, e, w, proto in kinds:
            r = 2 if (e, w) == ("padded", "keep") else 0
            mine = moelookup.Plan(r, 4, a, ctas=ctas, e=e, w=w, proto=proto)
            text = create_string_buffer(512)
            length = library().functions.moe_plan_format(plan.plan_struct(mine), text, len(text))
            self.assertEqual((length, text.value.decode()), (len(str(mine)), str(mine)))
            self.assertEqual(plan.parse_plan(str(mine), mine.source), mine)
            self.assertEqual(plan.read_plan(plan.plan_struct(mine)), mine)

    def test_what_is_no_plan_is_refused(self):
        for text in ("", "r=1 d=2", "r=1 d=2 a=linear x=3", "r=1 d=two a=linear", "r=1 d=2 a=3", "r d a"):
            with self.assertRaises(moelookup.Error):
                plan.parse_plan(text, moelookup.Source.EXACT)
