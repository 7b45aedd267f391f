"""Tests moetune init mcore with Megatron-Core itself, whose configuration and parser run without a GPU."""

import functools
import itertools
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from formats import write_space
from init_verb import PROGRAMS, read
from space_case import Space
from surroundings import can_import, python

# Reads what to ask, as JSON, of a file, and prints what Megatron-Core says of it.
ASKED = """
import argparse, ast, inspect, json, sys, types, warnings
warnings.simplefilter("ignore")
program, path = sys.argv[1:]
asked = json.load(open(path))
sys.path.insert(0, program)
import mcore, megatron.core
from megatron.core.models.gpt import gpt_layer_specs
from megatron.training.arguments import add_megatron_arguments

def verdict(plan):
    try:
        mcore.new_config(mcore.moetune.words(mcore.USUAL), plan, types.SimpleNamespace(layers=2, shared=512))
    except (AssertionError, ValueError) as why:
        return str(why)

def calls():
    for node in ast.walk(ast.parse(open(mcore.__file__).read())):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            owner = getattr(node.func, "value", None)
            where = mcore.parallel_state if getattr(owner, "id", "") == "parallel_state" else mcore
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            called = getattr(where, name, None) if owner is None or where is not mcore else None
            if (getattr(called, "__module__", None) or "").startswith("megatron."):
                # What passes all on to another one says nothing itself.
                called = getattr(gpt_layer_specs, name.replace("_spec", "_submodules"), called)
                arguments = [None] * len(node.args), {k.arg: None for k in node.keywords}
                inspect.signature(called).bind(*arguments[0], **arguments[1])
                yield name

parser = add_megatron_arguments(argparse.ArgumentParser())
names = ("moe_token_dispatcher_type moe_flex_dispatcher_backend moe_flex_dispatcher_num_sms"
         " expert_model_parallel_size expert_tensor_parallel_size overlap_moe_expert_parallel_comm"
         " moe_shared_expert_overlap").split()
print(json.dumps({
    "version": megatron.core.__version__,
    "verdicts": [verdict(plan) for plan in asked["plans"]],
    "flags": [[getattr(parser.parse_args(one.split()), n) for n in names] for one in asked["flags"]],
    "calls": sorted(set(calls())),
    "schedule": list(inspect.signature(mcore.GPTModel.build_schedule_plan).parameters),
}))
"""


def numbers(plan):
    return {name: int(value) if value.isdigit() else value for name, value in plan.items()}


LINES = read(PROGRAMS, "mcore", "mcore.space").decode().splitlines()
WORDS = (" ".join(line.partition("#")[0].split()) for line in LINES)
SPACE = Space("".join(f"{words}\n" for words in WORDS if words))  # as databases keep it
EVERY = [dict(zip(SPACE.axes, values)) for values in itertools.product(*SPACE.axes.values())]
LEGAL = SPACE.plans()
ON_4 = [plan for plan in LEGAL if int(plan["ep"]) * int(plan["etp"]) in (1, 2, 4)]  # write_space's
EXPORTED = ON_4[:: len(ON_4) // 40]


def exported(folder, plan):
    """What the command that mcore.py quotes writes for a table that answers with this plan."""
    text = read(PROGRAMS, "mcore", "mcore.py").decode()
    (command,) = re.findall(r"^    moetune (export (?:.*\\\n)*.*)$", text, re.M)
    database = os.path.join(folder, "a.db")
    words = " ".join(f"{name}={value}" for name, value in plan.items())
    write_space(database, SPACE.text, (len(SPACE.edges) + 1) * [words])
    words = [os.environ["MOETUNE"], *shlex.split(command.replace("\\\n", "")), "--db", database]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    os.remove(database)
    return done.stdout


@functools.lru_cache(None)
def said():
    """Megatron-Core takes a while to load: it is asked once."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [exported(folder, plan) for plan in EXPORTED]
        path = os.path.join(folder, "asked")
        with open(path, "w") as file:
            json.dump({"plans": [numbers(plan) for plan in EVERY], "flags": flags}, file)
        done = python("-c", ASKED, os.path.join(PROGRAMS, "mcore"), path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"  with Megatron-Core {told['version']}: {len(EVERY)} plans")
    return told


@unittest.skipUnless(
    can_import("megatron.training.arguments"),
    "Megatron-Core itself is not installed: it wants Python 3.12 and gigabytes of torch",
)
class Megatron(unittest.TestCase):
    def test_its_configuration_takes_the_legal_plans_and_refuses_the_others(self):
        """Needs that it does not check: without flex a backend and its SMs mean nothing, and one rank
        has nobody to send to, which the dispatcher asserts later."""
        unchecked = [n for n in SPACE.needs if "num_sms" in n or "backend" in n or "ep*etp" in n]
        self.assertEqual(len(unchecked), 3)
        checked = Space(SPACE.text)
        checked.needs = [n for n in SPACE.needs if n not in unchecked]
        self.assertEqual(len(checked.needs), 4)
        for plan, why in zip(EVERY, said()["verdicts"]):
            unserved = plan["backend"] == "ncclep" and plan["dispatcher"] != "flex"
            self.assertEqual(why is None, checked.is_legal(plan) and not unserved, (plan, why))

    def test_its_parser_takes_the_flags_that_are_exported(self):
        for plan, got in zip(EXPORTED, said()["flags"]):
            wanted = [value == "on" if value in ("on", "off") else value for value in plan.values()]
            self.assertEqual([str(value) for value in got], [str(value) for value in wanted])

    def test_what_the_program_calls_is_there(self):
        names = "GPTModel TransformerConfig forward_backward_no_pipelining initialize_model_parallel"
        self.assertLessEqual(set(names.split()), set(said()["calls"]))
        self.assertEqual(said()["schedule"][1:4], ["input_ids", "position_ids", "attention_mask"])
        self.assertIn("labels", said()["schedule"])
