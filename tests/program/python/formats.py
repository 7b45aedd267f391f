"""Tests export to the file formats of other programs, which the test reads by those programs' rules."""

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from lookup_case import LAYER, write_database
from space_case import Space

import moelookup

TILES = """space tiles
axis block_m 16 64 128 default 64 live
axis block_n 64 256 default 64 live
axis block_k 64 128 default 128 live
axis group_m 1 16 default 1 live
axis warps 4 8 default 4 live
axis stages 2 3 4 default 2 live
key tokens edges 1 16 17 300 4096
"""
DEEPEP = """space deepep
axis num_sms 8 16 20 24 default 20 live
axis nvl_dispatch 4 6 36 default 6 live
axis nvl_combine 1 2 4 16 default 4 live
key tokens edges 128 1024
"""
STACK = """space stack
axis dispatcher allgather alltoall flex default allgather restart
axis token_chunks 1 2 4 default 1 live
axis bias -3 0 7 default 0 live
axis overlap off on default off restart
key tokens edges 64 256 1024
class skew edges 1.25 2
"""


def write_space(path, text, plans):
    """A database with the plan of each bucket in plans, as words; a list: of the first ones."""
    plans = dict(enumerate(plans)) if isinstance(plans, list) else plans
    digest, name = hashlib.sha256(text.encode()).hexdigest()[:8], text.split()[1]
    tag = f"space={name}@{digest}"
    entries = [(b, f"{words} {tag}", 100.5, 200.5, 0, 0) for b, words in plans.items()]
    write_database(path, f"{LAYER} {tag}", 1, entries, [])
    db = sqlite3.connect(path)
    db.execute("INSERT INTO space VALUES(?, ?)", (int(digest, 16), text))
    db.commit()
    db.close()


PATHS = """space paths
axis path standard mega default standard live threshold --mega-from
axis chunks 1 2 default 1 live
axis backend a b default a restart
key tokens edges 64 1024 4096
"""


def add_samples(path, text, samples, state="ok"):
    """Of each (bucket, words) the times in ns; a pair: of one that was set aside."""
    digest, name = hashlib.sha256(text.encode()).hexdigest()[:8], text.split()[1]
    db = sqlite3.connect(path)
    for (bucket, words), times in samples.items():
        trial = db.execute(
            "INSERT INTO trial(run, fingerprint, shape, window, bucket, plan, capacity, state, attempts,"
            " memory_bytes, sent_bytes, messages, compute_ns, comm_ns, message)"
            " VALUES(1, 1, 1, 1, ?, ?, 1, ?, 1, 0, 0, 0, 0, 0, '')",
            (bucket, f"{words} space={name}@{digest}", state),
        ).lastrowid
        for i, ns in enumerate(times):
            ns, aside = ns if isinstance(ns, tuple) else (ns, 0)
            db.execute(
                "INSERT INTO sample(trial, kind, round, ns, throttled) VALUES(?, 0, ?, ?, ?)",
                (trial, i, ns, aside),
            )
    db.commit()
    db.close()


def some_plans(text, buckets, seed):
    """For two buckets of three."""
    choose = random.Random(seed)
    plans = [" ".join(f"{n}={v}" for n, v in p.items()) for p in Space(text).plans()]
    return {b: choose.choice(plans) for b in range(buckets) if choose.random() < 2 / 3}


class Formats(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.database = os.path.join(self.folder, "table.db")
        self.out = os.path.join(self.folder, "out")

    def export(self, *words, code=0):
        command = [os.environ["MOETUNE"], "export", "--db", self.database, "--format", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def view(self, name):
        return moelookup.open(self.database).bind(space=name)

    def read(self, path=None):
        with open(path or self.out) as file:
            return file.read()

    # ---- vLLM

    def vllm(self, path, m):
        configs = {int(key): row for key, row in json.loads(self.read(path)).items()}
        return configs[min(configs, key=lambda x: abs(x - m))]

    def test_vllm_takes_the_table_s_plan_for_every_number_of_tokens(self):
        names = dict(
            zip(
                "BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M num_warps num_stages".split(),
                "block_m block_n block_k group_m warps stages".split(),
            )
        )
        for seed in range(6):
            write_space(self.database, TILES, some_plans(TILES, 6, seed))
            self.export("vllm-moe", "--space", "tiles", "-o", self.folder)
            (name,) = [n for n in os.listdir(self.folder) if n.endswith(".json")]
            self.assertRegex(name, r"^E=1,N=128,device_name=\S+\.json$")
            view = self.view("tiles")
            for m in [*range(1, 400), *range(4000, 4200), 5000, 10**6]:
                row = self.vllm(os.path.join(self.folder, name), m)
                self.assertEqual({names[k]: v for k, v in row.items()}, dict(view.plan(m)), m)
            os.remove(self.database)

    def test_vllm_wants_a_name_and_fields(self):
        write_space(self.database, TILES, some_plans(TILES, 6, 1))
        words = "vllm-moe", "--space", "tiles"
        self.assertIn(
            "its program looks for a file called E=", self.export(*words, "-o", self.out, code=2)
        )
        named = (
            "--set",
            "device_name=NVIDIA H200 NVL",
            "--set",
            "dtype=fp8_w8a8",
            "--set",
            "E=8",
            "--set",
            "N=14336",
            "--set",
            "block_shape=128,128",
        )
        name = "E=8,N=14336,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
        self.export(*words, *named, "-o", os.path.join(self.folder, name))
        self.assertTrue(os.path.exists(os.path.join(self.folder, name)))
        self.assertIn("the kernel wants GROUP_SIZE_M", self.export(*words, "--set", "group_m=", code=2))
        self.export(*words, "--set", "group_m=", "--set", "GROUP_SIZE_M=8", "-o", self.folder)
        self.assertIn("names are fixed", self.export(*words, "--set", "group_m=G", code=2))
        self.assertIn("there is no such name", self.export(*words, "--set", "groups=2", code=2))
        self.assertIn(
            "power of two", self.export(*words, "--set", "warps=", "--set", "num_warps=3", code=2)
        )
        os.remove(self.database)
        self.stack()
        self.assertIn(
            "the kernel knows no axis",
            self.export("vllm-moe", "--space", "stack", "--class", "1", code=2),
        )
        self.assertIn(
            "--class X must say which skew", self.export("vllm-moe", "--space", "stack", code=2)
        )

    def test_vllm_wants_tokens_of_a_call(self):
        rows = TILES.replace("key tokens", "key rows")
        write_space(self.database, rows, some_plans(rows, 6, 1))
        words = "vllm-moe", "--space", "tiles"
        self.assertIn("the key of tiles is rows", self.export(*words, code=2))
        self.assertIn("the key of tiles is rows", self.export(*words, "--set", "key=rows", code=2))
        self.export(*words, "--set", "key=tokens")
        said = self.export(*words, "--set", "key=tokens", "--set", "block_m=", code=2)
        self.assertIn("or --set leaves it out", said)

    # ---- SGLang

    def sglang_configs(self, version, *name):
        """get_moe_configs of SGLang 0.5.23, below $SGLANG_MOE_CONFIG_DIR: that version of Triton first."""
        E, N, device_name, dtype, block_shape, per_channel_quant, down = name
        folder = os.path.join(self.folder, "configs")
        name = (
            f"E={E},N={N},device_name={device_name.replace(' ', '_')}"
            + (f",dtype={dtype}" if dtype else "")
            + (f",block_shape={block_shape}" if block_shape else "")
            + (",per_channel_quant=True" if per_channel_quant else "")
            + ("_down" if down else "")
            + ".json"
        )
        there = sorted(
            (d[len("triton_") :].replace("_", ".") for d in os.listdir(folder)),
            key=lambda v: tuple(int(x) for x in v.split(".")),
            reverse=True,
        )
        for one in [version] + there:
            path = os.path.join(folder, f"triton_{one.replace('.', '_')}", name)
            if os.path.exists(path):
                return one, path
        return None, name

    def test_sglang_finds_the_file_of_its_triton_and_takes_the_table_s_plan(self):
        write_space(self.database, TILES, some_plans(TILES, 6, 3))
        words = "sglang-moe", "--space", "tiles", "--set", "device_name=NVIDIA H200 NVL"
        view = self.view("tiles")
        for version, sets, name in (
            ("3.5.1", (), (1, 128, "NVIDIA H200 NVL", None, None, False, False)),
            (
                "3.10.0",
                ("E=8", "N=14336", "dtype=fp8_w8a8", "block_shape=128,128", "variant=down"),
                (8, 14336, "NVIDIA H200 NVL", "fp8_w8a8", [128, 128], False, True),
            ),
            (
                "3.4.0",
                ("dtype=int8_w8a8", "variant=per_channel_quant,down"),
                (1, 128, "NVIDIA H200 NVL", "int8_w8a8", None, True, True),
            ),
        ):
            sets = [word for one in (*sets, f"triton={version}") for word in ("--set", one)]
            for _ in range(2):  # folders may be there
                self.export(*words, *sets, "-o", self.folder)
            found, path = self.sglang_configs("3.3.0", *name)
            self.assertEqual(found, version, path)
            for m in (1, 17, 200, 4096, 10**6):
                tiles = view.plan(m)
                row = self.vllm(path, m)
                self.assertEqual(
                    (row["BLOCK_SIZE_M"], row["num_stages"]), (tiles["block_m"], tiles["stages"])
                )
        for sets, said in (
            ((), "--set triton=VERSION is wanted"),
            (("--set", "triton=3.5.1+git"), "--set triton=VERSION is wanted"),
            (("--set", "triton=3.5.1", "--set", "variant=up"), "variant=up: per_channel_quant"),
        ):
            self.assertIn(said, self.export(*words, *sets, "-o", self.folder, code=2))
        self.assertIn(
            "looks for a file called configs/triton_3_5_1/E=1",
            self.export(*words, "--set", "triton=3.5.1", "-o", self.out, code=2),
        )
        self.assertIn("no such name", self.export("vllm-moe", *words[1:], "--set", "triton=3.5", code=2))

    def test_sglang_reads_the_sms_of_deepep_v2_from_its_environment(self):
        """SGLANG_DEEPEP_V2_NUM_SMS, as in SGLang 0.5.23 (environ.py); 0 is DeepEP's formula."""
        write_space(self.database, DEEPEP, 3 * ["num_sms=8 nvl_dispatch=4 nvl_combine=1"])
        sets = "num_sms=SGLANG_DEEPEP_V2_NUM_SMS", "nvl_dispatch=", "nvl_combine="
        words = [word for one in sets for word in ("--set", one)]
        said = self.export("env", "--space", "deepep", *words)
        self.assertEqual(said, "SGLANG_DEEPEP_V2_NUM_SMS=8\n")

    # ---- SGLang and DeepEP

    class Config:
        """deep_ep.Config: names and what it asserts."""

        def __init__(
            self,
            num_sms=20,
            num_max_nvl_chunked_send_tokens=6,
            num_max_nvl_chunked_recv_tokens=256,
            num_max_rdma_chunked_send_tokens=6,
            num_max_rdma_chunked_recv_tokens=256,
        ):
            assert (
                num_sms % 2 == 0
                and 0 < num_max_nvl_chunked_send_tokens < num_max_nvl_chunked_recv_tokens
            )
            assert 0 < num_max_rdma_chunked_send_tokens <= num_max_rdma_chunked_recv_tokens // 2
            self.sms, self.nvl, self.room = (
                num_sms,
                num_max_nvl_chunked_send_tokens,
                num_max_nvl_chunked_recv_tokens,
            )

    def test_sglang_gets_what_deepep_was_measured_with(self):
        for seed in range(6):
            write_space(self.database, DEEPEP, some_plans(DEEPEP, 3, seed))
            view = self.view("deepep")
            for key in (1, 128, 129, 1024, 1025, 10**6):
                self.export(
                    "sglang-deepep",
                    "--space",
                    "deepep",
                    "--key",
                    str(key),
                    "-o",
                    self.out,
                    "--set",
                    "nvl_buffer=512",
                )
                config, plan = json.loads(self.read()), view.plan(key)
                dispatch, combine = (
                    self.Config(**config[f"normal_{w}"]) for w in ("dispatch", "combine")
                )
                self.assertEqual(dispatch.sms, combine.sms)
                self.assertEqual((dispatch.sms, dispatch.nvl, combine.nvl), tuple(plan.values()))
                self.assertEqual((dispatch.room, combine.room), (512, 512))
            os.remove(self.database)

    def test_sglang_holds_one_plan_that_deepep_can_run(self):
        write_space(self.database, DEEPEP, 3 * ["num_sms=8 nvl_dispatch=4 nvl_combine=1"])
        words = "sglang-deepep", "--space", "deepep"
        self.assertIn('"num_sms": 8', self.export(*words))
        self.assertIn("can read it", self.export(*words, "-o", self.out, "--check", code=2))
        show = [os.environ["MOETUNE"], "show", "--db", self.database]  # no gain has an interval
        said = subprocess.run(show, capture_output=True, text=True, timeout=240).stdout
        self.assertIn("Nothing is proven to be faster than the default", said)
        self.assertIn(
            "less than the buffer", self.export(*words, "--set", "nvl_buffer=4", code=2)
        )
        self.assertIn(
            "DeepEP wants the axis num_sms", self.export(*words, "--set", "num_sms=", code=2)
        )
        self.stack()
        self.assertIn(
            "DeepEP knows no axis",
            self.export("sglang-deepep", "--space", "stack", "--key", "1", "--class", "1", code=2),
        )

    # ---- switch points

    PLANS = [f"path={p} chunks={c} backend={b}" for b in "ab" for p in ("standard", "mega") for c in (1, 2)]

    def paths(self, table, times, text=PATHS):
        """A table of plans, and the times of each in each range: three samples around them."""
        if os.path.exists(self.database):
            os.remove(self.database)
        write_space(self.database, text, table)
        add_samples(
            self.database,
            text,
            {at: [ns * 99 // 100, ns, ns * 101 // 100] for at, ns in times.items()},
        )

    def traffic(self, counts, text=PATHS):
        """A file of what trainers asked: counts of each bucket."""
        path = os.path.join(self.folder, "traffic.jsonl")
        digest, name = hashlib.sha256(text.encode()).hexdigest()[:8], text.split()[1]
        line = {
            "format": "moetune-traffic",
            "version": 1,
            "layer": f"{LAYER} space={name}@{digest}",
            "window": 1,
            "cluster": None,
            "device": None,
            "lost": 0,
            "asked": [[b, "exact", n] for b, n in sorted(counts.items()) if n],
        }
        with open(path, "w") as file:
            file.write(json.dumps(line) + "\n")
        return "--traffic", path

    def thresholds(self, *words, code=0):
        return self.export("thresholds", "--space", "paths", *words, code=code)

    SLOW, FAST = PLANS[0], PLANS[2]

    def crossing(self, *first):
        """In the first ranges the standard path takes 10 us and the other one 20; then it is reversed."""
        return {
            (b, plan): 10000 if (plan == self.SLOW) == (b < len(first)) else 20000
            for b in range(4)
            for plan in (self.SLOW, self.FAST)
        }

    def test_a_switch_point_stands_behind_an_edge(self):
        for low, said, option in (
            (0, "any number of tokens: path=mega chunks=1", 0),
            (1, "up to 64 tokens: path=standard chunks=1; from 65 on: path=mega chunks=1", 65),
            (2, "up to 1024 tokens: path=standard chunks=1; from 1025 on: path=mega chunks=1", 1025),
            (3, "up to 4096 tokens: path=standard chunks=1; from 4097 on: path=mega chunks=1", 4097),
            (4, "any number of tokens: path=standard chunks=1", 2147483647),
        ):
            table = [self.SLOW] * low + [self.FAST] * (4 - low)
            self.paths(table, self.crossing(*table[:low]))
            self.assertEqual(
                self.thresholds(),
                f"started with backend=a\n{said}\n"
                "as fast as the table, which has the same plans there; each doubling of tokens counts alike\n"
                f"--mega-from={option}\n",
            )
            view, words = self.view("paths"), dict(w.split("=") for w in self.FAST.split())
            for key in (0, 1, 64, 65, 1024, 1025, 4096, 4097, 10**6):  # as vLLM compares, >=
                self.assertEqual(key >= option, dict(view.plan(key))["path"] == words["path"], key)
            self.thresholds("-o", self.out)
            self.assertIn(said, self.read())

    def test_the_best_switch_points_are_found_and_judged(self):
        for seed in range(12):
            choose = random.Random(seed)
            plans = choose.sample(self.PLANS[:4], 3)
            times = {(b, p): choose.randrange(9000, 11000) for b in range(4) for p in plans}
            table = [min(plans, key=lambda p: times[b, p]) for b in range(4)]
            counts = {b: choose.randrange(1, 50) for b in range(4)}
            self.paths(table, times)
            weighed = seed % 2 == 0
            most = seed % 3
            words = ("--json", "--switches", str(most)) + (self.traffic(counts) if weighed else ())
            told = json.loads(self.thresholds(*words))
            weight = counts if weighed else {0: 1, 1: 4, 2: 2, 3: 1}  # doublings

            def cost(assigned):
                return sum(weight[b] * times[b, p] for b, p in enumerate(assigned))

            def fits(assigned):
                steps = list(zip(assigned, assigned[1:]))
                fell = any("mega" in p and "standard" in q for p, q in steps)
                return sum(p != q for p, q in steps) <= most and not fell

            best = min(filter(fits, itertools.product(plans, repeat=4)), key=cost)
            self.assertEqual((told["key"], told["launch"]), ("tokens", {"backend": "a"}))
            (one,) = told["classes"]
            got = []
            for b, key in enumerate((0, 65, 1025, 4097)):
                plan = [s["plan"] for s in one["switches"] if s["key_from"] <= key][-1]
                got.append(" ".join(f"{axis}={value}" for axis, value in plan.items()))
            self.assertAlmostEqual(cost(got) / cost(best), 1, 4)
            self.assertEqual(one["weights"], [weight[b] for b in range(4)])
            self.assertEqual(one["weights_of"], "traffic" if weighed else "doublings")
            regret, naive = one["regret"], cost(best) / cost(table) - 1
            self.assertEqual(regret["judged"], 1)
            if got == table:
                self.assertEqual((regret["low"], regret["high"]), (0, 0))
            else:  # the choice looks better than it is, never worse
                self.assertLess(regret["low"], naive)
                self.assertGreater(regret["high"], naive)
            text = self.thresholds(*words[1:])
            self.assertIn("look-ups of the traffic" if weighed else "counts alike", text)
            if got != table:
                self.assertIn(f"{abs(100 * regret['value']):.1f} %", text)

    def test_what_is_no_sample_counts_nowhere(self):
        times = self.crossing(0, 1)
        del times[3, self.FAST]
        self.paths([self.SLOW, self.SLOW, self.FAST, self.FAST], times)
        add_samples(self.database, PATHS, {(3, self.FAST): [(10, 2), (10, 2)]})  # set aside
        said = self.thresholds()
        self.assertIn("any number of tokens: path=standard chunks=1\n", said)
        self.assertIn("; 12.5 % of that lies in ranges without samples, and is left out", said)
        self.assertRegex(said, r"\n28\.\d % \(.* slower than the table")  # 10 40 40, not 10 40 20: doublings
        os.remove(self.database)
        write_space(self.database, PATHS, 4 * [self.SLOW])
        add_samples(self.database, PATHS, {(b, self.SLOW): [20000] for b in range(4)})
        add_samples(self.database, PATHS, {(b, self.FAST): [10000] for b in range(3)})
        add_samples(self.database, PATHS, {(3, self.FAST): [10000]}, state="crashed")
        said = self.thresholds()
        self.assertIn("any number of tokens: path=standard chunks=1\n", said)
        add_samples(self.database, PATHS, {(1, self.PLANS[3]): [15000, 15000]})
        db = sqlite3.connect(self.database)
        db.execute("UPDATE trial SET state = 'ok'")
        db.execute("INSERT INTO override(fingerprint, shape, window, first_bucket, last_bucket, plan, why,"
            " since_s) SELECT 1, 1, 1, 1, 1, plan, 'test', 0 FROM trial WHERE plan LIKE '%chunks=2%'")
        db.commit()
        db.close()
        said = self.thresholds()  # 10 of 20, 15 (pinned), 20 and 20; doublings
        self.assertIn("any number of tokens: path=mega chunks=1\n42.9 % faster", said)

    def test_plans_of_one_launch_alone(self):
        times = {**self.crossing(0, 1), **{(b, self.PLANS[4]): 15000 for b in range(3)}}
        table = [self.SLOW, self.PLANS[4], self.FAST, self.FAST]
        self.paths(table, times)
        self.assertIn("started with backend=a, while 1 of 4 ranges of the table want another launch\n",
            self.thresholds())
        said = self.thresholds(*self.traffic({0: 10, 1: 100, 2: 10, 3: 0}))
        self.assertIn("started with backend=b, while 3 of 4 ranges", said)
        self.assertIn("any number of tokens: path=standard chunks=1\n", said)
        self.assertIn("ranges count by 120 look-ups of the traffic", said)
        said = self.thresholds("--switches", "0", *self.traffic({3: 1}))  # other ranges count for nothing
        self.assertIn("any number of tokens: path=mega chunks=1\nas fast as the table", said)
        self.assertIn("ranges count by 1 look-up of the traffic", said)

    def test_each_class_has_switch_points(self):
        text = PATHS + "class skew edges 2\n"
        plans = {2 * b + c: self.SLOW if b < 1 + c else self.FAST for b in range(4) for c in range(2)}
        times = {
            (b, p): 10000 if p == plan else 20000
            for b, plan in plans.items()
            for p in (self.SLOW, self.FAST)
        }
        self.paths(plans, times, text)
        said = self.thresholds()
        self.assertIn("skew <=2:\nup to 64 tokens", said)
        self.assertIn("skew >2:\nup to 1024 tokens", said)
        self.assertIn("--mega-from=1025", self.thresholds("--class", "3"))
        self.assertNotIn("--mega-from=65\n", self.thresholds("--class", "3"))
        said = self.thresholds(*self.traffic({0: 3, 2: 4}, text))
        self.assertIn("ranges count by 7 look-ups", said)
        self.assertIn("each doubling of tokens counts alike", said)  # nobody asked in the other class
        told = json.loads(self.thresholds("--json"))["classes"]
        self.assertEqual([(c["class_above"], c["class_to"]) for c in told], [(0, 2), (2, None)])
        self.assertEqual([c["thresholds"] for c in told], [{"--mega-from": 65}, {"--mega-from": 1025}])

    def test_no_switch_points_are_made_up(self):
        self.paths([self.SLOW, self.SLOW, self.FAST, self.FAST], self.crossing(0, 1))
        other = PATHS.replace("4096", "4095")
        for words, said in (
            (("--switches", "9"), "--switches 9"),
            (("--switches", "-1"), "--switches -1"),
            (self.traffic({0: 1}, other), "the traffic is of other spaces or layers than E=2"),
            (("--key", "3"), "is about all keys"),
            (("--check", "-o", self.out), "is about all keys"),
            (("--set", "path=x"), "is about all keys"),
        ):
            self.assertIn(said, self.thresholds(*words, code=2))
        said = self.thresholds(*self.traffic({}), code=2)
        self.assertIn("the traffic has no look-ups in these buckets of E=2", said)
        self.assertIn("--space must name", self.export("thresholds", code=2))
        self.assertIn(
            "go with --format thresholds",
            self.export("json", "--space", "paths", "--switches", "2", code=2),
        )
        self.paths(4 * [self.SLOW], {})
        self.assertIn("has no samples of this table", self.thresholds(code=2))
        self.paths(4 * [self.SLOW], {(b, self.PLANS[b]): 9 for b in range(4)})
        self.assertIn("the measured plans do not cover", self.thresholds(code=2))
        space = os.path.join(self.folder, "three.space")
        with open(space, "w") as file:
            file.write(PATHS.replace("standard mega", "standard mega giga"))
        self.assertIn(
            "line 2: the axis path has 3 values: a threshold lies between two",
            self.export("thresholds", "--space", space, code=2),
        )
        self.assertFalse(os.path.exists(self.out))

    # ---- names of one's own

    def stack(self):
        if os.path.exists(self.database):
            os.remove(self.database)
        write_space(
            self.database,
            STACK,
            {
                0: "dispatcher=flex token_chunks=2 bias=-3 overlap=on",
                3: "dispatcher=alltoall token_chunks=4 bias=7 overlap=off",
            },
        )
        return "--space", "stack", "--class", "1"

    def test_a_shell_reads_env(self):
        stack = self.stack()
        self.export(
            "env",
            *stack,
            "--key",
            "3",
            "--set",
            "dispatcher=MOE_DISPATCHER",
            "--check",
            "-o",
            self.out,
        )
        shell = ["env", "-i", "/bin/sh", "-c", f"set -a; . {self.out}; env"]
        told = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split()
        for line in (
            "MOE_DISPATCHER=flex",
            "STACK_TOKEN_CHUNKS=2",
            "STACK_BIAS=-3",
            "STACK_OVERLAP=on",
        ):
            self.assertIn(line, told)
        self.assertIn(
            "a name of a variable",
            self.export("env", *stack, "--set", "bias=MOE-BIAS", "--key", "1", code=2),
        )
        self.assertIn(
            "both be called",
            self.export(
                "env", *stack, "--set", "bias=X", "--set", "overlap=X", "--key", "1", code=2
            ),
        )

    def test_argparse_reads_flags(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--moe-token-dispatcher-type")
        parser.add_argument("--token-chunks", type=int)
        parser.add_argument("-b", "--bias", type=int)
        parser.add_argument("--overlap", action="store_true")
        stack = self.stack()
        names = "--set", "dispatcher=--moe-token-dispatcher-type"
        for key, told in (
            (3, ("flex", 2, -3, True)),
            (99, ("alltoall", 4, 7, False)),
            (4096, None),
        ):
            self.export("flags", *stack, *names, "--key", str(key), "--check", "-o", self.out)
            got = parser.parse_args(self.read().split())
            plan = self.view("stack").plan(key, 1)
            self.assertEqual(
                tuple(vars(got).values()),
                (plan["dispatcher"], plan["token_chunks"], plan["bias"], plan["overlap"] == "on"),
            )
            if told:
                self.assertEqual(tuple(vars(got).values()), told)
        self.assertIn(
            "a flag", self.export("flags", *stack, "--set", "bias=bias", "--key", "1", code=2)
        )
        out = self.export("flags", *stack, *names, "--set", "bias=", "--key", "3")
        self.assertEqual(out, "--moe-token-dispatcher-type flex --token-chunks 2 --overlap\n")

    # ---- members of a configuration

    PATHS = (
        *("--set", "dispatcher=model.moe.dispatcher", "--set", "token_chunks=model.chunk_count"),
        *("--set", "bias=bias", "--set", "overlap=model.moe.overlap"),
    )
    NESTED = {
        "model": {"moe": {"dispatcher": "flex", "overlap": True}, "chunk_count": 2},
        "bias": -3,
    }

    def test_a_configuration_of_objects_in_objects(self):
        stack = self.stack()
        for key, nested in (
            ("3", self.NESTED),
            (
                "99",
                {
                    "model": {"moe": {"dispatcher": "alltoall", "overlap": False}, "chunk_count": 4},
                    "bias": 7,
                },
            ),
        ):
            self.export("nested", *stack, *self.PATHS, "--key", key, "--check", "-o", self.out)
            self.assertEqual(json.loads(self.read()), nested)
        # DeepSpeed 0.19.8: parse_autoep_config reads these members of expert_parallel.
        names = "--set", "token_chunks=expert_parallel.autoep_size", "--set", "bias="
        names += "--set", "overlap=expert_parallel.use_grouped_mm", "--set", "dispatcher="
        got = json.loads(self.export("nested", *stack, *names, "--key", "3"))
        self.assertEqual(got, {"expert_parallel": {"autoep_size": 2, "use_grouped_mm": True}})
        self.assertEqual(self.export("nested", "--space", "stack", "--class", "1", "--key", "3"),
            '{"dispatcher": "flex", "token_chunks": 2, "bias": -3, "overlap": true}\n')

    def test_toml(self):
        """prime-rl (559b44772) reads [model] ep, ep_comm_backend, deepep_num_sms of such a file."""
        stack = self.stack()
        self.export("toml", *stack, *self.PATHS, "--key", "3", "--check", "-o", self.out)
        self.assertIn('model.moe.dispatcher = "flex"\nmodel.chunk_count = 2\n', self.read())
        try:
            import tomllib
        except ImportError:  # of Python 3.11
            self.skipTest("tomllib")
        self.assertEqual(tomllib.loads(self.read()), self.NESTED)

    def test_words_of_a_command_that_name_members(self):
        """As Megatron-Bridge and Hydra take them."""
        stack = self.stack()
        self.export("dotted", *stack, *self.PATHS, "--key", "3", "--check", "-o", self.out)
        said = "model.moe.dispatcher=flex model.chunk_count=2 bias=-3 model.moe.overlap=true\n"
        self.assertEqual(self.read(), said)

    def test_what_is_no_member_is_refused(self):
        stack = self.stack()
        for form in ("dotted", "toml", "nested"):
            for sets, said in (
                (("bias=a..b",), "a name, as model.ep, is wanted"),
                (("bias=.a",), "a name, as model.ep, is wanted"),
                (("bias=a.",), "a name, as model.ep, is wanted"),
                (("bias=a b",), "a name, as model.ep, is wanted"),
                (('bias=a"',), "a name, as model.ep, is wanted"),
                (("bias=a", "overlap=a.b"), "a would be a value, and a.b a member of it"),
                (("bias=a.b", "overlap=a.b"), "both be called a.b"),
            ):
                words = [word for one in sets for word in ("--set", one)]
                self.assertIn(said, self.export(form, *stack, "--key", "1", *words, code=2))
            several = self.export(form, "--space", "stack", code=2)
            self.assertIn("--key N and --class X must say which", several)

    def test_json_has_all_ranges_and_classes(self):
        self.stack()
        self.export("json", "--space", "stack", "--check", "-o", self.out)
        told, view = json.loads(self.read()), self.view("stack")
        self.assertEqual((told["key"], told["class"], len(told["answers"])), ("tokens", "skew", 12))
        for a in told["answers"]:
            for key in (a["key_from"], a["key_to"] or 10**6):
                for klass in (a["class_above"] + 0.01, a["class_to"] or 99):
                    plan = view.plan(key, klass)
                    self.assertEqual(
                        (a["plan"], a["source"]), (dict(plan), plan.source.name.lower())
                    )
        self.assertEqual([a["key_from"] for a in told["answers"][::3]], [0, 65, 257, 1025])

    def test_plans_of_moetune_itself(self):
        write_database(self.database)
        out = self.export("env", "--key", "700", "--check", "-o", self.out)
        self.assertIn("r=2 d=4 a=2dh", out)
        self.assertEqual(self.read(), "MOETUNE_R=2\nMOETUNE_D=4\nMOETUNE_A=2dh\n")
        self.assertEqual(self.export("flags", "--key", "700"), "--r 2 --d 4 --a 2dh\n")
        answer = json.loads(self.export("json", "--key", "700"))["answers"][0]
        self.assertEqual(answer["plan"], {"r": 2, "d": 4, "a": "2dh"})
        self.assertIn("--key C is wanted", self.export("json", code=2))
        self.assertIn("the kernel knows no axis r", self.export("vllm-moe", "--key", "700", code=2))

    def test_what_cannot_be_is_said(self):
        stack = self.stack()
        for words, said in (
            (("flags", "--space", "stack"), "--key N and --class X must say which"),
            (("env", "--space", "stak"), "no table here has a layer"),
            (("env", *stack, "--key", "x"), "a whole number is wanted"),
            (("env", "--space", "stack", "--class", "nan"), "a number from 0 on"),
            (("env", *stack, "--key", "1", "--set", "x"), "NAME=VALUE is wanted"),
            (("env", *stack, "--key", "1", "--set", "x=y"), "there is no such name"),
            (("env", *stack, "--key", "1", "--check"), "name it with -o"),
            (("env", *stack, "--key", "1", "-o", self.folder), "a file is wanted"),
            (("jsonl", "--space", "stack"), "holds tables"),
            (("env", *stack, "--key", "1", "--full"), "go with tables"),
            (("env", *stack, "--key", "1", "--shape", "X=1"), "X=1"),
            (("env", *stack, "--key", "1", "--shape", "E=99"), "no such layer"),
        ):
            self.assertIn(said, self.export(*words, code=2), words)
        self.assertFalse(os.path.exists(self.out))
